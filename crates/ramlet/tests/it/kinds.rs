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
