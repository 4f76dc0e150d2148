//! Every kind of index through the engine: built, searched, rewritten, opened again.

use std::collections::BTreeMap;
use std::sync::Arc;

use ramlet::*;
use ramlet_io::{RamStorage, Storage};
use serde_json::{Value, json};

use crate::support::*;

const DIM: usize = 24;
const POINTS: u64 = 3000;

fn vector(rng: &mut Rng, id: u64) -> Vec<f32> {
    let mut centre = Rng(1 + id % 40);
    (0..DIM).map(|_| centre.float() + rng.float() * 0.4).collect()
}

/// Share of the true neighbours that searches find.
fn recall(engine: &Engine) -> f64 {
    let collection = engine.collection("c").expect("is there");
    let mut scratch = engine.scratch().expect("room for a scratch");
    let mut rng = Rng(77);
    let mut found = 0;
    for query in 0..20 {
        let mut request = search_request(vector(&mut rng, query * 131), 10);
        let mut ids = |exact| -> Vec<PointId> {
            request.params.exact = exact;
            let mut hits = Vec::new();
            collection
                .search_into(&request, &mut scratch, &mut hits)
                .expect("searches");
            hits.iter().map(|hit| hit.id).collect()
        };
        let exact = ids(true);
        found += ids(false).iter().filter(|id| exact.contains(id)).count();
    }
    found as f64 / 200.0
}

fn kinds(engine: &Engine) -> Vec<&'static str> {
    let memory = engine
        .collection("c")
        .expect("is there")
        .info()
        .memory
        .into_iter();
    let of_vector = memory.filter(|part| part.component.starts_with("vector") && part.disk_bytes > 0);
    of_vector.map(|part| part.kind).collect()
}

fn check(settings: Value, kind: &str) {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let engine = open(storage.clone());
    let mut config = config(DIM, Distance::Cosine);
    config.indexing_threshold = Some(50);
    config.other = serde_json::from_value::<BTreeMap<String, Value>>(settings).expect("an object");
    engine.create_collection("c", config).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let mut rng = Rng(3);
    for first in (0..POINTS).step_by(500) {
        let points = (first..first + 500).map(|id| point(id, vector(&mut rng, id), "{}"));
        collection.update(upsert(points.collect())).expect("upserts");
        collection.flush().expect("flushes");
    }
    collection.wait_idle().expect("nothing fails");
    assert_eq!(kinds(&engine), [kind]);
    assert!(recall(&engine) >= 0.9, "{kind}: {}", recall(&engine));
    let mut scratch = engine.scratch().expect("room for a scratch");
    collection
        .update(delete(&(0..POINTS).step_by(3).collect::<Vec<_>>()))
        .expect("deletes");
    collection.wait_idle().expect("rewrites");
    let expected = contents(&collection, &mut scratch);
    assert_eq!(expected.len() as u64, POINTS - POINTS.div_ceil(3));
    assert!(recall(&engine) >= 0.9, "{kind} rewritten: {}", recall(&engine));
    drop((collection, scratch));
    engine.close();
    drop(engine);
    let engine = open(storage);
    assert_eq!(kinds(&engine), [kind]);
    assert!(recall(&engine) >= 0.9, "{kind} opened again: {}", recall(&engine));
    let collection = engine.collection("c").expect("is there");
    assert_eq!(
        contents(&collection, &mut engine.scratch().expect("room")),
        expected
    );
}

#[test]
fn clusters() {
    check(json!({}), "ivf");
    check(
        json!({"index": "ivf", "quantization_config": {"binary": {}}}),
        "ivf",
    );
    check(
        json!({"quantization_config": {"scalar": {"type": "int8", "memory": "cold"}}}),
        "ivf",
    );
}

#[test]
fn a_graph() {
    check(
        json!({"index": "hnsw", "hnsw_config": {"m": 12, "ef_construct": 60}}),
        "hnsw",
    );
}

#[test]
fn a_graph_in_three_placements() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let built = |settings: Value, rows_on_disk: bool| {
        let engine = open(
            storage
                .subdir(&format!("{rows_on_disk}-{}", settings["hnsw_config"]["m"]))
                .expect("a directory"),
        );
        let mut config = config(DIM, Distance::Cosine);
        config.indexing_threshold = Some(50);
        config.other = serde_json::from_value(settings).expect("an object");
        config.vectors.get_mut(DEFAULT_VECTOR).expect("is there").on_disk = Some(rows_on_disk);
        engine.create_collection("c", config).expect("creates");
        let collection = engine.collection("c").expect("is there");
        let mut rng = Rng(3);
        let points = (0..POINTS).map(|id| point(id, vector(&mut rng, id), "{}"));
        collection.update(upsert(points.collect())).expect("upserts");
        collection.flush().expect("flushes");
        collection.wait_idle().expect("nothing fails");
        assert!(recall(&engine) >= 0.9, "{}", recall(&engine));
        let memory = collection.info().memory.into_iter();
        memory
            .filter(|part| part.kind == "hnsw")
            .map(|part| part.pinned_bytes)
            .sum::<u64>()
            / POINTS
    };
    let on_disk = built(
        json!({"index": "hnsw", "hnsw_config": {"on_disk": true, "m": 15}}),
        true,
    );
    let graph = built(json!({"index": "hnsw"}), true);
    let all = built(json!({"index": "hnsw", "hnsw_config": {"on_disk": false}}), false);
    let fewer = built(json!({"index": "hnsw", "hnsw_config": {"m": 8}}), true);
    assert_eq!(on_disk, 0);
    // Codes of 16 bytes, and edges; the vectors and their numbers.
    assert!((45..80).contains(&graph), "{graph} bytes a row");
    assert!((90..115).contains(&(all - graph)), "{all} bytes a row");
    assert!(fewer + 10 < graph, "{fewer} bytes a row");
}

#[test]
fn what_must_be_in_ram_and_does_not_fit_is_refused() {
    let engine = open(Arc::new(RamStorage::new(None)));
    let mut config = config(2048, Distance::Cosine);
    config.other = serde_json::from_value(json!({"memory": "pinned"})).expect("an object");
    let params = config.vectors.get_mut(DEFAULT_VECTOR).expect("is there");
    params.other = serde_json::from_value(json!({"memory": "pinned"})).expect("an object");
    engine.create_collection("c", config).expect("creates");
    let collection = engine.collection("c").expect("is there");
    // 8 KB each: some thousands fit.
    let batch = |first: u64| {
        upsert(
            (first..first + 400)
                .map(|id| point(id, vec![id as f32; 2048], "{}"))
                .collect(),
        )
    };
    let refused = (0..20)
        .map(|i| update_patiently(&collection, || batch(i * 400)))
        .find_map(Result::err);
    let error = refused.expect("more than there is memory");
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(error.to_string().contains("at most"), "{error}");
    collection
        .update(delete(&(0..4000).collect::<Vec<_>>()))
        .expect("deletes go on");
    collection.update(batch(9000)).expect("there is room again");
}
