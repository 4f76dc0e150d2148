//! Flushes in the middle of a merge.
//!
//! A merge of large segments takes seconds, in which the memtables fill, and whoever writes would wait for its end. Instead its own thread flushes
//! what waits, between two pieces that it reads or writes. So there is still one job at a time, and nothing is locked that wasn't. Such a flush
//! builds no index of vectors: it is to be short, and the temporary files of index builds have names that the merge uses too. The next merge builds
//! one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ramlet_io::IoContext;
use ramlet_memory::Reservation;

use crate::error::Result;
use crate::jobs::backoff::Job;
use crate::jobs::{flush_with, is_crowded, maintenance};
use crate::limits::{BACKGROUND_READS, JOB_SCRATCH_MIN};
use crate::read::lookup::Lookup;
use crate::segment::IndexingThreshold;
use crate::state::core::Core;
use crate::state::shared::{JobArena, MergeFlush, Shared};
use crate::write::writer::Writer;

/// Flushes one memtable if a write waits for room. For the thread of a merge, while it holds no lock but that of jobs.
pub fn flush_awaited(shared: &Shared) {
    // Held: this is a flush itself.
    let Ok(mut own) = shared.merge_flush.try_lock() else {
        return;
    };
    if own.is_off || !shared.room_wanted.swap(false, Ordering::AcqRel) {
        return;
    }
    let cores: Vec<Arc<Core>> = maintenance::live(shared).collect();
    let mut flush_any = || cores.iter().any(|core| flush(core, &mut own));
    let is_done = flush_any() || (maintenance::freeze_largest(&cores) && flush_any());
    if !is_done {
        // Not tried again in this merge.
        own.is_off = true;
        shared.want_room();
    }
}

/// False where there is nothing to flush, or not in this way. What fails is told by the flush that comes after the merge.
fn flush(core: &Core, own: &mut MergeFlush) -> bool {
    if !is_short_to_flush(core, &core.writer()) {
        return false;
    }
    let begun = core.shared.watch.now();
    let flushed = core.guarded(|| {
        let (arena, _held) = arena_of(own, core)?;
        let flushed = flush_with(core, arena, Some(IndexingThreshold::Never));
        arena.put_back();
        flushed
    });
    core.flushed.notify_all();
    if let Err(error) = flushed {
        tracing::debug!(collection = core.name(), directory = %core.id, %error, "a memtable waits for the end of a merge");
        return false;
    }
    core.backoff.note(Job::Flush, &Ok(true));
    core.shared.note_flush(&core.id, &Ok(()));
    let kind = Job::Flush as usize;
    core.shared
        .watch
        .job_done(begun, kind, (&core.id, core.name()), false);
    true
}

/// Whether there is a memtable whose segment needs neither memory for words or tenants nor a merge before it.
fn is_short_to_flush(core: &Core, writer: &Writer) -> bool {
    let has_texts = writer.schema.fields.iter().any(|field| field.text.is_some());
    writer.frozen.is_some() && !has_texts && writer.schema.tenants().is_none() && !is_crowded(core, writer)
}

/// An arena, and what its job may use of the memory.
fn arena_of<'a>(own: &'a mut MergeFlush, core: &Core) -> Result<(&'a mut JobArena, Reservation)> {
    if own.arena.is_none() {
        let reader = core.file_context.storage.reader(BACKGROUND_READS)?;
        let lookup = Lookup::without_index(IoContext::new(reader), &own.lookups)?;
        own.arena = Some(JobArena::within_merge(lookup, &own.scratch));
    }
    let arena = own.arena.as_mut().expect("made above");
    let held = arena.take(JOB_SCRATCH_MIN)?;
    Ok((arena, held))
}
