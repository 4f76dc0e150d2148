//! The engine against a map, with everything a collection can have: named vectors of all element types that points may lack,
//! ids of both kinds, payload indexes that come and go, approximate indexes, filters, restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ramlet::filter::Filter;
use ramlet::*;
use ramlet_io::{RamStorage, Storage};
use serde_json::{Value, json};

use crate::support::*;

const DIM: usize = 8;
/// Name, distance, element; values are such that each element type holds them exactly.
const VECTORS: [(&str, Distance, Datatype); 5] = [
    ("a", Distance::Cosine, Datatype::Float32),
    ("h", Distance::Euclid, Datatype::Float16),
    ("u", Distance::Dot, Datatype::Uint8),
    ("several", Distance::Euclid, Datatype::Float16),
    ("several bytes", Distance::Dot, Datatype::Uint8),
];

/// Whether points have several vectors of a name.
fn is_multi(name: &str) -> bool {
    name.starts_with("several")
}

fn vector_of(name: &str, values: Vec<f32>) -> Vector {
    match is_multi(name) {
        true => MultiVector { dim: DIM, values }.into(),
        false => values.into(),
    }
}

struct Known {
    vectors: BTreeMap<String, Vec<f32>>,
    payload: Value,
}

/// Whether a filter is to let a point pass.
type Admits = dyn Fn(&PointId, &Known) -> bool;

struct Run {
    storage: Arc<dyn Storage>,
    engine: Option<Arc<Engine>>,
    model: BTreeMap<PointId, Known>,
    indexed: BTreeSet<&'static str>,
    /// Vectors that the collection has not, for now.
    dropped: BTreeSet<&'static str>,
    rng: Rng,
}

/// Vectors of this test as numbers, of several one after another.
fn numbers(vectors: NamedVectors) -> impl Iterator<Item = (String, Vec<f32>)> {
    vectors.into_iter().map(|(name, vector)| match vector {
        Vector::Dense(values) => (name, values),
        Vector::Multi(multi) => (name, multi.values),
        Vector::Sparse(_) => panic!("`{name}` is sparse"),
    })
}

fn params(name: &str, distance: Distance, datatype: Datatype) -> VectorParams {
    VectorParams {
        size: DIM,
        distance,
        datatype: Some(datatype),
        on_disk: None,
        multivector_config: is_multi(name).then_some(MultiVectorConfig {
            comparator: MultiVectorComparator::MaxSim,
        }),
        other: BTreeMap::new(),
    }
}

impl Run {
    fn new(seed: u64) -> Run {
        let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
        let engine = open(storage.clone());
        let vectors = VECTORS
            .iter()
            .map(|(name, distance, datatype)| (name.to_string(), params(name, *distance, *datatype)));
        let settings = CollectionConfig {
            vectors: vectors.collect(),
            // Segments of a few dozen rows get an approximate index.
            indexing_threshold: Some(1),
            ..Default::default()
        };
        engine.create_collection("c", settings).unwrap();
        let (model, indexed, dropped, rng) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new(), Rng(seed));
        Run {
            storage,
            engine: Some(engine),
            model,
            indexed,
            dropped,
            rng,
        }
    }

    fn engine(&self) -> &Arc<Engine> {
        self.engine.as_ref().expect("is open")
    }

    fn collection(&self) -> Arc<Collection> {
        self.engine().collection("c").unwrap()
    }

    fn id(&mut self) -> PointId {
        match self.rng.below(400) {
            n @ 0..200 => PointId::Num(n * 7),
            n => PointId::Uuid(u128::from(n) << 90 | u128::from(n)),
        }
    }

    fn vector(&mut self, name: &str) -> Vec<f32> {
        let zero = self.rng.below(25) == 0;
        let parts = match is_multi(name) {
            true => 1 + self.rng.below(4) as usize,
            false => 1,
        };
        let mut value = || match (zero, name) {
            (true, _) => 0.0,
            (_, "u" | "several bytes") => self.rng.below(256) as f32,
            (_, "h" | "several") => self.rng.below(64) as f32 / 16.0 - 2.0,
            _ => self.rng.float(),
        };
        (0..DIM * parts).map(|_| value()).collect()
    }

    /// Some of the vectors, sometimes none.
    fn vectors(&mut self) -> NamedVectors {
        let mut chosen = Vec::new();
        for (name, ..) in VECTORS {
            if self.rng.below(3) > 0 && !self.dropped.contains(name) {
                chosen.push((name.to_string(), vector_of(name, self.vector(name))));
            }
        }
        chosen
    }

    fn payload(&mut self) -> Value {
        let word = format!("w{}", self.rng.below(4));
        match self.rng.below(4) {
            0 => json!({}),
            1 => json!({"n": [self.rng.below(12), self.rng.below(12)], "k": word}),
            2 => json!({"k": [word, "x"]}),
            _ => json!({"n": self.rng.below(12), "k": word}),
        }
    }

    fn some_ids(&mut self) -> Vec<PointId> {
        let known: Vec<PointId> = self.model.keys().copied().collect();
        let count = 1 + self.rng.below(12);
        (0..count.min(known.len() as u64))
            .map(|_| known[self.rng.below(known.len() as u64) as usize])
            .collect()
    }

    fn step(&mut self) {
        match self.rng.below(103) {
            100..103 => self.toggle_vector(),
            0..40 => self.upsert(),
            40..50 => self.delete(),
            50..58 => self.set_payload(),
            58..66 => self.update_vectors(),
            66..72 => self.delete_vectors(),
            72..82 => self.collection().flush().unwrap(),
            82..88 => self.collection().wait_idle().unwrap(),
            88..95 => self.toggle_index(),
            _ => self.reopen(),
        }
    }

    fn upsert(&mut self) {
        let mode = match self.rng.below(4) {
            0 => UpdateMode::InsertOnly,
            1 => UpdateMode::UpdateOnly,
            _ => UpdateMode::Upsert,
        };
        let mut points = Vec::new();
        for _ in 0..1 + self.rng.below(60) {
            let (id, vectors, payload) = (self.id(), self.vectors(), self.payload());
            points.push(Point {
                id,
                vectors: vectors.clone(),
                payload: payload.to_string().into_bytes(),
            });
            let wanted = match mode {
                UpdateMode::Upsert => true,
                UpdateMode::InsertOnly => !self.model.contains_key(&id),
                UpdateMode::UpdateOnly => self.model.contains_key(&id),
            };
            if wanted {
                self.model.insert(
                    id,
                    Known {
                        vectors: numbers(vectors).collect(),
                        payload,
                    },
                );
            }
        }
        self.collection()
            .update(UpdateOp::Upsert {
                points,
                filter: None,
                mode,
            })
            .unwrap();
    }

    fn delete(&mut self) {
        let points = match self.rng.below(3) {
            0 => {
                let n = self.rng.below(12);
                self.model.retain(|_, known| !ints(&known.payload).contains(&n));
                PointsSelector::Filter(filter(json!({"must": {"key": "n", "match": {"value": n}}})))
            }
            _ => {
                let ids = self.some_ids();
                ids.iter().for_each(|id| {
                    self.model.remove(id);
                });
                PointsSelector::Ids(ids)
            }
        };
        self.collection().update(UpdateOp::Delete(points)).unwrap();
    }

    fn set_payload(&mut self) {
        let (ids, value) = (self.some_ids(), self.rng.below(12));
        for id in &ids {
            self.model.get_mut(id).unwrap().payload["n"] = value.into();
        }
        let payload = json!({"n": value}).to_string().into_bytes();
        let points = PointsSelector::Ids(ids);
        self.collection()
            .update(UpdateOp::SetPayload {
                payload,
                key: None,
                points,
            })
            .unwrap();
    }

    fn update_vectors(&mut self) {
        let points: Vec<_> = self
            .some_ids()
            .into_iter()
            .map(|id| (id, self.vectors()))
            .collect();
        for (id, vectors) in &points {
            self.model
                .get_mut(id)
                .unwrap()
                .vectors
                .extend(numbers(vectors.clone()));
        }
        self.collection()
            .update(UpdateOp::UpdateVectors { points, filter: None })
            .unwrap();
    }

    fn delete_vectors(&mut self) {
        let name = VECTORS[self.rng.below(5) as usize].0;
        let k = format!("w{}", self.rng.below(4));
        if self.dropped.contains(name) {
            return;
        }
        for known in self
            .model
            .values_mut()
            .filter(|known| words(&known.payload).contains(&k))
        {
            known.vectors.remove(name);
        }
        let points = PointsSelector::Filter(filter(json!({"must": {"key": "k", "match": {"value": k}}})));
        self.collection()
            .update(UpdateOp::DeleteVectors {
                names: vec![name.into()],
                points,
            })
            .unwrap();
    }

    fn toggle_index(&mut self) {
        let (field, kind) =
            [("n", FieldKind::Integer), ("k", FieldKind::Keyword)][self.rng.below(2) as usize];
        if self.indexed.remove(field) {
            self.collection().delete_payload_index(field).unwrap();
        } else {
            self.indexed.insert(field);
            // Rows lie in the order of the keywords from then on.
            let params = (field == "k").then(|| json!({"type": "keyword", "is_tenant": true}));
            self.collection()
                .create_payload_index(field, FieldIndex { kind, params })
                .unwrap();
        }
    }

    /// A name that comes back: with nothing of what it had before.
    fn toggle_vector(&mut self) {
        let (name, distance, datatype) = VECTORS[self.rng.below(5) as usize];
        let collection = self.collection();
        if self.dropped.remove(name) {
            let new = NewVector::Dense(Box::new(params(name, distance, datatype)));
            collection.create_vector_name(name, &new).unwrap();
            collection.create_vector_name(name, &new).unwrap();
            return;
        }
        self.dropped.insert(name);
        collection.delete_vector_name(name).unwrap();
        collection.delete_vector_name(name).unwrap();
        for known in self.model.values_mut() {
            known.vectors.remove(name);
        }
        let request = SearchRequest {
            using: name.into(),
            query: QueryVector::Vector(vector_of(name, vec![0.5; DIM])),
            ..search_request(Vec::new(), 3)
        };
        let error = collection.search(&request, &mut self.engine().scratch().unwrap());
        assert_eq!(error.unwrap_err().kind(), ErrorKind::BadInput);
    }

    fn reopen(&mut self) {
        let engine = self.engine.take().unwrap();
        engine.close();
        drop(engine);
        self.engine = Some(open(self.storage.clone()));
    }

    fn check(&mut self) {
        let collection = self.collection();
        let mut scratch = self.engine().scratch().unwrap();
        assert_eq!(collection.info().points_count as usize, self.model.len());
        self.check_contents(&collection, &mut scratch);
        for _ in 0..3 {
            let (filter, ids) = self.filter();
            assert_eq!(
                collection.count(Some(&filter), true, &mut scratch).unwrap() as usize,
                ids.len(),
                "{filter:?}"
            );
            self.check_scroll(&collection, &filter, &ids, &mut scratch);
            self.check_search(&collection, &filter, &ids, &mut scratch);
            if self.indexed.contains("n") {
                self.check_order(&collection, &filter, &ids, &mut scratch);
            }
        }
    }

    fn check_contents(&self, collection: &Collection, scratch: &mut Scratch) {
        let ids: Vec<PointId> = self.model.keys().copied().collect();
        let found = collection
            .retrieve(&ids, &PayloadSelector::All, &VectorSelector::All, scratch)
            .unwrap();
        assert_eq!(found.iter().map(|r| r.id).collect::<Vec<_>>(), ids);
        for (record, known) in found.iter().zip(self.model.values()) {
            let payload: Value = serde_json::from_slice(record.payload.as_ref().unwrap()).unwrap();
            assert_eq!(payload, known.payload, "{}", record.id);
            let vectors: BTreeMap<_, _> = numbers(record.vectors.clone().unwrap()).collect();
            assert_eq!(
                vectors.keys().collect::<Vec<_>>(),
                known.vectors.keys().collect::<Vec<_>>(),
                "{}",
                record.id
            );
            for (name, want) in &known.vectors {
                let want = if name == "a" { unit(want) } else { want.clone() };
                let same = vectors[name].iter().zip(&want).all(|(x, y)| (x - y).abs() < 1e-6);
                assert!(same, "{} {name}: {:?} for {want:?}", record.id, vectors[name]);
            }
        }
    }

    /// A filter and the points that match it.
    fn filter(&mut self) -> (Filter, BTreeSet<PointId>) {
        let (n, k) = (self.rng.below(12), format!("w{}", self.rng.below(4)));
        let some: BTreeSet<PointId> = (0..20).map(|_| self.id()).collect();
        let name = VECTORS[self.rng.below(5) as usize].0;
        let (text, admits): (Value, Box<Admits>) = match self.rng.below(7) {
            0 => (
                json!({"must": {"key": "n", "match": {"value": n}}}),
                Box::new(move |_, p| ints(&p.payload).contains(&n)),
            ),
            1 => (
                json!({"must": {"key": "n", "range": {"gte": n, "lt": n + 3}}}),
                Box::new(move |_, p| ints(&p.payload).iter().any(|v| (n..n + 3).contains(v))),
            ),
            2 => (
                json!({"must_not": {"key": "k", "match": {"value": k}}}),
                Box::new(move |_, p| !words(&p.payload).contains(&k)),
            ),
            3 => (
                json!({"must": {"has_id": some}}),
                Box::new(move |id, _| some.contains(id)),
            ),
            4 => (
                json!({"should": [{"has_id": some}, {"key": "k", "match": {"value": k}}]}),
                Box::new(move |id, p| some.contains(id) || words(&p.payload).contains(&k)),
            ),
            5 => (
                json!({"must": {"has_vector": name}}),
                Box::new(move |_, p| p.vectors.contains_key(name)),
            ),
            _ => (
                json!({"must": [{"key": "n", "range": {"gte": n}}, {"key": "k", "match": {"value": k}}]}),
                Box::new(move |_, p| {
                    ints(&p.payload).iter().any(|v| *v >= n) && words(&p.payload).contains(&k)
                }),
            ),
        };
        let ids = self
            .model
            .iter()
            .filter(|(id, known)| admits(id, known))
            .map(|(id, _)| *id)
            .collect();
        (filter(text), ids)
    }

    fn check_scroll(
        &mut self,
        collection: &Collection,
        filter: &Filter,
        ids: &BTreeSet<PointId>,
        scratch: &mut Scratch,
    ) {
        let from = self.id();
        let mut request = scroll_request(1 + self.rng.below(40) as usize);
        (request.filter, request.offset) = (Some(filter.clone()), Some(from));
        let mut seen = Vec::new();
        loop {
            let page = collection.scroll(&request, scratch).unwrap();
            assert!(page.points.len() == request.limit || page.next.is_none());
            seen.extend(page.points.iter().map(|r| r.id));
            match page.next {
                Some(next) => request.offset = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, ids.range(from..).copied().collect::<Vec<_>>(), "{filter:?}");
    }

    fn check_order(
        &mut self,
        collection: &Collection,
        filter: &Filter,
        ids: &BTreeSet<PointId>,
        scratch: &mut Scratch,
    ) {
        let direction = [Direction::Asc, Direction::Desc][self.rng.below(2) as usize];
        let start = (self.rng.below(2) == 0).then(|| self.rng.below(12) as i64);
        let mut want = Vec::new();
        for id in ids {
            let values: BTreeSet<u64> = ints(&self.model[id].payload).into_iter().collect();
            want.extend(values.into_iter().map(|v| (v as i64, *id)));
        }
        want.retain(|(value, _)| match (start, direction) {
            (None, _) => true,
            (Some(start), Direction::Asc) => *value >= start,
            (Some(start), Direction::Desc) => *value <= start,
        });
        want.sort_unstable();
        if direction == Direction::Desc {
            want.reverse();
        }
        let mut request = scroll_request(1 + self.rng.below(60) as usize);
        request.filter = Some(filter.clone());
        request.order_by = Some(OrderBy {
            key: "n".into(),
            direction,
            start_from: start.map(OrderValue::Int),
        });
        let page = collection.scroll(&request, scratch).unwrap();
        let found: Vec<(i64, PointId)> = page
            .points
            .iter()
            .map(|r| match r.order_value {
                Some(OrderValue::Int(value)) => (value, r.id),
                other => panic!("order value {other:?}"),
            })
            .collect();
        let values = |pairs: &[(i64, PointId)]| pairs.iter().map(|(v, _)| *v).collect::<Vec<_>>();
        want.truncate(request.limit.max(found.len()));
        assert_eq!(values(&found), values(&want), "{filter:?}");
        assert_eq!(
            found.iter().collect::<BTreeSet<_>>().len(),
            found.len(),
            "a value of a point came twice"
        );
    }

    fn check_search(
        &mut self,
        collection: &Collection,
        filter: &Filter,
        ids: &BTreeSet<PointId>,
        scratch: &mut Scratch,
    ) {
        let (name, distance, _) = VECTORS[self.rng.below(5) as usize];
        if self.dropped.contains(name) {
            return;
        }
        let query = self.vector(name);
        let (limit, offset) = (1 + self.rng.below(50) as usize, self.rng.below(30) as usize);
        let mut want: Vec<f32> = ids
            .iter()
            .filter_map(|id| Some(max_sim(distance, self.model[id].vectors.get(name)?, &query)))
            .collect();
        want.sort_by(f32::total_cmp);
        if distance.larger_is_nearer() {
            want.reverse();
        }
        let all = want.len();
        let want: Vec<f32> = want.into_iter().skip(offset).take(limit).collect();
        let mut request = search_request(Vec::new(), limit);
        request.query = QueryVector::Vector(vector_of(name, query));
        (request.using, request.offset, request.filter) = (name.into(), offset, Some(filter.clone()));
        request.params.exact = true;
        let hits = collection.search(&request, scratch).unwrap().hits;
        assert_eq!(hits.len(), want.len(), "{name} {filter:?}");
        for (hit, want) in hits.iter().zip(&want) {
            assert!(
                (hit.score - want).abs() <= want.abs() * 1e-5 + 1e-4,
                "{name}: {} for {want}",
                hit.score
            );
        }
        // Approximate: never a wrong point, never one twice.
        (request.params.exact, request.offset, request.limit) = (false, 0, 500);
        let hits = collection.search(&request, scratch).unwrap().hits;
        let found: BTreeSet<PointId> = hits.iter().map(|h| h.id).collect();
        assert_eq!(found.len(), hits.len());
        assert!(
            found
                .iter()
                .all(|id| ids.contains(id) && self.model[id].vectors.contains_key(name))
        );
        assert!(found.len() <= all);
        self.check_search_by_id(collection, name, scratch);
    }

    fn check_search_by_id(&mut self, collection: &Collection, name: &str, scratch: &mut Scratch) {
        let Some(&id) = self.some_ids().first() else {
            return;
        };
        let mut request = search_request(Vec::new(), 500);
        (request.using, request.query, request.params.exact) = (name.into(), QueryVector::Id(id), true);
        let found = collection.search(&request, scratch);
        if !self.model[&id].vectors.contains_key(name) {
            assert!(found.unwrap_err().is_not_found());
            return;
        }
        let hits = found.unwrap().hits;
        let others = self
            .model
            .iter()
            .filter(|(other, known)| **other != id && known.vectors.contains_key(name));
        assert_eq!(hits.len(), others.count());
        assert!(hits.iter().all(|h| h.id != id));
    }
}

fn filter(value: Value) -> Filter {
    serde_json::from_value(value).unwrap()
}

fn many(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    }
}

fn ints(payload: &Value) -> Vec<u64> {
    many(&payload["n"]).iter().filter_map(Value::as_u64).collect()
}

fn words(payload: &Value) -> Vec<String> {
    many(&payload["k"])
        .iter()
        .filter_map(|v| v.as_str().map(str::to_string))
        .collect()
}

fn unit(v: &[f32]) -> Vec<f32> {
    let norm = v.iter().map(|x| x * x).sum::<f32>().sqrt();
    v.iter()
        .map(|x| if norm > 0.0 { x / norm } else { 0.0 })
        .collect()
}

/// The score of one vector, or the sum of each query part's best match; distances are summed squared.
fn max_sim(distance: Distance, row: &[f32], query: &[f32]) -> f32 {
    if query.len() == DIM && row.len() == DIM {
        return score(distance, row, query);
    }
    let best = |part: &[f32]| {
        let scores = row.chunks(DIM).map(|other| score(distance, other, part));
        match distance.larger_is_nearer() {
            true => scores.fold(f32::NEG_INFINITY, f32::max),
            false => scores.map(|s| s * s).fold(f32::INFINITY, f32::min),
        }
    };
    let sum: f32 = query.chunks(DIM).map(best).sum();
    match distance {
        Distance::Euclid => sum.sqrt(),
        _ => sum,
    }
}

fn score(distance: Distance, a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    match distance {
        Distance::Cosine => dot(&unit(a), &unit(b)),
        Distance::Dot => dot(a, b),
        _ => a
            .iter()
            .zip(b)
            .map(|(x, y)| (x - y) * (x - y))
            .sum::<f32>()
            .sqrt(),
    }
}

fn run(seed: u64, steps: usize) {
    let mut run = Run::new(seed);
    let mut most = 0;
    for _ in 0..steps {
        run.step();
        run.check();
        most = most.max(run.collection().info().indexed_vectors_count);
    }
    assert!(most > 0, "no segment had an approximate index");
}

#[test]
fn everything_at_once() {
    for seed in 1..=3 {
        run(seed * 991, 120);
    }
}

/// Points without any vector: payloads only.
#[test]
fn a_collection_without_vectors() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let engine = open(storage.clone());
    engine
        .create_collection("c", CollectionConfig::default())
        .unwrap();
    let collection = engine.collection("c").unwrap();
    let bare = |id, payload: &str| Point {
        id: PointId::Num(id),
        vectors: Vec::new(),
        payload: payload.into(),
    };
    collection
        .update(upsert((0..50).map(|id| bare(id, "{\"n\":1}")).collect()))
        .unwrap();
    collection.flush().unwrap();
    collection
        .update(upsert((40..60).map(|id| bare(id, "")).collect()))
        .unwrap();
    collection.update(delete(&[0, 59])).unwrap();
    collection.flush().unwrap();
    collection.wait_idle().unwrap();
    let error = collection
        .search(&search_request(vec![1.0], 3), &mut engine.scratch().unwrap())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
    drop(collection);
    engine.close();
    drop(engine);
    let engine = open(storage);
    let found = contents(&engine.collection("c").unwrap(), &mut engine.scratch().unwrap());
    assert_eq!(found.len(), 58);
    assert_eq!(found.values().filter(|(_, payload)| payload == "{}").count(), 19);
    // All gone: a segment of no rows is none.
    let collection = engine.collection("c").unwrap();
    collection.update(delete(&(0..60).collect::<Vec<_>>())).unwrap();
    collection.wait_idle().unwrap();
    assert_eq!(
        (collection.info().points_count, collection.info().segments_count),
        (0, 0)
    );
}

/// Rows of a memtable lie in pieces: more than one of each kind is looked at here.
#[test]
fn rows_that_were_just_written_are_all_compared() {
    const ROWS: u64 = 10_000;
    let engine = open(Arc::new(RamStorage::new(None)));
    engine
        .create_collection("c", config(DIM, Distance::Dot))
        .expect("creates");
    let collection = engine.collection("c").expect("is there");
    let mut rng = Rng(7);
    let vectors: Vec<Vec<f32>> = (0..ROWS).map(|_| rng.vector(DIM)).collect();
    for (first, some) in (0..).step_by(1_000).zip(vectors.chunks(1_000)) {
        let points = (first..).zip(some).map(|(id, v)| point(id, v.clone(), ""));
        collection.update(upsert(points.collect())).expect("upserts");
    }
    let gone: Vec<u64> = (0..ROWS).step_by(7).collect();
    collection.update(delete(&gone)).expect("deletes");
    assert_eq!(collection.info().segments_count, 1, "all are in the memtable");
    let mut scratch = engine.scratch().expect("memory");
    for _ in 0..20 {
        let query = rng.vector(DIM);
        let score = |id: u64| {
            let of = &vectors[id as usize];
            of.iter().zip(&query).map(|(a, b)| a * b).sum::<f32>()
        };
        let mut expected: Vec<u64> = (0..ROWS).filter(|id| id % 7 != 0).collect();
        expected.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
        let expected: Vec<f32> = expected[..10].iter().map(|id| score(*id)).collect();
        // Of the search itself, and of the one that scores every row.
        for exact in [false, true] {
            let mut request = search_request(query.clone(), 10);
            request.params.exact = exact;
            let found = collection.search(&request, &mut scratch).expect("searches").hits;
            let found: Vec<f32> = found.iter().map(|hit| hit.score).collect();
            let differs = found.iter().zip(&expected).any(|(a, b)| (a - b).abs() > 1e-5);
            assert!(found.len() == 10 && !differs, "{found:?}, {expected:?}");
        }
    }
}
