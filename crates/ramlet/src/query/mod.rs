//! Nearest neighbours over a view: every segment's index, then the memtables, into one collector.

mod candidates;
mod engine;
mod examples;
pub mod expression;
mod formula;
mod found;
mod fusion;
mod given;
mod highlight;
mod mmr;
mod order;
mod others;
pub mod request;
mod result_groups;
mod run;
mod scan;
mod scorer;
mod segment;
pub(crate) mod sparse;
mod text;

use std::borrow::Cow;

use ramlet_index::{CodesWanted, Hit, IndexSearchParams, Query, TopK};
use ramlet_io::{Clock, IoContext, SearchStage};
use ramlet_memory::{AnonBuf, Consumer};

use crate::error::{Error, Result};
use crate::filter::CompiledFilter;
use crate::limits::LIMIT_MAX;
use crate::payload::Selector;
pub(crate) use crate::query::result_groups::query_groups;
use crate::read::lookup::{LOOKUP_BYTES, Lookup};
use crate::read::view::{Place, View};
use crate::request::{Explained, QueryVector, SearchCost, SearchParams, SearchRequest};
use crate::schema::{VectorField, VectorKind};
use crate::settings::check_recall;
use crate::types::vector::Vector;
use crate::types::{NamedVectors, PayloadSelector, PointId, ScoredPoint, VectorSelector};
use crate::write::encoding::{check_query, decode_vector, prepare_query};
use crate::write::memtable::MemtableView;
pub use examples::inputs as query_inputs;
use found::FoundList;
pub use fusion::{Ranked, fused};
pub use result_groups::{GROWTH as GROUPS_GROWTH, group_ids, widen_for_groups};
pub(crate) use run::{check, query, skipped};
use segment::{SearchContext, search_segment};
pub(crate) use sparse::statistics as sparse_statistics;
pub(crate) use text::TextAsked;

/// What one search slot owns. Nothing is allocated on the warm path of a search without filter and payload.
pub struct Scratch {
    pub lookup: Lookup,
    top: TopK,
    query: Query,
    bytes: Vec<u8>,
    /// For payloads that a filter looks at while `lookup` is busy with vectors.
    check: AnonBuf,
    pub(crate) in_slot: bool,
}

/// Hits whose places are kept for the next search.
const TOP_KEPT: usize = 1024;

impl Scratch {
    /// `rare`: for blocks larger than usual, given back by [`Scratch::trim`].
    pub(crate) fn new(io: IoContext, consumer: &Consumer, rare: &Consumer, bytes: u64) -> Result<Scratch> {
        Ok(Scratch {
            lookup: Lookup::new(io, consumer, rare, bytes)?,
            top: TopK::new(16),
            query: Query::new(ramlet_index::Metric::Dot, ramlet_index::Element::F32, &[0.0]),
            bytes: Vec::new(),
            check: AnonBuf::reserved(rare, LOOKUP_BYTES)?,
            in_slot: false,
        })
    }

    /// How often its searches have waited for the disk.
    pub fn waits(&self) -> u64 {
        self.lookup.io.waits()
    }

    /// Rows whose payloads a scroll, a count, a facet or a sample has read for its filter; counts from 0 again.
    pub fn take_payloads_checked(&mut self) -> u64 {
        std::mem::take(&mut self.lookup.payloads_checked)
    }

    /// From now to the end of the job times are told beside what was found ([`SearchCost`], [`Explained`]); they come from this clock.
    pub fn set_clock(&mut self, clock: Clock) {
        self.lookup.io.set_clock(Some(clock));
    }

    /// What the last search was for, and what reads beside it.
    pub(crate) fn query_and_lookup(&mut self) -> (&Query, &mut Lookup) {
        (&self.query, &mut self.lookup)
    }

    /// A request begins. In a slot one job may make several, whose answers are all in memory until the slot trims; outside,
    /// what was handed out before is the caller's.
    pub(crate) fn begin(&mut self) {
        if !self.in_slot {
            self.lookup.settle();
        }
    }

    /// Payloads that were handed out so far are dropped: their bytes are given back.
    pub fn settle(&mut self) {
        self.lookup.settle();
    }

    /// Where it takes what single requests need beyond its buffers.
    pub(crate) fn rare(&self) -> &Consumer {
        &self.lookup.rare
    }

    /// Gives back what a large request needed: it is paid for while that request lasts.
    pub(crate) fn trim(&mut self) {
        self.lookup.io.set_clock(None);
        self.lookup.settle();
        self.lookup.trim();
        self.check.shrink_to(LOOKUP_BYTES);
        if self.top.k() > TOP_KEPT {
            self.top = TopK::new(16);
        }
        self.bytes.shrink_to(LOOKUP_BYTES);
        self.query.shrink_to(LOOKUP_BYTES / 4);
    }
}

/// Appends the hits of a search to `out`, best first; `explained` gets how each part was searched.
pub fn search(
    view: &View,
    request: &SearchRequest,
    scratch: &mut Scratch,
    out: &mut Vec<ScoredPoint>,
    explained: Option<&mut Vec<Explained>>,
) -> Result<SearchCost> {
    let before = Spent::so_far(&scratch.lookup.io);
    let field = view.schema.vector(&request.using)?;
    sparse::check_idf(field, request.params.idf.as_ref())?;
    let own_id = prepare(view, request, field, scratch)?;
    let excluded: &[PointId] = own_id.as_slice();
    let wanted = request.limit.saturating_add(request.offset);
    if wanted > LIMIT_MAX {
        return Err(Error::bad_input(format!(
            "limit + offset is {wanted}, at most {LIMIT_MAX} is possible"
        )));
    }
    let most = usize::try_from(view.points()).unwrap_or(usize::MAX);
    scratch.top.clear(wanted.min(most));
    let filter = compile(view, request.filter.as_ref())?;
    let context = SearchContext {
        view,
        field,
        filter: filter.as_ref(),
        excluded,
        want: want(&request.params, field, request.score_threshold)?,
        indexed_only: request.params.indexed_only,
    };
    let cost = search_all(&context, scratch, explained)?;
    let found = scratch.lookup.io.now();
    collect(view, request, field, scratch, out)?;
    Ok(before.until_now(&scratch.lookup.io, found, cost))
}

/// What a thread's reader had done, and when, before a search.
struct Spent {
    reads: u64,
    bytes: u64,
    waited_ns: u64,
    waits: u64,
    at: u64,
}

impl Spent {
    fn so_far(io: &IoContext) -> Spent {
        Spent {
            reads: io.reads(),
            bytes: io.bytes(),
            waited_ns: io.waited_ns(),
            waits: io.waits(),
            at: io.now(),
        }
    }

    /// The cost of a search whose hits were found at `found`, and are fetched now.
    fn until_now(&self, io: &IoContext, found: u64, cost: SearchCost) -> SearchCost {
        let now = io.now();
        SearchCost {
            disk_reads: io.reads() - self.reads,
            disk_bytes: io.bytes() - self.bytes,
            total_ns: now - self.at,
            waited_ns: io.waited_ns() - self.waited_ns,
            read_waits: io.waits() - self.waits,
            collect_ns: now - found,
            ..cost
        }
    }
}

/// Segments, the largest first, then buffers; what was compared. Most of the nearest rows lie in the largest: the distance of the last of them rules out most rows of the others, whose
/// codes then leave few to be rescored.
fn search_all(
    context: &SearchContext<'_>,
    scratch: &mut Scratch,
    mut explained: Option<&mut Vec<Explained>>,
) -> Result<SearchCost> {
    let mut cost = SearchCost::default();
    let segments = &context.view.segments;
    for index in largest_first(segments.iter().map(|view| view.segment.rows())) {
        let segment = &segments[index];
        scratch.top.begin_segment(index as u32);
        let begun = scratch.lookup.io.now();
        let found = search_segment(context, segment, scratch)?;
        cost.add(&found);
        add_explained(&mut explained, found, (context, begun), scratch);
    }
    for (index, memtable) in context.view.memtables.iter().enumerate() {
        scratch.top.begin_segment((segments.len() + index) as u32);
        let begun = scratch.lookup.io.now();
        scratch.lookup.io.take_stages();
        scratch.lookup.io.enter(SearchStage::Rows);
        let found = scan_memtable(context, memtable, scratch);
        cost.add(&found);
        add_explained(&mut explained, found, (context, begun), scratch);
    }
    Ok(cost)
}

/// The place of the largest of segments of so many rows, then those of the others in order.
fn largest_first(rows: impl ExactSizeIterator<Item = u32>) -> impl Iterator<Item = usize> {
    let places = 0..rows.len();
    let largest = rows
        .enumerate()
        .max_by_key(|(_, rows)| *rows)
        .map(|(place, _)| place);
    let others = places.filter(move |place| Some(*place) != largest);
    largest.into_iter().chain(others)
}

/// Adds a part that is done to what is explained, if anything is.
fn add_explained(
    explained: &mut Option<&mut Vec<Explained>>,
    mut part: Explained,
    (context, begun): (&SearchContext<'_>, u64),
    scratch: &mut Scratch,
) {
    if let Some(explained) = explained {
        part.using.clone_from(&context.field.name);
        let io = &mut scratch.lookup.io;
        part.total_ns = io.now() - begun;
        part.stages = part.stages.or_else(|| io.take_stages().map(Box::new));
        explained.push(part);
    }
}

/// What a request asks of the indexes, of whose hits the scores are held against `threshold`.
fn want(params: &SearchParams, field: &VectorField, threshold: Option<f32>) -> Result<IndexSearchParams> {
    let quantization = params.quantization;
    if let Some(recall) = params.recall {
        check_recall(recall).map_err(|e| Error::bad_input(format!("Wrong input: recall: {e}")))?;
    }
    // Written so that NaN is refused too.
    if let Some(oversampling) = quantization
        .oversampling
        .filter(|o| !(*o >= 1.0 && o.is_finite()))
    {
        return Err(Error::bad_input(format!(
            "Wrong input: quantization.oversampling: value {oversampling} invalid, must be 1.0 or larger"
        )));
    }
    Ok(IndexSearchParams {
        exact: params.exact,
        effort: params.hnsw_ef.map(|ef| ef.min(1 << 20) as u32),
        recall: params.recall.or(field.settings.recall),
        codes: CodesWanted {
            ignore: quantization.ignore,
            rescore: quantization.rescore,
            oversampling: quantization.oversampling,
            threshold: threshold.map(|threshold| field.metric.distance_of_score(threshold)),
        },
        ..IndexSearchParams::default()
    })
}

pub(crate) fn compile(view: &View, filter: Option<&crate::filter::Filter>) -> Result<Option<CompiledFilter>> {
    filter
        .map(|filter| CompiledFilter::on(&view.schema.fields, filter))
        .transpose()
        .map_err(|e| Error::bad_input(format!("Wrong input: {e}")))
}

/// Makes the thread's query of a vector that is [ready](sparse::ready).
fn aim(field: &VectorField, vector: &Vector, scratch: &mut Scratch) -> Result<()> {
    if field.kind == VectorKind::Multi {
        // Beside the request's own.
        let numbers = vector.numbers();
        let parts = numbers / field.dim.max(1);
        scratch
            .lookup
            .reserve_returned(Query::bytes_for(numbers, parts))?;
    }
    prepare_query(&mut scratch.query, field, vector)
}

/// Makes the query; returns the id that is left out of the hits, for a search by id.
fn prepare(
    view: &View,
    request: &SearchRequest,
    field: &VectorField,
    scratch: &mut Scratch,
) -> Result<Option<PointId>> {
    let (vector, own) = match &request.query {
        QueryVector::Vector(vector) => (Cow::Borrowed(vector), None),
        QueryVector::Id(id) => {
            let place = view
                .find(*id, &mut scratch.lookup)?
                .ok_or_else(|| Error::not_found(format!("Not found: No point with id {id} found")))?;
            scratch.bytes.clear();
            if !view.encoded_vector_of(place, field.slot, &mut scratch.lookup, &mut scratch.bytes)? {
                let name = &field.name;
                return Err(Error::not_found(format!(
                    "Not found: point {id} has no vector `{name}`"
                )));
            }
            (Cow::Owned(decode_vector(field, &scratch.bytes)?), Some(*id))
        }
    };
    match field.kind {
        VectorKind::Sparse => {
            let vector = sparse::ready(
                view,
                field,
                vector.into_owned(),
                request.params.idf.as_ref(),
                &mut scratch.lookup,
            )?;
            aim(field, &vector, scratch)?;
        }
        _ => {
            check_query(field, &vector)?;
            aim(field, &vector, scratch)?;
        }
    }
    Ok(own)
}

/// Scores every live row of a buffer that has the vector. `indexed_only` doesn't pass over it: it is never larger than its
/// share of the budget, and stays for as long as nothing more is written.
fn scan_memtable(context: &SearchContext<'_>, view: &MemtableView, scratch: &mut Scratch) -> Explained {
    let mut found = Explained {
        index: "buffer",
        strategy: "all",
        rows: u64::from(view.live()),
        ..Explained::default()
    };
    let slot = context.field.slot;
    let Scratch { query, top, .. } = scratch;
    let sparse = query.sparse().is_some();
    let mut checked = 0;
    found.rows_scored = view.compare(slot, query, |number, distance| {
        // Almost every row ends here.
        let is_hit = top.would_enter(distance, number) && !(sparse && distance == f32::INFINITY);
        if !is_hit || !view.has_vector(number, slot) {
            return;
        }
        let row = view.memtable.row(number);
        if context.excluded.binary_search(&row.id).is_err() {
            checked += 1;
            if context.filter.is_none_or(|filter| filter.matches(&row)) {
                top.push(distance, number);
            }
        }
    });
    found.rows_checked = checked;
    view.memtable.note_compared(found.rows_scored);
    found
}

fn place_of(view: &View, hit: &Hit) -> Place {
    match (hit.segment as usize).checked_sub(view.segments.len()) {
        None => Place::Segment {
            index: hit.segment,
            row: hit.row,
        },
        Some(memtable) => Place::Memtable {
            index: memtable as u32,
            row: hit.row,
        },
    }
}

/// Whether a score is better than the threshold, in the order of the vector's distance.
fn passes(field: &VectorField, score: f32, threshold: Option<f32>) -> bool {
    match threshold {
        None => true,
        Some(least) if field.metric.larger_is_nearer() => score > least,
        Some(most) => score < most,
    }
}

/// Turns what the collector holds into hits.
fn collect(
    view: &View,
    request: &SearchRequest,
    field: &VectorField,
    scratch: &mut Scratch,
    out: &mut Vec<ScoredPoint>,
) -> Result<()> {
    let payload = selector(&request.with_payload)?;
    let Scratch { lookup, top, .. } = scratch;
    for hit in top.sorted().iter().skip(request.offset) {
        let score = field.metric.score(hit.distance);
        if !passes(field, score, request.score_threshold) {
            break;
        }
        let place = place_of(view, hit);
        let (id, version) = view.id_of(place, lookup)?;
        out.push(ScoredPoint {
            id,
            score: finite(score),
            version,
            payload: selected_payload(view, place, &payload, lookup)?,
            vectors: selected_vectors(view, place, &request.with_vectors, lookup)?,
            order_value: None,
            highlights: None,
            shard_key: view.key_of(place),
        });
    }
    Ok(())
}

/// A score beyond 32-bit floats is the greatest or the least of them: JSON has no other, and clients read no `null`.
fn finite(score: f32) -> f32 {
    match score.is_nan() {
        true => f32::MIN,
        false => score.clamp(f32::MIN, f32::MAX),
    }
}

/// Turns what a query has found into hits, without the first `skip`. Points that nothing scored are `plain`: they have no
/// version.
fn collect_found(
    view: &View,
    list: &FoundList,
    skip: usize,
    (payload, vectors): (&PayloadSelector, &VectorSelector),
    plain: bool,
    scratch: &mut Scratch,
    out: &mut Vec<ScoredPoint>,
) -> Result<()> {
    let payload = selector(payload)?;
    if let VectorSelector::Names(names) = vectors {
        names
            .iter()
            .try_for_each(|name| view.schema.vector(name).map(|_| ()))?;
    }
    let lookup = &mut scratch.lookup;
    let first = out.len();
    for (at, found) in list.found.iter().enumerate().skip(skip) {
        let (id, version) = view.id_of(found.place, lookup)?;
        out.push(ScoredPoint {
            id,
            score: finite(found.score),
            version: if plain { 0 } else { version },
            payload: None,
            vectors: selected_vectors(view, found.place, vectors, lookup)?,
            order_value: list.orders.get(at).copied(),
            highlights: None,
            shard_key: view.key_of(found.place),
        });
    }
    let places = list.found.iter().skip(skip).map(|found| found.place);
    let hits = out[first..].iter_mut().zip(places);
    select_payloads(
        view,
        hits.map(|(hit, place)| (place, &mut hit.payload)),
        &payload,
        lookup,
    )
}

/// Hits of a segment whose payloads are read at once.
const PAYLOADS_AT_ONCE: usize = 64;

/// The part of each point's payload that was asked for; payloads of a segment are read many at once.
fn select_payloads<'a>(
    view: &View,
    wanted: impl Iterator<Item = (Place, &'a mut Option<Vec<u8>>)>,
    selector: &Selector,
    lookup: &mut Lookup,
) -> Result<()> {
    if matches!(selector, Selector::None) {
        return Ok(());
    }
    let mut of_segments = Vec::new();
    for (place, out) in wanted {
        match place {
            Place::Segment { index, row } => of_segments.push((index, row, out)),
            Place::Memtable { .. } => *out = selected_payload(view, place, selector, lookup)?,
        }
    }
    of_segments.sort_unstable_by_key(|(index, row, _)| (*index, *row));
    for same in of_segments.chunk_by_mut(|a, b| a.0 == b.0) {
        let segment = &view.segments[same[0].0 as usize].segment;
        for some in same.chunks_mut(PAYLOADS_AT_ONCE) {
            let rows: Vec<u32> = some.iter().map(|(_, row, _)| *row).collect();
            let (mut outs, mut bytes) = (some.iter_mut(), 0);
            let Lookup { io, buf, rare, .. } = &mut *lookup;
            let mut held = rare.reserve(0)?;
            segment.payloads(&rows, io, buf, &mut |_, _, payload| {
                held.grow(payload.len() as u64)?;
                bytes += payload.len();
                if let Some((_, _, out)) = outs.next() {
                    let mut part = Vec::with_capacity(payload.len());
                    **out = selector.apply(payload, &mut part).then_some(part);
                }
                Ok(())
            })?;
            drop(held);
            lookup.reserve_returned(bytes)?;
        }
    }
    Ok(())
}

pub(crate) fn selector(wanted: &PayloadSelector) -> Result<Selector> {
    Selector::new(wanted).map_err(|e| Error::bad_input(format!("with_payload: {e}")))
}

/// The part of a point's payload that was asked for.
pub(crate) fn selected_payload(
    view: &View,
    place: Place,
    selector: &Selector,
    lookup: &mut Lookup,
) -> Result<Option<Vec<u8>>> {
    if matches!(selector, Selector::None) {
        return Ok(None);
    }
    let payload = view.payload_of(place, lookup)?;
    lookup.reserve_returned(payload.len())?;
    let mut out = Vec::with_capacity(payload.len());
    Ok(selector.apply(&payload, &mut out).then_some(out))
}

/// The vectors of a point that were asked for.
pub(crate) fn selected_vectors(
    view: &View,
    place: Place,
    wanted: &VectorSelector,
    lookup: &mut Lookup,
) -> Result<Option<NamedVectors>> {
    match wanted {
        VectorSelector::None => Ok(None),
        VectorSelector::All => view.vectors_of(place, None, lookup).map(Some),
        VectorSelector::Names(names) => view.vectors_of(place, Some(names), lookup).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::largest_first;

    #[test]
    fn the_largest_segment_is_searched_first() {
        let order = |rows: &[u32]| largest_first(rows.iter().copied()).collect::<Vec<_>>();
        assert!(order(&[]).is_empty());
        assert_eq!(order(&[7]), [0]);
        assert_eq!(order(&[3, 9, 5]), [1, 0, 2]);
        assert_eq!(order(&[1_352, 998_648]), [1, 0]);
    }
}
