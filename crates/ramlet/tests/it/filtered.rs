//! Filtered searches against a naive filter and brute force: recall, and what it costs, at selectivities from half to a
//! thousandth, whether the filter has to do with the query or not.

use std::sync::Arc;

use ramlet::filter::Filter;
use ramlet::*;
use ramlet_io::RamStorage;
use serde_json::json;

use crate::support::*;

const DIM: usize = 24;
const POINTS: usize = 50_000;
const CENTERS: u64 = 100;
const QUERIES: usize = 30;
const WANTED: usize = 10;
/// Matching points in a thousand.
const SHARES: [u64; 4] = [500, 100, 10, 1];

/// Codes compared in the time of one row: what scanning codes costs is counted so.
const CODES_PER_ROW: u64 = 32;

struct Data {
    collection: Arc<Collection>,
    engine: Arc<Engine>,
    vectors: Vec<Vec<f32>>,
    /// By point: chance, and place along a direction, both 0..1000.
    random: Vec<u64>,
    along: Vec<u64>,
    direction: Vec<f32>,
    centers: Vec<Vec<f32>>,
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn near(rng: &mut Rng, center: &[f32], spread: f32) -> Vec<f32> {
    center
        .iter()
        .map(|c| c + spread * (rng.float() + rng.float() + rng.float()))
        .collect()
}

fn data() -> Data {
    let mut rng = Rng(7);
    let centers: Vec<Vec<f32>> = (0..CENTERS).map(|_| rng.vector(DIM)).collect();
    let vectors: Vec<Vec<f32>> = (0..POINTS)
        .map(|_| {
            let center = rng.below(CENTERS) as usize;
            near(&mut rng, &centers[center], 0.45)
        })
        .collect();
    let direction = rng.vector(DIM);
    let random: Vec<u64> = vectors.iter().map(|_| rng.below(1000)).collect();
    let mut order: Vec<usize> = (0..POINTS).collect();
    order.sort_by(|a, b| dot(&vectors[*a], &direction).total_cmp(&dot(&vectors[*b], &direction)));
    let mut along = vec![0; POINTS];
    for (place, i) in order.into_iter().enumerate() {
        along[i] = (place * 1000 / POINTS) as u64;
    }
    let engine = Engine::open(Arc::new(RamStorage::new(None)), options(200 * MB)).expect("opens");
    let mut settings = config(DIM, Distance::Euclid);
    settings.indexing_threshold = Some(100);
    engine.create_collection("c", settings).unwrap();
    let collection = engine.collection("c").unwrap();
    for field in ["random", "along"] {
        let index = FieldIndex {
            kind: FieldKind::Integer,
            params: None,
        };
        collection.create_payload_index(field, index).unwrap();
    }
    for from in (0..POINTS).step_by(2_000) {
        let points = (from..from + 2_000).map(|i| {
            let payload = json!({"random": random[i], "along": along[i], "bare": random[i]});
            point(i as u64, vectors[i].clone(), &payload.to_string())
        });
        collection.update(upsert(points.collect())).unwrap();
    }
    collection.flush().unwrap();
    collection.wait_idle().unwrap();
    Data {
        collection,
        engine,
        vectors,
        random,
        along,
        direction,
        centers,
    }
}

impl Data {
    /// The nearest of the points that match, by looking at each.
    fn nearest(&self, query: &[f32], matches: &dyn Fn(usize) -> bool) -> Vec<u64> {
        let distance = |i: usize| -> f32 {
            let pairs = self.vectors[i].iter().zip(query);
            pairs.map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let mut all: Vec<(f32, u64)> = (0..POINTS)
            .filter(|i| matches(*i))
            .map(|i| (distance(i), i as u64))
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.truncate(WANTED);
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// Recall, and cost in rows compared, over the queries.
    fn measure(
        &self,
        queries: &[Vec<f32>],
        field: &str,
        range: std::ops::Range<u64>,
        scratch: &mut Scratch,
    ) -> (f64, f64, &'static str) {
        let values = if field == "along" { &self.along } else { &self.random };
        let text = json!({"must": [{"key": field, "range": {"gte": range.start, "lt": range.end}}]});
        let filter: Filter = serde_json::from_value(text).unwrap();
        let (mut found, mut total, mut cost, mut strategy) = (0, 0, 0, "");
        for query in queries {
            let truth = self.nearest(query, &|i| range.contains(&values[i]));
            let mut request = search_request(query.clone(), WANTED);
            request.filter = Some(filter.clone());
            request.params.explain = true;
            let answer = self.collection.search(&request, scratch).unwrap();
            let ids: Vec<u64> = answer.hits.iter().map(|hit| number(hit.id)).collect();
            assert!(ids.iter().all(|id| range.contains(&values[*id as usize])), "{field} {range:?}");
            found += truth.iter().filter(|id| ids.contains(id)).count();
            total += truth.len();
            let of = |part: &Explained| part.rows_scored + part.codes_scanned / CODES_PER_ROW;
            cost += answer.explain.iter().map(of).sum::<u64>();
            strategy = answer.explain[0].strategy;
        }
        (found as f64 / total as f64, cost as f64 / queries.len() as f64, strategy)
    }
}

fn number(id: PointId) -> u64 {
    match id {
        PointId::Num(n) => n,
        PointId::Uuid(_) => panic!("all ids are numbers"),
    }
}

#[test]
fn recall_holds_at_every_selectivity_and_costs_no_more_than_comparing_what_matches() {
    let data = data();
    let mut scratch = data.engine.scratch().unwrap();
    let mut rng = Rng(99);
    let queries: Vec<Vec<f32>> = (0..QUERIES)
        .map(|_| {
            let center = rng.below(CENTERS) as usize;
            near(&mut rng, &data.centers[center], 0.45)
        })
        .collect();
    // Ends of the direction: filters hold where the query is, or where it isn't.
    let mut sorted = queries.clone();
    sorted.extend((0..QUERIES).map(|i| data.vectors[i * 37].clone()));
    sorted.sort_by(|a, b| dot(a, &data.direction).total_cmp(&dot(b, &data.direction)));
    let (low, high) = (&sorted[..QUERIES / 2], &sorted[sorted.len() - QUERIES / 2..]);
    for share in SHARES {
        let matching = (POINTS as u64 * share / 1000) as f64;
        for (what, queries, field, range) in [
            ("by chance", queries.as_slice(), "random", 0..share),
            ("by chance, without an index", &queries, "bare", 0..share),
            ("the side of the query", high, "along", 1000 - share..1000),
            ("the other side", low, "along", 1000 - share..1000),
            ("a slice", &queries, "along", 500..500 + share),
        ] {
            let (recall, cost, strategy) = data.measure(queries, field, range, &mut scratch);
            println!("{share}/1000 {what}: recall {recall:.3}, {cost:.0} rows for {matching} that match, {strategy}");
        }
    }
}
