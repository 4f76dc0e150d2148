//! A shard's log in a store: what the protocol asks, asked again while the store fails, and given up when it fails for long.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use object_store::{GetOptions, GetRange, ObjectStore, PutMode, PutPayload};
use ramlet_memory::{Consumer, Reservation};

use super::entry::{Body, Entry};
use super::manifests::covered_from;
use super::protocol::{
    Apply, Created, Logged, Over, Position, Replayed, Slots, Taken, Written, replay, settle, take_over,
};
use super::trim::{Trim, Trimmed, trim};
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::layout::{LOG, MANIFESTS, manifest_number, slot_number, slot_path};
use crate::limits::{ENTRY_BYTES_MAX, LOG_PARALLEL, SMALL_ENTRY_BYTES, TRIM_SLOTS_MAX};
use crate::manifest::Covered;
use crate::nonce::nonce;
use crate::store::{Listed, Store, delete, get, list};

/// Slots for each list of the manifests.
const RUN_MAX: usize = 64;
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

#[expect(clippy::reversed_empty_ranges, reason = "no slot")]
const NONE: RangeInclusive<u64> = 1..=0;

/// What a slot has, if it is small.
enum Read {
    Entry(Entry),
    Absent,
    Large,
}

/// Why nothing is asked any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogError {
    /// The node is shutting down.
    Stopped,
    /// The store failed for long, or refuses, or holds what isn't a log; or an entry couldn't be applied.
    Failed(String),
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Stopped => f.write_str("the server is shutting down"),
            LogError::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for LogError {}

impl From<StoreError> for LogError {
    fn from(error: StoreError) -> LogError {
        LogError::Failed(error.to_string())
    }
}

/// What became of an entry that a writer appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// In this slot; the position stands there.
    At(u64),
    /// Another writer took over, or may have. Whether the entry is in the log isn't known.
    Fenced,
}

/// The log of one shard. Every method waits on the calling thread.
pub struct SlotLog {
    store: Store,
    /// How long a failing store is asked again, in milliseconds.
    retry_ms: AtomicU64,
    /// Since when the store fails, and how.
    store_failure: Mutex<Option<(Instant, String)>>,
    stopped: Arc<AtomicBool>,
    writer: [u8; 16],
    numbers: AtomicU64,
    /// The newest number of a manifest that was seen, and what the manifests up to it cover.
    known: Mutex<(u64, Covered)>,
    /// Slots that this process filled one after the other with entries that count.
    own: Mutex<RangeInclusive<u64>>,
    _held: Reservation,
}

impl SlotLog {
    /// Holds memory for its life: for one entry of the largest size and its copy, or for many small ones.
    pub fn new(store: Store, memory: &Consumer, retry_for: Duration) -> Result<SlotLog> {
        Ok(SlotLog {
            _held: memory.reserve(2 * ENTRY_BYTES_MAX)?,
            store,
            retry_ms: AtomicU64::new(retry_for.as_millis() as u64),
            store_failure: Mutex::default(),
            stopped: Arc::default(),
            writer: u128::from_str_radix(&nonce(), 16)
                .unwrap_or_default()
                .to_le_bytes(),
            numbers: AtomicU64::new(0),
            known: Mutex::default(),
            own: Mutex::new(NONE),
        })
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// From now on a failing store is asked again for so long; `None`: until it answers or [`SlotLog::stop`].
    pub fn set_retry_for(&self, retry_for: Option<Duration>) {
        let ms = retry_for.map_or(u64::MAX, |retry_for| retry_for.as_millis() as u64);
        self.retry_ms.store(ms, Ordering::Release);
    }

    /// Since when the store fails, and how; `None`: it answered the last time.
    pub fn store_failure(&self) -> Option<(Instant, String)> {
        self.store_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn note_failure(&self, error: Option<&StoreError>) {
        let mut store_failure = self.store_failure.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            None => *store_failure = None,
            Some(error) => {
                let since = store_failure
                    .as_ref()
                    .map_or_else(Instant::now, |(since, _)| *since);
                *store_failure = Some((since, error.to_string()));
            }
        }
    }

    /// What the manifests cover that were seen by now.
    pub fn known_covered(&self) -> Covered {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// The manifest of this number was just created.
    pub fn note_covered(&self, number: u64, covered: Covered) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = (*known).max((number, covered));
    }

    /// Nothing is asked from now on; whoever waits is answered.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Applies the log up to its end.
    pub fn replay(
        &self,
        position: &mut Position,
        apply: Apply<'_, Entry, LogError>,
    ) -> std::result::Result<Replayed, LogError> {
        let replaying = replay(self, position, apply);
        self.store.wait_beside(replaying)
    }

    /// What is in a slot at the moment. It counts only once it was replayed.
    pub fn peek(&self, slot: u64) -> std::result::Result<Option<Entry>, LogError> {
        self.store.runtime().block_on(self.get(slot))
    }

    /// Applies the log up to its end, then begins a new epoch there. `about`: JSON of whose it is.
    pub fn take_over(
        &self,
        position: &mut Position,
        (over, about): (Over, &Bytes),
        apply: Apply<'_, Entry, LogError>,
    ) -> std::result::Result<Taken, LogError> {
        let seal = &mut |epoch| self.entry(epoch, Body::Seal(about.clone()));
        let taking = take_over(self, position, over, seal, apply);
        self.store.wait_beside(taking)
    }

    /// Appends an entry of the epoch of `position`, which goes on to the entry's slot. One at a time.
    pub fn append(&self, position: &mut Position, body: Body) -> std::result::Result<Appended, LogError> {
        let entry = self.entry(position.epoch, body);
        loop {
            let slot = position.slot + 1;
            let written = self.store.runtime().block_on(async {
                let created = self.create(slot, &entry).await?;
                settle(self, slot, &entry, created).await
            });
            match written? {
                Written::Logged => {
                    position.advance(entry.kind());
                    self.note_own(slot);
                    return Ok(Appended::At(slot));
                }
                Written::Void(other) => {
                    position.advance(other.kind());
                }
                Written::Fenced => return Ok(Appended::Fenced),
            }
        }
    }

    fn note_own(&self, slot: u64) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let first = if *own.end() + 1 == slot {
            *own.start()
        } else {
            slot
        };
        *own = first..=slot;
    }

    /// Deletes the entries that a published manifest says may be deleted, but for those that stay for ever.
    pub fn trim(&self, memory: &Consumer) -> std::result::Result<Trimmed, LogError> {
        let numbers = TRIM_SLOTS_MAX * 2 * size_of::<u64>();
        let _held = memory
            .reserve(numbers as u64 + ENTRY_BYTES_MAX)
            .map_err(StoreError::from)?;
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.store.runtime().block_on(async {
            let last = self.covered().await?;
            trim(self, last, &own).await
        })
    }

    fn entry(&self, epoch: u64, body: Body) -> Entry {
        Entry {
            epoch,
            writer: self.writer,
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
            body,
        }
    }

    /// Asks until there is an answer, or for `retry_for`.
    async fn surely<T, F>(&self, ask: impl Fn() -> F) -> std::result::Result<T, LogError>
    where
        F: Future<Output = Result<T>>,
    {
        let (begun, mut pause) = (Instant::now(), PAUSE_FIRST);
        loop {
            if self.is_stopped() {
                return Err(LogError::Stopped);
            }
            let error = match ask().await {
                Ok(answer) => {
                    self.note_failure(None);
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let retry_for = Duration::from_millis(self.retry_ms.load(Ordering::Acquire));
            if !error.is_unknown() || begun.elapsed() > retry_for {
                return Err(error.into());
            }
            self.note_failure(Some(&error));
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn read(&self, slot: u64) -> Result<Option<Entry>> {
        let (path, url) = (slot_path(slot), self.store.to_string());
        match get(self.store.inner(), &url, &path, ENTRY_BYTES_MAX).await {
            Ok(bytes) => {
                let at = |e: StoreError| StoreError::new(e.kind(), format!("{url}/{path}: {e}"));
                Entry::decode(&bytes).map(Some).map_err(at)
            }
            Err(e) if e.kind() == StoreErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    async fn read_small(&self, slot: u64) -> Result<Read> {
        let (path, url) = (slot_path(slot), &self.store);
        let options = GetOptions {
            range: Some(GetRange::Bounded(0..SMALL_ENTRY_BYTES)),
            ..GetOptions::default()
        };
        let failed = |e: object_store::Error| StoreError::of_store(&format!("{url}/{path}"), &e);
        let found = match self.store.inner().get_opts(&path, options).await.map_err(failed) {
            Ok(found) => found,
            Err(e) if e.kind() == StoreErrorKind::NotFound => return Ok(Read::Absent),
            Err(e) => return Err(e),
        };
        if found.meta.size > SMALL_ENTRY_BYTES {
            return Ok(Read::Large);
        }
        let bytes = found.bytes().await.map_err(failed)?;
        let at = |e: StoreError| StoreError::new(e.kind(), format!("{url}/{path}: {e}"));
        Entry::decode(&bytes).map(Read::Entry).map_err(at)
    }

    async fn newest(&self) -> Result<Covered> {
        let mut head = 0;
        list(
            self.store.inner(),
            &self.store.to_string(),
            MANIFESTS,
            &mut |listed| {
                head = head.max(manifest_number(&listed.path).unwrap_or(0));
                Ok(())
            },
        )
        .await?;
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 == head {
            return Ok(known.1);
        }
        let covered = covered_from(&self.store, head, known).await?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = (head, covered);
        Ok(covered)
    }
}

impl Slots for SlotLog {
    type Entry = Entry;
    type LogError = LogError;

    async fn create(&self, slot: u64, entry: &Entry) -> std::result::Result<Created, LogError> {
        if self.is_stopped() {
            return Err(LogError::Stopped);
        }
        let (inner, path) = (self.store.inner(), slot_path(slot));
        let payload = PutPayload::from_bytes(entry.encode());
        let put = inner.put_opts(&path, payload, PutMode::Create.into()).await;
        let Err(e) = put else {
            self.note_failure(None);
            return Ok(Created::Done);
        };
        let error = StoreError::of_store(&format!("{}/{path}", self.store), &e);
        match error.kind() {
            StoreErrorKind::Exists => Ok(Created::Exists),
            StoreErrorKind::Denied | StoreErrorKind::Unsupported => Err(error.into()),
            _ => Ok(Created::Unknown),
        }
    }

    async fn get(&self, slot: u64) -> std::result::Result<Option<Entry>, LogError> {
        self.surely(|| self.read(slot)).await
    }

    async fn get_run(&self, first: u64) -> std::result::Result<(Vec<Entry>, bool), LogError> {
        let (mut run, mut bytes) = (Vec::new(), 0);
        while run.len() < RUN_MAX && bytes < ENTRY_BYTES_MAX / 2 {
            let next = first + run.len() as u64;
            let reads = (0..LOG_PARALLEL).map(|at| self.surely(move || self.read_small(next + at)));
            for read in join_all(reads).await {
                let entry = match read? {
                    Read::Entry(entry) => entry,
                    Read::Absent => return Ok((run, true)),
                    // Its turn comes when it is the first.
                    Read::Large if !run.is_empty() => return Ok((run, false)),
                    Read::Large => {
                        let large = self.get(next).await?;
                        return Ok(large.map_or((Vec::new(), true), |entry| (vec![entry], false)));
                    }
                };
                bytes += entry.bytes();
                run.push(entry);
            }
        }
        Ok((run, false))
    }

    async fn covered(&self) -> std::result::Result<u64, LogError> {
        Ok(self.surely(|| self.newest()).await?.deleted)
    }
}

impl Trim for SlotLog {
    async fn present(&self, after: u64, last: u64) -> std::result::Result<Vec<u64>, LogError> {
        let is_asked = |slot: &u64| (after + 1..=last).contains(slot);
        self.surely(|| async {
            let mut slots = Vec::new();
            let cut = |slots: &mut Vec<u64>| {
                slots.sort_unstable();
                slots.truncate(TRIM_SLOTS_MAX);
            };
            let each = &mut |listed: Listed| {
                slots.extend(slot_number(&listed.path).filter(is_asked));
                if slots.len() >= 2 * TRIM_SLOTS_MAX {
                    cut(&mut slots);
                }
                Ok(())
            };
            list(self.store.inner(), &self.store.to_string(), LOG, each).await?;
            cut(&mut slots);
            Ok(slots)
        })
        .await
    }

    async fn delete(&self, slots: Vec<u64>) -> std::result::Result<(), LogError> {
        let url = self.store.to_string();
        for some in slots.chunks(RUN_MAX) {
            self.surely(|| {
                let paths = some.iter().map(|slot| slot_path(*slot)).collect();
                delete(self.store.inner(), &url, paths)
            })
            .await?;
        }
        Ok(())
    }
}
