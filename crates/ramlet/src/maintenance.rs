//! The maintenance thread: looks for what is due and does one thing at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::core::Core;
use crate::error::{Error, ErrorKind, Result};
use crate::jobs;
use crate::limits::LOG_BYTES_MAX;
use crate::shared::{Due, Shared};

/// Runs until the engine closes.
pub fn run(shared: &Shared) {
    loop {
        match shared.wait_due(IDLE) {
            Due::Closed => return,
            Due::Now => while !shared.is_closed() && step(shared) {},
            Due::Idle => idle(shared),
        }
    }
}

/// How long nothing must become due before segments are merged just to have fewer.
const IDLE: Duration = Duration::from_millis(700);

fn idle(shared: &Shared) {
    for core in live(shared) {
        if report(&core, jobs::merge(&core, jobs::idle_candidates)) {
            shared.wake_maintenance();
            return;
        }
    }
}

fn live(shared: &Shared) -> Vec<Arc<Core>> {
    shared.live_collections().into_iter().filter(|c| !c.dropped.load(Ordering::Acquire)).collect()
}

/// Does the most urgent thing; false when nothing is due.
fn step(shared: &Shared) -> bool {
    let cores = live(shared);
    if let Some(core) = cores.iter().find(|core| core.writer().frozen.is_some()) {
        return report(core, jobs::flush(core).map(|()| true));
    }
    if shared.room_wanted.swap(false, Ordering::AcqRel) && freeze_largest(&cores) {
        return true;
    }
    for core in &cores {
        if core.writer().log_bytes() > LOG_BYTES_MAX && freeze(core) {
            return true;
        }
    }
    cores.iter().any(|core| report(core, jobs::merge(core, jobs::merge_candidates)))
        || cores.iter().any(|core| report(core, jobs::pin(core)))
}

/// A failed job is shown in the collection's status and tried again when something else becomes due.
fn report(core: &Core, result: Result<bool>) -> bool {
    match result {
        Ok(did) => did,
        Err(e) => {
            if e.kind() != ErrorKind::WritesStopped {
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
    report(core, frozen.map(|()| true))
}

/// Someone waits for room: the collection that holds most gives it.
fn freeze_largest(cores: &[Arc<Core>]) -> bool {
    let largest = cores.iter().max_by_key(|core| core.writer().active.bytes());
    largest.is_some_and(|core| freeze(core))
}

/// Flushes the collection whose buffer holds most, on the caller's thread; false when no buffer holds anything.
pub fn make_room(shared: &Shared) -> Result<bool> {
    let cores = live(shared);
    if !cores.iter().any(|core| core.writer().frozen.is_some()) && !freeze_largest(&cores) {
        return Ok(false);
    }
    for core in cores.iter().filter(|core| core.writer().frozen.is_some()) {
        jobs::flush(core)?;
    }
    Ok(true)
}

/// Flushes and merges of one collection until none is due: what `wait_idle` does on the caller's thread.
pub fn settle(core: &Core) -> Result<()> {
    loop {
        if core.dropped.load(Ordering::Acquire) {
            return Err(Error::not_found("Not found: the collection was deleted"));
        }
        if core.writer().frozen.is_some() {
            jobs::flush(core)?;
        } else if !jobs::merge(core, jobs::merge_candidates)?
            && !jobs::merge(core, jobs::idle_candidates)?
            && !jobs::pin(core)?
        {
            return Ok(());
        }
    }
}
