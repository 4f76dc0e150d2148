//! Points given as columns: the same as one by one, and refused alike.

use std::sync::{Arc, mpsc};

use ramlet::*;
use ramlet_io::RamStorage;

use crate::support::*;

const DIM: usize = 5;

fn named() -> CollectionConfig {
    let mut settings = config(DIM, Distance::Cosine);
    let mut params = settings.vectors[DEFAULT_VECTOR].clone();
    params.size = 3;
    params.distance = Distance::Euclid;
    params.datatype = Some(Datatype::Float16);
    settings.vectors.insert("b".into(), params);
    settings
}

fn put(collection: &Collection, rows: &PointRows<'_>) -> Result<UpdateResult> {
    let (tell, told) = mpsc::channel();
    collection.submit_rows(rows, Box::new(move |done| drop(tell.send(done))))?;
    told.recv().expect("told once")
}

fn all_of(engine: &Engine, name: &str) -> Vec<Record> {
    let collection = engine.collection(name).expect("it is there");
    let mut scratch = engine.scratch().expect("a scratch");
    collection
        .scroll(&scroll_request(1000), &mut scratch)
        .expect("a page")
        .points
}

#[test]
fn columns_are_what_the_same_points_one_by_one_are() {
    let storage = Arc::new(RamStorage::new(None));
    let engine = open(storage.clone());
    let mut rng = Rng(7);
    let n = 40;
    let ids: Vec<PointId> = (0..n)
        .map(|i| match i % 3 {
            0 => PointId::Uuid(u128::from(i) << 64 | 5),
            _ => PointId::Num(i),
        })
        .collect();
    let (a, b) = (rng.vector(n as usize * DIM), rng.vector(n as usize * 3));
    let payloads: Vec<Vec<u8>> = (0..n)
        .map(|i| match i % 4 {
            0 => Vec::new(),
            _ => format!("{{\"n\":{i}}}").into_bytes(),
        })
        .collect();
    for name in ["rows", "points"] {
        engine.create_collection(name, named()).expect("created");
    }
    let rows = PointRows {
        ids: &ids,
        // Not in the order of the slots.
        vectors: &[("b", &b), (DEFAULT_VECTOR, &a)],
        payloads: &payloads,
    };
    put(&engine.collection("rows").unwrap(), &rows).expect("taken");
    let points = (0..n as usize).map(|at| Point {
        id: ids[at],
        vectors: vec![
            (DEFAULT_VECTOR.into(), a[at * DIM..][..DIM].to_vec().into()),
            ("b".into(), b[at * 3..][..3].to_vec().into()),
        ],
        payload: payloads[at].clone(),
    });
    let collection = engine.collection("points").unwrap();
    collection.update(upsert(points.collect())).expect("taken");
    let expected = all_of(&engine, "points");
    assert_eq!(expected.len(), n as usize);
    assert_eq!(all_of(&engine, "rows"), expected);
    // From the log, too.
    drop((collection, engine));
    let engine = open(storage);
    assert_eq!(all_of(&engine, "rows"), expected);
}

#[test]
fn columns_that_make_no_points_are_refused_as_a_whole() {
    let engine = open(Arc::new(RamStorage::new(None)));
    engine.create_collection("c", named()).expect("created");
    let collection = engine.collection("c").unwrap();
    let ids = [PointId::Num(1), PointId::Num(2)];
    let good = [0.5; 2 * DIM];
    let mut bad = good;
    bad[DIM + 1] = f32::NAN;
    let huge = [0.5, 0.5, 0.5, 0.5, 0.5, 1e6];
    let none: &[Vec<u8>] = &[];
    let (no_object, short) = ([b"{}".to_vec(), b"[1]".to_vec()], [b"{}".to_vec()]);
    let main = DEFAULT_VECTOR;
    for (ids, vectors, payloads, expected) in [
        (&ids[..0], &[(main, &good[..0])][..], none, "Empty update request"),
        (&ids, &[(main, &good[..DIM - 1])], none, "expected dim: 5"),
        (
            &ids,
            &[(main, &good[..DIM + 2])],
            none,
            "7 numbers for 2 points of 5 dimensions",
        ),
        (&ids, &[("x", &good)], none, "Not existing vector name"),
        (&ids, &[(main, &good), (main, &good)], none, "is given twice"),
        (
            &ids,
            &[(main, &bad)],
            none,
            "point 2: Wrong input: vector: element 1",
        ),
        (&ids, &[("b", &huge)], none, "maximum is 65504"),
        (&ids, &[(main, &good)], &no_object, "payload of point 2"),
        (&ids, &[(main, &good)], &short, "2 ids and 1 payloads"),
    ] {
        let rows = PointRows {
            ids,
            vectors,
            payloads,
        };
        let refused = put(&collection, &rows).expect_err(expected);
        assert_eq!(refused.kind(), ErrorKind::BadInput, "{refused}");
        assert!(refused.to_string().contains(expected), "{refused}");
    }
    assert_eq!(collection.info().points_count, 0);
}

#[test]
fn a_refusal_for_want_of_memory_has_both_numbers() {
    let refused = EngineOptions::in_process(MB, 1)
        .err()
        .expect("too little for anything");
    let bytes = refused.budget_bytes().expect("numbers");
    assert_eq!(bytes.available, MB);
    assert!(bytes.needed > MB, "{bytes:?}");
    let ledger = Ledger::new(1000);
    let refused: Error = ledger
        .consumer("c", 600)
        .reserve(700)
        .expect_err("more than its cap")
        .into();
    let expected = BudgetBytes {
        needed: 700,
        available: 600,
    };
    assert_eq!(refused.budget_bytes(), Some(expected));
}

/// Each group costs a sync. Its record isn't held beside it, so that it may have all of the memory of the log buffers.
#[test]
fn a_batch_takes_as_few_groups_as_the_log_buffers_allow() {
    let engine = Engine::open(Arc::new(RamStorage::new(None)), options(64 * MB)).expect("opens");
    engine.watch().set(|| 0, 0);
    engine
        .create_collection("c", config(100, Distance::Dot))
        .expect("created");
    let collection = engine.collection("c").expect("it is there");
    let ids: Vec<_> = (0..4_000).map(PointId::Num).collect();
    let numbers = Rng(5).vector(ids.len() * 100);
    let rows = PointRows {
        ids: &ids,
        vectors: &[("", &numbers)],
        payloads: &[],
    };
    put(&collection, &rows).expect("written");
    // Of a change's 421 bytes 21 aren't numbers.
    let whole_groups = ids.len() as u64 * 421 / engine.budget().log_buffers;
    assert_eq!(engine.watch().syncs().count, whole_groups + 1);
}
