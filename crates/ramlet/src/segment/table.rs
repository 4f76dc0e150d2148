//! Open tables of sorted keys: payload indexes, ids, words.

use std::ops::Range;

use ramlet_format::FormatError;
use ramlet_format::manifest::FileEntry;
use ramlet_format::sorted::{SortedBlock, SortedCursor, SortedIndex};
use ramlet_io::{BlockFile, IoContext, PAGE};
use ramlet_memory::{AnonBuf, Reservation};

use super::SegmentView;
use super::files::{Cacheable, FileContext, bad, make_cacheable, open};
use super::streams::{KEYS_BYTES, KeyStream, Lane, Renumbered};
use crate::error::{Error, Result};
use crate::memory::eviction::EvictionRank;
use crate::schema::PayloadField;

/// Blocks of a table that are read at once where a range has as many.
const RUN_BLOCKS: u64 = 16;

/// Sorted keys, each ending in a row number.
pub struct TableFile {
    file: BlockFile,
    pub index: SortedIndex,
    name: String,
    heap: Reservation,
}

impl Cacheable for TableFile {
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

/// Which keys of one block, by number, are in `from..to`.
fn keys_within(
    block: SortedBlock<'_>,
    (from, to): (&[u8], &[u8]),
    key: &mut Vec<u8>,
) -> std::result::Result<Range<usize>, FormatError> {
    let mut cursor = SortedCursor::new(block, key);
    cursor.seek(from)?;
    let start = cursor.passed();
    cursor.seek(to)?;
    Ok(start..cursor.passed())
}

impl TableFile {
    pub fn open(
        file_context: &FileContext,
        segment: u64,
        entry: &FileEntry,
        io: &mut IoContext,
    ) -> Result<TableFile> {
        let opened = open(file_context, segment, entry, io)?;
        let heap = file_context.metadata.reserve(opened.footer.index_bytes)?;
        let payload = opened.index(io)?;
        let index = SortedIndex::parse(&opened.footer, &payload).map_err(|e| bad(&entry.name, e))?;
        Ok(TableFile {
            file: opened.file,
            index,
            name: opened.name,
            heap,
        })
    }

    /// From now on [`Cacheable::fill`] may be called.
    pub fn make_cacheable(&mut self, file_context: &FileContext, rank: EvictionRank) {
        make_cacheable(&mut self.file, file_context, rank);
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
    pub fn blocks_of(&self, from: &[u8], to: &[u8]) -> Range<u64> {
        let first = self.index.block_for(from);
        first..(self.index.block_for(to) + 1).min(self.index.blocks()).max(first)
    }

    /// Calls `each(block, number)` for these blocks, until it returns false. Many are read several at once, past the cache.
    fn walk(
        &self,
        blocks: Range<u64>,
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(SortedBlock<'_>, u64) -> Result<bool>,
    ) -> Result<()> {
        let at_once = match blocks.end - blocks.start {
            0..RUN_BLOCKS => 1,
            _ => RUN_BLOCKS,
        };
        for first in blocks.clone().step_by(at_once as usize) {
            let run = match at_once {
                1 => self.file.read(io, first, 1, buf)?,
                _ => {
                    let count = at_once.min(blocks.end - first) as u32;
                    self.file.read_run(io, first, count, 1, buf)?
                }
            };
            for (block, number) in run.chunks_exact(PAGE).zip(first..) {
                let block = SortedBlock::parse(block).map_err(|e| bad(&self.name, e))?;
                if !each(block, number)? {
                    return Ok(());
                }
            }
        }
        Ok(())
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
        let (start, mut key) = (blocks.start, Vec::with_capacity(64));
        self.walk(blocks, io, buf, &mut |block, number| {
            let mut cursor = SortedCursor::new(block, &mut key);
            if number == start {
                cursor.seek(from).map_err(|e| bad(&self.name, e))?;
            }
            while let Some(key) = cursor.next().map_err(|e| bad(&self.name, e))? {
                let (value, row) = split_row(key)
                    .ok_or_else(|| Error::corrupt(format!("{}: a key without a row", self.name)))?;
                if value >= to || !each(value, row) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
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
        let is_edge = |number: u64| number == blocks.start || number + 1 == blocks.end;
        let (mut key, mut rows) = (Vec::with_capacity(64), Vec::with_capacity(PAGE / 3));
        self.walk(blocks.clone(), io, buf, &mut |block, number| {
            rows.clear();
            let here = match is_edge(number) {
                true => keys_within(block, (from, to), &mut key),
                false => Ok(0..block.len()),
            };
            here.and_then(|here| {
                block.trailing_numbers(&mut |row| rows.push(row))?;
                Ok(here)
            })
            .map(|here| rows.get(here).is_none_or(|rows| rows.is_empty() || each(rows)))
            .map_err(|e| bad(&self.name, e))
        })
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
            let counted = block.and_then(|block| keys_within(block, (from, to), &mut key));
            count += counted.map_err(|e| bad(&self.name, e))?.len() as u64;
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

/// The tables of a payload index of segments that are merged, if all have one and `bytes` are enough to read them side by side.
pub fn tables_of<'a>(
    field: &PayloadField,
    views: &'a [SegmentView],
    bytes: usize,
) -> Option<Vec<&'a TableFile>> {
    let may = !views.is_empty() && views.len() * KEYS_BYTES <= bytes;
    let mut tables = views.iter().map(|view| view.segment.field(field.slot));
    may.then(|| tables.by_ref().collect::<Option<Vec<_>>>())?
}

/// A payload index's table of a segment that is merged, its keys with their new rows.
pub fn lane_of<'a>(table: &'a TableFile, rows: &'a Renumbered<'a>) -> Lane<'a, &'a BlockFile> {
    Lane::new(table.stream(), Some(rows))
}
