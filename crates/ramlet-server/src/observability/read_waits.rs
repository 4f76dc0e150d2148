//! How long searches wait for reads, from a few of them: enough to see a slow disk, for a clock that is read now and then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ramlet::SearchCost;

use crate::limits;

/// Totals of the searches that were timed.
#[derive(Default)]
pub struct ReadWaits {
    /// Searches so far: one in [`limits::SEARCHES_PER_TIMED`] is timed when nobody asks.
    searches: AtomicU64,
    /// Searches that are over, their reads and bytes read: of all.
    counts: [AtomicU64; 3],
    of: Mutex<Waits>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Waits {
    /// Of late: halved where there are many, so that a disk that is well again is told so.
    count: f64,
    us: f64,
    /// Since the start.
    count_total: u64,
    ns_total: u64,
}

impl ReadWaits {
    /// Whether the search that begins is to be timed.
    pub fn is_next_timed(&self) -> bool {
        let before = self.searches.fetch_add(1, Ordering::Relaxed);
        before.is_multiple_of(limits::SEARCHES_PER_TIMED)
    }

    /// A search is over, timed or not.
    pub fn count(&self, cost: &SearchCost) {
        let all = [1, cost.disk_reads, cost.disk_bytes];
        for (count, more) in self.counts.iter().zip(all).filter(|(_, more)| *more > 0) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Searches that are over, their reads, and bytes of these.
    pub fn counts(&self) -> [u64; 3] {
        std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed))
    }

    /// A search that was timed.
    pub fn note(&self, cost: &SearchCost) {
        if cost.read_waits == 0 {
            return;
        }
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        of.count += cost.read_waits as f64;
        of.us += cost.waited_ns as f64 / 1e3;
        of.count_total += cost.read_waits;
        of.ns_total += cost.waited_ns;
        if of.count > limits::READS_JUDGED_MAX {
            of.count /= 2.0;
            of.us /= 2.0;
        }
    }

    /// Of a batch of reads; `None` while there are too few to tell.
    pub fn mean_us(&self) -> Option<u64> {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        (of.count >= limits::READS_JUDGED).then(|| (of.us / of.count) as u64)
    }

    /// Batches that were timed since the start, and their nanoseconds.
    pub fn totals(&self) -> (u64, u64) {
        let of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        (of.count_total, of.ns_total)
    }

    /// Begins anew.
    pub fn clear(&self) {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        (of.count, of.us) = (0.0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_what_is_of_late() {
        let waits = ReadWaits::default();
        let search = |waited_us: u64| SearchCost {
            read_waits: 10,
            waited_ns: 10 * waited_us * 1_000,
            ..SearchCost::default()
        };
        waits.note(&search(100));
        assert_eq!(waits.mean_us(), None, "ten say nothing");
        (0..100).for_each(|_| waits.note(&search(100)));
        assert_eq!(waits.mean_us(), Some(100));
        (0..100).for_each(|_| waits.note(&search(20_000)));
        assert!(waits.mean_us().is_some_and(|mean| mean > 10_000));
        (0..400).for_each(|_| waits.note(&search(100)));
        assert!(
            waits.mean_us().is_some_and(|mean| mean < 1_000),
            "{:?}",
            waits.mean_us()
        );
        assert_eq!(waits.totals().0, 6_010);
        waits.clear();
        assert_eq!(waits.mean_us(), None);
    }

    #[test]
    fn one_in_so_many_is_timed() {
        let waits = ReadWaits::default();
        let timed = (0..3 * limits::SEARCHES_PER_TIMED).filter(|_| waits.is_next_timed());
        assert_eq!(timed.count(), 3);
    }
}
