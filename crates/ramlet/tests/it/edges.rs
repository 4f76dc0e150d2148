//! What goes wrong only at the edges: full disks and buffers, failed jobs, deletions and ends in the middle of things.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use ramlet::*;
use ramlet_io::{Fault, FaultOp, IoErrorKind, RamStorage, SimStorage, Storage};

use crate::support::*;
use crate::watched::Watched;

const DIM: usize = 4;

fn new(storage: &Arc<dyn Storage>) -> (Arc<Engine>, Arc<Collection>) {
    let engine = open(storage.clone());
    engine
        .create_collection("c", config(DIM, Distance::Dot))
        .expect("creates");
    let collection = engine.collection("c").expect("is there");
    (engine, collection)
}

fn in_ram() -> Arc<dyn Storage> {
    Arc::new(RamStorage::new(None))
}

fn heavy(id: u64, payload_bytes: usize) -> Point {
    point(
        id,
        vec![id as f32; DIM],
        &format!("{{\"t\":\"{}\"}}", "x".repeat(payload_bytes)),
    )
}

/// An answer, or a failure of the test instead of a hang.
fn within_seconds<T: Send + 'static>(what: &str, job: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(job()));
    told.recv_timeout(Duration::from_secs(60))
        .unwrap_or_else(|_| panic!("{what}: no answer"))
}

fn count(engine: &Engine, name: &str) -> u64 {
    engine.collection(name).expect("is there").info().points_count
}

#[test]
fn first_group_longer_than_a_log_file() {
    let storage = in_ram();
    let (engine, collection) = new(&storage);
    // Log files have 64 KiB here.
    collection
        .update(upsert((0..100).map(|id| heavy(id, 3000)).collect()))
        .expect("fits in a longer file");
    collection
        .update(upsert(vec![point(100, vec![1.0; DIM], "{}")]))
        .unwrap();
    collection.flush().unwrap();
    collection
        .update(upsert((101..200).map(|id| heavy(id, 3000)).collect()))
        .expect("after a cut as well");
    collection
        .update(upsert((200..203).map(|id| heavy(id, 3000)).collect()))
        .unwrap();
    drop(collection);
    engine.close();
    drop(engine);
    assert_eq!(count(&open(storage), "c"), 203);
}

#[test]
fn a_point_that_no_buffer_holds_is_refused() {
    let budget = ramlet_memory::BudgetTable::plan(ramlet_memory::BudgetRequest {
        write_buffers: Some(1 << 20),
        ..ramlet_memory::BudgetRequest::new(64 * MB, 1)
    })
    .unwrap();
    let engine = Engine::open(
        in_ram(),
        EngineOptions {
            budget,
            ..options(64 * MB)
        },
    )
    .unwrap();
    engine.create_collection("c", config(DIM, Distance::Dot)).unwrap();
    let collection = engine.collection("c").unwrap();
    let same = collection.clone();
    let error = within_seconds("a large point", move || {
        same.update(upsert(vec![heavy(1, 1 << 20)])).unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    let same = collection.clone();
    within_seconds("the largest points", move || {
        (0..12).for_each(|id| {
            same.update(upsert(vec![heavy(id, 380 << 10)]))
                .expect("fits in half of the buffers");
        });
    });
    // A partial update must not get there either.
    let grow = UpdateOp::SetPayload {
        payload: format!("{{\"u\":\"{}\"}}", "y".repeat(380 << 10)).into_bytes(),
        key: None,
        points: PointsSelector::Ids(vec![PointId::Num(3)]),
    };
    assert_eq!(collection.update(grow).unwrap_err().kind(), ErrorKind::TooLarge);
    collection
        .update(upsert(vec![point(77, vec![1.0; DIM], "{}")]))
        .expect("goes on");
    assert!(engine.writable());
    assert_eq!(count(&engine, "c"), 13);
}

#[test]
fn many_logs_that_do_not_fit_at_once_are_recovered() {
    let storage = in_ram();
    let small = || {
        let budget = ramlet_memory::BudgetTable::plan(ramlet_memory::BudgetRequest {
            write_buffers: Some(1 << 20),
            ..ramlet_memory::BudgetRequest::new(64 * MB, 1)
        });
        EngineOptions {
            budget: budget.unwrap(),
            ..options(64 * MB)
        }
    };
    // Filled with room for all, opened with less.
    let engine = open(storage.clone());
    for name in ["a", "b", "d"] {
        engine
            .create_collection(name, config(DIM, Distance::Dot))
            .unwrap();
        let collection = engine.collection(name).unwrap();
        (0..50).for_each(|i| {
            collection
                .update(upsert((0..10).map(|j| heavy(i * 10 + j, 1500)).collect()))
                .unwrap();
        });
        assert_eq!(collection.info().segments_count, 1, "all of it is in the buffer");
    }
    engine.close();
    drop(engine);
    let engine = within_seconds("recovery", move || Engine::open(storage, small()).expect("opens"));
    for name in ["a", "b", "d"] {
        assert_eq!(count(&engine, name), 500);
    }
}

#[test]
fn a_full_disk_at_a_log_file_is_no_end() {
    let disk = SimStorage::new();
    let (engine, collection) = new(&(Arc::new(disk.clone()) as Arc<dyn Storage>));
    collection
        .update(upsert(vec![point(1, vec![1.0; DIM], "{}")]))
        .unwrap();
    // First where a file is full, then where the first group of a fresh file is longer than it.
    disk.inject(
        Fault::new(FaultOp::Create, 1, IoErrorKind::NoSpace)
            .on("log")
            .lasting(),
    );
    let mut refused = (0..200).map(|i| collection.update(upsert(vec![heavy(1000 + i, 1500)])));
    let error = refused
        .find_map(|result| result.err())
        .expect("the file is full at last");
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    collection
        .update(delete(&[1]))
        .expect("there is room for a delete");
    disk.clear_faults();
    collection.flush().expect("goes on");
    disk.inject(
        Fault::new(FaultOp::Create, 1, IoErrorKind::NoSpace)
            .on("log")
            .lasting(),
    );
    let long = || upsert((0..60).map(|id| heavy(id, 1500)).collect());
    assert_eq!(collection.update(long()).unwrap_err().kind(), ErrorKind::DiskFull);
    disk.clear_faults();
    collection
        .update(upsert(vec![point(5000, vec![1.0; DIM], "{}")]))
        .expect("the file is as it was");
    collection.flush().unwrap();
    collection.update(long()).expect("there is room again");
    let expected = contents(&collection, &mut engine.scratch().unwrap());
    assert!(engine.writable());
    drop(collection);
    engine.close();
    drop(engine);
    let engine = open(Arc::new(disk));
    assert_eq!(
        contents(&engine.collection("c").unwrap(), &mut engine.scratch().unwrap()),
        expected
    );
}

#[test]
fn updates_that_wait_for_the_log_are_in_the_ledger() {
    const COUNT: u64 = 20;
    const BYTES: usize = 10_000;
    let gate = Arc::new(Mutex::new(()));
    let (passed, storage) = (gate.clone(), in_ram());
    let storage: Arc<dyn Storage> = Watched::new(storage, move |op, _| {
        if op == "log" {
            drop(passed.lock());
        }
    });
    let (engine, collection) = new(&storage);
    let ledger = engine.ledger().clone();
    let queued = move || {
        let report = ledger.report();
        report
            .iter()
            .find(|row| row.name == "queued updates")
            .expect("there is such a row")
            .used
    };
    let shut = gate.lock().expect("nobody panics");
    let (tell, told) = mpsc::channel();
    for id in 0..COUNT {
        let tell = tell.clone();
        let done = Box::new(move |result| drop(tell.send(result)));
        collection
            .submit(upsert(vec![heavy(id, BYTES)]), done)
            .expect("is queued");
    }
    let waiting = queued();
    assert!(
        waiting >= COUNT * BYTES as u64,
        "{waiting} bytes of {COUNT} updates of {BYTES}"
    );
    drop(shut);
    for _ in 0..COUNT {
        told.recv().expect("an answer").expect("is written");
    }
    within_seconds("what was queued is given back", move || {
        while queued() > 0 {
            std::thread::yield_now();
        }
    });
}

#[test]
fn failed_updates_leave_nothing_for_the_next() {
    // On its way to the buffer a payload is in memory three times.
    let engine = Engine::open(in_ram(), options(128 * MB)).expect("opens");
    engine
        .create_collection("c", config(DIM, Distance::Dot))
        .expect("creates");
    let collection = engine.collection("c").expect("is there");
    collection
        .update(upsert(vec![
            point(1, vec![1.0; DIM], "{\"a\":1}"),
            point(
                2,
                vec![1.0; DIM],
                &format!("{{\"t\":\"{}\"}}", "x".repeat(1_900_000)),
            ),
        ]))
        .unwrap();
    // For point 2 the payload gets too long.
    let grow = UpdateOp::SetPayload {
        payload: format!("{{\"u\":\"{}\"}}", "y".repeat(400_000)).into_bytes(),
        key: None,
        points: PointsSelector::Ids(vec![PointId::Num(1), PointId::Num(2)]),
    };
    collection.update(grow).unwrap_err();
    collection
        .update(upsert(vec![point(3, vec![1.0; DIM], "{}")]))
        .unwrap();
    let found = contents(&collection, &mut engine.scratch().unwrap());
    assert_eq!(
        found[&PointId::Num(1)].1,
        "{\"a\":1}",
        "the refused update came with the next one"
    );
}

#[test]
fn a_failed_index_build_can_be_repeated() {
    let index = || FieldIndex {
        kind: FieldKind::Integer,
        params: None,
    };
    for nth in 1..30 {
        let disk = SimStorage::new();
        let (_engine, collection) = new(&(Arc::new(disk.clone()) as Arc<dyn Storage>));
        for round in 0..3 {
            collection
                .update(upsert(
                    (0..20)
                        .map(|i| point(round * 20 + i, vec![1.0; DIM], "{\"n\":1}"))
                        .collect(),
                ))
                .unwrap();
            collection.flush().unwrap();
        }
        disk.inject(Fault::new(FaultOp::Any, nth, IoErrorKind::NoSpace).on(".x"));
        let failed = collection.create_payload_index("n", index()).is_err();
        disk.clear_faults();
        collection
            .create_payload_index("n", index())
            .expect("there is room now");
        if !failed {
            return;
        }
    }
    panic!("thirty failures weren't enough for one index");
}

#[test]
fn one_collection_that_fails_does_not_stop_another() {
    let disk = SimStorage::new();
    let engine = open(Arc::new(disk.clone()));
    for name in ["bad", "good"] {
        engine
            .create_collection(name, config(DIM, Distance::Dot))
            .unwrap();
    }
    let (bad, good) = (
        engine.collection("bad").unwrap(),
        engine.collection("good").unwrap(),
    );
    // The first collection's flushes fail, and it holds much.
    let fault = Fault::new(FaultOp::Append, 1, IoErrorKind::NoSpace);
    disk.inject(fault.on(".row").lasting());
    bad.update(upsert((0..20).map(|id| heavy(id, 20_000)).collect()))
        .unwrap();
    assert!(bad.flush().is_err(), "the fault is in force");
    disk.clear_faults();
    disk.inject(Fault::new(FaultOp::Sync, 1, IoErrorKind::Other).on("log-"));
    assert_eq!(
        bad.update(delete(&[1])).unwrap_err().kind(),
        ErrorKind::WritesStopped
    );
    disk.clear_faults();
    let writes = good.clone();
    within_seconds("writes of the other collection", move || {
        for i in 0..60 {
            writes
                .update(upsert((0..20).map(|j| heavy(i * 20 + j, 20_000)).collect()))
                .expect("is not concerned");
        }
    });
    assert_eq!(good.info().points_count, 1200);
}

#[test]
fn deletion_and_end_answer_everybody() {
    for round in 0..8 {
        let (engine, collection) = new(&in_ram());
        let (tell, told) = mpsc::channel();
        let writers: Vec<_> = (0..3)
            .map(|t| {
                let (collection, tell) = (collection.clone(), tell.clone());
                std::thread::spawn(move || {
                    for i in 0..10_000 {
                        let result = collection.update(upsert(vec![heavy(t * 100_000 + i, 20_000)]));
                        if let Err(e) = result {
                            let ended = matches!(
                                e.kind(),
                                ErrorKind::Closed | ErrorKind::NotFound | ErrorKind::WritesStopped
                            );
                            assert!(ended, "{e}");
                            return tell.send(()).unwrap();
                        }
                    }
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(3 + 40 * round));
        let same = engine.clone();
        if round % 2 == 0 {
            within_seconds("close", move || same.close());
        } else {
            assert!(within_seconds("delete", move || same.delete_collection("c")).unwrap());
            assert!(engine.writable(), "a deleted collection is no reason");
            assert!(
                engine.storage().list_subdirs().unwrap().is_empty(),
                "its directory is gone"
            );
            engine.create_collection("c", config(DIM, Distance::Dot)).unwrap();
            let other = engine.collection("c").unwrap();
            within_seconds("another collection", move || {
                other.update(upsert(vec![point(1, vec![1.0; DIM], "{}")]))
            })
            .unwrap();
        }
        for _ in 0..3 {
            told.recv_timeout(Duration::from_secs(60))
                .expect("every writer gets an answer");
        }
        writers.into_iter().for_each(|w| w.join().unwrap());
    }
}

#[test]
fn segments_are_indexed_when_the_settings_want_it_later() {
    let storage = in_ram();
    let engine = open(storage);
    let mut settings = config(32, Distance::Euclid);
    settings.indexing_threshold = Some(0);
    engine.create_collection("c", settings).unwrap();
    let collection = engine.collection("c").unwrap();
    let mut rng = Rng(3);
    collection
        .update(upsert(
            (0..2000).map(|id| point(id, rng.vector(32), "{}")).collect(),
        ))
        .unwrap();
    collection.flush().unwrap();
    collection.wait_idle().unwrap();
    assert_eq!(collection.info().indexed_vectors_count, 0);
    engine
        .update_collection("c", &mut |config| {
            config.indexing_threshold = Some(100);
            Ok(())
        })
        .unwrap();
    collection.wait_idle().unwrap();
    assert_eq!(collection.info().indexed_vectors_count, 2000);
    collection.update(delete(&(0..1990).collect::<Vec<_>>())).unwrap();
    collection.wait_idle().expect("ends");
}

#[test]
fn conditional_updates_see_those_before_them() {
    let (engine, collection) = new(&in_ram());
    let two = || {
        vec![
            point(1, vec![1.0; DIM], "{\"n\":1}"),
            point(1, vec![2.0; DIM], "{\"n\":2}"),
        ]
    };
    let with = |mode| UpdateOp::Upsert {
        points: two(),
        filter: None,
        mode,
    };
    let mut scratch = engine.scratch().unwrap();
    collection.update(with(UpdateMode::UpdateOnly)).unwrap();
    assert!(contents(&collection, &mut scratch).is_empty());
    collection.update(with(UpdateMode::InsertOnly)).unwrap();
    assert_eq!(
        contents(&collection, &mut scratch)[&PointId::Num(1)].1,
        "{\"n\":1}"
    );
    collection.update(with(UpdateMode::UpdateOnly)).unwrap();
    assert_eq!(
        contents(&collection, &mut scratch)[&PointId::Num(1)].1,
        "{\"n\":2}"
    );
    // All that are there are done before a missing one is told.
    let vectors = |v: f32| vec![(DEFAULT_VECTOR.to_string(), vec![v; DIM].into())];
    let points = vec![
        (PointId::Num(9), vectors(5.0)),
        (PointId::Num(1), vectors(6.0)),
        (PointId::Num(1), vectors(7.0)),
    ];
    let error = collection
        .update(UpdateOp::UpdateVectors { points, filter: None })
        .unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert_eq!(
        contents(&collection, &mut scratch)[&PointId::Num(1)].0,
        vec![7.0; DIM]
    );
}

#[test]
fn a_nearly_full_disk_takes_deletes_only() {
    let disk = SimStorage::new();
    let (engine, collection) = new(&(Arc::new(disk.clone()) as Arc<dyn Storage>));
    for round in 0..2 {
        let points = (0..20).map(|i| point(round * 20 + i, vec![1.0; DIM], "{\"a\":1}"));
        collection.update(upsert(points.collect())).unwrap();
        collection.flush().unwrap();
    }
    disk.set_free_bytes(10 << 20);
    let set = || UpdateOp::SetPayload {
        payload: b"{\"a\":2}".to_vec(),
        key: None,
        points: PointsSelector::Ids(vec![PointId::Num(1)]),
    };
    for op in [upsert(vec![point(99, vec![1.0; DIM], "{}")]), set()] {
        assert_eq!(collection.update(op).unwrap_err().kind(), ErrorKind::DiskFull);
    }
    collection.update(delete(&[2, 22])).expect("makes room");
    assert_eq!(
        collection.wait_idle().unwrap_err().kind(),
        ErrorKind::DiskFull,
        "a merge needs room first"
    );
    assert_eq!(collection.info().status, CollectionStatus::Red);
    disk.set_free_bytes(1 << 40);
    collection.update(set()).expect("resumes by itself");
    collection.wait_idle().unwrap();
    assert_ne!(collection.info().status, CollectionStatus::Red);
    assert_eq!(
        (collection.info().points_count, collection.info().segments_count),
        (38, 2)
    );
    assert!(engine.writable());
}

/// A collection has slots for 4,096 fields; making and deleting an index goes on for ever.
#[test]
fn payload_indexes_come_and_go_for_ever() {
    let (_engine, collection) = new(&in_ram());
    collection
        .update(upsert(vec![point(1, vec![1.0; DIM], "{\"n\":1}")]))
        .unwrap();
    collection.flush().unwrap();
    let index = || FieldIndex {
        kind: FieldKind::Integer,
        params: None,
    };
    collection.create_payload_index("kept", index()).unwrap();
    for _ in 0..4_200 {
        collection.create_payload_index("n", index()).unwrap();
        collection.delete_payload_index("n").unwrap();
    }
    collection.create_payload_index("n", index()).unwrap();
    collection.flush().unwrap();
    assert_eq!(collection.info().config.payload_schema.len(), 2);
}

#[test]
fn a_panic_in_what_is_told_of_an_update_ends_nothing_else() {
    let (_engine, collection) = new(&in_ram());
    let by_filter = UpdateOp::Delete(PointsSelector::Filter(
        serde_json::from_str(r#"{"must": [{"key": "t", "match": {"value": "y"}}]}"#).expect("a filter"),
    ));
    for op in [upsert(vec![heavy(1, 1)]), delete(&[7]), by_filter] {
        let told: Completion = Box::new(|_| panic!("the caller's"));
        collection.submit(op, told).expect("taken");
    }
    within_seconds("an update after them", move || {
        collection.update(upsert(vec![heavy(2, 1)])).expect("goes on");
        let info = collection.info();
        assert_eq!((info.points_count, info.optimizer_error), (2, None));
    });
}

/// Its view is empty by then: no hits would be an answer, and a wrong one.
#[test]
fn handles_of_a_deleted_collection_find_no_collection_rather_than_nothing() {
    let (engine, collection) = new(&in_ram());
    collection.update(upsert(vec![heavy(1, 1)])).expect("stored");
    let mut scratch = engine.scratch().expect("scratch");
    assert!(engine.delete_collection("c").expect("deletes"));
    let wrong = |what: &str, kind: Option<ErrorKind>| assert_eq!(kind, Some(ErrorKind::NotFound), "{what}");
    let kind = |e: Error| e.kind();
    let s = &mut scratch;
    let query = QueryRequest {
        prefetch: Vec::new(),
        query: None,
        using: DEFAULT_VECTOR.to_string(),
        filter: None,
        params: SearchParams::default(),
        score_threshold: None,
        limit: 3,
        offset: 0,
        with_payload: PayloadSelector::None,
        with_vectors: VectorSelector::None,
        lookup_from: None,
        highlight: None,
    };
    wrong("query", collection.query(query, &engine, s).err().map(kind));
    let search = search_request(vec![1.0; DIM], 3);
    wrong("search", collection.search(&search, s).err().map(kind));
    wrong("scroll", collection.scroll(&scroll_request(3), s).err().map(kind));
    wrong("count", collection.count(None, true, s).err().map(kind));
    let id = [PointId::Num(1)];
    let read = collection.retrieve(&id, &PayloadSelector::All, &VectorSelector::None, s);
    wrong("retrieve", read.err().map(kind));
}

#[test]
fn a_closed_engine_makes_no_collection() {
    let (engine, _) = new(&in_ram());
    engine.close();
    let made = engine.create_collection("d", config(DIM, Distance::Dot));
    assert_eq!(made.expect_err("closed").kind(), ErrorKind::Closed);
}
