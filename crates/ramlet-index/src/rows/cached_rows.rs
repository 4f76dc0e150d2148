//! Rows in reclaimable RAM: the ledger may evict them from the end at any time.

use std::sync::{Arc, Weak};

use ramlet_io::IoContext;
use ramlet_memory::{AnonBuf, Consumer, ReclaimableBuf, ReclaimableView};

use super::rows_file::RowsFile;
use crate::error::{IndexError, Result};

/// The rows of a [`RowsFile`] in memory, one after another without gaps, as far as there is reclaimable memory for them.
///
/// Costs `rows x stride` bytes in whole pages, reserved from the consumer in pieces ([`ReclaimableBuf::piece_bytes`]). What is
/// missing is always the last rows. Searches read through a [`CachedView`], whose rows stay while it lives. Cheap to
/// clone; clones share the memory, which goes with the last of them.
#[derive(Debug, Clone)]
pub struct CachedRows {
    memory: Arc<ReclaimableBuf>,
    rows: u32,
    stride: usize,
}

/// The rows that were in memory when a search began. Making one allocates nothing; clones share it.
#[derive(Debug, Clone, Default)]
pub struct CachedView {
    memory: ReclaimableView,
    stride: usize,
}

impl CachedRows {
    /// Reads the whole file, verifying every block, through `buf` in runs as large as it (at least a block).
    /// All or nothing: `OverBudget` when the bytes aren't free.
    pub fn load(
        file: &RowsFile,
        consumer: &Consumer,
        io: &mut IoContext,
        buf: &mut AnonBuf,
    ) -> Result<CachedRows> {
        let cached_rows = CachedRows::empty(file, consumer)?;
        cached_rows.fill(file, file.rows() as usize * file.stride(), io, buf)?;
        Ok(cached_rows)
    }

    /// The same, but as many of the first rows as the bytes are free for.
    pub fn load_some(
        file: &RowsFile,
        consumer: &Consumer,
        io: &mut IoContext,
        buf: &mut AnonBuf,
    ) -> Result<CachedRows> {
        let cached_rows = CachedRows::empty(file, consumer)?;
        cached_rows.restore(file, io, buf)?;
        Ok(cached_rows)
    }

    /// With none of the rows in memory yet: [`CachedRows::restore_some`] takes them there. Costs addresses only.
    pub fn empty(file: &RowsFile, consumer: &Consumer) -> Result<CachedRows> {
        let whole = file.rows() as usize * file.stride();
        Ok(CachedRows {
            memory: Arc::new(ReclaimableBuf::new(consumer, whole)?),
            rows: file.rows(),
            stride: file.stride(),
        })
    }

    /// Rows of the file, in memory or not.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Bytes of memory for the rows that are there now.
    pub fn bytes(&self) -> u64 {
        self.memory.view().memory_bytes()
    }

    /// Bytes of all rows.
    pub fn bytes_whole(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Bytes of memory that come at once.
    pub fn piece_bytes(&self) -> u64 {
        self.memory.piece_bytes() as u64
    }

    /// What a search reads.
    pub fn view(&self) -> CachedView {
        CachedView {
            memory: self.memory.view(),
            stride: self.stride,
        }
    }

    /// Gives up at least `bytes` of memory, the last rows first, as far as there is any; how many come free when the last
    /// view of them is gone. Waits for nothing and takes no lock that others hold while memory is reserved.
    pub fn release(&self, bytes: u64) -> u64 {
        self.memory.cut(bytes)
    }

    /// The memory itself, for whoever reclaims it: it keeps nothing alive.
    pub fn reclaimable(&self) -> Weak<ReclaimableBuf> {
        Arc::downgrade(&self.memory)
    }

    /// Reads missing rows again, as many as the consumer has room for now; the bytes of rows that came back.
    pub fn restore(&self, file: &RowsFile, io: &mut IoContext, buf: &mut AnonBuf) -> Result<u64> {
        self.restore_some(file, u64::MAX, io, buf)
    }

    /// The same for at most `bytes`, but for what is missing of the last piece begun.
    pub fn restore_some(
        &self,
        file: &RowsFile,
        bytes: u64,
        io: &mut IoContext,
        buf: &mut AnonBuf,
    ) -> Result<u64> {
        if file.rows() != self.rows || file.stride() != self.stride {
            return Err(IndexError::Mismatch(format!(
                "rows of {file:?} in place of others"
            )));
        }
        let mut restored = 0;
        while restored < bytes {
            match self.fill(file, self.memory.piece_bytes(), io, buf) {
                Ok(0) | Err(IndexError::OverBudget(_)) => break,
                Ok(more) => restored += more,
                Err(error) => return Err(error),
            }
        }
        Ok(restored)
    }

    fn fill(&self, file: &RowsFile, more: usize, io: &mut IoContext, buf: &mut AnonBuf) -> Result<u64> {
        let mut fill = |at: usize, out: &mut [u8]| copy_rows(file, at, out, io, buf);
        Ok(self.memory.extend::<IndexError>(more, &mut fill)? as u64)
    }
}

/// Bytes `at..` of the rows of a file, as if they stood without gaps.
fn copy_rows(
    file: &RowsFile,
    mut at: usize,
    mut out: &mut [u8],
    io: &mut IoContext,
    buf: &mut AnonBuf,
) -> Result<()> {
    let used = file.rows_per_block() as usize * file.stride();
    let at_once = file.blocks_in(buf)? as usize;
    while !out.is_empty() {
        let (first, mut skip) = (at / used, at % used);
        let blocks = (skip + out.len()).div_ceil(used).min(at_once);
        let bytes = file.read_run(io, first as u32, blocks as u32, buf)?;
        for block in bytes.chunks_exact(file.block_bytes()) {
            let len = (used - skip).min(out.len());
            let (now, later) = out.split_at_mut(len);
            now.copy_from_slice(&block[skip..skip + len]);
            (out, at, skip) = (later, at + len, 0);
        }
    }
    Ok(())
}

impl CachedView {
    /// The row at a position, if it is in memory.
    pub fn row(&self, position: u32) -> Option<&[u8]> {
        let at = position as usize * self.stride;
        self.memory.get(at..at + self.stride)
    }

    /// `count` rows from `first` on, one after another, if all are in memory.
    pub fn run(&self, first: u32, count: u32) -> Option<&[u8]> {
        let at = first as usize * self.stride;
        self.memory.get(at..at + count as usize * self.stride)
    }

    /// All rows that are in memory: the first ones of the file. For loops that would rather look this up once.
    pub fn bytes(&self) -> &[u8] {
        &self.memory
    }

    /// From one row to the next, in bytes.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Rows in memory.
    pub fn resident(&self) -> u32 {
        (self.memory.len() / self.stride.max(1)) as u32
    }
}
