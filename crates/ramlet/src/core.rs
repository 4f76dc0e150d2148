//! One collection's shared state: the queue before the writer, the view behind it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use arc_swap::ArcSwap;
use ramlet_memory::{Consumer, Reservation};

use crate::collection::Completion;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::QUEUE_OPS_MAX;
use crate::request::UpdateOp;
use crate::segment::Shelf;
use crate::shared::Shared;
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
    /// Set by `delete_collection`: jobs stop at their next step, updates are refused.
    pub dropped: AtomicBool,
    /// Last failure of a job, until one succeeds.
    pub job_error: Mutex<Option<String>>,
    pub _held: Reservation,
}

impl Core {
    pub fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().expect("no writer panics")
    }

    pub fn publish(&self, writer: &Writer) {
        self.view.store(Arc::new(writer.view()));
    }

    pub fn check_open(&self) -> Result<()> {
        if self.dropped.load(Ordering::Acquire) {
            return Err(Error::not_found("Not found: the collection was deleted"));
        }
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

    pub fn set_job_error(&self, error: Option<String>) {
        *self.job_error.lock().expect("no job panics") = error;
    }
}
