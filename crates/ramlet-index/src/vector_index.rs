//! The seam between a segment and its vector index.

use ramlet_io::IoContext;

use crate::centroids::SeedCentroids;
use crate::error::Result;
use crate::quant::Epsilon;
use crate::report::{IndexReport, PartUse};
use crate::search::calibration::{Calibration, DEPTHS};
use crate::search::scratch::IndexScratch;
use crate::{Allowed, Query, SparseRow, TopK};

/// How hard to look. How many rows are wanted is the [`TopK`]'s `k`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IndexSearchParams {
    /// The `k` nearest for certain, whatever it costs.
    pub exact: bool,
    /// The API's `hnsw_ef`: 128 is the effort calibrated for the index's recall target, 256 twice that. `None` is 128.
    pub effort: Option<u32>,
    /// The recall aimed at (above 0, below 1) instead of the collection's; `effort` scales what it takes.
    pub recall: Option<f32>,
    pub codes: CodesWanted,
    /// Share of all rows that are searched for these hits that this index has; `None`: all. What a small part has of them are its
    /// very nearest.
    pub share: Option<f32>,
    /// Goes about it exactly so, whatever recall and effort take: for measuring.
    pub fixed_effort: Option<Effort>,
}

/// How hard a search tries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Clusters visited at least.
    pub probes: u32,
    pub epsilon: Epsilon,
    /// Share of the 10 nearest that should be found, by what was measured at build; of what is told, nothing is known.
    pub recall_expected: f32,
}

/// How a search uses codes: the API's `quantization` of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CodesWanted {
    /// Compare the rows themselves, as if there were no codes.
    pub ignore: bool,
    /// `Some(true)`: every hit's score is that of the row itself. `Some(false)`: no row is read, scores are those of
    /// the codes. `None`: rows are read where codes can't tell which of them are among the nearest, and those of all hits where
    /// codes are rough or the rows in memory.
    pub rescore: Option<bool>,
    /// Look at this many times the rows wanted (at least 1) before the nearest are chosen by their rows.
    pub oversampling: Option<f32>,
    /// A distance that hits are compared with: of those whose codes don't tell on which side they lie, the rows are read.
    pub threshold: Option<f32>,
}

/// The effort that a request without one has.
pub const EFFORT_DEFAULT: u32 = 128;

/// Bytes of an index, apart by where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Resident, of the index itself.
    pub heap_bytes: u64,
    /// Files cached in RAM.
    pub pinned_bytes: u64,
    /// Files, cached or not.
    pub disk_bytes: u64,
}

/// Queries that an index is measured on: users' first, then as many rows at most.
#[derive(Clone, Copy)]
pub struct Measures<'q> {
    pub users: usize,
    pub all: usize,
    /// So many are compared with all rows in a pass.
    pub at_once: usize,
    pub nth: &'q dyn Fn(usize) -> Measured,
}

/// A query that an index is measured on.
#[derive(Clone, Debug)]
pub struct Measured {
    pub vector: Vec<f32>,
    /// It is this row of the index, and no neighbour of its own; `None`: a user asked for it.
    pub row: Option<u32>,
}

/// What [`VectorIndex::measure_again`] finds.
#[derive(Clone, Debug)]
pub struct MeasuredAgain {
    /// Of what users asked for, for [`crate::Ivf::with_calibration`]; how many are lost by queries isn't measured yet.
    pub calibration: Calibration,
    /// Of each query the numbers of the [`MeasuredAgain::WANTED`] rows that are nearest, and of those that are as near as the last of
    /// them; none where these are too many.
    pub nearest: Vec<Vec<u32>>,
}

impl MeasuredAgain {
    pub const WANTED: usize = 10;

    /// Bytes that the numbers of one query take, at most.
    pub const NEAREST_BYTES_MAX: usize = size_of::<Vec<u32>>() + DEPTHS[1] * size_of::<u32>();
}

/// An index over the vectors of one segment. Immutable; shared by all search threads.
pub trait VectorIndex: Send + Sync {
    /// Offers `top` the rows nearest to `query` among those allowed; ties as [`TopK`] says. What `top` already holds
    /// (of other segments) stays in the race. Counts go to `scratch.stats`, which starts at zero.
    ///
    /// Allocates nothing once `scratch` has seen an equal search. After an error, what `top` holds is meaningless.
    fn search(
        &self,
        query: &Query,
        want: &IndexSearchParams,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        top: &mut TopK,
    ) -> Result<()>;

    /// Bytes of heap that such a search takes for as long as it lasts, beyond what `scratch` keeps for the next one. The caller reserves
    /// them: they grow with `k`, the effort, the dimensions and what a filter names.
    fn search_bytes(&self, query: &Query, want: &IndexSearchParams, allowed: &Allowed<'_>, k: usize) -> u64;

    /// Shows `each` the encoded vectors of these rows, in whatever order reads them cheapest; rows without a vector
    /// are left out. An error of `each` ends it.
    fn read_rows(
        &self,
        rows: &[u32],
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()>;

    /// Shows `each` the encoded vectors of all rows, in the order of the file, which is the same every time.
    fn for_each_row(
        &self,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()>;

    /// Vectors in the index.
    fn rows(&self) -> u32;

    /// Adds to `counts` in how many rows each of these dimensions (ascending) of a sparse vector is. Without lists all rows
    /// are read.
    fn document_frequencies(
        &self,
        dims: &[u32],
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        counts: &mut [u64],
    ) -> Result<()> {
        self.for_each_row(scratch, io, &mut |_, bytes| {
            if let Some(row) = SparseRow::parse(bytes) {
                row.count(dims, counts);
            }
            Ok(())
        })
    }

    /// The centroids of its clusters, for a merge to begin with; `None` without clusters.
    fn seeds(&self) -> Option<&dyn SeedCentroids> {
        None
    }

    /// Measures recall by effort again. Reads all rows in each pass. `None`: this index has nothing to measure.
    fn measure_again(
        &self,
        _queries: &Measures<'_>,
        _scratch: &mut IndexScratch,
        _io: &mut IoContext,
    ) -> Result<Option<MeasuredAgain>> {
        Ok(None)
    }

    fn memory(&self) -> MemoryUse;

    /// What it consists of and what was measured of it.
    fn report(&self) -> IndexReport {
        let MemoryUse {
            heap_bytes,
            pinned_bytes,
            disk_bytes,
        } = self.memory();
        IndexReport {
            parts: vec![PartUse {
                name: "rows",
                heap_bytes,
                pinned_bytes,
                disk_bytes,
            }],
            ..IndexReport::default()
        }
    }

    /// `flat`, `ivf` or `hnsw`.
    fn kind(&self) -> &'static str;
}
