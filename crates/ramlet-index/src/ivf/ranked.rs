//! Centroids in the form that searches compare: rotated, less their mean, with a byte or half a byte per dimension.
//!
//! From [`WIDE`] dimensions on a value has four bits. A rotated vector's values are about normal: in steps of `.36` of their deviation
//! 1.3 % of its squared length is lost. Rows are coded as what they differ by from the rounded centroid, so nothing else is. A million vectors of 768 dimensions have
//! 8,000 centroids in 3.2 MB, not 6.2.

use ramlet_kernels::{CodeWidth, Kernels, Measure, Nearness, packed};

use crate::{Metric, WIDE};

/// Bytes in front of a centroid's levels: its step f32, and its squared length with its handicap f32.
pub(super) const HEAD_BYTES: usize = 8;

/// Products that are kept until distances are made of them: the kernels fetch ahead within what they get.
const PRODUCTS: usize = 512;

/// Bits of a centroid's values.
pub(crate) fn width_of(metric: Metric, dims: usize) -> CodeWidth {
    match metric.has_codes() && dims >= WIDE {
        true => CodeWidth::Four,
        false => CodeWidth::Eight,
    }
}

/// The level of zero; the others lie on both sides of it.
fn zero_level(width: CodeWidth) -> u8 {
    match width {
        CodeWidth::Four => 8,
        CodeWidth::Eight => 128,
    }
}

/// The centroids of an index. Each is `mean + step * (levels - zero)`, and that is what residuals are taken from.
///
/// `dims * 4` bytes for the mean and `dims + 8` per centroid, `dims / 2 + 8` where levels have four bits. The mean is taken off because vectors may lie far from
/// the origin, all on one side: the levels would then tell nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranked<'a> {
    pub(crate) dims: usize,
    pub(crate) width: CodeWidth,
    /// `dims` floats, little endian.
    pub(crate) mean: &'a [u8],
    /// Per centroid its step, and its squared length with its handicap (see `centroids`), which is for ranking only.
    pub(crate) heads: &'a [u8],
    pub(crate) levels: &'a [u8],
    /// The same of super-centroids, if there are such: see `super_centroids`.
    pub(crate) super_centroid_heads: &'a [u8],
    pub(crate) super_centroid_levels: &'a [u8],
}

/// The same, made and owned.
#[derive(Debug)]
pub(crate) struct RankedBuf {
    pub(super) dims: usize,
    pub(super) width: CodeWidth,
    pub(super) mean: Vec<u8>,
    pub(super) clusters: Rounded,
    pub(super) super_centroids: Rounded,
}

/// Rounded vectors, each with its head.
#[derive(Debug)]
pub(super) struct Rounded {
    width: CodeWidth,
    pub(super) heads: Vec<u8>,
    pub(super) levels: Vec<u8>,
}

/// Of the greatest value so much is what levels of four bits reach: what lies beyond loses less than all the others gain by smaller steps.
const REACHES: [f32; 6] = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5];

impl Rounded {
    pub(super) fn with_capacity(count: usize, (width, dims): (CodeWidth, usize)) -> Rounded {
        Rounded {
            width,
            heads: Vec::with_capacity(count * HEAD_BYTES),
            levels: Vec::with_capacity(count * width.code_bytes(dims)),
        }
    }

    /// Appends a vector; `base` tells from the squared length of what it was rounded to what ranking takes for that.
    pub(super) fn push(&mut self, vector: &[f32], base: impl FnOnce(f32) -> f32) {
        let largest = vector.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let largest = if largest.is_finite() { largest } else { 0.0 };
        let grid = match self.width {
            CodeWidth::Eight => Grid::new(largest, 127.0),
            CodeWidth::Four => {
                let grids = REACHES.map(|reach| Grid::new(largest * reach, 7.0));
                let least = |a: &Grid, b: &Grid| a.lost(vector).total_cmp(&b.lost(vector));
                grids.into_iter().min_by(least).unwrap_or(grids[0])
            }
        };
        let levels = || vector.iter().map(|value| grid.level(*value));
        let squares: i64 = levels().map(|level| i64::from(level).pow(2)).sum();
        self.append(levels());
        self.heads.extend_from_slice(&grid.step.to_le_bytes());
        let base = base(grid.step * grid.step * squares as f32);
        self.heads.extend_from_slice(&base.to_le_bytes());
    }

    /// As [`CodeWidth`] has them.
    fn append(&mut self, levels: impl ExactSizeIterator<Item = i8>) {
        let (zero, first) = (zero_level(self.width), self.levels.len());
        let bytes = self.width.code_bytes(levels.len());
        // The half byte that an odd number of dimensions leaves over: nothing.
        let padding = zero << 4;
        for (i, level) in levels.enumerate() {
            let level = level.wrapping_add_unsigned(zero) as u8;
            match i.checked_sub(bytes) {
                None if self.width == CodeWidth::Four => self.levels.push(level | padding),
                None => self.levels.push(level),
                Some(high) => {
                    let both = &mut self.levels[first + high];
                    *both = *both & 15 | level << 4;
                }
            }
        }
    }
}

/// Values that a vector is rounded to: `step` times a whole number, up to `most` times.
#[derive(Clone, Copy)]
struct Grid {
    step: f32,
    per_unit: f32,
    most: f32,
}

impl Grid {
    fn new(largest: f32, most: f32) -> Grid {
        let step = largest / most;
        let per_unit = if step > 0.0 { 1.0 / step } else { 0.0 };
        Grid { step, per_unit, most }
    }

    fn level(&self, value: f32) -> i8 {
        (value * self.per_unit).round().clamp(-self.most, self.most) as i8
    }

    /// The square of what rounding loses.
    fn lost(&self, vector: &[f32]) -> f32 {
        let lost = vector
            .iter()
            .map(|value| value - self.step * f32::from(self.level(*value)));
        lost.map(|lost| lost * lost).sum()
    }
}

impl RankedBuf {
    pub(crate) fn view(&self) -> Ranked<'_> {
        Ranked {
            dims: self.dims,
            width: self.width,
            mean: &self.mean,
            heads: &self.clusters.heads,
            levels: &self.clusters.levels,
            super_centroid_heads: &self.super_centroids.heads,
            super_centroid_levels: &self.super_centroids.levels,
        }
    }
}

/// One thread's query as centroids are compared with it.
#[derive(Debug, Default)]
pub(crate) struct RankQuery {
    /// In whole numbers, and one of them.
    levels: Vec<i8>,
    step: f32,
    total: i32,
    /// A centroid, under Manhattan.
    centroid: Vec<u8>,
    unpacked: Vec<u8>,
    /// Super-centroids with how far they are.
    pub(super) super_centroids: Vec<u64>,
}

impl<'a> Ranked<'a> {
    pub(crate) fn count(&self) -> usize {
        self.heads.len() / HEAD_BYTES
    }

    /// Bytes of a centroid's levels.
    pub(crate) fn code_bytes(&self) -> usize {
        self.width.code_bytes(self.dims)
    }

    /// A centroid's step and levels, for [`crate::quant::ResidualQuery::enter`]: each a byte, 128 for zero. Those of four bits are unpacked into `unpacked`.
    #[inline]
    pub(crate) fn parts<'b>(&self, cluster: u32, unpacked: &'b mut Vec<u8>) -> (f32, &'b [u8])
    where
        'a: 'b,
    {
        let bytes = self.code_bytes();
        let levels = &self.levels[cluster as usize * bytes..][..bytes];
        let step = float(self.heads, cluster as usize * HEAD_BYTES);
        if self.width == CodeWidth::Eight {
            return (step, levels);
        }
        unpacked.resize(2 * bytes, 0);
        let (low, high) = unpacked.split_at_mut(bytes);
        for ((low, high), both) in low.iter_mut().zip(high).zip(levels) {
            *low = (both & 15) + UNPACKED;
            *high = (both >> 4) + UNPACKED;
        }
        (step, &unpacked[..self.dims])
    }

    /// Takes the mean off a rotated vector.
    pub(crate) fn centre(&self, vector: &mut [f32]) {
        let mean = self.mean.as_chunks::<4>().0;
        vector
            .iter_mut()
            .zip(mean)
            .for_each(|(value, mean)| *value -= f32::from_le_bytes(*mean));
    }

    /// Adds the mean to a vector again.
    pub(crate) fn uncentre(&self, vector: &mut [f32]) {
        let mean = self.mean.as_chunks::<4>().0;
        let pairs = vector.iter_mut().zip(mean);
        pairs.for_each(|(value, mean)| *value += f32::from_le_bytes(*mean));
    }

    /// The distance that the mean alone has under dot product.
    pub(crate) fn product_with_mean(&self, vector: &[f32]) -> f32 {
        -ramlet_kernels::kernels().f32_row(Measure::Dot, vector, self.mean)
    }

    /// A centroid less the mean, in place of what `out` had.
    pub(crate) fn write(&self, cluster: u32, unpacked: &mut Vec<u8>, out: &mut Vec<f32>) {
        let (step, levels) = self.parts(cluster, unpacked);
        out.clear();
        out.extend(levels.iter().map(|level| step * (f32::from(*level) - 128.0)));
    }

    /// All clusters in `out`, each with how far it is from the rotated and centred query: see [`packed`].
    ///
    /// Under cosine by squared distance, as rows are assigned: the mean of a wide cluster of unit vectors is short, and
    /// a dot product would push it back.
    pub(crate) fn rank(
        &self,
        metric: Metric,
        query: &[f32],
        kernels: &Kernels,
        scratch: &mut RankQuery,
        out: &mut Vec<u64>,
    ) {
        if metric == Metric::Manhattan {
            out.clear();
            return self.rank_by_sums(query, kernels, scratch, out);
        }
        let terms = scratch.terms((metric, self.width), query, kernels);
        out.resize(self.count(), 0);
        self.near(&terms, &scratch.levels, 0, kernels, out);
    }

    /// The clusters from `first` on in `out`.
    pub(super) fn near(
        &self,
        terms: &Nearness,
        query: &[i8],
        first: usize,
        kernels: &Kernels,
        out: &mut [u64],
    ) {
        let mut products = [0i32; PRODUCTS];
        let bytes = self.code_bytes();
        let parts = self.levels[first * bytes..]
            .chunks(PRODUCTS * bytes)
            .zip(self.heads.as_chunks::<HEAD_BYTES>().0[first..].chunks(PRODUCTS));
        let parts = parts
            .zip(out.chunks_mut(PRODUCTS))
            .zip((first..).step_by(PRODUCTS));
        for (((levels, heads), out), first) in parts {
            let products = &mut products[..out.len()];
            let (levels, heads) = (&levels[..out.len() * bytes], &heads[..out.len()]);
            kernels.dot_codes(self.width, query, levels, bytes, products);
            kernels.nearness(terms, products, heads, first as u32, out);
        }
    }

    fn rank_by_sums(&self, query: &[f32], kernels: &Kernels, scratch: &mut RankQuery, out: &mut Vec<u64>) {
        for cluster in 0..self.count() as u32 {
            let (step, levels) = self.parts(cluster, &mut scratch.unpacked);
            scratch.centroid.clear();
            let values = levels.iter().map(|level| step * (f32::from(*level) - 128.0));
            scratch.centroid.extend(values.flat_map(f32::to_le_bytes));
            out.push(packed(
                kernels.f32_row(Measure::L1, query, &scratch.centroid),
                cluster,
            ));
        }
    }
}

/// What makes a level of four bits one of a byte.
const UNPACKED: u8 = 128 - 8;

/// Products with bytes and entries up to so much take half the instructions on some processors; rounding is off by a hundredth of what
/// tells centroids apart.
const ENTRY_MOST: f32 = 64.0;
/// With half bytes any does.
const ENTRY_MOST_OF_FOUR_BITS: f32 = 127.0;

impl RankQuery {
    /// Takes a rotated and centred query; what is made of products with it.
    pub(super) fn terms(
        &mut self,
        (metric, width): (Metric, CodeWidth),
        query: &[f32],
        kernels: &Kernels,
    ) -> Nearness {
        self.round(width, query, kernels);
        let (per_length, per_product) = if metric == Metric::Dot {
            (0.0, -1.0)
        } else {
            (1.0, -2.0)
        };
        Nearness {
            per_length,
            per_product: per_product * self.step,
            less: i32::from(zero_level(width)) * self.total,
        }
    }

    /// The last query, in whole numbers.
    pub(super) fn levels(&self) -> &[i8] {
        &self.levels
    }

    fn round(&mut self, width: CodeWidth, query: &[f32], kernels: &Kernels) {
        let largest = query.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        self.step = match width {
            CodeWidth::Four => largest / ENTRY_MOST_OF_FOUR_BITS,
            CodeWidth::Eight => largest / ENTRY_MOST,
        };
        let per_unit = if self.step > 0.0 { 1.0 / self.step } else { 0.0 };
        let bytes = width.code_bytes(query.len());
        self.levels.clear();
        self.levels.resize(width.query_len(bytes), 0);
        (self.total, _) = kernels.round(query, per_unit, &mut self.levels[..query.len()]);
    }
}

pub(super) fn float(bytes: &[u8], at: usize) -> f32 {
    f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::random::Random;

    /// About normal, as the values of rotated vectors are.
    fn normal(random: &mut Random) -> f32 {
        (0..12).map(|_| random.below(2001) as f32 - 1000.0).sum::<f32>() / 2000.0
    }

    /// Means of some rows, rotated already.
    fn ranked(metric: Metric, dims: usize, random: &mut Random) -> (RankedBuf, Vec<Vec<f32>>) {
        const COUNT: usize = 600;
        let width = width_of(metric, dims);
        let mut clusters = Rounded::with_capacity(COUNT, (width, dims));
        let vectors: Vec<Vec<f32>> = (0..COUNT)
            .map(|_| (0..dims).map(|_| normal(random)).collect())
            .collect();
        vectors
            .iter()
            .for_each(|vector| clusters.push(vector, |square| square));
        let ranked = RankedBuf {
            dims,
            width,
            mean: vec![0; dims * 4],
            clusters,
            super_centroids: Rounded::with_capacity(0, (width, dims)),
        };
        (ranked, vectors)
    }

    #[test]
    fn centroids_of_half_bytes_lose_little_and_are_ranked_as_they_are_told() {
        let mut random = Random::new(6);
        for (metric, dims, width) in [
            (Metric::Cosine, 255, CodeWidth::Eight),
            (Metric::Manhattan, 300, CodeWidth::Eight),
            (Metric::Cosine, 256, CodeWidth::Four),
            (Metric::Euclid, 301, CodeWidth::Four),
            (Metric::Dot, 768, CodeWidth::Four),
        ] {
            assert_eq!(width_of(metric, dims), width, "{metric:?} {dims}");
            let (buf, vectors) = ranked(metric, dims, &mut random);
            let view = buf.view();
            assert_eq!(view.levels.len(), vectors.len() * width.code_bytes(dims));
            let (mut unpacked, mut told) = (Vec::new(), Vec::new());
            let (mut lost, mut all) = (0.0, 0.0);
            for (vector, cluster) in vectors.iter().zip(0..) {
                view.write(cluster, &mut unpacked, &mut told);
                assert_eq!(told.len(), dims);
                lost += vector
                    .iter()
                    .zip(&told)
                    .map(|(a, b)| (a - b).powi(2))
                    .sum::<f32>();
                all += vector.iter().map(|value| value * value).sum::<f32>();
                let square: f32 = told.iter().map(|value| value * value).sum();
                let base = view.base(cluster as usize);
                assert!((square - base).abs() < 1e-4 * square, "{base} for {square}");
            }
            let most = if width == CodeWidth::Four { 0.016 } else { 1e-3 };
            assert!(lost < most * all, "{dims}: {} is lost", lost / all);
            let query: Vec<f32> = (0..dims).map(|_| normal(&mut random)).collect();
            let (mut scratch, mut out) = (RankQuery::default(), Vec::new());
            for kernels in Kernels::all_available() {
                view.rank(metric, &query, kernels, &mut scratch, &mut out);
                for (at, both) in out.iter().enumerate() {
                    let (distance, cluster) = ramlet_kernels::unpacked(*both);
                    assert_eq!(at, cluster as usize);
                    view.write(cluster, &mut unpacked, &mut told);
                    let product: f32 = query.iter().zip(&told).map(|(a, b)| a * b).sum();
                    let wanted = match metric {
                        Metric::Dot => -product,
                        Metric::Manhattan => query.iter().zip(&told).map(|(a, b)| (a - b).abs()).sum(),
                        _ => view.base(at) - 2.0 * product,
                    };
                    // The query is rounded too: five deviations of what that makes.
                    let steps = if width == CodeWidth::Four { 127.0 } else { 64.0 };
                    let off = 5.0 * 2.0 * (dims as f32 / 12.0).sqrt() * 3.6 / steps;
                    assert!(
                        (distance - wanted).abs() < off,
                        "{metric:?} {dims}: {distance}, {wanted}"
                    );
                }
            }
        }
    }
}
