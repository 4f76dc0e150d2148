//! Trains clusters on a sample on disk: memory doesn't grow with the sample.
//!
//! A part of the sample is clustered into about `sqrt(k)` super-centroids; the whole of it goes to one bucket per super-centroid on disk;
//! each super-centroid is then read and clustered on its own, into as many leaves as its share of the sample. A few rounds of
//! k-means over all leaves smooth the boundaries of the super-centroids away and even out the sizes.

use ramlet_io::Storage;

use super::kmeans::{Level, Round, kmeans};
use super::order::{Order, bisect};
use super::points::{POINT_TAIL, Points, append_point};
use super::rebalance::rebalance;
use super::spill::{BucketWriter, Buckets, ListWriter};
use super::tree::{ONE_LEVEL_MAX, Tree};
use crate::build::progress::{Phase, Progress};
use crate::build::random::Random;
use crate::centroids::SeedCentroids;
use crate::error::Result;

/// Points per super-centroid that the super-centroids are computed from, at most.
const POINTS_PER_SUPER_CENTROID: usize = 256;

/// Rounds of k-means over the super-centroids, over the leaves of a super-centroid, and over all leaves.
const SUPER_CENTROID_ROUNDS: usize = 10;
pub(super) const LEAF_ROUNDS: usize = 8;
const GLOBAL_ROUNDS: usize = 4;
/// Points in memory for each cluster with which leaves begin near their place.
const POINTS_PER_LEAF: usize = 8;
/// Rounds over all leaves where there are fewer. (60,000 x 1,536 in 0.74 MiB, 166 clusters of 167 points: 5,800 rows hold .958 of the neighbours
/// after 4 rounds, .972 after 12.)
const GLOBAL_ROUNDS_OF_FEW_POINTS: usize = 12;

/// Rounds over all leaves after the first when clusters are reused.
const REUSE_ROUNDS: usize = 2;

/// Fewest clusters that are worth reusing, as one in so many of those wanted: each is split once or twice.
const REUSED_MIN: usize = 3;

/// Mean squared way of the centroids in a round, per mean squared distance, beyond which clusters aren't reused. With 64
/// points each they move by 1/64 of it by chance alone.
const DRIFT_MAX: f32 = 0.1;

/// Clusters summed at a time at least: with fewer the sample would be read dozens of times a round. (Some hundred are trained in the least scratch.)
const SUMMED_LEAST: usize = 16;

/// Centroids of another index that are looked at at a time.
const SEEDS_AT_ONCE: usize = 256;

/// Buffer of the list of the sample's clusters.
const LIST_BUFFER_BYTES: usize = 16 << 10;

/// What is trained, and with what.
pub(super) struct Training<'t> {
    /// The sample: one bucket of points.
    pub(super) sample: &'t Buckets<'t>,
    pub(super) points: usize,
    pub(super) origin: &'t [f32],
    pub(super) clusters: usize,
    /// So many there is room for. (An index that is reused may have more: it was made in a larger budget, or of clusters that were divided.)
    pub(super) clusters_most: usize,
    pub(super) scratch_bytes: usize,
    /// Beside that, for centroids alone.
    pub(super) centroid_bytes: usize,
    pub(super) threads: usize,
    pub(super) seed: u64,
    pub(super) spill: &'t dyn Storage,
    pub(super) progress: Progress<'t>,
}

impl Training<'_> {
    pub(super) fn run(&self) -> Result<Tree> {
        if self.clusters <= ONE_LEVEL_MAX {
            let wanted = self.clusters * POINTS_PER_SUPER_CENTROID;
            let part = self.part(self.sample, 0, self.points, self.room_points().min(wanted))?;
            let leaves = kmeans(
                self.points(&part),
                self.origin,
                (self.clusters, self.sums_bytes(), 0),
                SUPER_CENTROID_ROUNDS,
                self.threads,
                self.seed,
            );
            return self.refine(Tree::flat(ordered(&leaves)), self.global_rounds());
        }
        let super_centroids = self.super_centroids()?;
        let (buckets, counts) = self.distribute(&super_centroids)?;
        let tree = self.leaves(super_centroids, &buckets, &counts)?;
        drop(buckets);
        self.refine(tree, self.global_rounds())
    }

    fn steps(&self) -> u64 {
        3 + self.global_rounds() as u64
    }

    /// Where leaves begin at a few points each, more rounds over all move them to their place.
    fn global_rounds(&self) -> usize {
        match self.room_points() < POINTS_PER_LEAF * self.clusters {
            true => GLOBAL_ROUNDS_OF_FEW_POINTS,
            false => GLOBAL_ROUNDS,
        }
    }

    /// The clusters of another set of rows, where they suit these: moved, the large ones split, the small ones gone.
    /// `None` if the rows have drifted away from them.
    pub(super) fn reuse(&self, seeds: &dyn SeedCentroids) -> Result<Option<Tree>> {
        let count = seeds.count();
        if count < self.clusters / REUSED_MIN || count > self.clusters_most || !self.may_refine(self.clusters)
        {
            return Ok(None);
        }
        let mut tree = self.grouped(seeds);
        let round = self.round(&mut tree)?;
        if round.drift() > DRIFT_MAX {
            return Ok(None);
        }
        tree = self.next(tree, round, true);
        self.refine(tree, REUSE_ROUNDS).map(Some)
    }

    /// The seeds as a tree.
    fn grouped(&self, seeds: &dyn SeedCentroids) -> Tree {
        let mut grouped = Level::with_capacity(self.origin, self.clusters.max(seeds.count()));
        let relative = |i: usize| {
            let mut vector = Vec::new();
            seeds.write(i, &mut vector);
            let values = vector.iter_mut().zip(self.origin);
            values.for_each(|(value, origin)| *value -= origin);
            vector
        };
        if seeds.count() <= ONE_LEVEL_MAX {
            (0..seeds.count()).for_each(|i| grouped.push_relative(&relative(i), 0.0));
            return Tree::flat(grouped);
        }
        let points_of = |numbers: &mut dyn Iterator<Item = usize>| {
            let mut stored = Vec::new();
            numbers.for_each(|i| append_point(&relative(i), &mut stored));
            stored
        };
        // All of them, or as many as there is room for.
        let step = seeds.count().div_ceil(self.room_points());
        let some = points_of(&mut (0..seeds.count()).step_by(step));
        let count = seeds.count().isqrt();
        let super_centroids = ordered(&kmeans(
            self.points(&some),
            self.origin,
            (count, self.sums_bytes(), 0),
            SUPER_CENTROID_ROUNDS,
            self.threads,
            self.seed,
        ));
        drop(some);
        let (upper, mut super_centroid_of) = (Tree::flat(super_centroids.clone()), vec![0; seeds.count()]);
        for (piece, first) in super_centroid_of
            .chunks_mut(SEEDS_AT_ONCE)
            .zip((0..).step_by(SEEDS_AT_ONCE))
        {
            let stored = points_of(&mut (first..first + piece.len()));
            upper.assign_all(self.points(&stored), piece, self.threads);
        }
        let mut order: Vec<(u32, u32)> = super_centroid_of.into_iter().zip(0..).collect();
        order.sort_unstable();
        order
            .iter()
            .for_each(|(_, leaf)| grouped.push_relative(&relative(*leaf as usize), 0.0));
        let start = |super_centroid| order.partition_point(|(own, _)| *own < super_centroid) as u32;
        Tree {
            starts: (0..=super_centroids.count() as u32).map(start).collect(),
            super_centroids,
            leaves: grouped,
        }
    }

    fn stride(&self) -> usize {
        self.origin.len() + POINT_TAIL
    }

    fn points<'b>(&self, bytes: &'b [u8]) -> Points<'b> {
        let dims = self.origin.len();
        Points { bytes, dims }
    }

    /// Points that are clustered in memory at a time, at most.
    fn room_points(&self) -> usize {
        (self.scratch_bytes / 3 / (self.stride() + 8)).max(1)
    }

    /// What sums of them may take.
    fn sums_bytes(&self) -> usize {
        self.scratch_bytes / 4
    }

    /// `wanted` of the bucket's `count` points, evenly chosen by lot.
    fn part(&self, buckets: &Buckets<'_>, bucket: usize, count: usize, wanted: usize) -> Result<Vec<u8>> {
        let mut random = Random::new(self.seed ^ (bucket as u64 + 1) << 32);
        let (mut left, mut needed) = (count, wanted.min(count));
        let mut part = Vec::with_capacity(needed * self.stride());
        buckets.for_each_piece(bucket, |piece| {
            for point in piece.chunks_exact(self.stride()) {
                if (random.below(left.max(1) as u64) as usize) < needed {
                    part.extend_from_slice(point);
                    needed -= 1;
                }
                left = left.saturating_sub(1);
            }
            Ok(())
        })?;
        Ok(part)
    }

    fn super_centroids(&self) -> Result<Level> {
        let count = self.clusters.isqrt();
        let part = self.part(
            self.sample,
            0,
            self.points,
            self.room_points().min(count * POINTS_PER_SUPER_CENTROID),
        )?;
        let super_centroids = kmeans(
            self.points(&part),
            self.origin,
            (count, self.sums_bytes(), 0),
            SUPER_CENTROID_ROUNDS,
            self.threads,
            self.seed,
        );
        self.progress.report(Phase::Train, 1, self.steps());
        Ok(ordered(&super_centroids))
    }

    /// The sample's points by super-centroid, and how many each has.
    fn distribute(&self, super_centroids: &Level) -> Result<(Buckets<'_>, Vec<usize>)> {
        let buffer_bytes = self.scratch_bytes / 3 / super_centroids.count();
        let mut writer = BucketWriter::create(
            self.spill,
            "tmp-ivf-super-centroids",
            super_centroids.count(),
            buffer_bytes,
            self.stride(),
        )?;
        let mut counts = vec![0; super_centroids.count()];
        let mut clusters = Vec::new();
        let tree = Tree::flat(super_centroids.clone());
        self.sample.for_each_piece(0, |piece| {
            let points = self.points(piece);
            clusters.resize(points.count(), 0);
            tree.assign_all(points, &mut clusters, self.threads);
            for (point, super_centroid) in piece.chunks_exact(self.stride()).zip(&clusters) {
                counts[*super_centroid as usize] += 1;
                writer.push(*super_centroid as usize, &[point])?;
            }
            Ok(())
        })?;
        self.progress.report(Phase::Train, 2, self.steps());
        Ok((writer.finish()?, counts))
    }

    /// Each super-centroid's leaves, as many as its share of the sample.
    fn leaves(&self, super_centroids: Level, buckets: &Buckets<'_>, counts: &[usize]) -> Result<Tree> {
        let mut leaves = Level::with_capacity(self.origin, self.clusters);
        let mut starts = vec![0];
        let mut before = 0;
        for (super_centroid, count) in counts.iter().enumerate() {
            let target = |before: usize| before * self.clusters / self.points.max(1);
            let wanted = target(before + count) - target(before);
            before += count;
            if wanted > 0 {
                let part = self.part(buckets, super_centroid, *count, self.room_points())?;
                let seed = self.seed ^ (super_centroid as u64 + 1) << 20;
                let own = kmeans(
                    self.points(&part),
                    self.origin,
                    (wanted, self.sums_bytes(), 0),
                    LEAF_ROUNDS,
                    self.threads,
                    seed,
                );
                let own = ordered(&own);
                (0..own.count()).for_each(|i| leaves.push_of(&own, i));
            }
            starts.push(leaves.count() as u32);
        }
        self.progress.report(Phase::Train, 3, self.steps());
        Ok(Tree {
            super_centroids,
            starts,
            leaves,
        })
    }

    /// Rounds over the whole sample, unless there is memory for the sums of few clusters only.
    fn refine(&self, mut tree: Tree, rounds: usize) -> Result<Tree> {
        if !self.may_refine(tree.leaves.count()) {
            return Ok(tree);
        }
        for i in 0..rounds {
            let round = self.round(&mut tree)?;
            tree = self.next(tree, round, i + 1 < rounds);
            self.progress.report(Phase::Train, 4 + i as u64, self.steps());
        }
        Ok(tree)
    }

    /// Clusters of which a round has sums at a time: as many as fit beside the tree and the points that it notes, or it goes over the sample
    /// several times.
    fn summed_at_once(&self, count: usize) -> usize {
        let dims = self.origin.len();
        let beside = count * (self.stride() + 20) / 3 * 4;
        let room = (self.scratch_bytes / 6 * 5 + self.centroid_bytes).saturating_sub(beside);
        let room = room.max(self.scratch_bytes / 8);
        (room / Round::bytes_for(1, dims).max(1)).clamp(1, count.max(1))
    }

    fn may_refine(&self, count: usize) -> bool {
        self.summed_at_once(count) >= count.min(SUMMED_LEAST)
    }

    /// Assigns the sample to the tree's leaves, and moves these to the means of what they get.
    fn round(&self, tree: &mut Tree) -> Result<Round> {
        let (count, mean) = (tree.leaves.count(), self.points / self.clusters);
        let at_once = self.summed_at_once(count);
        let crossing = (mean as u32).saturating_mul(3) / 2;
        let mut round = Round::new(count, at_once, self.origin.len(), crossing);
        let list = || ListWriter::create(self.spill, "tmp-ivf-round", LIST_BUFFER_BYTES);
        let mut list = (at_once < count).then(list).transpose()?;
        let mut clusters = Vec::new();
        self.sample.for_each_piece(0, |piece| {
            let points = self.points(piece);
            clusters.resize(points.count(), 0);
            tree.assign_all(points, &mut clusters, self.threads);
            round.count(points, &clusters);
            round.add(points, &clusters, self.threads);
            let list = list.iter_mut();
            list.flat_map(|list| clusters.iter().map(|cluster| list.push(*cluster)))
                .collect()
        })?;
        round.move_centroids(&mut tree.leaves);
        let Some(list) = list.map(ListWriter::finish).transpose()? else {
            return Ok(round);
        };
        for first in (at_once..count).step_by(at_once) {
            round.begin(first);
            let mut assigned = list.values();
            self.sample.for_each_piece(0, |piece| {
                let points = self.points(piece);
                clusters.clear();
                for _ in 0..points.count() {
                    clusters.extend(assigned.next()?);
                }
                round.add(points, &clusters, self.threads);
                Ok(())
            })?;
            round.move_centroids(&mut tree.leaves);
        }
        Ok(round)
    }

    /// What follows from a round; a balanced tree may have other leaves.
    fn next(&self, mut tree: Tree, mut round: Round, balance: bool) -> Tree {
        round.finish(&mut tree.leaves);
        if balance {
            rebalance(&mut tree, &round, self.clusters);
        }
        tree
    }
}

/// The same clusters, neighbours near each other.
pub(super) fn ordered(level: &Level) -> Level {
    let origin = level.centroids.origin();
    let scales: Vec<f32> = (0..level.count()).map(|i| level.centroids.scale(i)).collect();
    let codes: Vec<u8> = (0..level.count())
        .flat_map(|i| level.centroids.row_i8(i))
        .collect();
    let order = bisect(
        &Order {
            codes: &codes,
            stride: origin.len(),
            dims: origin.len(),
            scales: &scales,
        },
        1,
    );
    let mut ordered = Level::with_capacity(origin, level.count());
    order.iter().for_each(|i| ordered.push_of(level, *i as usize));
    ordered
}
