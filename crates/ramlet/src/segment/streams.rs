//! Segment files read once from front to back, several of them in parallel, by a merge.

use std::borrow::Borrow;

use ramlet_format::records::{BlockAt, RecordsBlock};
use ramlet_format::sorted::{SortedBlock, SortedCursor, SortedPlace};
use ramlet_io::{BlockFile, IoContext, PAGE};
use ramlet_memory::AnonBuf;

use super::files::{RecordsFile, bad};
use crate::error::{Error, Result};
use crate::segment::deletes::{DeleteSet, Ranks};

/// Pages that are read of a file at once.
const RUN_PAGES: u32 = 8;

/// What a stream of keys costs: its pages, as they are read and held, and the longest keys.
pub const KEYS_BYTES: usize = (2 * RUN_PAGES as usize + 1) * PAGE;
/// What a stream of records costs, where none is longer than its pages.
pub const RECORDS_BYTES: usize = 2 * RUN_PAGES as usize * PAGE;

/// Keys of sorted blocks, ascending, past the cache. One key at a time is whole: blocks keep of a key what the one before it hasn't, so a page may hold a hundred
/// times its bytes of long keys.
pub struct KeyStream<F> {
    file: F,
    pages: u64,
    next_page: u64,
    buf: AnonBuf,
    /// The pages that were read last.
    bytes: Vec<u8>,
    /// Where in `bytes` the page is whose keys are given, and where in it the walk is.
    page_at: usize,
    place: SortedPlace,
    /// The key that was given last.
    key: Vec<u8>,
}

impl<F: Borrow<BlockFile>> KeyStream<F> {
    /// Of the first `pages` blocks of a file.
    pub fn new(file: F, pages: u64) -> KeyStream<F> {
        KeyStream {
            file,
            pages,
            next_page: 0,
            buf: AnonBuf::new(RUN_PAGES as usize * PAGE),
            bytes: Vec::with_capacity(RUN_PAGES as usize * PAGE),
            page_at: 0,
            place: SortedPlace::default(),
            key: Vec::new(),
        }
    }

    pub fn next(&mut self, io: &mut IoContext) -> Result<Option<&[u8]>> {
        loop {
            if self.page_at == self.bytes.len() && !self.load(io)? {
                return Ok(None);
            }
            if self.step().map_err(|e| Error::corrupt(e.to_string()))? {
                return Ok(Some(&self.key));
            }
            self.page_at += PAGE;
            self.place = SortedPlace::default();
            self.key.clear();
        }
    }

    /// The next key of the page; false: there is none.
    fn step(&mut self) -> ramlet_format::Result<bool> {
        let block = SortedBlock::parse(&self.bytes[self.page_at..][..PAGE])?;
        let mut cursor = SortedCursor::resume(block, &mut self.key, self.place);
        let is_there = cursor.next()?.is_some();
        self.place = cursor.place();
        Ok(is_there)
    }

    /// The next pages; false: there are none.
    fn load(&mut self, io: &mut IoContext) -> Result<bool> {
        let count = (self.pages - self.next_page).min(u64::from(RUN_PAGES)) as u32;
        if count == 0 {
            return Ok(false);
        }
        let file = self.file.borrow();
        let read = file.read_run(io, self.next_page, count, 1, &mut self.buf)?;
        self.next_page += u64::from(count);
        // They may lie in RAM already, where they must not be borrowed from.
        self.bytes.clear();
        self.bytes.extend_from_slice(read);
        self.page_at = 0;
        Ok(true)
    }
}

/// Records of one file, asked for by ascending number, past the cache.
pub struct RecordStream<'a> {
    file: &'a RecordsFile,
    buf: AnonBuf,
    bytes: Vec<u8>,
    /// Blocks in `bytes`, one behind the other.
    wave: Vec<BlockAt>,
    /// Of `wave`: where the last record was.
    at: usize,
}

impl<'a> RecordStream<'a> {
    pub fn new(file: &'a RecordsFile) -> RecordStream<'a> {
        RecordStream {
            file,
            buf: AnonBuf::new(RUN_PAGES as usize * PAGE),
            bytes: Vec::with_capacity(RUN_PAGES as usize * PAGE),
            wave: Vec::with_capacity(RUN_PAGES as usize),
            at: 0,
        }
    }

    pub fn get(&mut self, row: u32, io: &mut IoContext) -> Result<&[u8]> {
        let at = self.file.locate(row)?;
        while self.wave.get(self.at).is_some_and(|block| block.page < at.page) {
            self.at += 1;
        }
        if self.wave.get(self.at) != Some(&at) {
            self.load(at, io)?;
        }
        // One long block, or short ones.
        let start = self.at * PAGE;
        let bytes = &self.bytes[start..start + at.pages as usize * PAGE];
        let bad = |e| bad(self.file.name(), e);
        let block = RecordsBlock::parse(bytes).map_err(bad)?;
        block.get((row - at.first_row) as usize).map_err(bad)
    }

    fn load(&mut self, first: BlockAt, io: &mut IoContext) -> Result<()> {
        self.wave.clear();
        self.wave.push(first);
        self.at = 0;
        let mut pages = first.pages;
        while first.pages == 1
            && pages < RUN_PAGES
            && let Some(next) = self.file.block_behind(first.page + u64::from(pages) - 1)
            && next.pages == 1
        {
            self.wave.push(next);
            pages += 1;
        }
        let run = (first.page, pages, first.pages);
        let read = self.file.read_run(io, run, &mut self.buf)?;
        // They may lie in RAM already, where they must not be borrowed from.
        self.bytes.clear();
        self.bytes.extend_from_slice(read);
        Ok(())
    }
}

/// Rows of a part of a merge: what they are called in the new segment.
pub struct Renumbered<'a> {
    pub deletes: &'a DeleteSet,
    ranks: Ranks,
    base: u32,
}

impl<'a> Renumbered<'a> {
    /// `base`: live rows of the parts before it.
    pub fn new(deletes: &'a DeleteSet, base: u32) -> Renumbered<'a> {
        Renumbered {
            deletes,
            ranks: deletes.ranks(),
            base,
        }
    }

    /// `None`: it is gone.
    pub fn row(&self, row: u32) -> Option<u32> {
        match self.deletes.contains(row) {
            true => None,
            false => Some(self.base + row - self.ranks.rank(self.deletes, row)),
        }
    }

    /// The row, of `all` before the merge, that is called so now.
    pub fn row_before(&self, now: u32, all: u32) -> u32 {
        let place = now - self.base;
        if self.deletes.is_empty() {
            return place;
        }
        // The last one that no more live rows are before.
        let (mut low, mut high) = (place, all);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match middle - self.ranks.rank(self.deletes, middle) <= place {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }
}

/// One of the sorted files of a merge, at its next key.
pub struct Lane<'a, F> {
    stream: KeyStream<F>,
    /// Where the keys end in rows that have other numbers now.
    rows: Option<&'a Renumbered<'a>>,
    key: Vec<u8>,
}

impl<'a, F: Borrow<BlockFile>> Lane<'a, F> {
    pub fn new(stream: KeyStream<F>, rows: Option<&'a Renumbered<'a>>) -> Lane<'a, F> {
        Lane {
            stream,
            rows,
            key: Vec::new(),
        }
    }

    /// False: there is no other key.
    fn advance(&mut self, io: &mut IoContext) -> Result<bool> {
        while let Some(key) = self.stream.next(io)? {
            let renumbered = match self.rows {
                None => None,
                Some(rows) => {
                    let split = key.split_last_chunk::<4>();
                    let (_, row) = split.ok_or_else(|| Error::corrupt("a key without a row"))?;
                    match rows.row(u32::from_be_bytes(*row)) {
                        None => continue,
                        renumbered => renumbered,
                    }
                }
            };
            self.key.clear();
            self.key.extend_from_slice(key);
            if let (Some(row), Some(last)) = (renumbered, self.key.last_chunk_mut::<4>()) {
                *last = row.to_be_bytes();
            }
            return Ok(true);
        }
        Ok(false)
    }
}

/// Shows `each` the keys of all lanes, ascending, equal ones once.
pub fn merge<F: Borrow<BlockFile>>(
    lanes: &mut [Lane<'_, F>],
    io: &mut IoContext,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    // A binary heap of lanes, the one with the least key first.
    let mut heap = Vec::with_capacity(lanes.len());
    for (at, lane) in lanes.iter_mut().enumerate() {
        if lane.advance(io)? {
            heap.push(at);
        }
    }
    for at in (0..heap.len() / 2).rev() {
        sift(&mut heap, at, lanes);
    }
    let mut last: Option<Vec<u8>> = None;
    while let Some(&least) = heap.first() {
        let key = &lanes[least].key;
        if last.as_ref() != Some(key) {
            each(key)?;
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
        }
        if !lanes[least].advance(io)? {
            heap.swap_remove(0);
        }
        sift(&mut heap, 0, lanes);
    }
    Ok(())
}

/// Restores the order of a heap in which only the lane at `at` may be too far up.
fn sift<F>(heap: &mut [usize], mut at: usize, lanes: &[Lane<'_, F>]) {
    let less = |a: usize, b: usize| lanes[a].key < lanes[b].key;
    loop {
        let below = [2 * at + 1, 2 * at + 2];
        let mut least = at;
        for child in below.into_iter().filter(|child| *child < heap.len()) {
            if less(heap[child], heap[least]) {
                least = child;
            }
        }
        if least == at {
            return;
        }
        heap.swap(at, least);
        at = least;
    }
}
