//! How long requests wait for a search thread and for memory, as histograms.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, microseconds; one more is above them all.
pub const WAIT_BUCKETS_US: [u64; 12] = [
    100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 102_400, 409_600, 1_638_400,
];

/// See the module.
#[derive(Default)]
pub struct Waits {
    /// For a search thread.
    pub queue: Histogram,
    /// For memory of bodies and answers: of those alone that had to wait.
    pub memory: Histogram,
}

impl Waits {
    /// What had memory at once isn't counted.
    pub fn note_memory(&self, waited: Duration) {
        if !waited.is_zero() {
            self.memory.note(waited);
        }
    }
}

/// Durations by bucket. Noting one takes three additions.
#[derive(Default)]
pub struct Histogram {
    buckets: [AtomicU64; WAIT_BUCKETS_US.len() + 1],
    total_ns: AtomicU64,
}

impl Histogram {
    pub fn note(&self, took: Duration) {
        let micros = took.as_micros();
        let bucket = WAIT_BUCKETS_US.partition_point(|most| u128::from(*most) < micros);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// By bucket, not summed up; and all of them together in nanoseconds.
    pub fn counts_and_total(&self) -> ([u64; WAIT_BUCKETS_US.len() + 1], u64) {
        let buckets = std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed));
        (buckets, self.total_ns.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_in_one_bucket() {
        let waits = Histogram::default();
        for micros in [0, 100, 101, 250, 2_000_000] {
            waits.note(Duration::from_micros(micros));
        }
        let (buckets, total_ns) = waits.counts_and_total();
        assert_eq!((buckets[0], buckets[1], buckets[2], buckets[12]), (2, 1, 1, 1));
        assert_eq!((buckets.iter().sum::<u64>(), total_ns), (5, 2_000_451_000));
    }
}
