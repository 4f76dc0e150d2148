//! What becomes of small segments, and of efforts, while a collection lives.

use std::sync::Arc;

use ramlet::filter::Filter;
use ramlet::*;
use ramlet_io::RamStorage;

use crate::support::*;

const DIM: usize = 24;

fn vector(rng: &mut Rng, id: u64) -> Vec<f32> {
    let mut centre = Rng(1 + id % 60);
    (0..DIM).map(|_| centre.float() + rng.float() * 0.5).collect()
}

fn fill(collection: &Collection, ids: std::ops::Range<u64>, rng: &mut Rng) {
    fill_with(collection, ids, &mut |id| vector(rng, id));
}

fn fill_with(collection: &Collection, ids: std::ops::Range<u64>, vector_of: &mut dyn FnMut(u64) -> Vec<f32>) {
    for first in ids.clone().step_by(500) {
        let points = (first..ids.end.min(first + 500)).map(|id| point(id, vector_of(id), "{}"));
        collection.update(upsert(points.collect())).expect("upserts");
    }
    collection.flush().expect("flushes");
    collection.wait_idle().expect("settles");
}

/// Kinds of the segments' indexes, the largest segment first.
fn parts(collection: &Collection, scratch: &mut Scratch) -> Vec<(u64, &'static str)> {
    let mut request = search_request(vec![0.1; DIM], 1);
    request.params.explain = true;
    let answer = collection.search(&request, scratch).expect("searches");
    let of_segments = answer.explain.iter().filter(|part| part.segment.is_some());
    let mut parts: Vec<_> = of_segments.map(|part| (part.rows, part.index)).collect();
    parts.sort_unstable_by_key(|(rows, _)| std::cmp::Reverse(*rows));
    parts
}

/// A collection of one segment with an index.
fn indexed(points: u64, rng: &mut Rng) -> (Arc<Engine>, Arc<Collection>) {
    let engine = open(Arc::new(RamStorage::new(None)));
    let mut settings = config(DIM, Distance::Cosine);
    settings.indexing_threshold = Some(50);
    engine.create_collection("c", settings).expect("creates");
    let collection = engine.collection("c").expect("is there");
    fill(&collection, 0..points, rng);
    (engine, collection)
}

#[test]
fn a_small_segment_that_searches_pay_for_is_indexed_and_then_merged() {
    small_segment(11_000, 1_050);
}

#[test]
fn a_tiny_segment_is_indexed_too() {
    small_segment(4_000, 200);
}

fn small_segment(large: u64, small: u64) {
    let mut rng = Rng(5);
    let (engine, collection) = indexed(large, &mut rng);
    // By default a segment of this size has no index.
    let by_default = &mut |config: &mut CollectionConfig| {
        config.indexing_threshold = None;
        Ok(())
    };
    engine.update_collection("c", by_default).expect("changes");
    fill(&collection, large..large + small, &mut rng);
    let mut scratch = engine.scratch().expect("room");
    assert_eq!(
        parts(&collection, &mut scratch),
        [(large, "ivf"), (small, "flat")]
    );
    let mut searches = 0;
    let mut request = search_request(vec![0.1; DIM], 10);
    let mut history = vec![parts(&collection, &mut scratch)];
    // Whatever is due is done by `wait_idle`: nothing depends on the time.
    while history.last().is_some_and(|parts| parts.len() > 1) {
        request.query = QueryVector::Vector(vector(&mut rng, searches).into());
        // Of a segment with an index only searches that compare all of it take long enough to be worth a test.
        request.params.exact = history.len() > 1;
        for _ in 0..100 {
            collection.search(&request, &mut scratch).expect("searches");
        }
        searches += 100;
        assert!(searches < 10_000, "never merged: {history:?}");
        collection.wait_idle().expect("settles");
        let now = parts(&collection, &mut scratch);
        if history.last() != Some(&now) {
            history.push(now);
        }
        if searches == 100 {
            assert_eq!(history.len(), 1, "it was searched too little for that");
        }
    }
    assert_eq!(
        history,
        [
            vec![(large, "ivf"), (small, "flat")],
            vec![(large, "ivf"), (small, "ivf")],
            vec![(large + small, "ivf")]
        ]
    );
    assert_eq!(collection.info().points_count, large + small);
}

#[test]
fn rows_of_a_write_buffer_that_searches_pay_for_are_indexed() {
    const LARGE: u64 = 15_000;
    const SMALL: u64 = 1_050;
    let mut rng = Rng(6);
    let (engine, collection) = indexed(LARGE, &mut rng);
    let set_threshold = |kb: usize| {
        let change = &mut |config: &mut CollectionConfig| {
            config.indexing_threshold = Some(kb);
            Ok(())
        };
        engine.update_collection("c", change).expect("changes");
    };
    // Nothing is flushed, and nothing is written from here on.
    set_threshold(0);
    let mut write = |ids: std::ops::Range<u64>| {
        let points = ids.map(|id| point(id, vector(&mut rng, id), "{}"));
        collection.update(upsert(points.collect())).expect("upserts");
    };
    write(LARGE..LARGE + SMALL / 2);
    write(LARGE + SMALL / 2..LARGE + SMALL);
    let mut scratch = engine.scratch().expect("room");
    let mut rng = Rng(7);
    let mut search = |times: u64| {
        for id in 0..times {
            let request = search_request(vector(&mut rng, id), 10);
            collection.search(&request, &mut scratch).expect("searches");
        }
        collection.wait_idle().expect("settles");
        parts(&collection, &mut scratch)
    };
    // As many as an index for the small segment takes: who wants no index gets none.
    assert_eq!(search(1_200), [(LARGE, "ivf")]);
    set_threshold(1_000_000);
    assert_eq!(search(0), [(LARGE, "ivf"), (SMALL, "ivf")]);
    // Rows that are too few for an index of their own aren't any more beside the small segment they'd be merged with.
    write(LARGE + SMALL..LARGE + SMALL + 300);
    assert_eq!(search(500), [(LARGE, "ivf"), (SMALL, "ivf")]);
    let mut searches = 500;
    while search(500) != [(LARGE, "ivf"), (SMALL + 300, "ivf")] {
        searches += 500;
        assert!(searches < 20_000, "never merged");
    }
    assert_eq!(collection.info().points_count, LARGE + SMALL + 300);
}

#[test]
fn who_asks_for_more_gets_no_less() {
    const POINTS: u64 = 12_000;
    const QUERIES: usize = 60;
    let directory = std::env::temp_dir().join(format!("ramlet-upkeep-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    // Files, because nothing of a storage in RAM is brought into RAM.
    let (storage, _) = ramlet_io::open_best(&directory, ramlet_io::Backend::Pread).expect("opens");
    let engine = open(storage);
    let mut settings = config(DIM, Distance::Cosine);
    settings.indexing_threshold = Some(50);
    engine.create_collection("c", settings).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let mut rng = Rng(11);
    fill(&collection, 0..POINTS, &mut rng);
    let mut scratch = engine.scratch().expect("room");
    let queries: Vec<Vec<f32>> = (0..QUERIES as u64).map(|i| vector(&mut rng, i)).collect();
    let mut ask = |query: usize, params: SearchParams| {
        let mut request = search_request(queries[query].clone(), 10);
        request.params = params;
        request.params.explain = true;
        let answer = collection.search(&request, &mut scratch).expect("searches");
        let ids: Vec<PointId> = answer.hits.iter().map(|hit| hit.id).collect();
        (ids, answer.explain[0].probes, answer.explain[0].codes_scanned)
    };
    let exact = |params: &mut SearchParams| params.exact = true;
    let truth: Vec<Vec<PointId>> = (0..QUERIES)
        .map(|query| {
            let mut params = SearchParams::default();
            exact(&mut params);
            ask(query, params).0
        })
        .collect();
    let recalls = [0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999].map(|recall| SearchParams {
        recall: Some(recall),
        ..SearchParams::default()
    });
    let efforts = [1, 16, 32, 64, 128, 256, 512, 1024, 100_000].map(|ef| SearchParams {
        hnsw_ef: Some(ef),
        ..SearchParams::default()
    });
    for ladder in [&recalls[..], &efforts[..]] {
        let mut before: Option<(f64, Vec<(u64, u64)>)> = None;
        for params in ladder {
            let (mut found, mut costs) = (0, Vec::new());
            for (query, truth) in truth.iter().enumerate() {
                let (ids, probes, codes) = ask(query, params.clone());
                found += ids.iter().filter(|id| truth.contains(id)).count();
                costs.push((probes, codes));
            }
            let recall = found as f64 / (10 * QUERIES) as f64;
            if let Some((recall_before, costs_before)) = &before {
                // Of each query the clusters are a superset; a hit may still be lost to a code's error.
                assert!(
                    recall >= recall_before - 0.004,
                    "{params:?}: {recall} after {recall_before}"
                );
                let pairs = costs.iter().zip(costs_before);
                assert!(pairs.into_iter().all(|(now, then)| now >= then), "{params:?}");
            }
            before = Some((recall, costs));
        }
        let (most, costs) = before.expect("some");
        assert!(most >= 0.99, "{most}");
        assert!(costs.iter().all(|(_, codes)| *codes > 0), "{costs:?}");
        assert!(costs.iter().any(|(probes, _)| *probes > 1), "{costs:?}");
    }
    engine.close();
    std::fs::remove_dir_all(&directory).expect("ours");
}

/// What every sixteenth point of a collection is, and all that is asked for from some day on: these lie between all groups, in many
/// clusters.
fn strange(rng: &mut Rng) -> Vec<f32> {
    (0..DIM).map(|_| 2.0 * rng.float() - 0.25).collect()
}

/// Recall of the usual effort over queries, and clusters visited by all of them.
fn measure(collection: &Collection, scratch: &mut Scratch, queries: &[Vec<f32>]) -> (f64, u64) {
    let (mut found, mut probes) = (0, 0);
    for query in queries {
        let mut request = search_request(query.clone(), 10);
        request.params.explain = true;
        let mut ask = |exact| {
            request.params.exact = exact;
            collection.search(&request, scratch).expect("searches")
        };
        let truth: Vec<PointId> = ask(true).hits.iter().map(|hit| hit.id).collect();
        let answer = ask(false);
        found += answer.hits.iter().filter(|hit| truth.contains(&hit.id)).count();
        probes += answer.explain[0].probes;
    }
    (found as f64 / (10 * queries.len()) as f64, probes)
}

/// Has the monitor measure as many queries, these in turn.
fn monitored(engine: &Engine, collection: &Collection, scratch: &mut Scratch, queries: &[Vec<f32>]) {
    let done = || {
        collection
            .measured_recall()
            .iter()
            .map(|m| m.queries)
            .sum::<u64>()
    };
    for query in queries {
        let before = done();
        // It begins anew when the index was calibrated.
        while done() == before {
            collection
                .search(&search_request(query.clone(), 10), scratch)
                .expect("searches");
            if !engine.monitor_recall_once() {
                std::thread::yield_now();
            }
        }
    }
}

/// A collection of which every sixteenth point is strange, and what is said of it.
fn mixed(engine: &Engine, rng: &mut Rng) -> Arc<Collection> {
    mixed_by(engine, rng, 16)
}

/// The same with one strange point in so many.
fn mixed_by(engine: &Engine, rng: &mut Rng, strange_in: u64) -> Arc<Collection> {
    let mut settings = config(DIM, Distance::Euclid);
    settings.indexing_threshold = Some(50);
    engine.create_collection("c", settings).expect("creates");
    let collection = engine.collection("c").expect("is there");
    fill_with(&collection, 0..15_000, &mut |id| match id % strange_in {
        0 => strange(rng),
        _ => vector(rng, id),
    });
    collection
}

fn usual(rng: &mut Rng) -> Vec<f32> {
    let id = rng.below(1_000);
    vector(rng, id)
}

fn many(rng: &mut Rng, of: fn(&mut Rng) -> Vec<f32>, count: usize) -> Vec<Vec<f32>> {
    (0..count).map(|_| of(rng)).collect()
}

fn ask(collection: &Collection, scratch: &mut Scratch, queries: &[Vec<f32>]) {
    for query in queries {
        let request = search_request(query.clone(), 10);
        collection.search(&request, scratch).expect("searches");
    }
}

fn the_segment(collection: &Collection) -> u64 {
    collection.segment_reports()[0].segment
}

/// Queries measured, and what they found.
fn found(collection: &Collection) -> Option<(u64, f64)> {
    let measured = collection.measured_recall();
    measured
        .first()
        .map(|measured| (measured.queries, measured.recall))
}

#[test]
fn the_first_queries_tell_what_an_index_is_asked() {
    let storage: Arc<dyn ramlet_io::Storage> = Arc::new(RamStorage::new(None));
    let engine = open(storage.clone());
    let mut rng = Rng(21);
    let collection = mixed(&engine, &mut rng);
    let mut scratch = engine.scratch().expect("room");
    let (asked, others) = (many(&mut rng, strange, 300), many(&mut rng, strange, 100));
    let (before, probes) = measure(&collection, &mut scratch, &others);
    assert!(before < 0.92, "these find enough: {before}");
    let same = the_segment(&collection);
    // The same few again and again say too little.
    for _ in 0..20 {
        ask(&collection, &mut scratch, &asked[..50]);
    }
    collection.wait_idle().expect("settles");
    assert_eq!(measure(&collection, &mut scratch, &others), (before, probes));
    assert_eq!(found(&collection), None);
    ask(&collection, &mut scratch, &asked);
    collection.wait_idle().expect("measures");
    let (after, more) = measure(&collection, &mut scratch, &others);
    assert!(
        after >= 0.93 && more > probes,
        "{before} -> {after}, {probes} -> {more} clusters"
    );
    let (queries, recall) = found(&collection).expect("was measured");
    assert!(queries == 256 && recall >= 0.95, "{queries} queries: {recall}");
    assert_eq!(the_segment(&collection), same, "nothing is rebuilt");
    // Once is enough.
    ask(&collection, &mut scratch, &many(&mut rng, strange, 300));
    collection.wait_idle().expect("settles");
    assert_eq!(measure(&collection, &mut scratch, &others), (after, more));
    // What the segment is merged into is asked the same, it is thought, and then measured itself.
    let mut fill_more = |collection: &Collection| {
        let mut rng = Rng(23);
        fill_with(collection, 15_000..30_000, &mut |id| vector(&mut rng, id));
        measure(collection, &mut scratch, &others).0
    };
    let merged = fill_more(&collection);
    assert_ne!(the_segment(&collection), same);
    let never_asked = open(Arc::new(RamStorage::new(None)));
    let of_never_asked = fill_more(&mixed(&never_asked, &mut Rng(21)));
    assert!(
        merged > of_never_asked,
        "{merged}, and {of_never_asked} otherwise"
    );
    ask(&collection, &mut scratch, &many(&mut rng, strange, 300));
    collection.wait_idle().expect("measures");
    let (again, of_merged) = measure(&collection, &mut scratch, &others);
    assert!(again >= 0.93, "{merged} -> {again}");
    drop((collection, scratch));
    engine.close();
    drop(engine);
    // It is kept with the index.
    let engine = open(storage);
    let collection = engine.collection("c").expect("is there");
    let mut scratch = engine.scratch().expect("room");
    assert_eq!(measure(&collection, &mut scratch, &others), (again, of_merged));
}

/// Clusters visited by these queries, in all.
fn visited(collection: &Collection, scratch: &mut Scratch, queries: &[Vec<f32>]) -> u64 {
    let of = |query: &Vec<f32>| {
        let mut request = search_request(query.clone(), 10);
        request.params.explain = true;
        let answer = collection.search(&request, scratch).expect("searches");
        answer.explain.iter().map(|part| part.probes).sum::<u64>()
    };
    queries.iter().map(of).sum()
}

#[test]
fn effort_for_queries_that_are_no_longer_asked_is_given_up() {
    let engine = open(Arc::new(RamStorage::new(None)));
    let mut rng = Rng(25);
    let collection = mixed(&engine, &mut rng);
    let mut scratch = engine.scratch().expect("room");
    ask(&collection, &mut scratch, &many(&mut rng, strange, 300));
    collection.wait_idle().expect("measures");
    fill_with(&collection, 15_000..30_000, &mut |id| vector(&mut rng, id));
    let few = many(&mut rng, strange, 50);
    let before = visited(&collection, &mut scratch, &few);
    ask(&collection, &mut scratch, &many(&mut rng, usual, 300));
    collection.wait_idle().expect("measures");
    let after = visited(&collection, &mut scratch, &few);
    assert!(after < before, "{before} -> {after} clusters");
    let (queries, recall) = found(&collection).expect("was measured");
    assert!(queries == 256 && recall >= 0.94, "{queries} queries: {recall}");
}

/// First queries that are easier than the rows don't lower the effort below what rows need: others may come.
#[test]
fn easy_first_queries_leave_enough_effort_for_others() {
    let storage: Arc<dyn ramlet_io::Storage> = Arc::new(RamStorage::new(None));
    let engine = open(storage.clone());
    let mut rng = Rng(26);
    let collection = mixed_by(&engine, &mut rng, 2);
    let mut scratch = engine.scratch().expect("room");
    let others = many(&mut rng, strange, 200);
    ask(&collection, &mut scratch, &many(&mut rng, usual, 300));
    collection.wait_idle().expect("measures");
    let after = measure(&collection, &mut scratch, &others);
    assert!(after.0 >= 0.92, "{after:?}");
    let (queries, found) = found(&collection).expect("was measured");
    assert!(queries == 256 && found >= 0.95, "{queries} queries: {found}");
    drop((collection, scratch));
    engine.close();
    drop(engine);
    // It is kept with the index; a segment that it is merged into begins as any other.
    let engine = open(storage);
    let collection = engine.collection("c").expect("is there");
    let mut scratch = engine.scratch().expect("room");
    assert_eq!(measure(&collection, &mut scratch, &others), after);
    fill_with(&collection, 15_000..60_000, &mut |id| vector(&mut rng, id));
    collection.wait_idle().expect("merges");
    let (merged, _) = measure(&collection, &mut scratch, &many(&mut rng, usual, 100));
    assert!(merged >= 0.95, "{merged}");
}

/// Of what is fused the searches are the ones that an index is asked.
#[test]
fn stages_of_queries_are_among_the_first() {
    let engine = open(Arc::new(RamStorage::new(None)));
    let mut rng = Rng(24);
    let collection = mixed(&engine, &mut rng);
    let mut scratch = engine.scratch().expect("room");
    let mut ask = |filter: Option<Filter>, rng: &mut Rng| {
        for _ in 0..150 {
            let stage = |query| Prefetch {
                query: Some(QueryKind::Nearest(QueryVector::Vector(Vector::Dense(query)))),
                ..Prefetch::default()
            };
            let request = QueryRequest {
                prefetch: vec![stage(strange(rng)), stage(usual(rng))],
                query: Some(QueryKind::Fusion(Fusion::Dbsf)),
                filter: filter.clone(),
                ..QueryRequest::default()
            };
            collection.query(request, &engine, &mut scratch).expect("fuses");
        }
        collection.wait_idle().expect("settles");
        found(&collection).map(|(queries, _)| queries)
    };
    assert_eq!(
        ask(Some(Filter::default()), &mut rng),
        None,
        "others are wanted then"
    );
    assert_eq!(ask(None, &mut rng), Some(256));
}

#[test]
fn where_queries_drift_away_the_index_is_calibrated_on_them() {
    let storage: Arc<dyn ramlet_io::Storage> = Arc::new(RamStorage::new(None));
    let engine = open(storage);
    let mut rng = Rng(22);
    let collection = mixed(&engine, &mut rng);
    let mut scratch = engine.scratch().expect("room");
    let known = many(&mut rng, usual, 300);
    let (asked, others) = (many(&mut rng, strange, 140), many(&mut rng, strange, 100));
    let (recall, _) = measure(&collection, &mut scratch, &known[..100]);
    assert!(recall >= 0.93, "{recall}");
    // What it was built for: no more than that is found.
    ask(&collection, &mut scratch, &known);
    monitored(&engine, &collection, &mut scratch, &known[..128]);
    collection.wait_idle().expect("settles");
    let (recall, _) = measure(&collection, &mut scratch, &known[..100]);
    assert!(recall >= 0.93, "{recall}");
    let (queries, _) = found(&collection).expect("was measured");
    assert!(queries >= 256, "{queries}");
    let (before, probes) = measure(&collection, &mut scratch, &others);
    assert!(before < 0.92, "these find enough: {before}");
    let same = the_segment(&collection);
    // The first time it may have been measured on some of the usual queries as well.
    let (mut after, mut more, mut rounds) = (before, probes, 0);
    while after < 0.93 && rounds < 4 {
        monitored(&engine, &collection, &mut scratch, &asked);
        collection.wait_idle().expect("measures");
        (after, more) = measure(&collection, &mut scratch, &others);
        rounds += 1;
    }
    assert!(
        after >= 0.93 && more > probes,
        "{before} -> {after}, {probes} -> {more} clusters"
    );
    assert_eq!(the_segment(&collection), same, "nothing is rebuilt");
}

#[test]
fn a_graph_is_built_in_little_memory() {
    const POINTS: u64 = 8_000;
    let engine = Engine::open(Arc::new(RamStorage::new(None)), options(17_000_000)).expect("opens");
    let mut settings = config(64, Distance::Cosine);
    settings.indexing_threshold = Some(50);
    settings
        .other
        .insert("index".to_owned(), serde_json::json!("hnsw"));
    engine.create_collection("c", settings).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let mut rng = Rng(5);
    for first in (0..POINTS).step_by(100) {
        let points = (first..first + 100).map(|id| {
            let vector = (0..64).map(|_| rng.float() - 0.5).collect();
            point(id, vector, "{}")
        });
        collection.update(upsert(points.collect())).expect("upserts");
    }
    collection.flush().expect("flushes");
    collection.wait_idle().expect("settles");
    let reports = collection.segment_reports();
    let kinds: Vec<(u32, &str)> = reports
        .iter()
        .map(|part| (part.rows, part.vectors[0].index))
        .collect();
    assert_eq!(
        kinds.iter().map(|(rows, _)| *rows).max(),
        Some(POINTS as u32),
        "{kinds:?}"
    );
    assert!(kinds.iter().all(|(_, index)| *index == "hnsw"), "{kinds:?}");
}
