//! The write buffer: rows in RAM until they become a segment.
//!
//! One writer appends; readers hold a [`BufferView`] (how many rows, which of them deleted) and read without locks: a row never
//! moves or changes once it is in. A row's bytes in the arena:
//!
//! | field | bytes |
//! |---|---|
//! | version (operation number) | u64 |
//! | id, encoded, zero padded | 24 |
//! | presence mask of vectors, by index in the schema | u64 |
//! | payload length | u32 |
//! | zero | u32 |
//! | vectors that are there, each padded to 4 | |
//! | payload | |

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, RwLock};

use ramlet_memory::{AppendRegion, Appender, Consumer, OverBudget, Reservation, Span};

use crate::change::Row;
use crate::deletes::DeleteSet;
use crate::limits::{BUFFER_CHUNK_BYTES, BUFFER_CHUNKS_MAX, BUFFER_ROW_OVERHEAD};
use crate::schema::Schema;
use crate::types::PointId;

const HEADER: usize = 48;
const ENTRY: usize = 16;
const ENTRIES_PER_CHUNK: u32 = (BUFFER_CHUNK_BYTES / ENTRY) as u32;

/// What readers and the writer share.
pub struct Buffer {
    schema: Arc<Schema>,
    rows: AppendRegion,
    directory: AppendRegion,
    /// Newest row of each id that isn't deleted.
    ids: RwLock<BTreeMap<PointId, u32>>,
}

/// The writer's side of a buffer.
pub struct BufferWriter {
    pub buffer: Arc<Buffer>,
    rows: Appender,
    directory: Appender,
    overhead: Reservation,
    len: u32,
    pub deletes: DeleteSet,
    header: Vec<u8>,
}

/// A buffer at one moment.
#[derive(Clone)]
pub struct BufferView {
    pub buffer: Arc<Buffer>,
    pub len: u32,
    pub deletes: DeleteSet,
}

/// One row, borrowed.
#[derive(Clone, Copy)]
pub struct BufferRow<'a> {
    pub id: PointId,
    pub version: u64,
    pub payload: &'a [u8],
    schema: &'a Schema,
    presence: u64,
    vectors: &'a [u8],
}

impl<'a> BufferRow<'a> {
    /// The encoded row of the vector at `index` in the schema.
    pub fn vector(&self, index: usize) -> Option<&'a [u8]> {
        if self.presence >> index & 1 == 0 {
            return None;
        }
        let before: usize = self.schema.vectors[..index]
            .iter()
            .enumerate()
            .filter(|(i, _)| self.presence >> i & 1 == 1)
            .map(|(_, v)| padded(v.row_bytes()))
            .sum();
        self.vectors
            .get(before..before + self.schema.vectors[index].row_bytes())
    }

    pub fn has_vector(&self, index: usize) -> bool {
        self.presence >> index & 1 == 1
    }

    /// Index in the schema of a vector's name.
    pub fn vector_index(&self, name: &str) -> Option<usize> {
        self.schema.vectors.iter().position(|v| v.name == name)
    }
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}

impl BufferWriter {
    pub fn new(schema: Arc<Schema>, consumer: &Consumer) -> Result<BufferWriter, OverBudget> {
        let chunk = usize::try_from(consumer.cap() / 128).unwrap_or(usize::MAX);
        let chunk = chunk.clamp(BUFFER_CHUNK_BYTES, 64 * BUFFER_CHUNK_BYTES);
        let (rows, rows_in) = AppendRegion::create(consumer, chunk, BUFFER_CHUNKS_MAX)?;
        let (directory, directory_in) =
            AppendRegion::create(consumer, BUFFER_CHUNK_BYTES, BUFFER_CHUNKS_MAX)?;
        Ok(BufferWriter {
            buffer: Arc::new(Buffer {
                schema,
                rows,
                directory,
                ids: RwLock::default(),
            }),
            rows: rows_in,
            directory: directory_in,
            overhead: consumer.reserve(0)?,
            len: 0,
            deletes: DeleteSet::default(),
            header: Vec::with_capacity(1024),
        })
    }

    /// Appends a row; an older one of the same id in this buffer becomes deleted.
    pub fn put(&mut self, id: PointId, version: u64, row: &Row<'_>) -> Result<(), OverBudget> {
        if u64::from(self.len) * BUFFER_ROW_OVERHEAD >= self.overhead.bytes() {
            self.overhead.grow(32 * BUFFER_ROW_OVERHEAD)?;
        }
        let mut presence = 0u64;
        self.header.clear();
        self.header.resize(HEADER, 0);
        for (slot, bytes) in row.vectors() {
            // A vector that was dropped from the schema since is left behind.
            let Some(index) = self.buffer.schema.vectors.iter().position(|v| v.slot == slot) else {
                continue;
            };
            if bytes.len() != self.buffer.schema.vectors[index].row_bytes() {
                continue;
            }
            presence |= 1 << index;
            self.header.extend_from_slice(bytes);
            self.header.resize(HEADER + padded(self.header.len() - HEADER), 0);
        }
        self.header[..8].copy_from_slice(&version.to_le_bytes());
        let mut encoded = Vec::with_capacity(PointId::ENCODED_MAX);
        id.encode(&mut encoded);
        self.header[8..8 + encoded.len()].copy_from_slice(&encoded);
        self.header[32..40].copy_from_slice(&presence.to_le_bytes());
        self.header[40..44].copy_from_slice(&(row.payload.len() as u32).to_le_bytes());
        let span = self.rows.push_parts(&[&self.header, row.payload], 8)?;
        let mut entry = [0u8; ENTRY];
        entry[..4].copy_from_slice(&span.chunk.to_le_bytes());
        entry[4..8].copy_from_slice(&span.offset.to_le_bytes());
        entry[8..12].copy_from_slice(&span.len.to_le_bytes());
        self.directory.push(&entry, ENTRY)?;
        let row = self.len;
        self.len += 1;
        if let Some(old) = self.buffer.ids.write().unwrap().insert(id, row) {
            self.deletes.insert(old);
        }
        Ok(())
    }

    /// Returns whether the id was here.
    pub fn delete(&mut self, id: PointId) -> bool {
        match self.buffer.ids.write().unwrap().remove(&id) {
            Some(row) => self.deletes.insert(row),
            None => false,
        }
    }

    pub fn contains(&self, id: PointId) -> bool {
        self.buffer.newest(id).is_some()
    }

    pub fn view(&self) -> BufferView {
        BufferView {
            buffer: self.buffer.clone(),
            len: self.len,
            deletes: self.deletes.clone(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes taken from the budget.
    pub fn bytes(&self) -> u64 {
        self.buffer.rows.bytes_reserved() + self.buffer.directory.bytes_reserved() + self.overhead.bytes()
    }
}

impl Buffer {
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    pub fn row(&self, row: u32) -> BufferRow<'_> {
        let at = Span {
            chunk: row / ENTRIES_PER_CHUNK,
            offset: row % ENTRIES_PER_CHUNK * ENTRY as u32,
            len: ENTRY as u32,
        };
        let entry = self.directory.get(at);
        let number = |i: usize| u32::from_le_bytes(entry[i..i + 4].try_into().expect("4 bytes"));
        let bytes = self.rows.get(Span {
            chunk: number(0),
            offset: number(4),
            len: number(8),
        });
        let word = |i: usize| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("8 bytes"));
        let payload_len = u32::from_le_bytes(bytes[40..44].try_into().expect("4 bytes")) as usize;
        let (vectors, payload) = bytes[HEADER..].split_at(bytes.len() - HEADER - payload_len);
        let (id, _) = PointId::decode(&bytes[8..32]).expect("the writer encoded it");
        BufferRow {
            id,
            version: word(0),
            payload,
            schema: &self.schema,
            presence: word(32),
            vectors,
        }
    }

    /// Bytes of its arenas.
    pub fn bytes(&self) -> u64 {
        self.rows.bytes_reserved() + self.directory.bytes_reserved()
    }

    /// The newest row of an id, whatever a view says.
    pub fn newest(&self, id: PointId) -> Option<u32> {
        self.ids.read().unwrap().get(&id).copied()
    }

    /// Up to `limit` ids from `from` on, ascending, with their newest rows.
    pub fn ids_from(&self, from: Bound<PointId>, limit: usize, out: &mut Vec<(PointId, u32)>) {
        let ids = self.ids.read().unwrap();
        out.extend(
            ids.range((from, Bound::Unbounded))
                .take(limit)
                .map(|(&id, &row)| (id, row)),
        );
    }
}

impl BufferView {
    /// Rows that are there, ascending.
    pub fn live_rows(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len).filter(|&row| !self.deletes.contains(row))
    }

    pub fn live(&self) -> u32 {
        self.len - self.deletes.len()
    }
}
