//! Dot products with codes that lie braided: 16 codes side by side, four dimensions at a time.

use crate::operands::MAX_U8_DIMS;
use crate::table::Kernels;

/// Codes of a braid.
pub const BRAID: usize = 16;

/// Bytes of one column of a braid: four dimensions of each code.
pub const BRAID_COLUMN_BYTES: usize = BRAID * BRAID_QUAD;

/// Dimensions of a column.
pub const BRAID_QUAD: usize = 4;

/// Bytes of a braid of codes of so many dimensions.
pub const fn braid_bytes(dims: usize) -> usize {
    dims.div_ceil(BRAID_QUAD) * BRAID_COLUMN_BYTES
}

impl Kernels {
    /// Dot products of a signed query with codes of one unsigned byte a dimension, for whole braids of [`BRAID`] codes:
    /// dimension `4c + i` of code `v` is byte `64c + 4v + i` of its braid. The query's length is a multiple of four,
    /// those behind the last dimension 0.
    ///
    /// About a quarter of the cost of [`Kernels::dot_codes`], since no sum crosses lanes. Exact up to [`MAX_U8_DIMS`]
    /// dimensions.
    pub fn dot_braided(&self, query: &[i8], braids: &[u8], out: &mut [i32]) {
        assert!(query.len() <= MAX_U8_DIMS && query.len().is_multiple_of(BRAID_QUAD));
        assert!(out.len().is_multiple_of(BRAID), "products of a part of a braid");
        assert_eq!(
            braids.len(),
            out.len() / BRAID * braid_bytes(query.len()),
            "whole braids without gaps"
        );
        if query.is_empty() {
            return out.fill(0);
        }
        // SAFETY: the table proves the features; lengths were just checked.
        unsafe { (self.braided)(query, braids, out) }
    }
}
