//! Where the time of a search went, by a clock that goes on by a microsecond whenever it is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ramlet::*;
use ramlet_io::{RamStorage, Storage};
use serde_json::{Value, json};

use crate::support::*;
use crate::watched::Watched;

const DIM: usize = 128;

fn clock() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(1);
    NOW.fetch_add(1_000, Ordering::Relaxed)
}

/// A collection of one segment, every read of which counts.
fn filled(settings: Value, memory: u64) -> (Arc<Engine>, Arc<Collection>) {
    let storage: Arc<dyn Storage> = Watched::new(Arc::new(RamStorage::new(None)), |_, _| {});
    let engine = open_within(storage, memory);
    let mut config = config(DIM, Distance::Cosine);
    config.indexing_threshold = Some(50);
    config.on_disk_payload = Some(true);
    let vectors = config.vectors.values_mut();
    vectors.for_each(|vectors| vectors.on_disk = Some(true));
    config.other = serde_json::from_value::<BTreeMap<String, Value>>(settings).expect("an object");
    engine.create_collection("c", config).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let mut rng = Rng(3);
    for first in (0..6_000).step_by(500) {
        let points = (first..first + 500).map(|id| {
            let other: Vec<u64> = (0..40).map(|_| rng.next()).collect();
            let payload = format!("{{\"kind\":\"k{}\",\"other\":{other:?}}}", id % 3);
            point(id, rng.vector(DIM), &payload)
        });
        let points: Vec<Point> = points.collect();
        update_patiently(&collection, || upsert(points.clone())).expect("upserts");
    }
    collection.flush().expect("flushes");
    collection.wait_idle().expect("nothing fails");
    (engine, collection)
}

fn explained(collection: &Collection, scratch: &mut Scratch, filter: Option<Value>) -> SearchResponse {
    let mut request = search_request(Rng(99).vector(DIM), 10);
    request.params.explain = true;
    request.filter = filter.map(|filter| serde_json::from_value(filter).expect("a filter"));
    collection.search(&request, scratch).expect("searches")
}

/// The stages of all segments, summed.
fn stages_of(response: &SearchResponse) -> Stages {
    let mut all = Stages::default();
    for part in &response.explain {
        all.add(part.stages.as_ref().expect("there was a clock"));
    }
    all
}

#[test]
fn ranking_codes_and_rescoring_are_told_apart() {
    let (engine, collection) = filled(
        json!({"quantization_config": {"binary": {"always_ram": false}}}),
        16 << 20,
    );
    let mut scratch = engine.scratch().expect("room for a scratch");
    let response = explained(&collection, &mut scratch, None);
    assert!(
        response
            .explain
            .iter()
            .all(|part| part.stages.is_none() && part.total_ns == 0),
        "no clock"
    );
    scratch.set_clock(clock);
    let response = explained(&collection, &mut scratch, None);
    let stages = stages_of(&response);
    for stage in [SearchStage::Centroids, SearchStage::Codes, SearchStage::Rows] {
        assert!(stages.of(stage).ns > 0, "{stage:?}: {response:?}");
    }
    assert!(stages.of(SearchStage::Rows).reads > 0, "{stages:?}");
    assert_eq!(
        stages.of(SearchStage::Payloads),
        &StageUse::default(),
        "nobody filters"
    );
    let sum: u64 = stages.used().map(|(_, used)| used.ns).sum();
    let total: u64 = response.explain.iter().map(|part| part.total_ns).sum();
    assert!(sum <= total && sum * 2 > total, "{sum} of {total}");
    let (reads, bytes) = stages.used().fold((0, 0), |(reads, bytes), (_, used)| {
        (reads + used.reads, bytes + used.bytes)
    });
    assert!(
        reads <= response.cost.disk_reads && bytes <= response.cost.disk_bytes,
        "{stages:?}"
    );
    assert_eq!(
        bytes,
        response.explain.iter().map(|part| part.read_bytes).sum::<u64>(),
        "{stages:?}"
    );
}

#[test]
fn payloads_that_a_filter_asks_are_a_stage() {
    let (engine, collection) = filled(json!({}), 16 << 20);
    let mut scratch = engine.scratch().expect("room for a scratch");
    scratch.set_clock(clock);
    let filter = json!({"must": [{"key": "kind", "match": {"value": "k1"}}]});
    let response = explained(&collection, &mut scratch, Some(filter));
    let stages = stages_of(&response);
    let payloads = stages.of(SearchStage::Payloads);
    assert!(
        payloads.ns > 0 && payloads.reads > 0 && payloads.ns >= payloads.waited_ns,
        "{stages:?}"
    );
    assert!(stages.of(SearchStage::Filter).ns > 0, "{stages:?}");
}

#[test]
fn what_merges_prefetches_is_a_part() {
    let (engine, collection) = filled(json!({}), 16 << 20);
    let mut scratch = engine.scratch().expect("room for a scratch");
    scratch.set_clock(clock);
    let prefetch = |seed: u64| Prefetch {
        query: Some(QueryKind::Nearest(QueryVector::Vector(
            Rng(seed).vector(DIM).into(),
        ))),
        limit: 20,
        ..Prefetch::default()
    };
    let mut request = QueryRequest {
        prefetch: vec![prefetch(1), prefetch(2)],
        query: Some(QueryKind::Fusion(Fusion::Rrf {
            k: None,
            weights: None,
        })),
        limit: 5,
        ..QueryRequest::default()
    };
    request.params.explain = true;
    let response = collection
        .query(request, &engine, &mut scratch)
        .expect("searches");
    let part = response.explain.last().expect("explained");
    assert_eq!((part.index, part.rows), ("fusion", 40));
    assert!(part.total_ns > 0, "{part:?}");
}
