//! Searches of rows that no segment has yet, against all distances computed here: rows of equal and of many lengths, that lack the vector, that were replaced
//! or deleted. Small whole numbers, so that every sum is exact.

use std::collections::BTreeMap;
use std::sync::Arc;

use ramlet::*;
use ramlet_io::RamStorage;

use crate::support::*;

const DIM: usize = 20;
const ROWS: u64 = 700;

fn vector(rng: &mut Rng) -> Vec<f32> {
    (0..DIM).map(|_| rng.below(12) as f32).collect()
}

/// Larger is better.
fn similarity(distance: Distance, a: &[f32], b: &[f32]) -> f32 {
    let pairs = a.iter().zip(b);
    match distance {
        Distance::Dot => pairs.map(|(a, b)| a * b).sum(),
        Distance::Manhattan => -pairs.map(|(a, b)| (a - b).abs()).sum::<f32>(),
        _ => -pairs.map(|(a, b)| (a - b).powi(2)).sum::<f32>(),
    }
}

fn score(distance: Distance, similarity: f32) -> f32 {
    match distance {
        Distance::Dot => similarity,
        Distance::Manhattan => -similarity,
        _ => (-similarity).sqrt(),
    }
}

fn searched(distance: Distance, datatype: Datatype, seed: u64) {
    let params = |datatype| VectorParams {
        size: DIM,
        distance,
        datatype: Some(datatype),
        on_disk: None,
        multivector_config: None,
        other: BTreeMap::new(),
    };
    // The first vector of a row, and one behind it.
    let names = ["a", "b"];
    let settings = CollectionConfig {
        vectors: names.map(|name| (name.to_string(), params(datatype))).into(),
        ..Default::default()
    };
    let engine = open(Arc::new(RamStorage::new(None)));
    engine.create_collection("c", settings).unwrap();
    let collection = engine.collection("c").unwrap();
    let (mut rng, mut known) = (Rng(seed), BTreeMap::new());
    for round in 0..3 {
        let points: Vec<Point> = (0..ROWS)
            .filter(|id| round == 0 || id % 5 == round)
            .map(|id| {
                let has = [rng.below(9) > 0, rng.below(9) > 0];
                let vectors = [vector(&mut rng), vector(&mut rng)];
                let length = match id {
                    // More than half of a chunk: each lies at the beginning of one.
                    300..304 => 90_000,
                    // Runs of equal lengths, then any length.
                    _ if id % 200 < 120 => 30,
                    _ => rng.below(60) as usize,
                };
                let payload = format!("{{\"t\":\"{}\"}}", "x".repeat(length)).into_bytes();
                let of: Vec<_> = (0..2)
                    .filter(|at| has[*at])
                    .map(|at| (names[at].to_string(), vectors[at].clone()))
                    .collect();
                known.insert(PointId::Num(id), BTreeMap::from_iter(of.clone()));
                let vectors = of
                    .into_iter()
                    .map(|(name, vector)| (name, vector.into()))
                    .collect();
                Point {
                    id: PointId::Num(id),
                    vectors,
                    payload,
                }
            })
            .collect();
        collection.update(upsert(points)).unwrap();
        let gone: Vec<u64> = (0..ROWS).filter(|_| rng.below(12) == 0).collect();
        collection.update(delete(&gone)).unwrap();
        gone.iter().for_each(|id| drop(known.remove(&PointId::Num(*id))));
        assert_eq!(collection.info().segments_count, 1, "all in the memtable");
        for (name, exact) in [("a", false), ("a", true), ("b", false), ("b", true)] {
            let query = vector(&mut rng);
            let of = |id: &PointId| known.get(id).and_then(|vectors| vectors.get(name));
            let mut expected: Vec<f32> = known
                .keys()
                .filter_map(of)
                .map(|row| similarity(distance, row, &query))
                .collect();
            expected.sort_by(|a, b| b.total_cmp(a));
            let request = SearchRequest {
                using: name.to_string(),
                params: SearchParams {
                    exact,
                    ..SearchParams::default()
                },
                ..search_request(query.clone(), 40)
            };
            let found = collection
                .search(&request, &mut engine.scratch().unwrap())
                .unwrap();
            let scores: Vec<f32> = found.hits.iter().map(|hit| hit.score).collect();
            let best: Vec<f32> = expected[..40].iter().map(|s| score(distance, *s)).collect();
            assert_eq!(scores, best, "{distance:?} {datatype:?} `{name}` exact {exact}");
            for hit in &found.hits {
                let row = of(&hit.id).unwrap_or_else(|| panic!("{} has no `{name}`", hit.id));
                assert_eq!(
                    score(distance, similarity(distance, row, &query)),
                    hit.score,
                    "{}",
                    hit.id
                );
            }
        }
    }
}

#[test]
fn rows_of_every_kind_are_compared() {
    let mut seed = 0;
    for distance in [Distance::Dot, Distance::Euclid, Distance::Manhattan] {
        for datatype in [Datatype::Float32, Datatype::Float16, Datatype::Uint8] {
            seed += 1;
            searched(distance, datatype, seed);
        }
    }
}
