//! The disk probe: random reads of 4 KiB, one at a time and many at once.
//!
//! The planner reads the figures. They are those of the backend that will be used, so a buffered one (pread, mmap) shows
//! its page cache too.

use std::sync::Arc;
use std::time::Duration;

use ramlet_memory::{AnonBuf, Consumer};

use crate::storage::{BatchRead, BatchReader, IoError, IoErrorKind, PAGE, ReadFile, Result, Storage};
use crate::system::thread_cpu_time;

/// Reads in flight in the second half of the probe.
pub const PROBE_DEPTH: usize = 64;
/// Reads handed over at once then: more than are in flight, so that the disk never idles between batches.
const PROBE_BATCH: usize = 2 * PROBE_DEPTH;
/// A file of this size is beyond the caches of most disks, and still soon written.
pub const PROBE_FILE_BYTES: u64 = 64 << 20;
/// The smallest that says anything.
const FILE_BYTES_MIN: u64 = 1 << 20;
/// Of the disk's free bytes, the file may take this share.
const FREE_SHARE: u64 = 8;
const FILE: &str = "tmp-probe";
/// Directories are looked through so deep for a large file.
const LEVELS: usize = 3;

/// What the probe may use.
pub struct DiskProbe<'a> {
    /// The directory. Nothing in it is changed, but that a file may be written and removed.
    pub storage: &'a dyn Storage,
    /// Time since any fixed moment.
    pub now: &'a dyn Fn() -> Duration,
    /// A file from this size on is read where it lies; without one, a file of this size is written and removed.
    /// [`PROBE_FILE_BYTES`] is a good size.
    pub file_bytes: u64,
    /// How long it reads, one half at depth 1, the other at [`PROBE_DEPTH`].
    pub time: Duration,
    /// Where its 512 KiB are reserved.
    pub memory: Option<&'a Consumer>,
    pub seed: u64,
}

/// Figures of a disk through one backend.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskFigures {
    /// As [`Storage::backend`].
    pub backend: &'static str,
    /// Bytes of the file that was read: a small one may fit a cache of the disk.
    pub file_bytes: u64,
    /// Reads per second, one at a time.
    pub iops_depth1: f64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
    /// User and system time of the reading thread.
    pub cpu_us_depth1: f64,
    /// Reads per second with [`PROBE_DEPTH`] in flight.
    pub iops_depth64: f64,
    pub cpu_us_depth64: f64,
}

impl DiskProbe<'_> {
    /// Measures. Fails when nothing can be read or written, or when the memory isn't there.
    pub fn run(&self) -> Result<DiskFigures> {
        // An orphan of a process that was killed here: no data, and not to be taken for such.
        let _ = self.storage.remove(FILE);
        match largest_file(self.storage, LEVELS)? {
            Some(file) if file.len() >= self.file_bytes => self.measure(file.as_ref()),
            _ => {
                let written = self.write_file();
                let measured = written.and_then(|()| self.measure(self.storage.open(FILE)?.as_ref()));
                let _ = self.storage.remove(FILE);
                measured
            }
        }
    }

    /// A file of noise: a disk may compress, or not store at all, what is plain.
    fn write_file(&self) -> Result<()> {
        let bytes = self.file_bytes.min(self.storage.free_bytes()? / FREE_SHARE);
        if bytes < FILE_BYTES_MIN {
            let detail = format!("{bytes} bytes are an eighth of what is free; it needs {FILE_BYTES_MIN}");
            return Err(IoError::new("probe", FILE, IoErrorKind::NoSpace, detail));
        }
        let mut file = self.storage.create(FILE)?;
        let mut random = Random::new(self.seed);
        let mut page = [0u8; PAGE];
        for _ in 0..bytes / PAGE as u64 {
            for word in page.as_chunks_mut::<8>().0 {
                *word = random.next().to_le_bytes();
            }
            file.append(&page)?;
        }
        file.sync()
    }

    fn measure(&self, file: &dyn ReadFile) -> Result<DiskFigures> {
        let mut buf = match self.memory {
            Some(consumer) => AnonBuf::reserved(consumer, PROBE_BATCH * PAGE)
                .map_err(|refused| IoError::over_budget("probe", file.name(), &refused))?,
            None => AnonBuf::new(PROBE_BATCH * PAGE),
        };
        let mut reader = self.storage.reader(PROBE_DEPTH)?;
        let mut random = Random::new(!self.seed);
        let one = self.reads(file, reader.as_mut(), &mut buf[..PAGE], &mut random)?;
        let many = self.reads(file, reader.as_mut(), &mut buf, &mut random)?;
        Ok(DiskFigures {
            backend: self.storage.backend(),
            file_bytes: file.len(),
            iops_depth1: one.per_second(),
            latency_us_p50: one.latencies.at(0.5),
            latency_us_p99: one.latencies.at(0.99),
            cpu_us_depth1: one.cpu_us(),
            iops_depth64: many.per_second(),
            cpu_us_depth64: many.cpu_us(),
        })
    }

    /// Batches of as many pages as `out` has, for half of the time.
    fn reads(
        &self,
        file: &dyn ReadFile,
        reader: &mut dyn BatchReader,
        out: &mut [u8],
        random: &mut Random,
    ) -> Result<Half> {
        let pages = file.len() / PAGE as u64;
        let mut half = Half::default();
        let (start, cpu) = ((self.now)(), thread_cpu_time());
        let mut before = start;
        loop {
            let mut reads: Vec<BatchRead<'_>> = out
                .chunks_mut(PAGE)
                .map(|out| BatchRead {
                    file,
                    offset: random.next() % pages * PAGE as u64,
                    out,
                })
                .collect();
            reader.read_batch(&mut reads)?;
            half.reads += reads.len() as u64;
            let now = (self.now)();
            half.latencies.add(now.saturating_sub(before));
            before = now;
            half.wall = now.saturating_sub(start);
            if half.wall >= self.time / 2 {
                half.cpu = thread_cpu_time().saturating_sub(cpu);
                return Ok(half);
            }
        }
    }
}

/// The largest file in `storage` and so many levels below.
fn largest_file(storage: &dyn Storage, levels: usize) -> Result<Option<Arc<dyn ReadFile>>> {
    let mut largest: Option<Arc<dyn ReadFile>> = None;
    let mut offer = |file: Arc<dyn ReadFile>| {
        if largest.as_ref().is_none_or(|other| other.len() < file.len()) {
            largest = Some(file);
        }
    };
    for name in storage.list()? {
        // A file that is removed meanwhile is none.
        if let Ok(file) = storage.open(&name) {
            offer(file);
        }
    }
    if levels > 0 {
        for name in storage.list_subdirs()? {
            if let Ok(below) = storage.subdir(&name)
                && let Ok(Some(file)) = largest_file(below.as_ref(), levels - 1)
            {
                offer(file);
            }
        }
    }
    Ok(largest)
}

#[derive(Default)]
struct Half {
    reads: u64,
    wall: Duration,
    cpu: Duration,
    latencies: Latencies,
}

impl Half {
    fn per_second(&self) -> f64 {
        self.reads as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.reads.max(1) as f64
    }
}

/// Counts by size, 3 % apart, from 0.1 us to half a minute.
pub(crate) struct Latencies([u32; BUCKETS]);
const BUCKETS: usize = 640;
const STEP: f64 = 1.03;
const LEAST_US: f64 = 0.1;

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies([0; BUCKETS])
    }
}

impl Latencies {
    pub(crate) fn add(&mut self, time: Duration) {
        let us = time.as_secs_f64() * 1e6;
        let bucket = (us.max(LEAST_US) / LEAST_US).ln() / STEP.ln();
        self.0[(bucket as usize).min(BUCKETS - 1)] += 1;
    }

    /// Microseconds that a share of all is at most.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let total: u64 = self.0.iter().map(|count| u64::from(*count)).sum();
        let mut left = (total as f64 * share).ceil();
        for (bucket, count) in self.0.iter().enumerate() {
            left -= f64::from(*count);
            if left <= 0.0 {
                return LEAST_US * STEP.powf(bucket as f64 + 0.5);
            }
        }
        f64::NAN
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_latencies_lies_where_they_do() {
        let mut latencies = Latencies::default();
        for us in 1..=100u64 {
            latencies.add(Duration::from_micros(us));
        }
        for (share, us) in [(0.01, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            let found = latencies.at(share);
            assert!((found / us - 1.0).abs() < 0.031, "{share}: {found} for {us}");
        }
        latencies.add(Duration::from_secs(1 << 40));
        latencies.add(Duration::ZERO);
        assert!(latencies.at(1.0) > 1e6 && latencies.at(0.001) < 0.2);
    }
}
