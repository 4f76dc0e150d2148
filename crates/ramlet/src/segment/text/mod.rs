//! The ranked texts of a segment's payload index: posting lists, and the length of each row's text.
//!
//! | file | what |
//! |---|---|
//! | terms | sorted table: word, `0xFF`, first row u32, rows u16, peaks (up to four of a frequency u16 and a length u16, little endian), then the record's number u32, big endian as all else |
//! | lists | records: parts of the words' posting lists (see `part`); record 0: texts u64, sum of their lengths u64, version u64 |
//! | positions | records: of the part of the same number, where its words stand; only where phrases are asked for |
//! | lengths | rows of 2 bytes: shift in the upper 3 bits, `length >> shift` in the lower 13 |
//!
//! A word of more than 240 bytes is its first 240, `0xFE`, and its XXH64 in hex. No word has these two bytes: they aren't UTF-8.

mod build;
mod inverter;
mod joined;
mod merge;
mod packed;
mod part;

use std::sync::{Mutex, MutexGuard};

use ramlet_format::Component;
use ramlet_format::bloom::hash64;
use ramlet_format::manifest::SegmentEntry;
use ramlet_io::IoContext;
use ramlet_kernels::Kernels;
use ramlet_memory::{AnonBuf, Reservation};

use super::ResidentFiles;
use super::files::{Cacheable, FileContext, RecordsFile, RowsFile};
use super::table::TableFile;
use crate::error::{Error, Result};
use crate::faults::locks::whole;
use crate::memory::eviction::EvictionRank;
use crate::schema::Schema;
use crate::settings::Placement;
pub use build::TextBuilders;
pub use merge::{is_merged, merge};
pub use part::{Decoded, Directory, Peaks};

/// Of the lists.
const VERSION: u64 = 1;
const WORD_END: u8 = 0xFF;
const WORD_CUT: u8 = 0xFE;
const WORD_BYTES: usize = 240;
const LENGTH_BITS: u32 = 13;
/// The longest length that is told apart.
pub const LENGTH_MAX: u64 = 0x1FFF << 7;

/// A length in tokens as 2 bytes: rounded down to its leading 13 bits.
pub fn encoded_length(tokens: u64) -> u16 {
    let tokens = tokens.min(LENGTH_MAX);
    let shift = (u64::BITS - tokens.leading_zeros()).saturating_sub(LENGTH_BITS);
    (shift << LENGTH_BITS) as u16 | (tokens >> shift) as u16
}

pub fn decoded_length(code: u16) -> u64 {
    u64::from(code & 0x1FFF) << (code >> LENGTH_BITS)
}

/// A part of a word's posting list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ListPart {
    pub first_row: u32,
    pub rows: u16,
    pub peaks: Peaks,
    pub record: u32,
}

impl ListPart {
    /// Bytes of one in a list of parts.
    pub const BYTES: u64 = size_of::<ListPart>() as u64;
}

/// A field's texts, open.
pub struct TextColumn {
    pub slot: u16,
    terms: TableFile,
    pub lists: RecordsFile,
    /// Where words stand, if phrases are asked for.
    pub positions: Option<RecordsFile>,
    lengths: RowsFile,
    /// Of all rows, where there is room.
    held: Option<(Vec<u8>, Reservation)>,
    /// Rows with a token, and the sum of their lengths.
    pub documents: u64,
    pub tokens: u64,
    /// The same of the deleted rows, as they were when they were counted last.
    gone: Mutex<Gone>,
}

/// Of so many deleted rows, those with a token, and the sum of their lengths. Rows are only ever deleted, so their number tells them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gone {
    pub rows: u32,
    pub documents: u64,
    pub tokens: u64,
}

impl TextColumn {
    pub fn open(
        file_context: &FileContext,
        entry: &SegmentEntry,
        schema: &Schema,
        slot: u16,
        io: &mut IoContext,
    ) -> Result<TextColumn> {
        let file = |component: Component| {
            let found = entry.file(component);
            found.ok_or_else(|| {
                Error::corrupt(format!(
                    "segment {}: the manifest names no {component:?} file",
                    entry.id
                ))
            })
        };
        let terms = TableFile::open(file_context, entry.id, file(Component::TextTerms { slot })?, io)?;
        let lists = RecordsFile::open(file_context, entry.id, file(Component::TextLists { slot })?, io)?;
        let lengths = RowsFile::open(file_context, entry.id, file(Component::TextLengths { slot })?, io)?;
        let positions = match entry.file(Component::TextPositions { slot }) {
            Some(file) => Some(RecordsFile::open(file_context, entry.id, file, io)?),
            None => None,
        };
        if lengths.rows() != u64::from(entry.rows) || lengths.row_bytes() != 2 {
            return Err(Error::corrupt(format!(
                "segment {}: {} lengths of texts in {} rows",
                entry.id,
                lengths.rows(),
                entry.rows
            )));
        }
        let mut buf = AnonBuf::new(0);
        let head = lists.borrow(0, io, &mut buf)?;
        let (words, _) = head.as_chunks::<8>();
        let (documents, tokens) = match words {
            [documents, tokens, version] if u64::from_le_bytes(*version) == VERSION => (*documents, *tokens),
            _ => {
                let what = "lists of texts of a version that this program doesn't read";
                return Err(Error::corrupt(format!("segment {}: {what}", entry.id)));
            }
        };
        let (mut terms, mut lists, mut positions) = (terms, lists, positions);
        let placement = schema
            .fields
            .iter()
            .find(|field| field.slot == slot)
            .map(|field| field.placement);
        let rank = match placement.unwrap_or(Placement::Cached) {
            Placement::Cold => None,
            Placement::Cached => Some(EvictionRank::Words),
            Placement::Pinned => Some(EvictionRank::Codes),
        };
        if let Some(rank) = rank {
            terms.make_cacheable(file_context, rank);
            lists.make_cacheable(file_context, rank);
            positions
                .iter_mut()
                .for_each(|positions| positions.make_cacheable(file_context, rank));
        }
        let held = match file_context.spare(2 * u64::from(entry.rows)) {
            None => None,
            Some(held) => {
                let mut all = Vec::with_capacity(2 * entry.rows as usize);
                lengths.for_each(io, &mut |_, bytes| {
                    all.extend_from_slice(bytes);
                    Ok(())
                })?;
                Some((all, held))
            }
        };
        Ok(TextColumn {
            slot,
            terms,
            lists,
            positions,
            lengths,
            held,
            documents: u64::from_le_bytes(documents),
            tokens: u64::from_le_bytes(tokens),
            gone: Mutex::default(),
        })
    }

    /// What was counted last of deleted rows, if they were as many.
    pub fn gone(&self, rows: u32) -> Option<Gone> {
        Some(*self.last_gone()).filter(|gone| gone.rows == rows)
    }

    pub fn note_gone(&self, gone: Gone) {
        *self.last_gone() = gone;
    }

    // Only to copy it.
    fn last_gone(&self) -> MutexGuard<'_, Gone> {
        whole(&self.gone)
    }

    /// Shows `each` the parts of a word's posting list in the order of their rows. One read, unless cached or long.
    pub fn parts(
        &self,
        word: &str,
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(ListPart) -> Result<()>,
    ) -> Result<()> {
        let mut from = Vec::with_capacity(WORD_BYTES + 24);
        push_word(word, || hash64(word.as_bytes()), &mut from);
        let mut to = from.clone();
        to.push(WORD_END);
        let mut result = Ok(());
        self.terms.range((&from, &to), io, buf, &mut |value, record| {
            result = match parse_part(value, from.len(), record) {
                Some(part) => each(part),
                None => Err(Error::corrupt("a part of a word's list that doesn't decode")),
            };
            result.is_ok()
        })?;
        result
    }

    /// Shows `each` the rows and frequencies of some parts of one list, ascending.
    pub fn postings(
        &self,
        parts: &[ListPart],
        rows: u32,
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(u32, u32),
    ) -> Result<()> {
        let records: Vec<u32> = parts.iter().map(|part| part.record).collect();
        let (mut left, mut decoded) = (parts.iter(), Decoded::default());
        self.lists.for_rows(&records, io, buf, &mut |_, _, bytes| {
            let first = left.next().map_or(0, |part| part.first_row);
            let directory = Directory::parse(bytes).ok_or_else(bad_list)?;
            for block in 0..directory.blocks() {
                directory
                    .rows(block, bytes, (first, rows), &mut decoded)
                    .and_then(|()| directory.frequencies(block, bytes, &mut decoded))
                    .ok_or_else(bad_list)?;
                let of_rows = decoded.rows.iter().zip(&decoded.frequencies);
                of_rows
                    .take(decoded.count)
                    .for_each(|(row, frequency)| each(*row, *frequency));
            }
            Ok(())
        })
    }

    /// The folded length of a row, if all lengths are in RAM.
    #[inline]
    pub fn resident_length(&self, row: u32) -> Option<u64> {
        let (all, _) = self.held.as_ref()?;
        let (codes, _) = all.as_chunks::<2>();
        codes
            .get(row as usize)
            .map(|code| decoded_length(u16::from_le_bytes(*code)))
    }

    /// Asks for it, if it is soon to be read.
    #[inline]
    pub fn prefetch_length(&self, row: u32) {
        let bytes = self
            .held
            .as_ref()
            .and_then(|(all, _)| all.get(2 * row as usize..));
        Kernels::prefetch(bytes.and_then(|bytes| bytes.get(..2)).unwrap_or_default());
    }

    /// Fills `out` with the folded lengths of the rows from `first` on.
    pub fn lengths(&self, first: u32, out: &mut [u32], io: &mut IoContext, buf: &mut AnonBuf) -> Result<()> {
        let decoded = |bytes: [u8; 2]| decoded_length(u16::from_le_bytes(bytes)) as u32;
        if let Some((all, _)) = &self.held {
            let (codes, _) = all.as_chunks::<2>();
            for (out, code) in out.iter_mut().zip(&codes[first as usize..]) {
                *out = decoded(*code);
            }
            return Ok(());
        }
        self.lengths
            .for_range(u64::from(first), out.len(), io, buf, &mut |at, bytes| {
                if let (Some(out), Some(code)) = (out.get_mut(at), bytes.first_chunk::<2>()) {
                    *out = decoded(*code);
                }
            })
    }

    /// Files that may be kept in RAM.
    pub fn cacheable(&self) -> impl Iterator<Item = (ResidentFiles, &dyn Cacheable)> {
        let all = [
            (ResidentFiles::Terms, &self.terms as &dyn Cacheable),
            (ResidentFiles::Lists, &self.lists),
        ];
        let positions = self.positions.iter();
        all.into_iter()
            .chain(positions.map(|positions| (ResidentFiles::Positions, positions as &dyn Cacheable)))
    }

    pub fn heap_bytes(&self) -> u64 {
        let lengths = self.held.as_ref().map_or(0, |(_, held)| held.bytes());
        let positions = self.positions.as_ref().map_or(0, RecordsFile::heap_bytes);
        self.terms.heap_bytes() + self.lists.heap_bytes() + positions + lengths
    }

    pub fn disk_bytes(&self) -> u64 {
        let positions = self.positions.as_ref().map_or(0, RecordsFile::disk_bytes);
        self.terms.disk_bytes() + self.lists.disk_bytes() + positions + self.lengths.file.len()
    }
}

/// A word as the keys begin with it; `hash`: XXH64 of a long one.
fn push_word(word: &str, hash: impl FnOnce() -> u64, key: &mut Vec<u8>) {
    let bytes = word.as_bytes();
    match bytes.split_at_checked(WORD_BYTES + 1) {
        None => key.extend_from_slice(bytes),
        Some(_) => {
            key.extend_from_slice(&bytes[..WORD_BYTES]);
            key.push(WORD_CUT);
            key.extend_from_slice(format!("{:016x}", hash()).as_bytes());
        }
    }
    key.push(WORD_END);
}

fn parse_part(value: &[u8], word_bytes: usize, record: u32) -> Option<ListPart> {
    let (row, rest) = value.get(word_bytes..)?.split_first_chunk::<4>()?;
    let (rows, peaks) = rest.split_first_chunk::<2>()?;
    Some(ListPart {
        first_row: u32::from_be_bytes(*row),
        rows: u16::from_be_bytes(*rows),
        peaks: Peaks::parse_le(peaks)?,
        record,
    })
}

pub fn bad_list() -> Error {
    Error::corrupt("a list of a word that doesn't decode")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_keep_their_leading_bits() {
        for length in (0..20_000).chain([LENGTH_MAX - 1, LENGTH_MAX, u64::MAX]) {
            let folded = decoded_length(encoded_length(length));
            let known = length.min(LENGTH_MAX);
            let lost = (64 - known.leading_zeros()).saturating_sub(13);
            assert_eq!(folded, known >> lost << lost, "{length}");
        }
    }
}
