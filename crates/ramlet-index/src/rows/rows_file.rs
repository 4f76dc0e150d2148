//! A file of rows, and batched reads of some of them.

use std::sync::Arc;

use ramlet_format::rows::RowsMeta;
use ramlet_io::{BlockFile, IoContext, SearchStage};
use ramlet_memory::AnonBuf;

use super::cached_rows::{CachedRows, CachedView};
use crate::error::{IndexError, Result};

/// A reader of a rows file, with its layout. A position is a row's place in the file.
///
/// Holds nothing itself; cheap to clone.
#[derive(Clone)]
pub struct RowsFile {
    file: Arc<BlockFile>,
    meta: RowsMeta,
    in_ram: Option<CachedRows>,
    /// What its reads are for.
    stage: SearchStage,
}

impl RowsFile {
    /// `meta` is what the file's footer says. Positions are 32 bits wide.
    pub fn new(file: Arc<BlockFile>, meta: RowsMeta) -> Result<RowsFile> {
        if u32::try_from(meta.rows).is_err() {
            return Err(IndexError::Mismatch(format!("{} rows in one file", meta.rows)));
        }
        Ok(RowsFile {
            file,
            meta,
            in_ram: None,
            stage: SearchStage::Rows,
        })
    }

    /// Reading it counts for this stage of a search, in place of [`SearchStage::Rows`].
    pub fn for_stage(mut self, stage: SearchStage) -> RowsFile {
        self.stage = stage;
        self
    }

    pub(crate) fn stage(&self) -> SearchStage {
        self.stage
    }

    /// Single rows come from `rows`, which are its own, where they are there.
    pub fn with_rows_in_ram(mut self, rows: CachedRows) -> RowsFile {
        assert_eq!(
            (rows.rows(), rows.stride()),
            (self.rows(), self.stride()),
            "rows of another file"
        );
        self.in_ram = Some(rows);
        self
    }

    /// The rows that need no read: the first ones, as far as they are in memory.
    pub(crate) fn in_ram(&self) -> Option<CachedView> {
        self.in_ram.as_ref().map(CachedRows::view)
    }

    pub fn file(&self) -> &Arc<BlockFile> {
        &self.file
    }

    pub fn rows(&self) -> u32 {
        self.meta.rows as u32
    }

    /// Bytes from one row to the next within a block.
    pub fn stride(&self) -> usize {
        self.meta.layout.row_bytes() as usize
    }

    pub(crate) fn rows_per_block(&self) -> u32 {
        self.meta.layout.rows_per_block()
    }

    pub(crate) fn block_pages(&self) -> u32 {
        self.meta.layout.block_pages()
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.meta.layout.block_bytes()
    }

    pub(crate) fn data_pages(&self) -> u64 {
        self.meta.data_pages
    }

    /// Whether reading is copying at most, so that gathering reads gains nothing.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.file.pinned_bytes() > 0 || self.file.file().as_bytes().is_some()
    }

    /// The first rows so many need no read.
    pub(crate) fn resident(&self) -> u32 {
        match self.is_in_memory() {
            true => self.rows(),
            false => self.in_ram().map_or(0, |view| view.resident()),
        }
    }

    /// Blocks that fit `buf`, which grows to one block if it is smaller.
    pub(crate) fn blocks_in(&self, buf: &mut AnonBuf) -> Result<u32> {
        buf.ensure(self.block_bytes())?;
        Ok((buf.len() / self.block_bytes()) as u32)
    }

    /// First page of a block.
    fn page(&self, block: u32) -> u64 {
        u64::from(block) * u64::from(self.block_pages())
    }

    /// The block that begins with a page.
    pub(crate) fn block_of_page(&self, page: u64) -> u32 {
        (page / u64::from(self.block_pages())) as u32
    }

    /// The block of a position.
    pub(crate) fn block_of(&self, position: u32) -> u32 {
        position / self.rows_per_block()
    }

    /// Consecutive blocks in one sequence; past the cache.
    pub(crate) fn read_run<'a>(
        &'a self,
        io: &mut IoContext,
        first_block: u32,
        blocks: u32,
        buf: &'a mut AnonBuf,
    ) -> Result<&'a [u8]> {
        let block_pages = self.block_pages();
        let before = io.enter(self.stage);
        let read = self
            .file
            .read_run(io, self.page(first_block), blocks * block_pages, block_pages, buf);
        io.enter(before);
        Ok(read?)
    }

    /// The blocks of `reads` one after another; through the cache.
    pub(crate) fn read_many<'b>(
        &self,
        io: &mut IoContext,
        reads: &[(u64, u32)],
        buf: &'b mut AnonBuf,
    ) -> Result<&'b [u8]> {
        let before = io.enter(self.stage);
        let read = self.file.read_many(io, reads, buf);
        io.enter(before);
        read?;
        Ok(&buf[..reads.len() * self.block_bytes()])
    }

    /// The same past the cache: codes of clusters are too many to stay there, and would push out what is read again.
    pub(crate) fn read_many_once<'b>(
        &self,
        io: &mut IoContext,
        reads: &[(u64, u32)],
        buf: &'b mut AnonBuf,
    ) -> Result<&'b [u8]> {
        let before = io.enter(self.stage);
        let read = self.file.read_many_behind(io, reads, (buf, 0), false);
        io.enter(before);
        read?;
        Ok(&buf[..reads.len() * self.block_bytes()])
    }

    /// Appends the read of one block.
    pub(crate) fn plan_block(&self, block: u32, reads: &mut Vec<(u64, u32)>) {
        reads.push((self.page(block), self.block_pages()));
    }

    /// Appends reads of the blocks of ascending positions, at most `blocks` of them; how many positions they cover.
    pub(crate) fn plan_blocks(&self, positions: &[u32], blocks: usize, reads: &mut Vec<(u64, u32)>) -> usize {
        let mut last = None;
        for (i, position) in positions.iter().enumerate() {
            let block = position / self.rows_per_block();
            if last != Some(block) {
                if reads.len() == blocks {
                    return i;
                }
                self.plan_block(block, reads);
                last = Some(block);
            }
        }
        positions.len()
    }

    /// The rows at ascending positions, out of the bytes of the reads that `plan_blocks` planned for them.
    pub(crate) fn rows_in_reads<'b>(
        &self,
        positions: &'b [u32],
        reads: &'b [(u64, u32)],
        bytes: &'b [u8],
    ) -> impl Iterator<Item = (u32, &'b [u8])> {
        let (layout, block_bytes, stride) = (self.meta.layout, self.block_bytes(), self.stride());
        let mut read = 0;
        positions.iter().map(move |position| {
            let (page, offset) = layout.locate(u64::from(*position));
            while reads[read].0 != page {
                read += 1;
            }
            (*position, &bytes[read * block_bytes + offset..][..stride])
        })
    }
}

impl std::fmt::Debug for RowsFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowsFile({}, {:?})", self.file.file().name(), self.meta)
    }
}
