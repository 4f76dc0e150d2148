//! Collections that a start can't open: the others are served, and nothing of theirs or of these is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ramlet::*;
use ramlet_io::{RamStorage, Storage};

use crate::support::*;
use crate::watched::Watched;

const TEXT_BYTES: usize = 2000;

fn fill(engine: &Engine, name: &str, points: u64) {
    engine
        .create_collection(name, config(2, Distance::Dot))
        .expect("creates");
    add(&engine.collection(name).expect("is there"), 0..points);
}

fn add(collection: &Collection, ids: std::ops::Range<u64>) {
    let text = format!("{{\"t\":\"{}\"}}", "x".repeat(TEXT_BYTES));
    for first in ids.clone().step_by(100) {
        let some = (first..(first + 100).min(ids.end)).map(|id| point(id, vec![1.0, 2.0], &text));
        collection.update(upsert(some.collect())).expect("upserts");
    }
}

/// The files of a directory, in order.
fn files(storage: &dyn Storage) -> Vec<String> {
    let mut names = storage.list().expect("lists");
    names.sort();
    names
}

#[test]
fn a_panic_while_a_log_is_replayed_closes_one_collection() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let engine = Engine::open(storage.clone(), options(512 * MB)).expect("opens");
    fill(&engine, "a", 10);
    fill(&engine, "b", 2500);
    fill(&engine, "c", 2500);
    engine.close();
    drop(engine);
    // There is no room for what b's log holds but by a flush while it is replayed.
    let is_armed = Arc::new(AtomicBool::new(true));
    let armed = is_armed.clone();
    let watched = Watched::new(storage.clone(), move |op, path| {
        let is_of_a_segment = op == "create" && path.ends_with(".ids");
        assert!(
            !(is_of_a_segment && armed.swap(false, Ordering::AcqRel)),
            "planted"
        );
    });
    let engine = Engine::open(watched, options(32 * MB)).expect("opens");
    assert!(!is_armed.load(Ordering::Acquire), "nothing was flushed");
    let closed = engine.closed_collections();
    assert!(
        matches!(&closed[..], [(name, why)] if name == "b" && why.to_string().contains("planted")),
        "{closed:?}"
    );
    let refused = engine.collection("b").err().expect("is closed");
    assert_eq!(refused.kind(), ErrorKind::CollectionClosed);
    // What takes jobs goes on.
    let (a, c) = (engine.collection("a").unwrap(), engine.collection("c").unwrap());
    add(&a, 10..8000);
    a.flush().expect("flushes");
    assert_eq!((a.info().points_count, c.info().points_count), (8000, 2500));
    engine.close();
    drop((a, c, engine));
    // It was the moment's fault: nothing of it was lost.
    let engine = Engine::open(storage, options(32 * MB)).expect("opens");
    assert!(engine.closed_collections().is_empty());
    let points = |name| engine.collection(name).unwrap().info().points_count;
    assert_eq!((points("a"), points("b"), points("c")), (8000, 2500, 2500));
    engine.close();
}

#[test]
fn one_that_wants_more_memory_than_there_is_keeps_no_other_closed() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let given = options(64 * MB);
    let ledger = given.ledger.clone();
    let engine = Engine::open(storage.clone(), given).expect("opens");
    fill(&engine, "a-large", 20_000);
    fill(&engine, "b-small", 10);
    engine.collection("a-large").unwrap().flush().expect("flushes");
    let report = ledger.report();
    let metadata = report.iter().find(|one| one.name == "segment metadata").unwrap();
    let (all, cap) = (metadata.used, metadata.cap);
    engine.close();
    drop(engine);

    let given = options(64 * MB);
    let others = given.ledger.keeper("segment metadata", cap);
    let taken = others.reserve(cap - all / 2).expect("it is free");
    let engine = Engine::open(storage.clone(), given).expect("opens");
    let points = |name| engine.collection(name).map(|found| found.info().points_count);
    assert_eq!(points("b-small").expect("is open"), 10);
    let refused = points("a-large").expect_err("is closed");
    assert_eq!(refused.kind(), ErrorKind::CollectionClosed);
    let told = refused.to_string();
    assert!(
        told.contains("doesn't fit into this budget") && told.contains("more --memory"),
        "{told}"
    );
    let info = engine.collection_info("a-large").expect("is listed");
    assert_eq!(info.status, CollectionStatus::Red);
    let closed = engine.closed_collections();
    assert!(
        matches!(&closed[..], [(name, why)] if name == "a-large" && why.is_over_budget()),
        "{closed:?}"
    );
    engine.close();
    drop((engine, taken));

    let engine = open(storage);
    let points = |name| engine.collection(name).unwrap().info().points_count;
    assert_eq!((points("a-large"), points("b-small")), (20_000, 10));
    engine.close();
}

#[test]
fn what_an_older_manifest_does_not_name_stays_where_it_cannot_be_opened() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let engine = Engine::open(storage.clone(), options(64 * MB)).expect("opens");
    fill(&engine, "c", 8000);
    engine.collection("c").unwrap().wait_idle().expect("merges");
    engine.close();
    drop(engine);
    let directory = storage
        .list_subdirs()
        .expect("lists")
        .pop()
        .expect("its directory");
    let directory = storage.subdir(&directory).expect("opens");
    let mut names = files(directory.as_ref()).into_iter();
    let newest = names
        .rfind(|name| name.starts_with("MANIFEST"))
        .expect("a manifest");
    let file = directory.open(&newest).expect("opens");
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(&mut bytes, 0).expect("reads");
    directory.remove(&newest).expect("removes");
    let before = files(directory.as_ref());
    let engine = Engine::open(storage.clone(), options(64 * MB)).expect("opens");
    assert_eq!(engine.closed_collections().len(), 1);
    engine.close();
    drop(engine);
    assert_eq!(files(directory.as_ref()), before);
    // With its manifest back it is whole.
    let mut file = directory.create(&newest).expect("creates");
    file.append(&bytes).expect("writes");
    file.sync().expect("syncs");
    drop(file);
    let engine = open(storage);
    assert_eq!(engine.collection("c").unwrap().info().points_count, 8000);
    engine.close();
}
