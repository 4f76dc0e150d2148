//! One thread's memory for searching inverted files.

use std::ops::Range;

use super::candidates::CANDIDATES_MIN;
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

/// Dimensions up to which what is made of a query stays for the next search.
const DIMS_KEPT: usize = 4096;
/// Bytes a dimension of what is made of a query: rotated and mixed, less three centroids in three forms each, and a centroid for ranking.
const BYTES_PER_DIM: usize = 60;

impl Lists {
    /// Bytes of what is made of a query, beyond what stays for the next.
    pub(super) fn bytes_for_query(dims: usize) -> u64 {
        match dims > DIMS_KEPT {
            true => (dims * BYTES_PER_DIM) as u64,
            false => 0,
        }
    }

    /// Gives back what only a large search needs.
    pub(super) fn trim(&mut self, dims: usize) {
        self.row_bitmap.trim();
        self.codes.candidates.trim();
        self.products.trim();
        self.reads.shrink_to(CANDIDATES_MIN);
        self.positions.shrink_to(CANDIDATES_MIN);
        if dims > DIMS_KEPT {
            (self.codes, self.products) = (CodeLists::default(), ProductLists::default());
        }
    }
}
