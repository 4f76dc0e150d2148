//! Lists of the words in a write buffer's rows, so that a search looks at the rows that have some, not at all of them.
//!
//! One writer appends; readers go through the entries of a word from the newest to the oldest and pass over those of rows that are newer than their view. An
//! entry (16 bytes): what tells field and word, 48 bits of a hash in the upper bits of a u64; its row u32; the entry before it in its chain u32, counted
//! from 1, 0 for none. Others may share a word's entries: a row is asked itself in the end.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ramlet_io::PAGE;
use ramlet_memory::{AppendRegion, Appender, Consumer, OverBudget, Reservation, Span};

const ENTRY: usize = 16;
/// Chains, for how many bytes of write buffers one each.
const BYTES_PER_CHAIN: u64 = 512;
const CHAINS: std::ops::RangeInclusive<u64> = 1 << 8..=1 << 20;

/// What readers and the writer share.
pub struct FreshLists {
    entries: AppendRegion,
    entries_per_chunk: u32,
    /// The newest entry of each chain, counted from 1; made with the first row.
    chains: OnceLock<(Box<[AtomicU32]>, Reservation)>,
    /// Some row isn't here: there was no room for its words.
    is_partial: AtomicBool,
}

/// The writer's side.
pub struct FreshListsWriter {
    entries: Appender,
    count: u32,
    consumer: Consumer,
}

impl FreshLists {
    pub fn create(
        consumer: &Consumer,
        chunk_bytes: usize,
        chunks: usize,
    ) -> Result<(FreshLists, FreshListsWriter), OverBudget> {
        // As the region does: entries are found by their number.
        let chunk_bytes = chunk_bytes.next_multiple_of(PAGE);
        let (entries, appender) = AppendRegion::create(consumer, chunk_bytes, chunks)?;
        let lists = FreshLists {
            entries,
            entries_per_chunk: (chunk_bytes / ENTRY) as u32,
            chains: OnceLock::new(),
            is_partial: AtomicBool::new(false),
        };
        let writer = FreshListsWriter {
            entries: appender,
            count: 0,
            consumer: consumer.clone(),
        };
        Ok((lists, writer))
    }

    /// Calls `each` with the rows below `len` that have a word of a field, and maybe with others; false: there may be more.
    pub fn rows_with(&self, slot: u16, hash: u64, len: u32, each: &mut dyn FnMut(u32)) -> bool {
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
            if known == key && row < len {
                each(row);
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

impl FreshListsWriter {
    /// A row has a word. Where it is refused, some of a row's words may be here: readers ask the row.
    pub fn push(&mut self, lists: &FreshLists, slot: u16, hash: u64, row: u32) -> Result<(), OverBudget> {
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
        entry[..8].copy_from_slice(&key.to_le_bytes());
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
    hash.wrapping_add((u64::from(slot) + 1).wrapping_mul(SPREAD)) >> 16 << 16
}

fn chain_of(key: u64, chains: usize) -> usize {
    (key >> 16) as usize & (chains - 1)
}

#[cfg(test)]
mod tests {
    use ramlet_memory::Ledger;

    use super::*;
    use crate::ranking::fresh::hash_of;

    #[test]
    fn rows_are_found_by_field_and_word() {
        let ledger = Ledger::new(64 << 20);
        let consumer = ledger.consumer("rows", 64 << 20);
        let (lists, mut writer) = FreshLists::create(&consumer, (64 << 10) + 1_000, 256).expect("room");
        for row in 0..30_000u32 {
            for word in [row % 3, 100 + row] {
                let hash = hash_of(&format!("w{word}"));
                writer.push(&lists, (row % 2) as u16, hash, row).expect("room");
            }
        }
        let rows = |slot: u16, word: &str, len: u32| {
            let mut rows = Vec::new();
            assert!(lists.rows_with(slot, hash_of(word), len, &mut |row| rows.push(row)));
            rows.sort_unstable();
            rows
        };
        assert_eq!(rows(0, "w1", 20), [4, 10, 16]);
        assert_eq!(rows(1, "w1", 20), [1, 7, 13, 19]);
        assert_eq!(rows(1, "w29999", 30_000), [29_899]);
        assert!(rows(0, "w29999", 30_000).is_empty() && rows(1, "w29999", 29_899).is_empty());
        assert!(lists.bytes() >= 60_000 * ENTRY as u64);
        lists.note_partial();
        assert!(!lists.rows_with(0, hash_of("w1"), 20, &mut |_| {}));
    }
}
