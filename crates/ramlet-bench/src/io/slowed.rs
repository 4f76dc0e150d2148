//! A network disk, made of a local one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Delays reads that really take place. A read is done no sooner than `latency` after it began, and no more than so many begin in
/// a second, whoever asks. Reads that were handed over together wait together, as those of a network disk do; reads that a thread
/// does one after another wait one after another.
///
/// The wait is a sleep of the thread that asked: it costs what a thread that waits for a disk costs, a switch there and back.
pub struct Slowed {
    latency: Duration,
    gap_ns: u64,
    epoch: Instant,
    /// When the next read may begin, in nanoseconds since `epoch`.
    next_ns: AtomicU64,
}

impl Slowed {
    pub fn new(latency: Duration, iops_max: u64) -> Slowed {
        Slowed {
            latency,
            gap_ns: 1_000_000_000 / iops_max.max(1),
            epoch: Instant::now(),
            next_ns: AtomicU64::new(0),
        }
    }

    /// A read begins now, or when it is its turn; returns when it may be done, as time since the epoch.
    pub fn begin(&self) -> Duration {
        let now = self.epoch.elapsed().as_nanos() as u64;
        self.begin_at(now)
    }

    fn begin_at(&self, now: u64) -> Duration {
        let mut next = self.next_ns.load(Ordering::Relaxed);
        loop {
            let turn = next.max(now);
            let after = turn + self.gap_ns;
            match self
                .next_ns
                .compare_exchange_weak(next, after, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Duration::from_nanos(turn) + self.latency,
                Err(other) => next = other,
            }
        }
    }

    /// Waits until then.
    pub fn wait(&self, done: Duration) {
        let left = done.saturating_sub(self.epoch.elapsed());
        if !left.is_zero() {
            sleep(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_overlap_up_to_the_rate() {
        let slowed = Slowed::new(Duration::from_millis(2), 1_000);
        let ms = |at: u64| Duration::from_millis(at);
        // Three at once: a millisecond apart, the latency of each under way at the same time.
        let together: Vec<_> = (0..3).map(|_| slowed.begin_at(0)).collect();
        assert_eq!(together, [ms(2), ms(3), ms(4)]);
        // A disk that idled owes nothing and has saved nothing.
        assert_eq!(slowed.begin_at(10_000_000), ms(12));
        assert_eq!(slowed.begin_at(10_000_000), ms(13));
    }
}
