//! Segments: rows on disk, written once.
//!
//! A row number stands for a point within its segment. Columns: ids by row, rows by id, one file per vector, payloads by row,
//! one sorted table per payload index. Only deletes change, and they live beside the segment.

mod build;
mod files;
mod names;
mod sink;
mod sorter;
mod source;

use std::sync::Arc;

use ramlet_format::bloom::{Bloom, hash64};
use ramlet_format::deletes;
use ramlet_format::manifest::{Component, FileEntry, SegmentEntry};
use ramlet_io::{IoContext, Storage};
use ramlet_memory::{AnonBuf, Reservation};
use roaring::RoaringBitmap;

pub use build::{FieldSorters, Job, build};
pub use files::{RowsFile, Shelf, TableFile};
pub use names::{SCRATCH_PREFIX, deletes_file, is_ours};
pub use source::{Merged, RowSource};

use crate::deletes::DeleteSet;
use crate::error::{Error, Result};
use crate::types::PointId;
use files::{RecordsFile, bad};

/// A segment, opened.
pub struct Segment {
    pub entry: SegmentEntry,
    row_ids: RowsFile,
    ids: TableFile,
    id_filter: Option<(Bloom, Reservation)>,
    payload: RecordsFile,
    vectors: Vec<VectorColumn>,
    fields: Vec<(u16, TableFile)>,
}

/// One vector of all rows.
pub struct VectorColumn {
    pub slot: u16,
    pub file: RowsFile,
    /// Rows that have the vector; `None`: all. File row = rank among them.
    pub present: Option<RoaringBitmap>,
}

/// A segment at one moment.
#[derive(Clone)]
pub struct SegmentView {
    pub segment: Arc<Segment>,
    pub deletes: DeleteSet,
}

impl SegmentView {
    pub fn live(&self) -> u32 {
        self.segment.rows() - self.deletes.len()
    }
}

impl VectorColumn {
    pub fn has(&self, row: u32) -> bool {
        self.present.as_ref().is_none_or(|p| p.contains(row))
    }

    /// Where a row's vector stands in the file.
    pub fn file_row(&self, row: u32) -> Option<u64> {
        match &self.present {
            None => Some(u64::from(row)),
            Some(present) => present.contains(row).then(|| present.rank(row) - 1),
        }
    }
}

impl Segment {
    /// Opens all files; their blocks are verified when they are read.
    pub fn open(entry: SegmentEntry, shelf: &Shelf, io: &mut IoContext) -> Result<Segment> {
        let id = entry.id;
        let one = |component| {
            entry
                .files
                .iter()
                .find(|f| f.component == component)
                .ok_or_else(|| Error::corrupt(format!("segment {id}: the manifest names no {component:?} file")))
        };
        let row_ids = RowsFile::open(shelf, id, one(Component::RowIds)?, io)?;
        let ids = TableFile::open(shelf, id, one(Component::Ids)?, io)?;
        let id_filter = open_filter(shelf, one(Component::IdFilter)?)?;
        let payload = RecordsFile::open(shelf, id, one(Component::Payload)?, io)?;
        let (mut vectors, mut fields) = (Vec::new(), Vec::new());
        for file in &entry.files {
            match file.component {
                Component::Vector { slot } => {
                    let present = entry.files.iter().find(|f| f.component == Component::Presence { slot });
                    let present = present.map(|f| read_bitmap(shelf, f)).transpose()?;
                    vectors.push(VectorColumn { slot, file: RowsFile::open(shelf, id, file, io)?, present });
                }
                Component::FieldIndex { slot } => fields.push((slot, TableFile::open(shelf, id, file, io)?)),
                _ => {}
            }
        }
        let rows = u64::from(entry.rows);
        if row_ids.rows() != rows || ids.keys() != rows {
            return Err(Error::corrupt(format!(
                "segment {id}: {rows} rows in the manifest, {} in its row file, {} in its id table",
                row_ids.rows(),
                ids.keys()
            )));
        }
        Ok(Segment { entry, row_ids, ids, id_filter, payload, vectors, fields })
    }

    pub fn id(&self) -> u64 {
        self.entry.id
    }

    pub fn rows(&self) -> u32 {
        self.entry.rows
    }

    pub fn disk_bytes(&self) -> u64 {
        self.entry.files.iter().map(|f| f.bytes).sum()
    }

    pub fn vector(&self, slot: u16) -> Option<&VectorColumn> {
        self.vectors.iter().find(|v| v.slot == slot)
    }

    pub fn field(&self, slot: u16) -> Option<&TableFile> {
        self.fields.iter().find(|(s, _)| *s == slot).map(|(_, table)| table)
    }

    /// The row of an id, deleted or not. No read when the filter or the range of ids says no; else one, unless cached.
    pub fn find(&self, id: PointId, io: &mut IoContext, buf: &mut AnonBuf) -> Result<Option<u32>> {
        let mut key = Vec::with_capacity(PointId::ENCODED_MAX + 4);
        id.encode(&mut key);
        let index = &self.ids.index;
        let (first, last) = (index.first_key(), index.last_key());
        if key.as_slice() < &first[..first.len().saturating_sub(4)] || key.as_slice() > &last[..last.len().saturating_sub(4)] {
            return Ok(None);
        }
        if self.id_filter.as_ref().is_some_and(|(filter, _)| !filter.may_contain(hash64(&key))) {
            return Ok(None);
        }
        let mut found = None;
        self.ids.from(&key, io, buf, &mut |value, row| {
            if value == key {
                found = Some(row);
            }
            false
        })?;
        Ok(found)
    }

    /// Ids from `from` on in ascending order, with their rows, until `each` returns false.
    pub fn ids_from(
        &self,
        from: Option<PointId>,
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(PointId, u32) -> bool,
    ) -> Result<()> {
        let mut key = Vec::with_capacity(PointId::ENCODED_MAX);
        if let Some(id) = from {
            id.encode(&mut key);
        }
        self.ids.from(&key, io, buf, &mut |value, row| {
            PointId::decode(value).is_none_or(|(id, _)| each(id, row))
        })
    }

    /// (id, version) of a row.
    pub fn row_id(&self, row: u32, io: &mut IoContext, buf: &mut AnonBuf) -> Result<(PointId, u64)> {
        let bytes = self.row_ids.row(u64::from(row), io, buf)?;
        build::decode_row_id(bytes).ok_or_else(|| Error::corrupt(format!("segment {}: row {row} has no id", self.id())))
    }

    pub fn payload<'a>(&'a self, row: u32, io: &mut IoContext, buf: &'a mut AnonBuf) -> Result<&'a [u8]> {
        self.payload.borrow(row, io, buf)
    }

    /// The encoded vector of a row.
    pub fn vector_row<'a>(
        &'a self,
        slot: u16,
        row: u32,
        io: &mut IoContext,
        buf: &'a mut AnonBuf,
    ) -> Result<Option<&'a [u8]>> {
        let Some(column) = self.vector(slot) else { return Ok(None) };
        let Some(at) = column.file_row(row) else { return Ok(None) };
        column.file.row(at, io, buf).map(Some)
    }

    pub fn for_each_id(
        &self,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, PointId, u64) -> Result<()>,
    ) -> Result<()> {
        self.row_ids.for_each(io, &mut |row, bytes| {
            let (id, version) = build::decode_row_id(bytes)
                .ok_or_else(|| Error::corrupt(format!("segment {}: row {row} has no id", self.id())))?;
            each(row as u32, id, version)
        })
    }

    /// Every row with its vector of this slot, or `None`.
    pub fn for_each_vector(
        &self,
        slot: u16,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let Some(column) = self.vector(slot) else {
            return (0..self.rows()).try_for_each(|row| each(row, None));
        };
        let mut next = 0u32;
        column.file.for_each(io, &mut |_, bytes| {
            while !column.has(next) {
                each(next, None)?;
                next += 1;
            }
            each(next, Some(bytes))?;
            next += 1;
            Ok(())
        })?;
        (next..self.rows()).try_for_each(|row| each(row, None))
    }

    pub fn for_each_payload(
        &self,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.payload.for_each(io, each)
    }
}

/// A small whole file.
pub fn read_whole(storage: &dyn Storage, entry: &FileEntry) -> Result<Vec<u8>> {
    let file = storage.open(&entry.name)?;
    if file.len() != entry.bytes {
        let why = format!("{}: {} bytes, the manifest says {}", entry.name, file.len(), entry.bytes);
        return Err(Error::corrupt(why));
    }
    let mut bytes = vec![0; entry.bytes as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn open_filter(shelf: &Shelf, entry: &FileEntry) -> Result<Option<(Bloom, Reservation)>> {
    // Without RAM for the filter, ids are looked up in the table: a read more, nothing wrong.
    let Ok(reservation) = shelf.metadata.reserve(entry.bytes) else { return Ok(None) };
    let bytes = read_whole(shelf.storage.as_ref(), entry)?;
    let bloom = Bloom::parse(bytes).map_err(|e| bad(&entry.name, e))?;
    Ok(Some((bloom, reservation)))
}

pub fn read_bitmap(shelf: &Shelf, entry: &FileEntry) -> Result<RoaringBitmap> {
    let bytes = read_whole(shelf.storage.as_ref(), entry)?;
    deletes::decode(&bytes).map_err(|e| bad(&entry.name, e))
}
