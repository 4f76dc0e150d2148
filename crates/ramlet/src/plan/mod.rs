//! The planner: from what is to be stored, the machine and the memory to where everything goes and how fast it will be.
//! No file is opened and nothing is measured here, except by [`Machine::measure`].

mod bytes;
mod cost;
mod counts;
mod layouts;
mod machine;
mod outcome;
mod room;
mod spec;

pub use cost::Speed;
pub use counts::Counts;
pub use machine::{Cpu, Disk, Machine};
pub use outcome::{ComponentPlan, IndexKind, Layout, Outcome, Place, Plan, PlanError, Step};
pub use room::Memory;
pub use spec::{Hardness, Ids, IndexWish, POINTS_MAX, Spec, Wish, Wishes};

/// The best layout within `memory`: of all that fit and keep the wishes, the one that answers most queries a second.
///
/// Predicted are a search for `spec.k` results without filter on one segment, with as many in flight as there are
/// search threads. Bytes are exact up to what files waste; speeds are as good as the tables of the modules `counts` and
/// `cost`, which name their sources. Pure: the same arguments give the same plan.
///
/// # Errors
/// The specification makes no sense, or no layout that keeps the wishes fits: then both numbers are told.
pub fn plan(spec: &Spec, machine: &Machine, memory: &Memory) -> Result<Plan, PlanError> {
    spec.check()?;
    let room_bytes = memory.room(machine.cores)?;
    let layouts = layouts::all(spec, machine, memory)?;
    let chosen = layouts
        .iter()
        .filter(|outcome| outcome.ram_bytes <= room_bytes)
        .reduce(faster)
        .cloned()
        .ok_or_else(|| refusal(spec, memory, &layouts))?;
    Ok(Plan {
        spec: spec.clone(),
        memory_bytes: memory.bytes,
        search_threads: memory.threads(machine.cores),
        cores: machine.cores,
        chosen,
        room_bytes,
        steps: steps(spec, machine, memory)?,
        assumptions: assumptions(spec, machine),
    })
}

/// The plan with as much memory as the last of its steps needs: all that helps is in RAM.
pub fn plan_at_most(spec: &Spec, machine: &Machine, memory: &Memory) -> Result<Plan, PlanError> {
    spec.check()?;
    let steps = steps(spec, machine, memory)?;
    let most = steps.last().map_or(memory.bytes, |step| step.memory_bytes_min);
    plan(spec, machine, &memory.with(most))
}

/// Every layout that is faster than all that need less, by the memory it needs.
fn steps(spec: &Spec, machine: &Machine, memory: &Memory) -> Result<Vec<Step>, PlanError> {
    // With its own least memory each: more may allow more threads.
    let mut layouts = layouts::all(spec, machine, &memory.with(0))?;
    layouts.sort_by(|a, b| {
        a.memory_bytes_min
            .cmp(&b.memory_bytes_min)
            .then(b.speed.qps.total_cmp(&a.speed.qps))
    });
    let mut steps: Vec<Step> = Vec::new();
    for layout in &layouts {
        if steps
            .last()
            .is_none_or(|last| layout.speed.qps > last.speed.qps * FASTER)
        {
            steps.push(layout.step());
        }
    }
    Ok(steps)
}

/// A step that brings less isn't worth a line.
const FASTER: f64 = 1.03;

fn faster<'a>(a: &'a Outcome, b: &'a Outcome) -> &'a Outcome {
    let order = a
        .speed
        .qps
        .total_cmp(&b.speed.qps)
        .then(b.ram_bytes.cmp(&a.ram_bytes));
    if order.is_ge() { a } else { b }
}

fn refusal(spec: &Spec, memory: &Memory, layouts: &[Outcome]) -> PlanError {
    let least = layouts.iter().min_by_key(|outcome| outcome.memory_bytes_min);
    let wished = [
        ("vectors", spec.wishes.vectors),
        ("codes", spec.wishes.codes),
        ("payloads", spec.wishes.payload),
    ];
    let wished: Vec<&str> = wished
        .iter()
        .filter(|(_, w)| *w == Some(Wish::Pinned))
        .map(|(name, _)| *name)
        .collect();
    let what = match wished.is_empty() {
        true => format!("an index of {} points", spec.points),
        false => format!(
            "keeping the {} of {} points in RAM",
            wished.join(" and "),
            spec.points
        ),
    };
    PlanError::DoesNotFit {
        what,
        memory_bytes: memory.bytes,
        memory_bytes_min: least.map_or(0, |outcome| outcome.memory_bytes_min),
    }
}

fn assumptions(spec: &Spec, machine: &Machine) -> Vec<String> {
    let hardness = match spec.hardness {
        Hardness::Hard => "the data is as hard as word vectors; easier data is up to twice as fast",
        Hardness::Easy => "the data is easy, as images are; word vectors take about twice the work",
    };
    let mut all = vec![
        hardness.to_owned(),
        format!(
            "{} cores of {}, {:.0} random reads a second at depth 64 through {}",
            machine.cores, machine.name, machine.disk.iops_depth64, machine.disk.backend
        ),
        "one segment, no filter, as many searches at once as there are search threads".to_owned(),
    ];
    if spec.wishes != Wishes::default() {
        all.push("placements that were asked for are kept".to_owned());
    }
    all
}
