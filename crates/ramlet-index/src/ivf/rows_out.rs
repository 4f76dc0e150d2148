//! Writes a file of rows.

use ramlet_format::rows::{RowsLayout, RowsWriter};
use ramlet_io::WriteFile;

use crate::error::Result;

/// A file of rows being written, through a buffer.
pub(super) struct RowsOut<'f> {
    file: &'f mut dyn WriteFile,
    writer: RowsWriter,
    out: Vec<u8>,
    buffer_bytes: usize,
}

impl<'f> RowsOut<'f> {
    pub(super) fn new(
        file: &'f mut dyn WriteFile,
        seed: u64,
        row_bytes: usize,
        buffer_bytes: usize,
    ) -> RowsOut<'f> {
        RowsOut::with_layout(file, seed, RowsLayout::for_row(row_bytes as u32), buffer_bytes)
    }

    pub(super) fn with_layout(
        file: &'f mut dyn WriteFile,
        seed: u64,
        layout: RowsLayout,
        buffer_bytes: usize,
    ) -> RowsOut<'f> {
        let writer = RowsWriter::with_layout(seed, layout);
        let out = Vec::with_capacity(buffer_bytes + layout.block_bytes());
        RowsOut {
            file,
            writer,
            out,
            buffer_bytes,
        }
    }

    pub(super) fn push(&mut self, row: &[u8]) -> Result<()> {
        self.writer.push(row, &mut self.out);
        if self.out.len() > self.buffer_bytes {
            self.file.append(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.writer.finish(&mut self.out);
        Ok(self.file.append(&self.out)?)
    }
}
