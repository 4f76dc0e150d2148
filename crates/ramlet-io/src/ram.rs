//! A directory in the memory of the process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ramlet_memory::{AnonBuf, Consumer, OverBudget};

use crate::error::{check_log_range, check_name, check_range};
use crate::reader::SerialReader;
use crate::storage::{BatchReader, IoError, LogFile, PAGE, ReadFile, Result, Storage, WriteFile};

/// Files in RAM, gone with the last handle. With a consumer, every byte is reserved from it, and a file that the
/// budget doesn't have room for fails like a full disk would, with `OverBudget`. A file takes whole pages.
pub struct RamStorage {
    directory: Arc<Directory>,
    path: String,
    consumer: Option<Consumer>,
}

#[derive(Default)]
struct Directory {
    entries: Mutex<Entries>,
    locked: Arc<AtomicBool>,
}

#[derive(Default)]
struct Entries {
    files: BTreeMap<String, Arc<File>>,
    directories: BTreeMap<String, Arc<Directory>>,
}

/// Shared by the directory, the writer and the readers, each of which holds the contents as of its opening.
struct File {
    name: String,
    consumer: Option<Consumer>,
    contents: Mutex<Arc<Contents>>,
}

/// The bytes of a file: the first `len` of `buf`.
struct Contents {
    buf: AnonBuf,
    len: usize,
}

impl RamStorage {
    pub fn new(consumer: Option<Consumer>) -> RamStorage {
        RamStorage {
            directory: Arc::default(),
            path: "ram:".to_owned(),
            consumer,
        }
    }

    fn add(&self, name: &str, len: usize) -> Result<Arc<File>> {
        check_name("create", name)?;
        let consumer = self.consumer.clone();
        let buf = new_buf(consumer.as_ref(), len).map_err(|e| IoError::over_budget("create", name, &e))?;
        let mut entries = self.directory.entries();
        if entries.files.contains_key(name) || entries.directories.contains_key(name) {
            return Err(IoError::exists("create", name));
        }
        let contents = Mutex::new(Arc::new(Contents { buf, len }));
        let file = Arc::new(File {
            name: name.to_owned(),
            consumer,
            contents,
        });
        entries.files.insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn find(&self, name: &str) -> Result<Arc<File>> {
        check_name("open", name)?;
        let found = self.directory.entries().files.get(name).cloned();
        found.ok_or_else(|| IoError::not_found("open", name))
    }
}

impl Directory {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for RamStorage {
    fn subdir(&self, name: &str) -> Result<Arc<dyn Storage>> {
        check_name("create directory", name)?;
        let mut entries = self.directory.entries();
        if entries.files.contains_key(name) {
            return Err(IoError::exists("create directory", name));
        }
        let directory = entries.directories.entry(name.to_owned()).or_default().clone();
        let path = format!("{}/{name}", self.path);
        Ok(Arc::new(RamStorage {
            directory,
            path,
            consumer: self.consumer.clone(),
        }))
    }

    fn remove_subdir(&self, name: &str) -> Result<()> {
        check_name("remove directory", name)?;
        let removed = self.directory.entries().directories.remove(name);
        removed
            .map(drop)
            .ok_or_else(|| IoError::not_found("remove directory", name))
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.directory.entries().files.keys().cloned().collect())
    }

    fn list_subdirs(&self) -> Result<Vec<String>> {
        Ok(self.directory.entries().directories.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(RamWriter {
            file: self.add(name, 0)?,
            len: 0,
        }))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>> {
        Ok(Box::new(RamLog(self.add(name, bytes as usize)?)))
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>> {
        Ok(Box::new(RamLog(self.find(name)?)))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        let file = self.find(name)?;
        let contents = file.contents().clone();
        Ok(Arc::new(RamReader {
            name: name.to_owned(),
            contents,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name("rename", from)?;
        check_name("rename", to)?;
        let mut entries = self.directory.entries();
        if entries.directories.contains_key(to) {
            return Err(IoError::exists("rename", to));
        }
        let file = entries
            .files
            .remove(from)
            .ok_or_else(|| IoError::not_found("rename", from))?;
        entries.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name("remove", name)?;
        let removed = self.directory.entries().files.remove(name);
        removed
            .map(drop)
            .ok_or_else(|| IoError::not_found("remove", name))
    }

    fn sync_dir(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        let locked = self.directory.locked.clone();
        match locked.swap(true, Ordering::AcqRel) {
            true => Err(IoError::locked(&self.path)),
            false => Ok(Box::new(LockGuard(locked))),
        }
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(self.consumer.as_ref().map_or(u64::MAX, Consumer::available))
    }

    fn reader(&self, _depth: usize) -> Result<Box<dyn BatchReader>> {
        Ok(Box::new(SerialReader))
    }

    fn backend(&self) -> &'static str {
        "ram"
    }

    fn location(&self) -> String {
        self.path.clone()
    }
}

/// Gives a lock that lives in memory back.
pub(crate) struct LockGuard(pub Arc<AtomicBool>);

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl File {
    fn contents(&self) -> MutexGuard<'_, Arc<Contents>> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes within or at the end of the contents; readers that hold them keep what they have.
    fn write(&self, bytes: &[u8], offset: usize) -> Result<()> {
        self.try_write(bytes, offset)
            .map_err(|refused| IoError::over_budget("write", &self.name, &refused))
    }

    fn try_write(&self, bytes: &[u8], offset: usize) -> std::result::Result<(), OverBudget> {
        let mut shared = self.contents();
        if Arc::get_mut(&mut shared).is_none() {
            let mut buf = new_buf(self.consumer.as_ref(), shared.len)?;
            buf.copy_from_slice(&shared.buf[..shared.len]);
            *shared = Arc::new(Contents { buf, len: shared.len });
        }
        let contents = Arc::get_mut(&mut shared).expect("just made our own");
        let end = offset + bytes.len();
        if end > contents.buf.len() {
            // By a quarter more, so that appending moves each byte a few times only.
            let roomy = end.max(contents.buf.len() + contents.buf.len() / 4);
            contents.buf.ensure(roomy).or_else(|_| contents.buf.ensure(end))?;
        }
        contents.buf[offset..end].copy_from_slice(bytes);
        contents.len = contents.len.max(end);
        Ok(())
    }

    /// Pads the contents to whole pages and gives spare memory back.
    fn settle(&self) -> Result<()> {
        let len = self.contents().len;
        if !len.is_multiple_of(PAGE) {
            self.write(&[0; PAGE][len % PAGE..], len)?;
        }
        if let Some(contents) = Arc::get_mut(&mut self.contents()) {
            contents.buf.shrink_to(contents.len);
        }
        Ok(())
    }
}

fn new_buf(consumer: Option<&Consumer>, bytes: usize) -> std::result::Result<AnonBuf, OverBudget> {
    match consumer {
        Some(consumer) => AnonBuf::reserved(consumer, bytes),
        None => Ok(AnonBuf::new(bytes)),
    }
}

struct RamWriter {
    file: Arc<File>,
    len: usize,
}

impl WriteFile for RamWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write(bytes, self.len)?;
        self.len += bytes.len();
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len as u64
    }

    fn flush(&mut self) -> Result<()> {
        self.file.settle()
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()
    }
}

impl Drop for RamWriter {
    fn drop(&mut self) {
        // Nobody to tell: who needs to know calls `flush` or `sync`.
        let _ = self.flush();
    }
}

struct RamLog(Arc<File>);

impl LogFile for RamLog {
    fn len(&self) -> u64 {
        self.0.contents().len as u64
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        check_log_range(&self.0.name, offset, bytes.len(), self.len())?;
        self.0.write(bytes, offset as usize)
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        let contents = self.0.contents();
        check_range(&self.0.name, offset, out.len(), contents.len as u64)?;
        out.copy_from_slice(&contents.buf[offset as usize..][..out.len()]);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

struct RamReader {
    name: String,
    contents: Arc<Contents>,
}

impl ReadFile for RamReader {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.contents.len as u64
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        check_range(&self.name, offset, out.len(), self.len())?;
        out.copy_from_slice(&self.contents.buf[offset as usize..][..out.len()]);
        Ok(())
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        Some(&self.contents.buf[..self.contents.len])
    }
}
