//! Writes a rows file front to back.

use super::{RowsLayout, RowsMeta};
use crate::footer::{BlockFile, FileKind};

/// Writes a rows file. Holds one block (`layout.block_bytes()`), however many rows there are.
#[derive(Debug)]
pub struct RowsWriter {
    file: BlockFile,
    layout: RowsLayout,
    rows: u64,
    /// Rows of the block that isn't full yet.
    block: Vec<u8>,
}

impl RowsWriter {
    pub fn new(seed: u64, row_bytes: u32) -> Self {
        Self::with_layout(seed, RowsLayout::for_row(row_bytes))
    }

    pub fn with_layout(seed: u64, layout: RowsLayout) -> Self {
        Self {
            file: BlockFile::new(seed),
            layout,
            rows: 0,
            block: Vec::with_capacity(layout.block_bytes()),
        }
    }

    pub fn layout(&self) -> RowsLayout {
        self.layout
    }

    /// Rows pushed so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    pub fn heap_bytes(&self) -> usize {
        self.block.capacity()
    }

    /// Adds the next row; appends a block to `out` when one is full.
    ///
    /// # Panics
    /// If the row's length isn't `row_bytes`.
    pub fn push(&mut self, row: &[u8], out: &mut Vec<u8>) {
        assert_eq!(row.len(), self.layout.row_bytes() as usize, "length of a row");
        self.block.extend_from_slice(row);
        self.rows += 1;
        if self.rows.is_multiple_of(self.layout.rows_per_block().into()) {
            self.flush(out);
        }
    }

    /// Writes the last block, zero padded to full size, and the footer.
    pub fn finish(mut self, out: &mut Vec<u8>) -> RowsMeta {
        if !self.block.is_empty() {
            self.flush(out);
        }
        let (layout, rows) = (self.layout, self.rows);
        let numbers = [rows, layout.row_bytes().into(), layout.block_pages().into(), 0];
        let footer = self.file.finish(FileKind::Rows, &[], numbers, out);
        RowsMeta {
            layout,
            rows,
            data_pages: footer.data_pages,
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.block);
        out.resize(start + self.layout.block_bytes() - crate::block::CRC_BYTES, 0);
        self.file.seal_from(start, out);
        self.block.clear();
    }
}
