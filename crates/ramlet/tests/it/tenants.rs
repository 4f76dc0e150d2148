//! Rows in the order of their tenants: searches among those of one read few blocks and compare all of them, whenever the index came.

use std::collections::BTreeSet;
use std::sync::Arc;

use ramlet::filter::Filter;
use ramlet::*;
use ramlet_io::{RamStorage, Storage};
use serde_json::json;

use crate::counts::{engine, loading_budget, searching_budget};
use crate::support::*;

const POINTS: u64 = 24_000;
const DIM: usize = 32;
/// About a hundred points each; their points come in turns.
const TENANTS: u64 = 240;
/// Some points have no tenant.
const WITHOUT: u64 = 17;

fn tenant(n: u64) -> u64 {
    n * 7_919 % TENANTS
}

fn has_tenant(n: u64) -> bool {
    !n.is_multiple_of(WITHOUT)
}

fn is_deleted(n: u64) -> bool {
    n.is_multiple_of(11)
}

fn payload(n: u64) -> String {
    match has_tenant(n) {
        true => json!({"t": format!("t{}", tenant(n)), "n": n}).to_string(),
        false => json!({"n": n}).to_string(),
    }
}

fn vector(n: u64) -> Vec<f32> {
    Rng(n * 2 + 1_000_003).vector(DIM)
}

fn index(is_tenant: bool) -> FieldIndex {
    FieldIndex {
        kind: FieldKind::Keyword,
        params: Some(json!({"type": "keyword", "is_tenant": is_tenant})),
    }
}

fn search(n: u64, limit: usize) -> SearchRequest {
    let filter = json!({"must": [{"key": "t", "match": {"value": format!("t{}", tenant(n))}}]});
    let mut request = search_request(vector(n), limit);
    request.filter = Some(serde_json::from_value::<Filter>(filter).expect("a filter"));
    request.params.explain = true;
    request.with_payload = PayloadSelector::All;
    request
}

/// The nearest points of a tenant.
fn nearest(n: u64, limit: usize) -> Vec<PointId> {
    let query = vector(n);
    let of_tenant =
        (0..POINTS).filter(|row| tenant(*row) == tenant(n) && has_tenant(*row) && !is_deleted(*row));
    let dot = |row: u64| -> f32 { vector(row).iter().zip(&query).map(|(a, b)| a * b).sum() };
    let mut scored: Vec<(f32, u64)> = of_tenant.map(|row| (dot(row), row)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.truncate(limit);
    scored.into_iter().map(|(_, row)| PointId::Num(row)).collect()
}

/// Several segments, merged into one; points were deleted before and after.
fn load(storage: &Arc<dyn Storage>, is_tenant: bool) {
    let engine = engine(storage, loading_budget());
    let mut config = config(DIM, Distance::Dot);
    config.indexing_threshold = Some(1_000);
    engine.create_collection("c", config).expect("creates");
    let collection = engine.collection("c").expect("is there");
    collection
        .create_payload_index("t", index(is_tenant))
        .expect("indexes");
    let gone = |rows: std::ops::Range<u64>| rows.filter(|n| is_deleted(*n)).collect::<Vec<u64>>();
    for from in (0..POINTS).step_by(1_000) {
        let points = (from..from + 1_000).map(|n| point(n, vector(n), &payload(n)));
        collection.update(upsert(points.collect())).expect("upserts");
        if from % 4_000 == 3_000 {
            collection.flush().expect("flushes");
        }
    }
    collection.update(delete(&gone(0..POINTS / 2))).expect("deletes");
    collection.wait_idle().expect("settles");
    collection
        .update(delete(&gone(POINTS / 2..POINTS)))
        .expect("deletes");
    assert_eq!(collection.info().segments_count, 1, "merged");
    engine.close();
}

/// Blocks that a search of each of some tenants looks at, at most; the hits are the right ones.
fn blocks(collection: &Collection, scratch: &mut Scratch, strategy: Option<&str>) -> u64 {
    let mut most = 0;
    scratch.lookup.io.take_stats();
    for n in (5..POINTS).step_by(1_999) {
        let found = collection.search(&search(n, 10), scratch).expect("searches");
        let stats = scratch.lookup.io.take_stats();
        most = most.max(stats.reads + stats.cache_hits);
        let ids: Vec<PointId> = found.hits.iter().map(|hit| hit.id).collect();
        if strategy.is_some() {
            assert_eq!(ids, nearest(n, 10), "like point {n}");
        }
        for hit in &found.hits {
            let PointId::Num(id) = hit.id else {
                panic!("{hit:?}")
            };
            assert_eq!(hit.payload.as_deref(), Some(payload(id).as_bytes()));
        }
        let strategies = found.explain.iter().filter(|part| part.segment.is_some());
        let strategies: BTreeSet<&str> = strategies.map(|part| part.strategy).collect();
        assert!(
            strategy.is_none_or(|wanted| strategies == BTreeSet::from([wanted])),
            "{strategies:?}"
        );
    }
    most
}

/// A search looks at a block or two of the index and two of the vectors; its hits lie in two blocks of ids, and some of payloads.
const BLOCKS: u64 = 16;

#[test]
fn rows_of_a_tenant_lie_together() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    load(&storage, true);
    let engine = engine(&storage, searching_budget(MB));
    let collection = engine.collection("c").expect("is there");
    assert!(collection.info().indexed_vectors_count > 0, "it has clusters");
    let scratch = &mut engine.scratch().expect("enough");
    let most = blocks(&collection, scratch, Some("together"));
    assert!(most <= BLOCKS, "{most} blocks");
    let all = contents(&collection, scratch);
    assert_eq!(
        all.len() as u64,
        (0..POINTS).filter(|n| !is_deleted(*n)).count() as u64
    );
    for (id, (found, of_point)) in all {
        let PointId::Num(n) = id else { panic!("{id:?}") };
        assert_eq!((found, of_point), (vector(n), payload(n)));
    }
}

#[test]
fn an_index_of_tenants_orders_what_is_there_already() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    load(&storage, false);
    let engine = engine(&storage, loading_budget());
    let collection = engine.collection("c").expect("is there");
    let scratch = &mut engine.scratch().expect("enough");
    let before = blocks(&collection, scratch, None);
    assert!(before > 2 * BLOCKS, "without it each row is a block: {before}");
    collection
        .create_payload_index("t", index(true))
        .expect("indexes");
    collection.wait_idle().expect("settles");
    let after = blocks(&collection, scratch, None);
    assert!(after <= BLOCKS, "{after} blocks");
}
