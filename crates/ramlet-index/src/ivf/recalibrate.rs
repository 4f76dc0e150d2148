//! Calibrates again on real queries, which may be distributed differently from the held-out rows of the build.
//!
//! Passes over the rows find the queries' true neighbours, as at build; clusters and codes stay as they are.

use ramlet_io::IoContext;

use super::build::clusters_wanted;
use super::calibrate::{HeldOut, Measuring};
use super::inverted_file::Ivf;
use super::lists::Lists;
use super::probe_threshold::ProbeThresholds;
use super::search::distances_as_ranked;
use crate::Query;
use crate::error::{IndexError, Result};
use crate::rows::reading::{stream, trailing_number};
use crate::search::calibration::{Calibration, DEPTHS, LOST_BY_QUERIES};
use crate::search::scratch::IndexScratch;
use crate::vector_index::{Measured, MeasuredAgain, Measures};

/// Rows nearer than so much more than the last that counts are as near as it.
const EQUAL: f32 = 1e-6;

/// See [`MeasuredAgain::nearest`].
fn nearest_of(query: &mut HeldOut) -> Vec<u32> {
    let all = query.nearest(DEPTHS[1]);
    let Some((last, _)) = all.get(MeasuredAgain::WANTED - 1).or(all.last()) else {
        return Vec::new();
    };
    let limit = last + EQUAL * last.abs();
    let near = all.iter().take_while(|(distance, _)| *distance <= limit);
    let rows: Vec<u32> = near.map(|(_, row)| *row).collect();
    match rows.len() < DEPTHS[1] {
        true => rows,
        false => Vec::new(),
    }
}

/// Stands for a query that is no row.
const NO_ROW: u32 = u32::MAX;

/// Rows compared with one query after another: as many as have room in a core's cache beside it.
fn rows_at_once(dims: usize) -> usize {
    const BYTES: usize = 64 << 10;
    (BYTES / (dims * size_of::<f32>()).max(1)).clamp(8, 64)
}

impl Ivf {
    /// Bytes that [`crate::VectorIndex::measure_again`] takes at most: for so many queries of users, queries in all, and queries in a pass ([`Measures`]), of so many
    /// dimensions, over so many rows.
    pub fn measure_bytes((users, all, at_once): (usize, usize, usize), dims: usize, rows: u32) -> u64 {
        let clusters = clusters_wanted(rows.into()) as usize;
        let rows_at_once = rows_at_once(dims) * (dims * size_of::<f32>() + 8);
        let found = users * ProbeThresholds::bytes(clusters) + all * MeasuredAgain::NEAREST_BYTES_MAX;
        let each = HeldOut::bytes(dims);
        (at_once * each + dims * size_of::<f32>() + found + clusters * 2 * size_of::<f32>() + rows_at_once)
            as u64
    }

    /// Neighbours of these queries, and recall by clusters visited for those of users; where less was measured at build, that.
    /// Takes [`Ivf::measure_bytes`], and reads all rows in sequence in each pass.
    pub(super) fn measured_for(
        &self,
        queries: &Measures<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
    ) -> Result<MeasuredAgain> {
        let metric = self.meta.shape.metric;
        let ranked = &self.meta.centroids();
        let rotation = self.rotation.as_ref();
        let mut measuring = Measuring::new(queries.users, ranked, metric);
        let mut nearest = Vec::with_capacity(queries.all);
        let at_once = queries.at_once.max(1);
        for first in (0..queries.all).step_by(at_once) {
            let of_pass = first..queries.all.min(first + at_once);
            let users = queries.users.clamp(of_pass.start, of_pass.end) - first;
            let mut held_out = self.compared(of_pass.map(queries.nth), scratch, io)?;
            let lists: &mut Lists = scratch.own.of();
            measuring.add(&mut held_out[..users], &mut |query, distances| {
                distances_as_ranked(ranked, rotation, query, lists, distances)
            });
            nearest.extend(held_out.iter_mut().map(nearest_of));
        }
        let mut measured = measuring.calibration();
        // These queries are what is measured now; those that were like the rows before still are.
        measured.far = measured.far.max(self.meta.calibration.far);
        for point in &mut measured.points {
            let built = self.meta.calibration.points.iter();
            if let Some(built) = built.into_iter().find(|built| built.probes == point.probes) {
                point.by_threshold = point.by_threshold.at_most(&built.by_threshold);
                point.by_kth_distance = point.by_kth_distance.at_most(&built.by_kth_distance);
                // What was measured with so many super-centroids is reached with more, too.
                point.super_centroids = point.super_centroids.max(built.super_centroids);
            }
        }
        measured.lost = LOST_BY_QUERIES;
        Ok(MeasuredAgain {
            nearest,
            calibration: measured,
        })
    }

    /// Queries that were compared with all rows.
    fn compared(
        &self,
        queries: impl Iterator<Item = Measured>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
    ) -> Result<Vec<HeldOut>> {
        let shape = self.meta.shape;
        let mut held_out: Vec<HeldOut> = queries
            .map(|one| {
                let query = Query::new(shape.metric, shape.element, &one.vector);
                HeldOut::new(one.row.unwrap_or(NO_ROW), query)
            })
            .collect();
        let row_bytes = shape.element.row_bytes(shape.dims);
        let rows_at_once = rows_at_once(shape.dims);
        let (mut rows, mut numbers, mut clusters) = (Vec::new(), Vec::new(), Vec::new());
        let mut compare = |rows: &mut Vec<u8>, numbers: &mut Vec<u32>, clusters: &mut Vec<u32>| {
            held_out
                .iter_mut()
                .for_each(|one| one.compare(rows, numbers, clusters));
            rows.clear();
            numbers.clear();
            clusters.clear();
        };
        let mut cluster = 0;
        stream(&self.rows, &mut scratch.buf, io, &mut |position, row| {
            while cluster + 1 < self.clusters() && position >= self.meta.positions(cluster).end {
                cluster += 1;
            }
            rows.extend_from_slice(&row[..row_bytes]);
            numbers.push(trailing_number(row)?);
            clusters.push(cluster);
            if numbers.len() == rows_at_once {
                compare(&mut rows, &mut numbers, &mut clusters);
            }
            Ok(())
        })?;
        compare(&mut rows, &mut numbers, &mut clusters);
        Ok(held_out)
    }

    /// The same index with another measure of recall by clusters visited (see [`crate::VectorIndex::measure_again`]).
    pub fn with_calibration(mut self, measured: Calibration) -> Result<Ivf> {
        let Calibration {
            points, far, lost, ..
        } = measured;
        let sane = points.windows(2).all(|pair| pair[0].probes < pair[1].probes)
            && points.iter().all(|point| {
                let reached = [point.by_threshold, point.by_kth_distance];
                reached.iter().all(|of| of.is_sane() && of.threshold.is_finite())
                    && (1..=self.clusters()).contains(&point.probes)
            });
        if !(sane && far.is_finite() && lost.is_finite() && lost > 0.0) {
            return Err(IndexError::Mismatch(format!("calibration {points:?}")));
        }
        self.meta.calibration.lost = lost;
        if !points.is_empty() {
            (self.meta.calibration.points, self.meta.calibration.far) = (points, far);
            self.by_kth_distance = self.meta.calibration.prefers_kth_distance(self.clusters());
        }
        Ok(self)
    }
}
