//! Joins the entries that a word has in the pieces of a row into one posting.

use super::packed::{push_varint, varint};
use super::part::POSITIONS_MAX;
use crate::error::{Error, Result};

/// What takes a word, a row, how often the word stands there, and where: the first place and the distances of the others as varints, or nothing. Ascending by
/// word and row.
pub type EachPosting<'a> = dyn FnMut(&[u8], u32, u32, &[u8]) -> Result<()> + 'a;

/// Joins entries of an inverter, which come in their order: those of the same word and row one behind the other.
#[derive(Default)]
pub struct Joined {
    with_positions: bool,
    word: Vec<u8>,
    row: u32,
    /// 0: nothing has come.
    frequency: u32,
    /// All places so far, while they are not too many, and the last of them.
    positions: Vec<u8>,
    last: u32,
}

impl Joined {
    pub fn new(with_positions: bool) -> Joined {
        Joined {
            with_positions,
            ..Joined::default()
        }
    }

    /// The next entry. What is whole goes to `take`.
    pub fn push(&mut self, word: &[u8], entry: &[u8], take: &mut EachPosting<'_>) -> Result<()> {
        let Entry {
            row,
            first,
            frequency,
            distances,
        } = Entry::parse(entry).ok_or_else(bad_entry)?;
        if row != self.row || word != self.word {
            self.end(take)?;
            self.word.clear();
            self.word.extend_from_slice(word);
            self.row = row;
        }
        self.frequency = self.frequency.saturating_add(frequency);
        if self.with_positions && self.frequency <= POSITIONS_MAX {
            self.add_places(first, distances).ok_or_else(bad_entry)?;
        }
        Ok(())
    }

    /// No other entry comes.
    pub fn end(&mut self, take: &mut EachPosting<'_>) -> Result<()> {
        let frequency = std::mem::take(&mut self.frequency);
        if frequency > POSITIONS_MAX {
            self.positions.clear();
        }
        if frequency > 0 {
            take(&self.word, self.row, frequency, &self.positions)?;
        }
        self.positions.clear();
        self.last = 0;
        Ok(())
    }

    fn add_places(&mut self, first: u32, mut distances: &[u8]) -> Option<()> {
        push_varint(first.checked_sub(self.last)?, &mut self.positions);
        self.positions.extend_from_slice(distances);
        self.last = first;
        while !distances.is_empty() {
            self.last = self.last.checked_add(varint(&mut distances)?)?;
        }
        Some(())
    }
}

/// An entry: see `inverter`.
struct Entry<'a> {
    row: u32,
    first: u32,
    frequency: u32,
    distances: &'a [u8],
}

impl<'a> Entry<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Entry<'a>> {
        let (row, rest) = bytes.split_first_chunk::<4>()?;
        let (first, mut rest) = rest.split_first_chunk::<4>()?;
        Some(Entry {
            row: u32::from_be_bytes(*row),
            first: u32::from_be_bytes(*first),
            frequency: varint(&mut rest)?,
            distances: rest,
        })
    }
}

fn bad_entry() -> Error {
    Error::corrupt("an entry of a sorted word that doesn't decode")
}
