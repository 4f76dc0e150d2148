//! Queries of points that are given with their scores.

use std::sync::Arc;

use ramlet::filter::Filter;
use ramlet::*;
use ramlet_io::RamStorage;
use serde_json::json;

use crate::support::*;

const DIM: usize = 2;

/// Points 1 to 5 in a segment, but for 3, which is in the write buffer since, and 4, which is deleted.
fn filled() -> (Arc<Engine>, Arc<Collection>) {
    let engine = open(Arc::new(RamStorage::new(None)));
    engine
        .create_collection("c", config(DIM, Distance::Dot))
        .expect("creates");
    let collection = engine.collection("c").expect("is there");
    let one = |id| point(id, vec![id as f32; DIM], &format!("{{\"n\":{id}}}"));
    collection
        .update(upsert((1..6).map(one).collect()))
        .expect("stored");
    collection.flush().expect("flushes");
    collection.update(upsert(vec![one(3)])).expect("stored");
    collection.update(delete(&[4])).expect("deleted");
    (engine, collection)
}

fn given(points: &[(u64, f32)]) -> QueryKind {
    let each = points.iter();
    QueryKind::Given(each.map(|(id, score)| (PointId::Num(*id), *score)).collect())
}

fn asked(kind: QueryKind) -> QueryRequest {
    QueryRequest {
        query: Some(kind),
        using: DEFAULT_VECTOR.to_string(),
        ..QueryRequest::default()
    }
}

fn hits((engine, collection): &(Arc<Engine>, Arc<Collection>), request: QueryRequest) -> Vec<(u64, f32)> {
    let mut scratch = engine.scratch().expect("scratch");
    let found = collection.query(request, engine, &mut scratch).expect("answers");
    let id = |hit: &ScoredPoint| match hit.id {
        PointId::Num(id) => id,
        PointId::Uuid(_) => panic!("no such id"),
    };
    found.hits.iter().map(|hit| (id(hit), hit.score)).collect()
}

#[test]
fn they_keep_their_order_and_scores_wherever_they_are() {
    let filled = filled();
    let kind = given(&[(5, 0.5), (3, 2.0), (4, 1.0), (9, 1.0), (5, 7.0), (1, -1.0)]);
    let all = [(5, 0.5), (3, 2.0), (1, -1.0)];
    assert_eq!(hits(&filled, asked(kind.clone())), all);
    let filter: Filter =
        serde_json::from_value(json!({"must_not": [{"key": "n", "match": {"value": 3}}]})).expect("a filter");
    let filtered = QueryRequest {
        filter: Some(filter),
        ..asked(kind.clone())
    };
    assert_eq!(hits(&filled, filtered), [all[0], all[2]]);
    let threshold = QueryRequest {
        score_threshold: Some(0.5),
        limit: 1,
        offset: 1,
        ..asked(kind.clone())
    };
    assert_eq!(hits(&filled, threshold), [all[1]]);
    // As a list of a search: a formula has their scores.
    let scored = Formula {
        expression: Expression::Mult(vec![Expression::Constant(2.0), Expression::Score(0)]),
        defaults: Vec::new(),
    };
    let formula = QueryRequest {
        prefetch: vec![Prefetch {
            query: Some(kind),
            ..Prefetch::default()
        }],
        ..asked(QueryKind::Formula(scored))
    };
    assert_eq!(hits(&filled, formula), [(3, 4.0), (5, 1.0), (1, -2.0)]);
}

#[test]
fn what_no_search_finds_is_refused() {
    let (engine, collection) = filled();
    let mut scratch = engine.scratch().expect("scratch");
    let over = QueryRequest {
        prefetch: vec![Prefetch {
            query: Some(given(&[(1, 1.0)])),
            ..Prefetch::default()
        }],
        ..asked(given(&[(1, 1.0)]))
    };
    for request in [
        asked(given(&[(1, f32::NAN)])),
        asked(given(&[(1, f32::INFINITY)])),
        over,
    ] {
        let refused = collection.query(request, &engine, &mut scratch);
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::BadInput);
    }
}
