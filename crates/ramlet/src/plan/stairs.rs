//! The staircase of memory: the engine's layout at every amount where it may change, if it is faster than all that need less.

use super::layouts;
use super::machine::Machine;
use super::outcome::{Outcome, Step};
use super::room::Memory;
use super::spec::Spec;

/// A step that brings less isn't worth a line.
const FASTER: f64 = 1.03;

/// The staircase, by memory.
pub fn all(spec: &Spec, machine: &Machine, memory: &Memory) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for bytes in layouts::turns(spec, machine, memory) {
        let Some(outcome) = layouts::held(spec, machine, &memory.with(bytes)) else {
            continue;
        };
        if steps
            .last()
            .is_none_or(|last| outcome.speed.qps > last.speed.qps * FASTER)
        {
            steps.push(outcome.step(bytes));
        }
    }
    steps
}

/// The least memory with which there is any layout that keeps the wishes; `None`: there is none.
pub fn least(spec: &Spec, machine: &Machine, memory: &Memory) -> Option<u64> {
    let fits = |bytes: &u64| layouts::held(spec, machine, &memory.with(*bytes)).is_some();
    layouts::turns(spec, machine, memory).into_iter().find(fits)
}

/// Marks the step of what was chosen, and adds one where it is none that is worth climbing: no faster than what needs less, or
/// by little.
pub fn mark(steps: &mut Vec<Step>, chosen: &Outcome, spec: &Spec, machine: &Machine, memory: &Memory) {
    let below = steps.partition_point(|step| step.memory_bytes_min <= memory.bytes);
    if let Some(step) = steps[..below].last_mut().filter(|step| step.is_of(chosen)) {
        step.chosen = true;
        return;
    }
    let least = chosen.memory_bytes_min.min(memory.bytes);
    let fits_with = |bytes| {
        let held = layouts::held(spec, machine, &memory.with(bytes));
        held.is_some_and(|held| chosen.step(bytes).is_of(&held))
    };
    let bytes = if fits_with(least) { least } else { memory.bytes };
    let mut step = chosen.step(bytes);
    step.chosen = true;
    let at = steps.partition_point(|step| step.memory_bytes_min <= bytes);
    steps.insert(at, step);
}

impl Step {
    /// Whether it is what stands in a plan: the same parts in RAM, and as fast.
    fn is_of(&self, outcome: &Outcome) -> bool {
        let ratio = outcome.speed.qps / self.speed.qps;
        (self.index, self.layout) == (outcome.index, outcome.layout)
            && self.in_ram == outcome.in_ram()
            && (1.0 / FASTER..=FASTER).contains(&ratio)
    }
}
