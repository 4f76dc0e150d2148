//! `load`: a set's rows into a new collection, and its index.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use ramlet::{Collection, DEFAULT_VECTOR, ErrorKind, Point, PointId, UpdateMode, UpdateOp, UpdateResult};
use ramlet_testdata::args::Args;
use ramlet_testdata::{Filters, Set, process, rank};
use serde_json::{Value, json};

use crate::{Outcome, open, search};

/// Points of one update.
const BATCH: usize = 256;
/// Updates that are on their way at once.
const IN_FLIGHT: usize = 8;

pub fn run(set: &Set, directory: &Path, args: &Args) -> Outcome {
    let near = match args.has("payload") {
        true => Filters::of(set, 1)?.near,
        false => Vec::new(),
    };
    // What this program will hold while it searches, so that what is built suits the budget that is left then.
    let _asked = search::asked(set, args)?;
    let engine = open::engine(directory, args)?;
    engine.create_collection(open::NAME, open::config(set, args)?)?;
    let collection = engine.collection(open::NAME)?;
    let mut meter = Meter::start();
    load(&collection, set, &near, &|_| Choice::Own)?;
    let ingest = meter.lap();
    // A collection at rest: no points in memtables that are scanned one by one.
    collection.flush()?;
    open::settle(&collection)?;
    let settled = meter.lap();
    let built = match args.has("stored") {
        true => {
            engine.update_collection(open::NAME, &mut |config| {
                config.indexing_threshold = None;
                Ok(())
            })?;
            open::settle(&collection)?;
            meter.lap()
        }
        false => Value::Null,
    };
    let out = json!({
        "step": "load", "rows": set.info.rows, "dims": set.info.dims, "memory": args.text("memory"),
        "stored_first": args.has("stored"), "ingest": ingest, "settle": settled, "build": built, "total": meter.total(),
        "used": open::memory_now(), "placement": open::placement(&engine, &collection),
    });
    println!("{out}");
    engine.close();
    Ok(())
}

/// Seconds and CPU of one step after another.
pub struct Meter {
    started: (Instant, f64),
    lap: (Instant, f64),
}

impl Meter {
    pub fn start() -> Meter {
        let now = (Instant::now(), process::process_cpu_s());
        Meter {
            started: now,
            lap: now,
        }
    }

    /// Since the last lap.
    pub fn lap(&mut self) -> Value {
        let now = (Instant::now(), process::process_cpu_s());
        let out = figures(self.lap, now);
        self.lap = now;
        out
    }

    pub fn total(&self) -> Value {
        figures(self.started, (Instant::now(), process::process_cpu_s()))
    }
}

fn figures(from: (Instant, f64), to: (Instant, f64)) -> Value {
    let rounded = |seconds: f64| (seconds * 1e3).round() / 1e3;
    json!({ "seconds": rounded((to.0 - from.0).as_secs_f64()), "cpu_s": rounded(to.1 - from.1) })
}

/// Which vector a row gets.
pub enum Choice {
    Own,
    /// Its own with the coordinates in reverse: elsewhere, in clusters of its own.
    Mirrored,
    /// That of the row at the other end of its chunk: of the same kind, elsewhere.
    Swapped,
    /// None: the row is left out.
    Skip,
}

/// Upserts all rows, `choice` says with which vector; returns when all are durable.
pub fn load(collection: &Collection, set: &Set, near: &[u16], choice: &dyn Fn(u64) -> Choice) -> Outcome {
    let mut pipe = Pipe::new(collection);
    let row_bytes = set.row_bytes();
    let mut failure = None;
    set.for_each_chunk(0, set.info.rows, &mut |first, rows| {
        let count = rows.len() / row_bytes;
        for start in (0..count).step_by(BATCH) {
            let numbers = start..count.min(start + BATCH);
            let make = || {
                let points = numbers.clone().filter_map(|at| {
                    let id = first + at as u64;
                    let values = |at: usize| set.info.element.floats(&rows[at * row_bytes..][..row_bytes]);
                    let vector = match choice(id) {
                        Choice::Own => values(at),
                        Choice::Mirrored => values(at).into_iter().rev().collect(),
                        Choice::Swapped => values(count - 1 - at),
                        Choice::Skip => return None,
                    };
                    Some(point(id, vector, near))
                });
                points.collect()
            };
            if failure.is_none() {
                failure = pipe.send(&make).err();
            }
        }
        Ok(())
    })?;
    match failure {
        Some(e) => Err(e),
        None => pipe.finish(),
    }
}

fn point(id: u64, vector: Vec<f32>, near: &[u16]) -> Point {
    let payload = match near.get(id as usize) {
        Some(near) => format!("{{\"rank\":{},\"near\":{near}}}", rank(id)).into_bytes(),
        None => Vec::new(),
    };
    Point {
        id: PointId::Num(id),
        vectors: vec![(DEFAULT_VECTOR.to_string(), vector.into())],
        payload,
    }
}

/// Updates on their way: as many at once as keep the log busy, so that one sync covers several.
struct Pipe<'a> {
    collection: &'a Collection,
    done: SyncSender<ramlet::Result<UpdateResult>>,
    told: Receiver<ramlet::Result<UpdateResult>>,
    waiting: usize,
}

impl Pipe<'_> {
    fn new(collection: &Collection) -> Pipe<'_> {
        let (done, told) = sync_channel(IN_FLIGHT);
        Pipe {
            collection,
            done,
            told,
            waiting: 0,
        }
    }

    fn send(&mut self, make: &dyn Fn() -> Vec<Point>) -> Outcome {
        if self.waiting == IN_FLIGHT {
            self.wait()?;
        }
        loop {
            let points = make();
            if points.is_empty() {
                return Ok(());
            }
            let op = UpdateOp::Upsert {
                points,
                filter: None,
                mode: UpdateMode::Upsert,
            };
            let done = self.done.clone();
            let sent = self.collection.submit(
                op,
                Box::new(move |result| {
                    let _ = done.send(result);
                }),
            );
            match sent {
                Ok(()) => {
                    self.waiting += 1;
                    return Ok(());
                }
                // What a client does with 429: it waits and repeats.
                Err(e) if matches!(e.kind(), ErrorKind::Busy | ErrorKind::OverBudget) => match self.waiting {
                    0 => std::thread::sleep(Duration::from_millis(5)),
                    _ => self.wait()?,
                },
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn wait(&mut self) -> Outcome {
        self.told.recv()??;
        self.waiting -= 1;
        Ok(())
    }

    fn finish(mut self) -> Outcome {
        while self.waiting > 0 {
            self.wait()?;
        }
        Ok(())
    }
}
