//! Maximal marginal relevance (Carbonell and Goldstein, 1998): each next point is near the query and unlike those before it.

use super::Scratch;
use super::found::{Found, FoundList};
use super::scan::each_vector;
use super::scorer::Probe;
use super::segment::SearchContext;
use crate::error::{Error, Result};
use crate::limits::MMR_WORK_MAX;
use crate::schema::VectorKind;
use crate::write::encoding::decode_vector;

/// Share of diversity where none is given.
pub const DIVERSITY_DEFAULT: f32 = 0.5;

/// Chooses up to `limit` of the candidates; they keep their scores.
pub fn rerank(
    context: &SearchContext<'_>,
    query: &Probe,
    candidates: &FoundList,
    (diversity, limit): (f32, usize),
    scratch: &mut Scratch,
) -> Result<FoundList> {
    let limit = limit.min(candidates.found.len());
    let mut chosen = FoundList::with_room(limit, &scratch.lookup.rare)?;
    if limit == 0 {
        return Ok(chosen);
    }
    check_work(context, candidates.found.len(), limit)?;
    let rows = Rows::read(context, &candidates.found, scratch)?;
    let mut pending: Vec<Pending> = (0..candidates.found.len())
        .filter_map(|at| {
            Some(Pending {
                at,
                relevance: query.similarity(rows.get(at)?),
                nearest_chosen: f32::NEG_INFINITY,
            })
        })
        .collect();
    let turned = Turned::of(context, &rows, scratch)?;
    let lambda = 1.0 - diversity;
    while chosen.found.len() < limit && !pending.is_empty() {
        let first = chosen.found.is_empty();
        let value = |p: &Pending| match first {
            true => p.relevance,
            false => lambda * p.relevance - (1.0 - lambda) * p.nearest_chosen,
        };
        let next = last_most(&pending, &value);
        if !first && value(&pending[next]) == f32::NEG_INFINITY {
            break;
        }
        let next = pending.swap_remove(next);
        chosen.found.push(candidates.found[next.at]);
        let Some(row) = rows.get(next.at) else { continue };
        if let Some(turned) = &turned {
            for other in &mut pending {
                let Some(probe) = &turned.probes[other.at] else {
                    continue;
                };
                other.nearest_chosen = other.nearest_chosen.max(probe.similarity(row));
            }
            continue;
        }
        let probe = Probe::new(context.field, &decode_vector(context.field, row)?)?;
        for other in &mut pending {
            let Some(row) = rows.get(other.at) else { continue };
            other.nearest_chosen = other.nearest_chosen.max(probe.similarity(row));
        }
    }
    Ok(chosen)
}

/// The candidates as queries: how similar two multivectors are depends on which of them asks, and in the API the one does
/// that isn't chosen yet.
struct Turned {
    probes: Vec<Option<Probe>>,
    _held: ramlet_memory::Reservation,
}

impl Turned {
    /// `None` where it makes no difference.
    fn of(context: &SearchContext<'_>, rows: &Rows, scratch: &Scratch) -> Result<Option<Turned>> {
        if context.field.kind != VectorKind::Multi {
            return Ok(None);
        }
        // Numbers of one to four bytes, decoded and made ready.
        let held = scratch.lookup.rare.reserve(8 * rows.bytes.len() as u64)?;
        let probe = |at: usize| -> Result<Option<Probe>> {
            let Some(row) = rows.get(at) else { return Ok(None) };
            Ok(Some(Probe::new(
                context.field,
                &decode_vector(context.field, row)?,
            )?))
        };
        let probes = (0..rows.spans.len()).map(probe).collect::<Result<_>>()?;
        Ok(Some(Turned { probes, _held: held }))
    }
}

fn check_work(context: &SearchContext<'_>, candidates: usize, limit: usize) -> Result<()> {
    let work = candidates as u64 * limit as u64 * context.field.dim.max(1) as u64;
    if work <= MMR_WORK_MAX {
        return Ok(());
    }
    Err(Error::bad_input(format!(
        "Wrong input: mmr of {limit} points out of {candidates} takes {work} multiplications, at most {MMR_WORK_MAX} are possible"
    )))
}

struct Pending {
    at: usize,
    /// To the query.
    relevance: f32,
    /// Similarity to the most similar of those chosen.
    nearest_chosen: f32,
}

/// Of equal ones the last.
fn last_most(pending: &[Pending], value: &dyn Fn(&Pending) -> f32) -> usize {
    let mut best = 0;
    for (at, candidate) in pending.iter().enumerate() {
        if value(candidate) >= value(&pending[best]) {
            best = at;
        }
    }
    best
}

/// The encoded vectors of the candidates.
struct Rows {
    bytes: Vec<u8>,
    /// Where each candidate's begins and ends.
    spans: Vec<Option<(usize, usize)>>,
    _held: ramlet_memory::Reservation,
}

impl Rows {
    fn read(context: &SearchContext<'_>, found: &[Found], scratch: &mut Scratch) -> Result<Rows> {
        let each = context.field.row_bytes() + 64;
        let mut held = scratch.lookup.rare.reserve((found.len() * each) as u64)?;
        let mut places: Vec<(u64, usize)> = found.iter().map(Found::key).zip(0..).collect();
        places.sort_unstable();
        let mut bytes = Vec::with_capacity(found.len() * context.field.row_bytes());
        let (mut spans, mut room) = (vec![None; found.len()], Ok(()));
        each_vector(context, found, scratch, &mut |place, row| {
            let key = Found { place, score: 0.0 }.key();
            // Rows of a length of their own may be longer than thought.
            let more = (bytes.len() + row.len()) as u64;
            if room.is_ok() && more > held.bytes() {
                room = held.grow(more.max(1 << 16));
            }
            if room.is_err() {
                return;
            }
            if let Ok(at) = places.binary_search_by_key(&key, |(key, _)| *key) {
                spans[places[at].1] = Some((bytes.len(), bytes.len() + row.len()));
                bytes.extend_from_slice(row);
            }
        })?;
        room?;
        Ok(Rows {
            bytes,
            spans,
            _held: held,
        })
    }

    fn get(&self, at: usize) -> Option<&[u8]> {
        let (start, end) = self.spans[at]?;
        self.bytes.get(start..end)
    }
}
