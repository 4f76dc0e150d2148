//! A query's posting lists in a segment, and which rows of it may be found.

use ramlet_io::{IoContext, SearchStage};
use ramlet_memory::{AnonBuf, Reservation};
use roaring::RoaringBitmap;

use super::asked::Ranked;
use super::words::Words;
use crate::error::Result;
use crate::read::lookup::Lookup;
use crate::read::matching::row_matches;
use crate::segment::{ListPart, SegmentView, TextColumn};

/// What a bound is raised by, so that rounding never hides a row.
const SLACK: f64 = 1.0 + 1e-6;

/// The posting lists of a query's words in one segment, by term.
pub struct PostingLists {
    pub parts: Vec<Vec<ListPart>>,
    _held: Reservation,
}

impl PostingLists {
    /// Parts of the longest list.
    pub fn longest(&self) -> usize {
        self.parts.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Rows of all lists together.
    pub fn postings(&self) -> u64 {
        let parts = self.parts.iter().flatten();
        parts.map(|part| u64::from(part.rows)).sum()
    }

    pub fn read(words: &Words<'_>, column: &TextColumn, lookup: &mut Lookup) -> Result<PostingLists> {
        let Lookup { io, buf, rare, .. } = lookup;
        let mut held = rare.reserve(0)?;
        let mut parts = Vec::with_capacity(words.len());
        for word in words.iter() {
            let mut list = Vec::new();
            column.parts(word, io, buf, &mut |part| {
                if list.len() == list.capacity() {
                    let more = list.capacity().max(4);
                    held.grow(more as u64 * ListPart::BYTES)?;
                    list.reserve_exact(more);
                }
                list.push(part);
                Ok(())
            })?;
            parts.push(list);
        }
        Ok(PostingLists { parts, _held: held })
    }
}

/// The rows of a segment that may be hits.
pub struct Eligible<'a> {
    pub asked: &'a Ranked<'a>,
    pub segment: &'a SegmentView,
    /// That indexes of the filter name, and that are asked for; `None`: all.
    pub rows: Option<RoaringBitmap>,
    pub recheck: bool,
}

impl Eligible<'_> {
    pub fn rows_of_segment(&self) -> u32 {
        self.segment.segment.rows()
    }

    pub fn is_there(&self, row: u32) -> bool {
        !self.segment.deletes.contains(row) && self.rows.as_ref().is_none_or(|rows| rows.contains(row))
    }

    /// Asks the payload where the indexes don't know.
    pub fn matches(&self, row: u32, io: &mut IoContext, buf: &mut AnonBuf) -> Result<bool> {
        match self.recheck {
            true => self.matches_all(row, io, buf),
            false => Ok(true),
        }
    }

    /// Asks the payload, whatever is known.
    pub fn matches_all(&self, row: u32, io: &mut IoContext, buf: &mut AnonBuf) -> Result<bool> {
        match self.asked.filter {
            Some(filter) => {
                let before = io.enter(SearchStage::Payloads);
                let matches = row_matches(&self.asked.view.schema, self.segment, row, filter, io, buf);
                io.enter(before);
                matches
            }
            None => Ok(true),
        }
    }
}

/// The distance of the best that a sum may become.
pub fn bound(sum: f64, more: f64) -> f32 {
    -(((sum + more) * SLACK) as f32)
}
