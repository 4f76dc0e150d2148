//! What the engine does without Python around it, for `bench/compare.py`: clients in a closed loop, each on a search thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use numpy::{PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use ramlet::{PayloadSelector, QueryVector, Scratch, SearchParams, SearchRequest, VectorSelector};

use crate::core::Core;
use crate::errors::{self, bad_input};

/// Searches of all search threads together in `seconds`, each of the next query, and how many seconds it was.
#[pyfunction]
pub fn drive(
    py: Python<'_>,
    core: &Core,
    name: &str,
    queries: PyReadonlyArray2<'_, f32>,
    limit: usize,
    seconds: f64,
) -> PyResult<(usize, f64)> {
    let open = core.opened()?;
    let collection = open.collection(name)?;
    let dim = queries.shape()[1];
    let rows = queries
        .as_slice()
        .map_err(|_| bad_input("queries must lie row after row"))?;
    let requests: Arc<Vec<SearchRequest>> =
        Arc::new(rows.chunks_exact(dim).map(|row| nearest(row, limit)).collect());
    py.detach(|| {
        let (next, started) = (Arc::new(AtomicUsize::new(0)), Instant::now());
        let span = Duration::from_secs_f64(seconds);
        let (tell, told) = channel();
        let clients = open.engine.budget().search_threads;
        for _ in 0..clients {
            let (collection, requests, next, tell) =
                (collection.clone(), requests.clone(), next.clone(), tell.clone());
            let client = move |scratch: &mut Scratch| {
                let (mut hits, mut done) = (Vec::with_capacity(limit), 0);
                let mut outcome = Ok(());
                while outcome.is_ok() && started.elapsed() < span {
                    let at = next.fetch_add(1, Ordering::Relaxed) % requests.len();
                    hits.clear();
                    outcome = collection
                        .search_into(&requests[at], scratch, &mut hits)
                        .map(drop);
                    done += 1;
                }
                let _ = tell.send(outcome.map(|()| done));
            };
            open.engine
                .run(Box::new(client))
                .map_err(|e| errors::raised(&e))?;
        }
        drop(tell);
        let mut all = 0;
        for done in told {
            all += done.map_err(|e| errors::raised(&e))?;
        }
        Ok((all, started.elapsed().as_secs_f64()))
    })
}

fn nearest(row: &[f32], limit: usize) -> SearchRequest {
    SearchRequest {
        query: QueryVector::Vector(row.to_vec().into()),
        using: String::new(),
        filter: None,
        params: SearchParams::default(),
        limit,
        offset: 0,
        score_threshold: None,
        with_payload: PayloadSelector::None,
        with_vectors: VectorSelector::None,
    }
}
