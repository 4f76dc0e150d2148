//! A data directory whose segments are still in a store: what is asked for is fetched, the rest meanwhile.
//!
//! Only files that never change wait: those of segments. All others are fetched first, and once. So what a server writes into the directory is never taken for
//! what a backup has there. A chunk counts as present when this process verified it: after a restart, what lies in a file is verified again where it is needed.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use ramlet_io::system::OpenFiles;
use ramlet_io::{BatchRead, BatchReader, IoError, IoErrorKind, LogFile, ReadFile, Storage, WriteFile};
use ramlet_memory::{Consumer, Reservation};

use crate::error::{Result, StoreError, StoreErrorKind};
use crate::index::{Chunk, FileIndex};
use crate::known::verified;
use crate::layout::object_path;
use crate::limits::{CHUNK_BYTES_MAX, PARALLEL_RESTORE_MAX, WAITING_FILE_BYTES_MIN};
use crate::store::{self, Store};
use crate::target::{Target, TargetFile};

type IoResult<T> = ramlet_io::Result<T>;

/// Whether a file of a data directory may be fetched later: one of a segment, unless it is small.
pub(crate) fn may_wait(file: &FileIndex) -> bool {
    let Some((_, name)) = file.name.split_once('/') else {
        return false;
    };
    let of_segment = name.split_once('.').is_some_and(|(number, rest)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && !rest.starts_with("del")
    });
    of_segment && file.bytes >= WAITING_FILE_BYTES_MIN
}

/// The files that are fetched while a server answers.
pub struct Restoring {
    store: Store,
    /// By `directory/file`.
    files: RwLock<HashMap<String, Arc<Partial>>>,
    buffers: Buffers,
    bytes: u64,
    present: AtomicU64,
    fetched: AtomicU64,
    is_whole: AtomicBool,
    is_stopped: AtomicBool,
    _held: Reservation,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Of the files that wait.
    pub bytes: u64,
    pub present: u64,
    /// By this process.
    pub fetched: u64,
}

/// Chunks that are in RAM at once: whoever wants one more waits for one that is on its way, which waits for nobody.
struct Buffers {
    free: Mutex<usize>,
    given_back: Condvar,
}

struct Buffer<'a>(&'a Buffers);

impl Buffers {
    fn take(&self) -> Buffer<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self.given_back.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Buffer(self)
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}

/// A file that isn't whole yet. It has its full length.
struct Partial {
    name: String,
    bytes: u64,
    chunks: Vec<(u64, Chunk)>,
    state: Mutex<State>,
    arrived: Condvar,
    is_whole: AtomicBool,
    is_removed: AtomicBool,
}

struct State {
    file: Box<dyn TargetFile>,
    /// It lay there before this process began, and what lies in it may be right.
    was_there: bool,
    chunks: Vec<Presence>,
    left: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Unknown,
    /// Somebody fetches it.
    Coming,
    Here,
}

impl Partial {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing of it is to be fetched.
    fn is_done(&self) -> bool {
        self.is_whole.load(Ordering::Acquire) || self.is_removed.load(Ordering::Acquire)
    }

    /// Returns when these bytes are in the file.
    fn ensure(&self, restoring: &Restoring, range: Range<u64>) -> Result<()> {
        if self.is_whole.load(Ordering::Acquire) {
            return Ok(());
        }
        let end = range.end.min(self.bytes);
        let mut at = self.chunks.partition_point(|(from, _)| *from <= range.start);
        at = at.saturating_sub(1);
        while at < self.chunks.len() && self.chunks[at].0 < end {
            self.chunk(restoring, at)?;
            at += 1;
        }
        Ok(())
    }

    fn chunk(&self, restoring: &Restoring, at: usize) -> Result<()> {
        {
            let mut state = self.state();
            loop {
                match state.chunks[at] {
                    Presence::Here => return Ok(()),
                    Presence::Coming => {
                        state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                    Presence::Unknown => break,
                }
            }
            state.chunks[at] = Presence::Coming;
        }
        let done = self.bring(restoring, at);
        let mut state = self.state();
        state.chunks[at] = match &done {
            Ok(()) => Presence::Here,
            Err(_) => Presence::Unknown,
        };
        let done = done.and_then(|()| self.arrive(restoring, &mut state, at));
        self.arrived.notify_all();
        done
    }

    /// Counts a chunk; the last one brings the file to the disk.
    fn arrive(&self, restoring: &Restoring, state: &mut State, at: usize) -> Result<()> {
        let bytes = u64::from(self.chunks[at].1.bytes);
        restoring.present.fetch_add(bytes, Ordering::Relaxed);
        state.left -= 1;
        if state.left > 0 {
            return Ok(());
        }
        let synced = state.file.sync();
        self.is_whole.store(synced.is_ok(), Ordering::Release);
        synced.map_err(|e| {
            // The kernel may have dropped any of it, and says so once: all is fetched and written again.
            state.was_there = false;
            state.left = state.chunks.len();
            state.chunks.fill(Presence::Unknown);
            restoring.present.fetch_sub(self.bytes, Ordering::Relaxed);
            self.failed(&e)
        })
    }

    fn bring(&self, restoring: &Restoring, number: usize) -> Result<()> {
        let _buffer = restoring.buffers.take();
        let (at, chunk) = &self.chunks[number];
        if self.state().was_there {
            let mut bytes = vec![0; chunk.bytes as usize];
            let read = self.state().file.read_at(&mut bytes, *at);
            read.map_err(|e| self.failed(&e))?;
            if verified(chunk, &bytes).is_ok() {
                return Ok(());
            }
        }
        let bytes = restoring.fetch(chunk)?;
        let written = self.state().file.write_at(&bytes, *at);
        written.map_err(|e| self.failed(&e))?;
        restoring.fetched.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn failed(&self, error: &std::io::Error) -> StoreError {
        StoreError::new(StoreErrorKind::Failed, format!("{}: {error}", self.name))
    }
}

impl Restoring {
    /// Makes the files, with their length and nothing in them. `memory`: of the ledger that the server has.
    pub(crate) fn begin(
        store: &Store,
        files: Vec<FileIndex>,
        held: Reservation,
        target: &dyn Target,
        memory: &Consumer,
    ) -> Result<Arc<Restoring>> {
        // An answer is read into a buffer that grows by doubling; what lies there is read into another.
        let each = 2 * CHUNK_BYTES_MAX as u64;
        let most = (memory.available() / 4 / each).clamp(1, PARALLEL_RESTORE_MAX as u64);
        let mut held = held;
        held.grow(most * each)?;
        let bytes = files.iter().map(|file| file.bytes).sum();
        let mut partial = HashMap::new();
        for index in files {
            let opened = target.open(&index.name, index.bytes);
            let (file, was_there) = opened
                .map_err(|e| StoreError::new(StoreErrorKind::Failed, format!("{}: {e}", index.name)))?;
            let mut at = 0;
            let mut chunks = Vec::with_capacity(index.chunks.len());
            for chunk in &index.chunks {
                chunks.push((at, *chunk));
                at += u64::from(chunk.bytes);
            }
            let state = State {
                file,
                was_there,
                left: chunks.len(),
                chunks: vec![Presence::Unknown; chunks.len()],
            };
            let one = Partial {
                name: index.name.clone(),
                bytes: index.bytes,
                chunks,
                state: Mutex::new(state),
                arrived: Condvar::new(),
                is_whole: AtomicBool::new(false),
                is_removed: AtomicBool::new(false),
            };
            partial.insert(index.name, Arc::new(one));
        }
        Ok(Arc::new(Restoring {
            store: store.clone(),
            files: RwLock::new(partial),
            buffers: Buffers {
                free: Mutex::new(most as usize),
                given_back: Condvar::new(),
            },
            bytes,
            present: AtomicU64::new(0),
            fetched: AtomicU64::new(0),
            is_whole: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            _held: held,
        }))
    }

    /// The directory, as an engine is to see it.
    pub fn over(self: &Arc<Self>, local: Arc<dyn Storage>) -> Arc<dyn Storage> {
        Arc::new(RestoringStorage {
            restoring: self.clone(),
            local,
            directory: None,
        })
    }

    pub fn progress(&self) -> Restored {
        Restored {
            bytes: self.bytes,
            present: self.present.load(Ordering::Relaxed),
            fetched: self.fetched.load(Ordering::Relaxed),
        }
    }

    /// Fetches what nobody asked for yet. False: it was stopped. After a failure it may be called again.
    pub fn fetch_all(&self) -> Result<bool> {
        let mut files: Vec<Arc<Partial>> = self.files().values().cloned().collect();
        files.sort_by(|a, b| (a.bytes, &a.name).cmp(&(b.bytes, &b.name)));
        for file in files {
            // A sync that failed for somebody else's read puts back chunks that were passed already.
            while !file.is_done() {
                for at in 0..file.chunks.len() {
                    if self.is_stopped.load(Ordering::Acquire) {
                        return Ok(false);
                    }
                    if file.is_done() {
                        break;
                    }
                    file.chunk(self, at)?;
                }
            }
        }
        self.is_whole.store(true, Ordering::Release);
        Ok(true)
    }

    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    fn files(&self) -> std::sync::RwLockReadGuard<'_, HashMap<String, Arc<Partial>>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Searches run on threads of other runtimes, too.
    fn fetch(&self, chunk: &Chunk) -> Result<Bytes> {
        let (inner, url) = (self.store.inner(), self.store.to_string());
        let path = object_path(chunk.epoch, &chunk.sha);
        let getting = store::get(inner, &url, &path, CHUNK_BYTES_MAX as u64);
        let bytes = self.store.wait_beside(getting)?;
        verified(chunk, &bytes).map_err(|why| StoreError::corrupt(format!("{url}/{path}: {why}")))?;
        Ok(bytes)
    }

    fn forget(&self, is_meant: &dyn Fn(&str) -> bool) {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.retain(|name, file| {
            let goes = is_meant(name);
            if goes {
                file.is_removed.store(true, Ordering::Release);
            }
            !goes
        });
    }
}

fn io(file: &str) -> impl Fn(StoreError) -> IoError {
    move |e| {
        let kind = match e.kind() {
            StoreErrorKind::Corrupt => IoErrorKind::Corrupt,
            _ => IoErrorKind::Other,
        };
        IoError::new("read", file, kind, format!("it is being restored: {e}"))
    }
}

struct RestoringStorage {
    restoring: Arc<Restoring>,
    local: Arc<dyn Storage>,
    /// `None`: the data directory itself.
    directory: Option<String>,
}

impl RestoringStorage {
    fn key(&self, name: &str) -> String {
        match &self.directory {
            Some(directory) => format!("{directory}/{name}"),
            None => name.to_owned(),
        }
    }
}

impl Storage for RestoringStorage {
    fn subdir(&self, name: &str) -> IoResult<Arc<dyn Storage>> {
        Ok(Arc::new(RestoringStorage {
            restoring: self.restoring.clone(),
            local: self.local.subdir(name)?,
            directory: Some(self.key(name)),
        }))
    }

    fn remove_subdir(&self, name: &str) -> IoResult<()> {
        let within = format!("{}/", self.key(name));
        self.restoring.forget(&|file| file.starts_with(&within));
        self.local.remove_subdir(name)
    }

    fn list(&self) -> IoResult<Vec<String>> {
        self.local.list()
    }

    fn list_subdirs(&self) -> IoResult<Vec<String>> {
        self.local.list_subdirs()
    }

    fn create(&self, name: &str) -> IoResult<Box<dyn WriteFile>> {
        self.local.create(name)
    }

    fn create_log(&self, name: &str, bytes: u64) -> IoResult<Box<dyn LogFile>> {
        self.local.create_log(name, bytes)
    }

    fn open_log(&self, name: &str) -> IoResult<Box<dyn LogFile>> {
        self.local.open_log(name)
    }

    fn open(&self, name: &str) -> IoResult<Arc<dyn ReadFile>> {
        let file = self.local.open(name)?;
        let partial = self.restoring.files().get(&self.key(name)).cloned();
        Ok(match partial {
            Some(partial) if !partial.is_whole.load(Ordering::Acquire) => Arc::new(Waiting {
                file,
                partial,
                restoring: self.restoring.clone(),
            }),
            _ => file,
        })
    }

    fn rename(&self, from: &str, to: &str) -> IoResult<()> {
        self.local.rename(from, to)
    }

    fn remove(&self, name: &str) -> IoResult<()> {
        let key = self.key(name);
        self.restoring.forget(&|file| file == key);
        self.local.remove(name)
    }

    fn sync_dir(&self) -> IoResult<()> {
        self.local.sync_dir()
    }

    fn lock(&self) -> IoResult<Box<dyn Send + Sync>> {
        self.local.lock()
    }

    fn free_bytes(&self) -> IoResult<u64> {
        self.local.free_bytes()
    }

    fn capacity_bytes(&self) -> IoResult<Option<u64>> {
        self.local.capacity_bytes()
    }

    fn open_files(&self) -> Option<OpenFiles> {
        self.local.open_files()
    }

    fn reader(&self, depth: usize) -> IoResult<Box<dyn BatchReader>> {
        Ok(Box::new(Reader {
            restoring: self.restoring.clone(),
            local: self.local.reader(depth)?,
        }))
    }

    fn backend(&self) -> &'static str {
        self.local.backend()
    }

    fn location(&self) -> String {
        self.local.location()
    }
}

/// A file that isn't whole, at least when it was opened.
struct Waiting {
    file: Arc<dyn ReadFile>,
    partial: Arc<Partial>,
    restoring: Arc<Restoring>,
}

impl Waiting {
    fn is_whole(&self) -> bool {
        self.partial.is_whole.load(Ordering::Acquire)
    }
}

impl ReadFile for Waiting {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> IoResult<()> {
        let range = offset..offset.saturating_add(out.len() as u64);
        let here = self.partial.ensure(&self.restoring, range);
        here.map_err(io(self.file.name()))?;
        self.file.read_at(out, offset)
    }

    fn as_bytes(&self) -> Option<&[u8]> {
        self.is_whole().then(|| self.file.as_bytes()).flatten()
    }

    fn raw_fd(&self) -> Option<i32> {
        self.is_whole().then(|| self.file.raw_fd()).flatten()
    }
}

/// One by one as long as anything may be missing.
struct Reader {
    restoring: Arc<Restoring>,
    local: Box<dyn BatchReader>,
}

impl BatchReader for Reader {
    fn read_batch(&mut self, reads: &mut [BatchRead<'_>]) -> IoResult<()> {
        if self.restoring.is_whole.load(Ordering::Acquire) {
            return self.local.read_batch(reads);
        }
        for read in reads {
            read.file.read_at(read.out, read.offset)?;
        }
        Ok(())
    }
}
