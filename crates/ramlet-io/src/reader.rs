//! The plain batch reader: one read after another.

use crate::storage::{BatchRead, BatchReader, Result};

/// For backends without anything better than reading one by one (pread, mmap, ram, sim).
pub(crate) struct SerialReader;

impl BatchReader for SerialReader {
    fn read_batch(&mut self, reads: &mut [BatchRead<'_>]) -> Result<()> {
        for read in reads {
            read.file.read_at(read.out, read.offset)?;
        }
        Ok(())
    }
}
