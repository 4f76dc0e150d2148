//! Writes the ranked texts of a segment: one pass over its payloads, words sorted in the job's scratch.

use ramlet_format::Component;
use ramlet_format::manifest::FileEntry;
use ramlet_format::records::RecordsWriter;
use ramlet_format::rows::RowsWriter;
use ramlet_format::sorted::SortedWriter;
use ramlet_io::Storage;
use ramlet_memory::Reservation;

use super::inverter::Inverter;
use super::joined::{EachPosting, Joined};
use super::part::{PartWriter, Written};
use super::{VERSION, WORD_END, decoded_length, encoded_length, push_word};
use crate::error::{Error, Result};
use crate::payload::Path;
use crate::schema::PayloadField;
use crate::segment::job::Job;
use crate::segment::names::{SCRATCH_PREFIX, seed, segment_file};
use crate::segment::sink::{Sink, push_key};
use crate::segment::sorter::Sorter;
use crate::text::{TextLength, TokenHash, tokens_of};

/// Writes the ranked texts of a segment's fields, in one pass over its payloads.
pub struct TextBuilders {
    segment: u64,
    fields: Vec<Building>,
    row: u32,
}

struct Building {
    path: Path,
    field: PayloadField,
    inverter: Inverter,
    /// Takes what the inverter has no room for.
    sorter: Sorter,
    lengths: Vec<u16>,
    _held: Reservation,
    /// A word as the keys begin with it.
    word: Vec<u8>,
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
            let tag = tag_of(segment, field.slot);
            let Some(held) = resident_lengths(segment, field, rows, job) else {
                continue;
            };
            let has_positions = has_positions(field);
            building.push(Building {
                path,
                field: field.clone(),
                inverter: Inverter::new(share, has_positions),
                sorter: Sorter::new(job.storage.clone(), tag, share, share),
                lengths: Vec::with_capacity(rows as usize),
                _held: held,
                word: Vec::new(),
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
        let Building {
            path,
            field,
            inverter,
            sorter,
            word,
            ..
        } = self;
        inverter.begin_row(row);
        let mut length = TextLength::default();
        if let Some(text) = field.scored() {
            let (mut hash, mut result) = (TokenHash::default(), Ok(()));
            tokens_of((text, false), path, payload, &mut |token| {
                if result.is_err() {
                    return;
                }
                length.add(&token);
                hash.follow(&token);
                word.clear();
                push_word(token.text, || hash.of(token.text), word);
                // Also within a row: a text may have any number of words.
                if !inverter.has_room(word) {
                    result = spill(inverter, sorter);
                }
                inverter.push(word, token.position);
            });
            result?;
        }
        inverter.end_row();
        self.lengths.push(encoded_length(length.words().into()));
        Ok(())
    }

    fn finish(self, segment: u64, job: &mut Job<'_>, files: &mut Vec<FileEntry>) -> Result<()> {
        let (mut inverter, mut sorter) = (self.inverter, self.sorter);
        if sorter.has_runs() && !inverter.is_empty() {
            spill(&mut inverter, &mut sorter)?;
        }
        let out = TextOut::new(segment, &self.field, &self.lengths, job)?;
        let mut joined = Joined::new(has_positions(&self.field));
        let storage = job.storage.clone();
        let written = out.write(|take| {
            if sorter.has_runs() {
                drop(inverter);
                sorter.finish(job.io, &mut |key| {
                    let (word, entry) = split(key)?;
                    joined.push(word, entry, take)
                })?;
            } else {
                inverter.drain(&mut |word, entry| joined.push(word, entry, take))?;
            }
            joined.end(take)
        });
        or_none(written, (segment, &self.field), storage.as_ref(), files)
    }
}

/// What is in memory goes to disk.
fn spill(inverter: &mut Inverter, sorter: &mut Sorter) -> Result<()> {
    let mut key = Vec::new();
    sorter.push_sorted(&mut |each| {
        inverter.drain(&mut |word, entry| {
            key.clear();
            key.extend_from_slice(word);
            key.extend_from_slice(entry);
            each(&key)
        })
    })
}

/// The files of a field's texts.
pub(super) struct TextOut<'a> {
    lengths_file: FileEntry,
    lengths: &'a [u16],
    out: ListsOut,
}

impl<'a> TextOut<'a> {
    /// Of texts of these lengths, by row.
    pub(super) fn new(
        segment: u64,
        field: &PayloadField,
        lengths: &'a [u16],
        job: &Job<'_>,
    ) -> Result<TextOut<'a>> {
        let (slot, storage) = (field.slot, job.storage.as_ref());
        let create = |component| Sink::create(storage, segment_file(segment, component), component);
        let lengths_at = Component::TextLengths { slot };
        let mut sink = create(lengths_at)?;
        let mut rows = RowsWriter::new(seed(segment, lengths_at), 2);
        for length in lengths {
            rows.push(&length.to_le_bytes(), &mut sink.out);
            sink.drain()?;
        }
        rows.finish(&mut sink.out);
        let lengths_file = sink.finish()?;
        let (terms_at, lists_at) = (Component::TextTerms { slot }, Component::TextLists { slot });
        let positions_at = Component::TextPositions { slot };
        let mut out = ListsOut {
            terms: SortedWriter::new(seed(segment, terms_at)),
            terms_sink: create(terms_at)?,
            lists: RecordsOut::new(lists_at, (segment, storage))?,
            positions: match has_positions(field) {
                true => Some(RecordsOut::new(positions_at, (segment, storage))?),
                false => None,
            },
            records: 0,
            fences: job.file_context.metadata.waiting().reserve(0)?,
        };
        let folded = || lengths.iter().map(|&code| decoded_length(code));
        let documents = folded().filter(|&length| length > 0).count() as u64;
        let tokens: u64 = folded().sum();
        out.record(&[documents, tokens, VERSION].map(u64::to_le_bytes).concat(), &[])?;
        Ok(TextOut {
            lengths_file,
            lengths,
            out,
        })
    }

    /// Writes the lists of all that `feed` gives.
    pub(super) fn write(
        self,
        feed: impl FnOnce(&mut EachPosting<'_>) -> Result<()>,
    ) -> Result<Vec<FileEntry>> {
        let (mut out, lengths) = (self.out, self.lengths);
        let (mut parts, mut word) = (PartWriter::default(), Vec::new());
        feed(&mut |of, row, frequency, positions| {
            if word != of {
                parts.end(&mut |part| out.part(&word, part))?;
                word.clear();
                word.extend_from_slice(of);
            }
            let length = lengths.get(row as usize).copied().unwrap_or(0);
            let entry = (row, frequency, length);
            parts.push(entry, positions, &mut |part| out.part(&word, part))
        })?;
        parts.end(&mut |part| out.part(&word, part))?;
        out.terms.finish(&mut out.terms_sink.out);
        let mut files = vec![self.lengths_file, out.terms_sink.finish()?, out.lists.finish()?];
        if let Some(positions) = out.positions {
            files.push(positions.finish()?);
        }
        Ok(files)
    }
}

/// Takes the files of a field's lists; where their tables found no room, nothing is left of them: see [`resident_lengths`].
pub(super) fn or_none(
    written: Result<Vec<FileEntry>>,
    (segment, field): (u64, &PayloadField),
    storage: &dyn Storage,
    files: &mut Vec<FileEntry>,
) -> Result<()> {
    match written {
        Err(e) if e.is_over_budget() => {
            tracing::warn!(segment, field = %field.path, "no lists of words, searches read payloads: {e}");
            remove_files(segment, field.slot, storage)
        }
        written => {
            files.extend(written?);
            Ok(())
        }
    }
}

fn remove_files(segment: u64, slot: u16, storage: &dyn Storage) -> Result<()> {
    let ours = [
        Component::TextTerms { slot },
        Component::TextLists { slot },
        Component::TextLengths { slot },
        Component::TextPositions { slot },
    ]
    .map(|component| segment_file(segment, component));
    let scratch = format!("{SCRATCH_PREFIX}{}-", tag_of(segment, slot));
    for name in storage.list()? {
        if ours.contains(&name) || name.starts_with(&scratch) {
            storage.remove(&name)?;
        }
    }
    Ok(())
}

/// What tells the scratch files of a field's texts from others.
fn tag_of(segment: u64, slot: u16) -> String {
    format!("{segment}-w{slot}")
}

/// For the lengths of so many rows' texts. Where there is no room: rather a slow search than a flush or merge that fails.
pub(super) fn resident_lengths(
    segment: u64,
    field: &PayloadField,
    rows: u32,
    job: &Job<'_>,
) -> Option<Reservation> {
    let held = job.file_context.metadata.waiting().reserve(2 * u64::from(rows));
    held.inspect_err(
        |e| tracing::warn!(segment, field = %field.path, "no lists of words, searches read payloads: {e}"),
    )
    .ok()
}

/// Whether the lists of a field's words tell where these stand.
pub(super) fn has_positions(field: &PayloadField) -> bool {
    field.text.as_ref().is_some_and(|text| text.has_positions())
}

/// Word and entry of a sorted key. A word ends with the first `0xFF`: it has none itself.
fn split(key: &[u8]) -> Result<(&[u8], &[u8])> {
    let end = key.iter().position(|byte| *byte == WORD_END);
    end.and_then(|end| key.split_at_checked(end + 1))
        .ok_or_else(|| Error::corrupt("a sorted word without its row"))
}

/// A file of records being written.
struct RecordsOut {
    records: RecordsWriter,
    sink: Sink,
}

impl RecordsOut {
    fn new(component: Component, (segment, storage): (u64, &dyn Storage)) -> Result<RecordsOut> {
        Ok(RecordsOut {
            records: RecordsWriter::new(seed(segment, component)),
            sink: Sink::create(storage, segment_file(segment, component), component)?,
        })
    }

    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let pushed = self.records.push(bytes, &mut self.sink.out);
        pushed.map_err(|e| Error::corrupt(e.to_string()))?;
        self.sink.drain()
    }

    fn finish(mut self) -> Result<FileEntry> {
        self.records.finish(&mut self.sink.out);
        self.sink.finish()
    }
}

/// Lists being written, word after word.
struct ListsOut {
    terms: SortedWriter,
    terms_sink: Sink,
    lists: RecordsOut,
    positions: Option<RecordsOut>,
    records: u32,
    /// For the table's fences, which are held until all words are there: hundreds of bytes a page where words are long and much alike.
    fences: Reservation,
}

/// Fences that are held, and the copy that is made of them to write them.
const FENCES_TIMES: u64 = 2;
/// What they take of tables of usual words isn't worth going without lists in a small budget: so much is not reserved.
const FENCES_FREE: u64 = 64 << 10;
/// What is reserved at once.
const FENCES_STEP: u64 = 16 << 10;

impl ListsOut {
    fn record(&mut self, list: &[u8], positions: &[u8]) -> Result<()> {
        self.lists.push(list)?;
        if let Some(out) = &mut self.positions {
            out.push(positions)?;
        }
        self.records += 1;
        Ok(())
    }

    fn part(&mut self, word: &[u8], part: Written<'_>) -> Result<()> {
        let mut key = word.to_vec();
        key.extend_from_slice(&part.first_row.to_be_bytes());
        key.extend_from_slice(&part.rows.to_be_bytes());
        part.peaks.push_le(&mut key);
        key.extend_from_slice(&self.records.to_be_bytes());
        self.record(part.bytes, part.positions)?;
        let fences = FENCES_TIMES * self.terms.heap_bytes() as u64;
        if fences > self.fences.bytes() + FENCES_FREE {
            self.fences
                .grow(fences - self.fences.bytes() - FENCES_FREE + FENCES_STEP)?;
        }
        push_key(&mut self.terms, &key, &mut self.terms_sink)
    }
}
