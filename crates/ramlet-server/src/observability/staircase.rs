//! What more memory would bring to what is stored: the plans of all vectors of all collections together, by memory.

use ramlet::plan::{Layout, Machine, Memory, Spec, Step, plan_at_most};
use ramlet::{CollectionInfo, Engine};
use serde_json::{Value, json};

use crate::app::App;
use crate::handlers::plan::of_collection;

/// Vectors that are planned, those of most points; a plan takes a millisecond or two.
const VECTORS_MAX: usize = 24;
/// A step that brings less isn't worth a line.
const FASTER: f64 = 1.03;

/// A vector of a collection, and what it may have in RAM.
#[derive(Debug, Clone)]
pub struct Part {
    pub collection: String,
    pub vector: String,
    pub points: u64,
    /// By memory; at least one.
    steps: Vec<Step>,
}

/// One amount of memory, and what there is with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stair {
    pub memory_bytes_min: u64,
    /// Of a mean search: each vector is searched as often as it has points.
    pub queries_per_s: f64,
    pub reads_per_query: f64,
    /// Read in sequence beside them, where whole clusters or all rows are.
    pub scan_bytes_per_query: f64,
    pub ram_bytes: u64,
    /// By part, which of its steps.
    chosen: Vec<usize>,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Staircase {
    pub memory_bytes: u64,
    pub parts: Vec<Part>,
    /// By memory, each faster than the one before.
    pub stairs: Vec<Stair>,
    /// Vectors that aren't planned: small ones, and those of kinds that have no plan.
    pub left_out: u64,
    pub disk_bytes: u64,
    /// Texts, payloads, payload indexes, sparse vectors, ids: bytes on disk, and what they hold in RAM whatever happens.
    pub beside_disk_bytes: u64,
    pub beside_heap_bytes: u64,
    /// With so much all of these are in RAM as well, beside the last stair.
    pub memory_bytes_all: u64,
}

/// Of the collections of these names.
pub fn of_stored(app: &App, names: &[String]) -> Staircase {
    let budget = app.engine.budget();
    let memory = Memory {
        search_threads: Some(budget.search_threads),
        ..Memory::of_server(budget.memory_bytes)
    };
    let machine = app.machine.get().cloned().unwrap_or_else(Machine::default);
    let stored: Vec<(&String, CollectionInfo)> = infos(&app.engine, names).collect();
    let is_of_no_vector = |component: &str| !component.starts_with("vector");
    let beside = || {
        let parts = stored.iter().flat_map(|(_, info)| &info.memory);
        parts.filter(|part| is_of_no_vector(&part.component))
    };
    let mut specs: Vec<(String, String, Spec)> = stored
        .iter()
        .flat_map(|(name, info)| specs_of(name, info))
        .collect();
    specs.sort_by_key(|(.., spec)| std::cmp::Reverse(spec.points));
    let all = specs.len();
    let parts: Vec<Part> = specs
        .into_iter()
        .take(VECTORS_MAX)
        .filter_map(|(collection, vector, spec)| part(collection, vector, &spec, (&machine, &memory)))
        .collect();
    let beside_heap_bytes = beside().map(|part| part.heap_bytes).sum();
    let beside_disk_bytes = beside().map(|part| part.disk_bytes).sum();
    let stairs = climb(&parts, beside_heap_bytes, &memory, &machine);
    let most = stairs.last().map_or(0, |stair| stair.ram_bytes);
    Staircase {
        memory_bytes: budget.memory_bytes,
        left_out: (all - parts.len()) as u64,
        parts,
        disk_bytes: stored.iter().map(|(_, info)| info.disk_bytes).sum(),
        beside_disk_bytes,
        beside_heap_bytes,
        memory_bytes_all: memory.least_for(most + beside_disk_bytes, machine.cores),
        stairs,
    }
}

fn infos<'a>(engine: &'a Engine, names: &'a [String]) -> impl Iterator<Item = (&'a String, CollectionInfo)> {
    // Those that aren't in RAM are small beside the ones that are, and aren't loaded for a look.
    let loaded = names
        .iter()
        .filter_map(|name| Some((name, engine.collection_in_ram(name)?.ok()?)));
    loaded.map(|(name, collection)| (name, collection.info()))
}

fn specs_of(name: &str, info: &CollectionInfo) -> Vec<(String, String, Spec)> {
    let counts = info.vectors_count.iter();
    let dense = counts.filter(|(vector, count)| *count > 0 && info.config.vectors.contains_key(vector));
    let spec = |(vector, count): &(String, u64)| {
        let spec = Spec {
            points: *count,
            ..of_collection(info, vector).ok()?
        };
        Some((name.to_owned(), vector.clone(), spec))
    };
    dense.filter_map(spec).collect()
}

fn part(
    collection: String,
    vector: String,
    spec: &Spec,
    (machine, memory): (&Machine, &Memory),
) -> Option<Part> {
    let plan = plan_at_most(spec, machine, memory).ok()?;
    Some(Part {
        collection,
        vector,
        points: spec.points,
        steps: plan.steps,
    })
}

/// From the least on, always the step that saves most time for its bytes.
fn climb(parts: &[Part], held_bytes: u64, memory: &Memory, machine: &Machine) -> Vec<Stair> {
    if parts.is_empty() || parts.iter().any(|part| part.steps.is_empty()) {
        return Vec::new();
    }
    let points: f64 = parts.iter().map(|part| part.points as f64).sum();
    let weights: Vec<f64> = parts.iter().map(|part| part.points as f64 / points).collect();
    let mut chosen = vec![0; parts.len()];
    let mut stairs: Vec<Stair> = Vec::new();
    loop {
        let stair = stair(parts, &weights, &chosen, (held_bytes, memory, machine));
        let is_faster = |last: &Stair| stair.queries_per_s > last.queries_per_s * FASTER;
        let could_be = machine.ram_bytes == 0 || stair.memory_bytes_min <= machine.ram_bytes;
        if could_be && stairs.last().is_none_or(is_faster) {
            stairs.push(stair);
        }
        let Some((part, step)) = next(parts, &weights, &chosen) else {
            return stairs;
        };
        chosen[part] = step;
    }
}

fn stair(
    parts: &[Part],
    weights: &[f64],
    chosen: &[usize],
    (held_bytes, memory, machine): (u64, &Memory, &Machine),
) -> Stair {
    let steps = || parts.iter().zip(chosen).map(|(part, at)| &part.steps[*at]);
    let ram_bytes = held_bytes + steps().map(|step| step.ram_bytes).sum::<u64>();
    let alone = steps().map(|step| step.memory_bytes_min).max().unwrap_or(0);
    let mean = |figure: &dyn Fn(&Step) -> f64| -> f64 {
        steps()
            .zip(weights)
            .map(|(step, weight)| weight * figure(step))
            .sum()
    };
    let seconds = mean(&|step| 1.0 / step.speed.qps);
    Stair {
        memory_bytes_min: memory.least_for(ram_bytes, machine.cores).max(alone),
        queries_per_s: 1.0 / seconds.max(1e-12),
        reads_per_query: mean(&|step| step.reads_per_query),
        scan_bytes_per_query: mean(&|step| step.scan_bytes_per_query),
        ram_bytes,
        chosen: chosen.to_vec(),
    }
}

/// The part and its step that saves most time for each byte it takes more; `None`: none saves any.
fn next(parts: &[Part], weights: &[f64], chosen: &[usize]) -> Option<(usize, usize)> {
    let mut best: Option<(f64, usize, usize)> = None;
    for (at, part) in parts.iter().enumerate() {
        let now = &part.steps[chosen[at]];
        for (step, of) in part.steps.iter().enumerate().skip(chosen[at] + 1) {
            let saved = weights[at] * (1.0 / now.speed.qps - 1.0 / of.speed.qps);
            let worth = saved / of.ram_bytes.saturating_sub(now.ram_bytes).max(1) as f64;
            if saved > 0.0 && best.is_none_or(|(most, ..)| worth > most) {
                best = Some((worth, at, step));
            }
        }
    }
    best.map(|(_, part, step)| (part, step))
}

impl Stair {
    /// What a search reads: random reads, and what is read in sequence where that is more than nothing.
    pub fn reading(&self) -> String {
        let random = self.reads_per_query;
        match self.scan_bytes_per_query {
            bytes if bytes < 50_000.0 => format!("{random:.1} reads"),
            bytes => format!("{random:.1} reads and {:.1} MB in sequence", bytes / 1e6),
        }
    }
}

impl Staircase {
    /// Where the server stands: the last stair within its memory. `None`: it has less than the first.
    pub fn here(&self) -> Option<usize> {
        self.stairs
            .partition_point(|stair| stair.memory_bytes_min <= self.memory_bytes)
            .checked_sub(1)
    }

    /// The collection, where there is one alone.
    pub fn only_collection(&self) -> Option<&str> {
        let first = self.parts.first()?.collection.as_str();
        self.parts
            .iter()
            .all(|part| part.collection == first)
            .then_some(first)
    }

    pub fn points(&self) -> u64 {
        self.parts.iter().map(|part| part.points).sum()
    }

    pub fn json(&self) -> Value {
        let here = self.here();
        let vectors = |stair: &Stair| -> Vec<Value> {
            let parts = self.parts.iter().zip(&stair.chosen);
            parts
                .map(|(part, at)| vector_json(part, &part.steps[*at]))
                .collect()
        };
        let stairs = self.stairs.iter().enumerate().map(|(at, stair)| {
            json!({
                "memory_bytes_min": stair.memory_bytes_min,
                "here": here == Some(at),
                "queries_per_second": rounded(stair.queries_per_s),
                "reads_per_query": rounded(stair.reads_per_query),
                "scan_bytes_per_query": rounded(stair.scan_bytes_per_query),
                "ram_bytes": stair.ram_bytes,
                "vectors": vectors(stair),
            })
        });
        json!({
            "memory_bytes": self.memory_bytes,
            "disk_bytes": self.disk_bytes,
            "points": self.points(),
            "steps": stairs.collect::<Vec<_>>(),
            "beside_vectors": {
                "disk_bytes": self.beside_disk_bytes,
                "ram_bytes_min": self.beside_heap_bytes,
                "memory_bytes_all": self.memory_bytes_all,
            },
            "vectors_left_out": self.left_out,
        })
    }
}

fn vector_json(part: &Part, step: &Step) -> Value {
    let layout: Layout = step.layout;
    json!({
        "collection": part.collection,
        "vector": part.vector,
        "points": part.points,
        "index": step.index,
        "layout": layout,
        "in_ram": step.in_ram,
        "ram_bytes": step.ram_bytes,
        "queries_per_second": rounded(step.speed.qps),
        "reads_per_query": rounded(step.reads_per_query),
        "scan_bytes_per_query": rounded(step.scan_bytes_per_query),
    })
}

/// To three digits: it is reckoned.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digit = 10f64.powi(2 - value.abs().log10().floor() as i32);
    (value * digit).round() / digit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sizes: &[(u64, u64)]) -> Vec<Part> {
        let (machine, memory) = (Machine::default(), Memory::of_server(0));
        let each = sizes.iter().enumerate();
        each.filter_map(|(n, (points, dims))| {
            part(
                format!("c{n}"),
                String::new(),
                &Spec::new(*points, *dims),
                (&machine, &memory),
            )
        })
        .collect()
    }

    fn stairs(sizes: &[(u64, u64)], held: u64) -> Vec<Stair> {
        climb(&parts(sizes), held, &Memory::of_server(0), &Machine::default())
    }

    #[test]
    fn each_stair_is_faster_and_takes_more() {
        let stairs = stairs(&[(1_000_000, 100), (200_000, 768), (5_000, 32)], 3 << 20);
        assert!(stairs.len() > 3, "{stairs:?}");
        for pair in stairs.windows(2) {
            assert!(pair[0].queries_per_s < pair[1].queries_per_s, "{pair:?}");
            assert!(pair[0].memory_bytes_min <= pair[1].memory_bytes_min, "{pair:?}");
        }
    }

    #[test]
    fn one_collection_alone_has_its_own_plan() {
        let spec = Spec::new(500_000, 96);
        let own = plan_at_most(&spec, &Machine::default(), &Memory::of_server(0)).expect("it fits");
        let stairs = stairs(&[(500_000, 96)], 0);
        let (first, last) = (&stairs[0], &stairs[stairs.len() - 1]);
        assert_eq!(last.queries_per_s, own.steps[own.steps.len() - 1].speed.qps);
        assert!(first.memory_bytes_min >= own.steps[0].memory_bytes_min);
    }

    #[test]
    fn rows_that_are_read_in_sequence_are_told() {
        let reading = |reads_per_query, scan_bytes_per_query| {
            let stair = Stair {
                reads_per_query,
                scan_bytes_per_query,
                ..stairs(&[(1_000, 8)], 0)[0].clone()
            };
            stair.reading()
        };
        assert_eq!(reading(3.25, 0.0), "3.2 reads");
        assert_eq!(reading(0.0, 1_900_000.0), "0.0 reads and 1.9 MB in sequence");
        // Manhattan distance has no codes: without its vectors in RAM whole clusters are read.
        let spec = Spec {
            metric: ramlet::Distance::Manhattan,
            ..Spec::new(100_000, 200)
        };
        let memory = Memory::of_server(0);
        let part = part("c".into(), String::new(), &spec, (&Machine::default(), &memory)).expect("it fits");
        let first = &climb(&[part], 0, &memory, &Machine::default())[0];
        assert!(first.scan_bytes_per_query > 1e6, "{first:?}");
    }

    #[test]
    fn several_take_more_than_one() {
        let last = |sizes: &[(u64, u64)]| stairs(sizes, 0).last().map(|stair| stair.memory_bytes_min);
        assert!(last(&[(300_000, 96), (300_000, 96)]) > last(&[(300_000, 96)]));
        assert_eq!(stairs(&[], 0), []);
    }
}
