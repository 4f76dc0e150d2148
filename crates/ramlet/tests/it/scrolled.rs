//! Pages of points that few match: equal to a naive filter, and without a walk through all ids or values.

use std::collections::BTreeSet;
use std::sync::Arc;

use ramlet::filter::Filter;
use ramlet::*;
use ramlet_io::{RamStorage, Storage};
use serde_json::{Value, json};

use crate::counts::{engine, loading_budget, searching_budget};
use crate::support::*;

const POINTS: u64 = 60_000;
/// Points of a tenant.
const EACH: u64 = 12;
const TENANTS: u64 = POINTS / EACH;

/// Ids have nothing to do with the order in which points came.
fn id(n: u64) -> u64 {
    n * 7_919 % 1_000_003
}

fn tenant(n: u64) -> u64 {
    n % TENANTS
}

/// Values of a field to order by; a third of the points has two, some twice the same.
fn values(n: u64) -> Vec<i64> {
    let first = (n * 31 % 997) as i64;
    match n % 3 {
        0 => vec![first, (n % 7) as i64],
        _ => vec![first, first],
    }
}

fn payload(n: u64) -> Value {
    json!({"t": format!("t{}", tenant(n)), "n": values(n), "bare": n % 2})
}

fn is_deleted(n: u64) -> bool {
    n.is_multiple_of(11)
}

/// The first of them lie in a segment, the rest in a buffer.
fn made(storage: &Arc<dyn Storage>) {
    let engine = engine(storage, loading_budget());
    engine
        .create_collection("c", config(2, Distance::Dot))
        .expect("creates");
    let collection = engine.collection("c").expect("is there");
    for (field, kind) in [("t", FieldKind::Keyword), ("n", FieldKind::Integer)] {
        let index = FieldIndex { kind, params: None };
        collection.create_payload_index(field, index).expect("indexes");
    }
    for from in (0..POINTS).step_by(1_000) {
        let points = (from..from + 1_000).map(|n| point(id(n), vec![1.0, 0.0], &payload(n).to_string()));
        collection.update(upsert(points.collect())).expect("upserts");
        if from + 2_000 == POINTS {
            collection.flush().expect("flushes");
            collection.wait_idle().expect("settles");
        }
    }
    let gone: Vec<u64> = (0..POINTS).filter(|n| is_deleted(*n)).map(id).collect();
    collection.update(delete(&gone)).expect("deletes");
    engine.close();
}

fn of_tenant(t: u64, more: Value) -> Filter {
    let filter = json!({"must": [{"key": "t", "match": {"value": format!("t{t}")}}, more]});
    serde_json::from_value(filter).expect("a filter")
}

fn anything() -> Value {
    json!({"must_not": [{"has_id": [2_000_000]}]})
}

/// Ids, page by page, from one on.
fn pages(
    collection: &Collection,
    filter: &Filter,
    (limit, from): (usize, u64),
    scratch: &mut Scratch,
) -> Vec<PointId> {
    let mut request = scroll_request(limit);
    (request.filter, request.offset) = (Some(filter.clone()), Some(PointId::Num(from)));
    let mut seen = Vec::new();
    loop {
        let page = collection.scroll(&request, scratch).expect("scrolls");
        assert!(page.points.len() == limit || page.next.is_none());
        seen.extend(page.points.iter().map(|record| record.id));
        request.offset = page.next;
        if request.offset.is_none() {
            return seen;
        }
    }
}

fn ordered(
    collection: &Collection,
    filter: &Filter,
    order: &OrderBy,
    scratch: &mut Scratch,
) -> Vec<(i64, PointId)> {
    let mut request = scroll_request(7);
    (request.filter, request.order_by) = (Some(filter.clone()), Some(order.clone()));
    let page = collection.scroll(&request, scratch).expect("scrolls");
    let value = |record: &Record| match record.order_value {
        Some(OrderValue::Int(value)) => (value, record.id),
        other => panic!("order value {other:?}"),
    };
    page.points.iter().map(value).collect()
}

/// The first seven values that a naive filter finds.
fn expected(t: u64, is_left: impl Fn(u64) -> bool, order: &OrderBy) -> Vec<i64> {
    let rows = (0..POINTS).filter(|n| tenant(*n) == t && is_left(*n));
    let mut all: Vec<i64> = rows
        .flat_map(|n| values(n).into_iter().collect::<BTreeSet<i64>>())
        .collect();
    all.sort_unstable();
    let start = match order.start_from {
        Some(OrderValue::Int(start)) => Some(start),
        _ => None,
    };
    if order.direction == Direction::Desc {
        all.reverse();
        all.retain(|value| start.is_none_or(|start| *value <= start));
    }
    all.retain(|value| order.direction == Direction::Desc || start.is_none_or(|start| *value >= start));
    all.truncate(7);
    all
}

#[test]
fn few_points_are_found_without_a_walk_through_all() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    made(&storage);
    let engine = engine(&storage, searching_budget(MB));
    let collection = engine.collection("c").expect("is there");
    let scratch = &mut engine.scratch().expect("enough");
    let blocks = |scratch: &mut Scratch| {
        let stats = scratch.lookup.io.take_stats();
        stats.reads + stats.cache_hits
    };
    blocks(scratch);
    for t in [0, 1, 777, TENANTS - 1] {
        // One with a condition that no index answers: each candidate's payload is looked at.
        for (more, is_odd) in [
            (anything(), false),
            (json!({"key": "bare", "match": {"value": 1}}), true),
        ] {
            let is_left = |n: u64| !is_deleted(n) && (!is_odd || n % 2 == 1);
            let filter = of_tenant(t, more);
            let all: BTreeSet<u64> = (0..POINTS)
                .filter(|n| tenant(*n) == t && is_left(*n))
                .map(id)
                .collect();
            for (limit, from) in [(100, 0), (3, 0), (1, 400_000), (5, 990_000)] {
                let wanted: Vec<PointId> = all.range(from..).map(|id| PointId::Num(*id)).collect();
                assert_eq!(
                    pages(&collection, &filter, (limit, from), scratch),
                    wanted,
                    "t{t}, {limit} from {from}"
                );
            }
            for (direction, start) in [
                (Direction::Asc, None),
                (Direction::Desc, None),
                (Direction::Asc, Some(300)),
                (Direction::Desc, Some(300)),
            ] {
                let start_from = start.map(OrderValue::Int);
                let order = OrderBy {
                    key: "n".into(),
                    direction,
                    start_from,
                };
                let found = ordered(&collection, &filter, &order, scratch);
                let found_values: Vec<i64> = found.iter().map(|(value, _)| *value).collect();
                assert_eq!(found_values, expected(t, is_left, &order), "t{t}, {order:?}");
                assert!(
                    found
                        .iter()
                        .all(|(_, id)| matches!(id, PointId::Num(id) if all.contains(id)))
                );
                assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
            }
        }
        blocks(scratch);
        let filter = of_tenant(t, anything());
        pages(&collection, &filter, (100, 0), scratch);
        let by_id = blocks(scratch);
        let order = OrderBy {
            key: "n".into(),
            direction: Direction::Asc,
            start_from: None,
        };
        ordered(&collection, &filter, &order, scratch);
        let by_value = blocks(scratch);
        // A key of the index, and of each row an id, a payload, and a payload to order by: a walk through 60,000 looks at hundreds.
        let most = 4 + 4 * EACH;
        assert!(
            by_id <= most && by_value <= most,
            "t{t}: {by_id} and {by_value} blocks"
        );
    }
}
