//! Points ordered by id, by a field, or at random.

use super::Scratch;
use super::candidates::Scope;
use super::found::{Found, FoundList};
use crate::error::Result;
use crate::filter::CompiledFilter;
use crate::filter::index::order_values_of;
use crate::read::sample::sample;
use crate::read::scroll::{Ordered, ordered_field, places_by_id, places_by_value, sort, within};
use crate::read::view::View;
use crate::request::{Direction, OrderBy};

/// Score of points that nothing scored.
pub const UNSCORED: f32 = 1.0;

/// In the order of their ids.
pub fn by_id(
    view: &View,
    filter: Option<&CompiledFilter>,
    k: usize,
    scratch: &mut Scratch,
) -> Result<FoundList> {
    let mut list = FoundList::with_room(k, &scratch.lookup.rare)?;
    let found = &mut list.found;
    places_by_id(
        view,
        (None, k),
        filter,
        &mut scratch.lookup,
        &mut |_, place, _| {
            found.push(Found {
                place,
                score: UNSCORED,
            });
            Ok(())
        },
    )?;
    Ok(list.fit(k))
}

/// In the order of a field's values.
pub fn by_value(
    view: &View,
    order: &OrderBy,
    filter: Option<&CompiledFilter>,
    scope: Scope<'_>,
    k: usize,
    scratch: &mut Scratch,
) -> Result<FoundList> {
    let mut list = FoundList::with_room(2 * k, &scratch.lookup.rare)?;
    let ordered = match scope {
        Scope::All => places_by_value(view, order, k, filter, &mut scratch.lookup)?,
        Scope::Among(points) => values_among(view, order, points, scratch)?,
    };
    for Ordered { value, place } in ordered.into_iter().take(k) {
        list.found.push(Found {
            place,
            score: UNSCORED,
        });
        list.orders.push(value);
    }
    Ok(list.fit(k))
}

fn values_among(
    view: &View,
    order: &OrderBy,
    points: &[Found],
    scratch: &mut Scratch,
) -> Result<Vec<Ordered>> {
    let (field, path) = ordered_field(view, order)?;
    let mut ordered = Vec::with_capacity(points.len());
    for found in points {
        let payload = view.payload_of(found.place, &mut scratch.lookup)?;
        order_values_of(field.kind, &path, &payload, &mut |value| {
            if within(value, order) {
                ordered.push(Ordered {
                    value,
                    place: found.place,
                });
            }
        });
    }
    sort(&mut ordered, order.direction == Direction::Desc);
    Ok(ordered)
}

/// So many, at random: every set of them is as likely, in every order.
pub fn at_random(
    view: &View,
    filter: Option<&CompiledFilter>,
    scope: Scope<'_>,
    (k, seed): (usize, u64),
    scratch: &mut Scratch,
) -> Result<FoundList> {
    let mut list = FoundList::with_room(k, &scratch.lookup.rare)?;
    match scope {
        Scope::Among(points) => list.found.extend_from_slice(points),
        Scope::All => {
            let places = sample(view, filter, k, seed, &mut scratch.lookup)?;
            list.found.extend(places.into_iter().map(|place| Found {
                place,
                score: UNSCORED,
            }));
        }
    }
    let mut random = seed | 1;
    for at in (1..list.found.len()).rev() {
        // xorshift64.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        list.found.swap(at, ((random >> 1) % (at as u64 + 1)) as usize);
    }
    for found in &mut list.found {
        found.score = UNSCORED;
    }
    Ok(list.fit(k))
}
