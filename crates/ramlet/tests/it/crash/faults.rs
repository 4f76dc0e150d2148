//! Faults of the disk in single places: a sync that fails, a disk that is full, a bit that flips.

use std::sync::Arc;

use ramlet::*;
use ramlet_io::{FaultOp, IoErrorKind, SimStorage};

use super::state::DIM;
use crate::support::*;

fn read(engine: &Engine) -> Option<Contents> {
    let collection = engine.collection("c").ok()?;
    Some(contents(
        &collection,
        &mut engine.scratch().expect("enough memory"),
    ))
}

/// A failed sync of the log: the update isn't acknowledged, later ones are refused, reads go on, a restart recovers.
#[test]
fn failed_log_sync_stops_writes() {
    let disk = SimStorage::new();
    let engine = open(Arc::new(disk.clone()));
    engine.create_collection("c", config(DIM, Distance::Dot)).unwrap();
    let collection = engine.collection("c").unwrap();
    collection
        .update(upsert(vec![point(1, vec![1.0; DIM], "{}")]))
        .unwrap();
    disk.inject(ramlet_io::Fault::new(FaultOp::Sync, 1, IoErrorKind::Other).on("log-"));
    let error = collection
        .update(upsert(vec![point(2, vec![2.0; DIM], "{}")]))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WritesStopped, "{error}");
    let error = collection
        .update(upsert(vec![point(3, vec![3.0; DIM], "{}")]))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WritesStopped, "{error}");
    assert!(!engine.writable());
    assert_eq!(read(&engine).unwrap().len(), 1, "reads go on");
    drop(collection);
    engine.close();
    drop(engine);
    let survivor = disk
        .crash_states(disk.journal_len(), 1, 0)
        .into_iter()
        .next()
        .unwrap();
    let engine = open(Arc::new(survivor));
    assert_eq!(
        read(&engine).unwrap().keys().collect::<Vec<_>>(),
        vec![&PointId::Num(1)]
    );
    engine
        .collection("c")
        .unwrap()
        .update(upsert(vec![point(2, vec![2.0; DIM], "{}")]))
        .unwrap();
}

/// A full disk while a segment is written: nothing is lost, and the flush succeeds once there is room.
#[test]
fn full_disk_during_a_flush() {
    for nth in 1..40 {
        let disk = SimStorage::new();
        let engine = open(Arc::new(disk.clone()));
        engine.create_collection("c", config(DIM, Distance::Dot)).unwrap();
        let collection = engine.collection("c").unwrap();
        for id in 0..50 {
            collection
                .update(upsert(vec![point(id, vec![id as f32; DIM], "{\"a\":1}")]))
                .unwrap();
        }
        disk.inject(ramlet_io::Fault::new(FaultOp::Any, nth, IoErrorKind::NoSpace));
        let failed = collection.flush().is_err();
        disk.clear_faults();
        assert_eq!(read(&engine).unwrap().len(), 50);
        if engine.writable() {
            collection.flush().expect("there is room again");
            collection
                .update(upsert(vec![point(50, vec![0.0; DIM], "{}")]))
                .unwrap();
        }
        let expected = read(&engine).unwrap();
        drop(collection);
        engine.close();
        drop(engine);
        let engine = open(Arc::new(disk.clone()));
        assert_eq!(read(&engine).unwrap(), expected);
        if !failed {
            return;
        }
    }
    panic!("forty failures weren't enough for one flush");
}

/// Any flipped bit in a file is either noticed or harmless: never another answer.
#[test]
fn flipped_bits_are_noticed() {
    let disk = SimStorage::new();
    let engine = open(Arc::new(disk.clone()));
    engine.create_collection("c", config(DIM, Distance::Dot)).unwrap();
    let collection = engine.collection("c").unwrap();
    for id in 0..200 {
        let payload = format!("{{\"n\":{id}}}");
        collection
            .update(upsert(vec![point(id, vec![id as f32; DIM], &payload)]))
            .unwrap();
        if id == 120 {
            collection.flush().unwrap();
            collection.update(delete(&[3, 4, 5])).unwrap();
            collection.flush().unwrap();
        }
    }
    let expected = read(&engine).unwrap();
    drop(collection);
    engine.close();
    drop(engine);
    let mut rng = Rng(9);
    let (mut noticed, mut harmless) = (0, 0);
    for name in disk.list_files() {
        let len = disk.read_file(&name).unwrap().len() as u64;
        for _ in 0..12 {
            let copy = disk
                .crash_states(disk.journal_len(), 0, 0)
                .into_iter()
                .nth(1)
                .unwrap();
            copy.flip_bit(&name, rng.below(len)).unwrap();
            let outcome = try_open(Arc::new(copy)).map(|engine| read_checked(&engine));
            match outcome {
                Ok(Ok(found)) => {
                    assert_eq!(found, expected, "{name}: another answer");
                    harmless += 1;
                }
                Ok(Err(e)) | Err(e) => {
                    assert!(e.is_corrupt(), "{name}: {e}");
                    noticed += 1;
                }
            }
        }
    }
    assert!(
        noticed > 50 && harmless > 0,
        "{noticed} noticed, {harmless} harmless"
    );
}

fn read_checked(engine: &Engine) -> Result<Contents> {
    let collection = engine.collection("c")?;
    let mut scratch = engine.scratch()?;
    let page = collection.scroll(&scroll_request(10_000), &mut scratch)?;
    let row = |r: Record| {
        (
            r.id,
            (
                r.vectors.unwrap().pop().unwrap().1.into_dense().unwrap(),
                String::from_utf8(r.payload.unwrap()).unwrap(),
            ),
        )
    };
    Ok(page.points.into_iter().map(row).collect())
}
