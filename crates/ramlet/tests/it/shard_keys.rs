//! Collections whose points are put into shards by keys: shards are apart, reads see those they ask for, and keys are as durable as points.

use std::collections::BTreeMap;
use std::sync::Arc;

use ramlet::*;
use ramlet_io::{Fault, FaultOp, IoErrorKind, RamStorage, SimStorage, Storage};

use crate::support::*;

const DIM: usize = 4;

fn ram() -> Arc<dyn Storage> {
    Arc::new(RamStorage::new(None))
}

fn keyed() -> CollectionConfig {
    let mut config = config(DIM, Distance::Dot);
    config.other.insert("sharding_method".into(), "custom".into());
    config
}

fn word(key: &str) -> ShardKey {
    ShardKey::Word(key.into())
}

fn of(keys: &[&str]) -> ShardSelection {
    ShardSelection::Keys(keys.iter().map(|key| word(key)).collect())
}

fn one(id: u64, payload: &str) -> UpdateOp {
    upsert(vec![point(id, vec![id as f32, 1.0, 0.0, 0.0], payload)])
}

fn within(engine: &Engine, keys: &[&str]) -> Arc<Collection> {
    let collection = engine.collection("c").expect("is there");
    collection.within(&of(keys)).expect("there are such keys")
}

fn with_keys(storage: Arc<dyn Storage>, keys: &[&str]) -> Arc<Engine> {
    let engine = open(storage);
    engine.create_collection("c", keyed()).expect("creates");
    for key in keys {
        engine.create_shard_key("c", &word(key)).expect("creates");
    }
    engine
}

fn keys(engine: &Engine) -> Vec<ShardKey> {
    let infos = engine.collection("c").expect("is there").shard_infos();
    infos
        .expect("it has keys")
        .into_iter()
        .map(|info| info.key)
        .collect()
}

/// Ids by key.
type Held = BTreeMap<String, Vec<u64>>;

fn held(engine: &Engine) -> Held {
    let collection = engine.collection("c").expect("is there");
    let mut scratch = engine.scratch().expect("enough memory");
    let of_key = |key: ShardKey| {
        let shard = collection
            .within(&ShardSelection::Keys(vec![key.clone()]))
            .expect("is there");
        let ids = contents(&shard, &mut scratch).into_keys();
        let ids = ids.map(|id| id.to_string().parse().expect("a number"));
        (key.to_string(), ids.collect())
    };
    keys(engine).into_iter().map(of_key).collect()
}

fn expect(pairs: &[(&str, &[u64])]) -> Held {
    let pairs = pairs.iter();
    pairs
        .map(|(key, ids)| (format!("\"{key}\""), ids.to_vec()))
        .collect()
}

#[test]
fn shards_are_apart() {
    let engine = with_keys(ram(), &["a", "b"]);
    let (a, b) = (within(&engine, &["a"]), within(&engine, &["b"]));
    a.update(one(1, r#"{"in":"a"}"#)).unwrap();
    b.update(one(1, r#"{"in":"b"}"#)).unwrap();
    b.update(one(2, "{}")).unwrap();
    b.flush().unwrap();
    b.update(one(3, "{}")).unwrap();
    assert_eq!(held(&engine), expect(&[("a", &[1]), ("b", &[1, 2, 3])]));
    a.update(delete(&[2, 3])).unwrap();
    assert_eq!(
        held(&engine),
        expect(&[("a", &[1]), ("b", &[1, 2, 3])]),
        "those of another shard"
    );
    let mut scratch = engine.scratch().unwrap();
    let payload_in = |shard: &Collection, scratch: &mut Scratch| {
        let found = shard.retrieve(
            &[PointId::Num(1)],
            &PayloadSelector::All,
            &VectorSelector::None,
            scratch,
        );
        let record = found.unwrap().pop().expect("is there");
        let payload = String::from_utf8(record.payload.expect("asked for")).unwrap();
        (payload, record.shard_key.map(|key| key.to_string()))
    };
    assert_eq!(
        payload_in(&a, &mut scratch),
        (r#"{"in":"a"}"#.into(), Some("\"a\"".into()))
    );
    assert_eq!(
        payload_in(&b, &mut scratch),
        (r#"{"in":"b"}"#.into(), Some("\"b\"".into()))
    );
    let count = |c: &Collection, scratch: &mut Scratch| c.count(None, true, scratch).unwrap();
    let all = engine.collection("c").unwrap();
    assert_eq!(
        (
            count(&a, &mut scratch),
            count(&b, &mut scratch),
            count(&all, &mut scratch)
        ),
        (1, 3, 4)
    );
    assert_eq!(all.info().points_count, 4);
}

#[test]
fn a_point_of_several_shards_comes_once() {
    let engine = with_keys(ram(), &["a", "b", "c"]);
    within(&engine, &["a", "b", "c"])
        .update(upsert(
            (0..9).map(|id| point(id, vec![id as f32; DIM], "{}")).collect(),
        ))
        .unwrap();
    within(&engine, &["b"]).update(one(9, "{}")).unwrap();
    let all = engine.collection("c").unwrap();
    let mut scratch = engine.scratch().unwrap();
    assert_eq!(contents(&all, &mut scratch).len(), 10);
    let mut pages = 0;
    let mut request = scroll_request(1);
    loop {
        pages += 1;
        let page = all.scroll(&request, &mut scratch).unwrap();
        assert_eq!(page.points.len(), 1);
        match page.next {
            Some(next) => request.offset = Some(next),
            None => break,
        }
    }
    assert_eq!(pages, 10);
    for (limit, offset) in [(10, 0), (4, 0), (4, 4), (3, 8), (30, 0)] {
        let mut request = search_request(vec![1.0; DIM], limit);
        request.offset = offset;
        let found = all.search(&request, &mut scratch).unwrap();
        let ids: Vec<_> = found.hits.iter().map(|hit| hit.id.to_string()).collect();
        let wanted: Vec<_> = [8, 7, 6, 5, 4, 9, 3, 2, 1, 0].map(|id| id.to_string()).to_vec();
        let mut wanted: Vec<_> = wanted.into_iter().skip(offset).take(limit).collect();
        let mut sorted = ids.clone();
        if limit > 9 {
            sorted.sort();
            wanted.sort();
        }
        // Dot product: 4 * id, and id + 1 of the last.
        assert_eq!(sorted.len(), wanted.len(), "{limit} {offset} {ids:?}");
        let seen: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(seen.len(), ids.len(), "{limit} {offset} {ids:?}");
    }
}

#[test]
fn who_writes_says_where() {
    let engine = with_keys(ram(), &["a"]);
    let all = engine.collection("c").unwrap();
    let refused = all.update(one(1, "{}")).unwrap_err();
    assert_eq!(refused.to_string(), "Wrong input: Shard key not specified");
    let refused = all.within(&of(&["b"])).err().expect("there is none");
    assert_eq!(refused.to_string(), "Wrong input: Shard key \"b\" not found");
    let fallback = |target: &str, fallback: &str| {
        all.within(&ShardSelection::WithFallback {
            target: word(target),
            fallback: word(fallback),
        })
    };
    fallback("b", "a").unwrap().update(one(1, "{}")).unwrap();
    fallback("a", "b").unwrap().update(one(2, "{}")).unwrap();
    assert!(fallback("b", "d").err().expect("neither").is_not_found());
    assert_eq!(held(&engine), expect(&[("a", &[1, 2])]));
    for (key, message) in [
        ("a", "Bad request: Shard key \"a\" already exists"),
        (&"x".repeat(2000), "Wrong input: a shard key of 2000 bytes"),
    ] {
        let refused = engine.create_shard_key("c", &word(key)).unwrap_err();
        assert!(refused.to_string().starts_with(message), "{refused}");
    }
    // Words and numbers are not the same.
    engine.create_shard_key("c", &word("7")).unwrap();
    engine.create_shard_key("c", &ShardKey::Number(7)).unwrap();
    engine
        .create_collection("plain", config(DIM, Distance::Dot))
        .unwrap();
    let refused = engine.create_shard_key("plain", &word("a")).unwrap_err();
    assert!(refused.to_string().contains("Auto sharding method"), "{refused}");
    let plain = engine.collection("plain").unwrap();
    assert!(plain.within(&of(&["a"])).is_err());
    assert!(plain.shard_infos().is_none());
}

#[test]
fn settings_are_those_of_all_shards() {
    let storage = ram();
    let engine = with_keys(storage.clone(), &["a"]);
    within(&engine, &["a"]).update(one(1, r#"{"n":1}"#)).unwrap();
    let all = engine.collection("c").unwrap();
    let index = FieldIndex {
        kind: FieldKind::Integer,
        params: None,
    };
    all.create_payload_index("m", index.clone()).unwrap();
    all.create_payload_index("n", index).unwrap();
    all.delete_payload_index("m").unwrap();
    let extra = VectorParams {
        size: 2,
        ..config(2, Distance::Dot).vectors.pop_first().unwrap().1
    };
    all.create_vector_name("extra", &NewVector::Dense(Box::new(extra)))
        .unwrap();
    engine.create_shard_key("c", &word("b")).unwrap();
    let mut two = point(2, vec![1.0; DIM], r#"{"n":1}"#);
    two.vectors.push(("extra".into(), vec![1.0, 2.0].into()));
    within(&engine, &["b"]).update(upsert(vec![two])).unwrap();
    let check = |engine: &Engine| {
        let all = engine.collection("c").unwrap();
        let mut scratch = engine.scratch().unwrap();
        let request = FacetRequest {
            key: "n".into(),
            limit: 10,
            filter: None,
        };
        let hits = all.facet(&request, &mut scratch).unwrap();
        assert_eq!((hits.len(), hits[0].count), (1, 2), "{hits:?}");
        let search = SearchRequest {
            using: "extra".into(),
            ..search_request(vec![1.0, 1.0], 5)
        };
        assert_eq!(all.search(&search, &mut scratch).unwrap().hits.len(), 1);
        assert_eq!(all.info().payload_index_points, [("n".into(), 2)]);
    };
    check(&engine);
    all.flush().unwrap();
    check(&engine);
    engine
        .update_collection("c", &mut |config| {
            config.indexing_threshold = Some(1);
            Ok(())
        })
        .unwrap();
    engine.close();
    drop((all, engine));
    let engine = open(storage);
    check(&engine);
    assert_eq!(
        engine.collection("c").unwrap().config().indexing_threshold,
        Some(1)
    );
}

/// A change of settings that fails in one of the shards leaves the collection without it, and the next one makes all alike again.
#[test]
fn settings_that_fail_halfway_show_nowhere() {
    let disk = SimStorage::new();
    let engine = with_keys(Arc::new(disk.clone()), &["a", "b"]);
    for (key, id) in [("a", 1), ("b", 2)] {
        within(&engine, &[key])
            .update(one(id, r#"{"n":1,"m":2}"#))
            .unwrap();
        within(&engine, &[key]).flush().unwrap();
    }
    let all = engine.collection("c").unwrap();
    let index = FieldIndex {
        kind: FieldKind::Integer,
        params: None,
    };
    let mut failed = 0;
    for nth in 1..60 {
        disk.inject(Fault::new(FaultOp::Any, nth, IoErrorKind::NoSpace));
        let done = all.create_payload_index("n", index.clone());
        disk.clear_faults();
        let mut scratch = engine.scratch().unwrap();
        let filter = serde_json::from_str(r#"{"must":[{"key":"n","match":{"value":1}}]}"#).unwrap();
        assert_eq!(all.count(Some(&filter), true, &mut scratch).unwrap(), 2, "{nth}");
        if done.is_ok() {
            break;
        }
        failed += 1;
        assert!(engine.writable(), "{nth}: {done:?}");
        all.create_payload_index("m", index.clone()).unwrap();
        let facet = |key: &str, scratch: &mut Scratch| {
            let request = FacetRequest {
                key: key.into(),
                limit: 10,
                filter: None,
            };
            all.facet(&request, scratch).map(|hits| hits[0].count)
        };
        assert_eq!(facet("m", &mut scratch).unwrap(), 2);
        assert!(facet("n", &mut scratch).is_err(), "{nth}: it has no index");
        all.delete_payload_index("m").unwrap();
    }
    assert!(failed > 2, "{failed}");
}

#[test]
fn a_key_goes_with_its_points() {
    let storage = ram();
    let engine = with_keys(storage.clone(), &["a", "b"]);
    within(&engine, &["a"]).update(one(1, "{}")).unwrap();
    within(&engine, &["b"]).update(one(2, "{}")).unwrap();
    let (old, directories) = (within(&engine, &["a"]), storage.list_subdirs().unwrap().len());
    assert!(engine.delete_shard_key("c", &word("a")).unwrap());
    assert!(!engine.delete_shard_key("c", &word("a")).unwrap());
    assert_eq!(storage.list_subdirs().unwrap().len(), directories - 1);
    assert!(old.update(one(3, "{}")).unwrap_err().is_not_found());
    let mut scratch = engine.scratch().unwrap();
    assert!(old.count(None, true, &mut scratch).is_err());
    assert_eq!(held(&engine), expect(&[("b", &[2])]));
    engine.create_shard_key("c", &word("a")).unwrap();
    assert_eq!(held(&engine), expect(&[("a", &[]), ("b", &[2])]));
    engine.close();
    drop((old, scratch, engine));
    let engine = open(storage.clone());
    assert_eq!(held(&engine), expect(&[("a", &[]), ("b", &[2])]));
    assert!(engine.delete_collection("c").unwrap());
    assert!(storage.list_subdirs().unwrap().is_empty());
    engine.close();
    drop(engine);
    assert!(open(storage).collection_names().is_empty());
}

/// Nodes over a log give the same numbers: one that fails for want of something here tries again with the same.
#[test]
fn what_fails_gives_its_number_back() {
    let disk = SimStorage::new();
    let engine = with_keys(Arc::new(disk.clone()), &["a"]);
    let number = engine.next_number();
    for file in ["log", "MANIFEST", "CATALOG"] {
        let fails = || {
            disk.inject(
                Fault::new(FaultOp::Create, 1, IoErrorKind::NoSpace)
                    .on(file)
                    .lasting(),
            )
        };
        fails();
        assert!(engine.create_shard_key("c", &word("b")).is_err(), "{file}");
        assert!(engine.create_collection("d", keyed()).is_err(), "{file}");
        disk.clear_faults();
        assert_eq!(engine.next_number(), number, "{file}");
        assert_eq!(keys(&engine), [word("a")]);
    }
    // Who replays a log says which number it is.
    assert!(engine.begin_number(number));
    engine
        .create_shard_key("c", &word("b"))
        .expect("there is room again");
    assert_eq!(engine.number_of_shard_key("c", &word("b")), Some(number));
    assert_eq!(engine.number_of_shard_key("c", &word("none")), None);
    assert!(!engine.begin_number(number), "it is used up");
    within(&engine, &["b"]).update(one(1, "{}")).expect("writes");
    engine.close();
    drop(engine);
    let engine = open(Arc::new(disk));
    assert_eq!(held(&engine), expect(&[("a", &[]), ("b", &[1])]));
    assert_eq!(engine.next_number(), number + 1);
}

#[test]
fn snapshots_hold_all_shards() {
    let engine = with_keys(ram(), &["a", "b"]);
    within(&engine, &["a"])
        .update(upsert(
            (0..50).map(|id| point(id, vec![1.0; DIM], "{}")).collect(),
        ))
        .unwrap();
    within(&engine, &["a"]).flush().unwrap();
    within(&engine, &["b"]).update(one(2, "{}")).unwrap();
    let expected = held(&engine);
    for scope in [SnapshotScope::Collection("c"), SnapshotScope::Everything] {
        let taken = engine.create_snapshot(scope, 1_700_000_000).unwrap();
        let file = engine.open_snapshot(scope, &taken.name).unwrap();
        let storage = ram();
        let other = open(storage.clone());
        let restore = |name: &str| match scope {
            SnapshotScope::Shard(..) => unreachable!(),
            SnapshotScope::Collection(_) => other.recover_collection(name, &file, None),
            SnapshotScope::Everything => other.recover_everything(&file, true, &|_| None).map(drop),
        };
        restore("c").unwrap();
        assert_eq!(held(&other), expected);
        within(&other, &["b"]).update(one(3, "{}")).unwrap();
        other.create_shard_key("c", &word("d")).unwrap();
        // What was there gives way, its shards too.
        restore("c").unwrap();
        assert_eq!(held(&other), expected);
        assert_eq!(storage.list_subdirs().unwrap().len(), 3);
        other.close();
        drop(other);
        assert_eq!(held(&open(storage)), expected);
    }
}

#[test]
fn a_snapshot_of_a_shard_goes_into_a_shard() {
    let storage = ram();
    let engine = with_keys(storage.clone(), &["a", "b"]);
    within(&engine, &["a"]).update(one(1, "{}")).unwrap();
    within(&engine, &["a"]).flush().unwrap();
    within(&engine, &["b"]).update(one(2, "{}")).unwrap();
    let of_a = SnapshotScope::Shard("c", 1);
    let taken = engine.create_snapshot(of_a, 1_700_000_000).unwrap();
    assert_eq!(engine.list_snapshots(of_a).unwrap().len(), 1);
    assert!(
        engine
            .list_snapshots(SnapshotScope::Shard("c", 2))
            .unwrap()
            .is_empty()
    );
    assert!(
        engine
            .list_snapshots(SnapshotScope::Collection("c"))
            .unwrap()
            .is_empty()
    );
    assert!(
        engine
            .list_snapshots(SnapshotScope::Shard("c", 3))
            .unwrap_err()
            .is_not_found()
    );
    let file = engine.open_snapshot(of_a, &taken.name).unwrap();
    let index = FieldIndex {
        kind: FieldKind::Integer,
        params: None,
    };
    // The settings stay those of the collection.
    engine
        .collection("c")
        .unwrap()
        .create_payload_index("n", index)
        .unwrap();
    let old = within(&engine, &["b"]);
    engine.recover_shard(("c", 2), &file, None).unwrap();
    assert_eq!(held(&engine), expect(&[("a", &[1]), ("b", &[1])]));
    assert_eq!(old.update(one(3, "{}")).unwrap_err().kind(), ErrorKind::Busy);
    within(&engine, &["b"]).update(one(3, r#"{"n":1}"#)).unwrap();
    let mut scratch = engine.scratch().unwrap();
    let request = FacetRequest {
        key: "n".into(),
        limit: 1,
        filter: None,
    };
    let facet = |engine: &Engine, scratch: &mut Scratch| {
        let hits = engine.collection("c").unwrap().facet(&request, scratch);
        hits.unwrap()[0].count
    };
    assert_eq!(facet(&engine, &mut scratch), 1);
    let whole = engine.create_snapshot(SnapshotScope::Collection("c"), 1).unwrap();
    let whole = engine
        .open_snapshot(SnapshotScope::Collection("c"), &whole.name)
        .unwrap();
    let refused = engine.recover_shard(("c", 2), &whole, None).unwrap_err();
    assert!(refused.to_string().contains("several shards"), "{refused}");
    assert!(
        engine
            .recover_shard(("c", 3), &file, None)
            .unwrap_err()
            .is_not_found()
    );
    engine.close();
    drop((old, engine));
    let engine = open(storage.clone());
    assert_eq!(held(&engine), expect(&[("a", &[1]), ("b", &[1, 3])]));
    assert_eq!(facet(&engine, &mut scratch), 1);
    let collections = storage.list_subdirs().unwrap();
    assert_eq!(
        collections.iter().filter(|name| name.starts_with('c')).count(),
        3,
        "{collections:?}"
    );
}

#[test]
fn a_directory_with_shards_checks_sound() {
    let storage = ram();
    let engine = with_keys(storage.clone(), &["a"]);
    within(&engine, &["a"]).update(one(1, "{}")).unwrap();
    within(&engine, &["a"]).flush().unwrap();
    engine.close();
    drop(engine);
    let mut places = Vec::new();
    let report = ramlet::check(&storage, &mut |checked| {
        assert_eq!(checked.problem, None, "{}", checked.place);
        places.push(checked.place.clone());
    })
    .unwrap();
    assert_eq!((report.collections, report.points, report.problems), (1, 1, 0));
    assert!(
        places.iter().any(|place| place.starts_with("c/shard \"a\"/")),
        "{places:?}"
    );
    let out = ram();
    let refused = salvage(&storage, "c", &out, "s", 1).unwrap_err();
    assert!(refused.to_string().contains("(shard key \"a\")"), "{refused}");
    let directories = storage.list_subdirs().unwrap();
    let shard = directories.iter().max().expect("that of the shard");
    assert_eq!(salvage(&storage, shard, &out, "s", 1).unwrap().points, 1);
    // What is left of a shard is an ordinary collection.
    let engine = open(ram());
    let file = SnapshotFile::open(out.as_ref(), "s").unwrap();
    engine.recover_collection("left", &file, None).unwrap();
    assert_eq!(engine.collection("left").unwrap().info().points_count, 1);
    assert!(engine.collection("left").unwrap().shard_infos().is_none());
}

/// Power loss at every moment of a history of keys: what was acknowledged is there, with the key it was put under.
#[test]
fn every_crash_point_of_keys() {
    let disk = SimStorage::new();
    let engine = open(Arc::new(disk.clone()));
    let mut states: Vec<(usize, Option<Held>)> = vec![(0, None)];
    let mut note = |state: Option<Held>| states.push((disk.journal_len(), state));
    engine.create_collection("c", keyed()).unwrap();
    note(Some(expect(&[])));
    engine.create_shard_key("c", &word("a")).unwrap();
    note(Some(expect(&[("a", &[])])));
    within(&engine, &["a"]).update(one(1, "{}")).unwrap();
    note(Some(expect(&[("a", &[1])])));
    engine.create_shard_key("c", &word("b")).unwrap();
    note(Some(expect(&[("a", &[1]), ("b", &[])])));
    within(&engine, &["b"]).update(one(1, "{}")).unwrap();
    note(Some(expect(&[("a", &[1]), ("b", &[1])])));
    within(&engine, &["b"]).flush().unwrap();
    note(Some(expect(&[("a", &[1]), ("b", &[1])])));
    engine.delete_shard_key("c", &word("a")).unwrap();
    note(Some(expect(&[("b", &[1])])));
    engine.create_shard_key("c", &word("a")).unwrap();
    note(Some(expect(&[("a", &[]), ("b", &[1])])));
    within(&engine, &["a"]).update(one(7, "{}")).unwrap();
    note(Some(expect(&[("a", &[7]), ("b", &[1])])));
    engine.delete_collection("c").unwrap();
    note(None);
    engine.close();
    let end = disk.journal_len();
    let mut count = 0;
    for at in 0..=end {
        let after = states
            .iter()
            .rposition(|(journal, _)| *journal <= at)
            .expect("the first");
        let allowed = &states[after..(after + 2).min(states.len())];
        for survivor in disk.crash_states(at, at as u64, 3) {
            let engine = open(Arc::new(survivor));
            let found = engine.collection("c").is_ok().then(|| held(&engine));
            assert!(
                allowed.iter().any(|(_, state)| *state == found),
                "{at} of {end}: {found:?}, not {allowed:?}"
            );
            if found.is_some() && engine.create_shard_key("c", &word("z")).is_ok() {
                within(&engine, &["z"]).update(one(5, "{}")).expect("goes on");
            }
            engine.close();
            count += 1;
        }
    }
    assert!(count > 200, "{count} states mean little");
}
