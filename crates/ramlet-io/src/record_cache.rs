//! The record cache: recently read records in reclaimable memory.
//!
//! A page of 4 KiB that is kept for one document of 400 bytes holds ten times what is asked for again. Here a record costs itself and about 30 bytes, and texts
//! half of themselves: those of a file that has a table of symbols are kept coded.

mod shard;
mod symbols;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ramlet_memory::{AnonBuf, Consumer};

use shard::{Key, Record, Shard};
pub use symbols::Symbols;
use symbols::{CODED_BUF, CodedBuf};

/// A cache of verified records of immutable files, shared by all threads.
///
/// Its memory is reclaimable, in chunks of 64 KiB, taken as records come and while others leave room, given back as a whole. The oldest chunk goes first; of its records
/// those that were asked for since move into the chunk that takes its place.
/// A file's records may be coded from some time on, with symbols that stay the same.
pub struct RecordCache {
    shards: [Mutex<Shard>; SHARDS],
    consumer: Consumer,
    /// Bytes that may be reserved and aren't in a shard yet.
    coming: AtomicU64,
    /// Bytes that are left to others beyond what they hold.
    leave: Arc<AtomicU64>,
    /// Asked for bytes that lack.
    make_way: OnceLock<MakeWay>,
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

/// Where a record may go.
#[derive(Clone, Copy)]
enum Room {
    /// Where other records were, too, or what is worth less than records.
    Any,
    /// Where nothing is, nor may soon be.
    Unused,
}

/// Locks enough that searching threads rarely meet.
const SHARDS: usize = 8;

impl RecordCache {
    /// Memory that is taken and given back at once.
    pub const CHUNK_BYTES: u64 = Shard::CHUNK_BYTES as u64;
    /// Longer ones aren't kept.
    pub const RECORD_BYTES_MAX: usize = crate::PAGE;

    /// An empty one, which takes its memory from `consumer` and leaves `leave` bytes to others.
    pub fn new(consumer: &Consumer, leave: Arc<AtomicU64>) -> Arc<RecordCache> {
        Arc::new(RecordCache {
            shards: Default::default(),
            consumer: consumer.clone(),
            coming: AtomicU64::new(0),
            leave,
            make_way: OnceLock::new(),
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
    pub fn get(&self, file: u64, row: u32, symbols: Option<&Symbols>, out: &mut [u8]) -> Option<usize> {
        let key = Key { file, row };
        let found = {
            let mut shard = self.shard(key);
            let record = shard.get(key);
            record.and_then(|record| show(&record, symbols, out))
        };
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps a record, verified by the caller, if there is room or some record that is needed less; false: there is no memory at all.
    pub fn put(&self, file: u64, row: u32, symbols: Option<&Symbols>, record: &[u8]) -> bool {
        if record.len() > Self::RECORD_BYTES_MAX {
            return false;
        }
        let kept = self.keep(Key { file, row }, symbols, record, Room::Any);
        if let Some(kept) = kept {
            self.has_room.store(kept, Ordering::Relaxed);
        }
        kept.unwrap_or(true)
    }

    /// Keeps a record that nobody asked for yet, if it isn't too long, in memory that nobody has use for; false: there is none.
    pub fn put_ahead(&self, file: u64, row: u32, symbols: Option<&Symbols>, record: &[u8]) -> bool {
        if record.len() > Self::RECORD_BYTES_MAX {
            return true;
        }
        let kept = self.keep(Key { file, row }, symbols, record, Room::Unused);
        kept.unwrap_or(true)
    }

    /// Whether room was found for it; `None`: it was there, or the newest chunk had room.
    fn keep(&self, key: Key, symbols: Option<&Symbols>, record: &[u8], room: Room) -> Option<bool> {
        let mut buf = CODED_BUF;
        let record = shortest(record, symbols, &mut buf);
        let table = {
            let mut shard = self.shard(key);
            if shard.has(key) || shard.append(key, record) {
                return None;
            }
            shard.table_wanted()
        };
        let coming = (Shard::CHUNK_BYTES + table) as u64;
        self.coming.fetch_add(coming, Ordering::Relaxed);
        // Not under the lock: whoever takes memory back needs it.
        let fresh = self.take(table, room);
        let mut shard = self.shard(key);
        let has_room = match (fresh, room) {
            (Some((chunk, table)), _) => shard.add(chunk, table),
            (None, Room::Any) => shard.renew(),
            (None, Room::Unused) => false,
        };
        self.coming.fetch_sub(coming, Ordering::Relaxed);
        Some(has_room && (shard.has(key) || shard.append(key, record)))
    }

    /// Whether the last record that came found room: if not, pages are better kept whole.
    pub fn has_room(&self) -> bool {
        self.has_room.load(Ordering::Relaxed)
    }

    /// Gives the oldest chunks back, at least `bytes` as far as there are any; how many.
    pub fn cut(&self, bytes: u64) -> u64 {
        let mut freed = 0;
        while freed < bytes {
            // The largest: what one gives up another takes when it is free again.
            let largest = self.shards.iter().max_by_key(|shard| lock(shard).bytes());
            let gone = largest.map(|shard| lock(shard).pop()).unwrap_or_default();
            if gone.is_empty() {
                break;
            }
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
    fn take(&self, table: usize, room: Room) -> Option<(AnonBuf, Option<AnonBuf>)> {
        let wanted = (Shard::CHUNK_BYTES + table) as u64;
        let lacking = || {
            let wanted = wanted + self.leave.load(Ordering::Relaxed);
            wanted.saturating_sub(self.consumer.available())
        };
        if let (Room::Any, bytes @ 1.., Some(make_way)) = (room, lacking(), self.make_way.get()) {
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

/// A record as it was put; `None` where it is coded by symbols that the caller hasn't.
fn show(record: &Record<'_>, symbols: Option<&Symbols>, out: &mut [u8]) -> Option<usize> {
    if record.is_coded {
        return symbols.map(|symbols| symbols.decode(record.bytes, out));
    }
    out[..record.bytes.len()].copy_from_slice(record.bytes);
    Some(record.bytes.len())
}

/// Coded, where it is shorter then.
fn shortest<'a>(record: &'a [u8], symbols: Option<&Symbols>, buf: &'a mut CodedBuf) -> Record<'a> {
    let coded = symbols.map(|symbols| symbols.encode(record, buf));
    match coded {
        Some(bytes) if bytes.len() < record.len() => Record {
            bytes,
            is_coded: true,
        },
        _ => Record {
            bytes: record,
            is_coded: false,
        },
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // A panic under the lock is a bug in `Shard`; its other records are as good as before.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
