//! Rows of a length of their own, sparse and several, against a map: through buffers, segments, merges and restarts.

use std::collections::BTreeMap;
use std::sync::Arc;

use ramlet::*;
use ramlet_io::{RamStorage, Storage};

use crate::support::*;

const DIM: usize = 4;

fn settings() -> CollectionConfig {
    let mut settings = config(DIM, Distance::Dot);
    let mut several = settings.vectors[DEFAULT_VECTOR].clone();
    several.multivector_config = Some(MultiVectorConfig {
        comparator: MultiVectorComparator::MaxSim,
    });
    settings.vectors.insert("m".into(), several);
    settings
        .sparse_vectors
        .insert("s".into(), SparseVectorParams::default());
    settings
}

/// Some of the three vectors; the longest rows take several pages.
fn vectors(rng: &mut Rng) -> NamedVectors {
    let mut out: NamedVectors = Vec::new();
    if rng.below(4) > 0 {
        out.push((DEFAULT_VECTOR.into(), rng.vector(DIM).into()));
    }
    if rng.below(3) > 0 {
        let parts = 1 + if rng.below(50) == 0 {
            900
        } else {
            rng.below(9) as usize
        };
        let values = rng.vector(DIM * parts);
        out.push(("m".into(), MultiVector { dim: DIM, values }.into()));
    }
    if rng.below(3) > 0 {
        let n = if rng.below(50) == 0 { 3000 } else { rng.below(20) };
        let entries: BTreeMap<u32, f32> = (0..n).map(|_| (rng.next() as u32, rng.float())).collect();
        let (indices, values) = entries.into_iter().unzip();
        out.push(("s".into(), SparseVector { indices, values }.into()));
    }
    out
}

fn by_name(vectors: NamedVectors) -> BTreeMap<String, Vector> {
    vectors.into_iter().collect()
}

fn compare(
    collection: &Collection,
    scratch: &mut Scratch,
    model: &BTreeMap<PointId, BTreeMap<String, Vector>>,
) {
    let page = collection.scroll(&scroll_request(100_000), scratch).unwrap();
    assert_eq!(page.points.len(), model.len());
    for record in page.points {
        let got = by_name(record.vectors.unwrap());
        assert_eq!(&got, &model[&record.id], "point {}", record.id);
    }
}

#[test]
fn rows_of_any_length_are_kept() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let mut engine = open(storage.clone());
    engine.create_collection("c", settings()).unwrap();
    let (mut rng, mut model) = (Rng(7), BTreeMap::new());
    for round in 0..8 {
        let collection = engine.collection("c").unwrap();
        let mut scratch = engine.scratch().unwrap();
        let mut points = Vec::new();
        for _ in 0..150 {
            let id = PointId::Num(rng.below(500));
            let vectors = vectors(&mut rng);
            model.insert(id, by_name(vectors.clone()));
            points.push(Point {
                id,
                vectors,
                payload: Vec::new(),
            });
        }
        collection.update(upsert(points)).unwrap();
        compare(&collection, &mut scratch, &model);
        if round % 3 != 1 {
            collection.flush().unwrap();
            compare(&collection, &mut scratch, &model);
        }
        if round == 4 {
            collection.wait_idle().unwrap();
            compare(&collection, &mut scratch, &model);
        }
        if round == 5 {
            drop((collection, scratch));
            engine.close();
            drop(engine);
            engine = open(storage.clone());
        }
    }
    engine.close();
    drop(engine);
    let mut problems = Vec::new();
    check(&storage, &mut |checked| problems.extend(checked.problem.clone())).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
}

fn dot(a: &SparseVector, b: &BTreeMap<u32, f32>) -> Option<f32> {
    let shared = a.indices.iter().zip(&a.values);
    let parts: Vec<f64> = shared
        .filter_map(|(dim, weight)| Some(f64::from(*weight) * f64::from(*b.get(dim)?)))
        .collect();
    (!parts.is_empty()).then(|| parts.iter().sum::<f64>() as f32)
}

/// Few dimensions and round weights, so that ties and long lists come up.
fn weights(rng: &mut Rng) -> BTreeMap<u32, f32> {
    let n = rng.below(12);
    let dim = |rng: &mut Rng| rng.below(30) * rng.below(30);
    (0..n)
        .map(|_| (dim(rng) as u32, (rng.below(41) as f32 - 8.0) / 4.0))
        .collect()
}

fn sparse(weights: &BTreeMap<u32, f32>) -> SparseVector {
    // Descending: the engine puts them in order.
    let (indices, values) = weights.iter().rev().map(|(d, w)| (*d, *w)).unzip();
    SparseVector { indices, values }
}

fn request(query: QueryVector, limit: usize) -> SearchRequest {
    SearchRequest {
        query,
        using: "s".into(),
        ..search_request(Vec::new(), limit)
    }
}

/// The scores of the best, by a look at every point.
fn expected(
    model: &BTreeMap<u64, BTreeMap<u32, f32>>,
    query: &SparseVector,
    limit: usize,
    only_odd: bool,
) -> Vec<f32> {
    let points = model.iter().filter(|(id, _)| !only_odd || *id % 2 == 1);
    let mut scores: Vec<f32> = points.filter_map(|(_, weights)| dot(query, weights)).collect();
    scores.sort_by(|a, b| b.total_cmp(a));
    scores.truncate(limit);
    scores
}

#[test]
fn a_sparse_search_finds_the_best_of_all() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let engine = open(storage);
    let mut config = CollectionConfig::default();
    config
        .sparse_vectors
        .insert("s".into(), SparseVectorParams::default());
    engine.create_collection("c", config).unwrap();
    let collection = engine.collection("c").unwrap();
    let index = FieldIndex {
        kind: FieldKind::Integer,
        // Rows lie in its order, lists as well.
        params: Some(serde_json::json!({"type": "integer", "is_tenant": true})),
    };
    collection.create_payload_index("odd", index).unwrap();
    let mut scratch = engine.scratch().unwrap();
    let (mut rng, mut model) = (Rng(11), BTreeMap::new());
    let filter: ramlet::filter::Filter =
        serde_json::from_str(r#"{"must":[{"key":"odd","match":{"value":1}}]}"#).unwrap();
    let mut lists = 0;
    for round in 0..12 {
        let mut points = Vec::new();
        for _ in 0..400 {
            let id = rng.below(2500);
            let weights = weights(&mut rng);
            let vectors = vec![("s".to_owned(), sparse(&weights).into())];
            let payload = format!("{{\"odd\":{}}}", id % 2).into_bytes();
            points.push(Point {
                id: PointId::Num(id),
                vectors,
                payload,
            });
            model.insert(id, weights);
        }
        collection.update(upsert(points)).unwrap();
        let gone: Vec<u64> = (0..20).map(|_| rng.below(2500)).collect();
        gone.iter().for_each(|id| drop(model.remove(id)));
        collection.update(delete(&gone)).unwrap();
        if round % 4 != 3 {
            collection.flush().unwrap();
        }
        if round == 8 {
            collection.wait_idle().unwrap();
        }
        for _ in 0..12 {
            let query = sparse(&weights(&mut rng));
            let limit = [1, 3, 10, 5000][rng.below(4) as usize];
            let filtered = rng.below(2) == 1;
            let mut asked = request(QueryVector::Vector(query.clone().into()), limit);
            asked.filter = filtered.then(|| filter.clone());
            asked.params.explain = true;
            let response = collection.search(&asked, &mut scratch).unwrap();
            let got: Vec<f32> = response.hits.iter().map(|hit| hit.score).collect();
            assert_eq!(
                got,
                expected(&model, &query, limit, filtered),
                "round {round}, {query:?}"
            );
            for hit in &response.hits {
                let PointId::Num(id) = hit.id else {
                    panic!("{}", hit.id)
                };
                assert_eq!(dot(&query, &model[&id]), Some(hit.score), "point {id}");
            }
            lists += response
                .explain
                .iter()
                .filter(|part| part.strategy == "lists")
                .count();
        }
    }
    assert!(lists > 100, "{lists}");
}

#[test]
fn rare_dimensions_count_more_with_idf() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let engine = open(storage);
    let mut config = CollectionConfig::default();
    let modifier = Some(Modifier::Idf);
    let params = SparseVectorParams {
        modifier,
        ..Default::default()
    };
    config.sparse_vectors.insert("s".into(), params);
    engine.create_collection("c", config).unwrap();
    let collection = engine.collection("c").unwrap();
    let mut scratch = engine.scratch().unwrap();
    // Dimension 1 in all points, 2 in one in ten.
    let with = |id: u64| {
        let entries = [(1, 1.0)]
            .into_iter()
            .chain(id.is_multiple_of(10).then_some((2, 1.0)));
        let (indices, values) = entries.unzip();
        let vectors = vec![("s".to_owned(), SparseVector { indices, values }.into())];
        Point {
            id: PointId::Num(id),
            vectors,
            payload: Vec::new(),
        }
    };
    let idf = |df: f64| ((100.0 - df + 0.5) / (df + 0.5) + 1.0).ln() as f32;
    collection.update(upsert((0..60).map(with).collect())).unwrap();
    collection.flush().unwrap();
    collection.update(upsert((60..100).map(with).collect())).unwrap();
    let query = SparseVector {
        indices: vec![2, 1],
        values: vec![1.0, 1.0],
    };
    let asked = request(QueryVector::Vector(query.into()), 100);
    let hits = collection.search(&asked, &mut scratch).unwrap().hits;
    assert_eq!(hits.len(), 100);
    for (at, hit) in hits.iter().enumerate() {
        let score = if at < 10 {
            idf(10.0) + idf(100.0)
        } else {
            idf(100.0)
        };
        assert!((hit.score - score).abs() < 1e-5, "{at}: {} {score}", hit.score);
    }
    // By a point's id: itself is no hit.
    let asked = request(QueryVector::Id(PointId::Num(0)), 3);
    let hits = collection.search(&asked, &mut scratch).unwrap().hits;
    assert!(hits.iter().all(|hit| hit.id != PointId::Num(0)) && hits.len() == 3);
}
