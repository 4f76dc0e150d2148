//! Batches of rows from a source, processed by several threads.

use super::calibrate::HeldOut;
use super::kmeans::block_points;
use super::points::{Pointer, split};
use super::rough::Rough;
use super::sample::Decoder;
use super::tree::{AssignScratch, Tree};
use crate::RowSource;
use crate::centroids::AT_ONCE;
use crate::error::{IndexError, Result};

/// Consecutive rows of the source.
pub(super) struct Batch {
    /// Without holes.
    pub(super) rows: Vec<u8>,
    pub(super) numbers: Vec<u32>,
    /// The rows' clusters, once known.
    pub(super) clusters: Vec<u32>,
    /// And their squared distances to the centroids.
    pub(super) distances: Vec<f32>,
    /// The rows' codes, when they are compared with held-out ones.
    rough: Rough,
}

impl Batch {
    /// Finds each row's cluster, and its squared distance to the centroid.
    pub(super) fn assign(&mut self, tree: &Tree, pointer: &Pointer, threads: usize) {
        self.clusters.resize(self.numbers.len(), 0);
        self.distances.resize(self.numbers.len(), 0.0);
        let share = self.numbers.len().div_ceil(threads.max(1)).max(1);
        let row_bytes = pointer.decoder.row_bytes();
        std::thread::scope(|scope| {
            let rows = self.rows.chunks(share * row_bytes);
            let shares = self
                .clusters
                .chunks_mut(share)
                .zip(self.distances.chunks_mut(share));
            for (rows, (clusters, distances)) in rows.zip(shares) {
                scope.spawn(move || {
                    let mut scratch = AssignScratch::default();
                    let (mut vector, mut point) = (Vec::new(), Vec::new());
                    let block = block_points(pointer.origin.len());
                    let targets = clusters.chunks_mut(block).zip(distances.chunks_mut(block));
                    for (rows, (clusters, distances)) in rows.chunks(block * row_bytes).zip(targets) {
                        scratch.points.clear(pointer.origin.len());
                        for row in rows.chunks_exact(row_bytes) {
                            point.clear();
                            pointer.append(row, &mut vector, &mut point);
                            let (codes, scale) = split(&point);
                            scratch.points.push(codes, scale);
                        }
                        let targets = clusters.iter_mut().zip(distances);
                        for (target, found) in targets.zip(tree.assign(&mut scratch)) {
                            (*target.0, *target.1) = found;
                        }
                    }
                });
            }
        });
    }

    /// Shows all rows to the held-out ones, block by block.
    pub(super) fn compare(&mut self, decoder: &Decoder, held_out: &mut [HeldOut], threads: usize) {
        let serves = Rough::serves(decoder);
        if serves {
            self.rough.take(decoder, &self.rows, threads);
        }
        let batch = &*self;
        let share = held_out.len().div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            for held_out in held_out.chunks_mut(share) {
                scope.spawn(move || {
                    let rows = batch.rows.chunks(AT_ONCE * decoder.row_bytes());
                    let numbers = batch.numbers.chunks(AT_ONCE).zip(batch.clusters.chunks(AT_ONCE));
                    for (block, (rows, (numbers, clusters))) in rows.zip(numbers).enumerate() {
                        match serves.then(|| batch.rough.block(block)) {
                            Some(rough) => {
                                HeldOut::compare_block(held_out, (rows, numbers, clusters), &rough)
                            }
                            None => held_out
                                .iter_mut()
                                .for_each(|one| one.compare(rows, numbers, clusters)),
                        }
                    }
                });
            }
        });
    }
}

pub(super) struct Batches<'s> {
    pub(super) source: &'s mut dyn RowSource,
    /// Rows of a batch at most.
    pub(super) rows: usize,
    pub(super) row_bytes: usize,
}

impl Batches<'_> {
    pub(super) fn for_each(self, mut each: impl FnMut(&mut Batch) -> Result<()>) -> Result<()> {
        let mut batch = Batch {
            rows: Vec::with_capacity(self.rows * self.row_bytes),
            numbers: Vec::with_capacity(self.rows),
            clusters: Vec::with_capacity(self.rows),
            distances: Vec::with_capacity(self.rows),
            rough: Rough::default(),
        };
        self.source.replay(&mut |number, row| {
            if row.len() != self.row_bytes {
                return Err(IndexError::Mismatch(format!(
                    "row {number} changed its length to {}",
                    row.len()
                )));
            }
            batch.rows.extend_from_slice(row);
            batch.numbers.push(number);
            if batch.numbers.len() == self.rows {
                each(&mut batch)?;
                batch.rows.clear();
                batch.numbers.clear();
            }
            Ok(())
        })?;
        if batch.numbers.is_empty() {
            Ok(())
        } else {
            each(&mut batch)
        }
    }
}
