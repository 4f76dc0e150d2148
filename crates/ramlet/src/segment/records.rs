//! A column of vectors that differ in length: sparse ones and several in one row. What is searched beside it is another file's
//! business; this one keeps them by row.

use ramlet_index::{
    Allowed, IndexError, IndexScratch, MemoryUse, Query, SearchStats, TopK, VectorIndex, Want,
};
use ramlet_io::IoContext;
use ramlet_memory::AnonBuf;

use super::files::RecordsFile;
use crate::error::Error;

/// Rows whose blocks are read at once.
const ROWS_AT_ONCE: usize = 64;

/// Rows compared before the filter is asked about those that are near enough.
const COMPARED_AT_ONCE: usize = 512;

/// Encoded vectors by row; rows without one are empty.
pub struct RecordsColumn {
    file: RecordsFile,
    rows: u32,
    segment_rows: u32,
}

impl RecordsColumn {
    /// `rows`: those of the segment's rows that have the vector.
    pub fn new(file: RecordsFile, rows: u32, segment_rows: u32) -> RecordsColumn {
        RecordsColumn {
            file,
            rows,
            segment_rows,
        }
    }
}

pub(super) fn index_failure(e: Error) -> IndexError {
    IndexError::Filter(Box::new(e))
}

/// Carries an error of the index crate through a callback of ours.
fn stopped(e: IndexError, slot: &mut ramlet_index::Result<()>) -> Error {
    *slot = Err(e);
    Error::corrupt("stopped by its caller")
}

impl VectorIndex for RecordsColumn {
    /// Every row that may be found is compared: those that a bitmap names, else all. Rows with an infinite key are no hits.
    fn search(
        &self,
        query: &Query,
        _: &Want,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        top: &mut TopK,
    ) -> ramlet_index::Result<()> {
        scratch.stats = SearchStats::default();
        let mut rows: Box<dyn Iterator<Item = u32>> = match allowed.only {
            Some(only) => Box::new(only.iter()),
            None => Box::new(0..self.segment_rows),
        };
        let (mut wanted, mut near) = (Vec::with_capacity(COMPARED_AT_ONCE), Vec::new());
        loop {
            wanted.clear();
            wanted.extend(rows.by_ref().take(COMPARED_AT_ONCE));
            if wanted.is_empty() {
                return Ok(());
            }
            let mut scored = 0;
            self.read_rows(&wanted, scratch, io, &mut |row, bytes| {
                if bytes.is_empty() {
                    return Ok(());
                }
                scored += 1;
                let key = query.key_row(bytes);
                if key < f32::INFINITY && top.would_enter(key, row) {
                    near.push((key, row));
                }
                Ok(())
            })?;
            scratch.stats.rows_scored += scored;
            for (key, row) in near.drain(..) {
                if top.would_enter(key, row) {
                    scratch.stats.rows_checked += 1;
                    if allowed.admits(row, io)? {
                        top.push(key, row);
                    }
                }
            }
        }
    }

    fn read_rows(
        &self,
        rows: &[u32],
        _: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> ramlet_index::Result<()>,
    ) -> ramlet_index::Result<()> {
        let mut sorted = rows.to_vec();
        sorted.sort_unstable();
        let mut buf = AnonBuf::new(0);
        for rows in sorted.chunks(ROWS_AT_ONCE) {
            let mut result = Ok(());
            let read = self.file.for_rows(rows, io, &mut buf, &mut |row, bytes| {
                each(row, bytes).map_err(|e| stopped(e, &mut result))
            });
            result?;
            read.map_err(index_failure)?;
        }
        Ok(())
    }

    fn for_each_row(
        &self,
        _: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> ramlet_index::Result<()>,
    ) -> ramlet_index::Result<()> {
        let mut result = Ok(());
        let read = self.file.for_each(io, &mut |row, bytes| {
            each(row, bytes).map_err(|e| stopped(e, &mut result))
        });
        result?;
        read.map_err(index_failure)
    }

    fn rows(&self) -> u32 {
        self.rows
    }

    fn memory(&self) -> MemoryUse {
        MemoryUse {
            heap_bytes: self.file.heap_bytes(),
            pinned_bytes: 0,
            disk_bytes: self.file.disk_bytes(),
        }
    }

    fn kind(&self) -> &'static str {
        "records"
    }
}
