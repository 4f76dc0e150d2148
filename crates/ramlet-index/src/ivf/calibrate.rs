//! The recall by clusters visited, measured at the build on rows of the index itself.
//!
//! Within a visited cluster every row is scored exactly, so the recall of a query is the share of its true
//! neighbours whose clusters rank among those visited. One pass over the rows finds the true neighbours; nothing is
//! searched. The row that serves as query is left out of its own neighbours, which would flatter.
//!
//! Nor is a centroid made of rows that serve as queries: of 384 dimensions such a row is so much nearer to its own that .928 was found where
//! .95 was aimed at, and .950 without (records/2026-11-29-xeon-2core/held-out.txt).
//!
//! Estimate and recall of 200 outside queries: .955 and .944, .953 and .954 (Fashion-MNIST, 8 and 32 MiB of scratch).

use ramlet_kernels::INTERLEAVED_CODES;

use super::probe_threshold::{ProbeThresholds, distance_as_of_clusters};
use super::ranked::Ranked;
use super::rough::{Block, QUERIES, RoughQuery};
use super::super_centroids;
use crate::centroids::AT_ONCE;
use crate::search::calibration::{Calibration, DEPTHS};
use crate::{Metric, Query, TopK};

/// A row that serves as query, and its nearest rows so far; a hit's segment is the row's cluster.
pub(super) struct HeldOut {
    row: u32,
    /// The cluster that it lies in itself, once it came by. (Under dot product a row is seldom among its own nearest.)
    pub(super) cluster: Option<u32>,
    query: Query,
    rough: RoughQuery,
    top: TopK,
}

impl HeldOut {
    /// Bytes of one, but for its codes, which are few beside the rest and have the room that buffers leave. How many rows are resident
    /// out, and so what is measured, depends on neither them nor the size of a [`Query`], whose fields serve others too.
    pub(super) fn bytes(dims: usize) -> usize {
        /// Of the struct without what grows, about.
        const OWN: usize = 176;
        const { assert!(size_of::<HeldOut>() - size_of::<RoughQuery>() <= OWN + OWN / 2) };
        TopK::bytes_for(DEPTHS[1] + 1) + dims * 5 + OWN
    }

    pub(super) fn new(row: u32, query: Query) -> HeldOut {
        HeldOut {
            row,
            cluster: None,
            rough: RoughQuery::new(query.floats()),
            query,
            top: TopK::new(DEPTHS[1] + 1),
        }
    }

    /// The nearest rows but itself, with their distances, ascending.
    pub(super) fn nearest(&mut self, count: usize) -> Vec<(f32, u32)> {
        let row = self.row;
        let others = self.top.sorted().iter().filter(|hit| hit.row != row);
        others.take(count).map(|hit| (hit.distance, hit.row)).collect()
    }

    /// Adds what was found of it, with every cluster's distance, which is by `less` below what it is of.
    fn add_to(&mut self, thresholds: &mut ProbeThresholds, distances: &[f32], less: f32) {
        let (row, metric) = (self.row, self.query.metric());
        let neighbours = self.top.sorted().iter().filter(|hit| hit.row != row);
        let neighbours =
            neighbours.map(|hit| (hit.segment, distance_as_of_clusters(metric, hit.distance) - less));
        thresholds.add(&self.query, (distances, less), neighbours);
    }

    pub(super) fn row(&self) -> u32 {
        self.row
    }

    pub(super) fn floats(&self) -> &[f32] {
        self.query.floats()
    }

    /// It is compared with no more rows.
    pub(super) fn has_met_all(&mut self) {
        self.rough = RoughQuery::new(&[]);
    }

    /// The rows of whose clusters it knows.
    pub(super) fn rows(&self) -> impl Iterator<Item = u32> {
        self.top.rows().chain(self.cluster.map(|_| self.row))
    }

    /// Their clusters are others now.
    pub(super) fn move_rows(&mut self, cluster_of: impl Fn(u32) -> u32) {
        self.top.move_rows(&cluster_of);
        self.cluster = self.cluster.map(|_| cluster_of(self.row));
    }

    /// Compares with `numbers.len()` rows without holes, whose clusters are given.
    pub(super) fn compare(&mut self, rows: &[u8], numbers: &[u32], clusters: &[u32]) {
        let stride = self.query.row_bytes();
        let mut distances = [0.0f32; AT_ONCE];
        for start in (0..numbers.len()).step_by(AT_ONCE) {
            let distances = &mut distances[..AT_ONCE.min(numbers.len() - start)];
            self.query
                .distances_of_rows(&rows[start * stride..], stride, distances);
            for (distance, i) in distances.iter().zip(start..) {
                if *distance <= self.top.threshold() {
                    self.top.begin_segment(clusters[i]);
                    self.top.push(*distance, numbers[i]);
                }
            }
        }
    }

    /// Compares several with the same [`AT_ONCE`] rows at most, of which a look at their codes rules out most.
    pub(super) fn compare_block(
        several: &mut [HeldOut],
        (rows, numbers, clusters): (&[u8], &[u32], &[u32]),
        rough: &Block<'_>,
    ) {
        const INTERLEAVED_BLOCKS: usize = AT_ONCE / INTERLEAVED_CODES;
        let interleaved_blocks = numbers.len().div_ceil(INTERLEAVED_CODES);
        for several in several.chunks_mut(QUERIES) {
            let mut near = [0u16; QUERIES * INTERLEAVED_BLOCKS];
            let near = &mut near[..several.len() * interleaved_blocks];
            rough.within(several.iter().map(|one| (&one.rough, one.top.threshold())), near);
            for (one, near) in several.iter_mut().zip(near.chunks_exact(interleaved_blocks)) {
                one.compare_near(rows, numbers, clusters, near);
            }
        }
    }

    /// Compares with the rows whose bits are set.
    fn compare_near(&mut self, rows: &[u8], numbers: &[u32], clusters: &[u32], near: &[u16]) {
        let stride = self.query.row_bytes();
        for (interleaved_block, near) in near.iter().enumerate() {
            let mut near = *near;
            while near != 0 {
                let i = interleaved_block * INTERLEAVED_CODES + near.trailing_zeros() as usize;
                near &= near - 1;
                let distance = self.query.distance_of_row(&rows[i * stride..][..stride]);
                if distance <= self.top.threshold() {
                    self.top.begin_segment(clusters[i]);
                    self.top.push(distance, numbers[i]);
                }
            }
        }
    }
}

/// Recall by clusters visited, from the neighbours that were found. `distances_of_all` tells every cluster's distance, as clusters are ranked, and
/// what these are less by than they should be.
pub(super) fn measure(
    held_out: &mut [HeldOut],
    ranked: &Ranked<'_>,
    metric: Metric,
    distances_of_all: &mut dyn FnMut(&Query, &mut [f32]) -> f32,
) -> Calibration {
    let mut measuring = Measuring::new(held_out.len(), ranked, metric);
    measuring.add(held_out, distances_of_all);
    measuring.calibration()
}

/// What is measured of some queries after others.
pub(super) struct Measuring {
    distances: Vec<f32>,
    thresholds: ProbeThresholds,
}

impl Measuring {
    pub(super) fn new(queries: usize, ranked: &Ranked<'_>, metric: Metric) -> Measuring {
        let clusters = ranked.count();
        let less = super_centroids::less_than_mean(ranked, metric);
        Measuring {
            distances: vec![0.0; clusters],
            thresholds: ProbeThresholds::new(clusters, queries, less),
        }
    }

    pub(super) fn add(
        &mut self,
        held_out: &mut [HeldOut],
        distances_of_all: &mut dyn FnMut(&Query, &mut [f32]) -> f32,
    ) {
        for held_out in held_out {
            let less = distances_of_all(&held_out.query, &mut self.distances);
            held_out.add_to(&mut self.thresholds, &self.distances, less);
        }
    }

    pub(super) fn calibration(mut self) -> Calibration {
        let far = self.thresholds.far();
        Calibration {
            points: self.thresholds.points(),
            far,
            ..Calibration::default()
        }
    }
}
