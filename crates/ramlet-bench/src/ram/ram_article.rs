//! The article's figures, to stand beside ours: "Minimal RAM you need to serve a million vectors" (Qdrant, 2022), glove-100-angular,
//! 1.18 million vectors of 100 dimensions; the placements of the API at its time, full vectors and an HNSW graph.

use super::placement::Placement;

/// A line of its tables. Queries a second on a disk of 63,200 random reads a second, or a slower one; and on one of 183,000.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    pub placement: Placement,
    pub memory_mb: u64,
    /// None: out of memory.
    pub queries_per_s: Option<f64>,
    pub on_fast_disk: Option<f64>,
}

const fn line(
    placement: Placement,
    memory_mb: u64,
    queries_per_s: Option<f64>,
    on_fast_disk: Option<f64>,
) -> Line {
    Line {
        placement,
        memory_mb,
        queries_per_s,
        on_fast_disk,
    }
}

use Placement::{AllOnDisk, InRam, VectorsOnDisk};

pub const LINES: [Line; 19] = [
    line(InRam, 1512, Some(774.38), None),
    line(InRam, 1256, Some(760.63), None),
    line(InRam, 1200, Some(794.72), None),
    line(InRam, 1152, None, None),
    line(InRam, 1024, None, None),
    line(VectorsOnDisk, 1200, Some(759.94), None),
    line(VectorsOnDisk, 1100, Some(687.0), None),
    line(VectorsOnDisk, 1000, Some(25.0), None),
    line(VectorsOnDisk, 750, Some(5.0), None),
    line(VectorsOnDisk, 625, Some(2.5), None),
    line(VectorsOnDisk, 600, None, None),
    line(AllOnDisk, 600, Some(5.0), Some(50.0)),
    line(AllOnDisk, 300, Some(0.9), Some(13.0)),
    line(AllOnDisk, 200, Some(0.5), Some(8.0)),
    line(AllOnDisk, 150, Some(0.4), Some(7.0)),
    line(AllOnDisk, 135, Some(0.33), None),
    line(AllOnDisk, 125, None, None),
    line(AllOnDisk, 110, None, None),
    line(AllOnDisk, 75, None, None),
];

/// Its set.
pub const VECTORS: u64 = 1_183_514;
pub const DIMS: u64 = 100;

/// How many times its numbers others are: vectors times dimensions.
pub fn times_its_size(vectors: u64, dims: usize) -> f64 {
    (vectors as f64 * dims as f64) / (VECTORS * DIMS) as f64
}

/// Whether figures of so many vectors may stand beside its own.
pub fn is_comparable(vectors: u64, dims: usize) -> bool {
    (0.8..=1.25).contains(&times_its_size(vectors, dims))
}

/// The smallest limit, in megabytes, in which it served.
pub fn minimum_mb(placement: Placement) -> Option<u64> {
    let served = LINES
        .iter()
        .filter(|l| l.placement == placement && l.queries_per_s.is_some());
    served.map(|l| l.memory_mb).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_minima() {
        let minima = Placement::ALL.map(minimum_mb);
        assert_eq!(minima, [Some(1200), Some(625), Some(135), None]);
    }

    #[test]
    fn only_its_like_is_comparable() {
        assert!(is_comparable(1_183_514, 100) && is_comparable(1_000_000, 100));
        assert!(!is_comparable(5_000, 32) && !is_comparable(1_183_514, 768));
    }
}
