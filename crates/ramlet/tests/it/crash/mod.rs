//! Power loss at every moment of several workloads, and faults of the disk.
//!
//! `cargo xtask rig crash-states` runs the workloads for longer, with more states of each moment. A state is a pair of a moment and of
//! what it may leave. Most are the same disk as one of another moment, so the distinct disks are told too.

mod enumerate;
mod faults;
mod history;
mod state;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ramlet_io::SimStorage;

use crate::support::*;
use enumerate::{Acknowledged, Density, Tally, Trace, enumerate, survivors};
use history::{History, INDEXES, INGEST, KEYS, Mix, SNAPSHOTS};
use state::{COLLECTION, State};

/// Steps of a history, and of what goes on after a crash.
const STEPS: usize = 28;
const STEPS_AFTER: usize = 12;

/// Seconds that each workload is to take, and the first of its seeds: the rig says so. Without it, a few fixed seeds.
fn long_run() -> Option<(Duration, u64)> {
    let seconds = std::env::var("RAMLET_CRASH_SECONDS").ok()?;
    let seed = std::env::var("RAMLET_CRASH_SEED").map_or(Ok(1), |seed| seed.parse());
    let seconds = seconds.parse().expect("seconds");
    Some((Duration::from_secs_f64(seconds), seed.expect("a seed")))
}

/// Runs a workload for some seeds, and tells how many states it had.
fn run(name: &str, seeds: &[u64], states_min: usize, one: &dyn Fn(u64, Density, &mut Tally)) {
    let mut tally = Tally::default();
    let start = Instant::now();
    match long_run() {
        None => {
            let density = Density {
                random: 2,
                goes_on: 24,
                until: None,
            };
            seeds.iter().for_each(|seed| one(*seed, density, &mut tally));
        }
        Some((time, first)) => {
            let density = Density {
                random: 16,
                goes_on: 200,
                until: Some(start + time),
            };
            let mut seeds = first..;
            while !density.is_over() {
                one(seeds.next().expect("there are enough"), density, &mut tally);
            }
        }
    }
    println!(
        "crash states of {name}: {} histories, {} states, {} distinct disks, {} went on, 0 violations, {:.1} s",
        tally.histories,
        tally.states,
        tally.distinct,
        tally.went_on,
        start.elapsed().as_secs_f64()
    );
    assert!(
        tally.states >= states_min,
        "too few states to mean anything: {}",
        tally.states
    );
}

fn one_life(mix: Mix) -> impl Fn(u64, Density, &mut Tally) {
    move |seed, density, tally| {
        enumerate(&History::new(mix, seed).run(STEPS), density, tally);
    }
}

/// A first life of whatever kind, and the disks that it may have left.
fn first_life(seed: u64, survivors_max: usize) -> (Mix, Trace, Vec<(SimStorage, State)>) {
    let mixes = [INGEST, INDEXES, SNAPSHOTS, KEYS];
    let mix = mixes[seed as usize % mixes.len()];
    let first = History::new(mix, seed).run(STEPS);
    let survivors = survivors(&first, seed, survivors_max);
    (mix, first, survivors)
}

#[test]
fn ingest() {
    run("ingest", &[3, 11], 2_000, &one_life(INGEST));
}

#[test]
fn indexes() {
    run("indexes", &[5], 4_000, &one_life(INDEXES));
}

#[test]
fn snapshots() {
    run("snapshots", &[7], 2_000, &one_life(SNAPSHOTS));
}

#[test]
fn shard_keys() {
    run("shard keys", &[9], 1_500, &one_life(KEYS));
}

/// The power fails again while a start recovers: the next one finds what the first one would have.
#[test]
fn recovery() {
    run("recovery", &[12, 13], 800, &|seed, density, tally| {
        let (_, first, survivors) = first_life(seed, if density.until.is_some() { 200 } else { 8 });
        for (disk, state) in survivors {
            open(Arc::new(disk.clone())).close();
            let trace = Trace {
                disk,
                states: vec![Acknowledged { journal: 0, state }],
                taken: first.taken.clone(),
            };
            enumerate(&trace, density, tally);
        }
    });
}

/// A crash, some steps more, and the power fails again.
#[test]
fn second_life() {
    run("second life", &[18], 1_000, &|seed, density, tally| {
        let (mix, first, survivors) = first_life(seed, if density.until.is_some() { 10 } else { 1 });
        for (number, (disk, state)) in survivors.into_iter().enumerate() {
            // The steps are of this collection.
            if !state.collections.contains_key(COLLECTION) {
                continue;
            }
            let again = History::resume(disk, state, first.taken.clone(), mix, seed + number as u64);
            enumerate(&again.run(STEPS_AFTER), density, tally);
        }
    });
}
