//! An overlay over a directory: changes stay in RAM, and the directory is unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::check_name;
use crate::ram::{LockGuard, RamStorage};
use crate::reader::SerialReader;
use crate::storage::{BatchReader, IoError, IoErrorKind, LogFile, ReadFile, Result, Storage, WriteFile};

/// What is written lies in RAM, as a whole; what is only read is read below. A log file that is opened is copied: its whole length.
pub struct OverlayStorage {
    below: Arc<dyn Storage>,
    /// Files and directories below, listed once: nobody changes anything there.
    files: OnceLock<BTreeSet<String>>,
    directories: OnceLock<BTreeSet<String>>,
    above: Arc<dyn Storage>,
    /// Files and directories below that were removed, renamed, or replaced.
    gone: Mutex<BTreeSet<String>>,
    /// Child directories that were asked for, each of which knows what is gone of its own.
    children: Mutex<BTreeMap<String, Arc<OverlayStorage>>>,
    locked: Arc<AtomicBool>,
}

impl OverlayStorage {
    /// Nothing is written to `below`. Its lock isn't taken: who has it may lay several of these over it, one after the other.
    pub fn new(below: Arc<dyn Storage>) -> OverlayStorage {
        OverlayStorage::over(below, Arc::new(RamStorage::new(None)))
    }

    fn over(below: Arc<dyn Storage>, above: Arc<dyn Storage>) -> OverlayStorage {
        OverlayStorage {
            below,
            files: OnceLock::new(),
            directories: OnceLock::new(),
            above,
            gone: Mutex::default(),
            children: Mutex::default(),
            locked: Arc::default(),
        }
    }

    fn gone(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_above(&self, name: &str) -> Result<bool> {
        Ok(self.above.list()?.iter().any(|file| file == name))
    }

    fn is_below(&self, name: &str) -> Result<bool> {
        Ok(!self.gone().contains(name) && self.files()?.contains(name))
    }

    fn files(&self) -> Result<&BTreeSet<String>> {
        once(&self.files, || self.below.list())
    }

    fn directories(&self) -> Result<&BTreeSet<String>> {
        once(&self.directories, || self.below.list_subdirs())
    }

    /// The names of both that are there.
    fn both(&self, below: &BTreeSet<String>, above: Vec<String>) -> Vec<String> {
        let gone = self.gone();
        let below = below.iter().filter(|name| !gone.contains(*name)).cloned();
        let both: BTreeSet<String> = below.chain(above).collect();
        both.into_iter().collect()
    }

    /// Copies a file into RAM, if it isn't there.
    fn lift(&self, name: &str) -> Result<()> {
        check_name("open", name)?;
        if self.is_above(name)? {
            return Ok(());
        }
        if !self.is_below(name)? {
            return Err(IoError::not_found("open", name));
        }
        let file = self.below.open(name)?;
        let mut copy = self.above.create(name)?;
        let mut part = vec![0; 1 << 20];
        let mut at = 0;
        while at < file.len() {
            let n = part.len().min((file.len() - at) as usize);
            file.read_at(&mut part[..n], at)?;
            copy.append(&part[..n])?;
            at += n as u64;
        }
        Ok(())
    }
}

fn once(
    cell: &OnceLock<BTreeSet<String>>,
    list: impl FnOnce() -> Result<Vec<String>>,
) -> Result<&BTreeSet<String>> {
    if cell.get().is_none() {
        let _ = cell.set(list()?.into_iter().collect());
    }
    Ok(cell.get().expect("it was set"))
}

impl Storage for OverlayStorage {
    fn subdir(&self, name: &str) -> Result<Arc<dyn Storage>> {
        if self.is_below(name)? {
            return Err(IoError::exists("create directory", name));
        }
        let above = self.above.subdir(name)?;
        if self.gone().contains(name) || !self.directories()?.contains(name) {
            return Ok(above);
        }
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(child) = children.get(name) {
            return Ok(child.clone());
        }
        let child = Arc::new(OverlayStorage::over(self.below.subdir(name)?, above));
        children.insert(name.to_owned(), child.clone());
        Ok(child)
    }

    fn remove_subdir(&self, name: &str) -> Result<()> {
        let is_there = self.list_subdirs()?.iter().any(|directory| directory == name);
        match self.above.remove_subdir(name) {
            Err(e) if e.kind != IoErrorKind::NotFound || !is_there => Err(e),
            _ => {
                self.gone().insert(name.to_owned());
                Ok(())
            }
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.both(self.files()?, self.above.list()?))
    }

    fn list_subdirs(&self) -> Result<Vec<String>> {
        Ok(self.both(self.directories()?, self.above.list_subdirs()?))
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        match self.is_below(name)? {
            true => Err(IoError::exists("create", name)),
            false => self.above.create(name),
        }
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>> {
        match self.is_below(name)? {
            true => Err(IoError::exists("create", name)),
            false => self.above.create_log(name, bytes),
        }
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>> {
        self.lift(name)?;
        self.above.open_log(name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        check_name("open", name)?;
        if self.is_above(name)? {
            return self.above.open(name);
        }
        match self.gone().contains(name) {
            true => Err(IoError::not_found("open", name)),
            false => self.below.open(name),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name("rename", to)?;
        self.lift(from)?;
        self.above.rename(from, to)?;
        self.gone().extend([from.to_owned(), to.to_owned()]);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name("remove", name)?;
        let (is_above, is_below) = (self.is_above(name)?, self.is_below(name)?);
        if is_above {
            self.above.remove(name)?;
        }
        self.gone().insert(name.to_owned());
        match is_above || is_below {
            true => Ok(()),
            false => Err(IoError::not_found("remove", name)),
        }
    }

    fn sync_dir(&self) -> Result<()> {
        Ok(())
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        match self.locked.swap(true, Ordering::AcqRel) {
            true => Err(IoError::locked(&self.location())),
            false => Ok(Box::new(LockGuard(self.locked.clone()))),
        }
    }

    fn free_bytes(&self) -> Result<u64> {
        self.above.free_bytes()
    }

    fn reader(&self, _depth: usize) -> Result<Box<dyn BatchReader>> {
        Ok(Box::new(SerialReader))
    }

    fn backend(&self) -> &'static str {
        "overlay"
    }

    fn location(&self) -> String {
        self.below.location()
    }
}
