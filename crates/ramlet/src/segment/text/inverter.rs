//! Inverts rows in memory: collects words by row, and returns rows by word, ascending.
//!
//! A word is looked up once where it stands in a text; what is sorted is the distinct words, not the places where they stand. A row of more words than there is
//! room for comes in pieces: a word then has an entry of each, and [`Joined`] makes them one.
//!
//! An entry:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | row u32, big endian |
//! | 4..8 | the first place of the word in this piece of the row u32, big endian: pieces sort by it |
//! | .. | how often it stands there, varint |
//! | .. | distances of its other places, varints; where positions are kept and it isn't there too often |

use ramlet_format::bloom::hash64;

use super::packed::push_varint;
use super::part::POSITIONS_MAX;

/// Collects rows, each with its words. Holds no more than `bytes`, taken at the first word, or what the smallest one holds.
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
    data: Vec<u8>,
    /// Of the row under way: which it is, its words in pieces that have ended, and of the others number and place.
    row: u32,
    of_row: Vec<(u32, u32)>,
}

/// What is shown of a word's rows: the word, an entry.
pub type EachEntry<'a, E> = dyn FnMut(&[u8], &[u8]) -> Result<(), E> + 'a;

/// What of the bytes is for `data`, for entries (and their order, while they are given back) and for words, in sixteenths. The rest is left to the table (1), to
/// where words begin, to their order and their ends while they are given back (1/2 each), and to the row under way (1/2).
const DATA: usize = 5;
const ENTRIES: usize = 6;
const WORDS: usize = 2;
/// An entry, and its place in the order.
const ENTRY_BYTES: usize = 8 + 4;
/// Bytes of an entry for each place of the word at most: a row, a first place, a count of 1. More of them have less.
const DATA_BYTES: usize = 9;
/// Slots of the table for so many bytes.
const TABLE_SHARE: usize = 16;
const ROW_SHARE: usize = 32;
/// The longest word fits many times.
const BYTES_MIN: usize = 8 << 10;

impl Inverter {
    pub fn new(bytes: usize, with_positions: bool) -> Inverter {
        Inverter {
            bytes: bytes.max(BYTES_MIN),
            with_positions,
            words: Vec::new(),
            starts: Vec::new(),
            table: Vec::new(),
            entries: Vec::new(),
            data: Vec::new(),
            row: 0,
            of_row: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.of_row.is_empty()
    }

    /// Whether a word more has room, whatever it is; else what is here must be given back before.
    pub fn has_room(&self, word: &[u8]) -> bool {
        // As if the words of the row under way were all different.
        let entries = self.entries.len() + self.of_row.len();
        let data = self.data.len() + DATA_BYTES * (self.of_row.len() + 1);
        self.table.is_empty()
            || entries < self.entries.capacity()
                && data <= self.data.capacity()
                && self.words.len() + word.len() <= self.words.capacity()
                && self.starts.len() < self.starts.capacity()
    }

    /// The next row begins.
    pub fn begin_row(&mut self, row: u32) {
        self.row = row;
    }

    /// The next word of the row, which ends as no other goes on, and its place, which is none before that of the last. It must have room.
    pub fn push(&mut self, word: &[u8], place: u32) {
        if self.table.is_empty() {
            self.take();
        }
        if self.of_row.len() == self.of_row.capacity() {
            self.end_piece();
        }
        let number = self.number(word);
        self.of_row.push((number, place));
    }

    /// The row is whole.
    pub fn end_row(&mut self) {
        self.end_piece();
    }

    /// The words of the row so far become entries.
    fn end_piece(&mut self) {
        self.of_row.sort_unstable();
        for same in self.of_row.chunk_by(|a, b| a.0 == b.0) {
            let (number, first) = same[0];
            self.entries.push((number, self.data.len() as u32));
            self.data.extend_from_slice(&self.row.to_be_bytes());
            self.data.extend_from_slice(&first.to_be_bytes());
            push_varint(same.len() as u32, &mut self.data);
            if self.with_positions && same.len() as u32 <= POSITIONS_MAX {
                let distances = same.windows(2).map(|two| two[1].1 - two[0].1);
                distances.for_each(|distance| push_varint(distance, &mut self.data));
            }
        }
        self.of_row.clear();
    }

    /// Gives all of it back, words ascending, and is empty then. The row under way goes on.
    pub fn drain<E>(&mut self, each: &mut EachEntry<'_, E>) -> Result<(), E> {
        self.end_piece();
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
            each(self.word(word), &self.data[start as usize..end])?;
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
        // Rounded down: a power of two.
        let slots = 1 << (self.bytes / TABLE_SHARE / size_of::<u32>()).ilog2();
        self.table = vec![0; slots];
        self.starts.reserve_exact(slots / 2);
        self.words.reserve_exact(share(WORDS));
        self.data.reserve_exact(share(DATA));
        self.entries.reserve_exact(share(ENTRIES) / ENTRY_BYTES);
        self.of_row
            .reserve_exact(self.bytes / ROW_SHARE / size_of::<(u32, u32)>());
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
        let slot = self.slot_of(word);
        if self.table[slot] > 0 {
            return self.table[slot] - 1;
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
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::error::Result;
    use crate::segment::text::joined::Joined;

    /// By word and row: frequency and positions.
    type Found = BTreeMap<(Vec<u8>, u32), (u32, Vec<u8>)>;

    /// Entries as they were given back, drain after drain.
    type Drained = Vec<Vec<(Vec<u8>, Vec<u8>)>>;

    fn held(inverter: &Inverter) -> usize {
        let drains = size_of::<u32>() * (2 * inverter.starts.capacity() + inverter.entries.capacity());
        inverter.words.capacity()
            + size_of::<u32>() * (inverter.starts.capacity() + inverter.table.capacity())
            + size_of::<(u32, u32)>() * (inverter.entries.capacity() + inverter.of_row.capacity())
            + inverter.data.capacity()
            + drains
    }

    fn drain(inverter: &mut Inverter, drained: &mut Drained) {
        let mut all = Vec::new();
        let gone = inverter.drain::<()>(&mut |word, entry| {
            all.push((word.to_vec(), entry.to_vec()));
            Ok(())
        });
        gone.expect("nothing fails");
        assert!(inverter.is_empty());
        assert!(all.is_sorted(), "words ascending, then rows, then pieces");
        drained.push(all);
    }

    /// All entries as a merge of the drains gives them, made one.
    fn joined(drained: Drained, with_positions: bool) -> Result<Found> {
        let mut all = drained.concat();
        all.sort();
        let mut found = Found::new();
        let mut joined = Joined::new(with_positions);
        let take = &mut |word: &[u8], row: u32, frequency: u32, positions: &[u8]| {
            let before = found.insert((word.to_vec(), row), (frequency, positions.to_vec()));
            assert!(before.is_none(), "each word of a row once");
            Ok(())
        };
        for (word, entry) in &all {
            joined.push(word, entry, take)?;
        }
        joined.end(take)?;
        Ok(found)
    }

    /// Rows against a map, given back whenever there is no room for more. `words`: how many are different.
    fn check(bytes: usize, (rows, most): (u32, u64), words: u64, with_positions: bool) -> usize {
        let (mut inverter, mut x) = (Inverter::new(bytes, with_positions), 9u64);
        let mut next = || {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            x >> 33
        };
        let mut model: BTreeMap<(Vec<u8>, u32), Vec<u32>> = BTreeMap::new();
        let mut drained = Vec::new();
        for row in 0..rows {
            inverter.begin_row(row);
            let count = next() % most;
            for position in 0..count as u32 {
                let word = format!("w{}\u{e9}", next() % words).into_bytes();
                if !inverter.has_room(&word) {
                    drain(&mut inverter, &mut drained);
                }
                inverter.push(&word, position);
                assert!(held(&inverter) <= bytes.max(BYTES_MIN), "{}", held(&inverter));
                model.entry((word, row)).or_default().push(position);
            }
            inverter.end_row();
        }
        drain(&mut inverter, &mut drained);
        let drains = drained.len();
        let found = joined(drained, with_positions).expect("entries");
        assert_eq!(found.len(), model.len());
        for (key, places) in model {
            let (mut positions, mut before) = (Vec::new(), 0);
            let is_kept = with_positions && places.len() as u32 <= POSITIONS_MAX;
            for place in places.iter().filter(|_| is_kept) {
                push_varint(place - before, &mut positions);
                before = *place;
            }
            assert_eq!(found[&key], (places.len() as u32, positions), "{key:?}");
        }
        drains
    }

    #[test]
    fn gives_back_what_came() {
        for with_positions in [true, false] {
            assert_eq!(check(4 << 20, (2_000, 60), 900, with_positions), 1);
            assert!(check(64 << 10, (2_000, 60), 900, with_positions) > 10);
        }
    }

    #[test]
    fn rows_of_any_length_take_no_more_than_there_is() {
        for with_positions in [true, false] {
            // All pieces of a row in one drain; rows over several; a few words again and again, some more often than places are kept.
            assert_eq!(check(1 << 20, (3, 9_000), 3_000, with_positions), 1);
            assert!(check(16 << 10, (8, 60_000), 30_000, with_positions) > 100);
            assert!(check(16 << 10, (4, 4_000), 12, with_positions) >= 1);
            assert!(check(0, (40, 2_000), 5, with_positions) > 1);
        }
    }

    #[test]
    fn entries_that_lie_are_noticed() {
        let mut joined = Joined::new(true);
        for entry in [
            &[][..],
            &[0; 7],
            &[0; 8],
            &[0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 2, 1],
        ] {
            assert!(joined.push(b"w", entry, &mut |_, _, _, _| Ok(())).is_err());
        }
    }
}
