//! The maintenance thread: it finds the job that is due and runs one at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::error::{ErrorKind, Result};
use crate::jobs::backoff::Job;
use crate::jobs::{self, CacheFill, Moment};
use crate::limits::{FLUSH_SHARE, IDLE_MERGE_SHARE, LOG_BYTES_MAX, VISITS_BUSY, VISITS_IDLE};
use crate::memory::eviction::Caches;
use crate::schema::VectorField;
use crate::state::core::Core;
use crate::state::shared::{Shared, WakeReason};
use crate::write::writer::Writer;

/// Runs until the engine closes. `visit` loads up to so many collections that should be looked at, while nothing else is due.
pub fn run(shared: &Shared, visit: &dyn Fn(usize)) {
    let mut idle_period = IdlePeriod::default();
    // What is there at the start goes to RAM at once: nobody has written yet.
    if shared.wait_due(Duration::ZERO) != WakeReason::Closed {
        work(shared);
        idle_period.look(shared);
        fill_all(shared, Pace::Calm);
    }
    loop {
        let due = shared.wait_due(IDLE);
        let rounds = if due == WakeReason::Idle { IDLE_ROUNDS } else { 1 };
        live(shared).for_each(|core| core.backoff.pass(rounds));
        match due {
            WakeReason::Closed => return,
            WakeReason::Now => {
                idle_period.end();
                work(shared);
                // What a job needed it needs no more.
                with_caches(shared, Caches::forget_demand);
                // Beside few writes the next one is seconds away.
                let pace = idle_period.after_job(shared);
                if pace != Pace::Busy {
                    fill_all(shared, pace);
                }
                visit(VISITS_BUSY);
            }
            WakeReason::Idle => {
                // What failed may succeed now, and deletes don't wake anybody.
                work(shared);
                count_quiet(shared);
                freeze_awaited(shared);
                let pace = idle_period.look(shared);
                if idle(shared) {
                    // What a job needed it needs no more: caches get it again in the next round.
                    with_caches(shared, Caches::forget_demand);
                } else if pace != Pace::Busy {
                    fill_all(shared, pace);
                    if pace == Pace::Calm {
                        freeze_for_room(shared);
                    }
                }
                visit(VISITS_IDLE);
            }
        }
    }
}

/// How much is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Nothing since some rounds: memory that nobody uses goes to caches.
    Calm,
    /// So little that caches keep what they have for a while, but for the bytes that are written meanwhile.
    Light { soon: u64 },
    /// Who writes so much, or just did, would take back at once what caches get now.
    Busy,
}

/// Idle rounds in which little or nothing was written.
#[derive(Default)]
struct IdlePeriod {
    operations: u64,
    held: u64,
    /// What a round's writes took lately.
    grown: u64,
    calm: u32,
    light: u32,
}

impl IdlePeriod {
    /// After one round more.
    fn look(&mut self, shared: &Shared) -> Pace {
        let (held, unclaimed) = room(shared);
        let before = std::mem::replace(&mut self.operations, operations(shared));
        let is_calm = before == self.operations;
        let grown = held.saturating_sub(std::mem::replace(&mut self.held, held));
        self.grown = grown.max(self.grown / 2);
        let is_light = is_calm || grown <= unclaimed / LIGHT_SHARE;
        self.calm = if is_calm { self.calm + 1 } else { 0 };
        self.light = if is_light { self.light + 1 } else { 0 };
        match self.calm {
            CALM_ROUNDS.. => Pace::Calm,
            _ => self.pace(unclaimed),
        }
    }

    fn pace(&self, unclaimed: u64) -> Pace {
        match self.light {
            CALM_ROUNDS.. => Pace::Light {
                soon: unclaimed.min(self.grown * ROUNDS_KEPT),
            },
            _ => Pace::Busy,
        }
    }

    /// A job was due: somebody writes, as much as before.
    fn end(&mut self) {
        self.calm = 0;
    }

    /// When it is done.
    fn after_job(&self, shared: &Shared) -> Pace {
        self.pace(room(shared).1)
    }
}

/// Bytes of what is set aside that are used, and that aren't.
fn room(shared: &Shared) -> (u64, u64) {
    let mut room = (0, 0);
    with_caches(shared, |caches| {
        let ledger = caches.consumer.ledger();
        room = (ledger.held(), ledger.unclaimed());
    });
    room
}

/// Looks without a step after which what is lacking stays so.
const SETTLE_TRIES: u32 = 4;

/// What an idle round counts for in the waits of jobs that failed: nobody waits for them.
const IDLE_ROUNDS: u32 = 2;

/// Idle rounds without a write, or with few, after which memory that nobody uses goes to caches.
const CALM_ROUNDS: u32 = 2;

/// Few writes: a round's take at most one in so many of the bytes that are set aside and not used, mostly memtables.
const LIGHT_SHARE: u64 = 16;

/// Of how many rounds' writes caches leave the bytes alone where there are few. Jobs take back more than that at once: that is quicker than
/// what searches would read meanwhile.
const ROUNDS_KEPT: u64 = 4;

/// How long nothing must become due before segments are merged just to have fewer.
const IDLE: Duration = Duration::from_millis(700);

fn work(shared: &Shared) {
    while !shared.is_closed() && step(shared) {}
}

/// False when there is nothing to merge.
fn idle(shared: &Shared) -> bool {
    for core in live(shared) {
        let moment = match core.quiet.load(Ordering::Relaxed) {
            CALM_ROUNDS.. => Moment::Idle,
            _ => Moment::Light,
        };
        if try_job(&core, Job::Merge, |core| jobs::merge(core, moment)) {
            shared.wake_maintenance();
            return true;
        }
        if try_job(&core, Job::Upkeep, jobs::rebuild_text_index)
            || try_job(&core, Job::Upkeep, jobs::recalibrate)
        {
            return true;
        }
    }
    false
}

/// Counts the rounds that each collection is without changes, and notes after some how far its log goes.
fn count_quiet(shared: &Shared) {
    for core in live(shared) {
        let operation = core.view.load().operation;
        match core.seen_idle.swap(operation, Ordering::Relaxed) == operation {
            true => {
                if core.quiet.fetch_add(1, Ordering::Relaxed) + 1 == CALM_ROUNDS {
                    core.note_durable();
                }
            }
            false => core.quiet.store(0, Ordering::Relaxed),
        }
    }
}

/// Memtables that hold enough for an index become segments once their collection has had no change for a round: whoever set
/// a threshold waits for `indexed_vectors_count` to rise. Those that searches have paid an index for don't wait.
fn freeze_awaited(shared: &Shared) {
    for core in live(shared) {
        let is_quiet = core.quiet.load(Ordering::Relaxed) > 0;
        let freeze_awaited = || freeze_if(&core, |writer| is_quiet && awaits_index(writer));
        if !core.builds_elsewhere()
            && core.backoff.first().is_none()
            && (freeze_awaited() || freeze_paid(&core))
        {
            shared.wake_maintenance();
        }
    }
}

/// The largest memtable becomes a segment, while nobody writes, where vectors lack no more than its memory to be served better
/// from RAM. (1,000,000 vectors of 32 f16 in 64 MB had a tenth of the speed that was planned, for half a memtable of rows.)
fn freeze_for_room(shared: &Shared) {
    let cores: Vec<Arc<Core>> = live(shared).collect();
    let Some((bytes, largest)) = largest_memtable(&cores) else {
        return;
    };
    if largest.backoff.first().is_none()
        && !any_core(&cores, jobs::lacks_ram)
        && any_core(&cores, |core| jobs::would_gain(core, bytes))
        && freeze_if(largest, |_| true)
    {
        shared.wake_maintenance();
    }
}

/// A memtable that searches have paid an index for.
fn freeze_paid(core: &Core) -> bool {
    freeze_if(core, jobs::memtable_index_is_amortised)
}

/// Whether the rows in the memtable are enough for an index, alone or with those of segments without one, and are not too few beside the segments, which are merged with what
/// becomes one.
pub fn awaits_index(writer: &Writer) -> bool {
    let threshold = jobs::indexing_threshold(&writer.config);
    let rows = u64::from(writer.active.live());
    let stored: u64 = writer.segments.iter().map(|view| u64::from(view.live())).sum();
    let reaches = |vector: &VectorField| {
        let flat: u64 = writer
            .segments
            .iter()
            .map(|view| view.flat_rows(vector.slot))
            .sum();
        // Those that are enough without lack an index for another reason.
        let are_merged =
            rows as f64 >= flat as f64 * IDLE_MERGE_SHARE && !threshold.wants_in_ram(vector, flat);
        let together = if are_merged { rows + flat } else { rows };
        threshold.wants_in_ram(vector, together)
    };
    rows > 0 && rows >= stored / FLUSH_SHARE && writer.schema.vectors.iter().any(reaches)
}

/// Changes that were made to all collections together.
fn operations(shared: &Shared) -> u64 {
    let cores = shared.live_collections();
    cores.iter().map(|core| core.view.load().operation).sum()
}

fn with_caches(shared: &Shared, act: impl FnOnce(&Caches)) {
    if let Some(core) = shared.live_collections().first() {
        act(&core.file_context.caches);
    }
}

/// Takes into RAM what there is room for, until something else is due.
fn fill_all(shared: &Shared, pace: Pace) {
    with_caches(shared, |caches| {
        caches.note_calm();
        caches.keep(match pace {
            Pace::Calm => 0,
            Pace::Light { soon } => soon,
            Pace::Busy => caches.consumer.ledger().unclaimed(),
        });
    });
    for core in live(shared) {
        let more = || try_job(&core, Job::Upkeep, |core| jobs::fill_caches(core, CacheFill::All));
        while !shared.is_closed() && !shared.is_due() && more() {}
    }
    // What makes way may still be read by searches: it must not come back before who it made way for has come.
    let is_lacking = {
        let cores: Vec<Arc<Core>> = live(shared).collect();
        !any_core(&cores, jobs::would_save_reads) || any_core(&cores, jobs::lacks_ram)
    };
    if is_lacking {
        return;
    }
    for core in live(shared) {
        let more = || try_job(&core, Job::Upkeep, jobs::fill_spare);
        while !shared.is_closed() && !shared.is_due() && more() {}
    }
}

fn any_core(cores: &[Arc<Core>], is_so: impl Fn(&Core) -> bool) -> bool {
    let mut cores = cores.iter();
    cores.any(|core| core.guarded(|| Ok(is_so(core))).unwrap_or(false))
}

/// Collections that there is something to do for: not those that were deleted, nor those whose writing has stopped.
pub fn live(shared: &Shared) -> impl Iterator<Item = Arc<Core>> + use<> {
    let cores = shared.one_by_one();
    cores.filter(|core| !core.is_dropped() && core.writer().stopped.is_none())
}

/// Does the most urgent thing; false when nothing is due. What fails for one collection is no reason to leave the others.
fn step(shared: &Shared) -> bool {
    let any = |job: Job, act: fn(&Core) -> Result<bool>| live(shared).any(|core| try_job(&core, job, act));
    if any(Job::Clear, jobs::clear_dead) || any(Job::Flush, flush_frozen) {
        return true;
    }
    if shared.room_wanted.swap(false, Ordering::AcqRel) {
        // Where disk or descriptors are lacking, one more frozen memtable would only wait like the others.
        let cores: Vec<Arc<Core>> = live(shared).collect();
        shared.keep_failures(&cores);
        if !shared.is_full() && freeze_largest(&cores) {
            return true;
        }
        let nothing = !cores.iter().any(|core| is_frozen(core));
        // Whoever asked may have stopped since: its own points make way for nobody.
        let is_for_others = shared.room_wanted_for_new.swap(false, Ordering::AcqRel)
            || cores
                .iter()
                .any(|core| core.waits_for_room.load(Ordering::Acquire));
        if nothing && is_for_others && release_newest_points(shared) {
            return true;
        }
        shared.nothing_to_flush.store(nothing, Ordering::Release);
    }
    live(shared).any(|core| freeze_if(&core, has_long_log))
        || any(Job::Merge, |core| jobs::merge(core, Moment::Busy))
        || any(Job::Upkeep, |core| jobs::fill_caches(core, CacheFill::Needed))
}

fn has_long_log(writer: &Writer) -> bool {
    writer.log_bytes() > LOG_BYTES_MAX
}

/// Of the collections whose writing has stopped, that which holds most memory that others wait for gives it up: none of it can be flushed.
fn release_newest_points(shared: &Shared) -> bool {
    let stopped = shared.one_by_one().filter(|core| {
        !core.is_dropped() && core.has_stopped.load(Ordering::Acquire) && core.gave_way.get().is_none()
    });
    let held = |core: &Arc<Core>| {
        let writer = core.writer();
        let frozen = writer.frozen.as_ref().map_or(0, |frozen| frozen.memtable.bytes());
        frozen
            + if writer.active.is_empty() {
                0
            } else {
                writer.active.bytes()
            }
    };
    let most = stopped
        .map(|core| (held(&core), core))
        .max_by_key(|(bytes, _)| *bytes);
    let gives = most.filter(|(bytes, _)| *bytes > 0);
    gives
        .as_ref()
        .inspect(|(_, core)| core.release_newest_points())
        .is_some()
}

fn is_frozen(core: &Core) -> bool {
    core.writer().frozen.is_some()
}

fn flush_frozen(core: &Core) -> Result<bool> {
    match is_frozen(core) {
        true => jobs::flush(core).map(|()| true),
        false => Ok(false),
    }
}

/// Does a job that has something to do and doesn't rest. What fails is shown in the collection's status and tried again after
/// its rest.
fn try_job(core: &Core, job: Job, act: impl FnOnce(&Core) -> Result<bool>) -> bool {
    if core.backoff.is_in_backoff(job) {
        return false;
    }
    let begun = core.shared.watch.now();
    let result = core.guarded(|| act(core));
    if !matches!(result, Ok(false)) {
        core.shared
            .watch
            .job_done(begun, job as usize, (&core.id, core.name()), result.is_err());
    }
    if job == Job::Upkeep {
        core.backoff.note(job, &result);
    }
    let Err(e) = result else {
        return matches!(result, Ok(true));
    };
    let expected = [ErrorKind::WritesStopped, ErrorKind::Closed].contains(&e.kind());
    if let (Some(times), false) = (core.backoff.failures_to_log(job), expected || core.is_dropped()) {
        tracing::error!(collection = core.name(), directory = %core.id, error = %e, times, "a background job failed");
    }
    false
}

fn freeze_if(core: &Core, is_due: impl FnOnce(&Writer) -> bool) -> bool {
    let due = core.guarded(|| Ok(is_due(&core.writer()) && hand_over(core)));
    due.unwrap_or(false)
}

/// What a collection has in its memtable is to become a segment, so that it can be unloaded. Not where that fails at the moment.
pub fn freeze_to_unload(core: &Core) -> bool {
    core.backoff.first().is_none() && freeze_if(core, |_| true)
}

/// Whether the memtable is to be flushed now.
fn hand_over(core: &Core) -> bool {
    let mut writer = core.writer();
    if writer.frozen.is_some() || writer.active.is_empty() && writer.log_bytes() <= LOG_BYTES_MAX {
        return false;
    }
    let frozen = writer
        .check_writable()
        .and_then(|()| writer.freeze(core.shared.salt()));
    core.publish(&writer);
    drop(writer);
    if let Err(e) = &frozen {
        tracing::warn!(collection = core.name(), directory = %core.id, error = %e, "a write buffer could not be frozen");
    }
    frozen.is_ok()
}

/// Someone waits for room: the collection that holds most gives it.
pub fn freeze_largest(cores: &[Arc<Core>]) -> bool {
    largest_memtable(cores).is_some_and(|(_, core)| freeze_if(core, |_| true))
}

fn largest_memtable(cores: &[Arc<Core>]) -> Option<(u64, &Arc<Core>)> {
    let bytes = |core: &Arc<Core>| {
        let writer = core.writer();
        // One that has a frozen memtable already can't give another.
        (writer.frozen.is_none() && !writer.active.is_empty()).then(|| writer.active.bytes())
    };
    let held = cores.iter().filter_map(|core| Some((bytes(core)?, core)));
    held.max_by_key(|(bytes, _)| *bytes)
}

/// Makes room on the caller's thread, while there is no maintenance thread: false when no collection holds anything.
pub fn flush_largest(shared: &Shared) -> Result<bool> {
    let cores: Vec<Arc<Core>> = live(shared).collect();
    freeze_largest(&cores);
    for core in cores.iter().filter(|core| is_frozen(core)) {
        match core.guarded(|| jobs::flush(core)) {
            Ok(()) => return Ok(true),
            Err(e) if e.is_shortage() => return Err(e),
            // That is its own matter, and no reason to leave others closed; another one may have something as well.
            Err(e) => {
                tracing::error!(collection = core.name(), directory = %core.id, error = %e, "a write buffer could not be flushed")
            }
        }
    }
    Ok(false)
}

/// Flushes and merges of one collection until none is due: what `wait_idle` does on the caller's thread.
pub fn settle(core: &Core) -> Result<()> {
    core.file_context.caches.forget_demand();
    core.file_context.caches.keep(0);
    let mut in_vain = 0;
    loop {
        let begun = core.shared.wait_jobs();
        core.check_not_dropped()?;
        if core.guarded(|| settle_one(core))? {
            in_vain = 0;
            continue;
        }
        // Nothing to do: but what another thread's job had in hand meanwhile wasn't looked at, nor an index that waits until it is tried again.
        in_vain += 1;
        let is_all = core.shared.jobs_begun() == begun && !core.backoff.wake(Job::Index);
        if is_all || in_vain == SETTLE_TRIES {
            return Ok(());
        }
    }
}

/// Does the most urgent thing that a collection needs; false: there is none.
fn settle_one(core: &Core) -> Result<bool> {
    if is_frozen(core) {
        return jobs::flush(core).map(|()| true);
    }
    Ok(freeze_paid(core)
        || jobs::clear_dead(core)?
        || jobs::merge(core, Moment::Busy)?
        || jobs::merge(core, Moment::Idle)?
        || jobs::rebuild_text_index(core)?
        || jobs::recalibrate(core)?
        || jobs::fill_caches(core, CacheFill::All)?
        || (!jobs::lacks_ram(core) && jobs::fill_spare(core)?))
}
