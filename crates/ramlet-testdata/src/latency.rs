//! Latencies in little memory: a measurement inside 16 MB can't keep every one.

/// Steps within a doubling: a percentile is at most 1.6 % above the truth.
const STEPS_LOG2: u32 = 6;
const BUCKETS: usize = (64 - STEPS_LOG2 as usize) << STEPS_LOG2;

/// A histogram of nanoseconds (or of counts), 30 KB whatever it counts. Values below 64 ns are exact.
#[derive(Debug, Clone)]
pub struct Latencies {
    counts: Vec<u64>,
    total: u64,
    sum: u64,
    max: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies {
            counts: vec![0; BUCKETS + (1 << STEPS_LOG2)],
            total: 0,
            sum: 0,
            max: 0,
        }
    }
}

impl Latencies {
    pub fn note(&mut self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
        self.sum += nanoseconds;
        self.max = self.max.max(nanoseconds);
    }

    pub fn add(&mut self, other: &Latencies) {
        self.counts
            .iter_mut()
            .zip(&other.counts)
            .for_each(|(a, b)| *a += b);
        self.total += other.total;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    pub fn count(&self) -> u64 {
        self.total
    }

    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.total.max(1) as f64
    }

    pub fn max(&self) -> u64 {
        self.max
    }

    /// The upper end of the bucket in which the share `quantile` (0.99) of all is reached; 0 when nothing was noted.
    pub fn percentile(&self, quantile: f64) -> u64 {
        let wanted = ((self.total as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper(at).min(self.max);
            }
        }
        0
    }
}

fn bucket(value: u64) -> usize {
    let doubling = (64 - value.leading_zeros()).saturating_sub(STEPS_LOG2 + 1);
    ((doubling as usize) << STEPS_LOG2) + (value >> doubling) as usize
}

fn upper(bucket: usize) -> u64 {
    let doubling = (bucket >> STEPS_LOG2).saturating_sub(1);
    let low = (bucket - (doubling << STEPS_LOG2)) as u64;
    ((low + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_they_say() {
        for value in (0..5000).chain([1 << 20, (1 << 33) + 12345, u64::MAX >> 8]) {
            let end = upper(bucket(value));
            assert!(
                end >= value && end as f64 <= value as f64 * 1.016 + 1.0,
                "{value}: {end}"
            );
        }
        assert!(bucket(u64::MAX) < Latencies::default().counts.len());
    }

    #[test]
    fn percentiles_of_known_values() {
        let mut all = Latencies::default();
        (1..=1000).for_each(|value| all.note(value * 1000));
        let close = |a: u64, b: f64| (a as f64 / b - 1.0).abs() < 0.02;
        assert!(close(all.percentile(0.5), 500e3) && close(all.percentile(0.99), 990e3));
        assert_eq!(
            (all.percentile(1.0), all.max(), all.count()),
            (1_000_000, 1_000_000, 1000)
        );
        let mut twice = all.clone();
        twice.add(&all);
        assert_eq!(twice.percentile(0.9), all.percentile(0.9));
        assert_eq!(Latencies::default().percentile(0.5), 0);
    }
}
