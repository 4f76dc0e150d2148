//! Files of one directory that are made durable side by side.
//!
//! A sync waits for the disk to empty its write cache, for 0.1 to 10 ms, whatever the file holds. Several that wait at once share it: six files took 24 ms one
//! by one and 4 ms together.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::storage::{BatchReader, IoError, IoErrorKind, LogFile, ReadFile, Result, Storage, WriteFile};
use crate::system::OpenFiles;

/// Files that wait for their sync at most: each holds a descriptor and a page, and gets a thread for the time of its sync.
const AT_ONCE: usize = 8;
/// Of such a thread, which writes at most a page.
const STACK_BYTES: usize = 128 << 10;

/// A storage whose files' `sync` hands everything on and puts the rest off until [`SyncTogether::sync`]: only then are they durable. Nothing may be
/// appended in between. Everything else is as below.
pub struct SyncTogether {
    below: Arc<dyn Storage>,
    unsynced: Arc<Unsynced>,
}

#[derive(Default)]
struct Unsynced(Mutex<Vec<Box<dyn WriteFile>>>);

/// A file of such a storage.
struct Later {
    /// `None` from its sync on.
    file: Option<Box<dyn WriteFile>>,
    name: String,
    len: u64,
    unsynced: Arc<Unsynced>,
}

impl SyncTogether {
    pub fn new(below: Arc<dyn Storage>) -> SyncTogether {
        SyncTogether {
            below,
            unsynced: Arc::default(),
        }
    }

    /// Makes all files durable whose sync was asked for. An error: one of them isn't.
    pub fn sync(&self) -> Result<()> {
        sync_all(self.unsynced.take())
    }
}

impl Unsynced {
    fn take(&self) -> Vec<Box<dyn WriteFile>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, file: Box<dyn WriteFile>) -> Result<()> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.push(file);
        match files.len() < AT_ONCE {
            true => Ok(()),
            false => sync_all(std::mem::take(&mut *files)),
        }
    }
}

/// Each that waits for a disk on a thread of its own, or, where no thread can be had, one after the other.
fn sync_all(mut files: Vec<Box<dyn WriteFile>>) -> Result<()> {
    let Some((last, others)) = files.split_last_mut() else {
        return Ok(());
    };
    let others: Vec<Mutex<&mut Box<dyn WriteFile>>> = others.iter_mut().map(Mutex::new).collect();
    thread::scope(|scope| {
        let mut done = Ok(());
        let mut waiting = Vec::with_capacity(others.len());
        for file in &others {
            let locked = move || file.lock().unwrap_or_else(PoisonError::into_inner);
            let sync = move || locked().sync();
            let thread = thread::Builder::new().name("sync".into()).stack_size(STACK_BYTES);
            let spawned = locked()
                .waits_for_disk()
                .then(|| thread.spawn_scoped(scope, sync));
            match spawned {
                Some(Ok(thread)) => waiting.push(thread),
                Some(Err(_)) | None => done = done.and(sync()),
            }
        }
        done = done.and(last.sync());
        for thread in waiting {
            let synced = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done = done.and(synced);
        }
        done
    })
}

impl WriteFile for Later {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.file {
            Some(file) => file.append(bytes),
            None => Err(IoError::new(
                "write",
                &self.name,
                IoErrorKind::Closed,
                "its sync was asked for",
            )),
        }
    }

    fn len(&self) -> u64 {
        self.file.as_ref().map_or(self.len, |file| file.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.flush())
    }

    fn sync(&mut self) -> Result<()> {
        let Some(mut file) = self.file.take() else {
            return Ok(());
        };
        self.len = file.len();
        file.flush()?;
        self.unsynced.add(file)
    }
}

impl Storage for SyncTogether {
    fn subdir(&self, name: &str) -> Result<Arc<dyn Storage>> {
        self.below.subdir(name)
    }

    fn remove_subdir(&self, name: &str) -> Result<()> {
        self.below.remove_subdir(name)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.below.list()
    }

    fn list_subdirs(&self) -> Result<Vec<String>> {
        self.below.list_subdirs()
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(Later {
            file: Some(self.below.create(name)?),
            name: name.to_owned(),
            len: 0,
            unsynced: self.unsynced.clone(),
        }))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>> {
        self.below.create_log(name, bytes)
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>> {
        self.below.open_log(name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.below.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.below.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.below.remove(name)
    }

    fn sync_dir(&self) -> Result<()> {
        self.below.sync_dir()
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.below.lock()
    }

    fn free_bytes(&self) -> Result<u64> {
        self.below.free_bytes()
    }

    fn capacity_bytes(&self) -> Result<Option<u64>> {
        self.below.capacity_bytes()
    }

    fn open_files(&self) -> Option<OpenFiles> {
        self.below.open_files()
    }

    fn reader(&self, depth: usize) -> Result<Box<dyn BatchReader>> {
        self.below.reader(depth)
    }

    fn backend(&self) -> &'static str {
        self.below.backend()
    }

    fn location(&self) -> String {
        self.below.location()
    }
}
