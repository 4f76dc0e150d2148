//! Dot products with codes that lie interleaved: 16 codes side by side, four dimensions at a time.

use crate::operands::MAX_U8_DIMS;
use crate::table::Kernels;

/// Codes of an interleaved block.
pub const INTERLEAVED_CODES: usize = 16;

/// Bytes of one column of an interleaved block: four dimensions of each code.
pub const INTERLEAVED_COLUMN_BYTES: usize = INTERLEAVED_CODES * INTERLEAVED_QUAD;

/// Dimensions of a column.
pub const INTERLEAVED_QUAD: usize = 4;

/// Bytes of an interleaved block of codes of so many dimensions.
pub const fn interleaved_bytes(dims: usize) -> usize {
    dims.div_ceil(INTERLEAVED_QUAD) * INTERLEAVED_COLUMN_BYTES
}

impl Kernels {
    /// Dot products of a signed query with codes of one unsigned byte a dimension, for whole interleaved blocks of [`INTERLEAVED_CODES`] codes:
    /// dimension `4c + i` of code `v` is byte `64c + 4v + i` of its interleaved block. The query's length is a multiple of four,
    /// those behind the last dimension 0.
    ///
    /// About a quarter of the cost of [`Kernels::dot_codes`], since no sum crosses lanes. Exact up to [`MAX_U8_DIMS`]
    /// dimensions.
    pub fn dot_interleaved(&self, query: &[i8], interleaved_blocks: &[u8], out: &mut [i32]) {
        assert!(query.len() <= MAX_U8_DIMS && query.len().is_multiple_of(INTERLEAVED_QUAD));
        assert!(
            out.len().is_multiple_of(INTERLEAVED_CODES),
            "products of a part of an interleaved block"
        );
        assert_eq!(
            interleaved_blocks.len(),
            out.len() / INTERLEAVED_CODES * interleaved_bytes(query.len()),
            "whole interleaved blocks without gaps"
        );
        if query.is_empty() {
            return out.fill(0);
        }
        // SAFETY: the table proves the features; lengths were just checked.
        unsafe { (self.interleaved)(query, interleaved_blocks, out) }
    }
}
