//! A preallocated log file: buffered writes, made durable by fdatasync.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ramlet_memory::AnonBuf;

use crate::error::{At, check_log_range, check_range};
use crate::posix::advice;
use crate::storage::{LogFile, PAGE, Result};

const ZERO_BYTES: usize = 256 << 10;

pub struct PosixLog {
    name: String,
    file: File,
    len: u64,
    /// Pages written since the last sync, still in the page cache.
    cached: Range<u64>,
    /// Its file system lets nobody write.
    is_read_only: bool,
}

impl PosixLog {
    /// A new file whose every byte is allocated, zero and durable: from now on a write can't run out of disk, and
    /// fdatasync has no metadata to write.
    pub fn create(path: &Path, name: &str, len: u64) -> Result<PosixLog> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .at("create", name)?;
        if len > 0 {
            advice::allocate(&file, len).at("allocate", name)?;
        }
        let zeros = AnonBuf::new(ZERO_BYTES);
        let mut at = 0;
        while at < len {
            let part = (len - at).min(ZERO_BYTES as u64);
            file.write_all_at(&zeros[..part as usize], at).at("write", name)?;
            at += part;
        }
        file.sync_all().at("sync", name)?;
        advice::drop_cache(&file, 0..0);
        Ok(PosixLog {
            name: name.to_owned(),
            file,
            len,
            cached: 0..0,
            is_read_only: false,
        })
    }

    pub fn open(path: &Path, name: &str) -> Result<PosixLog> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        // It can still be read where nobody can write.
        let is_read_only = matches!(&opened, Err(e) if e.kind() == io::ErrorKind::ReadOnlyFilesystem);
        let opened = match is_read_only {
            true => File::open(path),
            false => opened,
        };
        let file = opened.at("open", name)?;
        let len = file.metadata().at("open", name)?.len();
        Ok(PosixLog {
            name: name.to_owned(),
            file,
            len,
            cached: 0..0,
            is_read_only,
        })
    }
}

impl LogFile for PosixLog {
    fn len(&self) -> u64 {
        self.len
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        check_log_range(&self.name, offset, bytes.len(), self.len)?;
        if self.is_read_only {
            return Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)).at("write", &self.name);
        }
        self.file.write_all_at(bytes, offset).at("write", &self.name)?;
        let end = offset + bytes.len() as u64;
        self.cached = match self.cached.is_empty() {
            true => offset..end,
            false => self.cached.start.min(offset)..self.cached.end.max(end),
        };
        Ok(())
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        check_range(&self.name, offset, out.len(), self.len)?;
        self.file.read_exact_at(out, offset).at("read", &self.name)
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().at("sync", &self.name)?;
        // The page that the next record goes on with stays: without it, that write would have to read it first.
        let page = PAGE as u64;
        let (start, end) = (self.cached.start / page * page, self.cached.end / page * page);
        if start < end {
            advice::drop_cache(&self.file, start..end);
        }
        self.cached = end..end;
        Ok(())
    }
}

impl Drop for PosixLog {
    fn drop(&mut self) {
        advice::drop_cache(&self.file, 0..0);
    }
}
