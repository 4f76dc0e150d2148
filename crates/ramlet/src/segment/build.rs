//! Writes a segment: column by column, each file front to back, sorting within the job's memory.

use std::sync::Arc;

use ramlet_format::bitmap;
use ramlet_format::bloom::{self, BloomBuilder, hash64};
use ramlet_format::component::Component;
use ramlet_format::envelope::EnvelopeKind;
use ramlet_format::manifest::{FileEntry, SegmentEntry};
use ramlet_format::records::RecordsWriter;
use ramlet_format::rows::RowsWriter;
use ramlet_format::sorted::SortedWriter;
use ramlet_io::SyncTogether;
use roaring::RoaringBitmap;

use super::SegmentView;
use super::calibration::inherit_lost;
use super::indexes::{Lack, becomes_graph, build_index};
use super::job::Job;
use super::names::{seed, segment_file};
use super::part_rows::PartsSource;
use super::refusals::note_refusals;
use super::sink::{Sink, push_key};
use super::sorter::Sorter;
use super::source::{Reads, RowSource, renumbered};
use super::sparse::ListsBuilder;
use super::streams::merge;
use super::table::split_row;
use super::table::{lane_of, tables_of};
use super::text::{self, TextBuilders};
use crate::error::{Error, Result};
use crate::filter::index::is_presence;
use crate::payload::Path;
use crate::schema::{PayloadField, VectorField, VectorKind};
use crate::settings::IndexKind;
use crate::types::PointId;

/// Row of the `row` file: id (u128), then version with the top bit telling a UUID.
pub const ROW_ID_BYTES: u32 = 24;

const UUID_BIT: u64 = 1 << 63;

pub fn encode_row_id(id: PointId, version: u64) -> [u8; ROW_ID_BYTES as usize] {
    let (number, tag) = match id {
        PointId::Num(n) => (u128::from(n), 0),
        PointId::Uuid(u) => (u, UUID_BIT),
    };
    let mut out = [0; ROW_ID_BYTES as usize];
    out[..16].copy_from_slice(&number.to_le_bytes());
    out[16..].copy_from_slice(&(version | tag).to_le_bytes());
    out
}

pub fn decode_row_id(row: &[u8]) -> Option<(PointId, u64)> {
    let (number, tagged) = row.split_first_chunk::<16>()?;
    let number = u128::from_le_bytes(*number);
    let tagged = u64::from_le_bytes(tagged.try_into().ok()?);
    let id = if tagged & UUID_BIT != 0 {
        PointId::Uuid(number)
    } else {
        PointId::Num(u64::try_from(number).ok()?)
    };
    Some((id, tagged & !UUID_BIT))
}

/// Writes segment `id` from `source`. All its files are synced when this returns; the directory isn't.
pub fn build(id: u64, source: &dyn RowSource, job: &mut Job<'_>) -> Result<SegmentEntry> {
    let together = Arc::new(SyncTogether::new(job.storage.clone()));
    let alone = std::mem::replace(&mut job.storage, together.clone());
    let built = build_files(id, source, job);
    job.storage = alone;
    let entry = built?;
    together.sync()?;
    Ok(entry)
}

fn build_files(id: u64, source: &dyn RowSource, job: &mut Job<'_>) -> Result<SegmentEntry> {
    let rows = source.rows();
    let mut files = Vec::new();
    build_ids(id, source, job, &mut files)?;
    let mut unindexed = Vec::new();
    for vector in &job.schema.vectors {
        if let Some(lack) = build_vectors(id, vector, source, job, &mut files)? {
            let Lack {
                needed_bytes,
                given_bytes,
                passes,
            } = lack;
            tracing::warn!(segment = id, vector = %vector.name, needed_bytes, given_bytes, passes, "too little memory for an index");
            unindexed.push((vector.slot, lack));
        }
    }
    let mut entry_extra = serde_json::Value::Null;
    if !unindexed.is_empty() {
        note_refusals(
            &mut entry_extra,
            &unindexed,
            job.file_context.caches.consumer.cap(),
        );
    }
    let merged = source.segments().iter();
    inherit_lost(&mut entry_extra, merged.map(|view| &view.segment.entry));
    for (file, rows) in build_payload(id, source, job, &mut files)? {
        note_field_rows(&mut entry_extra, &file, rows);
        files.push(file);
    }
    Ok(SegmentEntry {
        id,
        rows,
        live: rows,
        files,
        deletes: None,
        min_lsn: 0,
        max_lsn: 0,
        extra: entry_extra,
    })
}

fn build_ids(id: u64, source: &dyn RowSource, job: &mut Job<'_>, files: &mut Vec<FileEntry>) -> Result<()> {
    let mut sink = Sink::create(
        job.storage.as_ref(),
        segment_file(id, Component::RowIds),
        Component::RowIds,
    )?;
    let mut writer = RowsWriter::new(seed(id, Component::RowIds), ROW_ID_BYTES);
    let mut sorter = Sorter::new(
        job.storage.clone(),
        format!("{id}-ids"),
        job.scratch_bytes / 2,
        job.scratch_bytes / 2,
    );
    // Twice: while it is encoded. Without the room it says "maybe" to all ids, which costs reads and is never wrong.
    let wanted = bloom::file_bytes(u64::from(source.rows()));
    let held = job.file_context.spare(2 * wanted);
    let mut filter = BloomBuilder::new(held.as_ref().map_or(1, |_| u64::from(source.rows())));
    let (mut row, mut key) = (0u32, Vec::new());
    source.ids(job.io, &mut |point, version| {
        writer.push(&encode_row_id(point, version), &mut sink.out);
        sink.drain()?;
        key.clear();
        point.encode(&mut key);
        filter.insert(hash64(&key));
        key.extend_from_slice(&row.to_be_bytes());
        row += 1;
        sorter.push(&key)
    })?;
    writer.finish(&mut sink.out);
    files.push(sink.finish()?);

    let mut sink = Sink::create(
        job.storage.as_ref(),
        segment_file(id, Component::Ids),
        Component::Ids,
    )?;
    let mut table = SortedWriter::new(seed(id, Component::Ids));
    sorter.finish(job.io, &mut |key| push_key(&mut table, key, &mut sink))?;
    table.finish(&mut sink.out);
    files.push(sink.finish()?);

    let mut sink = Sink::create(
        job.storage.as_ref(),
        segment_file(id, Component::IdFilter),
        Component::IdFilter,
    )?;
    sink.out = filter.finish(seed(id, Component::IdFilter));
    files.push(sink.finish()?);
    Ok(())
}

/// Writes a vector's rows: with an approximate index where there are enough of them, else in row order. `Some`: there were
/// enough, but not the memory for an index.
fn build_vectors(
    id: u64,
    vector: &VectorField,
    source: &dyn RowSource,
    job: &mut Job<'_>,
    files: &mut Vec<FileEntry>,
) -> Result<Option<Lack>> {
    let present = source.present(vector.slot);
    let rows = present
        .as_ref()
        .map_or(u64::from(source.rows()), RoaringBitmap::len);
    // A vector that none of them has needs no file.
    if rows == 0 {
        return Ok(None);
    }
    if vector.fixed_bytes().is_none() {
        let starts = build_records(id, vector, source, job, files)?;
        build_presence(id, vector.slot, present, job, files)?;
        return match vector.kind {
            VectorKind::Multi => build_parts(id, vector, source, starts, job, files),
            _ => Ok(None),
        };
    }
    let wanted = job
        .indexing_threshold
        .wants(vector, rows, &|| (job.compared_room)(vector));
    let waits = !job.graphs && becomes_graph(vector, rows as u32, job.file_context) == Some(true);
    let index = wanted && !waits;
    let lack = match index {
        true => build_index(id, vector, source, rows as u32, job, files)?,
        false => None,
    };
    match index && lack.is_none() {
        false => build_rows(
            id,
            Component::Vector { slot: vector.slot },
            vector,
            source,
            job,
            files,
        )?,
        // The index has them in another order.
        true if source.is_by_tenant() => {
            let component = Component::VectorByTenant { slot: vector.slot };
            build_rows(id, component, vector, source, job, files)?;
        }
        true => {}
    }
    build_presence(id, vector.slot, present, job, files)?;
    Ok(lack)
}

/// Which rows have the vector, unless all do.
fn build_presence(
    id: u64,
    slot: u16,
    present: Option<RoaringBitmap>,
    job: &Job<'_>,
    files: &mut Vec<FileEntry>,
) -> Result<()> {
    let Some(present) = present else { return Ok(()) };
    let component = Component::Presence { slot };
    let mut sink = Sink::create(job.storage.as_ref(), segment_file(id, component), component)?;
    sink.out = bitmap::encode(EnvelopeKind::Presence, &present);
    files.push(sink.finish()?);
    Ok(())
}

/// Rows of a length of their own by number; rows without the vector are empty.
fn build_records(
    id: u64,
    vector: &VectorField,
    source: &dyn RowSource,
    job: &mut Job<'_>,
    files: &mut Vec<FileEntry>,
) -> Result<Starts> {
    let component = Component::VectorRecords { slot: vector.slot };
    let mut sink = Sink::create(job.storage.as_ref(), segment_file(id, component), component)?;
    let mut writer = RecordsWriter::new(seed(id, component));
    let mut lists = (vector.kind == VectorKind::Sparse).then(|| ListsBuilder::new(id, vector.slot, job));
    let (mut next, mut starts) = (0, Starts::default());
    let part_bytes = vector.row_bytes().max(1);
    let mut push = |row: u32, bytes: &[u8]| {
        if vector.kind == VectorKind::Multi && starts.parts <= u64::from(u32::MAX) {
            starts.first.insert(starts.parts as u32);
            starts.parts += (bytes.len() / part_bytes) as u64;
        }
        if let Some(lists) = &mut lists {
            lists.push(row, bytes)?;
        }
        // Those before it have none.
        while next <= row {
            let record = if next == row { bytes } else { &[] };
            let pushed = writer.push(record, &mut sink.out);
            pushed.map_err(|e| Error::corrupt(e.to_string()))?;
            next += 1;
            sink.drain()?;
        }
        Ok(())
    };
    let Job {
        io,
        scratch,
        scratch_bytes,
        ..
    } = job;
    source.vectors_in_order(
        vector.slot,
        *scratch_bytes / 4,
        &mut Reads { io, scratch },
        &mut push,
    )?;
    while next < source.rows() {
        let pushed = writer.push(&[], &mut sink.out);
        pushed.map_err(|e| Error::corrupt(e.to_string()))?;
        next += 1;
        sink.drain()?;
    }
    writer.finish(&mut sink.out);
    files.push(sink.finish()?);
    lists.map_or(Ok(()), |lists| lists.finish(job, files))?;
    Ok(starts)
}

/// First parts of the rows of a multivector, and how many parts there are.
#[derive(Default)]
struct Starts {
    first: RoaringBitmap,
    parts: u64,
}

/// Writes an index over the parts of a multivector, where there are enough of them. `Some`: there were, but not the memory.
fn build_parts(
    id: u64,
    vector: &VectorField,
    source: &dyn RowSource,
    starts: Starts,
    job: &mut Job<'_>,
    files: &mut Vec<FileEntry>,
) -> Result<Option<Lack>> {
    let Ok(parts) = u32::try_from(starts.parts) else {
        return Ok(None);
    };
    if !job
        .indexing_threshold
        .wants(vector, starts.parts, &|| (job.compared_room)(vector))
    {
        return Ok(None);
    }
    // A graph has its vectors in its nodes, and these have a limit; parts are found by clusters.
    let mut clustered = vector.clone();
    clustered.settings.index = IndexKind::Ivf;
    let source = PartsSource {
        rows: source,
        parts,
        part_bytes: vector.row_bytes(),
        held_bytes: job.scratch_bytes / 4,
    };
    let lack = build_index(id, &clustered, &source, parts, job, files)?;
    if lack.is_none() {
        let component = Component::PartStarts { slot: vector.slot };
        let mut sink = Sink::create(job.storage.as_ref(), segment_file(id, component), component)?;
        sink.out = bitmap::encode(EnvelopeKind::Presence, &starts.first);
        files.push(sink.finish()?);
    }
    Ok(lack)
}

/// Rows by number; rows without the vector are zeros.
fn build_rows(
    id: u64,
    component: Component,
    vector: &VectorField,
    source: &dyn RowSource,
    job: &mut Job<'_>,
    files: &mut Vec<FileEntry>,
) -> Result<()> {
    let mut sink = Sink::create(job.storage.as_ref(), segment_file(id, component), component)?;
    let mut writer = RowsWriter::new(seed(id, component), vector.row_bytes() as u32);
    let absent = vec![0; vector.row_bytes()];
    let total = source.rows();
    let mut next = 0;
    let mut push = |row: u32, bytes: &[u8]| {
        while next < row {
            writer.push(&absent, &mut sink.out);
            next += 1;
            // There may be any number of them in a row.
            sink.drain()?;
        }
        writer.push(bytes, &mut sink.out);
        next += 1;
        sink.drain()
    };
    let Job {
        io,
        scratch,
        scratch_bytes,
        ..
    } = job;
    source.vectors_in_order(vector.slot, *scratch_bytes, &mut Reads { io, scratch }, &mut push)?;
    while next < total {
        writer.push(&absent, &mut sink.out);
        next += 1;
        sink.drain()?;
    }
    writer.finish(&mut sink.out);
    files.push(sink.finish()?);
    Ok(())
}

fn build_payload(
    id: u64,
    source: &dyn RowSource,
    job: &mut Job<'_>,
    files: &mut Vec<FileEntry>,
) -> Result<Vec<(FileEntry, u32)>> {
    let mut sink = Sink::create(
        job.storage.as_ref(),
        segment_file(id, Component::Payload),
        Component::Payload,
    )?;
    let mut writer = RecordsWriter::new(seed(id, Component::Payload));
    let whole = job.scratch_bytes;
    // Their tables are in the order of their rows.
    let views = match source.is_by_tenant() {
        true => &[],
        false => source.segments(),
    };
    let of_texts = TextBuilders::scratch_of(&job.schema.fields, job);
    let (merged_texts, cut_texts): (Vec<PayloadField>, Vec<PayloadField>) = job
        .schema
        .fields
        .iter()
        .cloned()
        .partition(|field| text::is_merged(field, views, of_texts));
    let for_texts = TextBuilders::scratch_of(&cut_texts, job);
    let mut texts = TextBuilders::new((id, source.rows()), &cut_texts, for_texts, job)?;
    job.scratch_bytes -= for_texts;
    let (merged, sorted): (Vec<PayloadField>, Vec<PayloadField>) = job
        .schema
        .fields
        .iter()
        .cloned()
        .partition(|field| tables_of(field, views, job.scratch_bytes / 2).is_some());
    let mut passes = sorted.chunks(FieldSorters::at_once(job));
    let mut indexes = FieldSorters::new(id, passes.next().unwrap_or_default(), job)?;
    source.payloads(job.io, &mut |payload| {
        writer
            .push(payload, &mut sink.out)
            .map_err(|e| Error::corrupt(e.to_string()))?;
        indexes.push(payload)?;
        texts.push(payload)?;
        sink.drain()
    })?;
    writer.finish(&mut sink.out);
    files.push(sink.finish()?);
    files.extend(texts.finish(job)?);
    let mut built = indexes.finish(job)?;
    job.scratch_bytes = whole;
    for fields in passes {
        let mut indexes = FieldSorters::new(id, fields, job)?;
        source.payloads(job.io, &mut |payload| indexes.push(payload))?;
        built.extend(indexes.finish(job)?);
    }
    for field in &merged_texts {
        text::merge(id, field, views, job, files)?;
    }
    for field in &merged {
        built.push(merge_tables(id, field, views, job)?);
    }
    Ok(built)
}

/// The tables of a payload index of some segments become one.
fn merge_tables(
    id: u64,
    field: &PayloadField,
    views: &[SegmentView],
    job: &mut Job<'_>,
) -> Result<(FileEntry, u32)> {
    let rows = renumbered(views);
    let tables = views.iter().zip(&rows);
    let lanes = tables.filter_map(|(view, rows)| Some(lane_of(view.segment.field(field.slot)?, rows)));
    let mut lanes: Vec<_> = lanes.collect();
    let component = Component::FieldIndex { slot: field.slot };
    let mut sink = Sink::create(job.storage.as_ref(), segment_file(id, component), component)?;
    let mut table = SortedWriter::new(seed(id, component));
    let mut with_field = 0;
    merge(&mut lanes, job.io, &mut |key| {
        with_field += u32::from(split_row(key).is_some_and(|(value, _)| is_presence(value)));
        push_key(&mut table, key, &mut sink)
    })?;
    table.finish(&mut sink.out);
    Ok((sink.finish()?, with_field))
}

/// Least memory of a field's sorter. With less it would leave hundreds of small runs on disk: their inodes alone
/// (6 MB of kernel memory for 50 fields) got a server of 16 MB killed. Rather read the payloads again.
const SORTER_BYTES_MIN: usize = 64 << 10;

/// Builds the payload indexes of a segment in one pass over its payloads.
pub struct FieldSorters {
    segment: u64,
    fields: Vec<Sorted>,
    row: u32,
    key: Vec<u8>,
}

impl FieldSorters {
    /// Fields that are sorted in one pass over the payloads.
    fn at_once(job: &Job<'_>) -> usize {
        (job.scratch_bytes / 2 / SORTER_BYTES_MIN).max(1)
    }

    pub fn new(segment: u64, fields: &[PayloadField], job: &Job<'_>) -> Result<FieldSorters> {
        let share = job.scratch_bytes / 2 / fields.len().max(1);
        let sorter = |field: &PayloadField| {
            let path = Path::parse(&field.path).map_err(|e| Error::bad_input(e.to_string()))?;
            let tag = format!("{segment}-x{}", field.slot);
            let sorter = Sorter::new(job.storage.clone(), tag, share, job.scratch_bytes / 2);
            Ok(Sorted {
                field: field.clone(),
                path,
                sorter,
                rows: 0,
            })
        };
        let fields = fields.iter().map(sorter).collect::<Result<_>>()?;
        Ok(FieldSorters {
            segment,
            fields,
            row: 0,
            key: Vec::new(),
        })
    }

    /// The next row's payload.
    pub fn push(&mut self, payload: &[u8]) -> Result<()> {
        let row = self.row;
        self.row += 1;
        if payload.is_empty() {
            return Ok(());
        }
        for Sorted {
            field,
            path,
            sorter,
            rows,
        } in &mut self.fields
        {
            let (key, mut result) = (&mut self.key, Ok(()));
            field.emit_keys(path, payload, &mut |value| {
                *rows += u32::from(is_presence(value));
                key.clear();
                key.extend_from_slice(value);
                key.extend_from_slice(&row.to_be_bytes());
                if result.is_ok() {
                    result = sorter.push(key);
                }
            });
            result?;
        }
        Ok(())
    }

    /// The tables' files, each with the number of rows that have the field.
    pub fn finish(self, job: &mut Job<'_>) -> Result<Vec<(FileEntry, u32)>> {
        let mut built = Vec::with_capacity(self.fields.len());
        for Sorted {
            field, sorter, rows, ..
        } in self.fields
        {
            let component = Component::FieldIndex { slot: field.slot };
            let storage = job.storage.as_ref();
            let mut sink = Sink::create(storage, segment_file(self.segment, component), component)?;
            let mut table = SortedWriter::new(seed(self.segment, component));
            sorter.finish(job.io, &mut |key| push_key(&mut table, key, &mut sink))?;
            table.finish(&mut sink.out);
            built.push((sink.finish()?, rows));
        }
        Ok(built)
    }
}

/// A payload index under way.
struct Sorted {
    field: PayloadField,
    path: Path,
    sorter: Sorter,
    /// Rows that have the field.
    rows: u32,
}

const FIELD_ROWS: &str = "field_rows";

/// Keeps with a segment how many of its rows an index's field has.
pub fn note_field_rows(extra: &mut serde_json::Value, file: &FileEntry, rows: u32) {
    extra[FIELD_ROWS][&file.name] = rows.into();
}

/// How many rows of a segment have the field of an index, deleted ones included.
pub fn field_rows(entry: &SegmentEntry, slot: u16) -> u64 {
    let file = entry.file(Component::FieldIndex { slot });
    file.and_then(|file| entry.extra.get(FIELD_ROWS)?.get(&file.name)?.as_u64())
        .unwrap_or(0)
}
