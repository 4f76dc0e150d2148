//! A directory of snapshots in a store: the seam that the engine writes them through, over backups.
//!
//! A snapshot is a backup of one file, whose manifest has the snapshot's name. So what a snapshot shares with those before it isn't sent again, and deleting one
//! is a sweep. Files that clients send to be restored are put beside the data, not into the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ramlet_io::system::OpenFiles;
use ramlet_io::{BatchReader, IoError, IoErrorKind, LogFile, ReadFile, Storage, WriteFile};
use ramlet_memory::{Consumer, Reservation};

use crate::error::{Result, StoreError, StoreErrorKind};
use crate::index::Chunk;
use crate::known::{read_chunk, read_index};
use crate::limits::{CHUNK_BYTES_MAX, CLIENT_BYTES, LOCAL_FREE_MIN, SNAPSHOT_FILE};
use crate::manifest::{self, BackupInfo, BackupKind, Entry, Manifest, SnapshotOf};
use crate::open::StoreUrl;
use crate::prune::forget;
use crate::push::{Described, Push};
use crate::snapshot::Frames;
use crate::store::Store;

const SUFFIX: &str = ".snapshot";
const TMP: &str = ".snapshot.tmp";
const CHECKSUM: &str = ".checksum";
/// Begins the names of files that clients send.
const UPLOAD: &str = "upload-";

type IoResult<T> = ramlet_io::Result<T>;

/// The directory of all snapshots, or of those of one collection.
pub struct SnapshotStore {
    shared: Arc<Shared>,
    directory: String,
}

struct Shared {
    store: Store,
    location: String,
    memory: Consumer,
    /// For what clients send.
    local: Arc<dyn Storage>,
    /// By directory and name.
    making: Mutex<HashMap<(String, String), Making>>,
    _held: Reservation,
}

/// What isn't published yet.
enum Making {
    Snapshot(Box<Sending>),
    /// What is to be beside a snapshot.
    Small(Vec<u8>),
}

struct Sending {
    push: Push<'static>,
    frames: Frames,
}

impl SnapshotStore {
    /// Over a store that can be trusted, which becomes ours. `memory`: of the ledger that the server has. `local`: for what clients send.
    pub fn open(
        (store, url): (Store, &StoreUrl),
        memory: Consumer,
        local: Arc<dyn Storage>,
    ) -> Result<SnapshotStore> {
        store.claim()?;
        // Paths of `file://` are compared with it.
        let location = match url {
            StoreUrl::Directory(path) => path.display().to_string(),
            other => other.to_string(),
        };
        let shared = Shared {
            _held: memory.reserve(CLIENT_BYTES)?,
            store,
            location,
            memory,
            local,
            making: Mutex::default(),
        };
        Ok(SnapshotStore {
            shared: Arc::new(shared),
            directory: String::new(),
        })
    }

    /// All snapshots: their numbers, manifests, names.
    fn all(&self) -> Result<Vec<(Manifest, BackupInfo, SnapshotOf)>> {
        let store = &self.shared.store;
        let mut all = Vec::new();
        for number in manifest::history(store)?.live {
            let manifest = manifest::read(store, number)?;
            if let Entry::Backup(info) = manifest.entry.clone()
                && let Some(of) = info.snapshot.clone()
            {
                all.push((manifest, info, of));
            }
        }
        Ok(all)
    }

    fn find(&self, name: &str) -> Result<(Manifest, BackupInfo, SnapshotOf)> {
        let found = self.all()?.into_iter();
        let mut found = found.filter(|(_, _, of)| of.directory == self.directory && of.name == name);
        found
            .next()
            .ok_or_else(|| StoreError::not_found(format!("{}: there is no {name}", self.shared.store)))
    }

    fn is_upload(&self, name: &str) -> bool {
        self.directory.is_empty() && name.starts_with(UPLOAD) && name.ends_with(TMP)
    }

    fn key(&self, name: &str) -> (String, String) {
        (self.directory.clone(), name.to_owned())
    }

    fn publish(&self, from: &str, to: &str) -> Result<()> {
        let taken = {
            let mut making = self.shared.making();
            let sidecar = making.remove(&self.key(&format!("{to}{CHECKSUM}")));
            making.remove(&self.key(from)).zip(sidecar)
        };
        let Some((Making::Snapshot(sending), Making::Small(sha))) = taken else {
            return Err(StoreError::not_found(format!("{from} wasn't written")));
        };
        let Sending { mut push, frames } = *sending;
        frames.end()?;
        push.end_file()?;
        let described = Described {
            of: BackupKind::Snapshot,
            collections: Vec::new(),
            covered: None,
            snapshot: Some(SnapshotOf {
                directory: self.directory.clone(),
                name: to.to_owned(),
                sha256: String::from_utf8_lossy(&sha).into_owned(),
            }),
        };
        match push.finish(described, frames.created().unwrap_or(0))? {
            Some(_) => Ok(()),
            None => Err(StoreError::new(
                StoreErrorKind::Failed,
                "snapshots or backups were deleted meanwhile, and what this one counted on with them: take it again",
            )),
        }
    }
}

impl Shared {
    fn making(&self) -> MutexGuard<'_, HashMap<(String, String), Making>> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells a failure as those of files are told.
fn io(op: &'static str, file: &str) -> impl Fn(StoreError) -> IoError {
    move |e| {
        let kind = match e.kind() {
            StoreErrorKind::NotFound => IoErrorKind::NotFound,
            StoreErrorKind::Exists => IoErrorKind::AlreadyExists,
            StoreErrorKind::Corrupt => IoErrorKind::Corrupt,
            StoreErrorKind::OverBudget => IoErrorKind::OverBudget,
            StoreErrorKind::Unsupported => IoErrorKind::Unsupported,
            _ => IoErrorKind::Other,
        };
        IoError::new(op, file, kind, e.to_string())
    }
}

fn not_here<T>(op: &'static str, file: &str) -> IoResult<T> {
    let why = "a directory of snapshots in a store has no such files";
    Err(IoError::new(op, file, IoErrorKind::Unsupported, why))
}

impl Storage for SnapshotStore {
    fn subdir(&self, name: &str) -> IoResult<Arc<dyn Storage>> {
        match self.directory.is_empty() {
            true => Ok(Arc::new(SnapshotStore {
                shared: self.shared.clone(),
                directory: name.to_owned(),
            })),
            false => not_here("subdir", name),
        }
    }

    fn remove_subdir(&self, name: &str) -> IoResult<()> {
        not_here("remove", name)
    }

    fn list(&self) -> IoResult<Vec<String>> {
        let mut names = Vec::new();
        for (_, _, of) in self.all().map_err(io("list", &self.location()))? {
            if of.directory == self.directory {
                names.push(format!("{}{CHECKSUM}", of.name));
                names.push(of.name);
            }
        }
        if self.directory.is_empty() {
            let local = self.shared.local.list()?;
            names.extend(local.into_iter().filter(|name| self.is_upload(name)));
        }
        names.sort();
        Ok(names)
    }

    fn list_subdirs(&self) -> IoResult<Vec<String>> {
        let all = self.all().map_err(io("list", &self.location()))?;
        let mut names: Vec<String> = all.into_iter().map(|(_, _, of)| of.directory).collect();
        names.retain(|name| !name.is_empty());
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn create(&self, name: &str) -> IoResult<Box<dyn WriteFile>> {
        if self.is_upload(name) {
            let file = self.shared.local.create(name)?;
            return Ok(Box::new(Upload {
                file,
                local: self.shared.local.clone(),
                unchecked: 0,
            }));
        }
        let making = match name.ends_with(TMP) {
            true => {
                let shared = &self.shared;
                let begun = Push::owned(&shared.store, shared.memory.clone());
                let begun = begun.and_then(|mut push| push.begin_file(SNAPSHOT_FILE).map(|()| push));
                let push = begun.map_err(io("create", name))?;
                Making::Snapshot(Box::new(Sending {
                    push,
                    frames: Frames::new(),
                }))
            }
            false => Making::Small(Vec::new()),
        };
        Ok(Box::new(Writing {
            shared: self.shared.clone(),
            key: self.key(name),
            making: Some(making),
            bytes: 0,
        }))
    }

    fn create_log(&self, name: &str, _: u64) -> IoResult<Box<dyn LogFile>> {
        not_here("create", name)
    }

    fn open_log(&self, name: &str) -> IoResult<Box<dyn LogFile>> {
        not_here("open", name)
    }

    fn open(&self, name: &str) -> IoResult<Arc<dyn ReadFile>> {
        if self.is_upload(name) {
            return self.shared.local.open(name);
        }
        let failed = io("open", name);
        if let Some(of) = name.strip_suffix(CHECKSUM) {
            let (_, _, of) = self.find(of).map_err(failed)?;
            return Ok(Arc::new(Small {
                name: name.to_owned(),
                bytes: of.sha256.into_bytes(),
            }));
        }
        let (_, info, _) = self.find(name).map_err(&failed)?;
        let stored = Stored::new(&self.shared, name, &info).map_err(failed)?;
        Ok(Arc::new(stored))
    }

    fn rename(&self, from: &str, to: &str) -> IoResult<()> {
        self.publish(from, to).map_err(io("rename", from))
    }

    fn remove(&self, name: &str) -> IoResult<()> {
        if self.is_upload(name) {
            return self.shared.local.remove(name);
        }
        if self.shared.making().remove(&self.key(name)).is_some() || !name.ends_with(SUFFIX) {
            return Ok(());
        }
        let Shared { store, memory, .. } = &*self.shared;
        let forgotten = self
            .find(name)
            .and_then(|(manifest, ..)| forget(store, manifest.number, memory, manifest.created));
        forgotten.map(|_| ()).map_err(io("remove", name))
    }

    fn sync_dir(&self) -> IoResult<()> {
        Ok(())
    }

    /// Of the files that clients send.
    fn lock(&self) -> IoResult<Box<dyn Send + Sync>> {
        self.shared.local.lock()
    }

    /// The store doesn't tell; what clients send is looked at by itself.
    fn free_bytes(&self) -> IoResult<u64> {
        Ok(u64::MAX)
    }

    fn open_files(&self) -> Option<OpenFiles> {
        self.shared.local.open_files()
    }

    fn reader(&self, _: usize) -> IoResult<Box<dyn BatchReader>> {
        not_here("reader", &self.location())
    }

    fn backend(&self) -> &'static str {
        "store"
    }

    fn location(&self) -> String {
        match &self.directory[..] {
            "" => self.shared.location.clone(),
            directory => format!("{}/{directory}", self.shared.location),
        }
    }
}

/// A file that is being written. Dropped, it waits for its name, or for its removal.
struct Writing {
    shared: Arc<Shared>,
    key: (String, String),
    making: Option<Making>,
    bytes: u64,
}

impl WriteFile for Writing {
    fn append(&mut self, bytes: &[u8]) -> IoResult<()> {
        match self.making.as_mut().expect("it is there until the end") {
            Making::Snapshot(sending) => {
                let written = sending.frames.write(&mut sending.push, bytes);
                written.map_err(io("write", &self.key.1))?;
            }
            Making::Small(all) => all.extend_from_slice(bytes),
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.bytes
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(())
    }

    /// All is in the store once the file has its name.
    fn sync(&mut self) -> IoResult<()> {
        Ok(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(making) = self.making.take() {
            self.shared.making().insert(self.key.clone(), making);
        }
    }
}

/// What a client sends, as long as the disk has room.
struct Upload {
    file: Box<dyn WriteFile>,
    local: Arc<dyn Storage>,
    unchecked: u64,
}

impl WriteFile for Upload {
    fn append(&mut self, bytes: &[u8]) -> IoResult<()> {
        self.unchecked += bytes.len() as u64;
        if self.unchecked >= LOCAL_FREE_MIN / 2 {
            self.unchecked = 0;
            if self.local.free_bytes()? < LOCAL_FREE_MIN {
                let why = "too little of the disk is free";
                return Err(IoError::new("write", UPLOAD, IoErrorKind::NoSpace, why));
            }
        }
        self.file.append(bytes)
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn flush(&mut self) -> IoResult<()> {
        self.file.flush()
    }

    fn sync(&mut self) -> IoResult<()> {
        self.file.sync()
    }
}

struct Small {
    name: String,
    bytes: Vec<u8>,
}

impl ReadFile for Small {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> IoResult<()> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = from
            .checked_add(out.len())
            .and_then(|to| self.bytes.get(from..to));
        out.copy_from_slice(part.ok_or_else(|| past_the_end(&self.name))?);
        Ok(())
    }
}

fn past_the_end(name: &str) -> IoError {
    IoError::new("read", name, IoErrorKind::ShortRead, "it reaches past the end")
}

/// A snapshot in the store. Holds the list of its chunks, and of the chunk that was read last the bytes.
struct Stored {
    shared: Arc<Shared>,
    name: String,
    bytes: u64,
    /// Where each begins.
    chunks: Vec<(u64, Chunk)>,
    last: Mutex<Option<(usize, Bytes, Reservation)>>,
    _held: Reservation,
}

impl Stored {
    fn new(shared: &Arc<Shared>, name: &str, info: &BackupInfo) -> Result<Stored> {
        let (files, held) = read_index(&shared.store, info, &shared.memory)?;
        let [file] = &files[..] else {
            let message = format!("{name} is of {} files in {}", files.len(), shared.store);
            return Err(StoreError::corrupt(message));
        };
        let mut at = 0;
        let mut chunks = Vec::with_capacity(file.chunks.len());
        for chunk in &file.chunks {
            chunks.push((at, *chunk));
            at += u64::from(chunk.bytes);
        }
        Ok(Stored {
            shared: shared.clone(),
            name: name.to_owned(),
            bytes: file.bytes,
            chunks,
            last: Mutex::default(),
            _held: held,
        })
    }

    /// The bytes of a chunk, verified.
    fn chunk(&self, number: usize) -> Result<Bytes> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((at, bytes, _)) if *at == number => return Ok(bytes.clone()),
            _ => {}
        }
        // The one before goes first: there is memory for one, and for the buffer that an answer is read into.
        *last = None;
        let mut held = self.shared.memory.reserve(2 * CHUNK_BYTES_MAX as u64)?;
        let bytes = read_chunk(&self.shared.store, &self.chunks[number].1)?;
        held.shrink_to(CHUNK_BYTES_MAX as u64);
        *last = Some((number, bytes.clone(), held));
        Ok(bytes)
    }
}

impl ReadFile for Stored {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, mut out: &mut [u8], mut offset: u64) -> IoResult<()> {
        if offset
            .checked_add(out.len() as u64)
            .is_none_or(|end| end > self.bytes)
        {
            return Err(past_the_end(&self.name));
        }
        while !out.is_empty() {
            let number = self.chunks.partition_point(|(at, _)| *at <= offset) - 1;
            let bytes = self.chunk(number).map_err(io("read", &self.name))?;
            let from = (offset - self.chunks[number].0) as usize;
            let length = (bytes.len() - from).min(out.len());
            let (part, rest) = out.split_at_mut(length);
            part.copy_from_slice(&bytes[from..from + length]);
            (out, offset) = (rest, offset + length as u64);
        }
        Ok(())
    }
}
