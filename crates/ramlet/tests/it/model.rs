//! The engine against a map: random updates, flushes, merges, restarts; everything read back after each step.

use std::sync::Arc;

use ramlet::*;
use ramlet_io::{RamStorage, Storage};

use crate::support::*;

const DIM: usize = 8;

struct Run {
    storage: Arc<dyn Storage>,
    engine: Arc<Engine>,
    model: Contents,
    rng: Rng,
}

impl Run {
    fn new(storage: Arc<dyn Storage>, seed: u64) -> Run {
        let engine = open(storage.clone());
        engine
            .create_collection("c", config(DIM, Distance::Euclid))
            .expect("creates");
        Run {
            storage,
            engine,
            model: Contents::new(),
            rng: Rng(seed),
        }
    }

    fn collection(&self) -> Arc<Collection> {
        self.engine.collection("c").expect("is there")
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..45 => self.upsert(),
            45..60 => self.delete(),
            60..75 => self.set_payload(),
            75..80 => self.overwrite_payload(),
            80..85 => self.update_vectors(),
            85..93 => self.collection().flush().expect("flushes"),
            93..97 => self.collection().wait_idle().expect("merges"),
            _ => self.reopen(),
        }
    }

    fn upsert(&mut self) {
        let points: Vec<Point> = (0..1 + self.rng.below(20))
            .map(|_| {
                let id = self.rng.below(200);
                let payload = match self.rng.below(3) {
                    0 => String::new(),
                    _ => format!(
                        "{{\"a\":{},\"b\":\"x{}\"}}",
                        self.rng.below(10),
                        self.rng.below(5)
                    ),
                };
                point(id, self.rng.vector(DIM), &payload)
            })
            .collect();
        for p in &points {
            let payload = if p.payload.is_empty() {
                "{}".into()
            } else {
                String::from_utf8(p.payload.clone()).unwrap()
            };
            self.model
                .insert(p.id, (p.vectors[0].1.dense().unwrap().to_vec(), payload));
        }
        self.collection().update(upsert(points)).expect("upserts");
    }

    fn delete(&mut self) {
        let ids: Vec<u64> = (0..1 + self.rng.below(10)).map(|_| self.rng.below(200)).collect();
        for id in &ids {
            self.model.remove(&PointId::Num(*id));
        }
        self.collection().update(delete(&ids)).expect("deletes");
    }

    /// Some ids that are there.
    fn known_ids(&mut self) -> Vec<PointId> {
        let known: Vec<PointId> = self.model.keys().copied().collect();
        if known.is_empty() {
            return known;
        }
        (0..1 + self.rng.below(6))
            .map(|_| known[self.rng.below(known.len() as u64) as usize])
            .collect()
    }

    fn set_payload(&mut self) {
        let ids = self.known_ids();
        let value = self.rng.below(100);
        for id in &ids {
            let (_, payload) = self.model.get_mut(id).unwrap();
            let mut object: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(payload).unwrap();
            object.insert("a".into(), value.into());
            *payload = serde_json::to_string(&object).unwrap();
        }
        let op = UpdateOp::SetPayload {
            payload: format!("{{\"a\":{value}}}").into_bytes(),
            key: None,
            points: PointsSelector::Ids(ids),
        };
        self.collection().update(op).expect("sets payload");
    }

    fn overwrite_payload(&mut self) {
        let filter = serde_json::from_str(r#"{"must":[{"key":"b","match":{"value":"x1"}}]}"#).unwrap();
        for (_, payload) in self.model.values_mut() {
            if payload.contains("\"x1\"") {
                *payload = "{\"c\":true}".into();
            }
        }
        let op = UpdateOp::OverwritePayload {
            payload: b"{\"c\":true}".to_vec(),
            points: PointsSelector::Filter(filter),
        };
        self.collection().update(op).expect("overwrites payload");
    }

    fn update_vectors(&mut self) {
        let ids = self.known_ids();
        let points: Vec<(_, NamedVectors)> = ids
            .iter()
            .map(|&id| {
                (
                    id,
                    vec![(DEFAULT_VECTOR.to_string(), self.rng.vector(DIM).into())],
                )
            })
            .collect();
        for (id, vectors) in &points {
            self.model.get_mut(id).unwrap().0 = vectors[0].1.dense().unwrap().to_vec();
        }
        self.collection()
            .update(UpdateOp::UpdateVectors { points, filter: None })
            .expect("updates vectors");
    }

    fn reopen(&mut self) {
        self.engine.close();
        let placeholder = open(Arc::new(RamStorage::new(None)));
        drop(std::mem::replace(&mut self.engine, placeholder));
        self.engine = open(self.storage.clone());
    }

    fn check(&mut self) {
        let mut scratch = self.engine.scratch().unwrap();
        let collection = self.collection();
        let found = contents(&collection, &mut scratch);
        let expected: Contents = self
            .model
            .iter()
            .map(|(id, (v, p))| (*id, (v.clone(), normal(p))))
            .collect();
        let found: Contents = found
            .into_iter()
            .map(|(id, (v, p))| (id, (v, normal(&p))))
            .collect();
        assert_eq!(found.len(), expected.len());
        for (id, want) in &expected {
            assert_eq!(found.get(id), Some(want), "point {id}");
        }
        assert_eq!(collection.info().points_count as usize, self.model.len());
        self.check_search(&collection, &mut scratch);
        self.check_retrieve(&collection, &mut scratch);
    }

    fn check_search(&mut self, collection: &Collection, scratch: &mut Scratch) {
        let query = self.rng.vector(DIM);
        let mut want: Vec<f32> = self.model.values().map(|(v, _)| distance(v, &query)).collect();
        want.sort_by(f32::total_cmp);
        want.truncate(10);
        let hits = collection
            .search(&search_request(query, 10), scratch)
            .expect("searches")
            .hits;
        assert_eq!(hits.len(), want.len());
        for (hit, want) in hits.iter().zip(&want) {
            assert!((hit.score - want).abs() < 1e-4, "{} for {want}", hit.score);
        }
    }

    fn check_retrieve(&mut self, collection: &Collection, scratch: &mut Scratch) {
        let ids: Vec<PointId> = (0..20).map(|_| PointId::Num(self.rng.below(220))).collect();
        let found = collection
            .retrieve(&ids, &PayloadSelector::All, &VectorSelector::None, scratch)
            .unwrap();
        let expected: Vec<PointId> = ids
            .iter()
            .copied()
            .filter(|id| self.model.contains_key(id))
            .collect();
        assert_eq!(found.iter().map(|r| r.id).collect::<Vec<_>>(), expected);
    }
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter()
        .zip(b)
        .map(|(x, y)| (x - y) * (x - y))
        .sum::<f32>()
        .sqrt()
}

/// The same JSON whatever the order of keys.
fn normal(payload: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(payload).unwrap();
    value.to_string()
}

fn run(storage: Arc<dyn Storage>, seed: u64, steps: usize) {
    let mut run = Run::new(storage, seed);
    for _ in 0..steps {
        run.step();
        run.check();
    }
}

#[test]
fn random_updates_in_ram() {
    for seed in 1..=6 {
        run(Arc::new(RamStorage::new(None)), seed * 77, 120);
    }
}

#[test]
fn random_updates_on_disk() {
    let dir = std::env::temp_dir().join(format!("ramlet-model-{}", std::process::id()));
    for backend in [
        ramlet_io::Backend::Auto,
        ramlet_io::Backend::Pread,
        ramlet_io::Backend::Mmap,
    ] {
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let (storage, _) = ramlet_io::open_best(&dir, backend).unwrap();
        run(storage, 5, 60);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
