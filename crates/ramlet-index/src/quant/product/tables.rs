//! Look-up tables of a query for product codes.

use super::{ProductModel, WORDS};

/// What is estimated; smaller is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// `|y - r|^2`
    Distance,
    /// `-<y, r>`
    Product,
}

impl TableKind {
    /// The distance itself.
    pub(super) fn exact(self, y: &[f32], r: &[f32]) -> f64 {
        let pairs = y.iter().zip(r).map(|(y, r)| (f64::from(*y), f64::from(*r)));
        match self {
            TableKind::Distance => pairs.map(|(y, r)| (y - r).powi(2)).sum(),
            TableKind::Product => -pairs.map(|(y, r)| y * r).sum::<f64>(),
        }
    }
}

/// Tables of one query, or of one query in one cluster; its memory is used again: about 80 bytes a part.
///
/// Entering costs 16 multiplications a dimension, and about as much again to round the tables.
#[derive(Debug, Default)]
pub(crate) struct ProductTables {
    /// For each part, what each word adds to the distance.
    entries: Vec<f32>,
    /// For each part, its least entry.
    leasts: Vec<f32>,
    /// The entries less their part's least, in steps.
    rounded: Vec<u8>,
    /// What all distances have in common.
    base: f32,
    /// The distance of a sum 0 of rounded entries.
    low: f32,
    step: f32,
    /// A deviation squared is `variance + slope * max(distance - least, 0)`.
    variance: f32,
    slope: f32,
    least: f32,
}

impl ProductTables {
    /// Prepares to compare `y` with codes of `r`: both residuals to the same centroid, or both vectors as they are; for
    /// products only the codes may be residuals.
    pub(crate) fn enter(&mut self, model: &ProductModel, kind: TableKind, y: &[f32]) {
        assert_eq!(y.len(), model.shape.dims, "the query's dimensions");
        let possible = kind == TableKind::Product || !model.overlaps();
        assert!(possible, "overlapping words don't tell distances");
        self.fill(model, kind, y);
        self.prepare(model, kind, y);
        self.round();
    }

    fn fill(&mut self, model: &ProductModel, kind: TableKind, y: &[f32]) {
        let (scale, squares) = match kind {
            TableKind::Distance => (-2.0, 1.0),
            TableKind::Product => (-1.0, 0.0),
        };
        self.entries.resize(model.shape.parts * WORDS, 0.0);
        let parts = self.entries.as_chunks_mut::<WORDS>().0.iter_mut();
        for (part, (entries, lengths)) in parts.zip(model.squares.as_chunks::<WORDS>().0).enumerate() {
            // By value: the compiler keeps them in registers.
            let mut sums = lengths.map(|length| squares * length);
            let columns = model.book(part).as_chunks::<WORDS>().0;
            for (value, column) in y[model.part(part)].iter().zip(columns) {
                for i in 0..WORDS {
                    sums[i] += scale * value * column[i];
                }
            }
            *entries = sums;
        }
        if model.overlaps() {
            self.overlap(model, y);
        }
    }

    /// Adds what words say of the next part.
    fn overlap(&mut self, model: &ProductModel, y: &[f32]) {
        let columns = model.overlap.as_chunks::<16>().0;
        for (part, entries) in (1..model.shape.parts).zip(self.entries.as_chunks_mut::<16>().0) {
            let dims = model.part(part);
            for (value, column) in y[dims.clone()].iter().zip(&columns[dims]) {
                for i in 0..16 {
                    entries[i] -= value * column[i];
                }
            }
        }
    }

    /// What all distances have in common, and how far they are off.
    fn prepare(&mut self, model: &ProductModel, kind: TableKind, y: &[f32]) {
        let spread = &model.spread;
        match kind {
            TableKind::Distance => {
                let length: f32 = y.iter().map(|value| value * value).sum();
                self.base = length + spread.error;
                let factor = spread.distance_factor * spread.distance_factor;
                self.variance = factor * spread.error_variance;
                // |y - p|^2 is the distance less E|e|^2.
                self.least = spread.error;
                self.slope = factor * 4.0 * spread.error / model.shape.dims as f32;
            }
            TableKind::Product => {
                let parts = model.errors.iter().enumerate();
                let variance: f32 = parts
                    .map(|(part, error)| {
                        let y = &y[model.part(part)];
                        error * y.iter().map(|value| value * value).sum::<f32>()
                    })
                    .sum();
                self.base = 0.0;
                self.variance = spread.product_factor * spread.product_factor * variance;
                (self.least, self.slope) = (0.0, 0.0);
            }
        }
    }

    /// Rounds the tables of 16 entries to bytes, all with the same step.
    fn round(&mut self) {
        let (parts, _) = self.entries.as_chunks::<16>();
        self.leasts.clear();
        self.low = self.base;
        let mut range = 0.0f32;
        for part in parts {
            let (least, most) = extremes(part);
            self.leasts.push(least);
            self.low += least;
            range = range.max(most - least);
        }
        self.step = range / 255.0;
        let per_unit = if range > 0.0 { 255.0 / range } else { 0.0 };
        self.rounded.resize(self.entries.len(), 0);
        let rounded = self.rounded.as_chunks_mut::<16>().0.iter_mut();
        for ((part, least), rounded) in parts.iter().zip(&self.leasts).zip(rounded) {
            for (entry, rounded) in part.iter().zip(rounded) {
                // Added to 2^23, a float's lowest bits are the nearest whole number.
                *rounded = ((entry - least) * per_unit + 8_388_608.0).to_bits() as u8;
            }
        }
        self.variance += parts.len() as f32 * self.step * self.step / 12.0;
    }

    /// A table for [`ramlet_kernels::Kernels::fast_scan_sums`] with as many columns as there are parts.
    pub(crate) fn rounded(&self) -> &[u8] {
        &self.rounded
    }

    /// `(low, step)`, with which a sum of rounded entries becomes the distance `low + step * sum`.
    pub(crate) fn affine(&self) -> (f32, f32) {
        (self.low, self.step)
    }

    /// The most by which rounding alone moves a distance.
    #[cfg(test)]
    pub(crate) fn rounding_max(&self) -> f32 {
        (self.rounded.len() / 16) as f32 * self.step / 2.0
    }

    /// The distance of a vector whose entries, rounded, sum to `sum`.
    #[inline]
    pub(crate) fn distance_of_sum(&self, sum: u32) -> f32 {
        self.low + self.step * sum as f32
    }

    /// The distance of a vector by its codes, one to a byte, as a scan finds it.
    pub(crate) fn distance_rounded(&self, codes: &[u8]) -> f32 {
        let parts = self.rounded.as_chunks::<16>().0.iter().zip(codes);
        let sum = parts
            .map(|(part, code)| u32::from(part[usize::from(*code) % 16]))
            .sum();
        self.distance_of_sum(sum)
    }

    /// The distance of a vector by its codes, one to a byte, without rounding.
    #[inline]
    pub(crate) fn distance_of_code(&self, codes: &[u8]) -> f32 {
        let table = |part: usize| self.entries[part * WORDS + usize::from(codes[part])];
        // Four sums, so that additions don't wait for each other.
        let mut sums = [0.0f32; 4];
        let whole = codes.len() & !3;
        for part in (0..whole).step_by(4) {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum += table(part + i);
            }
        }
        let rest: f32 = (whole..codes.len()).map(table).sum();
        self.base + (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
    }

    /// By how much an estimated distance misses: its standard deviation.
    #[inline]
    pub(crate) fn deviation(&self, distance: f32) -> f32 {
        (self.variance + self.slope * (distance - self.least).max(0.0)).sqrt()
    }

    /// The largest estimated distance of a vector that may lie within `limit`: `distance - epsilon * deviation(distance) = limit`, of which the
    /// larger solution is taken. (With the deviation at the limit, which is less than that of larger distances, codes of a 64th lost
    /// one neighbour in ten.)
    pub(crate) fn most(&self, limit: f32, epsilon: f32) -> f32 {
        let (over, half) = (limit - self.least, epsilon * epsilon * self.slope / 2.0);
        let square = self.variance + self.slope * (over + half / 2.0);
        let above = over + half + epsilon * square.max(0.0).sqrt();
        match above >= 0.0 {
            true => self.least + above,
            false => limit + epsilon * self.variance.sqrt(),
        }
    }
}

/// Least and most of a part's entries.
#[inline]
fn extremes(entries: &[f32; 16]) -> (f32, f32) {
    let (mut least, mut most) = ([f32::INFINITY; 4], [f32::NEG_INFINITY; 4]);
    for lanes in entries.as_chunks::<4>().0 {
        for i in 0..4 {
            // Comparisons as the processor has them; `f32::min` also minds what isn't a number.
            least[i] = if lanes[i] < least[i] { lanes[i] } else { least[i] };
            most[i] = if lanes[i] > most[i] { lanes[i] } else { most[i] };
        }
    }
    let (least, most) = (least.into_iter(), most.into_iter());
    (
        least.fold(f32::INFINITY, |a, b| if b < a { b } else { a }),
        most.fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a }),
    )
}
