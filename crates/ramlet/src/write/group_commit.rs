//! Group commit: the writer thread turns queued updates into groups with one sync each.

use std::collections::BTreeSet;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ramlet_memory::{Reservation, size, size_up};

use crate::error::{Error, ErrorKind, Result};
use crate::faults::locks::whole;
use crate::jobs::{indexing_threshold, maintenance};
use crate::limits::{
    DISK_RECHECK_BYTES, GROUP_BYTES_MAX, LOG_BYTES_MAX, MEMTABLE_CHUNK_BYTES, MEMTABLE_ROW_OVERHEAD,
};
use crate::read::lookup::Lookup;
use crate::request::{UpdateOp, UpdateResult};
use crate::segment::indexable::{Means, PointsMost};
use crate::state::core::{Core, Pending, Waiting, Work};
use crate::types::PointId;
use crate::write::change::{self, Change};
use crate::write::disk_room::too_little_disk;
use crate::write::group::Group;
use crate::write::shared_log::Followed;
use crate::write::writer::{NoRoom, Writer};

/// How long to wait for a flush of this collection before looking again: room may come from another one's flush.
pub const ROOM_POLL: Duration = Duration::from_millis(20);

/// The same while flushes fail: trying again without pause would only burn.
pub const FAILED_POLL: Duration = Duration::from_millis(100);

/// So often an update looks for room while flushes fail, before it is refused: for two seconds. Once one was refused, the next
/// ones look once.
const FAILED_POLLS: u32 = 20;

/// Updates whose changes are in the open group.
struct Acknowledge {
    done: Waiting,
    operation: u64,
    /// For its filter.
    payloads_checked: u64,
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
    /// Groups that were closed in this turn.
    commits: u64,
    /// Points that the open group adds at most, where `points_most` bounds them.
    added: u64,
    /// Longest change that the memtables can hold.
    put_bytes_max: usize,
    /// Bytes of changes that may still be taken before the disk is looked at again.
    disk_unchecked: usize,
    /// Where not all vectors can have an index in this budget.
    points_most: Option<PointsMost>,
}

impl<'a> Turn<'a> {
    /// Takes all queued updates of the collection through log and memtable. An error: it panicked, and whoever waits was told.
    pub fn run(core: &'a Core, lookup: &'a mut Lookup) -> Result<()> {
        core.guarded(|| {
            Turn::take_all(core, lookup);
            Ok(())
        })
    }

    fn take_all(core: &'a Core, lookup: &'a mut Lookup) {
        let batch = {
            let mut queue = whole(&core.queue);
            queue.scheduled = false;
            std::mem::take(&mut queue.waiting)
        };
        let (operation, memtables, writable, points_most) = {
            let writer = core.writer();
            let means = Means::new(core.shared.scratch_most, &core.file_context);
            let points_most = means.points_most(&writer.schema, indexing_threshold(&writer.config));
            (
                writer.operation,
                writer.memtables.cap(),
                writer.check_writable(),
                points_most,
            )
        };
        let mut turn = Turn {
            core,
            lookup,
            group: Group::default(),
            waiting: Vec::new(),
            operation,
            commits: 0,
            added: 0,
            put_bytes_max: put_bytes_max(memtables),
            disk_unchecked: 0,
            points_most,
        };
        for pending in batch {
            match &writable {
                Ok(()) => turn.take(pending),
                Err(stopped) => pending.done.answer(Err(stopped.clone())),
            }
        }
        turn.finish_group();
    }

    fn take(&mut self, pending: Pending) {
        let Pending { work, done, held } = pending;
        if self.core.shared.flush_failure(&self.core.id).is_some() {
            // Deletes aren't to be refused for a put beside them that finds no room.
            self.finish_group();
        }
        if done.is_too_late() {
            return done.answer(Err(not_done()));
        }
        match work {
            Work::Changes(changes) => {
                if let Err(e) = self.admit(&changes) {
                    return done.answer(Err(e));
                }
                let operation = self.next_operation();
                match self.add(operation, &changes) {
                    Ok(()) => self.waiting.push(Acknowledge {
                        done,
                        operation,
                        payloads_checked: 0,
                        _held: held,
                    }),
                    Err(e) => done.answer(Err(e)),
                }
            }
            Work::Resolve(op) => {
                // It must see all that was accepted before it, and what the open group changes isn't in the view yet.
                if !self.can_join_open_group(&op) {
                    self.finish_group();
                    if done.is_too_late() {
                        return done.answer(Err(not_done()));
                    }
                }
                let operation = self.next_operation();
                let before = (self.commits, self.group.bytes().len());
                self.lookup.payloads_checked = 0;
                match crate::write::resolve::resolve(self, operation, op) {
                    Ok(()) => self.waiting.push(Acknowledge {
                        done,
                        operation,
                        payloads_checked: self.lookup.payloads_checked,
                        _held: held,
                    }),
                    Err(e) => {
                        // What it left when it failed half-way is not to ride along with the others.
                        let kept = if before.0 == self.commits { before.1 } else { 0 };
                        self.group.truncate(kept);
                        done.answer(Err(e));
                    }
                }
            }
        }
    }

    /// Whether an op may become a part of the open group, with all that the group makes of its points: of those that it names. Updates of payloads
    /// and vectors by many clients share a sync then.
    fn can_join_open_group(&mut self, op: &UpdateOp) -> bool {
        self.group.is_empty() || (op.names_points() && !self.is_group_long())
    }

    /// What the open group makes of a point; `None`: it leaves it as the view has it.
    pub fn last_change(&mut self, id: PointId) -> Option<Change<'_>> {
        let is_known = self.group.is_looked_through();
        debug_assert!(is_known, "a group that is long is closed first");
        self.group.last_change(id)
    }

    pub fn next_operation(&mut self) -> u64 {
        self.operation += 1;
        self.operation
    }

    /// Refuses what adds data when the disk is nearly full; deletes go through.
    fn admit(&mut self, changes: &[u8]) -> Result<()> {
        let Some(longest) = change::longest_put(changes) else {
            return Ok(());
        };
        self.check_put(longest)?;
        self.check_points(change::put_ids(changes))?;
        self.check_disk()?;
        self.disk_unchecked = self.disk_unchecked.saturating_sub(changes.len());
        Ok(())
    }

    /// Refuses a point that would be durable and then fit nowhere.
    fn check_put(&self, bytes: usize) -> Result<()> {
        let most = self.put_bytes_max;
        if bytes > most {
            let what = format!(
                "a point takes {}, at most {} are possible with these write buffers. Waiting doesn't help: make it smaller, or start with a \
                 larger --memory",
                size_up(bytes as u64),
                size(most as u64)
            );
            return Err(Error::new(ErrorKind::TooLarge, what));
        }
        Ok(())
    }

    /// Refuses points that would never have an index in this budget. Newer versions of those that are there get in.
    pub fn check_points(&mut self, ids: impl Iterator<Item = PointId> + Clone) -> Result<()> {
        let Some(most) = self.points_most.clone() else {
            return Ok(());
        };
        let added = self.added + ids.clone().count() as u64;
        if self.core.view.load().points() + added <= most.points {
            self.added = added;
            return Ok(());
        }
        // What was accepted before counts.
        self.finish_waiting()?;
        let view = self.core.view.load_full();
        let mut new = BTreeSet::new();
        for id in ids {
            if view.find(id, self.lookup)?.is_none() {
                new.insert(id);
            }
        }
        match new.is_empty() || view.points() + new.len() as u64 <= most.points {
            true => Ok(()),
            false => Err(most.refusal()),
        }
    }

    /// Refuses when the disk is nearly full. Asks the file system once a turn, and again after [`DISK_RECHECK_BYTES`].
    pub fn check_disk(&mut self) -> Result<()> {
        if self.disk_unchecked > 0 {
            return Ok(());
        }
        if let Some((free, needed)) = too_little_disk(self.core.file_context.storage.as_ref())? {
            let what = format!(
                "{} of disk are free, writes need {}. Waiting doesn't help: delete points or collections, which still works, or enlarge \
                 the disk",
                size(free),
                size_up(needed)
            );
            return Err(Error::new(ErrorKind::DiskFull, what));
        }
        self.disk_unchecked = DISK_RECHECK_BYTES;
        Ok(())
    }

    /// Adds an op's changes to the group, committing as often as it gets full.
    pub fn add(&mut self, operation: u64, changes: &[u8]) -> Result<()> {
        let most = self.core.shared.group_bytes;
        for part in change::split(changes, most - change::OP_HEADER_BYTES) {
            if self.group.is_full(part.len(), most) {
                self.finish_waiting()?;
            }
            self.group.reserve(most.max(part.len() + change::OP_HEADER_BYTES));
            self.group.push(operation, part);
        }
        Ok(())
    }

    /// Adds one resolved change, whatever the length; the caller calls [`Turn::finish_waiting`] when [`Turn::is_group_long`].
    pub fn add_uncommitted(&mut self, operation: u64, change: &[u8]) -> Result<()> {
        if let Some(bytes) = change::longest_put(change) {
            self.check_put(bytes)?;
        }
        if !change.is_empty() {
            self.group.push(operation, change);
            self.disk_unchecked = self.disk_unchecked.saturating_sub(change.len());
        }
        Ok(())
    }

    /// Whether the open group is to be closed before more is resolved: it has become long, or changes too many points to look one up.
    pub fn is_group_long(&mut self) -> bool {
        self.group.is_full(0, self.core.shared.group_bytes) || !self.group.is_looked_through()
    }

    /// Commits; the updates in the group are answered, well or not.
    fn finish_group(&mut self) {
        let _ = self.finish_waiting();
    }

    /// The same; says how it went.
    pub fn finish_waiting(&mut self) -> Result<()> {
        let result = self.commit();
        for ack in self.waiting.drain(..) {
            let result = result.clone().map(|()| UpdateResult {
                operation_id: ack.operation,
                payloads_checked: ack.payloads_checked,
            });
            ack.done.answer(result);
        }
        result
    }

    /// Makes the open group durable, applies it, and shows it to readers.
    fn commit(&mut self) -> Result<()> {
        if self.group.is_empty() {
            return Ok(());
        }
        self.commits += 1;
        self.added = 0;
        let mut group = std::mem::take(&mut self.group);
        let result = self.commit_group(&mut group);
        self.group = group;
        self.group.clear(self.core.shared.group_bytes);
        result
    }

    fn commit_group(&mut self, group: &mut Group) -> Result<()> {
        let core = self.core;
        let (mut writer, fits) = wait_until_it_fits(core, group.bytes());
        fits?;
        // Under the lock: who deletes the collection waits for it before the directory goes.
        core.check_open()?;
        let begun = core.shared.watch.now();
        let shared_log = core.shared.group_log.get();
        if let Some(log) = shared_log {
            let lsn = writer.begin_group(group.bytes().len(), core.shared.salt())?;
            // Only this thread writes groups, so the number stays; nobody waits for the lock as long as another machine may take.
            drop(writer);
            let logged = log.append(&core.id, lsn, group.bytes());
            writer = core.writer();
            logged.map_err(|why| Error::new(ErrorKind::WritesStopped, why))?;
            core.check_not_dropped().inspect_err(|_| log.kept(true))?;
        }
        let committed = writer.commit_record(group, core.shared.salt()).map_err(|e| {
            // What others read by now is not to be missing here.
            match shared_log {
                Some(_) => writer.stop(e),
                None => e,
            }
        });
        if let Some(log) = shared_log {
            log.kept(committed.is_ok());
        }
        let lsn = committed?;
        core.shared.watch.synced(begun, core.name());
        // From here on the group is durable: where it can't be applied, memory and log disagree until a restart.
        let (mut writer, applied) = apply_group(core, writer, group.bytes(), self.lookup);
        applied.map_err(|e| writer.stop(e))?;
        writer.applied_lsn = lsn;
        core.publish(&writer);
        if let Err(e) = freeze_if_full(core, &mut writer) {
            // The group is in; the next one meets whatever it was.
            tracing::warn!(collection = core.name(), directory = %core.id, error = %e, "a full write buffer could not be frozen");
        }
        Ok(())
    }
}

/// Of an update behind one that failed.
fn not_done() -> Error {
    Error::bad_input("an update failed that had to be done before this one")
}

/// Takes a group of a log that others write through log and memtable. No group of this node's own may be under way.
pub fn apply_followed(core: &Core, lsn: u64, group: &[u8], lookup: &mut Lookup) -> Result<Followed> {
    let (mut writer, fits) = wait_until_it_fits(core, group);
    fits?;
    if core.is_dropped() {
        return Ok(Followed::Gone);
    }
    let next = writer.begin_group(group.len(), core.shared.salt())?;
    if lsn < next {
        return Ok(Followed::Older);
    }
    if lsn > next {
        let id = &core.id;
        return Err(Error::corrupt(format!(
            "the shared log has group {lsn} of {id}, {next} comes next here"
        )));
    }
    // A later change may have changed the settings here already; what doesn't fit them any more is passed over as in a replay.
    writer.commit_group(group, core.shared.salt())?;
    let (mut writer, applied) = apply_group(core, writer, group, lookup);
    applied.map_err(|e| writer.stop(e))?;
    writer.applied_lsn = lsn;
    core.publish(&writer);
    if let Err(e) = freeze_if_full(core, &mut writer) {
        tracing::warn!(collection = core.name(), directory = %core.id, error = %e, "a full write buffer could not be frozen");
    }
    Ok(Followed::Applied)
}

/// Longest change for memtables of `bytes`: half of them, less what a row's directory, its id and rounding take. The
/// other half is what empty memtables of all collections may take (`Engine::create_collection` sees to it).
fn put_bytes_max(bytes: u64) -> usize {
    let most = (bytes / 2).saturating_sub(2 * MEMTABLE_CHUNK_BYTES as u64);
    usize::try_from(most)
        .unwrap_or(usize::MAX)
        .min(GROUP_BYTES_MAX - 1024)
}

type Guard<'a> = MutexGuard<'a, Writer>;

/// Applies a durable group. Where the memtables have no room the lock is given up until a flush has made some.
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
                Ok(Err(no_room)) => {
                    let begun = core.shared.watch.now();
                    let waited = wait_for_room(core, writer, no_room);
                    core.shared.watch.stalled(begun);
                    waited
                }
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

/// Memtables that are full enough are handed to the maintenance thread.
fn freeze_if_full(core: &Core, writer: &mut Writer) -> Result<()> {
    let full = writer.active.bytes() >= writer.memtables.cap() / 2 || writer.log_bytes() > LOG_BYTES_MAX;
    if full && writer.frozen.is_none() && !writer.active.is_empty() {
        writer.freeze(core.shared.salt())?;
        core.publish(writer);
        core.shared.wake_maintenance();
    }
    Ok(())
}

/// Waits for room for a group that isn't in the log yet: once it is, it has to get in, and nobody can be refused any more.
/// While flushes fail, the wait has an end.
fn wait_until_it_fits<'a>(core: &'a Core, group: &[u8]) -> (Guard<'a>, Result<()>) {
    let writer = core.writer();
    let needed = room_for(&writer, group);
    if writer.memtables.available() >= needed {
        return (writer, Ok(()));
    }
    let begun = core.shared.watch.now();
    let waited = wait_for_memtables(core, writer, needed);
    core.shared.watch.stalled(begun);
    waited
}

/// Waits until memtables have so much free: a flush makes room, which may have to wait for a merge.
fn wait_for_memtables<'a>(core: &'a Core, mut writer: Guard<'a>, needed: u64) -> (Guard<'a>, Result<()>) {
    let mut polls = 0;
    while writer.memtables.available() < needed {
        core.shared.nothing_to_flush.store(false, Ordering::Release);
        let again;
        (writer, again) = ask_for_room(core, writer);
        if let Err(e) = again {
            return (writer, Err(e));
        }
        if core.shared.nothing_to_flush.load(Ordering::Acquire) {
            // It may still fit: what is needed was an estimate.
            break;
        }
        let Some(failure) = core.shared.flush_failure(&core.id) else {
            polls = 0;
            continue;
        };
        let is_own = failure.of == core.id;
        polls += 1;
        if polls <= FAILED_POLLS && !(is_own && failure.is_refused) {
            continue;
        }
        let is_full = failure.error.is_full();
        // It looks at all collections' segments, this one's too.
        drop(writer);
        let error = match crate::jobs::merges_may_free_memory(core) {
            true => failure.error,
            false => failure.error.for_good(),
        };
        writer = core.writer();
        let why = error.at("the write buffers are full, and flushing them fails");
        if !is_own && !is_full {
            drop(writer);
            make_way(core, &failure.of, why);
            writer = core.writer();
            polls = 0;
            continue;
        }
        core.shared.note_refusal(&failure.of);
        return (writer, Err(why));
    }
    (writer, Ok(()))
}

/// Another collection holds the room that this one needs, and can't flush it: its writes stop, and its newest points make way.
fn make_way(core: &Core, other: &str, why: Error) {
    let mut there = core.shared.live_collections().into_iter();
    if let Some(other) = there.find(|core| core.id == other) {
        other.writer().stop(why);
        other.release_newest_points();
    }
    core.shared.note_flush(other, &Ok(()));
}

/// About what the puts of a group take of the memtables at most: their bytes, what a row costs beside, and the steps in
/// which memory is taken. As much as empty memtables leave at least is always enough to begin with.
fn room_for(writer: &Writer, group: &[u8]) -> u64 {
    const STEPS_BYTES: u64 = 64 << 10;
    let most = writer.memtables.cap() / 2;
    if writer.memtables.available() >= most {
        // There is as much in any case: the group needn't be looked through.
        return 0;
    }
    let (mut rows, mut bytes) = (0, 0);
    // One that doesn't decode is told of when it is applied.
    let _ = change::for_each(group, |_, change| {
        if let Change::Put(_, row) = change {
            let vectors: usize = row.vectors().map(|(_, vector)| vector.len() + 8).sum();
            rows += 1;
            bytes += (row.payload.len() + vectors) as u64;
        }
        Ok(())
    });
    if rows == 0 {
        return 0;
    }
    // Tokens of texts, and the lists of them.
    let scored = writer.schema.fields.iter().any(|field| field.scored().is_some());
    let bytes = if scored { 3 * bytes } else { bytes };
    let needed = bytes + rows * (MEMTABLE_ROW_OVERHEAD + ROW_BYTES) + STEPS_BYTES;
    needed.min(most)
}

/// Header and directory entry of a row in a memtable, rounded up.
const ROW_BYTES: u64 = 80;

/// Asks for a flush and gives up the lock until one has ended, or for a moment. An error: nobody waits any more. Readers see
/// the part of the group that is applied.
fn ask_for_room<'a>(core: &'a Core, mut writer: Guard<'a>) -> (Guard<'a>, Result<()>) {
    if let Err(e) = freeze_own(core, &mut writer) {
        return (writer, Err(e));
    }
    core.waits_for_room.store(true, Ordering::Release);
    core.shared.want_room();
    let pause = match core.shared.flush_failure(&core.id) {
        None => ROOM_POLL,
        Some(_) => FAILED_POLL,
    };
    let writer = core.wait_flushed(writer, pause);
    core.waits_for_room.store(false, Ordering::Release);
    let again = match core.shared.is_closed() || core.is_dropped() {
        true => Err(Error::new(ErrorKind::Closed, "stopped while waiting for room")),
        false => writer.check_writable(),
    };
    (writer, again)
}

/// Gives up the rows of the active memtable, if none is frozen yet.
fn freeze_own(core: &Core, writer: &mut Writer) -> Result<()> {
    if writer.frozen.is_none() && !writer.active.is_empty() {
        match writer.freeze(core.shared.salt()) {
            // Not even for an empty memtable is there room: another collection's flush gives it.
            Err(e) if !e.is_over_budget() => return Err(e),
            _ => {}
        }
    }
    core.publish(writer);
    Ok(())
}

/// Makes room for a group that is in the log; `true`: try again.
fn wait_for_room<'a>(core: &'a Core, mut writer: Guard<'a>, no_room: NoRoom) -> (Guard<'a>, Result<bool>) {
    if writer.log.is_some() {
        let (writer, again) = ask_for_room(core, writer);
        return (writer, again.map(|()| true));
    }
    // While it is recovered, the maintenance thread doesn't know of it, or doesn't run yet.
    if let Err(e) = freeze_own(core, &mut writer) {
        return (writer, Err(e));
    }
    let frozen = writer.frozen.is_some();
    drop(writer);
    let made = match frozen {
        true => crate::jobs::flush(core).map(|()| true),
        false => maintenance::flush_largest(&core.shared),
    };
    let made = made.and_then(|made| match made {
        true => Ok(true),
        false => Err(Error::from(no_room.0)),
    });
    (core.writer(), made)
}
