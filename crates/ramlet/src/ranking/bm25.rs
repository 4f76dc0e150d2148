//! The score: `sum of idf * tf * (k + 1) / (tf + k * (1 - b + b * length / average))` over the words of the query.

use crate::segment::{Peaks, decoded_length, encoded_length};

/// How soon more of the same word counts less, and how much long texts are held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bm25Params {
    pub k: f64,
    pub b: f64,
}

impl Default for Bm25Params {
    fn default() -> Bm25Params {
        Bm25Params { k: 1.2, b: 0.75 }
    }
}

/// A length as it enters the score: rounded down to its leading 13 bits, so lengths below 8192 are exact, as in the API.
pub fn folded_length(tokens: u64) -> u64 {
    decoded_length(encoded_length(tokens))
}

/// `ln(1 + (n - df + 0.5) / (df + 0.5))`: above 0 for every word.
pub fn idf(documents: u64, frequency: u64) -> f64 {
    let (n, df) = (documents as f64, frequency.min(documents) as f64);
    ((n - df + 0.5) / (df + 0.5) + 1.0).ln()
}

/// A query's words, weighed by the statistics of a view.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// By term: inverse document frequency times `k + 1`.
    terms: Vec<f64>,
    /// Terms by weight, the rarest first: sums are made in this order everywhere.
    order: Vec<usize>,
    /// What is added to a frequency: `constant + slope * length`.
    constant: f64,
    slope: f64,
}

impl Weights {
    /// `average`: of the folded lengths of all texts.
    pub fn new(params: Bm25Params, average: f64, idfs: impl Iterator<Item = f64>) -> Weights {
        let Bm25Params { k, b } = params;
        let terms: Vec<f64> = idfs.map(|idf| idf * (k + 1.0)).collect();
        let mut order: Vec<usize> = (0..terms.len()).collect();
        order.sort_by(|&a, &b| terms[b].total_cmp(&terms[a]));
        Weights {
            terms,
            order,
            constant: k * (1.0 - b),
            slope: if average > 0.0 { k * b / average } else { 0.0 },
        }
    }

    /// By term.
    pub fn terms(&self) -> &[f64] {
        &self.terms
    }

    /// Terms in the order in which their parts are added up.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// What a term adds to the score of a text of this folded length in which it comes so often.
    #[inline]
    pub fn part(&self, weight: f64, frequency: u32, length: u64) -> f64 {
        let frequency = f64::from(frequency);
        weight * frequency / (frequency + self.slope * length as f64 + self.constant)
    }

    /// The most that a term adds to a score among texts of these peaks.
    pub fn most(&self, weight: f64, peaks: &Peaks) -> f64 {
        let parts = peaks.iter().map(|(frequency, length)| match frequency {
            // More than is kept: as if without end.
            u16::MAX => weight,
            frequency => self.part(weight, u32::from(frequency), decoded_length(length)),
        });
        parts.fold(0.0, f64::max)
    }

    /// The score of a text in which the terms are so often; `None`: none of them is.
    pub fn score(&self, frequencies: &[u32], length: u64) -> Option<f32> {
        let mut sum = 0.0;
        let mut is_met = false;
        for &term in &self.order {
            let frequency = frequencies[term];
            if frequency > 0 {
                sum += self.part(self.terms[term], frequency, length);
                is_met = true;
            }
        }
        is_met.then_some(sum as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lengths_lose_their_last_bits() {
        for (length, folded) in [
            (0, 0),
            (1, 1),
            (8191, 8191),
            (8193, 8192),
            (16387, 16384),
            (1 << 18, 1 << 18),
        ] {
            assert_eq!(folded_length(length), folded);
        }
    }

    #[test]
    fn the_formula() {
        let weights = Weights::new(Bm25Params::default(), 2.5, [idf(4, 1), idf(4, 3)].into_iter());
        let part =
            |idf: f64, tf: f64, length: f64| idf * tf * 2.2 / (tf + 1.2 * (1.0 - 0.75 + 0.75 * length / 2.5));
        let rare = (1.0f64 + 3.5 / 1.5).ln();
        let common = (1.0f64 + 1.5 / 3.5).ln();
        let expected = (part(rare, 2.0, 3.0) + part(common, 1.0, 3.0)) as f32;
        assert!((weights.score(&[2, 1], 3).unwrap() - expected).abs() < 1e-6);
        assert_eq!(weights.score(&[0, 0], 3), None);
        assert!(idf(10, 10) > 0.0);
    }
}
