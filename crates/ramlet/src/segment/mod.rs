//! Segments: rows on disk, written once.
//!
//! A row number stands for a point within its segment. Columns: ids by row, rows by id, one file per vector, payloads by row,
//! one sorted table per payload index. Only deletes change, and they live beside the segment.

mod build;
mod by_tenant;
mod calibration;
pub mod deletes;
mod files;
mod ids_in_ram;
pub mod indexable;
mod indexes;
mod job;
mod kept;
pub mod layout;
#[cfg(test)]
mod merge_tests;
mod names;
mod numbers;
mod part_rows;
mod parts;
mod records;
mod refusals;
mod resident_files;
mod sink;
mod sorter;
mod source;
mod sparse;
mod streams;
mod table;
mod text;
mod vectors;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ramlet_format::FileCrc;
use ramlet_format::bitmap;
use ramlet_format::component::Component;
use ramlet_format::envelope::EnvelopeKind;
use ramlet_format::manifest::{FileEntry, SegmentEntry};
use ramlet_index::IndexScratch;
use ramlet_io::{IoContext, RecordCache, Storage};
use ramlet_memory::AnonBuf;
use roaring::RoaringBitmap;

pub use build::{FieldSorters, build, field_rows, note_field_rows};
pub use by_tenant::{ByTenant, Numbers};
use calibration::forget_calibration;
pub use calibration::{calibration_of, note_calibration, note_sampled, was_sampled};
pub(crate) use files::graph_width;
pub use files::{EachRecord, FileContext, RecordsFile};
pub use indexes::Lack;
pub(crate) use indexes::becomes_graph;
pub use job::Job;
pub use layout::IndexingThreshold;
pub use names::{SCRATCH_PREFIX, deletes_file, is_ours};
pub use refusals::refused_index;
use refusals::{forget_refusal, reconsider_refusals};
pub use resident_files::{KeptWhole, ResidentFiles};
pub use source::{Merged, RowSource, RowsByNumber};
use streams::RecordStream;
pub use table::TableFile;
pub use text::{
    Decoded, Directory, Gone, ListPart, Peaks, TextBuilders, TextColumn, bad_list, decoded_length,
    encoded_length,
};
pub use vectors::{CachedFile, RECALL, VectorColumn, check_pinned};

use crate::error::{Error, Result};
use crate::faults::mutants;
use crate::limits::SEGMENT_FILE_BYTES;
use crate::memory::eviction::{Caches, EvictionRank};
use crate::schema::Schema;
use crate::segment::deletes::DeleteSet;
use crate::segment::layout::is_small_segment;
use crate::settings::Placement;
use crate::types::{FieldKind, PointId};
use files::{Cacheable, RowsFile, bad};
use ids_in_ram::IdsInRam;

/// A segment, opened.
pub struct Segment {
    pub entry: SegmentEntry,
    /// Shared with the same segment under other payload indexes.
    body: Arc<Body>,
    vectors: Vec<Arc<VectorColumn>>,
    fields: Vec<(u16, Arc<TableFile>)>,
    texts: Vec<Arc<TextColumn>>,
}

/// What never changes of a segment.
struct Body {
    row_ids: RowsFile,
    ids: TableFile,
    /// Of the least and the greatest id.
    id_range: Option<RangeInclusive<PointId>>,
    ids_in_ram: IdsInRam,
    payload: RecordsFile,
    /// Whether what is in RAM of the payloads is there because nobody else has use for the room: as [`EvictionRank::Spare`].
    in_part: AtomicBool,
    /// What searches have spent here since it was opened, in rows compared.
    spent: AtomicU64,
    /// Whether codes for this budget can't be made in it.
    stays: AtomicBool,
}

/// A payload index, cached as a whole unless its settings say that it stays on disk. The words of a text are in its lists as well.
fn open_field(
    file_context: &FileContext,
    schema: &Schema,
    segment: u64,
    file: &FileEntry,
    io: &mut IoContext,
) -> Result<Arc<TableFile>> {
    let mut table = TableFile::open(file_context, segment, file, io)?;
    let mut fields = schema.fields.iter();
    let field = fields.find(|field| Some(field.slot) == file.component.slot());
    if field.is_some_and(|field| field.kind != FieldKind::Text && field.placement != Placement::Cold) {
        table.make_cacheable(file_context, EvictionRank::Payloads);
    }
    Ok(Arc::new(table))
}

/// The least and the greatest id of a table of ids; `None`: it is empty.
fn id_range_of(segment: u64, ids: &TableFile) -> Result<Option<RangeInclusive<PointId>>> {
    let (Some(first), Some(last)) = (ids.index.first_key(), ids.index.last_key()) else {
        return Ok(None);
    };
    let id_of = |key| {
        let id = table::split_row(key).and_then(|(id, _)| PointId::decode(id));
        id.map(|(id, _)| id)
            .ok_or_else(|| Error::corrupt(format!("segment {segment}: a key of its id table is no id")))
    };
    Ok(Some(id_of(first)?..=id_of(last)?))
}

/// A segment at one moment.
#[derive(Clone)]
pub struct SegmentView {
    pub segment: Arc<Segment>,
    pub deletes: DeleteSet,
}

impl SegmentView {
    /// Rows of a vector that has no index here.
    pub fn flat_rows(&self, slot: u16) -> u64 {
        let column = self
            .segment
            .vector(slot)
            .filter(|column| column.index.kind() == "flat");
        let rows = column.map_or(0, |column| column.rows(self.segment.rows()));
        rows.saturating_sub(u64::from(self.deletes.len()))
    }

    pub fn live(&self) -> u32 {
        self.segment.rows() - self.deletes.len()
    }
}

impl Segment {
    /// Opens all files; their blocks are verified when they are read. Vectors go to RAM where the settings and the budget
    /// allow it.
    pub fn open(
        mut entry: SegmentEntry,
        file_context: &FileContext,
        schema: &Schema,
        io: &mut IoContext,
    ) -> Result<Segment> {
        let id = entry.id;
        reconsider_refusals(&mut entry.extra, file_context.caches.consumer.cap());
        let one = |component| {
            entry
                .files
                .iter()
                .find(|f| f.component == component)
                .ok_or_else(|| {
                    Error::corrupt(format!("segment {id}: the manifest names no {component:?} file"))
                })
        };
        let row_ids = RowsFile::open(file_context, id, one(Component::RowIds)?, io)?;
        let mut ids = TableFile::open(file_context, id, one(Component::Ids)?, io)?;
        ids.make_cacheable(file_context, EvictionRank::Payloads);
        let mut payload = RecordsFile::open(file_context, id, one(Component::Payload)?, io)?;
        payload.make_cacheable(file_context, EvictionRank::Payloads);
        payload.code(file_context, io);
        let filter_file = one(Component::IdFilter)?;
        let ids_in_ram = IdsInRam::open(id, filter_file, &row_ids, file_context, io)?;
        let (mut vectors, mut fields, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for file in &entry.files {
            match file.component {
                // Parts of multivectors: of the column of their records.
                Component::Vector { slot } if entry.file(Component::VectorRecords { slot }).is_some() => {}
                Component::Vector { slot }
                | Component::Graph { slot }
                | Component::VectorRecords { slot } => {
                    let column = VectorColumn::open(file_context, &entry, schema, slot, None, io)?;
                    vectors.push(Arc::new(column));
                }
                Component::FieldIndex { slot } => {
                    fields.push((slot, open_field(file_context, schema, id, file, io)?));
                }
                Component::TextTerms { slot } => {
                    texts.push(Arc::new(TextColumn::open(
                        file_context,
                        &entry,
                        schema,
                        slot,
                        io,
                    )?));
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
        let body = Body {
            row_ids,
            id_range: id_range_of(id, &ids)?,
            ids,
            ids_in_ram,
            payload,
            spent: AtomicU64::new(0),
            stays: AtomicBool::new(false),
            in_part: AtomicBool::new(false),
        };
        Ok(Segment {
            entry,
            body: Arc::new(body),
            vectors,
            fields,
            texts,
        })
    }

    /// The same rows under `entry`, which differs in its payload indexes only: opens those that are new.
    pub fn with_fields(
        &self,
        entry: SegmentEntry,
        file_context: &FileContext,
        schema: &Schema,
        io: &mut IoContext,
    ) -> Result<Segment> {
        let (mut fields, mut texts) = (Vec::new(), Vec::new());
        for file in &entry.files {
            if let Component::TextTerms { slot } = file.component {
                let known = self.texts.iter().find(|column| column.slot == slot).cloned();
                texts.push(match known {
                    Some(column) => column,
                    None => Arc::new(TextColumn::open(file_context, &entry, schema, slot, io)?),
                });
            }
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
                None => open_field(file_context, schema, entry.id, file, io)?,
            };
            fields.push((slot, table));
        }
        Ok(Segment {
            entry,
            body: self.body.clone(),
            vectors: self.vectors.clone(),
            fields,
            texts,
        })
    }

    /// The same rows without a vector: its files are named no more.
    pub fn without_vector(&self, slot: u16) -> Segment {
        let is_field = |c: Component| of_field(c).is_some();
        let mut entry = self.entry.clone();
        entry
            .files
            .retain(|f| is_field(f.component) || f.component.slot() != Some(slot));
        forget_calibration(&mut entry.extra, slot);
        forget_refusal(&mut entry.extra, slot);
        Segment {
            entry,
            body: self.body.clone(),
            vectors: self.vectors.iter().filter(|v| v.slot != slot).cloned().collect(),
            fields: self.fields.clone(),
            texts: self.texts.clone(),
        }
    }

    /// The same segment with more of one vector in RAM; `None` when there turns out to be no room for it.
    pub fn with_more_of(
        &self,
        column: &VectorColumn,
        file_context: &FileContext,
        schema: &Schema,
        io: &mut IoContext,
    ) -> Result<Option<Segment>> {
        let slot = column.slot;
        let better = VectorColumn::open(file_context, &self.entry, schema, slot, Some(column), io)?;
        if !better.is_better_than(column) {
            return Ok(None);
        }
        let better = Arc::new(better);
        let vectors = self.vectors.iter().map(|known| match known.slot == slot {
            true => better.clone(),
            false => known.clone(),
        });
        Ok(Some(Segment {
            entry: self.entry.clone(),
            body: self.body.clone(),
            vectors: vectors.collect(),
            fields: self.fields.clone(),
            texts: self.texts.clone(),
        }))
    }

    /// The same segment under `entry`, in which nothing differs that it was opened by.
    pub fn with_entry(&self, entry: SegmentEntry) -> Segment {
        Segment {
            entry,
            body: self.body.clone(),
            vectors: self.vectors.clone(),
            fields: self.fields.clone(),
            texts: self.texts.clone(),
        }
    }

    /// The same segment under `entry`, in which another calibration of one vector stands.
    pub fn with_calibration(
        &self,
        entry: SegmentEntry,
        slot: u16,
        file_context: &FileContext,
        schema: &Schema,
        io: &mut IoContext,
    ) -> Result<Segment> {
        let mut vectors = self.vectors.clone();
        for known in vectors.iter_mut().filter(|known| known.slot == slot) {
            *known = Arc::new(VectorColumn::open(
                file_context,
                &entry,
                schema,
                slot,
                Some(known),
                io,
            )?);
        }
        Ok(Segment {
            entry,
            body: self.body.clone(),
            vectors,
            fields: self.fields.clone(),
            texts: self.texts.clone(),
        })
    }

    pub fn id(&self) -> u64 {
        self.entry.id
    }

    pub fn rows(&self) -> u32 {
        self.entry.rows
    }

    /// Whether it was tried to write its index anew for this budget, in vain.
    pub fn rebuild_was_refused(&self) -> bool {
        self.body.stays.load(Ordering::Relaxed)
    }

    pub fn note_stays(&self) {
        self.body.stays.store(true, Ordering::Relaxed);
    }

    /// What searches have spent here since it was opened, in rows compared.
    pub fn spent(&self) -> u64 {
        self.body.spent.load(Ordering::Relaxed)
    }

    /// A search has spent so much here.
    pub fn note_spent(&self, rows: u64) {
        self.body.spent.fetch_add(rows, Ordering::Relaxed);
    }

    /// What its open files take, beside their indexes.
    pub fn open_bytes(&self) -> u64 {
        self.entry.files.len() as u64 * SEGMENT_FILE_BYTES
    }

    pub fn disk_bytes(&self) -> u64 {
        self.entry.files.iter().map(|f| f.bytes).sum()
    }

    /// Bytes of all files of a vector: its index may not have opened those that found no room in RAM.
    pub fn vector_disk_bytes(&self, slot: u16) -> u64 {
        let of_vector = |component: Component| match component {
            _ if of_field(component).is_some() => false,
            _ => component.slot() == Some(slot),
        };
        let files = self.entry.files.iter();
        files.filter(|f| of_vector(f.component)).map(|f| f.bytes).sum()
    }

    pub fn vector(&self, slot: u16) -> Option<&VectorColumn> {
        self.columns().find(|column| column.slot == slot)
    }

    pub fn field(&self, slot: u16) -> Option<&TableFile> {
        self.fields
            .iter()
            .find(|(s, _)| *s == slot)
            .map(|(_, table)| table.as_ref())
    }

    /// The ranked texts of a payload index.
    pub fn text(&self, slot: u16) -> Option<&TextColumn> {
        self.texts
            .iter()
            .find(|column| column.slot == slot)
            .map(Arc::as_ref)
    }

    /// The row of an id, deleted or not. No read when the filter or the range of ids says no; else one, unless cached.
    pub fn find(&self, id: PointId, io: &mut IoContext, buf: &mut AnonBuf) -> Result<Option<u32>> {
        // Before it is encoded: a write asks every segment for every id.
        if self
            .body
            .id_range
            .as_ref()
            .is_none_or(|range| !range.contains(&id))
        {
            return Ok(None);
        }
        let mut key = [0; PointId::ENCODED_MAX];
        let key = id.encode_into(&mut key);
        if self.body.ids_in_ram.has_not(key) {
            return Ok(None);
        }
        let mut found = None;
        self.body.ids.from(key, io, buf, &mut |value, row| {
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

    /// Whether there is room now for ids that found none when the segment was opened.
    pub fn could_take_ids(&self, file_context: &FileContext) -> bool {
        self.body.ids_in_ram.could_take(file_context)
    }

    /// Takes them into RAM; whether some came.
    pub fn take_ids(&self, file_context: &FileContext, io: &mut IoContext) -> Result<bool> {
        let Body {
            row_ids, ids_in_ram, ..
        } = self.body.as_ref();
        ids_in_ram.take(self.id(), row_ids, file_context, io)
    }

    /// (id, version) of a row. One read, unless they are in RAM.
    pub fn row_id(&self, row: u32, io: &mut IoContext, buf: &mut AnonBuf) -> Result<(PointId, u64)> {
        if let Some(found) = self.body.ids_in_ram.row_id(row) {
            return Ok(found);
        }
        let bytes = self.body.row_ids.row(u64::from(row), io, buf)?;
        build::decode_row_id(bytes)
            .ok_or_else(|| Error::corrupt(format!("segment {}: row {row} has no id", self.id())))
    }

    pub fn payload<'a>(&'a self, row: u32, io: &mut IoContext, buf: &'a mut AnonBuf) -> Result<&'a [u8]> {
        self.body.payload.borrow(row, io, buf)
    }

    /// Reads payloads by ascending rows, past the caches.
    fn payload_stream(&self) -> RecordStream<'_> {
        RecordStream::new(&self.body.payload)
    }

    /// The payloads of some rows, ascending: what isn't in RAM is read at once.
    pub fn payloads(
        &self,
        rows: &[u32],
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut EachRecord<'_>,
    ) -> Result<()> {
        self.body.payload.for_rows(rows, io, buf, each)
    }

    /// Files that are kept in RAM as long as nobody else needs the memory, those that are missed most first.
    fn cacheable(&self) -> impl Iterator<Item = (ResidentFiles, &dyn Cacheable)> {
        let texts = self.texts.iter().flat_map(|column| column.cacheable());
        let fields = self
            .fields
            .iter()
            .map(|(_, table)| table.as_ref() as &dyn Cacheable);
        let positions = self
            .columns()
            .filter_map(|column| column.positions())
            .map(|positions| positions as &dyn Cacheable);
        let tables = fields.chain(positions).chain([&self.body.ids as &dyn Cacheable]);
        texts
            .chain(tables.map(|file| (ResidentFiles::Tables, file)))
            .chain([(ResidentFiles::Payloads, &self.body.payload as &dyn Cacheable)])
    }

    /// What files that could be in RAM as a whole would take of it.
    pub fn whole_files(&self) -> impl Iterator<Item = (ResidentFiles, u64)> {
        self.cacheable().map(|(kind, file)| (kind, file.whole_bytes()))
    }

    /// Bytes that such files hold of RAM in their rank, not as what is spare.
    pub fn whole_bytes_resident(&self) -> u64 {
        let held = self.cacheable().filter(|(kind, _)| !self.is_spare(*kind));
        held.map(|(_, file)| file.cached_bytes()).sum()
    }

    fn is_spare(&self, kind: ResidentFiles) -> bool {
        kind == ResidentFiles::Payloads && self.body.in_part.load(Ordering::Relaxed)
    }

    /// Bytes of the files `kept` that aren't in RAM and could be.
    pub fn missing(&self, kept: KeptWhole) -> u64 {
        let wanted = self
            .cacheable()
            .filter(|file| kept.has(file.0, file.1.whole_bytes()));
        wanted.map(|(_, file)| file.missing()).sum()
    }

    /// Whether some file of those `kept` could take up to `room` bytes, or one of the others is in RAM that shouldn't be.
    pub fn could_fill(&self, kept: KeptWhole, room: u64) -> bool {
        self.cacheable()
            .any(|(kind, file)| match kept.has(kind, file.whole_bytes()) {
                true => could_fill(file, room) || self.is_spare(kind),
                false => file.cached_bytes() > 0 && !self.is_spare(kind),
            })
    }

    /// Notes whether it is one of few rows beside one of `largest`, so that its vectors are cached before those.
    pub fn rank_beside(&self, largest: u32, caches: &Caches) {
        let is_small = is_small_segment(self.rows(), largest);
        self.columns()
            .for_each(|column| column.note_small(is_small, caches));
    }

    /// What is in RAM of payloads ranks as them where they are among those `kept`, else as what is spare.
    pub fn rank_payloads(&self, kept: KeptWhole, caches: &Caches) {
        let in_part = !kept.has_payloads();
        if self.body.in_part.swap(in_part, Ordering::Relaxed) != in_part {
            let rank = if in_part {
                EvictionRank::Spare
            } else {
                EvictionRank::Payloads
            };
            self.body.payload.rank(caches, rank);
        }
    }

    /// Whether more of the payloads could take `room` that nobody else has use for, where they aren't `kept` as a whole.
    pub fn would_save_reads(&self, kept: KeptWhole, room: u64) -> bool {
        let payload = &self.body.payload;
        match payload.is_kept_by_record() {
            _ if kept.has_payloads() => false,
            true => room >= AHEAD_ROOM_MIN && payload.could_read_ahead(),
            false => could_fill(payload, room),
        }
    }

    /// Reads the next of the payloads into such room, short ones one by one; the bytes that came.
    pub fn spare(
        &self,
        kept: KeptWhole,
        caches: &Caches,
        io: &mut IoContext,
        buf: &mut AnonBuf,
    ) -> Result<u64> {
        self.rank_payloads(kept, caches);
        match self.body.payload.is_kept_by_record() {
            true => self.body.payload.read_some_ahead(io, buf),
            false => self.body.payload.fill(io),
        }
    }

    /// Reads more of the files `kept` into RAM, up to about `room` bytes, and lets go of the others but what is spare; how
    /// many bytes came.
    pub fn fill(&self, kept: KeptWhole, room: u64, io: &mut IoContext) -> Result<u64> {
        let mut came = 0;
        for (kind, file) in self.cacheable() {
            if !kept.has(kind, file.whole_bytes()) {
                if !self.is_spare(kind) {
                    file.block_file().drop_cached();
                }
                continue;
            }
            while could_fill(file, room.saturating_sub(came)) {
                match file.fill(io)? {
                    0 => break,
                    more => came += more,
                }
            }
        }
        Ok(came)
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
        column.index.read_rows(&[row], scratch, io, &mut |_, bytes| {
            out.extend_from_slice(bytes);
            found = true;
            Ok(())
        })?;
        Ok(found)
    }

    /// Vectors that an approximate index holds.
    pub fn indexed_vectors(&self) -> u64 {
        self.columns()
            .filter(|c| !matches!(c.index.kind(), "flat" | "records"))
            .map(|c| u64::from(c.index.rows()))
            .sum()
    }

    /// The first vector that has no index for want of memory, and what there was too little of. Below the collection's threshold rows are as well compared one by one.
    pub fn lacking_index<'s>(&self, schema: &'s Schema) -> Option<(&'s str, Lack)> {
        let mut vectors = schema.vectors.iter();
        vectors.find_map(|vector| {
            let lack = refused_index(&self.entry, vector.slot)?;
            let is_scanned = matches!(self.vector(vector.slot)?.index.kind(), "flat" | "records");
            let is_due =
                vector.fixed_bytes().is_none() || vector.kb(u64::from(self.rows())) >= schema.indexing_kb;
            (is_scanned && is_due).then_some((vector.name.as_str(), lack))
        })
    }

    /// (name, kind, heap bytes, bytes of RAM beside, disk bytes) of everything but vectors.
    pub fn tables(&self, schema: &Schema) -> Vec<(String, &'static str, u64, u64, u64)> {
        let ids = &self.body.ids_in_ram;
        let mut out = vec![
            (
                "ids".to_string(),
                "rows",
                ids.numbers_bytes(),
                0,
                self.body.row_ids.file.len(),
            ),
            (
                "ids".to_string(),
                "sorted",
                self.body.ids.heap_bytes() + ids.filter_bytes(),
                self.body.ids.cached_bytes(),
                self.body.ids.disk_bytes() + ids.filter_disk_bytes(),
            ),
            (
                "payload".to_string(),
                "records",
                self.body.payload.heap_bytes(),
                self.body.payload.cached_bytes(),
                self.body.payload.disk_bytes(),
            ),
        ];
        let name_of = |slot: u16| {
            let field = schema.fields.iter().find(|f| f.slot == slot);
            field.map_or("", |f| f.path.as_str())
        };
        for column in &self.texts {
            let name = format!("payload index `{}`", name_of(column.slot));
            let cached = column.cacheable().map(|(_, file)| file.cached_bytes()).sum();
            out.push((name, "text", column.heap_bytes(), cached, column.disk_bytes()));
        }
        for (slot, table) in &self.fields {
            let name = name_of(*slot);
            out.push((
                format!("payload index `{name}`"),
                "sorted",
                table.heap_bytes(),
                table.cached_bytes(),
                table.disk_bytes(),
            ));
        }
        out
    }

    pub fn columns(&self) -> impl Iterator<Item = &VectorColumn> {
        self.vectors.iter().map(Arc::as_ref)
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

/// Whether the next piece of a file fits `room`.
/// Room from which on records are read ahead: some chunks of them, and the tables that tell where they are.
const AHEAD_ROOM_MIN: u64 = 16 * RecordCache::CHUNK_BYTES;

fn could_fill(file: &dyn Cacheable, room: u64) -> bool {
    let missing = file.missing();
    missing > 0 && missing.min(file.block_file().cached_piece_bytes()) <= room
}

/// The slot of the payload index that a file belongs to.
pub fn of_field(component: Component) -> Option<u16> {
    match component {
        Component::FieldIndex { slot }
        | Component::TextTerms { slot }
        | Component::TextLists { slot }
        | Component::TextLengths { slot }
        | Component::TextPositions { slot } => Some(slot),
        _ => None,
    }
}

/// A small whole file.
pub fn read_whole(storage: &dyn Storage, entry: &FileEntry) -> Result<Vec<u8>> {
    let mut bytes = vec![0; entry.bytes as usize];
    read_into(storage, entry, &mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file to the front of `out`. It is the one that the manifest lists, byte for byte: that it is sound by itself says nothing of
/// whose it is.
fn read_into(storage: &dyn Storage, entry: &FileEntry, out: &mut [u8]) -> Result<()> {
    let file = storage.open(&entry.name)?;
    let refused = |what: String| Err(Error::corrupt(format!("{}: {what}", entry.name)));
    if file.len() != entry.bytes {
        let (found, listed) = (file.len(), entry.bytes);
        return refused(format!("{found} bytes, the manifest says {listed}"));
    }
    let out = &mut out[..entry.bytes as usize];
    file.read_at(out, 0)?;
    let mut crc = FileCrc::new();
    crc.update(out);
    match crc.value() == entry.crc || mutants::is("checksum-not-checked") {
        true => Ok(()),
        false => refused(format!(
            "checksum {:08x}, the manifest says {:08x}",
            crc.value(),
            entry.crc
        )),
    }
}

/// The deleted rows that a manifest names.
pub fn read_deletes(file_context: &FileContext, entry: &FileEntry, rows: u32) -> Result<RoaringBitmap> {
    let bytes = read_whole(file_context.storage.as_ref(), entry)?;
    bitmap::decode(EnvelopeKind::Deletes, rows, &bytes).map_err(|e| bad(&entry.name, e))
}
