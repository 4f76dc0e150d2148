//! Many collections in little memory: those that nobody uses are not in RAM, and nobody notices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ramlet::*;
use ramlet_io::{Fault, FaultOp, IoErrorKind, RamStorage, SimStorage, Storage};
use serde_json::json;

use crate::support::*;

/// Room for some 27 collections in RAM at once.
const MEMORY: u64 = 16 * MB;
const COLLECTIONS: u64 = 60;
const OPS: u64 = 1_500;

fn small(storage: Arc<dyn Storage>) -> Arc<Engine> {
    Engine::open(storage, options(MEMORY)).expect("opens")
}

fn name(n: u64) -> String {
    format!("c{n}")
}

fn one(id: u64, value: u64) -> UpdateOp {
    let payload = format!("{{\"v\":{value}}}");
    upsert(vec![point(id, vec![value as f32, 1.0], &payload)])
}

/// Values by id, of each collection that is there.
type Model = BTreeMap<String, BTreeMap<u64, u64>>;

fn values(engine: &Engine, name: &str) -> BTreeMap<u64, u64> {
    let collection = engine.collection(name).expect("is there");
    let mut scratch = engine.scratch().expect("memory");
    let all = contents(&collection, &mut scratch).into_iter();
    let value = |(id, (vector, payload)): (PointId, (Vec<f32>, String))| {
        let PointId::Num(id) = id else {
            panic!("no such id was given");
        };
        assert_eq!(payload, format!("{{\"v\":{}}}", vector[0] as u64));
        (id, vector[0] as u64)
    };
    all.map(value).collect()
}

fn check_all(engine: &Engine, model: &Model) {
    let names: Vec<String> = model.keys().cloned().collect();
    assert_eq!(engine.collection_names(), names);
    for (name, expected) in model {
        assert_eq!(&values(engine, name), expected, "{name}");
    }
}

/// One random operation on engine and model.
fn step(engine: &Engine, model: &mut Model, rng: &mut Rng) {
    let name = name(rng.below(COLLECTIONS));
    let known = model.contains_key(&name);
    match rng.below(20) {
        0 => {
            assert_eq!(engine.delete_collection(&name).expect("deletes"), known);
            model.remove(&name);
        }
        1 if known => {
            let alias = format!("alias-{}", rng.below(4));
            let collection = name.clone();
            engine
                .change_aliases(&[AliasOp::Create {
                    alias: alias.clone(),
                    collection,
                }])
                .expect("changes");
            assert_eq!(values(engine, &alias), model[&name]);
        }
        2 if known => engine
            .collection(&name)
            .expect("is there")
            .flush()
            .expect("flushes"),
        3 => drop(engine.unload_unused()),
        4..=9 if known => assert_eq!(values(engine, &name), model[&name], "{name}"),
        10..=11 if known => {
            let id = rng.below(20);
            engine
                .collection(&name)
                .expect("is there")
                .update(delete(&[id]))
                .expect("deletes");
            model.get_mut(&name).expect("known").remove(&id);
        }
        _ if known => {
            let (id, value) = (rng.below(20), rng.below(1_000));
            engine
                .collection(&name)
                .expect("is there")
                .update(one(id, value))
                .expect("upserts");
            model.get_mut(&name).expect("known").insert(id, value);
        }
        _ => {
            engine
                .create_collection(&name, config(2, Distance::Euclid))
                .expect("creates");
            model.insert(name, BTreeMap::new());
        }
    }
}

#[test]
fn collections_come_and_go_and_hold_what_was_written() {
    for seed in [1, 2] {
        let disk = SimStorage::new();
        let mut engine = small(Arc::new(disk.clone()));
        let (mut model, mut rng) = (Model::new(), Rng(seed));
        for at in 0..OPS {
            step(&engine, &mut model, &mut rng);
            if at % 500 == 499 {
                check_all(&engine, &model);
                assert!(engine.loaded_collections().len() < model.len(), "all are in RAM");
                if rng.below(2) == 0 {
                    engine.close();
                }
                drop(engine);
                engine = small(Arc::new(disk.clone()));
                check_all(&engine, &model);
            }
        }
    }
}

#[test]
fn who_asks_for_a_collection_that_is_being_unloaded_gets_it() {
    const THREADS: u64 = 4;
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let engine = small(storage.clone());
    for n in 0..COLLECTIONS {
        engine
            .create_collection(&name(n), config(2, Distance::Euclid))
            .expect("creates");
    }
    let is_over = AtomicBool::new(false);
    let written: Vec<Model> = std::thread::scope(|scope| {
        let engine = &engine;
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                engine.unload_unused();
            }
        });
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let (mut model, mut rng) = (Model::new(), Rng(thread + 1));
                    for value in 0..300 {
                        // Collections of others are read, own ones written.
                        let own = name(rng.below(COLLECTIONS / THREADS) * THREADS + thread);
                        let id = rng.below(10);
                        engine
                            .collection(&own)
                            .expect("is there")
                            .update(one(id, value))
                            .expect("upserts");
                        model.entry(own).or_default().insert(id, value);
                        let other = engine
                            .collection(&name(rng.below(COLLECTIONS)))
                            .expect("is there");
                        assert!(other.info().points_count <= 10);
                    }
                    model
                })
            })
            .collect();
        let written = writers
            .into_iter()
            .map(|writer| writer.join().expect("runs"))
            .collect();
        is_over.store(true, Ordering::Release);
        written
    });
    let mut model: Model = (0..COLLECTIONS).map(|n| (name(n), BTreeMap::new())).collect();
    written.into_iter().for_each(|part| model.extend(part));
    check_all(&engine, &model);
    engine.close();
    drop(engine);
    check_all(&small(storage), &model);
}

#[test]
fn one_that_is_used_stays() {
    let engine = small(Arc::new(RamStorage::new(None)));
    engine
        .create_collection("c", config(2, Distance::Dot))
        .expect("creates");
    let held = engine.collection("c").expect("is there");
    assert_eq!(engine.unload_unused(), 0);
    held.update(one(1, 2)).expect("upserts");
    drop(held);
    // Who waited for the write is told a moment before the writer thread is done with it.
    while engine.unload_unused() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(engine.loaded_collections().is_empty() && engine.has_collection("c"));
    let unloaded = engine.unloaded_collections();
    assert_eq!(
        (unloaded.collections, unloaded.points, unloaded.vectors),
        (1, 1, 1)
    );
    assert_eq!(values(&engine, "c"), BTreeMap::from([(1, 2)]));
}

/// All of them at once, whose handles nobody gives back.
#[test]
fn more_than_have_room_at_once_are_refused_for_now() {
    let engine = small(Arc::new(RamStorage::new(None)));
    let mut held = Vec::new();
    for n in 0..COLLECTIONS {
        engine
            .create_collection(&name(n), config(2, Distance::Dot))
            .expect("creates");
    }
    let refused = loop {
        match engine.collection(&name(held.len() as u64)) {
            Ok(collection) => held.push(collection),
            Err(e) => break e,
        }
    };
    assert!(
        [ErrorKind::Busy, ErrorKind::OverBudget].contains(&refused.kind()),
        "{refused}"
    );
    assert!((20..COLLECTIONS as usize).contains(&held.len()), "{}", held.len());
    held.pop();
    engine
        .collection(&name(COLLECTIONS - 1))
        .expect("there is room again");
}

#[test]
fn a_start_opens_some_and_finds_the_damaged_ones_meanwhile() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let engine = small(storage.clone());
    for n in 0..COLLECTIONS {
        engine
            .create_collection(&name(n), config(2, Distance::Dot))
            .expect("creates");
    }
    let id = |n| engine.collection(&name(n)).expect("is there").id().to_owned();
    // The last in the order of names is not opened at the start.
    let damaged = storage.subdir(&id(9)).expect("is there");
    engine.close();
    drop(engine);
    let manifest = damaged
        .list()
        .expect("lists")
        .into_iter()
        .find(|name| name.starts_with("MANIFEST"));
    damaged.remove(&manifest.expect("there is one")).expect("removes");
    let engine = small(storage);
    assert!(engine.unseen_collections() > 0);
    while engine.unseen_collections() > 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let closed = engine.closed_collections();
    assert!(matches!(&closed[..], [(name, _)] if name == "c9"), "{closed:?}");
    let refused = engine.collection("c9").err().expect("is closed");
    assert_eq!(refused.kind(), ErrorKind::CollectionClosed);
    assert!(engine.delete_collection("c9").expect("deletes"));
}

#[test]
fn points_of_an_unloaded_collection_expire() {
    const SECOND: i64 = 1_000_000;
    for kind in [None, Some(FieldKind::Integer), Some(FieldKind::Datetime)] {
        let engine = small(Arc::new(RamStorage::new(None)));
        let mut with_ttl = config(2, Distance::Dot);
        with_ttl.other.insert(
            "metadata".into(),
            json!({"ramlet_ttl": {"field": "at", "seconds": 10}}),
        );
        engine.create_collection("c", with_ttl).expect("creates");
        let mut scratch = engine.scratch().expect("memory");
        {
            let collection = engine.collection("c").expect("is there");
            if let Some(kind) = kind {
                collection
                    .create_payload_index("at", FieldIndex { kind, params: None })
                    .expect("creates");
            }
            let at = |seconds: i64| match kind {
                Some(FieldKind::Datetime) => {
                    json!({"at": format!("1970-01-01T{:02}:00:00Z", seconds / 3_600)})
                }
                _ => json!({"at": seconds}),
            };
            let points = (1..4).map(|id| point(id, vec![1.0, 1.0], &at(id as i64 * 3_600).to_string()));
            collection.update(upsert(points.collect())).expect("upserts");
        }
        let mut left = |seconds: i64| {
            // Deletes are under way for a moment; the turn after them learns when the next one is due.
            let rests = || {
                engine.expire(seconds * SECOND, true, &mut scratch);
                engine.unload_unused();
                engine.expire(seconds * SECOND, true, &mut scratch);
                std::thread::sleep(Duration::from_millis(5));
                engine.loaded_collections().is_empty()
            };
            assert!(
                std::iter::repeat_with(rests).take(4_000).any(|rests| rests),
                "{kind:?} at {seconds}"
            );
            engine
                .collection("c")
                .expect("is there")
                .count(None, true, &mut scratch)
                .expect("counts")
        };
        assert_eq!(left(3_609), 3, "{kind:?}");
        assert_eq!(left(3_611), 2, "{kind:?}");
        assert_eq!(left(7_211), 1, "{kind:?}");
        assert_eq!(left(20_000), 0, "{kind:?}");
    }
}

#[test]
fn one_whose_writes_have_stopped_stays_and_says_why() {
    let disk = SimStorage::new();
    let engine = small(Arc::new(disk.clone()));
    engine
        .create_collection("c", config(2, Distance::Dot))
        .expect("creates");
    disk.inject(Fault::new(FaultOp::Sync, 1, IoErrorKind::Other).on("log-"));
    let stopped = engine
        .collection("c")
        .expect("is there")
        .update(one(1, 1))
        .expect_err("fails");
    assert_eq!(stopped.kind(), ErrorKind::WritesStopped, "{stopped}");
    assert_eq!(engine.unload_unused(), 0);
    let info = engine.collection_info("c").expect("is there");
    assert_eq!(info.status, CollectionStatus::Red);
}

#[test]
fn shards_and_snapshots_of_unloaded_collections_are_whole() {
    let engine = small(Arc::new(RamStorage::new(None)));
    let mut keyed = config(2, Distance::Dot);
    keyed.other.insert("sharding_method".into(), json!("custom"));
    engine.create_collection("keyed", keyed).expect("creates");
    for key in ["a", "b"] {
        let key = ShardKey::Word(key.into());
        engine.create_shard_key("keyed", &key).expect("creates");
        let selection = ShardSelection::Keys(vec![key]);
        let shard = engine
            .collection("keyed")
            .expect("is there")
            .within(&selection)
            .expect("is there");
        // A handle of a shard keeps all of it.
        assert_eq!(engine.unload_unused(), 0);
        shard.update(one(1, 5)).expect("upserts");
    }
    for n in 0..40 {
        engine
            .create_collection(&name(n), config(2, Distance::Dot))
            .expect("creates");
        engine
            .collection(&name(n))
            .expect("is there")
            .update(one(n, n))
            .expect("upserts");
    }
    let taken = engine
        .create_snapshot(SnapshotScope::Everything, 1)
        .expect("takes");
    for n in 0..40 {
        assert!(engine.delete_collection(&name(n)).expect("deletes"));
    }
    engine.unload_unused();
    let file = engine
        .open_snapshot(SnapshotScope::Everything, &taken.name)
        .expect("is there");
    engine
        .recover_everything(&file, true, &|_| None)
        .expect("restores");
    for n in 0..40 {
        assert_eq!(values(&engine, &name(n)), BTreeMap::from([(n, n)]));
    }
    let shards = engine
        .collection("keyed")
        .expect("is there")
        .shard_infos()
        .expect("has keys");
    let points: Vec<u64> = shards.iter().map(|shard| shard.points_count).collect();
    assert_eq!(points, [1, 1]);
}
