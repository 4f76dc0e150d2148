//! The flat index: every search reads every row. Exact.

use std::ops::Range;

use ramlet_io::IoContext;

use crate::error::Result;
use crate::rows::reading::{ALONE_COST, LISTED_ROWS, check_stride, read_positions, stream};
use crate::rows::rows_file::RowsFile;
use crate::rows::scan::{RowNumber, Search};
use crate::search::scratch::{IndexScratch, RowLists};
use crate::search::search_stats::SearchStats;
use crate::vector_index::{IndexSearchParams, MemoryUse, VectorIndex};
use crate::{Allowed, Query, TopK};

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
        _want: &IndexSearchParams,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        top: &mut TopK,
    ) -> Result<()> {
        scan_rows(&self.rows, 0..self.rows.rows(), query, allowed, scratch, io, top)
    }

    fn search_bytes(&self, _: &Query, _: &IndexSearchParams, _: &Allowed<'_>, _: usize) -> u64 {
        0
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
            lists: RowLists { reads, positions, .. },
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
        lists: RowLists { reads, positions, .. },
        rounds,
        ..
    } = scratch;
    rounds.start(0, &Allowed::default(), true);
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
        rounds,
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
