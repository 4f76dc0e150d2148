//! Slices of containers that are kept in RAM because they may be read again: hot lists of rows and positions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ramlet_memory::{Consumer, OverBudget, Reclaim, Reservation};
use tantivy::directory::OwnedBytes;

/// What a slice costs beside its bytes: its entry, its key, two counted owners.
const ENTRY_BYTES: u64 = 256;

/// Which slice: the opening of the index, then where it begins in the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SliceKey {
    pub index: u64,
    pub offset: u64,
}

/// A slice in RAM, reserved as long as anybody has it.
pub(crate) struct Slice {
    pub bytes: OwnedBytes,
    _reservation: Reservation,
}

/// Slices of all text indexes of a process, within a budget; the least lately used go first, by the clock algorithm.
///
/// Every slice holds a reservation of the consumer for its bytes and 256 more, also while it is being used and no longer
/// cached: what a search needs at once must fit the consumer's cap beside what other searches need at that moment.
pub struct SliceCache {
    consumer: Consumer,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    places: HashMap<SliceKey, usize>,
    ring: Vec<Entry>,
    hand: usize,
    stats: SliceStats,
}

struct Entry {
    key: SliceKey,
    slice: Arc<Slice>,
    used: bool,
}

/// What a cache did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SliceStats {
    pub hits: u64,
    pub misses: u64,
    /// Bytes that misses read.
    pub read_bytes: u64,
    /// Slices and bytes held now.
    pub slices: u64,
    pub held_bytes: u64,
}

impl SliceCache {
    /// `consumer` caps it; give it a [`Ledger::borrower`](ramlet_memory::Ledger::borrower) and register the cache as a
    /// reclaimer, or an account of its own.
    pub fn new(consumer: Consumer) -> Arc<SliceCache> {
        Arc::new(SliceCache {
            consumer,
            state: Mutex::default(),
        })
    }

    pub fn stats(&self) -> SliceStats {
        let state = self.state();
        SliceStats {
            slices: state.ring.len() as u64,
            ..state.stats
        }
    }

    pub(crate) fn get(&self, key: SliceKey) -> Option<Arc<Slice>> {
        let mut state = self.state();
        match state.places.get(&key).copied() {
            Some(place) => {
                state.stats.hits += 1;
                let entry = &mut state.ring[place];
                entry.used = true;
                Some(entry.slice.clone())
            }
            None => {
                state.stats.misses += 1;
                None
            }
        }
    }

    /// Reserves room for a slice of `len` bytes; others go for it.
    pub(crate) fn room(&self, len: usize) -> Result<Reservation, OverBudget> {
        let bytes = len as u64 + ENTRY_BYTES;
        loop {
            match self.consumer.reserve(bytes) {
                Ok(reservation) => return Ok(reservation),
                Err(refused) => {
                    if self.give_up(bytes) == 0 {
                        return Err(refused);
                    }
                }
            }
        }
    }

    /// Keeps a slice that was read into `bytes`; another thread's of the same key is the one that counts.
    pub(crate) fn keep(&self, key: SliceKey, bytes: Vec<u8>, reservation: Reservation) -> Arc<Slice> {
        let len = bytes.len() as u64;
        let slice = Arc::new(Slice {
            bytes: OwnedBytes::new(bytes),
            _reservation: reservation,
        });
        let mut state = self.state();
        state.stats.read_bytes += len;
        if state.places.contains_key(&key) {
            return slice;
        }
        let place = state.ring.len();
        state.places.insert(key, place);
        state.stats.held_bytes += len;
        state.ring.push(Entry {
            key,
            slice: slice.clone(),
            used: false,
        });
        slice
    }

    /// Forgets the slices of an index that is closed.
    pub(crate) fn forget(&self, index: u64) {
        let mut state = self.state();
        let mut place = 0;
        while place < state.ring.len() {
            match state.ring[place].key.index == index {
                true => drop(state.remove(place)),
                false => place += 1,
            }
        }
    }

    /// Drops slices until `bytes` of them are gone; how many are.
    fn give_up(&self, bytes: u64) -> u64 {
        let mut gone = 0;
        while gone < bytes {
            let Some(slice) = self.state().evict() else {
                break;
            };
            gone += slice.bytes.len() as u64 + ENTRY_BYTES;
        }
        gone
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock can leave the table half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reclaim for SliceCache {
    fn reclaim(&self, bytes: u64) -> u64 {
        self.give_up(bytes)
    }
}

impl State {
    fn evict(&mut self) -> Option<Arc<Slice>> {
        // Two rounds: the first may only take the marks away.
        for _ in 0..2 * self.ring.len() {
            self.hand %= self.ring.len();
            let entry = &mut self.ring[self.hand];
            if !entry.used {
                return Some(self.remove(self.hand));
            }
            entry.used = false;
            self.hand += 1;
        }
        None
    }

    fn remove(&mut self, place: usize) -> Arc<Slice> {
        let entry = self.ring.swap_remove(place);
        self.places.remove(&entry.key);
        if let Some(moved) = self.ring.get(place) {
            self.places.insert(moved.key, place);
        }
        self.stats.held_bytes -= entry.slice.bytes.len() as u64;
        entry.slice
    }
}
