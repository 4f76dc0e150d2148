//! A view: a reader's snapshot of a collection while the writer continues.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::filter::PointAccess;
use crate::read::lookup::Lookup;
use crate::schema::Schema;
use crate::segment::SegmentView;
use crate::sharding::ShardKey;
use crate::types::{NamedVectors, PointId};
use crate::write::encoding::decode_vector;
use crate::write::memtable::{MemtableRow, MemtableView};

/// Segments oldest first, then the memtable that is being flushed, then the one that is written to.
#[derive(Clone)]
pub struct View {
    pub schema: Arc<Schema>,
    pub segments: Vec<SegmentView>,
    pub memtables: Vec<MemtableView>,
    /// Operation number of the last change in it.
    pub operation: u64,
    /// Of a collection with shard keys: whose segments and memtables they are, in order. Else empty.
    pub keyed: Vec<KeyedPart>,
}

/// The segments and memtables of one shard key: those behind the part before.
#[derive(Clone)]
pub struct KeyedPart {
    pub key: Arc<ShardKey>,
    pub segments_end: u32,
    pub memtables_end: u32,
}

/// Where a point's row is within a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Segment { index: u32, row: u32 },
    Memtable { index: u32, row: u32 },
}

impl View {
    pub fn points(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|s| u64::from(s.live())).sum();
        segments + self.memtables.iter().map(|b| u64::from(b.live())).sum::<u64>()
    }

    /// The live row of an id.
    pub fn find(&self, id: PointId, lookup: &mut Lookup) -> Result<Option<Place>> {
        let all = (0..self.segments.len(), 0..self.memtables.len());
        self.find_among(id, all, lookup)
    }

    /// The live row of an id in one shard.
    pub fn find_keyed(&self, id: PointId, key: &ShardKey, lookup: &mut Lookup) -> Result<Option<Place>> {
        let Some(at) = self.keyed.iter().position(|part| *part.key == *key) else {
            return Ok(None);
        };
        let begin = match at.checked_sub(1) {
            Some(before) => (self.keyed[before].segments_end, self.keyed[before].memtables_end),
            None => (0, 0),
        };
        let (segments, memtables) = (self.keyed[at].segments_end, self.keyed[at].memtables_end);
        let part = (
            begin.0 as usize..segments as usize,
            begin.1 as usize..memtables as usize,
        );
        self.find_among(id, part, lookup)
    }

    /// The shard key of a row, if there are any.
    pub fn key_of(&self, place: Place) -> Option<Arc<ShardKey>> {
        let at = match place {
            Place::Segment { index, .. } => self.keyed.partition_point(|part| part.segments_end <= index),
            Place::Memtable { index, .. } => self.keyed.partition_point(|part| part.memtables_end <= index),
        };
        self.keyed.get(at).map(|part| part.key.clone())
    }

    fn find_among(
        &self,
        id: PointId,
        (segments, memtables): (Range<usize>, Range<usize>),
        lookup: &mut Lookup,
    ) -> Result<Option<Place>> {
        for index in memtables.rev() {
            let view = &self.memtables[index];
            if let Some(row) = view.find(id) {
                return Ok(Some(Place::Memtable {
                    index: index as u32,
                    row,
                }));
            }
        }
        for index in segments.rev() {
            let view = &self.segments[index];
            if let Some(row) = view
                .segment
                .find(id, &mut lookup.io, &mut lookup.buf)?
                .filter(|&r| !view.deletes.contains(r))
            {
                return Ok(Some(Place::Segment {
                    index: index as u32,
                    row,
                }));
            }
        }
        Ok(None)
    }

    /// Id and version of a row.
    pub fn id_of(&self, place: Place, lookup: &mut Lookup) -> Result<(PointId, u64)> {
        match place {
            Place::Memtable { index, row } => {
                let row = self.memtables[index as usize].memtable.row(row);
                Ok((row.id, row.version))
            }
            Place::Segment { index, row } => {
                self.segments[index as usize]
                    .segment
                    .row_id(row, &mut lookup.io, &mut lookup.buf)
            }
        }
    }

    pub fn payload_of(&self, place: Place, lookup: &mut Lookup) -> Result<Vec<u8>> {
        match place {
            Place::Memtable { index, row } => {
                Ok(self.memtables[index as usize].memtable.row(row).payload.to_vec())
            }
            Place::Segment { index, row } => Ok(self.segments[index as usize]
                .segment
                .payload(row, &mut lookup.io, &mut lookup.buf)?
                .to_vec()),
        }
    }

    /// The encoded vector of a slot, appended to `out`; false when the point has none.
    pub fn encoded_vector_of(
        &self,
        place: Place,
        slot: u16,
        lookup: &mut Lookup,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        match place {
            Place::Memtable { index, row } => {
                let bytes = self.memtables[index as usize].memtable.row(row).vector(slot);
                out.extend_from_slice(bytes.unwrap_or_default());
                Ok(bytes.is_some())
            }
            Place::Segment { index, row } => {
                let segment = &self.segments[index as usize].segment;
                segment.vector_row(slot, row, &mut lookup.index, &mut lookup.io, out)
            }
        }
    }

    /// A point's vectors by name, decoded; `names`: `None` for all.
    pub fn vectors_of(
        &self,
        place: Place,
        names: Option<&[String]>,
        lookup: &mut Lookup,
    ) -> Result<NamedVectors> {
        let mut out = Vec::new();
        let mut bytes = Vec::new();
        for vector in &self.schema.vectors {
            if names.is_some_and(|names| !names.contains(&vector.name)) {
                continue;
            }
            bytes.clear();
            if self.encoded_vector_of(place, vector.slot, lookup, &mut bytes)? {
                if vector.fixed_bytes().is_none() {
                    // Of a length that nobody could expect.
                    lookup.reserve_returned(bytes.len() / vector.element.bytes() * size_of::<f32>())?;
                }
                out.push((vector.name.clone(), decode_vector(vector, &bytes)?));
            }
        }
        Ok(out)
    }
}

/// A row of the memtable, as filters see it.
impl PointAccess for MemtableRow<'_> {
    fn id(&self) -> PointId {
        self.id
    }
    fn payload(&self) -> &[u8] {
        self.payload
    }
    fn has_vector(&self, name: &str) -> bool {
        self.has_vector_named(name)
    }
    fn lacks_word(&self, slot: u16, hash: u64) -> bool {
        MemtableRow::lacks_word(self, slot, hash)
    }
}

/// A row of a segment, as filters see it: its payload was read for the purpose.
pub struct SegmentRow<'a> {
    pub id: PointId,
    pub payload: &'a [u8],
    pub row: u32,
    pub schema: &'a Schema,
    pub view: &'a SegmentView,
}

impl PointAccess for SegmentRow<'_> {
    fn id(&self) -> PointId {
        self.id
    }
    fn payload(&self) -> &[u8] {
        self.payload
    }
    fn has_vector(&self, name: &str) -> bool {
        let slot = self
            .schema
            .vectors
            .iter()
            .find(|v| v.name == name)
            .map(|v| v.slot);
        slot.and_then(|slot| self.view.segment.vector(slot))
            .is_some_and(|column| column.has(self.row))
    }
}
