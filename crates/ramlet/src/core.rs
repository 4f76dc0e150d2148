//! One collection's shared state: the queue before the writer, the view behind it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use arc_swap::ArcSwap;
use ramlet_memory::{Consumer, Reservation};

use crate::collection::Completion;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::QUEUE_OPS_MAX;
use crate::monitor::RecallMonitor;
use crate::request::{UpdateOp, UpdateResult};
use crate::segment::Shelf;
use crate::shared::Shared;
use crate::tracking::Tracking;
use crate::troubles::Troubles;
use crate::view::View;
use crate::writer::Writer;

/// What an update costs in the queue beside its bytes: its entry and its completion.
const PENDING_BYTES: u64 = 512;

/// An update on its way to the writer.
pub struct Pending {
    pub work: Work,
    pub done: Completion,
    /// Bytes of `work`.
    pub held: Reservation,
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
    pub shelf: Shelf,
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
    /// Set by `delete_collection`: jobs stop at their next step, updates are refused.
    pub dropped: Arc<AtomicBool>,
    /// Dropped because a snapshot took its place: its name leads to another collection.
    pub replaced: AtomicBool,
    /// Jobs that failed, until they succeed.
    pub troubles: Troubles,
    pub monitor: RecallMonitor,
    pub tracking: Tracking,
    /// Number of the newest change when the maintenance thread was last idle.
    pub seen_idle: AtomicU64,
    /// How many of its idle rounds there was none since.
    pub quiet: AtomicU32,
    pub _held: Reservation,
}

impl Core {
    pub fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().expect("no writer panics")
    }

    /// Shows readers the writer's state. Not after a failure: a group may be applied in part, and stays unseen.
    pub fn publish(&self, writer: &Writer) {
        if writer.stopped.is_none() {
            self.view.store(Arc::new(writer.view()));
        }
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
        match self.is_dropped() && self.replaced.load(Ordering::Acquire) {
            true => Err(Error::new(
                ErrorKind::Busy,
                "the collection was restored from a snapshot meanwhile",
            )),
            false => self.check_not_dropped(),
        }
    }

    pub fn check_open(&self) -> Result<()> {
        self.check_there()?;
        if self.shared.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the server is shutting down"));
        }
        Ok(())
    }

    /// Queues work for the writer thread. `Busy` when too much waits.
    pub fn enqueue(self: &Arc<Self>, work: Work, bytes: u64, done: Completion) -> Result<()> {
        self.check_open()?;
        // The place in the queue as well: of the smallest updates it is most.
        let held = self.updates.reserve(bytes + PENDING_BYTES)?;
        let mut queue = self.queue.lock().expect("no writer panics");
        if queue.closed {
            return Err(Error::new(ErrorKind::Closed, "the server is shutting down"));
        }
        if queue.waiting.len() >= QUEUE_OPS_MAX {
            return Err(Error::new(
                ErrorKind::Busy,
                format!("{QUEUE_OPS_MAX} updates wait already"),
            ));
        }
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
            let mut queue = self.queue.lock().expect("no writer panics");
            queue.closed = true;
            std::mem::take(&mut queue.waiting)
        };
        for pending in waiting {
            answer(
                pending.done,
                Err(Error::new(ErrorKind::Closed, "the server is shutting down")),
            );
        }
    }
}

/// Tells whoever waits for an update what became of it. Their panic is theirs: it is not to end the thread that all updates need.
pub fn answer(done: Completion, result: Result<UpdateResult>) {
    let tell = std::panic::AssertUnwindSafe(|| done(result));
    if std::panic::catch_unwind(tell).is_err() {
        tracing::error!("what was to be told of an update panicked");
    }
}
