//! Recommendations by sums of scores over an index, where negative examples weigh as much as positive ones or more: the direction
//! they make leads where no rows are.

use std::sync::Arc;

use ramlet::*;
use ramlet_io::RamStorage;

use crate::support::*;

const DIM: usize = 96;
/// 9.6 MB: fewer are compared one by one.
const POINTS: u64 = 25_000;
const GROUPS: u64 = 100;
const QUERIES: u64 = 12;

fn vector(rng: &mut Rng, id: u64) -> Vec<f32> {
    let mut centre = Rng(1 + id % GROUPS);
    (0..DIM).map(|_| centre.float() + rng.float() * 0.5).collect()
}

/// Ids of the answer, and rows that all of them took.
fn found(engine: &Engine, request: &QueryRequest) -> (Vec<PointId>, u64) {
    let collection = engine.collection("c").expect("is there");
    let mut scratch = engine.scratch().expect("room for a scratch");
    let response = collection
        .query(request.clone(), engine, &mut scratch)
        .expect("answers");
    let ids = response.hits.iter().map(|hit| hit.id).collect();
    (ids, response.cost.rows_scanned)
}

/// Share of the exact answer that the index's has, and rows compared for it, on average.
fn recall(engine: &Engine, examples: impl Fn(u64) -> (Vec<u64>, Vec<u64>)) -> (f64, u64) {
    let (mut same, mut compared) = (0, 0);
    for query in 0..QUERIES {
        let (positive, negative) = examples(query);
        let ids = |ids: Vec<u64>| {
            ids.into_iter()
                .map(|id| QueryVector::Id(PointId::Num(id)))
                .collect()
        };
        let mut request = QueryRequest {
            query: Some(QueryKind::Recommend {
                positive: ids(positive),
                negative: ids(negative),
                strategy: RecommendStrategy::SumScores,
            }),
            using: DEFAULT_VECTOR.into(),
            limit: 10,
            ..QueryRequest::default()
        };
        let (approximate, rows) = found(engine, &request);
        compared += rows;
        request.params.exact = true;
        let (exact, _) = found(engine, &request);
        assert_eq!((approximate.len(), exact.len()), (10, 10));
        same += approximate.iter().filter(|id| exact.contains(id)).count();
    }
    (same as f64 / (10 * QUERIES) as f64, compared / QUERIES)
}

#[test]
fn directions_away_from_examples_find_the_best_too() {
    let engine = Engine::open(Arc::new(RamStorage::new(None)), options(64 * MB)).expect("opens");
    let mut settings = config(DIM, Distance::Cosine);
    settings.indexing_threshold = Some(100);
    engine.create_collection("c", settings).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let mut rng = Rng(5);
    for from in (0..POINTS).step_by(1_000) {
        let points = (from..from + 1_000).map(|id| point(id, vector(&mut rng, id), "{}"));
        collection.update(upsert(points.collect())).expect("is written");
    }
    collection.flush().expect("flushes");
    collection.wait_idle().expect("is done");

    let away = recall(&engine, |query| (vec![], vec![query * 131, query * 977 + 3]));
    assert!(away.0 >= 0.99, "negative examples alone: {away:?}");
    // Of the same group.
    let beside = recall(&engine, |query| (vec![query], vec![query + GROUPS]));
    assert!(beside.0 >= 0.99, "one of each, alike: {beside:?}");
    let (towards, compared) = recall(&engine, |query| (vec![query, query + GROUPS], vec![query + 7]));
    assert!(towards >= 0.9, "more positive ones: {towards}");
    assert!(compared < POINTS / 4, "those are found by the index: {compared}");
}
