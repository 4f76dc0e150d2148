//! Background jobs, one at a time: flushes, merges, index builds. Each ends with one commit under the writer's lock.

pub mod adopt;
pub mod backoff;
mod cache_fill;
pub mod cancellation;
mod compared;
mod expiry;
pub mod maintenance;
pub mod merge_flush;
mod merging;
pub mod progress;
mod recalibrate;
pub mod vector_names;
pub mod watch;

pub use cache_fill::{
    CacheFill, fill_caches, fill_spare, lacks_ram, rank_small_segments, would_gain, would_save_reads,
};
pub use merging::{
    Moment, candidates, clear_dead, make_room_for_files, memtable_index_is_amortised, merge,
    merges_may_free_memory,
};
pub use recalibrate::recalibrate;
pub use vector_names::NewVector;

use std::sync::Arc;

use ramlet_format::manifest::{FileEntry, Manifest, SegmentEntry};

use self::cache_fill::{fill, is_warm, kept_whole};
use crate::error::{Error, Result};
use crate::faults::mutants;
use crate::jobs::backoff::Job as Kind;
use crate::jobs::cancellation::{CancellableStorage, ROWS_BETWEEN_LOOKS, check_wanted};
use crate::limits::{JOB_SCRATCH_BASE, JOB_SCRATCH_LEAST, JOB_SCRATCH_PER_DIM};
use crate::recovery::manifest_store;
use crate::schema::{PayloadField, Schema, Slots, VectorField};
use crate::segment::deletes::DeleteSet;
use crate::segment::{
    ByTenant, FieldSorters, IndexingThreshold, Job, Numbers, RowSource, RowsByNumber, Segment, SegmentView,
    TextBuilders, becomes_graph, build, note_field_rows, of_field,
};
use crate::state::core::Core;
use crate::state::shared::{JobArena, RunningJob};
use crate::text::TextField;
use crate::types::{CollectionConfig, FieldIndex, FieldKind};
use crate::write::memtable::MemtableWriter;
use crate::write::writer::Writer;

/// What the manifest keeps of a collection beside its segments.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Settings {
    pub config: CollectionConfig,
    pub slots: Slots,
    /// Of the last change at the time of the commit.
    pub operation: u64,
    /// The last group at that time, where all of it was applied; 0: a part of one was, or this was never noted.
    #[serde(default)]
    pub whole_lsn: u64,
}

/// Begins a job on `bytes` of rows, once no other one runs. A collection that was deleted meanwhile has no directory to
/// work in.
fn begin(core: &Core, bytes: u64) -> Result<RunningJob<'_>> {
    let wanted = if bytes == 0 { 0 } else { comfortable(bytes) };
    begin_with(core, wanted)
}

/// The same for one that only reads files into RAM.
fn begin_filling(core: &Core) -> Result<RunningJob<'_>> {
    let arena = core.shared.begin_filling()?;
    core.check_not_dropped()?;
    Ok(arena)
}

/// The same for one that writes a segment, and that others may have to give memory back for.
fn begin_writing(core: &Core, bytes: u64) -> Result<RunningJob<'_>> {
    let schema = core.view.load().schema.clone();
    // Less than a graph takes would be another graph.
    let becomes_graph = schema.vectors.iter().any(|vector| {
        let rows = bytes / (vector.row_bytes() as u64).max(1);
        becomes_graph(
            vector,
            u32::try_from(rows).unwrap_or(u32::MAX),
            &core.file_context,
        )
        .is_some()
    });
    if bytes == 0 || becomes_graph {
        return begin(core, bytes);
    }
    let dims = schema.vectors.iter().map(|vector| vector.dim as u64).max();
    let wanted = scratch_of_writing(bytes, dims.unwrap_or(0), core.file_context.caches.room());
    begin_with(core, wanted)
}

fn begin_with(core: &Core, wanted: u64) -> Result<RunningJob<'_>> {
    let arena = core.shared.begin_job(wanted)?;
    core.check_not_dropped()?;
    Ok(arena)
}

/// What a job on so many bytes of rows takes where that is nobody's loss.
fn comfortable(bytes: u64) -> u64 {
    bytes.saturating_mul(2).saturating_add(JOB_SCRATCH_BASE)
}

/// What a job takes that writes a segment of so many bytes, of vectors of `dims` at most, where `room` could be taken from caches: what it needs at least,
/// where more would be taken back from others. (In 64 MB a job on 3 MB of rows took a quarter of a million's codes out of RAM, for as
/// long as it ran.)
fn scratch_of_writing(bytes: u64, dims: u64, room: u64) -> u64 {
    let wanted = comfortable(bytes);
    let least = bytes.saturating_add(JOB_SCRATCH_LEAST + dims * JOB_SCRATCH_PER_DIM);
    if room >= wanted { wanted } else { least.min(wanted) }
}

/// Bytes of segments on disk: about those of their rows.
fn bytes_of(segments: &[SegmentView]) -> u64 {
    segments.iter().map(|view| view.segment.disk_bytes()).sum()
}

/// Makes a segment of all that is in the memtables.
pub fn flush_all(core: &Core) -> Result<()> {
    flush(core)?;
    {
        let mut writer = core.writer();
        if writer.active.is_empty() && writer.applied_lsn == writer.manifest.applied_lsn {
            return Ok(());
        }
        if writer.frozen.is_none() {
            writer.freeze(core.shared.salt())?;
        }
        core.publish(&writer);
    }
    flush(core)
}

/// Turns the frozen memtable into a segment; nothing to do when there is none.
pub fn flush(core: &Core) -> Result<()> {
    // What fails here is noted there; the flush finds room all the same, or doesn't.
    while let Ok(true) = merge(core, Moment::Crowded) {}
    let frozen = core.writer().frozen.as_ref().map(|f| f.memtable.bytes());
    // Where another node builds, an index of these rows comes from there.
    let threshold = core.builds_elsewhere().then_some(IndexingThreshold::Never);
    let result = begin_writing(core, frozen.unwrap_or(0))
        .and_then(|mut arena| flush_with(core, &mut arena, threshold));
    core.backoff.note(Kind::Flush, &result.clone().map(|()| true));
    if frozen.is_some() {
        core.shared.note_flush(&core.id, &result);
    }
    core.flushed.notify_all();
    result
}

/// `threshold`: another one than that of the collection.
fn flush_with(core: &Core, arena: &mut JobArena, threshold: Option<IndexingThreshold>) -> Result<()> {
    let (source, applied_lsn, id, schema, threshold) = {
        let mut writer = core.writer();
        writer.check_writable()?;
        let Some(frozen) = &writer.frozen else {
            return Ok(());
        };
        let (view, applied_lsn) = (frozen.memtable.view(), frozen.applied_lsn);
        (
            view,
            applied_lsn,
            take_segment_id(core, &mut writer),
            writer.schema.clone(),
            threshold.unwrap_or_else(|| indexing_threshold(&writer.config)),
        )
    };
    let segment = match source.rows() {
        0 => None,
        _ => {
            let wanted = Wanted {
                schema: &schema,
                threshold,
                compared: &|_| compared::most(core),
                graphs: false,
            };
            Some(build_segment(core, arena, id, &source, wanted)?)
        }
    };
    let others = core.view.load_full();
    if let Some((segment, _)) = segment.as_ref().filter(|_| is_warm(&others.segments)) {
        let kept = kept_whole(core, &others.segments);
        fill(core, segment, kept, &mut arena.lookup.io)?;
    }
    drop(others);
    let has_index = segment
        .as_ref()
        .is_some_and(|(segment, _)| segment.indexed_vectors() > 0);
    let mut writer = core.writer();
    let frozen = writer.frozen.as_ref().expect("only a flush takes it");
    let mut segments = writer.segments.clone();
    if let Some(segment) = segment {
        let (segment, mut numbers) = segment;
        let mut deletes = DeleteSet::default();
        let (now, then) = (&frozen.memtable.deletes, &source.deletes);
        carry(now, then, 0, numbers.as_mut(), &mut deletes);
        segment.note_spent(frozen.memtable.memtable.spent());
        segments.push(SegmentView { segment, deletes });
    }
    if mutants::is("log-released-early") {
        writer.release_log(applied_lsn)?;
    }
    let applied_lsn = match mutants::is("applied-too-far") {
        true => writer.applied_lsn,
        false => applied_lsn,
    };
    commit_built(core, &mut writer, segments, applied_lsn, id)?;
    // Published together with the segment: a view of both would show every point twice.
    writer.frozen = None;
    if writer.spare.is_none() {
        writer.spare = MemtableWriter::new(writer.schema.clone(), &writer.memtables).ok();
    }
    core.publish(&writer);
    if has_index {
        core.shared.note_built();
    }
    writer.release_log(applied_lsn)
}

/// Whether segments are to be merged before the next one comes: the open files of so many would take the memory that segments are read by.
fn is_crowded(core: &Core, writer: &Writer) -> bool {
    let files = writer.segments.iter().map(|view| view.segment.open_bytes());
    let (all, largest) = (files.clone().sum::<u64>(), files.max().unwrap_or(0));
    core.file_context.has_too_many_files(all - largest, largest)
}

/// Adds rows deleted since a job took its source, as rows of what it built: `base` + place among the rows that were live then, or the
/// number that this one got.
fn carry(
    now: &DeleteSet,
    then: &DeleteSet,
    base: u32,
    mut numbers: Option<&mut Numbers>,
    out: &mut DeleteSet,
) {
    if !now.same(then) {
        let ranks = then.ranks();
        for row in now.iter().filter(|&row| !then.contains(row)) {
            let row = base + row - ranks.rank(then, row);
            out.insert(numbers.as_mut().map_or(row, |numbers| numbers.of(row)));
        }
    }
}

fn take_segment_id(core: &Core, writer: &mut Writer) -> u64 {
    let next = writer.manifest.next_segment;
    let id = core.shared.segment_ids.next(next);
    writer.manifest.next_segment = next.max(id + 1);
    id
}

/// What a job's segments shall be like.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    schema: &'a Schema,
    threshold: IndexingThreshold,
    /// Bytes that may be cached of rows that are all compared.
    compared: &'a dyn Fn(&VectorField) -> u64,
    /// Whether graphs that were asked for are built, or left to an idle moment.
    graphs: bool,
}

fn job_of<'a>(core: &'a Core, arena: &'a mut JobArena, wanted: Wanted<'a>) -> Job<'a> {
    Job {
        file_context: &core.file_context,
        storage: Arc::new(match arena.is_within_merge {
            true => CancellableStorage::new(core),
            false => CancellableStorage::with_flushes(core),
        }),
        schema: wanted.schema,
        collection_rows: core.view.load().points(),
        indexing_threshold: wanted.threshold,
        compared_room: wanted.compared,
        graphs: wanted.graphs,
        scratch_bytes: arena.scratch_bytes,
        has_less_scratch: arena.has_less_scratch,
        threads: arena.threads,
        progress: core.progress.job().filter(|_| !arena.is_within_merge),
        io: &mut arena.lookup.io,
        scratch: &mut arena.lookup.index,
    }
}

/// Writes a segment and opens it; where its rows lie by tenant, with their numbers.
fn build_segment(
    core: &Core,
    arena: &mut JobArena,
    id: u64,
    source: &dyn RowsByNumber,
    wanted: Wanted<'_>,
) -> Result<(Arc<Segment>, Option<Numbers>)> {
    let schema = wanted.schema;
    let mut job = job_of(core, arena, wanted);
    let texts = schema.fields.iter().filter_map(|field| field.text.as_deref());
    let remembering: Vec<_> = texts
        .map(|text| text.remember(|bytes| core.file_context.spare(bytes)))
        .collect();
    let built = build_by_tenant(id, source, &mut job);
    drop(remembering);
    built
        .and_then(|(entry, numbers)| {
            let segment = Segment::open(entry, &core.file_context, schema, &mut arena.lookup.io)?;
            Ok((Arc::new(segment), numbers))
        })
        .inspect_err(|_| manifest_store::remove_job_files(core.file_context.storage.as_ref(), id))
}

/// Writes a segment, its rows in the order of their tenants where there is an index of these.
fn build_by_tenant(
    id: u64,
    source: &dyn RowsByNumber,
    job: &mut Job<'_>,
) -> Result<(SegmentEntry, Option<Numbers>)> {
    let by_tenant = match job.schema.tenants() {
        Some(field) => ByTenant::new(source, id, field, job)?,
        None => None,
    };
    let Some(by_tenant) = by_tenant else {
        return Ok((build(id, source, job)?, None));
    };
    let entry = build(id, &by_tenant, job)?;
    Ok((entry, Some(by_tenant.into_numbers())))
}

/// From how many rows on segments of a collection get an index.
pub fn indexing_threshold(config: &CollectionConfig) -> IndexingThreshold {
    IndexingThreshold::of(config.indexing_threshold)
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
    let storage = core.file_context.storage.as_ref();
    let number = writer.manifests.next();
    let before = writer.manifest.clone();
    let entries = segments
        .iter()
        .map(|view| entry_of(storage, view, &before, number));
    let entries = entries
        .collect::<Result<Vec<_>>>()
        .inspect_err(|_| manifest_store::remove_deletes_of(storage, number))?;
    let (config, slots) = settings.unwrap_or_else(|| (writer.config.clone(), writer.slots.clone()));
    let schema = Schema::new(&config, &slots)?;
    let settings = Settings {
        config,
        slots,
        operation: writer.operation,
        whole_lsn: writer.whole_lsn(),
    };
    let manifest = Manifest {
        number,
        collection: core.id.clone(),
        applied_lsn,
        next_segment: writer.manifest.next_segment,
        config: serde_json::to_value(&settings).map_err(|e| Error::corrupt(e.to_string()))?,
        segments: entries,
        logs: before.logs.clone(),
        durable_lsn: before.durable_lsn,
    };
    if mutants::is("files-removed-before-commit") {
        let keep: std::collections::BTreeSet<&str> = manifest
            .segments
            .iter()
            .flat_map(manifest_store::files_of)
            .collect();
        let gone = before.segments.iter().flat_map(manifest_store::files_of);
        manifest_store::remove_quietly(storage, gone.filter(|name| !keep.contains(name)));
    }
    writer.commit_manifest(storage, manifest, None).inspect_err(|e| {
        if e.is_full() {
            manifest_store::remove_deletes_of(storage, number);
        }
    })?;
    let now = writer.manifest.segments.iter();
    let keep: std::collections::BTreeSet<&str> = now.flat_map(manifest_store::files_of).collect();
    let gone = before
        .segments
        .iter()
        .flat_map(manifest_store::files_of)
        .filter(|name| !keep.contains(name));
    manifest_store::remove_quietly(storage, gone);
    drop(keep);
    rank_small_segments(&segments, &core.file_context.caches);
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
            manifest_store::remove_job_files(core.file_context.storage.as_ref(), built);
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
        Some(old) if mutants::is("deletes-forgotten") => old.deletes.clone(),
        Some(old) if old.live == entry.live => old.deletes.clone(),
        _ => Some(manifest_store::write_deletes(storage, view, number)?),
    };
    Ok(entry)
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

/// Adds a payload index: builds its table for every segment, then commits it with the settings. `next`: the slot to look for a free one from.
pub fn create_field_index(core: &Core, field: &str, index: FieldIndex, next: Option<u16>) -> Result<()> {
    let mut arena = begin(core, bytes_of(&core.view.load().segments))?;
    let (segments, schema, config, slots, new) = {
        let writer = core.writer();
        writer.check_writable()?;
        crate::schema::check_index(&index)?;
        let mut config = writer.config.clone();
        let old = config.payload_schema.get(field);
        if old.is_some_and(|old| has_same_keys(old, &index, writer.slots.analysis_of(field))) {
            // Same tables; the parameters may be said anew.
            config.payload_schema.insert(field.to_string(), index);
            drop(writer);
            return change_settings_with(core, config);
        }
        config.payload_schema.insert(field.to_string(), index);
        crate::schema::check_config(&config)?;
        let mut slots = writer.slots.clone();
        // Before the old one of this field, if any, is free: its tables are there until the commit.
        slots.next_field = next.unwrap_or(slots.next_field);
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
            manifest_store::remove_field_files(core.file_context.storage.as_ref(), new.slot);
        }
    })
}

/// Makes one text index anew whose tables are of another analysis than new ones; false: there is none.
pub fn rebuild_text_index(core: &Core) -> Result<bool> {
    let old = {
        let writer = core.writer();
        let mut fields = writer.schema.fields.iter();
        let old = fields.find(|field| field.text.as_ref().is_some_and(|text| text.is_outdated()));
        old.and_then(|field| writer.config.payload_schema.get_key_value(&field.path))
            .map(|(path, index)| (path.clone(), index.clone()))
    };
    let Some((path, index)) = old else {
        return Ok(false);
    };
    tracing::info!(collection = core.name(), directory = %core.id, field = path, "rebuilding a text index: its analysis has another revision");
    create_field_index(core, &path, index, None).map(|()| true)
}

/// Whether two indexes of a field have the same tables; `revision`: of the analysis that those of the old one were made with.
fn has_same_keys(old: &FieldIndex, new: &FieldIndex, revision: u32) -> bool {
    let text = || TextField::new(new.params.as_ref()).ok();
    let old_text = || TextField::of_revision(old.params.as_ref(), revision).ok();
    old.kind == new.kind && (new.kind != FieldKind::Text || old_text() == text())
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
    let _remembering = text.map(|text| text.remember(|bytes| core.file_context.spare(bytes)));
    for view in segments {
        let without = Wanted {
            schema,
            threshold: IndexingThreshold::Never,
            compared: &|_| u64::MAX,
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
        slots.stems.remove(field);
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
            .with_fields(entry, &core.file_context, &schema, &mut arena.lookup.io)?;
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
        false => renew_memtables(core, &mut writer),
    };
    core.publish(&writer);
    drop(writer);
    core.shared.note_changed();
    core.shared.wake_maintenance();
    renewed
}

/// Rows from here on go into a memtable that keeps the tokens of all scored texts; those before it become a segment. Without the
/// room for it the texts of the present memtable are read instead.
fn renew_memtables(core: &Core, writer: &mut Writer) -> Result<()> {
    let Ok(fresh) = MemtableWriter::new(writer.schema.clone(), &writer.memtables) else {
        return Ok(());
    };
    if writer.active.is_empty() {
        writer.active = fresh;
        writer.spare = MemtableWriter::new(writer.schema.clone(), &writer.memtables).ok();
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
    core.shared.note_changed();
    // Segments may want an index now, or RAM.
    core.shared.wake_maintenance();
    Ok(())
}

#[cfg(test)]
mod tests {

    use ramlet_io::RamStorage;
    use ramlet_memory::{BudgetRequest, BudgetTable, Ledger};

    use super::*;
    use crate::engine::{Engine, EngineOptions};

    #[test]
    fn tables_of_another_analysis_are_made_anew_once() {
        let budget = BudgetTable::plan(BudgetRequest::new(64_000_000, 1)).unwrap();
        let options = EngineOptions {
            ledger: Ledger::new(budget.ledger_limit()),
            budget,
            seed: 42,
            log_file_bytes: None,
        };
        let engine = Engine::open(Arc::new(RamStorage::new(None)), options).unwrap();
        let index = |params: serde_json::Value| FieldIndex {
            kind: FieldKind::Text,
            params: Some(params),
        };
        let greek = serde_json::json!({"type": "snowball", "language": "greek"});
        // From which revision on its tables are as they would be now.
        let fields = [
            (
                "plain",
                serde_json::json!({"type": "text", "tokenizer": "word", "scoring": true}),
                0,
            ),
            (
                "stems",
                serde_json::json!({"type": "text", "tokenizer": "word", "stemmer": greek}),
                1,
            ),
            ("default", serde_json::json!({"type": "text"}), 4),
            ("ranked", serde_json::json!({"type": "text", "scoring": true}), 4),
            (
                "phrases",
                serde_json::json!({"type": "text", "tokenizer": "word", "scoring": true, "phrase_matching": true}),
                2,
            ),
        ];
        let config = CollectionConfig {
            payload_schema: fields
                .iter()
                .map(|(path, params, _)| ((*path).to_owned(), index(params.clone())))
                .collect(),
            ..CollectionConfig::default()
        };
        engine.create_collection("c", config).unwrap();
        let collection = engine.collection("c").unwrap();
        let core = collection.core();
        assert!(!rebuild_text_index(core).unwrap(), "they are of this one");
        for revision in [0, 1, 2, 3] {
            let slot_of = |path: &str| core.writer().slots.fields[path];
            let before = fields.each_ref().map(|(path, ..)| slot_of(path));
            {
                // As a version with another analysis would have written it.
                let mut writer = core.writer();
                writer.slots.stems.values_mut().for_each(|of| *of = revision);
                writer.schema = Arc::new(Schema::new(&writer.config, &writer.slots).unwrap());
                let default = writer.schema.field("default").unwrap().text.clone().unwrap();
                let mut tokens = Vec::new();
                default.query("wi-fi", &mut |token| tokens.push(token.to_owned()));
                let as_then: &[&str] = if revision < 2 { &["wi", "fi"] } else { &["wifi"] };
                assert_eq!(tokens, as_then, "until then queries are cut as the tables were");
            }
            while rebuild_text_index(core).unwrap() {}
            for ((path, _, since), before) in fields.iter().zip(before) {
                assert_eq!(slot_of(path) != before, revision < *since, "{path} of {revision}");
            }
        }
    }

    #[test]
    fn jobs_take_from_others_what_they_need_alone() {
        const MB: u64 = 1 << 20;
        assert_eq!(scratch_of_writing(3 * MB, 100, 10 * MB), 10 * MB);
        assert_eq!(scratch_of_writing(3 * MB, 100, 10 * MB - 1), 4 * MB + 100 * 1024);
        assert_eq!(scratch_of_writing(3 * MB, 0, 0), 4 * MB);
        // An index of the longest vectors gets enough to be built, but no job more than before.
        assert_eq!(scratch_of_writing(0, 1536, 0), 5 * MB / 2);
        assert_eq!(scratch_of_writing(MB, 65_536, 0), 6 * MB);
        assert_eq!(scratch_of_writing(u64::MAX, 100, 0), u64::MAX);
    }
}
