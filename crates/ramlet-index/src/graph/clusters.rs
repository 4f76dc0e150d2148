//! Rows in cluster order, and the data common to all clusters.
//!
//! An inverted file is built and only its order is kept: it puts near rows next to each other within a bounded
//! scratch, and its positions become the nodes' numbers.

use std::sync::Arc;

use ramlet_format::block;
use ramlet_format::footer::Footer;
use ramlet_format::rows::RowsMeta;
use ramlet_io::{BlockFile, IoContext, PAGE, ReadFile, Storage};
use ramlet_memory::AnonBuf;

use super::built_from::{GraphFiles, GraphParams};
use super::code::{Frame, decode, dot};
use crate::build::temporary::Temporary;
use crate::error::Result;
use crate::ivf::{IvfFiles, IvfParams, build_ivf};
use crate::rows::reading::{stream, trailing_number};
use crate::{Metric, RowSource, RowsFile};

/// Bytes that are written and read of a bucket of rows at once: with little scratch there are fewer clusters, each a bucket, and
/// their order is coarser. Neighbours must not lie near each other for anything but the size of edges in RAM.
const PIECE_BYTES: usize = 8 << 10;

/// Seed of the blocks of temporary rows.
const SEED: u64 = 0x7261_7068;

/// Rows in cluster order.
pub(super) struct Clustered<'a> {
    pub(super) rows: RowsFile,
    _temporaries: [Temporary<'a>; 2],
}

/// What one pass over the rows tells.
pub(super) struct Survey {
    pub(super) frame: Frame,
    /// Length of the longest vector.
    pub(super) longest: f32,
}

impl<'a> Clustered<'a> {
    pub(super) fn build(
        params: &GraphParams<'_>,
        source: &mut dyn RowSource,
        spill: &'a dyn Storage,
        files: &mut GraphFiles<'_>,
    ) -> Result<Clustered<'a>> {
        let (rows, mut rows_file) = Temporary::create(spill, "tmp-graph-rows")?;
        let (centroids, mut centroids_file) = Temporary::create(spill, "tmp-graph-centroids")?;
        let ivf = IvfParams {
            metric: params.metric,
            element: params.element,
            dims: params.dims,
            segment_rows: params.segment_rows,
            scratch_bytes: params.scratch_bytes,
            threads: params.threads,
            seed: params.seed,
            clusters: clusters(params, source.rows()),
            progress: params.progress,
            centroid_bytes: 0,
            seed_centroids: None,
        };
        let mut out = IvfFiles {
            rows: &mut *rows_file,
            rows_seed: SEED,
            positions: files.positions,
            positions_seed: files.positions_seed,
            centroids: &mut *centroids_file,
            codes: Vec::new(),
        };
        build_ivf(&ivf, source, spill, &mut out)?;
        rows_file.flush()?;
        centroids_file.flush()?;
        files.positions.flush()?;
        let mut io = IoContext::for_storage(spill, 1)?;
        let rows_file = open_rows(rows.open()?, SEED, &mut io)?;
        Ok(Clustered {
            rows: rows_file,
            _temporaries: [rows, centroids],
        })
    }

    /// Centres, and the frame of all codes.
    pub(super) fn survey(
        &self,
        params: &GraphParams<'_>,
        io: &mut IoContext,
        buf: &mut AnonBuf,
    ) -> Result<Survey> {
        let dims = params.dims;
        let mut vector = Vec::new();
        let (mut longest, mut squares, mut mean) = (0.0f32, 0.0f64, vec![0.0f64; dims]);
        stream(&self.rows, buf, io, &mut |_, row| {
            decode(params.metric, params.element, vector_of(row), &mut vector);
            let square = dot(&vector, &vector);
            longest = longest.max(square.sqrt());
            squares += f64::from(square);
            mean.iter_mut()
                .zip(&vector)
                .for_each(|(sum, x)| *sum += f64::from(*x));
            Ok(())
        })?;
        let rows = f64::from(self.rows.rows().max(1));
        mean.iter_mut().for_each(|sum| *sum /= rows);
        let around = squares / rows - mean.iter().map(|mean| mean * mean).sum::<f64>();
        let mean: Vec<f32> = mean.into_iter().map(|mean| mean as f32).collect();
        // All rows alike: whatever the unit, every code is 0.
        let unit = if around > squares / rows * 1e-9 {
            around.sqrt() as f32
        } else {
            1.0
        };
        Ok(Survey {
            frame: Frame::new(params.metric, mean, unit),
            longest: if params.metric == Metric::Dot {
                longest
            } else {
                0.0
            },
        })
    }
}

/// Fewer clusters than an inverted file has, where the scratch hasn't room for pieces of so many buckets.
fn clusters(params: &GraphParams<'_>, rows: u32) -> Option<u32> {
    let buckets = (params.scratch_bytes / 2 / PIECE_BYTES).max(1) as u32;
    let rows_each = rows / buckets;
    let usual = (rows / (8 * rows.isqrt()).max(1)).max(ROWS_PER_CLUSTER);
    (rows_each > usual).then_some(buckets)
}

/// Rows of a cluster of an inverted file, at least.
const ROWS_PER_CLUSTER: u32 = 128;

/// The encoded vector of a row with its number behind it.
pub(super) fn vector_of(row: &[u8]) -> &[u8] {
    &row[..row.len().saturating_sub(4)]
}

/// The segment row's number behind a vector.
pub(super) fn number_of(row: &[u8]) -> Result<u32> {
    trailing_number(row)
}

/// Opens a file of rows that was just written.
pub(super) fn open_rows(file: Arc<dyn ReadFile>, seed: u64, io: &mut IoContext) -> Result<RowsFile> {
    let file = BlockFile::new(file, seed, block::verify, None);
    let last = file.pages().saturating_sub(1);
    let mut buf = AnonBuf::new(PAGE);
    let meta = RowsMeta::open(&Footer::parse(file.read(io, last, 1, &mut buf)?, seed, last)?)?;
    RowsFile::new(Arc::new(file), meta)
}
