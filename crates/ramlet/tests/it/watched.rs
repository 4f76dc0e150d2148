//! A storage that tells of each operation before it is done.

use std::sync::Arc;

use ramlet_io::{BatchRead, BatchReader, LogFile, ReadFile, Result, Storage, WriteFile};

/// Hears of an operation (`create`, `write`, `log`, `read`, ...) and the path it is about; it may wait, or panic.
pub type Before = Arc<dyn Fn(&str, &str) + Send + Sync>;

pub struct Watched {
    storage: Arc<dyn Storage>,
    before: Before,
    /// Directories down to this one, each with a slash behind it.
    path: String,
}

impl Watched {
    pub fn new(
        storage: Arc<dyn Storage>,
        before: impl Fn(&str, &str) + Send + Sync + 'static,
    ) -> Arc<Watched> {
        Arc::new(Watched {
            storage,
            before: Arc::new(before),
            path: String::new(),
        })
    }

    fn tell(&self, op: &str, name: &str) {
        (self.before)(op, &format!("{}{name}", self.path));
    }

    fn file<F>(&self, inner: F, name: &str) -> File<F> {
        File {
            inner,
            before: self.before.clone(),
            path: format!("{}{name}", self.path),
        }
    }
}

/// A file, or a reader of several.
struct File<F> {
    inner: F,
    before: Before,
    path: String,
}

impl<F> File<F> {
    fn tell(&self, op: &str) {
        (self.before)(op, &self.path);
    }
}

impl WriteFile for File<Box<dyn WriteFile>> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.tell("write");
        self.inner.append(bytes)
    }
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
    fn sync(&mut self) -> Result<()> {
        self.tell("sync");
        self.inner.sync()
    }
}

impl LogFile for File<Box<dyn LogFile>> {
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        self.tell("log");
        self.inner.write_at(bytes, offset)
    }
    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        self.tell("replay");
        self.inner.read_at(out, offset)
    }
    fn sync(&mut self) -> Result<()> {
        self.tell("sync");
        self.inner.sync()
    }
}

/// Never memory: what is read passes here.
impl ReadFile for File<Arc<dyn ReadFile>> {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        self.tell("read");
        self.inner.read_at(out, offset)
    }
    fn raw_fd(&self) -> Option<i32> {
        self.inner.raw_fd()
    }
}

/// One file after the other, so that each tells of itself.
struct OneByOne;

impl BatchReader for OneByOne {
    fn read_batch(&mut self, reads: &mut [BatchRead<'_>]) -> Result<()> {
        reads
            .iter_mut()
            .try_for_each(|read| read.file.read_at(read.out, read.offset))
    }
}

impl Storage for Watched {
    fn subdir(&self, name: &str) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(Watched {
            storage: self.storage.subdir(name)?,
            before: self.before.clone(),
            path: format!("{}{name}/", self.path),
        }))
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
        self.tell("create", name);
        Ok(Box::new(self.file(self.storage.create(name)?, name)))
    }
    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>> {
        self.tell("create", name);
        Ok(Box::new(self.file(self.storage.create_log(name, bytes)?, name)))
    }
    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>> {
        self.tell("open", name);
        Ok(Box::new(self.file(self.storage.open_log(name)?, name)))
    }
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.tell("open", name);
        Ok(Arc::new(self.file(self.storage.open(name)?, name)))
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.tell("rename", to);
        self.storage.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.tell("remove", name);
        self.storage.remove(name)
    }
    fn sync_dir(&self) -> Result<()> {
        self.tell("sync", "");
        self.storage.sync_dir()
    }
    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.storage.lock()
    }
    fn free_bytes(&self) -> Result<u64> {
        self.tell("free", "");
        self.storage.free_bytes()
    }
    fn reader(&self, _depth: usize) -> Result<Box<dyn BatchReader>> {
        Ok(Box::new(OneByOne))
    }
    fn backend(&self) -> &'static str {
        self.storage.backend()
    }
    fn location(&self) -> String {
        self.storage.location()
    }
}
