//! Readers beside a writer and jobs: a point that is updated in place is never missing and never there twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ramlet::filter::Filter;
use ramlet::*;
use ramlet_io::RamStorage;

use crate::support::*;

const DIM: usize = 4;
const IDS: u64 = 48;

fn ids() -> Vec<PointId> {
    (0..IDS).map(PointId::Num).collect()
}

/// One round of everything that can be asked; all must show each id once.
fn read_all(engine: &Engine, collection: &Collection, scratch: &mut Scratch, filter: &Filter) {
    let mut request = scroll_request(7);
    let mut seen = Vec::new();
    loop {
        let page = collection.scroll(&request, scratch).expect("scrolls");
        seen.extend(page.points.iter().map(|r| r.id));
        match page.next {
            Some(next) => request.offset = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, ids(), "scrolled in pages");
    let found = collection
        .retrieve(&ids(), &PayloadSelector::All, &VectorSelector::All, scratch)
        .expect("retrieves");
    assert_eq!(found.iter().map(|r| r.id).collect::<Vec<_>>(), ids(), "retrieved");
    let hits = collection
        .search(&search_request(vec![0.5; DIM], 100), scratch)
        .expect("searches")
        .hits;
    let mut hit_ids: Vec<_> = hits.iter().map(|h| h.id).collect();
    hit_ids.sort_unstable();
    assert_eq!(hit_ids, ids(), "searched");
    let by_id = SearchRequest {
        query: QueryVector::Id(PointId::Num(5)),
        ..search_request(Vec::new(), 100)
    };
    assert_eq!(
        collection
            .search(&by_id, scratch)
            .expect("the point is there")
            .hits
            .len() as u64,
        IDS - 1
    );
    assert_eq!(collection.count(None, true, scratch).unwrap(), IDS);
    assert_eq!(
        collection.count(Some(filter), true, scratch).unwrap(),
        IDS,
        "filtered"
    );
    let mut filtered = scroll_request(100);
    filtered.filter = Some(filter.clone());
    assert_eq!(
        collection.scroll(&filtered, scratch).unwrap().points.len() as u64,
        IDS
    );
    assert!(engine.writable());
}

fn write(collection: &Collection, rng: &mut Rng) {
    let op = match rng.below(4) {
        0 => UpdateOp::SetPayload {
            payload: format!("{{\"a\":{}}}", rng.below(50)).into_bytes(),
            key: None,
            points: PointsSelector::Ids(ids()),
        },
        1 => UpdateOp::UpdateVectors {
            points: (0..6)
                .map(|_| {
                    (
                        PointId::Num(rng.below(IDS)),
                        vec![(DEFAULT_VECTOR.into(), rng.vector(DIM).into())],
                    )
                })
                .collect(),
            filter: None,
        },
        // Many times the same id in one batch.
        _ => upsert(
            (0..300)
                .map(|_| point(rng.below(IDS), rng.vector(DIM), "{\"keep\":1,\"a\":3}"))
                .collect(),
        ),
    };
    collection.update(op).expect("updates");
}

fn job(collection: &Collection, round: usize) {
    match round % 5 {
        0 | 2 => collection.flush().expect("flushes"),
        1 => collection.wait_idle().expect("merges"),
        3 => {
            let index = FieldIndex {
                kind: FieldKind::Integer,
                params: None,
            };
            collection
                .create_payload_index("keep", index)
                .map(|_| ())
                .expect("builds an index");
        }
        _ => collection
            .delete_payload_index("keep")
            .map(|_| ())
            .expect("drops an index"),
    }
}

#[test]
fn readers_see_every_point_once() {
    // Several scratches outside the slots, each with payloads of its own to pay for.
    let engine = Engine::open(Arc::new(RamStorage::new(None)), options(400 * MB)).expect("opens");
    engine
        .create_collection("c", config(DIM, Distance::Euclid))
        .unwrap();
    let collection = engine.collection("c").unwrap();
    collection
        .update(upsert(
            (0..IDS)
                .map(|id| point(id, vec![id as f32; DIM], "{\"keep\":1}"))
                .collect(),
        ))
        .unwrap();
    // Segments are written in its order, while points go and come.
    let tenants = FieldIndex {
        kind: FieldKind::Integer,
        params: Some(serde_json::json!({"type": "integer", "is_tenant": true})),
    };
    collection.create_payload_index("a", tenants).unwrap();
    let filter: Filter = serde_json::from_str(r#"{"must":[{"key":"keep","match":{"value":1}}]}"#).unwrap();
    let (done, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut scratch = engine.scratch().unwrap();
                while !done.load(Ordering::Relaxed) {
                    read_all(&engine, &collection, &mut scratch, &filter);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let jobs = scope.spawn(|| {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                job(&collection, round);
                round += 1;
            }
        });
        let writer = scope.spawn(|| {
            let mut rng = Rng(5);
            (0..700).for_each(|_| write(&collection, &mut rng));
        });
        let written = writer.join();
        done.store(true, Ordering::Relaxed);
        jobs.join().expect("jobs succeed");
        written.expect("writes succeed");
    });
    assert!(reads.load(Ordering::Relaxed) > 20);
}
