//! Several runs of the same thing: the middle, the spread, and how two kinds of runs compare.

use serde::Serialize;

/// Median and spread of repeated figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    pub runs: usize,
    pub median: f64,
    pub least: f64,
    pub most: f64,
    /// (most - least) / median.
    pub spread: f64,
}

impl Summary {
    /// None when there is nothing to sum up.
    pub fn of(figures: &[f64]) -> Option<Summary> {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&least, &most) = (sorted.first()?, sorted.last()?);
        let half = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[half],
            _ => (sorted[half - 1] + sorted[half]) / 2.0,
        };
        Some(Summary {
            runs: sorted.len(),
            median,
            least,
            most,
            spread: (most - least) / median,
        })
    }
}

/// Two kinds of runs that took turns (a, b, a, b, ...). With the same thing on both sides (A/A) its distance from 1 is the noise:
/// a difference of two things within that says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// Median of the ratios b / a of each turn: what drifts over the turns cancels out.
    pub ratio: f64,
    pub ratio_least: f64,
    pub ratio_most: f64,
}

impl Comparison {
    /// Panics unless both have as many figures; None without any.
    pub fn of(a: &[f64], b: &[f64]) -> Option<Comparison> {
        assert_eq!(a.len(), b.len(), "runs that took turns come in pairs");
        let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| b / a).collect();
        Summary::of(&ratios).map(|of| Comparison {
            ratio: of.median,
            ratio_least: of.least,
            ratio_most: of.most,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        assert_eq!(Summary::of(&[]), None);
        let odd = Summary::of(&[3.0, 1.0, 2.0]).expect("figures");
        assert_eq!(
            (odd.median, odd.least, odd.most, odd.spread),
            (2.0, 1.0, 3.0, 1.0)
        );
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).expect("figures").median, 2.5);
    }

    #[test]
    fn drift_cancels_out_in_pairs() {
        let drifting = [100.0, 120.0, 140.0];
        let twice = drifting.map(|v| v * 2.0);
        let same = Comparison::of(&drifting, &drifting).expect("figures");
        let doubled = Comparison::of(&drifting, &twice).expect("figures");
        assert_eq!((same.ratio, doubled.ratio), (1.0, 2.0));
        let noisy = Comparison::of(&[100.0, 100.0], &[110.0, 90.0]).expect("figures");
        assert_eq!((noisy.ratio_least, noisy.ratio_most), (0.9, 1.1));
    }
}
