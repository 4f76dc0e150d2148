//! Writes a segment: column by column, each file front to back, sorting within the job's memory.

use std::sync::Arc;

use ramlet_format::bloom::{BloomBuilder, hash64};
use ramlet_format::manifest::{Component, FileEntry, SegmentEntry};
use ramlet_format::records::RecordsWriter;
use ramlet_format::rows::RowsWriter;
use ramlet_format::sorted::SortedWriter;
use ramlet_io::{IoContext, Storage};
use roaring::RoaringBitmap;

use super::names::{seed, segment_file};
use super::sink::Sink;
use super::sorter::Sorter;
use super::source::RowSource;
use crate::error::{Error, Result};
use crate::filter::index::emit_keys;
use crate::payload::path::Path;
use crate::schema::{PayloadField, Schema, VectorField};
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
    let id = if tagged & UUID_BIT != 0 { PointId::Uuid(number) } else { PointId::Num(u64::try_from(number).ok()?) };
    Some((id, tagged & !UUID_BIT))
}

/// What a job may use.
pub struct Job<'a> {
    pub storage: &'a Arc<dyn Storage>,
    pub schema: &'a Schema,
    /// Bytes of scratch memory for sorting and index builds.
    pub scratch_bytes: usize,
    pub io: &'a mut IoContext,
}

/// Writes segment `id` from `source`. All its files are synced when this returns; the directory isn't.
pub fn build(id: u64, source: &dyn RowSource, job: &mut Job<'_>) -> Result<SegmentEntry> {
    let rows = source.rows();
    let mut files = Vec::new();
    build_ids(id, source, job, &mut files)?;
    for vector in &job.schema.vectors {
        build_vectors(id, vector, source, job, &mut files)?;
    }
    build_payload(id, source, job, &mut files)?;
    Ok(SegmentEntry {
        id,
        rows,
        live: rows,
        files,
        deletes: None,
        min_lsn: 0,
        max_lsn: 0,
        extra: serde_json::Value::Null,
    })
}

fn build_ids(id: u64, source: &dyn RowSource, job: &mut Job<'_>, files: &mut Vec<FileEntry>) -> Result<()> {
    let mut sink = Sink::create(job.storage.as_ref(), segment_file(id, Component::RowIds), Component::RowIds)?;
    let mut writer = RowsWriter::new(seed(id, Component::RowIds), ROW_ID_BYTES);
    let mut sorter = Sorter::new(job.storage.clone(), format!("{id}-ids"), job.scratch_bytes);
    let mut bloom = BloomBuilder::new(u64::from(source.rows()));
    let (mut row, mut key) = (0u32, Vec::new());
    source.ids(job.io, &mut |point, version| {
        writer.push(&encode_row_id(point, version), &mut sink.out);
        sink.drain()?;
        key.clear();
        point.encode(&mut key);
        bloom.insert(hash64(&key));
        key.extend_from_slice(&row.to_be_bytes());
        row += 1;
        sorter.push(&key)
    })?;
    writer.finish(&mut sink.out);
    files.push(sink.finish()?);

    let mut sink = Sink::create(job.storage.as_ref(), segment_file(id, Component::Ids), Component::Ids)?;
    let mut table = SortedWriter::new(seed(id, Component::Ids));
    sorter.finish(job.io, &mut |key| push_key(&mut table, key, &mut sink))?;
    table.finish(&mut sink.out);
    files.push(sink.finish()?);

    let mut sink = Sink::create(job.storage.as_ref(), segment_file(id, Component::IdFilter), Component::IdFilter)?;
    sink.out = bloom.finish(seed(id, Component::IdFilter));
    files.push(sink.finish()?);
    Ok(())
}

fn push_key(table: &mut SortedWriter, key: &[u8], sink: &mut Sink) -> Result<()> {
    table.push(key, &mut sink.out).map_err(|e| Error::corrupt(e.to_string()))?;
    sink.drain()
}

fn build_vectors(
    id: u64,
    vector: &VectorField,
    source: &dyn RowSource,
    job: &mut Job<'_>,
    files: &mut Vec<FileEntry>,
) -> Result<()> {
    let component = Component::Vector { slot: vector.slot };
    let mut sink = Sink::create(job.storage.as_ref(), segment_file(id, component), component)?;
    let mut writer = RowsWriter::new(seed(id, component), vector.row_bytes() as u32);
    let mut absent = RoaringBitmap::new();
    let mut row = 0;
    source.vectors(vector.slot, job.io, &mut |bytes| {
        match bytes {
            Some(bytes) => writer.push(bytes, &mut sink.out),
            None => {
                absent.insert(row);
            }
        }
        row += 1;
        sink.drain()
    })?;
    writer.finish(&mut sink.out);
    files.push(sink.finish()?);
    if !absent.is_empty() {
        let component = Component::Presence { slot: vector.slot };
        let mut present = RoaringBitmap::new();
        present.insert_range(0..row);
        present -= absent;
        let mut sink = Sink::create(job.storage.as_ref(), segment_file(id, component), component)?;
        sink.out = ramlet_format::deletes::encode(&present);
        files.push(sink.finish()?);
    }
    Ok(())
}

fn build_payload(id: u64, source: &dyn RowSource, job: &mut Job<'_>, files: &mut Vec<FileEntry>) -> Result<()> {
    let mut sink = Sink::create(job.storage.as_ref(), segment_file(id, Component::Payload), Component::Payload)?;
    let mut writer = RecordsWriter::new(seed(id, Component::Payload));
    let mut indexes = FieldSorters::new(id, &job.schema.fields, job)?;
    source.payloads(job.io, &mut |payload| {
        writer.push(payload, &mut sink.out);
        indexes.push(payload)?;
        sink.drain()
    })?;
    writer.finish(&mut sink.out);
    files.push(sink.finish()?);
    indexes.finish(job.storage.as_ref(), job.io, files)
}

/// Builds the payload indexes of a segment in one pass over its payloads.
pub struct FieldSorters {
    segment: u64,
    fields: Vec<(PayloadField, Path, Sorter)>,
    row: u32,
    key: Vec<u8>,
}

impl FieldSorters {
    pub fn new(segment: u64, fields: &[PayloadField], job: &Job<'_>) -> Result<FieldSorters> {
        let share = job.scratch_bytes / fields.len().max(1);
        let sorter = |field: &PayloadField| {
            let path = Path::parse(&field.path).map_err(|e| Error::bad_input(e.to_string()))?;
            let tag = format!("{segment}-x{}", field.slot);
            Ok((field.clone(), path, Sorter::new(job.storage.clone(), tag, share)))
        };
        let fields = fields.iter().map(sorter).collect::<Result<_>>()?;
        Ok(FieldSorters { segment, fields, row: 0, key: Vec::new() })
    }

    /// The next row's payload.
    pub fn push(&mut self, payload: &[u8]) -> Result<()> {
        let row = self.row;
        self.row += 1;
        if payload.is_empty() {
            return Ok(());
        }
        for (field, path, sorter) in &mut self.fields {
            let (key, mut result) = (&mut self.key, Ok(()));
            emit_keys(field.kind, path, payload, &mut |value| {
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

    pub fn finish(self, storage: &dyn Storage, io: &mut IoContext, files: &mut Vec<FileEntry>) -> Result<()> {
        for (field, _, sorter) in self.fields {
            let component = Component::FieldIndex { slot: field.slot };
            let mut sink = Sink::create(storage, segment_file(self.segment, component), component)?;
            let mut table = SortedWriter::new(seed(self.segment, component));
            sorter.finish(io, &mut |key| push_key(&mut table, key, &mut sink))?;
            table.finish(&mut sink.out);
            files.push(sink.finish()?);
        }
        Ok(())
    }
}
