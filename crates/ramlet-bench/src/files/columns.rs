//! Arrays that are stored column by column, as Fortran and transposed NumPy arrays are, read as rows.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};

use super::rows::{RowLayout, Rows};

/// Most bytes of rows that are read together: a piece of each column at a time.
const SLAB_BYTES: u64 = 1 << 20;

/// A file of columns, open. Memory: a slab of at most 1 MiB, or one row, and that again as f32.
pub struct ColumnFile {
    file: File,
    layout: RowLayout,
    row: u64,
    /// Rows `slab_start..` one after another.
    slab: Vec<f32>,
    slab_start: u64,
}

impl ColumnFile {
    pub fn new(file: File, layout: RowLayout) -> Result<ColumnFile> {
        layout.check(file.metadata()?.len())?;
        Ok(ColumnFile {
            file,
            layout,
            row: 0,
            slab: Vec::new(),
            slab_start: 0,
        })
    }

    /// Reads the slab that begins with the next row: a positioned read per column.
    fn fill(&mut self) -> Result<()> {
        let RowLayout { dim, rows, start, .. } = self.layout;
        let width = self.layout.element.bytes() as u64;
        let count = (SLAB_BYTES / self.layout.stride()).max(1).min(rows - self.row);
        let mut bytes = vec![0; (count * width) as usize];
        let mut column = Vec::with_capacity(count as usize);
        self.slab.clear();
        self.slab.resize(count as usize * dim, 0.0);
        for at in 0..dim {
            let offset = start + (at as u64 * rows + self.row) * width;
            self.file.read_exact_at(&mut bytes, offset)?;
            column.clear();
            self.layout.element.decode(self.layout.order, &bytes, &mut column);
            for (row, value) in column.iter().enumerate() {
                self.slab[row * dim + at] = *value;
            }
        }
        self.slab_start = self.row;
        Ok(())
    }
}

impl Rows for ColumnFile {
    fn rows(&self) -> u64 {
        self.layout.rows
    }
    fn dim(&self) -> usize {
        self.layout.dim
    }
    fn is_u8(&self) -> bool {
        self.layout.element.is_u8()
    }

    fn seek(&mut self, row: u64) -> Result<()> {
        self.row = row.min(self.layout.rows);
        self.slab.clear();
        Ok(())
    }

    fn read(&mut self, out: &mut Vec<f32>) -> Result<bool> {
        if self.row >= self.layout.rows {
            return Ok(false);
        }
        let dim = self.layout.dim;
        if self.slab.is_empty() || self.row >= self.slab_start + (self.slab.len() / dim) as u64 {
            self.fill().with_context(|| format!("reading row {}", self.row))?;
        }
        let at = (self.row - self.slab_start) as usize * dim;
        out.clear();
        out.extend_from_slice(&self.slab[at..at + dim]);
        self.row += 1;
        Ok(true)
    }
}
