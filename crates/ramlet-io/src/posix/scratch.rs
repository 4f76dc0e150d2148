//! A large file for measurements that no one ever sees, and every way to read it.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::At;
use crate::posix::mmap::{Mapping, MmapFile};
use crate::posix::{advice, direct, pread, uring};
use crate::reader::SerialReader;
use crate::storage::{BatchReader, IoError, IoErrorKind, ReadFile, Result};

/// How a [`ScratchFile`] is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Memory mapping, advised as random: a fault reads one page.
    Mapped,
    /// Memory mapping without advice: a fault reads as much ahead as the disk is set to.
    MappedReadAhead,
    /// Through the page cache, advised as random.
    Buffered,
    /// O_DIRECT: past the page cache.
    Direct,
}

/// A file without a name: its space is free again when the process that holds it ends, however it ends.
pub struct ScratchFile {
    file: File,
    name: String,
    len: u64,
}

impl ScratchFile {
    /// An empty file on the file system of `directory`, which must exist.
    pub fn create(directory: &Path) -> Result<ScratchFile> {
        let name = directory.to_string_lossy().into_owned();
        let file = unnamed(directory)
            .or_else(|_| named_and_removed(directory))
            .at("create file", &name)?;
        Ok(ScratchFile { file, name, len: 0 })
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).at("write", &self.name)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn sync(&self) -> Result<()> {
        self.file.sync_all().at("sync", &self.name)
    }

    /// Drops the file from the page cache: all that is synced and that no mapping holds.
    pub fn drop_cached(&self) {
        advice::drop_cache(&self.file, 0..0);
    }

    /// Bytes of the file that are in the page cache now.
    pub fn cached_bytes(&self) -> Result<u64> {
        let map = Mapping::new(&self.file, self.len as usize, false).at("map", &self.name)?;
        map.cached_bytes().at("mincore", &self.name)
    }

    /// The file as a reader sees it. A file that is read with O_DIRECT has a length in whole pages.
    pub fn open(&self, access: Access) -> Result<Arc<dyn ReadFile>> {
        // An open file has a name here, even when it has none anywhere else: each opening has flags of its own.
        let path = PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        Ok(match access {
            Access::Mapped => Arc::new(MmapFile::open(&path, &self.name)?),
            Access::MappedReadAhead => Arc::new(MmapFile::open_with_read_ahead(&path, &self.name)?),
            Access::Buffered => Arc::new(pread::PreadFile::open(&path, &self.name)?),
            Access::Direct => Arc::new(direct::DirectFile::open(&path, &self.name)?),
        })
    }
}

/// A reader that does one read after another, with any file.
pub fn serial_reader() -> Box<dyn BatchReader> {
    Box::new(SerialReader)
}

/// A reader that hands its reads to io_uring, `depth` in flight at most, with any file that has a descriptor; for the
/// calling thread. `Unsupported` when the kernel refuses a ring.
pub fn ring_reader(depth: usize) -> Result<Box<dyn BatchReader>> {
    let mut reader = uring::UringReader::new(depth);
    reader.ready().map_err(|error| {
        IoError::new(
            "open",
            "io_uring",
            IoErrorKind::Unsupported,
            format!("io_uring isn't available: {error}"),
        )
    })?;
    Ok(Box::new(reader))
}

fn unnamed(directory: &Path) -> io::Result<File> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: takes a C string that lives through the call, and numbers.
    let fd = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made above and has no other owner.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// For file systems that know no files without names: a moment with one.
fn named_and_removed(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!(".ramlet-scratch-{}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_name_is_one_nevertheless() {
        let directory = std::env::temp_dir().join(format!("ramlet-scratch-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        for make in [unnamed, named_and_removed] {
            let mut file = make(&directory).expect("a file");
            file.write_all(b"here").expect("room");
            let entries = fs::read_dir(&directory).expect("a directory").count();
            assert_eq!(entries, 0);
        }
        fs::remove_dir(&directory).expect("nothing is left in it");
    }
}
