//! Data that was loaded in one budget and is opened in another.

use std::sync::{Arc, Mutex, OnceLock};

use ramlet::plan::{IndexKind, Machine, Memory, PlanError, Spec, plan};
use ramlet::{Collection, CollectionConfig, CollectionStatus, ErrorKind, SearchCost, UpdateMode, UpdateOp};
use ramlet_io::{PreadStorage, Storage};
use ramlet_memory::{BudgetRequest, BudgetTable, Ledger, Reservation};
use ramlet_testdata::{Clustered, Difficulty, Shape};

use crate::counts::{Directory, engine, loading_budget, searching_budget};
use crate::support::{config, delete, point, search_request, upsert};
use crate::watched::Watched;

const ROWS: usize = 30_000;
const SHAPE: Shape = Shape {
    dims: 64,
    seed: 9,
    difficulty: Difficulty::Hard,
    clusters: 15_000,
};
/// Room for some sub-quantizers of product codes, and for no codes that are made where there is room for all.
const LITTLE: u64 = 330_000;

fn load(storage: &Arc<dyn Storage>) -> Vec<f32> {
    let engine = engine(storage, loading_budget());
    let mut config = config(SHAPE.dims, ramlet::Distance::Cosine);
    config.indexing_threshold = Some(100);
    engine.create_collection("c", config).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let mut rows = vec![0.0; ROWS * SHAPE.dims];
    Clustered::new(SHAPE).rows(0, &mut rows);
    let points = (0..).zip(rows.chunks_exact(SHAPE.dims));
    let points: Vec<_> = points
        .map(|(id, vector)| point(id, vector.to_vec(), ""))
        .collect();
    for batch in points.chunks(500) {
        collection.update(upsert(batch.to_vec())).expect("upserts");
    }
    collection.flush().expect("flushes");
    collection.wait_idle().expect("settles");
    engine.close();
    rows
}

/// What searches cost in `room` for data in RAM once nothing is left to do, and the segments' files.
fn opened(storage: &Arc<dyn Storage>, room: u64, queries: &[f32]) -> (SearchCost, Vec<String>) {
    let engine = engine(storage, searching_budget(room));
    let collection: Arc<Collection> = engine.collection("c").expect("is there");
    collection.wait_idle().expect("settles");
    assert_eq!(collection.info().indexed_vectors_count, ROWS as u64);
    let mut scratch = engine.scratch().expect("a scratch");
    let mut cost = SearchCost::default();
    for query in queries.chunks_exact(SHAPE.dims) {
        let answer = collection.search(&search_request(query.to_vec(), 10), &mut scratch);
        let answer = answer.expect("searches");
        cost.codes_scanned += answer.cost.codes_scanned;
        cost.rows_scanned += answer.cost.rows_scanned;
        cost.rows_read += answer.cost.rows_read;
    }
    drop(scratch);
    engine.close();
    (cost, segment_files(storage.as_ref()))
}

/// Names of segments' files, which begin with the segment's number.
fn segment_files(storage: &dyn Storage) -> Vec<String> {
    let names = storage.list().expect("lists").into_iter();
    let mut files: Vec<String> = names.filter(|name| name.starts_with("0000")).collect();
    for name in storage.list_subdirs().expect("lists") {
        files.extend(segment_files(storage.subdir(&name).expect("is there").as_ref()));
    }
    files
}

#[test]
fn an_index_is_written_anew_once_for_a_budget_that_its_codes_do_not_fit() {
    let directory = Directory::new("budgets");
    let storage: Arc<dyn Storage> = PreadStorage::open(&directory.0).expect("opens");
    let rows = load(&storage);
    let queries = &rows[..20 * SHAPE.dims];
    let loaded = segment_files(storage.as_ref());
    assert!(!loaded.is_empty());

    let (cost, small) = opened(&storage, LITTLE, queries);
    assert_ne!(small, loaded, "a segment of its own");
    assert!(cost.codes_scanned > 0, "searched by codes: {cost:?}");
    assert!(
        cost.rows_read < cost.codes_scanned / 4,
        "few rows are read: {cost:?}"
    );
    let (_, again) = opened(&storage, LITTLE, queries);
    assert_eq!(again, small, "nothing is left to do");

    let (cost, large) = opened(&storage, 64_000_000, queries);
    assert_ne!(large, small, "what there was no room for wasn't written");
    let (_, again) = opened(&storage, 64_000_000, queries);
    assert_eq!(again, large, "nothing is left to do");
    assert!(
        cost.rows_read < 20 * 40,
        "larger codes leave fewer rows to read: {cost:?}"
    );
}

/// So many dimensions that an index of them takes more scratch than a small budget has for a job.
const WIDE: usize = 4096;
const FEW: usize = 300;

#[test]
fn vectors_too_wide_for_a_small_budget_get_their_index_in_a_larger_one() {
    let directory = Directory::new("wide");
    let storage: Arc<dyn Storage> = PreadStorage::open(&directory.0).expect("opens");
    let clustered = Clustered::new(Shape { dims: WIDE, ..SHAPE });
    let mut rows = vec![0.0; FEW * WIDE];
    clustered.rows(0, &mut rows);
    let kind_and_answer = |engine: &Arc<ramlet::Engine>| {
        let collection = engine.collection("c").expect("is there");
        collection.wait_idle().expect("settles");
        let mut scratch = engine.scratch().expect("a scratch");
        let request = search_request(rows[..WIDE].to_vec(), 1);
        let answer = collection.search(&request, &mut scratch).expect("searches");
        assert_eq!(
            answer.hits.first().map(|hit| hit.id),
            Some(ramlet::PointId::Num(0))
        );
        collection.info().indexed_vectors_count
    };
    let mut budget = searching_budget(400_000);
    budget.write_buffers += 2_000_000;
    budget.job_scratch = 900 << 10;
    budget.headroom -= 2_500_000;
    let small = engine(&storage, budget);
    let mut config = config(WIDE, ramlet::Distance::Cosine);
    config.indexing_threshold = Some(100);
    small.create_collection("c", config).expect("creates");
    let collection = small.collection("c").expect("is there");
    for (id, vector) in (0..).zip(rows.chunks_exact(WIDE)) {
        collection
            .update(upsert(vec![point(id, vector.to_vec(), "")]))
            .expect("upserts");
    }
    collection.flush().expect("flushes");
    drop(collection);
    assert_eq!(kind_and_answer(&small), 0, "all rows are compared");
    let info = small.collection("c").expect("is there").info();
    assert_eq!(info.status, CollectionStatus::Red, "no waiting brings the index");
    let told = info.optimizer_error.expect("a reason");
    let sizes = told
        .split(' ')
        .filter(|word| matches!(word.trim_end_matches(','), "MB" | "kB"));
    assert_eq!(sizes.count(), 2, "what it needs and what there was: {told}");
    small.close();
    drop(small);
    let large = engine(&storage, loading_budget());
    assert_eq!(kind_and_answer(&large), FEW as u64);
    let info = large.collection("c").expect("is there").info();
    assert_eq!(
        (info.status, info.optimizer_error),
        (CollectionStatus::Green, None)
    );
    large.close();
}

/// Vectors whose index takes more scratch than a job has, in a collection that has nothing in segments yet.
struct Tight {
    engine: Arc<ramlet::Engine>,
    collection: Arc<ramlet::Collection>,
    _directory: Directory,
}

fn tight(name: &str, watch: impl Fn(&str, &str) + Send + Sync + 'static) -> Tight {
    let directory = Directory::new(name);
    let storage: Arc<dyn Storage> = PreadStorage::open(&directory.0).expect("opens");
    let storage: Arc<dyn Storage> = Watched::new(storage, watch);
    let mut rows = vec![0.0; FEW * WIDE];
    Clustered::new(Shape { dims: WIDE, ..SHAPE }).rows(0, &mut rows);
    let mut budget = loading_budget();
    budget.job_scratch = 900 << 10;
    let engine = engine(&storage, budget);
    let mut config = config(WIDE, ramlet::Distance::Cosine);
    config.indexing_threshold = Some(100);
    engine.create_collection("c", config).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let points = (0..).zip(rows.chunks_exact(WIDE));
    for (id, vector) in points {
        let point = point(id, vector.to_vec(), "");
        collection.update(upsert(vec![point])).expect("upserts");
    }
    Tight {
        engine,
        collection,
        _directory: directory,
    }
}

impl Tight {
    fn settled(&self) -> (u64, CollectionStatus) {
        self.collection.wait_idle().expect("settles");
        let info = self.collection.info();
        (info.indexed_vectors_count, info.status)
    }
}

const WITHOUT: (u64, CollectionStatus) = (0, CollectionStatus::Red);
const WITH: (u64, CollectionStatus) = (FEW as u64, CollectionStatus::Green);

/// Requests, say, that hold all but a little.
fn hold_most(ledger: &Arc<Ledger>) -> Reservation {
    let others = ledger.consumer("others", ledger.limit());
    let most = others.available().saturating_sub(LITTLE);
    others.reserve(most).expect("it is free")
}

#[test]
fn an_index_refused_for_a_moment_is_built_when_there_is_memory() {
    let tight = tight("moment", |_, _| {});
    let ledger = tight.engine.ledger();
    let held = hold_most(ledger);
    tight.collection.flush().expect("flushes");
    assert_eq!(tight.settled(), WITHOUT);
    drop(held);
    assert_eq!(tight.settled(), WITH);
    tight.engine.close();
}

#[test]
fn an_index_that_is_refused_again_is_tried_until_it_is_built() {
    const REFUSALS: usize = 3;
    let ledger = Arc::new(OnceLock::<Arc<Ledger>>::new());
    let holding = Arc::new(Mutex::new((0, None::<Reservation>)));
    let (of, hold) = (ledger.clone(), holding.clone());
    // Others come while a segment is written, each time before its index is.
    let tight = tight("again", move |op, path| {
        let Some(ledger) = of.get().filter(|_| op == "create" && path.ends_with(".idf")) else {
            return;
        };
        let mut hold = hold.lock().expect("never poisoned");
        hold.0 += 1;
        hold.1 = (hold.0 <= REFUSALS).then(|| hold_most(ledger));
    });
    assert!(ledger.set(tight.engine.ledger().clone()).is_ok(), "once");
    tight.collection.flush().expect("flushes");
    for _ in 0..REFUSALS {
        assert_eq!(tight.settled(), WITHOUT);
        holding.lock().expect("never poisoned").1 = None;
    }
    assert_eq!(tight.settled(), WITH);
    assert_eq!(holding.lock().expect("never poisoned").0, REFUSALS + 1);
    tight.engine.close();
}

#[test]
fn memory_that_is_taken_while_a_merge_is_chosen_is_no_full_disk() {
    let ledger = Arc::new(OnceLock::<Arc<Ledger>>::new());
    let holding = Arc::new(Mutex::new((0, None::<Reservation>)));
    let (of, hold) = (ledger.clone(), holding.clone());
    // A segment lacks its index and there is memory for one; others take that while the disk is asked for its room.
    let tight = tight("taken", move |op, _| {
        let Some(ledger) = of.get().filter(|_| op == "free") else {
            return;
        };
        let mut hold = hold.lock().expect("never poisoned");
        if hold.1.is_none() {
            *hold = (hold.0 + 1, Some(hold_most(ledger)));
        }
    });
    let held = hold_most(tight.engine.ledger());
    tight.collection.flush().expect("flushes");
    assert_eq!(tight.settled(), WITHOUT);
    assert!(ledger.set(tight.engine.ledger().clone()).is_ok(), "once");
    drop(held);
    assert_eq!(tight.settled(), WITHOUT);
    assert!(holding.lock().expect("never poisoned").0 > 0, "it was taken");
    tight.engine.close();
}

/// In 32 MB no index of such vectors can be built.
#[test]
fn points_that_could_have_no_index_are_refused() {
    const DIMS: usize = 65_536;
    const MOST: u64 = 10_000 * 1024 / (4 * DIMS as u64);
    let memory = 32_000_000;
    let mut request = BudgetRequest::new(memory, BudgetRequest::search_threads_for(memory, 2));
    request.other_threads = 8;
    let directory = Directory::new("too-wide");
    let storage: Arc<dyn Storage> = PreadStorage::open(&directory.0).expect("opens");
    let engine = engine(&storage, BudgetTable::plan(request).expect("a server starts"));
    let settings = config(DIMS, ramlet::Distance::Cosine);
    engine.create_collection("c", settings).expect("creates");
    let collection = engine.collection("c").expect("is there");
    let put = |id: u64| collection.update(upsert(vec![point(id, vec![id as f32 + 1.0; DIMS], "")]));
    for id in 0..MOST {
        put(id).expect("is compared one by one");
    }
    // The planner says the same of the server's memory.
    let of_server = Memory::of_server(memory);
    let planned = |points, bytes| {
        plan(
            &Spec::new(points, DIMS as u64),
            &Machine::default(),
            &of_server.with(bytes),
        )
    };
    let flat = planned(MOST, memory).expect("is compared one by one");
    assert_eq!(flat.chosen.index, IndexKind::Flat);
    let Err(PlanError::DoesNotFit { memory_bytes_min, .. }) = planned(MOST + 1, memory) else {
        panic!("an index is planned that can't be built");
    };
    assert!(
        (memory..=2 * memory).contains(&memory_bytes_min),
        "{memory_bytes_min}"
    );
    let fits = planned(MOST + 1, memory_bytes_min).expect("so much is enough");
    assert!(
        fits.steps
            .iter()
            .all(|step| step.memory_bytes_min >= memory_bytes_min)
    );
    let refused = put(MOST).expect_err("is one too many");
    assert_eq!(refused.kind(), ErrorKind::MemoryFull, "{refused}");
    let said = refused.to_string();
    assert_eq!(said.matches(" MB").count(), 2, "{said}");
    assert!(said.contains(&format!("{MOST} points")), "{said}");
    put(MOST - 1).expect("is there already");
    let two = vec![MOST - 1, MOST]
        .into_iter()
        .map(|id| point(id, vec![1.0; DIMS], ""));
    let only_new = UpdateOp::Upsert {
        points: two.collect(),
        filter: None,
        mode: UpdateMode::InsertOnly,
    };
    let refused = collection.update(only_new).expect_err("one of them is new");
    assert_eq!(refused.kind(), ErrorKind::MemoryFull, "{refused}");
    collection.flush().expect("flushes");
    collection.wait_idle().expect("settles");
    let info = collection.info();
    assert_eq!((info.points_count, info.status), (MOST, CollectionStatus::Green));
    collection.update(delete(&[0])).expect("deletes");
    put(MOST).expect("has the place of another");
    // Who wants no index gets none.
    let none = &mut |config: &mut CollectionConfig| {
        config.indexing_threshold = Some(0);
        Ok(())
    };
    engine.update_collection("c", none).expect("changes");
    put(MOST + 1).expect("is compared as was wished");
    engine.close();
}

const THRESHOLD_KB: usize = 100;

/// In a tight budget and a tighter one: an index for what is above the threshold, of as many rows as take more than one buffer of each bucket, were the
/// build to work on them at once.
#[test]
fn tight_budgets_build_an_index() {
    for (dims, rows, budgets) in [
        (64, 9_000, vec![18]),
        (384, 5_000, vec![18, 24]),
        (768, 4_000, vec![18]),
        (1536, 1_500, vec![24]),
        (4096, 700, vec![18]),
    ] {
        let clustered = Clustered::new(Shape {
            dims,
            clusters: 100,
            ..SHAPE
        });
        let mut vectors = vec![0.0; rows * dims];
        clustered.rows(0, &mut vectors);
        for memory in budgets.into_iter().map(|mb| mb * 1_000_000) {
            let threads = BudgetRequest::search_threads_for(memory, 2);
            let mut request = BudgetRequest::new(memory, threads);
            request.other_threads = 8;
            let Ok(budget) = BudgetTable::plan(request) else {
                continue;
            };
            let directory = Directory::new(&format!("every-{dims}-{memory}"));
            let storage: Arc<dyn Storage> = PreadStorage::open(&directory.0).expect("opens");
            let engine = engine(&storage, budget);
            let mut config = config(dims, ramlet::Distance::Cosine);
            config.indexing_threshold = Some(THRESHOLD_KB);
            engine.create_collection("c", config).expect("creates");
            let collection = engine.collection("c").expect("is there");
            let points = (0..).zip(vectors.chunks_exact(dims));
            let points: Vec<_> = points
                .map(|(id, vector)| point(id, vector.to_vec(), ""))
                .collect();
            for batch in points.chunks(20) {
                let tried = collection.update(upsert(batch.to_vec()));
                if tried.as_ref().is_err_and(|error| error.is_over_budget()) {
                    // Flushes and merges give back what they hold.
                    collection.wait_idle().expect("settles");
                    let again = collection.update(upsert(batch.to_vec()));
                    again.unwrap_or_else(|error| panic!("{dims} dimensions in {memory}: {error}"));
                }
            }
            collection.flush().expect("flushes");
            collection.wait_idle().expect("settles");
            let info = collection.info();
            // A segment that was flushed last may be below the threshold.
            let scanned = (rows as u64 - info.indexed_vectors_count) * dims as u64 * 4;
            assert!(
                scanned < THRESHOLD_KB as u64 * 1024,
                "{dims} dimensions in {memory}: {info:?}"
            );
            assert_eq!(
                info.status,
                CollectionStatus::Green,
                "{dims} dimensions in {memory}"
            );
            engine.close();
        }
    }
}
