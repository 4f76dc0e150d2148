//! A panic in each thread of the engine, at each stage of its work: other collections go on, nothing acknowledged is lost.
//!
//! A stage is what a thread does to a kind of file of one collection. A first run tells which there are; then each gets a panic of its own,
//! at its first time and at a later one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use ramlet::*;
use ramlet_io::{RamStorage, Storage};

use crate::support::*;
use crate::watched::Watched;

const DIM: usize = 16;
const POINTS: u64 = 1400;
const BATCH: u64 = 50;
/// The directory of the collection that panics are planted in: the first that is made.
const VICTIM: &str = "c00000000/";

/// Thread, operation, kind of file.
type Stage = (String, String, String);

fn stage(op: &str, path: &str) -> Option<Stage> {
    let name = path.strip_prefix(VICTIM)?;
    let kind = match name.rsplit_once('.') {
        Some((number, kind)) if !number.is_empty() => kind,
        _ => name,
    };
    let kind: String = kind.chars().filter(|c| !c.is_ascii_digit()).collect();
    let thread = std::thread::current().name().unwrap_or("?").to_owned();
    let is_engines = ["writer", "maintenance", "search"].contains(&thread.as_str());
    let thread = if is_engines { thread } else { "caller".to_owned() };
    Some((thread, op.to_owned(), kind))
}

/// How often each stage was reached, and where a panic is planted.
#[derive(Default)]
struct Stages {
    reached: BTreeMap<Stage, usize>,
    planted: Option<(Stage, usize)>,
    fired: bool,
}

fn settings() -> CollectionConfig {
    let mut settings = config(DIM, Distance::Dot);
    settings.indexing_threshold = Some(10);
    settings
}

fn text_index() -> FieldIndex {
    FieldIndex {
        kind: FieldKind::Text,
        params: Some(serde_json::json!({"type": "text", "scoring": true, "phrase_matching": true})),
    }
}

fn points(ids: std::ops::Range<u64>, rng: &mut Rng) -> Vec<Point> {
    let payload = |id: u64| format!("{{\"n\":{id},\"t\":\"word{} {}\"}}", id % 7, "x".repeat(900));
    ids.map(|id| point(id, rng.vector(DIM), &payload(id))).collect()
}

/// What was acknowledged: ids that are there.
type Acknowledged = BTreeSet<u64>;

/// Ends at the first refusal, which must say why.
fn work(engine: &Engine, acknowledged: &mut Acknowledged) -> Result<()> {
    let collection = engine.collection("victim")?;
    let mut rng = Rng(7);
    for first in (0..POINTS).step_by(BATCH as usize) {
        collection.update(upsert(points(first..first + BATCH, &mut rng)))?;
        acknowledged.extend(first..first + BATCH);
        if first == 10 * BATCH {
            collection.create_payload_index("t", text_index())?;
            let number = FieldIndex {
                kind: FieldKind::Integer,
                params: None,
            };
            collection.create_payload_index("n", number)?;
        }
        if first % (6 * BATCH) == 0 {
            collection.flush()?;
            collection.wait_idle()?;
        }
        let gone: Vec<u64> = (first..first + 5).collect();
        collection.update(delete(&gone))?;
        acknowledged.retain(|id| !gone.contains(id));
    }
    collection.wait_idle()?;
    // As much as makes the writer hand over its buffer: the maintenance thread flushes it.
    let before = collection.segment_reports().len();
    let text = "y".repeat(9000);
    for id in 2000..2000 + engine.budget().write_buffers / 2 / 9000 {
        let payload = format!("{{\"t\":\"{text}\"}}");
        collection.update(upsert(vec![point(id, rng.vector(DIM), &payload)]))?;
        acknowledged.insert(id);
    }
    while collection.segment_reports().len() <= before {
        // Says why it doesn't come.
        if collection.info().status == CollectionStatus::Red {
            return collection.update(delete(&[1])).map(drop);
        }
        std::thread::yield_now();
    }
    collection.wait_idle()
}

/// A storage that panics where `stages` say so.
fn planted(storage: &Arc<dyn Storage>, stages: &Arc<Mutex<Stages>>) -> Arc<Watched> {
    let told = stages.clone();
    Watched::new(storage.clone(), move |op, path| {
        let Some(stage) = stage(op, path) else { return };
        let mut stages = told.lock().expect("never poisoned");
        let times = stages.reached.entry(stage.clone()).or_default();
        *times += 1;
        let here = (stage, *times);
        if stages.planted.as_ref() == Some(&here) {
            stages.fired = true;
            drop(stages);
            panic!("planted");
        }
    })
}

/// All stages where the environment asks for them, each at its first time and at a later one; else some of each thread and operation.
fn chosen(reached: BTreeMap<Stage, usize>) -> Vec<(Stage, usize)> {
    const EACH: usize = 2;
    let all = std::env::var("RAMLET_PANICS").is_ok_and(|told| told == "all");
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for (stage, times) in reached {
        let group = (stage.0.clone(), stage.1.clone());
        groups.entry(group).or_default().push((stage, times));
    }
    let of_group = |stages: Vec<(Stage, usize)>| {
        let step = if all { 1 } else { stages.len().div_ceil(EACH) };
        let some = stages.into_iter().step_by(step).enumerate();
        let at = |(n, (stage, times)): (usize, (Stage, usize))| {
            let later = (stage.clone(), times.div_ceil(2));
            match (all, n % 2) {
                (true, _) => vec![(stage, 1), later],
                (false, 0) => vec![later],
                (false, _) => vec![(stage, 1)],
            }
        };
        some.flat_map(at).collect::<Vec<_>>()
    };
    let mut chosen: Vec<_> = groups.into_values().flat_map(of_group).collect();
    chosen.dedup();
    chosen
}

/// Plants a panic at each stage; `run` tells what came of it.
fn plant(reached: BTreeMap<Stage, usize>, run: impl Fn(&Arc<Mutex<Stages>>) -> String) {
    let (mut fired, mut planted) = (0, 0);
    for place in chosen(reached) {
        let stages = Arc::new(Mutex::new(Stages {
            planted: Some(place.clone()),
            ..Stages::default()
        }));
        let outcome = run(&stages);
        let has_fired = stages.lock().expect("never poisoned").fired;
        println!("{place:?}: fired {has_fired}: {outcome}");
        planted += 1;
        fired += u32::from(has_fired);
    }
    println!("{fired} of {planted} panics were reached");
    // What a thread finds to do depends on the moment.
    assert!(fired > planted / 2, "{fired} of {planted}");
}

/// Every kind of read of the victim finds what was acknowledged. An update whose end nobody knows may be there.
fn check_reads(engine: &Engine, acknowledged: &Acknowledged, scratch: &mut Scratch) {
    let victim = engine.collection("victim").expect("is there");
    let there = contents(&victim, scratch);
    assert!(
        acknowledged
            .iter()
            .all(|id| there.contains_key(&PointId::Num(*id))),
        "scrolled"
    );
    let filter = serde_json::json!({"must": [{"key": "n", "range": {"lt": 100}}]});
    let filter = serde_json::from_value(filter).expect("a filter");
    let of_filter = acknowledged.iter().filter(|id| **id < 100).count() as u64;
    // With indexes and without; the last five of a batch may be deleted, and nobody was told.
    let counted = victim.count(Some(&filter), true, scratch).expect("counts");
    assert!(
        of_filter <= counted + 5 && counted <= 100,
        "{counted} for {of_filter}"
    );
    let mut exact = search_request(vec![1.0; DIM], 5000);
    exact.params.exact = true;
    let found = victim.search(&exact, scratch).expect("searches").hits.len();
    assert_eq!(found, there.len());
    let nearest = search_request(vec![1.0; DIM], 10);
    let found = victim.search(&nearest, scratch).expect("searches").hits.len();
    assert_eq!(found, there.len().min(10));
}

fn run(stages: &Arc<Mutex<Stages>>) -> String {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let watched = planted(&storage, stages);
    let engine = Engine::open(watched, options(24 * MB)).expect("opens");
    if let Err(failed) = engine.create_collection("victim", settings()) {
        assert!(failed.to_string().contains("planted"), "{failed}");
        engine.create_collection("victim", settings()).expect("creates");
    }
    engine.create_collection("other", settings()).expect("creates");
    let other = engine.collection("other").expect("is there");
    let mut rng = Rng(3);
    other.update(upsert(points(0..100, &mut rng))).expect("upserts");
    let mut acknowledged = Acknowledged::new();
    let outcome = work(&engine, &mut acknowledged);

    // It is read as before: nobody needs the memory of its newest points yet.
    let mut scratch = engine.scratch().expect("scratch");
    if outcome.is_err() {
        check_reads(&engine, &acknowledged, &mut scratch);
    }
    // The other one is written, flushed, merged, and read.
    other.update(upsert(points(100..600, &mut rng))).expect("upserts");
    other.flush().expect("flushes");
    other.wait_idle().expect("merges");
    assert_eq!(other.info().points_count, 600);
    assert_eq!(contents(&other, &mut scratch).len(), 600);
    // So is the victim, as far as that can be: what is read is all that was acknowledged.
    let victim = engine.collection("victim").expect("is there");
    let info = victim.info();
    // The second: what it held had to make way for the other one.
    let is_a_stop = |e: &Error| [ErrorKind::WritesStopped, ErrorKind::CollectionClosed].contains(&e.kind());
    if let Err(refused) = &outcome {
        assert!(is_a_stop(refused), "{refused}");
        assert_eq!(info.status, CollectionStatus::Red);
        let why = info.optimizer_error.expect("red for a reason");
        assert!(why.contains("planted"), "{why}");
        let refused = victim.update(delete(&[1])).expect_err("no more writes");
        assert!(is_a_stop(&refused), "{refused}");
    }
    // An update whose end nobody knows may be there.
    let is_all = |there: &Contents| {
        acknowledged
            .iter()
            .all(|id| there.contains_key(&PointId::Num(*id)))
    };
    match victim.count(None, true, &mut scratch) {
        Ok(_) => assert!(is_all(&contents(&victim, &mut scratch)), "read"),
        Err(e) => assert_eq!(e.kind(), ErrorKind::CollectionClosed, "{e}"),
    }
    engine.close();
    drop((scratch, other, victim, engine));

    let engine = Engine::open(storage, options(24 * MB)).expect("opens");
    assert!(engine.closed_collections().is_empty());
    let mut scratch = engine.scratch().expect("scratch");
    let count = |name| engine.collection(name).unwrap().info().points_count;
    assert_eq!(count("other"), 600);
    let victim = engine.collection("victim").unwrap();
    assert!(is_all(&contents(&victim, &mut scratch)), "after a restart");
    victim
        .update(upsert(points(5000..5010, &mut rng)))
        .expect("writes again");
    victim.wait_idle().expect("merges");
    engine.close();
    outcome.map_or_else(|error| error.to_string(), |()| "done".to_owned())
}

#[test]
fn a_panic_at_any_stage_stops_one_collections_writes_and_loses_nothing() {
    let first = Arc::new(Mutex::new(Stages::default()));
    assert_eq!(run(&first), "done");
    let reached = first.lock().expect("never poisoned").reached.clone();
    for thread in ["caller", "maintenance", "writer"] {
        assert!(reached.keys().any(|stage| stage.0 == thread), "{thread}");
    }
    plant(reached, run);
}

#[test]
fn a_panic_at_any_stage_of_a_start_closes_one_collection_and_loses_nothing() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let engine = open(storage.clone());
    let mut acknowledged = Acknowledged::new();
    engine.create_collection("victim", settings()).expect("creates");
    engine.create_collection("other", settings()).expect("creates");
    work(&engine, &mut acknowledged).expect("works");
    let mut rng = Rng(9);
    for (name, ids) in [("victim", 5000..5100), ("other", 0..100)] {
        let collection = engine.collection(name).expect("is there");
        collection.update(upsert(points(ids, &mut rng))).expect("upserts");
    }
    acknowledged.extend(5000..5100);
    engine.close();
    drop(engine);
    let count = |engine: &Engine, name| Some(engine.collection(name).ok()?.info().points_count);
    let whole = Some(acknowledged.len() as u64);
    let start = |stages: &Arc<Mutex<Stages>>| {
        let engine = Engine::open(planted(&storage, stages), options(24 * MB)).expect("opens");
        let closed = engine.closed_collections();
        assert_eq!(count(&engine, "other"), Some(100));
        let told = match &closed[..] {
            // It opened: the panic came later, or never.
            [] => {
                assert_eq!(count(&engine, "victim"), whole);
                "open".to_owned()
            }
            [(name, why)] => {
                assert!(name == "victim" && why.to_string().contains("planted"), "{why}");
                why.to_string()
            }
            _ => panic!("{closed:?}"),
        };
        engine.close();
        drop(engine);
        let engine = open(storage.clone());
        assert_eq!(count(&engine, "victim"), whole);
        engine.close();
        told
    };
    let first = Arc::new(Mutex::new(Stages::default()));
    assert_eq!(start(&first), "open");
    let mut reached = first.lock().expect("never poisoned").reached.clone();
    reached.retain(|stage, _| stage.0 == "caller");
    plant(reached, start);
}

fn is_of_the_queue(e: &Error) -> bool {
    e.kind() == ErrorKind::OverBudget && e.to_string().contains("this update needs")
}

/// Two whose flushes fail hold most of the memory of memtables.
#[test]
fn what_a_stopped_collection_holds_makes_way_for_the_writes_of_others() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    let watched = Watched::new(storage.clone(), |op, path| {
        let is_a_flush = op == "create" && path.ends_with(".ids") && !path.starts_with("c00000002/");
        assert!(!is_a_flush, "planted");
    });
    let engine = Engine::open(watched, options(24 * MB)).expect("opens");
    for name in ["a", "b", "c"] {
        engine.create_collection(name, settings()).expect("creates");
    }
    let most = engine.budget().write_buffers as usize;
    let text = |bytes: usize| format!("{{\"t\":\"{}\"}}", "x".repeat(bytes));
    let big = |id, bytes| upsert(vec![point(id, vec![1.0; DIM], &text(bytes))]);
    for name in ["a", "b"] {
        let collection = engine.collection(name).expect("is there");
        for id in 0..4 {
            collection.update(big(id, most / 9)).expect("upserts");
        }
        let failed = collection.flush().expect_err("planted");
        assert_eq!(failed.kind(), ErrorKind::WritesStopped, "{failed}");
        assert_eq!(collection.info().points_count, 4, "it is still read");
    }
    let c = engine.collection("c").expect("is there");
    for id in 0..10 {
        let put = || c.update(big(id, most / 5));
        // What the one before had in the queue is given back a moment after it was answered.
        let done = std::iter::repeat_with(put).find(|done| !done.as_ref().is_err_and(is_of_the_queue));
        done.expect("without end").expect("finds room");
    }
    assert_eq!(c.info().points_count, 10);
    let mut scratch = engine.scratch().expect("scratch");
    let counts = ["a", "b"].map(|name| {
        let collection = engine.collection(name).expect("is there");
        collection.count(None, true, &mut scratch)
    });
    let gone: Vec<_> = counts.iter().filter_map(|count| count.as_ref().err()).collect();
    assert!(!gone.is_empty(), "nobody made way: {counts:?}");
    assert!(
        gone.iter()
            .all(|e| e.kind() == ErrorKind::CollectionClosed && e.to_string().contains("planted")),
        "{counts:?}"
    );
    engine.close();
    drop((scratch, c, engine));
    let engine = open(storage);
    let count = |name| engine.collection(name).unwrap().info().points_count;
    assert_eq!((count("a"), count("b"), count("c")), (4, 4, 10));
    engine.close();
}
