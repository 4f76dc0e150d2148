//! One thread's memory for searching inverted files.

use std::ops::Range;

use super::codes::CodeLists;
use super::products::ProductLists;
use super::row_bitmap::RowBitmap;

/// Working lists, each bounded: by the blocks that fit the buffer, by `POSITIONS`, by the number of clusters.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// Reads of one batch: first page and pages.
    pub(crate) reads: Vec<(u64, u32)>,
    /// Positions to visit.
    pub(crate) positions: Vec<u32>,
    /// Rows to find the positions of.
    pub(crate) rows: Vec<u32>,
    /// Clusters with how far they are, the cluster in the lower half.
    pub(crate) clusters: Vec<u64>,
    /// Where the nearest of them are, and a sample of them.
    pub(crate) places: Vec<u32>,
    pub(crate) sample: Vec<u64>,
    /// Positions of the clusters of one batch.
    pub(crate) ranges: Vec<Range<u32>>,
    /// Positions of the rows that a bitmap names.
    pub(crate) row_bitmap: RowBitmap,
    /// For searching codes.
    pub(crate) codes: CodeLists,
    pub(crate) products: ProductLists,
}
