//! Power loss at every moment: whatever the disk kept of the writes that weren't synced, what was acknowledged is there,
//! what was never sent is not, and the engine opens and goes on.

use std::sync::Arc;

use ramlet::*;
use ramlet_io::{FaultOp, IoErrorKind, SimStorage};

use crate::support::*;

const DIM: usize = 4;
/// Of the histories: sixteen rows are a kilobyte, from which a segment may get an approximate index.
const WIDE: usize = 16;

/// What a disk may hold: points, whether field `n` has an index, and whether there is a second vector.
type State = Option<(Contents, (bool, bool))>;

/// The second vector, which comes and goes.
const EXTRA: &str = "extra";

/// What the collection held after an update was acknowledged, and how much of the journal there was then.
struct Acknowledged {
    journal: usize,
    state: State,
}

/// Updates, flushes, merges, indexes, settings; what each left behind.
struct History {
    disk: SimStorage,
    engine: Arc<Engine>,
    model: Contents,
    indexed: bool,
    has_extra: bool,
    states: Vec<Acknowledged>,
    rng: Rng,
}

impl History {
    fn new(seed: u64) -> History {
        let disk = SimStorage::new();
        let engine = open(Arc::new(disk.clone()));
        let (model, states, rng) = (Contents::new(), Vec::new(), Rng(seed));
        let mut history = History {
            disk,
            engine,
            model,
            indexed: false,
            has_extra: false,
            states,
            rng,
        };
        history.states.push(Acknowledged {
            journal: 0,
            state: None,
        });
        let mut settings = config(WIDE, Distance::Dot);
        settings.indexing_threshold = Some(1);
        let ranked = FieldIndex {
            kind: FieldKind::Text,
            params: Some(serde_json::json!({"type": "text", "scoring": true, "phrase_matching": true})),
        };
        settings.payload_schema.insert("t".into(), ranked);
        history.engine.create_collection("c", settings).expect("creates");
        history.acknowledge();
        history
    }

    fn acknowledge(&mut self) {
        let journal = self.disk.journal_len();
        let state = Some((self.model.clone(), (self.indexed, self.has_extra)));
        self.states.push(Acknowledged { journal, state });
    }

    fn collection(&self) -> Arc<Collection> {
        self.engine.collection("c").expect("is there")
    }

    fn step(&mut self) {
        match self.rng.below(19) {
            15..17 => self.toggle_extra(),
            17..19 => self.set_extra(),
            0..5 => self.upsert(),
            5..7 => {
                let ids: Vec<u64> = (0..1 + self.rng.below(5)).map(|_| self.rng.below(40)).collect();
                ids.iter().for_each(|id| {
                    self.model.remove(&PointId::Num(*id));
                });
                self.collection().update(delete(&ids)).expect("deletes");
            }
            7..9 => {
                let Some((&id, _)) = self.model.iter().next() else {
                    return;
                };
                let payload = format!("{{\"n\":{}}}", 100 + self.rng.below(9));
                self.model.get_mut(&id).unwrap().1 = payload.clone();
                let points = PointsSelector::Ids(vec![id]);
                self.collection()
                    .update(UpdateOp::OverwritePayload {
                        payload: payload.into_bytes(),
                        points,
                    })
                    .unwrap();
            }
            9..11 => self.collection().flush().expect("flushes"),
            11..13 => self.settings(),
            _ => self.collection().wait_idle().expect("merges"),
        }
        self.acknowledge();
    }

    /// Small ones, many at once, and such that a log file is soon full, or too short for them.
    fn upsert(&mut self) {
        let (count, filler) = match self.rng.below(8) {
            0 => (30, 0),
            1 => (4, 6_000),
            2 => (1, 66_000),
            _ => (1 + self.rng.below(6), 0),
        };
        let points: Vec<Point> = (0..count)
            .map(|_| {
                let id = self.rng.below(40);
                let text = "x".repeat(filler);
                point(
                    id,
                    self.rng.vector(WIDE),
                    &format!(
                        "{{\"n\":{},\"t\":\"w{} {text}\"}}",
                        self.rng.below(9),
                        self.rng.below(3)
                    ),
                )
            })
            .collect();
        for p in &points {
            let payload = String::from_utf8(p.payload.clone()).unwrap();
            self.model
                .insert(p.id, (p.vectors[0].1.dense().unwrap().to_vec(), payload));
        }
        self.collection().update(upsert(points)).expect("upserts");
    }

    fn toggle_extra(&mut self) {
        self.has_extra = !self.has_extra;
        if self.has_extra {
            let new = config(DIM, Distance::Dot).vectors.remove(DEFAULT_VECTOR);
            let new = NewVector::Dense(Box::new(new.expect("just made")));
            self.collection().create_vector_name(EXTRA, &new).expect("adds");
            return;
        }
        self.collection().delete_vector_name(EXTRA).expect("drops");
        self.model
            .values_mut()
            .for_each(|(vector, _)| vector.truncate(WIDE));
    }

    fn set_extra(&mut self) {
        if !self.has_extra {
            return;
        }
        let mut points = Vec::new();
        for (id, (vector, _)) in self.model.iter_mut().step_by(2) {
            let extra = self.rng.vector(DIM);
            vector.truncate(WIDE);
            vector.extend_from_slice(&extra);
            points.push((*id, vec![(EXTRA.to_string(), extra.into())]));
        }
        self.collection()
            .update(UpdateOp::UpdateVectors { points, filter: None })
            .expect("gives points a second vector");
    }

    fn settings(&mut self) {
        match self.rng.below(3) {
            0 => {
                let change = &mut |config: &mut CollectionConfig| {
                    config.on_disk_payload = Some(!config.on_disk_payload.unwrap_or_default());
                    Ok(())
                };
                self.engine
                    .update_collection("c", change)
                    .expect("changes settings");
            }
            _ if self.indexed => {
                self.indexed = false;
                self.collection()
                    .delete_payload_index("n")
                    .map(|_| ())
                    .expect("drops an index");
            }
            _ => {
                self.indexed = true;
                let index = FieldIndex {
                    kind: FieldKind::Integer,
                    params: None,
                };
                self.collection()
                    .create_payload_index("n", index)
                    .map(|_| ())
                    .expect("builds an index");
            }
        }
    }

    /// States that a disk which crashed at `at` may have: of the last acknowledged update, or of the one under way.
    fn allowed(&self, at: usize) -> &[Acknowledged] {
        let last = self.states.iter().rposition(|s| s.journal <= at).unwrap_or(0);
        &self.states[last..self.states.len().min(last + 2)]
    }
}

fn read(engine: &Engine) -> Option<Contents> {
    let collection = engine.collection("c").ok()?;
    Some(contents(
        &collection,
        &mut engine.scratch().expect("enough memory"),
    ))
}

/// All that an engine says of the collection; its answers must agree with each other.
fn state(engine: &Engine) -> State {
    let found = read(engine)?;
    let collection = engine.collection("c").ok()?;
    let mut scratch = engine.scratch().expect("enough memory");
    for n in [0, 3, 104] {
        let filter = format!("{{\"must\":[{{\"key\":\"n\",\"match\":{{\"value\":{n}}}}}]}}");
        let filter = serde_json::from_str(&filter).unwrap();
        let start = [format!("{{\"n\":{n},"), format!("{{\"n\":{n}}}")];
        let matching = found
            .values()
            .filter(|(_, p)| start.iter().any(|s| p.starts_with(s.as_str())))
            .count();
        assert_eq!(
            collection.count(Some(&filter), true, &mut scratch).unwrap(),
            matching as u64,
            "n = {n}"
        );
    }
    for word in ["w0", "w2"] {
        let ranked = QueryRequest {
            query: Some(QueryKind::Text(TextQuery {
                text: word.into(),
                ..TextQuery::default()
            })),
            using: "t".into(),
            limit: 100,
            ..QueryRequest::default()
        };
        let hits = collection.query(ranked, engine, &mut scratch).unwrap().hits;
        let with = found.values().filter(|(_, payload)| payload.contains(word));
        assert_eq!(hits.len(), with.count(), "points with {word}");
    }
    let exact = SearchRequest {
        params: SearchParams {
            exact: true,
            ..Default::default()
        },
        ..search_request(vec![1.0; WIDE], 100)
    };
    assert_eq!(
        collection.search(&exact, &mut scratch).unwrap().hits.len(),
        found.len()
    );
    let config = collection.config();
    let has_extra = config.vectors.contains_key(EXTRA);
    if has_extra {
        let more = found.values().filter(|(vector, _)| vector.len() > WIDE).count();
        let request = SearchRequest {
            using: EXTRA.into(),
            ..search_request(vec![1.0; DIM], 100)
        };
        let hits = collection.search(&request, &mut scratch).unwrap().hits;
        assert_eq!(hits.len(), more, "points with the second vector");
    }
    Some((found, (config.payload_schema.contains_key("n"), has_extra)))
}

/// Opens every state of every crash point; returns how many there were.
fn check_all(history: &History, every: usize, random_states: usize) -> usize {
    let mut count = 0;
    let effects = history.disk.effects();
    for at in (0..=history.disk.journal_len()).step_by(every) {
        let allowed = history.allowed(at);
        for (i, survivor) in history
            .disk
            .crash_states(at, at as u64, random_states)
            .into_iter()
            .enumerate()
        {
            let place = || {
                format!(
                    "crash point {at}, state {i}, after {:?}",
                    effects.get(at.saturating_sub(1))
                )
            };
            let engine = Engine::open(Arc::new(survivor.clone()), options(64 * MB))
                .unwrap_or_else(|e| panic!("{}: does not open: {e}", place()));
            let found = state(&engine);
            let ids = |state: &State| {
                state
                    .as_ref()
                    .map(|(c, indexed)| (c.keys().copied().collect::<Vec<_>>(), *indexed))
            };
            assert!(
                allowed.iter().any(|a| a.state == found),
                "{}: found {:?}\nallowed {:?}",
                place(),
                ids(&found),
                allowed.iter().map(|a| ids(&a.state)).collect::<Vec<_>>()
            );
            // It goes on, and what it has survives an orderly restart, and another power loss.
            if i < 2
                && let Ok(collection) = engine.collection("c")
            {
                let (mut expected, indexed) = found.unwrap_or_default();
                collection
                    .update(upsert(vec![point(999, vec![1.0; WIDE], "{}")]))
                    .expect("goes on");
                expected.insert(PointId::Num(999), (vec![1.0; WIDE], "{}".into()));
                if at % 3 > 0 {
                    collection.flush().expect("flushes");
                }
                drop(collection);
                engine.close();
                drop(engine);
                let survivor = match at % 2 {
                    0 => survivor,
                    _ => survivor
                        .crash_states(survivor.journal_len(), 0, 0)
                        .into_iter()
                        .next()
                        .expect("one"),
                };
                let engine = open(Arc::new(survivor));
                assert_eq!(
                    state(&engine),
                    Some((expected, indexed)),
                    "{}: after going on",
                    place()
                );
            }
            count += 1;
        }
    }
    count
}

fn every_crash_point(seed: u64) {
    let mut history = History::new(seed);
    for _ in 0..28 {
        history.step();
    }
    history.engine.close();
    let states = check_all(&history, 1, 2);
    println!("seed {seed}: {states} crash states, 0 violations");
    assert!(
        states > 500,
        "the history is too short to mean anything: {states} states"
    );
}

#[test]
fn every_crash_point_of_a_history() {
    every_crash_point(3);
}

#[test]
fn every_crash_point_of_another_history() {
    every_crash_point(11);
}

/// A failed sync of the log: the update isn't acknowledged, later ones are refused, reads go on, a restart recovers.
#[test]
fn failed_log_sync_stops_writes() {
    let disk = SimStorage::new();
    let engine = open(Arc::new(disk.clone()));
    engine.create_collection("c", config(DIM, Distance::Dot)).unwrap();
    let collection = engine.collection("c").unwrap();
    collection
        .update(upsert(vec![point(1, vec![1.0; DIM], "{}")]))
        .unwrap();
    disk.inject(ramlet_io::Fault::new(FaultOp::Sync, 1, IoErrorKind::Other).on("log-"));
    let error = collection
        .update(upsert(vec![point(2, vec![2.0; DIM], "{}")]))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WritesStopped, "{error}");
    let error = collection
        .update(upsert(vec![point(3, vec![3.0; DIM], "{}")]))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WritesStopped, "{error}");
    assert!(!engine.writable());
    assert_eq!(read(&engine).unwrap().len(), 1, "reads go on");
    drop(collection);
    engine.close();
    drop(engine);
    let survivor = disk
        .crash_states(disk.journal_len(), 1, 0)
        .into_iter()
        .next()
        .unwrap();
    let engine = open(Arc::new(survivor));
    assert_eq!(
        read(&engine).unwrap().keys().collect::<Vec<_>>(),
        vec![&PointId::Num(1)]
    );
    engine
        .collection("c")
        .unwrap()
        .update(upsert(vec![point(2, vec![2.0; DIM], "{}")]))
        .unwrap();
}

/// A full disk while a segment is written: nothing is lost, and the flush succeeds once there is room.
#[test]
fn full_disk_during_a_flush() {
    for nth in 1..40 {
        let disk = SimStorage::new();
        let engine = open(Arc::new(disk.clone()));
        engine.create_collection("c", config(DIM, Distance::Dot)).unwrap();
        let collection = engine.collection("c").unwrap();
        for id in 0..50 {
            collection
                .update(upsert(vec![point(id, vec![id as f32; DIM], "{\"a\":1}")]))
                .unwrap();
        }
        disk.inject(ramlet_io::Fault::new(FaultOp::Any, nth, IoErrorKind::NoSpace));
        let failed = collection.flush().is_err();
        disk.clear_faults();
        assert_eq!(read(&engine).unwrap().len(), 50);
        if engine.writable() {
            collection.flush().expect("there is room again");
            collection
                .update(upsert(vec![point(50, vec![0.0; DIM], "{}")]))
                .unwrap();
        }
        let expected = read(&engine).unwrap();
        drop(collection);
        engine.close();
        drop(engine);
        let engine = open(Arc::new(disk.clone()));
        assert_eq!(read(&engine).unwrap(), expected);
        if !failed {
            return;
        }
    }
    panic!("forty failures weren't enough for one flush");
}

/// Any flipped bit in a file is either noticed or harmless: never another answer.
#[test]
fn flipped_bits_are_noticed() {
    let disk = SimStorage::new();
    let engine = open(Arc::new(disk.clone()));
    engine.create_collection("c", config(DIM, Distance::Dot)).unwrap();
    let collection = engine.collection("c").unwrap();
    for id in 0..200 {
        let payload = format!("{{\"n\":{id}}}");
        collection
            .update(upsert(vec![point(id, vec![id as f32; DIM], &payload)]))
            .unwrap();
        if id == 120 {
            collection.flush().unwrap();
            collection.update(delete(&[3, 4, 5])).unwrap();
            collection.flush().unwrap();
        }
    }
    let expected = read(&engine).unwrap();
    drop(collection);
    engine.close();
    drop(engine);
    let mut rng = Rng(9);
    let (mut noticed, mut harmless) = (0, 0);
    for name in disk.list_files() {
        let len = disk.read_file(&name).unwrap().len() as u64;
        for _ in 0..12 {
            let copy = disk
                .crash_states(disk.journal_len(), 0, 0)
                .into_iter()
                .nth(1)
                .unwrap();
            copy.flip_bit(&name, rng.below(len)).unwrap();
            let outcome = try_open(Arc::new(copy)).map(|engine| read_checked(&engine));
            match outcome {
                Ok(Ok(found)) => {
                    assert_eq!(found, expected, "{name}: another answer");
                    harmless += 1;
                }
                Ok(Err(e)) | Err(e) => {
                    assert!(e.is_corrupt(), "{name}: {e}");
                    noticed += 1;
                }
            }
        }
    }
    assert!(
        noticed > 50 && harmless > 0,
        "{noticed} noticed, {harmless} harmless"
    );
}

fn read_checked(engine: &Engine) -> Result<Contents> {
    let collection = engine.collection("c")?;
    let mut scratch = engine.scratch()?;
    let page = collection.scroll(&scroll_request(10_000), &mut scratch)?;
    let row = |r: Record| {
        (
            r.id,
            (
                r.vectors.unwrap().pop().unwrap().1.into_dense().unwrap(),
                String::from_utf8(r.payload.unwrap()).unwrap(),
            ),
        )
    };
    Ok(page.points.into_iter().map(row).collect())
}
