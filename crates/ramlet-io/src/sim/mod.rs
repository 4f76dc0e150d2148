//! A simulated disk: it injects faults, and enumerates the states after a power loss.
//!
//! Operations see the newest state, as with a real file system. Beside it the disk keeps a journal of every effect
//! in order, from which [`SimStorage::crash_states`] and [`CrashPoints`] make the states that a power loss may leave:
//! - what a file held when it was last synced is there; a failed sync promises nothing, nor does any later one of
//!   that file;
//! - later writes are there or not, sector by sector (512 bytes): a sector holds the first so many of the writes that
//!   touched it; the length of the file may cover lost writes, which then read as zeros;
//! - a name is created, renamed or removed for good once its directory is synced (syncing the file isn't enough);
//!   of the later changes of a directory the first so many are there.

mod crash;
mod disk;
mod fault;
mod files;
mod fingerprint;
mod pages;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::check_name;
use crate::ram::LockGuard;
use crate::reader::SerialReader;
use crate::storage::{BatchReader, IoError, IoErrorKind, LogFile, ReadFile, Result, Storage, WriteFile};
use crate::system::OpenFiles;
pub use crash::{CrashPoints, CrashState};
use disk::{Disk, Effect, Node, NodeId, ROOT};
pub use fault::{Fault, FaultOp};
use files::{SimLog, SimReader, SimWriter};

/// A directory of a simulated disk; see the module. Clones share the disk.
#[derive(Clone)]
pub struct SimStorage {
    disk: Arc<Mutex<Disk>>,
    directory: NodeId,
    path: String,
}

impl Default for SimStorage {
    fn default() -> SimStorage {
        SimStorage::new()
    }
}

impl SimStorage {
    /// The root directory of an empty disk.
    pub fn new() -> SimStorage {
        SimStorage::root_of(Disk::default())
    }

    fn root_of(disk: Disk) -> SimStorage {
        SimStorage {
            disk: Arc::new(Mutex::new(disk)),
            directory: ROOT,
            path: "sim:".to_owned(),
        }
    }

    /// Effects so far. A position `at` in the journal is the moment after the first `at` of them.
    pub fn journal_len(&self) -> usize {
        self.disk().journal.len()
    }

    /// The journal in words, for messages: one line for each effect.
    pub fn effects(&self) -> Vec<String> {
        let disk = self.disk();
        disk.journal.iter().map(|effect| disk.describe(effect)).collect()
    }

    /// Disks (their roots, with empty journals) as they may be after a power loss once the first `at` effects were
    /// issued. The first four are the extremes: all that wasn't synced lost; all kept; names kept and data lost;
    /// names lost and data kept. Then come `how_many` random ones, the same for the same seed.
    pub fn crash_states(&self, at: usize, seed: u64, how_many: usize) -> Vec<SimStorage> {
        let mut points = self.crash_points();
        points.go_to(at);
        let numbers = 0..crash::EXTREMES.len() + how_many;
        numbers.map(|number| points.state(seed, number).disk()).collect()
    }

    /// A walk along the journal, for those who ask for the states of many positions.
    pub fn crash_points(&self) -> CrashPoints {
        CrashPoints::new(self.clone())
    }

    /// The disk from now on fails as told; several faults may be set.
    pub fn inject(&self, fault: Fault) {
        self.disk().faults.push(fault);
    }

    /// The `n`th operation of this kind from now (1 is the next) fails, on whatever file.
    pub fn fail_nth(&self, op: FaultOp, n: u64, kind: IoErrorKind) {
        self.inject(Fault::new(op, n, kind));
    }

    /// As `fail_nth`, and so does every later one.
    pub fn fail_from(&self, op: FaultOp, n: u64, kind: IoErrorKind) {
        self.inject(Fault::new(op, n, kind).lasting());
    }

    pub fn clear_faults(&self) {
        self.disk().faults.clear();
    }

    /// Flips the lowest bit of the byte at `offset`, silently. `file` is a path below this directory. Not an effect of
    /// the journal: states after a power loss don't have it.
    pub fn flip_bit(&self, file: &str, offset: u64) -> Result<()> {
        let mut disk = self.disk();
        let node = disk.resolve(self.directory, file)?;
        let bytes = disk.file_mut(node);
        if offset >= bytes.len() {
            return Err(IoError::short_read(file, offset, 1, bytes.len()));
        }
        let mut byte = [0];
        bytes.read(offset, &mut byte);
        byte[0] ^= 1;
        bytes.write(offset, &byte);
        Ok(())
    }

    /// Paths of all files below this directory, sorted.
    pub fn list_files(&self) -> Vec<String> {
        let disk = self.disk();
        let mut found = Vec::new();
        disk.walk(self.directory, "", &mut |path, _| found.push(path.to_owned()));
        found.sort();
        found
    }

    /// The bytes of a file, given by its path below this directory.
    pub fn read_file(&self, file: &str) -> Result<Vec<u8>> {
        let disk = self.disk();
        let bytes = disk.file(disk.resolve(self.directory, file)?);
        let mut out = vec![0; bytes.len() as usize];
        bytes.read(0, &mut out);
        Ok(out)
    }

    /// What `free_bytes` answers from now on; writes don't use it up.
    pub fn set_free_bytes(&self, bytes: u64) {
        self.disk().free_bytes = bytes;
    }

    /// What `open_files` answers from now on; files that are opened don't use it up.
    pub fn set_open_files(&self, files: OpenFiles) {
        self.disk().open_files = Some(files);
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }

    /// Checks name and fault, and adds an empty file.
    fn add_file(&self, name: &str) -> Result<NodeId> {
        check_name("create", name)?;
        let mut disk = self.disk();
        disk.check(FaultOp::Create, "create", name)?;
        if disk.entries(self.directory).contains_key(name) {
            return Err(IoError::exists("create", name));
        }
        Ok(disk.link_new(self.directory, name, Node::new_file()))
    }

    fn find_file(&self, name: &str) -> Result<NodeId> {
        check_name("open", name)?;
        self.disk().resolve(self.directory, name)
    }
}

/// The disk, also after a test panicked with it in hand: every operation leaves it whole.
fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Storage for SimStorage {
    fn subdir(&self, name: &str) -> Result<Arc<dyn Storage>> {
        check_name("create directory", name)?;
        let mut disk = self.disk();
        let directory = match disk.entries(self.directory).get(name).copied() {
            Some(node) if disk.is_directory(node) => node,
            Some(_) => return Err(IoError::exists("create directory", name)),
            None => {
                disk.check(FaultOp::Create, "create directory", name)?;
                let node = disk.link_new(self.directory, name, Node::new_directory());
                disk.check(FaultOp::SyncDir, "sync directory", &self.path)?;
                disk.apply(Effect::SyncDir {
                    directory: self.directory,
                });
                node
            }
        };
        let path = format!("{}/{name}", self.path);
        Ok(Arc::new(SimStorage {
            disk: self.disk.clone(),
            directory,
            path,
        }))
    }

    fn remove_subdir(&self, name: &str) -> Result<()> {
        check_name("remove directory", name)?;
        let mut disk = self.disk();
        disk.check(FaultOp::Remove, "remove directory", name)?;
        match disk.entries(self.directory).get(name).copied() {
            Some(node) if disk.is_directory(node) => disk.remove_tree(self.directory, name, node),
            _ => return Err(IoError::not_found("remove directory", name)),
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.disk().names(self.directory, false))
    }

    fn list_subdirs(&self) -> Result<Vec<String>> {
        Ok(self.disk().names(self.directory, true))
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(SimWriter::new(
            self.disk.clone(),
            self.add_file(name)?,
            name,
        )))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>> {
        let node = self.add_file(name)?;
        let mut disk = self.disk();
        let result = disk.zero_log(node, bytes, name);
        if result.is_err() {
            disk.apply(Effect::Unlink {
                directory: self.directory,
                name: name.into(),
            });
        }
        result?;
        Ok(Box::new(SimLog::new(self.disk.clone(), node, name, bytes)))
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>> {
        let node = self.find_file(name)?;
        let len = self.disk().file(node).len();
        Ok(Box::new(SimLog::new(self.disk.clone(), node, name, len)))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        let node = self.find_file(name)?;
        let len = self.disk().file(node).len();
        Ok(Arc::new(SimReader::new(self.disk.clone(), node, name, len)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name("rename", from)?;
        check_name("rename", to)?;
        let mut disk = self.disk();
        disk.check(FaultOp::Rename, "rename", from)?;
        let node = disk.resolve(self.directory, from)?;
        if disk
            .entries(self.directory)
            .get(to)
            .is_some_and(|node| disk.is_directory(*node))
        {
            return Err(IoError::exists("rename", to));
        }
        disk.apply(Effect::Rename {
            directory: self.directory,
            node,
            from: from.into(),
            to: to.into(),
        });
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name("remove", name)?;
        let mut disk = self.disk();
        disk.check(FaultOp::Remove, "remove", name)?;
        disk.resolve(self.directory, name)?;
        disk.apply(Effect::Unlink {
            directory: self.directory,
            name: name.into(),
        });
        Ok(())
    }

    fn sync_dir(&self) -> Result<()> {
        let mut disk = self.disk();
        disk.check(FaultOp::SyncDir, "sync directory", &self.path)?;
        disk.apply(Effect::SyncDir {
            directory: self.directory,
        });
        Ok(())
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        let locked = self.disk().lock_flag(self.directory);
        match locked.swap(true, Ordering::AcqRel) {
            true => Err(IoError::locked(&self.path)),
            false => Ok(Box::new(LockGuard(locked))),
        }
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(self.disk().free_bytes)
    }

    fn open_files(&self) -> Option<OpenFiles> {
        self.disk().open_files
    }

    fn reader(&self, _depth: usize) -> Result<Box<dyn BatchReader>> {
        Ok(Box::new(SerialReader))
    }

    fn backend(&self) -> &'static str {
        "sim"
    }

    fn location(&self) -> String {
        self.path.clone()
    }
}
