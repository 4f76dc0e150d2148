//! One lock's part of the record cache: chunks by age, and a table of the records' positions.
//!
//! A chunk holds entries end to end, each at a multiple of 4: file u48, row u32, what is known of it u16 (its length in 13 bits, whether it is coded, in two bits
//! how often it was asked for), the record. A slot of the table is a u64: a tag of the key's hash in the upper 16 bits, the chunk's number, the entry's place in
//! units of 4 bytes; a slot of a chunk that is gone is free, whatever it says.

use std::collections::VecDeque;

use ramlet_memory::AnonBuf;

use crate::PAGE;

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
    entries: usize,
}

/// What is kept, coded or not.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    pub bytes: &'a [u8],
    pub is_coded: bool,
}

/// Where an entry is: the chunk's number, and the entry's first byte.
#[derive(Clone, Copy)]
struct Place {
    chunk: u32,
    at: usize,
}

const HEADER: usize = 12;
const UNIT: usize = 4;
/// Slots that a key may have: a cache line.
const BUCKET: usize = 8;
const SLOT: usize = size_of::<u64>();
/// Slots for each entry that there is room for, so that hardly a bucket is full.
const SLOTS_PER_ENTRY: (usize, usize) = (3, 2);
/// A table that is too small grows by so much more than it has to.
const TABLE_GROWTH: (usize, usize) = (5, 4);
/// Of chunks that are swept, at most so much of one stays.
const KEPT_BYTES_MAX: usize = Shard::CHUNK_BYTES / 4 * 3;
/// An entry is swept when it wasn't asked for since; a longer one must have been asked for twice as often.
const LONG_BYTES: usize = 1_200;

const LEN_BITS: u32 = 13;
const CODED: u16 = 1 << LEN_BITS;
const USES: u16 = 3;
const USES_AT: u32 = LEN_BITS + 1;

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
    fn new(bytes: AnonBuf) -> Chunk {
        Chunk {
            bytes,
            used: 0,
            entries: 0,
        }
    }

    fn key(&self, at: usize) -> Key {
        let [low, high] = [self.array::<4>(at), self.array::<4>(at + 2)];
        let file = u64::from(u32::from_le_bytes(low)) | u64::from(u32::from_le_bytes(high) >> 16) << 32;
        Key {
            file,
            row: u32::from_le_bytes(self.array(at + 6)),
        }
    }

    fn known(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at + 10))
    }

    fn len(&self, at: usize) -> usize {
        usize::from(self.known(at) & (CODED - 1))
    }

    /// How often it was asked for since it was put or swept, up to 3.
    fn uses(&self, at: usize) -> u16 {
        self.known(at) >> USES_AT
    }

    fn set_uses(&mut self, at: usize, uses: u16) {
        let known = self.known(at) & !(USES << USES_AT) | uses.min(USES) << USES_AT;
        self.bytes[at + 10..at + HEADER].copy_from_slice(&known.to_le_bytes());
    }

    fn record(&self, at: usize) -> Record<'_> {
        Record {
            bytes: &self.bytes[at + HEADER..][..self.len(at)],
            is_coded: self.known(at) & CODED != 0,
        }
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[at..at + N]);
        out
    }

    /// Where the entry behind one begins.
    fn next(&self, at: usize) -> usize {
        at + entry_bytes(self.len(at))
    }

    /// Whether an entry that was asked for so often since stays, and what of that is left to it.
    fn stays(&self, at: usize, next: usize) -> Option<u16> {
        self.uses(at)
            .checked_sub(if next - at > LONG_BYTES { 2 } else { 1 })
    }

    /// Keeps the entries that were asked for, up to so many bytes.
    fn sweep(&mut self, most: usize) {
        let (mut at, end) = (0, self.used);
        (self.used, self.entries) = (0, 0);
        while at < end {
            let next = self.next(at);
            if let Some(left) = self.stays(at, next)
                && self.used + (next - at) <= most
            {
                self.set_uses(at, left);
                self.bytes.copy_within(at..next, self.used);
                self.used += next - at;
                self.entries += 1;
            }
            at = next;
        }
    }

    /// Takes entries of another chunk that were asked for, as long as no more than so many bytes are used.
    fn take_swept(&mut self, other: &Chunk, most: usize) {
        let mut from = 0;
        while from < other.used {
            let (next, at) = (other.next(from), self.used);
            if let Some(left) = other.stays(from, next)
                && at + (next - from) <= most
            {
                self.bytes[at..at + (next - from)].copy_from_slice(&other.bytes[from..next]);
                self.set_uses(at, left);
                self.used += next - from;
                self.entries += 1;
            }
            from = next;
        }
    }
}

fn entry_bytes(record: usize) -> usize {
    (HEADER + record).next_multiple_of(UNIT)
}

impl Shard {
    pub const CHUNK_BYTES: usize = 64 << 10;

    pub fn bytes(&self) -> u64 {
        let table = self.table.as_ref().map_or(0, AnonBuf::capacity);
        (self.chunks.len() * Shard::CHUNK_BYTES + table) as u64
    }

    pub fn has(&self, key: Key) -> bool {
        self.find(key).is_some()
    }

    /// The record, which will outlive its chunk.
    pub fn get(&mut self, key: Key) -> Option<Record<'_>> {
        let Place { chunk, at } = self.find(key)?;
        let chunk = &mut self.chunks[chunk.wrapping_sub(self.first) as usize];
        chunk.set_uses(at, chunk.uses(at) + 1);
        Some(chunk.record(at))
    }

    /// Into one of the newest chunks; false: there is no room.
    pub fn append(&mut self, key: Key, record: Record<'_>) -> bool {
        let (len, count) = (record.bytes.len(), self.chunks.len());
        // Where others' memory is taken back the newest may have come before the one in front of it was full.
        let has_room = |index: &usize| {
            let chunk = &self.chunks[*index];
            chunk.used + entry_bytes(len) <= chunk.bytes.len()
        };
        let Some(index) = (count.saturating_sub(2)..count).rev().find(has_room) else {
            return false;
        };
        let chunk = &mut self.chunks[index];
        let at = chunk.used;
        let known = len as u16 | if record.is_coded { CODED } else { 0 };
        let entry = &mut chunk.bytes[at..at + HEADER + len];
        entry[..6].copy_from_slice(&key.file.to_le_bytes()[..6]);
        entry[6..10].copy_from_slice(&key.row.to_le_bytes());
        entry[10..HEADER].copy_from_slice(&known.to_le_bytes());
        entry[HEADER..].copy_from_slice(record.bytes);
        chunk.used += entry_bytes(len);
        chunk.entries += 1;
        let chunk = self.first.wrapping_add(index as u32);
        self.note(key, Place { chunk, at });
        true
    }

    /// Bytes that the table needs with one chunk more; 0: the present one does.
    pub fn table_wanted(&self) -> usize {
        let chunks = self.chunks.len();
        let entries: usize = self.chunks.iter().map(|chunk| chunk.entries).sum();
        // As many in the one that comes as there are in the others, but not fewer than if each filled a page.
        let coming = match chunks {
            0 => Shard::CHUNK_BYTES / 256,
            _ => (entries / chunks).max(Shard::CHUNK_BYTES / 4096),
        };
        let slots = (entries + coming) * SLOTS_PER_ENTRY.0 / SLOTS_PER_ENTRY.1;
        match &self.table {
            Some(table) if table.len() >= slots * SLOT => 0,
            _ => (slots * TABLE_GROWTH.0 / TABLE_GROWTH.1 * SLOT).next_multiple_of(PAGE),
        }
    }

    /// Takes a chunk, and a larger table if one comes; false: there is no table.
    pub fn add(&mut self, bytes: AnonBuf, table: Option<AnonBuf>) -> bool {
        if let Some(table) = table {
            self.table = Some(table);
            self.note_all();
        }
        self.chunks.push_back(Chunk::new(bytes));
        self.table.is_some()
    }

    /// Makes the oldest chunk the newest, with those of its records that were asked for since. False: there is none.
    pub fn renew(&mut self) -> bool {
        let Some(mut chunk) = self.chunks.pop_front() else {
            return false;
        };
        self.first = self.first.wrapping_add(1);
        chunk.sweep(KEPT_BYTES_MAX);
        self.chunks.push_back(chunk);
        self.note_chunk(self.chunks.len() - 1);
        true
    }

    /// The memory of the oldest chunk, and the table's with the last. Those of its records that were asked for since become the newest chunk, together with
    /// those of the next oldest.
    pub fn pop(&mut self) -> Vec<AnonBuf> {
        let Some(oldest) = self.chunks.pop_front() else {
            return Vec::new();
        };
        self.first = self.first.wrapping_add(1);
        let Some(mut next) = self.chunks.pop_front() else {
            let buffers = [Some(oldest.bytes), self.table.take()];
            return buffers.into_iter().flatten().collect();
        };
        self.first = self.first.wrapping_add(1);
        // The last one keeps what came lately.
        if !self.chunks.is_empty() {
            next.sweep(KEPT_BYTES_MAX / 2);
        }
        next.take_swept(&oldest, KEPT_BYTES_MAX);
        self.chunks.push_back(next);
        self.note_chunk(self.chunks.len() - 1);
        vec![oldest.bytes]
    }

    fn find(&self, key: Key) -> Option<Place> {
        let (table, tag) = (self.table.as_ref()?, key.tag());
        let slots = table[bucket_of(table, key)].chunks_exact(SLOT);
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
        let slots = table[bucket.clone()].chunks_exact(SLOT).map(slot_of);
        let oldest = slots.map(age).enumerate().min_by_key(|(_, age)| *age);
        let at = bucket.start + oldest.map_or(0, |(at, _)| at) * SLOT;
        table[at..at + SLOT].copy_from_slice(&place.slot(key.tag()).to_le_bytes());
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
            let (key, next) = (self.chunks[index].key(at), self.chunks[index].next(at));
            self.note(key, Place { chunk: number, at });
            at = next;
        }
    }
}

/// The bytes of a key's slots.
fn bucket_of(table: &AnonBuf, key: Key) -> std::ops::Range<usize> {
    const BYTES: usize = BUCKET * SLOT;
    // The part of the table's length that the hash is of 2^32.
    let hash = u64::from((key.hash() >> 8) as u32);
    let bucket = ((hash * (table.len() / BYTES) as u64) >> 32) as usize;
    bucket * BYTES..(bucket + 1) * BYTES
}

fn slot_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |slot| u64::from_le_bytes(*slot))
}
