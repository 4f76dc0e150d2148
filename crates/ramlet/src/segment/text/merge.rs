//! Merges the posting lists of segments by concatenation: no text is tokenized again, no word sorted.
//!
//! All lists are in the order of their words, and a word's rows stay in their order: those of one segment behind those of the one before it.

use ramlet_format::manifest::FileEntry;
use ramlet_io::{BlockFile, IoContext};

use super::build::{TextOut, has_positions, or_none, resident_lengths};
use super::joined::EachPosting;
use super::packed::skip_varints;
use super::part::{Decoded, Directory, POSITIONS_MAX};
use super::{ListPart, TextColumn, WORD_END, bad_list, parse_part};
use crate::error::{Error, Result};
use crate::schema::PayloadField;
use crate::segment::SegmentView;
use crate::segment::job::Job;
use crate::segment::source::renumbered;
use crate::segment::streams::{KEYS_BYTES, KeyStream, RECORDS_BYTES, RecordStream, Renumbered};

/// What a part's positions may take beyond a stream's own pages: twice, as it is read and held.
const LONG_BYTES: usize = 2 * (80 << 10);
/// What is held of each segment.
const SEGMENT_BYTES: usize = KEYS_BYTES + 2 * RECORDS_BYTES + LONG_BYTES;

/// Whether a field's texts can be made of those of the segments that are merged: all have lists of the same kind, and `bytes`
/// are enough to read them side by side.
pub fn is_merged(field: &PayloadField, views: &[SegmentView], bytes: usize) -> bool {
    let has = |view: &SegmentView| {
        let column = view.segment.text(field.slot);
        column.is_some_and(|column| column.positions.is_some() == has_positions(field))
    };
    let fits = !views.is_empty() && views.len() * SEGMENT_BYTES <= bytes;
    fits && field.scored().is_some() && views.iter().all(has)
}

/// Writes a field's texts of a new segment.
pub fn merge(
    segment: u64,
    field: &PayloadField,
    views: &[SegmentView],
    job: &mut Job<'_>,
    files: &mut Vec<FileEntry>,
) -> Result<()> {
    let rows = renumbered(views);
    let live: u32 = views.iter().map(SegmentView::live).sum();
    let Some(_held) = resident_lengths(segment, field, live, job) else {
        return Ok(());
    };
    let mut lengths = Vec::with_capacity(live as usize);
    let mut sources = Vec::with_capacity(views.len());
    for (view, rows) in views.iter().zip(&rows) {
        let Some(column) = view.segment.text(field.slot) else {
            return Err(Error::corrupt("a segment without the texts that are merged"));
        };
        column.lengths.for_each(job.io, &mut |row, code| {
            if let (false, Some(code)) = (rows.deletes.contains(row as u32), code.first_chunk()) {
                lengths.push(u16::from_le_bytes(*code));
            }
            Ok(())
        })?;
        sources.push(Source::new(column, view.segment.rows(), rows));
    }
    let out = TextOut::new(segment, field, &lengths, job)?;
    let written = out.write(|take| merge_words(&mut sources, job.io, take));
    or_none(written, (segment, field), job.storage.as_ref(), files)
}

fn merge_words(sources: &mut [Source<'_>], io: &mut IoContext, take: &mut EachPosting<'_>) -> Result<()> {
    for source in sources.iter_mut() {
        source.advance(io)?;
    }
    let mut word = Vec::new();
    loop {
        let words = sources.iter().filter_map(Source::word);
        let Some(least) = words.min() else {
            return Ok(());
        };
        word.clear();
        word.extend_from_slice(least);
        for source in sources.iter_mut() {
            while source.word() == Some(&word[..]) {
                source.part(&word, io, take)?;
                source.advance(io)?;
            }
        }
    }
}

/// A segment's lists, part after part.
struct Source<'a> {
    terms: KeyStream<&'a BlockFile>,
    lists: RecordStream<'a>,
    positions: Option<RecordStream<'a>>,
    /// Of the segment, and what they are called in the new one.
    rows: u32,
    renumbered: &'a Renumbered<'a>,
    /// The term that comes next; empty behind the last.
    key: Vec<u8>,
    word_bytes: usize,
    decoded: Box<Decoded>,
}

impl<'a> Source<'a> {
    fn new(column: &'a TextColumn, rows: u32, renumbered: &'a Renumbered<'a>) -> Source<'a> {
        Source {
            terms: column.terms.stream(),
            lists: RecordStream::new(&column.lists),
            positions: column.positions.as_ref().map(RecordStream::new),
            rows,
            renumbered,
            key: Vec::new(),
            word_bytes: 0,
            decoded: Box::default(),
        }
    }

    /// The word of the part that comes next, with its end.
    fn word(&self) -> Option<&[u8]> {
        (!self.key.is_empty()).then(|| &self.key[..self.word_bytes])
    }

    fn advance(&mut self, io: &mut IoContext) -> Result<()> {
        self.key.clear();
        if let Some(key) = self.terms.next(io)? {
            let end = key.iter().position(|byte| *byte == WORD_END);
            self.word_bytes = end.ok_or_else(bad_list)? + 1;
            self.key.extend_from_slice(key);
        }
        Ok(())
    }

    /// Gives `take` the rows of the part that comes next.
    fn part(&mut self, word: &[u8], io: &mut IoContext, take: &mut EachPosting<'_>) -> Result<()> {
        let ListPart {
            first_row, record, ..
        } = self.next_part().ok_or_else(bad_list)?;
        let positions = match &mut self.positions {
            Some(positions) => Some(positions.get(record, io)?),
            None => None,
        };
        let list = self.lists.get(record, io)?;
        let directory = Directory::parse(list).ok_or_else(bad_list)?;
        for block in 0..directory.blocks() {
            let decoded = &mut *self.decoded;
            directory
                .rows(block, list, (first_row, self.rows), decoded)
                .and_then(|()| directory.frequencies(block, list, decoded))
                .ok_or_else(bad_list)?;
            let begin = |all| directory.positions_of(block, all).ok_or_else(bad_list);
            let mut rest = positions.map(begin).transpose()?.unwrap_or_default();
            for at in 0..decoded.count {
                let (row, frequency) = (decoded.rows[at], decoded.frequencies[at]);
                let kept = if frequency > POSITIONS_MAX { 0 } else { frequency };
                let behind = match positions {
                    Some(_) => skip_varints(rest, kept).ok_or_else(bad_list)?,
                    None => rest,
                };
                let places = &rest[..rest.len() - behind.len()];
                rest = behind;
                if let Some(row) = self.renumbered.row(row) {
                    take(word, row, frequency, places)?;
                }
            }
        }
        Ok(())
    }

    fn next_part(&self) -> Option<ListPart> {
        let (key, record) = self.key.split_last_chunk::<4>()?;
        parse_part(key, self.word_bytes, u32::from_be_bytes(*record))
    }
}
