//! A network disk, made of a local one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Delays reads that really take place. A read is done no sooner than `latency` after it began; so many begin in a second at most, and
/// so many bytes come, whoever asks. Reads that were handed over together wait together, as those of a network disk do; reads that a
/// thread does one after another wait one after another.
///
/// The wait is a sleep of the thread that asked: it costs what a thread that waits for a disk costs, a switch there and back.
pub struct Slowed {
    latency: Duration,
    gap_ns: u64,
    bytes_per_s: u64,
    epoch: Instant,
    /// When the next read may begin, in nanoseconds since `epoch`.
    next_ns: AtomicU64,
}

impl Slowed {
    pub fn new(latency: Duration, iops_max: u64, bytes_per_s: u64) -> Slowed {
        Slowed {
            latency,
            gap_ns: 1_000_000_000 / iops_max.max(1),
            bytes_per_s: bytes_per_s.max(1),
            epoch: Instant::now(),
            next_ns: AtomicU64::new(0),
        }
    }

    /// Since the epoch.
    pub fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// A read of `bytes` that was asked for at `asked` begins then, or when it is its turn; returns when it may be done.
    pub fn begin(&self, asked: Duration, bytes: u64) -> Duration {
        let asked = asked.as_nanos() as u64;
        let transfer = (u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s)) as u64;
        let takes = self.gap_ns.max(transfer);
        let mut next = self.next_ns.load(Ordering::Relaxed);
        loop {
            let turn = next.max(asked);
            let tried =
                self.next_ns
                    .compare_exchange_weak(next, turn + takes, Ordering::Relaxed, Ordering::Relaxed);
            match tried {
                Ok(_) => return Duration::from_nanos(turn + transfer) + self.latency,
                Err(other) => next = other,
            }
        }
    }

    /// Waits until then.
    pub fn wait(&self, done: Duration) {
        let left = done.saturating_sub(self.now());
        if !left.is_zero() {
            sleep(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn reads_overlap_up_to_the_rate() {
        let slowed = Slowed::new(ms(2), 1_000, u64::MAX);
        // Three at once: a millisecond apart, the latency of each under way at the same time.
        let together: Vec<_> = (0..3).map(|_| slowed.begin(ms(0), 0)).collect();
        assert_eq!(together, [ms(2), ms(3), ms(4)]);
        // A disk that idled owes nothing and has saved nothing.
        assert_eq!(slowed.begin(ms(10), 0), ms(12));
        assert_eq!(slowed.begin(ms(10), 0), ms(13));
    }

    #[test]
    fn large_reads_take_the_line() {
        let slowed = Slowed::new(ms(2), 1_000, 1_000_000);
        assert_eq!(slowed.begin(ms(0), 5_000), ms(7));
        assert_eq!(slowed.begin(ms(0), 100), Duration::from_micros(7_100));
    }
}
