//! The one file of a text index: tantivy's files one after another, and a table at the end that says where they lie.
//!
//! | bytes | what |
//! |---|---|
//! | .. | the sections, in the order of [`Section`], each a tantivy file with its own footer |
//! | last 160 | the table |
//!
//! The table, little endian: magic 8 bytes; per section length u64; rows, documents, tokens, terms, longest postings, longest
//! positions, each u64; zeros; crc32c u32 of all before. The blocks that carry these bytes have checksums of their own; this one
//! tells that the length is right and that a text index was meant.

use ramlet_format::FileCrc;

use crate::error::{Result, TextError};
use crate::ranges::{RangeRead, Ranges};

/// Bytes at the end of every container.
pub(crate) const TABLE_BYTES: usize = 160;
const MAGIC: &[u8; 8] = b"RMLTEXT1";
const WORDS: usize = (TABLE_BYTES - 12) / 8;

/// The parts of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    /// One byte a row.
    Norms,
    /// Terms, and where their lists lie: a finite state transducer and a packed table.
    Terms,
    /// Rows and frequencies.
    Postings,
    Positions,
}

impl Section {
    pub const ALL: [Section; 4] = [
        Section::Norms,
        Section::Terms,
        Section::Postings,
        Section::Positions,
    ];

    /// How tantivy calls such a file.
    pub fn extension(self) -> &'static str {
        match self {
            Section::Norms => "fieldnorm",
            Section::Terms => "term",
            Section::Postings => "idx",
            Section::Positions => "pos",
        }
    }
}

/// What a text index holds, and what reading it costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextInfo {
    /// Rows of the segment.
    pub rows: u64,
    /// Rows that have tokens.
    pub documents: u64,
    pub tokens: u64,
    /// Different ones.
    pub terms: u64,
    /// Bytes of the longest list of one term, and at most 8 KiB more.
    pub longest_postings: u64,
    pub longest_positions: u64,
    /// Bytes of the sections, in order.
    pub(crate) lengths: [u64; 4],
}

/// What stays in RAM while an index is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The dictionary and the lengths.
    Least,
    /// And the lists of rows, but no positions.
    Postings,
    /// All: no search reads anything.
    Whole,
}

impl Hold {
    pub(crate) fn holds(self, section: Section) -> bool {
        match section {
            Section::Norms | Section::Terms => true,
            Section::Postings => self != Hold::Least,
            Section::Positions => self == Hold::Whole,
        }
    }
}

/// What an open index needs beside its sections: tantivy's readers and tables, and both ends of sections that aren't held.
const OPEN_BYTES: u64 = 64 << 10;

impl TextInfo {
    /// Reads the table at the end of a container of `len` bytes: one read.
    pub fn read(len: u64, ranges: &mut dyn Ranges) -> Result<TextInfo> {
        let offset = len
            .checked_sub(TABLE_BYTES as u64)
            .ok_or_else(|| TextError::format(format!("{len} bytes; at least {TABLE_BYTES} are needed")))?;
        let mut table = [0; TABLE_BYTES];
        ranges.read(&mut [RangeRead {
            offset,
            out: &mut table,
        }])?;
        let info = TextInfo::decode(&table)?;
        let sections = info
            .lengths
            .iter()
            .try_fold(0u64, |sum, length| sum.checked_add(*length));
        if sections != Some(offset) {
            return Err(TextError::format(format!(
                "the sections have {:?} bytes, the container has {offset} beside its table",
                info.lengths
            )));
        }
        Ok(info)
    }

    /// Bytes that [`TextIndex::open`](crate::TextIndex::open) keeps in RAM.
    pub fn resident_bytes(&self, hold: Hold) -> u64 {
        let held = Section::ALL.iter().filter(|section| hold.holds(**section));
        OPEN_BYTES + held.map(|section| self.length(*section)).sum::<u64>()
    }

    /// Bytes of all sections.
    pub fn bytes(&self) -> u64 {
        self.lengths.iter().sum()
    }

    pub fn norms_bytes(&self) -> u64 {
        self.length(Section::Norms)
    }

    pub fn dictionary_bytes(&self) -> u64 {
        self.length(Section::Terms)
    }

    pub fn postings_bytes(&self) -> u64 {
        self.length(Section::Postings)
    }

    pub fn positions_bytes(&self) -> u64 {
        self.length(Section::Positions)
    }

    pub(crate) fn length(&self, section: Section) -> u64 {
        self.lengths[section as usize]
    }

    pub(crate) fn offset(&self, section: Section) -> u64 {
        self.lengths[..section as usize].iter().sum()
    }

    pub(crate) fn encode(&self) -> [u8; TABLE_BYTES] {
        let mut table = [0; TABLE_BYTES];
        table[..8].copy_from_slice(MAGIC);
        let words = self.lengths.into_iter().chain([
            self.rows,
            self.documents,
            self.tokens,
            self.terms,
            self.longest_postings,
            self.longest_positions,
        ]);
        for (place, word) in table[8..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc(&table[..TABLE_BYTES - 4]);
        table[TABLE_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        table
    }

    fn decode(table: &[u8; TABLE_BYTES]) -> Result<TextInfo> {
        let (body, sum) = table.split_at(TABLE_BYTES - 4);
        if !table.starts_with(MAGIC) || crc(body).to_le_bytes() != sum {
            return Err(TextError::format("the container's table is broken"));
        }
        let mut words = [0u64; WORDS];
        for (word, bytes) in words.iter_mut().zip(body[8..].as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [
            a,
            b,
            c,
            d,
            rows,
            documents,
            tokens,
            terms,
            longest_postings,
            longest_positions,
            ..,
        ] = words;
        if documents > rows || rows > u64::from(ROWS_MAX) || tokens < documents {
            return Err(TextError::format(format!(
                "{documents} documents with {tokens} tokens in {rows} rows"
            )));
        }
        Ok(TextInfo {
            rows,
            documents,
            tokens,
            terms,
            longest_postings,
            longest_positions,
            lengths: [a, b, c, d],
        })
    }
}

/// Rows of one index at most: tantivy's last number means "no more".
pub(crate) const ROWS_MAX: u32 = i32::MAX as u32 - 1;

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = FileCrc::new();
    crc.update(bytes);
    crc.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_noticed() {
        let info = TextInfo {
            rows: 10,
            documents: 9,
            tokens: 70,
            terms: 30,
            longest_postings: 40,
            longest_positions: 50,
            lengths: [1, 2, 3, 4],
        };
        let table = info.encode();
        assert_eq!(TextInfo::decode(&table).unwrap(), info);
        for bit in 0..8 * TABLE_BYTES {
            let mut broken = table;
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(TextInfo::decode(&broken).is_err(), "bit {bit}");
        }
    }
}
