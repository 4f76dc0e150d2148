//! The deleted rows of a segment or memtable: a bitmap whose copies share equal chunks.
//!
//! Readers hold a copy that never changes; the writer changes its own and copies only the 4 KiB it touches.

use std::sync::Arc;

use roaring::RoaringBitmap;

const WORDS: usize = 512;
const ROWS_PER_CHUNK: u32 = (WORDS * 64) as u32;

/// A set of rows. Heap: 4 KiB for each 32,768 rows that hold a deleted one, shared between copies.
#[derive(Clone, Default)]
pub struct DeleteSet {
    chunks: Arc<Vec<Option<Arc<[u64; WORDS]>>>>,
    count: u32,
}

impl DeleteSet {
    pub fn contains(&self, row: u32) -> bool {
        let Some(Some(chunk)) = self.chunks.get((row / ROWS_PER_CHUNK) as usize) else {
            return false;
        };
        let bit = row % ROWS_PER_CHUNK;
        chunk[(bit / 64) as usize] >> (bit % 64) & 1 == 1
    }

    /// Returns whether the row was there to delete.
    pub fn insert(&mut self, row: u32) -> bool {
        if self.contains(row) {
            return false;
        }
        let chunks = Arc::make_mut(&mut self.chunks);
        let at = (row / ROWS_PER_CHUNK) as usize;
        if chunks.len() <= at {
            chunks.resize(at + 1, None);
        }
        let chunk = chunks[at].get_or_insert_with(|| Arc::new([0; WORDS]));
        let bit = row % ROWS_PER_CHUNK;
        Arc::make_mut(chunk)[(bit / 64) as usize] |= 1 << (bit % 64);
        self.count += 1;
        true
    }

    pub fn len(&self) -> u32 {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What counts the deleted rows below a row, as long as the set stays as it is.
    pub fn ranks(&self) -> Ranks {
        let (mut before, mut ranks) = (0, Vec::with_capacity(self.chunks.len()));
        for chunk in self.chunks.iter() {
            let of_chunk = chunk.as_ref().map(|chunk| {
                let mut within = Box::new([0u16; WORDS]);
                let mut sum = 0;
                for (rank, word) in within.iter_mut().zip(chunk.iter()) {
                    *rank = sum;
                    sum += word.count_ones() as u16;
                }
                (within, u32::from(sum))
            });
            let (within, sum) = of_chunk.map_or((None, 0), |(within, sum)| (Some(within), sum));
            ranks.push((before, within));
            before += sum;
        }
        Ranks {
            chunks: ranks,
            all: before,
        }
    }

    /// Deleted rows in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.chunks
            .iter()
            .enumerate()
            .filter_map(|(i, c)| c.as_ref().map(|c| (i, c)))
            .flat_map(|(i, chunk)| {
                let base = i as u32 * ROWS_PER_CHUNK;
                chunk.iter().enumerate().flat_map(move |(w, &word)| {
                    let mut left = word;
                    std::iter::from_fn(move || {
                        (left != 0).then(|| {
                            let bit = left.trailing_zeros();
                            left &= left - 1;
                            base + w as u32 * 64 + bit
                        })
                    })
                })
            })
    }

    pub fn to_bitmap(&self) -> RoaringBitmap {
        self.iter().collect()
    }

    pub fn from_bitmap(bitmap: &RoaringBitmap) -> DeleteSet {
        let mut set = DeleteSet::default();
        for row in bitmap {
            set.insert(row);
        }
        set
    }

    /// Whether both are the same value without comparing rows.
    pub fn same(&self, other: &DeleteSet) -> bool {
        self.count == other.count
    }
}

/// Of a [`DeleteSet`] how many deleted rows are below a row, each in the same time. Heap: 1 KiB for each 32,768 rows that hold a deleted one.
pub struct Ranks {
    /// By chunk: those before it, and before each of its words.
    chunks: Vec<(u32, Option<Box<[u16; WORDS]>>)>,
    all: u32,
}

impl Ranks {
    /// Deleted rows below `row`; `of` is the set that these are of.
    pub fn rank(&self, of: &DeleteSet, row: u32) -> u32 {
        let at = (row / ROWS_PER_CHUNK) as usize;
        let Some((before, within)) = self.chunks.get(at) else {
            return self.all;
        };
        let (Some(within), Some(chunk)) = (within, &of.chunks[at]) else {
            return *before;
        };
        let bit = row % ROWS_PER_CHUNK;
        let word = (bit / 64) as usize;
        before + u32::from(within[word]) + (chunk[word] & ((1 << (bit % 64)) - 1)).count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_a_set() {
        let (mut set, mut model, mut x) = (DeleteSet::default(), BTreeSet::new(), 7u64);
        let before = set.clone();
        for _ in 0..5_000 {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let row = (x >> 40) as u32 % 200_000;
            assert_eq!(set.insert(row), model.insert(row));
        }
        assert_eq!(set.len() as usize, model.len());
        assert!(set.iter().eq(model.iter().copied()));
        let ranks = set.ranks();
        for row in (0..300_000).step_by(97) {
            assert_eq!(set.contains(row), model.contains(&row));
            assert_eq!(ranks.rank(&set, row) as usize, model.range(..row).count());
        }
        assert!(before.is_empty() && !before.contains(*model.first().unwrap()));
        assert!(DeleteSet::from_bitmap(&set.to_bitmap()).iter().eq(set.iter()));
    }
}
