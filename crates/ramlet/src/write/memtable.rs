//! The memtable: rows in RAM until they become a segment.
//!
//! One writer appends; readers hold a [`MemtableView`] (how many rows, which of them deleted) and read without locks: a row never
//! moves or changes once it is in. A row's bytes in the arena:
//!
//! | field | bytes |
//! |---|---|
//! | version (operation number) | u64 |
//! | id, encoded, zero padded | 24 |
//! | presence mask of vectors, by index in the schema | u64 |
//! | payload length | u32 |
//! | length of the texts' tokens | u32 |
//! | vectors that are there, each padded to 4; before those without a fixed length, it (u32) | |
//! | tokens of the scored texts ([`MemtableTexts`]) | |
//! | payload | |

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ramlet_index::Query;
use ramlet_memory::{AppendRegion, Appender, Consumer, OverBudget, Reservation, Span};

use crate::limits::{MEMTABLE_CHUNK_BYTES, MEMTABLE_CHUNKS_MAX, MEMTABLE_ROW_OVERHEAD};
use crate::ranking::{
    Kept, MemtableHit, MemtablePostings, MemtablePostingsWriter, MemtableTexts, Terms, count_in,
    folded_length, hash_in,
};
use crate::schema::Schema;
use crate::segment::deletes::DeleteSet;
use crate::types::PointId;
use crate::write::change::Row;

const HEADER: usize = 48;
/// Of the directory: chunk, offset and length of a row, and the row that its id had before.
const ENTRY: usize = 16;
/// Rows compared in RAM in the time of one that comes from disk in sequence: .05 and .2 us.
const ROWS_PER_ROW_READ: u64 = 4;
const NO_CHUNK: u32 = u32::MAX;
/// The id had no row before.
const NO_ROW: u32 = u32::MAX;
/// Rows compared by one call of the kernels; their distances lie on the stack.
const ROWS_AT_ONCE: usize = 64;
const ENTRIES_PER_CHUNK: u32 = (MEMTABLE_CHUNK_BYTES / ENTRY) as u32;

/// What readers and the writer share.
pub struct Memtable {
    schema: Arc<Schema>,
    texts: MemtableTexts,
    lists: MemtablePostings,
    rows: AppendRegion,
    directory: AppendRegion,
    /// Newest row of each id that ever was here, deleted or not. An older row of the id is found through the directory, so
    /// that a view finds the row that was the newest when it was taken. Where a thread panicked while it changed this, rows are
    /// asked for their ids one by one: they never change.
    ids: RwLock<BTreeMap<PointId, u32>>,
    /// Vectors of the schema, by index, that were dropped since.
    gone: AtomicU64,
    /// What searches have spent here, in rows compared that come from disk.
    spent: AtomicU64,
}

/// The writer's side of a memtable.
pub struct MemtableWriter {
    pub memtable: Arc<Memtable>,
    rows: Appender,
    directory: Appender,
    overhead: Reservation,
    len: u32,
    /// Of the ids that ever were here.
    greatest: Option<PointId>,
    pub deletes: DeleteSet,
    header: Vec<u8>,
    tokens: Vec<u8>,
    lists: MemtablePostingsWriter,
    /// By scored field: of the rows that are there.
    texts: Vec<MemtableTotals>,
}

/// Of a field's texts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemtableTotals {
    /// That have a token.
    pub documents: u64,
    /// Folded lengths together.
    pub tokens: u64,
}

/// A memtable at one moment.
#[derive(Clone)]
pub struct MemtableView {
    pub memtable: Arc<Memtable>,
    pub len: u32,
    pub deletes: DeleteSet,
    texts: Arc<[MemtableTotals]>,
}

/// One row, borrowed.
#[derive(Clone, Copy)]
pub struct MemtableRow<'a> {
    pub id: PointId,
    pub version: u64,
    pub payload: &'a [u8],
    schema: &'a Schema,
    presence: u64,
    /// Vectors that were dropped: they are there, and aren't told of.
    gone: u64,
    vectors: &'a [u8],
    texts: &'a MemtableTexts,
    tokens: &'a [u8],
}

impl<'a> MemtableRow<'a> {
    /// The encoded row of the vector in a slot.
    pub fn vector(&self, slot: u16) -> Option<&'a [u8]> {
        self.vector_at(self.schema.vectors.iter().position(|v| v.slot == slot)?)
    }

    fn vector_at(&self, index: usize) -> Option<&'a [u8]> {
        if !self.has_index(index) {
            return None;
        }
        let mut at = 0;
        for (i, field) in self.schema.vectors[..=index].iter().enumerate() {
            if self.presence >> i & 1 == 0 {
                continue;
            }
            let (start, len) = match field.fixed_bytes() {
                Some(bytes) => (at, bytes),
                None => (at + 4, self.length_at(at)?),
            };
            if i == index {
                return self.vectors.get(start..start + len);
            }
            at = start + padded(len);
        }
        None
    }

    /// Counts the terms in the text of a scored field: its tokens, and by term how often it comes. `None`: the payload has to
    /// be asked.
    pub fn count_terms(&self, slot: u16, terms: &Terms, counts: &mut [u32]) -> Option<u32> {
        self.texts.count(slot, self.tokens, terms, counts)
    }

    /// Whether the text of a scored field is known to lack a word.
    pub fn lacks_word(&self, slot: u16, hash: u64) -> bool {
        self.texts.lacks(slot, self.tokens, hash)
    }

    fn length_at(&self, at: usize) -> Option<usize> {
        let bytes = self.vectors.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().expect("4 bytes")) as usize)
    }

    fn has_index(&self, index: usize) -> bool {
        (self.presence & !self.gone) >> index & 1 == 1
    }

    pub fn has_vector(&self, slot: u16) -> bool {
        let index = self.schema.vectors.iter().position(|v| v.slot == slot);
        index.is_some_and(|index| self.has_index(index))
    }

    pub fn has_vector_named(&self, name: &str) -> bool {
        let index = self.schema.vectors.iter().position(|v| v.name == name);
        index.is_some_and(|index| self.has_index(index))
    }
}

/// The vectors of one slot, for a scan of all rows.
struct RowVectors<'a> {
    memtable: &'a Memtable,
    /// In the schema.
    index: usize,
    /// Bytes of each, where they begin their rows and have a fixed length.
    first: Option<usize>,
    /// The chunk that the last row's entry was in, and the one that the row was in.
    entries: (u32, &'a [u8]),
    rows: (u32, &'a [u8]),
}

impl<'a> RowVectors<'a> {
    fn get(&mut self, row: u32) -> Option<&'a [u8]> {
        let Some(len) = self.first else {
            return self.memtable.row(row).vector_at(self.index);
        };
        let chunk = row / ENTRIES_PER_CHUNK;
        if self.entries.0 != chunk {
            self.entries = (chunk, self.memtable.directory.committed(chunk));
        }
        let entry = &self.entries.1[(row % ENTRIES_PER_CHUNK) as usize * ENTRY..][..ENTRY];
        let (chunk, offset, _) = place_and_length(entry);
        if self.rows.0 != chunk {
            self.rows = (chunk, self.memtable.rows.committed(chunk));
        }
        let row = &self.rows.1[offset..];
        let presence = u64::from_le_bytes(row[32..40].try_into().expect("8 bytes"));
        let is_there = (presence & !self.memtable.gone.load(Ordering::Relaxed)) >> self.index & 1 == 1;
        is_there.then(|| &row[HEADER..][..len])
    }
}

/// Rows that lie one after another, with vectors at the same place of each.
struct Run<'a> {
    first: u32,
    rows: usize,
    /// Bytes from row to row.
    stride: usize,
    /// From the first row's vector to the last one's.
    bytes: &'a [u8],
}

/// The runs of the rows below `end`. A row too short for the vector is in none; one that lacks it may be.
struct Runs<'a> {
    memtable: &'a Memtable,
    vector_bytes: usize,
    next: u32,
    end: u32,
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        let needed = HEADER + self.vector_bytes;
        while self.next < self.end {
            let first = self.next;
            let in_chunk = first % ENTRIES_PER_CHUNK;
            let entries = self.memtable.directory.committed(first / ENTRIES_PER_CHUNK);
            let most = (self.end - first)
                .min(ENTRIES_PER_CHUNK - in_chunk)
                .min(ROWS_AT_ONCE as u32) as usize;
            let mut entries = entries[in_chunk as usize * ENTRY..][..most * ENTRY]
                .chunks_exact(ENTRY)
                .map(place_and_length);
            let (chunk, start, length) = entries.next().expect("a row at least");
            self.next += 1;
            if length < needed {
                continue;
            }
            let (mut rows, mut stride) = (1, self.vector_bytes);
            for (of, offset, length) in entries {
                let apart = match rows {
                    // Of another chunk it may be anything.
                    1 => offset.wrapping_sub(start),
                    _ => stride,
                };
                if of != chunk || length < needed || offset != start + rows * apart {
                    break;
                }
                (rows, stride) = (rows + 1, apart);
            }
            self.next = first + rows as u32;
            let vectors = start + HEADER..start + (rows - 1) * stride + needed;
            return Some(Run {
                first,
                rows,
                stride,
                bytes: &self.memtable.rows.committed(chunk)[vectors],
            });
        }
        None
    }
}

/// Of a row, by its entry in the directory: chunk, offset and length.
fn place_and_length(entry: &[u8]) -> (u32, usize, usize) {
    let number = |i: usize| u32::from_le_bytes(entry[4 * i..4 * i + 4].try_into().expect("4 bytes"));
    (number(0), number(1) as usize, number(2) as usize)
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}

impl MemtableWriter {
    /// What a collection takes at least: an active memtable and a spare one, with the tables of their three arenas.
    pub const EMPTY_PAIR_BYTES: u64 = 6 * AppendRegion::empty_bytes(MEMTABLE_CHUNKS_MAX);

    pub fn new(schema: Arc<Schema>, consumer: &Consumer) -> Result<MemtableWriter, OverBudget> {
        let chunk = usize::try_from(consumer.cap() / 128).unwrap_or(usize::MAX);
        let chunk = chunk.clamp(MEMTABLE_CHUNK_BYTES, 64 * MEMTABLE_CHUNK_BYTES);
        let (rows, rows_in) = AppendRegion::create(consumer, chunk, MEMTABLE_CHUNKS_MAX)?;
        let (directory, directory_in) =
            AppendRegion::create(consumer, MEMTABLE_CHUNK_BYTES, MEMTABLE_CHUNKS_MAX)?;
        let (lists, lists_in) = MemtablePostings::create(consumer, chunk, MEMTABLE_CHUNKS_MAX)?;
        let texts = MemtableTexts::of(&schema);
        Ok(MemtableWriter {
            texts: vec![MemtableTotals::default(); texts.len()],
            lists: lists_in,
            memtable: Arc::new(Memtable {
                texts,
                lists,
                schema,
                rows,
                directory,
                ids: RwLock::default(),
                gone: AtomicU64::new(0),
                spent: AtomicU64::new(0),
            }),
            rows: rows_in,
            directory: directory_in,
            overhead: consumer.reserve(0)?,
            len: 0,
            greatest: None,
            deletes: DeleteSet::default(),
            header: Vec::with_capacity(1024),
            tokens: Vec::new(),
        })
    }

    /// Appends a row; an older one of the same id in this memtable becomes deleted. Whether there was one.
    pub fn put(&mut self, id: PointId, version: u64, row: &Row<'_>) -> Result<bool, OverBudget> {
        if u64::from(self.len) * MEMTABLE_ROW_OVERHEAD >= self.overhead.bytes() {
            self.overhead.grow(32 * MEMTABLE_ROW_OVERHEAD)?;
        }
        let mut presence = 0u64;
        self.header.clear();
        self.header.resize(HEADER, 0);
        for (slot, bytes) in row.vectors() {
            // A vector that was dropped from the schema since is left behind.
            let Some(index) = self.memtable.schema.vectors.iter().position(|v| v.slot == slot) else {
                continue;
            };
            match self.memtable.schema.vectors[index].fixed_bytes() {
                Some(fixed) if fixed != bytes.len() => continue,
                Some(_) => {}
                None => self.header.extend_from_slice(&(bytes.len() as u32).to_le_bytes()),
            }
            presence |= 1 << index;
            self.header.extend_from_slice(bytes);
            self.header.resize(HEADER + padded(self.header.len() - HEADER), 0);
        }
        self.header[..8].copy_from_slice(&version.to_le_bytes());
        let mut encoded = [0; PointId::ENCODED_MAX];
        let encoded = id.encode_into(&mut encoded);
        self.header[8..8 + encoded.len()].copy_from_slice(encoded);
        self.header[32..40].copy_from_slice(&presence.to_le_bytes());
        self.header[40..44].copy_from_slice(&(row.payload.len() as u32).to_le_bytes());
        let span = self.push_row(row.payload)?;
        self.list_words()?;
        let mut entry = [0u8; ENTRY];
        entry[..4].copy_from_slice(&span.chunk.to_le_bytes());
        entry[4..8].copy_from_slice(&span.offset.to_le_bytes());
        entry[8..12].copy_from_slice(&span.len.to_le_bytes());
        let old = self.newest(id);
        entry[12..].copy_from_slice(&old.unwrap_or(NO_ROW).to_le_bytes());
        self.directory.push(&entry, ENTRY)?;
        let row = self.len;
        self.len += 1;
        self.greatest = self.greatest.max(Some(id));
        let ids = self.memtable.ids.write();
        // Who finds it poisoned doesn't read it.
        ids.unwrap_or_else(PoisonError::into_inner).insert(id, row);
        add_texts(&mut self.texts, &self.memtable.texts, &self.tokens, true);
        Ok(old.is_some_and(|old| self.end(old)))
    }

    /// The newest row of an id, deleted or not. Ids that ascend, as most uploads have them, aren't looked up.
    fn newest(&self, id: PointId) -> Option<u32> {
        if self.greatest < Some(id) {
            return None;
        }
        self.memtable.newest(id, self.len)
    }

    /// The words of the next row, whose tokens are ready, into the lists. One that would have to wait for an empty memtable goes without.
    fn list_words(&mut self) -> Result<(), OverBudget> {
        let (row, memtable) = (self.len, &self.memtable);
        let (lists, mut pushed, mut is_here) = (&mut self.lists, Ok(()), true);
        memtable.texts.for_each(&self.tokens, &mut |slot, kept| {
            is_here &= kept.entries.is_some();
            for entry in kept.entries.unwrap_or_default() {
                if pushed.is_ok() {
                    let word = (hash_in(entry), count_in(entry));
                    pushed = lists.push(&memtable.lists, (slot, kept.tokens), word, row);
                }
            }
        });
        // The row's own tokens may have found no room: then they are in its payload only.
        let is_bare = !memtable.texts.is_empty() && self.header[44..48] == [0; 4];
        if !is_here || is_bare || (pushed.is_err() && row == 0) {
            memtable.lists.note_partial();
            return Ok(());
        }
        pushed
    }

    /// A row is there no more; false: it wasn't.
    fn end(&mut self, row: u32) -> bool {
        let was_there = self.deletes.insert(row);
        if was_there && !self.texts.is_empty() {
            let (memtable, known) = (&self.memtable, self.memtable.row(row));
            let mut counted = Vec::new();
            let tokens = match known.tokens.is_empty() {
                true => {
                    memtable.texts.encode(known.payload, &mut counted);
                    &counted[..]
                }
                false => known.tokens,
            };
            add_texts(&mut self.texts, &memtable.texts, tokens, false);
        }
        was_there
    }

    /// The row whose header is ready, with the tokens of its texts.
    fn push_row(&mut self, payload: &[u8]) -> Result<Span, OverBudget> {
        self.tokens.clear();
        self.memtable.texts.encode(payload, &mut self.tokens);
        self.header[44..48].copy_from_slice(&(self.tokens.len() as u32).to_le_bytes());
        match self.rows.push_parts(&[&self.header, &self.tokens, payload], 8) {
            // A point fits an empty memtable, but not always with its tokens: they can be had from the payload.
            Err(_) if self.len == 0 && !self.tokens.is_empty() => {
                self.header[44..48].fill(0);
                self.rows.push_parts(&[&self.header, payload], 8)
            }
            pushed => pushed,
        }
    }

    /// Returns whether the id was here. Views that were taken before still find it.
    pub fn delete(&mut self, id: PointId) -> bool {
        self.newest(id).is_some_and(|row| self.end(row))
    }

    pub fn view(&self) -> MemtableView {
        MemtableView {
            memtable: self.memtable.clone(),
            len: self.len,
            deletes: self.deletes.clone(),
            texts: self.texts.clone().into(),
        }
    }

    /// Rows that are there.
    pub fn live(&self) -> u32 {
        self.len - self.deletes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes taken from the budget.
    pub fn bytes(&self) -> u64 {
        self.memtable.bytes() + self.overhead.bytes()
    }
}

impl Memtable {
    /// A vector was dropped: rows have it no more, those that come included.
    pub fn forget_vector(&self, slot: u16) {
        if let Some(index) = self.schema.vectors.iter().position(|v| v.slot == slot) {
            self.gone.fetch_or(1 << index, Ordering::Relaxed);
        }
    }

    /// As a panic of the writer leaves it that changed the rows' numbers by id: they can't be relied on.
    #[cfg(test)]
    pub fn lose_ids(&self) {
        let lost = crate::faults::panics::caught(|| {
            let mut ids = self.ids.write().unwrap_or_else(PoisonError::into_inner);
            ids.clear();
            panic!("planted");
        });
        assert!(lost.is_err() && self.ids.is_poisoned());
    }

    /// A search has compared so many rows.
    pub fn note_compared(&self, rows: u64) {
        self.spent.fetch_add(rows / ROWS_PER_ROW_READ, Ordering::Relaxed);
    }

    /// What searches have spent here, in rows compared that come from disk.
    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// The four numbers of a row's directory entry.
    fn entry(&self, row: u32) -> [u32; 4] {
        let entry = self.directory.get(Span {
            chunk: row / ENTRIES_PER_CHUNK,
            offset: row % ENTRIES_PER_CHUNK * ENTRY as u32,
            len: ENTRY as u32,
        });
        std::array::from_fn(|i| u32::from_le_bytes(entry[4 * i..4 * i + 4].try_into().expect("4 bytes")))
    }

    pub fn row(&self, row: u32) -> MemtableRow<'_> {
        let [chunk, offset, len, _] = self.entry(row);
        let bytes = self.rows.get(Span { chunk, offset, len });
        let word = |i: usize| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("8 bytes"));
        let payload_len = u32::from_le_bytes(bytes[40..44].try_into().expect("4 bytes")) as usize;
        let tokens_len = u32::from_le_bytes(bytes[44..48].try_into().expect("4 bytes")) as usize;
        let (vectors, payload) = bytes[HEADER..].split_at(bytes.len() - HEADER - payload_len);
        let (vectors, tokens) = vectors.split_at(vectors.len() - tokens_len);
        let (id, _) = PointId::decode(&bytes[8..32]).expect("the writer encoded it");
        MemtableRow {
            id,
            version: word(0),
            payload,
            schema: &self.schema,
            presence: word(32),
            gone: self.gone.load(Ordering::Relaxed),
            vectors,
            texts: &self.texts,
            tokens,
        }
    }

    fn vectors(&self, slot: u16) -> Option<RowVectors<'_>> {
        let index = self.schema.vectors.iter().position(|v| v.slot == slot)?;
        Some(RowVectors {
            memtable: self,
            index,
            first: self.schema.vectors[index].fixed_bytes().filter(|_| index == 0),
            entries: (NO_CHUNK, &[]),
            rows: (NO_CHUNK, &[]),
        })
    }

    /// Bytes of its arenas.
    pub fn bytes(&self) -> u64 {
        self.rows.bytes_reserved() + self.directory.bytes_reserved() + self.lists.bytes()
    }

    fn id(&self, row: u32) -> PointId {
        self.row(row).id
    }

    /// The newest row of an id, deleted or not, whatever a view of `len` rows says.
    fn newest(&self, id: PointId, len: u32) -> Option<u32> {
        match self.ids.read() {
            Ok(ids) => ids.get(&id).copied(),
            Err(_) => (0..len).rev().find(|&row| self.id(row) == id),
        }
    }

    /// Up to `limit` ids from `from` on, ascending, with their newest rows of which there are `len`.
    fn ids_from(&self, from: Bound<PointId>, limit: usize, len: u32, out: &mut Vec<(PointId, u32)>) {
        let all = (from, Bound::Unbounded);
        let Ok(ids) = self.ids.read() else {
            out.extend(self.ids_of_rows(all, limit, len));
            return;
        };
        out.extend(ids.range(all).take(limit).map(|(&id, &row)| (id, row)));
    }

    /// The same, of the rows themselves.
    fn ids_of_rows(
        &self,
        all: (Bound<PointId>, Bound<PointId>),
        limit: usize,
        len: u32,
    ) -> BTreeMap<PointId, u32> {
        let mut first = BTreeMap::new();
        let rows = (0..len).map(|row| (self.id(row), row));
        for (id, row) in rows.filter(|(id, _)| all.contains(id)) {
            first.insert(id, row);
            if first.len() > limit {
                first.pop_last();
            }
        }
        first
    }
}

/// Adds a row's texts, as they were encoded, or takes them off.
fn add_texts(totals: &mut [MemtableTotals], texts: &MemtableTexts, encoded: &[u8], is_added: bool) {
    let mut left = totals.iter_mut();
    texts.for_each(encoded, &mut |_, Kept { tokens, .. }| {
        let Some(total) = left.next() else { return };
        let (document, length) = (u64::from(tokens > 0), folded_length(tokens.into()));
        let change = |sum: u64, by: u64| {
            if is_added {
                sum + by
            } else {
                sum.saturating_sub(by)
            }
        };
        *total = MemtableTotals {
            documents: change(total.documents, document),
            tokens: change(total.tokens, length),
        };
    });
}

impl MemtableView {
    /// Of a scored field's texts, and the terms that its live rows have, by row. `None`: its rows have to be asked one by one. `held` grows
    /// with them.
    pub fn hits(
        &self,
        slot: u16,
        terms: &Terms,
        (hits, held): (&mut Vec<MemtableHit>, &mut Reservation),
    ) -> Result<Option<MemtableTotals>, OverBudget> {
        let place = self.memtable.texts.place(slot);
        let Some(totals) = place.and_then(|place| self.texts.get(place)) else {
            return Ok(None);
        };
        let mut over = Ok(());
        for term in terms.hashes().iter().copied().enumerate() {
            let mut each = |hit: MemtableHit| {
                if over.is_err() || self.deletes.contains(hit.row()) {
                    return;
                }
                if hits.len() == hits.capacity() {
                    let more = hits.capacity().max(256);
                    over = held.grow((more * size_of::<MemtableHit>()) as u64);
                    if over.is_err() {
                        return;
                    }
                    hits.reserve_exact(more);
                }
                hits.push(hit);
            };
            if !self.memtable.lists.hits(slot, term, self.len, &mut each) {
                return Ok(None);
            }
        }
        over?;
        hits.sort_unstable();
        Ok(Some(*totals))
    }

    /// The live row of an id in this view.
    pub fn find(&self, id: PointId) -> Option<u32> {
        self.seen(self.memtable.newest(id, self.len)?)
    }

    /// Up to `limit` ids from `from` on, ascending, with their newest rows: see [`MemtableView::seen`].
    pub fn ids_from(&self, from: Bound<PointId>, limit: usize, out: &mut Vec<(PointId, u32)>) {
        self.memtable.ids_from(from, limit, self.len, out);
    }

    /// The live row in this view of the id that `newest` is a row of. Steps over the rows that came after the view.
    pub fn seen(&self, newest: u32) -> Option<u32> {
        let mut row = newest;
        while row != NO_ROW && row >= self.len {
            row = self.memtable.entry(row)[3];
        }
        (row != NO_ROW && !self.deletes.contains(row)).then_some(row)
    }

    /// Rows that are there, ascending.
    pub fn live_rows(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len).filter(|&row| !self.deletes.contains(row))
    }

    /// Whether a row is there, with the vector in a slot.
    pub fn has_vector(&self, row: u32, slot: u16) -> bool {
        !self.deletes.contains(row) && self.memtable.row(row).has_vector(slot)
    }

    /// Compares the vectors of a slot with `query`: shows `each` rows, ascending, with their distances. Which of them count
    /// [`MemtableView::has_vector`] tells: few are near enough to be asked. Returns how many were compared.
    pub fn compare(&self, slot: u16, query: &Query, mut each: impl FnMut(u32, f32)) -> u64 {
        let mut compared = 0;
        let vectors = self.memtable.vectors(slot);
        let Some(vector_bytes) = vectors.and_then(|vectors| vectors.first) else {
            for (row, bytes) in self.live_vectors(slot) {
                compared += 1;
                each(row, query.distance_of_row(bytes));
            }
            return compared;
        };
        let runs = Runs {
            memtable: &self.memtable,
            vector_bytes,
            next: 0,
            end: self.len,
        };
        let mut distances = [0.0; ROWS_AT_ONCE];
        for run in runs {
            let distances = &mut distances[..run.rows];
            query.distances_of_rows(run.bytes, run.stride, distances);
            compared += run.rows as u64;
            (run.first..)
                .zip(distances)
                .for_each(|(row, distance)| each(row, *distance));
        }
        compared
    }

    /// The encoded vectors of a slot, of rows that are there and have one, ascending. The rest of a row isn't looked at.
    pub fn live_vectors(&self, slot: u16) -> impl Iterator<Item = (u32, &[u8])> {
        let mut vectors = self.memtable.vectors(slot);
        self.live_rows()
            .filter_map(move |row| Some((row, vectors.as_mut()?.get(row)?)))
    }

    pub fn live(&self) -> u32 {
        self.len - self.deletes.len()
    }
}
