//! tantivy's view of a container: a directory of files that can be read where the search said beforehand.
//!
//! tantivy reads whole lists through shared handles that know nothing of threads. So a search first finds out which slices
//! it will need, gets them, from the cache or as one batch of reads, and pins them to its thread; tantivy then finds
//! them there. A read of anything else is an error: no search reads behind our back.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tantivy::HasLen;
use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    Directory, DirectoryLock, FileHandle, Lock, OwnedBytes, WatchCallback, WatchHandle, WritePtr,
};

thread_local! {
    static PINS: RefCell<Vec<Pin>> = const { RefCell::new(Vec::new()) };
}

/// Bytes of one file, from `start`, that this thread may read now.
pub(crate) struct Pin {
    pub file: u64,
    pub start: usize,
    pub bytes: OwnedBytes,
}

/// Pins, until dropped. One at a time per thread.
pub(crate) struct Pinned(());

impl Pinned {
    pub fn new(pins: impl IntoIterator<Item = Pin>) -> Pinned {
        PINS.with_borrow_mut(|held| {
            held.clear();
            held.extend(pins);
        });
        Pinned(())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        PINS.with_borrow_mut(Vec::clear);
    }
}

/// One file of the container.
#[derive(Debug, Clone)]
pub(crate) struct SectionFile {
    /// Unique in the process.
    pub number: u64,
    pub len: usize,
    /// All its bytes, if they are held.
    pub held: Option<OwnedBytes>,
}

impl HasLen for SectionFile {
    fn len(&self) -> usize {
        self.len
    }
}

impl FileHandle for SectionFile {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        let outside = || io::Error::other(format!("bytes {range:?} of {}", self.len));
        if range.start > range.end || range.end > self.len {
            return Err(outside());
        }
        if let Some(held) = &self.held {
            return Ok(held.slice(range));
        }
        if range.is_empty() {
            return Ok(OwnedBytes::empty());
        }
        PINS.with_borrow(|pins| {
            let covers = |pin: &&Pin| {
                pin.file == self.number
                    && pin.start <= range.start
                    && range.end <= pin.start + pin.bytes.len()
            };
            let pin = pins.iter().find(covers);
            let pin = pin.ok_or_else(|| io::Error::other(format!("bytes {range:?} weren't made ready")))?;
            Ok(pin.bytes.slice(range.start - pin.start..range.end - pin.start))
        })
    }
}

/// A directory that only reads.
#[derive(Debug, Clone)]
pub(crate) struct ContainerDirectory {
    pub files: Arc<HashMap<PathBuf, SectionFile>>,
    /// `meta.json`.
    pub meta: Arc<Vec<u8>>,
}

impl Directory for ContainerDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        match self.files.get(path) {
            Some(file) => Ok(Arc::new(file.clone())),
            None => Err(OpenReadError::FileDoesNotExist(path.to_owned())),
        }
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        Ok(self.files.contains_key(path))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        match path.to_str() {
            Some("meta.json") => Ok(self.meta.to_vec()),
            _ => Err(OpenReadError::FileDoesNotExist(path.to_owned())),
        }
    }

    /// Nothing changes, so there is nothing to lock.
    fn acquire_lock(&self, _: &Lock) -> Result<DirectoryLock, LockError> {
        Ok(DirectoryLock::from(Box::new(())))
    }

    fn watch(&self, _: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        Err(DeleteError::IoError {
            io_error: Arc::new(read_only()),
            filepath: path.to_owned(),
        })
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        Err(OpenWriteError::wrap_io_error(read_only(), path.to_owned()))
    }

    fn atomic_write(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        Err(read_only())
    }
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "a text index is never changed")
}
