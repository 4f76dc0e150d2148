//! Merges: choosing segments, checking the disk space, and merging.

use ramlet_memory::{size, size_up};
use std::cell::Cell;

use ramlet_format::component::Component;

use super::cache_fill::{fill, is_warm, kept_whole};
use super::compared;
use super::{
    Wanted, begin_writing, build_segment, bytes_of, carry, commit, commit_built, indexing_threshold,
    is_crowded, take_segment_id,
};
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::backoff::Job;
use crate::jobs::progress::JobKind;
use crate::limits::{
    DISK_FREE_MIN, EARLY_INDEX_MEMTABLE_ROWS, EARLY_INDEX_ROWS, IDLE_MERGE_SHARE, MERGE_COST,
    MERGE_COST_OF_GRAPH, MERGE_FANIN, MERGE_FREE_MIN, REWRITE_DELETED_SHARE, REWRITE_ROWS_MIN,
    SEGMENTS_WAITING_MAX,
};
use crate::memory::descriptors;
use crate::recovery::manifest_store;
use crate::schema::VectorField;
use crate::segment::deletes::DeleteSet;
use crate::segment::{
    IndexingThreshold, Merged, Numbers, RowSource, Segment, SegmentView, VectorColumn, becomes_graph,
    refused_index,
};
use crate::state::core::Core;
use crate::state::shared::JobArena;
use crate::write::writer::Writer;

/// Of rows for which searches have paid an index, or that had one.
const ANY_ROWS: IndexingThreshold = IndexingThreshold::Kb(1);

/// Whether segments ever get an index.
fn may_index(writer: &Writer) -> bool {
    indexing_threshold(&writer.config) != IndexingThreshold::Never
}

/// Tells how many bytes may be cached of so many rows of a vector that are all compared.
type Room<'a> = &'a dyn Fn(&VectorField, u64) -> u64;

/// Tells which segments may be merged: where one isn't to be had, the next is asked about.
type May<'a> = &'a dyn Fn(&[SegmentView]) -> bool;

/// Segments that are worth merging now: one with many deletes, or some of about the same size.
fn merge_candidates(core: &Core, writer: &Writer, may: May<'_>) -> Vec<SegmentView> {
    let segments = &writer.segments;
    let reasons: [&dyn Fn(&SegmentView) -> bool; 4] = [
        &is_wasteful,
        &|view| needs_index(core, writer, view),
        &|view| has_other_codes(writer, view),
        &|view| fits_another_budget(core, writer, view),
    ];
    for reason in reasons {
        let mut due = segments.iter().filter(|view| reason(view));
        if let Some(view) = due.find(|view| may(std::slice::from_ref(view))) {
            return vec![view.clone()];
        }
    }
    // Tiers by powers of the fan-in: each row is rewritten once per tier.
    let tier = |view: &SegmentView| view.live().max(1).ilog(MERGE_FANIN as u32);
    let mut tiers: Vec<u32> = segments.iter().map(tier).collect();
    tiers.sort_unstable();
    let crowded = tiers
        .chunk_by(|a, b| a == b)
        .filter(|same| same.len() >= MERGE_FANIN);
    let members = |same: &[u32]| -> Vec<SegmentView> {
        let views = segments.iter().filter(|view| tier(view) == same[0]);
        let views = views.filter(|view| !has_index_beside_graphs(core, writer, view));
        views.take(2 * MERGE_FANIN).cloned().collect()
    };
    let mut merges = crowded.map(members);
    merges
        .find(|views| views.len() >= MERGE_FANIN && !becomes_graph_unasked(core, writer, views) && may(views))
        .unwrap_or_default()
}

/// Whether a segment is worth writing anew for its deletes alone.
fn is_wasteful(view: &SegmentView) -> bool {
    let (rows, gone) = (view.segment.rows(), view.deletes.len());
    rows >= REWRITE_ROWS_MIN && f64::from(gone) > f64::from(rows) * REWRITE_DELETED_SHARE
}

fn is_dead(view: &SegmentView) -> bool {
    view.live() == 0
}

/// Whether the merged rows would get a graph that nobody asked for: they have clusters as they are, and building a graph takes
/// ten times as long, for which whoever writes waits once the memtables are full. It is built when nothing else is to do.
fn becomes_graph_unasked(core: &Core, writer: &Writer, views: &[SegmentView]) -> bool {
    let rows = views.iter().map(|view| view.live()).fold(0, u32::saturating_add);
    let mut vectors = writer.schema.vectors.iter();
    may_index(writer) && vectors.any(|vector| becomes_graph(vector, rows, &core.file_context) == Some(false))
}

/// Whether a segment has an index of a vector for which a graph was asked. Merged with others, while there is more to do, rows
/// are left without until there is time for a graph of all.
fn has_index_beside_graphs(core: &Core, writer: &Writer, view: &SegmentView) -> bool {
    writer.schema.vectors.iter().any(|vector| {
        becomes_graph(vector, view.live(), &core.file_context) == Some(true)
            && view
                .segment
                .vector(vector.slot)
                .is_some_and(|column| column.index.kind() != "flat")
    })
}

/// Whether a vector of a segment is searched flat though the settings, which may have changed since it was built, want an
/// index for it. Counts no row that a rewrite would not: else it would be rewritten for ever.
fn lacks_index(
    writer: &Writer,
    (core, view): (&Core, &SegmentView),
    vector: &VectorField,
    room: Room<'_>,
) -> bool {
    would_be_indexed(core, view, vector, (indexing_threshold(&writer.config), room))
}

/// Whether a vector that is searched flat would get an index with such a threshold.
fn would_be_indexed(
    core: &Core,
    view: &SegmentView,
    vector: &VectorField,
    (threshold, room): (IndexingThreshold, Room<'_>),
) -> bool {
    let rows = view.flat_rows(vector.slot);
    threshold.wants(vector, rows, &|| room(vector, rows)) && !is_refused(core, view, vector.slot)
}

/// Whether an index was refused for want of memory that isn't there now either, or was tried again in vain.
fn is_refused(core: &Core, view: &SegmentView, slot: u16) -> bool {
    let refused = refused_index(&view.segment.entry, slot);
    refused.is_some_and(|lack| {
        !lack.has_passed(&core.file_context)
            || view.segment.rebuild_was_refused()
            || core.backoff.is_in_backoff(Job::Index)
    })
}

/// Whether a segment lacks an index that can't wait: clusters, or a graph once searches have spent on the rows what it costs.
fn needs_index(core: &Core, writer: &Writer, view: &SegmentView) -> bool {
    // Whatever others want: segments become one, and are judged then.
    let most = compared::most(core);
    let is_paid = || view.segment.spent() >= u64::from(view.live()).saturating_mul(MERGE_COST_OF_GRAPH);
    writer.schema.vectors.iter().any(|vector| {
        lacks_index(writer, (core, view), vector, &|_, _| most)
            && (becomes_graph(vector, view.live(), &core.file_context).is_none() || is_paid())
    })
}

/// Whether a segment lacks an index, whatever kind it is of.
fn lacks_any_index(core: &Core, writer: &Writer, view: &SegmentView) -> bool {
    let mut vectors = writer.schema.vectors.iter();
    vectors.any(|vector| {
        lacks_index(writer, (core, view), vector, &|vector, rows| {
            compared::room_for(core, vector, rows)
        })
    })
}

/// Whether `quantization_config` has changed since a segment was built. Written anew it has the codes asked for, or no clusters.
fn has_other_codes(writer: &Writer, view: &SegmentView) -> bool {
    writer.schema.vectors.iter().any(|vector| {
        let column = view.segment.vector(vector.slot);
        column.is_some_and(|column| column.has_other_codes(vector))
    })
}

/// Whether a segment's codes were made for another budget: in this one they don't fit, or larger ones would.
fn fits_another_budget(core: &Core, writer: &Writer, view: &SegmentView) -> bool {
    let most = compared::most(core);
    let all = || core.view.load().points();
    may_index(writer)
        && !view.segment.rebuild_was_refused()
        && !core.backoff.is_in_backoff(Job::Index)
        && writer.schema.vectors.iter().any(|vector| {
            let column = view.segment.vector(vector.slot);
            column.is_some_and(|column| column.was_built_for_another_budget(vector, all(), most))
        })
}

/// Whether a segment was written before there was an index of tenants, so that their rows lie wherever they came.
fn lacks_tenants_order(core: &Core, writer: &Writer, view: &SegmentView) -> bool {
    writer.schema.tenants().is_some()
        && !view.segment.rebuild_was_refused()
        && !core.backoff.is_in_backoff(Job::Index)
        && core.file_context.spare_bytes() >= Numbers::bytes(view.live())
        && view.segment.columns().any(lacks_rows_by_number)
}

/// Whether vectors lie in the order of their index alone.
fn lacks_rows_by_number(column: &VectorColumn) -> bool {
    matches!(column.index.kind(), "ivf" | "hnsw") && !column.is_by_row()
}

/// Segments to merge when nothing else is to do, so that searches look at few of them: all, or the small ones alone
/// where one holds nearly everything; of these only some as long as more come. The last small one joins the large once searches
/// have spent on it what that costs; those without an index get one before, once they have spent what this costs. Rows that waited
/// for a graph get it.
fn idle_candidates(core: &Core, writer: &Writer, moment: Moment) -> Vec<SegmentView> {
    let segments = &writer.segments;
    let rows = |view: &SegmentView| u64::from(view.live());
    let Some(largest) = segments.iter().max_by_key(|view| rows(view)) else {
        return Vec::new();
    };
    let others: Vec<SegmentView> = segments
        .iter()
        .filter(|view| view.segment.id() != largest.segment.id())
        .cloned()
        .collect();
    let small: u64 = others.iter().map(rows).sum();
    if (small as f64) >= rows(largest) as f64 * IDLE_MERGE_SHARE || lacks_any_index(core, writer, largest) {
        return segments.to_vec();
    }
    let group = match moment {
        Moment::Idle => others.clone(),
        _ => of_like_size(&others),
    };
    if group.len() > 1 {
        return group;
    }
    let alone = |is_due: &dyn Fn(&SegmentView) -> bool| others.iter().find(|view| is_due(view)).cloned();
    if let Some(other) = alone(&|view| lacks_any_index(core, writer, view)) {
        return vec![other];
    }
    let spent: u64 = others.iter().map(|view| view.segment.spent()).sum();
    if !others.is_empty() && spent >= (rows(largest) + small).saturating_mul(merge_cost_beside(largest)) {
        return segments.to_vec();
    }
    let unordered = || {
        segments
            .iter()
            .find(|view| lacks_tenants_order(core, writer, view))
    };
    if let (Moment::Idle, Some(view)) = (moment, unordered()) {
        return vec![view.clone()];
    }
    let earner = alone(&|view| earns_an_index(core, writer, std::slice::from_ref(view)));
    earner.filter(|_| has_index(segments)).into_iter().collect()
}

/// Segments to merge before the next one comes: the open files of so many would take the memory that segments are read by. Some of
/// like size, so that rows aren't written anew each time; else the two smallest.
fn crowding_candidates(core: &Core, writer: &Writer) -> Vec<SegmentView> {
    let has_too_many = core.builds_elsewhere() && writer.segments.len() >= SEGMENTS_WAITING_MAX;
    match has_too_many || is_crowded(core, writer) {
        true => smallest(&writer.segments, 2),
        false => Vec::new(),
    }
}

/// The smallest segments, with each next one that has at most twice the rows of those before it together: so no row is written
/// anew more often than the logarithm of their number, and no more segments are left.
fn of_like_size(views: &[SegmentView]) -> Vec<SegmentView> {
    smallest(views, 1)
}

/// The same, but so many at least.
fn smallest(views: &[SegmentView], least: usize) -> Vec<SegmentView> {
    let mut views = views.to_vec();
    views.sort_by_key(SegmentView::live);
    let (mut rows, mut count) = (0, 0);
    for view in &views {
        let live = u64::from(view.live());
        if count >= least && live > 2 * rows {
            break;
        }
        rows += live;
        count += 1;
    }
    views.truncate(count);
    views
}

/// What searches spend on each row before it is written anew for them, with the index that a segment has.
fn merge_cost_beside(view: &SegmentView) -> u64 {
    let mut columns = view.segment.columns();
    match columns.any(|column| column.index.kind() == "hnsw") {
        true => MERGE_COST_OF_GRAPH,
        false => MERGE_COST,
    }
}

/// Whether searches have spent as much on segments, too small for an index by the threshold, as building one takes.
fn earns_an_index(core: &Core, writer: &Writer, views: &[SegmentView]) -> bool {
    let rows = views.iter().map(|view| u64::from(view.live())).sum();
    let spent = views.iter().map(|view| view.segment.spent()).sum();
    rows >= EARLY_INDEX_ROWS
        && index_is_amortised(writer, rows, spent)
        && views.iter().any(|view| {
            let mut vectors = writer.schema.vectors.iter();
            vectors.any(|vector| would_be_indexed(core, view, vector, (ANY_ROWS, &|_, _| u64::MAX)))
        })
}

/// Whether so much, spent on so many rows, is what an index for them takes. Without indexes, as with a threshold of 0, nothing is.
fn index_is_amortised(writer: &Writer, rows: u64, spent: u64) -> bool {
    may_index(writer) && spent >= rows * MERGE_COST
}

/// Whether searches have spent as much on the rows of the memtable as it takes to give them an index, with the small
/// segments that they are merged with, or to write the largest anew with all of them. Where nothing has an index they are best
/// compared where they are.
pub fn memtable_index_is_amortised(writer: &Writer) -> bool {
    let rows = |view: &SegmentView| u64::from(view.live());
    let Some(largest) = writer.segments.iter().max_by_key(|view| rows(view)) else {
        return false;
    };
    let (in_memtable, spent) = (u64::from(writer.active.live()), writer.active.memtable.spent());
    let all = in_memtable + writer.segments.iter().map(rows).sum::<u64>();
    let beside = all - rows(largest);
    let pays = || beside >= EARLY_INDEX_MEMTABLE_ROWS && index_is_amortised(writer, beside, spent);
    let full_merge_is_amortised =
        || may_index(writer) && spent >= all.saturating_mul(merge_cost_beside(largest));
    in_memtable > 0 && has_index(&writer.segments) && (pays() || full_merge_is_amortised())
}

/// Whether the largest of the segments has an index for its vectors.
fn has_index(segments: &[SegmentView]) -> bool {
    segments
        .iter()
        .max_by_key(|view| view.live())
        .is_some_and(is_indexed)
}

fn is_indexed(view: &SegmentView) -> bool {
    view.segment.indexed_vectors() > 0
}

/// What merges are chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A flush or a payload index is next, and memory for open files short.
    Crowded,
    /// Something else may be due the next moment.
    Busy,
    /// Nothing is due, but there are changes now and then.
    Light,
    /// Nothing changes.
    Idle,
}

/// Whether segments of some collection are written anew just now, or will be: they may be fewer then, and take less memory. Merges that failed and rest
/// promise nothing.
pub fn merges_may_free_memory(core: &Core) -> bool {
    core.shared.live_collections().iter().any(|core| {
        let is_due = || {
            let writer = core.writer();
            [Moment::Busy, Moment::Idle]
                .iter()
                .any(|moment| !candidates(core, &writer, *moment).is_empty())
        };
        core.progress.job().is_some()
            || !core.builds_elsewhere()
                && !core.is_dropped()
                && !core.backoff.is_in_backoff(Job::Merge)
                && is_due()
    })
}

/// Segments that are worth merging into one at such a moment, or have no row any more.
pub fn candidates(core: &Core, writer: &Writer, moment: Moment) -> Vec<SegmentView> {
    let dead: Vec<SegmentView> = writer
        .segments
        .iter()
        .filter(|view| is_dead(view))
        .cloned()
        .collect();
    match dead.is_empty() {
        true => chosen(core, writer, moment, &|_| true),
        false => dead,
    }
}

fn chosen(core: &Core, writer: &Writer, moment: Moment, may: May<'_>) -> Vec<SegmentView> {
    match moment {
        Moment::Crowded => possible(crowding_candidates(core, writer), may),
        Moment::Busy => merge_candidates(core, writer, may),
        Moment::Light | Moment::Idle => possible(idle_candidates(core, writer, moment), may),
    }
}

fn possible(views: Vec<SegmentView>, may: May<'_>) -> Vec<SegmentView> {
    if may(&views) { views } else { Vec::new() }
}

/// Those of the candidates that the disk has room for, with what is made of them. `DiskFull` when there are some and it has
/// room for none.
fn affordable(core: &Core, writer: &Writer, moment: Moment) -> Result<Vec<SegmentView>> {
    if chosen(core, writer, moment, &|_| true).is_empty() {
        return Ok(Vec::new());
    }
    let free = core.file_context.storage.free_bytes()?;
    // What is too large is noted while it is chosen: memory that comes and goes decides which segments lack an index, so a
    // second choice may find none for another reason than the disk.
    let too_large = Cell::new(None);
    let fits = |views: &[SegmentView]| {
        let needed = disk_needed(views) + copies_needed(writer, views);
        if needed > free {
            too_large.set(too_large.get().or(Some(needed)));
        }
        needed <= free
    };
    let views = chosen(core, writer, moment, &fits);
    if let (true, Some(needed)) = (views.is_empty(), too_large.get()) {
        let what = format!(
            "merging segments needs {} of free disk, but {} are free: delete data or enlarge the disk",
            size_up(needed),
            size(free)
        );
        return Err(Error::new(ErrorKind::DiskFull, what));
    }
    Ok(views)
}

/// Free disk that a merge is begun with: its sources are there until it is done.
fn disk_needed(sources: &[SegmentView]) -> u64 {
    let each = sources
        .iter()
        .map(|view| (view.segment.disk_bytes(), view.segment.rows(), view.live()));
    disk_needed_for(each)
}

/// The same for vectors that are written by row beside an index for the first time.
fn copies_needed(writer: &Writer, sources: &[SegmentView]) -> u64 {
    let vectors = |view: &SegmentView| -> u64 {
        let columns = view
            .segment
            .columns()
            .filter(|column| lacks_rows_by_number(column));
        let bytes = |slot| {
            view.segment
                .entry
                .file(Component::Vector { slot })
                .map_or(0, |file| file.bytes)
        };
        columns.map(|column| bytes(column.slot)).sum()
    };
    match writer.schema.tenants() {
        Some(_) => sources.iter().map(vectors).sum(),
        None => 0,
    }
}

/// Free disk for sources of so many bytes, rows, and live rows. One that gives back more than it writes may take what else is
/// kept free: it is the way back to a disk with room.
fn disk_needed_for(sources: impl Iterator<Item = (u64, u32, u32)>) -> u64 {
    let (mut taken, mut live_bytes) = (0, 0);
    for (bytes, rows, live) in sources {
        taken += bytes;
        let share = u128::from(bytes) * u128::from(live) / u128::from(rows.max(1));
        live_bytes += share as u64;
    }
    // Half as much again for scratch files and codes that it didn't have, and what small files are rounded up by.
    let written = live_bytes + live_bytes / 2 + MERGE_ROUNDING;
    match written < taken {
        true => written + MERGE_FREE_MIN,
        false => taken + DISK_FREE_MIN,
    }
}

/// What the files of a small segment take beyond their share of a larger one's.
const MERGE_ROUNDING: u64 = 1 << 20;

/// Drops segments without a row; false when there is none. It takes no disk but for the manifest, and no memory.
pub fn clear_dead(core: &Core) -> Result<bool> {
    if !core.writer().segments.iter().any(is_dead) {
        return Ok(false);
    }
    let result = clear_dead_with(core);
    core.backoff.note(Job::Clear, &result);
    result
}

fn clear_dead_with(core: &Core) -> Result<bool> {
    let _job = core.shared.job();
    core.check_not_dropped()?;
    let mut writer = core.writer();
    let left = writer.segments.iter().filter(|view| !is_dead(view));
    let left: Vec<SegmentView> = left.cloned().collect();
    if left.len() == writer.segments.len() {
        return Ok(false);
    }
    let applied_lsn = writer.manifest.applied_lsn;
    commit(core, &mut writer, left, applied_lsn, None)?;
    core.publish(&writer);
    Ok(true)
}

/// Merges small segments until one more file for each finds room, and what is merged next beside them.
pub fn make_room_for_files(core: &Core) -> Result<()> {
    while merge(core, Moment::Crowded)? {}
    core.file_context
        .check_room(descriptors::of_flat_segment(&core.view.load().schema) + 1)
}

/// Merges what is worth it; false when nothing is. Where another node builds, only what is crowded.
pub fn merge(core: &Core, moment: Moment) -> Result<bool> {
    if core.builds_elsewhere() && moment != Moment::Crowded {
        return Ok(false);
    }
    let result = merge_live(core, moment);
    core.backoff.note(Job::Merge, &result);
    if matches!(result, Ok(false)) && core.backoff.is_full(Job::Merge) && has_nothing_to_merge(core) {
        // What the disk had no room for was deleted meanwhile.
        core.backoff.forget(Job::Merge);
    }
    result
}

fn has_nothing_to_merge(core: &Core) -> bool {
    let writer = core.writer();
    let mut moments = [Moment::Busy, Moment::Idle].into_iter();
    moments.all(|moment| candidates(core, &writer, moment).is_empty())
}

fn merge_live(core: &Core, moment: Moment) -> Result<bool> {
    let sources = affordable(core, &core.writer(), moment)?;
    if sources.is_empty() {
        return Ok(false);
    }
    // What is merged is chosen again once no other job runs.
    let bytes = bytes_of(&sources);
    drop(sources);
    let mut arena = begin_writing(core, bytes)?;
    merge_with(core, &mut arena, moment)
}

fn merge_with(core: &Core, arena: &mut JobArena, moment: Moment) -> Result<bool> {
    let (sources, id, schema, threshold, (on_trial, graphs), kind) = {
        let mut writer = core.writer();
        writer.check_writable()?;
        let sources = affordable(core, &writer, moment)?;
        if sources.is_empty() {
            return Ok(false);
        }
        let threshold = match &sources[..] {
            some if core.builds_elsewhere() && !some.iter().any(is_indexed) => IndexingThreshold::Never,
            some if has_index(&writer.segments) && earns_an_index(core, &writer, some) => ANY_ROWS,
            // With more rows they have no less use for one.
            some if may_index(&writer) && some.iter().any(is_indexed) => ANY_ROWS,
            _ => indexing_threshold(&writer.config),
        };
        // What comes of it may be worse than what is there, or no better.
        let on_trial = match &sources[..] {
            [one] => {
                !has_other_codes(&writer, one) && fits_another_budget(core, &writer, one)
                    || was_refused(&one.segment)
                    || lacks_tenants_order(core, &writer, one)
            }
            _ => false,
        };
        // Some segments of a size are merged without; one alone is written anew to get what it lacks, or keeps what it has.
        let graphs = match &sources[..] {
            _ if matches!(moment, Moment::Light | Moment::Idle) => true,
            [one] => needs_index(core, &writer, one) || has_index_beside_graphs(core, &writer, one),
            _ => false,
        };
        let kind = match &sources[..] {
            [one] if lacks_any_index(core, &writer, one) || threshold == ANY_ROWS => JobKind::Index,
            [_] => JobKind::Rewrite,
            _ => JobKind::Merge,
        };
        let id = take_segment_id(core, &mut writer);
        (
            sources,
            id,
            writer.schema.clone(),
            threshold,
            (on_trial, graphs),
            kind,
        )
    };
    let rows = Merged(&sources).rows();
    let shown = |view: &SegmentView| (view.segment.id(), u64::from(view.live()));
    tracing::info!(collection = core.name(), directory = %core.id, segments = sources.len(), rows, kind = ?kind, "a job begins: segments are rewritten");
    let progress = core.progress.begin(id, kind, sources.iter().map(shown).collect());
    let merged = match rows {
        0 => None,
        _ => {
            let wanted = Wanted {
                schema: &schema,
                threshold,
                compared: &|vector| match moment {
                    Moment::Light | Moment::Idle => compared::room(core, vector),
                    _ => compared::most(core),
                },
                graphs,
            };
            let _merging = core.shared.merging();
            Some(build_segment(core, arena, id, &Merged(&sources), wanted)?)
        }
    };
    drop(progress);
    let (merged, mut numbers) = merged.map_or((None, None), |(segment, numbers)| (Some(segment), numbers));
    if let (true, Some(segment), [source]) = (on_trial, &merged, &sources[..])
        && lacks_what_was_tried(segment, &source.segment)
    {
        match lacks_for_a_moment(segment) {
            true => core.backoff.note(Job::Index, &Err(no_memory_for_index())),
            false => source.segment.note_stays(),
        }
        drop(merged);
        manifest_store::remove_job_files(core.file_context.storage.as_ref(), id);
        return Ok(false);
    }
    if merged.as_ref().is_some_and(|segment| !was_refused(segment)) {
        core.backoff.forget(Job::Index);
    }
    // Where its sources are in RAM, so should it be before searches meet it.
    let kept = is_warm(&sources).then(|| kept_whole(core, &sources));
    if let (Some(segment), Some(kept)) = (&merged, kept) {
        fill(core, segment, kept, &mut arena.lookup.io)?;
    }
    let mut writer = core.writer();
    let mut deletes = DeleteSet::default();
    let mut base = 0;
    let mut segments = Vec::new();
    for view in &writer.segments {
        if !sources.iter().any(|s| s.segment.id() == view.segment.id()) {
            segments.push(view.clone());
        }
    }
    for source in &sources {
        let now = writer
            .segments
            .iter()
            .find(|s| s.segment.id() == source.segment.id());
        let now = now.expect("only jobs remove segments, one runs at a time");
        carry(
            &now.deletes,
            &source.deletes,
            base,
            numbers.as_mut(),
            &mut deletes,
        );
        base += source.live();
    }
    let newest = merged.clone();
    if let Some(segment) = merged.as_deref()
        && sources.len() > 1
        && !sources.iter().any(is_indexed)
    {
        // Not yet enough for an index.
        segment.note_spent(sources.iter().map(|source| source.segment.spent()).sum());
    }
    if let (Some(segment), None, Some(_)) = (&merged, &numbers, writer.schema.tenants()) {
        // There was no memory for their order: it isn't tried again.
        segment.note_stays();
    }
    segments.extend(merged.map(|segment| SegmentView { segment, deletes }));
    let applied_lsn = writer.manifest.applied_lsn;
    commit_built(core, &mut writer, segments, applied_lsn, id)?;
    core.publish(&writer);
    drop(writer);
    core.shared.note_built();
    // What had no room beside its sources has it when they are gone.
    drop(sources);
    if let (Some(segment), Some(kept)) = (newest, kept) {
        fill(core, &segment, kept, &mut arena.lookup.io)?;
    }
    Ok(true)
}

/// Whether there was too little memory for one of its indexes.
fn was_refused(segment: &Segment) -> bool {
    let mut columns = segment.columns();
    columns.any(|column| refused_index(&segment.entry, column.slot).is_some())
}

/// Whether there was too little memory to write an index that is there in the segment it was written from, or that it was written for.
fn lacks_what_was_tried(segment: &Segment, source: &Segment) -> bool {
    let refused = |slot| refused_index(&segment.entry, slot).is_some();
    source.columns().any(|column| {
        refused(column.slot)
            && (column.index.kind() != "flat" || refused_index(&source.entry, column.slot).is_some())
    })
}

/// Whether what its indexes lack is held by others for a moment.
fn lacks_for_a_moment(segment: &Segment) -> bool {
    let mut lacks = segment
        .columns()
        .filter_map(|column| refused_index(&segment.entry, column.slot));
    lacks.all(|lack| lack.passes)
}

fn no_memory_for_index() -> Error {
    Error::new(
        ErrorKind::OverBudget,
        "not enough memory for an index now; retrying",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_merge_that_shrinks_asks_for_what_it_writes() {
        let check = |sources: &[(u64, u32, u32)], expected| {
            assert_eq!(disk_needed_for(sources.iter().copied()), expected, "{sources:?}");
        };
        // Nothing is given back: its sources again, and what is kept free.
        check(
            &[(100 * MIB, 1_000, 1_000), (50 * MIB, 500, 500)],
            150 * MIB + DISK_FREE_MIN,
        );
        check(&[(100 * MIB, 1_000, 700)], 100 * MIB + DISK_FREE_MIN);
        // A tenth is left, and half of that again.
        check(
            &[(100 * MIB, 1_000, 100)],
            15 * MIB + MERGE_ROUNDING + MERGE_FREE_MIN,
        );
        check(
            &[(100 * MIB, 1_000, 0), (10 * MIB, 10, 10)],
            15 * MIB + MERGE_ROUNDING + MERGE_FREE_MIN,
        );
        // Small files don't shrink by as much.
        check(&[(MIB, 1_000, 1)], MIB + DISK_FREE_MIN);
        check(&[(u64::MAX / 4, u32::MAX, 0)], MERGE_ROUNDING + MERGE_FREE_MIN);
    }
}
