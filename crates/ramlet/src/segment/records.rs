//! A column of vectors that differ in length: sparse ones and several in one row. What is searched beside it is another file's
//! business; this one keeps them by row.

use ramlet_index::{Allowed, IndexError, IndexScratch, MemoryUse, Query, TopK, VectorIndex, Want};
use ramlet_io::IoContext;
use ramlet_memory::AnonBuf;

use super::files::RecordsFile;
use crate::error::Error;

/// Rows whose blocks are read at once.
const ROWS_AT_ONCE: usize = 64;

/// Encoded vectors by row; rows without one are empty.
pub struct RecordsColumn {
    file: RecordsFile,
    rows: u32,
}

impl RecordsColumn {
    /// `rows`: those that have the vector.
    pub fn new(file: RecordsFile, rows: u32) -> RecordsColumn {
        RecordsColumn { file, rows }
    }
}

fn index_failure(e: Error) -> IndexError {
    IndexError::Filter(Box::new(e))
}

/// Carries an error of the index crate through a callback of ours.
fn stopped(e: IndexError, slot: &mut ramlet_index::Result<()>) -> Error {
    *slot = Err(e);
    Error::corrupt("stopped by its caller")
}

impl VectorIndex for RecordsColumn {
    fn search(
        &self,
        _: &Query,
        _: &Want,
        _: &mut Allowed<'_>,
        _: &mut IndexScratch,
        _: &mut IoContext,
        _: &mut TopK,
    ) -> ramlet_index::Result<()> {
        Err(IndexError::Mismatch(
            "a dense query over rows of other kinds".into(),
        ))
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
