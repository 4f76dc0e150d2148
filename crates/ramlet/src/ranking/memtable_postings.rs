//! Posting lists of a memtable's words, so that a search reads only rows that have some of them.
//!
//! One writer appends; readers go through the entries of a word from the newest to the oldest and pass over those of rows that are newer than their view. An
//! entry (16 bytes): what tells field and word, 48 bits of a hash in the upper bits of a u64, and in the lower ones how often the text has the word (5 bits) and
//! how many tokens it has (11), so that only rows with more of them are asked themselves; its row u32; the entry before it in its chain u32, counted from 1, 0
//! for none.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ramlet_memory::{AppendRegion, Appender, Consumer, OverBudget, Reservation, Span};

const ENTRY: usize = 16;
/// Chains, for how many bytes of memtables one each.
const BYTES_PER_CHAIN: u64 = 512;
const CHAINS: std::ops::RangeInclusive<u64> = 1 << 8..=1 << 20;

const NOTE_BITS: u32 = 16;
const LENGTH_BITS: u32 = 11;
/// As many or more.
const LENGTH_MOST: u32 = (1 << LENGTH_BITS) - 1;
const COUNT_MOST: u32 = (1 << (NOTE_BITS - LENGTH_BITS)) - 1;

/// A row and a term that it has, in the order of rows, then terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemtableHit(u64);

impl MemtableHit {
    /// Terms have a place below this.
    const TERMS: usize = 1 << 16;

    fn new(row: u32, term: usize, note: u16) -> MemtableHit {
        debug_assert!(term < Self::TERMS, "queries of more words aren't looked up");
        MemtableHit(u64::from(row) << 32 | (term as u64) << NOTE_BITS | u64::from(note))
    }

    pub fn row(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub fn term(self) -> usize {
        (self.0 >> NOTE_BITS) as usize % Self::TERMS
    }

    /// How often the text has the term, and its tokens. `None`: more often, or more, than is noted.
    pub fn counts(self) -> Option<(u32, u32)> {
        let note = self.0 as u32 & ((1 << NOTE_BITS) - 1);
        let (count, tokens) = (note >> LENGTH_BITS, note & LENGTH_MOST);
        (count < COUNT_MOST && tokens < LENGTH_MOST).then_some((count, tokens))
    }
}

/// What is noted of a text that has a word.
fn note_of(count: u32, tokens: u32) -> u16 {
    (count.min(COUNT_MOST) << LENGTH_BITS | tokens.min(LENGTH_MOST)) as u16
}

/// What readers and the writer share.
pub struct MemtablePostings {
    entries: AppendRegion,
    entries_per_chunk: u32,
    /// The newest entry of each chain, counted from 1; made with the first row.
    chains: OnceLock<(Box<[AtomicU32]>, Reservation)>,
    /// Some row isn't here: there was no room for its words.
    is_partial: AtomicBool,
}

/// The writer's side.
pub struct MemtablePostingsWriter {
    entries: Appender,
    count: u32,
    consumer: Consumer,
}

impl MemtablePostings {
    pub fn create(
        consumer: &Consumer,
        chunk_bytes: usize,
        chunks: usize,
    ) -> Result<(MemtablePostings, MemtablePostingsWriter), OverBudget> {
        let (entries, appender) = AppendRegion::create(consumer, chunk_bytes, chunks)?;
        let lists = MemtablePostings {
            // Entries are found by their number. Pages may have 64 KiB: only the region knows what a chunk holds.
            entries_per_chunk: (entries.chunk_bytes() / ENTRY) as u32,
            entries,
            chains: OnceLock::new(),
            is_partial: AtomicBool::new(false),
        };
        let writer = MemtablePostingsWriter {
            entries: appender,
            count: 0,
            consumer: consumer.clone(),
        };
        Ok((lists, writer))
    }

    /// Calls `each` with the rows below `len` that have a word of a field, as hits of `term`; false: there may be more.
    pub fn hits(
        &self,
        slot: u16,
        (term, hash): (usize, u64),
        len: u32,
        each: &mut dyn FnMut(MemtableHit),
    ) -> bool {
        if self.is_partial.load(Ordering::Acquire) {
            return false;
        }
        let Some((chains, _)) = self.chains.get() else {
            return true;
        };
        let key = key_of(slot, hash);
        let mut next = chains[chain_of(key, chains.len())].load(Ordering::Acquire);
        while let Some(at) = next.checked_sub(1) {
            let entry = self.entries.get(Span {
                chunk: at / self.entries_per_chunk,
                offset: at % self.entries_per_chunk * ENTRY as u32,
                len: ENTRY as u32,
            });
            let (words, _) = entry.as_chunks::<4>();
            let number = |at: usize| u32::from_le_bytes(words[at]);
            let (row, known) = (number(2), u64::from(number(1)) << 32 | u64::from(number(0)));
            if known >> NOTE_BITS == key >> NOTE_BITS && row < len {
                each(MemtableHit::new(row, term, known as u16));
            }
            next = number(3);
        }
        true
    }

    /// A row that will be seen has words that aren't here.
    pub fn note_partial(&self) {
        self.is_partial.store(true, Ordering::Release);
    }

    pub fn bytes(&self) -> u64 {
        self.entries.bytes_reserved() + self.chains.get().map_or(0, |(_, held)| held.bytes())
    }
}

impl MemtablePostingsWriter {
    /// A row of so many tokens in a field has a word so often. Where it is refused, some of a row's words may be here: the row isn't seen.
    pub fn push(
        &mut self,
        lists: &MemtablePostings,
        (slot, tokens): (u16, u32),
        (hash, count): (u64, u32),
        row: u32,
    ) -> Result<(), OverBudget> {
        let (chains, _) = match lists.chains.get() {
            Some(chains) => chains,
            None => {
                let count = (self.consumer.cap() / BYTES_PER_CHAIN).clamp(*CHAINS.start(), *CHAINS.end());
                let count = count.next_power_of_two();
                let held = self.consumer.reserve(count * size_of::<AtomicU32>() as u64)?;
                lists
                    .chains
                    .get_or_init(|| ((0..count).map(|_| AtomicU32::new(0)).collect(), held))
            }
        };
        let key = key_of(slot, hash);
        let chain = &chains[chain_of(key, chains.len())];
        let mut entry = [0; ENTRY];
        entry[..8].copy_from_slice(&(key | u64::from(note_of(count, tokens))).to_le_bytes());
        entry[8..12].copy_from_slice(&row.to_le_bytes());
        entry[12..].copy_from_slice(&chain.load(Ordering::Relaxed).to_le_bytes());
        self.entries.push(&entry, ENTRY)?;
        self.count += 1;
        chain.store(self.count, Ordering::Release);
        Ok(())
    }
}

/// Of a word's hash, the same in all fields, one that differs between them.
fn key_of(slot: u16, hash: u64) -> u64 {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    hash.wrapping_add((u64::from(slot) + 1).wrapping_mul(SPREAD)) >> NOTE_BITS << NOTE_BITS
}

fn chain_of(key: u64, chains: usize) -> usize {
    (key >> NOTE_BITS) as usize & (chains - 1)
}

#[cfg(test)]
mod tests {
    use ramlet_memory::Ledger;

    use super::*;
    use crate::text::hash_of;

    #[test]
    fn rows_are_found_by_field_and_word() {
        let ledger = Ledger::new(64 << 20);
        let consumer = ledger.consumer("rows", 64 << 20);
        let (lists, mut writer) = MemtablePostings::create(&consumer, (64 << 10) + 1_000, 256).expect("room");
        for row in 0..30_000u32 {
            for word in [row % 3, 100 + row] {
                let word = (hash_of(&format!("w{word}")), 1 + row % 40);
                writer
                    .push(&lists, ((row % 2) as u16, row), word, row)
                    .expect("room");
            }
        }
        let rows = |slot: u16, word: &str, len: u32| {
            let mut hits = Vec::new();
            assert!(lists.hits(slot, (7, hash_of(word)), len, &mut |hit| hits.push(hit)));
            hits.sort_unstable();
            let row = |hit: MemtableHit| {
                let row = hit.row();
                let is_noted = row < 2047 && row % 40 < 30;
                assert_eq!(hit.term(), 7);
                assert_eq!(hit.counts(), is_noted.then_some((1 + row % 40, row)));
                row
            };
            hits.into_iter().map(row).collect::<Vec<u32>>()
        };
        assert_eq!(rows(0, "w1", 20), [4, 10, 16]);
        assert_eq!(rows(1, "w1", 20), [1, 7, 13, 19]);
        assert_eq!(rows(1, "w1", 30_000).len(), 5_000);
        assert_eq!(rows(1, "w29999", 30_000), [29_899]);
        assert!(rows(0, "w29999", 30_000).is_empty() && rows(1, "w29999", 29_899).is_empty());
        assert!(lists.bytes() >= 60_000 * ENTRY as u64);
        lists.note_partial();
        assert!(!lists.hits(0, (0, hash_of("w1")), 20, &mut |_| {}));
    }
}
