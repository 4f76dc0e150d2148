//! Segments that another node built take the place of own ones.
//!
//! All nodes apply the same groups, so a change has the same number everywhere, and a row is known by its id and the number of the change that wrote it. A
//! row of an offered segment takes over where the own live row has both; that one is marked deleted. Every other row of it is deleted from the beginning. So
//! what is visible stays the same, whatever is offered, and however old: what was changed since, or isn't known here yet, stays as it is here. No clock, no
//! slot and no promise of the other node is needed for that.
//!
//! One change may write an id twice. Whether both are done is known of all changes but the last one, here and there: rows of that one take over only
//! where both nodes stand behind the same group.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use ramlet_format::Component;
use ramlet_format::manifest::{Manifest, SegmentEntry};

use super::cache_fill::{fill, is_warm, kept_whole};
use super::{Settings, begin_with, commit, flush_all};
use crate::error::{Error, ErrorKind, Result};
use crate::faults::mutants;
use crate::jobs::backoff::Job;
use crate::jobs::cancellation::{ROWS_BETWEEN_LOOKS, check_wanted};
use crate::limits::{DISK_FREE_MIN, JOB_SCRATCH_BASE};
use crate::read::lookup::Lookup;
use crate::recovery::manifest_store;
use crate::segment::deletes::DeleteSet;
use crate::segment::{Segment, SegmentView, read_deletes};
use crate::state::core::Core;
use crate::state::shared::JobArena;
use crate::types::PointId;
use crate::write::writer::Writer;

/// What a collection makes of segments that are offered to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Fits {
    /// These are better than what it has. Their files are to be brought.
    Wanted(Vec<SegmentEntry>),
    /// It has them, or as good ones.
    Nothing,
    /// They have changes that aren't here yet.
    Early,
    /// They can't be used here, and why.
    Never(String),
}

/// Rows that are looked up without the writer's lock while more than so many were deleted since the last look, so often at most.
const LATE_ROWS: u32 = 64;
const ROUNDS: u32 = 16;

/// What of a manifest's segments is of use here now.
pub fn fits(core: &Core, offered: &Manifest) -> Result<Fits> {
    core.check_not_dropped()?;
    let settings = settings_of(offered)?;
    let writer = core.writer();
    writer.check_writable()?;
    Ok(fits_writer(&writer, offered, &settings))
}

fn settings_of(offered: &Manifest) -> Result<Settings> {
    serde_json::from_value(offered.config.clone()).map_err(|e| Error::corrupt(format!("settings: {e}")))
}

fn fits_writer(writer: &Writer, offered: &Manifest, settings: &Settings) -> Fits {
    if writer.operation < settings.operation {
        return Fits::Early;
    }
    // Slots say which files belong to which name.
    if writer.config != settings.config || writer.slots != settings.slots {
        return Fits::Never("its settings were changed since, or here".to_owned());
    }
    let own = |entry: &SegmentEntry| writer.segments.iter().find(|view| view.segment.id() == entry.id);
    if let Some(entry) = offered
        .segments
        .iter()
        .find(|entry| own(entry).is_some_and(|view| !is_same(entry, &view.segment.entry)))
    {
        return Fits::Never(format!("segment {} is another one here", entry.id));
    }
    let entries = writer
        .segments
        .iter()
        .map(|view| (&view.segment.entry, view.live()));
    let (have, get) = (
        indexed(entries),
        indexed(offered.segments.iter().map(|entry| (entry, entry.live))),
    );
    if get <= have && offered.segments.len() >= writer.segments.len() {
        return Fits::Nothing;
    }
    let new = offered.segments.iter().filter(|entry| own(entry).is_none());
    let new: Vec<SegmentEntry> = new.filter(|entry| entry.live > 0).cloned().collect();
    match new.is_empty() {
        true => Fits::Nothing,
        false => Fits::Wanted(new),
    }
}

/// Whether two entries of one id are of one segment: its rows never change, its payload indexes and deletes do.
fn is_same(one: &SegmentEntry, other: &SegmentEntry) -> bool {
    let rows = |entry: &SegmentEntry| entry.file(Component::RowIds).map(|file| (file.bytes, file.crc));
    one.rows == other.rows && rows(one) == rows(other)
}

/// Vectors of live rows that an approximate index holds, about.
fn indexed<'a>(entries: impl Iterator<Item = (&'a SegmentEntry, u32)>) -> u64 {
    let is_index = |component| {
        matches!(
            component,
            Component::Centroids { .. } | Component::Graph { .. } | Component::Postings { .. }
        )
    };
    entries
        .map(|(entry, live)| {
            let indexes = entry.files.iter().filter(|file| is_index(file.component));
            indexes.count() as u64 * u64::from(live)
        })
        .sum()
}

/// Whether a manifest has anything that was built: an index, or segments that were merged.
pub fn is_built(offered: &Manifest) -> bool {
    offered.segments.len() > 1 || indexed(offered.segments.iter().map(|entry| (entry, entry.live))) > 0
}

/// Free disk that bringing them takes.
pub fn disk_needed(entries: &[SegmentEntry]) -> u64 {
    let files = entries.iter().flat_map(|entry| entry.all_files());
    files.map(|file| file.bytes).sum::<u64>() + DISK_FREE_MIN
}

/// Puts offered segments, whose files are in the collection's directory, in the place of own ones; false: none was of use by now.
pub fn adopt(core: &Core, offered: &Manifest) -> Result<bool> {
    let begun = core.shared.watch.now();
    let result = adopt_all(core, offered);
    if !matches!(result, Ok(false)) {
        let kind = Job::Adopt as usize;
        core.shared
            .watch
            .job_done(begun, kind, (&core.id, core.name()), result.is_err());
    }
    result
}

fn adopt_all(core: &Core, offered: &Manifest) -> Result<bool> {
    let settings = settings_of(offered)?;
    let is_ahead = {
        let writer = core.writer();
        writer.manifest.applied_lsn < offered.applied_lsn && !writer.active.is_empty()
    };
    if is_ahead {
        // Rows of the memtables are nobody's to take over.
        flush_all(core)?;
    }
    let wanted = core.view.load().points() * ROW_BYTES as u64 * 2;
    let mut arena = begin_with(core, wanted.saturating_add(JOB_SCRATCH_BASE))?;
    let (entries, own, last) = {
        let writer = core.writer();
        writer.check_writable()?;
        let Fits::Wanted(entries) = fits_writer(&writer, offered, &settings) else {
            return Ok(false);
        };
        let is_same_group = settings.whole_lsn > 0 && writer.whole_lsn() == settings.whole_lsn;
        // The first change whose rows don't take over.
        let last = settings.operation + u64::from(is_same_group);
        let last = if mutants::is("last-change-adopted") {
            u64::MAX
        } else {
            last
        };
        (entries, writer.segments.clone(), last)
    };
    let schema = core.view.load().schema.clone();
    let mut new = Vec::with_capacity(entries.len());
    for mut entry in entries {
        let gone = match entry.deletes.take() {
            Some(file) => DeleteSet::from_bitmap(&read_deletes(&core.file_context, &file, entry.rows)?),
            None => DeleteSet::default(),
        };
        let segment = Segment::open(entry, &core.file_context, &schema, &mut arena.lookup.io)?;
        new.push(SegmentView {
            segment: Arc::new(segment),
            deletes: gone,
        });
    }
    let mut taken = {
        let _merging = core.shared.merging();
        Taken::over(core, &mut arena, &own, &new, last)?
    };
    let kept = is_warm(&own).then(|| kept_whole(core, &own));
    if let Some(kept) = kept {
        for view in &new {
            fill(core, &view.segment, kept, &mut arena.lookup.io)?;
        }
    }
    for _ in 0..ROUNDS {
        let now = core.writer().segments.clone();
        if taken.follow(&now, &own, &new, &mut arena.lookup)? <= LATE_ROWS {
            break;
        }
    }
    let mut writer = core.writer();
    let now = writer.segments.clone();
    taken.follow(&now, &own, &new, &mut arena.lookup)?;
    let segments = taken.segments(&now, &own, &new)?;
    let Some(segments) = segments else {
        return Ok(false);
    };
    let highest = segments.iter().map(|view| view.segment.id()).max().unwrap_or(0);
    writer.manifest.next_segment = writer.manifest.next_segment.max(highest + 1);
    let applied_lsn = writer.manifest.applied_lsn;
    let (before, rows) = (now.len(), taken.rows());
    let after = segments.len();
    commit(core, &mut writer, segments, applied_lsn, None)?;
    core.publish(&writer);
    drop(writer);
    tracing::info!(collection = core.name(), directory = %core.id, rows, before, after, "segments of another node took over");
    drop((own, now, taken));
    if let Some(kept) = kept {
        for view in &new {
            fill(core, &view.segment, kept, &mut arena.lookup.io)?;
        }
    }
    Ok(true)
}

/// Removes files of offered segments that the collection doesn't list. Where it can't be told what it lists they stay: the next opening knows.
pub fn clean(core: &Core, entries: &[SegmentEntry]) {
    let writer = core.writer();
    if writer.stopped.is_some() || core.is_dropped() {
        return;
    }
    let storage = core.file_context.storage.as_ref();
    let there = storage.list().unwrap_or_default();
    let listed = writer.manifest.segments.iter().flat_map(manifest_store::files_of);
    let listed: BTreeSet<&str> = listed.collect();
    let names = entries.iter().flat_map(manifest_store::files_of);
    let gone = names.filter(|name| !listed.contains(name) && there.iter().any(|file| file == name));
    manifest_store::remove_quietly(storage, gone);
}

/// A row that may take over.
#[derive(Clone, Copy)]
struct Row {
    id: PointId,
    version: u64,
    segment: u32,
    row: u32,
}

const ROW_BYTES: usize = size_of::<Row>();

/// Which rows take over.
struct Taken {
    /// By own segment: rows that others stand for.
    covered: Vec<DeleteSet>,
    /// By own segment: its deletes as of the last look.
    seen: Vec<DeleteSet>,
    /// By new segment: rows that are deleted from the beginning.
    deleted: Vec<DeleteSet>,
}

impl Taken {
    /// Compares all rows, as many at once as the job has memory for.
    fn over(
        core: &Core,
        arena: &mut JobArena,
        own: &[SegmentView],
        new: &[SegmentView],
        last: u64,
    ) -> Result<Taken> {
        let rows: u64 = new.iter().map(|view| u64::from(view.live())).sum();
        // Two bits a row of each side beside the rows that are compared.
        let bits = |views: &[SegmentView]| {
            views
                .iter()
                .map(|view| u64::from(view.segment.rows()))
                .sum::<u64>()
                / 4
        };
        let room = (arena.scratch_bytes as u64).saturating_sub(bits(own) + bits(new));
        let most = room / ROW_BYTES as u64;
        if most * PARTS_MAX < rows {
            return Err(Error::new(
                ErrorKind::OverBudget,
                format!("{rows} rows of another node can't be compared in {room} bytes of memory"),
            ));
        }
        let parts = rows.div_ceil(most.max(1)).max(1);
        let none = |views: &[SegmentView]| vec![DeleteSet::default(); views.len()];
        let (mut covered, mut live) = (none(own), none(new));
        // Ids aren't spread evenly: one part more takes what a part has beyond its share.
        let mut table: Vec<Row> = Vec::with_capacity(rows.min(most) as usize);
        let parts = if parts > 1 { parts + parts / 8 + 1 } else { 1 };
        let mut is_full = false;
        for part in 0..parts {
            table.clear();
            for (at, view) in new.iter().enumerate() {
                each_row(core, arena, view, &mut |row, id, version| {
                    if version < last && part_of(id, parts) == part {
                        let segment = at as u32;
                        is_full |= table.len() == table.capacity();
                        if !is_full {
                            table.push(Row {
                                id,
                                version,
                                segment,
                                row,
                            });
                        }
                    }
                })?;
            }
            if is_full {
                return Err(Error::new(
                    ErrorKind::OverBudget,
                    "ids of another node's rows can't be divided evenly",
                ));
            }
            table.sort_unstable_by_key(|row| (row.id, row.version));
            for (at, view) in own.iter().enumerate() {
                each_row(core, arena, view, &mut |row, id, version| {
                    let version = if mutants::is("versions-not-compared") {
                        None
                    } else {
                        Some(version)
                    };
                    let found = table.binary_search_by(|other| {
                        let by_id = other.id.cmp(&id);
                        by_id.then_with(|| {
                            version.map_or(Ordering::Equal, |version| other.version.cmp(&version))
                        })
                    });
                    if let Ok(place) = found {
                        let other = table[place];
                        if live[other.segment as usize].insert(other.row) {
                            covered[at].insert(row);
                        }
                    }
                })?;
            }
        }
        let deleted = live.iter().zip(new).map(|(live, view)| {
            let mut deleted = DeleteSet::default();
            for row in (0..view.segment.rows()).filter(|row| !live.contains(*row)) {
                deleted.insert(row);
            }
            deleted
        });
        Ok(Taken {
            deleted: deleted.collect(),
            covered,
            seen: own.iter().map(|view| view.deletes.clone()).collect(),
        })
    }

    fn rows(&self) -> u64 {
        self.covered.iter().map(|rows| u64::from(rows.len())).sum()
    }

    /// Own rows that were deleted since the last look are deleted in what stands for them too; how many there were.
    fn follow(
        &mut self,
        now: &[SegmentView],
        own: &[SegmentView],
        new: &[SegmentView],
        lookup: &mut Lookup,
    ) -> Result<u32> {
        let mut late = 0;
        if mutants::is("late-deletes-forgotten") {
            return Ok(late);
        }
        for (at, before) in own.iter().enumerate() {
            let view = find(now, before)?;
            if view.deletes.same(&self.seen[at]) {
                continue;
            }
            for row in view.deletes.iter() {
                if self.seen[at].contains(row) || !self.covered[at].contains(row) {
                    continue;
                }
                late += 1;
                let (id, _) = before.segment.row_id(row, &mut lookup.io, &mut lookup.buf)?;
                for (other, deleted) in new.iter().zip(&mut self.deleted) {
                    if let Some(row) = other.segment.find(id, &mut lookup.io, &mut lookup.buf)? {
                        deleted.insert(row);
                    }
                }
            }
            self.seen[at] = view.deletes.clone();
        }
        Ok(late)
    }

    /// The segments from now on; `None`: nothing takes over.
    fn segments(
        &self,
        now: &[SegmentView],
        own: &[SegmentView],
        new: &[SegmentView],
    ) -> Result<Option<Vec<SegmentView>>> {
        let live = |view: &SegmentView| view.live() > 0;
        let new = new.iter().zip(&self.deleted).map(|(view, deleted)| SegmentView {
            segment: view.segment.clone(),
            deletes: deleted.clone(),
        });
        let new: Vec<SegmentView> = new.filter(live).collect();
        if new.is_empty() {
            return Ok(None);
        }
        let mut segments = Vec::with_capacity(now.len() + new.len());
        for view in now {
            let at = own
                .iter()
                .position(|before| before.segment.id() == view.segment.id());
            let mut view = view.clone();
            if let Some(at) = at {
                for row in self.covered[at].iter() {
                    view.deletes.insert(row);
                }
            }
            segments.push(view);
        }
        segments.retain(live);
        segments.extend(new);
        Ok(Some(segments))
    }
}

/// Row by row in the order of the rows, but for deleted ones. Memtables may be flushed in between.
fn each_row(
    core: &Core,
    arena: &mut JobArena,
    view: &SegmentView,
    each: &mut dyn FnMut(u32, PointId, u64),
) -> Result<()> {
    view.segment
        .for_each_id(&mut arena.lookup.io, &mut |row, id, version| {
            if row % ROWS_BETWEEN_LOOKS == 0 {
                check_wanted(core)?;
                core.shared.flush_awaited();
            }
            if !view.deletes.contains(row) {
                each(row, id, version);
            }
            Ok(())
        })
}

/// Rows are compared in so many parts at most: each reads all ids again.
const PARTS_MAX: u64 = 256;

fn part_of(id: PointId, parts: u64) -> u64 {
    let bits = match id {
        PointId::Num(number) => number,
        PointId::Uuid(uuid) => (uuid >> 64) as u64 ^ uuid as u64,
    };
    ((u128::from(bits.wrapping_mul(0x9E37_79B9_7F4A_7C15)) * u128::from(parts)) >> 64) as u64
}

fn find<'a>(now: &'a [SegmentView], own: &SegmentView) -> Result<&'a SegmentView> {
    let same = now.iter().find(|view| view.segment.id() == own.segment.id());
    same.ok_or_else(|| Error::new(ErrorKind::Busy, "a segment was merged meanwhile"))
}
