//! Points whose time is over are gone from all answers, and from disk after a merge.

use std::sync::Arc;

use ramlet::filter::Filter;
use ramlet::*;
use ramlet_io::RamStorage;
use serde_json::{Value, json};

use crate::support::*;

const SECOND: i64 = 1_000_000;

fn with_ttl(ttl: Value) -> CollectionConfig {
    let mut config = config(4, Distance::Euclid);
    config
        .other
        .insert("metadata".into(), json!({"mine": 1, "ramlet_ttl": ttl}));
    config
}

fn ids(collection: &Collection, scratch: &mut Scratch) -> Vec<PointId> {
    let page = collection.scroll(&scroll_request(100), scratch).expect("scrolls");
    let ids: Vec<PointId> = page.points.iter().map(|point| point.id).collect();
    let all = collection.count(None, true, scratch).expect("counts");
    assert_eq!(all, ids.len() as u64);
    ids
}

/// 1970-01-01 plus so many seconds, by number, by date, in a list; one for ever.
fn payloads() -> Vec<Value> {
    vec![
        json!({"at": 100}),
        json!({"at": "1970-01-01T00:01:40Z"}),
        json!({"at": 200.5}),
        json!({"at": [5_000, 150]}),
        json!({"at": null}),
        json!({"other": 1}),
    ]
}

#[test]
fn points_expire_with_and_without_an_index_in_buffers_and_segments() {
    for kind in [None, Some(FieldKind::Float), Some(FieldKind::Datetime)] {
        for flushed in [false, true] {
            let storage = Arc::new(RamStorage::new(None));
            let engine = open(storage.clone());
            engine
                .create_collection("c", with_ttl(json!({"field": "at", "seconds": 10})))
                .unwrap();
            let collection = engine.collection("c").unwrap();
            let mut scratch = engine.scratch().unwrap();
            if let Some(kind) = kind {
                collection
                    .create_payload_index("at", FieldIndex { kind, params: None })
                    .unwrap();
            }
            let points = (1..)
                .zip(payloads())
                .map(|(id, payload)| point(id, vec![0.0; 4], &payload.to_string()));
            collection.update(upsert(points.collect())).unwrap();
            if flushed {
                collection.flush().unwrap();
            }
            // Of a field with an index its kind decides.
            let by_number = kind != Some(FieldKind::Datetime);
            let by_date = kind != Some(FieldKind::Float);
            for (now, gone) in [
                (109, vec![]),
                (
                    110,
                    [by_number.then_some(1), by_date.then_some(2)]
                        .into_iter()
                        .flatten()
                        .collect::<Vec<u64>>(),
                ),
                (160, by_number.then_some(4).into_iter().collect()),
                (211, by_number.then_some(3).into_iter().collect()),
            ] {
                let before = ids(&collection, &mut scratch);
                assert_eq!(
                    engine.expire(now * SECOND, kind.is_none(), &mut scratch),
                    gone.len() as u64,
                    "{now}"
                );
                collection
                    .update(UpdateOp::Delete(PointsSelector::Ids(vec![])))
                    .unwrap();
                let after = ids(&collection, &mut scratch);
                let left = before
                    .into_iter()
                    .filter(|id| !gone.iter().any(|gone| *id == PointId::Num(*gone)));
                assert_eq!(after, left.collect::<Vec<_>>(), "{now} {kind:?} {flushed}");
            }
            drop((collection, scratch, engine));
            let engine = open(storage);
            let (collection, mut scratch) = (engine.collection("c").unwrap(), engine.scratch().unwrap());
            let kept = ids(&collection, &mut scratch);
            assert!(kept.contains(&PointId::Num(5)) && kept.contains(&PointId::Num(6)));
        }
    }
}

#[test]
fn without_an_index_payloads_are_read_only_when_it_is_said() {
    let engine = open(Arc::new(RamStorage::new(None)));
    engine
        .create_collection("c", with_ttl(json!({"field": "at"})))
        .unwrap();
    engine
        .create_collection("other", config(4, Distance::Euclid))
        .unwrap();
    let mut scratch = engine.scratch().unwrap();
    for name in ["c", "other"] {
        let collection = engine.collection(name).unwrap();
        collection
            .update(upsert(vec![point(1, vec![0.0; 4], r#"{"at": 1}"#)]))
            .unwrap();
    }
    assert_eq!(engine.expire(9 * SECOND, false, &mut scratch), 0);
    assert_eq!(
        engine.expire(9 * SECOND, true, &mut scratch),
        1,
        "of the collection that says so"
    );
}

#[test]
fn what_is_no_time_to_live_is_refused() {
    let engine = open(Arc::new(RamStorage::new(None)));
    for wrong in [
        json!({}),
        json!({"field": ""}),
        json!({"field": "a["}),
        json!({"field": "a", "seconds": -1}),
        json!({"field": "a", "days": 3}),
        json!("a"),
    ] {
        let refused = engine.create_collection("c", with_ttl(wrong.clone()));
        let message = refused.unwrap_err().to_string();
        assert!(
            message.contains("ramlet_ttl") && message.contains("created_at"),
            "{wrong}: {message}"
        );
    }
    engine.create_collection("c", with_ttl(Value::Null)).unwrap();
}

/// `exact: false` where indexes decide, with deleted and replaced points; and a limit of none.
#[test]
fn counts_are_exact_where_indexes_decide() {
    let engine = open(Arc::new(RamStorage::new(None)));
    engine
        .create_collection("c", config(4, Distance::Euclid))
        .unwrap();
    let collection = engine.collection("c").unwrap();
    let mut scratch = engine.scratch().unwrap();
    for (field, kind) in [("k", FieldKind::Keyword), ("n", FieldKind::Integer)] {
        collection
            .create_payload_index(field, FieldIndex { kind, params: None })
            .unwrap();
    }
    let mut rng = Rng(3);
    for _ in 0..4 {
        let points = (0..150).map(|_| {
            let (id, k, n) = (rng.below(400), rng.below(3), rng.below(50));
            point(
                id,
                rng.vector(4),
                &json!({"k": format!("k{k}"), "n": n, "u": n}).to_string(),
            )
        });
        let points = points.collect();
        collection.update(upsert(points)).unwrap();
        let gone: Vec<u64> = (0..20).map(|_| rng.below(400)).collect();
        collection.update(delete(&gone)).unwrap();
        collection.flush().unwrap();
    }
    for filter in [
        json!({"must": [{"key": "k", "match": {"value": "k1"}}, {"key": "n", "range": {"lt": 20}}]}),
        json!({"should": [{"key": "k", "match": {"value": "k1"}}, {"key": "n", "match": {"value": 7}}]}),
        json!({"must_not": [{"key": "k", "match": {"any": ["k0", "k2"]}}]}),
        json!({"must": [{"has_id": [1, 2, 3, 500]}]}),
    ] {
        let filter: Filter = serde_json::from_value(filter).unwrap();
        let [exact, about] =
            [true, false].map(|exact| collection.count(Some(&filter), exact, &mut scratch).unwrap());
        assert_eq!(about, exact, "{filter:?}");
    }
    let none = QueryRequest {
        limit: 0,
        ..QueryRequest::default()
    };
    assert!(
        collection
            .query(none, &engine, &mut scratch)
            .unwrap()
            .hits
            .is_empty()
    );
}

#[test]
fn scores_are_numbers_that_json_has() {
    for distance in [Distance::Dot, Distance::Euclid, Distance::Manhattan] {
        let engine = open(Arc::new(RamStorage::new(None)));
        engine.create_collection("c", config(4, distance)).unwrap();
        let collection = engine.collection("c").unwrap();
        let mut scratch = engine.scratch().unwrap();
        let points = [1e30, -1e30, 3e38, 1.0].map(|x| vec![x, 1.0, -x, 0.0]);
        let points = (1..).zip(points).map(|(id, vector)| point(id, vector, "{}"));
        collection.update(upsert(points.collect())).unwrap();
        for query in [vec![1e30, 0.0, -1e30, 0.0], vec![3e38, 3e38, 3e38, 3e38]] {
            let request = QueryRequest {
                query: Some(QueryKind::Nearest(QueryVector::Vector(Vector::Dense(query)))),
                ..QueryRequest::default()
            };
            let hits = collection.query(request, &engine, &mut scratch).unwrap().hits;
            assert_eq!(hits.len(), 4, "{distance:?}");
            assert!(
                hits.iter().all(|hit| hit.score.is_finite()),
                "{distance:?}: {hits:?}"
            );
        }
    }
}
