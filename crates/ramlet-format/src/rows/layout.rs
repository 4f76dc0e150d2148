//! How rows of one size lie in blocks.

use crate::block::{CRC_BYTES, PAGE};

/// A block may waste this share of its bytes (in percent) if that makes it smaller: small blocks mean small reads.
const WASTE_PERCENT: u64 = 7;

/// The same where small reads are all that counts.
const WASTE_PERCENT_SMALL: u64 = 25;

/// Largest block that is tried for the sake of waste; a larger row gets as many pages as it needs.
const BLOCK_PAGES_MAX: u64 = 64;

/// How rows are packed into blocks. Locating is one division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsLayout {
    row_bytes: u32,
    block_pages: u32,
    rows_per_block: u32,
}

impl RowsLayout {
    /// The smallest block (1 to 64 pages) that wastes at most 7 %, checksum included; otherwise the least wasteful one.
    ///
    /// 100-d f16 (200 B): 1 page. 784-d f32 (3136 B): 4 pages. 1024-d f32 (4096 B): 14 rows in 15 pages.
    ///
    /// # Panics
    /// If `row_bytes` is 0.
    pub fn for_row(row_bytes: u32) -> Self {
        Self::within(row_bytes, WASTE_PERCENT)
    }

    /// The same for rows that are read one by one and take less than others would: what counts is that a read is small, so that a block may waste
    /// a quarter. 780 B: 5 rows in 1 page. 1548 B: 2 in 1 page (not 13 in 5).
    ///
    /// # Panics
    /// If `row_bytes` is 0.
    pub fn for_small_reads(row_bytes: u32) -> Self {
        Self::within(row_bytes, WASTE_PERCENT_SMALL)
    }

    fn within(row_bytes: u32, waste_percent: u64) -> Self {
        assert!(row_bytes > 0, "a row has at least one byte");
        let row = u64::from(row_bytes);
        let used = |pages: u64| rows_in(pages, row) * row;
        let fewest = (row + CRC_BYTES as u64).div_ceil(PAGE as u64);
        let mut best = fewest;
        for pages in fewest..=BLOCK_PAGES_MAX {
            let bytes = pages * PAGE as u64;
            if (bytes - used(pages)) * 100 <= bytes * waste_percent {
                best = pages;
                break;
            }
            // used/pages > used(best)/best, without division.
            if used(pages) * best > used(best) * pages {
                best = pages;
            }
        }
        Self {
            row_bytes,
            block_pages: best as u32,
            rows_per_block: rows_in(best, row) as u32,
        }
    }

    /// The layout that a footer states, if a row fits a block.
    pub(super) fn from_parts(row_bytes: u64, block_pages: u64) -> Option<Self> {
        let (row_bytes, block_pages) = (u32::try_from(row_bytes).ok()?, u32::try_from(block_pages).ok()?);
        if row_bytes == 0 || block_pages == 0 {
            return None;
        }
        let rows_per_block = u32::try_from(rows_in(block_pages.into(), row_bytes.into())).ok()?;
        (rows_per_block > 0).then_some(Self {
            row_bytes,
            block_pages,
            rows_per_block,
        })
    }

    pub fn row_bytes(&self) -> u32 {
        self.row_bytes
    }

    /// Pages of a block: what one read fetches.
    pub fn block_pages(&self) -> u32 {
        self.block_pages
    }

    pub fn block_bytes(&self) -> usize {
        self.block_pages as usize * PAGE
    }

    pub fn rows_per_block(&self) -> u32 {
        self.rows_per_block
    }

    /// First page of the block that holds `row`, and the row's offset in bytes within that block.
    #[inline]
    pub fn locate(&self, row: u64) -> (u64, usize) {
        let per_block = u64::from(self.rows_per_block);
        let (block, within) = (row / per_block, row % per_block);
        (
            block * u64::from(self.block_pages),
            within as usize * self.row_bytes as usize,
        )
    }

    /// Pages of data for `rows` rows.
    pub fn data_pages(&self, rows: u64) -> u64 {
        rows.div_ceil(u64::from(self.rows_per_block)) * u64::from(self.block_pages)
    }
}

fn rows_in(pages: u64, row_bytes: u64) -> u64 {
    (pages * PAGE as u64 - CRC_BYTES as u64) / row_bytes
}

/// Bytes of a rows file: for planning.
pub fn file_bytes(rows: u64, row_bytes: u32) -> u64 {
    (RowsLayout::for_row(row_bytes).data_pages(rows) + 1) * PAGE as u64
}
