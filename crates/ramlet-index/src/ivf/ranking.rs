//! Building what clusters are ranked by: centroids as they come, then their super-centroids.

use ramlet_io::Storage;

use super::ranked::{Ranked, RankedBuf, Rounded, float, width_of};
use super::spill::{BucketWriter, Buckets};
use super::super_centroids;
use crate::Metric;
use crate::centroids::{Centroids, decoded, handicap};
use crate::error::Result;
use crate::quant::Rotation;

/// Buffer of what is spilled, at least one centroid.
const SPILL_BYTES: usize = 16 << 10;

/// Trained centroids on disk: what they took in memory is for what they become.
pub(super) struct SpilledCentroids<'s> {
    pub(super) mean: Vec<f32>,
    origin: Vec<f32>,
    count: usize,
    /// Each its codes, its scale and its spread.
    records: Buckets<'s>,
}

impl<'s> SpilledCentroids<'s> {
    pub(super) fn new(centroids: &Centroids, spill: &'s dyn Storage) -> Result<SpilledCentroids<'s>> {
        let (name, record_bytes) = ("tmp-ivf-centroids", centroids.dims() + 8);
        let mut records = BucketWriter::create(spill, name, 1, SPILL_BYTES, record_bytes)?;
        for i in 0..centroids.count() {
            let codes: Vec<u8> = centroids.row_i8(i).collect();
            let [scale, spread] = [centroids.scale(i), centroids.spread(i)].map(f32::to_le_bytes);
            records.push(0, &[&codes, &scale, &spread])?;
        }
        Ok(SpilledCentroids {
            mean: mean_of(centroids),
            origin: centroids.origin().to_vec(),
            count: centroids.count(),
            records: records.finish()?,
        })
    }

    /// Rotates (unless it is `None`) and rounds.
    pub(super) fn ranked(
        &self,
        (metric, dims): (Metric, usize),
        rotation: Option<&Rotation>,
    ) -> Result<RankedBuf> {
        let mut ranking = Ranking::new(self.mean.clone(), self.count, (metric, dims), rotation);
        self.records.for_each_piece(0, |piece| {
            for record in piece.chunks_exact(dims + 8) {
                let (codes, tail) = record.split_at(dims);
                let (scale, spread) = (float(tail, 0), float(tail, 4));
                ranking.push(decoded(codes.iter().copied(), scale, &self.origin), spread);
            }
            Ok(())
        })?;
        Ok(ranking.finish())
    }
}

/// The mean of centroids.
fn mean_of(centroids: &Centroids) -> Vec<f32> {
    let count = centroids.count();
    let mut sums = vec![0.0f64; centroids.dims()];
    for i in 0..count {
        let values = centroids.row(i).zip(&mut sums);
        values.for_each(|(value, sum)| *sum += f64::from(value));
    }
    sums.iter()
        .map(|sum| (sum / count.max(1) as f64) as f32)
        .collect()
}

/// Centroids as they come, one after another; those that there are can be told already.
#[derive(Debug)]
pub(super) struct Ranking<'r> {
    metric: Metric,
    rotation: Option<&'r Rotation>,
    mean: Vec<f32>,
    ranked: RankedBuf,
    vector: Vec<f32>,
    mixing: Vec<f32>,
}

impl<'r> Ranking<'r> {
    /// Of so many centroids about `mean`, which needn't be theirs: it is taken off.
    pub(super) fn new(
        mean: Vec<f32>,
        count: usize,
        (metric, dims): (Metric, usize),
        rotation: Option<&'r Rotation>,
    ) -> Ranking<'r> {
        let width = width_of(metric, dims);
        let (mut rotated, mut mixing) = (mean.clone(), Vec::new());
        if let Some(rotation) = rotation {
            rotation.apply(&mut rotated, &mut mixing);
        }
        let ranked = RankedBuf {
            dims,
            width,
            mean: rotated.iter().flat_map(|value| value.to_le_bytes()).collect(),
            clusters: Rounded::with_capacity(count, (width, dims)),
            super_centroids: Rounded::with_capacity(0, (width, dims)),
        };
        Ranking {
            metric,
            rotation,
            mean,
            ranked,
            vector: Vec::with_capacity(dims),
            mixing,
        }
    }

    /// Appends a centroid, whose rows lie at this mean squared distance.
    pub(super) fn push(&mut self, centroid: impl Iterator<Item = f32>, spread: f32) {
        self.vector.clear();
        self.vector
            .extend(centroid.zip(&self.mean).map(|(value, mean)| value - mean));
        if let Some(rotation) = self.rotation {
            rotation.apply(&mut self.vector, &mut self.mixing);
        }
        let clusters = &mut self.ranked.clusters;
        clusters.push(&self.vector, |square| square + handicap(spread));
    }

    /// Those that there are, without super-centroids.
    pub(super) fn view(&self) -> Ranked<'_> {
        self.ranked.view()
    }

    pub(super) fn finish(mut self) -> RankedBuf {
        self.ranked.super_centroids = super_centroids::of(&self.ranked.view(), self.metric);
        self.ranked
    }
}
