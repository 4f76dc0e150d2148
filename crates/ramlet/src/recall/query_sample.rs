//! A sample of an index's first queries. The index was calibrated on its own rows, and real queries may be out of distribution.

use ramlet_index::{Element, Metric, decode_row, encode_row};
use ramlet_memory::{Consumer, Reservation};

/// Queries that an index is measured on: with as many a recall of .95 has a standard error of .007 or so.
pub const KEPT: usize = 256;

/// Bytes of kept queries at most: fewer are kept of many dimensions.
const KEPT_BYTES_MAX: u64 = 1 << 20;
/// And of all memory for such queries at most this part: an index has its first queries and its last ones.
const PART: u64 = 2;

/// Fewer say too little.
const KEPT_LEAST: usize = 16;

/// Where so many times as many have come as would be kept, and some of these at least differ, others are not to be expected.
const TIMES: usize = 16;
const FEW: usize = 64;

/// How many of so many dimensions are kept; `None`: they are too long for this memory.
pub fn room(dims: usize, from: &Consumer) -> Option<usize> {
    let bytes = (from.cap() / PART).min(KEPT_BYTES_MAX) as usize;
    let room = (bytes / HalfVector::bytes(dims).max(1)).min(KEPT);
    (room >= KEPT_LEAST).then_some(room)
}

/// A vector in half the memory. The neighbours that are measured with it are its own, so it needn't be exact: each component is off by a 2,000th of
/// itself, or by a millionth of the largest.
pub struct HalfVector {
    row: Vec<u8>,
    /// A power of two, by which all components become small enough.
    scale: f32,
}

impl HalfVector {
    pub fn bytes(dims: usize) -> usize {
        Element::F16.row_bytes(dims)
    }

    pub fn new(vector: &[f32]) -> HalfVector {
        const EXPONENT: u32 = 0x7F80_0000;
        let largest = vector.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        // Whole numbers up to 2,048 stay whole.
        let scale = f32::from_bits(largest.to_bits() & EXPONENT).max(f32::MIN_POSITIVE);
        let scaled: Vec<f32> = vector.iter().map(|value| value / scale).collect();
        let mut row = Vec::new();
        encode_row(Metric::Dot, Element::F16, &scaled, &mut row);
        HalfVector { row, scale }
    }

    pub fn to_vec(&self) -> Vec<f32> {
        let mut vector = Vec::with_capacity(self.row.len() / size_of::<u16>());
        decode_row(Element::F16, &self.row, &mut vector);
        vector.iter_mut().for_each(|value| *value *= self.scale);
        vector
    }
}

/// A query in reserved memory.
pub struct Kept {
    query: HalfVector,
    held: Reservation,
}

impl Kept {
    /// `None` rather than memory that somebody needs.
    pub fn new(query: &[f32], from: &Consumer) -> Option<Kept> {
        let held = from.reserve(HalfVector::bytes(query.len()) as u64).ok()?;
        let query = HalfVector::new(query);
        Some(Kept { query, held })
    }
}

/// Mean of what queries find, and its standard error.
pub fn mean_and_error(recalls: impl ExactSizeIterator<Item = f64> + Clone) -> (f64, f64) {
    let count = recalls.len().max(1) as f64;
    let mean = recalls.clone().sum::<f64>() / count;
    let variance = recalls.map(|recall| (recall - mean).powi(2)).sum::<f64>() / count;
    (mean, (variance / count).sqrt())
}

/// Queries to measure an index on.
pub struct QuerySample {
    pub slot: u16,
    pub queries: Vec<HalfVector>,
    _held: Vec<Reservation>,
}

impl QuerySample {
    pub fn new(slot: u16, kept: impl Iterator<Item = Kept>) -> QuerySample {
        let (queries, held) = kept.map(|kept| (kept.query, kept.held)).unzip();
        QuerySample {
            slot,
            queries,
            _held: held,
        }
    }
}

/// Gathers the first queries on a vector.
pub struct FirstQueries {
    pub slot: u16,
    /// Its name.
    pub vector: String,
    room: usize,
    kept: Vec<Kept>,
    /// Of what is kept: one that comes again is known without a look at all of it.
    hashes: Vec<u64>,
    came: usize,
    taken: bool,
}

impl FirstQueries {
    /// `None`: its vectors are too long.
    pub fn new(slot: u16, vector: &str, dims: usize, from: &Consumer) -> Option<FirstQueries> {
        Some(FirstQueries {
            slot,
            vector: vector.to_owned(),
            room: room(dims, from)?,
            kept: Vec::new(),
            hashes: Vec::new(),
            came: 0,
            taken: false,
        })
    }

    /// One that was asked before says nothing more.
    pub fn offer(&mut self, query: &[f32], from: &Consumer) {
        if self.is_full() {
            return;
        }
        self.came += 1;
        let hash = hash_of(query);
        if self.hashes.contains(&hash) {
            return;
        }
        match Kept::new(query, from) {
            Some(kept) => {
                self.kept.push(kept);
                self.hashes.push(hash);
            }
            // Others hold the rest, and may hold it for long.
            None if self.kept.len() >= KEPT_LEAST => self.room = self.kept.len(),
            None => {}
        }
    }

    pub fn is_full(&self) -> bool {
        let (count, few) = (self.kept.len(), FEW.min(self.room));
        self.taken || count == self.room || count >= few && self.came >= TIMES * self.room
    }

    pub fn is_due(&self) -> bool {
        self.is_full() && !self.taken
    }

    /// Them all, once.
    pub fn take(&mut self) -> Option<QuerySample> {
        let due = self.is_due();
        due.then(|| {
            (self.taken, self.hashes) = (true, Vec::new());
            QuerySample::new(self.slot, std::mem::take(&mut self.kept).into_iter())
        })
    }
}

/// FNV-1a, by floats. What two queries share by chance costs one of them its place.
fn hash_of(query: &[f32]) -> u64 {
    query.iter().fold(0xCBF2_9CE4_8422_2325, |hash, value| {
        (hash ^ u64::from(value.to_bits())).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use ramlet_memory::Ledger;

    use super::*;

    #[test]
    fn the_first_different_queries_are_taken_once() {
        let ledger = Ledger::new(4 << 20);
        let from = ledger.consumer("test", u64::MAX);
        let mut first = FirstQueries::new(3, "v", 2, &from).expect("short ones");
        (0..2 * KEPT).for_each(|i| first.offer(&[(i / 4) as f32, 1.0], &from));
        assert!(!first.is_due(), "one in four is another");
        (0..2 * KEPT).for_each(|i| first.offer(&[i as f32, 1.0], &from));
        let sample = first.take().expect("enough");
        assert_eq!((sample.slot, sample.queries.len()), (3, KEPT));
        assert!(ledger.used() > 0);
        drop(sample);
        (0..KEPT).for_each(|i| first.offer(&[i as f32, 2.0], &from));
        assert!(first.take().is_none() && first.is_full() && ledger.used() == 0);
    }

    #[test]
    fn the_same_few_are_taken_when_no_others_come() {
        let ledger = Ledger::new(4 << 20);
        let from = ledger.consumer("test", u64::MAX);
        for (differing, enough) in [(1, false), (FEW - 1, false), (FEW, true), (100, true)] {
            let mut first = FirstQueries::new(0, "", 2, &from).expect("short ones");
            (0..TIMES * KEPT - 1).for_each(|i| first.offer(&[(i % differing) as f32, 0.0], &from));
            assert!(!first.is_due(), "{differing}: others may come");
            first.offer(&[0.0, 0.0], &from);
            assert_eq!(first.is_due(), enough, "{differing}");
            let taken = first.take().map(|sample| sample.queries.len());
            assert_eq!(taken, enough.then_some(differing));
        }
    }

    #[test]
    fn long_queries_are_fewer() {
        let ledger = Ledger::new(64 << 20);
        let of_cap = |name, cap| ledger.consumer(name, cap);
        let (ample, little) = (of_cap("ample", 4 << 20), of_cap("little", 500_000));
        for (from, dims, enough) in [
            (&ample, 1_536, 256),
            (&ample, 4_096, 128),
            (&ample, 32_768, 16),
            (&little, 192, 256),
            (&little, 1_536, 81),
        ] {
            assert_eq!(room(dims, from), Some(enough), "{dims}");
            assert!((enough * dims * 2) as u64 <= KEPT_BYTES_MAX.min(from.cap() / PART));
        }
        assert_eq!((room(32_769, &ample), room(8_192, &little)), (None, None));
    }

    #[test]
    fn halves_are_near_and_small_whole_numbers_exact() {
        let whole: Vec<f32> = (-2_048i16..=2_048).map(f32::from).collect();
        assert_eq!(HalfVector::new(&whole).to_vec(), whole);
        for scale in [1e-38, 1e-20, 0.01, 1.0, 3e4, 1e20, 3e38] {
            let vector: Vec<f32> = (1..=1_000u16)
                .map(|n| (f32::from(n) * 0.7).sin() * scale)
                .collect();
            let back = HalfVector::new(&vector).to_vec();
            for (value, back) in vector.iter().zip(back) {
                let off = (value - back).abs();
                assert!(
                    off <= value.abs() / 2_000.0 || off <= scale * 1e-6,
                    "{value} {back}"
                );
            }
        }
        assert_eq!(HalfVector::new(&[0.0; 3]).to_vec(), [0.0; 3]);
    }

    /// Where others hold the memory, those that found room are enough, and no more is tried.
    #[test]
    fn what_finds_no_room_is_not_waited_for() {
        let ledger = Ledger::new(4 << 20);
        let from = ledger.consumer("test", 1 << 20);
        let row = vec![0.0; 1_024];
        let query = |i: usize| row.iter().map(|_| i as f32).collect::<Vec<f32>>();
        let others = from.reserve((1 << 20) - 20 * 2_048).expect("room");
        let mut first = FirstQueries::new(0, "", 1_024, &from).expect("short ones");
        (0..20).for_each(|i| first.offer(&query(i), &from));
        assert!(!first.is_due());
        first.offer(&query(20), &from);
        assert_eq!(first.take().map(|sample| sample.queries.len()), Some(20));
        drop(others);
        let others = from.reserve((1 << 20) - 4 * 2_048).expect("room");
        let mut first = FirstQueries::new(0, "", 1_024, &from).expect("short ones");
        (0..20).for_each(|i| first.offer(&query(i), &from));
        assert!(!first.is_full(), "too few to say anything");
        drop(others);
    }
}
