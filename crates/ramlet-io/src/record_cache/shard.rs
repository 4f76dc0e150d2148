//! One lock's part of the record cache: chunks by age, and a table that tells where a record lies.
//!
//! A chunk holds entries end to end, each at a multiple of 16: file u64, row u32, length u16, lives u16, the record. A slot of the table is a u64: a tag of the
//! key's hash in the upper 16 bits, the chunk's number, the entry's place in units of 16 bytes; a slot of a chunk that is gone is free, whatever it says.

use std::collections::VecDeque;

use ramlet_memory::AnonBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    pub file: u64,
    pub row: u32,
}

#[derive(Default)]
pub struct Shard {
    chunks: VecDeque<Chunk>,
    /// Number of the oldest chunk.
    first: u32,
    table: Option<AnonBuf>,
}

struct Chunk {
    bytes: AnonBuf,
    used: usize,
}

/// Where an entry is: the chunk's number, and the entry's first byte.
#[derive(Clone, Copy)]
struct Place {
    chunk: u32,
    at: usize,
}

const HEADER: usize = 16;
const UNIT: usize = 16;
/// Slots that a key may have: a cache line.
const BUCKET: usize = 8;
/// Slots for a chunk's entries, twice as many as there are if they have 256 bytes.
const SLOTS_PER_CHUNK: usize = 2 * Shard::CHUNK_BYTES / 256;
/// Of a chunk that is renewed, at most so much stays.
const KEPT_BYTES_MAX: usize = Shard::CHUNK_BYTES / 2;

impl Key {
    /// Well mixed in all bits (the finaliser of splitmix64).
    pub fn hash(self) -> u64 {
        let mut x = self.file.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(self.row);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// Never 0: a slot of zeros is free.
    fn tag(self) -> u16 {
        (self.hash() >> 48) as u16 | 1
    }
}

impl Place {
    fn slot(self, tag: u16) -> u64 {
        u64::from(tag) << 48 | u64::from(self.chunk) << 16 | (self.at / UNIT) as u64
    }

    fn of(slot: u64) -> Place {
        Place {
            chunk: (slot >> 16) as u32,
            at: (slot & 0xFFFF) as usize * UNIT,
        }
    }
}

impl Chunk {
    fn key(&self, at: usize) -> Key {
        let (file, row) = (self.array(at), self.array(at + 8));
        Key {
            file: u64::from_le_bytes(file),
            row: u32::from_le_bytes(row),
        }
    }

    fn len(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes(self.array(at + 12)))
    }

    fn is_used(&self, at: usize) -> bool {
        self.bytes[at + 14] > 0
    }

    fn set_used(&mut self, at: usize, used: bool) {
        self.bytes[at + 14] = used.into();
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[at..at + N]);
        out
    }
}

fn entry_bytes(record: usize) -> usize {
    (HEADER + record).next_multiple_of(UNIT)
}

impl Shard {
    pub const CHUNK_BYTES: usize = 64 << 10;

    pub fn bytes(&self) -> u64 {
        let chunks = self.chunks.iter().map(|chunk| chunk.bytes.capacity());
        let table = self.table.as_ref().map_or(0, AnonBuf::capacity);
        (chunks.sum::<usize>() + table) as u64
    }

    pub fn has(&self, key: Key) -> bool {
        self.find(key).is_some()
    }

    /// Copies the record into `out`; it will outlive its chunk.
    pub fn get(&mut self, key: Key, out: &mut [u8]) -> Option<usize> {
        let Place { chunk, at } = self.find(key)?;
        let chunk = &mut self.chunks[chunk.wrapping_sub(self.first) as usize];
        chunk.set_used(at, true);
        let len = chunk.len(at);
        out[..len].copy_from_slice(&chunk.bytes[at + HEADER..][..len]);
        Some(len)
    }

    /// Into the newest chunk; false: there is no room.
    pub fn append(&mut self, key: Key, record: &[u8]) -> bool {
        let number = self.first.wrapping_add(self.chunks.len() as u32).wrapping_sub(1);
        let Some(chunk) = self.chunks.back_mut() else {
            return false;
        };
        let at = chunk.used;
        if at + entry_bytes(record.len()) > chunk.bytes.len() {
            return false;
        }
        let entry = &mut chunk.bytes[at..at + HEADER + record.len()];
        entry[..8].copy_from_slice(&key.file.to_le_bytes());
        entry[8..12].copy_from_slice(&key.row.to_le_bytes());
        entry[12..14].copy_from_slice(&(record.len() as u16).to_le_bytes());
        entry[14..16].fill(0);
        entry[HEADER..].copy_from_slice(record);
        chunk.used += entry_bytes(record.len());
        self.note(key, Place { chunk: number, at });
        true
    }

    /// Bytes that the table needs with one chunk more; 0: the present one does.
    pub fn table_wanted(&self) -> usize {
        let slots = ((self.chunks.len() + 1) * SLOTS_PER_CHUNK).next_power_of_two();
        let bytes = slots * size_of::<u64>();
        match &self.table {
            Some(table) if table.len() >= bytes => 0,
            _ => bytes,
        }
    }

    /// Takes a chunk, and a larger table if one comes; false: there is no table.
    pub fn add(&mut self, bytes: AnonBuf, table: Option<AnonBuf>) -> bool {
        if let Some(table) = table {
            self.table = Some(table);
            self.note_all();
        }
        self.chunks.push_back(Chunk { bytes, used: 0 });
        self.table.is_some()
    }

    /// Makes the oldest chunk the newest: with the records in it that were asked for since, up to half of it. False: there is none.
    pub fn renew(&mut self) -> bool {
        let Some(mut chunk) = self.chunks.pop_front() else {
            return false;
        };
        self.first = self.first.wrapping_add(1);
        let (mut at, end) = (0, std::mem::take(&mut chunk.used));
        while at < end {
            let len = entry_bytes(chunk.len(at));
            if chunk.is_used(at) && chunk.used + len <= KEPT_BYTES_MAX {
                let to = chunk.used;
                chunk.bytes.copy_within(at..at + len, to);
                chunk.set_used(to, false);
                chunk.used += len;
            }
            at += len;
        }
        self.chunks.push_back(chunk);
        self.note_chunk(self.chunks.len() - 1);
        true
    }

    /// The oldest chunk's memory, and the table's with the last.
    pub fn pop(&mut self) -> Vec<AnonBuf> {
        let mut gone: Vec<AnonBuf> = self
            .chunks
            .pop_front()
            .map(|chunk| chunk.bytes)
            .into_iter()
            .collect();
        self.first = self.first.wrapping_add(gone.len() as u32);
        if self.chunks.is_empty() {
            gone.extend(self.table.take());
        }
        gone
    }

    fn find(&self, key: Key) -> Option<Place> {
        let (table, tag) = (self.table.as_ref()?, key.tag());
        let slots = table[bucket_of(table, key)].chunks_exact(size_of::<u64>());
        let places = slots
            .map(slot_of)
            .filter(|slot| (slot >> 48) as u16 == tag)
            .map(Place::of);
        let mut live = places.filter(|place| self.is_live(place.chunk));
        live.find(|place| {
            let chunk = &self.chunks[place.chunk.wrapping_sub(self.first) as usize];
            place.at < chunk.used && chunk.key(place.at) == key
        })
    }

    fn is_live(&self, chunk: u32) -> bool {
        (chunk.wrapping_sub(self.first) as usize) < self.chunks.len()
    }

    /// Writes a key's place into its bucket: where it stands, where nothing does, else in the place of the oldest.
    fn note(&mut self, key: Key, place: Place) {
        let Some(mut table) = self.table.take() else {
            return;
        };
        let bucket = bucket_of(&table, key);
        let age = |slot: u64| match slot >> 48 == 0 || !self.is_live(Place::of(slot).chunk) {
            true => 0,
            false => 1 + Place::of(slot).chunk.wrapping_sub(self.first),
        };
        let slots = table[bucket.clone()].chunks_exact(size_of::<u64>()).map(slot_of);
        let oldest = slots.map(age).enumerate().min_by_key(|(_, age)| *age);
        let at = bucket.start + oldest.map_or(0, |(at, _)| at) * size_of::<u64>();
        table[at..at + 8].copy_from_slice(&place.slot(key.tag()).to_le_bytes());
        self.table = Some(table);
    }

    /// Into a fresh table.
    fn note_all(&mut self) {
        (0..self.chunks.len()).for_each(|index| self.note_chunk(index));
    }

    fn note_chunk(&mut self, index: usize) {
        let number = self.first.wrapping_add(index as u32);
        let mut at = 0;
        while at < self.chunks[index].used {
            let (key, len) = (self.chunks[index].key(at), self.chunks[index].len(at));
            self.note(key, Place { chunk: number, at });
            at += entry_bytes(len);
        }
    }
}

/// The bytes of a key's slots.
fn bucket_of(table: &AnonBuf, key: Key) -> std::ops::Range<usize> {
    const BYTES: usize = BUCKET * size_of::<u64>();
    let bucket = (key.hash() >> 8) as usize & (table.len() / BYTES - 1);
    bucket * BYTES..(bucket + 1) * BYTES
}

fn slot_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |slot| u64::from_le_bytes(*slot))
}
