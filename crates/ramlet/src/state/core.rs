//! One collection's shared state: the update queue, the writer and the published view.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LockResult, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use ramlet_memory::{Consumer, Reservation};

use super::shared::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::faults::locks::whole;
use crate::faults::mutants;
use crate::faults::panics::{caught, failed};
use crate::jobs::backoff::Backoff;
use crate::jobs::progress::Progress;
use crate::limits::QUEUE_OPS_MAX;
use crate::read::view::View;
use crate::recall::monitor::RecallMonitor;
use crate::request::{Completion, UpdateChain, UpdateOp, UpdateResult};
use crate::residency::gate::Gate;
use crate::segment::FileContext;
use crate::settings::ExpiryAsOf;
use crate::write::writer::Writer;

/// What an update costs in the queue beside its bytes: its entry and its completion.
const PENDING_BYTES: u64 = 512;

/// An update on its way to the writer.
pub struct Pending {
    pub work: Work,
    pub done: Waiting,
    /// Bytes of `work`.
    pub held: Reservation,
}

/// Whoever waits for an update. They are told once, also where the thread that had it in hand panicked.
pub struct Waiting {
    done: Option<Completion>,
    chain: Option<UpdateChain>,
}

impl Waiting {
    pub fn answer(mut self, result: Result<UpdateResult>) {
        self.complete(result);
    }

    /// Whether an update failed that had to be done before.
    pub fn is_too_late(&self) -> bool {
        self.chain.as_ref().is_some_and(UpdateChain::is_broken)
    }

    /// Their panic is theirs: it is not to end the thread that all updates need.
    fn complete(&mut self, result: Result<UpdateResult>) {
        if let (Err(_), Some(chain)) = (&result, &self.chain) {
            chain.break_off();
        }
        if let Some(done) = self.done.take()
            && let Err(error) = caught(|| done(result))
        {
            tracing::error!(%error, "the callback of an update panicked");
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.done.is_none() {
            return;
        }
        let unknown = failed("it is unknown until a restart whether the update was applied");
        self.complete(Err(Error::new(ErrorKind::WritesStopped, unknown.to_string())));
    }
}

/// Who is told of an update, and the chain that it is a part of.
pub struct Whom<'a> {
    pub done: Completion,
    pub chain: Option<&'a UpdateChain>,
}

/// What the writer has to do.
pub enum Work {
    /// Needs no state: encoded changes, ready for the log.
    Changes(Vec<u8>),
    /// Is resolved against what is there.
    Resolve(UpdateOp),
}

/// Updates waiting for the writer.
#[derive(Default)]
pub struct Queue {
    pub waiting: VecDeque<Pending>,
    /// Whether the collection stands in the writer thread's list.
    pub scheduled: bool,
    /// The writer thread has ended: nobody would take more.
    pub closed: bool,
}

/// A collection, shared by its handles and the engine's threads.
pub struct Core {
    /// Directory name: generated, never the user's.
    pub id: String,
    /// The collection's name, once one leads here: for the log.
    pub called: OnceLock<String>,
    pub file_context: FileContext,
    pub shared: Arc<Shared>,
    /// RAM of updates in the queue.
    pub updates: Consumer,
    pub view: ArcSwap<View>,
    pub queue: Mutex<Queue>,
    pub writer: Mutex<Writer>,
    /// Told when a flush has ended, well or not.
    pub flushed: Condvar,
    /// Writing has stopped after a failure; read without the writer's lock.
    pub has_stopped: Arc<AtomicBool>,
    /// Writing has stopped, and what wasn't in segments had to make way for other collections' writes: readers would miss it.
    pub gave_way: OnceLock<Error>,
    /// A write waits for room in the memtables.
    pub waits_for_room: AtomicBool,
    /// Set by `delete_collection`: jobs stop at their next step, updates are refused.
    pub dropped: Arc<AtomicBool>,
    /// Dropped because a snapshot took its place: its name leads to another collection.
    pub replaced: AtomicBool,
    /// Jobs that failed, until they succeed.
    pub backoff: Backoff,
    pub monitor: RecallMonitor,
    pub progress: Progress,
    /// What another node builds can't be had here: it is built here, as if there were no other.
    pub builds_alone: AtomicBool,
    /// Number of the newest change when the maintenance thread was last idle.
    pub seen_idle: AtomicU64,
    /// How many of its idle rounds there was none since.
    pub quiet: AtomicU32,
    /// Shut while it is unloaded, and from then on.
    pub gate: Gate,
    /// When the first point expires, as of which change (`jobs/expiry.rs`).
    pub expiry: Mutex<Option<(ExpiryAsOf, i64)>>,
    pub _held: Reservation,
}

impl Core {
    /// A name leads to it, or to the collection that it is a shard of.
    pub fn with_name(self, name: &str) -> Core {
        let _ = self.called.set(name.to_owned());
        self
    }

    /// Its name where it has one, else its directory's.
    pub fn name(&self) -> &str {
        self.called.get().unwrap_or(&self.id)
    }

    pub fn writer(&self) -> MutexGuard<'_, Writer> {
        self.or_stopped(self.writer.lock())
    }

    /// Gives up the lock until a flush has ended, or for a moment.
    pub fn wait_flushed<'a>(
        &'a self,
        writer: MutexGuard<'a, Writer>,
        pause: Duration,
    ) -> MutexGuard<'a, Writer> {
        let waited = self.flushed.wait_timeout(writer, pause);
        let writer = waited.map(|(writer, _)| writer);
        self.or_stopped(writer.map_err(|poisoned| PoisonError::new(poisoned.into_inner().0)))
    }

    /// The writer, which whoever panicked with it in hand may have left half-changed: nothing more is written then. Readers have what was
    /// published before.
    fn or_stopped<'a>(&'a self, locked: LockResult<MutexGuard<'a, Writer>>) -> MutexGuard<'a, Writer> {
        locked.unwrap_or_else(|poisoned| {
            self.writer.clear_poison();
            let mut writer = poisoned.into_inner();
            writer.stop(failed("a thread panicked while it changed the collection"));
            writer
        })
    }

    /// Runs what a thread of the engine does for this collection. A panic there stops its writes, and nobody else's: after a fault of the
    /// program nothing more is written to its files.
    pub fn guarded<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(_inside) = self.gate.enter() else {
            let what = "the collection was unloaded meanwhile";
            return Err(Error::new(ErrorKind::Closed, what));
        };
        caught(act).unwrap_or_else(|panic| {
            if mutants::is("panic-passed-over") {
                return Err(panic);
            }
            tracing::error!(collection = self.name(), directory = %self.id, error = %panic, "nothing more is written to a collection until a restart");
            let mut writer = self.writer();
            // More than what the lock tells.
            writer.stopped = None;
            let stopped = writer.stop(panic);
            drop(writer);
            self.flushed.notify_all();
            Err(stopped)
        })
    }

    /// Notes how far the log goes, where nothing is written for a while or any more. What fails is no loss but of that knowledge.
    pub fn note_durable(&self) {
        let noted = self.guarded(|| {
            let mut writer = self.writer();
            // Its directory may be gone.
            match self.is_dropped() {
                true => Ok(()),
                false => writer.note_durable(self.file_context.storage.as_ref()),
            }
        });
        if let Err(e) = noted {
            tracing::warn!(collection = self.name(), directory = %self.id, error = %e, "the end of the log was not recorded in the manifest");
        }
    }

    /// Gives up what holds memory that others need to go on, of a collection whose writing has stopped. It is read no more: its newest points
    /// are in its log alone.
    pub fn release_newest_points(&self) {
        let mut writer = self.writer();
        let why = writer.stopped.clone().unwrap_or_default();
        let what = format!(
            "writes have stopped until a restart: {why}; the newest points were evicted for other collections' writes, and a restart reads them from the log"
        );
        // In this order, as for `live_view`.
        let _ = self.gave_way.set(Error::new(ErrorKind::CollectionClosed, what));
        writer.let_go();
        self.view.store(Arc::new(writer.view()));
        tracing::warn!(collection = self.name(), directory = %self.id, "a collection whose writes have stopped can't be read any more: others need the memory of its newest points");
    }

    /// Shows readers the writer's state. Not after a failure: a group may be applied in part, and stays unseen.
    pub fn publish(&self, writer: &Writer) {
        if writer.stopped.is_none() {
            self.view.store(Arc::new(writer.view()));
        }
    }

    /// Whether its indexes are built by another node, and come from there.
    pub fn builds_elsewhere(&self) -> bool {
        self.shared.builds_elsewhere.load(Ordering::Acquire) && !self.builds_alone.load(Ordering::Acquire)
    }

    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    pub fn check_not_dropped(&self) -> Result<()> {
        match self.is_dropped() {
            true => Err(Error::not_found("Not found: the collection was deleted")),
            false => Ok(()),
        }
    }

    /// For readers. In this order: who marks the collection as deleted empties its view afterwards.
    pub fn live_view(&self) -> Result<Arc<View>> {
        let view = self.view.load_full();
        self.check_there()?;
        Ok(view)
    }

    /// For users, who may ask again where another collection has the name by now.
    fn check_there(&self) -> Result<()> {
        if self.is_dropped() && self.replaced.load(Ordering::Acquire) {
            return Err(Error::new(
                ErrorKind::Busy,
                "the collection was restored from a snapshot meanwhile",
            ));
        }
        self.check_not_dropped()?;
        self.gave_way.get().cloned().map_or(Ok(()), Err)
    }

    pub fn check_open(&self) -> Result<()> {
        self.check_there()?;
        if self.shared.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the server is shutting down"));
        }
        Ok(())
    }

    /// Queues work for the writer thread. `Busy` when too much waits.
    pub fn enqueue(self: &Arc<Self>, work: Work, bytes: u64, whom: Whom<'_>) -> Result<()> {
        self.check_open()?;
        // The place in the queue as well: of the smallest updates it is most.
        let bytes = if mutants::is("reservation-forgotten") {
            0
        } else {
            bytes
        };
        let held = self.updates.reserve(bytes + PENDING_BYTES)?;
        let mut queue = whole(&self.queue);
        if queue.closed {
            return Err(Error::new(ErrorKind::Closed, "the server is shutting down"));
        }
        if queue.waiting.len() >= QUEUE_OPS_MAX {
            return Err(Error::new(
                ErrorKind::Busy,
                format!(
                    "the queue is full: {QUEUE_OPS_MAX} updates wait. Try again in a second, or send larger batches one after another"
                ),
            ));
        }
        let done = Waiting {
            done: Some(whom.done),
            chain: whom.chain.cloned(),
        };
        queue.waiting.push_back(Pending { work, done, held });
        if !std::mem::replace(&mut queue.scheduled, true) {
            drop(queue);
            self.shared.schedule(self.clone());
        }
        Ok(())
    }

    /// Refuses what is queued still, and all that comes. For when the writer thread has ended.
    pub fn close_queue(&self) {
        let waiting = {
            let mut queue = whole(&self.queue);
            queue.closed = true;
            std::mem::take(&mut queue.waiting)
        };
        for pending in waiting {
            let closed = Error::new(ErrorKind::Closed, "the server is shutting down");
            pending.done.answer(Err(closed));
        }
    }
}
