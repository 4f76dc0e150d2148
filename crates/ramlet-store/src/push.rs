//! A backup into a store: only chunks that aren't there are sent, then a manifest makes it a backup.
//!
//! A push that dies leaves chunks and no manifest. The next one finds them and goes on. While it ran, others may push: the numbers of manifests put
//! all in order. A sweep that got a number meanwhile may delete what this push counted on: then it begins again, and most of it is there.

use std::sync::Arc;

use bytes::Bytes;
use object_store::{ObjectStoreExt, PutPayload};
use ramlet_format::FileCrc;
use ramlet_io::{ReadFile, Storage};
use ramlet_memory::{Consumer, Ledger, Reservation};
use tokio::task::JoinSet;

use crate::chunks::cut;
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::hash::Sha;
use crate::index::{self, Chunk, FileIndex, is_name};
use crate::known::Known;
use crate::layout::object_path;
use crate::limits::{
    CHUNK_BYTES_MAX, MEMORY_MIN, NAMES_MAX, PARALLEL_BESIDE_MAX, PARALLEL_MAX, PROCESS_BYTES, TRIES_MAX,
};
use crate::manifest::{
    self, BackupInfo, BackupKind, Covered, Entry, History, Manifest, Published, SnapshotOf,
};
use crate::shard::{may_follow, newest_covered_before};
use crate::store::Store;

const READ_BYTES: usize = 1 << 20;

/// A file to be pushed, and what is known of it beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// `file` or `directory/file`.
    pub name: String,
    /// Its length, or less.
    pub bytes_min: u64,
    /// Its length and the crc32c of it whole, where a manifest of the engine says so.
    pub exact: Option<(u64, u32)>,
}

/// How far a push is, and in the end what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushReport {
    /// Of the backup; 0 until there is one.
    pub number: u64,
    pub files: u64,
    /// Of the files that were read.
    pub bytes: u64,
    pub chunks: u64,
    /// Chunks that weren't there, and their bytes; those of the list of files too.
    pub sent_chunks: u64,
    pub sent_bytes: u64,
}

/// A push under way. Files come one after the other, each front to back.
pub struct Push<'a> {
    store: Store,
    history: History,
    known: Known,
    memory: Consumer,
    parallel: usize,
    tasks: JoinSet<Result<()>>,
    files: Vec<FileIndex>,
    files_held: Reservation,
    file: Option<OpenFile>,
    buf: Vec<u8>,
    _buf_held: Reservation,
    report: PushReport,
    progress: Option<Progress<'a>>,
}

/// Is told how far a push is.
pub type Progress<'a> = &'a mut (dyn FnMut(&PushReport) + Send);

struct OpenFile {
    index: FileIndex,
    crc: FileCrc,
}

/// What the manifest says beside sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    pub of: BackupKind,
    pub collections: Vec<String>,
    /// Of a running shard.
    pub covered: Option<Covered>,
    /// Of a snapshot that a server took.
    pub snapshot: Option<SnapshotOf>,
}

/// The bytes of a ledger for so much memory in all.
pub(crate) fn ledger(memory: u64) -> Result<Arc<Ledger>> {
    if memory < MEMORY_MIN {
        return Err(StoreError::new(
            StoreErrorKind::OverBudget,
            format!("{memory} bytes of memory are below the {MEMORY_MIN} that this needs"),
        ));
    }
    Ok(Ledger::new(memory - PROCESS_BYTES))
}

/// Objects that may be under way at once, when each holds `bytes`.
pub(crate) fn parallel(memory: &Consumer, bytes: u64) -> usize {
    let three_quarters = memory.available() / 4 * 3;
    let buffers = (three_quarters / bytes).saturating_sub(1);
    buffers.clamp(1, PARALLEL_MAX as u64) as usize
}

/// Pushes what `fill` writes, and publishes it. `memory`: bytes in all; `created`: seconds since 1970. `fill` runs again where a sweep got in between.
pub fn push(
    store: &Store,
    memory: u64,
    created: u64,
    progress: Progress<'_>,
    fill: &mut dyn FnMut(&mut Push<'_>) -> Result<Described>,
) -> Result<PushReport> {
    let ledger = ledger(memory)?;
    push_within(store, &ledger.consumer("push", u64::MAX), created, progress, fill)
}

/// The same with the memory of a ledger that others share.
pub fn push_within(
    store: &Store,
    memory: &Consumer,
    created: u64,
    progress: Progress<'_>,
    fill: &mut dyn FnMut(&mut Push<'_>) -> Result<Described>,
) -> Result<PushReport> {
    store.claim()?;
    for _ in 0..TRIES_MAX {
        let mut push = Push::begin(store, memory.clone(), Some(&mut *progress))?;
        let described = fill(&mut push)?;
        if let Some(report) = push.finish(described, created)? {
            return Ok(report);
        }
    }
    Err(StoreError::new(
        StoreErrorKind::Failed,
        format!("{store}: {TRIES_MAX} sweeps got in between; try again when nobody prunes"),
    ))
}

/// Pushes files of a directory. Where one isn't as its manifest says, the push fails: damage isn't backed up.
pub fn push_files(push: &mut Push<'_>, storage: &Arc<dyn Storage>, files: &[SourceFile]) -> Result<()> {
    let mut buf = vec![0; READ_BYTES];
    for source in files {
        let file = open(storage, &source.name)?;
        push.begin_file(&source.name)?;
        let mut at = 0;
        while at < file.len() {
            let part = READ_BYTES.min((file.len() - at) as usize);
            file.read_at(&mut buf[..part], at)?;
            push.write(&buf[..part])?;
            at += part as u64;
        }
        let (bytes, crc) = push.end_file()?;
        let is_sound = bytes >= source.bytes_min && source.exact.is_none_or(|exact| exact == (bytes, crc));
        if !is_sound {
            return Err(StoreError::corrupt(format!(
                "{}/{}: its length or checksum isn't what its manifest says; `ramlet check` tells more",
                storage.location(),
                source.name
            )));
        }
    }
    Ok(())
}

fn open(storage: &Arc<dyn Storage>, name: &str) -> Result<Arc<dyn ReadFile>> {
    Ok(match name.split_once('/') {
        Some((directory, name)) => storage.subdir(directory)?.open(name)?,
        None => storage.open(name)?,
    })
}

impl Push<'static> {
    /// One that nobody is told of, and that its owner ends by [`Push::finish`].
    pub(crate) fn owned(store: &Store, memory: Consumer) -> Result<Push<'static>> {
        let mut push = Push::begin(store, memory, None)?;
        // Beside a server's own work.
        push.parallel = push.parallel.min(PARALLEL_BESIDE_MAX);
        Ok(push)
    }
}

impl<'a> Push<'a> {
    fn begin(store: &Store, memory: Consumer, progress: Option<Progress<'a>>) -> Result<Push<'a>> {
        let buf_held = memory.reserve((CHUNK_BYTES_MAX + READ_BYTES) as u64)?;
        let parallel = parallel(&memory, CHUNK_BYTES_MAX as u64);
        let history = manifest::history(store)?;
        Ok(Push {
            store: store.clone(),
            known: Known::read(store, &history, &memory)?,
            history,
            parallel,
            tasks: JoinSet::new(),
            files: Vec::new(),
            files_held: memory.reserve(0)?,
            file: None,
            buf: Vec::with_capacity(CHUNK_BYTES_MAX),
            _buf_held: buf_held,
            report: PushReport::default(),
            progress,
            memory,
        })
    }

    /// From now on [`Push::write`] is about this file.
    pub fn begin_file(&mut self, name: &str) -> Result<()> {
        if !is_name(name) {
            return Err(StoreError::wrong(format!(
                "'{name}' is no name of a file of ours"
            )));
        }
        self.file = Some(OpenFile {
            index: FileIndex {
                name: name.to_owned(),
                bytes: 0,
                chunks: Vec::new(),
            },
            crc: FileCrc::new(),
        });
        Ok(())
    }

    /// The next bytes of the file.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let file = self.file.as_mut().expect("a file was begun");
        file.crc.update(bytes);
        file.index.bytes += bytes.len() as u64;
        self.report.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let part = (CHUNK_BYTES_MAX - self.buf.len()).min(bytes.len());
            self.buf.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            if self.buf.len() == CHUNK_BYTES_MAX {
                self.cut(false)?;
            }
        }
        Ok(())
    }

    /// What follows in the file begins a chunk.
    pub fn end_chunk(&mut self) -> Result<()> {
        while !self.buf.is_empty() {
            self.cut(true)?;
        }
        Ok(())
    }

    /// Ends the file: its length, and its crc32c.
    pub fn end_file(&mut self) -> Result<(u64, u32)> {
        self.end_chunk()?;
        let file = self.file.take().expect("a file was begun");
        self.files_held.grow(file.index.held_bytes())?;
        let ended = (file.index.bytes, file.crc.value());
        self.files.push(file.index);
        self.report.files += 1;
        Ok(ended)
    }

    /// Takes the first chunk out of the buffer.
    fn cut(&mut self, is_whole: bool) -> Result<()> {
        let Some(length) = cut(&self.buf, is_whole) else {
            return Ok(());
        };
        let mut rest = Vec::with_capacity(CHUNK_BYTES_MAX);
        rest.extend_from_slice(&self.buf[length..]);
        self.buf.truncate(length);
        let bytes = std::mem::replace(&mut self.buf, rest);
        let chunk = self.chunk(bytes)?;
        let file = self.file.as_mut().expect("a file was begun");
        file.index.chunks.push(chunk);
        Ok(())
    }

    /// A chunk that is there, or on its way.
    fn chunk(&mut self, bytes: Vec<u8>) -> Result<Chunk> {
        let sha = Sha::of(&bytes);
        let length = bytes.len() as u32;
        self.report.chunks += 1;
        let epoch = match self.known.epoch_of(&sha) {
            Some(epoch) => epoch,
            None => {
                let epoch = self.history.last_sweep;
                self.send(epoch, sha, bytes)?;
                self.known.add(sha, epoch)?;
                epoch
            }
        };
        if let Some(progress) = &mut self.progress {
            progress(&self.report);
        }
        Ok(Chunk {
            sha,
            epoch,
            bytes: length,
        })
    }

    fn send(&mut self, epoch: u64, sha: Sha, bytes: Vec<u8>) -> Result<()> {
        while self.tasks.len() >= self.parallel {
            self.wait_for_one()?;
        }
        let held = loop {
            match self.memory.reserve(CHUNK_BYTES_MAX as u64) {
                Ok(held) => break held,
                // Somebody else took it: what is on its way gives some back.
                Err(_) if !self.tasks.is_empty() => self.wait_for_one()?,
                Err(refused) => return Err(refused.into()),
            }
        };
        self.report.sent_chunks += 1;
        self.report.sent_bytes += bytes.len() as u64;
        let (inner, path) = (self.store.inner(), object_path(epoch, &sha));
        let what = format!("{}/{path}", self.store);
        let sending = async move {
            let sent = inner.put(&path, PutPayload::from_bytes(Bytes::from(bytes))).await;
            drop(held);
            sent.map(|_| ()).map_err(|e| StoreError::of_store(&what, &e))
        };
        self.tasks.spawn_on(sending, self.store.runtime().handle());
        Ok(())
    }

    /// Fails where one of those that are on their way did.
    fn wait_for_one(&mut self) -> Result<()> {
        match self.store.runtime().block_on(self.tasks.join_next()) {
            None => Ok(()),
            Some(Ok(sent)) => sent,
            Some(Err(e)) => Err(StoreError::new(StoreErrorKind::Failed, e.to_string())),
        }
    }

    /// Sends the list and takes a number; `None` where a sweep took one in between.
    pub(crate) fn finish(mut self, described: Described, created: u64) -> Result<Option<PushReport>> {
        let encoded_held = self.memory.reserve(self.files_held.bytes())?;
        let encoded = index::encode(&self.files);
        let mut list = Vec::new();
        for piece in encoded.chunks(CHUNK_BYTES_MAX) {
            list.push(self.chunk(piece.to_vec())?);
        }
        drop((encoded, encoded_held));
        while !self.tasks.is_empty() {
            self.wait_for_one()?;
        }
        let mut collections = described.collections;
        let collection_count = collections.len() as u64;
        collections.truncate(NAMES_MAX);
        let covered = described.covered;
        if let Some(mine) = covered
            && let Some((_, newest)) = newest_covered_before(&self.store, &self.history)?
            && let Some(newest) = newest.covered
        {
            may_follow(&self.store, newest, mine)?;
        }
        let entry = Entry::Backup(BackupInfo {
            of: described.of,
            collections,
            collection_count,
            files: self.report.files,
            bytes: self.report.bytes,
            chunks: self.report.chunks - list.len() as u64,
            sent_bytes: self.report.sent_bytes,
            covered,
            snapshot: described.snapshot,
            index: list,
        });
        // Whoever took the number made a backup: there is an end to that.
        loop {
            let manifest = Manifest::next(&self.history, created, entry.clone());
            match manifest::publish(&self.store, &manifest)? {
                Published::Done => {
                    self.report.number = manifest.number;
                    return Ok(Some(self.report));
                }
                Published::Taken(other) => match other.entry {
                    Entry::Backup(info) => {
                        if let (Some(other), Some(mine)) = (info.covered, covered) {
                            may_follow(&self.store, other, mine)?;
                        }
                        self.history.head = manifest.number;
                    }
                    Entry::Sweep(_) => return Ok(None),
                },
            }
        }
    }
}
