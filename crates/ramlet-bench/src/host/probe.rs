//! What the disk can do: random reads of a page, many at once and one at a time.

use std::io::{Error, Result};
use std::path::Path;
use std::time::{Duration, Instant};

use ramlet_io::{Backend, BatchRead, PAGE, open_best};
use ramlet_memory::AnonBuf;
use serde::Serialize;

use ramlet_testdata::{Latencies, Random};

/// Reads in flight, as the source article measures.
const DEPTH: usize = 64;

/// Figures of random reads of 4 KiB from one thread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DiskFigures {
    /// `io_uring`, or `pread` where that is refused (then one at a time in both).
    pub backend: &'static str,
    /// Reads a second with 64 in flight.
    pub iops_64: f64,
    pub read_us_p50: f64,
    pub read_us_p99: f64,
}

/// Writes a file of `bytes` into `directory`, reads random pages of it for twice `span`, removes it.
pub fn probe_disk(directory: &Path, bytes: u64, span: Duration) -> Result<DiskFigures> {
    let (storage, _) = open_best(directory, Backend::Auto).map_err(Error::other)?;
    let name = format!("probe-{}", std::process::id());
    let mut file = storage.create(&name).map_err(Error::other)?;
    let mut random = Random::new(1, 0);
    let chunk: Vec<u8> = (0..1 << 17)
        .flat_map(|_| random.next_u64().to_le_bytes())
        .collect();
    while file.len() < bytes {
        file.append(&chunk).map_err(Error::other)?;
    }
    file.sync().map_err(Error::other)?;
    drop(file);
    let figures = read_pages(&*storage, &name, span).map_err(Error::other);
    storage.remove(&name).map_err(Error::other)?;
    figures
}

fn read_pages(
    storage: &dyn ramlet_io::Storage,
    name: &str,
    span: Duration,
) -> ramlet_io::Result<DiskFigures> {
    let file = storage.open(name)?;
    let mut reader = storage.reader(DEPTH)?;
    let pages = file.len() / PAGE as u64;
    let mut random = Random::new(2, 0);
    let mut buf = AnonBuf::new(DEPTH * PAGE);
    let (started, mut done) = (Instant::now(), 0);
    while started.elapsed() < span {
        // A batch as deep again as the ring: it is kept full until the last of them.
        let mut reads: Vec<BatchRead<'_>> = buf
            .chunks_exact_mut(PAGE)
            .map(|out| BatchRead {
                file: &*file,
                offset: random.below(pages) * PAGE as u64,
                out,
            })
            .collect();
        reader.read_batch(&mut reads)?;
        done += reads.len();
    }
    let iops_64 = done as f64 / started.elapsed().as_secs_f64();
    let (started, mut latencies) = (Instant::now(), Latencies::default());
    while started.elapsed() < span {
        let before = Instant::now();
        file.read_at(&mut buf[..PAGE], random.below(pages) * PAGE as u64)?;
        latencies.note(before.elapsed().as_nanos() as u64);
    }
    Ok(DiskFigures {
        backend: storage.backend(),
        iops_64: iops_64.round(),
        read_us_p50: latencies.percentile(0.5) as f64 / 1e3,
        read_us_p99: latencies.percentile(0.99) as f64 / 1e3,
    })
}
