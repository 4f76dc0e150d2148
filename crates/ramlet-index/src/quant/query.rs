//! A query prepared for codes, and the distances that it estimates.

use ramlet_kernels::{Bounds, CodeWidth, FastScan, FastScanned, Kernels};

use super::{ExtendedLayout, ResidualLayout, Rotation, Sq8Layout, Sq8Row, from_half};
use crate::Metric;

/// Rounding in what is added up to a distance, as a share of its largest part.
const ROUNDING: f32 = 4e-6;

/// What half precision may be off by, however small the number: rows far nearer to their centroid than the unit.
const HALF_OFF: f32 = 1.0 / 16_777_216.0;

/// Least share of `|r| |y|` at which a distance by all codes is believed: it is off by 3e-5 of it. (Of rows whose lengths differ by orders
/// of magnitude, the shortest have far less.)
const TOLD_APART: f32 = 3e-3;

/// Most that the rounded values of a column sum to, before each is rounded up by half at most.
const COLUMN_MOST: f32 = 251.0;

/// Parts of a step in which what rounding leaves over is counted: half a step is 127 of them.
const REMAINDER: f32 = 254.0;

/// Deviation of what lies anywhere within half a step of 0, in steps: the root of a twelfth.
const UNIFORM: f32 = 0.288_675_13;

/// Rows of a byte a dimension that are compared at once.
pub(crate) const SQ8_AT_ONCE: usize = 32;

/// The kernel of extended codes reads the query in steps of so many dimensions.
const PADDING: usize = 64;

/// How many deviations estimates may be off before a row is missed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epsilon {
    /// Of the scan of signs.
    pub scanned: f32,
    /// Of the last estimate, by extended codes if there are any: a row is read whose distance lies within so many deviations of
    /// the boundary between the last row wanted and the next one.
    pub extended: f32,
}

/// One thread's query: rotated once per search.
#[derive(Debug, Default)]
pub(crate) struct CodeQuery {
    rotated: Vec<f32>,
    mixing: Vec<f32>,
    /// `|q|^2`, and under dot product what the mean adds to every distance.
    squares: f32,
    of_mean: f32,
    /// See [`CodeQuery::less`].
    less: f32,
}

/// A query made ready for the rows around one centroid.
#[derive(Debug, Default)]
pub(crate) struct ResidualQuery {
    /// `y`, as what of it is compared: less the centroid, or all of it.
    compared: Vec<f32>,
    /// `y` in whole numbers, padded with 0 to what the kernel of extended codes reads.
    rounded: Vec<i8>,
    /// What rounding left over of `y`, and in 254th parts of a step; made for few clusters.
    left: Vec<f32>,
    remainder: Vec<i8>,
    /// Per column the sums of what its 16 levels select, each shifted to be 0 at least.
    table: Vec<u8>,
    /// A centroid that is zero, under dot product.
    zero: Vec<u8>,
    terms: Terms,
}

/// What is the same for all rows of a cluster. Of rows the factors are in the index's unit.
#[derive(Clone, Copy, Debug, Default)]
struct Terms {
    /// Of signs: `along` is of `f <s, z>`, with `<s, z>` twice the scan's sum less `offset = sum |z|`; `error` of the length
    /// of what signs leave over.
    bounds: Bounds,
    /// How much less than `sum z` over negative signs the scan's sums are, and `sum z`.
    shift: i64,
    total: i64,
    /// Of `f <u, z>` and of the length of a residual, in extended codes.
    extended_along: f32,
    extended_error: f32,
    /// Of the length of a residual: distances at zero that are less than this may lie anywhere.
    uncertainty: f32,
    /// What a whole number of `z` is of `y`, and of `f <u, z>` in a distance.
    z_step: f32,
    along: f32,
    /// Share of `<r, y>` in a distance, and of the row's own part.
    scale: f32,
    own: f32,
    /// `|y|`.
    length: f32,
    /// Sum of what rounding left over.
    remainder: i64,
}

impl CodeQuery {
    /// Takes the query's floats (under cosine normalised) and the mean that centroids are without.
    pub(crate) fn prepare(
        &mut self,
        metric: Metric,
        rotation: Option<&Rotation>,
        mean: &[u8],
        floats: &[f32],
        kernels: &Kernels,
    ) {
        self.rotated.clear();
        self.rotated.extend_from_slice(floats);
        if let Some(rotation) = rotation {
            rotation.apply(&mut self.rotated, &mut self.mixing);
        }
        self.squares = kernels.dot_f32(&self.rotated, &self.rotated);
        self.of_mean = 0.0;
        if metric == Metric::Dot {
            self.of_mean = -kernels.f32_row(ramlet_kernels::Measure::Dot, &self.rotated, mean);
        } else {
            let mean = mean.as_chunks::<4>().0;
            let pairs = self.rotated.iter_mut().zip(mean);
            pairs.for_each(|(value, mean)| *value -= f32::from_le_bytes(*mean));
        }
        self.less = match metric {
            Metric::Dot => self.of_mean,
            Metric::Cosine | Metric::Euclid => kernels.dot_f32(&self.rotated, &self.rotated),
            Metric::Manhattan => 0.0,
        };
    }

    /// By how much the distances by which clusters are ranked are less than what the centroids' own would be.
    pub(crate) fn less(&self) -> f32 {
        self.less
    }

    /// The query's squared length.
    pub(crate) fn squares(&self) -> f32 {
        self.squares
    }

    /// The query in the space of codes and centroids, less the mean unless products are what counts.
    pub(crate) fn rotated(&self) -> &[f32] {
        &self.rotated
    }
}

/// What all clusters of an index have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeSpace {
    pub(crate) metric: Metric,
    pub(crate) unit: f32,
}

impl ResidualQuery {
    /// Makes the query ready for the rows around a rotated centroid: `step` times each of its `levels` less 128.
    pub(crate) fn enter(
        &mut self,
        space: &CodeSpace,
        query: &CodeQuery,
        (step, levels): (f32, &[u8]),
        extended: Option<&ExtendedLayout>,
        epsilon: &Epsilon,
        kernels: &Kernels,
    ) {
        let metric = space.metric;
        let dims = query.rotated.len() as f32;
        self.compared.resize(query.rotated.len(), 0.0);
        let extent;
        let (mut base, mut parts) = (0.0, 0.0);
        if metric.centres_query() {
            extent = kernels.difference(&query.rotated, step, levels, &mut self.compared);
        } else {
            let pairs = query.rotated.iter().zip(levels);
            let products = pairs.map(|(query, level)| query * (f32::from(*level) - 128.0));
            let of_centroid = step * products.sum::<f32>();
            base = query.of_mean - of_centroid;
            // Both may be far larger than what they leave: where a few huge vectors pull the mean of all centroids away.
            parts = query.of_mean.abs() + of_centroid.abs();
            self.zero.resize(levels.len(), 128);
            extent = kernels.difference(&query.rotated, 0.0, &self.zero, &mut self.compared);
        }
        let squares = extent.squares;
        match metric {
            Metric::Euclid => base = squares,
            Metric::Cosine => base = 0.5 * (squares - query.squares - 1.0),
            Metric::Dot | Metric::Manhattan => {}
        }
        // The sums of four neighbours shall fit a byte, and each number a signed one.
        let z_step = (extent.column / COLUMN_MOST).max(extent.largest / 127.0);
        let per_unit = if z_step > 0.0 { 1.0 / z_step } else { 0.0 };
        let per_unit = if per_unit.is_finite() { per_unit } else { 0.0 };
        self.rounded
            .resize(self.compared.len().next_multiple_of(PADDING), 0);
        let (rounded, padding) = self.rounded.split_at_mut(self.compared.len());
        padding.fill(0);
        let (total, size) = kernels.round(&self.compared, per_unit, rounded);
        self.table.resize(self.compared.len().div_ceil(4) * 16, 0);
        kernels.tabulate(&self.rounded, &mut self.table);
        let (total, size) = (i64::from(total), i64::from(size));
        let shift = (size - total) / 2;
        let (scale, unit, add) = (metric.code_scale(), space.unit, metric.add_scale());
        let length = squares.sqrt();
        let off = HALF_OFF * (add * unit * unit + scale * unit * length);
        let rounding = ROUNDING * (base.abs().max(parts) + squares) + off;
        // Of sums that overflow nothing is known: every row is looked at.
        let base = if (rounding + unit * unit).is_finite() {
            base
        } else {
            f32::NAN
        };
        let along = scale * unit * z_step / dims.sqrt();
        let error = scale * unit * length;
        let extended_along =
            extended.map_or(0.0, |extended| along / (1u32 << extended.planes()) as f32 / 2.0);
        let extended_error = extended.map_or(0.0, |extended| {
            // Rounding errors of `y` lie evenly in +-step / 2.
            let rounding = z_step * z_step / 12.0;
            let left = extended.remainder_squared() as f32 * squares / (dims - 1.0).max(1.0);
            scale * unit * (left + rounding).sqrt()
        });
        self.terms = Terms {
            bounds: Bounds {
                base,
                add: add * unit * unit,
                along,
                offset: size as f32,
                error: epsilon.scanned * error / (dims - 1.0).max(1.0).sqrt(),
                rounding,
            },
            uncertainty: TOLD_APART * error,
            shift,
            total,
            extended_along,
            z_step,
            along,
            extended_error: epsilon.extended * extended_error,
            scale,
            own: add,
            length,
            remainder: 0,
        };
    }

    /// Makes ready for [`ResidualQuery::whole`] and [`ResidualQuery::sq8`] too.
    pub(crate) fn refine(&mut self, kernels: &Kernels) {
        let per_unit = match self.terms.z_step > 0.0 {
            true => REMAINDER / self.terms.z_step,
            false => 0.0,
        };
        let (step, pairs) = (self.terms.z_step, self.compared.iter().zip(&self.rounded));
        self.left.clear();
        self.left
            .extend(pairs.map(|(value, whole)| value - f32::from(*whole) * step));
        self.remainder.clear();
        self.remainder.resize(self.rounded.len(), 0);
        let (total, _) = kernels.round(&self.left, per_unit, &mut self.remainder[..self.left.len()]);
        self.terms.remainder = i64::from(total);
    }

    /// The distances of consecutive rows of a byte a dimension, at most [`SQ8_AT_ONCE`] of them, and by how much each is off as a rule.
    pub(crate) fn sq8(
        &self,
        kernels: &Kernels,
        layout: Sq8Layout,
        rows: &[u8],
        mut each: impl FnMut(Sq8Row<'_>, f32, f32),
    ) {
        let (dims, stride, terms) = (self.compared.len(), layout.row_bytes(), &self.terms);
        let count = rows.len() / stride;
        let (mut whole, mut left) = ([0i32; SQ8_AT_ONCE], [0i32; SQ8_AT_ONCE]);
        let products = |query: &[i8], out: &mut [i32]| {
            kernels.dot_codes(CodeWidth::Eight, &query[..dims], rows, stride, out);
        };
        products(&self.rounded, &mut whole[..count]);
        products(&self.remainder, &mut left[..count]);
        let products = whole.iter().zip(&left);
        for (row, (whole, left)) in rows.chunks_exact(stride).zip(products) {
            let row = layout.row(row);
            let whole = (i64::from(*whole) - 128 * terms.total) as f64;
            let left = (i64::from(*left) - 128 * terms.remainder) as f64 / f64::from(REMAINDER);
            let product = f64::from(row.step) * f64::from(terms.z_step) * (whole + left);
            let distance = terms.bounds.base + terms.own * row.add - terms.scale * product as f32;
            let deviation = terms.scale * row.step * terms.length * UNIFORM;
            each(row, distance, deviation + terms.bounds.rounding);
        }
    }

    /// The distance of a row by its signs, its extended code and what that leaves over, and whether it is as good as exact.
    pub(crate) fn whole(
        &self,
        kernels: &Kernels,
        (signs, add): (&[u8], f32),
        (extended, extended_row): (&ExtendedLayout, &[u8]),
        (residual, residual_row): (&ResidualLayout, &[u8]),
    ) -> (f32, bool) {
        let terms = &self.terms;
        let planes = extended.planes() as u32;
        // Twice `<u, z>`, with `u` the levels less half of their greatest.
        let twice = |z: &[i8]| {
            let sum = |z: &[i8]| z.iter().map(|z| i64::from(*z)).sum::<i64>();
            let high = i64::from(kernels.planes_dot(z, extended.dims, 1, signs)) << planes;
            let low = kernels.planes_dot(z, extended.dims, planes, &extended_row[..extended.code_bytes()]);
            2 * (high + i64::from(low)) - ((2i64 << planes) - 1) * sum(z)
        };
        let code = twice(&self.rounded) as f64 + twice(&self.remainder) as f64 / f64::from(REMAINDER);
        let bits = u32::from(residual.bits);
        let left = kernels.planes_dot(
            &self.rounded,
            residual.dims,
            bits,
            &residual_row[..residual.code_bytes()],
        );
        let left = 2 * i64::from(left) - ((1i64 << bits) - 1) * terms.total;
        let bytes = &extended_row[extended.code_bytes()..];
        let factor = from_half([bytes[0], bytes[1]]);
        let [residual_factor, more, longer] = residual.factors(residual_row);
        let share = |factor: f32, bits: u32| f64::from(factor) / f64::from(1u32 << bits);
        let product = share(factor, planes + 1) * code + share(residual_factor, bits) * left as f64;
        let product = f64::from(terms.along) * product * (1.0 + f64::from(longer));
        let distance = terms.bounds.base + terms.bounds.add * (add + more) - product as f32;
        let uncertainty = terms.uncertainty * add.abs().sqrt() + terms.bounds.rounding;
        (distance, distance.abs() > uncertainty)
    }

    /// What extended codes are compared with.
    pub(crate) fn rounded(&self) -> &[i8] {
        &self.rounded
    }

    /// The rows of groups of so many bytes whose distances may lie at `limit` or below, and where; `add` of one is `|r|^2` in the
    /// index's unit, about. Fetches the bytes of `ahead` meanwhile.
    #[inline]
    pub(crate) fn fast_scan(
        &self,
        kernels: &Kernels,
        (groups, stride): (&[u8], usize),
        limit: f32,
        ahead: &[&[u8]],
        out: &mut FastScanned,
    ) {
        let fast_scan = FastScan {
            lut: &self.table,
            stride,
            bounds: self.terms.bounds,
            limit,
        };
        kernels.fast_scan(&fast_scan, groups, ahead, out);
    }

    /// The distance of a row by its whole code, and how far off it may be. `sum` is the scan's, `low` the product of the
    /// planes with [`ResidualQuery::rounded`].
    #[inline]
    pub(crate) fn extended(
        &self,
        layout: &ExtendedLayout,
        sum: u32,
        add: f32,
        row: &[u8],
        low: i32,
    ) -> (f32, f32) {
        let terms = &self.terms;
        let bytes = &row[layout.code_bytes()..];
        let factor = from_half([bytes[0], bytes[1]]);
        let whole = 1i64 << layout.planes();
        // Twice `<u, z>`, with `u` the levels less half of their greatest.
        let along =
            2 * (whole * (i64::from(sum) - terms.shift) + i64::from(low)) - (2 * whole - 1) * terms.total;
        let distance =
            terms.bounds.base + terms.bounds.add * add - terms.extended_along * factor * along as f32;
        let length = (add.abs() + HALF_OFF).sqrt();
        (distance, terms.extended_error * length + terms.bounds.rounding)
    }
}
