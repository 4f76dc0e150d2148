//! Files that are rows of numbers: one reader for `.npy`, `.fvecs` and big-ann files, which differ only in their heads.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use anyhow::{Context, Result, bail};

use super::distance::Distance;
use super::element::{ByteOrder, Element};

/// Read ahead: enough for sequential reads at disk speed, and all the memory that a row file takes but one row.
const BUFFER_BYTES: usize = 256 << 10;
/// Largest dimension read: the API's own limit.
pub const DIM_MAX: u64 = 65_536;

/// Vectors of one dimension, read in order.
pub trait Rows {
    fn rows(&self) -> u64;
    fn dim(&self) -> usize;
    /// True when every element is a whole number from 0 to 255, so that `uint8` storage loses nothing.
    fn is_u8(&self) -> bool;
    /// What the file itself says that its vectors are compared by.
    fn distance(&self) -> Option<Distance> {
        None
    }
    /// The name that the file has for a distance that the API hasn't.
    fn unknown_distance(&self) -> Option<&str> {
        None
    }
    /// Goes on from `row`.
    fn seek(&mut self, row: u64) -> Result<()>;
    /// Replaces `out` with the next row; false at the end.
    fn read(&mut self, out: &mut Vec<f32>) -> Result<bool>;
}

/// Where the numbers stand in a row file.
#[derive(Debug, Clone, Copy)]
pub struct RowLayout {
    pub element: Element,
    pub order: ByteOrder,
    pub dim: usize,
    pub rows: u64,
    /// Offset of row 0.
    pub start: u64,
    /// Each row begins with its dimension as an i32 (`.fvecs`).
    pub prefixed: bool,
}

impl RowLayout {
    /// Bytes of one row with its prefix.
    pub fn stride(&self) -> u64 {
        (self.dim * self.element.bytes()) as u64 + if self.prefixed { 4 } else { 0 }
    }

    /// Checks the layout against the length of what holds it: what is cut short says so before anything is sent.
    pub fn check(&self, length: u64) -> Result<()> {
        if self.dim == 0 || self.dim as u64 > DIM_MAX {
            bail!("the dimension is {}; 1 to {DIM_MAX} is possible", self.dim);
        }
        let needed = u128::from(self.start) + u128::from(self.rows) * u128::from(self.stride());
        if u128::from(length) < needed {
            bail!(
                "{} rows of {} numbers need {needed} bytes, but the file has {length}: it is cut short",
                self.rows,
                self.dim
            );
        }
        Ok(())
    }
}

/// A row file, open. Memory: 256 KiB and one row.
pub struct RowFile {
    reader: BufReader<File>,
    layout: RowLayout,
    row: u64,
    bytes: Vec<u8>,
}

impl RowFile {
    pub fn new(file: File, layout: RowLayout) -> Result<RowFile> {
        layout.check(file.metadata()?.len())?;
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
        reader.seek(SeekFrom::Start(layout.start))?;
        Ok(RowFile {
            reader,
            layout,
            row: 0,
            bytes: vec![0; layout.stride() as usize],
        })
    }
}

impl Rows for RowFile {
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
        let offset = self.layout.start + self.row * self.layout.stride();
        self.reader.seek(SeekFrom::Start(offset))?;
        Ok(())
    }

    fn read(&mut self, out: &mut Vec<f32>) -> Result<bool> {
        if self.row >= self.layout.rows {
            return Ok(false);
        }
        self.reader
            .read_exact(&mut self.bytes)
            .with_context(|| format!("reading row {}", self.row))?;
        let mut bytes = self.bytes.as_slice();
        if self.layout.prefixed {
            let (prefix, rest) = bytes.split_at(4);
            let dim = i32::from_le_bytes(prefix.try_into().expect("four bytes"));
            if usize::try_from(dim) != Ok(self.layout.dim) {
                bail!(
                    "row {} says it has {dim} numbers, row 0 has {}",
                    self.row,
                    self.layout.dim
                );
            }
            bytes = rest;
        }
        out.clear();
        self.layout.element.decode(self.layout.order, bytes, out);
        self.row += 1;
        Ok(true)
    }
}
