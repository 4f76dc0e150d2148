//! The maintenance thread: looks for what is due and does one thing at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::core::Core;
use crate::error::{ErrorKind, Result};
use crate::jobs::{self, Moment, Pinning};
use crate::limits::{FLUSH_SHARE, LOG_BYTES_MAX};
use crate::pins::Pins;
use crate::schema::VectorField;
use crate::shared::{Due, Shared};
use crate::writer::Writer;

/// Runs until the engine closes.
pub fn run(shared: &Shared) {
    let mut quiet = 0;
    let mut calm = 0;
    let mut written = 0;
    loop {
        match shared.wait_due(IDLE) {
            Due::Closed => return,
            Due::Now => {
                calm = 0;
                while !shared.is_closed() && step(shared) {}
                // What a job needed it needs no more.
                with_pins(shared, Pins::forget_asked);
            }
            Due::Idle => {
                quiet += 1;
                let retry = quiet % RETRY_ROUNDS == 0;
                // What failed may succeed now: there may be disk again.
                if retry {
                    shared.wake_maintenance();
                }
                freeze_awaited(shared);
                // Who writes, or just did, would take back at once what is lent now.
                let before = std::mem::replace(&mut written, operations(shared));
                calm = if written == before { calm + 1 } else { 0 };
                if !idle(shared, retry) && calm >= CALM_ROUNDS {
                    pin_all(shared);
                }
            }
        }
    }
}

/// Idle rounds after which failed jobs are tried again.
const RETRY_ROUNDS: u32 = 40;

/// Idle rounds without a write after which memory that nobody uses is lent.
const CALM_ROUNDS: u32 = 2;

/// How long nothing must become due before segments are merged just to have fewer.
const IDLE: Duration = Duration::from_millis(700);

/// False when there is nothing to merge.
fn idle(shared: &Shared, retry: bool) -> bool {
    // A merge that can't succeed isn't begun every second.
    for core in live(shared).iter().filter(|core| retry || !core.has_job_error()) {
        if report(core, jobs::merge(core, Moment::Idle)) {
            shared.wake_maintenance();
            return true;
        }
        if report(core, jobs::recalibrate(core)) {
            return true;
        }
    }
    false
}

/// Buffers that hold enough for an index become segments once their collection has had no change for a round: whoever set
/// a threshold waits for `indexed_vectors_count` to rise.
fn freeze_awaited(shared: &Shared) {
    for core in live(shared) {
        let operation = core.view.load().operation;
        let unchanged = core.seen_idle.swap(operation, Ordering::Relaxed) == operation;
        if unchanged && !core.has_job_error() && awaits_index(&core.writer()) && freeze(&core) {
            shared.wake_maintenance();
        }
    }
}

/// Whether the rows in the write buffer alone reach the threshold that was set for an index, and are not too few beside the
/// segments, which are merged with what becomes one. Without a threshold the buffer's own size decides.
pub fn awaits_index(writer: &Writer) -> bool {
    let Some(threshold @ 1..) = writer.config.indexing_threshold else {
        return false;
    };
    let rows = u64::from(writer.active.live());
    let stored: u64 = writer.segments.iter().map(|view| u64::from(view.live())).sum();
    let reaches = |vector: &VectorField| vector.kb(rows) >= threshold as u64;
    rows > 0 && rows >= stored / FLUSH_SHARE && writer.schema.vectors.iter().any(reaches)
}

/// Changes that were made to all collections together.
fn operations(shared: &Shared) -> u64 {
    let cores = shared.live_collections();
    cores.iter().map(|core| core.view.load().operation).sum()
}

fn with_pins(shared: &Shared, act: fn(&Pins)) {
    if let Some(core) = shared.live_collections().first() {
        act(&core.shelf.pins);
    }
}

/// Takes into RAM what there is room for, until something else is due.
fn pin_all(shared: &Shared) {
    with_pins(shared, Pins::note_calm);
    for core in live(shared) {
        while !shared.is_closed() && !shared.is_due() && report(&core, jobs::pin(&core, Pinning::All)) {}
    }
}

/// Collections that there is something to do for: not those that were deleted, nor those whose writing has stopped.
fn live(shared: &Shared) -> Vec<Arc<Core>> {
    let cores = shared.live_collections().into_iter();
    cores
        .filter(|core| !core.is_dropped() && core.writer().stopped.is_none())
        .collect()
}

/// Does the most urgent thing; false when nothing is due. What fails for one collection is no reason to leave the others.
fn step(shared: &Shared) -> bool {
    let cores = live(shared);
    if cores.iter().any(|core| flush_frozen(core)) {
        return true;
    }
    if shared.room_wanted.swap(false, Ordering::AcqRel) && freeze_largest(&cores) {
        return true;
    }
    cores.iter().any(|core| has_long_log(core) && freeze(core))
        || cores
            .iter()
            .any(|core| report(core, jobs::merge(core, Moment::Busy)))
        || cores
            .iter()
            .any(|core| report(core, jobs::pin(core, Pinning::Needed)))
}

fn has_long_log(core: &Core) -> bool {
    core.writer().log_bytes() > LOG_BYTES_MAX
}

fn is_frozen(core: &Core) -> bool {
    core.writer().frozen.is_some()
}

fn flush_frozen(core: &Core) -> bool {
    is_frozen(core) && report(core, jobs::flush(core).map(|()| true))
}

/// A failed job is shown in the collection's status and tried again when something else becomes due.
fn report(core: &Core, result: Result<bool>) -> bool {
    match result {
        Ok(did) => did,
        Err(e) => {
            let expected = [ErrorKind::WritesStopped, ErrorKind::Closed].contains(&e.kind());
            if !expected && !core.is_dropped() {
                tracing::error!(collection = %core.id, error = %e, "a background job failed");
            }
            false
        }
    }
}

fn freeze(core: &Core) -> bool {
    let mut writer = core.writer();
    if writer.frozen.is_some() || writer.active.is_empty() && writer.log_bytes() <= LOG_BYTES_MAX {
        return false;
    }
    let frozen = writer
        .check_writable()
        .and_then(|()| writer.freeze(core.shared.salt()));
    core.publish(&writer);
    drop(writer);
    report(core, frozen.map(|()| true))
}

/// Someone waits for room: the collection that holds most gives it.
fn freeze_largest(cores: &[Arc<Core>]) -> bool {
    let bytes = |core: &Arc<Core>| {
        let writer = core.writer();
        (!writer.active.is_empty()).then(|| writer.active.bytes())
    };
    let largest = cores
        .iter()
        .filter_map(|core| Some((bytes(core)?, core)))
        .max_by_key(|(bytes, _)| *bytes);
    largest.is_some_and(|(_, core)| freeze(core))
}

/// Makes room on the caller's thread, while there is no maintenance thread: false when no collection holds anything.
pub fn flush_largest(shared: &Shared) -> Result<bool> {
    let cores = live(shared);
    freeze_largest(&cores);
    match cores.iter().find(|core| is_frozen(core)) {
        Some(core) => jobs::flush(core).map(|()| true),
        None => Ok(false),
    }
}

/// Flushes and merges of one collection until none is due: what `wait_idle` does on the caller's thread.
pub fn settle(core: &Core) -> Result<()> {
    core.shelf.pins.forget_asked();
    loop {
        core.check_not_dropped()?;
        if is_frozen(core) {
            jobs::flush(core)?;
        } else if !jobs::merge(core, Moment::Busy)?
            && !jobs::merge(core, Moment::Idle)?
            && !jobs::recalibrate(core)?
            && !jobs::pin(core, Pinning::All)?
        {
            return Ok(());
        }
    }
}
