//! A query made ready for codes, and the keys it estimates.

use ramlet_kernels::Kernels;

use super::code::REMAINDER_UNITS;
use super::{CodeLayout, Rotation};
use crate::Metric;

/// How many deviations an estimate may be off before a row is missed.
const EPSILON: f32 = 2.0;

/// Rounding in what is added up to a key, as a share of its largest part.
const ROUNDING: f32 = 4e-6;

/// 1.5 * 2^23: what is added to it is rounded to a whole number, whose lowest bits are then those of the sum.
/// (A cast, with its care for values out of range, takes a tenth of a search.)
const WHOLE: f32 = 12_582_912.0;

/// One thread's query: rotated once per search, and made ready for one cluster after another.
#[derive(Debug, Default)]
pub(crate) struct CodeQuery {
    rotated: Vec<f32>,
    /// `y`, as what of it is compared: less the centroid, or all of it.
    compared: Vec<f32>,
    mixing: Vec<f32>,
    digits: Vec<i8>,
    cluster: Cluster,
}

/// What is the same for all rows of a cluster.
#[derive(Clone, Copy, Debug, Default)]
struct Cluster {
    base: f32,
    rounding: f32,
    /// Of the integer dot product, and what is taken off it first.
    step: f32,
    offset: f32,
    /// Of the error: per unit of a code's remainder, and besides.
    per_remainder: f32,
    from_query: f32,
}

/// Where a row's key lies, all but certainly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) key: f32,
    /// Not negative.
    pub(crate) error: f32,
    pub(crate) number: u32,
}

impl CodeQuery {
    /// Takes the query's floats (under cosine normalised).
    pub(crate) fn prepare(&mut self, rotation: &Rotation, floats: &[f32]) {
        self.rotated.clear();
        self.rotated.extend_from_slice(floats);
        rotation.apply(&mut self.rotated, &mut self.mixing);
    }

    /// The query in the space of codes.
    pub(crate) fn rotated(&self) -> &[f32] {
        &self.rotated
    }

    /// Makes it ready for the rows around a rotated centroid: `dims` floats in little-endian bytes.
    pub(crate) fn enter(&mut self, metric: Metric, layout: &CodeLayout, centroid: &[u8], kernels: &Kernels) {
        let centroid = centroid.as_chunks::<4>().0;
        self.compared.clear();
        if metric.centres_query() {
            let pairs = self.rotated.iter().zip(centroid);
            self.compared
                .extend(pairs.map(|(query, c)| query - f32::from_le_bytes(*c)));
        } else {
            self.compared.extend_from_slice(&self.rotated);
        }
        let squares = kernels.dot_f32(&self.compared, &self.compared);
        let base = if metric == Metric::Euclid {
            squares
        } else {
            0.0 - kernels.f32_row(
                ramlet_kernels::Measure::Dot,
                &self.rotated,
                centroid.as_flattened(),
            )
        };
        let step = self.round(layout);
        let sum: i32 = self.digits.iter().map(|digit| i32::from(*digit)).sum();
        let (dims, scale) = (layout.dims as f32, metric.code_scale() * EPSILON);
        self.cluster = Cluster {
            base,
            rounding: ROUNDING * (base.abs() + squares),
            step: metric.code_scale() * step,
            offset: layout.centre() * sum as f32,
            per_remainder: scale * (squares / (dims - 1.0).max(1.0)).sqrt() / REMAINDER_UNITS,
            // Rounding errors of `y` lie evenly in +-step/2; a code's values have half the largest one's size.
            from_query: scale * step * (dims / 12.0).sqrt() * layout.centre() / 2.0,
        };
    }

    /// Rounds `y` to 8 bits, in the order of a code's digits; the step.
    fn round(&mut self, layout: &CodeLayout) -> f32 {
        // In eight lanes, which the compiler makes one vector.
        let mut lanes = [0.0f32; 8];
        for chunk in self.compared.chunks(8) {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                let size = value.abs();
                *lane = if size > *lane { size } else { *lane };
            }
        }
        let largest = lanes.into_iter().fold(0.0, f32::max);
        let step = largest / 127.0;
        let per_unit = if step > 0.0 { 1.0 / step } else { 0.0 };
        self.digits.clear();
        let rounded = self.compared.iter().map(|value| value * per_unit + WHOLE);
        self.digits.extend(rounded.map(|sum| sum.to_bits() as i8));
        self.digits.resize(layout.width.query_len(layout.code_bytes), 0);
        step
    }

    /// Dot products with consecutive rows of codes.
    pub(crate) fn products(&self, layout: &CodeLayout, kernels: &Kernels, rows: &[u8], out: &mut [i32]) {
        kernels.dot_codes(layout.width, &self.digits, rows, layout.row_bytes(), out);
    }

    /// The key of a row whose product is known.
    #[inline]
    pub(crate) fn estimate(&self, layout: &CodeLayout, row: &[u8], product: i32) -> Estimate {
        let (factors, cluster) = (layout.factors(row), &self.cluster);
        let along = cluster.step * (product as f32 - cluster.offset);
        let error = f32::from(factors.remainder) * cluster.per_remainder + cluster.from_query;
        Estimate {
            key: cluster.base + factors.add - factors.scale * along,
            error: factors.scale * error + cluster.rounding,
            number: factors.number,
        }
    }
}
