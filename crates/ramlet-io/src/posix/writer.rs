//! A file written front to back in large aligned writes, with or without O_DIRECT.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::append_buffer::AppendBuffer;
use crate::error::At;
use crate::posix::advice;
use crate::storage::{Result, WriteFile};

/// Large enough for full bandwidth, small enough that a merge may have several files open.
const WRITE_BYTES: usize = 128 << 10;

pub struct PosixWriter {
    name: String,
    file: File,
    buffer: AppendBuffer,
}

impl PosixWriter {
    pub fn new(name: &str, file: File) -> PosixWriter {
        PosixWriter {
            name: name.to_owned(),
            file,
            buffer: AppendBuffer::new(WRITE_BYTES),
        }
    }
}

impl WriteFile for PosixWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let PosixWriter { name, file, buffer } = self;
        buffer.append(bytes, &mut |bytes, offset| {
            file.write_all_at(bytes, offset).at("write", name)
        })
    }

    fn len(&self) -> u64 {
        self.buffer.len()
    }

    fn flush(&mut self) -> Result<()> {
        let PosixWriter { name, file, buffer } = self;
        buffer.flush(&mut |bytes, offset| file.write_all_at(bytes, offset).at("write", name))
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.file.sync_data().at("sync", &self.name)?;
        advice::drop_cache(&self.file, 0..0);
        Ok(())
    }

    fn waits_for_disk(&self) -> bool {
        true
    }
}

impl Drop for PosixWriter {
    fn drop(&mut self) {
        if self.buffer.needs_flush() {
            // Nobody to tell: who needs to know calls `flush` or `sync`.
            let _ = self.flush();
        }
    }
}
