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
const QUERIES: usize = 40;
const WANTED: usize = 10;
/// Matching points in a thousand.
const SHARES: [u64; 4] = [500, 100, 10, 1];

/// Aimed at, and how far a mean over half of the queries may be off.
const RECALL: f64 = 0.95;
const NOISE: f64 = 0.02;

/// Codes compared in the time of one row: what scanning codes costs is counted so.
const CODES_PER_ROW: u64 = 64;

struct Data {
    collection: Arc<Collection>,
    engine: Arc<Engine>,
    vectors: Vec<Vec<f32>>,
    /// By point: chance, place along a direction, and when it came, all 0..1000.
    random: Vec<u64>,
    along: Vec<u64>,
    came: Vec<u64>,
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

fn made() -> Data {
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
    let came: Vec<u64> = (0..POINTS).map(|i| (i * 1000 / POINTS) as u64).collect();
    for field in ["random", "along", "came"] {
        let index = FieldIndex {
            kind: FieldKind::Integer,
            params: None,
        };
        collection.create_payload_index(field, index).unwrap();
    }
    for from in (0..POINTS).step_by(2_000) {
        let points = (from..from + 2_000).map(|i| {
            let payload = json!({"random": random[i], "along": along[i], "came": came[i], "bare": random[i]});
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
        came,
        direction,
        centers,
    }
}

fn queries(data: &Data) -> Vec<Vec<f32>> {
    let mut rng = Rng(99);
    let mut one = || {
        let center = rng.below(CENTERS) as usize;
        near(&mut rng, &data.centers[center], 0.45)
    };
    (0..QUERIES).map(|_| one()).collect()
}

/// A query, and all points from the nearest on.
struct Asked {
    vector: Vec<f32>,
    order: Vec<u32>,
}

impl Data {
    fn asked(&self, vector: Vec<f32>) -> Asked {
        let distance = |i: u32| -> f32 {
            let pairs = self.vectors[i as usize].iter().zip(&vector);
            pairs.map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let mut all: Vec<(f32, u32)> = (0..POINTS as u32).map(|i| (distance(i), i)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let order = all.into_iter().map(|(_, i)| i).collect();
        Asked { vector, order }
    }

    /// Recall, and cost in rows compared, over the queries.
    fn measure(
        &self,
        queries: &[Asked],
        field: &str,
        range: std::ops::Range<u64>,
        scratch: &mut Scratch,
    ) -> (f64, f64, &'static str) {
        let values = match field {
            "along" => &self.along,
            "came" => &self.came,
            _ => &self.random,
        };
        let filter = filter(field, &range);
        let (mut found, mut total, mut cost, mut strategy) = (0, 0, 0, "");
        for query in queries {
            let matching = query
                .order
                .iter()
                .filter(|i| range.contains(&values[**i as usize]));
            let truth: Vec<u64> = matching.take(WANTED).map(|i| u64::from(*i)).collect();
            let mut request = search_request(query.vector.clone(), WANTED);
            request.filter = Some(filter.clone());
            request.params.explain = true;
            let answer = self.collection.search(&request, scratch).unwrap();
            let ids: Vec<u64> = answer.hits.iter().map(|hit| number(hit.id)).collect();
            assert!(
                ids.iter().all(|id| range.contains(&values[*id as usize])),
                "{field} {range:?}"
            );
            found += truth.iter().filter(|id| ids.contains(id)).count();
            total += truth.len();
            let of = |part: &Explained| part.rows_scored + part.codes_scanned / CODES_PER_ROW;
            cost += answer.explain.iter().map(of).sum::<u64>();
            strategy = answer.explain[0].strategy;
        }
        (
            found as f64 / total as f64,
            cost as f64 / queries.len() as f64,
            strategy,
        )
    }
}

fn filter(field: &str, range: &std::ops::Range<u64>) -> Filter {
    let range = json!({"gte": range.start, "lt": range.end});
    serde_json::from_value(json!({"must": [{"key": field, "range": range}]})).expect("a filter")
}

fn number(id: PointId) -> u64 {
    match id {
        PointId::Num(n) => n,
        PointId::Uuid(_) => panic!("all ids are numbers"),
    }
}

#[test]
fn searches_find_what_matches_and_their_recall_is_known() {
    let data = made();
    ranges_admit_what_is_in_them(&data);
    recall_holds_at_every_selectivity_and_costs_no_more_than_comparing_what_matches(&data);
    the_recall_that_is_measured_is_the_recall_there_is(&data);
}

/// From ranges of one value, in a block or two of a payload index, to all of them, in a hundred.
fn ranges_admit_what_is_in_them(data: &Data) {
    let mut scratch = data.engine.scratch().unwrap();
    let mut rng = Rng(31);
    for round in 0..120 {
        let width = [1, 2, 10, 50, 300, 1000][round % 6];
        let from = rng.below(1001 - width);
        let range = from..from + width;
        for (field, values) in [
            ("random", &data.random),
            ("along", &data.along),
            ("came", &data.came),
        ] {
            let matching = values.iter().filter(|value| range.contains(value)).count() as u64;
            let filter = filter(field, &range);
            let mut count = |exact| data.collection.count(Some(&filter), exact, &mut scratch);
            assert_eq!(count(true).unwrap(), matching, "{field} {range:?}");
            // Counted where the range begins and ends.
            if width == 1 {
                assert_eq!(count(false).unwrap(), matching, "{field} {range:?}");
            }
        }
    }
}

fn recall_holds_at_every_selectivity_and_costs_no_more_than_comparing_what_matches(data: &Data) {
    let mut scratch = data.engine.scratch().unwrap();
    let mut vectors = queries(data);
    // Along the direction: filters hold where the query is, or where it isn't.
    vectors.sort_by(|a, b| dot(a, &data.direction).total_cmp(&dot(b, &data.direction)));
    let queries: Vec<Asked> = vectors.into_iter().map(|vector| data.asked(vector)).collect();
    let (low, high) = queries.split_at(QUERIES / 2);
    let (mut sum, mut cases) = (0.0, 0);
    for share in SHARES {
        let matching = (POINTS as u64 * share / 1000) as f64;
        for (what, queries, field, range) in [
            ("by chance", queries.as_slice(), "random", 0..share),
            ("by chance, without an index", &queries, "bare", 0..share),
            ("the side of the query", high, "along", 1000 - share..1000),
            ("the other side", low, "along", 1000 - share..1000),
            ("a slice", &queries, "along", 500..500 + share),
            ("what came together", &queries, "came", 450..450 + share),
        ] {
            let (recall, cost, strategy) = data.measure(queries, field, range, &mut scratch);
            let told = format!(
                "{share}/1000 {what}: recall {recall:.3}, {cost:.0} rows for {matching} that match, {strategy}"
            );
            println!("{told}");
            assert!(recall >= RECALL - NOISE, "{told}");
            // Without an index of payloads nobody knows which rows match.
            let most = if field == "bare" { POINTS as f64 } else { matching };
            assert!(cost <= most, "{told}");
            (sum, cases) = (sum + recall, cases + 1);
        }
    }
    assert!(sum / f64::from(cases) >= RECALL, "{}", sum / f64::from(cases));
}

fn the_recall_that_is_measured_is_the_recall_there_is(data: &Data) {
    let mut scratch = data.engine.scratch().unwrap();
    assert!(data.collection.measured_recall().is_empty());
    // As it is at the end of each period: the last query is measured, the next one kept.
    data.engine.monitor_recall_once();
    let (mut found, mut queries_done) = (0, 0);
    for vector in queries(data) {
        let asked = data.asked(vector);
        let request = search_request(asked.vector.clone(), WANTED);
        let hits = data.collection.search(&request, &mut scratch).unwrap().hits;
        let is_true = |hit: &&ScoredPoint| asked.order[..WANTED].contains(&(number(hit.id) as u32));
        found += hits.iter().filter(is_true).count();
        queries_done += 1;
        while !data.engine.monitor_recall_once() {
            std::thread::yield_now();
        }
        while data
            .collection
            .measured_recall()
            .iter()
            .map(|m| m.queries)
            .sum::<u64>()
            < queries_done
        {
            std::thread::yield_now();
        }
        data.engine.monitor_recall_once();
    }
    let measured = &data.collection.measured_recall()[0];
    let recall = found as f64 / (WANTED * QUERIES) as f64;
    assert_eq!(
        (measured.vector.as_str(), measured.queries),
        (DEFAULT_VECTOR, QUERIES as u64)
    );
    assert!(
        (measured.recall - recall).abs() <= 0.02,
        "{measured:?}, in truth {recall}"
    );
    assert!(measured.error < 0.05, "{measured:?}");
}

#[test]
fn the_bitmap_of_a_filter_is_reserved() {
    let engine = open(Arc::new(RamStorage::new(None)));
    engine
        .create_collection("c", config(2, Distance::Euclid))
        .unwrap();
    let collection = engine.collection("c").unwrap();
    let index = FieldIndex {
        kind: FieldKind::Integer,
        params: None,
    };
    collection.create_payload_index("random", index).unwrap();
    let one = |i: u64| point(i, vec![i as f32, 1.0], &format!("{{\"random\":{}}}", i % 1000));
    collection.update(upsert((0..4_000).map(one).collect())).unwrap();
    collection.flush().unwrap();
    let mut scratch = engine.scratch().unwrap();
    let mut request = search_request(vec![7.0, 1.0], WANTED);
    request.filter = Some(filter("random", &(0..500)));
    assert_eq!(
        collection.search(&request, &mut scratch).unwrap().hits.len(),
        WANTED
    );
    let taken = engine.ledger().consumer("test", u64::MAX);
    let full = taken.reserve(taken.available() - 1_024).unwrap();
    let refused = collection.search(&request, &mut scratch);
    let e = refused.expect_err("2,000 rows are 4 KB");
    assert!(e.is_over_budget(), "{e}");
    drop(full);
    assert_eq!(
        collection.search(&request, &mut scratch).unwrap().hits.len(),
        WANTED
    );
}
