//! Random points.

use roaring::RoaringBitmap;

use crate::error::Result;
use crate::filter::CompiledFilter;
use crate::read::lookup::Lookup;
use crate::read::matching;
use crate::read::view::{Place, View};

/// At most `wanted` live points that match, each as likely as any other, in no order. `seed` decides which.
pub fn sample(
    view: &View,
    filter: Option<&CompiledFilter>,
    wanted: usize,
    seed: u64,
    lookup: &mut Lookup,
) -> Result<Vec<Place>> {
    let mut picked = Picked {
        places: Vec::new(),
        wanted,
        seen: 0,
        skip: 0,
        weight: 1.0,
        random: seed | 1,
    };
    if wanted == 0 {
        return Ok(Vec::new());
    }
    for (index, segment) in view.segments.iter().enumerate() {
        let (rows, _held) = matching::matching_rows(&view.schema, segment, filter, lookup)?;
        picked.offer(rows.len(), |nth| {
            nth_row(&rows, nth).map(|row| Place::Segment {
                index: index as u32,
                row,
            })
        });
    }
    for (index, memtable) in view.memtables.iter().enumerate() {
        let matching = |row: &u32| filter.is_none_or(|f| f.matches(&memtable.memtable.row(*row)));
        let rows: RoaringBitmap = memtable.live_rows().filter(matching).collect();
        picked.offer(rows.len(), |nth| {
            nth_row(&rows, nth).map(|row| Place::Memtable {
                index: index as u32,
                row,
            })
        });
    }
    Ok(picked.places)
}

fn nth_row(rows: &RoaringBitmap, nth: u64) -> Option<u32> {
    u32::try_from(nth).ok().and_then(|nth| rows.select(nth))
}

/// A reservoir that skips ahead (Li 1994, algorithm L): the work grows with the logarithm of what is offered.
struct Picked {
    places: Vec<Place>,
    wanted: usize,
    /// Offered in earlier calls.
    seen: u64,
    /// The next one to be taken, counted from the first ever offered; of meaning once the reservoir is full.
    skip: u64,
    weight: f64,
    random: u64,
}

impl Picked {
    fn offer(&mut self, count: u64, place: impl Fn(u64) -> Option<Place>) {
        let mut nth = 0;
        while nth < count && self.places.len() < self.wanted {
            self.places.extend(place(nth));
            nth += 1;
            if self.places.len() == self.wanted {
                self.skip = self.seen + nth;
                self.jump();
            }
        }
        while self.places.len() == self.wanted && self.skip < self.seen + count {
            let at = (self.next() % self.wanted as u64) as usize;
            if let Some(place) = place(self.skip - self.seen) {
                self.places[at] = place;
            }
            self.skip += 1;
            self.jump();
        }
        self.seen += count;
    }

    /// Lets `skip` pass over those that aren't taken.
    fn jump(&mut self) {
        self.weight *= (self.unit().ln() / self.wanted as f64).exp();
        let over = (self.unit().ln() / (1.0 - self.weight).ln()).floor();
        // Saturates: beyond what can ever be offered.
        self.skip = self.skip.saturating_add(over as u64);
    }

    /// xorshift64*.
    fn next(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    /// Above 0, at most 1.
    fn unit(&mut self) -> f64 {
        (self.next() + 1) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_as_likely_as_any_other() {
        const OFFERED: u64 = 40;
        const ROUNDS: u64 = 20_000;
        let mut counts = [0u32; OFFERED as usize];
        for seed in 0..ROUNDS {
            let mut picked = Picked {
                places: Vec::new(),
                wanted: 5,
                seen: 0,
                skip: 0,
                weight: 1.0,
                random: (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            };
            // In three parts, the first smaller than what is wanted.
            for (from, count) in [(0, 3), (3, 30), (33, 7)] {
                picked.offer(count, |nth| {
                    Some(Place::Memtable {
                        index: 0,
                        row: (from + nth) as u32,
                    })
                });
            }
            let mut rows: Vec<u32> = picked
                .places
                .iter()
                .map(|place| match place {
                    Place::Memtable { row, .. } | Place::Segment { row, .. } => *row,
                })
                .collect();
            rows.sort_unstable();
            rows.dedup();
            assert_eq!(rows.len(), 5, "no point twice");
            rows.iter().for_each(|row| counts[*row as usize] += 1);
        }
        let expected = (ROUNDS * 5 / OFFERED) as f64;
        for (row, count) in counts.iter().enumerate() {
            let off = (f64::from(*count) - expected).abs() / expected.sqrt();
            assert!(
                off < 5.0,
                "row {row} was picked {count} times, expected {expected}"
            );
        }
    }
}
