//! Builds the index in a bounded scratch: memory doesn't grow with the number of rows.
//!
//! Three replays of the source: a sample goes to disk and is clustered; every row is assigned to a cluster (and the
//! clusters' sizes are then known); rows go to buckets of whole clusters on disk, while the held-out rows are compared
//! with them. Where more clusters are wanted than could be trained, each is divided there (see `divide`). Each bucket is then sorted in memory and written, and its rows coded. A last pass over the list of row numbers in cluster order
//! writes each row's position.

use std::collections::HashMap;

use ramlet_format::rows::RowsLayout;
use ramlet_io::{Storage, WriteFile};

use super::assign::{Batch, Batches};
use super::buckets::{Plan, RECORD_HEADER, Sorting, cluster_of};
use super::calibrate::{HeldOut, measure};
use super::divide::Division;
use super::encode::{Coded, CodesWriter, unit_of};
use super::lists::Lists;
use super::meta::{self, Shape, centroid_bytes};
use super::misses::HeldOutQueries;
use super::points::{POINT_TAIL, Pointer};
use super::probe_threshold::ProbeThresholds;
use super::ranked::{HEAD_BYTES, Ranked, RankedBuf, width_of};
use super::ranking::{Ranking, SpilledCentroids};
use super::residual_sample::{TRAINED_WITH, leave_out_far, shift_more};
use super::rows_out::RowsOut;
use super::sample::Decoder;
use super::search::distances_as_ranked;
use super::spill::{BucketWriter, Buckets, List, ListWriter};
use super::splits::Splits;
use super::train::Training;
use super::tree::Tree;
use crate::build::progress::{Phase, Progress};
use crate::build::random::Random;
use crate::centroids::SeedCentroids;
use crate::error::{IndexError, Result};
use crate::quant::Rotation;
use crate::quant::product::{ProductModel, ProductShape};
use crate::rows::positions::NO_POSITION;
use crate::rows::reading::trailing_number;
use crate::search::calibration::Calibration;
use crate::{CodeKind, Element, Metric, Query, RowSource, decode_row};

/// Fewest rows of an average cluster, so that centroids stay a small share of the vectors (about 1 % in f32, a quarter of it here).
const ROWS_PER_CLUSTER_MIN: u64 = 100;

/// Clusters of so many rows, where there is the memory to build and to hold them: as many as make ranking them and reading one cost
/// about as much, a power of one half, but not too small ones.
pub fn clusters_wanted(rows: u64) -> u64 {
    (8 * rows.isqrt()).min(rows / ROWS_PER_CLUSTER_MIN).max(1)
}

/// Sampled rows per centroid at most; more don't make better centroids.
const SAMPLE_PER_CLUSTER: usize = 64;

/// First rows of the source, whose mean is the origin of the centroids.
const ORIGIN_ROWS: usize = 256;

const HELD_OUT_MAX: usize = 1000;
const HELD_OUT_MIN: usize = 10;
/// So many say enough of others (`unseen` of [`super::probe_threshold`]): they may take twice the share of the scratch, if it does for them. Ten of
/// 20,000 x 1,536 in 16 MB had nearly all clusters visited.
const HELD_OUT_ENOUGH: usize = 18;
/// One row in so many is held out at most: of the others centroids are made.
const HELD_OUT_ONE_IN: usize = 4;

/// Bytes of a dimension that a build holds however little scratch it is given: the fewest held-out rows as queries, in several
/// forms, the rotation, what a thread codes rows with, some rows on their way. Measured up to 65,536 dimensions: 170 to 190 beside
/// half of the scratch, with product codes, whose books are trained, 420 to 440.
const LEAST_PER_DIM: usize = 190;
const LEAST_PER_DIM_PRODUCT: usize = 440;

/// Scratch from which on what a build holds beside centroids is a small part of it.
const SCRATCH_MUCH: u64 = 1 << 20;

/// What centroids may take of a build's scratch. A third is for the rest, two where there is little scratch.
fn centroids_share(scratch_bytes: u64) -> u64 {
    match scratch_bytes >= SCRATCH_MUCH {
        true => scratch_bytes / 3 * 2,
        false => scratch_bytes / 3,
    }
}

/// What a build holds of a centroid that it trains, as it is compared with rows: each has a price, and what it is compared with. What searches rank is made
/// of it when it is gone. Where there is much scratch, as many bytes as that takes are for more sums at a time, or the sample would be read too often.
fn bytes_in_training(scratch_bytes: u64, metric: Metric, dims: usize) -> u64 {
    let (compared, ranked) = ((dims + 20) as u64, bytes_as_ranked(metric, dims));
    match scratch_bytes >= SCRATCH_MUCH {
        true => compared + ranked,
        false => compared.max(ranked),
    }
}

fn bytes_as_ranked(metric: Metric, dims: usize) -> u64 {
    (width_of(metric, dims).code_bytes(dims) + 20) as u64
}

/// What it holds of one that a trained one is divided into: as searches rank it, its rows and their distances.
fn bytes_in_division(metric: Metric, dims: usize) -> u64 {
    (HEAD_BYTES + width_of(metric, dims).code_bytes(dims) + 24) as u64
}

/// What centroids may take and don't once every row has its trained centroid, of so many trained ones and those that they become.
fn free_once_trained(
    (trained, clusters): (usize, usize),
    memory: (u64, u64),
    metric: Metric,
    dims: usize,
) -> usize {
    let ranked = match clusters > trained {
        true => bytes_in_division(metric, dims),
        false => bytes_as_ranked(metric, dims),
    };
    // However little scratch there is, some of it each dimension takes.
    let taken = clusters as u64 * ranked + (LEAST_PER_DIM_PRODUCT * dims) as u64;
    (centroids_share(memory.0) + memory.1).saturating_sub(taken) as usize
}

/// A trained cluster is divided into so many at most, on average. (Divided into 2.6, 250,000 x 768, hard: of true neighbours the nearest 50 clusters
/// have .949, and .954 if all are trained.)
const DIVIDED_MOST: u64 = 8;

/// Clusters that are trained, of those that are wanted: if it is nearly all, all there will be.
const NEARLY_ALL: f64 = 0.8;

/// Clusters that can be trained with so much scratch, and beside that so much for centroids alone.
fn trained_most((scratch_bytes, centroid_bytes): (u64, u64), metric: Metric, dims: usize) -> u64 {
    let bytes = centroids_share(scratch_bytes) + centroid_bytes;
    (bytes / bytes_in_training(scratch_bytes, metric, dims)).max(1)
}

/// Clusters that an index can have with that.
pub fn built_most(memory: (u64, u64), metric: Metric, dims: usize) -> u64 {
    let bytes = centroids_share(memory.0) + memory.1;
    let trained = trained_most(memory, metric, dims);
    (bytes / bytes_in_division(metric, dims)).clamp(trained, trained * DIVIDED_MOST)
}

/// The same if they may take `room` of other memory: as they are searched, and beside the scratch as they are built.
pub fn clusters_most(scratch_bytes: u64, room: u64, metric: Metric, dims: usize) -> u64 {
    let (searched, built) = (centroid_bytes(metric, dims), bytes_in_division(metric, dims));
    let beside = (centroids_share(scratch_bytes) + room) / (built + searched);
    let most = built_most((scratch_bytes, 0), metric, dims).max(beside);
    let trained = trained_most((scratch_bytes, 0), metric, dims);
    most.min(room / searched).min(trained * DIVIDED_MOST)
}

/// Of so many clusters those that are trained, with no memory beside the scratch but what they need; the others are what these are divided into. All, where there
/// is much scratch: then divided ones are next to as good ([`DIVIDED_MOST`]).
pub fn trained_of(clusters: u64, scratch_bytes: u64, metric: Metric, dims: usize) -> u64 {
    let (least, _) = centroids_beside(clusters, scratch_bytes, metric, dims);
    match scratch_bytes >= SCRATCH_MUCH {
        true => clusters,
        false => trained_most((scratch_bytes, least), metric, dims).min(clusters),
    }
}

/// Bytes for centroids alone beside so much scratch, for a build of so many clusters: those that it can't do without, and those with which it trains
/// all of them.
pub fn centroids_beside(clusters: u64, scratch_bytes: u64, metric: Metric, dims: usize) -> (u64, u64) {
    let beside = |each: u64| {
        clusters
            .saturating_mul(each)
            .saturating_sub(centroids_share(scratch_bytes))
    };
    (
        beside(bytes_in_division(metric, dims)),
        beside(bytes_in_training(scratch_bytes, metric, dims)),
    )
}

/// Bytes of scratch below which no index is built, so that the build holds less than twice its scratch: the files that it
/// writes and reads have the rest of a job's memory.
pub fn scratch_least(dims: usize, codes: &[CodeKind]) -> usize {
    let product = codes.iter().any(|kind| kind.subquantizers().is_some());
    let each = if product {
        LEAST_PER_DIM_PRODUCT
    } else {
        LEAST_PER_DIM
    };
    each * dims * 4 / 5
}

/// What is built, and with what.
#[derive(Clone, Copy, Debug)]
pub struct IvfParams<'p> {
    pub metric: Metric,
    pub element: Element,
    pub dims: usize,
    /// Rows of the segment; each number that the source gives lies below.
    pub segment_rows: u32,
    /// Bytes that the build may hold at a time, all in all. More give a larger sample and more centroids.
    pub scratch_bytes: usize,
    /// Bytes that it may hold beside them, of centroids alone ([`centroids_beside`]).
    pub centroid_bytes: usize,
    pub threads: usize,
    /// Equal seeds, rows and scratch give equal files, whatever the number of threads.
    pub seed: u64,
    /// Number of clusters; `None`: [`clusters_wanted`].
    pub clusters: Option<u32>,
    /// Centroids of other rows, as those of the largest of the segments being merged: they spare the training where
    /// they suit these rows, which is found out. See [`crate::VectorIndex::seeds`].
    pub seed_centroids: Option<&'p dyn SeedCentroids>,
    pub progress: Progress<'p>,
}

/// The files of the index, created and later synced by the caller. The seeds are those of their blocks.
pub struct IvfFiles<'f> {
    /// Rows in cluster order: the vector, then the segment row's number (u32).
    pub rows: &'f mut dyn WriteFile,
    pub rows_seed: u64,
    /// Rows: the position (u32) of each segment row, or [`NO_POSITION`].
    pub positions: &'f mut dyn WriteFile,
    pub positions_seed: u64,
    /// An envelope: centroids, clusters, calibration.
    pub centroids: &'f mut dyn WriteFile,
    /// Rows are coded in each of these ways: at most five, and [`CodeKind::Sq8`].
    pub codes: Vec<IvfCodes<'f>>,
}

impl IvfFiles<'_> {
    /// The codes that searches in RAM compare, of which the file of centroids tells.
    fn scanned(&self) -> impl Iterator<Item = CodeKind> {
        let kinds = self.codes.iter().map(|codes| codes.kind);
        kinds.filter(|kind| *kind != CodeKind::Sq8)
    }
}

/// A file of codes: in the order of the rows' file, [`CodeKind::file_rows`] rows of [`CodeKind::row_bytes`] bytes each.
pub struct IvfCodes<'f> {
    pub kind: CodeKind,
    pub file: &'f mut dyn WriteFile,
    pub seed: u64,
}

/// What was built.
#[derive(Clone, Debug)]
pub struct IvfBuilt {
    pub rows: u32,
    pub clusters: u32,
    pub largest_cluster: u32,
    /// Rows the centroids were computed from.
    pub sampled: u32,
    /// Whether the centroids that were given suited the rows.
    pub is_reused: bool,
    pub calibration: Calibration,
}

/// Builds the index of the source's rows. Temporary files named `tmp-ivf-*` are created in `spill` and removed; they
/// take about `rows * (row bytes + 16)` bytes. One build at a time per `spill`: the names are fixed.
pub fn build_ivf(
    params: &IvfParams<'_>,
    source: &mut dyn RowSource,
    spill: &dyn Storage,
    files: &mut IvfFiles<'_>,
) -> Result<IvfBuilt> {
    let kinds: Vec<CodeKind> = files.scanned().collect();
    let possible = kinds.is_empty() || params.metric.has_codes();
    let fits = meta::fits(&kinds);
    if !possible || !fits || !kinds.iter().all(|kind| kind.is_valid()) {
        return Err(IndexError::Mismatch(format!(
            "no codes {kinds:?} under {:?}",
            params.metric
        )));
    }
    let needed = scratch_least(params.dims, &kinds);
    if params.scratch_bytes < needed {
        return Err(IndexError::Scratch {
            needed_bytes: needed as u64,
            given_bytes: params.scratch_bytes as u64,
        });
    }
    Build::new(params, source.rows()).run(source, spill, files)
}

struct Build<'p> {
    params: &'p IvfParams<'p>,
    decoder: Decoder,
    rows: usize,
    /// Those that there shall be in the end, and those that are trained.
    clusters: usize,
    trained: usize,
    /// So many could be trained.
    trained_most: usize,
    sampled: usize,
    /// Rows held out as queries. They take what centroids no longer need; codes are measured with the first of them alone.
    held_out: usize,
    coded_with: usize,
}

impl<'p> Build<'p> {
    fn new(params: &'p IvfParams<'p>, rows: u32) -> Build<'p> {
        let &IvfParams {
            metric,
            element,
            dims,
            scratch_bytes,
            centroid_bytes,
            ..
        } = params;
        let rows = rows as usize;
        let decoder = Decoder {
            metric,
            element,
            dims,
        };
        let wanted = match params.clusters {
            Some(clusters) => clusters as usize,
            None => clusters_wanted(rows as u64) as usize,
        };
        let memory = (scratch_bytes as u64, centroid_bytes as u64);
        let clusters = wanted.min(built_most(memory, metric, dims) as usize).max(1);
        let trained_most = trained_most(memory, metric, dims) as usize;
        let trained = trained_most.min(clusters);
        let clusters = match trained as f64 >= NEARLY_ALL * clusters as f64 {
            true => trained,
            false => clusters,
        };
        // What is measured of them takes another eighth, when the buffers of distribution are gone.
        let (as_queries, measured) = (HeldOut::bytes(dims), ProbeThresholds::bytes(clusters));
        let coded_with = (scratch_bytes / 8 / as_queries.max(measured)).clamp(HELD_OUT_MIN, HELD_OUT_MAX);
        let free = free_once_trained((trained, clusters), memory, metric, dims);
        let held_out = (coded_with + free / (as_queries + measured)).min(HELD_OUT_MAX);
        let held_out = match scratch_bytes / 4 / (as_queries + measured) {
            HELD_OUT_ENOUGH.. => held_out.max(HELD_OUT_ENOUGH),
            _ => held_out,
        };
        let held_out = held_out.min(rows / HELD_OUT_ONE_IN);
        let sampled = (trained * SAMPLE_PER_CLUSTER)
            .max(ORIGIN_ROWS * 4)
            .min(rows - held_out);
        Build {
            params,
            decoder,
            rows,
            clusters,
            trained,
            trained_most,
            sampled,
            held_out,
            coded_with: coded_with.min(held_out),
        }
    }

    fn run(
        &self,
        source: &mut dyn RowSource,
        spill: &dyn Storage,
        files: &mut IvfFiles<'_>,
    ) -> Result<IvfBuilt> {
        let (sample, pointer, places) = self.sample(source, spill)?;
        if self.rows == 0 {
            return self.write_empty(files);
        }
        let training = self.training(&sample, &pointer, spill);
        let seeds = self
            .params
            .seed_centroids
            .filter(|seeds| seeds.dims() == self.decoder.dims);
        let reused = seeds.map_or(Ok(None), |seeds| training.reuse(seeds))?;
        let is_reused = reused.is_some();
        let mut tree = reused.map_or_else(|| training.run(), Ok)?;
        drop(sample);
        let rotation = self.rotation();
        let (of, rotation) = ((self.decoder.metric, self.decoder.dims), rotation.as_ref());
        let (assigned, mut counts, distances, spilled) =
            self.assign(source, &tree, (&pointer, &places), spill)?;
        let unit = unit_of(&counts, &distances);
        let numbers = tree.drop_empty(&mut counts, &distances);
        drop(distances);
        let spilled_centroids = SpilledCentroids::new(tree.centroids(), spill)?;
        // Its memory is that of centroids as they are ranked, and of the rows held out.
        drop(tree);
        let trained = spilled_centroids.ranked(of, rotation)?;
        let mean = spilled_centroids.mean;
        let mut held_out = self.as_queries(&spilled)?;
        drop(spilled);
        let (renumbered, held) = ((&assigned, &numbers[..]), (&mut held_out[..], &places));
        let (buckets, plan) = self.distribute(source, renumbered, &counts, held, spill)?;
        drop((assigned, numbers, places));
        held_out.iter_mut().for_each(HeldOut::has_met_all);
        let splits = self.splits(spill);
        let is_divided = self.clusters > self.trained && self.clusters > counts.len();
        let coded_with = self.coded_with.min(held_out.len());
        spread_first(&mut held_out, coded_with);
        let model = self.product_model(&held_out[..coded_with], rotation, &trained.view(), files)?;
        let mut centres = match is_divided {
            false => Centres::Trained(trained),
            true => {
                drop(trained);
                let ranking = Ranking::new(mean, self.clusters, of, rotation);
                let (counts, how) = (
                    (&counts[..], self.clusters),
                    (self.params.threads, self.params.seed),
                );
                let of = (&pointer, &splits);
                Centres::Divided(Division::new(of, counts, ranking, &held_out, how))
            }
        };
        let asked = rotation.filter(|_| files.scanned().next().is_some());
        let asked = asked.map(|rotation| {
            HeldOutQueries::new(
                &mut held_out[..coded_with],
                self.decoder.metric,
                rotation,
                centres.view().mean,
            )
        });
        let calibration = match &centres {
            Centres::Trained(centroids) => {
                let measured = self.measured(&mut held_out, centroids, rotation);
                held_out = Vec::new();
                Some(measured)
            }
            Centres::Divided(_) => None,
        };
        let (order, coded) = self.write_rows(
            (&buckets, &plan, &splits),
            (&mut centres, unit, &pointer),
            (rotation, asked.as_ref(), model.as_ref()),
            spill,
            files,
        )?;
        drop((buckets, asked));
        let (centroids, counts) = match centres {
            Centres::Trained(centroids) => (centroids, counts),
            Centres::Divided(division) => division.finish(&mut held_out),
        };
        let calibration = Calibration {
            deviations: coded.deviations,
            ..calibration.unwrap_or_else(|| self.measured(&mut held_out, &centroids, rotation))
        };
        self.write_positions(&order, files)?;
        let shape = self.shape(counts.len(), coded.unit, files);
        let file = meta::encode(
            shape,
            &calibration,
            &starts(&counts),
            &centroids.view(),
            model.as_ref(),
        );
        files.centroids.append(&file)?;
        Ok(IvfBuilt {
            rows: self.rows as u32,
            clusters: counts.len() as u32,
            largest_cluster: counts.iter().copied().max().unwrap_or(0),
            sampled: self.sampled as u32,
            is_reused,
            calibration,
        })
    }

    fn training<'t>(
        &'t self,
        sample: &'t Buckets<'t>,
        pointer: &'t Pointer,
        spill: &'t dyn Storage,
    ) -> Training<'t> {
        Training {
            sample,
            points: self.sampled,
            origin: &pointer.origin,
            clusters: self.trained,
            clusters_most: self.trained_most,
            scratch_bytes: self.params.scratch_bytes,
            centroid_bytes: self.params.centroid_bytes,
            threads: self.params.threads,
            seed: self.params.seed,
            spill,
            progress: self.params.progress,
        }
    }

    /// How many clusters are to be visited for which recall.
    fn measured(
        &self,
        held_out: &mut [HeldOut],
        centroids: &RankedBuf,
        rotation: Option<&Rotation>,
    ) -> Calibration {
        let (ranked, mut lists) = (centroids.view(), Lists::default());
        let metric = self.decoder.metric;
        measure(held_out, &ranked, metric, &mut |query, distances| {
            distances_as_ranked(&ranked, rotation, query, &mut lists, distances)
        })
    }

    /// Rows to cluster go to disk, in the source's order; and which rows are held out as queries, each with its place among them. No row is both:
    /// one that its centroid was made of lies nearer to it than a query would.
    fn sample<'s>(
        &self,
        source: &mut dyn RowSource,
        spill: &'s dyn Storage,
    ) -> Result<(Buckets<'s>, Pointer, HashMap<u32, usize>)> {
        let mut sample = Sample::create(self, spill)?;
        let mut places = HashMap::with_capacity(self.held_out);
        let mut random = Random::new(self.params.seed);
        let mut seen = 0usize;
        source.replay(&mut |number, row| {
            self.check_row(number, row)?;
            let left = self.rows.saturating_sub(seen).max(1);
            let hold = self.held_out.saturating_sub(places.len());
            if (random.below(left as u64) as usize) < hold {
                places.insert(number, places.len());
            } else if (random.below((left - hold).max(1) as u64) as usize) < self.sampled - sample.taken {
                sample.push(row)?;
            }
            seen += 1;
            self.advance(Phase::Sample, seen - 1, seen);
            Ok(())
        })?;
        self.check_count(seen)?;
        let (buckets, pointer) = sample.finish()?;
        Ok((buckets, pointer, places))
    }

    /// Every row's cluster in the source's order, the clusters' sizes, their rows' squared distances in all, and the rows that are held out.
    fn assign<'s>(
        &self,
        source: &mut dyn RowSource,
        tree: &Tree,
        (pointer, places): (&Pointer, &HashMap<u32, usize>),
        spill: &'s dyn Storage,
    ) -> Result<(List<'s>, Vec<u32>, Vec<f64>, Buckets<'s>)> {
        let (buffer, record) = (self.buffer_bytes(), 4 + self.decoder.row_bytes());
        let mut held_out = BucketWriter::create(spill, "tmp-ivf-held-out", 1, buffer, record)?;
        let mut list = ListWriter::create(spill, "tmp-ivf-assigned", self.buffer_bytes())?;
        let mut counts = vec![0u32; tree.centroids().count()];
        let mut distances = vec![0.0; counts.len()];
        let mut seen = 0;
        self.batches(source, |batch| {
            seen += batch.numbers.len();
            let before = seen - batch.numbers.len();
            self.advance(Phase::Assign, before, seen);
            batch.assign(tree, pointer, self.params.threads);
            for (cluster, distance) in batch.clusters.iter().zip(&batch.distances) {
                counts[*cluster as usize] += 1;
                distances[*cluster as usize] += f64::from(*distance);
                list.push(*cluster)?;
            }
            let rows = batch.rows.chunks_exact(self.decoder.row_bytes());
            for (row, number) in rows.zip(&batch.numbers) {
                if places.contains_key(number) {
                    held_out.push(0, &[row, &number.to_le_bytes()])?;
                }
            }
            Ok(())
        })?;
        self.check_count(seen)?;
        Ok((list.finish()?, counts, distances, held_out.finish()?))
    }

    /// The rows held out as queries, in the source's order.
    fn as_queries(&self, rows: &Buckets<'_>) -> Result<Vec<HeldOut>> {
        let mut queries = Vec::with_capacity(self.held_out);
        let mut vector = Vec::with_capacity(self.decoder.dims);
        rows.for_each_piece(0, |piece| {
            for record in piece.chunks_exact(self.decoder.row_bytes() + 4) {
                vector.clear();
                let row = &record[..self.decoder.row_bytes()];
                decode_row(self.decoder.element, row, &mut vector);
                let query = Query::new(self.decoder.metric, self.decoder.element, &vector);
                queries.push(HeldOut::new(trailing_number(record)?, query));
            }
            Ok(())
        })?;
        match queries.len() == self.held_out {
            true => Ok(queries),
            false => Err(changed("a row that was there before is gone")),
        }
    }

    /// How rows come into their buckets.
    fn splits<'s>(&self, spill: &'s dyn Storage) -> Splits<'s> {
        Splits {
            spill,
            record_bytes: RECORD_HEADER + self.decoder.row_bytes(),
            scratch_bytes: self.params.scratch_bytes,
        }
    }

    /// Rows into buckets, or into groups of them where not all get a buffer at once; the held-out rows meet them all on the way.
    fn distribute<'s>(
        &self,
        source: &mut dyn RowSource,
        (assigned, rewith_ids): (&List<'_>, &[u32]),
        counts: &[u32],
        (held_out, places): (&mut [HeldOut], &HashMap<u32, usize>),
        spill: &'s dyn Storage,
    ) -> Result<(Buckets<'s>, Plan)> {
        let record_bytes = RECORD_HEADER + self.decoder.row_bytes();
        let plan = Plan::new(counts, record_bytes, self.bucket_room());
        let splits = self.splits(spill);
        let step = splits.step(plan.buckets(), 0);
        let mut writer = splits.writer(plan.buckets().div_ceil(step), 0)?;
        let mut clusters = assigned.values();
        let mut seen = 0;
        self.batches(source, |batch| {
            seen += batch.numbers.len();
            batch.clusters.clear();
            for _ in 0..batch.numbers.len() {
                let cluster = clusters.next()?.ok_or_else(|| changed("more rows than before"))?;
                batch.clusters.push(rewith_ids[cluster as usize]);
            }
            batch.compare(&self.decoder, held_out, self.params.threads);
            self.advance(Phase::Distribute, seen - batch.numbers.len(), seen);
            let rows = batch.rows.chunks_exact(self.decoder.row_bytes());
            for ((row, number), cluster) in rows.zip(&batch.numbers).zip(&batch.clusters) {
                if let Some(at) = places.get(number) {
                    held_out[*at].cluster = Some(*cluster);
                }
                let parts = [&cluster.to_le_bytes()[..], row, &number.to_le_bytes()];
                writer.push(plan.bucket_of(*cluster) / step, &parts)?;
            }
            Ok(())
        })?;
        self.check_count(seen)?;
        Ok((writer.finish()?, plan))
    }

    /// The books of product codes, if there are to be such: of what held-out rows leave over of their centroids.
    fn product_model(
        &self,
        held_out: &[HeldOut],
        rotation: Option<&Rotation>,
        centroids: &Ranked<'_>,
        files: &IvfFiles<'_>,
    ) -> Result<Option<ProductModel>> {
        let parts = files.codes.iter().find_map(|codes| codes.kind.subquantizers());
        let (Some(parts), Some(rotation)) = (parts, rotation) else {
            return Ok(None);
        };
        let shape = ProductShape {
            parts: usize::from(parts),
            ..ProductShape::scanned(self.decoder.dims)
        };
        let (mut sample, mut vector, mut mixing) = (Vec::new(), Vec::new(), Vec::new());
        let (mut centroid, mut unpacked) = (Vec::new(), Vec::new());
        for held_out in held_out {
            let Some(cluster) = held_out.cluster else {
                continue;
            };
            vector.clear();
            vector.extend_from_slice(held_out.floats());
            rotation.apply(&mut vector, &mut mixing);
            centroids.centre(&mut vector);
            centroids.write(cluster, &mut unpacked, &mut centroid);
            sample.extend(vector.iter().zip(&centroid).map(|(x, c)| x - c));
        }
        leave_out_far(&mut sample, shape.dims);
        if sample.is_empty() {
            sample.resize(shape.dims, 0.0);
        }
        let most = self.params.scratch_bytes / 4 / (shape.dims * size_of::<f32>());
        shift_more(&mut sample, shape.dims, most.min(TRAINED_WITH));
        let train = match self.decoder.metric {
            Metric::Euclid => ProductModel::train,
            _ => ProductModel::train_overlapping,
        };
        train(shape, &sample, self.params.seed, self.params.threads).map(Some)
    }

    /// The rotation of codes and centroids, where there is one.
    fn rotation(&self) -> Option<Rotation> {
        let metric = self.decoder.metric;
        metric.has_codes().then(|| Rotation::new(self.decoder.dims))
    }

    /// The file of rows, and those of codes; returns the rows' numbers in their order, and the unit of the codes.
    fn write_rows<'s>(
        &self,
        (buckets, plan, splits): (&Buckets<'_>, &Plan, &Splits<'_>),
        (centres, unit, pointer): (&mut Centres<'_>, f32, &Pointer),
        (rotation, asked, model): (Option<&Rotation>, Option<&HeldOutQueries>, Option<&ProductModel>),
        spill: &'s dyn Storage,
        files: &mut IvfFiles<'_>,
    ) -> Result<(List<'s>, Coded)> {
        let record_bytes = RECORD_HEADER + self.decoder.row_bytes();
        let mut order = ListWriter::create(spill, "tmp-ivf-order", self.buffer_bytes())?;
        let mut rows = RowsOut::new(files.rows, files.rows_seed, record_bytes - 4, self.buffer_bytes());
        let per_block = RowsLayout::for_row(record_bytes as u32 - 4).rows_per_block() as usize;
        let mut codes =
            rotation.map(|rotation| self.codes_writer(&mut files.codes, unit, (rotation, asked, model)));
        let mut write = |cluster: u32, record: &[u8], centroids: &Ranked<'_>| {
            order.push(trailing_number(record)?)?;
            if let Some(codes) = &mut codes {
                codes.push(cluster, record, centroids)?;
            }
            rows.push(&record[4..])
        };
        let sorting = Sorting {
            record_bytes,
            room: self.bucket_room(),
            pointer,
            group: per_block,
            threads: self.params.threads,
        };
        splits.for_each_bucket(buckets, plan, &mut |bucket, from| {
            let (done, total) = (bucket as u64, plan.buckets() as u64);
            self.params.progress.report(Phase::Write, done, total);
            match centres {
                Centres::Trained(centroids) => {
                    let centroids = centroids.view();
                    sorting.for_each_record(from, plan.bytes(bucket), &mut |record| {
                        write(cluster_of(record), record, &centroids)
                    })
                }
                Centres::Divided(division) => {
                    division.next(from, plan.clusters(bucket), &sorting, &mut write)
                }
            }
        })?;
        rows.finish()?;
        let coded = codes.map_or(Ok(Coded::default()), |codes| codes.finish(&centres.view()))?;
        Ok((order.finish()?, coded))
    }

    fn codes_writer<'w>(
        &self,
        codes: &'w mut [IvfCodes<'_>],
        unit: f32,
        how: (&'w Rotation, Option<&'w HeldOutQueries>, Option<&'w ProductModel>),
    ) -> CodesWriter<'w> {
        let (dims, segment_rows) = (self.decoder.dims, self.params.segment_rows);
        let buffer_bytes = self.buffer_bytes() / codes.len().max(1);
        let file = |codes: &'w mut IvfCodes<'_>| {
            let layout = codes.kind.layout(dims, segment_rows);
            (
                codes.kind,
                RowsOut::with_layout(codes.file, codes.seed, layout, buffer_bytes),
            )
        };
        let batch_bytes = self.params.scratch_bytes / 32;
        CodesWriter::new(
            codes.iter_mut().map(file).collect(),
            self.decoder,
            segment_rows,
            how,
            unit,
            batch_bytes,
            self.params.threads,
        )
    }

    /// The file of positions, a window of rows at a time.
    fn write_positions(&self, order: &List<'_>, files: &mut IvfFiles<'_>) -> Result<()> {
        let segment_rows = self.params.segment_rows as usize;
        let window = (self.params.scratch_bytes / 4 / 4).clamp(1, segment_rows.max(1));
        let mut rows = RowsOut::new(files.positions, files.positions_seed, 4, self.buffer_bytes());
        let mut positions = vec![NO_POSITION; window];
        for first in (0..segment_rows).step_by(window) {
            positions.fill(NO_POSITION);
            let mut position = 0u32;
            order.for_each(|number| {
                if let Some(slot) = (number as usize)
                    .checked_sub(first)
                    .and_then(|i| positions.get_mut(i))
                {
                    *slot = position;
                }
                position += 1;
            })?;
            for position in &positions[..window.min(segment_rows - first)] {
                rows.push(&position.to_le_bytes())?;
            }
        }
        rows.finish()
    }

    /// An index of no rows has one cluster, whose centroid is zero.
    fn write_empty(&self, files: &mut IvfFiles<'_>) -> Result<IvfBuilt> {
        RowsOut::new(files.rows, files.rows_seed, self.decoder.row_bytes() + 4, 0).finish()?;
        let mut positions = RowsOut::new(files.positions, files.positions_seed, 4, self.buffer_bytes());
        for _ in 0..self.params.segment_rows {
            positions.push(&NO_POSITION.to_le_bytes())?;
        }
        positions.finish()?;
        for codes in &mut files.codes {
            let layout = codes.kind.layout(self.decoder.dims, self.params.segment_rows);
            RowsOut::with_layout(codes.file, codes.seed, layout, 0).finish()?;
        }
        let zero = vec![0.0; self.decoder.dims];
        let of = (self.decoder.metric, self.decoder.dims);
        let mut ranking = Ranking::new(zero.clone(), 1, of, None);
        ranking.push(zero.into_iter(), 0.0);
        let centroids = ranking.finish();
        let calibration = Calibration::default();
        let rotation = self.rotation();
        let model = self.product_model(&[], rotation.as_ref(), &centroids.view(), files)?;
        let file = meta::encode(
            self.shape(1, 1.0, files),
            &calibration,
            &[0, 0],
            &centroids.view(),
            model.as_ref(),
        );
        files.centroids.append(&file)?;
        Ok(IvfBuilt {
            rows: 0,
            clusters: 1,
            largest_cluster: 0,
            sampled: 0,
            is_reused: false,
            calibration,
        })
    }

    fn shape(&self, clusters: usize, unit: f32, files: &IvfFiles<'_>) -> Shape {
        let &IvfParams {
            metric,
            element,
            dims,
            segment_rows,
            ..
        } = self.params;
        Shape {
            metric,
            element,
            dims,
            clusters,
            rows: self.rows as u32,
            segment_rows,
            codes: std::array::from_fn(|i| files.scanned().nth(i)),
            unit,
            width: width_of(metric, dims),
        }
    }

    fn batches(&self, source: &mut dyn RowSource, each: impl FnMut(&mut Batch) -> Result<()>) -> Result<()> {
        let rows = (self.params.scratch_bytes / 16 / (self.decoder.row_bytes() + 8)).clamp(1, 1 << 14);
        Batches {
            source,
            rows,
            row_bytes: self.decoder.row_bytes(),
        }
        .for_each(each)
    }

    fn advance(&self, phase: Phase, before: usize, done: usize) {
        let (before, done, total) = (before as u64, done as u64, self.rows as u64);
        self.params.progress.advance(phase, before, done, total);
    }

    /// Records that are sorted at a time.
    fn bucket_room(&self) -> usize {
        self.params.scratch_bytes / 4
    }

    /// Buffer of one file being written or read.
    fn buffer_bytes(&self) -> usize {
        (self.params.scratch_bytes / 32).clamp(4096, 256 << 10)
    }

    fn check_row(&self, number: u32, row: &[u8]) -> Result<()> {
        if number < self.params.segment_rows && row.len() == self.decoder.row_bytes() {
            return Ok(());
        }
        Err(IndexError::Mismatch(format!(
            "row {number} of {} bytes in a segment of {} rows of {} bytes",
            row.len(),
            self.params.segment_rows,
            self.decoder.row_bytes()
        )))
    }

    fn check_count(&self, seen: usize) -> Result<()> {
        if seen == self.rows {
            return Ok(());
        }
        Err(changed(format!("{seen} rows, {} were announced", self.rows)))
    }
}

/// The clusters of rows that are written.
#[expect(clippy::large_enum_variant, reason = "a build has one")]
enum Centres<'c> {
    /// As they were trained.
    Trained(RankedBuf),
    /// As they are made of those.
    Divided(Division<'c>),
}

impl Centres<'_> {
    /// Those that there are.
    fn view(&self) -> Ranked<'_> {
        match self {
            Centres::Trained(centroids) => centroids.view(),
            Centres::Divided(division) => division.view(),
        }
    }
}

/// The sample on its way to disk.
struct Sample<'s> {
    writer: BucketWriter<'s>,
    pointer: Pointer,
    /// The first rows, kept until the origin is known.
    first: Vec<u8>,
    first_rows: usize,
    taken: usize,
    vector: Vec<f32>,
    point: Vec<u8>,
}

impl<'s> Sample<'s> {
    fn create(build: &Build<'_>, spill: &'s dyn Storage) -> Result<Sample<'s>> {
        let scratch_bytes = build.params.scratch_bytes;
        let point_bytes = build.decoder.dims + POINT_TAIL;
        let buffer_bytes = (scratch_bytes / 8).min(1 << 20);
        Ok(Sample {
            writer: BucketWriter::create(spill, "tmp-ivf-sample", 1, buffer_bytes, point_bytes)?,
            pointer: Pointer {
                decoder: build.decoder,
                origin: vec![0.0; build.decoder.dims],
            },
            first: Vec::new(),
            first_rows: (scratch_bytes / 8 / build.decoder.row_bytes()).clamp(1, ORIGIN_ROWS),
            taken: 0,
            vector: Vec::new(),
            point: Vec::new(),
        })
    }

    fn push(&mut self, row: &[u8]) -> Result<()> {
        self.taken += 1;
        if self.taken > self.first_rows {
            return self.write(row);
        }
        self.first.extend_from_slice(row);
        if self.taken == self.first_rows {
            self.write_first()?;
        }
        Ok(())
    }

    /// Sets the origin to the mean of the first rows, and writes them.
    fn write_first(&mut self) -> Result<()> {
        let first = std::mem::take(&mut self.first);
        let rows = || first.chunks_exact(self.pointer.decoder.row_bytes());
        let mut sums = vec![0.0f64; self.pointer.origin.len()];
        let share = 1.0 / rows().len().max(1) as f64;
        for row in rows() {
            self.pointer.decoder.decode(row, &mut self.vector);
            let values = sums.iter_mut().zip(&self.vector);
            values.for_each(|(sum, value)| *sum += share * f64::from(*value));
        }
        self.pointer.origin = sums.into_iter().map(|sum| sum as f32).collect();
        let row_bytes = self.pointer.decoder.row_bytes();
        first.chunks_exact(row_bytes).try_for_each(|row| self.write(row))
    }

    fn write(&mut self, row: &[u8]) -> Result<()> {
        self.point.clear();
        self.pointer.append(row, &mut self.vector, &mut self.point);
        self.writer.push(0, &[&self.point])
    }

    fn finish(mut self) -> Result<(Buckets<'s>, Pointer)> {
        if !self.first.is_empty() {
            self.write_first()?;
        }
        Ok((self.writer.finish()?, self.pointer))
    }
}

/// Puts so many first that lie evenly among all.
fn spread_first<T>(all: &mut [T], count: usize) {
    let every = all.len();
    (0..count).for_each(|i| all.swap(i, i * every / count));
}

/// Clusters' first positions, and the end of the last.
fn starts(counts: &[u32]) -> Vec<u32> {
    let mut starts = Vec::with_capacity(counts.len() + 1);
    let mut next = 0;
    starts.push(next);
    for count in counts {
        next += count;
        starts.push(next);
    }
    starts
}

fn changed(detail: impl Into<String>) -> IndexError {
    IndexError::Mismatch(format!(
        "the source of rows changed between replays: {}",
        detail.into()
    ))
}
