//! Vector search: encoding, scoring, the k nearest, and the indexes that find them.
//!
//! This crate opens no file and knows no collection and no payload: it is given readers ([`ramlet_io::BlockFile`])
//! and row numbers. A row is one encoded vector; rows are numbered from 0 within a segment.
//!
//! In reading order: [`Metric`] and [`Element`] say how vectors compare and how they are stored; [`Query`] is a
//! vector made ready to be compared; [`TopK`] keeps the nearest; [`Allowed`] says which rows may be found;
//! [`VectorIndex`] is the seam behind which an index lives.

mod metric;
mod query;
mod topk;
mod vector;

mod centroids;
mod rows;
mod search;
mod vector_index;

mod flat;
pub mod graph;
pub mod ivf;
mod quant;
pub mod sparse;

mod build;
mod error;
mod report;

/// Dimensions from which on vectors are *wide*. An estimate's error shrinks with the root of the dimensions: codes of one bit leave tens of rows to read, not
/// hundreds, serve in part too (those of a cluster are a few pages), and product codes are no better in as many bytes. Centroids have four bits for each dimension.
pub const WIDE: usize = 256;

pub use build::progress::{Phase, Progress};
pub use build::source::RowSource;
pub use centroids::{Centroids, SeedCentroids};
pub use error::{IndexError, Result};
pub use flat::{Flat, scan_rows};
pub use graph::Graph;
pub use ivf::Ivf;
pub use metric::{Element, Metric};
pub use quant::{CodeKind, Epsilon};
pub use query::Query;
pub use report::{Calibrated, IndexReport, PartUse};
pub use rows::cached_rows::{CachedRows, CachedView};
pub use rows::positions::NO_POSITION;
pub use rows::rows_file::RowsFile;
pub use rows::scan::scan_bytes;
pub use search::allowed::{Allowed, RowFilter, RowSet};
pub use search::calibration::{
    Calibration, CalibrationPoint, Deviations, DeviationsByDepth, LOST_BY_QUERIES, Reached, Rule,
};
pub use search::scratch::IndexScratch;
pub use search::search_stats::SearchStats;
pub use sparse::{SparseRow, sparse_distance};
pub use topk::{Hit, TopK};
pub use vector::{NotFinite, decode_row, encode_row, validate};
pub use vector_index::{
    CodesWanted, EFFORT_DEFAULT, Effort, IndexSearchParams, Measured, MeasuredAgain, Measures, MemoryUse,
    VectorIndex,
};
