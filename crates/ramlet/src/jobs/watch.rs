//! Times of log syncs and background jobs, by a clock that the server gives.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use ramlet_io::Clock;

use crate::faults::locks::whole;

/// Jobs that are remembered: a few hours of an idle server, minutes of one that is loaded.
const JOBS_KEPT: usize = 32;

/// Upper bounds of the buckets of syncs, microseconds; one more is above them all.
pub const SYNC_BUCKETS_US: [u64; 12] = [
    100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 102_400, 409_600, 1_638_400,
];

/// Group writes to the log including the sync, since the clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncTimes {
    pub count: u64,
    pub total_ns: u64,
    pub longest_ns: u64,
    /// By bucket, not summed up.
    pub buckets: [u64; SYNC_BUCKETS_US.len() + 1],
}

/// A background job that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDone {
    /// `clear`, `flush`, `merge`, `upkeep`, `adopt`.
    pub kind: &'static str,
    /// Id of the collection.
    pub collection: String,
    /// By the clock.
    pub ended_ns: u64,
    pub took_ns: u64,
    pub failed: bool,
}

/// Jobs of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobTimes {
    pub count: u64,
    pub failed: u64,
    pub total_ns: u64,
}

/// Kinds of jobs, in the order of [`Watch::job_times`].
pub const JOB_KINDS: [&str; 5] = ["clear", "flush", "merge", "upkeep", "adopt"];

/// Shared by all collections. Until it gets a clock nothing is timed.
#[derive(Default)]
pub struct Watch {
    clock: OnceLock<Clock>,
    syncs: Mutex<SyncTimes>,
    /// A sync that takes so long is told in the log, nanoseconds; 0: none is.
    slow_ns: AtomicU64,
    /// Groups that waited for room in the write buffers, and nanoseconds.
    stalls: (AtomicU64, AtomicU64),
    jobs: Mutex<(VecDeque<JobDone>, [JobTimes; JOB_KINDS.len()])>,
}

impl Watch {
    /// From now on they are timed; a sync of `slow_ns` nanoseconds and more is logged, unless that is 0.
    pub fn set(&self, clock: Clock, slow_ns: u64) {
        let _ = self.clock.set(clock);
        self.slow_ns.store(slow_ns, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Option<u64> {
        self.clock.get().map(|clock| clock())
    }

    /// A group that was begun then is in the log of a collection of this name.
    pub(crate) fn synced(&self, begun: Option<u64>, collection: &str) {
        let (Some(begun), Some(now)) = (begun, self.now()) else {
            return;
        };
        let took = now - begun;
        let bucket = SYNC_BUCKETS_US.partition_point(|most| most * 1_000 < took);
        {
            let mut syncs = whole(&self.syncs);
            syncs.count += 1;
            syncs.total_ns += took;
            syncs.longest_ns = syncs.longest_ns.max(took);
            syncs.buckets[bucket] += 1;
        }
        let slow_ns = self.slow_ns.load(Ordering::Relaxed);
        if slow_ns > 0 && took >= slow_ns {
            tracing::warn!(collection, took_ms = took / 1_000_000, "slow sync of the log");
        }
    }

    /// A group waited since then for room in the write buffers.
    pub(crate) fn stalled(&self, begun: Option<u64>) {
        if let (Some(begun), Some(now)) = (begun, self.now()) {
            self.stalls.0.fetch_add(1, Ordering::Relaxed);
            self.stalls.1.fetch_add(now - begun, Ordering::Relaxed);
        }
    }

    /// Waits of writes for room in the write buffers, and nanoseconds that they took.
    pub fn stalls(&self) -> (u64, u64) {
        let of = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        (of(&self.stalls.0), of(&self.stalls.1))
    }

    /// A job of a collection that was begun then is over. The collection is its id and its name.
    pub(crate) fn job_done(
        &self,
        begun: Option<u64>,
        kind: usize,
        (id, collection): (&str, &str),
        failed: bool,
    ) {
        let (Some(begun), Some(now)) = (begun, self.now()) else {
            return;
        };
        let took = now - begun;
        let mut jobs = whole(&self.jobs);
        let times = &mut jobs.1[kind];
        times.count += 1;
        times.failed += u64::from(failed);
        times.total_ns += took;
        if jobs.0.len() == JOBS_KEPT {
            jobs.0.pop_front();
        }
        jobs.0.push_back(JobDone {
            kind: JOB_KINDS[kind],
            collection: id.to_owned(),
            ended_ns: now,
            took_ns: took,
            failed,
        });
        drop(jobs);
        let took_ms = took / 1_000_000;
        match JOB_KINDS[kind] {
            kind @ ("merge" | "adopt") => tracing::info!(kind, collection, took_ms, failed, "job done"),
            kind => tracing::debug!(kind, collection, took_ms, failed, "job done"),
        }
    }

    /// Writes to the logs of all collections.
    pub fn syncs(&self) -> SyncTimes {
        *whole(&self.syncs)
    }

    /// The last background jobs that are over, the oldest first.
    pub fn jobs(&self) -> Vec<JobDone> {
        whole(&self.jobs).0.iter().cloned().collect()
    }

    /// All jobs, in the order of [`JOB_KINDS`].
    pub fn job_times(&self) -> [JobTimes; JOB_KINDS.len()] {
        whole(&self.jobs).1
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn nothing_is_timed_without_a_clock() {
        let watch = Watch::default();
        watch.synced(watch.now(), "1");
        watch.job_done(watch.now(), 1, ("1", "one"), false);
        assert_eq!((watch.syncs(), watch.jobs().len()), (SyncTimes::default(), 0));
    }

    #[test]
    fn syncs_and_jobs_are_counted() {
        // Each look at it is a millisecond later.
        fn clock() -> u64 {
            static NOW: AtomicU64 = AtomicU64::new(0);
            NOW.fetch_add(1_000_000, Ordering::Relaxed)
        }
        let watch = Watch::default();
        watch.set(clock, 0);
        for _ in 0..3 {
            watch.synced(watch.now(), "1");
        }
        let syncs = watch.syncs();
        assert_eq!(
            (syncs.count, syncs.total_ns, syncs.longest_ns),
            (3, 3_000_000, 1_000_000)
        );
        assert_eq!(syncs.buckets[4], 3, "above 0.8 ms, at most 1.6 ms");
        for n in 0..JOBS_KEPT + 5 {
            watch.job_done(watch.now(), 2, (&n.to_string(), "one"), n == 0);
        }
        let jobs = watch.jobs();
        assert_eq!(
            (jobs.len(), jobs[0].collection.as_str()),
            (JOBS_KEPT, "5"),
            "the last ones"
        );
        let merges = watch.job_times()[2];
        assert_eq!((merges.count, merges.failed), (JOBS_KEPT as u64 + 5, 1));
    }
}
