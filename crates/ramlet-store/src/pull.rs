//! A backup out of a store: every chunk is what its name says, and what is there already isn't fetched again.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use ramlet_memory::{Consumer, Reservation};
use tokio::task::JoinSet;

use crate::error::{Result, StoreError, StoreErrorKind};
use crate::index::{Chunk, FileIndex};
use crate::known::{read_chunk, read_index, verified};
use crate::layout::object_path;
use crate::limits::CHUNK_BYTES_MAX;
use crate::manifest::{self, BackupInfo, Entry};
use crate::push::{ledger, parallel};
use crate::restore::{Restoring, may_wait};
use crate::store::{self, Store};
use crate::target::{Target, TargetFile};

/// How far a pull is, and in the end what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pulled {
    pub files: u64,
    /// Of the whole backup.
    pub bytes: u64,
    pub fetched_bytes: u64,
    /// Was there from a pull before.
    pub kept_bytes: u64,
}

/// A backup that is to be pulled.
pub struct Pull<'a> {
    store: &'a Store,
    memory: Consumer,
    pub number: u64,
    pub info: BackupInfo,
    files: Vec<FileIndex>,
    _held: Reservation,
}

/// A chunk on its way to a place in a file.
struct Fetched {
    file: usize,
    at: u64,
    bytes: Result<Bytes>,
    held: Reservation,
}

struct OpenFile {
    file: Box<dyn TargetFile>,
    /// Chunks that aren't written yet, those that weren't asked for too.
    left: usize,
}

impl<'a> Pull<'a> {
    /// The backup of a number, or the newest. Reads its list, and writes nothing.
    pub fn begin(store: &'a Store, number: Option<u64>, memory: u64) -> Result<Pull<'a>> {
        Pull::within(store, number, &ledger(memory)?.consumer("pull", u64::MAX))
    }

    /// The same with the memory of a ledger that others share.
    pub fn within(store: &'a Store, number: Option<u64>, memory: &Consumer) -> Result<Pull<'a>> {
        store.must_be_ours()?;
        let memory = memory.clone();
        let history = manifest::history(store)?;
        let newest = history.live.last().copied();
        let number = match (number, newest) {
            (_, None) => return Err(StoreError::not_found(format!("{store} holds no backup"))),
            (Some(number), _) if !history.live.contains(&number) => {
                let why = match number {
                    1.. if number <= history.head => "it was pruned",
                    _ => "there was never one",
                };
                return Err(StoreError::not_found(format!(
                    "{store} holds no backup {number}: {why}"
                )));
            }
            (Some(number), _) => number,
            (None, Some(newest)) => newest,
        };
        let Entry::Backup(info) = manifest::read(store, number)?.entry else {
            let message = format!("{store}: number {number} should be a backup and is a sweep");
            return Err(StoreError::corrupt(message));
        };
        let (files, held) = read_index(store, &info, &memory)?;
        Ok(Pull {
            store,
            memory,
            number,
            info,
            files,
            _held: held,
        })
    }

    /// Names of the files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.name.as_str())
    }

    /// Writes the files that a server needs before it begins, unless `has_begun` says that one did; the others are made, and fetched while it answers.
    pub fn run_beside(
        mut self,
        target: &dyn Target,
        has_begun: bool,
        progress: &mut dyn FnMut(&Pulled),
    ) -> Result<Arc<Restoring>> {
        let (waiting, first) = self.files.into_iter().partition(may_wait);
        self.files = first;
        if !has_begun {
            self.run(target, progress)?;
        }
        Restoring::begin(self.store, waiting, self._held, target, &self.memory)
    }

    /// A small file, which isn't written anywhere.
    pub fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>> {
        let store = self.store;
        let found = self.files.iter().find(|file| file.name == name);
        let index = found.ok_or_else(|| {
            StoreError::not_found(format!("{store}: backup {} holds no {name}", self.number))
        })?;
        if index.bytes > bytes_max {
            let message = format!("{name}: {} bytes, at most {bytes_max} are read", index.bytes);
            return Err(StoreError::new(StoreErrorKind::OverBudget, message));
        }
        // A chunk is read into a buffer that grows by doubling.
        let _held = self
            .memory
            .reserve(index.bytes + 2 * (CHUNK_BYTES_MAX as u64).min(index.bytes))?;
        let mut bytes = Vec::with_capacity(index.bytes as usize);
        for chunk in &index.chunks {
            let read = read_chunk(store, chunk).map_err(|e| self.explained(e))?;
            bytes.extend_from_slice(&read);
        }
        Ok(bytes)
    }

    /// An object that is missing was perhaps swept while this went on.
    fn explained(&self, error: StoreError) -> StoreError {
        let number = self.number;
        let is_gone = || manifest::history(self.store).is_ok_and(|now| !now.live.contains(&number));
        if error.kind() == StoreErrorKind::NotFound && is_gone() {
            return StoreError::not_found(format!("backup {number} was pruned meanwhile: {error}"));
        }
        error
    }

    /// Writes all files. What was written before and is right stays.
    pub fn run(&self, target: &dyn Target, progress: &mut dyn FnMut(&Pulled)) -> Result<Pulled> {
        self.run_some(&|_| true, target, progress)
    }

    /// Writes the files whose names are wanted.
    pub fn run_some(
        &self,
        is_wanted: &dyn Fn(&str) -> bool,
        target: &dyn Target,
        progress: &mut dyn FnMut(&Pulled),
    ) -> Result<Pulled> {
        let is_wanted = |file: &FileIndex| is_wanted(&file.name);
        let buf_held = self.memory.reserve(CHUNK_BYTES_MAX as u64)?;
        // An answer is read into a buffer that grows by doubling.
        let parallel = parallel(&self.memory, 2 * CHUNK_BYTES_MAX as u64);
        let mut run = Run {
            pull: self,
            target,
            tasks: JoinSet::new(),
            parallel,
            open: BTreeMap::new(),
            buf: vec![0; CHUNK_BYTES_MAX],
            _buf_held: buf_held,
            pulled: Pulled {
                bytes: self
                    .files
                    .iter()
                    .filter(|file| is_wanted(file))
                    .map(|file| file.bytes)
                    .sum(),
                ..Pulled::default()
            },
            progress,
        };
        for (number, _) in self.files.iter().enumerate().filter(|(_, file)| is_wanted(file)) {
            run.file(number)?;
        }
        while !run.tasks.is_empty() {
            run.write_one()?;
        }
        Ok(run.pulled)
    }
}

struct Run<'a> {
    pull: &'a Pull<'a>,
    target: &'a dyn Target,
    tasks: JoinSet<Fetched>,
    parallel: usize,
    open: BTreeMap<usize, OpenFile>,
    buf: Vec<u8>,
    _buf_held: Reservation,
    pulled: Pulled,
    progress: &'a mut dyn FnMut(&Pulled),
}

impl Run<'_> {
    fn file(&mut self, number: usize) -> Result<()> {
        let index = &self.pull.files[number];
        let opened = self.target.open(&index.name, index.bytes);
        let (file, was_there) = opened.map_err(|e| failed(&index.name, &e))?;
        let left = index.chunks.len();
        self.open.insert(number, OpenFile { file, left });
        let mut at = 0;
        for chunk in &index.chunks {
            if was_there && self.has(number, chunk, at)? {
                self.pulled.kept_bytes += u64::from(chunk.bytes);
                self.end_chunk(number)?;
            } else {
                self.fetch(number, *chunk, at)?;
            }
            at += u64::from(chunk.bytes);
        }
        if left == 0 {
            self.end_file(number)?;
        }
        Ok(())
    }

    fn has(&mut self, number: usize, chunk: &Chunk, at: u64) -> Result<bool> {
        let out = &mut self.buf[..chunk.bytes as usize];
        let open = self.open.get_mut(&number).expect("it was opened");
        let name = &self.pull.files[number].name;
        open.file.read_at(out, at).map_err(|e| failed(name, &e))?;
        Ok(verified(chunk, out).is_ok())
    }

    fn fetch(&mut self, file: usize, chunk: Chunk, at: u64) -> Result<()> {
        while self.tasks.len() >= self.parallel {
            self.write_one()?;
        }
        // Of a small chunk it isn't as much.
        let held = self.pull.memory.reserve(2 * u64::from(chunk.bytes))?;
        let store = self.pull.store;
        let (inner, url) = (store.inner(), store.to_string());
        let name = self.pull.files[file].name.clone();
        let fetching = async move {
            let path = object_path(chunk.epoch, &chunk.sha);
            let got = store::get(inner, &url, &path, CHUNK_BYTES_MAX as u64).await;
            let of = |e: StoreError| StoreError::new(e.kind(), format!("{name} needs {e}"));
            let bytes = got.map_err(of).and_then(|bytes| {
                let sound = verified(&chunk, &bytes);
                sound.map_err(|why| StoreError::corrupt(format!("{name} needs {url}/{path}: {why}")))?;
                Ok(bytes)
            });
            Fetched {
                file,
                at,
                bytes,
                held,
            }
        };
        self.tasks.spawn_on(fetching, store.runtime().handle());
        Ok(())
    }

    fn write_one(&mut self) -> Result<()> {
        let store = self.pull.store;
        let fetched = match store.runtime().block_on(self.tasks.join_next()) {
            None => return Ok(()),
            Some(Ok(fetched)) => fetched,
            Some(Err(e)) => return Err(StoreError::new(StoreErrorKind::Failed, e.to_string())),
        };
        let bytes = fetched.bytes.map_err(|e| self.pull.explained(e))?;
        let name = &self.pull.files[fetched.file].name;
        let open = self.open.get_mut(&fetched.file).expect("it was opened");
        open.file
            .write_at(&bytes, fetched.at)
            .map_err(|e| failed(name, &e))?;
        self.pulled.fetched_bytes += bytes.len() as u64;
        drop((bytes, fetched.held));
        self.end_chunk(fetched.file)?;
        (self.progress)(&self.pulled);
        Ok(())
    }

    fn end_chunk(&mut self, number: usize) -> Result<()> {
        let open = self.open.get_mut(&number).expect("it was opened");
        open.left -= 1;
        match open.left {
            0 => self.end_file(number),
            _ => Ok(()),
        }
    }

    fn end_file(&mut self, number: usize) -> Result<()> {
        let mut open = self.open.remove(&number).expect("it was opened");
        let name = &self.pull.files[number].name;
        open.file.sync().map_err(|e| failed(name, &e))?;
        self.pulled.files += 1;
        Ok(())
    }
}

fn failed(name: &str, error: &io::Error) -> StoreError {
    StoreError::new(StoreErrorKind::Failed, format!("{name}: {error}"))
}
