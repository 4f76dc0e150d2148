//! The index that is none: every search reads every row. Exact.

use std::ops::Range;

use ramlet_io::IoContext;
use ramlet_memory::AnonBuf;

use crate::error::{IndexError, Result};
use crate::rows_file::RowsFile;
use crate::scan::{IndexScratch, Lists, RowNumber, Search, SearchStats, in_ram};
use crate::vector_index::{MemoryUse, VectorIndex, Want};
use crate::{Allowed, Query, TopK};

/// Rows listed at a time when only some are allowed: 16 KiB of numbers.
pub(crate) const LISTED_ROWS: usize = 4096;

/// A block read alone is taken to cost as much as this many read in sequence (an estimate, not measured per disk).
pub(crate) const ALONE_COST: u64 = 4;

/// Rows in the order of their numbers, as they were written.
///
/// A search streams the file once, in reads as large as the scratch's buffer; when few rows are allowed by a bitmap,
/// it reads only their blocks. Those of the first rows that are in RAM are not read.
#[derive(Clone, Debug)]
pub struct Flat {
    rows: RowsFile,
}

impl Flat {
    /// Over a file whose row `i` is the vector of segment row `i`. Rows without a vector hold anything; searches
    /// must not allow them.
    pub fn new(rows: RowsFile) -> Flat {
        Flat { rows }
    }

    pub fn file(&self) -> &RowsFile {
        &self.rows
    }
}

impl VectorIndex for Flat {
    fn search(
        &self,
        query: &Query,
        _want: &Want,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        top: &mut TopK,
    ) -> Result<()> {
        scan_rows(&self.rows, 0..self.rows.rows(), query, allowed, scratch, io, top)
    }

    fn read_rows(
        &self,
        rows: &[u32],
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let IndexScratch {
            buf,
            lists: Lists { reads, positions, .. },
            ..
        } = scratch;
        for rows in rows.chunks(LISTED_ROWS) {
            positions.clear();
            positions.extend(rows.iter().filter(|row| **row < self.rows.rows()));
            positions.sort_unstable();
            read_positions(&self.rows, positions, reads, buf, io, each)?;
        }
        Ok(())
    }

    fn for_each_row(
        &self,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        stream(&self.rows, &mut scratch.buf, io, each)
    }

    fn rows(&self) -> u32 {
        self.rows.rows()
    }

    fn memory(&self) -> MemoryUse {
        let file = self.rows.file();
        MemoryUse {
            heap_bytes: 0,
            pinned_bytes: file.pinned_bytes(),
            disk_bytes: file.len(),
        }
    }

    fn kind(&self) -> &'static str {
        "flat"
    }
}

/// Offers `top` the rows of a range of a file whose position is the row's number.
pub fn scan_rows(
    file: &RowsFile,
    range: Range<u32>,
    query: &Query,
    allowed: &mut Allowed<'_>,
    scratch: &mut IndexScratch,
    io: &mut IoContext,
    top: &mut TopK,
) -> Result<()> {
    check_stride(file, query.row_bytes())?;
    let IndexScratch {
        stats,
        buf,
        lists: Lists { reads, positions, .. },
        reach,
    } = scratch;
    reach.start(0, &Allowed::default(), true);
    *stats = SearchStats::default();
    let range = range.start..range.end.min(file.rows());
    let only = allowed.only;
    let mut search = Search {
        query,
        allowed,
        io,
        top,
        stats,
        numbers: RowNumber::Position,
        reach,
    };
    let blocks = u64::from(range.len() as u32 / file.rows_per_block());
    match only {
        Some(only) if range.is_empty() || only.range_cardinality(range.clone()) * ALONE_COST < blocks => {
            let mut listed = only.range(range);
            loop {
                positions.clear();
                positions.extend(listed.by_ref().take(LISTED_ROWS));
                if positions.is_empty() {
                    return Ok(());
                }
                search.scan_positions(file, positions, reads, buf)?;
            }
        }
        _ => search.scan_run(file, range, buf),
    }
}

/// Shows `each` the rows at ascending positions.
pub(crate) fn read_positions(
    file: &RowsFile,
    positions: &[u32],
    reads: &mut Vec<(u64, u32)>,
    buf: &mut AnonBuf,
    io: &mut IoContext,
    each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    let blocks_at_once = file.blocks_in(buf)? as usize;
    let view = file.in_ram();
    let (mut here, mut rest) = in_ram(view.as_ref(), positions);
    here.try_for_each(|(position, row)| each(position, row))?;
    while !rest.is_empty() {
        reads.clear();
        let (now, later) = rest.split_at(file.plan_blocks(rest, blocks_at_once, reads));
        let bytes = file.read_many(io, reads, buf)?;
        file.rows_in_reads(now, reads, bytes)
            .try_for_each(|(position, row)| each(position, row))?;
        rest = later;
    }
    Ok(())
}

/// Shows `each` all rows in order.
pub(crate) fn stream(
    file: &RowsFile,
    buf: &mut AnonBuf,
    io: &mut IoContext,
    each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    let blocks_at_once = file.blocks_in(buf)?;
    let blocks = file.rows().div_ceil(file.rows_per_block());
    let (mut block, mut position) = (0, 0);
    while block < blocks {
        let count = blocks_at_once.min(blocks - block);
        let bytes = file.read_run(io, block, count, buf)?;
        for block in bytes.chunks_exact(file.block_bytes()) {
            let rows = block
                .chunks_exact(file.stride())
                .take(file.rows_per_block() as usize);
            for row in rows.take((file.rows() - position) as usize) {
                each(position, row)?;
                position += 1;
            }
        }
        block += count;
    }
    Ok(())
}

/// Refuses a query that the file's rows aren't made for.
pub(crate) fn check_stride(file: &RowsFile, row_bytes: usize) -> Result<()> {
    if file.stride() == row_bytes {
        return Ok(());
    }
    Err(IndexError::Mismatch(format!(
        "a query of {row_bytes} bytes over rows of {} bytes",
        file.stride()
    )))
}
