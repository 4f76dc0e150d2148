//! Codes: a few bits per dimension that tell a row's key to within a known error.
//!
//! Extended RaBitQ (Gao and Long, SIGMOD 2024; Gao et al., "Practical and asymptotically optimal quantization of
//! high-dimensional vectors", 2025). A row `x` of the cluster around `c` is coded by its residual, rotated by the same
//! random rotation `P` for all: `r = P (x - c)`. Its code is the grid vector `u` (each `u_i` one of `2^B` values, one
//! apart and symmetric around 0) that points most nearly in the direction of `r`. With `f = |r|^2 / <u, r>` the
//! remainder `r - f u` is perpendicular to `r`, and the rotation makes its direction random; therefore, for any `y`,
//!
//! ```text
//! <r, y> = f <u, y>,  off by about |r - f u| |y| / sqrt(d - 1)
//! ```
//!
//! | metric | key | `y` |
//! |---|---|---|
//! | Euclid | `\|q - c\|^2 + \|x - c\|^2 - 2 <r, y>` | `P (q - c)` |
//! | Cosine | `-<c, q> - <c, x - c> - <r, y>`, all normalised | `P (q - c)` |
//! | Dot | `-<c, q> - <r, y>` | `P q` |
//!
//! so a key is `base + add - scale f <u, y>`, with `base` known per cluster and `add` per row. `y` is rounded to
//! 8 bits for the dot product, once per cluster. Manhattan has no codes.
//!
//! Measured in units of the error above, estimates of normal data miss by more than 2 in about 5 % of all cases.

mod code;
#[cfg_attr(
    not(test),
    allow(
        dead_code,
        unused_imports,
        reason = "the seam that puts it behind an index comes next"
    )
)]
pub(crate) mod product;
mod query;
mod rotation;
#[cfg_attr(
    not(test),
    allow(
        dead_code,
        unused_imports,
        reason = "the seam that puts it behind an index comes next"
    )
)]
pub(crate) mod scalar8;

pub(crate) use code::{CodeLayout, EncodeScratch, Encoder};
pub(crate) use query::CodeQuery;
pub(crate) use rotation::Rotation;

use crate::Metric;

/// Bits that a code has per dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeBits {
    /// `d / 2 + 14` bytes a row: 64 at 100 dimensions.
    Four,
    /// `d + 14` bytes a row. A seventh of the error of four bits, or less.
    Eight,
}

impl CodeBits {
    /// Bytes that a row's code takes, its factors and its number included; what the rows of a file of codes have.
    pub fn row_bytes(self, dims: usize) -> usize {
        CodeLayout::new(self, dims).row_bytes()
    }

    pub(crate) fn count(self) -> u8 {
        match self {
            CodeBits::Four => 4,
            CodeBits::Eight => 8,
        }
    }

    pub(crate) fn from_count(bits: u8) -> Option<CodeBits> {
        match bits {
            4 => Some(CodeBits::Four),
            8 => Some(CodeBits::Eight),
            _ => None,
        }
    }
}

impl Metric {
    /// Whether rows can be coded: under Manhattan they can't, rotating would change their distances.
    pub fn has_codes(self) -> bool {
        self != Metric::Manhattan
    }

    /// Whether codes are compared with the query less the centroid. Under dot product a query may be far shorter
    /// than centroids are, and the error grows with what is compared.
    fn centres_query(self) -> bool {
        self != Metric::Dot
    }

    /// Share of `<r, y>` in a key.
    fn code_scale(self) -> f32 {
        if self == Metric::Euclid { 2.0 } else { 1.0 }
    }
}

/// Dot product of two lists, in f64: the factors of codes are computed once and decide what is read.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ivf::Random;

    fn normal(random: &mut Random) -> f32 {
        (0..4).map(|_| random.below(2001) as f32 - 1000.0).sum::<f32>() * 0.000_87
    }

    fn vector(random: &mut Random, dims: usize, around: f32) -> Vec<f32> {
        (0..dims).map(|_| around + normal(random)).collect()
    }

    fn unit(vector: &mut [f32]) {
        let length = dot(vector, vector).sqrt() as f32;
        vector.iter_mut().for_each(|value| *value /= length);
    }

    /// Share of the estimates beyond their error, the mean of what they miss by, and its deviation, in errors.
    fn misses(metric: Metric, bits: CodeBits, dims: usize, random: &mut Random) -> (f64, f64, f64, f64) {
        let encoder = Encoder::new(metric, bits, dims);
        let layout = *encoder.layout();
        let rotation = Rotation::new(dims);
        let (mut query, mut scratch) = (CodeQuery::default(), EncodeScratch::default());
        let (mut row, mut beyond, mut sum, mut squares, mut absolute) =
            (vec![0; layout.row_bytes()], 0, 0.0, 0.0, 0.0);
        const TRIALS: usize = 2000;
        for _ in 0..TRIALS {
            let mut centroid = vector(random, dims, 1.0);
            let mut x: Vec<f32> = centroid.iter().map(|c| c + 0.5 * normal(random)).collect();
            let mut q: Vec<f32> = centroid.iter().map(|c| c + 0.8 * normal(random)).collect();
            if metric == Metric::Cosine {
                // A mean of unit vectors.
                centroid.iter_mut().for_each(|c| *c /= (dims as f32 * 2.4).sqrt());
                unit(&mut x);
                unit(&mut q);
            }
            encoder.encode(&x, centroid.iter().copied(), 7, &mut scratch, &mut row);
            query.prepare(&rotation, &q);
            let mut rotated = centroid.clone();
            rotation.apply(&mut rotated, &mut Vec::new());
            let bytes: Vec<u8> = rotated.iter().flat_map(|c| c.to_le_bytes()).collect();
            query.enter(metric, &layout, &bytes, ramlet_kernels::kernels());
            let mut product = [0];
            query.products(&layout, ramlet_kernels::kernels(), &row, &mut product);
            let estimate = query.estimate(&layout, &row, product[0]);
            let key = match metric {
                Metric::Euclid => x.iter().zip(&q).map(|(x, q)| f64::from(x - q).powi(2)).sum(),
                _ => -dot(&x, &q),
            };
            assert_eq!(estimate.number, 7);
            let off = f64::from(estimate.key) - key;
            let missed = off / f64::from(estimate.error);
            beyond += usize::from(missed.abs() > 1.0);
            sum += missed;
            squares += missed * missed;
            absolute += off.abs();
            row.fill(0);
        }
        let trials = TRIALS as f64;
        (
            beyond as f64 / trials,
            sum / trials,
            (squares / trials).sqrt(),
            absolute / trials,
        )
    }

    #[test]
    fn estimates_are_unbiased_and_miss_as_often_as_said() {
        let mut random = Random::new(1);
        for metric in [Metric::Euclid, Metric::Cosine, Metric::Dot] {
            for dims in [24, 99] {
                let four = misses(metric, CodeBits::Four, dims, &mut random);
                let eight = misses(metric, CodeBits::Eight, dims, &mut random);
                for (beyond, mean, deviation, _) in [four, eight] {
                    assert!(beyond < 0.06, "{metric:?} {dims}: {beyond} beyond the error");
                    assert!(mean.abs() < 0.04, "{metric:?} {dims}: biased by {mean}");
                    // Of an error that is two deviations.
                    assert!(
                        (0.25..0.55).contains(&deviation),
                        "{metric:?} {dims}: {deviation}"
                    );
                }
                assert!(eight.3 * 7.0 < four.3, "{metric:?} {dims}: {four:?} {eight:?}");
            }
        }
    }

    #[test]
    fn codes_have_the_bytes_they_say() {
        assert_eq!(
            [CodeBits::Four, CodeBits::Eight].map(|bits| bits.row_bytes(100)),
            [64, 114]
        );
        assert_eq!(CodeBits::Four.row_bytes(3), 16);
    }
}
