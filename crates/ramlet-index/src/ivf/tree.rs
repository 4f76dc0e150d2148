//! Clusters in two levels, so that assignment costs about the root of their number.

use ramlet_kernels::{INTERLEAVED_CODES, Nearest, Nearness, kernels};

use super::kmeans::{FAR, Level, block_points};
use super::points::{PointQueries, Points};
use crate::centroids::Centroids;

/// Up to this many clusters are one level: comparing with all is cheap.
pub(super) const ONE_LEVEL_MAX: usize = 256;

/// Share of the super-centroids (one in this many) whose leaves a point is compared with, and the fewest super-centroids.
const SUPER_CENTROIDS_SHARE: usize = 8;
const SUPER_CENTROIDS_MIN: usize = 8;

/// `leaves` are the clusters; those of one super-centroid lie together, so that neighbouring numbers lie near each other.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// None if there is one level only.
    pub(super) super_centroids: Level,
    /// The leaves of super-centroid `i`: `starts[i]..starts[i + 1]`.
    pub(super) starts: Vec<u32>,
    pub(super) leaves: Level,
}

/// One thread's memory for [`Tree::assign`]: some 100 KB.
#[derive(Debug, Default)]
pub(super) struct AssignScratch {
    pub(super) points: PointQueries,
    /// Each point's leaf.
    nearest: Vec<Nearest>,
    /// What the kernels need of the super-centroids beside their codes.
    heads: Vec<[u8; 8]>,
    /// Of one point.
    products: Vec<i32>,
    distances: Vec<u64>,
    /// The super-centroids that each point visits; for each super-centroid where its points begin; and the points by super-centroid.
    visited: Vec<u32>,
    starts: Vec<u32>,
    visitors: Vec<u32>,
}

impl Tree {
    /// One level.
    pub(super) fn flat(leaves: Level) -> Tree {
        Tree {
            super_centroids: Level::default(),
            starts: vec![0, leaves.count() as u32],
            leaves,
        }
    }

    pub(super) fn centroids(&self) -> &Centroids {
        &self.leaves.centroids
    }

    pub(super) fn leaves_of(&self, super_centroid: usize) -> std::ops::Range<usize> {
        self.starts[super_centroid] as usize..self.starts[super_centroid + 1] as usize
    }

    /// The leaf of each of the points that `scratch` has, the nearest among the leaves of the nearest super-centroids; and its squared distance.
    ///
    /// Super-centroid by super-centroid, so that a super-centroid's leaves are brought near once for all points that visit it. (Point by point they would come from the
    /// second cache each time.)
    pub(super) fn assign<'s>(
        &'s self,
        scratch: &'s mut AssignScratch,
    ) -> impl Iterator<Item = (u32, f32)> + 's {
        let count = scratch.points.count();
        scratch.nearest.clear();
        scratch.nearest.resize(count, FAR);
        if self.starts.len() <= 2 {
            let all = 0..self.leaves.count();
            self.leaves
                .nearest(&scratch.points, 0..count as u32, all, &mut scratch.nearest);
        } else {
            self.rank_super_centroids(scratch);
            let AssignScratch {
                points,
                nearest,
                starts,
                visitors,
                ..
            } = scratch;
            // In the super-centroids' order: of equals the lower number is found.
            for (super_centroid, visitors) in starts
                .windows(2)
                .map(|pair| &visitors[pair[0] as usize..pair[1] as usize])
                .enumerate()
            {
                self.leaves.nearest(
                    points,
                    visitors.iter().copied(),
                    self.leaves_of(super_centroid),
                    nearest,
                );
            }
        }
        let AssignScratch { points, nearest, .. } = scratch;
        let leaves = nearest.iter().enumerate();
        leaves.map(move |(i, leaf)| {
            let distance = leaf.score - self.leaves.prices[leaf.code as usize] + points.square(i);
            (leaf.code, distance.max(0.0))
        })
    }

    /// Which points visit which super-centroids.
    fn rank_super_centroids(&self, scratch: &mut AssignScratch) {
        let AssignScratch {
            points,
            heads,
            products,
            distances,
            visited,
            starts,
            visitors,
            ..
        } = scratch;
        let (table, super_centroids) = (
            kernels(),
            self.super_centroids
                .centroids
                .interleaved_blocks(&self.super_centroids.base),
        );
        let count = self.super_centroids.count();
        heads.clear();
        let each = super_centroids.scales.iter().zip(super_centroids.bases);
        heads.extend(each.map(|(scale, base)| {
            let [a, b, c, d] = scale.to_le_bytes();
            let [e, f, g, h] = base.to_le_bytes();
            [a, b, c, d, e, f, g, h]
        }));
        products.resize(count.next_multiple_of(INTERLEAVED_CODES), 0);
        distances.resize(count, 0);
        let share = (count / SUPER_CENTROIDS_SHARE)
            .max(SUPER_CENTROIDS_MIN)
            .min(count);
        visited.clear();
        starts.clear();
        starts.resize(count + 1, 0);
        for i in 0..points.count() {
            let query = points.distances(i);
            table.dot_interleaved(query.levels, super_centroids.codes, products);
            let terms = Nearness {
                per_length: 1.0,
                per_product: query.per_product,
                less: query.less,
            };
            table.nearness(&terms, &products[..count], heads, 0, distances);
            if share < count {
                distances.select_nth_unstable(share);
            }
            for distance in &distances[..share] {
                let super_centroid = *distance as u32;
                visited.push(super_centroid);
                starts[super_centroid as usize] += 1;
            }
        }
        // Each start is first the end, and goes down as points are put before it.
        let mut end = 0;
        for start in starts.iter_mut() {
            end += *start;
            *start = end;
        }
        visitors.clear();
        visitors.resize(visited.len(), 0);
        for (i, super_centroids) in visited.chunks_exact(share).enumerate().rev() {
            for super_centroid in super_centroids {
                let start = &mut starts[*super_centroid as usize];
                *start -= 1;
                visitors[*start as usize] = i as u32;
            }
        }
    }

    /// The leaf of each point, by all threads.
    pub(super) fn assign_all(&self, points: Points<'_>, clusters: &mut [u32], threads: usize) {
        let share = points.count().div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let shares = points.bytes.chunks(share * points.stride());
            for (bytes, clusters) in shares.zip(clusters.chunks_mut(share)) {
                scope.spawn(move || {
                    let mut scratch = AssignScratch::default();
                    let block = block_points(points.dims);
                    let blocks = bytes.chunks(block * points.stride());
                    for (bytes, clusters) in blocks.zip(clusters.chunks_mut(block)) {
                        scratch.points.clear(points.dims);
                        let points = Points { bytes, ..points };
                        points
                            .iter()
                            .for_each(|(codes, scale)| scratch.points.push(codes, scale));
                        for (cluster, (leaf, _)) in clusters.iter_mut().zip(self.assign(&mut scratch)) {
                            *cluster = leaf;
                        }
                    }
                });
            }
        });
    }

    /// Drops the leaves that have no rows, and notes the spreads of the others, whose rows' squared distances are given;
    /// what their numbers become.
    pub(super) fn drop_empty(&mut self, counts: &mut Vec<u32>, distances: &[f64]) -> Vec<u32> {
        let sums = counts.iter().zip(distances).filter(|(count, _)| **count > 0);
        let spreads = sums
            .map(|(count, sum)| (sum / f64::from(*count)) as f32)
            .collect();
        let mut numbers = Vec::with_capacity(counts.len());
        self.keep(|leaf, place| {
            numbers.push(place as u32);
            counts[leaf] > 0
        });
        self.leaves.centroids.set_spreads(spreads);
        counts.retain(|count| *count > 0);
        numbers
    }

    /// Drops the leaves that `is_kept` doesn't want, which hears of each where it would lie. No other tree is made beside this one.
    pub(super) fn keep(&mut self, mut is_kept: impl FnMut(usize, usize) -> bool) {
        let (mut kept, mut leaf) = (0, 0);
        for end in &mut self.starts[1..] {
            while leaf < *end as usize {
                if is_kept(leaf, kept) {
                    self.leaves.move_to(leaf, kept);
                    kept += 1;
                }
                leaf += 1;
            }
            *end = kept as u32;
        }
        self.leaves.resize(kept);
    }
}
