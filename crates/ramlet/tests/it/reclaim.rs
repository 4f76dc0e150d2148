//! Cached data: it goes when others need the memory, comes back later, and answers stay right.

use std::sync::Arc;

use ramlet::*;
use ramlet_io::{PreadStorage, RamStorage, Storage};
use ramlet_memory::{BudgetRequest, BudgetTable, Ledger, Reservation};

use crate::counts::{Directory, engine, searching_budget};
use crate::support::*;

const DIM: usize = 96;
const POINTS: u64 = 12_000;

struct Filled {
    engine: Arc<Engine>,
    collection: Arc<Collection>,
    queries: Vec<Vec<f32>>,
}

/// Points around some centres, in one segment with an index.
fn filled(memory: u64) -> Filled {
    filled_of(DIM, memory, Arc::new(RamStorage::new(None)))
}

fn filled_of(dim: usize, memory: u64, storage: Arc<dyn Storage>) -> Filled {
    filled_with(POINTS, dim, memory, storage)
}

fn filled_with(points: u64, dim: usize, memory: u64, storage: Arc<dyn Storage>) -> Filled {
    let budget = BudgetTable::plan(BudgetRequest::in_process(memory, 1)).expect("enough for a test");
    let options = EngineOptions {
        ledger: Ledger::new(budget.ledger_limit()),
        budget,
        ..options(64 * MB)
    };
    let engine = Engine::open(storage, options).expect("opens");
    let config = CollectionConfig {
        indexing_threshold: Some(100),
        ..config(dim, Distance::Euclid)
    };
    engine.create_collection("c", config).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let mut rng = Rng(5);
    let centres: Vec<Vec<f32>> = (0..50).map(|_| rng.vector(dim)).collect();
    let mut near = |i: u64| -> Vec<f32> {
        let centre = &centres[i as usize % centres.len()];
        centre.iter().map(|x| x + rng.float() * 0.5).collect()
    };
    for first in (0..points).step_by(1000) {
        let points = (first..first + 1000)
            .map(|id| point(id, near(id), "{}"))
            .collect();
        collection.update(upsert(points)).expect("there is room");
    }
    let queries = (0..20).map(near).collect();
    collection.flush().expect("flushes");
    collection.wait_idle().expect("nothing fails");
    assert!(collection.info().indexed_vectors_count > 0);
    Filled {
        engine,
        collection,
        queries,
    }
}

fn pinned(collection: &Collection) -> Vec<(&'static str, u64)> {
    let memory = collection.info().memory.into_iter();
    let pinned = memory.filter(|part| part.pinned_bytes > 0);
    pinned.map(|part| (part.kind, part.pinned_bytes)).collect()
}

impl Filled {
    /// Bytes in RAM by kind.
    fn pinned(&self) -> Vec<(&'static str, u64)> {
        pinned(&self.collection)
    }

    /// Share of the true neighbours that searches find, and the reads that they need each.
    fn search(&self) -> (f64, f64) {
        let mut scratch = self.engine.scratch().expect("room for a scratch");
        let (mut found, mut reads) = (0, 0);
        let mut ids = |vector: &[f32], exact: bool| -> Vec<PointId> {
            let mut request = search_request(vector.to_vec(), 10);
            request.params.exact = exact;
            let mut hits = Vec::new();
            let cost = self.collection.search_into(&request, &mut scratch, &mut hits);
            reads += if exact {
                0
            } else {
                cost.expect("searches").disk_reads
            };
            hits.iter().map(|hit| hit.id).collect()
        };
        for query in &self.queries {
            let (exact, quick) = (ids(query, true), ids(query, false));
            found += quick.iter().filter(|id| exact.contains(id)).count();
        }
        let searches = self.queries.len() as f64;
        (found as f64 / searches / 10.0, reads as f64 / searches)
    }
}

/// Takes all memory: what is free, and then what caches hold.
fn take_all(engine: &Engine) -> [Reservation; 2] {
    let ledger = engine.ledger();
    let filler = ledger.cache("filler", u64::MAX);
    let reclaimable = ledger.reclaimable_bytes();
    let free = filler.reserve(filler.available()).expect("it is free");
    let user = ledger.consumer("test", u64::MAX);
    [free, user.reserve(reclaimable).expect("caches give way")]
}

#[test]
fn what_is_cached_goes_and_comes_back() {
    let filled = filled(64 * MB);
    let whole = filled.pinned();
    let kinds: Vec<_> = whole.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(
        kinds,
        ["codes", "extended codes", "rows"],
        "there is room for all"
    );
    let (recall, reads) = filled.search();
    assert!(
        recall >= 0.9 && reads == 0.0,
        "recall {recall}, {reads} reads a search"
    );

    let held = take_all(&filled.engine);
    assert_eq!(filled.pinned(), [], "others needed it all");
    drop(held);
    let (recall, reads) = filled.search();
    assert!(
        recall >= 0.9 && reads > 0.0,
        "recall {recall}, {reads} reads a search"
    );

    filled.collection.wait_idle().expect("nothing fails");
    assert_eq!(filled.pinned(), whole);
    let (recall, reads) = filled.search();
    assert!(
        recall >= 0.9 && reads == 0.0,
        "recall {recall}, {reads} reads a search"
    );
}

/// Of a small collection everything is in RAM and of a large one nothing, since there was no room: the first has what spares a read, the
/// second lacks that without which a search reads whole clusters.
#[test]
fn what_one_segment_misses_most_comes_before_what_another_misses_less() {
    let large = filled(64 * MB);
    let engine = &large.engine;
    let config = CollectionConfig {
        indexing_threshold: Some(100),
        ..config(DIM, Distance::Euclid)
    };
    engine.create_collection("small", config).expect("creates");
    let small = engine.collection("small").expect("is there");
    let mut rng = Rng(8);
    let points = (0..3_000).map(|id| point(id, rng.vector(DIM), "{}")).collect();
    small.update(upsert(points)).expect("there is room");
    small.flush().expect("flushes");
    small.wait_idle().expect("nothing fails");
    let whole = pinned(&small);
    let kinds: Vec<_> = whole.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, ["codes", "extended codes", "rows"]);

    let filler = engine.ledger().cache("filler", u64::MAX);
    let held = loop {
        drop(take_all(&large.engine));
        let mut held = filler.reserve(filler.available() - 2 * MB).expect("it is free");
        // Jobs take something too: little by little, until there is just the room for all of the small one.
        while pinned(&small) != whole {
            held.shrink_to(held.bytes() - (64 << 10));
            small.wait_idle().expect("nothing fails");
        }
        // Else the engine's own thread looked between two steps, and there is more room than that.
        if large.pinned().is_empty() {
            break held;
        }
    };
    // Now it gets what it misses most. Again and again, as nothing is taken from each other without an end.
    for _ in 0..3 {
        large.collection.wait_idle().expect("nothing fails");
        small.wait_idle().expect("nothing fails");
        let kinds: Vec<_> = large.pinned().iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, ["codes", "extended codes"]);
        assert_eq!(pinned(&small), whole[..2]);
    }
    drop(held);
}

#[test]
fn jobs_and_writes_take_back_what_they_were_promised() {
    let filled = filled(64 * MB);
    let whole: u64 = filled.pinned().iter().map(|(_, bytes)| bytes).sum();
    let ledger = filled.engine.ledger().clone();
    // A cache that leaves nothing free.
    let filler = ledger.cache("filler", u64::MAX);
    let free = filler.available();
    let held = filler.reserve(free).expect("it is free");
    assert_eq!(ledger.used(), ledger.limit());
    let mut rng = Rng(9);
    for round in 0..3 {
        let points = (0..500)
            .map(|i| point(round * 500 + i, rng.vector(DIM), "{}"))
            .collect();
        filled
            .collection
            .update(upsert(points))
            .expect("write buffers are promised");
        filled.collection.flush().expect("so is the scratch of jobs");
        assert!(ledger.used() <= ledger.limit() && ledger.peak() <= ledger.limit());
    }
    drop(held);
    filled.collection.wait_idle().expect("nothing fails");
    let after: u64 = filled.pinned().iter().map(|(_, bytes)| bytes).sum();
    assert!(
        after >= whole / 10 * 9,
        "{after} of {whole} bytes are in RAM again"
    );
    let (recall, _) = filled.search();
    assert!(recall >= 0.9, "recall {recall}");
}

#[test]
fn what_goes_to_ram_is_chosen_by_the_room_there_is() {
    let filled = filled(64 * MB);
    let storage = filled.engine.storage().clone();
    drop(filled);
    let mut seen: Vec<Vec<&'static str>> = Vec::new();
    for step in 0..220 {
        let budget = BudgetTable::plan(BudgetRequest::in_process(64 * MB, 1)).expect("enough for a test");
        let ledger = Ledger::new(budget.ledger_limit());
        let fixed = budget.search_slots + budget.log_buffers + budget.block_cache;
        let filler = ledger.cache("filler", u64::MAX);
        let left = fixed + (300 << 10) + step * (32 << 10);
        let _held = filler
            .reserve(ledger.limit() - left)
            .expect("nothing is taken yet");
        let options = EngineOptions {
            ledger,
            budget,
            ..options(64 * MB)
        };
        let Ok(engine) = Engine::open(storage.clone(), options) else {
            assert!(seen.is_empty(), "it did open with less");
            continue;
        };
        let collection = engine.collection("c").expect("is there");
        // It fails where there is no room for a job.
        let _ = collection.wait_idle();
        let memory = collection.info().memory.into_iter();
        let kinds: Vec<_> = memory
            .filter(|part| part.pinned_bytes > 0)
            .map(|part| part.kind)
            .collect();
        if !seen.contains(&kinds) {
            seen.push(kinds);
        }
        engine.close();
    }
    // The short extended codes may be given back while the rest of the engine is opened.
    seen.retain(|kinds| *kinds != ["codes"]);
    let expected: [&[&str]; 6] = [
        &[],
        &["product codes"],
        &["codes", "short extended codes"],
        &["codes", "extended codes"],
        &["codes", "extended codes", "residual codes"],
        &["codes", "extended codes", "rows"],
    ];
    assert_eq!(seen, expected);
}

/// Looks, a tenth of a second apart, until what is cached has come: it comes by and by.
const LOOKS: u64 = 600;

/// A write now and then doesn't keep out of RAM what has room there.
#[test]
fn what_has_room_is_cached_beside_a_trickle_of_writes() {
    let filled = filled(64 * MB);
    let storage = filled.engine.storage().clone();
    drop(filled);
    let budget = BudgetTable::plan(BudgetRequest::in_process(64 * MB, 1)).expect("enough for a test");
    let ledger = Ledger::new(budget.ledger_limit());
    let fixed = budget.search_slots + budget.log_buffers + budget.block_cache;
    let filler = ledger.cache("filler", u64::MAX);
    let held = filler.reserve(ledger.limit() - fixed - 2 * MB);
    let options = EngineOptions {
        ledger,
        budget,
        ..options(64 * MB)
    };
    let engine = Engine::open(storage, options).expect("opens");
    let collection = engine.collection("c").expect("is there");
    let has_rows = || {
        collection
            .info()
            .memory
            .iter()
            .any(|part| part.kind == "rows" && part.pinned_bytes > 0)
    };
    // The look at the start is over: it found no room, for jobs neither.
    let _ = collection.wait_idle();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!has_rows(), "there is no room");
    drop(held);
    let mut rng = Rng(11);
    let came = (0..LOOKS).find(|i| {
        let write = upsert(vec![point(*i, rng.vector(DIM), "{}")]);
        collection.update(write).expect("there is room");
        std::thread::sleep(std::time::Duration::from_millis(100));
        has_rows()
    });
    assert!(came.is_some(), "{:?}", collection.info().memory);
}

/// Beside 1-bit codes of wide vectors there is a part of the extended ones, where not all of them have room: fewer rows are read.
#[test]
fn extended_codes_are_cached_in_part() {
    const WIDE: usize = 384;
    // Between one and two pieces of memory for the extended codes. (What a tenth of one lacks is taken from payloads.)
    const MANY: u64 = 60_000;
    const PIECE: u64 = 2 << 20;
    let directory = Directory::new("extended-part");
    let storage = PreadStorage::open(&directory.0).expect("a directory");
    let filled = filled_with(MANY, WIDE, 96 * MB, storage.clone());
    let queries = filled.queries.clone();
    drop(filled);
    let opened = |room: u64| {
        let engine = engine(&storage, searching_budget(room));
        let collection = engine.collection("c").expect("is there");
        collection.wait_idle().expect("nothing fails");
        let filled = Filled {
            engine,
            collection,
            queries: queries.clone(),
        };
        let pinned = filled.pinned();
        let short = pinned.iter().find(|(kind, _)| *kind == "short extended codes");
        (filled, short.map_or(0, |(_, bytes)| *bytes))
    };
    // By how much there is of them, the reads of all searches.
    let mut found = std::collections::BTreeMap::new();
    for room in (0..24).map(|step| 3_200_000 + step * 200_000) {
        let (filled, bytes) = opened(room);
        if filled.pinned().iter().any(|(kind, _)| *kind == "extended codes") {
            break;
        }
        let mut scratch = filled.engine.scratch().expect("room for a scratch");
        let reads = queries.iter().map(|query| {
            let request = search_request(query.clone(), 10);
            let found = filled.collection.search(&request, &mut scratch);
            found.expect("searches").cost.disk_reads
        });
        found.insert(bytes, reads.sum::<u64>());
        drop(scratch);
        if bytes == PIECE {
            let (recall, _) = filled.search();
            assert!(recall >= 0.9, "{recall}");
        }
    }
    let reads: Vec<u64> = found.values().copied().collect();
    assert!(found.contains_key(&0) && found.contains_key(&PIECE), "{found:?}");
    assert!(found.len() >= 3 && reads.is_sorted_by(|a, b| a > b), "{found:?}");
}

/// Searches wait for the reads of a segment of few rows as for those of a large one: it is cached first, in room that the large one has use for.
#[test]
fn few_rows_beside_a_large_segment_are_cached_before_it() {
    const WIDE: usize = 256;
    const FEW: u64 = 100;
    let directory = Directory::new("rests");
    let storage = PreadStorage::open(&directory.0).expect("a directory");
    let filled = filled_of(WIDE, 64 * MB, storage.clone());
    let queries = filled.queries.clone();
    let mut rng = Rng(17);
    let points = (POINTS..POINTS + FEW)
        .map(|id| point(id, rng.vector(WIDE), "{}"))
        .collect();
    filled.collection.update(upsert(points)).expect("there is room");
    filled.collection.flush().expect("flushes");
    filled.collection.wait_idle().expect("nothing fails");
    drop(filled);
    // Whatever of the large one there is room for beside it.
    for room in (5..10).map(|step| step * 200_000) {
        let engine = engine(&storage, searching_budget(room));
        let collection = engine.collection("c").expect("is there");
        collection.wait_idle().expect("nothing fails");
        // Reads of the few rows, of all searches together.
        let reads = || {
            let mut scratch = engine.scratch().expect("room for a scratch");
            let mut reads = 0;
            for query in &queries {
                let mut request = search_request(query.clone(), 10);
                request.params.explain = true;
                let found = collection.search(&request, &mut scratch).expect("searches");
                let few = found.explain.iter().find(|part| part.rows == FEW);
                reads += few.expect("its segment").reads;
            }
            reads
        };
        let came = (0..LOOKS / 4).find(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            reads() == 0
        });
        assert!(came.is_some(), "{room}: {:?}", pinned(&collection));
        // The large one doesn't take it back.
        collection.wait_idle().expect("nothing fails");
        assert_eq!(reads(), 0, "{room}: {:?}", pinned(&collection));
    }
}

/// Room that is left beside extended codes and doesn't do for the rest of them goes to the first rows of it, until somebody else has
/// use for it.
#[test]
fn what_is_left_beside_extended_codes_spares_reads() {
    const WIDE: usize = 384;
    let directory = Directory::new("spare");
    let storage = PreadStorage::open(&directory.0).expect("a directory");
    let filled = filled_of(WIDE, 64 * MB, storage.clone());
    let queries = filled.queries.clone();
    drop(filled);
    let opened = |room: u64| {
        let engine = engine(&storage, searching_budget(room));
        let collection = engine.collection("c").expect("is there");
        collection.wait_idle().expect("nothing fails");
        Filled {
            engine,
            collection,
            queries: queries.clone(),
        }
    };
    // Bytes of what is left over, and rows that all searches read together.
    let spare = |filled: &Filled| {
        let pinned = filled.pinned();
        let rest = pinned.iter().find(|(kind, _)| *kind == "residual codes");
        let mut scratch = filled.engine.scratch().expect("room for a scratch");
        // Of the largest segment: rows of small ones beside it are read whatever is in RAM.
        let rows_read = |query: &Vec<f32>| {
            let mut request = search_request(query.clone(), 10);
            request.params.explain = true;
            let found = filled
                .collection
                .search(&request, &mut scratch)
                .expect("searches");
            let largest = found.explain.iter().max_by_key(|part| part.rows);
            largest.expect("a segment").rows_read
        };
        let rows = queries.iter().map(rows_read).sum::<u64>();
        (rest.map_or(0, |(_, bytes)| *bytes), rows)
    };
    let none = opened(2_300_000);
    let (bytes, all) = spare(&none);
    assert!(bytes == 0 && all > 60, "{:?}, {all}", none.pinned());
    let (without, _) = none.search();
    drop(none);
    let filled = opened(5_000_000);
    let is_there = || filled.pinned().iter().any(|(kind, _)| *kind == "residual codes");
    (0..LOOKS)
        .take_while(|_| !is_there())
        .for_each(|_| std::thread::sleep(std::time::Duration::from_millis(100)));
    let (piece, fewer) = spare(&filled);
    assert!(
        piece >= 2 << 20 && fewer < all - all / 4,
        "{piece}, {fewer} of {all}: {:?}",
        filled.pinned()
    );
    // One index and one effort: what is in RAM doesn't matter to more than three of two hundred hits.
    let (recall, _) = filled.search();
    assert!((recall - without).abs() < 0.0175, "{recall}, {without} without");

    // The first to go, and back when the memory isn't wanted any more.
    let extended = |filled: &Filled| {
        filled
            .pinned()
            .into_iter()
            .find(|(kind, _)| *kind == "extended codes")
    };
    let (ledger, whole) = (filled.engine.ledger().clone(), extended(&filled));
    let (filler, user) = (
        ledger.cache("filler", u64::MAX),
        ledger.consumer("test", u64::MAX),
    );
    let free = filler.reserve(filler.available()).expect("it is free");
    let held = user.reserve(piece).expect("caches give way");
    filled.collection.wait_idle().expect("nothing fails");
    let (gone, reads) = spare(&filled);
    assert_eq!((gone, extended(&filled)), (0, whole));
    assert!(reads >= all - all / 10, "{reads} of {all}");
    drop((free, held));
    filled.collection.wait_idle().expect("nothing fails");
    assert_eq!(spare(&filled), (piece, fewer));
}

/// An engine in whose memory somebody else leaves so many bytes when it is opened.
fn opened_beside(storage: &Arc<dyn Storage>, budget: BudgetTable, left: u64) -> (Arc<Engine>, Reservation) {
    let ledger = Ledger::new(budget.ledger_limit());
    let other = ledger.consumer("test", u64::MAX);
    let held = other.reserve(other.available() - left).expect("it is free");
    let options = EngineOptions {
        ledger,
        budget,
        ..options(64 * MB)
    };
    (Engine::open(storage.clone(), options).expect("opens"), held)
}

/// The filter of ids and their numbers, a few bytes a row, find no room while a segment is opened: they come later.
#[test]
fn ids_that_found_no_room_come_later() {
    let storage: Arc<dyn Storage> = Arc::new(RamStorage::new(None));
    drop(filled_of(DIM, 64 * MB, storage.clone()));
    let (engine, held) = opened_beside(&storage, searching_budget(16_000_000), 3_500_000);
    let collection = engine.collection("c").expect("is there");
    let heap = || {
        let memory = collection.info().memory.into_iter();
        let ids = memory.filter(|part| part.component == "ids");
        ids.map(|part| part.heap_bytes).collect::<Vec<_>>()
    };
    let before = heap();
    drop(held);
    collection.wait_idle().expect("nothing fails");
    let after = heap();
    let is_more = before.iter().zip(&after).all(|(before, after)| before < after);
    assert!(before[0] == 0 && is_more, "{before:?}, then {after:?}");
}

/// Payload indexes and positions come to RAM where there is room; not those whose settings say that they stay on disk.
#[test]
fn what_filters_read_is_cached() {
    let directory = Directory::new("filters");
    let storage = PreadStorage::open(&directory.0).expect("a directory");
    let engine = Engine::open(storage, options(64 * MB)).expect("opens");
    let mut settings = config(DIM, Distance::Euclid);
    settings.indexing_threshold = Some(100);
    engine.create_collection("c", settings).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let stays = serde_json::json!({"type": "integer", "on_disk": true});
    for (name, params) in [("here", None), ("there", Some(stays))] {
        let index = FieldIndex {
            kind: FieldKind::Integer,
            params: params.map(|params| serde_json::from_value(params).expect("an object")),
        };
        collection.create_payload_index(name, index).expect("is new");
    }
    let mut rng = Rng(5);
    for first in (0..POINTS).step_by(1000) {
        let points = (first..first + 1000).map(|id| {
            let payload = format!("{{\"here\":{0},\"there\":{0}}}", id % 10);
            point(id, rng.vector(DIM), &payload)
        });
        collection
            .update(upsert(points.collect()))
            .expect("there is room");
    }
    collection.flush().expect("flushes");
    collection.wait_idle().expect("nothing fails");
    let mut scratch = engine.scratch().expect("room for a scratch");
    let mut reads = |field: &str| {
        let filter = serde_json::json!({"must": [{"key": field, "range": {"gte": 3, "lt": 8}}]});
        let mut request = search_request(rng.vector(DIM), 10);
        request.filter = Some(serde_json::from_value(filter).expect("a filter"));
        let mut hits = Vec::new();
        let cost = collection.search_into(&request, &mut scratch, &mut hits);
        assert_eq!(hits.len(), 10);
        cost.expect("searches").disk_reads
    };
    let memory = collection.info().memory;
    assert_eq!(reads("here"), 0, "{memory:?}");
    assert!(reads("there") > 0, "{memory:?}");
    let tables = pinned(&collection)
        .into_iter()
        .filter(|(kind, _)| *kind == "sorted");
    assert_eq!(tables.count(), 2, "ids, and `here`: {memory:?}");
    drop(take_all(&engine));
    assert!(pinned(&collection).is_empty(), "others needed it all");
    collection.wait_idle().expect("nothing fails");
    assert_eq!(reads("here"), 0);
}

/// A job that wants all that is set aside gets it, whatever the number.
#[test]
fn a_job_gets_all_of_an_odd_scratch() {
    let budget = BudgetTable::plan(BudgetRequest {
        job_scratch: Some((5 << 20) + 1234),
        ..BudgetRequest::new(64 * MB, 1)
    });
    let budget = budget.expect("enough for a test");
    let options = EngineOptions {
        ledger: Ledger::new(budget.ledger_limit()),
        budget,
        ..options(64 * MB)
    };
    let engine = Engine::open(Arc::new(RamStorage::new(None)), options).expect("opens");
    engine
        .create_collection("c", config(DIM, Distance::Dot))
        .expect("creates");
    let collection = engine.collection("c").expect("is there");
    let points = (0..4000).map(|id| point(id, vec![id as f32; DIM], "{}"));
    collection.update(upsert(points.collect())).expect("upserts");
    collection.flush().expect("flushes");
    assert_eq!(collection.info().points_count, 4000);
}

/// Documents of 950 bytes, found by one of 400 words each, of which all are in RAM until there is room for some MB of eight.
struct Documents {
    engine: Arc<Engine>,
    collection: Arc<Collection>,
    scratch: Scratch,
    held: Vec<Reservation>,
    document: fn(u64) -> String,
    directory: Directory,
}

impl Documents {
    const COUNT: u64 = 8_000;

    /// `has_much_in_common`: so that symbols make them shorter.
    fn new(name: &str, room: u64, has_much_in_common: bool) -> Documents {
        let document = match has_much_in_common {
            true => |id| Self::document(id, "x".repeat(900)),
            false => |id| {
                let mut rng = Rng(id | 1 << 40);
                let letters = (0..900).map(|_| char::from(b'#' + rng.below(88) as u8));
                Self::document(id, letters.map(|c| if c == '\\' { '/' } else { c }).collect())
            },
        };
        let directory = Directory::new(name);
        let storage = PreadStorage::open(&directory.0).expect("opens");
        let engine = Engine::open(storage, options(64 * MB)).expect("opens");
        let params = serde_json::json!({"type": "text", "scoring": true, "phrase_matching": true});
        let index = FieldIndex {
            kind: FieldKind::Text,
            params: Some(params),
        };
        let config = CollectionConfig {
            payload_schema: std::collections::BTreeMap::from([("t".to_string(), index)]),
            ..CollectionConfig::default()
        };
        engine.create_collection("c", config).expect("creates");
        let collection = engine.collection("c").expect("is there");
        for first in (0..Self::COUNT).step_by(1_000) {
            let point = |id| Point {
                id: PointId::Num(id),
                vectors: Vec::new(),
                payload: document(id).into_bytes(),
            };
            let points = (first..first + 1_000).map(point).collect();
            collection.update(upsert(points)).expect("there is room");
        }
        collection.flush().expect("flushes");
        collection.wait_idle().expect("nothing fails");
        let scratch = engine.scratch().expect("room");
        let ledger = engine.ledger().clone();
        let user = ledger.consumer("test", u64::MAX).waiting();
        let filler = ledger.cache("filler", u64::MAX);
        let whole = ledger.reclaimable_bytes();
        let free = filler.reserve(filler.available()).expect("it is free");
        // Again where the engine's own thread was faster, and cached anew what had come back.
        let rest = std::iter::repeat_with(|| {
            drop(user.reserve(whole).expect("caches give way"));
            let left = filler.available().checked_sub(room)?;
            filler.reserve(left).ok()
        });
        let rest = rest.flatten().next().expect("without end");
        let held = vec![free, rest];
        collection.wait_idle().expect("nothing fails");
        Documents {
            engine,
            collection,
            scratch,
            held,
            document,
            directory,
        }
    }

    fn document(id: u64, more: String) -> String {
        format!(r#"{{"t":"w{} v{} u{id}","more":"{more}"}}"#, id % 400, id % 7)
    }

    /// Disk reads of a query for each of some words, answered with its 20 documents.
    fn round(&mut self, words: std::ops::Range<u64>) -> u64 {
        words.map(|word| self.ask(word)).sum()
    }

    fn ask(&mut self, word: u64) -> u64 {
        let request = QueryRequest {
            query: Some(QueryKind::Text(TextQuery {
                text: format!("w{word}"),
                ..TextQuery::default()
            })),
            using: "t".into(),
            limit: 20,
            with_payload: PayloadSelector::All,
            ..QueryRequest::default()
        };
        let found = self.collection.query(request, &self.engine, &mut self.scratch);
        let found = found.expect("searches");
        assert_eq!(found.hits.len(), 20);
        for hit in &found.hits {
            let PointId::Num(id) = hit.id else {
                panic!("numbers alone")
            };
            assert_eq!(
                (id % 400, hit.payload.as_deref()),
                (word, Some((self.document)(id).as_bytes()))
            );
        }
        found.cost.disk_reads
    }

    /// Bytes of payloads that are in RAM as they lie on the disk.
    fn payload_bytes(&self) -> u64 {
        let memory = self.collection.info().memory.into_iter();
        let payloads = memory.filter(|part| part.kind == "records");
        payloads.map(|part| part.pinned_bytes).sum()
    }
}

/// Of documents that are more than there is room for those that are asked for again are kept one by one.
#[test]
fn documents_are_kept_one_by_one() {
    let mut documents = Documents::new("kept", 3 << 20, false);
    let (cold, warm) = (documents.round(0..40), documents.round(0..40));
    assert!(cold > 400 && warm * 4 < cold, "{cold} reads, then {warm}");
    // More than there is room for, and all of the memory wanted by others: the same answers.
    documents.round(0..400);
    let ledger = documents.engine.ledger().clone();
    let reclaimable = ledger.reclaimable_bytes() - documents.held.iter().map(Reservation::bytes).sum::<u64>();
    // All but what searches need themselves.
    let user = ledger.consumer("test", u64::MAX).waiting();
    let all = user.reserve(reclaimable - (512 << 10)).expect("caches give way");
    let short = documents.round(0..40);
    assert!(short > warm, "{short} reads, where {warm} did");
    drop(all);
    documents.held.clear();
    documents.collection.wait_idle().expect("nothing fails");
    assert_eq!(documents.round(0..400), 0, "there is room for all");
    documents.engine.close();
}

/// Of those nobody asked for yet the first ones take room that nobody else has use for; documents that are asked for are worth more.
#[test]
fn documents_that_do_not_fit_are_in_ram_in_part() {
    let room = 5 << 20;
    let mut documents = Documents::new("in-part", room, false);
    let held = documents.engine.records().bytes;
    assert_eq!(
        documents.payload_bytes(),
        0,
        "none is there as it lies on the disk"
    );
    assert!(held > room / 2 && held <= room, "{held} bytes of {room}");
    // About a half of them.
    let (reads, all) = (documents.round(0..20), 20 * 20);
    let first = all * held / (Documents::COUNT * 1_000);
    assert!(
        reads <= all - first + first / 4,
        "{reads} reads for {all} documents, of which {first} were there"
    );
    documents.round(0..400);
    let warm = documents.round(390..400);
    assert_eq!(warm, 0, "what was asked for last");
    documents.engine.close();
}

/// A block that can't be read is the matter of those who ask for it, not of all when the symbols are learnt from it.
#[test]
fn a_broken_document_does_not_keep_others_from_being_read() {
    let documents = Documents::new("broken", 4 << 20, true);
    let Documents {
        engine,
        directory,
        collection,
        scratch,
        held,
        ..
    } = documents;
    engine.close();
    drop((engine, collection, scratch, held));
    let path = &directory.0;
    let of = |path: &std::path::Path| std::fs::read_dir(path).expect("is there").flatten();
    let collection = of(path)
        .map(|entry| entry.path())
        .find(|path| path.is_dir() && of(path).count() > 4);
    let mut files = of(&collection.expect("one collection")).map(|entry| entry.path());
    let payloads = files.find(|path| path.extension().is_some_and(|kind| kind == "pay"));
    let payloads = payloads.expect("a payload file");
    let mut bytes = std::fs::read(&payloads).expect("reads");
    bytes[100] ^= 1;
    std::fs::write(&payloads, bytes).expect("writes");
    let storage = PreadStorage::open(path).expect("opens");
    let engine = Engine::open(storage, options(64 * MB)).expect("opens");
    let collection = engine.collection("c").expect("is there");
    let retrieve = |id: u64| {
        let scratch = &mut engine.scratch().expect("room");
        let found = collection.retrieve(
            &[PointId::Num(id)],
            &PayloadSelector::All,
            &VectorSelector::None,
            scratch,
        );
        found.map(|found| found.len())
    };
    assert_eq!(retrieve(4_000).expect("reads"), 1);
    assert!(retrieve(0).expect_err("its block is broken").is_corrupt());
    engine.close();
}

/// Of documents of which many have much in common more are in RAM than there is room for.
#[test]
fn documents_are_shorter_in_ram() {
    let room = 4 << 20;
    let mut documents = Documents::new("coded", room, true);
    let held = documents.engine.records().bytes;
    assert_eq!(
        documents.payload_bytes(),
        0,
        "none is there as it lies on the disk"
    );
    assert!(held < room, "{held} bytes of {}", Documents::COUNT * 950);
    // All but a few whose places had to be forgotten.
    let reads = documents.round(0..400);
    assert!(
        reads * 40 < Documents::COUNT,
        "{reads} reads for {}",
        Documents::COUNT
    );
    documents.engine.close();
}
