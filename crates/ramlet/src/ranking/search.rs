//! Ranks a view's points: first all parts count their words, then all are ranked with the same weights.

use ramlet_index::TopK;
use ramlet_io::{SearchStage, Stages};
use ramlet_memory::Reservation;

use super::asked::{Named, Ranked};
use super::bm25::{Weights, folded_length};
use super::lists::{count_lists, rank_lists};
use super::memtable_postings::MemtableHit;
use super::payloads::Counted;
use super::posting_lists::PostingLists;
use super::statistics::Statistics;
use super::words::Words;
use crate::error::{Error, Result};
use crate::filter::FieldWords;
use crate::payload::Path;
use crate::read::lookup::Lookup;
use crate::read::matching::{BitmapHold, matching_rows};
use crate::read::view::Place;
use crate::request::{Explained, SearchCost};
use crate::segment::SegmentView;
use crate::write::memtable::MemtableView;

/// What a memtable has of the words.
struct MemtableMatches {
    rows: MetRows,
    _held: Reservation,
}

enum MetRows {
    /// By row and term.
    Listed(Vec<MemtableHit>),
    /// Rows that have some, to be counted again.
    Asked(Vec<u32>),
}

/// Offers `top` all points that have some of the words, in the distances of [`TopK`]: the less, the better.
pub fn rank(
    asked: &Ranked<'_>,
    lookup: &mut Lookup,
    top: &mut TopK,
    mut explained: Option<&mut Vec<Explained>>,
) -> Result<SearchCost> {
    let mut cost = SearchCost::default();
    if asked.terms.is_empty() || top.k() == 0 {
        return Ok(cost);
    }
    // The field's path was parsed when its index was made.
    let Ok(path) = Path::parse(&asked.field.path) else {
        return Ok(cost);
    };
    let counted = Counted {
        slot: asked.field.slot,
        field: asked.text,
        path: &path,
        terms: asked.terms,
    };
    let index = asked.field.text.as_ref();
    let of_filter = asked
        .filter
        .zip(index)
        .and_then(|(filter, index)| FieldWords::of(filter, index));
    let words = Words::new(asked.terms, of_filter.as_ref(), asked.filter);
    let mut all = Statistics::new(asked.terms.len());
    let mut lists = Vec::with_capacity(asked.view.segments.len());
    // Of segments, and then of memtables.
    let mut counting = Vec::with_capacity(asked.view.segments.len() + asked.view.memtables.len());
    for segment in &asked.view.segments {
        let begun = lookup.io.now();
        lookup.io.take_stages();
        lookup.io.enter(SearchStage::Lists);
        lists.push(count_segment((&counted, &words), segment, lookup, &mut all)?);
        let stages = lookup.io.take_stages();
        counting.push((lookup.io.now() - begun, stages));
    }
    // No list has stop words, in memtables either.
    let stage_of_memtables = match asked.terms.are_stopwords() {
        true => SearchStage::Payloads,
        false => SearchStage::Lists,
    };
    let mut met = Vec::with_capacity(asked.view.memtables.len());
    for memtable in &asked.view.memtables {
        let begun = lookup.io.now();
        lookup.io.take_stages();
        lookup.io.enter(stage_of_memtables);
        met.push(count_memtable(&counted, memtable, lookup, &mut all)?);
        let stages = lookup.io.take_stages();
        counting.push((lookup.io.now() - begun, stages));
    }
    if let Some(given) = asked.statistics {
        if given.frequencies.len() != asked.terms.len() {
            return Err(Error::bad_input(format!(
                "Wrong input: statistics of {} words, and the query has {}",
                given.frequencies.len(),
                asked.terms.len()
            )));
        }
        all.clone_from(given);
    }
    let weights = all.weights(asked.params, asked.terms.times());
    let mut tell =
        |mut part: Explained, (counted_ns, counting): (u64, Option<Stages>), lookup: &mut Lookup, begun| {
            cost.add(&part);
            let stages = lookup.io.take_stages();
            if let Some(explained) = explained.as_deref_mut() {
                part.using.clone_from(&asked.field.path);
                part.total_ns = counted_ns + lookup.io.now() - begun;
                part.stages = stages.map(|mut stages| {
                    counting.iter().for_each(|counting| stages.add(counting));
                    Box::new(stages)
                });
                explained.push(part);
            }
        };
    for (index, (segment, lists)) in asked.view.segments.iter().zip(lists).enumerate() {
        top.begin_segment(index as u32);
        let begun = lookup.io.now();
        let bytes = lookup.io.bytes();
        lookup.io.enter(SearchStage::Lists);
        let only = asked.named(lookup, segment.segment.rows(), &|place| match place {
            Place::Segment { index: at, row } => (at as usize == index).then_some(row),
            Place::Memtable { .. } => None,
        })?;
        let mut part = match (segment.segment.text(asked.field.slot), lists) {
            (Some(column), Some(lists)) => {
                let with = (&counted, &words, &weights, &lists);
                rank_lists(asked, with, (segment, column), only, lookup, top)?
            }
            _ => rank_payloads(asked, &counted, &weights, segment, only, lookup, top)?,
        };
        part.read_bytes = lookup.io.bytes() - bytes;
        tell(part, counting[index], lookup, begun);
    }
    for (index, (memtable, met)) in asked.view.memtables.iter().zip(met).enumerate() {
        top.begin_segment((asked.view.segments.len() + index) as u32);
        let begun = lookup.io.now();
        lookup.io.enter(stage_of_memtables);
        let only = asked.named(lookup, memtable.len, &|place| match place {
            Place::Memtable { index: at, row } => (at as usize == index).then_some(row),
            Place::Segment { .. } => None,
        })?;
        let part = rank_memtable(asked, &counted, &weights, (memtable, &met), only, top);
        tell(part, counting[asked.view.segments.len() + index], lookup, begun);
    }
    Ok(cost)
}

/// The statistics of a view by which a query's words are weighed.
pub fn count(asked: &Ranked<'_>, lookup: &mut Lookup) -> Result<Statistics> {
    let mut all = Statistics::new(asked.terms.len());
    let Ok(path) = Path::parse(&asked.field.path) else {
        return Ok(all);
    };
    let counted = Counted {
        slot: asked.field.slot,
        field: asked.text,
        path: &path,
        terms: asked.terms,
    };
    let words = Words::new(asked.terms, None, None);
    for segment in &asked.view.segments {
        count_segment((&counted, &words), segment, lookup, &mut all)?;
    }
    for memtable in &asked.view.memtables {
        count_memtable(&counted, memtable, lookup, &mut all)?;
    }
    Ok(all)
}

impl Ranked<'_> {
    /// Of the points that are asked for, the rows of one part, which has so many; `None`: all of them.
    fn named(&self, lookup: &Lookup, rows: u32, row_of: &dyn Fn(Place) -> Option<u32>) -> Result<Named> {
        let Some(among) = self.among else {
            return Ok(None);
        };
        let mut held = BitmapHold::new(&lookup.rare, rows)?;
        held.whole(among.len() as u64)?;
        let rows = among.iter().filter_map(|&place| row_of(place)).collect();
        Ok(Some((rows, held)))
    }
}

/// Adds a segment's texts; finds the posting lists of its words, if it has any.
fn count_segment(
    (counted, words): (&Counted<'_>, &Words<'_>),
    segment: &SegmentView,
    lookup: &mut Lookup,
    all: &mut Statistics,
) -> Result<Option<PostingLists>> {
    let column = segment.segment.text(counted.slot);
    if let Some(column) = column.filter(|_| !counted.terms.are_stopwords()) {
        return count_lists((counted, words), (segment, column), lookup, all).map(Some);
    }
    lookup.io.enter(SearchStage::Payloads);
    let mut counts = vec![0; counted.terms.len()];
    segment
        .segment
        .for_each_payload(&mut lookup.io, &mut |row, payload| {
            if !segment.deletes.contains(row) {
                let tokens = counted.count(payload, &mut counts);
                all.add(tokens, &counts);
            }
            Ok(())
        })?;
    Ok(None)
}

/// Adds a memtable's live texts; says which have some of the words.
fn count_memtable(
    counted: &Counted<'_>,
    memtable: &MemtableView,
    lookup: &Lookup,
    all: &mut Statistics,
) -> Result<MemtableMatches> {
    let mut held = lookup.rare.reserve(0)?;
    let mut hits = Vec::new();
    if counted.terms.len() <= Words::MOST
        && !counted.terms.are_stopwords()
        && let Some(totals) = memtable.hits(counted.slot, counted.terms, (&mut hits, &mut held))?
    {
        all.documents += totals.documents;
        all.tokens += totals.tokens;
        hits.iter().for_each(|hit| all.frequencies[hit.term()] += 1);
        return Ok(MemtableMatches {
            rows: MetRows::Listed(hits),
            _held: held,
        });
    }
    drop(hits);
    let mut counts = vec![0; counted.terms.len()];
    let mut rows = Vec::new();
    held.grow(u64::from(memtable.live()) * size_of::<u32>() as u64)?;
    for row in memtable.live_rows() {
        let tokens = count_row(counted, memtable, row, &mut counts);
        all.add(tokens, &counts);
        if counts.iter().any(|&count| count > 0) {
            rows.push(row);
        }
    }
    rows.shrink_to_fit();
    Ok(MemtableMatches {
        rows: MetRows::Asked(rows),
        _held: held,
    })
}

fn count_row(counted: &Counted<'_>, memtable: &MemtableView, row: u32, counts: &mut [u32]) -> u32 {
    let row = memtable.memtable.row(row);
    let kept = match counted.terms.are_stopwords() {
        true => None,
        false => row.count_terms(counted.slot, counted.terms, counts),
    };
    kept.unwrap_or_else(|| counted.count(row.payload, counts))
}

/// How a query is answered that has no other words: no index has them, so all texts are read.
const STOP_WORDS: &str = "stop words";

/// Ranks a segment that has no lists by its payloads.
fn rank_payloads(
    asked: &Ranked<'_>,
    counted: &Counted<'_>,
    weights: &Weights,
    segment: &SegmentView,
    only: Named,
    lookup: &mut Lookup,
    top: &mut TopK,
) -> Result<Explained> {
    let mut found = Explained {
        segment: Some(segment.segment.id()),
        index: "payloads",
        strategy: if asked.terms.are_stopwords() {
            STOP_WORDS
        } else {
            "all"
        },
        rows: u64::from(segment.segment.rows()),
        ..Explained::default()
    };
    lookup.io.enter(SearchStage::Filter);
    let (rows, _held) = matching_rows(&asked.view.schema, segment, asked.filter, lookup)?;
    let Lookup { io, .. } = lookup;
    io.enter(SearchStage::Payloads);
    let mut counts = vec![0; counted.terms.len()];
    segment.segment.for_each_payload(io, &mut |row, payload| {
        let wanted = rows.contains(row) && only.as_ref().is_none_or(|(only, _)| only.contains(row));
        if wanted {
            let tokens = counted.count(payload, &mut counts);
            found.rows_scored += 1;
            if let Some(score) = weights.score(&counts, folded_length(tokens.into())) {
                top.push(-score, row);
            }
        }
        Ok(())
    })?;
    Ok(found)
}

/// Ranks the rows of a memtable that have some of the words.
fn rank_memtable(
    asked: &Ranked<'_>,
    counted: &Counted<'_>,
    weights: &Weights,
    (memtable, met): (&MemtableView, &MemtableMatches),
    only: Named,
    top: &mut TopK,
) -> Explained {
    let mut found = Explained {
        index: "buffer",
        strategy: if asked.terms.are_stopwords() {
            STOP_WORDS
        } else {
            "lists"
        },
        rows: u64::from(memtable.live()),
        ..Explained::default()
    };
    let mut counts = vec![0; counted.terms.len()];
    let mut offer = |row: u32, tokens: u32, counts: &[u32]| {
        found.rows_scored += 1;
        let Some(score) = weights.score(counts, folded_length(tokens.into())) else {
            return;
        };
        if top.would_enter(-score, row) {
            found.rows_checked += 1;
            if asked
                .filter
                .is_none_or(|filter| filter.matches(&memtable.memtable.row(row)))
            {
                top.push(-score, row);
            }
        }
    };
    let is_wanted = |row: u32| only.as_ref().is_none_or(|(only, _)| only.contains(row));
    match &met.rows {
        MetRows::Listed(hits) => {
            let by_row = hits.chunk_by(|one, next| one.row() == next.row());
            for hits in by_row.filter(|hits| is_wanted(hits[0].row())) {
                let row = hits[0].row();
                let tokens = match noted(hits, &mut counts) {
                    Some(tokens) => tokens,
                    None => count_row(counted, memtable, row, &mut counts),
                };
                offer(row, tokens, &counts);
            }
        }
        MetRows::Asked(rows) => {
            for row in rows.iter().copied().filter(|row| is_wanted(*row)) {
                let tokens = count_row(counted, memtable, row, &mut counts);
                offer(row, tokens, &counts);
            }
        }
    }
    found
}

/// Counts the terms of a row as they are noted, and says its tokens. `None`: the row has to be asked.
fn noted(hits: &[MemtableHit], counts: &mut [u32]) -> Option<u32> {
    counts.fill(0);
    let mut tokens = 0;
    for hit in hits {
        (counts[hit.term()], tokens) = hit.counts()?;
    }
    Some(tokens)
}
