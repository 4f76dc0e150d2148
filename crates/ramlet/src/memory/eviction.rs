//! Cached data in reclaimable memory, and the order of eviction.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use ramlet_io::RecordCache;
use ramlet_memory::{Consumer, Ledger, Reclaim, ReclaimableBuf};

use crate::faults::locks::whole;
use crate::faults::mutants;

/// What a search loses with it; the least comes first, and goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionRank {
    /// What is of use in part, in room that nobody else has use for: what the codes of many bits leave over of the first rows,
    /// payloads of the first rows where they are long. Nothing makes way for it.
    Spare,
    /// Payloads: a read a hit.
    Payloads,
    /// Words of ranked texts and their lists: some reads a word, of searches by words.
    Words,
    /// The vectors themselves: one or two reads a search that codes don't save.
    Rows,
    /// What the codes of many bits leave over: one or two reads a search as well.
    Residual,
    /// Codes of many bits: some reads a search.
    Extended,
    /// Codes of some bits: tens of reads a search.
    ExtendedLow,
    /// Vectors without an index: each search reads those that are missing.
    Compared,
    /// Codes of one bit, or product codes: where they are missing a few pages of each cluster are read.
    Codes,
    /// All of a segment of few rows beside a large one: searches read as often for it as for the large one, which has a hundred times the bytes.
    SmallSegments,
}

/// What is asked back in small pieces adds up to as much as this, and to this part of the limit: so far does what searches need go up and down.
const DEMAND_MAX: u64 = 2 << 20;
const DEMAND_SHARE: u64 = 32;
/// Less than this is forgotten: half a minute after 2 MiB were asked for, if time is noted every 0.7 seconds.
const DEMAND_LEAST: u64 = 128 << 10;

/// Memory of a cache, with its rank and bytes.
type Entry = (EvictionRank, u64, Arc<ReclaimableBuf>);

/// All caches of an engine.
pub struct Caches {
    /// The caches' account: everything on it is registered here.
    pub consumer: Consumer,
    list: Mutex<Vec<(EvictionRank, Weak<ReclaimableBuf>)>>,
    /// The most that was asked back at once, fading with time: who needed it may need it again soon.
    demand: Arc<AtomicU64>,
    /// Bytes that caches leave alone as long as somebody writes.
    kept: AtomicU64,
    /// Bytes that gave way to others, since the start.
    evicted: AtomicU64,
    /// Records that were read lately, of files that aren't cached as a whole. They go after payloads that are, before the rest.
    pub records: Arc<RecordCache>,
}

impl Caches {
    /// Caches of at most `cap` bytes together, which the ledger takes back when it must.
    pub fn new(ledger: &Arc<Ledger>, cap: u64) -> Arc<Caches> {
        let consumer = ledger.cache("cached data", cap);
        let demand = Arc::new(AtomicU64::new(0));
        let caches = Arc::new(Caches {
            records: RecordCache::new(&consumer, demand.clone()),
            consumer,
            list: Mutex::default(),
            demand,
            kept: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        });
        let owner = Arc::downgrade(&caches);
        caches.records.ask(Box::new(move |bytes| {
            if let Some(caches) = owner.upgrade() {
                caches.spare_to_records(bytes);
            }
        }));
        let reclaimer: Weak<Caches> = Arc::downgrade(&caches);
        ledger.register(reclaimer);
        caches
    }

    /// Bytes in which cached data comes and goes.
    pub fn piece_bytes(&self) -> u64 {
        ReclaimableBuf::piece_bytes_within(self.consumer.ledger().limit()) as u64
    }

    /// From now on `buf` may be cut.
    pub fn register(&self, rank: EvictionRank, buf: Weak<ReclaimableBuf>) {
        let mut list = self.list();
        list.retain(|(_, known)| known.strong_count() > 0);
        list.push((rank, buf));
    }

    /// From now on a buffer that was registered goes as what ranks so does.
    pub fn rank(&self, buf: &Weak<ReclaimableBuf>, rank: EvictionRank) {
        let mut list = self.list();
        let known = list.iter_mut().find(|(_, known)| known.ptr_eq(buf));
        known.into_iter().for_each(|(ranked, _)| *ranked = rank);
    }

    /// What is spare goes before records do, if there is enough of it.
    fn spare_to_records(&self, bytes: u64) {
        if self.below(EvictionRank::Payloads) >= bytes {
            self.evict_below(EvictionRank::Payloads, bytes);
        }
    }

    /// Bytes that caches may take now: what is free, less what is left to those who asked lately, or may ask soon.
    pub fn room(&self) -> u64 {
        self.room_with(0)
    }

    /// The same for what ranks as `rank`, with what makes way for it.
    pub fn room_for(&self, rank: EvictionRank) -> u64 {
        self.room_with(self.below(rank))
    }

    /// The same when so many bytes have made way.
    pub fn room_with(&self, bytes: u64) -> u64 {
        (self.consumer.available() + bytes).saturating_sub(self.left())
    }

    /// What has to make way until there is room for so many bytes.
    pub fn lacking(&self, bytes: u64) -> u64 {
        (bytes + self.left()).saturating_sub(self.consumer.available())
    }

    fn left(&self) -> u64 {
        let [demand, kept] = [&*self.demand, &self.kept].map(|bytes| bytes.load(Ordering::Relaxed));
        demand.max(kept)
    }

    /// From now on caches leave so many bytes alone, whoever asks or doesn't.
    pub fn keep(&self, bytes: u64) {
        self.kept.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that what ranks below `rank` holds: they are there for it, at the price of what is lost with them.
    pub fn below(&self, rank: EvictionRank) -> u64 {
        let known = self.held(&|known| known < rank).into_iter();
        let records = match rank > EvictionRank::Payloads {
            true => self.records.bytes(),
            false => 0,
        };
        records + known.map(|(_, bytes, _)| bytes).sum::<u64>()
    }

    /// Cuts what ranks below `rank` until `bytes` are coming free, or nothing is left of it.
    pub fn evict_below(&self, rank: EvictionRank, bytes: u64) {
        let held = self.by_loss();
        let coming = self.coming(&held);
        self.cut(held, Some(rank), bytes, coming);
    }

    /// The same of all that is cached, or ranks below, when `coming` bytes are on their way; how many are then.
    fn cut(&self, held: Vec<Entry>, below: Option<EvictionRank>, bytes: u64, mut coming: u64) -> u64 {
        let before = coming;
        let (payloads, rest): (Vec<Entry>, Vec<Entry>) = held
            .into_iter()
            .partition(|(rank, ..)| *rank <= EvictionRank::Payloads);
        let may_go = |rank: EvictionRank| below.is_none_or(|below| rank < below);
        let cut = |entries: Vec<Entry>, coming: &mut u64| {
            for (rank, _, buf) in entries {
                if !may_go(rank) || *coming >= bytes {
                    break;
                }
                *coming += match mutants::is("stale-cache") {
                    true => bytes - *coming,
                    false => buf.cut(bytes - *coming),
                };
            }
        };
        cut(payloads, &mut coming);
        if below.is_none_or(|below| below > EvictionRank::Payloads) && coming < bytes {
            coming += self.records.cut(bytes - coming);
        }
        cut(rest, &mut coming);
        self.evicted.fetch_add(coming - before, Ordering::Relaxed);
        coming
    }

    /// Bytes of cached data and records that gave way to others, since the start.
    pub fn evicted_bytes(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Somebody asks for more than is free: again and again, where what many need goes up and down.
    fn note_demand(&self, bytes: u64) {
        let most = DEMAND_MAX.min(self.consumer.ledger().limit() / DEMAND_SHARE);
        // Whatever is asked for, a chunk of records goes for it.
        let piece = bytes.max(RecordCache::CHUNK_BYTES);
        let add = |demand: u64| Some((demand + piece).min(most).max(demand).max(bytes));
        let _ = self
            .demand
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Some time has passed.
    pub fn note_calm(&self) {
        let fade = |demand: u64| {
            Some(if demand < DEMAND_LEAST {
                0
            } else {
                demand / 16 * 15
            })
        };
        let _ = self
            .demand
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fade);
    }

    /// Nobody will ask again soon.
    pub fn forget_demand(&self) {
        self.demand.store(0, Ordering::Relaxed);
    }

    /// What was cut off before and is still being read: it comes back without cutting more.
    fn coming(&self, held: &[Entry]) -> u64 {
        let there: u64 = held
            .iter()
            .map(|(_, bytes, buf)| bytes + buf.filling_bytes())
            .sum();
        self.consumer.used().saturating_sub(there + self.records.bytes())
    }

    // Only to look and to add: nothing is reserved, freed or waited for under it.
    fn list(&self) -> MutexGuard<'_, Vec<(EvictionRank, Weak<ReclaimableBuf>)>> {
        whole(&self.list)
    }

    /// What is there, the first to go first: by rank, then the largest.
    fn by_loss(&self) -> Vec<Entry> {
        let mut held = self.held(&|_| true);
        held.sort_by_key(|(rank, bytes, _)| (*rank, std::cmp::Reverse(*bytes)));
        held
    }

    /// What is there of some ranks.
    fn held(&self, wanted: &dyn Fn(EvictionRank) -> bool) -> Vec<Entry> {
        let known: Vec<_> = self
            .list()
            .iter()
            .filter(|(rank, _)| wanted(*rank))
            .filter_map(|(rank, buf)| Some((*rank, buf.upgrade()?)))
            .collect();
        let with_bytes =
            |(rank, buf): (EvictionRank, Arc<ReclaimableBuf>)| (rank, buf.view().memory_bytes(), buf);
        known.into_iter().map(with_bytes).collect()
    }
}

/// Room for what of vectors was given up before, at the price of what is missed less.
pub struct VectorRoom {
    pub caches: Arc<Caches>,
    /// Whether what others may ask for soon is left to them.
    pub for_writers: bool,
    /// Bytes that whoever takes it will take first.
    pub scratch: u64,
}

impl VectorRoom {
    /// For what ranks so, with what makes way for it.
    pub fn for_rank(&self, rank: EvictionRank) -> u64 {
        let room = match self.for_writers {
            true => self.caches.room_for(rank),
            false => self.caches.consumer.available() + self.caches.below(rank),
        };
        room.saturating_sub(self.scratch)
    }

    fn free(&self) -> u64 {
        let free = match self.for_writers {
            true => self.caches.room(),
            false => self.caches.consumer.available(),
        };
        free.saturating_sub(self.scratch)
    }

    /// What ranks below makes way until so many bytes are free, as far as it goes; what may be taken then.
    pub fn make(&self, rank: EvictionRank, bytes: u64) -> u64 {
        let free = self.free();
        if free < bytes {
            self.caches.evict_below(rank, bytes - free);
        }
        self.free().max(bytes)
    }
}

impl Reclaim for Caches {
    fn reclaim(&self, bytes: u64) -> u64 {
        self.note_demand(bytes);
        let held = self.by_loss();
        let coming = self.coming(&held);
        self.cut(held, None, bytes, coming)
    }
}

#[cfg(test)]
mod tests {
    use ramlet_memory::OverBudget;

    use super::*;

    const PIECE: u64 = ReclaimableBuf::PIECE_BYTES as u64;

    fn cached(caches: &Caches, rank: EvictionRank, pieces: u64) -> Arc<ReclaimableBuf> {
        let buf =
            Arc::new(ReclaimableBuf::new(&caches.consumer, (pieces * PIECE) as usize).expect("addresses"));
        let zeros = &mut |_: usize, _: &mut [u8]| Ok::<(), OverBudget>(());
        buf.extend(usize::MAX, zeros).expect("room");
        caches.register(rank, Arc::downgrade(&buf));
        buf
    }

    fn pieces(buf: &ReclaimableBuf) -> u64 {
        buf.view().len() as u64 / PIECE
    }

    #[test]
    fn what_is_missed_least_goes_first() {
        let ledger = Ledger::new(20 * PIECE);
        let caches = Caches::new(&ledger, 20 * PIECE);
        let codes = cached(&caches, EvictionRank::Codes, 2);
        let low = cached(&caches, EvictionRank::ExtendedLow, 3);
        let extended = [
            cached(&caches, EvictionRank::Extended, 3),
            cached(&caches, EvictionRank::Extended, 4),
        ];
        let rows = cached(&caches, EvictionRank::Rows, 8);
        let user = ledger.consumer("user", u64::MAX);
        let all = || [&rows, &extended[1], &extended[0], &low, &codes].map(|buf| pieces(buf));
        for (bytes, left) in [
            (1, [7, 4, 3, 3, 2]),
            (7 * PIECE + 1, [0, 4, 3, 3, 2]),
            (9 * PIECE, [0, 3, 3, 3, 2]),
            (15 * PIECE, [0, 0, 0, 3, 2]),
            (17 * PIECE, [0, 0, 0, 1, 2]),
            (19 * PIECE, [0, 0, 0, 0, 1]),
            (20 * PIECE, [0, 0, 0, 0, 0]),
        ] {
            drop(user.reserve(bytes).expect("caches give way"));
            assert_eq!(all(), left, "{bytes} bytes");
        }
        assert_eq!(ledger.reclaimable_bytes(), 0);
    }

    #[test]
    fn what_ranks_below_gives_way() {
        let ledger = Ledger::new(8 * PIECE);
        let caches = Caches::new(&ledger, 8 * PIECE);
        let payloads = cached(&caches, EvictionRank::Payloads, 3);
        let words = cached(&caches, EvictionRank::Words, 2);
        let rows = cached(&caches, EvictionRank::Rows, 2);
        let all = || [&payloads, &words, &rows].map(|buf| pieces(buf));
        assert_eq!(
            (
                caches.below(EvictionRank::Rows),
                caches.below(EvictionRank::Words)
            ),
            (5 * PIECE, 3 * PIECE)
        );
        caches.evict_below(EvictionRank::Rows, 3 * PIECE + 1);
        assert_eq!(all(), [0, 1, 2]);
        caches.evict_below(EvictionRank::Rows, 100 * PIECE);
        assert_eq!(all(), [0, 0, 2]);
    }

    #[test]
    fn what_writers_may_want_is_no_cache_while_they_write() {
        let ledger = Ledger::new(12 * PIECE);
        let caches = Caches::new(&ledger, 12 * PIECE);
        let buffers = ledger.set_aside("buffers", 5 * PIECE).expect("room");
        let written = buffers.reserve(PIECE).expect("room");
        assert_eq!((ledger.unclaimed(), ledger.held()), (4 * PIECE, PIECE));
        assert_eq!(caches.room(), 11 * PIECE);
        caches.keep(ledger.unclaimed());
        assert_eq!(caches.room(), 7 * PIECE);
        let _payloads = cached(&caches, EvictionRank::Payloads, 9);
        assert_eq!(
            (caches.room(), caches.room_for(EvictionRank::Extended)),
            (0, 7 * PIECE)
        );
        assert_eq!(caches.lacking(PIECE), 3 * PIECE);
        caches.keep(0);
        assert_eq!((caches.room(), caches.lacking(PIECE)), (2 * PIECE, 0));
        drop(written);
        assert_eq!((ledger.unclaimed(), ledger.held()), (5 * PIECE, 0));
    }

    #[test]
    fn what_is_spare_goes_before_all_else() {
        let ledger = Ledger::new(8 * PIECE);
        let caches = Caches::new(&ledger, 8 * PIECE);
        let spare = cached(&caches, EvictionRank::Spare, 3);
        let payloads = cached(&caches, EvictionRank::Payloads, 2);
        let extended = cached(&caches, EvictionRank::Extended, 2);
        let all = || [&spare, &payloads, &extended].map(|buf| pieces(buf));
        assert_eq!(caches.room_for(EvictionRank::Spare), PIECE);
        assert_eq!(caches.room_for(EvictionRank::Payloads), 4 * PIECE);
        // A piece is free: records take it first.
        let record = [7; 4000];
        let keep = |rows: std::ops::Range<u32>| {
            rows.for_each(|row| assert!(caches.records.put(1, row, None, &record)))
        };
        keep(0..400);
        assert_eq!(all(), [3, 2, 2]);
        keep(400..900);
        assert_eq!(all(), [2, 2, 2]);
        keep(900..4000);
        assert_eq!(all(), [0, 2, 2], "nothing else makes way for them");
        let user = ledger.consumer("user", u64::MAX);
        drop(user.reserve(PIECE).expect("caches give way"));
        assert_eq!(all(), [0, 1, 2]);
    }

    #[test]
    fn what_is_on_its_way_back_is_not_cut_twice() {
        let ledger = Ledger::new(4 * PIECE);
        let caches = Caches::new(&ledger, 4 * PIECE);
        let extended = cached(&caches, EvictionRank::Extended, 4);
        let reading = extended.view();
        let user = ledger.consumer("user", u64::MAX);
        for _ in 0..3 {
            assert!(user.reserve(PIECE).is_err(), "a search is reading it");
            assert_eq!(pieces(&extended), 3);
        }
        drop(reading);
        assert!(user.reserve(PIECE).is_ok());
    }

    #[test]
    fn what_is_being_filled_is_not_on_its_way_back() {
        let ledger = Ledger::new(4 * PIECE);
        let caches = Caches::new(&ledger, 4 * PIECE);
        let extended = cached(&caches, EvictionRank::Extended, 3);
        let rows = Arc::new(ReclaimableBuf::new(&caches.consumer, PIECE as usize).expect("addresses"));
        caches.register(EvictionRank::Rows, Arc::downgrade(&rows));
        let user = ledger.consumer("user", u64::MAX);
        let fill = &mut |_: usize, _: &mut [u8]| {
            assert_eq!(rows.filling_bytes(), PIECE);
            user.reserve(PIECE).map(drop)
        };
        rows.extend(usize::MAX, fill).expect("others make way meanwhile");
        assert_eq!(
            (pieces(&extended), pieces(&rows), rows.filling_bytes()),
            (2, 1, 0)
        );
    }

    /// Records fill whatever is free, again and again; nobody who needs memory is refused for it.
    #[test]
    fn records_on_their_way_in_do_not_count_as_on_their_way_back() {
        const ROUNDS: u32 = 3000;
        let ledger = Ledger::new(4 * PIECE);
        let caches = Caches::new(&ledger, 4 * PIECE);
        let user = ledger.consumer("responses", u64::MAX);
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for file in 0..3 {
                let (caches, over) = (&caches, &over);
                scope.spawn(move || {
                    let rows = (0..).take_while(|_| !over.load(Ordering::Relaxed));
                    for row in rows {
                        caches.records.put(file, row, None, &[7; 4000]);
                    }
                });
            }
            let refused = |_: &u32| {
                let refused = user.reserve(94_208).is_err();
                caches.forget_demand();
                // Until they have filled it, or for a while.
                (0..100_000).find(|_| user.available_now() < 70_000);
                refused
            };
            let refused = (0..ROUNDS).filter(refused).count();
            over.store(true, Ordering::Relaxed);
            assert_eq!(refused, 0, "of {ROUNDS}");
        });
    }

    #[test]
    fn who_asked_lately_finds_room_again() {
        let ledger = Ledger::new(8 * PIECE);
        let caches = Caches::new(&ledger, 8 * PIECE);
        let _extended = cached(&caches, EvictionRank::Extended, 8);
        drop(
            ledger
                .consumer("user", u64::MAX)
                .reserve(6 * PIECE)
                .expect("caches give way"),
        );
        let mut rooms = Vec::new();
        for _ in 0..80 {
            rooms.push(caches.room());
            caches.note_calm();
        }
        assert!(rooms.is_sorted() && rooms[0] == 0 && rooms[20] < 5 * PIECE);
        assert_eq!(rooms[79], 6 * PIECE);
        drop(
            ledger
                .consumer("user", u64::MAX)
                .reserve(7 * PIECE)
                .expect("caches give way"),
        );
        caches.forget_demand();
        assert_eq!(caches.room(), 7 * PIECE);
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let ledger = Ledger::new(4 * PIECE);
        let caches = Caches::new(&ledger, 4 * PIECE);
        drop(cached(&caches, EvictionRank::Extended, 4));
        let rows = cached(&caches, EvictionRank::Rows, 4);
        assert_eq!(caches.list().len(), 1);
        assert_eq!((pieces(&rows), ledger.reclaimable_bytes()), (4, 4 * PIECE));
    }
}
