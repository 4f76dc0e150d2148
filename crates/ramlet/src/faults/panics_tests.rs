//! What a panic leaves behind a lock: readers go on, of the collection that it was about and of all others.

use std::sync::{Arc, Mutex};

use ramlet_io::{RamStorage, Storage};

use super::*;
use crate::collection::Collection;
use crate::engine::{Engine, EngineOptions};
use crate::filter::{Condition, Filter};
use crate::query::Scratch;
use crate::request::*;
use crate::types::*;

const POINTS: u64 = 300;

fn open(storage: &Arc<dyn Storage>) -> Arc<Engine> {
    let options = EngineOptions::in_process(64_000_000, 2).expect("a budget");
    Engine::open(storage.clone(), options).expect("opens")
}

fn put(collection: &Collection, ids: std::ops::Range<u64>, text: &str) -> Result<UpdateResult> {
    let point = |id: u64| Point {
        id: PointId::Num(id),
        vectors: vec![(String::new(), vec![id as f32, 1.0].into())],
        payload: format!("{{\"t\":\"{text}\"}}").into_bytes(),
    };
    collection.update(UpdateOp::Upsert {
        points: ids.map(point).collect(),
        filter: None,
        mode: UpdateMode::Upsert,
    })
}

/// Ids and payloads by page, by id, by search and by a filter of ids.
fn read(collection: &Collection, scratch: &mut Scratch) -> Vec<(PointId, Option<Vec<u8>>)> {
    let parts = |record: Record| (record.id, record.payload);
    let ids: Vec<PointId> = (0..POINTS).rev().map(PointId::Num).collect();
    let asked = collection.retrieve(&ids, &PayloadSelector::All, &VectorSelector::None, scratch);
    let mut asked: Vec<_> = asked.expect("is read").into_iter().map(parts).collect();
    asked.reverse();

    let mut scrolled = Vec::new();
    let mut request = ScrollRequest {
        filter: None,
        offset: None,
        limit: 7,
        order_by: None,
        with_payload: PayloadSelector::All,
        with_vectors: VectorSelector::None,
    };
    loop {
        let page = collection.scroll(&request, scratch).expect("scrolls");
        scrolled.extend(page.points.into_iter().map(parts));
        let Some(next) = page.next else { break };
        request.offset = Some(next);
    }
    assert_eq!(scrolled, asked);

    let among = Filter {
        must: vec![Condition::HasId(ids)],
        ..Filter::default()
    };
    let count = collection.count(Some(&among), true, scratch).expect("counts");
    assert_eq!(count, asked.len() as u64);
    let request = SearchRequest {
        query: QueryVector::Vector(vec![1.0, 0.0].into()),
        using: DEFAULT_VECTOR.to_owned(),
        filter: Some(among),
        params: SearchParams::default(),
        limit: POINTS as usize,
        offset: 0,
        score_threshold: None,
        with_payload: PayloadSelector::All,
        with_vectors: VectorSelector::None,
    };
    let found = collection.search(&request, scratch).expect("searches").hits;
    let found: Vec<_> = found.into_iter().rev().map(|hit| (hit.id, hit.payload)).collect();
    assert_eq!(found, asked);
    asked
}

/// What is behind `lock` stays as it was.
fn panic_with<T>(lock: &Mutex<T>) {
    let panic = caught(|| {
        let _held = lock.lock().expect("nobody panicked before");
        panic!("planted");
    });
    assert!(panic.is_err() && lock.is_poisoned());
}

#[test]
fn who_panics_with_a_lock_keeps_no_reader_from_going_on() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let engine = open(&storage);
    for name in ["victim", "other"] {
        let config = serde_json::json!({ "vectors": { "": { "size": 2, "distance": "Dot" } } });
        let config: CollectionConfig = serde_json::from_value(config).expect("settings");
        engine.create_collection(name, config).expect("creates");
    }
    let victim = engine.collection("victim").expect("is there");
    put(&victim, 0..POINTS, "first").expect("upserts");
    put(&victim, 40..90, "again").expect("upserts");
    let gone = (100..110).map(PointId::Num).collect();
    victim
        .update(UpdateOp::Delete(PointsSelector::Ids(gone)))
        .expect("deletes");
    let mut scratch = engine.scratch().expect("scratch");
    let before = read(&victim, &mut scratch);
    assert_eq!(before.len(), POINTS as usize - 10);

    let core = victim.core();
    let memtables = core.view.load().memtables.clone();
    assert!(
        memtables.iter().any(|view| view.len > 0),
        "nothing is flushed yet"
    );
    let stopped = core.guarded(|| -> Result<()> {
        memtables.iter().for_each(|view| view.memtable.lose_ids());
        panic!("planted");
    });
    assert_eq!(stopped.expect_err("panicked").kind(), ErrorKind::WritesStopped);
    panic_with(&core.queue);
    panic_with(&core.expiry);
    panic_with(&engine.shared().collections);
    core.monitor.panic();

    assert_eq!(read(&victim, &mut scratch), before);
    let refused = put(&victim, 0..1, "more").expect_err("no more writes");
    assert_eq!(refused.kind(), ErrorKind::WritesStopped, "{refused}");
    assert_eq!(victim.info().points_count, before.len() as u64);
    let other = engine.collection("other").expect("is there");
    put(&other, 0..POINTS, "first").expect("upserts");
    other.flush().expect("flushes");
    other.wait_idle().expect("merges");
    assert_eq!(read(&other, &mut scratch).len(), POINTS as usize);
    engine.monitor_recall_once();
    engine.close();
    drop((victim, other, scratch, engine));

    let engine = open(&storage);
    let mut scratch = engine.scratch().expect("scratch");
    let victim = engine.collection("victim").expect("opens");
    assert_eq!(read(&victim, &mut scratch), before);
    engine.close();
}
