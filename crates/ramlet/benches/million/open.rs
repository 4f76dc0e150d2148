//! Opening the engine as `ramlet serve` does, less the server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ramlet::{Collection, CollectionConfig, CollectionStatus, Datatype, Distance, Engine, EngineOptions};
use ramlet::{DEFAULT_VECTOR, FieldIndex, FieldKind, VectorParams};
use ramlet_io::{Backend, open_best, system};
use ramlet_memory::{BudgetRequest, BudgetTable, Ledger, give_back_heap};
use ramlet_testdata::args::Args;
use ramlet_testdata::{Metric, Set};
use serde_json::{Value, json};

use crate::Outcome;

pub const NAME: &str = "million";
pub fn set(args: &Args) -> Outcome<Set> {
    let prefix = args.word(1).ok_or("which set? the prefix of its files")?;
    Set::open(Path::new(prefix), args.value("dims", 100)?).map_err(|e| format!("{prefix}: {e}").into())
}

fn memory(args: &Args) -> Outcome<u64> {
    let memory = args.bytes("memory")?.or_else(system::cgroup_memory_limit);
    memory.ok_or_else(|| "how much memory? --memory 135MB".into())
}

/// Search threads: as told, else as many as the engine takes for this much memory.
pub fn threads(args: &Args) -> Outcome<usize> {
    match args.value("threads", 0)? {
        0 => Ok(BudgetRequest::search_threads_in_process(
            memory(args)?,
            system::machine().cores,
        )),
        told => Ok(told),
    }
}

/// Opens with the budget that `--memory` names (else the cgroup's limit), of which this program's own data so far
/// (queries, truth) is taken off as its own; says what it did on standard error with `--verbose`.
pub fn engine(directory: &Path, args: &Args) -> Outcome<Arc<Engine>> {
    let memory = memory(args)?;
    let mut request = BudgetRequest::in_process(memory, threads(args)?);
    // This program's own thread and data, less what it freed.
    give_back_heap();
    request.other_threads += 1;
    request.process_bytes += system::process_memory().anon;
    let budget = BudgetTable::plan(request)?;
    if args.has("verbose") {
        eprintln!("{budget}");
    }
    let backend = match args.text("backend").unwrap_or("auto") {
        "auto" => Backend::Auto,
        "io_uring" => Backend::Uring,
        "pread" => Backend::Pread,
        "mmap" => Backend::Mmap,
        other => return Err(format!("--backend {other}: auto, io_uring, pread, mmap").into()),
    };
    let (storage, fallback) = open_best(directory, backend)?;
    if let Some(why) = fallback {
        eprintln!("reading by pread, not by io_uring: {why}");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let options = EngineOptions {
        ledger: Ledger::new(budget.ledger_limit()),
        budget,
        seed: now.as_nanos() as u64,
        log_file_bytes: None,
    };
    Ok(Engine::open(storage, options)?)
}

/// The settings of a collection for this set. `--datatype`, and `--config` with a JSON object of the API's further settings (`hnsw_config`,
/// `quantization_config`, ...) for the vector.
pub fn config(set: &Set, args: &Args) -> Outcome<CollectionConfig> {
    let datatype = match (args.text("datatype"), set.info.element) {
        (Some("float16"), _) => Datatype::Float16,
        (Some("uint8"), _) | (None, ramlet_testdata::Element::U8) => Datatype::Uint8,
        (Some("float32") | None, _) => Datatype::Float32,
        (Some(other), _) => return Err(format!("--datatype {other}: float32, float16, uint8").into()),
    };
    let other: BTreeMap<String, Value> = match args.text("config") {
        Some(text) => serde_json::from_str(text)?,
        None => BTreeMap::new(),
    };
    let params = VectorParams {
        size: set.info.dims,
        distance: match set.info.metric {
            Metric::Cosine => Distance::Cosine,
            Metric::Euclid => Distance::Euclid,
        },
        datatype: Some(datatype),
        on_disk: None,
        multivector_config: None,
        other,
    };
    let index = |name: &str| {
        let kind = FieldKind::Integer;
        (name.to_string(), FieldIndex { kind, params: None })
    };
    Ok(CollectionConfig {
        vectors: BTreeMap::from([(DEFAULT_VECTOR.to_string(), params)]),
        indexing_threshold: args.has("stored").then_some(0),
        payload_schema: match args.has("payload") {
            true => BTreeMap::from([index("rank"), index("near")]),
            false => BTreeMap::new(),
        },
        ..CollectionConfig::default()
    })
}

/// Waits until nothing is left to build, merge or bring into RAM; fails if a job did.
pub fn settle(collection: &Collection) -> Outcome {
    let started = Instant::now();
    loop {
        collection.wait_idle()?;
        let info = collection.info();
        match info.status {
            CollectionStatus::Green => return Ok(()),
            CollectionStatus::Red => return Err(info.optimizer_error.unwrap_or_default().into()),
            CollectionStatus::Yellow if started.elapsed() > Duration::from_secs(3_600) => {
                return Err("there is still something to build after an hour".into());
            }
            CollectionStatus::Yellow => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// What the engine holds and where, for a record.
pub fn placement(engine: &Engine, collection: &Collection) -> Value {
    let info = collection.info();
    let memory: Vec<Value> = info
        .memory
        .iter()
        .map(|c| {
            json!({
                "component": c.component, "kind": c.kind, "heap_bytes": c.heap_bytes,
                "pinned_bytes": c.pinned_bytes, "disk_bytes": c.disk_bytes,
            })
        })
        .collect();
    let budget = engine.budget();
    let rows: serde_json::Map<String, Value> = budget
        .rows()
        .iter()
        .map(|row| (row.name.to_string(), row.bytes.into()))
        .collect();
    json!({
        "points": info.points_count, "segments": info.segments_count, "indexed": info.indexed_vectors_count,
        "disk_bytes": info.disk_bytes, "components": memory, "budget": rows, "backend": engine.storage().backend(),
        "ledger_used_bytes": engine.ledger().used(),
    })
}

/// Memory as the kernel counts it now, and at its most.
pub fn memory_now() -> Value {
    let memory = system::process_memory();
    json!({
        "rss_bytes": memory.rss, "rss_bytes_max": memory.rss_peak, "anon_bytes": memory.anon,
        "cgroup_bytes": system::cgroup_memory_usage(), "cgroup_limit_bytes": system::cgroup_memory_limit(),
    })
}
