//! A directory of a real file system. The backends differ only in how its files are read and written.

mod advice;
mod direct;
mod log;
mod mmap;
mod pread;
mod scratch;
mod uring;
mod writer;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{At, check_name};
use crate::reader::SerialReader;
use crate::storage::{
    BatchReader, IoError, IoErrorKind, LogFile, PAGE, ReadFile, Result, Storage, WriteFile,
};
use crate::system::{self, OpenFiles, holder_of_lock};

pub use scratch::{Access, ScratchFile, ring_reader, serial_reader};

/// Drops what is synced of a file from the page cache.
pub fn drop_cached(file: &File) {
    advice::drop_cache(file, 0..0);
}

/// The file that carries the lock of a directory; not listed.
const LOCK: &str = "LOCK";

/// Buffered reads by pread, one at a time; what was written leaves the page cache when synced.
pub struct PreadStorage;

/// Reads by io_uring with O_DIRECT, many at once; writes with O_DIRECT too. No page cache.
pub struct UringStorage;

/// Reads by memory mapping, advised as random.
pub struct MmapStorage;

impl PreadStorage {
    /// Opens the directory, created when missing.
    pub fn open(path: &Path) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(Directory::open(path, Kind::Pread)?))
    }
}

impl UringStorage {
    /// Opens the directory, created when missing. `Unsupported` when the kernel refuses io_uring or the file system
    /// O_DIRECT: both are tried on a small file.
    pub fn open(path: &Path) -> Result<Arc<dyn Storage>> {
        let directory = Directory::open(path, Kind::Uring)?;
        direct::probe(path).map_err(|error| {
            let detail = format!("io_uring with O_DIRECT isn't available: {error}");
            IoError::new("open", &directory.location(), IoErrorKind::Unsupported, detail)
        })?;
        Ok(Arc::new(directory))
    }
}

impl MmapStorage {
    /// Opens the directory, created when missing.
    pub fn open(path: &Path) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(Directory::open(path, Kind::Mmap)?))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pread,
    Uring,
    Mmap,
}

struct Directory {
    path: PathBuf,
    /// The directory itself, for syncing it.
    handle: File,
    kind: Kind,
}

impl Directory {
    fn open(path: &Path, kind: Kind) -> Result<Directory> {
        let name = path.to_string_lossy();
        fs::create_dir_all(path).at("create directory", &name)?;
        let handle = File::open(path).at("open directory", &name)?;
        Ok(Directory {
            path: path.to_owned(),
            handle,
            kind,
        })
    }

    /// The path of a file in this directory; refuses names that lead elsewhere.
    fn file(&self, op: &'static str, name: &str) -> Result<PathBuf> {
        check_name(op, name)?;
        Ok(self.path.join(name))
    }

    fn entries(&self, wanted: fn(&fs::FileType) -> bool) -> Result<Vec<String>> {
        let location = self.location();
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).at("list", &location)? {
            let entry = entry.at("list", &location)?;
            let kind = entry.file_type().at("list", &location)?;
            // A name that isn't UTF-8 is none of ours, and couldn't be asked for through this interface.
            if let Ok(name) = entry.file_name().into_string()
                && wanted(&kind)
                && name != LOCK
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

impl Storage for Directory {
    fn subdir(&self, name: &str) -> Result<Arc<dyn Storage>> {
        let path = self.file("create directory", name)?;
        match fs::create_dir(&path) {
            Ok(()) => self.sync_dir()?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(IoError::from_os("create directory", name, &error)),
        }
        Ok(Arc::new(Directory::open(&path, self.kind)?))
    }

    fn remove_subdir(&self, name: &str) -> Result<()> {
        fs::remove_dir_all(self.file("remove directory", name)?).at("remove directory", name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.entries(fs::FileType::is_file)
    }

    fn list_subdirs(&self) -> Result<Vec<String>> {
        self.entries(fs::FileType::is_dir)
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        let path = self.file("create", name)?;
        let flags = if self.kind == Kind::Uring {
            libc::O_DIRECT
        } else {
            0
        };
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .custom_flags(flags)
            .open(path);
        Ok(Box::new(writer::PosixWriter::new(name, file.at("create", name)?)))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>> {
        let path = self.file("create", name)?;
        let created = log::PosixLog::create(&path, name, bytes);
        if let Err(error) = &created
            && error.kind != IoErrorKind::AlreadyExists
        {
            // Half a log would only hold the space that was too little; the first error is the one to tell.
            let _ = fs::remove_file(&path);
        }
        Ok(Box::new(created?))
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>> {
        Ok(Box::new(log::PosixLog::open(&self.file("open", name)?, name)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        let path = self.file("open", name)?;
        Ok(match self.kind {
            Kind::Pread => Arc::new(pread::PreadFile::open(&path, name)?),
            Kind::Uring => Arc::new(direct::DirectFile::open(&path, name)?),
            Kind::Mmap => Arc::new(mmap::MmapFile::open(&path, name)?),
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        fs::rename(self.file("rename", from)?, self.file("rename", to)?).at("rename", from)
    }

    fn remove(&self, name: &str) -> Result<()> {
        fs::remove_file(self.file("remove", name)?).at("remove", name)
    }

    fn sync_dir(&self) -> Result<()> {
        self.handle.sync_all().at("sync directory", &self.location())
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        let path = self.path.join(LOCK);
        let name = path.to_string_lossy();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        // A copy, or a broken disk that the kernel lets nobody write to: it can still be checked and salvaged.
        let file = match file {
            Err(e) if e.kind() == io::ErrorKind::ReadOnlyFilesystem => match File::open(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Box::new(())),
                file => file,
            },
            file => file,
        };
        let file = file.at("lock", &name)?;
        match file.try_lock() {
            // Closing the file gives the lock back.
            Ok(()) => Ok(Box::new(file)),
            Err(fs::TryLockError::WouldBlock) => {
                Err(IoError::locked_by(&name, holder_of_lock(&path).as_deref()))
            }
            Err(fs::TryLockError::Error(error)) => Err(IoError::from_os("lock", &name, &error)),
        }
    }

    fn free_bytes(&self) -> Result<u64> {
        let space = advice::space(&self.handle).at("statvfs", &self.location())?;
        Ok(space.free)
    }

    fn capacity_bytes(&self) -> Result<Option<u64>> {
        let space = advice::space(&self.handle).at("statvfs", &self.location())?;
        Ok(Some(space.used + space.free))
    }

    fn open_files(&self) -> Option<OpenFiles> {
        system::open_files()
    }

    fn reader(&self, depth: usize) -> Result<Box<dyn BatchReader>> {
        Ok(match self.kind {
            Kind::Uring => Box::new(uring::UringReader::new(depth)),
            Kind::Pread | Kind::Mmap => Box::new(SerialReader),
        })
    }

    fn backend(&self) -> &'static str {
        match self.kind {
            Kind::Pread => "pread",
            Kind::Uring => "io_uring",
            Kind::Mmap => "mmap",
        }
    }

    fn location(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }
}

/// Offset, length and memory as O_DIRECT wants them.
fn is_aligned(out: &[u8], offset: u64) -> bool {
    let page = PAGE as u64;
    (out.as_ptr() as u64).is_multiple_of(page) && (out.len() as u64 | offset).is_multiple_of(page)
}
