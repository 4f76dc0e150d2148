//! The results of a query stage.

use ramlet_memory::{Consumer, Reservation};

use crate::error::Result;
use crate::read::view::Place;
use crate::types::OrderValue;

/// A point of the view, and its score in the stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    pub place: Place,
    pub score: f32,
}

impl Found {
    /// One number for each place, ascending by segment, then memtable, then row.
    pub fn key(&self) -> u64 {
        match self.place {
            Place::Segment { index, row } => u64::from(index) << 32 | u64::from(row),
            Place::Memtable { index, row } => 1 << 63 | u64::from(index) << 32 | u64::from(row),
        }
    }
}

/// Points of a stage, best first. Holds [`FOUND_BYTES`] a point.
pub struct FoundList {
    pub found: Vec<Found>,
    /// The value of each, where the order is that of a field.
    pub orders: Vec<OrderValue>,
    pub held: Reservation,
}

/// Bytes reserved for a point of a list: itself, its value, and a copy while lists are merged.
pub const FOUND_BYTES: u64 = (2 * size_of::<Found>() + size_of::<OrderValue>()) as u64;

impl FoundList {
    /// Room for so many.
    pub fn with_room(most: usize, from: &Consumer) -> Result<FoundList> {
        Ok(FoundList {
            found: Vec::new(),
            orders: Vec::new(),
            held: from.reserve((most as u64).saturating_mul(FOUND_BYTES))?,
        })
    }

    /// Keeps the first `most`, and gives back the rest of the room.
    pub fn fit(mut self, most: usize) -> FoundList {
        self.found.truncate(most);
        self.orders.truncate(most);
        self.found.shrink_to_fit();
        self.held.shrink_to(self.found.len() as u64 * FOUND_BYTES);
        self
    }
}

/// All points of the lists, each once, in the order in which they come first; their scores are those of the first list.
pub fn union(lists: &[FoundList], from: &Consumer) -> Result<FoundList> {
    let all: usize = lists.iter().map(|list| list.found.len()).sum();
    let mut merged = FoundList::with_room(all, from)?;
    let mut seen: Vec<(u64, usize, Found)> = lists
        .iter()
        .flat_map(|list| &list.found)
        .enumerate()
        .map(|(at, found)| (found.key(), at, *found))
        .collect();
    seen.sort_unstable_by_key(|(key, at, _)| (*key, *at));
    seen.dedup_by_key(|(key, ..)| *key);
    seen.sort_unstable_by_key(|(_, at, _)| *at);
    merged.found = seen.into_iter().map(|(.., found)| found).collect();
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_places_are() {
        let key = |place| Found { place, score: 0.0 }.key();
        let places = [
            Place::Segment { index: 0, row: 1 },
            Place::Segment {
                index: 0,
                row: u32::MAX,
            },
            Place::Segment { index: 1, row: 0 },
            Place::Memtable { index: 0, row: 0 },
            Place::Memtable { index: 1, row: 0 },
        ];
        assert!(places.windows(2).all(|two| key(two[0]) < key(two[1])));
    }
}
