//! A graph on disk through the engine: filtered, with deletes, after half of its points were replaced. Against brute force.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ramlet::filter::Filter;
use ramlet::*;
use ramlet_io::RamStorage;
use serde_json::json;

use crate::support::*;

const DIM: usize = 16;
const POINTS: usize = 6_000;
const CENTERS: u64 = 60;
const QUERIES: usize = 100;
const WANTED: usize = 10;
/// Aimed at, and how far a mean over the queries may be off.
const RECALL: f64 = 0.95;
const NOISE: f64 = 0.02;

struct Data {
    engine: Arc<Engine>,
    collection: Arc<Collection>,
    /// What each point has now; none where it is deleted.
    vectors: Vec<Option<Vec<f32>>>,
    queries: Vec<Vec<f32>>,
}

fn near(rng: &mut Rng, centers: &[Vec<f32>]) -> Vec<f32> {
    let center = &centers[rng.below(CENTERS) as usize];
    center
        .iter()
        .map(|c| c + 0.5 * (rng.float() + rng.float() + rng.float()))
        .collect()
}

/// By chance, in thousandths.
fn share_of(id: usize) -> u64 {
    ((id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 1000
}

fn empty(rng: &mut Rng, centers: &[Vec<f32>]) -> Data {
    let engine = Engine::open(Arc::new(RamStorage::new(None)), options(24 * MB)).expect("opens");
    let mut settings = config(DIM, Distance::Euclid);
    settings.indexing_threshold = Some(200);
    let params = settings.vectors.get_mut(DEFAULT_VECTOR).expect("is there");
    params.on_disk = Some(true);
    params.other = serde_json::from_value(json!({"index": "hnsw", "hnsw_config": {"on_disk": true}}))
        .expect("an object");
    engine.create_collection("c", settings).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let index = FieldIndex {
        kind: FieldKind::Integer,
        params: None,
    };
    collection.create_payload_index("known", index).expect("indexes");
    let mut queries = || near(rng, centers);
    Data {
        queries: (0..QUERIES).map(|_| queries()).collect(),
        engine,
        collection,
        vectors: vec![None; POINTS],
    }
}

impl Data {
    fn put(&mut self, ids: impl Iterator<Item = usize>, vectors: &mut dyn FnMut() -> Vec<f32>) {
        let ids: Vec<usize> = ids.collect();
        for some in ids.chunks(500) {
            let points = some.iter().map(|id| {
                let vector = vectors();
                self.vectors[*id] = Some(vector.clone());
                let payload = json!({"known": share_of(*id), "bare": share_of(*id)});
                point(*id as u64, vector, &payload.to_string())
            });
            self.collection.update(upsert(points.collect())).expect("upserts");
        }
    }

    fn settle(&self) {
        self.collection.flush().expect("flushes");
        self.collection.wait_idle().expect("settles");
        let reports = self.collection.segment_reports();
        let largest = reports.iter().max_by_key(|part| part.rows).expect("a segment");
        assert_eq!(largest.vectors[0].index, "hnsw");
    }

    /// Share of the true nearest that are found, among the points of these thousandths. Nothing else is found.
    fn recall(&self, field: Option<(&str, u64)>) -> f64 {
        let mut scratch = self.engine.scratch().expect("room");
        let matches = |id: usize| field.is_none_or(|(_, below)| share_of(id) < below);
        let filter = field.map(|(key, below)| {
            let range = json!({"key": key, "range": {"lt": below}});
            serde_json::from_value::<Filter>(json!({"must": [range]})).expect("a filter")
        });
        let (mut found, mut wanted) = (0, 0);
        for query in &self.queries {
            let distance =
                |vector: &[f32]| -> f32 { vector.iter().zip(query).map(|(a, b)| (a - b) * (a - b)).sum() };
            let live = self.vectors.iter().enumerate().filter(|(id, _)| matches(*id));
            let mut truth: Vec<(f32, u64)> = live
                .filter_map(|(id, vector)| Some((distance(vector.as_ref()?), id as u64)))
                .collect();
            truth.sort_by(|a, b| a.0.total_cmp(&b.0));
            truth.truncate(WANTED);
            let mut request = search_request(query.clone(), WANTED);
            request.filter = filter.clone();
            let hits = self
                .collection
                .search(&request, &mut scratch)
                .expect("searches")
                .hits;
            assert_eq!(hits.len(), truth.len(), "{field:?}");
            for hit in &hits {
                let PointId::Num(id) = hit.id else {
                    panic!("all ids are numbers")
                };
                let vector = self.vectors[id as usize].as_ref().expect("is not deleted");
                assert!(matches(id as usize), "{id} doesn't match {field:?}");
                assert!(
                    (distance(vector).sqrt() - hit.score).abs() < 1e-3,
                    "{id} as it is now"
                );
                found += usize::from(truth.iter().any(|(_, other)| *other == id));
            }
            wanted += truth.len();
        }
        found as f64 / wanted as f64
    }
}

#[test]
fn a_graph_keeps_its_recall_through_filters_deletes_and_replacement() {
    let mut rng = Rng(11);
    let centers: Vec<Vec<f32>> = (0..CENTERS).map(|_| rng.vector(DIM)).collect();
    let mut data = empty(&mut rng, &centers);
    // Half of the points elsewhere first.
    let mut elsewhere = || near(&mut rng, &centers).into_iter().rev().collect();
    data.put((0..POINTS).filter(|id| id % 2 == 0), &mut elsewhere);
    data.put((0..POINTS).filter(|id| id % 2 == 1), &mut || {
        near(&mut rng, &centers)
    });
    data.settle();
    assert!(data.recall(None) >= RECALL - NOISE, "{}", data.recall(None));
    for below in [500, 100, 10] {
        for key in ["known", "bare"] {
            let recall = data.recall(Some((key, below)));
            assert!(recall >= RECALL - NOISE, "{key} {below}/1000: {recall}");
        }
    }
    data.put((0..POINTS).filter(|id| id % 2 == 0), &mut || {
        near(&mut rng, &centers)
    });
    // Some of it is in the buffer, some in segments of their own.
    assert!(data.recall(None) >= RECALL - NOISE, "{}", data.recall(None));
    data.settle();
    let replaced = data.recall(None);
    let mut fresh = empty(&mut rng, &centers);
    fresh.queries.clone_from(&data.queries);
    let mut vectors = data.vectors.clone().into_iter().flatten();
    fresh.put(0..POINTS, &mut || vectors.next().expect("all are there"));
    fresh.settle();
    let built = fresh.recall(None);
    assert!(
        replaced >= built - 0.01,
        "{replaced} after replacing, {built} built"
    );

    // Fewer than make a rewrite.
    let gone: Vec<u64> = (0..POINTS as u64).filter(|id| id % 7 == 0).collect();
    data.collection.update(delete(&gone)).expect("deletes");
    gone.iter().for_each(|id| data.vectors[*id as usize] = None);
    assert!(data.recall(None) >= RECALL - NOISE, "{}", data.recall(None));
    assert!(data.recall(Some(("known", 100))) >= RECALL - NOISE);
}

#[test]
fn what_is_made_of_segments_is_told_meanwhile() {
    let mut rng = Rng(3);
    let centers: Vec<Vec<f32>> = (0..CENTERS).map(|_| rng.vector(DIM)).collect();
    let mut data = empty(&mut rng, &centers);
    let (collection, is_done) = (data.collection.clone(), AtomicBool::new(false));
    let seen = std::thread::scope(|scope| {
        let seen = scope.spawn(|| {
            let mut seen: Vec<(JobKind, u64, JobStep)> = Vec::new();
            while !is_done.load(Ordering::Relaxed) {
                if let Some(job) = collection.job_under_way()
                    && let Some(step) = job.step()
                    && seen.last().is_none_or(|(.., last)| *last != step)
                {
                    let rows = job.sources.iter().map(|(_, points)| points).sum();
                    seen.push((job.kind, rows, step));
                    let (planned, rest) = collection.planned_jobs();
                    let named = |all: &[(u64, u64)]| all.iter().any(|one| job.sources.contains(one));
                    let is_over = collection
                        .job_under_way()
                        .is_none_or(|now| now.segment != job.segment);
                    assert!(is_over || !named(&planned) && !named(&rest));
                }
                std::thread::yield_now();
            }
            seen
        });
        data.put(0..POINTS, &mut || near(&mut rng, &centers));
        data.settle();
        is_done.store(true, Ordering::Relaxed);
        seen.join().expect("asks")
    });
    assert!(data.collection.job_under_way().is_none());
    let of_graphs: Vec<_> = seen.iter().filter(|(.., step)| step.name == "compare").collect();
    assert!(!of_graphs.is_empty(), "{seen:?}");
    for (_, rows, step) in of_graphs {
        // Several times, in clusters that overlap.
        assert!(
            step.vector == DEFAULT_VECTOR && *rows > 0 && step.done <= step.total && step.total >= *rows,
            "{rows} {step:?}"
        );
    }
}
