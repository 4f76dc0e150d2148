//! The planner: from the data, the machine and the memory it derives the layout and its speed. It opens no file and measures nothing, except in
//! [`Machine::measure`].

mod bytes;
mod cost;
mod counts;
mod layouts;
mod machine;
mod outcome;
mod plan_error;
mod room;
mod spec;
mod stairs;

pub use cost::Speed;
pub use counts::Counts;
pub use machine::{Cpu, Disk, Machine};
pub use outcome::{ComponentPlan, IndexKind, Layout, Outcome, Place, Plan, Step};
pub use plan_error::PlanError;
pub use room::Memory;
pub use spec::{Hardness, Ids, IndexWish, POINTS_MAX, Spec, Wish, Wishes};

/// The layout within `memory`: the index and the codes that the engine builds there, and of their levels (docs/memory.md) that fit
/// and keep the wishes the fastest, or of equally fast ones the best.
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
    let chosen = layouts::held(spec, machine, memory).ok_or_else(|| refusal(spec, machine, memory))?;
    let mut steps = stairs::all(spec, machine, memory);
    stairs::mark(&mut steps, &chosen, spec, machine, memory);
    let mut assumptions = assumptions(spec, machine);
    assumptions.extend(faster_graph(spec, machine, memory, &chosen));
    Ok(Plan {
        spec: spec.clone(),
        memory_bytes: memory.bytes,
        search_threads: memory.threads(machine.cores),
        cores: machine.cores,
        chosen,
        room_bytes,
        steps,
        assumptions,
    })
}

/// The plan with as much memory as the last of its steps needs: all that helps is in RAM.
pub fn plan_at_most(spec: &Spec, machine: &Machine, memory: &Memory) -> Result<Plan, PlanError> {
    spec.check()?;
    let steps = stairs::all(spec, machine, memory);
    let most = steps.last().map_or(memory.bytes, |step| step.memory_bytes_min);
    plan(spec, machine, &memory.with(most))
}

fn refusal(spec: &Spec, machine: &Machine, memory: &Memory) -> PlanError {
    let Some(memory_bytes_min) = stairs::least(spec, machine, memory) else {
        return PlanError::BadSpec(
            "no layout keeps all these wishes: codes in RAM need an index with codes, which Manhattan distance \
             doesn't have"
                .to_owned(),
        );
    };
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
        true => format!("an index of {}", counted(spec.points)),
        false => format!(
            "keeping the {} of {} in RAM",
            wished.join(" and "),
            counted(spec.points)
        ),
    };
    PlanError::DoesNotFit {
        what,
        memory_bytes: memory.bytes,
        memory_bytes_min,
    }
}

fn counted(points: u64) -> String {
    match points {
        1 => "1 point".to_owned(),
        points => format!("{points} points"),
    }
}

/// So much faster a graph must be than what is built by itself, to be worth a word.
const FASTER: f64 = 1.5;

/// What a graph would bring that must be asked for, as it takes many times the disk: the user may have it to spare.
fn faster_graph(spec: &Spec, machine: &Machine, memory: &Memory, chosen: &Outcome) -> Option<String> {
    if spec.index != IndexWish::Auto || chosen.index == IndexKind::Hnsw {
        return None;
    }
    let asked_for = Spec {
        index: IndexWish::Hnsw,
        ..spec.clone()
    };
    let graph = layouts::held(&asked_for, machine, memory)?;
    (graph.speed.qps >= FASTER * chosen.speed.qps).then(|| {
        let [own, other] = [chosen, &graph].map(|outcome| outcome.disk_bytes as f64 / 1e9);
        format!(
            "a graph (--hnsw; `hnsw_config` of a collection) would be {:.1} times as fast in this memory, and take {other:.1} GB of disk, not {own:.1}",
            graph.speed.qps / chosen.speed.qps
        )
    })
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
        all.push("requested placements are followed".to_owned());
    }
    all
}
