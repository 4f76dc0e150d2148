//! What is to be measured.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A way to read rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Memory mapping, advised as random.
    Mmap,
    /// Memory mapping without advice.
    MmapAhead,
    /// pread through the page cache, row by row.
    Pread,
    /// io_uring through the page cache, all rows of a query at once.
    Uring,
    /// io_uring with O_DIRECT, all rows of a query at once.
    UringDirect,
}

impl Way {
    pub const ALL: [Way; 5] = [
        Way::Mmap,
        Way::MmapAhead,
        Way::Pread,
        Way::Uring,
        Way::UringDirect,
    ];

    /// As it is typed and shown.
    pub fn name(self) -> &'static str {
        match self {
            Way::Mmap => "mmap",
            Way::MmapAhead => "mmap-ahead",
            Way::Pread => "pread",
            Way::Uring => "io_uring",
            Way::UringDirect => "io_uring-direct",
        }
    }

    pub fn by_name(name: &str) -> Result<Way, String> {
        find(&Way::ALL, name, Way::name)
    }
}

/// The disk that the rows are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disk {
    /// As it is.
    Local,
    /// Slowed to a network's latency: see [`Slowed`](super::Slowed).
    Network,
}

impl Disk {
    pub const ALL: [Disk; 2] = [Disk::Local, Disk::Network];

    /// As it is typed and shown.
    pub fn name(self) -> &'static str {
        match self {
            Disk::Local => "local",
            Disk::Network => "network",
        }
    }

    pub fn by_name(name: &str) -> Result<Disk, String> {
        find(&Disk::ALL, name, Disk::name)
    }
}

fn find<T: Copy>(all: &[T], name: &str, name_of: fn(T) -> &'static str) -> Result<T, String> {
    let found = all.iter().copied().find(|one| name_of(*one) == name);
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|one| name_of(*one)).collect();
        format!("'{name}' is none of {}", names.join(", "))
    })
}

/// The grid and its load.
#[derive(Debug, Clone, Serialize)]
pub struct IoOptions {
    /// On the disk to be measured; the file in it has no name and is gone with the process.
    #[serde(skip)]
    pub directory: PathBuf,
    pub rows: u64,
    pub dims: usize,
    /// Of each cell.
    pub queries: u64,
    /// Rows read by a query at oversampling 1.
    pub k: usize,
    pub oversampling: Vec<usize>,
    /// Queries under way at once: threads.
    pub parallel: Vec<usize>,
    pub ways: Vec<Way>,
    pub disks: Vec<Disk>,
    /// Of a read from the network disk, at least.
    #[serde(rename = "latency_us", serialize_with = "microseconds")]
    pub latency: Duration,
    /// Reads that the network disk serves in a second, at most.
    pub iops_max: u64,
    /// Bytes that it hands over in a second, at most.
    pub bandwidth: u64,
    pub repeats: usize,
    pub seed: u64,
}

impl Default for IoOptions {
    /// The article's: 1,000 queries, and as many rows of 768 dimensions a query as its reads a second times its seconds give.
    fn default() -> IoOptions {
        IoOptions {
            directory: PathBuf::from("."),
            rows: 1_000_000,
            dims: 768,
            queries: 1_000,
            k: 48,
            oversampling: vec![1, 4],
            parallel: vec![4, 8],
            ways: Way::ALL.to_vec(),
            disks: Disk::ALL.to_vec(),
            latency: Duration::from_millis(2),
            iops_max: 7_000,
            bandwidth: 250_000_000,
            repeats: 1,
            seed: 1,
        }
    }
}

/// Bounds that keep a slip of the keyboard from taking the machine.
const DIMS_MAX: usize = 65_536;
const PARALLEL_MAX: usize = 256;
const ROWS_A_QUERY_MAX: usize = 10_000;
const BUFFERS_MAX: u64 = 1 << 30;

impl IoOptions {
    pub fn row_bytes(&self) -> usize {
        self.dims * 4
    }

    pub fn file_bytes(&self) -> u64 {
        self.rows.saturating_mul(self.row_bytes() as u64)
    }

    /// One sentence about what can't be measured so.
    pub fn check(&self) -> Result<(), String> {
        if !self.directory.is_dir() {
            return Err(format!("{} is not a directory", self.directory.display()));
        }
        let lists = [
            ("oversampling", self.oversampling.len()),
            ("parallel", self.parallel.len()),
            ("backends", self.ways.len()),
            ("disks", self.disks.len()),
        ];
        if let Some((name, _)) = lists.iter().find(|(_, len)| *len == 0) {
            return Err(format!("{name}: the list is empty"));
        }
        let one = |list: &[usize]| list.iter().all(|n| *n > 0);
        let counted = self.rows > 0 && self.queries > 0 && self.k > 0 && self.repeats > 0;
        let disk = self.iops_max > 0 && self.bandwidth > 0;
        if !counted || !disk || !one(&self.oversampling) || !one(&self.parallel) {
            return Err(
                "rows, queries, k, oversampling, parallel, repeats, IOPS and bandwidth are numbers from 1"
                    .to_owned(),
            );
        }
        if !(1..=DIMS_MAX).contains(&self.dims) {
            return Err(format!("{} dimensions aren't within 1 to {DIMS_MAX}", self.dims));
        }
        let most = |list: &[usize]| list.iter().copied().max().unwrap_or(1);
        let (parallel, a_query) = (
            most(&self.parallel),
            self.k.saturating_mul(most(&self.oversampling)),
        );
        if parallel > PARALLEL_MAX || a_query > ROWS_A_QUERY_MAX {
            return Err(format!(
                "{parallel} in parallel and {a_query} rows a query: {PARALLEL_MAX} and {ROWS_A_QUERY_MAX} are the most"
            ));
        }
        let buffers = (parallel * a_query) as u64 * (self.row_bytes() as u64 + 8_192);
        if buffers > BUFFERS_MAX {
            return Err(format!(
                "the buffers would take {:.1} GB of RAM",
                buffers as f64 / 1e9
            ));
        }
        if self.latency > Duration::from_secs(1) {
            return Err(format!(
                "a latency of {} ms is more than a second",
                super::ms(self.latency)
            ));
        }
        Ok(())
    }
}

fn microseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again() {
        assert!(Way::ALL.iter().all(|way| Way::by_name(way.name()) == Ok(*way)));
        assert!(
            Disk::ALL
                .iter()
                .all(|disk| Disk::by_name(disk.name()) == Ok(*disk))
        );
        let refused = Disk::by_name("tape").expect_err("no such disk");
        assert_eq!(refused, "'tape' is none of local, network");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let sound = IoOptions::default();
        assert_eq!(sound.check(), Ok(()));
        let unsound: [fn(&mut IoOptions); 8] = [
            |o| o.directory = PathBuf::from("/nowhere/at/all"),
            |o| o.rows = 0,
            |o| o.oversampling = vec![0],
            |o| o.ways.clear(),
            |o| o.dims = 100_000,
            |o| o.parallel = vec![1_000],
            |o| (o.k, o.dims) = (2_500, 65_536),
            |o| o.latency = Duration::from_secs(2),
        ];
        for change in unsound {
            let mut options = sound.clone();
            change(&mut options);
            let sentence = options.check().expect_err("unsound");
            assert!(!sentence.contains('\n'), "{sentence}");
        }
    }
}
