//! Records that were read lately, one by one, in memory that nobody else needs.
//!
//! A page of 4 KiB that is kept for one document of 400 bytes holds ten times what is asked for again. Here a record costs itself and about 30 bytes.

mod shard;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ramlet_memory::{AnonBuf, Consumer};

use shard::{Key, Shard};

/// A cache of verified records of immutable files, shared by all threads.
///
/// Its memory are loans in chunks of 64 KiB, taken as records come and while others leave room, given back as a whole. The oldest chunk goes first; of its records
/// those that were asked for since move into the chunk that takes its place.
pub struct RecordCache {
    shards: [Mutex<Shard>; SHARDS],
    consumer: Consumer,
    /// Bytes that may be reserved and aren't in a shard yet.
    coming: AtomicU64,
    /// Bytes that are left to others beyond what they hold.
    leave: Arc<AtomicU64>,
    /// Asked for bytes that lack.
    make_way: OnceLock<MakeWay>,
    /// Where the next chunk is cut.
    cut_next: AtomicUsize,
    /// The last record found room.
    has_room: AtomicBool,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Has others give up so many bytes that records are worth more than, now or a little later.
pub type MakeWay = Box<dyn Fn(u64) + Send + Sync>;

/// `hits` and `misses` count records since the start; `bytes` are held now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordStats {
    pub hits: u64,
    pub misses: u64,
    pub bytes: u64,
}

/// Locks enough that searching threads rarely meet.
const SHARDS: usize = 8;

impl RecordCache {
    /// Longer ones aren't kept.
    pub const RECORD_BYTES_MAX: usize = crate::PAGE;

    /// An empty one, which borrows from `consumer` and leaves `leave` bytes to others.
    pub fn new(consumer: &Consumer, leave: Arc<AtomicU64>) -> Arc<RecordCache> {
        Arc::new(RecordCache {
            shards: Default::default(),
            consumer: consumer.clone(),
            coming: AtomicU64::new(0),
            leave,
            make_way: OnceLock::new(),
            cut_next: AtomicUsize::new(0),
            has_room: AtomicBool::new(true),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        })
    }

    /// Who to ask where room lacks; once, the first counts. Asked by threads that search, under no lock.
    pub fn ask(&self, make_way: MakeWay) {
        let _ = self.make_way.set(make_way);
    }

    /// Copies a record to the start of `out`, which has [`RecordCache::RECORD_BYTES_MAX`]; its length. `file` is unique per opened file, never used again.
    pub fn get(&self, file: u64, row: u32, out: &mut [u8]) -> Option<usize> {
        let key = Key { file, row };
        let found = self.shard(key).get(key, out);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps a record, verified by the caller, if there is room or some record that is needed less; false: there is no memory at all.
    pub fn put(&self, file: u64, row: u32, record: &[u8]) -> bool {
        if record.len() > Self::RECORD_BYTES_MAX {
            return false;
        }
        let key = Key { file, row };
        let table = {
            let mut shard = self.shard(key);
            if shard.has(key) || shard.append(key, record) {
                return true;
            }
            shard.table_wanted()
        };
        let coming = (Shard::CHUNK_BYTES + table) as u64;
        self.coming.fetch_add(coming, Ordering::Relaxed);
        // Not under the lock: whoever takes memory back needs it.
        let fresh = self.take(table);
        let mut shard = self.shard(key);
        let has_room = match fresh {
            Some((chunk, table)) => shard.add(chunk, table),
            None => shard.renew(),
        };
        self.coming.fetch_sub(coming, Ordering::Relaxed);
        let kept = has_room && (shard.has(key) || shard.append(key, record));
        self.has_room.store(kept, Ordering::Relaxed);
        kept
    }

    /// Whether the last record that came found room: if not, pages are better kept whole.
    pub fn has_room(&self) -> bool {
        self.has_room.load(Ordering::Relaxed)
    }

    /// Gives the oldest chunks back, at least `bytes` as far as there are any; how many.
    pub fn cut(&self, bytes: u64) -> u64 {
        let (mut freed, mut empty) = (0, 0);
        while freed < bytes && empty < SHARDS {
            let at = self.cut_next.fetch_add(1, Ordering::Relaxed) % SHARDS;
            let gone = lock(&self.shards[at]).pop();
            empty = if gone.is_empty() { empty + 1 } else { 0 };
            freed += gone.iter().map(|buf| buf.capacity() as u64).sum::<u64>();
        }
        freed
    }

    /// Bytes of memory held now, and those about to be.
    pub fn bytes(&self) -> u64 {
        let held: u64 = self.shards.iter().map(|shard| lock(shard).bytes()).sum();
        held + self.coming.load(Ordering::Relaxed)
    }

    pub fn stats(&self) -> RecordStats {
        RecordStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            bytes: self.bytes(),
        }
    }

    /// A chunk, and a table of so many bytes where the present one has become too small.
    fn take(&self, table: usize) -> Option<(AnonBuf, Option<AnonBuf>)> {
        let wanted = (Shard::CHUNK_BYTES + table) as u64;
        let lacking = || {
            let wanted = wanted + self.leave.load(Ordering::Relaxed);
            wanted.saturating_sub(self.consumer.available())
        };
        if let (bytes @ 1.., Some(make_way)) = (lacking(), self.make_way.get()) {
            make_way(bytes);
        }
        if lacking() > 0 {
            return None;
        }
        let reserved = |bytes| AnonBuf::reserved(&self.consumer, bytes).ok();
        let table = match table {
            0 => None,
            bytes => Some(reserved(bytes)?),
        };
        Some((reserved(Shard::CHUNK_BYTES)?, table))
    }

    fn shard(&self, key: Key) -> MutexGuard<'_, Shard> {
        // The table inside a shard uses the high bits.
        lock(&self.shards[key.hash() as usize % SHARDS])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // A panic under the lock is a bug in `Shard`; its other records are as good as before.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
