//! Facets and distance matrices against what a naive count over the points says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ramlet::filter::{Condition, Filter};
use ramlet::*;
use ramlet_io::RamStorage;
use serde_json::{Value, json};

use crate::support::*;

const POINTS: u64 = 3_000;
const DIM: usize = 4;

struct Data {
    _engine: Arc<Engine>,
    collection: Arc<Collection>,
    scratch: Scratch,
    /// Payloads and vectors of the points that are there.
    points: BTreeMap<u64, (Value, Vec<f32>)>,
}

fn index(kind: FieldKind) -> FieldIndex {
    FieldIndex { kind, params: None }
}

fn payload(rng: &mut Rng, id: u64) -> Value {
    let long = |n: u64| format!("{}{n}", "x".repeat(600));
    json!({
        "word": (0..rng.below(4)).map(|_| format!("w{}", rng.below(40))).collect::<Vec<_>>(),
        "long": long(rng.below(5)),
        "number": rng.below(300) as i64 - 150,
        "unique": id,
        "flag": rng.below(3) == 0,
        "uuid": format!("{:032x}", rng.below(9)),
        "price": 1.5,
    })
}

/// Three segments, a memtable, and points deleted and replaced in both.
fn made() -> Data {
    let engine = open(Arc::new(RamStorage::new(None)));
    engine
        .create_collection("c", config(DIM, Distance::Euclid))
        .unwrap();
    let collection = engine.collection("c").unwrap();
    use FieldKind::{Bool, Float, Integer, Keyword, Uuid};
    for (field, kind) in [
        ("word", Keyword),
        ("long", Keyword),
        ("number", Integer),
        ("unique", Integer),
        ("flag", Bool),
        ("uuid", Uuid),
        ("price", Float),
    ] {
        collection.create_payload_index(field, index(kind)).unwrap();
    }
    let mut rng = Rng(5);
    let mut points = BTreeMap::new();
    for part in 0..4u64 {
        let ids: Vec<u64> = (0..POINTS / 4)
            .map(|_| rng.below(POINTS))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let batch = ids.iter().map(|&id| {
            let (payload, vector) = (payload(&mut rng, id), rng.vector(DIM));
            points.insert(id, (payload.clone(), vector.clone()));
            point(id, vector, &payload.to_string())
        });
        collection.update(upsert(batch.collect())).unwrap();
        if part < 3 {
            collection.flush().unwrap();
        }
        let gone: Vec<u64> = ids.into_iter().filter(|_| rng.below(10) == 0).collect();
        gone.iter().for_each(|id| drop(points.remove(id)));
        collection.update(delete(&gone)).unwrap();
    }
    Data {
        scratch: engine.scratch().unwrap(),
        _engine: engine,
        collection,
        points,
    }
}

fn value(json: &Value) -> FacetValue {
    match json {
        Value::Bool(b) => FacetValue::Bool(*b),
        Value::Number(n) => FacetValue::Int(n.as_i64().unwrap()),
        Value::String(s) => match uuid::Uuid::try_parse(s) {
            Ok(uuid) => FacetValue::Str(uuid.to_string()),
            Err(_) => FacetValue::Str(s.clone()),
        },
        other => panic!("{other}"),
    }
}

fn expected(data: &Data, key: &str, limit: usize, counts: impl Fn(&Value) -> bool) -> Vec<FacetHit> {
    let mut found: BTreeMap<FacetValue, u64> = BTreeMap::new();
    for (payload, _) in data.points.values().filter(|(payload, _)| counts(payload)) {
        let values: BTreeSet<FacetValue> = match &payload[key] {
            Value::Array(elements) => elements.iter().map(value).collect(),
            one => [value(one)].into(),
        };
        values.into_iter().for_each(|v| *found.entry(v).or_default() += 1);
    }
    let mut hits: Vec<FacetHit> = found
        .into_iter()
        .map(|(value, count)| FacetHit { value, count })
        .collect();
    hits.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.value.cmp(&b.value)));
    hits.truncate(limit);
    hits
}

fn filter(json: Value) -> Filter {
    serde_json::from_value(json).expect("a filter")
}

#[test]
fn facets_count_points() {
    let mut data = made();
    for key in ["word", "long", "number", "unique", "flag", "uuid"] {
        // Which of several long values with equal counts are the first is told by their hashes.
        let limits: &[usize] = if key == "long" {
            &[10, 100_000]
        } else {
            &[1, 3, 10, 100_000]
        };
        for &limit in limits {
            let mut request = FacetRequest {
                key: key.to_owned(),
                limit,
                filter: None,
            };
            let got = data.collection.facet(&request, &mut data.scratch).unwrap();
            assert_eq!(got, expected(&data, key, limit, |_| true), "{key} {limit}");
            // Answered by an index, and by payloads (no index on `price` can match).
            request.filter = Some(filter(json!({"must": [{"key": "number", "range": {"gte": 20}}]})));
            let got = data.collection.facet(&request, &mut data.scratch).unwrap();
            let wanted = expected(&data, key, limit, |p| p["number"].as_i64().unwrap() >= 20);
            assert_eq!(got, wanted, "{key} {limit} filtered");
            request.filter = Some(filter(
                json!({"must": [{"key": "word", "values_count": {"gte": 2}}]}),
            ));
            let got = data.collection.facet(&request, &mut data.scratch).unwrap();
            let wanted = expected(&data, key, limit, |p| p["word"].as_array().unwrap().len() >= 2);
            assert_eq!(got, wanted, "{key} {limit} filtered by payload");
        }
    }
}

#[test]
fn facets_need_an_index_that_matches() {
    let mut data = made();
    for key in ["price", "nothing"] {
        let request = FacetRequest {
            key: key.to_owned(),
            limit: 3,
            filter: None,
        };
        let e = data.collection.facet(&request, &mut data.scratch).unwrap_err();
        assert!(e.to_string().contains("No appropriate index for faceting"), "{e}");
    }
}

#[test]
fn a_matrix_has_the_nearest_of_the_sample() {
    let mut data = made();
    for (sample, limit, seed) in [(2, 1, 1), (20, 3, 2), (500, 7, 3), (20, 100, 4)] {
        let request = MatrixRequest {
            sample,
            limit,
            filter: Some(filter(
                json!({"must": [{"key": "flag", "match": {"value": true}}]}),
            )),
            using: String::new(),
        };
        let matrix = data
            .collection
            .search_matrix(&request, seed, &mut data.scratch)
            .unwrap();
        assert_eq!(matrix.ids.len(), sample);
        assert!(matrix.ids.is_sorted(), "in the order of ids");
        let vectors: Vec<&Vec<f32>> = matrix
            .ids
            .iter()
            .map(|id| match id {
                PointId::Num(n) => {
                    let (payload, vector) = &data.points[n];
                    assert_eq!(payload["flag"], true);
                    vector
                }
                PointId::Uuid(_) => panic!("no such point"),
            })
            .collect();
        for (own, nearest) in matrix.nearest.iter().enumerate() {
            let mut all: Vec<f32> = (0..sample)
                .filter(|other| *other != own)
                .map(|other| distance(vectors[own], vectors[other]))
                .collect();
            all.sort_by(f32::total_cmp);
            assert_eq!(nearest.len(), limit.min(sample - 1));
            for ((other, score), best) in nearest.iter().zip(all) {
                assert!((score - best).abs() < 1e-4);
                assert!((score - distance(vectors[own], vectors[*other as usize])).abs() < 1e-4);
            }
        }
    }
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b) * (a - b))
        .sum::<f32>()
        .sqrt()
}

#[test]
fn a_matrix_of_less_than_two_is_empty() {
    let mut data = made();
    let mut matrix = |sample, limit, filter| {
        let using = String::new();
        let request = MatrixRequest {
            sample,
            limit,
            filter,
            using,
        };
        data.collection
            .search_matrix(&request, 9, &mut data.scratch)
            .unwrap()
    };
    let one = Filter {
        must: vec![Condition::HasId(vec![PointId::Num(
            *data.points.keys().next().unwrap(),
        )])],
        ..Filter::default()
    };
    for empty in [
        matrix(1, 3, None),
        matrix(0, 3, None),
        matrix(10, 0, None),
        matrix(10, 3, Some(one)),
    ] {
        assert_eq!(empty, Matrix::default());
    }
}
