//! Several vectors in one: long rows, every metric, filters, merges, restarts; what is refused.

use std::sync::Arc;

use ramlet::*;
use ramlet_io::{RamStorage, Storage};

use crate::support::*;

const DIM: usize = 96;
const METRICS: [Distance; 4] = [
    Distance::Cosine,
    Distance::Dot,
    Distance::Euclid,
    Distance::Manhattan,
];

fn settings(distance: Distance) -> CollectionConfig {
    let mut settings = config(DIM, distance);
    let params = settings.vectors.get_mut(DEFAULT_VECTOR).unwrap();
    params.multivector_config = Some(MultiVectorConfig {
        comparator: MultiVectorComparator::MaxSim,
    });
    settings
}

/// From one part to rows of many blocks.
fn several(rng: &mut Rng) -> MultiVector {
    let parts = match rng.below(10) {
        0 => 200,
        1..4 => 30,
        _ => 1 + rng.below(5) as usize,
    };
    MultiVector {
        dim: DIM,
        values: rng.vector(DIM * parts),
    }
}

fn put(id: u64, vector: &MultiVector) -> Point {
    Point {
        id: PointId::Num(id),
        vectors: vec![(DEFAULT_VECTOR.into(), vector.clone().into())],
        payload: format!("{{\"n\":{}}}", id % 7).into_bytes(),
    }
}

fn similarity(distance: Distance, a: &[f32], b: &[f32]) -> f64 {
    let pairs = || a.iter().zip(b).map(|(x, y)| (f64::from(*x), f64::from(*y)));
    let norm = |v: &[f32]| v.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    match distance {
        Distance::Dot => pairs().map(|(x, y)| x * y).sum(),
        Distance::Cosine => pairs().map(|(x, y)| x * y).sum::<f64>() / (norm(a) * norm(b)),
        Distance::Euclid => -pairs().map(|(x, y)| (x - y).powi(2)).sum::<f64>(),
        Distance::Manhattan => -pairs().map(|(x, y)| (x - y).abs()).sum::<f64>(),
    }
}

fn score(distance: Distance, row: &MultiVector, query: &MultiVector) -> f64 {
    let best = |q: &[f32]| {
        let all = row.parts().map(|part| similarity(distance, q, part));
        all.fold(f64::NEG_INFINITY, f64::max)
    };
    let sum: f64 = query.parts().map(best).sum();
    match distance {
        Distance::Euclid => sum.abs().sqrt(),
        Distance::Manhattan => sum.abs(),
        _ => sum,
    }
}

/// Every hit of an exact search by the definition.
fn expected(
    distance: Distance,
    points: &[Option<MultiVector>],
    query: &MultiVector,
    wanted: impl Fn(u64) -> bool,
) -> Vec<f64> {
    let rows = points.iter().zip(0u64..).filter(|(_, id)| wanted(*id));
    let mut scores: Vec<f64> = rows
        .filter_map(|(row, _)| Some(score(distance, row.as_ref()?, query)))
        .collect();
    scores.sort_by(f64::total_cmp);
    if distance.larger_is_nearer() {
        scores.reverse();
    }
    scores
}

fn check(collection: &Collection, scratch: &mut Scratch, distance: Distance, points: &[Option<MultiVector>]) {
    let mut rng = Rng(77);
    let filter = || serde_json::from_str(r#"{"must":[{"key":"n","match":{"value":3}}]}"#).unwrap();
    for turn in 0..4 {
        let query = several(&mut rng);
        let mut request = search_request(Vec::new(), 25);
        request.query = QueryVector::Vector(query.clone().into());
        request.params.explain = true;
        request.with_vectors = VectorSelector::All;
        let filtered = turn % 2 == 1;
        request.filter = filtered.then(filter);
        let answer = collection.search(&request, scratch).unwrap();
        let want = expected(distance, points, &query, |id| !filtered || id % 7 == 3);
        assert_eq!(answer.hits.len(), want.len().min(25), "{distance:?}");
        for (hit, want) in answer.hits.iter().zip(&want) {
            let close = (f64::from(hit.score) - want).abs() <= 1e-4 * want.abs().max(1.0);
            assert!(close, "{distance:?}: {} for {want}", hit.score);
            let PointId::Num(id) = hit.id else {
                panic!("numbers only")
            };
            let Some((_, Vector::Multi(found))) = hit.vectors.as_ref().unwrap().first() else {
                panic!("a multivector")
            };
            let known = points[id as usize].as_ref().expect("is there");
            assert_eq!(found.values.len(), known.values.len());
            if distance != Distance::Cosine {
                assert_eq!(found, known);
            }
        }
        for part in answer.explain.iter().filter(|part| part.segment.is_some()) {
            assert_eq!(part.index, "records");
            assert!(part.rows_scored > 0 || filtered, "{part:?}");
        }
    }
}

#[test]
fn max_sim_over_segments_and_buffers() {
    for distance in METRICS {
        let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
        let engine = open(storage.clone());
        engine.create_collection("c", settings(distance)).unwrap();
        let collection = engine.collection("c").unwrap();
        let mut rng = Rng(distance as u64 + 5);
        let mut points: Vec<Option<MultiVector>> = (0..160).map(|_| Some(several(&mut rng))).collect();
        for (some, part) in points.chunks(40).zip(0u64..) {
            let batch = some
                .iter()
                .zip(part * 40..)
                .map(|(v, id)| put(id, v.as_ref().unwrap()));
            collection.update(upsert(batch.collect())).unwrap();
            if part < 3 {
                collection.flush().unwrap();
            }
        }
        collection.update(delete(&[3, 50, 101, 157])).unwrap();
        for id in [3, 50, 101, 157] {
            points[id] = None;
        }
        check(&collection, &mut engine.scratch().unwrap(), distance, &points);
        let index = FieldIndex {
            kind: FieldKind::Integer,
            params: None,
        };
        collection.create_payload_index("n", index).unwrap();
        collection.flush().unwrap();
        collection.wait_idle().unwrap();
        assert_eq!(collection.info().segments_count, 1, "merged");
        check(&collection, &mut engine.scratch().unwrap(), distance, &points);
        let memory = collection.info().memory;
        let column = memory
            .iter()
            .find(|c| c.component == "vector ``")
            .expect("is told");
        assert!(
            column.kind == "records" && column.disk_bytes > 100_000,
            "{column:?}"
        );
        drop(collection);
        engine.close();
        drop(engine);
        let engine = open(storage);
        let collection = engine.collection("c").unwrap();
        check(&collection, &mut engine.scratch().unwrap(), distance, &points);
    }
}

#[test]
fn what_is_none_is_refused() {
    let engine = open(Arc::new(RamStorage::new(None)));
    engine.create_collection("c", settings(Distance::Dot)).unwrap();
    let collection = engine.collection("c").unwrap();
    let mut scratch = engine.scratch().unwrap();
    let multi = |dim, values: Vec<f32>| -> Vector { MultiVector { dim, values }.into() };
    let mut not_a_number = vec![1.0; DIM];
    not_a_number[7] = f32::NAN;
    let wrong: [(Vector, &str); 6] = [
        (multi(DIM, Vec::new()), "empty"),
        (multi(DIM + 1, vec![1.0; DIM + 1]), "expected dim"),
        (multi(DIM, not_a_number), "finite"),
        (multi(DIM, vec![1.0; DIM * 11_000]), "1048576"),
        (vec![1.0; DIM - 1].into(), "expected dim"),
        (SparseVector::default().into(), "vector"),
    ];
    for (vector, part) in wrong {
        let mut point = put(1, &MultiVector::default());
        point.vectors[0].1 = vector.clone();
        let error = collection.update(upsert(vec![point])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
        assert!(error.to_string().contains(part), "{error}");
        let mut request = search_request(Vec::new(), 3);
        request.query = QueryVector::Vector(vector);
        let error = collection.search(&request, &mut scratch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
    }
    // One part may come as a dense vector, in points and in queries.
    collection
        .update(upsert(vec![point(1, vec![0.5; DIM], "{}")]))
        .unwrap();
    let hits = collection
        .search(&search_request(vec![1.0; DIM], 3), &mut scratch)
        .unwrap()
        .hits;
    assert_eq!((hits.len(), hits[0].score), (1, 0.5 * DIM as f32));
}

/// Parts that lie near to one of a few centres, as words of a language do.
fn near_centres(rng: &mut Rng, centres: &[Vec<f32>]) -> MultiVector {
    let mut values = Vec::new();
    for _ in 0..1 + rng.below(6) {
        let centre = &centres[rng.below(centres.len() as u64) as usize];
        values.extend(centre.iter().map(|x| x + 0.3 * rng.float()));
    }
    MultiVector { dim: DIM, values }
}

/// Share of the exact ten that an approximate search finds, over some queries; what was compared.
fn recall(
    collection: &Collection,
    scratch: &mut Scratch,
    queries: &[MultiVector],
    filtered: bool,
) -> (f64, u64) {
    let filter = r#"{"must":[{"key":"n","match":{"any":[1,3,4]}}]}"#;
    let (mut found, mut all, mut compared) = (0, 0, 0);
    for query in queries {
        let mut request = search_request(Vec::new(), 10);
        request.query = QueryVector::Vector(query.clone().into());
        request.filter = filtered.then(|| serde_json::from_str(filter).unwrap());
        let near = collection.search(&request, scratch).unwrap();
        request.params.exact = true;
        let exact = collection.search(&request, scratch).unwrap();
        compared += near.cost.rows_scanned;
        let scores = |hits: &[ScoredPoint]| hits.iter().map(|h| (h.id, h.score)).collect::<Vec<_>>();
        let (near, exact) = (scores(&near.hits), scores(&exact.hits));
        all += exact.len();
        // Whole points are compared: who is found has its exact score.
        found += near.iter().filter(|hit| exact.contains(hit)).count();
    }
    (found as f64 / all as f64, compared)
}

#[test]
fn large_segments_have_an_index_over_parts() {
    for distance in [Distance::Cosine, Distance::Euclid] {
        let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
        let engine = open(storage.clone());
        let mut config = settings(distance);
        config.indexing_threshold = Some(200);
        engine.create_collection("c", config).unwrap();
        let collection = engine.collection("c").unwrap();
        let mut rng = Rng(17);
        let centres: Vec<Vec<f32>> = (0..60).map(|_| rng.vector(DIM)).collect();
        for part in 0..4 {
            let points = (part * 600..(part + 1) * 600).map(|id| {
                let mut point = put(id, &near_centres(&mut rng, &centres));
                if id % 11 == 0 {
                    point.vectors.clear();
                }
                point
            });
            collection.update(upsert(points.collect())).unwrap();
            collection.flush().unwrap();
        }
        collection
            .update(delete(&(0..2400).step_by(13).collect::<Vec<_>>()))
            .unwrap();
        let index = FieldIndex {
            kind: FieldKind::Integer,
            // Rows lie in its order, and so do their parts.
            params: (distance == Distance::Dot).then(|| serde_json::json!({"is_tenant": true})),
        };
        collection.create_payload_index("n", index).unwrap();
        let queries: Vec<MultiVector> = (0..12).map(|_| near_centres(&mut rng, &centres)).collect();
        let check = |engine: &Engine, collection: &Collection| {
            let mut scratch = engine.scratch().unwrap();
            for filtered in [false, true] {
                let (recall, compared) = recall(collection, &mut scratch, &queries, filtered);
                assert!(recall >= 0.9, "{distance:?} filtered {filtered}: {recall}");
                assert!(compared > 0, "{distance:?}");
            }
            let info = collection.info();
            let parts = info.memory.iter().find(|c| c.kind == "parts").expect("an index");
            assert!(parts.disk_bytes > 1_000_000, "{parts:?}");
            assert!(info.indexed_vectors_count > 1_500);
        };
        check(&engine, &collection);
        collection.wait_idle().unwrap();
        assert_eq!(collection.info().segments_count, 1, "merged");
        check(&engine, &collection);
        let (_, compared) = recall(&collection, &mut engine.scratch().unwrap(), &queries, false);
        assert!(
            compared < 12 * 2400 * 3 / 4,
            "{compared}: the index spares something"
        );
        drop(collection);
        engine.close();
        drop(engine);
        let engine = open(storage);
        check(&engine, &engine.collection("c").unwrap());
    }
}

/// Parts that lie near to centres, of several of these: what one part of a query finds says little of who is the nearest to all.
fn of_topics(rng: &mut Rng, centres: &[Vec<f32>], parts: u64) -> MultiVector {
    let mut values = Vec::new();
    for _ in 0..parts {
        let centre = &centres[rng.below(centres.len() as u64) as usize];
        values.extend(centre.iter().map(|x| x + 0.8 * rng.float()));
    }
    MultiVector { dim: DIM, values }
}

#[test]
fn queries_of_many_parts_find_who_is_near_to_all_of_them() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let engine = open(storage);
    let mut config = settings(Distance::Cosine);
    config.indexing_threshold = Some(200);
    engine.create_collection("c", config).unwrap();
    let collection = engine.collection("c").unwrap();
    let mut rng = Rng(23);
    let centres: Vec<Vec<f32>> = (0..30).map(|_| rng.vector(DIM)).collect();
    for part in 0..8u64 {
        let points = (part * 500..(part + 1) * 500).map(|id| {
            let parts = 2 + rng.below(7);
            put(id, &of_topics(&mut rng, &centres, parts))
        });
        collection.update(upsert(points.collect())).unwrap();
    }
    collection.flush().unwrap();
    collection.wait_idle().unwrap();
    assert_eq!(collection.info().segments_count, 1, "merged");
    let mut scratch = engine.scratch().unwrap();
    for parts in [2, 4, 8] {
        let queries: Vec<MultiVector> = (0..12).map(|_| of_topics(&mut rng, &centres, parts)).collect();
        let (recall, _) = recall(&collection, &mut scratch, &queries, false);
        let mut request = search_request(Vec::new(), 10);
        request.params.explain = true;
        let read: u64 = queries
            .iter()
            .map(|query| {
                request.query = QueryVector::Vector(query.clone().into());
                let answer = collection.search(&request, &mut scratch).unwrap();
                answer.explain.iter().map(|part| part.rows_read).sum::<u64>()
            })
            .sum();
        println!("{parts} parts: recall {recall}, {read} points read");
        assert!(recall >= 0.9, "{parts} parts: {recall}");
        assert!(read < 12 * 4000 / 5, "{parts} parts: {read} points read");
    }
}
