//! A collection at one moment: what a reader holds while the writer goes on.

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
use crate::write::memtable::{BufferRow, BufferView};

/// Segments oldest first, then the buffer that is being flushed, then the one that is written to.
#[derive(Clone)]
pub struct View {
    pub schema: Arc<Schema>,
    pub segments: Vec<SegmentView>,
    pub buffers: Vec<BufferView>,
    /// Operation number of the last change in it.
    pub operation: u64,
    /// Of a collection with shard keys: whose segments and buffers they are, in order. Else empty.
    pub keyed: Vec<KeyedPart>,
}

/// The segments and buffers of one shard key: those behind the part before.
#[derive(Clone)]
pub struct KeyedPart {
    pub key: Arc<ShardKey>,
    pub segments_end: u32,
    pub buffers_end: u32,
}

/// Where a point's row is within a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Segment { index: u32, row: u32 },
    Buffer { index: u32, row: u32 },
}

impl View {
    pub fn points(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|s| u64::from(s.live())).sum();
        segments + self.buffers.iter().map(|b| u64::from(b.live())).sum::<u64>()
    }

    /// The live row of an id.
    pub fn find(&self, id: PointId, lookup: &mut Lookup) -> Result<Option<Place>> {
        let all = (0..self.segments.len(), 0..self.buffers.len());
        self.find_among(id, all, lookup)
    }

    /// The live row of an id in one shard.
    pub fn find_keyed(&self, id: PointId, key: &ShardKey, lookup: &mut Lookup) -> Result<Option<Place>> {
        let Some(at) = self.keyed.iter().position(|part| *part.key == *key) else {
            return Ok(None);
        };
        let begin = match at.checked_sub(1) {
            Some(before) => (self.keyed[before].segments_end, self.keyed[before].buffers_end),
            None => (0, 0),
        };
        let (segments, buffers) = (self.keyed[at].segments_end, self.keyed[at].buffers_end);
        let part = (
            begin.0 as usize..segments as usize,
            begin.1 as usize..buffers as usize,
        );
        self.find_among(id, part, lookup)
    }

    /// The shard key of a row, if there are any.
    pub fn key_of(&self, place: Place) -> Option<Arc<ShardKey>> {
        let at = match place {
            Place::Segment { index, .. } => self.keyed.partition_point(|part| part.segments_end <= index),
            Place::Buffer { index, .. } => self.keyed.partition_point(|part| part.buffers_end <= index),
        };
        self.keyed.get(at).map(|part| part.key.clone())
    }

    fn find_among(
        &self,
        id: PointId,
        (segments, buffers): (Range<usize>, Range<usize>),
        lookup: &mut Lookup,
    ) -> Result<Option<Place>> {
        for index in buffers.rev() {
            let view = &self.buffers[index];
            if let Some(row) = view.find(id) {
                return Ok(Some(Place::Buffer {
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
            Place::Buffer { index, row } => {
                let row = self.buffers[index as usize].buffer.row(row);
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
            Place::Buffer { index, row } => Ok(self.buffers[index as usize].buffer.row(row).payload.to_vec()),
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
            Place::Buffer { index, row } => {
                let bytes = self.buffers[index as usize].buffer.row(row).vector(slot);
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
                    lookup.hand_out(bytes.len() / vector.element.bytes() * size_of::<f32>())?;
                }
                out.push((vector.name.clone(), decode_vector(vector, &bytes)?));
            }
        }
        Ok(out)
    }
}

/// A row of the buffer, as filters see it.
impl PointAccess for BufferRow<'_> {
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
        BufferRow::lacks_word(self, slot, hash)
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
