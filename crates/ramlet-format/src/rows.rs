//! Fixed-size rows, addressed by number: vectors, ids by row, versions.
//!
//! A data block of `block_pages` pages:
//!
//! | bytes | what |
//! |---|---|
//! | 0 .. rows_per_block * row_bytes | rows, one after another; a row never straddles blocks |
//! | .. len-4 | 0 |
//! | len-4 .. len | crc32c |
//!
//! The last block has full size too. No index region. Footer numbers: rows, row_bytes, block_pages, 0.
//! Readers take the layout from the footer, so the choice in [`RowsLayout::for_row`] may change without a new version.

mod layout;
mod writer;

pub use layout::{RowsLayout, file_bytes};
pub use writer::RowsWriter;

use crate::error::{FormatError, Result};
use crate::footer::{FileKind, Footer};

/// Where the rows of a file lie. A few words; no heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsMeta {
    pub layout: RowsLayout,
    /// Rows in the file.
    pub rows: u64,
    /// Pages of data, from page 0.
    pub data_pages: u64,
}

impl RowsMeta {
    /// The layout that `footer` states; `Err` if its numbers contradict each other or it is another kind of file.
    pub fn open(footer: &Footer) -> Result<Self> {
        footer.ensure_kind(FileKind::Rows)?;
        let [rows, row_bytes, block_pages, _] = footer.numbers;
        let wrong = || {
            let detail = format!(
                "{rows} rows of {row_bytes} bytes in blocks of {block_pages} pages contradict {footer:?}"
            );
            FormatError::new("rows footer", detail)
        };
        let layout = RowsLayout::from_parts(row_bytes, block_pages).ok_or_else(wrong)?;
        let blocks = rows.div_ceil(u64::from(layout.rows_per_block()));
        if blocks.checked_mul(block_pages) != Some(footer.data_pages) || footer.index_bytes != 0 {
            return Err(wrong());
        }
        Ok(Self {
            layout,
            rows,
            data_pages: footer.data_pages,
        })
    }

    /// Blocks of data; block `n` begins at page `n * block_pages`.
    pub fn blocks(&self) -> u64 {
        self.data_pages / u64::from(self.layout.block_pages())
    }

    /// Rows in block `block_no`: full but for the last; 0 past the end.
    pub fn rows_in_block(&self, block_no: u64) -> u32 {
        let per_block = u64::from(self.layout.rows_per_block());
        let before = block_no.saturating_mul(per_block);
        self.rows.saturating_sub(before).min(per_block) as u32
    }
}
