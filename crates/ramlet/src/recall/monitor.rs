//! The recall of real queries: now and then a query is repeated with far more effort, and the answers are compared.
//!
//! Comparing with all rows would be right and too dear: a million vectors are 400 MB of reads. So the rows are taken in two
//! parts. The *near* part is what a search with [`EFFORT`] finds, eight times the usual: of the neighbours that the usual
//! search misses nearly all are there, and those are counted one by one. The *far* part is all the rest, of which [`ROWS`]
//! are drawn by chance: each that is nearer than the last of the near part's hits stands for `rows / drawn` rows that both
//! searches missed. The estimate is
//!
//! `recall = |usual hits among the near part's| / k  -  (rows / drawn) * |drawn rows that are nearer| / k`
//!
//! Every row that was missed is counted once in expectation, in the first term for certain or in the second by chance, so
//! the mean over queries isn't off; it is a little low when several rows were missed that would have pushed each other out.
//! Drawing alone, without the near part, would need thousands of queries for two digits: of 1,000,000 rows with 256 drawn, a
//! missed neighbour would be met once in 4,000 queries. As it is, a hundred do.
//!
//! Where all vectors are few bytes, they are compared whole.
//!
//! Costs, per measured query: two searches and 256 rows read one by one. One query is kept at a time, in reserved memory;
//! nothing here knows the time: whoever calls [`crate::Engine::monitor_recall_once`] sets the pace.
//!
//! Of an index that was never measured on queries the first ones are gathered, for [`crate::jobs::recalibrate`] to compare them
//! with all rows at once: until then they may find less than was promised them.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use ramlet_memory::{Consumer, Reservation};

use crate::error::Result;
use crate::filter::{CompiledFilter, Filter, FilterLimits};
use crate::query::request::{Prefetch, QueryKind, QueryRequest};
use crate::query::{self, Scratch};
use crate::read::lookup::Lookup;
use crate::read::matching;
use crate::read::view::{Place, View};
use crate::recall::drift::Drift;
use crate::recall::query_sample::{FirstQueries, QuerySample};
use crate::request::{QueryVector, SearchParams, SearchRequest};
use crate::schema::{VectorField, VectorKind};
use crate::segment::{RECALL, Segment, was_sampled};
use crate::types::{PayloadSelector, PointId, ScoredPoint, VectorSelector};

/// The API's `hnsw_ef` of the search that is compared with: 128 is the usual effort.
const EFFORT: usize = 1024;

/// Rows drawn by chance from all.
const ROWS: u64 = 256;

/// Collections whose vectors are up to so many bytes are compared with whole: a tenth of a second of reads.
const EXACT_BYTES: u64 = 128 << 20;

/// A sample takes at most so many bytes, and so many hits.
const SAMPLE_BYTES_MAX: u64 = 512 << 10;
const LIMIT_MAX: usize = 256;

/// Queries after which the mean forgets: it follows what has changed since.
const WINDOW: u64 = 512;

/// Recall of real queries on one vector of a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredRecall {
    /// Name of the vector; `""` is the default one.
    pub vector: String,
    /// Queries measured since the start.
    pub queries: u64,
    /// Mean over the last of them, 0 to 1.
    pub recall: f64,
    /// Standard error of the mean.
    pub error: f64,
}

/// One collection's monitor.
pub struct RecallMonitor {
    /// What kept queries take.
    samples: Consumer,
    /// A query is wanted: looked at by every search, so it is all that most of them see of this.
    idle: AtomicBool,
    /// So are the first ones on an index.
    gathers: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The segment that most of what is known is about.
    about: Option<u64>,
    first: Vec<FirstQueries>,
    sample: Option<Sample>,
    measured: Vec<Running>,
    drifts: Vec<Drift>,
    seed: u64,
}

/// A real query, to be done again.
pub struct Sample {
    request: SearchRequest,
    _held: Reservation,
}

struct Running {
    vector: String,
    queries: u64,
    mean: f64,
    variance: f64,
}

impl Running {
    fn add(&mut self, recall: f64) {
        self.queries += 1;
        let weight = 1.0 / self.queries.min(WINDOW) as f64;
        let off = recall - self.mean;
        self.mean += weight * off;
        self.variance += weight * (off * (recall - self.mean) - self.variance);
    }

    fn measured_recall(&self) -> MeasuredRecall {
        MeasuredRecall {
            vector: self.vector.clone(),
            queries: self.queries,
            recall: self.mean.clamp(0.0, 1.0),
            error: (self.variance.max(0.0) / self.queries.min(WINDOW) as f64).sqrt(),
        }
    }
}

impl RecallMonitor {
    /// `samples` shall refuse at once what isn't there: no search waits to be kept.
    pub fn new(samples: Consumer) -> RecallMonitor {
        RecallMonitor {
            samples,
            idle: AtomicBool::default(),
            gathers: AtomicBool::default(),
            state: Mutex::default(),
        }
    }

    /// A search was made: perhaps it is kept. Costs a load unless it is.
    pub fn offer(&self, request: &SearchRequest) {
        let gathers = self.gathers.load(Ordering::Relaxed);
        if !(gathers || self.idle.load(Ordering::Relaxed)) || !is_usual(request) {
            return;
        }
        if gathers
            && request.filter.is_none()
            && let Some(query) = dense(&request.query)
        {
            self.gather(&request.using, query);
        }
        if !self.idle.load(Ordering::Relaxed) {
            return;
        }
        let Some(bytes) = bytes_of(request).filter(|&bytes| bytes <= SAMPLE_BYTES_MAX) else {
            return;
        };
        // Rather no sample than a search that waits.
        let (Ok(mut state), Ok(held)) = (self.state.try_lock(), self.samples.reserve(bytes)) else {
            return;
        };
        self.idle.store(false, Ordering::Relaxed);
        let request = SearchRequest {
            with_payload: PayloadSelector::None,
            with_vectors: VectorSelector::None,
            ..request.clone()
        };
        state.sample = Some(Sample { request, _held: held });
    }

    /// A query of several stages was made: those of them that are searches may be among the first.
    pub fn offer_stages(&self, request: &QueryRequest) {
        if self.gathers.load(Ordering::Relaxed) && request.filter.is_none() {
            self.gather_stages(&request.prefetch);
        }
    }

    fn gather_stages(&self, stages: &[Prefetch]) {
        for stage in stages.iter().filter(|stage| stage.filter.is_none()) {
            self.gather_stages(&stage.prefetch);
            let Some(QueryKind::Nearest(query)) = &stage.query else {
                continue;
            };
            let is_search = stage.prefetch.is_empty() && stage.params == SearchParams::default();
            if let Some(query) = dense(query).filter(|_| is_search) {
                self.gather(&stage.using, query);
            }
        }
    }

    /// After a panic everything is gathered anew: what is half-changed may panic again, in a search that has nothing to do with it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            *state = State::default();
            self.gathers.store(false, Ordering::Relaxed);
            self.state.clear_poison();
            state
        })
    }

    /// As a panic leaves it that happened while it was changed.
    #[cfg(test)]
    pub fn panic(&self) {
        let panic = crate::faults::panics::caught(|| {
            let _state = self.state();
            panic!("planted");
        });
        assert!(panic.is_err() && self.state.is_poisoned());
    }

    /// Keeps a query if it is among the first.
    fn gather(&self, vector: &str, query: &[f32]) {
        // Rather one less than a search that waits.
        let Ok(mut state) = self.state.try_lock() else {
            return;
        };
        let mut all = state.first.iter_mut();
        if let Some(first) = all.find(|first| first.vector == vector) {
            first.offer(query, &self.samples);
        }
        let gathers = !state.first.iter().all(FirstQueries::is_full);
        self.gathers.store(gathers, Ordering::Relaxed);
    }

    /// Whose queries those are that come: if its largest index is another one than before, that knows nothing of them.
    pub fn watch(&self, view: &View) {
        let largest = largest_indexed(view);
        let about = largest.map(|segment| segment.id());
        let mut state = self.state();
        if state.about == about {
            return;
        }
        state.about = about;
        state.drifts.iter_mut().for_each(Drift::reset);
        state.first = largest
            .map(|segment| first_of(view, segment, &self.samples))
            .unwrap_or_default();
        self.gathers.store(!state.first.is_empty(), Ordering::Relaxed);
    }

    /// The query that waits to be measured; if there is none, the next one that comes is kept.
    pub fn take(&self) -> Option<Sample> {
        let sample = self.state().sample.take();
        if sample.is_none() {
            self.idle.store(true, Ordering::Relaxed);
        }
        sample
    }

    /// A sample that couldn't be measured now.
    pub fn put_back(&self, sample: Sample) {
        self.state().sample = Some(sample);
    }

    /// A vector that the first queries are known of, or whose queries find less than they should, and these queries: measured from
    /// now on anew.
    pub fn take_due(&self) -> Option<QuerySample> {
        let mut state = self.state();
        let first = state.first.iter_mut().find_map(FirstQueries::take);
        first.or_else(|| state.drifts.iter_mut().find_map(Drift::take))
    }

    /// Whether there is one.
    pub fn is_due(&self) -> bool {
        let state = self.state();
        state.first.iter().any(FirstQueries::is_due) || state.drifts.iter().any(Drift::is_off)
    }

    /// What queries on a vector find since its index was measured on them.
    pub fn note_found(&self, vector: &str, recalls: &[f64]) {
        let mut state = self.state();
        // What was measured before is of searches that went about it otherwise.
        state.measured.retain(|running| running.vector != vector);
        recalls.iter().for_each(|recall| state.add(vector, *recall));
    }

    pub fn measured(&self) -> Vec<MeasuredRecall> {
        let state = self.state();
        state.measured.iter().map(Running::measured_recall).collect()
    }

    /// Does the sample again, with the usual effort and with more, and notes what the usual one found.
    pub fn measure(&self, view: &View, sample: &Sample, scratch: &mut Scratch) -> Result<()> {
        let seed = {
            let mut state = self.state();
            state.seed = state.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            state.seed
        };
        let recall = recall_of(view, &sample.request, seed, scratch);
        self.idle.store(true, Ordering::Relaxed);
        let mut state = self.state();
        // One that nothing matches says nothing.
        let Some(recall) = recall? else {
            return Ok(());
        };
        state.note_drift(&sample.request, recall, view, &self.samples);
        state.add(&sample.request.using, recall);
        Ok(())
    }
}

impl State {
    fn add(&mut self, vector: &str, recall: f64) {
        match self.measured.iter_mut().find(|running| running.vector == vector) {
            Some(running) => running.add(recall),
            None => self.measured.push(Running {
                vector: vector.to_owned(),
                queries: 1,
                mean: recall,
                variance: 0.0,
            }),
        }
    }

    /// Filters find their own way: only what was measured of queries without one tells whether the calibration still holds.
    fn note_drift(&mut self, request: &SearchRequest, recall: f64, view: &View, from: &Consumer) {
        let (None, Some(query)) = (&request.filter, dense(&request.query)) else {
            return;
        };
        let Ok(field) = view.schema.vector(&request.using) else {
            return;
        };
        let at = match self.drifts.iter().position(|drift| drift.slot() == field.slot) {
            Some(at) => at,
            None => {
                let Some(drift) = Drift::new(field.slot, field.dim, from) else {
                    return;
                };
                self.drifts.push(drift);
                self.drifts.len() - 1
            }
        };
        let target = f64::from(field.settings.recall.unwrap_or(RECALL));
        self.drifts[at].note(query, recall, target, from);
    }
}

/// The largest segment with an index that may miss something.
fn largest_indexed(view: &View) -> Option<&Segment> {
    let segments = view.segments.iter().map(|view| &*view.segment);
    let indexed = segments.filter(|segment| segment.columns().any(|column| column.index.kind() != "flat"));
    indexed.max_by_key(|segment| segment.rows())
}

/// The vectors that have an index there which was never measured on queries.
fn first_of(view: &View, segment: &Segment, samples: &Consumer) -> Vec<FirstQueries> {
    let fields = view.schema.vectors.iter();
    let unknown = fields.filter(|field| {
        let column = segment.vector(field.slot);
        let indexed = column.is_some_and(|column| column.index.kind() == "ivf");
        field.kind == VectorKind::Dense && indexed && !was_sampled(&segment.entry, field.slot)
    });
    unknown
        .filter_map(|field| FirstQueries::new(field.slot, &field.name, field.dim, samples))
        .collect()
}

/// The vector itself, of a query that is one of numbers in a row.
fn dense(query: &QueryVector) -> Option<&[f32]> {
    match query {
        QueryVector::Vector(vector) => vector.dense(),
        QueryVector::Id(_) => None,
    }
}

/// Whether a query asks for what the collection aims at: no effort of its own.
fn is_usual(request: &SearchRequest) -> bool {
    let usual = SearchParams {
        explain: request.params.explain,
        ..SearchParams::default()
    };
    request.params == usual && request.offset == 0 && (1..=LIMIT_MAX).contains(&request.limit)
}

/// Heap bytes of a kept request, about; a filter's strings are as long as its JSON. `None`: its filter is too large to be looked at.
fn bytes_of(request: &SearchRequest) -> Option<u64> {
    let vector = match &request.query {
        QueryVector::Vector(vector) => vector.bytes(),
        QueryVector::Id(_) => 0,
    };
    let filter = request.filter.as_ref().map_or(Some(0), filter_bytes)?;
    Some((size_of::<Sample>() + request.using.len() + vector) as u64 + filter)
}

fn filter_bytes(filter: &Filter) -> Option<u64> {
    struct Count(u64);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let small = FilterLimits {
        depth: 8,
        conditions: 64,
        values: 1_024,
    };
    let mut count = Count(0);
    filter.check(&small).ok()?;
    serde_json::to_writer(&mut count, filter).ok()?;
    Some(8 * count.0)
}

/// `None`: nothing matches, so there is nothing to be found.
fn recall_of(view: &View, request: &SearchRequest, seed: u64, scratch: &mut Scratch) -> Result<Option<f64>> {
    let mut usual = Vec::with_capacity(request.limit);
    query::search(view, request, scratch, &mut usual, None)?;
    let row_bytes = view
        .schema
        .vector(&request.using)
        .map_or(0, VectorField::row_bytes);
    let exact = view.points().saturating_mul(row_bytes as u64) <= EXACT_BYTES;
    let mut more = request.clone();
    more.params.exact = exact;
    more.params.hnsw_ef = Some(EFFORT);
    more.params.quantization.rescore = Some(true);
    let mut near = Vec::with_capacity(request.limit);
    query::search(view, &more, scratch, &mut near, None)?;
    let Some(last) = near.last() else {
        return Ok(None);
    };
    let is_among = |hit: &&ScoredPoint| usual.iter().any(|u| u.id == hit.id);
    let found = near.iter().filter(is_among).count() as f64;
    let far = match exact {
        true => 0.0,
        false => {
            let full = near.len() == request.limit;
            let beyond = full.then_some(last.score);
            missed_far(view, request, &near, beyond, seed, scratch)?
        }
    };
    Ok(Some((found - far) / near.len() as f64))
}

/// About how many rows are nearer than `beyond` (any, if `None`) and not in `near`: from rows drawn in all segments. Write
/// memtables are always compared whole.
fn missed_far(
    view: &View,
    request: &SearchRequest,
    near: &[ScoredPoint],
    beyond: Option<f32>,
    seed: u64,
    scratch: &mut Scratch,
) -> Result<f64> {
    let field = view.schema.vector(&request.using)?;
    let filter = query::compile(view, request.filter.as_ref())?;
    let all: u64 = view.segments.iter().map(|s| u64::from(s.segment.rows())).sum();
    let mut random = seed | 1;
    let mut missed = 0.0;
    for (index, segment) in view.segments.iter().enumerate() {
        let rows = u64::from(segment.segment.rows());
        let drawn = (ROWS * rows / all.max(1)).max(1).min(rows);
        let mut chosen: Vec<u32> = (0..drawn).map(|_| (next(&mut random) % rows) as u32).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let each = rows as f64 / chosen.len() as f64;
        for row in nearer_rows(view, index, field, &chosen, beyond, scratch)? {
            let place = Place::Segment {
                index: index as u32,
                row,
            };
            if is_missed(view, place, filter.as_ref(), (request, near), &mut scratch.lookup)? {
                missed += each;
            }
        }
    }
    Ok(missed)
}

/// Of these rows, those nearer to the query than a score.
fn nearer_rows(
    view: &View,
    segment: usize,
    field: &VectorField,
    rows: &[u32],
    beyond: Option<f32>,
    scratch: &mut Scratch,
) -> Result<Vec<u32>> {
    let segment = &view.segments[segment];
    let Some(column) = segment.segment.vector(field.slot) else {
        return Ok(Vec::new());
    };
    let (query, Lookup { io, index, .. }) = scratch.query_and_lookup();
    let mut nearer = Vec::new();
    column.index.read_rows(rows, index, io, &mut |row, bytes| {
        let score = field.metric.score(query.distance_of_row(bytes));
        let is_nearer = beyond.is_none_or(|beyond| match field.metric.larger_is_nearer() {
            true => score > beyond,
            false => score < beyond,
        });
        if is_nearer && column.has(row) && !segment.deletes.contains(row) {
            nearer.push(row);
        }
        Ok(())
    })?;
    Ok(nearer)
}

/// Whether a row could have been a hit and wasn't.
fn is_missed(
    view: &View,
    place: Place,
    filter: Option<&CompiledFilter>,
    (request, near): (&SearchRequest, &[ScoredPoint]),
    lookup: &mut Lookup,
) -> Result<bool> {
    let id: PointId = view.id_of(place, lookup)?.0;
    if request.query == QueryVector::Id(id) || near.iter().any(|hit| hit.id == id) {
        return Ok(false);
    }
    match filter {
        None => Ok(true),
        Some(filter) => matching::place_matches(view, place, filter, &mut lookup.io, &mut lookup.buf),
    }
}

/// xorshift64*.
fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_search_with_a_large_filter_is_not_kept() {
        let bytes = |filter: serde_json::Value| {
            let filter = serde_json::from_value(filter).expect("a filter");
            bytes_of(&SearchRequest {
                query: QueryVector::Id(PointId::Num(7)),
                using: String::new(),
                filter: Some(filter),
                params: SearchParams::default(),
                limit: 10,
                offset: 0,
                score_threshold: None,
                with_payload: PayloadSelector::None,
                with_vectors: VectorSelector::None,
            })
        };
        let field = |of: serde_json::Value| json!({"key": "n", "match": of});
        let kept = bytes(json!({"must": [field(json!({"any": (0..100).collect::<Vec<_>>()}))]}));
        assert!(
            kept.is_some_and(|bytes| (1_000..SAMPLE_BYTES_MAX).contains(&bytes)),
            "{kept:?}"
        );
        let numbers: Vec<u32> = (0..100_000).collect();
        let words: Vec<String> = numbers.iter().map(|n| format!("word{n}")).collect();
        let nested = (0..30).fold(field(json!({"value": 1})), |inner, _| json!({"must": [inner]}));
        for filter in [
            json!({"must": [{"has_id": numbers}]}),
            json!({"must": [field(json!({"any": numbers}))]}),
            json!({"must_not": [field(json!({"any": words}))]}),
            json!({"must": [field(json!({"except": words}))]}),
            json!({"should": numbers[..4_000].iter().map(|n| field(json!({"value": n}))).collect::<Vec<_>>()}),
            json!({"must": [nested]}),
            json!({"must": [field(json!({"text": "w".repeat(1 << 20)}))]}),
        ] {
            let bytes = bytes(filter);
            assert!(bytes.is_none_or(|bytes| bytes > SAMPLE_BYTES_MAX), "{bytes:?}");
        }
    }

    #[test]
    fn a_running_mean_follows_and_says_how_sure_it_is() {
        let mut running = Running {
            vector: String::new(),
            queries: 0,
            mean: 0.0,
            variance: 0.0,
        };
        for i in 0..400 {
            running.add(if i % 10 == 0 { 0.5 } else { 1.0 });
        }
        let measured_recall = running.measured_recall();
        assert!(
            (measured_recall.recall - 0.95).abs() < 0.005,
            "{measured_recall:?}"
        );
        // Deviation .15 over 20.
        assert!(
            (measured_recall.error - 0.0075).abs() < 0.001,
            "{measured_recall:?}"
        );
        (0..3_000).for_each(|_| running.add(0.8));
        assert!((running.measured_recall().recall - 0.8).abs() < 0.005);
    }
}
