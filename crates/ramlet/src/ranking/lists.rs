//! Ranking by posting lists of segments: which lists are read, and how rows are scored by many lists.
//!
//! Few words are gone through side by side (`pruned`). Of many, a search goes through windows of rows; within one it adds up word after word, the rarest
//! first (MaxScore: Turtle and Flood 1995). Once the hits so far are beyond what the words that are left can give, their lists are read only where a row that
//! was met might still enter, so the result is exact.

use ramlet_index::TopK;
use ramlet_io::{IoContext, SearchStage};
use ramlet_memory::AnonBuf;
use roaring::RoaringBitmap;

use super::asked::{Named, Ranked};
use super::bm25::{Weights, folded_length};
use super::cursor::{LengthsOf, Reading};
use super::payloads::Counted;
use super::posting_lists::{Eligible, PostingLists, bound};
use super::pruned::rank_pruned;
use super::statistics::Statistics;
use super::words::Words;
use crate::error::Result;
use crate::read::lookup::Lookup;
use crate::read::matching::{Candidates, candidates};
use crate::read::sums::Sums;
use crate::request::Explained;
use crate::segment::{Gone, ListPart, SegmentView, TextColumn};

/// Rows of a window: their sums, lengths and marks take 0.8 MB.
const WINDOW: u32 = Sums::WINDOW;
const WINDOW_BYTES: u64 = Sums::BYTES + WINDOW as u64 * 4;
/// Postings about as dear as reading one row's payload.
const POSTINGS_PER_ROW: u64 = 256;
/// Rows of lists, and deleted rows, up to which deleted rows are counted out.
const COUNTED_ROWS: u64 = 1 << 12;

/// Adds the texts of a segment, and finds the posting lists of the words. Rows that were deleted since the segment was written are
/// counted out where that is little work; else they count until it is written anew.
pub fn count_lists(
    (counted, words): (&Counted<'_>, &Words<'_>),
    (segment, column): (&SegmentView, &TextColumn),
    lookup: &mut Lookup,
    all: &mut Statistics,
) -> Result<PostingLists> {
    let lists = PostingLists::read(words, column, lookup)?;
    let mut own = Statistics::new(counted.terms.len());
    (own.documents, own.tokens) = (column.documents, column.tokens);
    for (sum, parts) in own.frequencies.iter_mut().zip(&lists.parts) {
        *sum = parts.iter().map(|part| u64::from(part.rows)).sum();
    }
    let gone = u64::from(segment.deletes.len());
    if gone > 0 && gone.max(lists.postings()) <= COUNTED_ROWS {
        count_out(segment, column, &lists, lookup, &mut own)?;
    }
    all.documents += own.documents;
    all.tokens += own.tokens;
    for (sum, frequency) in all.frequencies.iter_mut().zip(own.frequencies) {
        *sum += frequency;
    }
    Ok(lists)
}

fn count_out(
    segment: &SegmentView,
    column: &TextColumn,
    lists: &PostingLists,
    lookup: &mut Lookup,
    own: &mut Statistics,
) -> Result<()> {
    let gone = match column.gone(segment.deletes.len()) {
        Some(gone) => gone,
        None => count_gone(segment, column, lookup)?,
    };
    own.documents -= gone.documents.min(own.documents);
    own.tokens -= gone.tokens.min(own.tokens);
    let Lookup { io, buf, .. } = lookup;
    let rows = segment.segment.rows();
    for (sum, parts) in own.frequencies.iter_mut().zip(&lists.parts) {
        column.postings(parts, rows, io, buf, &mut |row, _| {
            *sum -= u64::from(segment.deletes.contains(row)).min(*sum);
        })?;
    }
    Ok(())
}

/// Counts a segment's deleted rows: once for all searches until there are more.
fn count_gone(segment: &SegmentView, column: &TextColumn, lookup: &mut Lookup) -> Result<Gone> {
    let Lookup { io, buf, rare, .. } = lookup;
    let _held = rare.reserve(LengthsOf::BYTES)?;
    let mut lengths = LengthsOf::new(column, segment.segment.rows());
    let mut gone = Gone {
        rows: segment.deletes.len(),
        ..Gone::default()
    };
    for row in segment.deletes.iter() {
        let length = lengths.get(row, &mut Reading { io, buf })?;
        gone.documents += u64::from(length > 0);
        gone.tokens += length;
    }
    column.note_gone(gone);
    Ok(gone)
}

/// A window's rows.
struct Window {
    sums: Sums,
    lengths: Vec<u32>,
}

/// A segment's search under way.
struct Search<'a> {
    column: &'a TextColumn,
    lists: &'a PostingLists,
    weights: &'a Weights,
    rows: u32,
    /// By term: what it adds to a row at most.
    most: Vec<f64>,
}

impl Search<'_> {
    /// The parts of a list that may have rows of the window.
    fn within(&self, term: usize, first: u32) -> &[ListPart] {
        let parts = &self.lists.parts[term];
        let end = first.saturating_add(WINDOW);
        let from = parts
            .partition_point(|part| part.first_row <= first)
            .saturating_sub(1);
        let to = parts.partition_point(|part| part.first_row < end);
        &parts[from.min(to)..to]
    }

    /// The rows of a window, list after list; false: none of them can enter.
    fn add_up(
        &self,
        top: &TopK,
        Window { sums, lengths }: &mut Window,
        found: &mut Explained,
        (io, buf): (&mut IoContext, &mut AnonBuf),
    ) -> Result<bool> {
        let mut left: f64 = self.most.iter().sum();
        // At most the longest list's: reserved by `rank_windows`.
        let mut wanted: Vec<ListPart> = Vec::with_capacity(self.lists.longest());
        let (first, end) = (sums.first, sums.first.saturating_add(WINDOW).min(self.rows));
        for &term in self.weights.order() {
            let weight = self.weights.terms()[term];
            let known = !top.would_enter(bound(0.0, left), first);
            let any = |sums: &Sums| {
                sums.iter()
                    .any(|(row, sum)| top.would_enter(bound(sum, left), row))
            };
            if known && !any(sums) {
                return Ok(false);
            }
            let parts = self.within(term, first);
            wanted.clear();
            for (at, part) in parts.iter().enumerate() {
                let to = parts.get(at + 1).map_or(end, |next| next.first_row.min(end));
                if !known || sums.has_any(part.first_row, to) {
                    wanted.push(*part);
                }
            }
            self.column
                .postings(&wanted, self.rows, io, buf, &mut |row, frequency| {
                    found.codes_scanned += 1;
                    if let Some(at) = sums.place(row, known) {
                        sums.add(at, self.weights.part(weight, frequency, u64::from(lengths[at])));
                    }
                })?;
            left = (left - self.most[term]).max(0.0);
        }
        Ok(true)
    }
}

/// By term: what it adds to a row at most.
fn most_of(weights: &Weights, lists: &PostingLists) -> Vec<f64> {
    let terms = weights.terms().iter().zip(&lists.parts);
    let most = terms.map(|(weight, parts)| {
        let of_parts = parts.iter().map(|part| weights.most(*weight, &part.peaks));
        of_parts.fold(0.0, f64::max)
    });
    most.collect()
}

/// Ranks a segment by its lists.
pub fn rank_lists(
    asked: &Ranked<'_>,
    (counted, words, weights, lists): (&Counted<'_>, &Words<'_>, &Weights, &PostingLists),
    (segment, column): (&SegmentView, &TextColumn),
    only: Named,
    lookup: &mut Lookup,
    top: &mut TopK,
) -> Result<Explained> {
    let mut found = Explained {
        segment: Some(segment.segment.id()),
        index: "text",
        strategy: "none",
        rows: u64::from(segment.segment.rows()),
        ..Explained::default()
    };
    let rows_of = |parts: &Vec<ListPart>| parts.iter().map(|part| u64::from(part.rows)).sum::<u64>();
    // Those that are gone through, about.
    let shortest = words
        .required
        .iter()
        .map(|&place| rows_of(&lists.parts[place]))
        .min();
    let postings = shortest.unwrap_or_else(|| lists.postings());
    if postings == 0 {
        return Ok(found);
    }
    let before = lookup.io.reads();
    let Lookup { io, buf, rare, .. } = lookup;
    io.enter(SearchStage::Filter);
    let named = candidates(&asked.view.schema, segment, words.rest, io, buf, rare)?;
    io.enter(SearchStage::Lists);
    let Candidates {
        mut rows,
        recheck,
        held: _held,
    } = named;
    let has_positions = column.positions.is_some() && !words.have_slop;
    let recheck = recheck || (!words.phrases.is_empty() && !has_positions);
    if let Some((only, _)) = &only {
        rows = Some(rows.map_or_else(|| only.clone(), |rows| rows & only));
    }
    found.candidates = rows.as_ref().map(RoaringBitmap::len);
    found.rechecked = recheck;
    let few = found
        .candidates
        .is_some_and(|named| named * POSTINGS_PER_ROW < postings);
    let eligible = Eligible {
        asked,
        segment,
        rows,
        // The lists decide about the words that are required; few rows are asked themselves.
        recheck: recheck || (few && !words.required.is_empty()),
    };
    let with = (column, lists, weights);
    if few {
        rank_named(&eligible, (counted, weights), &mut found, lookup, top)?;
    } else if words.len() <= Words::MOST {
        rank_pruned(&eligible, words, with, (lookup, &mut found), top)?;
    } else {
        rank_windows(&eligible, with, &mut found, lookup, top)?;
    }
    found.reads = lookup.io.reads() - before;
    Ok(found)
}

/// Ranks few rows by their payloads.
fn rank_named(
    eligible: &Eligible<'_>,
    (counted, weights): (&Counted<'_>, &Weights),
    found: &mut Explained,
    lookup: &mut Lookup,
    top: &mut TopK,
) -> Result<()> {
    let Lookup { io, buf, rare, .. } = lookup;
    found.strategy = "listed";
    let mut counts = vec![0; counted.terms.len()];
    let mut payload = AnonBuf::reserved(rare, ramlet_io::PAGE)?;
    for row in eligible
        .rows
        .iter()
        .flatten()
        .filter(|&row| eligible.is_there(row))
    {
        let bytes = eligible.segment.segment.payload(row, io, &mut payload)?;
        let length = folded_length(counted.count(bytes, &mut counts).into());
        found.rows_scored += 1;
        if let Some(score) = weights.score(&counts, length)
            && top.would_enter(-score, row)
        {
            found.rows_checked += 1;
            if eligible.matches(row, io, buf)? {
                top.push(-score, row);
            }
        }
    }
    Ok(())
}

/// Ranks rows by the lists, window after window.
fn rank_windows(
    eligible: &Eligible<'_>,
    (column, lists, weights): (&TextColumn, &PostingLists, &Weights),
    found: &mut Explained,
    lookup: &mut Lookup,
    top: &mut TopK,
) -> Result<()> {
    let Lookup { io, buf, rare, .. } = lookup;
    found.strategy = "lists";
    let _window = rare.reserve(WINDOW_BYTES)?;
    let mut read = AnonBuf::reserved(rare, ramlet_io::PAGE)?;
    // A list's parts that are wanted, and their records.
    let _parts = rare.reserve(lists.longest() as u64 * (ListPart::BYTES + size_of::<u32>() as u64))?;
    let search = Search {
        column,
        lists,
        weights,
        rows: eligible.segment.segment.rows(),
        most: most_of(weights, lists),
    };
    let mut window = Window {
        sums: Sums::new(search.rows),
        lengths: vec![0; WINDOW.min(search.rows) as usize],
    };
    for first in (0..search.rows).step_by(WINDOW as usize) {
        let end = first.saturating_add(WINDOW).min(search.rows);
        let has_none = |rows: &RoaringBitmap| rows.range_cardinality(first..end) == 0;
        if eligible.rows.as_ref().is_some_and(has_none) {
            continue;
        }
        window.sums.begin(first);
        let count = (end - first) as usize;
        column.lengths(first, &mut window.lengths[..count], io, &mut read)?;
        if !search.add_up(top, &mut window, found, (io, &mut read))? {
            continue;
        }
        for (row, sum) in window.sums.iter() {
            found.rows_scored += 1;
            let distance = -(sum as f32);
            if top.would_enter(distance, row) && eligible.is_there(row) {
                found.rows_checked += 1;
                if eligible.matches(row, io, buf)? {
                    top.push(distance, row);
                }
            }
        }
    }
    Ok(())
}
