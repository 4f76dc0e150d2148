//! Memtables are flushed in the middle of a merge, so that writes don't wait for its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ramlet::*;
use ramlet_io::{RamStorage, Storage};

use crate::support::*;
use crate::watched::Watched;

const DIM: usize = 64;

/// Points of a kilobyte.
fn some(first: u64) -> Vec<Point> {
    let payload = format!("{{\"t\":\"{}\"}}", "x".repeat(800));
    let mut rng = Rng(first + 1);
    let one = |id| point(id, rng.vector(DIM), &payload);
    (first..first + 100).map(one).collect()
}

#[test]
fn a_write_does_not_wait_for_the_end_of_a_merge() {
    let slow = Arc::new(AtomicBool::new(true));
    let is_slow = slow.clone();
    let storage: Arc<dyn Storage> = Watched::new(Arc::new(RamStorage::new(None)), move |op, _| {
        let of_jobs = || std::thread::current().name() == Some("maintenance");
        if op == "write" && is_slow.load(Ordering::Relaxed) && of_jobs() {
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let engine = Engine::open(storage.clone(), options(64 * MB)).expect("opens");
    engine
        .create_collection("c", config(DIM, Distance::Dot))
        .expect("creates");
    let collection = engine.collection("c").expect("is there");
    let (mut points, mut merge) = (0, None::<(Arc<JobUnderWay>, usize)>);
    let begun = Instant::now();
    loop {
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "no merge had a flush in its middle, {points} points"
        );
        collection.update(upsert(some(points))).expect("is written");
        points += 100;
        let segments = collection.segment_reports().len();
        let job = collection.job_under_way();
        match (job, &merge) {
            (Some(job), Some((same, before))) if Arc::ptr_eq(&job, same) => {
                if segments > *before {
                    break;
                }
            }
            (job, _) => merge = job.map(|job| (job, segments)),
        }
    }
    // What was deleted since the merge began is carried over, whichever of them wrote the row.
    let gone: Vec<u64> = (0..points).step_by(7).collect();
    collection.update(delete(&gone)).expect("deletes");
    slow.store(false, Ordering::Relaxed);
    collection.wait_idle().expect("settles");
    let left = points - gone.len() as u64;
    assert_eq!(collection.info().points_count, left);
    drop(collection);
    engine.close();
    drop(engine);
    let engine = Engine::open(storage, options(64 * MB)).expect("opens again");
    let collection = engine.collection("c").expect("is there");
    let all = contents(&collection, &mut engine.scratch().expect("a slot"));
    assert_eq!(all.len() as u64, left);
    assert!(gone.iter().all(|id| !all.contains_key(&PointId::Num(*id))));
}
