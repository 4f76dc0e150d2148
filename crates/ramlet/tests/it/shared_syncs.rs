//! Updates that depend on what is there share a group of the log, and its sync, with others of other points.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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

fn overwrite(id: u64, payload: &str) -> UpdateOp {
    UpdateOp::OverwritePayload {
        payload: payload.as_bytes().to_vec(),
        points: ids(&[id]),
    }
}

fn set_vector(id: u64, vector: [f32; 2]) -> UpdateOp {
    UpdateOp::UpdateVectors {
        points: vec![(
            PointId::Num(id),
            vec![(DEFAULT_VECTOR.to_string(), vector.to_vec().into())],
        )],
        filter: None,
    }
}

fn filter(json: &str) -> filter::Filter {
    serde_json::from_str(json).expect("a filter")
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
        self.queued(ops, None)
    }

    /// The same as one chain.
    fn chained(&self, ops: Vec<UpdateOp>) -> (Vec<Result<UpdateResult>>, u64) {
        self.queued(ops, Some(&UpdateChain::default()))
    }

    fn queued(&self, ops: Vec<UpdateOp>, chain: Option<&UpdateChain>) -> (Vec<Result<UpdateResult>>, u64) {
        let shut = self.gate.lock().expect("nobody panics");
        let before = self.groups.load(Ordering::Relaxed);
        let answers: Vec<_> = ops
            .into_iter()
            .map(|op| {
                let (tell, told) = mpsc::channel();
                let done = Box::new(move |result| drop(tell.send(result)));
                let queued = match chain {
                    None => self.collection.submit(op, done),
                    Some(chain) => self.collection.submit_behind(chain, &op, done),
                };
                queued.expect("is queued");
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
        points: PointsSelector::Filter(filter("{\"must\":[{\"key\":\"a\",\"match\":{\"value\":2}}]}")),
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
    // The first one, those before the filter, its own with the delete, and one behind what failed.
    assert!(groups <= 4, "{groups} groups");
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

#[test]
fn updates_of_one_point_build_on_each_other_in_one_group() {
    let held = held();
    let conditional = |id: u64, payload: &str, mode: UpdateMode, only: Option<&str>| UpdateOp::Upsert {
        points: vec![point(id, vec![9.0, 9.0], payload)],
        filter: only.map(filter),
        mode,
    };
    let is = |value: u64| format!("{{\"must\":[{{\"key\":\"a\",\"match\":{{\"value\":{value}}}}}]}}");
    let has_vector = "{\"must\":[{\"has_vector\":\"\"}]}";
    let ops = vec![
        set(9, "{}"),
        // Of one point, again and again.
        set(1, "{\"a\":1}"),
        set_vector(1, [7.0, 8.0]),
        UpdateOp::DeletePayload {
            keys: vec!["n".into()],
            points: ids(&[1]),
        },
        // A new one, changed, deleted, and made anew.
        upsert(vec![point(100, vec![1.0, 2.0], "{\"a\":1}")]),
        set(100, "{\"b\":1}"),
        UpdateOp::Delete(ids(&[100])),
        conditional(100, "{\"c\":1}", UpdateMode::InsertOnly, None),
        conditional(100, "{\"c\":2}", UpdateMode::InsertOnly, None),
        // Of one that was just deleted nothing is updated.
        UpdateOp::Delete(ids(&[2])),
        conditional(2, "{\"back\":1}", UpdateMode::UpdateOnly, None),
        // Filters look at what is there by now.
        overwrite(3, "{\"a\":3}"),
        conditional(3, "{\"a\":4}", UpdateMode::Upsert, Some(&is(3))),
        conditional(3, "{\"a\":5}", UpdateMode::Upsert, Some(&is(3))),
        UpdateOp::DeleteVectors {
            names: vec![DEFAULT_VECTOR.into()],
            points: ids(&[4]),
        },
        conditional(4, "{\"never\":1}", UpdateMode::Upsert, Some(has_vector)),
        UpdateOp::ClearPayload(ids(&[4])),
    ];
    let (results, groups) = held.together(ops);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert!(groups <= 2, "{groups} groups");
    // One that fails takes back what it did, and no more: the second point's payload gets too long.
    let long = format!("{{\"t\":\"{}\"}}", "x".repeat(1_900_000));
    let too_long = format!("{{\"u\":\"{}\"}}", "y".repeat(300_000));
    held.collection.update(set(6, &long)).expect("is written");
    let grow = UpdateOp::SetPayload {
        payload: too_long.into_bytes(),
        key: None,
        points: ids(&[5, 6]),
    };
    let ops = vec![
        overwrite(5, "{\"a\":5}"),
        set(5, "{\"b\":5}"),
        grow,
        set(5, "{\"c\":5}"),
    ];
    let (results, _) = held.together(ops);
    let failed: Vec<usize> = (0..)
        .zip(&results)
        .filter(|(_, result)| result.is_err())
        .map(|(at, _)| at)
        .collect();
    assert_eq!(failed, [2], "{results:?}");
    let all = contents(&held.collection, &mut held.engine.scratch().expect("a slot"));
    let of = |id: u64| {
        (
            all[&PointId::Num(id)].0.clone(),
            all[&PointId::Num(id)].1.as_str(),
        )
    };
    assert_eq!(of(1), (vec![7.0, 8.0], "{\"a\":1}"));
    assert_eq!(of(100), (vec![9.0, 9.0], "{\"c\":1}"));
    assert!(!all.contains_key(&PointId::Num(2)));
    assert_eq!(of(3), (vec![9.0, 9.0], "{\"a\":4}"));
    assert_eq!(of(4), (vec![], "{}"));
    assert!(of(5).1 == "{\"a\":5,\"b\":5,\"c\":5}");
    held.engine.close();
}

#[test]
fn a_chain_of_many_takes_few_groups() {
    let held = held();
    let ops = (0..2_000).map(|n| match n % 4 {
        0 => upsert(vec![point(1_000 + n / 4, vec![1.0, 1.0], "{}")]),
        1 => set(1_000 + n / 4, "{\"a\":1}"),
        2 => set_vector(n % 50, [2.0, 2.0]),
        _ => overwrite(n % 50, &format!("{{\"n\":{n}}}")),
    });
    let (results, groups) = held.chained(ops.collect());
    assert!(results.iter().all(Result::is_ok));
    // The writer may be at the first ones already, and heads of log files are counted too.
    assert!(groups <= 8, "{groups} groups");
    let numbers: Vec<u64> = results.iter().flatten().map(|done| done.operation_id).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b));
    assert_eq!(held.payload(1_499), "{\"a\":1}");
    assert_eq!(held.payload(49), "{\"n\":1999}");
}

#[test]
fn what_stands_behind_a_failure_in_a_chain_is_not_done() {
    let held = held();
    let ops = vec![
        set(1, "{\"a\":1}"),
        set(2, "{\"a\":1}"),
        set(1_000_000, "{}"),
        set(3, "{\"a\":1}"),
        upsert(vec![point(4, vec![0.0, 0.0], "{\"a\":1}")]),
        UpdateOp::Delete(ids(&[5])),
    ];
    let (results, _) = held.chained(ops);
    let done: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(done, [true, true, false, false, false, false], "{results:?}");
    assert!(results[2].as_ref().is_err_and(Error::is_not_found));
    assert_eq!([1, 2].map(|id| held.payload(id)), ["{\"a\":1,\"n\":0}"; 2]);
    assert_eq!([3, 4, 5].map(|id| held.payload(id)), ["{\"n\":0}"; 3]);
    // Others', and its own in a new chain, go on.
    let (results, _) = held.chained(vec![set(3, "{\"b\":1}")]);
    assert!(results[0].is_ok());
}

#[test]
fn a_group_that_cannot_be_written_ends_a_chain() {
    let fails = Arc::new(AtomicBool::new(false));
    let fail = fails.clone();
    let storage: Arc<dyn Storage> = Watched::new(Arc::new(RamStorage::new(None)), move |op, _| {
        assert!(
            op != "log" || !fail.load(Ordering::Relaxed),
            "the test's own panic"
        );
    });
    let engine = Engine::open(storage, options(128_000_000)).expect("opens");
    engine
        .create_collection("c", config(2, Distance::Dot))
        .expect("creates");
    let collection = engine.collection("c").expect("is there");
    let chain = UpdateChain::default();
    let submit = |id: u64| {
        let (tell, told) = mpsc::channel();
        let done = Box::new(move |result: Result<UpdateResult>| {
            let _ = tell.send(result.is_ok());
        });
        let op = upsert(vec![point(id, vec![0.0, 0.0], "{}")]);
        collection.submit_behind(&chain, &op, done).expect("is queued");
        told.recv().expect("an answer")
    };
    assert!(submit(1));
    fails.store(true, Ordering::Relaxed);
    assert!(!submit(2));
    fails.store(false, Ordering::Relaxed);
    assert!(!submit(3));
    assert_eq!(collection.info().points_count, 1);
}

#[test]
fn an_update_of_a_filter_takes_as_few_groups_as_its_bytes_allow() {
    let held = held();
    let points = (1_000..4_000).map(|id| point(id, vec![0.0, 0.0], "{\"a\":1}"));
    held.collection
        .update(upsert(points.collect()))
        .expect("is written");
    let all = UpdateOp::SetPayload {
        payload: b"{\"b\":1}".to_vec(),
        key: None,
        points: PointsSelector::Filter(filter("{\"must\":[{\"key\":\"a\",\"match\":{\"value\":1}}]}")),
    };
    let (results, groups) = held.together(vec![all]);
    assert!(results[0].is_ok());
    // And the head of the log's next file.
    assert!(groups <= 2, "{groups} groups");
    assert_eq!(held.payload(3_999), "{\"a\":1,\"b\":1}");
}
