//! The block cache: recently read pages of all files, in a fixed amount of memory.

mod shard;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ramlet_memory::{Consumer, OverBudget, Reservation, page_bytes};

use crate::storage::PAGE;
use shard::{PageKey, Shard};

/// A cache of verified pages of 4 KiB, shared by all threads. All its memory, the index included, is taken once.
///
/// Replacement is a clock with small counters: a page must be asked for again to survive the hand, so a scan or a
/// stream of pages read once can't drive out those in use.
pub struct BlockCache {
    shards: Box<[Mutex<Shard>]>,
    bytes: u64,
    hits: AtomicU64,
    misses: AtomicU64,
    /// For the index and the counters; each shard's pages hold their own.
    _metadata: Reservation,
}

/// `hits` and `misses` count lookups of whole blocks since the start; the rest is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    pub hits: u64,
    pub misses: u64,
    pub pages: u64,
    pub pages_max: u64,
    /// All memory that the cache holds.
    pub bytes: u64,
}

/// Locks enough that searching threads rarely meet.
const SHARDS_MAX: usize = 16;
/// Below this many pages a shard's clock would be too short to tell pages apart.
const SHARD_PAGES_MIN: usize = 64;

impl BlockCache {
    /// A cache of at most `bytes` in all; with fewer than a page's worth it keeps nothing.
    pub fn new(consumer: &Consumer, bytes: u64) -> Result<Arc<BlockCache>, OverBudget> {
        let pages = bytes as usize / (PAGE + Shard::PAGE_METADATA_MAX);
        let count = (pages / SHARD_PAGES_MIN).clamp(1, SHARDS_MAX);
        // A power of two, so that a hash picks a shard by its low bits.
        let count = 1usize << count.ilog2();
        // Each shard is a mapping of its own, in whole pages of the machine, which may be larger than ours.
        let step = page_bytes() / PAGE;
        let shard_pages = pages / count / step * step;
        let metadata = consumer.reserve((count * Shard::metadata_bytes(shard_pages)) as u64)?;
        let mut shards = Vec::with_capacity(count);
        for _ in 0..count {
            shards.push(Mutex::new(Shard::new(consumer, shard_pages)?));
        }
        Ok(Arc::new(BlockCache {
            shards: shards.into(),
            bytes: metadata.bytes() + (count * shard_pages * PAGE) as u64,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            _metadata: metadata,
        }))
    }

    /// Copies the block of whole pages that starts at `page` into `out`; false, with `out` in any state, unless all of
    /// it is cached. `file_key` is unique per opened file, never used again.
    pub fn get(&self, file_key: u64, page: u64, out: &mut [u8]) -> bool {
        let found = out.chunks_exact_mut(PAGE).zip(page..).all(|(out, page)| {
            let key = PageKey { file_key, page };
            self.shard(key).get(key, out)
        });
        let counter = if found { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps a block of whole pages, verified by the caller.
    pub fn put(&self, file_key: u64, page: u64, block: &[u8]) {
        for (bytes, page) in block.chunks_exact(PAGE).zip(page..) {
            let key = PageKey { file_key, page };
            self.shard(key).put(key, bytes);
        }
    }

    /// Makes a file's pages the first to be replaced.
    pub fn forget(&self, file_key: u64) {
        for shard in &self.shards {
            lock(shard).forget(file_key);
        }
    }

    pub fn stats(&self) -> CacheStats {
        let (mut pages, mut pages_max) = (0, 0);
        for shard in &self.shards {
            let shard = lock(shard);
            pages += shard.pages() as u64;
            pages_max += shard.pages_max() as u64;
        }
        CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            pages,
            pages_max,
            bytes: self.bytes,
        }
    }

    fn shard(&self, key: PageKey) -> MutexGuard<'_, Shard> {
        // The index inside a shard uses the high bits.
        lock(&self.shards[key.hash() as usize & (self.shards.len() - 1)])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // A panic under the lock is a bug in `Shard`; its other pages are as good as before.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
