//! The storage seam: the only way from the engine to a file system.
//!
//! A [`Storage`] is one directory. Names are plain file names (no separators); `subdir` gives a child directory.
//! Every method is synchronous. Files are written once, front to back, then opened read-only.

use std::fmt;
use std::sync::Arc;

use crate::system::OpenFiles;

/// Alignment of file offsets, lengths and buffers that every backend accepts (O_DIRECT needs it).
pub const PAGE: usize = 4096;

/// A failure of the storage, with the file it happened on.
#[derive(Debug)]
pub struct IoError {
    pub op: &'static str,
    pub file: String,
    pub kind: IoErrorKind,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoErrorKind {
    NotFound,
    AlreadyExists,
    NoSpace,
    /// The process, or the machine, has no file descriptor left.
    NoDescriptors,
    /// The operating system doesn't let this process have the file.
    NoPermission,
    /// A read reached past the end of the file.
    ShortRead,
    /// Another process holds the lock.
    Locked,
    /// The backend isn't available here (io_uring refused, O_DIRECT unsupported).
    Unsupported,
    /// Verification of a block failed: the bytes on disk are not the bytes that were written.
    Corrupt,
    /// The memory for this operation doesn't fit into the budget; the detail states both numbers.
    OverBudget,
    /// Whoever this was done for is ending.
    Closed,
    Other,
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} failed: {}", self.op, self.file, self.detail)
    }
}
impl std::error::Error for IoError {}

pub type Result<T> = std::result::Result<T, IoError>;

/// One directory of files.
pub trait Storage: Send + Sync {
    /// A child directory, created (and this directory synced) when missing.
    fn subdir(&self, name: &str) -> Result<Arc<dyn Storage>>;
    /// Removes a child directory and all in it.
    fn remove_subdir(&self, name: &str) -> Result<()>;
    /// Names of plain files, sorted.
    fn list(&self) -> Result<Vec<String>>;
    /// Names of child directories, sorted.
    fn list_subdirs(&self) -> Result<Vec<String>>;
    /// A new file to be written front to back; fails when it exists.
    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>>;
    /// A new log file of `bytes`, its space allocated and zeroed once and synced; fails when it exists.
    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>>;
    /// An existing log file.
    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>>;
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>>;
    /// Atomic; replaces `to`. Durable only after `sync_dir`.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    fn remove(&self, name: &str) -> Result<()>;
    fn sync_dir(&self) -> Result<()>;
    /// Takes the exclusive lock of this directory, held until the value is dropped. `Locked` when taken.
    fn lock(&self) -> Result<Box<dyn Send + Sync>>;
    /// Bytes that can still be written on this file system.
    fn free_bytes(&self) -> Result<u64>;
    /// Bytes of this file system, used and free, as an ordinary user sees it; `None` where that is no question.
    fn capacity_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }
    /// File descriptors of this process, where its files take any.
    fn open_files(&self) -> Option<OpenFiles> {
        None
    }
    /// A reader for one thread: the backend's way to do many reads at once. `depth`: reads in flight at most.
    fn reader(&self, depth: usize) -> Result<Box<dyn BatchReader>>;
    /// "pread", "io_uring", "mmap", "ram", "sim": shown to the user.
    fn backend(&self) -> &'static str;
    /// Where this directory lies, for messages.
    fn location(&self) -> String;
}

/// A file being written front to back.
pub trait WriteFile: Send {
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Bytes appended so far.
    fn len(&self) -> u64;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Hands everything appended to the file, padded with zeros to PAGE, without waiting for the disk: readers
    /// that open the file afterwards see it. Dropping the value does the same, but can't report a failure.
    fn flush(&mut self) -> Result<()>;
    /// `flush`, and makes everything appended durable (fdatasync). The name is durable only after `Storage::sync_dir`.
    fn sync(&mut self) -> Result<()>;
    /// Whether `sync` waits for a disk, which may serve several at once.
    fn waits_for_disk(&self) -> bool {
        false
    }
}

/// A preallocated file of fixed length, written at any offset.
pub trait LogFile: Send {
    fn len(&self) -> u64;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()>;
    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()>;
    fn sync(&mut self) -> Result<()>;
}

/// An immutable file.
pub trait ReadFile: Send + Sync {
    fn name(&self) -> &str;
    fn len(&self) -> u64;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Fills `out` from `offset`; `ShortRead` past the end. Any alignment (backends bounce where they must).
    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()>;
    /// The whole file as memory, where the backend has it so (ram, mmap).
    fn as_bytes(&self) -> Option<&[u8]> {
        None
    }
    /// The descriptor, for backends that submit to the kernel.
    fn raw_fd(&self) -> Option<i32> {
        None
    }
}

/// One read of a batch. `out` and `offset` are PAGE-aligned, `out.len()` a multiple of PAGE
/// (files are padded to PAGE, so block files never read short).
pub struct BatchRead<'a> {
    pub file: &'a dyn ReadFile,
    pub offset: u64,
    pub out: &'a mut [u8],
}

/// Does many reads at once; one per thread.
pub trait BatchReader: Send {
    /// Returns when all are done; the first error wins. Allocates nothing.
    fn read_batch(&mut self, reads: &mut [BatchRead<'_>]) -> Result<()>;
}
