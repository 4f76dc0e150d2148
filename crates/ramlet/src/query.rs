//! Nearest neighbours over a view: every segment's index, then the buffers, one collector.

use ramlet_index::{Allowed, Hit, IndexError, Query, RowFilter, SearchStats, TopK, Want};
use ramlet_io::IoContext;
use ramlet_memory::{AnonBuf, Consumer};

use crate::buffer::BufferView;
use crate::error::{Error, Result};
use crate::filter::CompiledFilter;
use crate::limits::LIMIT_MAX;
use crate::lookup::{LOOKUP_BYTES, Lookup};
use crate::matching::{self, Candidates};
use crate::payload::Selector;
use crate::request::{QueryVector, SearchCost, SearchRequest};
use crate::schema::{Schema, VectorField};
use crate::segment::{SegmentView, VectorColumn};
use crate::types::{NamedVectors, PayloadSelector, PointId, ScoredPoint, VectorSelector};
use crate::view::{Place, View};

/// What one search slot owns. Nothing is allocated on the warm path of a search without filter and payload.
pub struct Scratch {
    pub lookup: Lookup,
    top: TopK,
    query: Query,
    values: Vec<f32>,
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
            values: Vec::new(),
            bytes: Vec::new(),
            check: AnonBuf::reserved(rare, LOOKUP_BYTES)?,
            in_slot: false,
        })
    }

    /// A request begins. In a slot one job may make several, whose answers are all in memory until the slot trims; outside,
    /// what was handed out before is the caller's.
    pub(crate) fn begin(&mut self) {
        if !self.in_slot {
            self.lookup.settle();
        }
    }

    /// Gives back what a large request needed: it is paid for while that request lasts.
    pub(crate) fn trim(&mut self) {
        self.lookup.settle();
        self.lookup.buf.shrink_to(LOOKUP_BYTES);
        self.check.shrink_to(LOOKUP_BYTES);
        if self.top.k() > TOP_KEPT {
            self.top = TopK::new(16);
        }
        self.bytes.shrink_to(LOOKUP_BYTES);
        self.values.shrink_to(LOOKUP_BYTES / 4);
    }
}

pub(crate) fn index_error(e: IndexError) -> Error {
    match e {
        IndexError::Io(e) => e.into(),
        IndexError::OverBudget(e) => e.into(),
        IndexError::Scratch { .. } => Error::new(crate::ErrorKind::OverBudget, e.to_string()),
        IndexError::Filter(e) => match e.downcast::<Error>() {
            Ok(e) => *e,
            Err(e) => Error::corrupt(e.to_string()),
        },
        IndexError::Format(_) | IndexError::Mismatch(_) => Error::corrupt(e.to_string()),
    }
}

/// Appends the hits of a search to `out`, best first.
pub fn search(
    view: &View,
    request: &SearchRequest,
    scratch: &mut Scratch,
    out: &mut Vec<ScoredPoint>,
) -> Result<SearchCost> {
    let before = (scratch.lookup.io.reads(), scratch.lookup.io.bytes());
    let field = view.schema.vector(&request.using)?;
    let own_id = prepare(view, request, field, scratch)?;
    let filter = compile(request.filter.as_ref())?;
    let wanted = request.limit.saturating_add(request.offset);
    if wanted > LIMIT_MAX {
        return Err(Error::bad_input(format!(
            "limit + offset is {wanted}, at most {LIMIT_MAX} is possible"
        )));
    }
    let most = usize::try_from(view.points()).unwrap_or(usize::MAX);
    scratch.top.clear(wanted.min(most));
    let want = Want {
        exact: request.params.exact,
        effort: request.params.hnsw_ef.map(|ef| ef.min(1 << 20) as u32),
        ..Want::default()
    };
    let mut stats = SearchStats::default();
    for (index, segment) in view.segments.iter().enumerate() {
        scratch.top.begin_segment(index as u32);
        search_segment(
            view,
            segment,
            field,
            filter.as_ref(),
            own_id,
            &want,
            scratch,
            &mut stats,
        )?;
    }
    for (index, buffer) in view.buffers.iter().enumerate() {
        scratch.top.begin_segment((view.segments.len() + index) as u32);
        let at = view
            .schema
            .vectors
            .iter()
            .position(|v| v.slot == field.slot)
            .expect("the field is of this schema");
        stats.rows_scored += scan_buffer(buffer, at, filter.as_ref(), own_id, scratch);
    }
    collect(view, request, field, scratch, out)?;
    Ok(SearchCost {
        rows_scanned: stats.rows_scored,
        codes_scanned: stats.codes_scored,
        survivors: stats.survivors,
        fine_scanned: stats.fine_scored,
        rows_read: stats.rows_read,
        probes: stats.probes,
        disk_reads: scratch.lookup.io.reads() - before.0,
        disk_bytes: scratch.lookup.io.bytes() - before.1,
    })
}

pub(crate) fn compile(filter: Option<&crate::filter::Filter>) -> Result<Option<CompiledFilter>> {
    filter
        .map(CompiledFilter::new)
        .transpose()
        .map_err(|e| Error::bad_input(format!("Wrong input: {e}")))
}

/// Makes the query; returns the id that is left out of the hits, for a search by id.
fn prepare(
    view: &View,
    request: &SearchRequest,
    field: &VectorField,
    scratch: &mut Scratch,
) -> Result<Option<PointId>> {
    let (vector, own): (&[f32], _) = match &request.query {
        QueryVector::Vector(vector) => (vector, None),
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
            scratch.values.clear();
            ramlet_index::decode_row(field.element, &scratch.bytes, &mut scratch.values);
            (&scratch.values, Some(*id))
        }
    };
    check_vector(field, vector)?;
    scratch.query.prepare(field.metric, field.element, vector);
    Ok(own)
}

/// Refuses a vector of the wrong dimension or with values that aren't numbers.
pub(crate) fn check_vector(field: &VectorField, vector: &[f32]) -> Result<()> {
    if vector.len() != field.dim {
        return Err(Error::bad_input(format!(
            "Wrong input: Vector dimension error: expected dim: {}, got {}",
            field.dim,
            vector.len()
        )));
    }
    ramlet_index::validate(vector).map_err(|e| Error::bad_input(format!("Wrong input: vector: {e}")))
}

/// What a row of a segment must pass beside the bitmaps of the index.
struct SegmentCheck<'a> {
    schema: &'a Schema,
    view: &'a SegmentView,
    column: &'a VectorColumn,
    filter: Option<&'a CompiledFilter>,
    own_row: Option<u32>,
    buf: &'a mut AnonBuf,
}

impl RowFilter for SegmentCheck<'_> {
    fn admits(&mut self, row: u32, io: &mut IoContext) -> ramlet_index::Result<bool> {
        if self.view.deletes.contains(row) || self.own_row == Some(row) || !self.column.has(row) {
            return Ok(false);
        }
        match self.filter {
            None => Ok(true),
            Some(filter) => matching::row_matches(self.schema, self.view, row, filter, io, self.buf)
                .map_err(|e| IndexError::Filter(Box::new(e))),
        }
    }
}

/// Filters often go with the vectors: what matches lies further from a query than as many rows taken at random.
const CORRELATION: f32 = 4.0;

/// kB of matching vectors up to which a filtered search looks at all of them (`full_scan_threshold` of the API).
const FULL_SCAN_KB: f32 = 10_000.0 / CORRELATION;

#[expect(
    clippy::too_many_arguments,
    reason = "one search's parts; a struct would be built for this call alone"
)]
fn search_segment(
    view: &View,
    segment: &SegmentView,
    field: &VectorField,
    filter: Option<&CompiledFilter>,
    own_id: Option<PointId>,
    want: &Want,
    scratch: &mut Scratch,
    stats: &mut SearchStats,
) -> Result<()> {
    let Some(column) = segment.segment.vector(field.slot) else {
        return Ok(());
    };
    let Lookup { io, buf, index, .. } = &mut scratch.lookup;
    let Candidates { rows, recheck } = matching::candidates(&view.schema, segment, filter, io, buf)?;
    if rows.as_ref().is_some_and(|rows| rows.is_empty()) {
        return Ok(());
    }
    let own_row = own_id
        .map(|id| segment.segment.find(id, io, buf))
        .transpose()?
        .flatten();
    let live = segment.live() as f32 / segment.segment.rows().max(1) as f32;
    let approximate = column.index.kind() != "flat" && !want.exact;
    let filter_share = match filter {
        Some(filter) if approximate => {
            let admitted = match recheck {
                true => matching::share(&view.schema, segment, filter, rows.as_ref(), io, buf)?,
                false => live,
            };
            admitted / CORRELATION
        }
        _ => live,
    };
    let matching_rows = rows
        .as_ref()
        .map_or(u64::from(segment.segment.rows()), |rows| rows.len());
    let matching_kb = matching_rows as f32 * filter_share * field.row_bytes() as f32 / 1024.0;
    let want = Want {
        exact: want.exact || filter.is_some() && matching_kb <= FULL_SCAN_KB,
        ..*want
    };
    let mut check = SegmentCheck {
        schema: &view.schema,
        view: segment,
        column,
        filter: filter.filter(|_| recheck),
        own_row,
        buf: &mut scratch.check,
    };
    let mut allowed = Allowed {
        deleted: None,
        only: rows.as_ref(),
        filter: Some(&mut check),
        filter_share: Some(filter_share.max(f32::MIN_POSITIVE)),
    };
    column
        .index
        .search(&scratch.query, &want, &mut allowed, index, io, &mut scratch.top)
        .map_err(index_error)?;
    stats.add(&index.stats);
    Ok(())
}

/// Scores every live row of a buffer that has the vector; returns how many.
fn scan_buffer(
    view: &BufferView,
    vector: usize,
    filter: Option<&CompiledFilter>,
    own_id: Option<PointId>,
    scratch: &mut Scratch,
) -> u64 {
    let mut scored = 0;
    for number in view.live_rows() {
        let row = view.buffer.row(number);
        let Some(bytes) = row.vector(vector) else { continue };
        let key = scratch.query.key_row(bytes);
        scored += 1;
        if scratch.top.would_enter(key, number)
            && own_id != Some(row.id)
            && filter.is_none_or(|filter| filter.matches(&row))
        {
            scratch.top.push(key, number);
        }
    }
    scored
}

fn place_of(view: &View, hit: &Hit) -> Place {
    match (hit.segment as usize).checked_sub(view.segments.len()) {
        None => Place::Segment {
            index: hit.segment,
            row: hit.row,
        },
        Some(buffer) => Place::Buffer {
            index: buffer as u32,
            row: hit.row,
        },
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
    let passes = |score: f32| match request.score_threshold {
        None => true,
        Some(least) if field.metric.larger_is_nearer() => score >= least,
        Some(most) => score <= most,
    };
    let Scratch { lookup, top, .. } = scratch;
    for hit in top.sorted().iter().skip(request.offset) {
        let score = field.metric.score(hit.key);
        if !passes(score) {
            break;
        }
        let place = place_of(view, hit);
        let (id, version) = view.id_of(place, lookup)?;
        out.push(ScoredPoint {
            id,
            score,
            version,
            payload: selected_payload(view, place, &payload, lookup)?,
            vectors: selected_vectors(view, place, &request.with_vectors, lookup)?,
        });
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
    lookup.hand_out(payload.len())?;
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
