//! A file read by pread through the page cache.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{At, check_range};
use crate::posix::advice;
use crate::storage::{ReadFile, Result};

pub struct PreadFile {
    name: String,
    file: File,
    len: u64,
}

impl PreadFile {
    pub fn open(path: &Path, name: &str) -> Result<PreadFile> {
        let file = File::open(path).at("open", name)?;
        let len = file.metadata().at("open", name)?.len();
        advice::random(&file);
        Ok(PreadFile {
            name: name.to_owned(),
            file,
            len,
        })
    }
}

impl ReadFile for PreadFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        check_range(&self.name, offset, out.len(), self.len)?;
        self.file.read_exact_at(out, offset).at("read", &self.name)
    }

    fn raw_fd(&self) -> Option<i32> {
        Some(self.file.as_raw_fd())
    }
}
