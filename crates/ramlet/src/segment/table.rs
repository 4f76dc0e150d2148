//! Sorted keys of a segment, opened: payload indexes, ids, words.

use ramlet_format::FormatError;
use ramlet_format::manifest::FileEntry;
use ramlet_format::sorted::{SortedBlock, SortedCursor, SortedIndex};
use ramlet_io::{BlockFile, IoContext, PAGE};
use ramlet_memory::{AnonBuf, Reservation};

use super::files::{Lendable, Shelf, bad, lend, open};
use super::streams::KeyStream;
use crate::error::{Error, Result};
use crate::pins::PinRank;

/// Blocks of a table that are read at once where a range has as many.
const RUN_BLOCKS: u64 = 16;

/// Sorted keys, each ending in a row number.
pub struct TableFile {
    file: BlockFile,
    pub index: SortedIndex,
    name: String,
    heap: Reservation,
}

impl Lendable for TableFile {
    fn block_file(&self) -> &BlockFile {
        &self.file
    }
    fn block_at(&self, page: u64) -> (u64, u32) {
        (page, 1)
    }
}

/// A table key without its row number, and the row.
pub fn split_row(key: &[u8]) -> Option<(&[u8], u32)> {
    let (value, row) = key.split_last_chunk::<4>()?;
    Some((value, u32::from_be_bytes(*row)))
}

/// The rows of the keys of one block in `from..to`.
fn rows_within(
    block: SortedBlock<'_>,
    (from, to): (&[u8], &[u8]),
    key: &mut Vec<u8>,
    rows: &mut Vec<u32>,
) -> std::result::Result<(), FormatError> {
    let mut cursor = SortedCursor::new(block, key);
    cursor.seek(to)?;
    let end = cursor.passed();
    cursor.seek(from)?;
    let start = cursor.passed();
    let mut number = 0;
    block.trailing_numbers(&mut |row| {
        if (start..end).contains(&number) {
            rows.push(row);
        }
        number += 1;
    })
}

impl TableFile {
    pub fn open(shelf: &Shelf, segment: u64, entry: &FileEntry, io: &mut IoContext) -> Result<TableFile> {
        let opened = open(shelf, segment, entry, io)?;
        let heap = shelf.metadata.reserve(opened.footer.index_bytes)?;
        let payload = opened.index(io)?;
        let index = SortedIndex::parse(&opened.footer, &payload).map_err(|e| bad(&entry.name, e))?;
        Ok(TableFile {
            file: opened.file,
            index,
            name: opened.name,
            heap,
        })
    }

    /// From now on [`Lendable::fill`] may be asked.
    pub fn lend(&mut self, shelf: &Shelf, rank: PinRank) {
        lend(&mut self.file, shelf, rank);
    }

    /// All keys, ascending.
    pub(super) fn stream(&self) -> KeyStream<&BlockFile> {
        KeyStream::new(&self.file, self.index.blocks())
    }

    /// Calls `each(value, row)` for the keys from `from` on, until it returns false. Reads one block at a time.
    pub fn from(
        &self,
        from: &[u8],
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(&[u8], u32) -> bool,
    ) -> Result<()> {
        let mut page = self.index.block_for(from);
        let mut key = Vec::with_capacity(64);
        let mut first = true;
        while page < self.index.blocks() {
            let block =
                SortedBlock::parse(self.file.read(io, page, 1, buf)?).map_err(|e| bad(&self.name, e))?;
            let mut cursor = SortedCursor::new(block, &mut key);
            if std::mem::take(&mut first) {
                cursor.seek(from).map_err(|e| bad(&self.name, e))?;
            }
            while let Some(key) = cursor.next().map_err(|e| bad(&self.name, e))? {
                let (value, row) = split_row(key)
                    .ok_or_else(|| Error::corrupt(format!("{}: a key without a row", self.name)))?;
                if !each(value, row) {
                    return Ok(());
                }
            }
            page += 1;
        }
        Ok(())
    }

    /// Blocks that have keys in `from..to`, at most.
    pub fn blocks_of(&self, from: &[u8], to: &[u8]) -> std::ops::Range<u64> {
        let first = self.index.block_for(from);
        first..(self.index.block_for(to) + 1).min(self.index.blocks()).max(first)
    }

    /// Calls `each(value, row)` for the keys in `from..to`, until it returns false. Where they lie in many blocks, these are
    /// read several at once, past the cache.
    pub fn range(
        &self,
        (from, to): (&[u8], &[u8]),
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(&[u8], u32) -> bool,
    ) -> Result<()> {
        let blocks = self.blocks_of(from, to);
        if blocks.end - blocks.start < RUN_BLOCKS {
            return self.from(from, io, buf, &mut |value, row| value < to && each(value, row));
        }
        let mut key = Vec::with_capacity(64);
        for page in blocks.clone().step_by(RUN_BLOCKS as usize) {
            let count = RUN_BLOCKS.min(blocks.end - page) as u32;
            let run = self.file.read_run(io, page, count, 1, buf)?;
            for (block, number) in run.chunks_exact(PAGE).zip(page..) {
                let block = SortedBlock::parse(block).map_err(|e| bad(&self.name, e))?;
                key.clear();
                let mut cursor = SortedCursor::new(block, &mut key);
                if number == blocks.start {
                    cursor.seek(from).map_err(|e| bad(&self.name, e))?;
                }
                while let Some(key) = cursor.next().map_err(|e| bad(&self.name, e))? {
                    let (value, row) = split_row(key)
                        .ok_or_else(|| Error::corrupt(format!("{}: a key without a row", self.name)))?;
                    if value >= to || !each(value, row) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Calls `each` with the rows of the keys in `from..to`, those of a block at a time, until it returns false. Read as by
    /// [`TableFile::range`]; keys are only looked at in the first and the last block.
    pub fn rows(
        &self,
        (from, to): (&[u8], &[u8]),
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(&[u32]) -> bool,
    ) -> Result<()> {
        let blocks = self.blocks_of(from, to);
        let run_blocks = match blocks.end - blocks.start {
            few @ 0..RUN_BLOCKS => few.min(1),
            _ => RUN_BLOCKS,
        };
        let (mut key, mut rows) = (Vec::with_capacity(64), Vec::with_capacity(PAGE / 3));
        for page in blocks.clone().step_by(run_blocks.max(1) as usize) {
            let run = match run_blocks {
                RUN_BLOCKS => {
                    let count = RUN_BLOCKS.min(blocks.end - page) as u32;
                    self.file.read_run(io, page, count, 1, buf)?
                }
                _ => self.file.read(io, page, 1, buf)?,
            };
            for (block, number) in run.chunks_exact(PAGE).zip(page..) {
                let block = SortedBlock::parse(block).map_err(|e| bad(&self.name, e))?;
                let is_within = blocks.start < number && number + 1 < blocks.end;
                rows.clear();
                match is_within {
                    true => block.trailing_numbers(&mut |row| rows.push(row)),
                    false => rows_within(block, (from, to), &mut key, &mut rows),
                }
                .map_err(|e| bad(&self.name, e))?;
                if !rows.is_empty() && !each(&rows) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The keys of one block, in order.
    pub fn block_keys(
        &self,
        page: u64,
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(&[u8], u32),
    ) -> Result<()> {
        let block = SortedBlock::parse(self.file.read(io, page, 1, buf)?).map_err(|e| bad(&self.name, e))?;
        let mut key = Vec::with_capacity(64);
        let mut cursor = SortedCursor::new(block, &mut key);
        while let Some(key) = cursor.next().map_err(|e| bad(&self.name, e))? {
            let (value, row) = split_row(key)
                .ok_or_else(|| Error::corrupt(format!("{}: a key without a row", self.name)))?;
            each(value, row);
        }
        Ok(())
    }

    /// About how many keys lie in `from..to`: counted where the range begins and ends (a read each, unless cached),
    /// an average block's worth between.
    pub fn estimate(&self, from: &[u8], to: &[u8], io: &mut IoContext, buf: &mut AnonBuf) -> Result<u64> {
        let blocks = self.index.blocks();
        let (first, last) = (
            self.index.block_for(from),
            self.index.block_for(to).min(blocks.saturating_sub(1)),
        );
        if blocks == 0 || from >= to {
            return Ok(0);
        }
        let (mut count, mut key) = (0, Vec::with_capacity(64));
        let mut edge = |page| {
            let block = SortedBlock::parse(self.file.read(io, page, 1, buf)?);
            let counted = block.and_then(|block| {
                let mut cursor = SortedCursor::new(block, &mut key);
                cursor.seek(from)?;
                let before = cursor.passed();
                cursor.seek(to)?;
                Ok(cursor.passed() - before)
            });
            count += counted.map_err(|e| bad(&self.name, e))? as u64;
            Ok::<_, Error>(())
        };
        edge(first)?;
        if last > first {
            edge(last)?;
        }
        let between = last.saturating_sub(first + 1);
        Ok((count + between * self.index.keys().div_ceil(blocks)).min(self.index.keys()))
    }

    pub fn keys(&self) -> u64 {
        self.index.keys()
    }

    pub fn heap_bytes(&self) -> u64 {
        self.heap.bytes()
    }

    pub fn disk_bytes(&self) -> u64 {
        self.file.len()
    }
}
