//! Divides clusters when their rows are contiguous on disk, so that a build with room to train few centroids still makes many.
//!
//! What is trained is compared with every row, so all of it must be in memory, as whole bytes. A cluster's own rows fit there, one cluster after
//! another: k-means over them makes a few clusters of it, of which nothing stays but what searches rank. A row's cluster is
//! the nearest of those that its own became; rows at the edge of the divided one may have a nearer one beyond it.

use std::ops::Range;

use ramlet_kernels::Nearest;

use super::buckets::{Sorting, cluster_of, row_of};
use super::calibrate::HeldOut;
use super::kmeans::{FAR, Level, Round, kmeans};
use super::points::{POINT_TAIL, PointQueries, Pointer, Points, split};
use super::ranked::{Ranked, RankedBuf};
use super::ranking::Ranking;
use super::spill::Buckets;
use super::splits::{Parts, Splits};
use super::train::{LEAF_ROUNDS, ordered};
use crate::build::random::Random;
use crate::error::Result;
use crate::rows::reading::trailing_number;

/// A part of so much less than a mean one's points is given up: one in twenty was a single row otherwise.
const FEW: usize = 8;

/// Rounds of k-means over all rows of a bucket, where its clusters were made of a few of them. (60,000 x 1,536 in 0.74 MiB, of which 31 points of
/// a bucket are in memory: 2,300 rows hold .888 of the neighbours without, .925 with four.)
const ROUNDS: usize = 3;

/// Clusters being divided, bucket by bucket.
pub(super) struct Division<'d> {
    pointer: &'d Pointer,
    splits: &'d Splits<'d>,
    threads: usize,
    seed: u64,
    /// Rows of the clusters that are divided, and of all of them.
    counts: &'d [u32],
    rows_of_all: u64,
    /// Rows that are held out, in order: no centroid is made of them.
    held_out: Vec<u32>,
    /// Clusters that there shall be in the end.
    clusters: usize,
    ranking: Ranking<'d>,
    known: Known,
    /// Clusters that were divided already, their rows, how many more they shall be, and the sizes of what they became.
    divided: usize,
    rows: u64,
    beyond: usize,
    sizes: Vec<u32>,
}

/// Rows that the held-out ones know of, in order, with their clusters.
struct Known {
    rows: Vec<u32>,
    clusters: Vec<u32>,
}

/// Each gets a record's new cluster, the record, and the centroids that there are.
type Each<'e> = &'e mut dyn FnMut(u32, &[u8], &Ranked<'_>) -> Result<()>;

impl Known {
    fn of(held_out: &[HeldOut]) -> Known {
        let mut rows: Vec<u32> = held_out.iter().flat_map(HeldOut::rows).collect();
        rows.sort_unstable();
        rows.dedup();
        rows.shrink_to_fit();
        let clusters = vec![0; rows.len()];
        Known { rows, clusters }
    }

    fn note(&mut self, row: u32, cluster: u32) {
        if let Ok(at) = self.rows.binary_search(&row) {
            self.clusters[at] = cluster;
        }
    }

    fn cluster_of(&self, row: u32) -> u32 {
        let at = self.rows.binary_search(&row);
        at.map_or(0, |at| self.clusters[at])
    }
}

impl<'d> Division<'d> {
    /// Of clusters of so many rows, which become those of `ranking`.
    pub(super) fn new(
        (pointer, splits): (&'d Pointer, &'d Splits<'d>),
        (counts, clusters): (&'d [u32], usize),
        ranking: Ranking<'d>,
        held_out: &[HeldOut],
        (threads, seed): (usize, u64),
    ) -> Division<'d> {
        let mut rows: Vec<u32> = held_out.iter().map(HeldOut::row).collect();
        rows.sort_unstable();
        Division {
            pointer,
            splits,
            threads,
            seed,
            counts,
            rows_of_all: counts.iter().map(|count| u64::from(*count)).sum(),
            held_out: rows,
            clusters,
            ranking,
            known: Known::of(held_out),
            divided: 0,
            rows: 0,
            beyond: 0,
            sizes: Vec::with_capacity(clusters),
        }
    }

    /// The clusters that there are already.
    pub(super) fn view(&self) -> Ranked<'_> {
        self.ranking.view()
    }

    /// Divides the clusters of the next bucket, so many, and calls `each` with its records, cluster by cluster.
    pub(super) fn next(
        &mut self,
        from: (&Buckets<'_>, usize),
        clusters: usize,
        sorting: &Sorting<'_>,
        each: Each<'_>,
    ) -> Result<()> {
        let own = self.divided..self.divided + clusters;
        self.divided = own.end;
        let leaves = self.leaves(from, own)?;
        let (parts, distances) = self.parts(from, &leaves)?;
        for (leaf, count) in parts.counts.iter().enumerate() {
            if *count == 0 {
                continue;
            }
            let cluster = self.sizes.len() as u32;
            let spread = (distances[leaf] / f64::from(*count)) as f32;
            self.ranking.push(leaves.all.centroids.row(leaf), spread);
            self.sizes.push(*count);
            let (centroids, known) = (self.ranking.view(), &mut self.known);
            let bytes = sorting.bytes_of(*count);
            sorting.for_each_record((&parts.records, leaf), bytes, &mut |record| {
                known.note(trailing_number(record)?, cluster);
                each(cluster, record, &centroids)
            })?;
        }
        Ok(())
    }

    /// The clusters that there are in the end, and their sizes; held-out rows hear where their neighbours are.
    pub(super) fn finish(self, held_out: &mut [HeldOut]) -> (RankedBuf, Vec<u32>) {
        let known = self.known;
        held_out
            .iter_mut()
            .for_each(|held_out| held_out.move_rows(|row| known.cluster_of(row)));
        (self.ranking.finish(), self.sizes)
    }

    /// Into how many clusters the next one is divided: one, and its share of those that there shall be beyond the ones that there are, and what
    /// larger ones before it couldn't take of theirs. Each has a record and a centroid in memory while it is written, as those
    /// `beside` it have.
    fn wanted(&mut self, count: u32, beside: usize) -> usize {
        let more = self.clusters.saturating_sub(self.counts.len()) as u64;
        self.rows += u64::from(count);
        let due = (self.rows * more / self.rows_of_all.max(1)) as usize - self.beyond;
        let most = self.splits.scratch_bytes / 4 / (self.splits.record_bytes + self.pointer.origin.len());
        let wanted = (1 + due)
            .min(most.saturating_sub(beside))
            .clamp(1, count.max(1) as usize);
        self.beyond += wanted - 1;
        wanted
    }

    /// Bytes that points may take, as much as their sums.
    fn room(&self) -> usize {
        self.splits.scratch_bytes / 16
    }

    /// What a bucket's clusters become.
    fn leaves(&mut self, (from, at): (&Buckets<'_>, usize), own: Range<usize>) -> Result<Leaves> {
        let (pointer, origin) = (self.pointer, &self.pointer.origin);
        let stride = origin.len() + POINT_TAIL;
        let counts = &self.counts[own.clone()];
        let rows: usize = counts.iter().map(|count| *count as usize).sum();
        // Of a cluster that is larger than the room, some rows tell.
        let most = (self.room() / stride).max(1);
        let mut random = Random::new(self.seed ^ (own.start as u64 + 1) << 16);
        let (mut left, mut needed) = (rows, rows.min(most));
        let points = counts
            .iter()
            .map(|count| Vec::with_capacity((*count as usize).min(most) * stride));
        let (mut points, mut vector): (Vec<Vec<u8>>, _) = (points.collect(), Vec::new());
        // A cluster has a point whatever is chosen: its first record, until another one comes.
        let mut is_chosen = vec![false; counts.len()];
        from.for_each_piece(at, |piece| {
            for record in piece.chunks_exact(self.splits.record_bytes) {
                let is_held_out = self.held_out.binary_search(&trailing_number(record)?).is_ok();
                let takes = (random.below(left.max(1) as u64) as usize) < needed && !is_held_out;
                let cluster = cluster_of(record) as usize - own.start;
                let points = &mut points[cluster];
                if takes && !is_chosen[cluster] {
                    is_chosen[cluster] = true;
                    points.clear();
                }
                if takes || points.is_empty() {
                    pointer.append(row_of(record), &mut vector, points);
                }
                needed -= usize::from(takes);
                left = left.saturating_sub(1);
            }
            Ok(())
        })?;
        let (mut all, mut ends) = (Level::with_capacity(origin, 0), vec![0]);
        for (points, cluster) in points.iter().zip(own.clone()) {
            let points = Points {
                bytes: points,
                dims: origin.len(),
            };
            let wanted = self.wanted(self.counts[cluster], all.count());
            let few = points.count() / wanted / FEW;
            let wanted = (wanted, self.room(), few as u32);
            let seed = self.seed ^ (cluster as u64 + 1) << 24;
            let leaves = ordered(&kmeans(points, origin, wanted, LEAF_ROUNDS, self.threads, seed));
            (0..leaves.count()).for_each(|leaf| all.push_of(&leaves, leaf));
            ends.push(all.count());
        }
        drop(points);
        let mut leaves = Leaves {
            all,
            first: own.start,
            ends,
        };
        // All rows were points already.
        if rows > most {
            for _ in 0..ROUNDS {
                self.refine((from, at), &mut leaves)?;
            }
        }
        Ok(leaves)
    }

    /// Moves leaves to the means of all rows that are theirs, as many at a time as there is room to sum.
    fn refine(&self, (from, at): (&Buckets<'_>, usize), leaves: &mut Leaves) -> Result<()> {
        let (dims, count) = (self.pointer.origin.len(), leaves.all.count());
        let at_once = (self.splits.scratch_bytes / 4 / Round::bytes_for(1, dims)).clamp(1, count);
        let (mut queries, mut vector, mut point) = (PointQueries::default(), Vec::new(), Vec::new());
        for first in (0..count).step_by(at_once) {
            let mut round = Round::new(count, at_once, dims, 0);
            round.begin(first);
            from.for_each_piece(at, |piece| {
                for record in piece.chunks_exact(self.splits.record_bytes) {
                    if self.held_out.binary_search(&trailing_number(record)?).is_ok() {
                        continue;
                    }
                    point.clear();
                    self.pointer.append(row_of(record), &mut vector, &mut point);
                    let (codes, scale) = split(&point);
                    queries.clear(dims);
                    queries.push(codes, scale);
                    let (leaf, _) = leaves.nearest(cluster_of(record), &queries);
                    let (points, leaf) = (Points { bytes: &point, dims }, [leaf as u32]);
                    round.count(points, &leaf);
                    round.add(points, &leaf, 1);
                }
                Ok(())
            })?;
            round.move_centroids(&mut leaves.all);
            leaves.all.rebase();
        }
        Ok(())
    }

    /// A bucket's records by leaves, and the leaves' squared distances in all.
    fn parts(&self, from: (&Buckets<'_>, usize), leaves: &Leaves) -> Result<(Parts<'d>, Vec<f64>)> {
        let mut distances = vec![0.0; leaves.all.count()];
        let (mut queries, mut vector, mut point) = (PointQueries::default(), Vec::new(), Vec::new());
        let parts = self.splits.parts(from, leaves.all.count(), &mut |record| {
            point.clear();
            self.pointer.append(row_of(record), &mut vector, &mut point);
            let (codes, scale) = split(&point);
            queries.clear(self.pointer.origin.len());
            queries.push(codes, scale);
            let (leaf, distance) = leaves.nearest(cluster_of(record), &queries);
            distances[leaf] += f64::from(distance);
            leaf
        })?;
        Ok((parts, distances))
    }
}

/// What the clusters of a bucket became.
struct Leaves {
    all: Level,
    /// The first of the clusters, and where the leaves of each begin, and end.
    first: usize,
    ends: Vec<usize>,
}

impl Leaves {
    /// The nearest of a cluster's leaves to the one point, and its squared distance.
    fn nearest(&self, cluster: u32, point: &PointQueries) -> (usize, f32) {
        let own = cluster as usize - self.first;
        let own = self.ends[own]..self.ends[own + 1];
        // Where nothing is a number, the first.
        let mut nearest = [Nearest {
            code: own.start as u32,
            ..FAR
        }];
        self.all.nearest(point, [0], own, &mut nearest);
        let [Nearest { score, code }] = nearest;
        let distance = score - self.all.prices[code as usize] + point.square(0);
        (code as usize, distance.max(0.0))
    }
}
