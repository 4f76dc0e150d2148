//! Merges of an engine without its maintenance thread: each is begun by the test.

use ramlet_io::RamStorage;
use ramlet_memory::{BudgetRequest, BudgetTable, Ledger};
use serde_json::json;

use super::*;
use crate::jobs::{self, Moment};
use crate::read::info::CollectionStatus;
use crate::request::{PointsSelector, UpdateMode, UpdateOp};
use crate::types::{Point, PointId};

const DIM: u64 = 24;
const EACH: u64 = 1_000;

/// An engine whose jobs are done by nobody but the test.
fn without_maintenance() -> Arc<Engine> {
    let budget = BudgetTable::plan(BudgetRequest::new(64_000_000, 1)).expect("enough");
    let options = EngineOptions {
        ledger: Ledger::new(budget.ledger_limit()),
        budget,
        seed: 42,
        log_file_bytes: None,
    };
    let engine =
        Engine::recovered(Arc::new(RamStorage::new(None)), options, AtStart::AllBut(&[])).expect("opens");
    engine.start_writer().expect("a thread");
    engine
}

fn add(collection: &Collection, ids: std::ops::Range<u64>) {
    let value = |id: u64, i: u64| (id * 7919 + i * 104_729) % 1009;
    let vector = |id: u64| -> Vec<f32> { (0..DIM).map(|i| value(id, i) as f32 - 500.0).collect() };
    let point = |id| Point {
        id: PointId::Num(id),
        vectors: vec![(String::new(), vector(id).into())],
        payload: b"{}".to_vec(),
    };
    let upsert = UpdateOp::Upsert {
        points: ids.map(point).collect(),
        filter: None,
        mode: UpdateMode::Upsert,
    };
    collection.update(upsert).expect("upserts");
    collection.flush().expect("flushes");
}

/// Rows and index of every segment, the largest first.
fn parts(collection: &Collection) -> Vec<(u32, &'static str)> {
    let reports = collection.segment_reports();
    let mut parts: Vec<_> = reports
        .iter()
        .map(|part| (part.rows, part.vectors[0].index))
        .collect();
    parts.sort_unstable_by_key(|(rows, _)| std::cmp::Reverse(*rows));
    parts
}

#[test]
fn a_graph_that_was_asked_for_waits_until_nothing_else_is_due() {
    let engine = without_maintenance();
    let settings = json!({
        "vectors": { "": { "size": DIM, "distance": "Cosine" } },
        "indexing_threshold": 50,
    });
    let mut settings: CollectionConfig = serde_json::from_value(settings).expect("settings");
    settings.other.insert("index".to_owned(), json!("hnsw"));
    engine.create_collection("c", settings).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let busy = || jobs::merge(collection.core(), Moment::Busy).expect("merges");
    for first in (0..6 * EACH).step_by(EACH as usize) {
        add(&collection, first..first + EACH);
        // Each has rows enough for an index.
        while busy() {}
    }
    let rows = EACH as u32;
    assert_eq!(
        parts(&collection),
        [(4 * rows, "flat"), (rows, "flat"), (rows, "flat")]
    );
    assert_eq!(collection.info().status, CollectionStatus::Yellow);
    assert!(jobs::merge(collection.core(), Moment::Idle).expect("merges"));
    assert_eq!(parts(&collection), [(6 * rows, "hnsw")]);
    assert_eq!(collection.info().status, CollectionStatus::Green);
    // The graph isn't given up for what comes later, nor when a part of it is deleted.
    for first in (6 * EACH..14 * EACH).step_by(EACH as usize) {
        add(&collection, first..first + EACH);
        while busy() {}
    }
    assert_eq!(
        parts(&collection),
        [(6 * rows, "hnsw"), (4 * rows, "flat"), (4 * rows, "flat")]
    );
    let gone = (0..2 * EACH).map(PointId::Num).collect();
    collection
        .update(UpdateOp::Delete(PointsSelector::Ids(gone)))
        .expect("deletes");
    assert!(busy() && !busy());
    assert_eq!(
        parts(&collection)
            .iter()
            .filter(|part| **part == (4 * rows, "hnsw"))
            .count(),
        1
    );
    assert!(jobs::merge(collection.core(), Moment::Idle).expect("merges"));
    assert_eq!(parts(&collection), [(12 * rows, "hnsw")]);
    assert!(!busy() && !jobs::merge(collection.core(), Moment::Idle).expect("nothing"));
}

/// Rows that come all the time aren't written anew with all small segments each time, but with those of like size.
#[test]
fn small_segments_are_merged_by_size_while_more_come() {
    const ALL: u64 = 40_000;
    let engine = without_maintenance();
    let settings = json!({
        "vectors": { "": { "size": DIM, "distance": "Cosine" } },
        "indexing_threshold": 0,
    });
    let settings: CollectionConfig = serde_json::from_value(settings).expect("settings");
    engine.create_collection("c", settings).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let merge = |moment| jobs::merge(collection.core(), moment).expect("merges");
    (0..ALL)
        .step_by(10_000)
        .for_each(|first| add(&collection, first..first + 10_000));
    assert!(merge(Moment::Idle) && parts(&collection) == [(ALL as u32, "flat")]);
    let (mut at, mut written, mut most) = (ALL, 0, 0);
    for _ in 0..30 {
        add(&collection, at..at + 100);
        at += 100;
        while merge(Moment::Light) {
            let newest = collection
                .segment_reports()
                .into_iter()
                .max_by_key(|part| part.segment);
            written += u64::from(newest.expect("some").rows);
        }
        most = most.max(parts(&collection).len());
    }
    // All small ones each time would be 46,400 rows.
    assert!(
        written <= 15_000 && most <= 6,
        "{written} rows written, {most} segments"
    );
    assert!(parts(&collection).len() > 2);
    assert!(merge(Moment::Idle) && !merge(Moment::Idle));
    assert_eq!(
        parts(&collection),
        [(ALL as u32, "flat"), ((at - ALL) as u32, "flat")]
    );
}
