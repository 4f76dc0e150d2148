//! A query made ready for codes, and the keys it estimates.

use ramlet_kernels::Kernels;

use super::{FineLayout, GROUP, Rotation, from_half};
use crate::Metric;

/// Rounding in what is added up to a key, as a share of its largest part.
const ROUNDING: f32 = 4e-6;

/// 1.5 * 2^23: what is added to it is rounded to a whole number, whose lowest bits are then those of the sum.
/// (A cast, with its care for values out of range, takes a tenth of a search.)
const WHOLE: f32 = 12_582_912.0;

/// Most that the rounded values of a column sum to, before each is rounded up by half at most.
const COLUMN_MOST: f32 = 251.0;

/// The fine kernel reads the query in steps of so many dimensions.
const PADDING: usize = 64;

/// How many deviations estimates may be off before a row is missed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epsilon {
    /// Of the scan of signs.
    pub coarse: f32,
    /// Of the finer codes: beyond it a row isn't read.
    pub fine: f32,
}

/// One thread's query: rotated once per search.
#[derive(Debug, Default)]
pub(crate) struct CodeQuery {
    rotated: Vec<f32>,
    mixing: Vec<f32>,
    /// `|q|^2`, and under dot product what the mean adds to every key.
    squares: f32,
    of_mean: f32,
}

/// A query made ready for the rows around one centroid.
#[derive(Debug, Default)]
pub(crate) struct Entered {
    /// `y`, as what of it is compared: less the centroid, or all of it.
    compared: Vec<f32>,
    /// `y` in whole numbers, padded with 0 to what the fine kernel reads.
    rounded: Vec<i8>,
    /// Per column the sums of what its 16 digits select, each shifted to be 0 at least.
    table: Vec<u8>,
    terms: Terms,
}

/// What is the same for all rows of a cluster. Of rows the factors are in the index's unit.
#[derive(Clone, Copy, Debug, Default)]
struct Terms {
    base: f32,
    /// Of a row's `add`.
    add: f32,
    /// Of `f <s, z>`, the sign of a key taken in.
    along: f32,
    /// `sum |z|`: twice the scan's sum less this is `<s, z>`.
    offset: f32,
    /// Of the length of what signs leave over.
    error: f32,
    rounding: f32,
    /// How much less than `sum z` over negative signs the scan's sums are, and `sum z`.
    shift: i64,
    total: i64,
    /// Of `f <u, z>` and of the length of a residual, in fine codes.
    fine_along: f32,
    fine_error: f32,
}

/// Where the keys of a group's rows lie.
#[derive(Debug)]
pub(crate) struct Sieved {
    pub(crate) keys: [f32; GROUP],
    pub(crate) lowers: [f32; GROUP],
    /// `|r|^2` in the index's unit, about.
    pub(crate) adds: [f32; GROUP],
}

impl Default for Sieved {
    fn default() -> Sieved {
        Sieved {
            keys: [0.0; GROUP],
            lowers: [0.0; GROUP],
            adds: [0.0; GROUP],
        }
    }
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

impl Entered {
    /// Makes the query ready for the rows around a rotated centroid: `step` times each of its `digits` less 128.
    pub(crate) fn enter(
        &mut self,
        space: &CodeSpace,
        query: &CodeQuery,
        (step, digits): (f32, &[u8]),
        fine: Option<&FineLayout>,
        epsilon: &Epsilon,
        kernels: &Kernels,
    ) {
        let metric = space.metric;
        let dims = query.rotated.len() as f32;
        let pairs = query.rotated.iter().zip(digits);
        self.compared.clear();
        let mut base = 0.0;
        if metric.centres_query() {
            self.compared
                .extend(pairs.map(|(query, digit)| query - step * (f32::from(*digit) - 128.0)));
        } else {
            base = query.of_mean
                - step
                    * pairs
                        .map(|(query, digit)| query * (f32::from(*digit) - 128.0))
                        .sum::<f32>();
            self.compared.extend_from_slice(&query.rotated);
        }
        let squares = kernels.dot_f32(&self.compared, &self.compared);
        match metric {
            Metric::Euclid => base = squares,
            Metric::Cosine => base = 0.5 * (squares - query.squares - 1.0),
            Metric::Dot | Metric::Manhattan => {}
        }
        let z_step = self.round();
        let (mut shift, mut total) = (0i64, 0i64);
        for z in &self.rounded {
            shift += i64::from((*z).min(0));
            total += i64::from(*z);
        }
        let shift = -shift;
        let (scale, unit) = (metric.code_scale(), space.unit);
        let along = scale * unit * z_step / dims.sqrt();
        let error = scale * unit * squares.sqrt();
        let fine_along = fine.map_or(0.0, |fine| along / (1u32 << fine.planes()) as f32 / 2.0);
        let fine_error = fine.map_or(0.0, |fine| {
            // Rounding errors of `y` lie evenly in +-step / 2.
            let rounding = f64::from(z_step).powi(2) / 12.0;
            let left = fine.remainder_squared() * f64::from(squares) / f64::from(dims - 1.0).max(1.0);
            f64::from(scale * unit) * (left + rounding).sqrt()
        });
        self.terms = Terms {
            base,
            add: metric.add_scale() * unit * unit,
            along,
            offset: (total + 2 * shift) as f32,
            error: epsilon.coarse * error / (dims - 1.0).max(1.0).sqrt(),
            rounding: ROUNDING * (base.abs() + squares),
            shift,
            total,
            fine_along,
            fine_error: epsilon.fine * fine_error as f32,
        };
        self.tabulate();
    }

    /// Rounds `y` so that the sums of four neighbours fit a byte, and each number a signed one; the step.
    fn round(&mut self) -> f32 {
        let (columns, rest) = self.compared.as_chunks::<4>();
        let (mut largest, mut most) = (0.0f32, 0.0f32);
        for [a, b, c, d] in columns {
            let [a, b, c, d] = [a.abs(), b.abs(), c.abs(), d.abs()];
            let sum = (a + b) + (c + d);
            most = if sum > most { sum } else { most };
            let two = (if a > b { a } else { b }, if c > d { c } else { d });
            let four = if two.0 > two.1 { two.0 } else { two.1 };
            largest = if four > largest { four } else { largest };
        }
        most = most.max(rest.iter().map(|value| value.abs()).sum());
        largest = rest.iter().fold(largest, |most, value| most.max(value.abs()));
        let step = (most / COLUMN_MOST).max(largest / 127.0);
        let per_unit = if step > 0.0 { 1.0 / step } else { 0.0 };
        let per_unit = if per_unit.is_finite() { per_unit } else { 0.0 };
        self.rounded.clear();
        let rounded = self.compared.iter().map(|value| value * per_unit + WHOLE);
        self.rounded.extend(rounded.map(|sum| sum.to_bits() as i8));
        self.rounded
            .resize(self.compared.len().next_multiple_of(PADDING), 0);
        step
    }

    /// The table: of digit `b` in a column, `sum z_j` over the bits set in `b`, less the least such sum.
    fn tabulate(&mut self) {
        const ONES: u64 = 0x0101_0101_0101_0101;
        // Bytes 0..8 of a word stand for digits; those with bit `j` set.
        const SET: [u64; 3] = [
            0xff00_ff00_ff00_ff00,
            0xffff_0000_ffff_0000,
            0xffff_ffff_0000_0000,
        ];
        self.table.clear();
        let columns = self.compared.len().div_ceil(4);
        let digits = self.rounded.as_chunks::<4>().0;
        self.table.extend(digits[..columns].iter().flat_map(|column| {
            // A negative number is taken by the digits without its bit, as its size.
            let taken = |j: usize| {
                let negative = (column[j] >> 7) as i64 as u64;
                (u64::from(column[j].unsigned_abs()) * ONES, negative)
            };
            let mut low = 0;
            for (j, set) in SET.iter().enumerate() {
                let (size, negative) = taken(j);
                low += size & (set ^ negative);
            }
            let (size, negative) = taken(3);
            let entries = [low + (size & negative), low + (size & !negative)];
            entries.map(u64::to_le_bytes).into_iter().flatten()
        }));
    }

    /// What the scan looks sums up in: 16 bytes per column.
    pub(crate) fn table(&self) -> &[u8] {
        &self.table
    }

    /// What fine codes are compared with.
    pub(crate) fn rounded(&self) -> &[i8] {
        &self.rounded
    }

    /// Where the keys of 32 rows lie, by the scan's sums and the group's factors; which may lie at `limit` or below, by
    /// bit.
    #[inline]
    pub(crate) fn sieve(
        &self,
        kernels: &Kernels,
        sums: &[u32; GROUP],
        factors: &[u8],
        limit: f32,
        out: &mut Sieved,
    ) -> u32 {
        let terms = &self.terms;
        let mut halves = [0u16; 2 * GROUP];
        for (half, bytes) in halves.iter_mut().zip(factors.as_chunks::<2>().0) {
            *half = u16::from_le_bytes(*bytes);
        }
        let mut floats = [0.0f32; 2 * GROUP];
        kernels.f16_to_f32(&halves, &mut floats);
        let (adds, factors) = floats.split_at(GROUP);
        out.adds.copy_from_slice(adds);
        let mut mask = 0;
        for lane in 0..GROUP {
            let along = 2.0 * sums[lane] as i32 as f32 - terms.offset;
            let key = terms.base + terms.add * adds[lane] - terms.along * factors[lane] * along;
            let left = factors[lane] * factors[lane] - adds[lane];
            let left = if left > 0.0 { left } else { 0.0 };
            let lower = key - terms.error * left.sqrt() - terms.rounding;
            out.keys[lane] = key;
            out.lowers[lane] = lower;
        }
        for (lane, lower) in out.lowers.iter().enumerate() {
            // A NaN isn't above.
            mask |= u32::from(!(*lower > limit)) << lane;
        }
        mask
    }

    /// The key of a row by its whole code, and how far off it may be. `sum` is the scan's, `low` the product of the
    /// planes with [`Entered::rounded`].
    #[inline]
    pub(crate) fn fine(&self, layout: &FineLayout, sum: u32, add: f32, row: &[u8], low: i32) -> (f32, f32) {
        let terms = &self.terms;
        let bytes = &row[layout.code_bytes()..];
        let factor = from_half([bytes[0], bytes[1]]);
        let whole = 1i64 << layout.planes();
        // Twice `<u, z>`, with `u` the digits less half of their greatest.
        let along =
            2 * (whole * (i64::from(sum) - terms.shift) + i64::from(low)) - (2 * whole - 1) * terms.total;
        let key = terms.base + terms.add * add - terms.fine_along * factor * along as f32;
        (key, terms.fine_error * add.abs().sqrt() + terms.rounding)
    }
}
