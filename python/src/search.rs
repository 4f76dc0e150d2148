//! Searches for arrays of queries: spread over the search threads, results as arrays.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use numpy::{PyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use ramlet::filter::Filter;
use ramlet::{
    Collection, ErrorKind, NamedVectors, PayloadSelector, PointId, QuantizationParams, QueryVector,
    ScoredPoint, Scratch, SearchParams, SearchRequest, Vector, VectorSelector,
};

use crate::core::{Core, Open, interrupted};
use crate::errors::{self, bad_input};
use crate::{TICK, ids, write};

/// Queries that are copied and spread at once: at most so many, ...
const BLOCK: usize = 2_048;
/// ... and so many numbers of them.
const BLOCK_NUMBERS: usize = 2 << 20;
/// How often a search is tried again that found the memory taken, and how long it waits.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// What is asked beside the vectors.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Asked {
    using: String,
    limit: usize,
    offset: usize,
    /// JSON of the API.
    filter: Option<Vec<u8>>,
    score_threshold: Option<f32>,
    exact: bool,
    ef: Option<usize>,
    recall: Option<f32>,
    indexed_only: bool,
    rescore: Option<bool>,
    oversampling: Option<f32>,
    payload: Selected,
    vectors: Selected,
}

/// True, False, a list of names, or what is left out.
#[derive(FromPyObject)]
enum Selected {
    All(bool),
    Only(Vec<String>),
    But((Vec<String>,)),
}

/// ids (numbers or objects), scores, hits of each query, payloads, vectors; all but the third `n * limit` long.
type Found<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyArray1<f32>>,
    Bound<'py, PyArray1<u64>>,
    Option<Bound<'py, PyList>>,
    Option<Bound<'py, PyList>>,
);

/// The nearest points of each row of `queries`.
#[pyfunction]
#[pyo3(signature = (core, name, queries, asked, shard_key=None, progress=None))]
pub fn search<'py>(
    py: Python<'py>,
    core: &Core,
    name: &str,
    queries: PyReadonlyArray2<'py, f32>,
    asked: Asked,
    shard_key: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Found<'py>> {
    let open = core.opened()?;
    let collection = write::within(open.collection(name)?, shard_key)?;
    let [rows, dim] = *queries.shape() else {
        unreachable!("two dimensions")
    };
    let numbers = queries
        .as_slice()
        .map_err(|_| bad_input("queries must lie row after row"))?;
    let template = template(asked)?;
    let mut table = Table::new(rows, template.limit, &template);
    let each = (BLOCK_NUMBERS / dim.max(1)).clamp(1, BLOCK);
    for first in (0..rows).step_by(each) {
        let span = first..rows.min(first + each);
        let block = &numbers[span.start * dim..span.end * dim];
        py.detach(|| search_block(&open, &collection, (block, dim), &template, (&span, &mut table)))?;
        if let Some(progress) = progress {
            progress.call1((span.end, rows))?;
        }
    }
    table.finish(py)
}

fn template(asked: Asked) -> PyResult<SearchRequest> {
    let filter: Option<Filter> = match asked.filter {
        None => None,
        Some(json) => {
            Some(serde_json::from_slice(&json).map_err(|e| bad_input(format_args!("filter: {e}")))?)
        }
    };
    if let Some(recall) = asked.recall {
        ramlet::settings::check_recall(recall).map_err(|e| bad_input(format_args!("recall: {e}")))?;
    }
    if asked.oversampling.is_some_and(|o| o.is_nan() || o < 1.0) {
        return Err(bad_input("oversampling must be at least 1"));
    }
    Ok(SearchRequest {
        query: QueryVector::Vector(Vec::new().into()),
        using: asked.using,
        filter,
        params: SearchParams {
            exact: asked.exact,
            hnsw_ef: asked.ef,
            indexed_only: asked.indexed_only,
            recall: asked.recall,
            quantization: QuantizationParams {
                ignore: false,
                rescore: asked.rescore,
                oversampling: asked.oversampling,
            },
            ..SearchParams::default()
        },
        limit: asked.limit,
        offset: asked.offset,
        score_threshold: asked.score_threshold,
        with_payload: match asked.payload {
            Selected::All(false) => PayloadSelector::None,
            Selected::All(true) => PayloadSelector::All,
            Selected::Only(names) => PayloadSelector::Include(names),
            Selected::But((names,)) => PayloadSelector::Exclude(names),
        },
        with_vectors: match asked.vectors {
            Selected::All(false) => VectorSelector::None,
            Selected::All(true) => VectorSelector::All,
            Selected::Only(names) => VectorSelector::Names(names),
            Selected::But(_) => return Err(bad_input("vectors are chosen by name, not left out")),
        },
    })
}

/// A block of queries while the search threads take one after another of it.
struct Batch {
    collection: Arc<Collection>,
    queries: Vec<f32>,
    dim: usize,
    template: SearchRequest,
    /// Shards may hold a point twice: only the slower way tells them apart.
    sharded: bool,
    next: AtomicUsize,
    /// Nobody wants the rest.
    over: AtomicBool,
}

/// What one search thread found, hit after hit.
#[derive(Default)]
struct Part {
    /// (query, its hits), in the order they were searched.
    queries: Vec<(usize, usize)>,
    ids: Vec<PointId>,
    scores: Vec<f32>,
    payloads: Vec<Option<Vec<u8>>>,
    vectors: Vec<Option<NamedVectors>>,
}

fn search_block(
    open: &Open,
    collection: &Arc<Collection>,
    (queries, dim): (&[f32], usize),
    template: &SearchRequest,
    (span, table): (&Range<usize>, &mut Table),
) -> PyResult<()> {
    let batch = Arc::new(Batch {
        collection: collection.clone(),
        queries: queries.to_vec(),
        dim,
        template: template.clone(),
        sharded: collection.shard_infos().is_some(),
        next: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    });
    let threads = open.engine.budget().search_threads.min(span.len());
    let (tell, told) = channel();
    for _ in 0..threads {
        let (batch, tell): (_, Sender<ramlet::Result<Part>>) = (batch.clone(), tell.clone());
        let job = Box::new(move |scratch: &mut Scratch| {
            let _ = tell.send(batch.run(scratch));
        });
        open.engine.run(job).map_err(|e| errors::raised(&e))?;
    }
    drop(tell);
    let mut parts = 0;
    while parts < threads {
        let ended = match told.recv_timeout(TICK) {
            Ok(Ok(part)) => {
                parts += 1;
                table.fill(span.start, part);
                continue;
            }
            Ok(Err(e)) => errors::raised(&e),
            Err(RecvTimeoutError::Timeout) => match interrupted(open) {
                Ok(()) => continue,
                Err(e) => e,
            },
            Err(RecvTimeoutError::Disconnected) => {
                errors::make("Storage", "a search thread gave no answer", None)
            }
        };
        batch.over.store(true, Ordering::Relaxed);
        return Err(ended);
    }
    Ok(())
}

impl Batch {
    fn run(&self, scratch: &mut Scratch) -> ramlet::Result<Part> {
        let mut request = self.template.clone();
        let (with_payload, with_vectors) = asks(&request);
        let mut hits: Vec<ScoredPoint> = Vec::new();
        let mut part = Part::default();
        while !self.over.load(Ordering::Relaxed) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(query) = self.queries.chunks_exact(self.dim).nth(at) else {
                break;
            };
            match &mut request.query {
                QueryVector::Vector(Vector::Dense(values)) => {
                    values.clear();
                    values.extend_from_slice(query);
                }
                _ => unreachable!("the template has a dense vector"),
            }
            self.search(&request, scratch, &mut hits)?;
            part.queries.push((at, hits.len()));
            part.ids.extend(hits.iter().map(|hit| hit.id));
            part.scores.extend(hits.iter().map(|hit| hit.score));
            if with_payload {
                part.payloads
                    .extend(hits.iter_mut().map(|hit| hit.payload.take()));
            }
            if with_vectors {
                part.vectors.extend(hits.iter_mut().map(|hit| hit.vectors.take()));
            }
        }
        Ok(part)
    }

    fn search(
        &self,
        request: &SearchRequest,
        scratch: &mut Scratch,
        out: &mut Vec<ScoredPoint>,
    ) -> ramlet::Result<()> {
        let mut tries = 0;
        loop {
            out.clear();
            let found = match self.sharded {
                true => self
                    .collection
                    .search(request, scratch)
                    .map(|found| out.extend(found.hits)),
                false => self.collection.search_into(request, scratch, out).map(drop),
            };
            match found {
                // Others hold it for the moment: a batch isn't given up for that.
                Err(e) if e.kind() == ErrorKind::OverBudget && tries < TRIES => {
                    tries += 1;
                    std::thread::sleep(PAUSE);
                    if self.over.load(Ordering::Relaxed) {
                        return Err(e);
                    }
                }
                found => return found,
            }
        }
    }
}

/// Whether payloads, and vectors, are asked for.
fn asks(request: &SearchRequest) -> (bool, bool) {
    (
        request.with_payload != PayloadSelector::None,
        request.with_vectors != VectorSelector::None,
    )
}

/// The results of all queries, row after row.
struct Table {
    limit: usize,
    /// Ids that are numbers; where there is no hit, and where there is a UUID, [`NONE`].
    ids: Vec<u64>,
    /// Places of UUIDs.
    uuids: Vec<(usize, PointId)>,
    scores: Vec<f32>,
    counts: Vec<u64>,
    payloads: Option<Vec<Option<Vec<u8>>>>,
    vectors: Option<Vec<Option<NamedVectors>>>,
}

/// Where there was no hit.
const NONE: u64 = u64::MAX;

impl Table {
    fn new(rows: usize, limit: usize, request: &SearchRequest) -> Table {
        let places = rows * limit;
        let (with_payload, with_vectors) = asks(request);
        Table {
            limit,
            ids: vec![NONE; places],
            uuids: Vec::new(),
            scores: vec![f32::NAN; places],
            counts: vec![0; rows],
            payloads: with_payload.then(|| (0..places).map(|_| None).collect()),
            vectors: with_vectors.then(|| (0..places).map(|_| None).collect()),
        }
    }

    /// `first`: the row of the part's query 0.
    fn fill(&mut self, first: usize, mut part: Part) {
        let mut from = 0;
        for (query, hits) in part.queries {
            let (row, hits) = (first + query, hits.min(self.limit));
            let place = row * self.limit;
            self.counts[row] = hits as u64;
            self.scores[place..place + hits].copy_from_slice(&part.scores[from..from + hits]);
            for at in 0..hits {
                match part.ids[from + at] {
                    PointId::Num(n) => self.ids[place + at] = n,
                    uuid => self.uuids.push((place + at, uuid)),
                }
                if let Some(payloads) = &mut self.payloads {
                    payloads[place + at] = part.payloads[from + at].take();
                }
                if let Some(vectors) = &mut self.vectors {
                    vectors[place + at] = part.vectors[from + at].take();
                }
            }
            from += hits;
        }
    }

    fn finish(mut self, py: Python<'_>) -> PyResult<Found<'_>> {
        let ids = match self.uuids.is_empty() {
            true => PyArray1::from_vec(py, std::mem::take(&mut self.ids)).into_any(),
            false => self.objects(py)?.into_any(),
        };
        let payloads = self.payloads.map(|all| {
            let texts = all
                .iter()
                .map(|text| text.as_deref().map(|text| PyBytes::new(py, text)));
            PyList::new(py, texts)
        });
        let vectors = self.vectors.map(|all| {
            let shown: PyResult<Vec<_>> = all
                .into_iter()
                .map(|v| v.map(|v| vectors_of(py, v)).transpose())
                .collect();
            shown.and_then(|shown| PyList::new(py, shown))
        });
        let scores = PyArray1::from_vec(py, self.scores);
        let counts = PyArray1::from_vec(py, self.counts);
        Ok((ids, scores, counts, payloads.transpose()?, vectors.transpose()?))
    }

    /// Where there are UUIDs: ids one by one, None where there was no hit.
    fn objects<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let shown = PyList::empty(py);
        let mut uuids = self.uuids.clone();
        uuids.sort_unstable();
        let mut uuids = uuids.into_iter().peekable();
        for (place, number) in self.ids.iter().enumerate() {
            let there = (place % self.limit) < self.counts[place / self.limit] as usize;
            match uuids.next_if(|(at, _)| *at == place) {
                Some((_, uuid)) => shown.append(ids::shown(py, uuid)?)?,
                None if there => shown.append(*number)?,
                None => shown.append(py.None())?,
            }
        }
        Ok(shown)
    }
}

/// Vectors of a point: dense ones as arrays, sparse ones as a pair of lists, several parts as a list of arrays.
fn vectors_of(py: Python<'_>, vectors: NamedVectors) -> PyResult<Bound<'_, PyDict>> {
    let shown = PyDict::new(py);
    for (name, vector) in vectors {
        match vector {
            Vector::Dense(values) => shown.set_item(name, PyArray1::from_vec(py, values))?,
            Vector::Sparse(sparse) => {
                let pair = PyDict::new(py);
                pair.set_item("indices", PyArray1::from_vec(py, sparse.indices))?;
                pair.set_item("values", PyArray1::from_vec(py, sparse.values))?;
                shown.set_item(name, pair)?;
            }
            Vector::Multi(multi) => {
                let parts: Vec<_> = multi.parts().map(|part| PyArray1::from_slice(py, part)).collect();
                shown.set_item(name, PyList::new(py, parts)?)?;
            }
        }
    }
    Ok(shown)
}
