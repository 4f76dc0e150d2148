//! The article's figures, to stand beside ours: "Solid State Drives vs. RAMDirectory" (java-user of Lucene, March 2008): an index of 14 GB,
//! 340,000 logged queries, a stored field of the first 20 hits, on two cores; disks are two SSDs in RAID 0 and two of 15,000 rpm in RAID 1.

use super::text_storage::{Searchers, Storage};

/// Its index and its log.
pub const INDEX_GB: f64 = 14.0;
pub const QUERIES: f64 = 340_000.0;
/// "Warm-up and a not-so-stale index": queries before the first are ignored, and those after the second.
pub const CUT: (f64, f64) = (5_000.0, 50_000.0);

/// One of its runs, in queries a second. RAM has no disk to compare with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    pub in_ram: bool,
    pub memory_gb: u64,
    pub threads: usize,
    pub searchers: Searchers,
    pub queries_per_s: f64,
    pub on_hard_disks: Option<f64>,
}

/// Its fastest runs between the two cut-offs: memory, SSD (or RAM), hard disks.
pub const BETWEEN_CUTS: [(u64, f64, Option<f64>); 4] = [
    (24, 867.3, None),
    (3, 663.2, Some(163.4)),
    (8, 653.6, Some(163.4)),
    (12, 653.6, Some(163.4)),
];

const S: Searchers = Searchers::Shared;
const U: Searchers = Searchers::Separate;

const fn ram(threads: usize, searchers: Searchers, queries_per_s: f64) -> Line {
    Line {
        in_ram: true,
        memory_gb: 24,
        threads,
        searchers,
        queries_per_s,
        on_hard_disks: None,
    }
}

const fn disk(memory_gb: u64, threads: usize, searchers: Searchers, ssd: f64, hard: f64) -> Line {
    Line {
        in_ram: false,
        memory_gb,
        threads,
        searchers,
        queries_per_s: ssd,
        on_hard_disks: Some(hard),
    }
}

pub const LINES: [Line; 31] = [
    ram(1, S, 530.0),
    ram(2, S, 888.2),
    ram(2, U, 983.9),
    ram(3, S, 843.1),
    ram(3, U, 996.1),
    ram(4, S, 869.8),
    ram(4, U, 943.4),
    disk(12, 1, S, 438.8, 198.6),
    disk(12, 2, S, 587.8, 219.1),
    disk(12, 2, U, 819.9, 309.4),
    disk(12, 3, S, 476.4, 204.1),
    disk(12, 3, U, 833.7, 362.4),
    disk(12, 4, S, 465.4, 202.3),
    disk(12, 4, U, 835.2, 406.6),
    disk(12, 5, S, 467.1, 201.2),
    disk(8, 1, S, 431.9, 199.4),
    disk(8, 2, S, 594.3, 220.4),
    disk(8, 2, U, 807.7, 312.4),
    disk(8, 3, S, 472.3, 203.8),
    disk(8, 3, U, 817.6, 370.9),
    disk(8, 4, S, 464.4, 203.1),
    disk(8, 4, U, 828.8, 408.1),
    disk(8, 5, S, 471.2, 202.5),
    disk(3, 1, S, 433.7, 176.6),
    disk(3, 2, S, 573.4, 188.6),
    disk(3, 2, U, 783.4, 247.1),
    disk(3, 3, S, 459.7, 178.4),
    disk(3, 3, U, 808.5, 276.1),
    disk(3, 4, S, 455.3, 177.8),
    disk(3, 4, U, 809.0, 259.3),
    disk(3, 5, S, 454.4, 178.5),
];

/// The article's memory as a share of its index.
pub fn fraction(memory_gb: u64) -> f64 {
    memory_gb as f64 / INDEX_GB
}

/// Its fastest in RAM, by which shares are reckoned.
pub fn best_in_ram() -> f64 {
    let in_ram = LINES.iter().filter(|line| line.in_ram);
    in_ram.map(|line| line.queries_per_s).fold(0.0, f64::max)
}

impl Line {
    /// Whether a run of ours is of this kind, its memory as near to the same share of the index as is asked for.
    pub fn is_like(&self, storage: Storage, fraction: f64, threads: usize, searchers: Searchers) -> bool {
        let near = (fraction / self::fraction(self.memory_gb)).ln().abs() < 0.1;
        self.in_ram == (storage == Storage::Ram)
            && near
            && (self.threads, self.searchers) == (threads, searchers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_conclusions_follow_from_its_lines() {
        let best = |memory_gb: u64| {
            let of = LINES
                .iter()
                .filter(|line| !line.in_ram && line.memory_gb == memory_gb);
            of.map(|line| line.queries_per_s).fold(0.0, f64::max) / best_in_ram()
        };
        assert_eq!(
            [3, 8, 12].map(|gb| (best(gb) * 100.0).round()),
            [81.0, 83.0, 84.0]
        );
        let cut = |at: usize| (BETWEEN_CUTS[at].1 / BETWEEN_CUTS[0].1 * 100.0).round();
        assert_eq!([1, 2, 3].map(cut), [76.0, 75.0, 75.0]);
    }

    #[test]
    fn each_of_its_lines_is_one_of_ours() {
        for line in LINES {
            let storage = if line.in_ram {
                Storage::Ram
            } else {
                Storage::IoUring
            };
            let of_grid = [0.21, 0.57, 0.86, 1.71]
                .into_iter()
                .filter(|f| line.is_like(storage, *f, line.threads, line.searchers));
            assert_eq!(of_grid.count(), 1, "{line:?}");
        }
    }
}
