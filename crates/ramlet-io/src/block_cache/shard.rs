//! One lock's part of the block cache: pages, an open-addressing index over them, and the clock.

use ramlet_memory::{AnonBuf, Consumer, OverBudget};

use crate::storage::PAGE;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageKey {
    pub file_key: u64,
    pub page: u64,
}

pub struct Shard {
    bytes: AnonBuf,
    /// The key of each page held.
    keys: Vec<PageKey>,
    /// How often the clock's hand passes before a page goes.
    lives: Vec<u8>,
    /// Slots by hash, linear probing; a power of two long, at most two thirds full.
    index: Box<[u32]>,
    hand: usize,
}

const EMPTY: u32 = u32::MAX;
const LIVES_MAX: u8 = 3;

impl PageKey {
    /// Well mixed in all bits (the finaliser of splitmix64).
    pub fn hash(self) -> u64 {
        let mut x = self.file_key.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.page;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }
}

impl Shard {
    /// Bytes beside the page itself, at most: key, lives, and its part of the index.
    pub const PAGE_METADATA_MAX: usize = size_of::<PageKey>() + 1 + 4 * size_of::<u32>();

    /// Exactly what a shard of so many pages takes beside them.
    pub fn metadata_bytes(pages: usize) -> usize {
        pages * (size_of::<PageKey>() + 1) + index_len(pages) * size_of::<u32>()
    }

    pub fn new(consumer: &Consumer, pages: usize) -> Result<Shard, OverBudget> {
        Ok(Shard {
            bytes: AnonBuf::reserved(consumer, pages * PAGE)?,
            keys: Vec::with_capacity(pages),
            lives: Vec::with_capacity(pages),
            index: vec![EMPTY; index_len(pages)].into(),
            hand: 0,
        })
    }

    pub fn pages(&self) -> usize {
        self.keys.len()
    }

    pub fn pages_max(&self) -> usize {
        self.bytes.len() / PAGE
    }

    /// Copies the page into `out`, if it is here.
    pub fn get(&mut self, key: PageKey, out: &mut [u8]) -> bool {
        let Some(place) = self.find(key) else { return false };
        let slot = self.index[place] as usize;
        self.lives[slot] = (self.lives[slot] + 1).min(LIVES_MAX);
        out.copy_from_slice(self.page(slot));
        true
    }

    pub fn put(&mut self, key: PageKey, bytes: &[u8]) {
        if self.pages_max() == 0 || self.find(key).is_some() {
            return;
        }
        let slot = match self.keys.len() < self.pages_max() {
            true => {
                self.keys.push(key);
                self.lives.push(0);
                self.keys.len() - 1
            }
            false => self.evict(),
        };
        self.keys[slot] = key;
        self.lives[slot] = 0;
        self.bytes[slot * PAGE..][..PAGE].copy_from_slice(bytes);
        let mut place = self.home(key);
        while self.index[place] != EMPTY {
            place = (place + 1) & self.mask();
        }
        self.index[place] = slot as u32;
    }

    /// Its keys are never asked for again, so it is enough that the hand takes them first.
    pub fn forget(&mut self, file_key: u64) {
        for (key, lives) in self.keys.iter().zip(&mut self.lives) {
            if key.file_key == file_key {
                *lives = 0;
            }
        }
    }

    /// Frees the slot of the next page without lives; ends within `LIVES_MAX` rounds.
    fn evict(&mut self) -> usize {
        loop {
            let slot = self.hand;
            self.hand = (self.hand + 1) % self.keys.len();
            if self.lives[slot] == 0 {
                self.unlink(self.keys[slot]);
                return slot;
            }
            self.lives[slot] -= 1;
        }
    }

    /// Takes a key out of the index and closes the gap, so that probing never needs tombstones.
    fn unlink(&mut self, key: PageKey) {
        let mut gap = self.find(key).expect("every page held is in the index");
        let mut place = gap;
        loop {
            place = (place + 1) & self.mask();
            if self.index[place] == EMPTY {
                break;
            }
            let home = self.home(self.keys[self.index[place] as usize]);
            // An entry may move back to the gap unless its home lies behind the gap.
            if place.wrapping_sub(home) & self.mask() >= place.wrapping_sub(gap) & self.mask() {
                self.index[gap] = self.index[place];
                gap = place;
            }
        }
        self.index[gap] = EMPTY;
    }

    fn find(&self, key: PageKey) -> Option<usize> {
        if self.index.is_empty() {
            return None;
        }
        let mut place = self.home(key);
        while self.index[place] != EMPTY {
            if self.keys[self.index[place] as usize] == key {
                return Some(place);
            }
            place = (place + 1) & self.mask();
        }
        None
    }

    fn home(&self, key: PageKey) -> usize {
        (key.hash() >> 32) as usize & self.mask()
    }

    fn mask(&self) -> usize {
        self.index.len() - 1
    }

    fn page(&self, slot: usize) -> &[u8] {
        &self.bytes[slot * PAGE..][..PAGE]
    }
}

/// Between one and a half and three entries a page.
fn index_len(pages: usize) -> usize {
    match pages {
        0 => 0,
        _ => (pages + pages / 2 + 1).next_power_of_two(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramlet_memory::Ledger;

    /// Against a plain list of what is held: the index finds every page held and none other, whatever was evicted.
    #[test]
    fn the_index_agrees_with_the_pages() {
        let ledger = Ledger::new(1 << 24);
        let mut shard = Shard::new(&ledger.consumer("cache", u64::MAX), 50).expect("50 pages");
        let mut state = 1u64;
        let mut out = vec![0; PAGE];
        for step in 0..20_000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let key = PageKey {
                file_key: (state >> 60) & 3,
                page: (state >> 33) % 60,
            };
            let bytes = [(key.file_key * 60 + key.page) as u8; PAGE];
            match shard.get(key, &mut out) {
                true => assert_eq!(out, bytes),
                false => shard.put(key, &bytes),
            }
            if step % 100 == 0 {
                let held: Vec<_> = shard.keys.clone();
                assert!(held.iter().all(|key| shard.find(*key).is_some()));
                let indexed = shard.index.iter().filter(|slot| **slot != EMPTY).count();
                assert_eq!((indexed, held.len()), (held.len(), held.len().min(50)));
            }
        }
        assert_eq!(shard.pages(), 50);
    }
}
