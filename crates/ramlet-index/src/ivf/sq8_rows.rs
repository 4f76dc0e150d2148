//! Rescoring with SQ8 rows: rows that 1-bit codes can't decide are compared by a byte per dimension, and only the remaining ones are read in
//! full.
//!
//! Beside product codes, which don't say which row they are of, all rows of a block that is read are compared: of the vectors of 100 floats a page
//! holds ten, of these 36. One index read both ways, 1M x 100 in 32 MB, recall@10 .90: 23 pages where 29 of vectors were read (hard), 13 where 20
//! were (easy). Beside signs only candidates are compared; there a read is a page in place of the four that five vectors of 768 floats take, or eight of 1,536.

use super::meta::Shape;
use crate::CodeKind;
use crate::error::{IndexError, Result};
use crate::quant::Sq8Layout;
use crate::rows::rows_file::RowsFile;

/// Rows compared between two looks at how many candidates there are, unless one block has more.
pub(super) const ROWS: usize = 512;

/// The file, and how to read it.
#[derive(Debug)]
pub(super) struct Sq8Rows {
    pub(super) file: RowsFile,
    pub(super) layout: Sq8Layout,
}

impl Sq8Rows {
    pub(super) fn new(shape: &Shape, file: RowsFile) -> Result<Sq8Rows> {
        let layout = Sq8Layout::new(shape.dims);
        let wanted = (layout.row_bytes(), shape.rows);
        if !shape.metric.has_codes() || (file.stride(), file.rows()) != wanted {
            let detail = format!("{shape:?} with SQ8 rows in {file:?}");
            return Err(IndexError::Mismatch(detail));
        }
        Ok(Sq8Rows { file, layout })
    }

    pub(super) fn kind(&self) -> CodeKind {
        CodeKind::Sq8
    }

    /// Blocks that are read between two looks at how many candidates there are.
    pub(super) fn blocks_at_once(&self) -> usize {
        (ROWS / self.file.rows_per_block() as usize).max(1)
    }
}
