//! Reads rows from their files: at some positions, or all.

use ramlet_io::IoContext;
use ramlet_memory::AnonBuf;

use super::cached_rows::CachedView;
use super::rows_file::RowsFile;
use crate::error::{IndexError, Result};

/// Rows listed at a time when only some are allowed: 16 KiB of numbers.
pub(crate) const LISTED_ROWS: usize = 4096;

/// A block read alone is taken to cost as much as this many read in sequence (an estimate, not measured per disk).
pub(crate) const ALONE_COST: u64 = 4;

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

/// Of ascending positions those whose rows are in memory, with them, and the others.
pub(crate) fn in_ram<'v, 'p>(
    view: Option<&'v CachedView>,
    positions: &'p [u32],
) -> (impl Iterator<Item = (u32, &'v [u8])> + use<'v, 'p>, &'p [u32]) {
    let resident = view.map_or(0, CachedView::resident);
    let (here, rest) = positions.split_at(positions.partition_point(|position| *position < resident));
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
