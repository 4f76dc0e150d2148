//! From rows to positions, for indexes that don't keep rows in the segment's order.

use ramlet_io::IoContext;
use ramlet_memory::AnonBuf;

use super::reading::{LISTED_ROWS, read_positions, trailing_number};
use super::rows_file::RowsFile;
use crate::error::{IndexError, Result};
use crate::search::scratch::{IndexScratch, RowLists};

/// Position of a segment row that has no vector.
pub const NO_POSITION: u32 = u32::MAX;

/// Where ascending `rows` stand, ascending; those without a vector are left out. `file` holds each row's position, one of
/// the first `count`. A read for each block of `file`.
pub(crate) fn find_positions(
    file: &RowsFile,
    count: u32,
    rows: &[u32],
    positions: &mut Vec<u32>,
    reads: &mut Vec<(u64, u32)>,
    buf: &mut AnonBuf,
    io: &mut IoContext,
) -> Result<()> {
    positions.clear();
    read_positions(file, rows, reads, buf, io, &mut |row, bytes| {
        positions.extend(position_of(row, bytes, count)?);
        Ok(())
    })?;
    positions.sort_unstable();
    Ok(())
}

/// The position that stands in a row's entry, one of the first `count`; `None` for a row without a vector.
pub(crate) fn position_of(row: u32, entry: &[u8], count: u32) -> Result<Option<u32>> {
    match trailing_number(entry)? {
        NO_POSITION => Ok(None),
        position if position < count => Ok(Some(position)),
        position => Err(IndexError::Mismatch(format!(
            "row {row} has the position {position}"
        ))),
    }
}

/// Shows `each` what `file` holds of `rows`, in any order: their positions are found first, `LISTED_ROWS` at a time.
pub(crate) fn read_listed(
    positions_file: &RowsFile,
    file: &RowsFile,
    segment_rows: u32,
    rows: &[u32],
    scratch: &mut IndexScratch,
    io: &mut IoContext,
    each: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let IndexScratch {
        buf,
        lists:
            RowLists {
                reads,
                positions,
                rows: sorted,
                ..
            },
        ..
    } = scratch;
    for rows in rows.chunks(LISTED_ROWS) {
        sorted.clear();
        sorted.extend(rows.iter().filter(|row| **row < segment_rows));
        sorted.sort_unstable();
        find_positions(positions_file, file.rows(), sorted, positions, reads, buf, io)?;
        read_positions(file, positions, reads, buf, io, &mut |_, row| each(row))?;
    }
    Ok(())
}
