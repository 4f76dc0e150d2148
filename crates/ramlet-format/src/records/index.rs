//! Which block holds a record: the part of a records file that stays in RAM.

use crate::bytes::u32_at;
use crate::error::{FormatError, Result, ensure};
use crate::footer::{FileKind, Footer};

/// Bytes per block in the index region.
pub(super) const ENTRY_BYTES: usize = 8;

/// Which block holds which row: 8 bytes of RAM per block, i.e. about 0.2 % of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsIndex {
    first_rows: Box<[u32]>,
    pages: Box<[u32]>,
    rows: u32,
    data_pages: u64,
}

/// Where a block lies and which rows it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockAt {
    /// First page.
    pub page: u64,
    /// Pages to read.
    pub pages: u32,
    /// Row of the block's record 0.
    pub first_row: u32,
    /// Rows in the block.
    pub rows: u32,
}

impl RecordsIndex {
    /// From the index region's payload ([`index_payload`](crate::footer::index_payload)).
    pub fn parse(footer: &Footer, payload: &[u8]) -> Result<Self> {
        footer.ensure_kind(FileKind::Records)?;
        let what = "records index";
        let [rows, blocks, ..] = footer.numbers;
        ensure(
            blocks.checked_mul(ENTRY_BYTES as u64) == Some(payload.len() as u64),
            what,
            || format!("{} bytes for {blocks} blocks", payload.len()),
        )?;
        let rows = u32::try_from(rows).map_err(|_| FormatError::new(what, format!("{rows} rows")))?;
        let column = |at| {
            payload
                .chunks_exact(ENTRY_BYTES)
                .filter_map(|entry| u32_at(entry, at))
                .collect()
        };
        let index = Self {
            first_rows: column(0),
            pages: column(4),
            rows,
            data_pages: footer.data_pages,
        };
        ensure(index.is_consistent(), what, || {
            "rows or pages of the blocks aren't ascending".into()
        })?;
        Ok(index)
    }

    fn is_consistent(&self) -> bool {
        let ascending =
            |numbers: &[u32]| numbers.first() == Some(&0) && numbers.windows(2).all(|w| w[0] < w[1]);
        let (Some(&row), Some(&page)) = (self.first_rows.last(), self.pages.last()) else {
            return self.rows == 0 && self.data_pages == 0;
        };
        ascending(&self.first_rows)
            && ascending(&self.pages)
            && row < self.rows
            && (u64::from(page) + 1..=u64::from(u32::MAX)).contains(&self.data_pages)
    }

    /// The block that holds `row`, which is record `row - first_row` there; `None` past the last row. No I/O.
    pub fn locate(&self, row: u32) -> Option<BlockAt> {
        if row >= self.rows {
            return None;
        }
        // The first block begins at row 0, so at least one is before the partition point.
        self.block(
            self.first_rows
                .partition_point(|&first| first <= row)
                .checked_sub(1)?,
        )
    }

    /// The block that a page belongs to; `None` behind the last.
    pub fn block_at_page(&self, page: u64) -> Option<BlockAt> {
        if page >= self.data_pages {
            return None;
        }
        self.block(
            self.pages
                .partition_point(|&first| u64::from(first) <= page)
                .checked_sub(1)?,
        )
    }

    /// Rows in the file.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Pages of all blocks.
    pub fn data_pages(&self) -> u64 {
        self.data_pages
    }

    /// All blocks in order, for scans.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = BlockAt> + '_ {
        (0..self.pages.len()).map(|i| self.at(i))
    }

    /// RAM held beyond the struct itself.
    pub fn heap_bytes(&self) -> usize {
        ENTRY_BYTES * self.pages.len()
    }

    fn block(&self, i: usize) -> Option<BlockAt> {
        (i < self.pages.len()).then(|| self.at(i))
    }

    fn at(&self, i: usize) -> BlockAt {
        let (first_row, page) = (self.first_rows[i], u64::from(self.pages[i]));
        let next_row = self.first_rows.get(i + 1).copied().unwrap_or(self.rows);
        let next_page = self.pages.get(i + 1).map_or(self.data_pages, |&page| page.into());
        BlockAt {
            page,
            pages: (next_page - page) as u32,
            first_row,
            rows: next_row - first_row,
        }
    }
}
