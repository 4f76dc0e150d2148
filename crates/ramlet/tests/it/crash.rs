//! Power loss at every moment: whatever the disk kept of the writes that weren't synced, what was acknowledged is there,
//! what was never sent is not, and the engine opens and goes on.

use std::sync::Arc;

use ramlet::*;
use ramlet_io::{FaultOp, IoErrorKind, SimStorage};

use crate::support::*;

const DIM: usize = 4;

/// What the collection held after an update was acknowledged, and how much of the journal there was then.
struct Acknowledged {
    journal: usize,
    contents: Option<Contents>,
}

/// Updates, flushes, merges, an index, a restart; what each left behind.
struct History {
    disk: SimStorage,
    engine: Arc<Engine>,
    model: Contents,
    states: Vec<Acknowledged>,
    rng: Rng,
}

impl History {
    fn new(seed: u64) -> History {
        let disk = SimStorage::new();
        let engine = open(Arc::new(disk.clone()));
        let mut history = History {
            disk,
            engine,
            model: Contents::new(),
            states: Vec::new(),
            rng: Rng(seed),
        };
        history.states.push(Acknowledged {
            journal: 0,
            contents: None,
        });
        history
            .engine
            .create_collection("c", config(DIM, Distance::Dot))
            .expect("creates");
        history.acknowledge();
        history
    }

    fn acknowledge(&mut self) {
        let journal = self.disk.journal_len();
        self.states.push(Acknowledged {
            journal,
            contents: Some(self.model.clone()),
        });
    }

    fn collection(&self) -> Arc<Collection> {
        self.engine.collection("c").expect("is there")
    }

    fn step(&mut self) {
        match self.rng.below(12) {
            0..5 => {
                let points: Vec<Point> = (0..1 + self.rng.below(6))
                    .map(|_| {
                        point(
                            self.rng.below(40),
                            self.rng.vector(DIM),
                            &format!("{{\"n\":{}}}", self.rng.below(9)),
                        )
                    })
                    .collect();
                for p in &points {
                    let payload = String::from_utf8(p.payload.clone()).unwrap();
                    self.model.insert(p.id, (p.vectors[0].1.clone(), payload));
                }
                self.collection().update(upsert(points)).expect("upserts");
            }
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
            _ => self.collection().wait_idle().expect("merges"),
        }
        self.acknowledge();
    }

    /// Contents that a disk which crashed at `at` may have: of the last acknowledged update, or of the one under way.
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

/// Opens every state of every crash point; returns how many there were.
fn check_all(history: &History, every: usize, random_states: usize) -> usize {
    let mut count = 0;
    for at in (0..=history.disk.journal_len()).step_by(every) {
        let allowed = history.allowed(at);
        for (i, state) in history
            .disk
            .crash_states(at, at as u64, random_states)
            .into_iter()
            .enumerate()
        {
            let place = || {
                format!(
                    "crash point {at}, state {i}, after {:?}",
                    history.disk.effects().get(at.saturating_sub(1))
                )
            };
            let engine = Engine::open(Arc::new(state.clone()), options(64 * MB))
                .unwrap_or_else(|e| panic!("{}: does not open: {e}", place()));
            let found = read(&engine);
            assert!(
                allowed.iter().any(|a| a.contents == found),
                "{}: found {found:?}\nallowed {:?}",
                place(),
                allowed.iter().map(|a| &a.contents).collect::<Vec<_>>()
            );
            // It goes on, and what it has survives an orderly restart.
            if i < 2
                && let Ok(collection) = engine.collection("c")
            {
                let mut expected = found.unwrap_or_default();
                collection
                    .update(upsert(vec![point(999, vec![1.0; DIM], "{}")]))
                    .expect("goes on");
                expected.insert(PointId::Num(999), (vec![1.0; DIM], "{}".into()));
                collection.flush().expect("flushes");
                drop(collection);
                engine.close();
                drop(engine);
                let engine = open(Arc::new(state));
                assert_eq!(
                    read(&engine).as_ref(),
                    Some(&expected),
                    "{}: after going on",
                    place()
                );
            }
            count += 1;
        }
    }
    count
}

#[test]
fn every_crash_point_of_a_history() {
    let mut states = 0;
    for seed in [3, 11] {
        let mut history = History::new(seed);
        for _ in 0..30 {
            history.step();
        }
        history.engine.close();
        states += check_all(&history, 1, 2);
    }
    println!("{states} crash states, 0 violations");
    assert!(
        states > 1_000,
        "the history is too short to mean anything: {states} states"
    );
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
            let outcome = Engine::open(Arc::new(copy), options(64 * MB)).map(|engine| read_checked(&engine));
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
                r.vectors.unwrap().pop().unwrap().1,
                String::from_utf8(r.payload.unwrap()).unwrap(),
            ),
        )
    };
    Ok(page.points.into_iter().map(row).collect())
}
