//! Work in the background, one at a time: flushes, merges, index builds. Each ends with one commit under the writer's lock.

pub mod vector_names;

pub use vector_names::NewVector;

use std::sync::Arc;

use ramlet_format::manifest::{FileEntry, Manifest, SegmentEntry};
use ramlet_index::Ivf;
use ramlet_io::IoContext;
use ramlet_memory::LoanBuf;

use crate::buffer::BufferWriter;
use crate::core::Core;
use crate::deletes::DeleteSet;
use crate::drift::{Drifted, KEPT};
use crate::error::{Error, ErrorKind, Result};
use crate::halting::{Halting, ROWS_BETWEEN_LOOKS, check_wanted};
use crate::limits::{
    DISK_FREE_MIN, EARLY_INDEX_ROWS, IDLE_MERGE_SHARE, INDEXING_THRESHOLD_KB, JOB_SCRATCH_BASE, MERGE_FANIN,
    MERGE_RENT, MERGE_RENT_OF_GRAPH, REWRITE_DELETED_SHARE, REWRITE_ROWS_MIN,
};
use crate::lookup::Lookup;
use crate::pins::PinRank;
use crate::query::index_error;
use crate::schema::{PayloadField, Schema, Slots, VectorField};
use crate::segment::{
    FieldSorters, Job, Merged, RowSource, Segment, SegmentView, TextBuilders, VectorColumn, Whole,
    becomes_graph, build, kinds_kept_whole, note_calibration, note_field_rows, of_field,
    was_refused_an_index,
};
use crate::shared::{JobArena, RunningJob};
use crate::store::{self, CommitError};
use crate::text::{Cut, TextField};
use crate::tracking::JobKind;
use crate::types::{CollectionConfig, FieldIndex, FieldKind};
use crate::writer::Writer;

/// What the manifest keeps of a collection beside its segments.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Settings {
    pub config: CollectionConfig,
    pub slots: Slots,
    /// Of the last change at the time of the commit.
    pub operation: u64,
}

/// Begins a job on `bytes` of rows, once no other one runs. A collection that was deleted meanwhile has no directory to
/// work in.
fn begin(core: &Core, bytes: u64) -> Result<RunningJob<'_>> {
    let wanted = match bytes {
        0 => 0,
        _ => bytes.saturating_mul(2).saturating_add(JOB_SCRATCH_BASE),
    };
    let arena = core.shared.begin_job(wanted)?;
    core.check_not_dropped()?;
    Ok(arena)
}

/// Bytes of segments on disk: about those of their rows.
fn bytes_of(segments: &[SegmentView]) -> u64 {
    segments.iter().map(|view| view.segment.disk_bytes()).sum()
}

/// Turns the frozen buffer into a segment; nothing to do when there is none.
pub fn flush(core: &Core) -> Result<()> {
    let frozen = core.writer().frozen.as_ref().map_or(0, |f| f.buffer.bytes());
    let result = begin(core, frozen).and_then(|mut arena| flush_with(core, &mut arena));
    core.set_job_error(result.as_ref().err().map(Error::to_string));
    core.flushed.notify_all();
    result
}

fn flush_with(core: &Core, arena: &mut JobArena) -> Result<()> {
    let (source, applied_lsn, id, schema, threshold) = {
        let mut writer = core.writer();
        writer.check_writable()?;
        let Some(frozen) = &writer.frozen else {
            return Ok(());
        };
        let (view, applied_lsn) = (frozen.buffer.view(), frozen.applied_lsn);
        (
            view,
            applied_lsn,
            take_segment_id(&mut writer),
            writer.schema.clone(),
            threshold_kb(&writer.config),
        )
    };
    let segment = match source.rows() {
        0 => None,
        _ => {
            let wanted = Wanted {
                schema: &schema,
                threshold_kb: threshold,
                graphs: false,
            };
            Some(build_segment(core, arena, id, &source, wanted)?)
        }
    };
    let others = core.view.load_full();
    if let Some(segment) = segment.as_ref().filter(|_| is_warm(&others.segments)) {
        let kinds = kinds_kept(core, &others.segments);
        fill(core, segment, kinds, &mut arena.lookup.io)?;
    }
    drop(others);
    let mut writer = core.writer();
    let frozen = writer.frozen.as_ref().expect("only a flush takes it");
    let mut segments = writer.segments.clone();
    if let Some(segment) = segment {
        let deletes = carried(&frozen.buffer.deletes, &source.deletes, 0);
        segments.push(SegmentView { segment, deletes });
    }
    commit_built(core, &mut writer, segments, applied_lsn, id)?;
    // Published together with the segment: a view of both would show every point twice.
    writer.frozen = None;
    if writer.spare.is_none() {
        writer.spare = BufferWriter::new(writer.schema.clone(), &writer.buffers).ok();
    }
    core.publish(&writer);
    writer.release_log(applied_lsn)
}

/// Rows deleted since a job took its source, as rows of what it built: `base` + place among the rows that were live then.
fn carried(now: &DeleteSet, then: &DeleteSet, base: u32) -> DeleteSet {
    let mut carried = DeleteSet::default();
    carry(now, then, base, &mut carried);
    carried
}

fn carry(now: &DeleteSet, then: &DeleteSet, base: u32, out: &mut DeleteSet) {
    if !now.same(then) {
        let ranks = then.ranks();
        for row in now.iter().filter(|&row| !then.contains(row)) {
            out.insert(base + row - ranks.rank(then, row));
        }
    }
}

fn take_segment_id(writer: &mut Writer) -> u64 {
    let id = writer.manifest.next_segment;
    writer.manifest.next_segment += 1;
    id
}

/// What a job's segments shall be like.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    schema: &'a Schema,
    threshold_kb: u64,
    /// Whether graphs that were asked for are built, or left to an idle moment.
    graphs: bool,
}

fn job_of<'a>(core: &'a Core, arena: &'a mut JobArena, wanted: Wanted<'a>) -> Job<'a> {
    Job {
        shelf: &core.shelf,
        storage: Arc::new(Halting::new(core)),
        schema: wanted.schema,
        indexing_threshold_kb: wanted.threshold_kb,
        graphs: wanted.graphs,
        scratch_bytes: arena.scratch_bytes,
        clusters: None,
        threads: arena.threads,
        tracked: core.tracking.job(),
        io: &mut arena.lookup.io,
        scratch: &mut arena.lookup.index,
    }
}

fn build_segment(
    core: &Core,
    arena: &mut JobArena,
    id: u64,
    source: &dyn RowSource,
    wanted: Wanted<'_>,
) -> Result<Arc<Segment>> {
    let schema = wanted.schema;
    let mut job = job_of(core, arena, wanted);
    let texts = schema.fields.iter().filter_map(|field| field.text.as_deref());
    let remembering: Vec<_> = texts
        .map(|text| text.remember(|bytes| core.shelf.spare(bytes)))
        .collect();
    let built = build(id, source, &mut job);
    drop(remembering);
    built
        .and_then(|entry| Segment::open(entry, &core.shelf, schema, &mut arena.lookup.io))
        .map(Arc::new)
        .inspect_err(|_| store::remove_job_files(core.shelf.storage.as_ref(), id))
}

/// kB of vectors from which a segment gets an approximate index.
fn threshold_kb(config: &CollectionConfig) -> u64 {
    config.indexing_threshold.unwrap_or(INDEXING_THRESHOLD_KB) as u64
}

/// Makes `segments` (and new settings, if given) the state, on disk and for the writer; the caller publishes it to readers.
fn commit(
    core: &Core,
    writer: &mut Writer,
    segments: Vec<SegmentView>,
    applied_lsn: u64,
    settings: Option<(CollectionConfig, Slots)>,
) -> Result<()> {
    writer.check_writable()?;
    let storage = core.shelf.storage.as_ref();
    let number = writer.manifest.number + 1;
    // Whatever comes of it, the number is used up.
    let before = writer.manifest.clone();
    writer.manifest.number = number;
    let entries = segments
        .iter()
        .map(|view| entry_of(storage, view, &before, number));
    let entries = entries
        .collect::<Result<Vec<_>>>()
        .inspect_err(|_| store::remove_deletes_of(storage, number))?;
    let (config, slots) = settings.unwrap_or_else(|| (writer.config.clone(), writer.slots.clone()));
    let schema = Schema::new(&config, &slots)?;
    let settings = Settings {
        config,
        slots,
        operation: writer.operation,
    };
    let manifest = Manifest {
        number,
        collection: core.id.clone(),
        applied_lsn,
        next_segment: writer.manifest.next_segment,
        config: serde_json::to_value(&settings).map_err(|e| Error::corrupt(e.to_string()))?,
        segments: entries,
        logs: Vec::new(),
    };
    match store::commit(storage, &manifest) {
        Ok(()) => {}
        Err(CommitError::Before(e)) => {
            store::remove_deletes_of(storage, number);
            return Err(e);
        }
        Err(CommitError::Unknown(e)) => return Err(writer.stop(e)),
    }
    let keep: std::collections::BTreeSet<&str> = manifest.segments.iter().flat_map(store::files_of).collect();
    let gone = before
        .segments
        .iter()
        .flat_map(store::files_of)
        .filter(|name| !keep.contains(name));
    store::remove_quietly(storage, gone);
    store::remove_old_manifests(storage, number);
    drop(keep);
    writer.manifest = manifest;
    writer.segments = segments;
    let Settings { config, slots, .. } = settings;
    (writer.config, writer.slots, writer.schema) = (config, slots, Arc::new(schema));
    Ok(())
}

/// Commits a job's new segment; one that doesn't get in is removed, unless it can't be told whether it did.
fn commit_built(
    core: &Core,
    writer: &mut Writer,
    segments: Vec<SegmentView>,
    applied_lsn: u64,
    built: u64,
) -> Result<()> {
    commit(core, writer, segments, applied_lsn, None).inspect_err(|_| {
        if writer.stopped.is_none() {
            store::remove_job_files(core.shelf.storage.as_ref(), built);
        }
    })
}

/// A segment as the manifest names it, its deletes written if they changed.
fn entry_of(
    storage: &dyn ramlet_io::Storage,
    view: &SegmentView,
    before: &Manifest,
    number: u64,
) -> Result<SegmentEntry> {
    let mut entry = view.segment.entry.clone();
    let old = before.segments.iter().find(|s| s.id == entry.id);
    entry.live = view.live();
    entry.deletes = match old {
        _ if view.deletes.is_empty() => None,
        Some(old) if old.live == entry.live => old.deletes.clone(),
        _ => Some(store::write_deletes(storage, view, number)?),
    };
    Ok(entry)
}

/// Segments that are worth merging now: one with many deletes, or some of about the same size.
fn merge_candidates(core: &Core, writer: &Writer) -> Vec<SegmentView> {
    let segments = &writer.segments;
    let wasteful = segments.iter().find(|s| {
        let rows = s.segment.rows();
        let gone = s.deletes.len();
        gone == rows || rows >= REWRITE_ROWS_MIN && f64::from(gone) > f64::from(rows) * REWRITE_DELETED_SHARE
    });
    if let Some(view) = wasteful {
        return vec![view.clone()];
    }
    if let Some(view) = segments.iter().find(|view| needs_index(core, writer, view)) {
        return vec![view.clone()];
    }
    if let Some(view) = segments.iter().find(|view| has_other_codes(writer, view)) {
        return vec![view.clone()];
    }
    if let Some(view) = segments
        .iter()
        .find(|view| fits_another_budget(core, writer, view))
    {
        return vec![view.clone()];
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
        .find(|views| views.len() >= MERGE_FANIN && !becomes_graph_unasked(core, writer, views))
        .unwrap_or_default()
}

/// Whether the merged rows would get a graph that nobody asked for: they have clusters as they are, and building a graph takes
/// ten times as long, for which whoever writes waits once the write buffers are full. It is built when nothing else is to do.
fn becomes_graph_unasked(core: &Core, writer: &Writer, views: &[SegmentView]) -> bool {
    let rows = views.iter().map(|view| view.live()).fold(0, u32::saturating_add);
    let mut vectors = writer.schema.vectors.iter();
    threshold_kb(&writer.config) > 0
        && vectors.any(|vector| becomes_graph(vector, rows, &core.shelf) == Some(false))
}

/// Whether a segment has an index of a vector for which a graph was asked. Merged with others, while there is more to do, rows
/// are left without until there is time for a graph of all.
fn has_index_beside_graphs(core: &Core, writer: &Writer, view: &SegmentView) -> bool {
    writer.schema.vectors.iter().any(|vector| {
        becomes_graph(vector, view.live(), &core.shelf) == Some(true)
            && view
                .segment
                .vector(vector.slot)
                .is_some_and(|column| column.index.kind() != "flat")
    })
}

/// Whether a vector of a segment is searched flat though the settings, which may have changed since it was built, want an
/// index for it. Counts no row that a rewrite would not: else it would be rewritten for ever.
fn lacks_index(writer: &Writer, view: &SegmentView, vector: &VectorField) -> bool {
    let threshold = threshold_kb(&writer.config);
    let column = view
        .segment
        .vector(vector.slot)
        .filter(|column| column.index.kind() == "flat");
    let rows = column.map_or(0, |c| {
        c.present
            .as_ref()
            .map_or(u64::from(view.segment.rows()), |p| p.len())
    });
    let rows = rows.saturating_sub(u64::from(view.deletes.len()));
    threshold > 0
        && rows * vector.row_bytes() as u64 / 1024 >= threshold
        && !was_refused_an_index(&view.segment.entry, vector.slot)
}

/// Whether a segment lacks an index that can't wait: clusters, or a graph once searches have spent on the rows what it costs.
fn needs_index(core: &Core, writer: &Writer, view: &SegmentView) -> bool {
    let is_paid = || view.segment.spent() >= u64::from(view.live()).saturating_mul(MERGE_RENT_OF_GRAPH);
    writer.schema.vectors.iter().any(|vector| {
        lacks_index(writer, view, vector)
            && (becomes_graph(vector, view.live(), &core.shelf).is_none() || is_paid())
    })
}

/// Whether a segment lacks an index, whatever kind it is of.
fn lacks_any_index(writer: &Writer, view: &SegmentView) -> bool {
    let mut vectors = writer.schema.vectors.iter();
    vectors.any(|vector| lacks_index(writer, view, vector))
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
    let most = core.shelf.pins.consumer.cap();
    threshold_kb(&writer.config) > 0
        && !view.segment.stays_as_it_is()
        && writer.schema.vectors.iter().any(|vector| {
            let column = view.segment.vector(vector.slot);
            column.is_some_and(|c| c.was_built_for_another_budget(vector, view.segment.rows(), most))
        })
}

/// Segments to merge when nothing else is to do, so that searches look at few of them: all, or the small ones alone
/// where one holds nearly everything. The last small one joins the large once searches have spent on it what that costs;
/// if it has no index, it gets one of its own before, once they have spent what this costs. Rows that waited for a graph get it.
fn idle_candidates(writer: &Writer) -> Vec<SegmentView> {
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
    if (small as f64) >= rows(largest) as f64 * IDLE_MERGE_SHARE || lacks_any_index(writer, largest) {
        return segments.to_vec();
    }
    let [other] = &others[..] else { return others };
    if lacks_any_index(writer, other) {
        return others;
    }
    let has_graph = largest
        .segment
        .columns()
        .any(|column| column.index.kind() == "hnsw");
    let rent = if has_graph {
        MERGE_RENT_OF_GRAPH
    } else {
        MERGE_RENT
    };
    if other.segment.spent() >= (rows(largest) + small).saturating_mul(rent) {
        return segments.to_vec();
    }
    if earns_an_index(writer, other) && has_index(segments) {
        return others;
    }
    Vec::new()
}

/// Whether searches have spent as much on a segment without an index, too small for one by the default threshold, as
/// building one takes.
fn earns_an_index(writer: &Writer, view: &SegmentView) -> bool {
    let segment = &view.segment;
    let lacks = |vector: &VectorField| {
        let column = segment.vector(vector.slot);
        column.is_some_and(|column| column.index.kind() == "flat")
            && !was_refused_an_index(&segment.entry, vector.slot)
    };
    writer.config.indexing_threshold.is_none()
        && view.live() >= EARLY_INDEX_ROWS
        && segment.spent() >= u64::from(view.live()) * MERGE_RENT
        && writer.schema.vectors.iter().any(lacks)
}

/// Whether the largest of the segments has an index for its vectors.
fn has_index(segments: &[SegmentView]) -> bool {
    let largest = segments.iter().max_by_key(|view| view.live());
    largest.is_some_and(|view| view.segment.indexed_vectors() > 0)
}

/// What merges are chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Something else may be due the next moment.
    Busy,
    Idle,
}

/// Segments that are worth merging into one at such a moment.
pub fn candidates(core: &Core, writer: &Writer, moment: Moment) -> Vec<SegmentView> {
    match moment {
        Moment::Busy => merge_candidates(core, writer),
        Moment::Idle => idle_candidates(writer),
    }
}

/// Merges what is worth it; false when nothing is.
pub fn merge(core: &Core, moment: Moment) -> Result<bool> {
    let sources = candidates(core, &core.writer(), moment);
    if sources.is_empty() {
        return Ok(false);
    }
    // What is merged is chosen again once no other job runs.
    let bytes = bytes_of(&sources);
    drop(sources);
    let result = begin(core, bytes).and_then(|mut arena| merge_with(core, &mut arena, moment));
    // Having had nothing to do doesn't undo an earlier failure.
    if !matches!(result, Ok(false)) {
        core.set_job_error(result.as_ref().err().map(Error::to_string));
    }
    result
}

/// Refuses a merge that would fill the disk: its sources are there until it is done.
fn check_disk(core: &Core, sources: &[SegmentView]) -> Result<()> {
    let needed = bytes_of(sources) + DISK_FREE_MIN;
    let free = core.shelf.storage.free_bytes()?;
    if free < needed {
        let what = format!("merging segments needs {needed} bytes of free disk, there are {free}");
        return Err(Error::new(ErrorKind::DiskFull, what));
    }
    Ok(())
}

fn merge_with(core: &Core, arena: &mut JobArena, moment: Moment) -> Result<bool> {
    let (sources, id, schema, threshold, (for_budget, graphs), kind) = {
        let mut writer = core.writer();
        writer.check_writable()?;
        let sources = candidates(core, &writer, moment);
        if sources.is_empty() {
            return Ok(false);
        }
        check_disk(core, &sources)?;
        let threshold = match &sources[..] {
            [one] if earns_an_index(&writer, one) => 1,
            // With more rows it has no less use for one.
            _ if writer.config.indexing_threshold.is_none() && has_index(&sources) => 1,
            _ => threshold_kb(&writer.config),
        };
        let for_budget = match &sources[..] {
            [one] => !has_other_codes(&writer, one) && fits_another_budget(core, &writer, one),
            _ => false,
        };
        // Some segments of a size are merged without; one alone is written anew to get what it lacks, or keeps what it has.
        let graphs = match &sources[..] {
            _ if moment == Moment::Idle => true,
            [one] => needs_index(core, &writer, one) || has_index_beside_graphs(core, &writer, one),
            _ => false,
        };
        let kind = match &sources[..] {
            [one] if lacks_any_index(&writer, one) || threshold == 1 => JobKind::Index,
            [_] => JobKind::Rewrite,
            _ => JobKind::Merge,
        };
        let id = take_segment_id(&mut writer);
        (
            sources,
            id,
            writer.schema.clone(),
            threshold,
            (for_budget, graphs),
            kind,
        )
    };
    let rows = Merged(&sources).rows();
    let shown = |view: &SegmentView| (view.segment.id(), u64::from(view.live()));
    let tracked = core.tracking.begin(id, kind, sources.iter().map(shown).collect());
    let merged = match rows {
        0 => None,
        _ => {
            let wanted = Wanted {
                schema: &schema,
                threshold_kb: threshold,
                graphs,
            };
            Some(build_segment(core, arena, id, &Merged(&sources), wanted)?)
        }
    };
    drop(tracked);
    if let (true, Some(segment), [source]) = (for_budget, &merged, &sources[..])
        && lost_its_index(segment, &source.segment)
    {
        source.segment.note_stays();
        drop(merged);
        store::remove_job_files(core.shelf.storage.as_ref(), id);
        return Ok(false);
    }
    // Where its sources are in RAM, so should it be before searches meet it.
    let kinds = is_warm(&sources).then(|| kinds_kept(core, &sources));
    if let (Some(segment), Some(kinds)) = (&merged, kinds) {
        fill(core, segment, kinds, &mut arena.lookup.io)?;
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
        carry(&now.deletes, &source.deletes, base, &mut deletes);
        base += source.live();
    }
    let newest = merged.clone();
    segments.extend(merged.map(|segment| SegmentView { segment, deletes }));
    let applied_lsn = writer.manifest.applied_lsn;
    commit_built(core, &mut writer, segments, applied_lsn, id)?;
    core.publish(&writer);
    drop(writer);
    // What had no room beside its sources has it when they are gone.
    drop(sources);
    if let (Some(segment), Some(kinds)) = (newest, kinds) {
        fill(core, &segment, kinds, &mut arena.lookup.io)?;
    }
    Ok(true)
}

/// Whether there was too little memory to write an index that is there in the segment it was written from.
fn lost_its_index(segment: &Segment, source: &Segment) -> bool {
    source
        .columns()
        .any(|column| column.index.kind() != "flat" && was_refused_an_index(&segment.entry, column.slot))
}

/// Measures the indexes of a vector again whose queries find less than they should, on those queries, and keeps what was
/// measured with the segments; false when there is none. Reads every row once; nothing is rebuilt.
pub fn recalibrate(core: &Core) -> Result<bool> {
    if !core.monitor.is_drifted() {
        return Ok(false);
    }
    let (dims, rows) = {
        let writer = core.writer();
        let dims = writer.schema.vectors.iter().map(|field| field.dim).max();
        let rows = writer.segments.iter().map(|view| view.segment.rows()).max();
        (dims.unwrap_or(0), rows.unwrap_or(0))
    };
    let mut arena = begin(core, Ivf::measure_bytes(KEPT, dims, rows))?;
    let Some(Drifted {
        slot, mut queries, ..
    }) = core.monitor.take_drifted()
    else {
        return Ok(false);
    };
    // In a small budget fewer of them.
    let room = arena.scratch_bytes as u64;
    while queries.len() > 1 && Ivf::measure_bytes(queries.len(), dims, rows) > room {
        queries.pop();
    }
    let (segments, schema) = {
        let writer = core.writer();
        writer.check_writable()?;
        (writer.segments.clone(), writer.schema.clone())
    };
    let mut changed = Vec::with_capacity(segments.len());
    for view in &segments {
        let Lookup {
            io, index: scratch, ..
        } = &mut arena.lookup;
        let column = view.segment.vector(slot);
        let points = column.map_or(Ok(None), |c| c.index.measure_again(&queries, scratch, io));
        let segment = match points.map_err(index_error)? {
            None => view.segment.clone(),
            Some(points) => {
                let mut entry = view.segment.entry.clone();
                note_calibration(&mut entry.extra, slot, &points);
                let segment = view
                    .segment
                    .with_calibration(entry, slot, &core.shelf, &schema, io)?;
                Arc::new(segment)
            }
        };
        changed.push(segment);
    }
    let mut writer = core.writer();
    let segments = writer
        .segments
        .iter()
        .zip(changed)
        .map(|(view, segment)| SegmentView {
            segment,
            deletes: view.deletes.clone(),
        });
    let segments = segments.collect();
    let applied_lsn = writer.manifest.applied_lsn;
    commit(core, &mut writer, segments, applied_lsn, None)?;
    core.publish(&writer);
    tracing::info!(collection = %core.id, "queries found less than was aimed at: the index was calibrated again on them");
    Ok(true)
}

/// What is taken into RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinning {
    /// Codes without which searches read whole clusters.
    Needed,
    /// All that there is room for.
    All,
}

/// Takes more of one vector of a segment into RAM that has become free; false when there is none to take, or no room.
pub fn pin(core: &Core, what: Pinning) -> Result<bool> {
    let shelf = &core.shelf;
    // What isn't vectors makes room for them.
    let below = shelf.pins.below(PinRank::Rows);
    let free = shelf.pins.room();
    let room = below
        + match what {
            Pinning::Needed => shelf.pins.consumer.available(),
            Pinning::All => free,
        };
    let wanted = |column: &VectorColumn| {
        (what == Pinning::All || column.is_bare())
            && (column.could_restore(room) || column.could_improve(shelf, room))
    };
    let kinds = kinds_kept(core, &core.view.load().segments);
    // Records give way to the whole they are of.
    let free = free + shelf.pins.records.bytes();
    let fills = |segment: &Segment| what == Pinning::All && segment.could_fill(kinds, free);
    let is_due = |writer: &Writer| {
        let of = |view: &SegmentView| view.segment.columns().any(wanted) || fills(&view.segment);
        writer.segments.iter().any(of)
    };
    if !is_due(&core.writer()) {
        return Ok(false);
    }
    let mut arena = begin(core, 0)?;
    let (segments, schema) = {
        let writer = core.writer();
        (writer.segments.clone(), writer.schema.clone())
    };
    for view in &segments {
        for column in view.segment.columns().filter(|column| wanted(column)) {
            let io = &mut arena.lookup.io;
            if free < LoanBuf::PIECE_BYTES as u64 {
                shelf.pins.give_way(PinRank::Rows, LoanBuf::PIECE_BYTES as u64);
            }
            if column.restore(room, io)? > 0 {
                return Ok(true);
            }
            if let Some(better) = view.segment.with_more_of(column, shelf, &schema, io)? {
                replace_segment(core, Arc::new(better));
                return Ok(true);
            }
        }
    }
    for view in segments.iter().filter(|view| fills(&view.segment)) {
        if fill(core, &view.segment, kinds, &mut arena.lookup.io)? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Bytes of the files that may be in RAM as a whole, by kind, and how many of all are there.
fn whole_bytes(segments: &[SegmentView]) -> ([u64; Whole::KINDS], u64) {
    let (mut bytes, mut held) = ([0; Whole::KINDS], 0);
    for view in segments {
        view.segment.add_whole_bytes(&mut bytes);
        held += view.segment.whole_bytes_held();
    }
    (bytes, held)
}

/// How many kinds of a collection's files are kept in RAM as a whole, with what is there for that.
fn kinds_kept(core: &Core, segments: &[SegmentView]) -> usize {
    let pins = &core.shelf.pins;
    let (bytes, held) = whole_bytes(segments);
    kinds_kept_whole(&bytes, pins.room() + pins.records.bytes() + held)
}

/// Reads more of a segment's files into RAM, as far as there is room; how many bytes came. Records that are kept give way to the whole that they are of.
fn fill(core: &Core, segment: &Segment, kinds: usize, io: &mut IoContext) -> Result<u64> {
    let pins = &core.shelf.pins;
    let (free, wanted) = (pins.room(), segment.missing(kinds));
    if wanted > free {
        pins.records.cut(wanted - free);
    }
    segment.fill(kinds, pins.room(), io)
}

/// Whether at least half of what may be in RAM of some segments is there.
fn is_warm(segments: &[SegmentView]) -> bool {
    let (bytes, held) = whole_bytes(segments);
    held > 0 && 2 * held >= bytes.iter().sum()
}

/// Shows readers the same segment, opened anew.
fn replace_segment(core: &Core, segment: Arc<Segment>) {
    let mut writer = core.writer();
    let id = segment.id();
    for view in writer.segments.iter_mut().filter(|view| view.segment.id() == id) {
        view.segment = segment.clone();
    }
    core.publish(&writer);
}

/// Adds a payload index: builds its table for every segment, then commits it with the settings.
pub fn create_field_index(core: &Core, field: &str, index: FieldIndex) -> Result<()> {
    let mut arena = begin(core, bytes_of(&core.view.load().segments))?;
    let (segments, schema, config, slots, new) = {
        let writer = core.writer();
        writer.check_writable()?;
        crate::schema::check_index(&index)?;
        let mut config = writer.config.clone();
        let old = config.payload_schema.get(field);
        if old.is_some_and(|old| has_same_keys(old, &index, writer.slots.cut_of(field))) {
            // Same tables; the parameters may be said anew.
            config.payload_schema.insert(field.to_string(), index);
            drop(writer);
            return change_settings_with(core, config);
        }
        config.payload_schema.insert(field.to_string(), index);
        crate::schema::check_config(&config)?;
        let mut slots = writer.slots.clone();
        // Before the old one of this field, if any, is free: its tables are there until the commit.
        slots.take_field(field)?;
        let schema = Schema::new(&config, &slots)?;
        let new = schema.field(field).cloned().expect("just added");
        (writer.segments.clone(), schema, config, slots, new)
    };
    let built = build_field_files(core, &mut arena, &segments, &schema, &new)
        .and_then(|files| replace_field_files(core, &mut arena, files, config, slots));
    built.inspect_err(|_| {
        // Else the next attempt, which takes the same slot, would find them in its way.
        if core.writer().stopped.is_none() {
            store::remove_field_files(core.shelf.storage.as_ref(), new.slot);
        }
    })
}

/// Whether two indexes of a field have the same tables; `cut`: how those of the old one were made.
fn has_same_keys(old: &FieldIndex, new: &FieldIndex, cut: Cut) -> bool {
    let text = |index: &FieldIndex| TextField::new(index.params.as_ref()).ok();
    let old_text = || Some(text(old)?.cutting(cut));
    old.kind == new.kind && (new.kind != FieldKind::Text || old_text() == text(new))
}

/// A segment's files of a new payload index.
struct BuiltIndex {
    segment: u64,
    table: FileEntry,
    /// Rows that have the field.
    rows: u32,
    texts: Vec<FileEntry>,
}

/// The tables of a new payload index, by segment.
fn build_field_files(
    core: &Core,
    arena: &mut JobArena,
    segments: &[SegmentView],
    schema: &Schema,
    new: &PayloadField,
) -> Result<Vec<BuiltIndex>> {
    let mut files = Vec::with_capacity(segments.len());
    let text = new.text.as_deref();
    let _remembering = text.map(|text| text.remember(|bytes| core.shelf.spare(bytes)));
    for view in segments {
        let without = Wanted {
            schema,
            threshold_kb: 0,
            graphs: false,
        };
        let mut job = job_of(core, arena, without);
        let (segment, rows) = (view.segment.id(), view.segment.rows());
        let new = std::slice::from_ref(new);
        let for_texts = TextBuilders::scratch_of(new, &job);
        let mut texts = TextBuilders::new((segment, rows), new, for_texts, &job)?;
        job.scratch_bytes -= for_texts;
        let mut sorters = FieldSorters::new(segment, new, &job)?;
        view.segment.for_each_payload(job.io, &mut |row, payload| {
            // Words are gathered for long before any are written.
            if row % ROWS_BETWEEN_LOOKS == 0 {
                check_wanted(core)?;
            }
            texts.push(payload)?;
            sorters.push(payload)
        })?;
        let texts = texts.finish(&mut job)?;
        let built = sorters.finish(&mut job)?.into_iter();
        files.extend(built.map(|(table, rows)| BuiltIndex {
            segment,
            table,
            rows,
            texts: texts.clone(),
        }));
    }
    Ok(files)
}

/// Removes a payload index.
pub fn delete_field_index(core: &Core, field: &str) -> Result<()> {
    let mut arena = begin(core, 0)?;
    let (config, slots) = {
        let writer = core.writer();
        let (mut config, mut slots) = (writer.config.clone(), writer.slots.clone());
        if config.payload_schema.remove(field).is_none() {
            return Ok(());
        }
        slots.fields.remove(field);
        slots.segmented.remove(field);
        (config, slots)
    };
    replace_field_files(core, &mut arena, Vec::new(), config, slots)
}

/// Commits settings with the segments' files brought in line: tables of fields that are gone go too, new ones come.
fn replace_field_files(
    core: &Core,
    arena: &mut JobArena,
    new_files: Vec<BuiltIndex>,
    config: CollectionConfig,
    slots: Slots,
) -> Result<()> {
    let live: Vec<u16> = slots.fields.values().copied().collect();
    let schema = Schema::new(&config, &slots)?;
    let old = core.writer().segments.clone();
    let mut changed = Vec::with_capacity(old.len());
    for view in &old {
        let mut entry = view.segment.entry.clone();
        entry
            .files
            .retain(|f| of_field(f.component).is_none_or(|slot| live.contains(&slot)));
        for new in new_files.iter().filter(|new| new.segment == entry.id) {
            note_field_rows(&mut entry.extra, &new.table, new.rows);
            entry.files.push(new.table.clone());
            entry.files.extend(new.texts.iter().cloned());
        }
        let segment = view
            .segment
            .with_fields(entry, &core.shelf, &schema, &mut arena.lookup.io)?;
        changed.push(Arc::new(segment));
    }
    let mut writer = core.writer();
    let segments = writer.segments.iter().zip(changed);
    let segments = segments
        .map(|(view, segment)| SegmentView {
            segment,
            deletes: view.deletes.clone(),
        })
        .collect();
    let applied_lsn = writer.manifest.applied_lsn;
    let scored = |writer: &Writer| -> Vec<u16> {
        let fields = writer.schema.fields.iter();
        fields
            .filter(|field| field.scored().is_some())
            .map(|field| field.slot)
            .collect()
    };
    let before = scored(&writer);
    commit(core, &mut writer, segments, applied_lsn, Some((config, slots)))?;
    let renewed = match scored(&writer).iter().all(|slot| before.contains(slot)) {
        true => Ok(()),
        false => renew_buffers(core, &mut writer),
    };
    core.publish(&writer);
    drop(writer);
    core.shared.wake_maintenance();
    renewed
}

/// Rows from here on go into a buffer that keeps the tokens of all scored texts; those before it become a segment. Without the
/// room for it the texts of the present buffer are read instead.
fn renew_buffers(core: &Core, writer: &mut Writer) -> Result<()> {
    let Ok(fresh) = BufferWriter::new(writer.schema.clone(), &writer.buffers) else {
        return Ok(());
    };
    if writer.active.is_empty() {
        writer.active = fresh;
        writer.spare = BufferWriter::new(writer.schema.clone(), &writer.buffers).ok();
        return Ok(());
    }
    writer.spare = Some(fresh);
    match writer.frozen {
        Some(_) => Ok(()),
        None => writer.freeze(core.shared.salt()),
    }
}

/// Commits changed settings that touch no file.
pub fn change_settings(
    core: &Core,
    change: &mut dyn FnMut(&mut CollectionConfig) -> Result<()>,
) -> Result<()> {
    let _arena = begin(core, 0)?;
    let mut config = core.writer().config.clone();
    change(&mut config)?;
    change_settings_with(core, config)
}

fn change_settings_with(core: &Core, config: CollectionConfig) -> Result<()> {
    crate::schema::check_config(&config)?;
    let mut writer = core.writer();
    let (segments, slots) = (writer.segments.clone(), writer.slots.clone());
    let applied_lsn = writer.manifest.applied_lsn;
    commit(core, &mut writer, segments, applied_lsn, Some((config, slots)))?;
    core.publish(&writer);
    drop(writer);
    // Segments may want an index now, or RAM.
    core.shared.wake_maintenance();
    Ok(())
}
