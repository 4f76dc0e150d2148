//! Exact search: scores every allowed row; time grows with the collection.

use ramlet_index::TopK;

use super::Scratch;
use super::found::Found;
use super::scorer::Scorer;
use super::segment::{SearchContext, rows_of};
use crate::error::Result;
use crate::read::lookup::Lookup;
use crate::read::matching;
use crate::read::view::Place;
use crate::segment::SegmentView;
use crate::write::memtable::MemtableView;

/// Rows handed to an index at once.
const ROWS_AT_ONCE: usize = 1024;
/// Rows are picked one by one where at most one in so many is wanted.
const SPARSE_SHARE: u64 = 8;

/// Offers `top` all rows that are asked for; returns how many were scored.
pub fn scan(
    context: &SearchContext<'_>,
    scorer: &Scorer,
    scratch: &mut Scratch,
    top: &mut TopK,
) -> Result<u64> {
    let mut scored = 0;
    for (index, segment) in context.view.segments.iter().enumerate() {
        top.begin_segment(index as u32);
        scored += scan_segment(context, segment, scorer, scratch, top)?;
    }
    for (index, memtable) in context.view.memtables.iter().enumerate() {
        top.begin_segment((context.view.segments.len() + index) as u32);
        scored += scan_memtable(context, memtable, scorer, top);
    }
    Ok(scored)
}

fn scan_segment(
    context: &SearchContext<'_>,
    segment: &SegmentView,
    scorer: &Scorer,
    scratch: &mut Scratch,
    top: &mut TopK,
) -> Result<u64> {
    let Some(column) = segment.segment.vector(context.field.slot) else {
        return Ok(0);
    };
    let schema = &context.view.schema;
    let matching = match context.filter {
        Some(_) => Some(matching::matching_rows(
            schema,
            segment,
            context.filter,
            &mut scratch.lookup,
        )?),
        None => None,
    };
    let Lookup { io, buf, index, .. } = &mut scratch.lookup;
    let rows = matching.as_ref().map(|(rows, _)| rows);
    let gone = rows_of(context.excluded, segment, io, buf)?;
    let mut scored = 0;
    let mut offer = |row: u32, bytes: &[u8]| {
        let admitted = rows.map_or(!segment.deletes.contains(row), |rows| rows.contains(row));
        if admitted && column.has(row) && gone.binary_search(&row).is_err() {
            scored += 1;
            top.push(scorer.distance(bytes), row);
        }
        Ok(())
    };
    match rows {
        Some(rows) if rows.len() * SPARSE_SHARE <= u64::from(segment.segment.rows()) => {
            let mut all = rows.iter().filter(|&row| column.has(row)).peekable();
            while all.peek().is_some() {
                let some: Vec<u32> = all.by_ref().take(ROWS_AT_ONCE).collect();
                column.index.read_rows(&some, index, io, &mut offer)?;
            }
        }
        _ => column.index.for_each_row(index, io, &mut offer)?,
    }
    Ok(scored)
}

fn scan_memtable(context: &SearchContext<'_>, view: &MemtableView, scorer: &Scorer, top: &mut TopK) -> u64 {
    let slot = context.field.slot;
    let mut scored = 0;
    let takes_all = context.excluded.is_empty() && context.filter.is_none();
    if let Some(query) = scorer.one_query().filter(|_| takes_all) {
        let compared = view.compare(slot, query, |number, distance| {
            if top.would_enter(distance, number) && view.has_vector(number, slot) {
                top.push(distance, number);
            }
        });
        view.memtable.note_compared(compared);
        return compared;
    }
    let wanted = |number: u32| {
        let row = view.memtable.row(number);
        let is_excluded = context.excluded.binary_search(&row.id).is_ok();
        !is_excluded && context.filter.is_none_or(|filter| filter.matches(&row))
    };
    for (number, bytes) in view.live_vectors(slot) {
        if takes_all || wanted(number) {
            scored += 1;
            top.push(scorer.distance(bytes), number);
        }
    }
    view.memtable.note_compared(scored);
    scored
}

/// Offers `top` these points as far as they have the vector.
pub fn among(
    context: &SearchContext<'_>,
    points: &[Found],
    scorer: &Scorer,
    scratch: &mut Scratch,
    top: &mut TopK,
) -> Result<u64> {
    each_vector(context, points, scratch, &mut |at, bytes| {
        let (index, row) = match at {
            Place::Segment { index, row } => (index, row),
            Place::Memtable { index, row } => (context.view.segments.len() as u32 + index, row),
        };
        top.begin_segment(index);
        top.push(scorer.distance(bytes), row);
    })
}

/// Shows `each` the encoded vectors of these points, in whatever order; returns how many there were.
pub fn each_vector(
    context: &SearchContext<'_>,
    points: &[Found],
    scratch: &mut Scratch,
    each: &mut dyn FnMut(Place, &[u8]),
) -> Result<u64> {
    let slot = context.field.slot;
    let mut keys: Vec<(u64, Place)> = points.iter().map(|f| (f.key(), f.place)).collect();
    keys.sort_unstable_by_key(|(key, _)| *key);
    let mut seen = 0;
    for some in keys.chunk_by(|a, b| a.0 >> 32 == b.0 >> 32) {
        let rows: Vec<u32> = some.iter().map(|(key, _)| *key as u32).collect();
        match some[0].1 {
            Place::Segment { index, .. } => {
                let segment = &context.view.segments[index as usize].segment;
                let Some(column) = segment.vector(slot) else {
                    continue;
                };
                let Lookup { io, index: read, .. } = &mut scratch.lookup;
                let rows: Vec<u32> = rows.into_iter().filter(|&row| column.has(row)).collect();
                for rows in rows.chunks(ROWS_AT_ONCE) {
                    column.index.read_rows(rows, read, io, &mut |row, bytes| {
                        seen += 1;
                        each(Place::Segment { index, row }, bytes);
                        Ok(())
                    })?;
                }
            }
            Place::Memtable { index, .. } => {
                for row in rows {
                    let memtable = &context.view.memtables[index as usize].memtable;
                    if let Some(bytes) = memtable.row(row).vector(slot) {
                        seen += 1;
                        each(Place::Memtable { index, row }, bytes);
                    }
                }
            }
        }
    }
    Ok(seen)
}
