//! A model of shards over an object store: the protocol, and a store that is late, fails, loses answers, while owners stall and die. A seed decides all.
//!
//! Thousands of schedules run with the other tests; `RAMLET_MODEL_SCHEDULES=1000000` runs so many, `RAMLET_MODEL_SEED` begins elsewhere. Each mutant breaks
//! one rule of the protocol, and must be caught.

mod protocol;
mod random;
mod store;
mod world;

use std::collections::BTreeSet;
use std::thread;

use protocol::{Begun, builder, candidate, collector, node, replica};
use store::{Name, Object};
use world::{Shared, World, run};

const SCHEDULES: u64 = 4_000;
/// Schedules in which each mutant is to be caught.
const SCHEDULES_OF_MUTANTS: u64 = 20_000;
/// Where they begin for the one that is rarely noticed: once in some 180,000.
const FIRST_OF_MANIFESTS: u64 = 175_000;
const STEPS: u32 = 1_000;

/// A rule that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// Deletes seals like other slots.
    CollectorDeletesSeals,
    /// Deletes records that count for nothing like those that do.
    CollectorDeletesVoid,
    /// Deletes segments that no manifest names yet.
    CollectorTakesOrphans,
    /// Deletes manifests that aren't the newest.
    CollectorDeletesManifests,
    /// Takes for its own what is in a slot that it tried twice.
    WriterWithoutReadBack,
    /// Believes that its lease is still good, and writes over what is there.
    OwnerTrustsItsClock,
    /// Acknowledges a group though the one before it isn't in the log.
    OutOfOrder,
    /// Believes a seal that it could create.
    TakerWithoutProof,
    /// Believes a slot that it could read.
    ReaderWithoutProof,
    /// Acknowledges a group whose answer is lost, because its lease is still good.
    LeaseInsteadOfAnswer,
    /// Keeps what it couldn't write when it was taken over.
    DemotedKeepsItsTail,
    /// Takes a seal that was there first for its own.
    LoserTakesTheSealForItsOwn,
}

const MUTANTS: [Mutant; 12] = [
    Mutant::CollectorDeletesSeals,
    Mutant::CollectorDeletesVoid,
    Mutant::CollectorTakesOrphans,
    Mutant::CollectorDeletesManifests,
    Mutant::WriterWithoutReadBack,
    Mutant::OwnerTrustsItsClock,
    Mutant::OutOfOrder,
    Mutant::TakerWithoutProof,
    Mutant::ReaderWithoutProof,
    Mutant::LeaseInsteadOfAnswer,
    Mutant::DemotedKeepsItsTail,
    Mutant::LoserTakesTheSealForItsOwn,
];

/// What a schedule came to.
#[derive(Default)]
struct Outcome {
    faults: Vec<String>,
    acknowledged: usize,
    /// Owners but the first.
    takeovers: usize,
    collected: usize,
}

fn schedule(seed: u64, mutant: Mutant) -> Outcome {
    let traced = std::env::var("RAMLET_MODEL_TRACE").is_ok_and(|wanted| wanted == seed.to_string());
    let world = World::new(seed, mutant, traced);
    let of_node = |world: Shared| -> Begun { Box::pin(node(world)) };
    let of_candidate = |world: Shared| -> Begun { Box::pin(candidate(world)) };
    let of_replica = |world: Shared| -> Begun { Box::pin(replica(world)) };
    let of_builder = |world: Shared| -> Begun { Box::pin(builder(world)) };
    let of_collector = |world: Shared| -> Begun { Box::pin(collector(world)) };
    run(
        &world,
        STEPS,
        &[
            &of_node,
            &of_node,
            &of_candidate,
            &of_candidate,
            &of_replica,
            &of_builder,
            &of_collector,
        ],
    );
    let world = &*world.borrow();
    Outcome {
        faults: world.faults.iter().cloned().chain(faults(world)).collect(),
        acknowledged: world.acknowledged.len(),
        takeovers: epochs(world).saturating_sub(1),
        collected: world
            .objects
            .log
            .keys()
            .filter(|slot| !world.objects.all.contains_key(&Name::Slot(**slot)))
            .count(),
    }
}

fn epochs(world: &World) -> usize {
    let seals = world.objects.log.values();
    seals
        .filter(|object| matches!(object, Object::Seal { .. }))
        .count()
}

/// Which invariants don't hold in the end.
fn faults(world: &World) -> Vec<String> {
    let mut faults = Vec::new();
    let truth = world.objects.truth();
    for acknowledged in &world.acknowledged {
        if !truth.contains(&(acknowledged.slot, acknowledged.value)) {
            faults.push(format!("{acknowledged:?} isn't in the log"));
        }
    }
    let values: BTreeSet<u32> = truth.iter().map(|(_, value)| *value).collect();
    if values.len() != truth.len() {
        faults.push("a value is in the log twice".into());
    }
    for (slot, had) in &world.replicas {
        let upto: Vec<u32> = truth
            .iter()
            .filter(|(of, _)| of <= slot)
            .map(|(_, value)| *value)
            .collect();
        if upto != *had {
            faults.push(format!("at slot {slot} a replica had {had:?}, the log {upto:?}"));
        }
    }
    match recovered(world) {
        Ok(values) => {
            let all: Vec<u32> = truth.iter().map(|(_, value)| *value).collect();
            if values != all {
                faults.push(format!("{values:?} are read in the end, the log has {all:?}"));
            }
        }
        Err(fault) => faults.push(fault),
    }
    faults
}

/// What a fresh reader finds when all is quiet.
fn recovered(world: &World) -> Result<Vec<u32>, String> {
    let all = &world.objects.all;
    let newest = all
        .range(Name::Manifest(0)..=Name::Manifest(u32::MAX))
        .next_back();
    let (mut values, mut epoch, mut slot) = (Vec::new(), 0, 0);
    if let Some((_, Object::Manifest(manifest))) = newest {
        for name in &manifest.segments {
            match all.get(name) {
                Some(Object::Segment(more)) => values.extend_from_slice(more),
                _ => return Err(format!("{name:?}, which {manifest:?} names, is missing")),
            }
        }
        (epoch, slot) = (manifest.epoch, manifest.covered);
    }
    while let Some(object) = all.get(&Name::Slot(slot + 1)) {
        slot += 1;
        match object {
            Object::Seal { epoch: sealed, .. } => epoch = epoch.max(*sealed),
            Object::Record { epoch: of, value } if *of == epoch => values.push(*value),
            _ => {}
        }
    }
    Ok(values)
}

fn number(variable: &str, usual: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn no_schedule_breaks_the_protocol() {
    let (first, count) = (
        number("RAMLET_MODEL_SEED", 0),
        number("RAMLET_MODEL_SCHEDULES", SCHEDULES),
    );
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    let parts: Vec<_> = (0..threads)
        .map(|part| {
            thread::spawn(move || {
                let (mut acknowledged, mut takeovers, mut collected) = (0, 0, 0);
                for seed in (first + part..first + count).step_by(threads as usize) {
                    let outcome = schedule(seed, Mutant::None);
                    assert!(outcome.faults.is_empty(), "seed {seed}: {:#?}", outcome.faults);
                    acknowledged += outcome.acknowledged;
                    takeovers += outcome.takeovers;
                    collected += outcome.collected;
                }
                (acknowledged, takeovers, collected)
            })
        })
        .collect();
    let mut sums = (0, 0, 0);
    for part in parts {
        let (acknowledged, takeovers, collected) = part.join().expect("no schedule breaks it");
        sums = (sums.0 + acknowledged, sums.1 + takeovers, sums.2 + collected);
    }
    println!(
        "{count} schedules: {} acknowledged, {} takeovers, {} slots collected, 0 violations",
        sums.0, sums.1, sums.2
    );
    // Schedules in which nothing happens find nothing.
    assert!(
        sums.0 as u64 > 3 * count && sums.1 as u64 > count && sums.2 as u64 > 2 * count,
        "{sums:?}"
    );
}

#[test]
fn each_mutant_is_caught() {
    for mutant in MUTANTS {
        let first = match mutant {
            Mutant::CollectorDeletesManifests => FIRST_OF_MANIFESTS,
            _ => 0,
        };
        let mut seeds = first..first + SCHEDULES_OF_MUTANTS;
        let caught = seeds.find(|seed| !schedule(*seed, mutant).faults.is_empty());
        let seed = caught.unwrap_or_else(|| panic!("{mutant:?} isn't caught"));
        println!(
            "{mutant:?} is caught by seed {seed}: {}",
            schedule(seed, mutant).faults[0]
        );
    }
}
