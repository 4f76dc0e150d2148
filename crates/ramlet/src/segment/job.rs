//! The tools of a job that writes a segment.

use std::sync::Arc;

use ramlet_index::IndexScratch;
use ramlet_io::{IoContext, Storage};

use super::files::FileContext;
use super::layout::IndexingThreshold;
use crate::jobs::progress::JobUnderWay;
use crate::schema::{Schema, VectorField};

/// What a job may use.
pub struct Job<'a> {
    pub file_context: &'a FileContext,
    /// The file context's, for the files that the job writes.
    pub storage: Arc<dyn Storage>,
    pub schema: &'a Schema,
    /// Points of the collection.
    pub collection_rows: u64,
    pub indexing_threshold: IndexingThreshold,
    /// Bytes that may be cached of a vector's rows that are all compared.
    pub compared_room: &'a dyn Fn(&VectorField) -> u64,
    /// Whether graphs that were asked for are built. Else their vectors have no index yet.
    pub graphs: bool,
    /// Hears how far index builds are.
    pub progress: Option<Arc<JobUnderWay>>,
    /// Bytes of scratch memory for sorting and index builds.
    pub scratch_bytes: usize,
    /// Somebody held a part of the scratch that the job wanted: it would have more another time.
    pub has_less_scratch: bool,
    /// Threads of an index build.
    pub threads: usize,
    pub io: &'a mut IoContext,
    pub scratch: &'a mut IndexScratch,
}
