//! Requests to a collection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ramlet_io::Stages;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::filter::Filter;
use crate::types::vector::Vector;
use crate::types::{NamedVectors, OrderValue, PayloadSelector, Point, PointId, ScoredPoint, VectorSelector};

/// The points of an update.
#[derive(Debug, Clone)]
pub enum PointsSelector {
    Ids(Vec<PointId>),
    Filter(Filter),
}

/// How an upsert treats existing points (the API's `update_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpdateMode {
    #[default]
    Upsert,
    UpdateOnly,
    InsertOnly,
}

/// A change. It is resolved to ids and whole values before it is logged, so that replay needs no filter.
#[derive(Debug, Clone)]
pub enum UpdateOp {
    /// `filter` (the API's `update_filter`): existing points that don't match it are unchanged.
    Upsert {
        points: Vec<Point>,
        filter: Option<Filter>,
        mode: UpdateMode,
    },
    Delete(PointsSelector),
    /// Merges `payload` (JSON object text) into the points' payload, at `key` when given (a JSON path).
    SetPayload {
        payload: Vec<u8>,
        key: Option<String>,
        points: PointsSelector,
    },
    OverwritePayload {
        payload: Vec<u8>,
        points: PointsSelector,
    },
    DeletePayload {
        keys: Vec<String>,
        points: PointsSelector,
    },
    ClearPayload(PointsSelector),
    /// Replaces the named vectors only; unknown ids are `not found`.
    UpdateVectors {
        points: Vec<(PointId, NamedVectors)>,
        filter: Option<Filter>,
    },
    DeleteVectors {
        names: Vec<String>,
        points: PointsSelector,
    },
}

impl UpdateOp {
    /// About its heap bytes while it waits.
    pub fn bytes(&self) -> u64 {
        let selector = |points: &PointsSelector| match points {
            PointsSelector::Ids(ids) => ids.len() * size_of::<PointId>(),
            PointsSelector::Filter(_) => 1024,
        };
        let bytes = match self {
            UpdateOp::Upsert { points, .. } => points
                .iter()
                .map(|p| {
                    size_of::<Point>()
                        + p.payload.len()
                        + p.vectors
                            .iter()
                            .map(|(n, v)| n.len() + v.bytes() + 48)
                            .sum::<usize>()
                })
                .sum(),
            UpdateOp::UpdateVectors { points, .. } => points
                .iter()
                .map(|(_, vectors)| {
                    48 + vectors
                        .iter()
                        .map(|(n, v)| n.len() + v.bytes() + 48)
                        .sum::<usize>()
                })
                .sum(),
            UpdateOp::SetPayload { payload, points, .. } | UpdateOp::OverwritePayload { payload, points } => {
                payload.len() + selector(points)
            }
            UpdateOp::DeletePayload { keys, points } => {
                keys.iter().map(|k| k.len() + 24).sum::<usize>() + selector(points)
            }
            UpdateOp::DeleteVectors { names, points } => {
                names.iter().map(|k| k.len() + 24).sum::<usize>() + selector(points)
            }
            UpdateOp::Delete(points) | UpdateOp::ClearPayload(points) => selector(points),
        };
        bytes as u64
    }

    /// Whether it names the points that it changes, and doesn't ask for those that match a filter.
    pub(crate) fn names_points(&self) -> bool {
        match self {
            UpdateOp::Upsert { .. } | UpdateOp::UpdateVectors { .. } => true,
            UpdateOp::Delete(points)
            | UpdateOp::SetPayload { points, .. }
            | UpdateOp::OverwritePayload { points, .. }
            | UpdateOp::DeletePayload { points, .. }
            | UpdateOp::ClearPayload(points)
            | UpdateOp::DeleteVectors { points, .. } => matches!(points, PointsSelector::Ids(_)),
        }
    }
}

/// Updates that one caller queues one behind the other: once one fails, those behind it fail too, and change nothing. So what is done of them is
/// always a beginning, after a crash as well. All are to be of one collection, and of one shard where it has several: only those wait in one line.
#[derive(Debug, Clone, Default)]
pub struct UpdateChain(Arc<AtomicBool>);

impl UpdateChain {
    pub(crate) fn is_broken(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn break_off(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Whole points as columns, borrowed from the caller's arrays.
///
/// ```
/// # use ramlet::{PointId, PointRows};
/// let ids = [PointId::Num(1), PointId::Num(2)];
/// let rows = PointRows { ids: &ids, vectors: &[("", &[0.1, 0.9, 0.8, 0.2])], payloads: &[] };
/// ```
#[derive(Debug, Clone, Copy)]
pub struct PointRows<'a> {
    /// As in [`UpdateOp::Upsert`], the last point of a repeated id stays.
    pub ids: &'a [PointId],
    /// Dense vectors by name, row after row: as many numbers as there are ids times the dimension.
    pub vectors: &'a [(&'a str, &'a [f32])],
    /// A JSON object as text for each id, empty without payload; or an empty slice.
    pub payloads: &'a [Vec<u8>],
}

/// The result of an update.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpdateResult {
    /// The log position: the API's `operation_id`.
    pub operation_id: u64,
    /// Payloads of segments that were read to find the points that match the update's filter.
    pub payloads_checked: u64,
}

/// The vector a search starts from.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryVector {
    Vector(Vector),
    /// The stored vector of this point, which is excluded from the hits.
    Id(PointId),
}

/// Search parameters of a request; unset means calibrated.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchParams {
    /// Compare all vectors.
    pub exact: bool,
    pub hnsw_ef: Option<usize>,
    /// Skip large segments without an index.
    pub indexed_only: bool,
    /// Our own: recall@k to reach, above 0 and below 1.
    pub recall: Option<f32>,
    pub quantization: QuantizationParams,
    /// Our own: report how each segment was searched ([`SearchResponse::explain`]).
    pub explain: bool,
    /// The statistics that weight a sparse query's dimensions. It needs a vector with the IDF modifier.
    pub idf: Option<Idf>,
}

/// The points over which the frequencies of a sparse query's dimensions are counted (`idf` of the API's search parameters).
#[derive(Debug, Clone, PartialEq)]
pub enum Idf {
    /// The whole collection, the default.
    Global,
    /// The matching points: a query reads each of them once.
    Corpus(Box<Filter>),
    /// Points of this collection and of other parts of what it is a part of, counted before.
    Counted(SparseStatistics),
}

/// How many points have a sparse vector, and how many of them each dimension of a query.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SparseStatistics {
    pub points: u64,
    pub frequencies: BTreeMap<u32, u64>,
}

/// How codes are used (`quantization` of the API's search parameters).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct QuantizationParams {
    /// Compare vectors themselves, as if there were no codes.
    pub ignore: bool,
    /// Read the vectors of all hits (`true`), of none (`false`), or of those that codes can't decide about (unset).
    pub rescore: Option<bool>,
    /// How many times the wanted hits to consider before vectors are read; at least 1.
    pub oversampling: Option<f32>,
}

/// Nearest neighbours.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    pub query: QueryVector,
    /// Name of the vector; `""` is the default one.
    pub using: String,
    pub filter: Option<Filter>,
    pub params: SearchParams,
    pub limit: usize,
    pub offset: usize,
    pub score_threshold: Option<f32>,
    pub with_payload: PayloadSelector,
    pub with_vectors: VectorSelector,
}

/// Ascending or descending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    #[default]
    Asc,
    Desc,
}

/// Order of a scroll by a payload field that has an index.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderBy {
    pub key: String,
    pub direction: Direction,
    pub start_from: Option<OrderValue>,
}

/// Points in id order, or in the order of a field.
#[derive(Debug, Clone)]
pub struct ScrollRequest {
    pub filter: Option<Filter>,
    /// First id of the page (inclusive).
    pub offset: Option<PointId>,
    pub limit: usize,
    pub order_by: Option<OrderBy>,
    pub with_payload: PayloadSelector,
    pub with_vectors: VectorSelector,
}

/// A page of a scroll.
#[derive(Debug, Clone, Default)]
pub struct ScrollPage {
    pub points: Vec<crate::types::Record>,
    /// The offset of the next page; `None` at the end, and always with `order_by`.
    pub next: Option<PointId>,
}

/// The cost of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchCost {
    pub rows_scanned: u64,
    /// Rows whose codes were compared.
    pub codes_scanned: u64,
    /// Rows that the first code didn't rule out.
    pub survivors: u64,
    /// Rows whose extended codes were compared.
    pub extended_scored: u64,
    /// Rows read because codes couldn't decide about them.
    pub rows_read: u64,
    /// Clusters visited.
    pub probes: u64,
    pub disk_reads: u64,
    pub disk_bytes: u64,
    /// Rows whose payloads were checked one by one for a filter.
    pub payloads_checked: u64,
    /// Nanoseconds in the engine, and the part that waited for reads. 0 without a clock ([`crate::Scratch::set_clock`]), like all times here.
    pub total_ns: u64,
    pub waited_ns: u64,
    /// Batches of reads that the search waited for.
    pub read_waits: u64,
    /// Of `total_ns`: fetching ids, payloads and vectors of the hits.
    pub collect_ns: u64,
}

impl SearchCost {
    /// Adds the cost of one segment or memtable. The thread's I/O counts reads, including those of ids and payloads.
    pub(crate) fn add(&mut self, part: &Explained) {
        self.rows_scanned += part.rows_scored;
        self.codes_scanned += part.codes_scanned;
        self.survivors += part.survivors;
        self.extended_scored += part.extended_scored;
        self.rows_read += part.rows_read;
        self.probes += part.probes;
        self.payloads_checked += part.payloads_checked();
    }

    /// Adds another search of the same request.
    pub(crate) fn add_all(&mut self, other: &SearchCost) {
        self.rows_scanned += other.rows_scanned;
        self.codes_scanned += other.codes_scanned;
        self.survivors += other.survivors;
        self.extended_scored += other.extended_scored;
        self.rows_read += other.rows_read;
        self.probes += other.probes;
        self.payloads_checked += other.payloads_checked;
    }
}

/// Hits, best first, and their cost.
#[derive(Debug, Clone, Default)]
pub struct SearchResponse {
    pub hits: Vec<ScoredPoint>,
    pub cost: SearchCost,
    /// If requested, one entry for each segment and memtable.
    pub explain: Vec<Explained>,
}

/// How one segment or memtable was searched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explained {
    /// Name of the vector, or of the field whose words are ranked.
    pub using: String,
    /// Number of the segment; `None`: a memtable.
    pub segment: Option<u64>,
    /// Kind of the index: "flat", "ivf", "hnsw", "sparse", "records"; "buffer": a memtable; "text": lists of words, "payloads": texts without
    /// lists, or points of prefetches that are held against filters again; "scores": points compared by a score of several vectors, in all
    /// segments; "given": points that the request gives; "fusion", "formula": what merges prefetches.
    pub index: &'static str,
    /// "all": every row; "listed": the rows that indexes of the filter name; "together": a tenant's, from the first to the last;
    /// "probe": the nearest clusters; "codes": the same by codes; "listed probe", "listed codes": of the nearest clusters the rows that
    /// indexes name; "graph"; "lists": the inverted lists of a sparse query or of words; "stop words": a query that has no others, for which
    /// all texts are read; "none": no row matches; "passed over": `indexed_only`.
    pub strategy: &'static str,
    pub rows: u64,
    /// Candidate rows of the payload indexes; `None`: all.
    pub candidates: Option<u64>,
    /// Whether each hit's payload had to be checked as well.
    pub rechecked: bool,
    /// Share of the rows that was expected to match.
    pub share: Option<f32>,
    pub probes: u64,
    pub codes_scanned: u64,
    /// Rows that the 1-bit codes didn't rule out, and of which finer ones were compared.
    pub survivors: u64,
    pub extended_scored: u64,
    /// Rows read because codes couldn't tell whether they are among the nearest, or because it was asked for.
    pub rows_read: u64,
    /// Rows compared with the query.
    pub rows_scored: u64,
    /// Rows near enough that the filter was asked.
    pub rows_checked: u64,
    pub reads: u64,
    pub pages_read: u64,
    /// Bytes of all reads: of the index, the filter and the payloads it was asked about.
    pub read_bytes: u64,
    /// Where the time went, and the reads of each stage; `None` without a clock ([`crate::Scratch::set_clock`]).
    pub stages: Option<Box<Stages>>,
    /// Nanoseconds in all.
    pub total_ns: u64,
}

impl Explained {
    /// Rows whose payloads the filter was asked about, one by one.
    pub fn payloads_checked(&self) -> u64 {
        if self.rechecked { self.rows_checked } else { 0 }
    }
}

/// Called once, on an engine thread, when an update is durable and searchable, or has failed. All other updates wait meanwhile, so
/// it may neither wait for one (`Collection::update`) nor take long; a panic in it is logged, and concerns nobody else.
pub type Completion = Box<dyn FnOnce(Result<UpdateResult>) + Send>;
