//! Words of rows in memory: numbered as they come, given back word after word, the rows of each ascending.
//!
//! A word is looked up once where it stands in a text; what is sorted is the distinct words, not the places where they stand.

use ramlet_format::bloom::hash64;

use super::packed::push_varint;
use super::part::POSITIONS_MAX;

/// Collects rows, each with its words. Holds about `bytes`, taken at the first row; a row of very many words takes more until it is given back.
pub struct Inverter {
    bytes: usize,
    with_positions: bool,
    /// Distinct words end to end, and where each begins.
    words: Vec<u8>,
    starts: Vec<u32>,
    /// Open addressing: a word's number + 1, 0 for none. A power of two long, at most half full.
    table: Vec<u32>,
    /// Of each word of each row: the word's number, and where its bytes begin in `data`.
    entries: Vec<(u32, u32)>,
    /// Row u32, frequency u32, then the positions as varints.
    data: Vec<u8>,
    /// Of the row under way: number and position of each word.
    of_row: Vec<u64>,
}

/// What is shown of a word's rows: the word, a row, its frequency, its positions.
pub type EachEntry<'a, E> = dyn FnMut(&[u8], u32, u32, &[u8]) -> Result<(), E> + 'a;

/// What of the bytes is for `data`, for entries (and their order, while they are given back) and for words, in sixteenths. The rest is left to the table.
const DATA: usize = 5;
const ENTRIES: usize = 6;
const WORDS: usize = 2;
/// An entry, and its place in the order.
const ENTRY_BYTES: usize = 8 + 4;
/// Slots of the table for so many bytes.
const TABLE_SHARE: usize = 16;
const TABLE_MIN: usize = 1 << 8;

impl Inverter {
    pub fn new(bytes: usize, with_positions: bool) -> Inverter {
        Inverter {
            bytes,
            with_positions,
            words: Vec::new(),
            starts: Vec::new(),
            table: Vec::new(),
            entries: Vec::new(),
            data: Vec::new(),
            of_row: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether another row might not fit any more.
    pub fn is_full(&self) -> bool {
        let share = |sixteenths: usize| self.bytes / 16 * sixteenths;
        self.data.len() >= share(DATA) / 8 * 7
            || self.entries.len() * ENTRY_BYTES >= share(ENTRIES) / 8 * 7
            || self.words.len() >= share(WORDS) / 8 * 7
            || !self.table.is_empty() && self.starts.len() * 2 >= self.table.len() / 8 * 7
    }

    /// The next word of the row under way, which ends as no other goes on.
    pub fn push(&mut self, word: &[u8]) {
        if self.table.is_empty() {
            self.take();
        }
        let number = self.number(word);
        let position = self.of_row.len() as u64;
        self.of_row.push(u64::from(number) << 32 | position);
    }

    /// The row is whole; how many words it has.
    pub fn end_row(&mut self, row: u32) -> usize {
        let count = self.of_row.len();
        self.of_row.sort_unstable();
        for same in self.of_row.chunk_by(|a, b| a >> 32 == b >> 32) {
            self.entries
                .push(((same[0] >> 32) as u32, self.data.len() as u32));
            self.data.extend_from_slice(&row.to_le_bytes());
            self.data.extend_from_slice(&(same.len() as u32).to_le_bytes());
            if !self.with_positions || same.len() as u32 > POSITIONS_MAX {
                continue;
            }
            let mut before = 0;
            for place in same {
                push_varint(*place as u32 - before, &mut self.data);
                before = *place as u32;
            }
        }
        self.of_row.clear();
        count
    }

    /// Gives all of it back, words ascending, and is empty then.
    pub fn drain<E>(&mut self, each: &mut EachEntry<'_, E>) -> Result<(), E> {
        let mut words: Vec<u32> = (0..self.starts.len() as u32).collect();
        words.sort_unstable_by(|&a, &b| self.word(a).cmp(self.word(b)));
        // By word: how many entries, then where the next of them goes.
        let mut ends = vec![0u32; self.starts.len()];
        self.entries
            .iter()
            .for_each(|(word, _)| ends[*word as usize] += 1);
        let mut sum = 0;
        for &word in &words {
            let count = std::mem::replace(&mut ends[word as usize], sum);
            sum += count;
        }
        let mut order = vec![0u32; self.entries.len()];
        for (at, (word, _)) in self.entries.iter().enumerate() {
            let end = &mut ends[*word as usize];
            order[*end as usize] = at as u32;
            *end += 1;
        }
        for at in order {
            let (word, start) = self.entries[at as usize];
            let end = self
                .entries
                .get(at as usize + 1)
                .map_or(self.data.len(), |next| next.1 as usize);
            let bytes = &self.data[start as usize..end];
            let (numbers, positions) = bytes.split_at(8);
            let number = |at: usize| numbers[at..].first_chunk().map_or(0, |n| u32::from_le_bytes(*n));
            each(self.word(word), number(0), number(4), positions)?;
        }
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        self.words.clear();
        self.starts.clear();
        self.table.fill(0);
        self.entries.clear();
        self.data.clear();
    }

    fn take(&mut self) {
        let share = |sixteenths: usize| self.bytes / 16 * sixteenths;
        let slots = (self.bytes / TABLE_SHARE / size_of::<u32>()).max(TABLE_MIN);
        // Rounded down: a power of two.
        self.table = vec![0; 1 << slots.ilog2()];
        self.starts.reserve_exact(self.table.len() / 2);
        self.words.reserve_exact(share(WORDS));
        self.data.reserve_exact(share(DATA));
        self.entries.reserve_exact(share(ENTRIES) / ENTRY_BYTES);
    }

    fn word(&self, number: u32) -> &[u8] {
        let at = number as usize;
        let end = self
            .starts
            .get(at + 1)
            .map_or(self.words.len(), |end| *end as usize);
        &self.words[self.starts[at] as usize..end]
    }

    fn number(&mut self, word: &[u8]) -> u32 {
        let mut slot = self.slot_of(word);
        if self.table[slot] > 0 {
            return self.table[slot] - 1;
        }
        if self.starts.len() * 2 >= self.table.len() {
            self.widen();
            slot = self.slot_of(word);
        }
        let number = self.starts.len() as u32;
        self.starts.push(self.words.len() as u32);
        self.words.extend_from_slice(word);
        self.table[slot] = number + 1;
        number
    }

    /// Where a word stands in the table, or would.
    fn slot_of(&self, word: &[u8]) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = hash64(word) as usize & mask;
        while let Some(known) = self.table[slot].checked_sub(1)
            && self.word(known) != word
        {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// For a row of more new words than were left room for.
    fn widen(&mut self) {
        self.table = vec![0; 2 * self.table.len()];
        for number in 0..self.starts.len() as u32 {
            let slot = self.slot_of(self.word(number));
            self.table[slot] = number + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Word after word against a map, given back whenever it is full.
    fn check(bytes: usize, rows: u32, most: u64) {
        let (mut inverter, mut x) = (Inverter::new(bytes, true), 9u64);
        let mut model: BTreeMap<(u32, Vec<u8>, u32), Vec<u32>> = BTreeMap::new();
        let mut found = BTreeMap::new();
        let mut drained = 0;
        let mut give = |inverter: &mut Inverter, drained: &mut u32| {
            let mut last: Option<(Vec<u8>, u32)> = None;
            let gone = inverter.drain::<()>(&mut |word, row, frequency, positions| {
                let now = (word.to_vec(), row);
                assert!(last.as_ref().is_none_or(|last| *last < now), "ascending");
                found.insert((*drained, now.0.clone(), row), (frequency, positions.to_vec()));
                last = Some(now);
                Ok(())
            });
            gone.expect("nothing fails");
            assert!(inverter.is_empty());
            *drained += 1;
        };
        for row in 0..rows {
            if inverter.is_full() {
                give(&mut inverter, &mut drained);
            }
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let count = (x >> 33) % most;
            for position in 0..count {
                x = x
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                let word = format!("w{}\u{e9}", (x >> 40) % 900).into_bytes();
                inverter.push(&word);
                model
                    .entry((drained, word, row))
                    .or_default()
                    .push(position as u32);
            }
            assert_eq!(inverter.end_row(row), count as usize);
        }
        give(&mut inverter, &mut drained);
        assert_eq!(found.len(), model.len());
        for (key, places) in model {
            let mut positions = Vec::new();
            let mut before = 0;
            for place in &places {
                push_varint(place - before, &mut positions);
                before = *place;
            }
            assert_eq!(found[&key], (places.len() as u32, positions), "{key:?}");
        }
        assert!(drained > 1 || bytes > 1 << 20);
    }

    #[test]
    fn gives_back_what_came() {
        check(4 << 20, 2_000, 60);
        check(64 << 10, 2_000, 60);
        // A row alone is more than there is room for.
        check(8 << 10, 200, 2_000);
    }
}
