//! What a search costs, in counts: codes and rows compared, clusters visited, reads and bytes a query, and the recall that they buy. Counts don't
//! depend on the machine's speed, so a change that makes searching dearer is seen here, and not only where it is measured.
//!
//! The baseline is `records/baseline/counts.json`; `RAMLET_COUNTS=write cargo test -p ramlet counts` replaces it. Say in the commit why.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ramlet::{Collection, Engine, PointId, Scratch};
use ramlet_io::{PreadStorage, Storage};
use ramlet_memory::{BudgetRequest, BudgetTable, Ledger};
use ramlet_testdata::recall::Recall;
use ramlet_testdata::{Clustered, Difficulty, Element, K, Metric, Nearest, Shape};
use serde_json::{Value, json};

use crate::support::{MB, config, point, search_request, upsert};

const ROWS: usize = 20_000;
const QUERIES: usize = 100;
const SHAPE: Shape = Shape {
    dims: 100,
    seed: 7,
    difficulty: Difficulty::Hard,
    clusters: 15_000,
};
/// Most that data in RAM may take, in kB: for everything, for extended codes, for the shorter ones, for 1-bit ones.
const ROOM_KB: [u64; 4] = [64_000, 2_500, 1_000, 650];
/// And where the index is built in that room: for product codes with rows' numbers.
const BUILT_IN_KB: u64 = 1_300;
const EFFORTS: [usize; 3] = [64, 128, 256];

/// Instruction sets sum floats in different orders, so that some row lands in another cluster.
const SLACK: f64 = 0.03;
/// Of counts that are near nothing.
const SLACK_ABSOLUTE: f64 = 0.1;
const RECALL_SLACK: f64 = 0.006;

const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../records/baseline/counts.json");

/// Removed when it goes.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(what: &str) -> Directory {
        Directory(std::env::temp_dir().join(format!("ramlet-{what}-{}", std::process::id())))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// To load with: all rows in one buffer, so one flush and one segment, the same every time.
pub fn loading_budget() -> BudgetTable {
    let mut request = BudgetRequest::in_process(512 * MB, 1);
    request.write_buffers = Some(64 * MB);
    BudgetTable::plan(request).expect("enough")
}

/// To search with: so much room for data in RAM.
pub fn searching_budget(room: u64) -> BudgetTable {
    let mut request = BudgetRequest::in_process(96 * MB, 1);
    // Blocks that happen to be cached would hide reads.
    request.block_cache = Some(MB / 4);
    request.job_scratch = Some(MB / 2);
    request.write_buffers = Some(MB / 4);
    request.elastic = Some(MB / 4);
    let mut budget = BudgetTable::plan(request).expect("enough");
    // What caches may take of other rows counts too, so the ledger itself is made smaller.
    budget.headroom += budget.pinned_max().saturating_sub(room);
    budget.pinned = budget.pinned.min(room);
    budget
}

pub fn engine(storage: &Arc<dyn Storage>, budget: BudgetTable) -> Arc<Engine> {
    let options = ramlet::EngineOptions {
        ledger: Ledger::new(budget.ledger_limit()),
        budget,
        seed: 1,
        log_file_bytes: Some(1 << 20),
    };
    Engine::open(storage.clone(), options).expect("opens")
}

fn rows(made: &Clustered, first: u64, count: usize) -> Vec<f32> {
    let mut out = vec![0.0; count * SHAPE.dims];
    made.rows(first, &mut out);
    out
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// One segment, with an index from so many rows on.
fn load(storage: &Arc<dyn Storage>, base: &[f32], threshold: usize) {
    let engine = engine(storage, loading_budget());
    let mut config = config(SHAPE.dims, ramlet::Distance::Cosine);
    config.indexing_threshold = Some(threshold);
    engine.create_collection("counts", config).expect("creates");
    let collection = engine.collection("counts").expect("is there");
    let mut points = (0..)
        .zip(base.chunks_exact(SHAPE.dims))
        .map(|(id, vector)| point(id, vector.to_vec(), ""))
        .peekable();
    while points.peek().is_some() {
        let batch = points.by_ref().take(500).collect();
        collection.update(upsert(batch)).expect("upserts");
    }
    collection.flush().expect("flushes");
    collection.wait_idle().expect("settles");
    settled(&collection, if threshold > ROWS { 0 } else { ROWS });
    engine.close();
}

fn settled(collection: &Collection, indexed: usize) {
    let info = collection.info();
    assert_eq!(
        (info.segments_count, info.indexed_vectors_count),
        (1, indexed as u64)
    );
}

struct Found(PointId);

impl PartialEq<u32> for Found {
    fn eq(&self, row: &u32) -> bool {
        self.0 == PointId::Num(u64::from(*row))
    }
}

/// Means over the queries, by name.
fn measure(
    collection: &Collection,
    scratch: &mut Scratch,
    queries: &[f32],
    truth: &[Vec<u32>],
    ef: usize,
) -> BTreeMap<&'static str, f64> {
    let mut recall = Recall::default();
    let mut sums: BTreeMap<&'static str, f64> = BTreeMap::new();
    for (query, truth) in queries.chunks_exact(SHAPE.dims).zip(truth) {
        let mut request = search_request(query.to_vec(), K);
        request.params.hnsw_ef = Some(ef);
        let answer = collection.search(&request, scratch).expect("searches");
        let found: Vec<Found> = answer.hits.iter().map(|hit| Found(hit.id)).collect();
        recall.note(&found, truth);
        for (name, count) in [
            ("probes", answer.cost.probes),
            ("codes", answer.cost.codes_scanned),
            ("survivors", answer.cost.survivors),
            ("extended", answer.cost.extended_scored),
            ("rows_read", answer.cost.rows_read),
            ("rows", answer.cost.rows_scanned),
            ("reads", answer.cost.disk_reads),
            ("read_bytes", answer.cost.disk_bytes),
        ] {
            *sums.entry(name).or_default() += count as f64;
        }
    }
    sums.values_mut()
        .for_each(|sum| *sum = (*sum / QUERIES as f64 * 1e3).round() / 1e3);
    sums.insert("recall", (recall.share() * 1e4).round() / 1e4);
    sums
}

fn measured() -> Value {
    let made = Clustered::new(SHAPE);
    let (base, queries) = (rows(&made, 0, ROWS), rows(&made, ROWS as u64, QUERIES));
    let mut nearest = Nearest::new(Metric::Cosine, Element::F32, SHAPE.dims, &bytes(&queries), K);
    nearest.offer(0, &bytes(&base), 1);
    let truth: Vec<Vec<u32>> = nearest
        .sorted()
        .iter()
        .map(|list| list.iter().map(|found| found.1).collect())
        .collect();
    // Files, because nothing of a storage in RAM is brought into RAM.
    let directory = Directory::new("counts");
    let storage: Arc<dyn Storage> = PreadStorage::open(&directory.0).expect("opens");
    load(&storage, &base, 1_000);
    let mut cases = serde_json::Map::new();
    let mut note = |collection: &Collection, engine: &Engine, what: &str| {
        let mut scratch = engine.scratch().expect("a scratch");
        for ef in EFFORTS {
            let counts = measure(collection, &mut scratch, &queries, &truth, ef);
            cases.insert(format!("{what}, ef {ef}"), json!(counts));
        }
    };
    for room in ROOM_KB {
        let engine = engine(&storage, searching_budget(room * 1000));
        let collection = engine.collection("counts").expect("is there");
        collection.wait_idle().expect("settles");
        note(&collection, &engine, &format!("{room} kB for data in RAM"));
        engine.close();
    }
    drop(directory);
    let directory = Directory::new("counts");
    let storage: Arc<dyn Storage> = PreadStorage::open(&directory.0).expect("opens");
    load(&storage, &base, 1_000_000);
    let engine = engine(&storage, searching_budget(BUILT_IN_KB * 1000));
    let wanted = engine.update_collection("counts", &mut |config| {
        config.indexing_threshold = Some(1_000);
        Ok(())
    });
    wanted.expect("changes");
    let collection = engine.collection("counts").expect("is there");
    collection.wait_idle().expect("settles");
    settled(&collection, ROWS);
    note(
        &collection,
        &engine,
        &format!("built with {BUILT_IN_KB} kB for data in RAM"),
    );
    engine.close();
    Value::Object(cases)
}

/// What is worse than it was: counts that grew, recall that fell.
fn worse(before: &Value, now: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (case, before) in before.as_object().into_iter().flatten() {
        for (name, before) in before.as_object().into_iter().flatten() {
            let before = before.as_f64().expect("a number");
            let Some(now) = now[case][name].as_f64() else {
                found.push(format!("{case}: {name} isn't measured any more"));
                continue;
            };
            let is_worse = match name.as_str() {
                "recall" => now < before - RECALL_SLACK,
                _ => now > before * (1.0 + SLACK) + SLACK_ABSOLUTE,
            };
            if is_worse {
                found.push(format!("{case}: {name} was {before}, is {now}"));
            }
        }
    }
    found
}

#[test]
fn searches_cost_no_more_than_they_did() {
    let now = measured();
    if std::env::var("RAMLET_COUNTS").is_ok_and(|told| told == "write") {
        let mut text = serde_json::to_string_pretty(&now).expect("plain values");
        text.push('\n');
        std::fs::write(BASELINE, text).expect("the baseline can be written");
        return;
    }
    let text = std::fs::read_to_string(BASELINE).expect("there is a baseline");
    let before: Value = serde_json::from_str(&text).expect("the baseline is JSON");
    let worse = worse(&before, &now);
    assert!(
        worse.is_empty(),
        "dearer than records/baseline/counts.json:\n  {}\n\nnow: {now:#}",
        worse.join("\n  ")
    );
}

#[test]
fn worse_counts_are_noticed() {
    let before = json!({ "a": { "recall": 0.95, "codes": 1000.0, "reads": 2.0 } });
    let same = json!({ "a": { "recall": 0.949, "codes": 1010.0, "reads": 1.0 } });
    assert_eq!(worse(&before, &same), Vec::<String>::new());
    let dearer = json!({ "a": { "recall": 0.93, "codes": 1100.0, "reads": 2.5 } });
    assert_eq!(worse(&before, &dearer).len(), 3);
    assert_eq!(worse(&before, &json!({})).len(), 3);
}
