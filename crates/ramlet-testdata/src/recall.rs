//! How much of the truth was found.

/// How many of the true neighbours are among those found.
pub fn hits<T: PartialEq<u32>>(found: &[T], truth: &[u32]) -> usize {
    truth
        .iter()
        .filter(|&&row| found.iter().any(|f| *f == row))
        .count()
}

/// Hits of how many that were to be found: adds up over queries and threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recall {
    pub hits: u64,
    pub wanted: u64,
}

impl Recall {
    pub fn note<T: PartialEq<u32>>(&mut self, found: &[T], truth: &[u32]) {
        self.hits += hits(found, truth) as u64;
        self.wanted += truth.len() as u64;
    }

    pub fn add(&mut self, other: Recall) {
        self.hits += other.hits;
        self.wanted += other.wanted;
    }

    /// 1 when nothing was to be found.
    pub fn share(&self) -> f64 {
        if self.wanted == 0 {
            1.0
        } else {
            self.hits as f64 / self.wanted as f64
        }
    }
}
