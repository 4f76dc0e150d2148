//! State shared by all collections of an engine: threads' queues, the job lock, salts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use std::time::Duration;

use ramlet_index::IndexScratch;
use ramlet_memory::{AnonBuf, Consumer, OverBudget, Reservation};

use super::core::Core;
use super::segment_ids::SegmentIds;
use crate::error::{Error, ErrorKind};
use crate::faults::locks;
use crate::faults::locks::whole;
use crate::jobs::watch::Watch;
use crate::limits::{FILL_SCRATCH, GROUP_BYTES, JOB_SCRATCH_MIN};
use crate::read::lookup::Lookup;
use crate::write::log::LogSetup;
use crate::write::shared_log::GroupLog;

/// What the one job that may run at a time works with.
pub struct JobArena {
    pub lookup: Lookup,
    /// For sorting and index builds; 0 while no job runs.
    pub scratch_bytes: usize,
    /// Somebody held a part of what it wanted.
    pub has_less_scratch: bool,
    pub threads: usize,
    /// What is set aside for jobs.
    pub scratch: Consumer,
    /// What a large job may take beside that while nobody has it: of the row of cached data, which is reclaimable anyway.
    pub spare: Consumer,
    /// Of flushes in the middle of a merge, whose progress is told.
    pub is_within_merge: bool,
}

impl JobArena {
    /// One whose jobs take their memory of `scratch`.
    pub fn within_merge(lookup: Lookup, scratch: &Consumer) -> JobArena {
        JobArena {
            lookup,
            scratch_bytes: 0,
            has_less_scratch: false,
            threads: 1,
            scratch: scratch.clone(),
            spare: scratch.clone(),
            is_within_merge: true,
        }
    }

    /// So many bytes for a job, part of them for its reader.
    pub fn take(&mut self, bytes: u64) -> Result<Reservation, OverBudget> {
        let mut held = self.scratch.reserve(bytes)?;
        let index = index_buffer(bytes);
        held.shrink_to(bytes - index);
        self.lookup.index = IndexScratch::new(AnonBuf::reserved(&self.scratch, index as usize)?);
        // The other half: files being written, blocks being read.
        self.scratch_bytes = (held.bytes() / 2) as usize;
        Ok(held)
    }

    /// The job has ended.
    pub fn put_back(&mut self) {
        self.scratch_bytes = 0;
        self.lookup.index = IndexScratch::new(AnonBuf::new(0));
    }
}

/// What flushes in the middle of a merge work with: the other arena is the merge's.
pub struct MergeFlush {
    /// Made for the first one.
    pub arena: Option<JobArena>,
    pub scratch: Consumer,
    pub lookups: Consumer,
    /// No merge runs, or nothing could be flushed in the one that does.
    pub is_off: bool,
}

/// A merge that writes its segment: memtables may be flushed meanwhile.
pub struct Merging<'a>(&'a Shared);

impl Drop for Merging<'_> {
    fn drop(&mut self) {
        whole(&self.0.merge_flush).is_off = true;
    }
}

/// A job under way: its memory is reserved, no other runs.
pub struct RunningJob<'a> {
    // Before the arena, so that the next job finds the memory free.
    _held: (Reservation, Option<Reservation>),
    arena: MutexGuard<'a, JobArena>,
    ended: &'a AtomicU64,
}

impl std::ops::Deref for RunningJob<'_> {
    type Target = JobArena;
    fn deref(&self) -> &JobArena {
        &self.arena
    }
}

impl std::ops::DerefMut for RunningJob<'_> {
    fn deref_mut(&mut self) -> &mut JobArena {
        &mut self.arena
    }
}

impl Drop for RunningJob<'_> {
    fn drop(&mut self) {
        self.arena.put_back();
        self.ended.fetch_add(1, Ordering::AcqRel);
    }
}

/// What the index reads with, of a job's memory.
const INDEX_BUFFER_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 20;

/// Why the maintenance thread goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    Now,
    Idle,
    Closed,
}

/// Why a collection's flushes fail, until one succeeds.
#[derive(Clone)]
pub struct FlushFailure {
    /// Its directory.
    pub of: String,
    pub error: Error,
    /// An update was refused for it already.
    pub is_refused: bool,
}

/// State between the engine's threads.
pub struct Shared {
    /// Collections with queued updates.
    ready: Mutex<VecDeque<Arc<Core>>>,
    ready_told: Condvar,
    /// Collections, for the maintenance thread to look through.
    pub collections: Mutex<Vec<Weak<Core>>>,
    /// Set when there may be something to flush or merge.
    due: Mutex<bool>,
    due_told: Condvar,
    /// Held by whoever runs a job: flush, merge, index build.
    job: Mutex<JobArena>,
    /// Held for a flush in the middle of a merge.
    pub merge_flush: Mutex<MergeFlush>,
    /// What does that.
    flush_within_merge: OnceLock<fn(&Shared)>,
    /// Jobs that have begun, and those of them that have ended.
    begun: AtomicU64,
    ended: AtomicU64,
    /// Updates wait for room in the memtables.
    pub room_wanted: AtomicBool,
    /// The same for what isn't a write of an open collection: one that is created or loaded.
    pub room_wanted_for_new: AtomicBool,
    /// Who waited for room was answered that there is nothing to flush.
    pub nothing_to_flush: AtomicBool,
    /// Collections whose last flush failed.
    flush_failures: Mutex<BTreeMap<String, FlushFailure>>,
    closed: AtomicBool,
    salt: AtomicU64,
    log_file_bytes: u64,
    /// Changes above this length are committed before more are added: the group and its record are the log buffers.
    pub group_bytes: usize,
    /// Scratch of the largest job for sorting and index builds, bytes.
    pub scratch_most: u64,
    /// Where groups go before the log file, on a node whose log others read.
    pub group_log: OnceLock<Arc<dyn GroupLog>>,
    /// Another node builds indexes and merges for this one.
    pub builds_elsewhere: AtomicBool,
    /// Merges and index builds that are committed, and changes of settings.
    pub built: AtomicU64,
    pub changed: AtomicU64,
    /// Where segments go from node to node: ids that no other node uses.
    pub segment_ids: SegmentIds,
    /// What it all takes in time.
    pub watch: Watch,
    _log_buffers: Reservation,
}

/// Of a job's bytes, what it reads vectors through. Whole pages, which are what is reserved: with a byte more the whole would be beyond what is set aside.
fn index_buffer(bytes: u64) -> u64 {
    let index = (bytes / 8).clamp(*INDEX_BUFFER_BYTES.start(), *INDEX_BUFFER_BYTES.end());
    index & !(ramlet_io::PAGE as u64 - 1)
}

/// What [`Shared::begin_job`] leaves for sorting and index builds at most, where so much is set aside for jobs, and so much may be taken beside.
pub fn scratch_most(set_aside: u64, beside: u64) -> u64 {
    (set_aside.saturating_sub(index_buffer(set_aside)) + beside / 2) / 2
}

impl Shared {
    pub fn new(arena: JobArena, seed: u64, log_file_bytes: u64, log_buffers: Reservation) -> Shared {
        let group_bytes = usize::try_from(log_buffers.bytes()).unwrap_or(usize::MAX);
        let scratch_most = scratch_most(arena.scratch.cap(), arena.spare.cap());
        let merge_flush = MergeFlush {
            arena: None,
            scratch: arena.spare.waiting(),
            lookups: arena.lookup.rare.clone(),
            is_off: true,
        };
        Shared {
            ready: Mutex::default(),
            ready_told: Condvar::new(),
            collections: Mutex::default(),
            due: Mutex::new(true),
            due_told: Condvar::new(),
            job: Mutex::new(arena),
            merge_flush: Mutex::new(merge_flush),
            flush_within_merge: OnceLock::new(),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            room_wanted: AtomicBool::new(false),
            room_wanted_for_new: AtomicBool::new(false),
            nothing_to_flush: AtomicBool::new(false),
            flush_failures: Mutex::default(),
            closed: AtomicBool::new(false),
            salt: AtomicU64::new(seed),
            log_file_bytes,
            group_bytes: group_bytes.clamp(*GROUP_BYTES.start(), *GROUP_BYTES.end()),
            scratch_most,
            group_log: OnceLock::new(),
            builds_elsewhere: AtomicBool::new(false),
            built: AtomicU64::new(0),
            changed: AtomicU64::new(0),
            segment_ids: SegmentIds::new(seed),
            watch: Watch::default(),
            _log_buffers: log_buffers,
        }
    }

    /// A number that no earlier log file of this data directory had: the seed is new at each start (splitmix64).
    pub fn salt(&self) -> u64 {
        let mut z = self.salt.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) | 1
    }

    pub fn log_setup(&self) -> LogSetup {
        LogSetup {
            file_bytes: self.log_file_bytes,
            salt: self.salt(),
        }
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // With the lock, so that the writer thread isn't between looking and waiting.
        let ready = whole(&self.ready);
        self.ready_told.notify_all();
        drop(ready);
        self.wake_maintenance();
    }

    pub fn schedule(&self, core: Arc<Core>) {
        whole(&self.ready).push_back(core);
        self.ready_told.notify_one();
    }

    /// The next collection with updates; `None` once closed and drained.
    pub fn next_ready(&self) -> Option<Arc<Core>> {
        let mut ready = whole(&self.ready);
        loop {
            if let Some(core) = ready.pop_front() {
                return Some(core);
            }
            if self.is_closed() {
                return None;
            }
            ready = locks::wait(&self.ready_told, ready);
        }
    }

    /// Whether something may be due already.
    pub fn is_due(&self) -> bool {
        *whole(&self.due)
    }

    /// Asks for the largest memtable to be flushed.
    pub fn want_room(&self) {
        self.room_wanted.store(true, Ordering::Release);
        self.wake_maintenance();
    }

    /// From now on, memtables are flushed so in the middle of a merge.
    pub fn flush_within_merge(&self, flush: fn(&Shared)) {
        let _ = self.flush_within_merge.set(flush);
    }

    /// A merge of this thread begins to write.
    pub fn merging(&self) -> Merging<'_> {
        whole(&self.merge_flush).is_off = false;
        Merging(self)
    }

    /// Flushes a memtable in the middle of a merge, if a write waits for room.
    pub fn flush_awaited(&self) {
        if self.room_wanted.load(Ordering::Acquire)
            && let Some(flush) = self.flush_within_merge.get()
        {
            flush(self);
        }
    }

    /// How a flush of a collection went. One that doesn't fail any more, or is tried no more, is none that others wait for.
    pub fn note_flush(&self, of: &str, result: &crate::error::Result<()>) {
        let mut failures = whole(&self.flush_failures);
        match result {
            Err(e)
                if ![ErrorKind::Closed, ErrorKind::NotFound, ErrorKind::WritesStopped]
                    .contains(&e.kind()) =>
            {
                let is_refused = failures.get(of).is_some_and(|before| before.is_refused);
                let failure = FlushFailure {
                    of: of.to_owned(),
                    error: e.clone(),
                    is_refused,
                };
                failures.insert(of.to_owned(), failure);
            }
            _ => drop(failures.remove(of)),
        }
    }

    /// Only these can still fail.
    pub fn keep_failures(&self, cores: &[Arc<Core>]) {
        let mut failures = whole(&self.flush_failures);
        failures.retain(|of, _| cores.iter().any(|core| core.id == *of));
    }

    /// A flush that fails at the moment: this collection's own, or else another one's.
    pub fn flush_failure(&self, own: &str) -> Option<FlushFailure> {
        let failures = whole(&self.flush_failures);
        let one = failures.get(own).or_else(|| failures.values().next());
        one.cloned()
    }

    /// Whether some flush fails for want of disk or descriptors.
    pub fn is_full(&self) -> bool {
        let failures = whole(&self.flush_failures);
        failures.values().any(|failure| failure.error.is_full())
    }

    /// An update was refused because a flush fails: the next ones wait less.
    pub fn note_refusal(&self, of: &str) {
        if let Some(failure) = whole(&self.flush_failures).get_mut(of) {
            failure.is_refused = true;
        }
    }

    /// A merge or an index build is committed.
    pub fn note_built(&self) {
        self.built.fetch_add(1, Ordering::AcqRel);
    }

    /// Settings are.
    pub fn note_changed(&self) {
        self.changed.fetch_add(1, Ordering::AcqRel);
    }

    pub fn wake_maintenance(&self) {
        *whole(&self.due) = true;
        self.due_told.notify_all();
    }

    /// Waits until something may be due, or nothing was for a while.
    pub fn wait_due(&self, idle: Duration) -> WakeReason {
        let due = whole(&self.due);
        let waiting = |due: &mut bool| !*due && !self.is_closed();
        let (mut due, timeout) = self
            .due_told
            .wait_timeout_while(due, idle, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        if self.is_closed() {
            return WakeReason::Closed;
        }
        *due = false;
        if timeout.timed_out() {
            WakeReason::Idle
        } else {
            WakeReason::Now
        }
    }

    /// Waits until no job runs; none begins while the guard is held.
    ///
    /// A job that panicked closed its own collection, if a start was under way. It leaves nothing here that others would trust: [`RunningJob`] gives its
    /// memory back while it unwinds, and what it had handed out is settled.
    pub fn job(&self) -> MutexGuard<'_, JobArena> {
        self.job.lock().unwrap_or_else(|poisoned| {
            self.job.clear_poison();
            let mut arena = poisoned.into_inner();
            arena.lookup.settle();
            arena
        })
    }

    /// Waits until no other job runs, then reserves what this one works with: `wanted` bytes, as far as so many are set
    /// aside for jobs, and some more if it wants more than that. Caches may hold them at the moment; then it waits a little for
    /// searches to let go of them.
    ///
    /// (1M x 100 in 32 MB: what is set aside does for 4,700 clusters, the spare makes 7,500 of it; with so many a search reads
    /// a third fewer rows for the same recall.)
    pub fn begin_job(&self, wanted: u64) -> Result<RunningJob<'_>, OverBudget> {
        let mut arena = self.job();
        let scratch = arena.scratch.waiting();
        let whole = wanted.clamp(JOB_SCRATCH_MIN.min(scratch.cap()), scratch.cap());
        let mut bytes = whole;
        let mut held = loop {
            match scratch.reserve(bytes) {
                Ok(held) => break held,
                // A long search keeps some of it: a smaller job rather than none.
                Err(_) if bytes / 2 >= JOB_SCRATCH_MIN => bytes /= 2,
                Err(over) => return Err(over),
            }
        };
        let is_less = bytes < whole;
        let index = index_buffer(bytes);
        held.shrink_to(bytes - index);
        arena.lookup.index = IndexScratch::new(AnonBuf::reserved(&scratch, index as usize)?);
        let more = wanted.saturating_sub(bytes).min(arena.spare.available() / 2);
        let spare = match bytes == scratch.cap() && more > 0 {
            true => arena.spare.waiting().reserve(more).ok(),
            false => None,
        };
        let bytes = bytes + spare.as_ref().map_or(0, Reservation::bytes);
        // The other half: files being written, blocks being read.
        arena.scratch_bytes = (bytes / 2) as usize;
        arena.has_less_scratch = is_less;
        Ok(self.running((held, spare), arena))
    }

    /// The same for a job that only reads files into RAM: what it works with is missing from the room that it fills.
    pub fn begin_filling(&self) -> Result<RunningJob<'_>, OverBudget> {
        let mut arena = self.job();
        let held = arena.scratch.waiting().reserve(FILL_SCRATCH)?;
        (arena.scratch_bytes, arena.has_less_scratch) = (0, false);
        Ok(self.running((held, None), arena))
    }

    fn running<'a>(
        &'a self,
        held: (Reservation, Option<Reservation>),
        arena: MutexGuard<'a, JobArena>,
    ) -> RunningJob<'a> {
        self.begun.fetch_add(1, Ordering::AcqRel);
        RunningJob {
            _held: held,
            arena,
            ended: &self.ended,
        }
    }

    /// How many jobs have begun by now.
    pub fn jobs_begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Waits for the jobs that have begun by now, and for none of those that begin meanwhile; how many they are.
    pub fn wait_jobs(&self) -> u64 {
        const POLL: Duration = Duration::from_millis(1);
        let begun = self.jobs_begun();
        while self.ended.load(Ordering::Acquire) < begun {
            std::thread::sleep(POLL);
        }
        begun
    }

    pub fn live_collections(&self) -> Vec<Arc<Core>> {
        self.one_by_one().collect()
    }

    /// The same, each held only while it is looked at: one that is held isn't unloaded.
    pub fn one_by_one(&self) -> impl Iterator<Item = Arc<Core>> + use<> {
        let mut list = whole(&self.collections);
        list.retain(|weak| weak.strong_count() > 0);
        let list = list.clone();
        list.into_iter().filter_map(|weak| weak.upgrade())
    }
}
