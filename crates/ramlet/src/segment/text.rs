//! The ranked texts of a segment's payload index: the words' lists, and how long each row's text is.
//!
//! | file | what |
//! |---|---|
//! | terms | sorted table: word, `0xFF`, first row u32, rows u16, greatest frequency u16, least length u16, then the record's number u32, all big endian |
//! | lists | records: a word's next 1,024 rows at most, of each the distance from the one before and the frequency, varints (LEB128); record 0: texts u64, sum of their lengths u64 |
//! | lengths | rows of 2 bytes: shift in the upper 3 bits, `length >> shift` in the lower 13 |
//!
//! A word of more than 240 bytes is its first 240, `0xFE`, and its XXH64 in hex. No word has these two bytes: they aren't UTF-8.

use ramlet_format::Component;
use ramlet_format::bloom::hash64;
use ramlet_format::manifest::{FileEntry, SegmentEntry};
use ramlet_format::records::RecordsWriter;
use ramlet_format::rows::RowsWriter;
use ramlet_format::sorted::SortedWriter;
use ramlet_io::IoContext;
use ramlet_memory::{AnonBuf, Reservation};

use super::build::{Job, push_key};
use super::files::{RecordsFile, RowsFile, Shelf, TableFile};
use super::names::{seed, segment_file};
use super::sink::Sink;
use super::sorter::Sorter;
use crate::error::{Error, Result};
use crate::payload::Path;
use crate::ranking::tokens_of;
use crate::schema::PayloadField;

/// Rows of a part of a list.
const PART_ROWS: usize = 1024;
/// Bytes of a part's beginning of which a further row still fits a block.
const PART_BYTES: usize = 3_900;
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

/// A part of a word's list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ListPart {
    pub first_row: u32,
    pub rows: u16,
    pub most: u16,
    pub least_length: u16,
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
    lists: RecordsFile,
    lengths: RowsFile,
    /// Of all rows, where there is room.
    held: Option<(Vec<u8>, Reservation)>,
    /// Rows with a token, and the sum of their lengths.
    pub documents: u64,
    pub tokens: u64,
}

impl TextColumn {
    pub fn open(shelf: &Shelf, entry: &SegmentEntry, slot: u16, io: &mut IoContext) -> Result<TextColumn> {
        let file = |component: Component| {
            let found = entry.file(component);
            found.ok_or_else(|| {
                Error::corrupt(format!(
                    "segment {}: the manifest names no {component:?} file",
                    entry.id
                ))
            })
        };
        let terms = TableFile::open(shelf, entry.id, file(Component::TextTerms { slot })?, io)?;
        let lists = RecordsFile::open(shelf, entry.id, file(Component::TextLists { slot })?, io)?;
        let lengths = RowsFile::open(shelf, entry.id, file(Component::TextLengths { slot })?, io)?;
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
        let &[documents, tokens] = words else {
            return Err(Error::corrupt(format!(
                "segment {}: a text index without counts",
                entry.id
            )));
        };
        let held = match shelf.spare(2 * u64::from(entry.rows)) {
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
            lengths,
            held,
            documents: u64::from_le_bytes(documents),
            tokens: u64::from_le_bytes(tokens),
        })
    }

    /// Shows `each` the parts of a word's list in the order of their rows. One read, unless cached or long.
    pub fn parts(
        &self,
        word: &str,
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(ListPart) -> Result<()>,
    ) -> Result<()> {
        let mut from = Vec::with_capacity(WORD_BYTES + 24);
        push_word(word, &mut from);
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
        let mut left = parts.iter();
        self.lists.for_rows(&records, io, buf, &mut |_, _, bytes| {
            let first = left.next().map_or(0, |part| part.first_row);
            decode(bytes, first, rows, each)
                .ok_or_else(|| Error::corrupt("a list of a word that doesn't decode"))
        })
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

    pub fn heap_bytes(&self) -> u64 {
        let lengths = self.held.as_ref().map_or(0, |(_, held)| held.bytes());
        self.terms.heap_bytes() + self.lists.heap_bytes() + lengths
    }

    pub fn disk_bytes(&self) -> u64 {
        self.terms.disk_bytes() + self.lists.disk_bytes() + self.lengths.file.len()
    }
}

/// A word as the keys begin with it.
fn push_word(word: &str, key: &mut Vec<u8>) {
    let bytes = word.as_bytes();
    match bytes.split_at_checked(WORD_BYTES + 1) {
        None => key.extend_from_slice(bytes),
        Some(_) => {
            key.extend_from_slice(&bytes[..WORD_BYTES]);
            key.push(WORD_CUT);
            key.extend_from_slice(format!("{:016x}", hash64(bytes)).as_bytes());
        }
    }
    key.push(WORD_END);
}

fn parse_part(value: &[u8], word_bytes: usize, record: u32) -> Option<ListPart> {
    let (row, rest) = value.get(word_bytes..)?.split_first_chunk::<4>()?;
    let (numbers, []) = rest.as_chunks::<2>() else {
        return None;
    };
    let &[rows, most, least_length] = numbers else {
        return None;
    };
    Some(ListPart {
        first_row: u32::from_be_bytes(*row),
        rows: u16::from_be_bytes(rows),
        most: u16::from_be_bytes(most),
        least_length: u16::from_be_bytes(least_length),
        record,
    })
}

/// `None`: the bytes are no list of rows below `rows`.
fn decode(mut bytes: &[u8], first: u32, rows: u32, each: &mut dyn FnMut(u32, u32)) -> Option<()> {
    let mut row = first;
    while !bytes.is_empty() {
        row = row.checked_add(varint(&mut bytes)?).filter(|&row| row < rows)?;
        each(row, varint(&mut bytes)?);
    }
    Some(())
}

fn varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7F).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn push_varint(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes the ranked texts of a segment's fields, in one pass over its payloads.
pub struct TextBuilders {
    segment: u64,
    fields: Vec<Building>,
    row: u32,
}

struct Building {
    path: Path,
    field: PayloadField,
    sorter: Sorter,
    lengths: Vec<u16>,
    _held: Reservation,
    /// Of the present row: its words, end to end.
    words: Vec<u8>,
    spans: Vec<(u32, u32)>,
    key: Vec<u8>,
}

impl TextBuilders {
    /// Of the fields that are scored; `scratch_bytes` for all of them.
    pub fn new(
        (segment, rows): (u64, u32),
        fields: &[PayloadField],
        scratch_bytes: usize,
        job: &Job<'_>,
    ) -> Result<TextBuilders> {
        let scored: Vec<&PayloadField> = fields.iter().filter(|field| field.scored().is_some()).collect();
        let share = scratch_bytes / scored.len().max(1);
        let mut building = Vec::with_capacity(scored.len());
        for field in scored {
            let path = Path::parse(&field.path).map_err(|e| Error::bad_input(e.to_string()))?;
            let tag = format!("{segment}-w{}", field.slot);
            let held = match job.shelf.metadata.patient().reserve(2 * u64::from(rows)) {
                Ok(held) => held,
                // Rather a slow search than a flush that fails.
                Err(e) => {
                    tracing::warn!(segment, field = %field.path, "no lists of words, searches read payloads: {e}");
                    continue;
                }
            };
            building.push(Building {
                path,
                field: field.clone(),
                sorter: Sorter::new(job.shelf.storage.clone(), tag, share, share),
                lengths: Vec::with_capacity(rows as usize),
                _held: held,
                words: Vec::new(),
                spans: Vec::new(),
                key: Vec::new(),
            });
        }
        Ok(TextBuilders {
            segment,
            fields: building,
            row: 0,
        })
    }

    /// Bytes of scratch that scored fields take of a job's: half, if there are any.
    pub fn scratch_of(fields: &[PayloadField], job: &Job<'_>) -> usize {
        match fields.iter().any(|field| field.scored().is_some()) {
            true => job.scratch_bytes / 2,
            false => 0,
        }
    }

    /// The next row's payload.
    pub fn push(&mut self, payload: &[u8]) -> Result<()> {
        let row = self.row;
        self.row += 1;
        self.fields
            .iter_mut()
            .try_for_each(|building| building.push(row, payload))
    }

    /// The fields' files.
    pub fn finish(self, job: &mut Job<'_>) -> Result<Vec<FileEntry>> {
        let mut files = Vec::with_capacity(3 * self.fields.len());
        for building in self.fields {
            building.finish(self.segment, job, &mut files)?;
        }
        Ok(files)
    }
}

impl Building {
    fn push(&mut self, row: u32, payload: &[u8]) -> Result<()> {
        let (words, spans) = (&mut self.words, &mut self.spans);
        words.clear();
        spans.clear();
        if let Some(text) = self.field.scored() {
            tokens_of(text, &self.path, payload, &mut |token| {
                let start = words.len() as u32;
                push_word(token, words);
                spans.push((start, words.len() as u32));
            });
        }
        self.lengths.push(encoded_length(spans.len() as u64));
        let word = |span: &(u32, u32)| &words[span.0 as usize..span.1 as usize];
        spans.sort_unstable_by(|a, b| word(a).cmp(word(b)));
        for same in spans.chunk_by(|a, b| word(a) == word(b)) {
            self.key.clear();
            self.key.extend_from_slice(word(&same[0]));
            self.key.extend_from_slice(&row.to_be_bytes());
            self.key.extend_from_slice(&(same.len() as u32).to_be_bytes());
            self.sorter.push(&self.key)?;
        }
        Ok(())
    }

    fn finish(self, segment: u64, job: &mut Job<'_>, files: &mut Vec<FileEntry>) -> Result<()> {
        let slot = self.field.slot;
        let storage = job.shelf.storage.as_ref();
        let create = |component| Sink::create(storage, segment_file(segment, component), component);
        let lengths_at = Component::TextLengths { slot };
        let mut sink = create(lengths_at)?;
        let mut rows = RowsWriter::new(seed(segment, lengths_at), 2);
        for length in &self.lengths {
            rows.push(&length.to_le_bytes(), &mut sink.out);
            sink.drain()?;
        }
        rows.finish(&mut sink.out);
        files.push(sink.finish()?);
        let (terms_at, lists_at) = (Component::TextTerms { slot }, Component::TextLists { slot });
        let mut out = ListsOut {
            terms: SortedWriter::new(seed(segment, terms_at)),
            terms_sink: create(terms_at)?,
            lists: RecordsWriter::new(seed(segment, lists_at)),
            lists_sink: create(lists_at)?,
            records: 0,
            lengths: &self.lengths,
            word: Vec::new(),
            part: Vec::new(),
            head: None,
            last_row: 0,
        };
        let folded = || self.lengths.iter().map(|&code| decoded_length(code));
        let documents = folded().filter(|&length| length > 0).count() as u64;
        let tokens: u64 = folded().sum();
        out.record(&[documents.to_le_bytes(), tokens.to_le_bytes()].concat())?;
        self.sorter.finish(job.io, &mut |key| out.posting(key))?;
        out.end_part()?;
        out.terms.finish(&mut out.terms_sink.out);
        files.push(out.terms_sink.finish()?);
        out.lists.finish(&mut out.lists_sink.out);
        files.push(out.lists_sink.finish()?);
        Ok(())
    }
}

/// Lists being written, word after word.
struct ListsOut<'a> {
    terms: SortedWriter,
    terms_sink: Sink,
    lists: RecordsWriter,
    lists_sink: Sink,
    records: u32,
    lengths: &'a [u16],
    /// The word of the part under way, the part's bytes, and what is known of it.
    word: Vec<u8>,
    part: Vec<u8>,
    head: Option<ListPart>,
    last_row: u32,
}

impl ListsOut<'_> {
    fn record(&mut self, bytes: &[u8]) -> Result<()> {
        let pushed = self.lists.push(bytes, &mut self.lists_sink.out);
        pushed.map_err(|e| Error::corrupt(e.to_string()))?;
        self.records += 1;
        self.lists_sink.drain()
    }

    /// The next (word, row, frequency), ascending.
    fn posting(&mut self, key: &[u8]) -> Result<()> {
        let split = |key: &[u8]| {
            let (key, frequency) = key.split_last_chunk::<4>()?;
            let (word, row) = key.split_last_chunk::<4>()?;
            Some((
                word.len(),
                u32::from_be_bytes(*row),
                u32::from_be_bytes(*frequency),
            ))
        };
        let (word_bytes, row, frequency) =
            split(key).ok_or_else(|| Error::corrupt("a sorted word without its row"))?;
        let word = &key[..word_bytes];
        let full = |head: &ListPart| usize::from(head.rows) >= PART_ROWS || self.part.len() >= PART_BYTES;
        if self
            .head
            .as_ref()
            .is_none_or(|head| full(head) || self.word != word)
        {
            self.end_part()?;
            self.word.clear();
            self.word.extend_from_slice(word);
            self.head = Some(ListPart {
                first_row: row,
                rows: 0,
                most: 0,
                least_length: u16::MAX,
                record: self.records,
            });
            self.last_row = row;
        }
        let length = self.lengths.get(row as usize).copied().unwrap_or(0);
        if let Some(head) = &mut self.head {
            head.rows += 1;
            head.most = head.most.max(frequency.min(u32::from(u16::MAX)) as u16);
            head.least_length = head.least_length.min(length);
        }
        push_varint(row - self.last_row, &mut self.part);
        push_varint(frequency, &mut self.part);
        self.last_row = row;
        Ok(())
    }

    fn end_part(&mut self) -> Result<()> {
        let Some(head) = self.head.take() else {
            return Ok(());
        };
        let part = std::mem::take(&mut self.part);
        self.record(&part)?;
        self.part = part;
        self.part.clear();
        let mut key = self.word.clone();
        key.extend_from_slice(&head.first_row.to_be_bytes());
        for number in [head.rows, head.most, head.least_length] {
            key.extend_from_slice(&number.to_be_bytes());
        }
        key.extend_from_slice(&head.record.to_be_bytes());
        push_key(&mut self.terms, &key, &mut self.terms_sink)
    }
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

    #[test]
    fn lists_that_lie_are_noticed() {
        let mut bytes = Vec::new();
        for (distance, frequency) in [(0, 1), (300, 70_000), (1, 2)] {
            push_varint(distance, &mut bytes);
            push_varint(frequency, &mut bytes);
        }
        let mut seen = Vec::new();
        assert!(decode(&bytes, 5, 1000, &mut |row, frequency| seen.push((row, frequency))).is_some());
        assert_eq!(seen, [(5, 1), (305, 70_000), (306, 2)]);
        assert!(decode(&bytes, 5, 306, &mut |_, _| {}).is_none());
        assert!(decode(&bytes[..bytes.len() - 1], 5, 1000, &mut |_, _| {}).is_none());
        assert!(decode(&[0xFF; 9], 0, 1000, &mut |_, _| {}).is_none());
    }
}
