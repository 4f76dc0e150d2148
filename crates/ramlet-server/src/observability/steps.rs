//! What a request spent its time on: for whoever asked (`params.explain`), and for the log of slow requests. Where neither is there nothing of this is made, and
//! no clock is read for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName};
use ramlet::{Explained, SearchCost, UnindexedField};
use serde_json::Value;

use crate::request::growing_reservation::GrowingReservation;

/// The steps of one request so far. Shared by the threads that do them, one after the other.
pub struct Steps {
    start: Instant,
    /// Nanoseconds: from the request's first byte until its body was read and parsed, ...
    received: AtomicU64,
    /// ... of which so many waited for memory, ...
    memory_of_body: AtomicU64,
    /// ... then until there was memory for the answer, ...
    memory: AtomicU64,
    /// ... and until a search thread had time; ...
    queue: AtomicU64,
    /// ... fetching payloads and vectors in portions, and writing the answer.
    fetch: AtomicU64,
    encode: AtomicU64,
    /// From how many microseconds on how searches were done is told beside the answer.
    told_from: AtomicU64,
    searches: Mutex<Vec<Searched>>,
}

/// Of a request to a shard: from how many microseconds of its own work on it tells how it was done. Another node wants to know it in case all of the request is slow; most
/// requests are quick, and what they would tell is written and read for nothing.
pub const TOLD_FROM: HeaderName = HeaderName::from_static("ramlet-told-from");

/// How one search of a request was done.
#[derive(Debug, Clone, Default)]
pub struct Searched {
    pub parts: Vec<Explained>,
    pub cost: SearchCost,
    /// Fields that its filters ask about and no index answers for.
    pub unindexed: Vec<UnindexedField>,
    /// Of a collection that is divided: what `parts` and `cost` don't count.
    pub shards: Option<Arc<ShardsSearched>>,
}

/// What the nodes of shards told of a search.
#[derive(Default)]
pub struct ShardsSearched {
    /// A shard may be asked several times.
    pub asks: Vec<ShardSearched>,
    /// For what they told.
    pub held: GrowingReservation,
}

/// How a node of a shard did its part, once.
pub struct ShardSearched {
    pub shard: u32,
    /// Its URL.
    pub node: String,
    /// How long its answer was waited for.
    pub waited: Duration,
    /// `explain` of its answer; null: it had so little to do that it told nothing.
    pub told: Value,
}

impl ShardsSearched {
    /// Segments and write buffers of all shards.
    pub fn segments(&self) -> impl Iterator<Item = (&ShardSearched, &Value)> {
        self.asks.iter().flat_map(|ask| {
            let segments = ask.told["segments"].as_array().into_iter().flatten();
            segments.map(move |segment| (ask, segment))
        })
    }

    /// Payloads that filters were asked about, one by one.
    pub fn payloads_checked(&self) -> u64 {
        let checked = self
            .segments()
            .filter(|(_, part)| part["payloads_checked"] == true);
        checked
            .filter_map(|(_, part)| part["rows_checked"].as_u64())
            .sum()
    }
}

impl std::fmt::Debug for ShardsSearched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardsSearched")
            .field("asks", &self.asks.len())
            .finish_non_exhaustive()
    }
}

/// The steps of a request in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepsUs {
    pub admission: u64,
    pub memory_wait: u64,
    pub queue: u64,
    pub fetch: u64,
    pub encode: u64,
    pub total: u64,
}

impl Steps {
    pub fn new(start: Instant) -> Arc<Steps> {
        Arc::new(Steps {
            start,
            received: AtomicU64::new(0),
            memory_of_body: AtomicU64::new(0),
            memory: AtomicU64::new(0),
            queue: AtomicU64::new(0),
            fetch: AtomicU64::new(0),
            encode: AtomicU64::new(0),
            told_from: AtomicU64::new(0),
            searches: Mutex::default(),
        })
    }

    /// The body is read and parsed; so long it waited for memory.
    pub fn note_received(&self, waited: Duration) {
        set(&self.received, self.start.elapsed());
        set(&self.memory_of_body, waited);
    }

    /// It is of a request with these headers.
    pub fn note_headers(&self, headers: &HeaderMap) {
        let from = headers
            .get(TOLD_FROM)
            .and_then(|from| from.to_str().ok()?.parse().ok());
        self.told_from.store(from.unwrap_or(0), Ordering::Relaxed);
    }

    /// Whether the request took so long that they are told.
    pub fn are_told(&self) -> bool {
        let from = self.told_from.load(Ordering::Relaxed);
        from == 0 || self.start.elapsed() >= Duration::from_micros(from)
    }

    pub fn note_memory(&self, waited: Duration) {
        add(&self.memory, waited);
    }

    pub fn note_queue(&self, waited: Duration) {
        add(&self.queue, waited);
    }

    pub fn note_fetch(&self, took: Duration) {
        add(&self.fetch, took);
    }

    pub fn note_encode(&self, took: Duration) {
        add(&self.encode, took);
    }

    pub fn note_search(&self, searched: Searched) {
        self.lock().push(searched);
    }

    /// Fields without an index that a request other than a search asks about, and the payloads that were read for them.
    pub fn note_unindexed(&self, unindexed: Vec<UnindexedField>, payloads_checked: u64) {
        self.note_search(Searched {
            unindexed,
            cost: SearchCost {
                payloads_checked,
                ..SearchCost::default()
            },
            ..Searched::default()
        });
    }

    /// The searches so far, in their order.
    pub fn with_searches<T>(&self, look: impl FnOnce(&[Searched]) -> T) -> T {
        look(&self.lock())
    }

    /// Until now.
    pub fn us(&self) -> StepsUs {
        let of = |ns: &AtomicU64| ns.load(Ordering::Relaxed) / 1_000;
        let waited = of(&self.memory_of_body);
        StepsUs {
            admission: of(&self.received).saturating_sub(waited),
            memory_wait: waited + of(&self.memory),
            queue: of(&self.queue),
            fetch: of(&self.fetch),
            encode: of(&self.encode),
            total: self.start.elapsed().as_micros() as u64,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Searched>> {
        self.searches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set(place: &AtomicU64, took: Duration) {
    place.store(took.as_nanos() as u64, Ordering::Relaxed);
}

fn add(place: &AtomicU64, took: Duration) {
    place.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
}

/// The engine's clock: nanoseconds since it was first asked.
pub fn clock() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Runs `job`, and hands how long it took to `note` where there are steps.
pub fn timed<T>(steps: Option<&Arc<Steps>>, note: fn(&Steps, Duration), job: impl FnOnce() -> T) -> T {
    let Some(steps) = steps else { return job() };
    let begun = Instant::now();
    let done = job();
    note(steps, begun.elapsed());
    done
}
