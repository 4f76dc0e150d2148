//! Points in an order that no vector gives: by id, by a field, at random.

use super::Scratch;
use super::candidates::Scope;
use super::found::{Found, FoundList};
use crate::error::Result;
use crate::filter::CompiledFilter;
use crate::filter::index::order_values_of;
use crate::lookup::Lookup;
use crate::matching;
use crate::request::{Direction, OrderBy};
use crate::scroll::{Ordered, ordered_field, places_by_id, places_by_value, sort, within};
use crate::view::{Place, View};

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
pub fn sample(
    view: &View,
    filter: Option<&CompiledFilter>,
    scope: Scope<'_>,
    (k, seed): (usize, u64),
    scratch: &mut Scratch,
) -> Result<FoundList> {
    let mut list = FoundList::with_room(k, &scratch.lookup.rare)?;
    let mut drawn = Reservoir {
        k,
        seen: 0,
        random: seed | 1,
        places: &mut list.found,
    };
    match scope {
        Scope::Among(points) => points.iter().for_each(|found| drawn.offer(found.place)),
        Scope::All => offer_all(view, filter, &mut drawn, &mut scratch.lookup)?,
    }
    drawn.shuffle();
    Ok(list.fit(k))
}

fn offer_all(
    view: &View,
    filter: Option<&CompiledFilter>,
    drawn: &mut Reservoir<'_>,
    lookup: &mut Lookup,
) -> Result<()> {
    for (index, segment) in view.segments.iter().enumerate() {
        let index = index as u32;
        let Some(filter) = filter else {
            let live = (0..segment.segment.rows()).filter(|row| !segment.deletes.contains(*row));
            live.for_each(|row| drawn.offer(Place::Segment { index, row }));
            continue;
        };
        let Lookup { io, buf, rare, .. } = &mut *lookup;
        let (rows, _held) = matching::matching_rows(&view.schema, segment, Some(filter), io, buf, rare)?;
        rows.iter()
            .for_each(|row| drawn.offer(Place::Segment { index, row }));
    }
    for (index, buffer) in view.buffers.iter().enumerate() {
        let matching = buffer
            .live_rows()
            .filter(|&row| filter.is_none_or(|f| f.matches(&buffer.buffer.row(row))));
        matching.for_each(|row| {
            drawn.offer(Place::Buffer {
                index: index as u32,
                row,
            });
        });
    }
    Ok(())
}

/// The first `k`, each later one in the place of a random one with the chance that it should have (Vitter's algorithm R).
struct Reservoir<'a> {
    k: usize,
    seen: u64,
    random: u64,
    places: &'a mut Vec<Found>,
}

impl Reservoir<'_> {
    fn offer(&mut self, place: Place) {
        self.seen += 1;
        let found = Found {
            place,
            score: UNSCORED,
        };
        if self.places.len() < self.k {
            return self.places.push(found);
        }
        let at = self.next() % self.seen;
        if let Some(slot) = self.places.get_mut(at as usize) {
            *slot = found;
        }
    }

    fn shuffle(&mut self) {
        for at in (1..self.places.len()).rev() {
            let other = self.next() % (at as u64 + 1);
            self.places.swap(at, other as usize);
        }
    }

    /// xorshift64*.
    fn next(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 1
    }
}
