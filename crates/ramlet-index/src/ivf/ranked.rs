//! Centroids as searches compare them: rotated, less their mean, in bytes.

use ramlet_kernels::{CodeWidth, Kernels, Measure, Nearness, packed};

use super::super_centroids;
use crate::Metric;
use crate::centroids::{Centroids, handicap};
use crate::quant::Rotation;

/// Bytes in front of a centroid's levels: its step f32, and its squared length with its handicap f32.
pub(super) const HEAD_BYTES: usize = 8;

/// Products that are kept until distances are made of them: the kernels fetch ahead within what they get.
const PRODUCTS: usize = 512;

/// The centroids of an index. Each is `mean + step * (levels - 128)`, and that is what residuals are taken from.
///
/// `dims * 4` bytes for the mean and `dims + 8` per centroid. The mean is taken off because vectors may lie far from
/// the origin, all on one side: the levels would then tell nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranked<'a> {
    pub(crate) dims: usize,
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
    dims: usize,
    mean: Vec<u8>,
    clusters: Rounded,
    super_centroids: Rounded,
}

/// Vectors in bytes, each with its head.
#[derive(Debug, Default)]
pub(super) struct Rounded {
    pub(super) heads: Vec<u8>,
    pub(super) levels: Vec<u8>,
}

impl Rounded {
    pub(super) fn with_capacity(count: usize, dims: usize) -> Rounded {
        Rounded {
            heads: Vec::with_capacity(count * HEAD_BYTES),
            levels: Vec::with_capacity(count * dims),
        }
    }

    /// Appends a vector; `base` tells from the squared length of what it was rounded to what ranking takes for that.
    pub(super) fn push(&mut self, vector: &[f32], base: impl FnOnce(f32) -> f32) {
        let largest = vector.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let step = if largest.is_finite() { largest / 127.0 } else { 0.0 };
        let per_unit = if step > 0.0 { 1.0 / step } else { 0.0 };
        let levels = vector.iter().map(|value| (value * per_unit).round() as i8);
        let squares: i64 = levels.clone().map(|level| i64::from(level).pow(2)).sum();
        self.levels.extend(levels.map(|level| level as u8 ^ 128));
        self.heads.extend_from_slice(&step.to_le_bytes());
        let base = base(step * step * squares as f32);
        self.heads.extend_from_slice(&base.to_le_bytes());
    }
}

impl RankedBuf {
    /// Rotates (unless it is `None`) and rounds.
    pub(crate) fn new(
        centroids: &Centroids,
        (metric, dims): (Metric, usize),
        rotation: Option<&Rotation>,
    ) -> RankedBuf {
        let count = centroids.count();
        let mut sums = vec![0.0f64; dims];
        for i in 0..count {
            centroids
                .row(i)
                .zip(&mut sums)
                .for_each(|(value, sum)| *sum += f64::from(value));
        }
        let mut mean: Vec<f32> = sums
            .iter()
            .map(|sum| (sum / count.max(1) as f64) as f32)
            .collect();
        let mut clusters = Rounded::with_capacity(count, dims);
        let (mut vector, mut mixing) = (Vec::with_capacity(dims), Vec::new());
        for i in 0..count {
            vector.clear();
            vector.extend(centroids.row(i).zip(&mean).map(|(value, mean)| value - mean));
            if let Some(rotation) = rotation {
                rotation.apply(&mut vector, &mut mixing);
            }
            clusters.push(&vector, |square| square + handicap(centroids.spread(i)));
        }
        if let Some(rotation) = rotation {
            rotation.apply(&mut mean, &mut mixing);
        }
        let mut ranked = RankedBuf {
            dims,
            mean: mean.iter().flat_map(|value| value.to_le_bytes()).collect(),
            clusters,
            super_centroids: Rounded::default(),
        };
        ranked.super_centroids = super_centroids::of(&ranked.view(), metric);
        ranked
    }

    pub(crate) fn view(&self) -> Ranked<'_> {
        Ranked {
            dims: self.dims,
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
    /// Super-centroids with how far they are.
    pub(super) super_centroids: Vec<u64>,
}

impl<'a> Ranked<'a> {
    pub(crate) fn count(&self) -> usize {
        self.heads.len() / HEAD_BYTES
    }

    /// A centroid's step and levels, for [`crate::quant::Entered::enter`].
    #[inline]
    pub(crate) fn parts(&self, cluster: u32) -> (f32, &'a [u8]) {
        let levels = &self.levels[cluster as usize * self.dims..][..self.dims];
        (float(self.heads, cluster as usize * HEAD_BYTES), levels)
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
    pub(crate) fn write(&self, cluster: u32, out: &mut Vec<f32>) {
        let (step, levels) = self.parts(cluster);
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
        let terms = scratch.terms(metric, query);
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
        let parts = self.levels[first * self.dims..]
            .chunks(PRODUCTS * self.dims)
            .zip(self.heads.as_chunks::<HEAD_BYTES>().0[first..].chunks(PRODUCTS));
        let parts = parts
            .zip(out.chunks_mut(PRODUCTS))
            .zip((first..).step_by(PRODUCTS));
        for (((levels, heads), out), first) in parts {
            let products = &mut products[..out.len()];
            let (levels, heads) = (&levels[..out.len() * self.dims], &heads[..out.len()]);
            kernels.dot_codes(CodeWidth::Eight, query, levels, self.dims, products);
            kernels.nearness(terms, products, heads, first as u32, out);
        }
    }

    fn rank_by_sums(&self, query: &[f32], kernels: &Kernels, scratch: &mut RankQuery, out: &mut Vec<u64>) {
        for cluster in 0..self.count() as u32 {
            let (step, levels) = self.parts(cluster);
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

/// Products with entries up to so much take half the instructions on some processors; rounding is off by a hundredth of what
/// tells centroids apart.
const ENTRY_MOST: f32 = 64.0;

impl RankQuery {
    /// Takes a rotated and centred query; what is made of products with it.
    pub(super) fn terms(&mut self, metric: Metric, query: &[f32]) -> Nearness {
        self.round(query);
        let (per_length, per_product) = if metric == Metric::Dot {
            (0.0, -1.0)
        } else {
            (1.0, -2.0)
        };
        Nearness {
            per_length,
            per_product: per_product * self.step,
            less: 128 * self.total,
        }
    }

    /// The last query, in whole numbers.
    pub(super) fn levels(&self) -> &[i8] {
        &self.levels
    }

    fn round(&mut self, query: &[f32]) {
        let largest = query.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        self.step = largest / ENTRY_MOST;
        let per_unit = if self.step > 0.0 { 1.0 / self.step } else { 0.0 };
        self.levels.clear();
        self.levels
            .extend(query.iter().map(|value| (value * per_unit).round() as i8));
        self.total = self.levels.iter().map(|level| i32::from(*level)).sum();
    }
}

pub(super) fn float(bytes: &[u8], at: usize) -> f32 {
    f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
