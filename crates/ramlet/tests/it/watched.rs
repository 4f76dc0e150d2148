//! A storage that tells of each file before it is made.

use std::sync::Arc;

use ramlet_io::{BatchReader, LogFile, ReadFile, Storage, WriteFile};

pub struct Watched {
    pub storage: Arc<dyn Storage>,
    /// Hears of the name of a file that is about to be created, in any directory; it may wait, or panic.
    pub before: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Storage for Watched {
    fn subdir(&self, name: &str) -> ramlet_io::Result<Arc<dyn Storage>> {
        let (storage, before) = (self.storage.subdir(name)?, self.before.clone());
        Ok(Arc::new(Watched { storage, before }))
    }
    fn remove_subdir(&self, name: &str) -> ramlet_io::Result<()> {
        self.storage.remove_subdir(name)
    }
    fn list(&self) -> ramlet_io::Result<Vec<String>> {
        self.storage.list()
    }
    fn list_subdirs(&self) -> ramlet_io::Result<Vec<String>> {
        self.storage.list_subdirs()
    }
    fn create(&self, name: &str) -> ramlet_io::Result<Box<dyn WriteFile>> {
        (self.before)(name);
        self.storage.create(name)
    }
    fn create_log(&self, name: &str, bytes: u64) -> ramlet_io::Result<Box<dyn LogFile>> {
        self.storage.create_log(name, bytes)
    }
    fn open_log(&self, name: &str) -> ramlet_io::Result<Box<dyn LogFile>> {
        self.storage.open_log(name)
    }
    fn open(&self, name: &str) -> ramlet_io::Result<Arc<dyn ReadFile>> {
        self.storage.open(name)
    }
    fn rename(&self, from: &str, to: &str) -> ramlet_io::Result<()> {
        self.storage.rename(from, to)
    }
    fn remove(&self, name: &str) -> ramlet_io::Result<()> {
        self.storage.remove(name)
    }
    fn sync_dir(&self) -> ramlet_io::Result<()> {
        self.storage.sync_dir()
    }
    fn lock(&self) -> ramlet_io::Result<Box<dyn Send + Sync>> {
        self.storage.lock()
    }
    fn free_bytes(&self) -> ramlet_io::Result<u64> {
        self.storage.free_bytes()
    }
    fn reader(&self, depth: usize) -> ramlet_io::Result<Box<dyn BatchReader>> {
        self.storage.reader(depth)
    }
    fn backend(&self) -> &'static str {
        self.storage.backend()
    }
    fn location(&self) -> String {
        self.storage.location()
    }
}
