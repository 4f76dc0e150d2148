//! Writes a records file front to back.

use super::RECORD_BYTES_MAX;
use super::index::ENTRY_BYTES;
use crate::block::PAGE_CONTENT;
use crate::error::{Result, ensure};
use crate::footer::{BlockFile, FileKind};

const WHAT: &str = "records writer";

/// Writes a records file. Holds one page, and 8 bytes for each block already written.
#[derive(Debug)]
pub struct RecordsWriter {
    file: BlockFile,
    rows: u32,
    /// The index region so far: first row and first page of each block.
    index: Vec<u8>,
    /// Ends of the records in the block that isn't full yet, as on disk.
    ends: Vec<u8>,
    bytes: Vec<u8>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsMeta {
    pub rows: u32,
    pub blocks: u32,
    pub data_pages: u64,
    pub file_bytes: u64,
}

impl RecordsWriter {
    pub fn new(seed: u64) -> Self {
        Self {
            file: BlockFile::new(seed),
            rows: 0,
            index: Vec::new(),
            ends: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Rows pushed so far.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    pub fn heap_bytes(&self) -> usize {
        self.index.capacity() + self.ends.capacity() + self.bytes.capacity()
    }

    /// Adds the next row's record; appends a block to `out` when one is full.
    ///
    /// `Err`, and nothing changes, if the record is over 64 MiB, or the file over `u32::MAX` rows or pages.
    pub fn push(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<()> {
        ensure(record.len() <= RECORD_BYTES_MAX, WHAT, || {
            format!(
                "a record of {} bytes, at most {RECORD_BYTES_MAX} fit",
                record.len()
            )
        })?;
        // One page for the block under way, the rest for this record.
        let pages = self.file.pages() + 2 + (record.len() / PAGE_CONTENT) as u64;
        let room = self.rows < u32::MAX && pages < u64::from(u32::MAX);
        ensure(room, WHAT, || {
            format!("{} rows in {} pages: full", self.rows, self.file.pages())
        })?;
        if !self.fits(record) {
            self.flush(out);
        }
        if self.fits(record) {
            self.bytes.extend_from_slice(record);
            self.ends
                .extend_from_slice(&(self.bytes.len() as u16).to_le_bytes());
        } else {
            self.emit_large(record, out);
        }
        self.rows += 1;
        Ok(())
    }

    /// Writes the last block, the index region and the footer. Appends 8 bytes per block to `out` at once.
    pub fn finish(mut self, out: &mut Vec<u8>) -> RecordsMeta {
        self.flush(out);
        let blocks = (self.index.len() / ENTRY_BYTES) as u32;
        let numbers = [self.rows.into(), blocks.into(), 0, 0];
        let footer = self.file.finish(FileKind::Records, &self.index, numbers, out);
        RecordsMeta {
            rows: self.rows,
            blocks,
            data_pages: footer.data_pages,
            file_bytes: footer.file_bytes(),
        }
    }

    fn fits(&self, record: &[u8]) -> bool {
        2 + self.ends.len() + 2 + self.bytes.len() + record.len() <= PAGE_CONTENT
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        let count = self.ends.len() / 2;
        if count == 0 {
            return;
        }
        self.note_block(self.rows - count as u32);
        let start = out.len();
        out.extend_from_slice(&(count as u16).to_le_bytes());
        out.extend_from_slice(&self.ends);
        out.extend_from_slice(&self.bytes);
        self.file.seal_from(start, out);
        self.ends.clear();
        self.bytes.clear();
    }

    fn emit_large(&mut self, record: &[u8], out: &mut Vec<u8>) {
        self.note_block(self.rows);
        let start = out.len();
        out.extend_from_slice(&(record.len() as u32).to_le_bytes());
        out.extend_from_slice(record);
        // At least two pages, by which the reader tells the layouts apart: what doesn't fit a page as a record among
        // others (4 bytes of table) doesn't fit it alone (4 bytes of length).
        debug_assert!(out.len() - start > PAGE_CONTENT);
        self.file.seal_from(start, out);
    }

    fn note_block(&mut self, first_row: u32) {
        self.index.extend_from_slice(&first_row.to_le_bytes());
        // push keeps the pages below u32::MAX.
        self.index
            .extend_from_slice(&(self.file.pages() as u32).to_le_bytes());
    }
}
