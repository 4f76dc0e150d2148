//! Scores with other parameters than tantivy's own: its lists, our arithmetic, and no bounds of blocks.

use tantivy::postings::{Postings, SegmentPostings};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED};

use crate::bm25::Bm25;
use crate::error::{Result, from_io};
use crate::guard::callers;
use crate::index::TextIndex;
use crate::query::{Mode, TextQuery};
use crate::search::Wanted;

/// One list being read, and the idf of its term.
struct Cursor {
    list: SegmentPostings,
    idf: f32,
    /// Of phrases: the place within the phrase.
    position: u32,
}

/// Scores all rows that match. Any number of terms; a phrase is for [`phrases`].
pub fn scored(
    index: &TextIndex,
    query: &TextQuery<'_>,
    wanted: &[Wanted<'_>],
    mut threshold: f32,
    found: &mut dyn FnMut(u32, f32) -> f32,
) -> Result<()> {
    let mut cursors = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let list = index
            .lists
            .read_postings_from_terminfo(&wanted.info, IndexRecordOption::WithFreqs);
        cursors.push(Cursor {
            list: list.map_err(from_io)?,
            idf: query.bm25.idf(wanted.term.doc_freq) * wanted.times as f32,
            position: 0,
        });
    }
    let all = query.mode != Mode::Any;
    while let Some(row) = if all {
        align(&mut cursors)
    } else {
        lowest(&cursors)
    } {
        let norm = index.norm(row);
        let mut score = 0.0;
        for cursor in cursors.iter_mut().filter(|cursor| cursor.list.doc() == row) {
            score += query.bm25.score(cursor.idf, cursor.list.term_freq(), norm);
            cursor.list.advance();
        }
        if score > threshold {
            threshold = callers(|| found(row, score)).max(threshold);
        }
    }
    Ok(())
}

/// Scores all rows that hold a phrase.
pub fn phrases(
    index: &TextIndex,
    query: &TextQuery<'_>,
    mut threshold: f32,
    found: &mut dyn FnMut(u32, f32) -> f32,
) -> Result<()> {
    let mut cursors = Vec::with_capacity(query.terms.len());
    let mut idf = 0.0;
    for term in query.terms {
        let Some(info) = index.find(term.text)? else {
            return Ok(());
        };
        let option = IndexRecordOption::WithFreqsAndPositions;
        idf += query.bm25.idf(term.doc_freq);
        cursors.push(Cursor {
            list: index
                .lists
                .read_postings_from_terminfo(&info, option)
                .map_err(from_io)?,
            idf: 0.0,
            position: term.position,
        });
    }
    // The rarest first: it says which rows are looked at, and its positions which places.
    cursors.sort_by_key(|cursor| cursor.list.size_hint());
    let mut places = Places::default();
    while let Some(row) = align(&mut cursors) {
        let count = places.count(&mut cursors);
        if count > 0 {
            let score = Bm25::score(&query.bm25, idf, count, index.norm(row));
            if score > threshold {
                threshold = callers(|| found(row, score)).max(threshold);
            }
        }
        cursors[0].list.advance();
    }
    Ok(())
}

/// Where a phrase may begin.
#[derive(Default)]
struct Places {
    starts: Vec<i64>,
    positions: Vec<u32>,
}

impl Places {
    /// How often the phrase stands in the row that all cursors are at.
    fn count(&mut self, cursors: &mut [Cursor]) -> u32 {
        for (at, cursor) in cursors.iter_mut().enumerate() {
            cursor.list.positions(&mut self.positions);
            let start = |position: &u32| i64::from(*position) - i64::from(cursor.position);
            if at == 0 {
                self.starts.clear();
                self.starts.extend(self.positions.iter().map(start));
                self.starts.dedup();
                continue;
            }
            let mut here = self.positions.iter().map(start).peekable();
            self.starts.retain(|wanted| {
                while here.next_if(|start| start < wanted).is_some() {}
                here.peek() == Some(wanted)
            });
            if self.starts.is_empty() {
                return 0;
            }
        }
        self.starts.len() as u32
    }
}

/// The lowest row of all cursors.
fn lowest(cursors: &[Cursor]) -> Option<u32> {
    let row = cursors.iter().map(|cursor| cursor.list.doc()).min()?;
    (row != TERMINATED).then_some(row)
}

/// Moves all cursors to the next row that all have.
fn align(cursors: &mut [Cursor]) -> Option<u32> {
    let mut row = cursors.first()?.list.doc();
    'row: while row != TERMINATED {
        for cursor in cursors.iter_mut() {
            if cursor.list.doc() < row {
                cursor.list.seek(row);
            }
            if cursor.list.doc() > row {
                row = cursor.list.doc();
                continue 'row;
            }
        }
        return Some(row);
    }
    None
}
