//! Updates that depend on what is there share a group of the log, and its sync, with others of other points.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use ramlet::*;
use ramlet_io::{RamStorage, Storage};

use crate::support::*;
use crate::watched::Watched;

const POINTS: u64 = 60;

fn ids(ids: &[u64]) -> PointsSelector {
    PointsSelector::Ids(ids.iter().copied().map(PointId::Num).collect())
}

fn set(id: u64, payload: &str) -> UpdateOp {
    UpdateOp::SetPayload {
        payload: payload.as_bytes().to_vec(),
        key: None,
        points: ids(&[id]),
    }
}

/// A collection whose writer can be held at its next write to the log.
struct Held {
    engine: Arc<Engine>,
    collection: Arc<Collection>,
    gate: Arc<Mutex<()>>,
    groups: Arc<AtomicU64>,
}

fn held() -> Held {
    let (gate, groups) = (Arc::new(Mutex::new(())), Arc::new(AtomicU64::new(0)));
    let (passed, counted) = (gate.clone(), groups.clone());
    let storage: Arc<dyn Storage> = Watched::new(Arc::new(RamStorage::new(None)), move |op, _| {
        if op == "log" {
            counted.fetch_add(1, Ordering::Relaxed);
            drop(passed.lock());
        }
    });
    // On its way to the buffer a payload is in memory three times.
    let engine = Engine::open(storage, options(128_000_000)).expect("opens");
    engine
        .create_collection("c", config(2, Distance::Dot))
        .expect("creates");
    let collection = engine.collection("c").expect("is there");
    let points = (0..POINTS).map(|id| point(id, vec![id as f32, 1.0], "{\"n\":0}"));
    collection.update(upsert(points.collect())).expect("is written");
    Held {
        engine,
        collection,
        gate,
        groups,
    }
}

impl Held {
    /// What became of each op, and the groups that all of them took; they wait for the first one together.
    fn together(&self, ops: Vec<UpdateOp>) -> (Vec<Result<UpdateResult>>, u64) {
        let shut = self.gate.lock().expect("nobody panics");
        let before = self.groups.load(Ordering::Relaxed);
        let answers: Vec<_> = ops
            .into_iter()
            .map(|op| {
                let (tell, told) = mpsc::channel();
                let done = Box::new(move |result| drop(tell.send(result)));
                self.collection.submit(op, done).expect("is queued");
                told
            })
            .collect();
        // The writer is at the first one's group, or before it.
        drop(shut);
        let results = answers.iter().map(|told| told.recv().expect("an answer"));
        (results.collect(), self.groups.load(Ordering::Relaxed) - before)
    }

    fn payload(&self, id: u64) -> String {
        let all = contents(&self.collection, &mut self.engine.scratch().expect("a slot"));
        all[&PointId::Num(id)].1.clone()
    }
}

#[test]
fn payloads_of_many_points_are_changed_by_few_groups() {
    let held = held();
    let mut ops: Vec<UpdateOp> = (0..40).map(|id| set(id, "{\"a\":1}")).collect();
    ops.push(UpdateOp::Delete(ids(&[41])));
    ops.push(UpdateOp::OverwritePayload {
        payload: b"{\"b\":2}".to_vec(),
        points: ids(&[42]),
    });
    ops.push(UpdateOp::ClearPayload(ids(&[43])));
    ops.push(UpdateOp::UpdateVectors {
        points: vec![(
            PointId::Num(44),
            vec![(DEFAULT_VECTOR.to_string(), vec![7.0, 7.0].into())],
        )],
        filter: None,
    });
    ops.push(upsert(vec![point(45, vec![4.0, 5.0], "{\"new\":true}")]));
    let (results, groups) = held.together(ops);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    // The first one may be alone, for it finds nobody to share with.
    assert!(groups <= 2, "{groups} groups");
    let mut numbers: Vec<u64> = results.iter().flatten().map(|done| done.operation_id).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), 45);
    assert!(numbers.is_sorted());
    let all = contents(&held.collection, &mut held.engine.scratch().expect("a slot"));
    assert!(
        (0..40).all(|id| all[&PointId::Num(id)].1 == "{\"a\":1,\"n\":0}"),
        "{all:?}"
    );
    assert!(!all.contains_key(&PointId::Num(41)));
    assert_eq!(
        [held.payload(42), held.payload(43), held.payload(45)],
        ["{\"b\":2}", "{}", "{\"new\":true}"]
    );
}

#[test]
fn an_update_sees_what_those_before_it_have_left() {
    let held = held();
    let by_filter = UpdateOp::SetPayload {
        payload: b"{\"seen\":true}".to_vec(),
        key: None,
        points: PointsSelector::Filter(
            serde_json::from_str("{\"must\":[{\"key\":\"a\",\"match\":{\"value\":2}}]}").expect("a filter"),
        ),
    };
    let (results, groups) = held.together(vec![
        set(9, "{}"),
        set(1, "{\"a\":1}"),
        set(2, "{\"a\":2}"),
        set(1, "{\"b\":1}"),
        upsert(vec![point(3, vec![0.0, 0.0], "{\"a\":2}")]),
        set(3, "{\"c\":3}"),
        by_filter,
        UpdateOp::Delete(ids(&[4])),
        set(4, "{\"gone\":1}"),
        set(5, "{\"a\":5}"),
    ]);
    let failed: Vec<usize> = (0..)
        .zip(&results)
        .filter(|(_, result)| result.is_err())
        .map(|(at, _)| at)
        .collect();
    assert_eq!(failed, [8], "{results:?}");
    assert!(groups <= 7, "{groups} groups");
    let seen = [1, 2, 3, 5].map(|id| held.payload(id));
    let expected = [
        "{\"a\":1,\"b\":1,\"n\":0}",
        "{\"a\":2,\"n\":0,\"seen\":true}",
        "{\"a\":2,\"c\":3,\"seen\":true}",
        "{\"a\":5,\"n\":0}",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn one_that_fails_takes_nothing_of_others_along() {
    let held = held();
    let long = format!("{{\"t\":\"{}\"}}", "x".repeat(1_900_000));
    held.collection
        .update(upsert(vec![point(50, vec![0.0, 0.0], &long)]))
        .expect("is written");
    // Of two points the second one's payload gets too long: nothing of the op stays.
    let grow = UpdateOp::SetPayload {
        payload: format!("{{\"u\":\"{}\"}}", "y".repeat(400_000)).into_bytes(),
        key: None,
        points: ids(&[7, 50]),
    };
    // One that isn't there: all others are changed.
    let missing = UpdateOp::SetPayload {
        payload: b"{\"m\":1}".to_vec(),
        key: None,
        points: ids(&[11, 1_000_000, 12]),
    };
    let (results, _) = held.together(vec![
        set(9, "{}"),
        set(1, "{\"a\":1}"),
        grow,
        set(2, "{\"a\":2}"),
        missing,
        set(3, "{\"a\":3}"),
    ]);
    let failed: Vec<bool> = results.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, false, true, false, true, false], "{results:?}");
    let seen = [1, 2, 3, 7, 11, 12].map(|id| held.payload(id));
    let expected = ["\"a\":1", "\"a\":2", "\"a\":3", "\"n\":0", "\"m\":1", "\"m\":1"];
    for (seen, part) in seen.iter().zip(expected) {
        assert!(
            seen.contains(part) && !seen.contains("\"u\""),
            "{seen} has {part}"
        );
    }
}
