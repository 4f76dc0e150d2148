//! Many payload indexes in a small budget: the open files of many segments take RAM, which is the ledger's too.

use std::sync::Arc;

use ramlet::*;
use ramlet_io::{SimStorage, Storage};

use crate::support::{MB, config, contents, open, options, point, upsert};

const DIM: usize = 4;
const FIELDS: usize = 40;
const INTEGER: FieldIndex = FieldIndex {
    kind: FieldKind::Integer,
    params: None,
};

fn small(disk: &SimStorage) -> Arc<Engine> {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    Engine::open(storage, options(16 * MB)).expect("opens")
}

/// A segment of some points, with every field.
fn segment(collection: &Collection, first: u64) {
    let fields: Vec<_> = (0..FIELDS)
        .map(|field| format!("\"f{field}\":{}", first % 7))
        .collect();
    let payload = format!("{{{}}}", fields.join(","));
    let points = (first..first + 20).map(|id| point(id, vec![id as f32; DIM], &payload));
    collection.update(upsert(points.collect())).expect("upserts");
    collection.flush().expect("flushes");
}

#[test]
fn segments_are_merged_before_their_open_files_take_the_room() {
    let disk = SimStorage::new();
    let engine = small(&disk);
    let mut many = config(DIM, Distance::Dot);
    let fields = (0..FIELDS).map(|field| (format!("f{field}"), INTEGER));
    many.payload_schema.extend(fields);
    engine.create_collection("c", many).expect("creates");
    let collection = engine.collection("c").expect("is there");
    // Left alone, each would be a segment of 44 files.
    let mut most = 0;
    for first in (0..1_000).step_by(20) {
        segment(&collection, first);
        most = most.max(collection.segment_reports().len());
    }
    assert!(most <= 14, "{most} segments were open at once");
    assert_eq!(
        contents(&collection, &mut engine.scratch().expect("memory")).len(),
        1_000
    );
    drop(collection);
    engine.close();
    drop(engine);
    let engine = small(&disk);
    assert_eq!(engine.closed_collections().len(), 0);
}

/// Indexes are made as long as a segment's files have room, segments that are there are merged for them, and the last refusal says why.
#[test]
fn payload_indexes_are_refused_where_no_segment_could_have_them() {
    let disk = SimStorage::new();
    let engine = small(&disk);
    engine
        .create_collection("c", config(DIM, Distance::Dot))
        .expect("creates");
    let collection = engine.collection("c").expect("is there");
    (0..100).step_by(20).for_each(|first| segment(&collection, first));
    let mut made = 0;
    let refused = loop {
        match collection.create_payload_index(&format!("f{made}"), INTEGER) {
            Ok(_) => made += 1,
            Err(e) => break e,
        }
    };
    assert!((FIELDS..400).contains(&made), "{made} indexes: {refused}");
    assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    assert!(refused.to_string().contains("payload indexes"), "{refused}");
    // What was made can be used: points come, become segments and are merged.
    (100..400)
        .step_by(20)
        .for_each(|first| segment(&collection, first));
    assert_eq!(
        contents(&collection, &mut engine.scratch().expect("memory")).len(),
        400
    );
    collection.wait_idle().expect("settles");
    let status = collection.info().status;
    assert_eq!(status, CollectionStatus::Green);
    // A new collection with as many at once is refused as well; one with room for them isn't.
    let mut many = config(DIM, Distance::Dot);
    many.payload_schema
        .extend((0..=made).map(|field| (format!("f{field}"), INTEGER)));
    let refused = engine.create_collection("d", many.clone()).expect_err("too many");
    assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    let roomy = open(Arc::new(SimStorage::new()));
    roomy
        .create_collection("d", many)
        .expect("there is room in 64 MB");
}
