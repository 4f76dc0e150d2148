//! Scoring rows as they come off the disk: what all indexes share.

use std::ops::Range;

use ramlet_io::IoContext;
use ramlet_memory::AnonBuf;

use crate::error::{IndexError, Result};
use crate::graph::GraphLists;
use crate::ivf::{CodeLists, Picked, ProductLists, Reach};
use crate::pinned::PinnedView;
use crate::{Allowed, Query, RowsFile, TopK};

/// Rows scored by one call of the kernels; their keys lie on the stack.
const KEYS: usize = 64;

/// What a search did, in counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchStats {
    /// Rows compared with the query.
    pub rows_scored: u64,
    /// Rows of which codes were compared with the query.
    pub codes_scored: u64,
    /// Rows whose score would have entered the result, so that the filters were asked.
    pub rows_checked: u64,
    /// Pages of rows asked of the I/O seam (they may have come from its cache).
    pub pages_read: u64,
    /// Reads asked of the I/O seam.
    pub reads: u64,
    /// Clusters visited.
    pub probes: u64,
    /// Of `rows_checked`, those that may be found.
    pub rows_admitted: u64,
    /// Rows that a scan of signs didn't rule out.
    pub survivors: u64,
    /// Rows of which finer codes were compared.
    pub fine_scored: u64,
    /// Rows read because codes couldn't tell whether they are among the nearest (or because it was asked for).
    pub rows_read: u64,
    /// Rows of a bitmap whose positions were found, so that only these were compared.
    pub listed: u64,
}

impl SearchStats {
    /// Sums, over segments or queries.
    pub fn add(&mut self, other: &SearchStats) {
        self.rows_scored += other.rows_scored;
        self.codes_scored += other.codes_scored;
        self.rows_checked += other.rows_checked;
        self.pages_read += other.pages_read;
        self.reads += other.reads;
        self.probes += other.probes;
        self.rows_admitted += other.rows_admitted;
        self.survivors += other.survivors;
        self.fine_scored += other.fine_scored;
        self.rows_read += other.rows_read;
        self.listed += other.listed;
    }
}

/// One thread's memory for searching; reused, so that a warm search allocates nothing.
#[derive(Debug)]
pub struct IndexScratch {
    /// What the last search did.
    pub stats: SearchStats,
    /// Blocks are read into here; its length decides how much is read at once.
    pub(crate) buf: AnonBuf,
    pub(crate) lists: Lists,
    /// For searches in rounds.
    pub(crate) reach: Reach,
}

/// Working lists, each bounded: by the blocks that fit the buffer, by `POSITIONS`, by the number of clusters.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// Reads of one batch: first page and pages.
    pub(crate) reads: Vec<(u64, u32)>,
    /// Positions to visit.
    pub(crate) positions: Vec<u32>,
    /// Rows to find the positions of.
    pub(crate) rows: Vec<u32>,
    /// Clusters with how far they are, the cluster in the lower half.
    pub(crate) clusters: Vec<u64>,
    /// Where the nearest of them are, and a sample of them.
    pub(crate) places: Vec<u32>,
    pub(crate) sample: Vec<u64>,
    /// Positions of the clusters of one batch.
    pub(crate) ranges: Vec<Range<u32>>,
    /// Positions of the rows that a bitmap names.
    pub(crate) picked: Picked,
    /// For searching codes.
    pub(crate) codes: CodeLists,
    pub(crate) products: ProductLists,
    /// For walking a graph.
    pub(crate) graph: GraphLists,
}

impl IndexScratch {
    /// Bytes that a search of so many rows takes for as long as it lasts, where a bitmap says which may be found.
    pub fn bytes_for_listed(rows: u32) -> u64 {
        Picked::bytes_for(rows)
    }

    /// Bytes that a search for the `k` nearest takes for as long as it lasts, to know when it has gone far enough.
    pub fn bytes_for_rounds(k: usize) -> u64 {
        Reach::bytes_for(k)
    }

    /// Bytes that a walk for the `k` nearest takes for as long as it lasts, to know when it has gone far enough.
    pub fn bytes_for_walk(k: usize) -> u64 {
        GraphLists::bytes_for(k)
    }

    /// Where blocks are read to, for indexes whose rows are read elsewhere.
    pub fn buffer(&mut self) -> &mut AnonBuf {
        &mut self.buf
    }

    /// Scratch that reads into `buf`. 256 KiB to 1 MiB is a good size; it grows only if a single block doesn't fit.
    pub fn new(buf: AnonBuf) -> IndexScratch {
        IndexScratch {
            stats: SearchStats::default(),
            buf,
            lists: Lists::default(),
            reach: Reach::default(),
        }
    }
}

/// What a position in a file says about the row's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowNumber {
    /// The position itself.
    Position,
    /// A `u32` behind the vector.
    Trailing,
}

/// A search under way: everything but the buffer.
pub(crate) struct Search<'s, 'a> {
    pub(crate) query: &'s Query,
    pub(crate) allowed: &'s mut Allowed<'a>,
    pub(crate) io: &'s mut IoContext,
    pub(crate) top: &'s mut TopK,
    pub(crate) stats: &'s mut SearchStats,
    pub(crate) numbers: RowNumber,
    /// What a filtered search has met.
    pub(crate) reach: &'s mut Reach,
}

impl Search<'_, '_> {
    /// Streams the positions `wanted` in runs as large as `buf`.
    pub(crate) fn scan_run(&mut self, file: &RowsFile, wanted: Range<u32>, buf: &mut AnonBuf) -> Result<()> {
        let per_block = file.rows_per_block();
        let blocks_at_once = file.blocks_in(buf)?;
        let view = file.in_ram();
        let wanted = self.score_in_ram(view.as_ref(), wanted)?;
        let (mut block, end) = (wanted.start / per_block, wanted.end.div_ceil(per_block));
        while block < end && !wanted.is_empty() {
            let count = blocks_at_once.min(end - block);
            self.count_read(file, count);
            let bytes = file.read_run(self.io, block, count, buf)?;
            self.score_blocks(file, bytes, block, wanted.clone())?;
            block += count;
        }
        Ok(())
    }

    /// Visits single positions, ascending: only their blocks are read, as many at once as fit `buf`.
    pub(crate) fn scan_positions(
        &mut self,
        file: &RowsFile,
        positions: &[u32],
        reads: &mut Vec<(u64, u32)>,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let view = file.in_ram();
        let (here, mut rest) = in_ram(view.as_ref(), positions);
        for (position, row) in here {
            self.stats.rows_scored += 1;
            let key = self.query.key_row(&row[..self.query.row_bytes()]);
            self.offer(key, position, row)?;
        }
        while !rest.is_empty() {
            let (now, later, bytes) = self.read_some(file, rest, reads, buf)?;
            for (position, row) in file.rows_in_reads(now, reads, bytes) {
                self.stats.rows_scored += 1;
                let key = self.query.key_row(&row[..self.query.row_bytes()]);
                self.offer(key, position, row)?;
            }
            rest = later;
        }
        Ok(())
    }

    /// The same, and all other rows of the blocks that are read: to compare them costs next to nothing, and neighbours share
    /// blocks. Rows that are in memory are visited alone. Appends the blocks to `blocks`: none may be read twice.
    pub(crate) fn scan_blocks_of(
        &mut self,
        file: &RowsFile,
        positions: &[u32],
        (reads, blocks): (&mut Vec<(u64, u32)>, &mut Vec<u32>),
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let view = file.in_ram();
        let (here, mut rest) = in_ram(view.as_ref(), positions);
        for (position, row) in here {
            self.stats.rows_scored += 1;
            let key = self.query.key_row(&row[..self.query.row_bytes()]);
            self.offer(key, position, row)?;
        }
        let held = view.as_ref().map_or(0, PinnedView::held);
        while !rest.is_empty() {
            let (_, later, bytes) = self.read_some(file, rest, reads, buf)?;
            for ((page, _), block) in reads.iter().zip(bytes.chunks_exact(file.block_bytes())) {
                let number = file.block_of_page(*page);
                self.score_blocks(file, block, number, held..file.rows())?;
                blocks.push(number);
            }
            rest = later;
        }
        Ok(())
    }

    /// Shows `each` the keys of the rows at single positions, ascending, and the rows.
    pub(crate) fn read_keys(
        &mut self,
        file: &RowsFile,
        positions: &[u32],
        reads: &mut Vec<(u64, u32)>,
        buf: &mut AnonBuf,
        mut each: impl FnMut(u32, f32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let query = self.query;
        let view = file.in_ram();
        let (here, mut rest) = in_ram(view.as_ref(), positions);
        for (position, row) in here {
            self.stats.rows_scored += 1;
            each(position, query.key_row(&row[..query.row_bytes()]), row)?;
        }
        while !rest.is_empty() {
            let (now, later, bytes) = self.read_some(file, rest, reads, buf)?;
            self.stats.rows_scored += now.len() as u64;
            file.rows_in_reads(now, reads, bytes)
                .try_for_each(|(position, row)| {
                    each(position, query.key_row(&row[..query.row_bytes()]), row)
                })?;
            rest = later;
        }
        Ok(())
    }

    /// Reads the blocks of the first positions, as many as fit `buf`: those positions, the others, and the blocks.
    pub(crate) fn read_some<'p, 'b>(
        &mut self,
        file: &RowsFile,
        positions: &'p [u32],
        reads: &mut Vec<(u64, u32)>,
        buf: &'b mut AnonBuf,
    ) -> Result<(&'p [u32], &'p [u32], &'b [u8])> {
        let blocks_at_once = file.blocks_in(buf)? as usize;
        reads.clear();
        let taken = file.plan_blocks(positions, blocks_at_once, reads);
        self.stats.reads += reads.len() as u64;
        self.stats.pages_read += reads.iter().map(|(_, pages)| u64::from(*pages)).sum::<u64>();
        let (now, later) = positions.split_at(taken);
        Ok((now, later, file.read_many(self.io, reads, buf)?))
    }

    /// Scores those rows of consecutive blocks whose positions are wanted.
    pub(crate) fn score_blocks(
        &mut self,
        file: &RowsFile,
        bytes: &[u8],
        first_block: u32,
        wanted: Range<u32>,
    ) -> Result<()> {
        let per_block = file.rows_per_block();
        for (block, number) in bytes.chunks_exact(file.block_bytes()).zip(first_block..) {
            let first = number * per_block;
            let from = wanted.start.max(first);
            let to = wanted.end.min(first.saturating_add(per_block));
            if from < to {
                let rows = &block[(from - first) as usize * file.stride()..];
                self.score_rows(rows, file.stride(), from, (to - from) as usize)?;
            }
        }
        Ok(())
    }

    /// Scores `count` rows that start `stride` bytes apart, the first at position `first`.
    pub(crate) fn score_rows(&mut self, rows: &[u8], stride: usize, first: u32, count: usize) -> Result<()> {
        self.stats.rows_scored += count as u64;
        let mut keys = [0.0f32; KEYS];
        for start in (0..count).step_by(KEYS) {
            let keys = &mut keys[..KEYS.min(count - start)];
            let rows = &rows[start * stride..];
            self.query.key_rows(rows, stride, keys);
            for (i, key) in keys.iter().enumerate() {
                // Almost every row ends here. (A NaN doesn't; `offer` sees to it.)
                if *key > self.top.threshold().max(self.reach.limit()) {
                    continue;
                }
                self.offer(*key, first + (start + i) as u32, &rows[i * stride..][..stride])?;
            }
        }
        Ok(())
    }

    /// Scores the rows of a range that are in memory; those that are not are left, the last ones.
    fn score_in_ram(&mut self, view: Option<&PinnedView>, wanted: Range<u32>) -> Result<Range<u32>> {
        let Some(view) = view else { return Ok(wanted) };
        let end = wanted.end.min(view.held()).max(wanted.start);
        let count = end - wanted.start;
        if let Some(rows) = view.run(wanted.start, count).filter(|_| count > 0) {
            self.score_rows(rows, view.stride(), wanted.start, count as usize)?;
        }
        Ok(end..wanted.end)
    }

    fn offer(&mut self, key: f32, position: u32, row: &[u8]) -> Result<()> {
        let row = match self.numbers {
            RowNumber::Position => position,
            RowNumber::Trailing => trailing_number(row)?,
        };
        if self.reach.counts(key) {
            match self.allowed.admits_by_bitmaps(row) {
                true => self.reach.met(key, row),
                false => self.reach.refused(key, row),
            }
        }
        if !self.top.would_enter(key, row) {
            return Ok(());
        }
        self.stats.rows_checked += 1;
        if self.allowed.admits(row, self.io)? {
            self.stats.rows_admitted += 1;
            self.reach.admitted(key, row);
            self.top.push(key, row);
        }
        Ok(())
    }

    fn count_read(&mut self, file: &RowsFile, blocks: u32) {
        self.stats.reads += 1;
        self.stats.pages_read += u64::from(blocks) * u64::from(file.block_pages());
    }
}

/// Of ascending positions those whose rows are in memory, with them, and the others.
pub(crate) fn in_ram<'v, 'p>(
    view: Option<&'v PinnedView>,
    positions: &'p [u32],
) -> (impl Iterator<Item = (u32, &'v [u8])> + use<'v, 'p>, &'p [u32]) {
    let held = view.map_or(0, PinnedView::held);
    let (here, rest) = positions.split_at(positions.partition_point(|position| *position < held));
    let row = move |position: &u32| Some((*position, view?.row(*position)?));
    (here.iter().filter_map(row), rest)
}

/// The row number behind a vector.
pub(crate) fn trailing_number(row: &[u8]) -> Result<u32> {
    match row.last_chunk() {
        Some(bytes) => Ok(u32::from_le_bytes(*bytes)),
        None => Err(IndexError::Mismatch(format!(
            "a row of {} bytes has no number",
            row.len()
        ))),
    }
}

/// Scores `count` rows in memory (a write buffer): row `first + i` starts at `i * stride`.
///
/// Asks `allowed` only for rows that would enter `top`; allocates nothing.
#[expect(
    clippy::too_many_arguments,
    reason = "the parts of a search, each lent by another owner"
)]
pub fn scan_bytes(
    query: &Query,
    rows: &[u8],
    stride: usize,
    first: u32,
    count: usize,
    allowed: &mut Allowed<'_>,
    io: &mut IoContext,
    top: &mut TopK,
    stats: &mut SearchStats,
) -> Result<()> {
    let mut search = Search {
        query,
        allowed,
        io,
        top,
        stats,
        numbers: RowNumber::Position,
        reach: &mut Reach::default(),
    };
    search.score_rows(rows, stride, first, count)
}
