//! What needs somebody's hand, found by looking: one list for `/issues`, the metrics, the log and the page.

use std::collections::BTreeSet;

use ramlet::plan::{Machine, Memory, plan};
use ramlet::{Collection, CollectionInfo, ErrorKind};
use serde_json::{Value, json};

use crate::app::App;
use crate::handlers::plan::of_collection;
use crate::issue::Issue;
use crate::limits;
use crate::unindexed::Met;
use crate::wire::explain::grouped;

/// Something for people to do.
fn by_hand(what: impl Into<String>) -> Value {
    json!({ "refactor": what.into() })
}

/// All that is wrong with the collections of these names, and with what they share.
pub fn find(app: &App, names: &[String]) -> Vec<Issue> {
    let mut all: Vec<Issue> = names.iter().flat_map(|name| of_one(app, name)).collect();
    all.extend(budget_too_small(app, names));
    all.extend(slow_disk(app));
    all
}

fn of_one(app: &App, name: &str) -> Vec<Issue> {
    // Of those that are not in RAM nothing is wrong that was known when they went.
    let collection = match app.engine.collection_in_ram(name) {
        Some(Ok(collection)) => collection,
        Some(Err(e)) if e.kind() == ErrorKind::CollectionClosed => {
            let solution = by_hand("`ramlet check` tells more; delete it, or restore it from a snapshot");
            return vec![Issue::new("COLLECTION_CLOSED", name, e.to_string(), solution)];
        }
        // Deleted meanwhile.
        _ => return Vec::new(),
    };
    let mut all = Vec::new();
    if let Some(error) = collection.info().optimizer_error {
        let (code, description, solution) = match collection.has_stopped() {
            true => (
                "WRITES_STOPPED",
                format!("Collection '{name}': {error}"),
                "look after the disk, then restart the server: what was acknowledged is there",
            ),
            false => (
                "OPTIMIZER_ERROR",
                format!("Background work of collection '{name}' fails: {error}"),
                "it is tried again by itself; what it says is lacking has to come first",
            ),
        };
        all.push(Issue::new(code, name, description, by_hand(solution)));
    }
    all.extend(without_index(&collection, name));
    let is_indexed = |key: &str| {
        let config = collection.config();
        config.payload_schema.contains_key(key)
    };
    let met = app.unindexed.of(collection.id(), is_indexed);
    all.extend(met.iter().map(|met| unindexed(name, met)));
    all
}

/// As the API words it, with the request that ends it.
fn unindexed(collection: &str, met: &Met) -> Issue {
    let key = &met.field.key;
    let solutions: Vec<Value> = met
        .field
        .kinds
        .iter()
        .map(|kind| {
            json!({
                "message": format!("Create an index on field '{key}' of schema \"{kind}\" in collection '{collection}'."),
                "action": {
                    "method": "PUT",
                    "uri": format!("/collections/{}/index", encoded(collection)),
                    "headers": { "content-type": "application/json" },
                    "body": { "field_name": key, "field_schema": kind },
                },
            })
        })
        .collect();
    Issue {
        code: "UNINDEXED_FIELD",
        instance: format!("{collection}/{key}"),
        collection: Some(collection.to_owned()),
        description: format!(
            "Unindexed field '{key}' might be slowing queries down in collection '{collection}': {} searches read up to {} payloads each",
            grouped(met.searches),
            grouped(met.payloads_max)
        ),
        solution: match <[Value; 1]>::try_from(solutions) {
            Ok([one]) => json!({ "immediate": one }),
            Err(several) => json!({ "immediate_choice": several }),
        },
    }
}

fn encoded(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Vectors that searches compare one by one though they are many.
fn without_index(collection: &Collection, name: &str) -> Vec<Issue> {
    let missing = collection.unindexed_vectors();
    let job = collection.job_under_way();
    let of = |(vector, rows): &(String, u64)| {
        let rows = grouped(*rows);
        let of_vector = if vector.is_empty() {
            String::new()
        } else {
            format!(" of vector '{vector}'")
        };
        let (code, description, solution) = match &job {
            Some(job) => {
                let step = job.step().map_or(String::new(), |step| {
                    format!(" ({} {} %)", step.name, step.done * 100 / step.total.max(1))
                });
                (
                    "INDEX_BEING_BUILT",
                    format!(
                        "An index of collection '{name}' is being built{step}: until then {rows} rows{of_vector} are compared one by one"
                    ),
                    "it ends by itself; `indexed_only` searches pass over these rows",
                )
            }
            None => (
                "INDEX_MISSING",
                format!(
                    "{rows} rows{of_vector} of collection '{name}' have no index: searches compare them one by one"
                ),
                "an index is built once nothing is written for a while; where memory lacks for it, a larger --memory lets it be built",
            ),
        };
        Issue::new(code, name, description, by_hand(solution))
    };
    missing.iter().map(of).collect()
}

/// How much faster searches have to become before more memory is worth a word, and for how many times the memory at most.
const FASTER_MIN: f64 = 2.0;
const MEMORY_TIMES_MAX: u64 = 4;

/// The collection that most of the data is in, if the next step of its plan's staircase is much faster.
fn budget_too_small(app: &App, names: &[String]) -> Option<Issue> {
    let open = names
        .iter()
        .filter_map(|name| Some((name, app.engine.collection_in_ram(name)?.ok()?)));
    let sized: Vec<_> = open.map(|(name, collection)| (name, collection.info())).collect();
    let points: u64 = sized.iter().map(|(_, info)| info.points_count).sum();
    let (name, info) = sized.into_iter().max_by_key(|(_, info)| info.points_count)?;
    // A plan is about one collection: where others are of much weight it would promise too much.
    if info.points_count < limits::PLANNED_POINTS_MIN || info.points_count * 10 < points * 9 {
        return None;
    }
    app.issues
        .planned(name, info.points_count, || next_step(app, name, &info))
}

/// What the plan of a collection says of more memory.
fn next_step(app: &App, name: &str, info: &CollectionInfo) -> Option<Issue> {
    let spec = of_collection(info, "").ok()?;
    let budget = app.engine.budget();
    let mut memory = Memory::of_server(budget.memory_bytes);
    memory.search_threads = Some(budget.search_threads);
    let machine = app.machine.get().cloned().unwrap_or_else(Machine::default);
    let now = plan(&spec, &machine, &memory).ok()?;
    let own = budget.memory_bytes;
    let larger = |step: &&ramlet::plan::Step| {
        step.memory_bytes_min > own
            && step.memory_bytes_min <= own.saturating_mul(MEMORY_TIMES_MAX)
            && step.speed.qps >= FASTER_MIN * now.chosen.speed.qps
    };
    let step = now
        .steps
        .iter()
        .filter(larger)
        .min_by_key(|step| step.memory_bytes_min)?;
    let (more, times) = (step.memory_bytes_min - own, step.speed.qps / now.chosen.speed.qps);
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    let description = format!(
        "+{} MB: searches of collection '{name}' about {times:.0} times faster. Its data is larger than what --memory {}MB can keep in RAM: a search takes \
         about {:.0} reads, with {} MB {:.0}. These figures are reckoned",
        megabytes(more),
        megabytes(own),
        now.chosen.reads_per_query,
        megabytes(step.memory_bytes_min),
        step.reads_per_query
    );
    let solution = by_hand(format!(
        "start with --memory {}MB; `ramlet plan` and POST /plan tell all steps",
        megabytes(step.memory_bytes_min)
    ));
    Some(Issue::new("BUDGET_TOO_SMALL", name, description, solution))
}

/// Reads or syncs that take much longer than the disk did when it was measured.
fn slow_disk(app: &App) -> Vec<Issue> {
    let mut all = Vec::new();
    let issue = |instance: &str, description: String| Issue {
        code: "SLOW_DISK",
        instance: instance.to_owned(),
        collection: None,
        description,
        solution: by_hand(
            "look at what else uses the disk, and at its health; `ramlet machine` measures it anew",
        ),
    };
    let (usual, measured) = usual_read_us(app);
    if let Some(mean) = app
        .read_waits
        .mean_us()
        .filter(|mean| *mean > limits::SLOW_TIMES * usual)
    {
        let than = if measured {
            "than when the disk was measured"
        } else {
            "than disks take"
        };
        all.push(issue(
            "reads",
            format!(
                "Reads take {} on average, at most {} are usual: searches wait longer {than}",
                millis(mean),
                millis(usual)
            ),
        ));
    }
    let syncs = app.engine.watch().syncs();
    let mean = syncs.total_ns.checked_div(syncs.count).unwrap_or(0) / 1_000;
    if syncs.count >= limits::SYNCS_JUDGED && mean > limits::SYNC_SLOW_US {
        all.push(issue(
            "syncs",
            format!(
                "A sync of the log takes {} on average, the longest took {}: every write waits for one",
                millis(mean),
                millis(syncs.longest_ns / 1_000)
            ),
        ));
    }
    all
}

fn millis(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1e3)
}

/// What a batch of reads takes at most on the disk as it was measured, and whether it was.
fn usual_read_us(app: &App) -> (u64, bool) {
    let machine = app.machine.get();
    let disk = machine.cloned().unwrap_or_else(Machine::default).disk;
    // Of a batch of 64 the last one is waited for.
    let usual = disk.latency_us_p99.max(64.0 * 1e6 / disk.iops_depth64.max(1.0));
    ((usual as u64).max(limits::READ_US_MIN), machine.is_some())
}

/// Looks again; what is new and what is over is told in the log.
pub fn look(app: &App) {
    let ids: BTreeSet<String> = app.engine.names_by_id().into_keys().collect();
    app.unindexed.keep(|id| ids.contains(id));
    app.issues.tell(&find(app, &app.engine.collection_names()));
}
