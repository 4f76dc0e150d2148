//! Scores rows as they are read from disk, for all indexes.

use std::ops::Range;

use ramlet_io::IoContext;
use ramlet_memory::AnonBuf;

use super::cached_rows::CachedView;
use super::reading::{in_ram, trailing_number};
use crate::error::Result;
use crate::search::rounds::Rounds;
use crate::search::search_stats::SearchStats;
use crate::{Allowed, Query, RowsFile, TopK};

/// Rows scored by one call of the kernels; their distances lie on the stack.
const KEYS: usize = 64;

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
    pub(crate) rounds: &'s mut Rounds,
}

impl Search<'_, '_> {
    /// What `job` takes counts for the stage that rows of this file are compared in.
    fn comparing<T>(&mut self, file: &RowsFile, job: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.io.enter(file.stage());
        let done = job(self);
        self.io.enter(before);
        done
    }

    /// Streams the positions `wanted` in runs as large as `buf`.
    pub(crate) fn scan_run(&mut self, file: &RowsFile, wanted: Range<u32>, buf: &mut AnonBuf) -> Result<()> {
        self.comparing(file, |search| search.compare_run(file, wanted, buf))
    }

    fn compare_run(&mut self, file: &RowsFile, wanted: Range<u32>, buf: &mut AnonBuf) -> Result<()> {
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
        self.comparing(file, |search| {
            search.compare_positions(file, positions, reads, buf)
        })
    }

    fn compare_positions(
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
            let distance = self.query.distance_of_row(&row[..self.query.row_bytes()]);
            self.offer(distance, position, row)?;
        }
        while !rest.is_empty() {
            let (now, later, bytes) = self.read_some(file, rest, reads, buf)?;
            for (position, row) in file.rows_in_reads(now, reads, bytes) {
                self.stats.rows_scored += 1;
                let distance = self.query.distance_of_row(&row[..self.query.row_bytes()]);
                self.offer(distance, position, row)?;
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
        self.comparing(file, |search| {
            search.compare_blocks_of(file, positions, (reads, blocks), buf)
        })
    }

    fn compare_blocks_of(
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
            let distance = self.query.distance_of_row(&row[..self.query.row_bytes()]);
            self.offer(distance, position, row)?;
        }
        let resident = view.as_ref().map_or(0, CachedView::resident);
        while !rest.is_empty() {
            let (_, later, bytes) = self.read_some(file, rest, reads, buf)?;
            for ((page, _), block) in reads.iter().zip(bytes.chunks_exact(file.block_bytes())) {
                let number = file.block_of_page(*page);
                self.score_blocks(file, block, number, resident..file.rows())?;
                blocks.push(number);
            }
            rest = later;
        }
        Ok(())
    }

    /// Shows `each` the distances of the rows at single positions, ascending, and the rows.
    pub(crate) fn read_distances(
        &mut self,
        file: &RowsFile,
        positions: &[u32],
        reads: &mut Vec<(u64, u32)>,
        buf: &mut AnonBuf,
        each: impl FnMut(u32, f32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.comparing(file, |search| search.distances(file, positions, reads, buf, each))
    }

    fn distances(
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
            each(position, query.distance_of_row(&row[..query.row_bytes()]), row)?;
        }
        while !rest.is_empty() {
            let (now, later, bytes) = self.read_some(file, rest, reads, buf)?;
            self.stats.rows_scored += now.len() as u64;
            file.rows_in_reads(now, reads, bytes)
                .try_for_each(|(position, row)| {
                    each(position, query.distance_of_row(&row[..query.row_bytes()]), row)
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
        let (now, later) = self.plan(file, positions, reads, buf)?;
        Ok((now, later, file.read_many(self.io, reads, buf)?))
    }

    /// The same of codes, past the block cache.
    pub(crate) fn read_codes<'p, 'b>(
        &mut self,
        file: &RowsFile,
        groups: &'p [u32],
        reads: &mut Vec<(u64, u32)>,
        buf: &'b mut AnonBuf,
    ) -> Result<(&'p [u32], &'p [u32], &'b [u8])> {
        let (now, later) = self.plan(file, groups, reads, buf)?;
        Ok((now, later, file.read_many_once(self.io, reads, buf)?))
    }

    fn plan<'p>(
        &mut self,
        file: &RowsFile,
        positions: &'p [u32],
        reads: &mut Vec<(u64, u32)>,
        buf: &mut AnonBuf,
    ) -> Result<(&'p [u32], &'p [u32])> {
        let blocks_at_once = file.blocks_in(buf)? as usize;
        reads.clear();
        let taken = file.plan_blocks(positions, blocks_at_once, reads);
        self.stats.reads += reads.len() as u64;
        self.stats.pages_read += reads.iter().map(|(_, pages)| u64::from(*pages)).sum::<u64>();
        Ok(positions.split_at(taken))
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
        let mut distances = [0.0f32; KEYS];
        for start in (0..count).step_by(KEYS) {
            let distances = &mut distances[..KEYS.min(count - start)];
            let rows = &rows[start * stride..];
            self.query.distances_of_rows(rows, stride, distances);
            for (i, distance) in distances.iter().enumerate() {
                // Almost every row ends here. (A NaN doesn't; `offer` sees to it.)
                if *distance > self.top.threshold().max(self.rounds.limit()) {
                    continue;
                }
                self.offer(
                    *distance,
                    first + (start + i) as u32,
                    &rows[i * stride..][..stride],
                )?;
            }
        }
        Ok(())
    }

    /// Scores the rows of a range that are in memory; those that are not are left, the last ones.
    fn score_in_ram(&mut self, view: Option<&CachedView>, wanted: Range<u32>) -> Result<Range<u32>> {
        let Some(view) = view else { return Ok(wanted) };
        let end = wanted.end.min(view.resident()).max(wanted.start);
        let count = end - wanted.start;
        if let Some(rows) = view.run(wanted.start, count).filter(|_| count > 0) {
            self.score_rows(rows, view.stride(), wanted.start, count as usize)?;
        }
        Ok(end..wanted.end)
    }

    fn offer(&mut self, distance: f32, position: u32, row: &[u8]) -> Result<()> {
        let row = match self.numbers {
            RowNumber::Position => position,
            RowNumber::Trailing => trailing_number(row)?,
        };
        if self.rounds.counts(distance) {
            match self.allowed.admits_by_bitmaps(row) {
                true => self.rounds.met(distance, row),
                false => self.rounds.refused(distance, row),
            }
        }
        if !self.top.would_enter(distance, row) {
            return Ok(());
        }
        self.stats.rows_checked += 1;
        if self.allowed.admits(row, self.io)? {
            self.stats.rows_admitted += 1;
            self.rounds.admitted(distance, row);
            self.top.push(distance, row);
        }
        Ok(())
    }

    fn count_read(&mut self, file: &RowsFile, blocks: u32) {
        self.stats.reads += 1;
        self.stats.pages_read += u64::from(blocks) * u64::from(file.block_pages());
    }
}

/// Scores `count` rows in memory (a memtable): row `first + i` starts at `i * stride`.
///
/// Asks `allowed` only for rows that would enter `top`; allocates nothing.
#[expect(
    clippy::too_many_arguments,
    reason = "the parts of a search, each borrowed from another owner"
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
        rounds: &mut Rounds::default(),
    };
    search.score_rows(rows, stride, first, count)
}
