//! Which segments get an index where nobody set a threshold: of 10,000 kB, of many rows, and of rows that the budget can't hold. As planned.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ramlet::plan::{IndexKind, Machine, Memory, Spec, Wish, plan};
use ramlet::*;
use ramlet_io::RamStorage;

use crate::support::*;

fn filled(points: u64, dims: usize, memory: u64, change: impl Fn(&mut CollectionConfig)) -> Arc<Engine> {
    let engine = open_within(Arc::new(RamStorage::new(None)), memory * MB);
    let mut settings = config(dims, Distance::Cosine);
    change(&mut settings);
    engine.create_collection("c", settings).expect("creates");
    fill(&engine, "c", (points, dims));
    engine
}

fn fill(engine: &Engine, name: &str, (points, dims): (u64, usize)) {
    let collection = engine.collection(name).expect("is there");
    let mut rng = Rng(points);
    let names: Vec<String> = collection.info().config.vectors.keys().cloned().collect();
    let batch = (50_000 / dims as u64 / names.len() as u64).max(1);
    for start in (0..points).step_by(batch as usize) {
        let ids = start..(start + batch).min(points);
        let mut vector = || -> Vec<f32> { (0..dims).map(|_| rng.below(1_000) as f32 - 500.0).collect() };
        let points: Vec<Point> = ids
            .map(|id| Point {
                vectors: names.iter().map(|name| (name.clone(), vector().into())).collect(),
                ..point(id, Vec::new(), "")
            })
            .collect();
        update_patiently(&collection, || upsert(points.clone())).expect("upserts");
    }
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
        let engine = filled(points, dims, memory, |_| ());
        let all = if has_index { points } else { 0 };
        assert_eq!(indexed(&engine), all, "{at}");
        engine.close();
        let spec = Spec::new(points, dims as u64);
        let planned = plan(&spec, &Machine::default(), &Memory::of_server(memory * MB));
        let planned = planned.expect("fits").chosen.index;
        assert_eq!(planned != IndexKind::Flat, has_index, "{at}: {planned:?}");
    }
}

fn on_disk(settings: &mut CollectionConfig) {
    let vector = settings.vectors.get_mut(DEFAULT_VECTOR).expect("has one");
    vector.on_disk = Some(true);
}

/// Those are read by each search, however much room there is.
#[test]
fn rows_that_are_to_be_on_disk_get_an_index() {
    for (points, has_index) in [(1_500, true), (260, true), (250, false)] {
        let engine = filled(points, 1_030, 64, on_disk);
        let all = if has_index { points } else { 0 };
        assert_eq!(indexed(&engine), all, "{points}");
        engine.close();
        let mut spec = Spec::new(points, 1_030);
        spec.wishes.vectors = Some(Wish::Cold);
        let planned = plan(&spec, &Machine::default(), &Memory::of_server(64 * MB));
        let planned = planned.expect("fits").chosen.index;
        assert_eq!(planned != IndexKind::Flat, has_index, "{points}: {planned:?}");
    }
    // In few bytes there are few pages.
    let engine = filled(1_000, 64, 64, on_disk);
    assert_eq!(indexed(&engine), 0);
    engine.close();
}

#[test]
fn a_threshold_that_was_set_decides_alone() {
    for (points, dims, memory, threshold) in [
        (20_500, 8, 64, 10_000),
        (1_500, 1_024, 16, 10_000),
        (20_500, 8, 64, 0),
    ] {
        let engine = filled(points, dims, memory, |settings| {
            settings.indexing_threshold = Some(threshold)
        });
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
    let engine = filled(20_500, 8, 64, |_| ());
    let collection = engine.collection("c").expect("is there");
    let mut looks = 0;
    while collection.info().indexed_vectors_count < 20_500 {
        assert!(looks < 2_000, "{:?}", collection.info());
        std::thread::sleep(Duration::from_millis(50));
        looks += 1;
    }
    engine.close();
}

/// Neither half is enough for an index.
#[test]
fn a_memtable_and_a_segment_are_indexed_together() {
    let engine = filled(11_000, 8, 64, |_| ());
    let collection = engine.collection("c").expect("is there");
    assert_eq!(indexed(&engine), 0);
    let mut rng = Rng(3);
    let more = (11_000..21_000).map(|id| point(id, rng.vector(8), ""));
    let more: Vec<Point> = more.collect();
    for points in more.chunks(5_000) {
        update_patiently(&collection, || upsert(points.to_vec())).expect("upserts");
    }
    assert_eq!(collection.info().status, CollectionStatus::Yellow);
    let mut looks = 0;
    while collection.info().indexed_vectors_count < 21_000 {
        assert!(looks < 2_000, "{:?}", collection.info());
        std::thread::sleep(Duration::from_millis(50));
        looks += 1;
    }
    engine.close();
}

/// How many vectors of all collections have an index, and how many have none and their rows in RAM, once jobs are done.
fn indexed_and_cached(engine: &Engine, collections: usize) -> (usize, usize) {
    let (mut indexed, mut cached) = (0, 0);
    for n in 0..collections {
        let collection = engine.collection(&format!("c{n}")).expect("is there");
        collection.wait_idle().expect("settles");
        let info = collection.info();
        assert_eq!(info.status, CollectionStatus::Green, "{info:?}");
        let mut parts: BTreeMap<String, Vec<ComponentMemory>> = BTreeMap::new();
        for part in info
            .memory
            .into_iter()
            .filter(|part| part.component.starts_with("vector"))
        {
            parts.entry(part.component.clone()).or_default().push(part);
        }
        for parts in parts.values() {
            let is_indexed = parts.iter().any(|part| part.kind == "ivf");
            let rows = parts.iter().filter(|part| part.kind == "rows");
            let in_ram = rows.map(|part| part.pinned_bytes).sum::<u64>() >= BYTES;
            indexed += usize::from(is_indexed);
            cached += usize::from(!is_indexed && in_ram);
        }
    }
    (indexed, cached)
}

const POINTS: u64 = 1_500;
const DIMS: usize = 1_024;
const BYTES: u64 = POINTS * DIMS as u64 * 4;

/// Each of eight is compared in RAM where it is alone. Together they don't fit, so some get an index, until the others do.
#[test]
fn vectors_that_fit_alone_share_one_budget() {
    for (collections, vectors) in [(8, 1), (1, 8)] {
        let engine = open_within(Arc::new(RamStorage::new(None)), 64 * MB);
        for n in 0..collections {
            let mut settings = config(DIMS, Distance::Cosine);
            let params = settings.vectors[DEFAULT_VECTOR].clone();
            settings
                .vectors
                .extend((1..vectors).map(|v| (format!("v{v}"), params.clone())));
            let name = format!("c{n}");
            engine.create_collection(&name, settings).expect("creates");
            fill(&engine, &name, (POINTS, DIMS));
            let collection = engine.collection(&name).expect("is there");
            collection.flush().expect("flushes");
            collection.wait_idle().expect("settles");
        }
        let report = engine.ledger().report();
        let cap = report
            .iter()
            .find(|row| row.name == "cached data")
            .expect("a row")
            .cap;
        assert!(8 * BYTES > cap, "{cap}");
        // What is in RAM of indexed ones makes way for rows that are all compared.
        let is_done = |(indexed, cached): (usize, usize)| {
            (8 - indexed as u64) * BYTES <= cap && cached + 1 >= 8 - indexed
        };
        let mut looks = 0;
        while !is_done(indexed_and_cached(&engine, collections)) {
            let now = indexed_and_cached(&engine, collections);
            assert!(looks < 200, "{collections} in {cap}: {now:?}");
            std::thread::sleep(Duration::from_millis(50));
            looks += 1;
        }
        let (indexed, _) = indexed_and_cached(&engine, collections);
        assert!(indexed <= 6 || collections == 1, "{cap}: {indexed}");
        engine.close();
    }
}
