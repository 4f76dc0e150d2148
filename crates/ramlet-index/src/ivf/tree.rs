//! Clusters in two levels, so that assignment costs about the root of their number.

use super::centroids::Centroids;
use super::kmeans::Level;
use super::points::{PointQuery, Points, split};

/// Up to this many clusters are one level: comparing with all is cheap.
pub(super) const ONE_LEVEL_MAX: usize = 256;

/// Share of the cells (one in this many) whose leaves a point is compared with, and the fewest cells.
const CELLS_SHARE: usize = 8;
const CELLS_MIN: usize = 8;

/// `leaves` are the clusters; those of one cell lie together, so that neighbouring numbers lie near each other.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// None if there is one level only.
    pub(super) cells: Level,
    /// The leaves of cell `i`: `starts[i]..starts[i + 1]`.
    pub(super) starts: Vec<u32>,
    pub(super) leaves: Level,
}

/// One thread's memory for [`Tree::assign`].
#[derive(Debug, Default)]
pub(super) struct AssignScratch {
    pub(super) query: PointQuery,
    cells: Vec<(f32, u32)>,
}

impl AssignScratch {
    /// Takes a stored point.
    pub(super) fn set(&mut self, point: &[u8]) {
        let (codes, scale) = split(point);
        self.query.set(codes, scale);
    }
}

impl Tree {
    /// One level.
    pub(super) fn flat(leaves: Level) -> Tree {
        Tree {
            cells: Level::default(),
            starts: vec![0, leaves.count() as u32],
            leaves,
        }
    }

    pub(super) fn centroids(&self) -> &Centroids {
        &self.leaves.centroids
    }

    pub(super) fn leaves_of(&self, cell: usize) -> std::ops::Range<usize> {
        self.starts[cell] as usize..self.starts[cell + 1] as usize
    }

    /// The leaf for `scratch.query`, the nearest among the leaves of the nearest cells; and its squared distance.
    pub(super) fn assign(&self, scratch: &mut AssignScratch) -> (u32, f32) {
        if self.starts.len() <= 2 {
            let (leaf, score) = self.leaves.nearest(&scratch.query, 0..self.leaves.count());
            return (leaf as u32, self.distance(leaf, score, &scratch.query));
        }
        let AssignScratch { query, cells } = scratch;
        cells.clear();
        self.cells.centroids.score_all(query, &self.cells.base, cells);
        let visited = (cells.len() / CELLS_SHARE).max(CELLS_MIN).min(cells.len());
        if visited < cells.len() {
            let order = |a: &(f32, u32), b: &(f32, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            cells.select_nth_unstable_by(visited, order);
        }
        let mut best = (0, f32::INFINITY);
        for (_, cell) in &cells[..visited] {
            let leaves = self.leaves_of(*cell as usize);
            if leaves.is_empty() {
                continue;
            }
            let (leaf, score) = self.leaves.nearest(query, leaves);
            // Equals: the lower number, whatever the order of the cells.
            if score < best.1 || (score == best.1 && leaf < best.0) {
                best = (leaf, score);
            }
        }
        (best.0 as u32, self.distance(best.0, best.1, query))
    }

    fn distance(&self, leaf: usize, score: f32, query: &PointQuery) -> f32 {
        (score - self.leaves.prices[leaf] + query.square()).max(0.0)
    }

    /// The leaf of each point, by all threads.
    pub(super) fn assign_all(&self, points: Points<'_>, clusters: &mut [u32], threads: usize) {
        let share = points.count().div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let shares = points.bytes.chunks(share * points.stride());
            for (bytes, clusters) in shares.zip(clusters.chunks_mut(share)) {
                scope.spawn(move || {
                    let mut scratch = AssignScratch::default();
                    let points = Points { bytes, ..points };
                    for ((codes, scale), cluster) in points.iter().zip(clusters) {
                        scratch.query.set(codes, scale);
                        *cluster = self.assign(&mut scratch).0;
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
        let mut kept = Level::with_capacity(self.centroids().origin(), self.leaves.count());
        let mut numbers = Vec::with_capacity(counts.len());
        let mut starts = vec![0];
        for cell in 0..self.starts.len() - 1 {
            for leaf in self.leaves_of(cell) {
                numbers.push(kept.count() as u32);
                if counts[leaf] > 0 {
                    kept.push_of(&self.leaves, leaf);
                }
            }
            starts.push(kept.count() as u32);
        }
        (self.leaves, self.starts) = (kept, starts);
        self.leaves.centroids.set_spreads(spreads);
        counts.retain(|count| *count > 0);
        numbers
    }
}
