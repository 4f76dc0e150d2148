//! Super-centroids: runs of adjacent clusters. A search that visits few clusters ranks super-centroids first, then only the clusters of the
//! nearest.
//!
//! Clusters are in an order in which neighbours lie near each other (see `order`), so any run of it is a super-centroid: a super-centroid is told by
//! the number of its first cluster, and takes no list. What is ranked is the mean of its centroids. Their spread around it counts
//! in part, as the spread of rows does (see `centroids`): a super-centroid's distance is by [`WIDTH_SHARE`] of it greater than that of the mean.
//! 1M x 100, 31 of 8,000 clusters visited, the share of these that lie in the nearest fifth and three tenths of the super-centroids
//! (simulated): .988 and .996 of queries like the data, .971 and .988 of hard ones; with the whole spread or none of it half as
//! many again are elsewhere.
//!
//! How many super-centroids it takes is measured with how many clusters (see `probe_threshold`): where the order is no good, all are ranked.
//!
//! Centroids on two levels: Nistér and Stewénius, "Scalable Recognition with a Vocabulary Tree" (2006), section 3. Here the upper one
//! is made of the lower one's order, and all that it says is which clusters are worth a look.

use ramlet_kernels::Kernels;

use super::ranked::{HEAD_BYTES, RankQuery, Ranked, Rounded, float, width_of};
use crate::Metric;
use crate::search::calibration::ALL_SUPER_CENTROIDS;

/// Clusters of a super-centroid; the last has fewer.
pub(crate) const RUN: usize = 16;

/// So many clusters have super-centroids: fewer are ranked in the time of a read from RAM or two.
const FROM: usize = 1_024;

/// How much of the spread of its centroids a super-centroid is taken to be farther away than their mean is.
const WIDTH_SHARE: f32 = 0.5;

/// How far ahead of what is compared its clusters are fetched into the processor's cache.
const AHEAD: usize = 2;

/// Visiting a cluster takes as long as ranking so many (1M x 100 at recall .90 to .95 from codes in RAM: 930 and 2.7 ns, all that
/// grows with either).
const VISIT: f64 = 256.0;

/// Of the clusters so many are worth ranking by super-centroids.
const WORTH: f64 = 0.7;

/// Super-centroids of so many clusters, which are ranked before these are. Under Manhattan means of runs tell nothing, nor do products.
pub fn count(clusters: usize, metric: Metric) -> usize {
    match clusters >= FROM && metric != Metric::Manhattan {
        true => clusters.div_ceil(RUN),
        false => 0,
    }
}

/// Bytes that the super-centroids of so many clusters take.
pub(crate) fn bytes(clusters: usize, metric: Metric, dims: usize) -> usize {
    count(clusters, metric) * (HEAD_BYTES + width_of(metric, dims).code_bytes(dims))
}

/// The super-centroids of these clusters.
pub(super) fn of(ranked: &Ranked<'_>, metric: Metric) -> Rounded {
    let (clusters, dims) = (ranked.count(), ranked.dims);
    let super_centroids = count(clusters, metric);
    let mut all = Rounded::with_capacity(super_centroids, (ranked.width, dims));
    let (mut sum, mut vector) = (vec![0.0f32; dims], Vec::with_capacity(dims));
    let mut unpacked = Vec::new();
    for first in (0..clusters).step_by(RUN).take(super_centroids) {
        sum.fill(0.0);
        let run = first..clusters.min(first + RUN);
        let per = 1.0 / run.len() as f32;
        let mut bases = 0.0;
        for cluster in run {
            ranked.write(cluster as u32, &mut unpacked, &mut vector);
            sum.iter_mut()
                .zip(&vector)
                .for_each(|(sum, value)| *sum += value * per);
            bases += ranked.base(cluster) * per;
        }
        all.push(&sum, |square| square + WIDTH_SHARE * (bases - square));
    }
    all
}

/// By how much less each super-centroid's distance is than the mean of its clusters' distances.
pub(super) fn less_than_mean(ranked: &Ranked<'_>, metric: Metric) -> Vec<f32> {
    let (clusters, super_centroids) = (ranked.count(), ranked.super_centroid_heads.len() / HEAD_BYTES);
    let less = |super_centroid: usize| {
        let run = super_centroid * RUN..clusters.min((super_centroid + 1) * RUN);
        let count = run.len() as f32;
        let mean = run.map(|cluster| ranked.base(cluster) / count).sum::<f32>();
        match metric {
            Metric::Dot => 0.0,
            _ => mean - float(ranked.super_centroid_heads, super_centroid * HEAD_BYTES + 4),
        }
    };
    (0..super_centroids).map(less).collect()
}

/// How many super-centroids to rank for `probes` clusters visited, which find all but `missing` of the neighbours if all are ranked. `beyond`
/// tells what share of the neighbours is found by clusters that lie beyond the nearest `n` super-centroids.
///
/// Neighbours missed fall as one over the clusters visited, so what is lost here costs so much more there. `most` clusters may be
/// visited, which shall be there.
pub(super) fn enough(
    (probes, most): (usize, usize),
    missing: f64,
    super_centroids: usize,
    beyond: impl Fn(usize) -> f64,
) -> u32 {
    let cost = |super_centroids: usize| {
        (RUN * super_centroids) as f64 + VISIT * probes as f64 * beyond(super_centroids) / missing
    };
    let best = (most.div_ceil(RUN)..=super_centroids).min_by(|a, b| cost(*a).total_cmp(&cost(*b)));
    let of_all = (RUN * super_centroids) as f64;
    match best {
        Some(best) if super_centroids as f64 + cost(best) <= WORTH * of_all => best as u32,
        _ => ALL_SUPER_CENTROIDS,
    }
}

impl<'a> Ranked<'a> {
    /// The super-centroids as if they were clusters.
    fn super_centroids(&self) -> Ranked<'a> {
        Ranked {
            heads: self.super_centroid_heads,
            levels: self.super_centroid_levels,
            super_centroid_heads: &[],
            super_centroid_levels: &[],
            ..*self
        }
    }

    /// Whether `super_centroids` super-centroids are fewer than there are.
    pub(crate) fn has_more_super_centroids_than(&self, super_centroids: u32) -> bool {
        (super_centroids as usize) < self.super_centroid_heads.len() / HEAD_BYTES
    }

    /// What ranking takes for a cluster's squared length.
    pub(super) fn base(&self, cluster: usize) -> f32 {
        float(self.heads, cluster * HEAD_BYTES + 4)
    }

    /// As [`Ranked::rank`], but only the clusters of the nearest `count` super-centroids, which are fewer than all, in place of what `out` had.
    pub(crate) fn rank_nearest_super_centroids(
        &self,
        (metric, count): (Metric, u32),
        query: &[f32],
        kernels: &Kernels,
        scratch: &mut RankQuery,
        out: &mut Vec<u64>,
    ) {
        let terms = scratch.terms((metric, self.width), query, kernels);
        let mut nearest = std::mem::take(&mut scratch.super_centroids);
        let super_centroids = self.super_centroids();
        nearest.resize(super_centroids.count(), 0);
        super_centroids.near(&terms, scratch.levels(), 0, kernels, &mut nearest);
        let count = count as usize;
        nearest.select_nth_unstable(count);
        let chosen = &mut nearest[..count];
        chosen.sort_unstable_by_key(|super_centroid| *super_centroid as u32);
        out.clear();
        // Once: how many they are differs from search to search.
        out.reserve(self.count());
        let run = |super_centroid: u64| {
            let first = super_centroid as u32 as usize * RUN;
            first..self.count().min(first + RUN)
        };
        for (at, super_centroid) in chosen.iter().enumerate() {
            if let Some(next) = chosen.get(at + AHEAD) {
                let next = run(*next);
                let bytes = self.code_bytes();
                Kernels::prefetch(&self.levels[next.start * bytes..next.end * bytes]);
            }
            let (from, run) = (out.len(), run(*super_centroid));
            out.resize(from + run.len(), 0);
            self.near(&terms, scratch.levels(), run.start, kernels, &mut out[from..]);
        }
        scratch.super_centroids = nearest;
    }
}
