//! What the writer thread does with queued updates: groups of changes, one sync each.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ramlet_memory::Reservation;

use crate::change;
use crate::collection::Completion;
use crate::core::{Core, Pending, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{DISK_FREE_MIN, LOG_BYTES_MAX};
use crate::lookup::Lookup;
use crate::request::UpdateResult;
use crate::writer::{Group, NoRoom, Writer};

/// How long to wait for a flush of this collection before looking again: room may come from another one's flush.
const ROOM_POLL: Duration = Duration::from_millis(20);

/// Updates whose changes are in the open group.
struct Acknowledge {
    done: Completion,
    operation: u64,
    _held: Reservation,
}

/// One turn of the writer thread at one collection.
pub struct Turn<'a> {
    pub core: &'a Core,
    pub lookup: &'a mut Lookup,
    group: Group,
    waiting: Vec<Acknowledge>,
    /// Number of the last op that was framed.
    operation: u64,
}

impl<'a> Turn<'a> {
    /// Takes all queued updates of the collection through log and buffer.
    pub fn run(core: &'a Core, lookup: &'a mut Lookup) {
        let batch = {
            let mut queue = core.queue.lock().expect("never poisoned");
            queue.scheduled = false;
            std::mem::take(&mut queue.waiting)
        };
        let operation = core.writer().operation;
        let mut turn = Turn {
            core,
            lookup,
            group: Group::default(),
            waiting: Vec::new(),
            operation,
        };
        for pending in batch {
            turn.take(pending);
        }
        turn.finish_group();
    }

    fn take(&mut self, pending: Pending) {
        let Pending { work, done, held } = pending;
        match work {
            Work::Changes(changes) => {
                if let Err(e) = self.admit(&changes) {
                    return done(Err(e));
                }
                let operation = self.next_operation();
                match self.add(operation, &changes) {
                    Ok(()) => self.waiting.push(Acknowledge {
                        done,
                        operation,
                        _held: held,
                    }),
                    Err(e) => done(Err(e)),
                }
            }
            Work::Resolve(op) => {
                // It must see all that was accepted before it.
                self.finish_group();
                let operation = self.next_operation();
                let result = crate::resolve::resolve(self, operation, op).and_then(|()| self.commit());
                done(result.map(|()| UpdateResult {
                    operation_id: operation,
                }));
            }
        }
    }

    pub fn next_operation(&mut self) -> u64 {
        self.operation += 1;
        self.operation
    }

    /// Refuses what adds data when the disk is nearly full; deletes go through.
    fn admit(&self, changes: &[u8]) -> Result<()> {
        if !change::adds_data(changes) {
            return Ok(());
        }
        self.check_disk()
    }

    pub fn check_disk(&self) -> Result<()> {
        let free = self.core.shelf.storage.free_bytes()?;
        if free < DISK_FREE_MIN {
            let what =
                format!("{free} bytes of disk are free, writes need {DISK_FREE_MIN}; deletes still work");
            return Err(Error::new(ErrorKind::DiskFull, what));
        }
        Ok(())
    }

    /// Adds an op's changes to the group, committing as often as it gets full.
    pub fn add(&mut self, operation: u64, changes: &[u8]) -> Result<()> {
        let most = self.core.shared.group_bytes;
        for part in change::split(changes, most - change::OP_HEADER_BYTES) {
            if self.group.is_full(part.len(), most) {
                self.finish_waiting()?;
            }
            // At once and exactly: doubling would hold three times the group for a moment.
            let whole = most.max(part.len() + change::OP_HEADER_BYTES);
            if self.group.bytes.capacity() < whole && self.group.is_empty() {
                self.group.bytes.reserve_exact(whole);
            }
            self.group.push(operation, part);
        }
        Ok(())
    }

    /// Adds one resolved change, whatever the length; the caller commits when [`Turn::is_group_long`].
    pub fn add_uncommitted(&mut self, operation: u64, change: &[u8]) {
        if !change.is_empty() {
            self.group.push(operation, change);
        }
    }

    pub fn is_group_long(&self) -> bool {
        self.group.is_full(0, self.core.shared.group_bytes)
    }

    /// Commits; the updates in the group are answered, well or not.
    fn finish_group(&mut self) {
        let _ = self.finish_waiting();
    }

    fn finish_waiting(&mut self) -> Result<()> {
        let result = self.commit();
        for ack in self.waiting.drain(..) {
            (ack.done)(result.clone().map(|()| UpdateResult {
                operation_id: ack.operation,
            }));
        }
        result
    }

    /// Makes the open group durable, applies it, and shows it to readers.
    pub fn commit(&mut self) -> Result<()> {
        if self.group.is_empty() {
            return Ok(());
        }
        let group = std::mem::take(&mut self.group.bytes);
        let result = self.commit_group(&group);
        self.group.bytes = group;
        self.group.bytes.clear();
        self.group.bytes.shrink_to(self.core.shared.group_bytes);
        result
    }

    fn commit_group(&mut self, group: &[u8]) -> Result<()> {
        let core = self.core;
        core.check_open()?;
        let mut writer = core.writer();
        let lsn = writer.commit_group(group, core.shared.salt())?;
        // From here on the group is durable: where it can't be applied, memory and log disagree until a restart.
        let (mut writer, applied) = apply_group(core, writer, group, self.lookup);
        applied.map_err(|e| writer.stop(e))?;
        writer.applied_lsn = lsn;
        core.publish(&writer);
        freeze_if_full(core, &mut writer)
    }
}

type Guard<'a> = MutexGuard<'a, Writer>;

/// Applies a durable group. Where the buffers have no room the lock is given up until a flush has made some.
pub fn apply_group<'a>(
    core: &'a Core,
    writer: Guard<'a>,
    group: &[u8],
    lookup: &mut Lookup,
) -> (Guard<'a>, Result<()>) {
    let mut slot = Some(writer);
    let result = change::for_each(group, |operation, change| {
        loop {
            let mut writer = slot.take().expect("put back below");
            let applied = writer.apply(operation, change, lookup);
            let (writer, again) = match applied {
                Ok(Err(no_room)) => wait_for_room(core, writer, no_room),
                Ok(Ok(())) => (writer, Ok(false)),
                Err(e) => (writer, Err(e)),
            };
            slot = Some(writer);
            if !again? {
                return Ok(());
            }
        }
    });
    (slot.expect("put back above"), result)
}

/// Buffers that are full enough are handed to the maintenance thread.
fn freeze_if_full(core: &Core, writer: &mut Writer) -> Result<()> {
    let full = writer.active.bytes() >= writer.buffers.cap() / 2 || writer.log_bytes() > LOG_BYTES_MAX;
    if full && writer.frozen.is_none() && !writer.active.is_empty() {
        writer.freeze(core.shared.salt())?;
        core.publish(writer);
        core.shared.wake_maintenance();
    }
    Ok(())
}

/// Gives up the lock until a flush has ended; `true`: try again. Readers see the part of the group that is applied.
fn wait_for_room<'a>(core: &'a Core, mut writer: Guard<'a>, no_room: NoRoom) -> (Guard<'a>, Result<bool>) {
    if writer.frozen.is_none() && !writer.active.is_empty() {
        if let Err(e) = writer.freeze(core.shared.salt()) {
            return (writer, Err(e));
        }
    } else if writer.frozen.is_none() && writer.buffers.used() <= writer.buffer_bytes() {
        // Nothing to flush anywhere: the row is larger than the buffers can ever be.
        return (writer, Err(Error::from(no_room.0)));
    }
    core.publish(&writer);
    if !core.shared.maintained.load(Ordering::Acquire) {
        // While recovering there is no maintenance thread yet.
        let frozen = writer.frozen.is_some();
        drop(writer);
        let flushed = if frozen {
            crate::jobs::flush(core).map(|()| true)
        } else {
            // It is collections that were opened before this one that hold the room.
            crate::maintenance::make_room(&core.shared).and_then(|made| match made {
                true => Ok(true),
                false => Err(Error::from(no_room.0)),
            })
        };
        return (core.writer(), flushed);
    }
    core.shared.room_wanted.store(true, Ordering::Release);
    core.shared.wake_maintenance();
    let (writer, _) = core
        .flushed
        .wait_timeout(writer, ROOM_POLL)
        .expect("never poisoned");
    let stopped = core.shared.is_closed() || writer.stopped.is_some();
    (
        writer,
        if stopped {
            Err(Error::new(ErrorKind::Closed, "stopped while waiting for room"))
        } else {
            Ok(true)
        },
    )
}
