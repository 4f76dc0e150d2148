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

use ramlet_format::bitmap;
use ramlet_format::bloom::{Bloom, hash64};
use ramlet_format::component::Component;
use ramlet_format::envelope::EnvelopeKind;
use ramlet_format::manifest::{FileEntry, SegmentEntry};
use ramlet_index::{Flat, IndexScratch, Ivf, VectorIndex};
use ramlet_io::{IoContext, Storage};
use ramlet_memory::{AnonBuf, Reservation};
use roaring::RoaringBitmap;

pub use build::{FieldSorters, Job, build, field_rows, note_field_rows, was_refused_an_index};
pub use files::{Shelf, TableFile};
pub use names::{SCRATCH_PREFIX, deletes_file, is_ours};
pub use source::{Merged, RowSource};

use crate::deletes::DeleteSet;
use crate::error::{Error, Result};
use crate::limits::SEGMENT_FILE_BYTES;
use crate::query::index_error;
use crate::schema::Schema;
use crate::types::PointId;
use files::{RecordsFile, RowsFile, bad, open_index_rows};

/// A segment, opened.
pub struct Segment {
    pub entry: SegmentEntry,
    /// Shared with the same segment under other payload indexes.
    body: Arc<Body>,
    fields: Vec<(u16, Arc<TableFile>)>,
}

/// What never changes of a segment.
struct Body {
    row_ids: RowsFile,
    ids: TableFile,
    id_filter: Option<(Bloom, Reservation)>,
    payload: RecordsFile,
    vectors: Vec<VectorColumn>,
    /// For the open files; where the account is full they are open all the same, bounded by what merges leave.
    _files: Option<Reservation>,
}

/// One vector of all rows.
pub struct VectorColumn {
    pub slot: u16,
    pub index: Box<dyn VectorIndex>,
    /// Rows that have the vector; `None`: all.
    pub present: Option<RoaringBitmap>,
    _present_heap: Option<Reservation>,
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
}

impl Segment {
    /// Opens all files; their blocks are verified when they are read. Vectors go to RAM where the settings and the budget
    /// allow it.
    pub fn open(entry: SegmentEntry, shelf: &Shelf, schema: &Schema, io: &mut IoContext) -> Result<Segment> {
        let id = entry.id;
        let one = |component| {
            entry
                .files
                .iter()
                .find(|f| f.component == component)
                .ok_or_else(|| {
                    Error::corrupt(format!("segment {id}: the manifest names no {component:?} file"))
                })
        };
        let row_ids = RowsFile::open(shelf, id, one(Component::RowIds)?, io)?;
        let ids = TableFile::open(shelf, id, one(Component::Ids)?, io)?;
        let id_filter = open_filter(shelf, id, one(Component::IdFilter)?)?;
        let payload = RecordsFile::open(shelf, id, one(Component::Payload)?, io)?;
        let (mut vectors, mut fields) = (Vec::new(), Vec::new());
        for file in &entry.files {
            match file.component {
                Component::Vector { slot } => {
                    vectors.push(open_vector(shelf, &entry, slot, schema.may_pin(slot), io)?)
                }
                Component::FieldIndex { slot } => {
                    fields.push((slot, Arc::new(TableFile::open(shelf, id, file, io)?)))
                }
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
        let held = shelf.spare(entry.files.len() as u64 * SEGMENT_FILE_BYTES);
        let body = Body {
            row_ids,
            ids,
            id_filter,
            payload,
            vectors,
            _files: held,
        };
        Ok(Segment {
            entry,
            body: Arc::new(body),
            fields,
        })
    }

    /// The same rows under `entry`, which differs in its payload indexes only: opens those that are new.
    pub fn with_fields(&self, entry: SegmentEntry, shelf: &Shelf, io: &mut IoContext) -> Result<Segment> {
        let mut fields = Vec::new();
        for file in &entry.files {
            let Component::FieldIndex { slot } = file.component else {
                continue;
            };
            let known = self
                .fields
                .iter()
                .find(|(s, _)| *s == slot)
                .map(|(_, table)| table.clone());
            let table = match known {
                Some(table) => table,
                None => Arc::new(TableFile::open(shelf, entry.id, file, io)?),
            };
            fields.push((slot, table));
        }
        Ok(Segment {
            entry,
            body: self.body.clone(),
            fields,
        })
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
        self.body.vectors.iter().find(|v| v.slot == slot)
    }

    pub fn field(&self, slot: u16) -> Option<&TableFile> {
        self.fields
            .iter()
            .find(|(s, _)| *s == slot)
            .map(|(_, table)| table.as_ref())
    }

    /// The row of an id, deleted or not. No read when the filter or the range of ids says no; else one, unless cached.
    pub fn find(&self, id: PointId, io: &mut IoContext, buf: &mut AnonBuf) -> Result<Option<u32>> {
        let mut key = Vec::with_capacity(PointId::ENCODED_MAX + 4);
        id.encode(&mut key);
        let index = &self.body.ids.index;
        let (Some(first), Some(last)) = (index.first_key(), index.last_key()) else {
            return Ok(None);
        };
        let id_of = |key: &'_ [u8]| key.len().saturating_sub(4);
        if key.as_slice() < &first[..id_of(first)] || key.as_slice() > &last[..id_of(last)] {
            return Ok(None);
        }
        if self
            .body
            .id_filter
            .as_ref()
            .is_some_and(|(filter, _)| !filter.may_contain(hash64(&key)))
        {
            return Ok(None);
        }
        let mut found = None;
        self.body.ids.from(&key, io, buf, &mut |value, row| {
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
        self.body.ids.from(&key, io, buf, &mut |value, row| {
            PointId::decode(value).is_none_or(|(id, _)| each(id, row))
        })
    }

    /// (id, version) of a row.
    pub fn row_id(&self, row: u32, io: &mut IoContext, buf: &mut AnonBuf) -> Result<(PointId, u64)> {
        let bytes = self.body.row_ids.row(u64::from(row), io, buf)?;
        build::decode_row_id(bytes)
            .ok_or_else(|| Error::corrupt(format!("segment {}: row {row} has no id", self.id())))
    }

    pub fn payload<'a>(&'a self, row: u32, io: &mut IoContext, buf: &'a mut AnonBuf) -> Result<&'a [u8]> {
        self.body.payload.borrow(row, io, buf)
    }

    /// The payload of `row` and of rows behind it that lie in the same block.
    pub fn payload_block(
        &self,
        row: u32,
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(u32, &[u8]),
    ) -> Result<()> {
        self.body.payload.block_from(row, io, buf, each)
    }

    /// Appends the encoded vector of a row to `out`; false when it has none.
    pub fn vector_row(
        &self,
        slot: u16,
        row: u32,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let Some(column) = self.vector(slot).filter(|column| column.has(row)) else {
            return Ok(false);
        };
        let mut found = false;
        column
            .index
            .read_rows(&[row], scratch, io, &mut |_, bytes| {
                out.extend_from_slice(bytes);
                found = true;
                Ok(())
            })
            .map_err(index_error)?;
        Ok(found)
    }

    /// Vectors that an approximate index holds.
    pub fn indexed_vectors(&self) -> u64 {
        self.body
            .vectors
            .iter()
            .filter(|c| c.index.kind() != "flat")
            .map(|c| u64::from(c.index.rows()))
            .sum()
    }

    /// (name, kind, heap bytes, disk bytes) of everything but vectors.
    pub fn tables(&self, schema: &Schema) -> Vec<(String, &'static str, u64, u64)> {
        let filter = self.body.id_filter.as_ref().map_or(0, |(_, held)| held.bytes());
        let mut out = vec![
            ("ids".to_string(), "rows", 0, self.body.row_ids.file.len()),
            (
                "ids".to_string(),
                "sorted",
                self.body.ids.heap_bytes() + filter,
                self.body.ids.disk_bytes() + filter,
            ),
            (
                "payload".to_string(),
                "records",
                self.body.payload.heap_bytes(),
                self.body.payload.disk_bytes(),
            ),
        ];
        for (slot, table) in &self.fields {
            let name = schema
                .fields
                .iter()
                .find(|f| f.slot == *slot)
                .map_or("", |f| f.path.as_str());
            out.push((
                format!("payload index `{name}`"),
                "sorted",
                table.heap_bytes(),
                table.disk_bytes(),
            ));
        }
        out
    }

    /// Bytes of its files that are kept in RAM.
    pub fn pinned_bytes(&self) -> u64 {
        self.body
            .vectors
            .iter()
            .map(|column| column.index.memory().pinned_bytes)
            .sum()
    }

    /// Bytes that would go to RAM next if there were room: codes, then the vectors that may.
    pub fn unpinned_bytes(&self, schema: &Schema) -> u64 {
        let bytes_of = |component| self.entry.file(component).map_or(0, |file| file.bytes);
        let wanted = |column: &VectorColumn| {
            let slot = column.slot;
            let codes = bytes_of(Component::Codes { slot });
            let rows = bytes_of(Component::Vector { slot });
            match column.index.memory().pinned_bytes {
                pinned if pinned < codes => codes,
                pinned if pinned < codes + rows && schema.may_pin(slot) => rows,
                _ => 0,
            }
        };
        self.body.vectors.iter().map(wanted).sum()
    }

    pub fn columns(&self) -> &[VectorColumn] {
        &self.body.vectors
    }

    pub fn for_each_id(
        &self,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, PointId, u64) -> Result<()>,
    ) -> Result<()> {
        self.body.row_ids.for_each(io, &mut |row, bytes| {
            let (id, version) = build::decode_row_id(bytes)
                .ok_or_else(|| Error::corrupt(format!("segment {}: row {row} has no id", self.id())))?;
            each(row as u32, id, version)
        })
    }

    pub fn for_each_payload(
        &self,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.body.payload.for_each(io, each)
    }
}

/// A small whole file.
pub fn read_whole(storage: &dyn Storage, entry: &FileEntry) -> Result<Vec<u8>> {
    let file = storage.open(&entry.name)?;
    if file.len() != entry.bytes {
        let why = format!(
            "{}: {} bytes, the manifest says {}",
            entry.name,
            file.len(),
            entry.bytes
        );
        return Err(Error::corrupt(why));
    }
    let mut bytes = vec![0; entry.bytes as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn read_into(storage: &dyn Storage, entry: &FileEntry, out: &mut [u8]) -> Result<()> {
    let file = storage.open(&entry.name)?;
    if file.len() != entry.bytes {
        let why = format!(
            "{}: {} bytes, the manifest says {}",
            entry.name,
            file.len(),
            entry.bytes
        );
        return Err(Error::corrupt(why));
    }
    Ok(file.read_at(&mut out[..entry.bytes as usize], 0)?)
}

fn open_filter(shelf: &Shelf, segment: u64, entry: &FileEntry) -> Result<Option<(Bloom, Reservation)>> {
    // Without RAM for the filter, ids are looked up in the table: a read more, nothing wrong.
    // Twice, while it is read and parsed.
    let Some(mut reservation) = shelf.spare(2 * entry.bytes) else {
        return Ok(None);
    };
    let bytes = read_whole(shelf.storage.as_ref(), entry)?;
    let bloom =
        Bloom::parse(names::seed(segment, entry.component), &bytes).map_err(|e| bad(&entry.name, e))?;
    reservation.shrink_to(bloom.heap_bytes() as u64);
    Ok(Some((bloom, reservation)))
}

/// Recall that an approximate index aims at when nobody says otherwise (DESIGN section 1).
const RECALL: f32 = 0.95;

fn open_vector(
    shelf: &Shelf,
    entry: &SegmentEntry,
    slot: u16,
    pin: bool,
    io: &mut IoContext,
) -> Result<VectorColumn> {
    let id = entry.id;
    let file = |component| entry.files.iter().find(|f| f.component == component);
    let one = |component| {
        file(component)
            .ok_or_else(|| Error::corrupt(format!("segment {id}: the manifest names no {component:?} file")))
    };
    // Codes first: a byte of them saves more reads than a byte of vectors.
    let codes = match file(Component::Codes { slot }) {
        Some(codes) => Some(open_index_rows(shelf, id, codes, true, io)?).filter(is_in_memory),
        None => None,
    };
    let rows = open_index_rows(shelf, id, one(Component::Vector { slot })?, pin, io)?;
    let index: Box<dyn VectorIndex> = match file(Component::Centroids { slot }) {
        None => Box::new(Flat::new(rows)),
        Some(centroids) => {
            let positions = open_index_rows(shelf, id, one(Component::Position { slot })?, false, io)?;
            let mut bytes = AnonBuf::reserved(&shelf.metadata, centroids.bytes as usize)?;
            read_into(shelf.storage.as_ref(), centroids, &mut bytes)?;
            let ivf = Ivf::open(rows, positions, bytes, RECALL);
            let ivf = match codes {
                Some(codes) => ivf.and_then(|ivf| ivf.with_codes(codes)),
                None => ivf,
            };
            Box::new(ivf.map_err(index_error)?)
        }
    };
    let (present, heap) = match file(Component::Presence { slot }) {
        None => (None, None),
        Some(file) => {
            let heap = shelf.metadata.reserve(file.bytes)?;
            let bytes = read_whole(shelf.storage.as_ref(), file)?;
            let present =
                bitmap::decode(EnvelopeKind::Presence, entry.rows, &bytes).map_err(|e| bad(&file.name, e))?;
            (Some(present), Some(heap))
        }
    };
    Ok(VectorColumn {
        slot,
        index,
        present,
        _present_heap: heap,
    })
}

/// Pinned, or of a storage that is memory.
fn is_in_memory(rows: &ramlet_index::RowsFile) -> bool {
    let file = rows.file();
    file.pinned_bytes() > 0 || file.file().raw_fd().is_none() && file.file().as_bytes().is_some()
}

/// The deleted rows that a manifest names.
pub fn read_deletes(shelf: &Shelf, entry: &FileEntry, rows: u32) -> Result<RoaringBitmap> {
    let bytes = read_whole(shelf.storage.as_ref(), entry)?;
    bitmap::decode(EnvelopeKind::Deletes, rows, &bytes).map_err(|e| bad(&entry.name, e))
}
