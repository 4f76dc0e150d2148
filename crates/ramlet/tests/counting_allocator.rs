//! The warm search path allocates nothing: counted by a global allocator of this test binary alone.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use ramlet::*;
use ramlet_io::{Backend, RamStorage, Storage};
use ramlet_memory::{BudgetRequest, BudgetTable, Ledger};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is handed to the system allocator; counting doesn't allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const DIM: usize = 32;

fn vector(seed: u64) -> Vec<f32> {
    let number =
        |i: u64| ((seed * 31 + i).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f32 / 16_777_216.0 - 0.5;
    (0..DIM as u64).map(number).collect()
}

fn request(seed: u64, exact: bool) -> SearchRequest {
    SearchRequest {
        query: QueryVector::Vector(vector(seed).into()),
        using: String::new(),
        filter: None,
        params: SearchParams {
            exact,
            ..SearchParams::default()
        },
        limit: 10,
        offset: 0,
        score_threshold: None,
        with_payload: PayloadSelector::None,
        with_vectors: VectorSelector::None,
    }
}

/// Points in two segments (one with an approximate index if `indexed`) and in the memtable, some deleted.
fn filled(storage: Arc<dyn Storage>, indexed: bool) -> Arc<Engine> {
    let budget = BudgetTable::plan(BudgetRequest::new(64_000_000, 1)).unwrap();
    let ledger = Ledger::new(budget.ledger_limit());
    let engine = Engine::open(
        storage,
        EngineOptions {
            budget,
            ledger,
            seed: 1,
            log_file_bytes: None,
        },
    )
    .unwrap();
    let params = VectorParams {
        size: DIM,
        distance: Distance::Cosine,
        datatype: None,
        on_disk: Some(true),
        multivector_config: None,
        other: BTreeMap::new(),
    };
    let config = CollectionConfig {
        vectors: BTreeMap::from([(String::new(), params)]),
        indexing_threshold: Some(if indexed { 100 } else { 0 }),
        ..CollectionConfig::default()
    };
    engine.create_collection("c", config).unwrap();
    let collection = engine.collection("c").unwrap();
    for part in 0..3u64 {
        let point = |i: u64| Point {
            id: PointId::Num(part * 2_000 + i),
            vectors: vec![(String::new(), vector(part * 2_000 + i).into())],
            payload: b"{\"a\":1}".to_vec(),
        };
        let points = (0..2_000).map(point).collect();
        collection
            .update(UpdateOp::Upsert {
                points,
                filter: None,
                mode: UpdateMode::Upsert,
            })
            .unwrap();
        if part < 2 {
            collection.flush().unwrap();
        }
    }
    let ids = (0..6_000).step_by(7).map(PointId::Num).collect();
    collection
        .update(UpdateOp::Delete(PointsSelector::Ids(ids)))
        .unwrap();
    engine
}

fn check(storage: Arc<dyn Storage>, indexed: bool, exact: bool) {
    let name = storage.backend();
    let engine = filled(storage, indexed);
    let collection = engine.collection("c").unwrap();
    if indexed {
        assert!(collection.info().indexed_vectors_count > 0, "no index was built");
    }
    let mut scratch = engine.scratch().unwrap();
    let mut hits = Vec::with_capacity(64);
    let requests: Vec<SearchRequest> = (0..20).map(|seed| request(seed * 311, exact)).collect();
    for request in &requests {
        hits.clear();
        collection.search_into(request, &mut scratch, &mut hits).unwrap();
        assert_eq!(hits.len(), 10);
    }
    let before = ALLOCATIONS.with(Cell::get);
    for request in &requests {
        hits.clear();
        collection.search_into(request, &mut scratch, &mut hits).unwrap();
    }
    let allocated = ALLOCATIONS.with(Cell::get) - before;
    assert_eq!(
        allocated,
        0,
        "{name}: {allocated} allocations in {} warm searches",
        requests.len()
    );
}

fn on_all(indexed: bool, exact: bool, tag: &str) {
    check(Arc::new(RamStorage::new(None)), indexed, exact);
    let dir = std::env::temp_dir().join(format!("ramlet-zero-alloc-{tag}-{}", std::process::id()));
    for backend in [Backend::Auto, Backend::Pread, Backend::Mmap] {
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        check(ramlet_io::open_best(&dir, backend).unwrap().0, indexed, exact);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn warm_exact_search_allocates_nothing() {
    on_all(false, true, "exact");
}

#[test]
fn warm_index_search_allocates_nothing() {
    on_all(true, false, "index");
}
