//! Loads data into free RAM, the most useful first.

use std::sync::Arc;

use ramlet_io::IoContext;

use super::{begin_filling, replace_segment};
use crate::error::Result;
use crate::limits::FILL_SCRATCH;
use crate::memory::eviction::{Caches, EvictionRank, VectorRoom};
use crate::read::lookup::Lookup;
use crate::segment::{KeptWhole, ResidentFiles, Segment, SegmentView, VectorColumn};
use crate::state::core::Core;

/// What is taken into RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheFill {
    /// Codes without which searches read those of each cluster, or its rows.
    Needed,
    /// All that there is room for.
    All,
}

/// What one look finds to be taken into RAM.
struct FillCandidates {
    what: CacheFill,
    /// For vectors, with what makes way for them.
    room: VectorRoom,
    /// For files as a whole, with what makes way for them and the records of them.
    whole: u64,
    /// Files that are kept whole.
    kept: KeptWhole,
}

impl FillCandidates {
    /// Before the job that reads them begins: what it takes itself is no room. (A level that lacked no more than that was found again and again, and never
    /// came: two reads a search of 20,000 x 384 in 24 MB, for good.)
    fn ahead(core: &Core, what: CacheFill) -> FillCandidates {
        FillCandidates::of(core, what, FILL_SCRATCH)
    }

    /// For a job under way.
    fn now(core: &Core, what: CacheFill) -> FillCandidates {
        FillCandidates::of(core, what, 0)
    }

    fn of(core: &Core, what: CacheFill, scratch: u64) -> FillCandidates {
        let caches = &core.file_context.caches;
        FillCandidates {
            what,
            room: VectorRoom {
                caches: caches.clone(),
                for_writers: what == CacheFill::All,
                scratch,
            },
            whole: room_for_whole(caches).saturating_sub(scratch),
            kept: kept_in(core, &core.view.load().segments, scratch),
        }
    }

    fn wants(&self, column: &VectorColumn) -> bool {
        (self.what == CacheFill::All || column.is_bare())
            && (column.could_restore(&self.room) || self.improves(column).is_some())
    }

    /// What makes way for a better level of a vector, if there is room for one.
    fn improves(&self, column: &VectorColumn) -> Option<EvictionRank> {
        column.could_improve(&|rank| self.room.for_rank(rank))
    }

    fn fills(&self, segment: &Segment) -> bool {
        self.what == CacheFill::All && segment.could_fill(self.kept, self.whole)
    }

    /// Ids of a few bytes a row spare a read a hit, whatever else is there.
    fn takes_ids(&self, core: &Core, segment: &Segment) -> bool {
        self.what == CacheFill::All && segment.could_take_ids(&core.file_context)
    }

    fn any(&self, core: &Core) -> bool {
        let writer = core.writer();
        let due = |segment: &Segment| {
            let mut columns = segment.columns();
            self.takes_ids(core, segment) || self.fills(segment) || columns.any(|column| self.wants(column))
        };
        writer.segments.iter().any(|view| due(&view.segment))
    }
}

/// Notes which segments are of few rows beside a large one.
pub fn rank_small_segments(segments: &[SegmentView], caches: &Caches) {
    let largest = segments.iter().map(|view| view.segment.rows()).max().unwrap_or(0);
    segments
        .iter()
        .for_each(|view| view.segment.rank_beside(largest, caches));
}

/// Takes more of one vector of a segment into RAM that has become free; false when there is none to take, or no room.
pub fn fill_caches(core: &Core, what: CacheFill) -> Result<bool> {
    if !FillCandidates::ahead(core, what).any(core) {
        return Ok(false);
    }
    let mut arena = begin_filling(core)?;
    // Another job may have taken the room while this one waited.
    let due = FillCandidates::now(core, what);
    let (segments, schema) = {
        let writer = core.writer();
        (writer.segments.clone(), writer.schema.clone())
    };
    for view in &segments {
        let io = &mut arena.lookup.io;
        if due.takes_ids(core, &view.segment) && view.segment.take_ids(&core.file_context, io)? {
            return Ok(true);
        }
        for column in view.segment.columns().filter(|column| due.wants(column)) {
            let io = &mut arena.lookup.io;
            if column.restore(&due.room, io)? > 0 {
                return Ok(true);
            }
            if let Some(rank) = due.improves(column) {
                due.room.make(rank, due.room.caches.piece_bytes());
            }
            if let Some(better) = view
                .segment
                .with_more_of(column, &core.file_context, &schema, io)?
            {
                replace_segment(core, Arc::new(better));
                return Ok(true);
            }
        }
    }
    for view in segments.iter().filter(|view| due.fills(&view.segment)) {
        if fill(core, &view.segment, due.kept, &mut arena.lookup.io)? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether more would go to RAM than went by now.
pub fn lacks_ram(core: &Core) -> bool {
    FillCandidates::ahead(core, CacheFill::All).any(core)
}

/// Whether vectors would be served from RAM that lack room now, if somebody gave up so many bytes.
pub fn would_gain(core: &Core, bytes: u64) -> bool {
    let due = FillCandidates::ahead(core, CacheFill::All);
    let room = |rank| due.room.for_rank(rank) + bytes;
    let view = core.view.load();
    let mut columns = view.segments.iter().flat_map(|view| view.segment.columns());
    columns.any(|column| column.would_gain(&room))
}

/// What would spare reads in room that nobody else has use for.
enum Spare<'s> {
    Codes(&'s VectorColumn),
    /// Of a segment of which these files are kept whole.
    Payloads(&'s Segment, KeptWhole),
}

/// Whether there is something that would spare reads, and room for it.
pub fn would_save_reads(core: &Core) -> bool {
    spare_of(core, &core.writer().segments).is_some()
}

fn spare_of<'s>(core: &Core, segments: &'s [SegmentView]) -> Option<Spare<'s>> {
    let room = core.file_context.caches.room().saturating_sub(FILL_SCRATCH);
    let all = || segments.iter().map(|view| view.segment.as_ref());
    let mut columns = all().flat_map(Segment::columns);
    if let Some(column) = columns.find(|column| column.would_save_reads(room)) {
        return Some(Spare::Codes(column));
    }
    let kept = kept_in(core, segments, FILL_SCRATCH);
    let payloads = all().find(|segment| segment.would_save_reads(kept, room));
    payloads.map(|segment| Spare::Payloads(segment, kept))
}

/// Takes a piece of what would spare reads into RAM that nobody else has use for; false where there is none, or no room.
pub fn fill_spare(core: &Core) -> Result<bool> {
    let segments = core.writer().segments.clone();
    let Some(spare) = spare_of(core, &segments) else {
        return Ok(false);
    };
    let mut arena = begin_filling(core)?;
    let Lookup { io, buf, .. } = &mut arena.lookup;
    let came = match spare {
        Spare::Codes(column) => column.spare(io)?,
        Spare::Payloads(segment, kept) => segment.spare(kept, &core.file_context.caches, io, buf)?,
    };
    Ok(came > 0)
}

/// The files that may be in RAM as a whole, with their bytes, and how many bytes of all are there.
fn whole_files(segments: &[SegmentView]) -> (Vec<(ResidentFiles, u64)>, u64) {
    let files = segments.iter().flat_map(|view| view.segment.whole_files());
    let held = segments.iter().map(|view| view.segment.whole_bytes_resident());
    (files.collect(), held.sum())
}

/// Which of a collection's files are kept in RAM as a whole, with what is there for that.
pub(super) fn kept_whole(core: &Core, segments: &[SegmentView]) -> KeptWhole {
    kept_in(core, segments, 0)
}

/// The same where so many bytes will be taken first.
fn kept_in(core: &Core, segments: &[SegmentView], scratch: u64) -> KeptWhole {
    let (files, held) = whole_files(segments);
    let room = room_for_whole(&core.file_context.caches).saturating_sub(scratch);
    KeptWhole::of(files, room + held)
}

/// Room for files as a whole, if records make way for them.
fn room_for_whole(caches: &Caches) -> u64 {
    caches.room_with(caches.below(EvictionRank::Payloads) + caches.records.bytes())
}

/// Reads more of a segment's files into RAM, as far as there is room; how many bytes came. Records that are kept give way to the whole that they are of.
pub(super) fn fill(core: &Core, segment: &Segment, kept: KeptWhole, io: &mut IoContext) -> Result<u64> {
    let caches = &core.file_context.caches;
    segment.rank_payloads(kept, caches);
    let spare = caches.below(EvictionRank::Payloads);
    let lacking = caches.lacking(segment.missing(kept));
    if lacking > 0 {
        caches.evict_below(EvictionRank::Payloads, lacking);
        caches.records.cut(lacking.saturating_sub(spare));
    }
    segment.fill(kept, caches.room(), io)
}

/// Whether at least half of what may be in RAM of some segments is there.
pub(super) fn is_warm(segments: &[SegmentView]) -> bool {
    let (files, held) = whole_files(segments);
    held > 0 && 2 * held >= files.iter().map(|(_, bytes)| bytes).sum()
}
