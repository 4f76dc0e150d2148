//! Sorted lists in temporary files: what is left of the tokens that were gathered, until all are merged.
//!
//! A run is a sequence of terms in ascending order: varint bytes of the term, the term, varint rows, first and last row; per row varint row (first as it is, then
//! the difference), varint frequency, and as many varint differences of positions.

use std::sync::Arc;

use ramlet_io::{ReadFile, Storage, WriteFile};

use crate::error::{Result, TextError};
use crate::temporary::Temporary;

/// Takes lists in ascending order of their terms, of each its rows in ascending order.
pub(crate) trait PostingSink {
    fn begin(&mut self, term: &[u8], span: Span) -> Result<()>;
    /// `deltas`: the first position, then differences.
    fn row(&mut self, row: u32, deltas: &[u32]) -> Result<()>;
    fn end(&mut self) -> Result<()>;
}

/// How many rows a list has, and which are the first and the last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    pub rows: u32,
    pub first: u32,
    pub last: u32,
}

/// Bytes of a writer's and of a reader's buffer.
pub(crate) const BUFFER_BYTES: usize = 16 << 10;

pub(crate) struct Run {
    file: Temporary,
    bytes: u64,
}

pub(crate) struct RunWriter {
    file: Box<dyn WriteFile>,
    temporary: Temporary,
    buffer: Vec<u8>,
    before: u32,
    bytes: u64,
}

impl RunWriter {
    pub fn create(storage: &Arc<dyn Storage>) -> Result<RunWriter> {
        let (file, temporary) = Temporary::create(storage)?;
        Ok(RunWriter {
            file,
            temporary,
            buffer: Vec::with_capacity(2 * BUFFER_BYTES),
            before: 0,
            bytes: 0,
        })
    }

    pub fn finish(mut self) -> Result<Run> {
        self.write()?;
        self.file.flush()?;
        Ok(Run {
            file: self.temporary,
            bytes: self.bytes,
        })
    }

    fn write(&mut self) -> Result<()> {
        self.bytes += self.buffer.len() as u64;
        self.file.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn write_if_full(&mut self) -> Result<()> {
        match self.buffer.len() < BUFFER_BYTES {
            true => Ok(()),
            false => self.write(),
        }
    }
}

impl PostingSink for RunWriter {
    fn begin(&mut self, term: &[u8], span: Span) -> Result<()> {
        put_varint(&mut self.buffer, term.len() as u32);
        self.buffer.extend_from_slice(term);
        for number in [span.rows, span.first, span.last] {
            put_varint(&mut self.buffer, number);
        }
        self.before = 0;
        self.write_if_full()
    }

    fn row(&mut self, row: u32, deltas: &[u32]) -> Result<()> {
        put_varint(&mut self.buffer, row - self.before);
        put_varint(&mut self.buffer, deltas.len() as u32);
        self.before = row;
        for delta in deltas {
            put_varint(&mut self.buffer, *delta);
            self.write_if_full()?;
        }
        self.write_if_full()
    }

    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Reads a run front to back.
pub(crate) struct RunReader {
    file: Arc<dyn ReadFile>,
    /// The file goes with it.
    _temporary: Temporary,
    /// Of the file, what isn't in the buffer yet.
    offset: u64,
    bytes: u64,
    buffer: Vec<u8>,
    at: usize,
    /// The present term, its rows, and how many of them weren't read.
    pub term: Vec<u8>,
    pub span: Span,
    pub left: u32,
    row: u32,
}

impl RunReader {
    pub fn open(run: Run) -> Result<RunReader> {
        Ok(RunReader {
            file: run.file.open()?,
            _temporary: run.file,
            offset: 0,
            bytes: run.bytes,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            at: 0,
            term: Vec::new(),
            span: Span::default(),
            left: 0,
            row: 0,
        })
    }

    /// Moves to the next term, when all rows of the present one were read; false at the end.
    pub fn next(&mut self) -> Result<bool> {
        if self.at == self.buffer.len() && self.offset == self.bytes {
            return Ok(false);
        }
        let len = self.varint()?;
        self.term.clear();
        for _ in 0..len {
            let byte = self.byte()?;
            self.term.push(byte);
        }
        self.span = Span {
            rows: self.varint()?,
            first: self.varint()?,
            last: self.varint()?,
        };
        self.left = self.span.rows;
        self.row = 0;
        Ok(true)
    }

    /// The next row of the present term; its positions into `deltas`.
    pub fn row(&mut self, deltas: &mut Vec<u32>) -> Result<u32> {
        self.row = self.row.wrapping_add(self.varint()?);
        self.left -= 1;
        deltas.clear();
        for _ in 0..self.varint()? {
            deltas.push(self.varint()?);
        }
        Ok(self.row)
    }

    fn varint(&mut self) -> Result<u32> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(TextError::format("a temporary file of the build is broken"))
    }

    #[inline]
    fn byte(&mut self) -> Result<u8> {
        if self.at == self.buffer.len() {
            self.fill()?;
        }
        self.at += 1;
        Ok(self.buffer[self.at - 1])
    }

    fn fill(&mut self) -> Result<()> {
        let len = (self.bytes - self.offset).min(BUFFER_BYTES as u64) as usize;
        if len == 0 {
            return Err(TextError::format("a temporary file of the build ends early"));
        }
        self.buffer.resize(len, 0);
        self.file.read_at(&mut self.buffer, self.offset)?;
        self.offset += len as u64;
        self.at = 0;
        Ok(())
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
