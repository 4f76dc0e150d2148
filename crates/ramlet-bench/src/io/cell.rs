//! One measurement: a disk, a way to read it, and a load.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ramlet_io::system::{Usage, Whose};
use ramlet_testdata::process::disk_bytes;
use ramlet_testdata::{Latencies, Random};
use serde::Serialize;

use super::fetch::{Source, access, fetch};
use super::options::{Disk, IoOptions, Way};
use super::rows::{Rows, Seen, query};
use super::slowed::Slowed;

/// A cell of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cell {
    pub disk: Disk,
    #[serde(rename = "backend")]
    pub way: Way,
    pub oversampling: usize,
    pub parallel: usize,
}

/// What a run of a cell took.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    pub wall_s: f64,
    pub queries_per_s: f64,
    /// Reads that went to the disk: a row's pages, or a page that was missing in a mapping.
    pub reads: u64,
    pub reads_per_query: f64,
    /// Reads a second over the whole run.
    pub iops: f64,
    /// Over the best second.
    pub iops_max: f64,
    /// User and system time of the process by wall time; 100 is one core.
    pub cpu_percent: f64,
    pub cpu_user_s: f64,
    pub cpu_system_s: f64,
    /// As the kernel counts for the process: what was read ahead included.
    pub mb_read_per_query: f64,
    pub query_ms_p50: f64,
    pub query_ms_p99: f64,
    /// Share of the file that was in the page cache at the start.
    pub cached_at_start: f64,
    /// Sum of the scores that were kept: it depends on the rows only, so that ways can be held against each other.
    pub score_sum: f64,
}

/// How often reads are counted for the best second.
const WINDOW: Duration = Duration::from_secs(1);

/// What the threads bring together.
struct Shared<'a> {
    source: Source<'a>,
    next: AtomicU64,
    reads: AtomicU64,
    done: AtomicBool,
}

/// What a thread has done.
#[derive(Default)]
struct Done {
    latencies: Latencies,
    score_sum: f64,
}

impl Cell {
    /// Runs it once, cold. Rows and queries depend on `stream` and the options' seed, not on the way or the threads.
    pub fn measure(&self, options: &IoOptions, rows: &Rows, stream: u64) -> Result<Figures, String> {
        let (file, cached_at_start) = rows.open_cold(access(self.way))?;
        let slowed = Slowed::new(options.latency, options.iops_max, options.bandwidth);
        let shared = Shared {
            source: Source {
                rows,
                file,
                seen: Seen::new(rows.bytes()),
                slowed: (self.disk == Disk::Network).then_some(slowed),
            },
            next: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            done: AtomicBool::new(false),
        };
        let (bytes, usage) = (disk_bytes().0, Usage::of(Whose::Process));
        let start = Instant::now();
        let (all, iops_max) = self.run(options, stream, &shared)?;
        let wall_s = start.elapsed().as_secs_f64();
        let used = Usage::of(Whose::Process);
        let (user, system) = (used.user - usage.user, used.system - usage.system);
        let (reads, queries) = (shared.reads.into_inner(), options.queries as f64);
        let iops = reads as f64 / wall_s;
        Ok(Figures {
            wall_s,
            queries_per_s: queries / wall_s,
            reads,
            reads_per_query: reads as f64 / queries,
            iops,
            iops_max: iops_max.max(iops),
            cpu_percent: (user + system).as_secs_f64() / wall_s * 100.0,
            cpu_user_s: user.as_secs_f64(),
            cpu_system_s: system.as_secs_f64(),
            mb_read_per_query: disk_bytes().0.saturating_sub(bytes) as f64 / 1e6 / queries,
            query_ms_p50: all.latencies.percentile(0.5) as f64 / 1e6,
            query_ms_p99: all.latencies.percentile(0.99) as f64 / 1e6,
            cached_at_start,
            score_sum: all.score_sum,
        })
    }

    /// All queries by all threads; what they did, and the reads of the best second.
    fn run(&self, options: &IoOptions, stream: u64, shared: &Shared<'_>) -> Result<(Done, f64), String> {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.parallel)
                .map(|_| scope.spawn(|| self.work(options, stream, shared)))
                .collect();
            let watcher = scope.spawn(|| watch(shared));
            let mut all = Done::default();
            let mut failure = None;
            for worker in workers {
                match worker.join() {
                    Ok(Ok(done)) => {
                        all.latencies.add(&done.latencies);
                        all.score_sum += done.score_sum;
                    }
                    Ok(Err(why)) => failure = Some(why),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            shared.done.store(true, Ordering::Relaxed);
            watcher.thread().unpark();
            let iops_max = watcher.join().unwrap_or(0.0);
            failure.map_or(Ok((all, iops_max)), Err)
        })
    }

    /// One thread: takes the next query until there is none.
    fn work(&self, options: &IoOptions, stream: u64, shared: &Shared<'_>) -> Result<Done, String> {
        let a_query = options.k * self.oversampling;
        let mut fetch = fetch(self.way, &shared.source, a_query)?;
        let mut done = Done::default();
        let (mut wanted, mut scores) = (Vec::with_capacity(a_query), Vec::with_capacity(a_query));
        loop {
            let number = shared.next.fetch_add(1, Ordering::Relaxed);
            if number >= options.queries {
                return Ok(done);
            }
            let mut random = Random::new(options.seed.wrapping_add(1).wrapping_add(stream << 8), number);
            let query = query(&mut random, options.dims);
            wanted.clear();
            wanted.extend((0..a_query).map(|_| random.below(shared.source.rows.count())));
            scores.clear();
            let before = Instant::now();
            let reads = fetch.score(&query, &wanted, &mut scores)?;
            done.score_sum += best(&mut scores, options.k);
            done.latencies.note(before.elapsed().as_nanos() as u64);
            shared.reads.fetch_add(reads, Ordering::Relaxed);
        }
    }
}

/// Sum of the `k` highest scores: what oversampling reads more than that is for.
fn best(scores: &mut [f32], k: usize) -> f64 {
    let kept = k.min(scores.len());
    if kept < scores.len() {
        scores.select_nth_unstable_by(kept, |a, b| b.total_cmp(a));
    }
    scores[..kept].iter().map(|score| f64::from(*score)).sum()
}

/// Counts reads by the second until the threads are done; the most, as a rate.
fn watch(shared: &Shared<'_>) -> f64 {
    let (mut most, mut seen, mut since) = (0.0f64, 0, Instant::now());
    while !shared.done.load(Ordering::Relaxed) {
        thread::park_timeout(WINDOW.saturating_sub(since.elapsed()));
        let passed = since.elapsed();
        if passed >= WINDOW {
            let reads = shared.reads.load(Ordering::Relaxed);
            most = most.max((reads - seen) as f64 / passed.as_secs_f64());
            (seen, since) = (reads, Instant::now());
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_are_kept() {
        assert_eq!(best(&mut [1.0, 5.0, 3.0, 4.0], 2), 9.0);
        assert_eq!(best(&mut [1.0, 5.0], 3), 6.0);
        assert_eq!(best(&mut [], 3), 0.0);
    }
}
