//! Disk and file descriptors run short, and come back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ramlet::*;
use ramlet_io::system::OpenFiles;
use ramlet_io::{Fault, FaultOp, IoErrorKind, SimStorage, Storage};

use crate::support::{MB, config, contents, delete, open, options, point, upsert};

const DIM: usize = 4;

fn heavy(id: u64, payload_bytes: usize) -> Point {
    point(
        id,
        vec![id as f32; DIM],
        &format!("{{\"t\":\"{}\"}}", "x".repeat(payload_bytes)),
    )
}

/// A segment of these points.
fn segment(collection: &Collection, ids: std::ops::Range<u64>, payload_bytes: usize) {
    for first in ids.clone().step_by(100) {
        let points = (first..ids.end.min(first + 100)).map(|id| heavy(id, payload_bytes));
        collection.update(upsert(points.collect())).expect("upserts");
    }
    collection.flush().expect("flushes");
}

/// One whose memtables hold the largest of the segments here.
fn collection(disk: &SimStorage) -> (Arc<Engine>, Arc<Collection>) {
    let engine = Engine::open(Arc::new(disk.clone()), options(600 * MB)).expect("opens");
    engine
        .create_collection("c", config(DIM, Distance::Dot))
        .expect("creates");
    let collection = engine.collection("c").expect("is there");
    (engine, collection)
}

fn rows_of(collection: &Collection) -> Vec<u32> {
    collection
        .segment_reports()
        .iter()
        .map(|part| part.rows)
        .collect()
}

#[test]
fn segments_without_a_point_go_on_a_disk_without_a_byte() {
    let disk = SimStorage::new();
    let (_engine, collection) = collection(&disk);
    segment(&collection, 0..1_200, 100);
    segment(&collection, 2_000..2_100, 100);
    disk.set_free_bytes(0);
    // Not even for the manifest there is room, until the log's spare files are gone.
    disk.inject(Fault::new(FaultOp::Create, 1, IoErrorKind::NoSpace).on("MANIFEST"));
    collection
        .update(delete(&(0..1_200).collect::<Vec<_>>()))
        .expect("deletes need no disk");
    collection.wait_idle().expect("nothing is written but a manifest");
    assert_eq!(rows_of(&collection), [100]);
    assert_eq!(collection.info().points_count, 100);
    assert_eq!(collection.info().status, CollectionStatus::Green);
    let left = disk.list_files();
    assert!(
        !left.iter().any(|file| file.contains("/00000001.")),
        "its files are still there: {left:?}"
    );
}

#[test]
fn a_merge_that_gives_back_more_than_it_writes_may_use_the_last_bytes() {
    const FREE: u64 = 8 << 20;
    let disk = SimStorage::new();
    let (_engine, collection) = collection(&disk);
    // Enough to write, and too little to merge both just to have fewer.
    disk.set_free_bytes(70 << 20);
    // The first is the larger one, and too large to be written anew beside itself.
    segment(&collection, 0..1_000, 6_000);
    segment(&collection, 1_000..2_000, 4_000);
    assert_eq!(rows_of(&collection), [1_000, 1_000]);
    disk.set_free_bytes(FREE);
    let most = |ids: std::ops::Range<u64>| delete(&ids.collect::<Vec<_>>());
    collection.update(most(0..500)).expect("deletes");
    collection.update(most(1_000..1_900)).expect("deletes");
    let before = collection.info().disk_bytes;
    // The other one fits; then the first is left over, and told of.
    let error = collection.wait_idle().expect_err("one is too large");
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert!(error.to_string().contains("8.3 MB are free"), "{error}");
    let mut rows = rows_of(&collection);
    rows.sort_unstable();
    assert_eq!(rows, [100, 1_000]);
    assert!(collection.info().disk_bytes + (3 << 20) < before);
    assert_eq!(collection.info().status, CollectionStatus::Red);
    // With a little more of it deleted it fits as well.
    collection.update(most(500..980)).expect("deletes");
    disk.set_free_bytes(FREE + (1 << 20));
    // What is left is one segment, or two too few to be worth more.
    let _ = collection.wait_idle();
    assert!(
        rows_of(&collection).iter().all(|rows| *rows <= 120),
        "{:?}",
        rows_of(&collection)
    );
    assert_eq!(collection.info().points_count, 120);
    // Nothing is left that there is no room for.
    let all: Vec<u64> = (0..2_000).collect();
    collection.update(delete(&all)).expect("deletes");
    collection.wait_idle().expect("nothing is written but a manifest");
    assert_eq!(
        (rows_of(&collection).len(), collection.info().status),
        (0, CollectionStatus::Green)
    );
}

#[test]
fn new_collections_leave_descriptors_for_what_the_others_will_open() {
    let disk = SimStorage::new();
    let engine = open(Arc::new(disk.clone()));
    // All are used: else they would make way.
    let held = std::cell::RefCell::new(Vec::new());
    let create = |name: &str| {
        engine.create_collection(name, config(DIM, Distance::Dot))?;
        held.borrow_mut().push(engine.collection(name)?);
        Ok::<(), Error>(())
    };
    // Two thirds may be used: each has a log and a directory, and a segment of four files to come.
    disk.set_open_files(OpenFiles { open: 10, most: 60 });
    let names: Vec<String> = (0..20).map(|i| format!("c{i}")).collect();
    let made = names.iter().take_while(|name| create(name).is_ok()).count();
    assert_eq!(made, 7, "10 + 6 * 4 + 6 are 40 of 60");
    let error = create("one more").expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoDescriptors);
    let said = error.to_string();
    assert!(said.contains("10 of 60") && said.contains("28 more"), "{said}");
    // One whose points are in segments is counted as it is.
    let first = engine.collection("c0").expect("is there");
    segment(&first, 0..10, 10);
    create("one more").expect("four are free again");
    create("yet another").expect_err("all are used");
    held.borrow_mut().clear();
    create("yet another").expect("those that nobody uses make way");
    // Nor do payload indexes take what isn't there.
    disk.set_open_files(OpenFiles { open: 50, most: 60 });
    let keyword = FieldIndex {
        kind: FieldKind::Keyword,
        params: None,
    };
    let error = first
        .create_payload_index("t", keyword.clone())
        .expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoDescriptors, "{error}");
    disk.set_open_files(OpenFiles { open: 50, most: 600 });
    first
        .create_payload_index("t", keyword)
        .expect("there are more now");
}

#[test]
fn where_flushes_fail_writers_are_told_and_nothing_is_lost() {
    let disk = SimStorage::new();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let engine = Engine::open(storage.clone(), options(24 * MB)).expect("opens");
    engine.watch().set(|| 0, 0);
    let names = ["a", "b", "c", "d"];
    for name in names {
        engine
            .create_collection(name, config(DIM, Distance::Dot))
            .expect("creates");
    }
    let collections = names.map(|name| engine.collection(name).expect("is there"));
    disk.inject(
        Fault::new(FaultOp::Create, 1, IoErrorKind::NoDescriptors)
            .on(".idf")
            .lasting(),
    );
    // All of them hold something when there is no room left.
    let (mut acked, mut next, mut refused) = (BTreeSet::new(), 0, 0);
    let begun = Instant::now();
    while refused < 8 {
        let at = (next % 4) as usize;
        match collections[at].update(upsert(vec![heavy(next, 20_000)])) {
            Ok(_) => {
                acked.insert((at, PointId::Num(next)));
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::NoDescriptors, "{e}");
                refused += 1;
            }
        }
        next += 1;
        assert!(next < 10_000, "never full");
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(acked.len() > 20);
    let (stalls, _) = engine.watch().stalls();
    assert!(stalls >= 8, "{stalls} waits are told of, {refused} in vain");
    // Deletes need no room.
    let gone = *acked.iter().find(|(at, _)| *at == 0).expect("some of the first");
    let PointId::Num(id) = gone.1 else { unreachable!() };
    collections[0].update(delete(&[id])).expect("deletes");
    acked.remove(&gone);
    // It isn't tried all the time: what an attempt does to the disk is seldom seen while a writer waits, again and again.
    let (before, begun) = (disk.journal_len(), Instant::now());
    while begun.elapsed() < Duration::from_secs(3) {
        let _ = collections[1]
            .update(upsert(vec![heavy(next, 20_000)]))
            .expect_err("is full");
    }
    let effects = disk.journal_len() - before;
    assert!(effects < 400, "{effects} effects in three seconds");
    // Descriptors come back, and so do the writes.
    disk.clear_faults();
    let begun = Instant::now();
    while collections[1].update(upsert(vec![heavy(next, 20_000)])).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "never again");
        std::thread::sleep(Duration::from_millis(50));
    }
    acked.insert((1, PointId::Num(next)));
    assert!(engine.writable());
    drop(collections);
    engine.close();
    drop(engine);
    // What was refused isn't in the log either.
    let engine = Engine::open(storage, options(24 * MB)).expect("opens");
    let mut scratch = engine.scratch().expect("room");
    let mut found = BTreeSet::new();
    for (at, name) in names.iter().enumerate() {
        let collection = engine.collection(name).expect("is there");
        let ids = contents(&collection, &mut scratch).into_keys();
        found.extend(ids.map(|id| (at, id)));
    }
    assert_eq!(found, acked);
}
