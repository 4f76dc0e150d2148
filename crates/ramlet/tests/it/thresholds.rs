//! Which segments get an index where nobody set a threshold: of 10,000 kB, of many rows, and of rows that the budget can't hold. As planned.

use std::sync::Arc;
use std::time::Duration;

use ramlet::plan::{IndexKind, Machine, Memory, Spec, plan};
use ramlet::*;
use ramlet_io::RamStorage;

use crate::support::*;

fn filled(points: u64, dims: usize, memory: u64, threshold: Option<usize>) -> Arc<Engine> {
    let engine = open_within(Arc::new(RamStorage::new(None)), memory * MB);
    let mut settings = config(dims, Distance::Cosine);
    settings.indexing_threshold = threshold;
    engine.create_collection("c", settings).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let mut rng = Rng(points + memory);
    let batch = (50_000 / dims as u64).max(1);
    for start in (0..points).step_by(batch as usize) {
        let ids = start..(start + batch).min(points);
        let points: Vec<Point> = ids
            .map(|id| {
                let vector = (0..dims).map(|_| rng.below(1_000) as f32 - 500.0);
                point(id, vector.collect(), "")
            })
            .collect();
        update_patiently(&collection, || upsert(points.clone())).expect("upserts");
    }
    engine
}

fn indexed(engine: &Engine) -> u64 {
    let collection = engine.collection("c").expect("is there");
    collection.flush().expect("flushes");
    collection.wait_idle().expect("settles");
    let info = collection.info();
    assert_eq!(info.status, CollectionStatus::Green, "{info:?}");
    info.indexed_vectors_count
}

#[test]
fn segments_get_an_index_where_comparing_all_rows_costs_more() {
    for (points, dims, memory, has_index) in [
        (20_500, 8, 64, true),
        (19_500, 8, 64, false),
        // Six megabytes, and 16 MB have room for less.
        (1_500, 1_024, 16, true),
        (1_500, 1_024, 64, false),
        (250, 6_144, 16, false),
        // Above the threshold.
        (2_600, 1_024, 64, true),
    ] {
        let at = format!("{points} x {dims} in {memory} MB");
        let engine = filled(points, dims, memory, None);
        let all = if has_index { points } else { 0 };
        assert_eq!(indexed(&engine), all, "{at}");
        engine.close();
        let spec = Spec::new(points, dims as u64);
        let planned = plan(&spec, &Machine::default(), &Memory::of_server(memory * MB));
        let planned = planned.expect("fits").chosen.index;
        assert_eq!(planned != IndexKind::Flat, has_index, "{at}: {planned:?}");
    }
}

#[test]
fn a_threshold_that_was_set_decides_alone() {
    for (points, dims, memory, threshold) in [
        (20_500, 8, 64, 10_000),
        (1_500, 1_024, 16, 10_000),
        (20_500, 8, 64, 0),
    ] {
        let engine = filled(points, dims, memory, Some(threshold));
        assert_eq!(
            indexed(&engine),
            0,
            "{points} x {dims} in {memory} MB, {threshold} kB"
        );
        engine.close();
    }
}

/// Nothing is flushed by hand, and the memtable has room for many more.
#[test]
fn rows_of_a_memtable_are_indexed_once_nothing_changes() {
    let engine = filled(20_500, 8, 64, None);
    let collection = engine.collection("c").expect("is there");
    let mut looks = 0;
    while collection.info().indexed_vectors_count < 20_500 {
        assert!(looks < 2_000, "{:?}", collection.info());
        std::thread::sleep(Duration::from_millis(50));
        looks += 1;
    }
    engine.close();
}
