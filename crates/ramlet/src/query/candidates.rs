//! The best rows by a score: all of a few points are scored; of many, those that the index finds near the examples.

use ramlet_index::TopK;
use ramlet_memory::Reservation;

use super::found::{Found, FoundList};
use super::scan::{among, scan};
use super::scorer::Scorer;
use super::segment::SearchContext;
use super::{Scratch, aim, place_of, search_all};
use crate::error::Result;
use crate::request::SearchCost;
use crate::schema::VectorKind;
use crate::types::vector::Vector;

/// Bytes of vectors under approximate indexes that are rather read whole than searched.
const SCAN_BYTES: u64 = 8 << 20;
/// Rows that an index is asked for beyond those wanted.
const MORE_ROWS: usize = 32;

/// The points to choose from.
#[derive(Clone, Copy)]
pub enum Scope<'a> {
    /// All that match.
    All,
    /// These, which match.
    Among(&'a [Found]),
}

/// The `k` best points.
pub fn best(
    context: &SearchContext<'_>,
    scorer: &Scorer,
    scope: Scope<'_>,
    k: usize,
    scratch: &mut Scratch,
    cost: &mut SearchCost,
) -> Result<FoundList> {
    let room = match scope {
        Scope::All => k.min(usize::try_from(context.view.points()).unwrap_or(usize::MAX)),
        Scope::Among(points) => k.min(points.len()),
    };
    let list = FoundList::with_room(room, &scratch.lookup.rare)?;
    let (mut top, _held) = collector(room, scratch)?;
    if room == 0 {
        return Ok(list);
    }
    match scope {
        Scope::Among(points) => cost.rows_scanned += among(context, points, scorer, scratch, &mut top)?,
        Scope::All => {
            if !near_seeds(context, scorer, room, scratch, &mut top, cost)? {
                top.clear(room);
                cost.rows_scanned += scan(context, scorer, scratch, &mut top)?;
            }
        }
    }
    Ok(taken(context, scorer, &mut top, list))
}

fn collector(k: usize, scratch: &Scratch) -> Result<(TopK, Reservation)> {
    let held = scratch.lookup.rare.reserve(TopK::bytes_for(k) as u64)?;
    Ok((TopK::new(k), held))
}

fn taken(context: &SearchContext<'_>, scorer: &Scorer, top: &mut TopK, mut list: FoundList) -> FoundList {
    let sparse = context.field.kind == VectorKind::Sparse;
    let hits = top.sorted().iter();
    // Where nothing is shared there is no hit.
    let hits = hits.filter(|hit| !sparse || hit.distance < f32::INFINITY);
    list.found.extend(hits.map(|hit| Found {
        place: place_of(context.view, hit),
        score: scorer.score(context.field.metric, hit.distance),
    }));
    let n = list.found.len();
    list.fit(n)
}

/// Scores what the index finds near the seeds of a score; false: that isn't possible, or not worth it, or didn't settle it.
fn near_seeds(
    context: &SearchContext<'_>,
    scorer: &Scorer,
    k: usize,
    scratch: &mut Scratch,
    top: &mut TopK,
    cost: &mut SearchCost,
) -> Result<bool> {
    if context.want.exact || indexed_bytes(context) <= SCAN_BYTES {
        return Ok(false);
    }
    let Some((seeds, times)) = scorer.seeds(context.field) else {
        return Ok(false);
    };
    let each = k.saturating_mul(times).saturating_add(MORE_ROWS);
    let points = usize::try_from(context.view.points()).unwrap_or(usize::MAX);
    let each = each.min(points);
    let most = each.saturating_mul(seeds.len()).min(points.saturating_add(each));
    let mut near = FoundList::with_room(most, &scratch.lookup.rare)?;
    for seed in seeds {
        aim(context.field, &Vector::Dense(seed), scratch)?;
        scratch.top.clear(each);
        let spent = search_all(context, scratch, None)?;
        cost.add_all(&spent);
        let hits = scratch.top.sorted().iter();
        near.found.extend(hits.map(|hit| Found {
            place: place_of(context.view, hit),
            score: 0.0,
        }));
        if near.found.len() + each > most {
            near.found.sort_unstable_by_key(Found::key);
            near.found.dedup();
        }
    }
    near.found.sort_unstable_by_key(Found::key);
    near.found.dedup();
    cost.rows_scanned += among(context, &near.found, scorer, scratch, top)?;
    let settled = top.len() == k
        && top
            .sorted()
            .last()
            .is_some_and(|hit| scorer.is_settled(context.field, hit.distance));
    Ok(settled)
}

/// Bytes of the vectors that only an approximate index is quick to find.
fn indexed_bytes(context: &SearchContext<'_>) -> u64 {
    let segments = context.view.segments.iter();
    let indexed = segments.filter_map(|segment| {
        let column = segment.segment.vector(context.field.slot)?;
        (column.index.kind() != "flat").then(|| u64::from(segment.live()))
    });
    indexed.sum::<u64>() * context.field.row_bytes() as u64
}
