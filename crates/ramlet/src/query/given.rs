//! Points that a request names with their scores: what another search found, of a reranker or of all parts of a divided collection.

use ramlet_memory::Consumer;

use super::Scratch;
use super::found::{Found, FoundList};
use crate::error::{Error, Result};
use crate::filter::CompiledFilter;
use crate::limits::LIMIT_MAX;
use crate::read::lookup::Lookup;
use crate::read::matching::place_matches;
use crate::read::view::View;
use crate::types::PointId;

/// Refuses what no list of a search could be.
pub fn check(points: &[(PointId, f32)]) -> Result<()> {
    let bad = |what: String| Err(Error::bad_input(format!("Wrong input: query.given: {what}")));
    if points.len() > LIMIT_MAX {
        return bad(format!(
            "{} points, at most {LIMIT_MAX} are possible",
            points.len()
        ));
    }
    match points.iter().find(|(_, score)| !score.is_finite()) {
        Some((id, score)) => bad(format!("the score of point {id} is {score}")),
        None => Ok(()),
    }
}

/// Those that are there and match, each once, in the order in which they are given.
pub fn given(
    view: &View,
    points: &[(PointId, f32)],
    filter: Option<&CompiledFilter>,
    scratch: &mut Scratch,
) -> Result<FoundList> {
    let Lookup { rare, .. } = &scratch.lookup;
    let mut list = FoundList::with_room(points.len(), rare)?;
    let (order, _held) = by_id(points, rare)?;
    let mut found: Vec<(usize, Found)> = Vec::with_capacity(order.len());
    for at in order {
        let (id, score) = points[at];
        let Some(place) = view.find(id, &mut scratch.lookup)? else {
            continue;
        };
        let Lookup { io, buf, .. } = &mut scratch.lookup;
        let matches = match filter {
            Some(filter) => place_matches(view, place, filter, io, buf)?,
            None => true,
        };
        if matches {
            found.push((at, Found { place, score }));
        }
    }
    found.sort_unstable_by_key(|(at, _)| *at);
    list.found.extend(found.into_iter().map(|(_, found)| found));
    Ok(list)
}

/// Places in the list, by the ids there: neighbours are looked up together. Of the same id the first.
fn by_id(points: &[(PointId, f32)], from: &Consumer) -> Result<(Vec<usize>, ramlet_memory::Reservation)> {
    const BYTES: usize = size_of::<usize>() + size_of::<(usize, Found)>();
    let held = from.reserve((points.len() * BYTES) as u64)?;
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_unstable_by_key(|at| (points[*at].0, *at));
    order.dedup_by_key(|at| points[*at].0);
    Ok((order, held))
}
