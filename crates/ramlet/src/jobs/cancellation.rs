//! Job cancellation: the storage of background jobs fails once the engine closes or the collection is deleted.
//!
//! A build of a large index takes minutes, and who stops a server waits for its threads. What a job had written by then is
//! removed, what it was made of is still there: the next start does it again. Looked at with each piece that is written and each
//! batch that is read, so that a job ends within what it computes between two of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

use ramlet_io::system::OpenFiles;
use ramlet_io::{
    BatchRead, BatchReader, IoError, IoErrorKind, LogFile, ReadFile, Result, Storage, WriteFile,
};

use crate::error::{self, Error, ErrorKind};
use crate::state::core::Core;
use crate::state::shared::Shared;

/// A collection's storage, as long as anybody wants what is written. Removing works to the end.
pub struct CancellableStorage {
    storage: Arc<dyn Storage>,
    wanted: Wanted,
}

#[derive(Clone)]
struct Wanted {
    shared: Arc<Shared>,
    dropped: Arc<AtomicBool>,
    /// The job's thread, where memtables may be flushed in the middle of the job.
    flushes_on: Option<ThreadId>,
}

/// An I/O object of such a storage.
struct Cancellable<T> {
    inner: T,
    wanted: Wanted,
}

impl Wanted {
    fn check(&self, op: &'static str, file: &str) -> Result<()> {
        let why = match (self.shared.is_closed(), self.dropped.load(Ordering::Acquire)) {
            (false, false) => {
                if self
                    .flushes_on
                    .is_some_and(|thread| thread == thread::current().id())
                {
                    self.shared.flush_awaited();
                }
                return Ok(());
            }
            (true, _) => "the engine is closing",
            (false, true) => "the collection was deleted",
        };
        Err(IoError::new(op, file, IoErrorKind::Closed, why))
    }
}

/// Rows after which a build looks whether anybody wants it.
pub const ROWS_BETWEEN_LOOKS: u32 = 256;

/// Ends a build when the engine closes or the collection is dropped.
pub fn check_wanted(core: &Core) -> error::Result<()> {
    match core.shared.is_closed() || core.is_dropped() {
        true => Err(Error::new(ErrorKind::Closed, "stopped while an index was built")),
        false => Ok(()),
    }
}

impl CancellableStorage {
    pub fn new(core: &Core) -> CancellableStorage {
        CancellableStorage {
            storage: core.file_context.storage.clone(),
            wanted: Wanted {
                shared: core.shared.clone(),
                dropped: core.dropped.clone(),
                flushes_on: None,
            },
        }
    }

    /// For a job of this thread, which flushes memtables beside that where a write waits for room.
    pub fn with_flushes(core: &Core) -> CancellableStorage {
        let mut storage = CancellableStorage::new(core);
        storage.wanted.flushes_on = Some(thread::current().id());
        storage
    }

    fn wrap<T>(&self, inner: T) -> Cancellable<T> {
        let wanted = self.wanted.clone();
        Cancellable { inner, wanted }
    }
}

impl Storage for CancellableStorage {
    fn subdir(&self, name: &str) -> Result<Arc<dyn Storage>> {
        let storage = self.storage.subdir(name)?;
        let wanted = self.wanted.clone();
        Ok(Arc::new(CancellableStorage { storage, wanted }))
    }

    fn remove_subdir(&self, name: &str) -> Result<()> {
        self.storage.remove_subdir(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.storage.list()
    }

    fn list_subdirs(&self) -> Result<Vec<String>> {
        self.storage.list_subdirs()
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        self.wanted.check("create", name)?;
        Ok(Box::new(self.wrap(self.storage.create(name)?)))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>> {
        self.storage.create_log(name, bytes)
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>> {
        self.storage.open_log(name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.wanted.check("open", name)?;
        self.storage.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.storage.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.storage.remove(name)
    }

    fn sync_dir(&self) -> Result<()> {
        self.storage.sync_dir()
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.storage.lock()
    }

    fn free_bytes(&self) -> Result<u64> {
        self.storage.free_bytes()
    }

    fn capacity_bytes(&self) -> Result<Option<u64>> {
        self.storage.capacity_bytes()
    }

    fn open_files(&self) -> Option<OpenFiles> {
        self.storage.open_files()
    }

    fn reader(&self, depth: usize) -> Result<Box<dyn BatchReader>> {
        Ok(Box::new(self.wrap(self.storage.reader(depth)?)))
    }

    fn backend(&self) -> &'static str {
        self.storage.backend()
    }

    fn location(&self) -> String {
        self.storage.location()
    }
}

impl WriteFile for Cancellable<Box<dyn WriteFile>> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.wanted.check("write", "a job's file")?;
        self.inner.append(bytes)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }

    fn sync(&mut self) -> Result<()> {
        self.wanted.check("sync", "a job's file")?;
        self.inner.sync()
    }

    fn waits_for_disk(&self) -> bool {
        self.inner.waits_for_disk()
    }
}

impl BatchReader for Cancellable<Box<dyn BatchReader>> {
    fn read_batch(&mut self, reads: &mut [BatchRead<'_>]) -> Result<()> {
        self.wanted.check("read", "a job's files")?;
        self.inner.read_batch(reads)
    }
}
