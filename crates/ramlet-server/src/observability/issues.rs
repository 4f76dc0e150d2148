//! What needs somebody's hand, found by looking: one list for `/issues`, the metrics, the log and the page.

use std::collections::BTreeSet;

use ramlet::plan::Machine;
use ramlet::{Collection, ErrorKind, too_little_disk};
use serde_json::{Value, json};

use super::issue::Issue;
use super::staircase;
use super::staircase::{Stair, Staircase};
use super::unindexed::FieldUse;
use crate::app::App;
use crate::limits;
use crate::wire::explain::grouped;

/// Something for people to do.
fn by_hand(what: impl Into<String>) -> Value {
    json!({ "refactor": what.into() })
}

/// All that is wrong with the collections of these names, and with what they share.
pub fn find(app: &App, names: &[String]) -> Vec<Issue> {
    let (mut all, mut points) = (Vec::new(), 0);
    for name in names {
        points += of_one(app, name, &mut all);
    }
    all.extend(budget_too_small(app, names, points));
    all.extend(slow_disk(app));
    all.extend(disk_full(app));
    all.extend(shards_without_nodes(app));
    all
}

/// Shards of a divided store whose points nobody answers for.
fn shards_without_nodes(app: &App) -> Vec<Issue> {
    let shards = app.node.as_ref().and_then(|node| node.shards.as_ref());
    let missing = shards.map(|shards| shards.without_nodes()).unwrap_or_default();
    let issue = |shard: u32| Issue {
        code: "SHARD_WITHOUT_NODE",
        instance: format!("shard {shard}"),
        collection: None,
        description: format!(
            "No node holds shard {shard}: requests that need its points are answered with 503. What was acknowledged is in the store"
        ),
        solution: by_hand(format!(
            "start a node with the same --store; one with an empty directory takes the shard with the fewest nodes, or that of `--shard {shard}`"
        )),
    };
    missing.into_iter().map(issue).collect()
}

/// Adds those of one collection; its points. Its figures are asked for once.
fn of_one(app: &App, name: &str, all: &mut Vec<Issue>) -> u64 {
    // Of those that are not in RAM nothing is wrong that was known when they went.
    let collection = match app.engine.collection_in_ram(name) {
        Some(Ok(collection)) => collection,
        Some(Err(e)) if e.kind() == ErrorKind::CollectionClosed => {
            let closed = app.engine.closed_collections();
            let is_too_large = closed
                .iter()
                .any(|(closed, why)| closed == name && why.is_over_budget());
            let solution = by_hand(match is_too_large {
                true => "start the server with more --memory",
                false => {
                    "`ramlet check` reports the damage; delete the collection, or restore it from a snapshot"
                }
            });
            all.push(Issue::new("COLLECTION_CLOSED", name, e.to_string(), solution));
            return 0;
        }
        // Deleted meanwhile.
        _ => return 0,
    };
    let info = collection.info();
    if let Some(error) = info.optimizer_error {
        let (code, description, solution) = match collection.has_stopped() {
            true => (
                "WRITES_STOPPED",
                format!("Collection '{name}': {error}"),
                "check the disk, then restart the server; no acknowledged write is lost",
            ),
            false => (
                "OPTIMIZER_ERROR",
                format!("Background work of collection '{name}' fails: {error}"),
                "the server repeats it by itself, once the missing resource is available",
            ),
        };
        all.push(Issue::new(code, name, description, by_hand(solution)));
    }
    all.extend(damaged(app, &collection, name));
    all.extend(without_index(&collection, name));
    let is_indexed = |key: &str| {
        let config = collection.config();
        config.payload_schema.contains_key(key)
    };
    let met = app.unindexed.of(collection.id(), is_indexed);
    all.extend(met.iter().map(|met| unindexed(name, met)));
    info.points_count
}

/// A file that answers have met damage in.
fn damaged(app: &App, collection: &Collection, name: &str) -> Option<Issue> {
    let damaged = app.damage.of(collection.id())?;
    let description = format!(
        "{} responses of collection '{name}' met damaged data on disk and failed, or were cut off. The latest: {}",
        grouped(damaged.answers),
        damaged.said
    );
    let solution = by_hand(
        "`ramlet check` lists all damage; restore the collection from a snapshot, or run `ramlet salvage`. DELETE /issues clears this issue",
    );
    Some(Issue::new("DATA_DAMAGED", name, description, solution))
}

/// As the API words it, with the request that ends it.
fn unindexed(collection: &str, met: &FieldUse) -> Issue {
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
            "Unindexed field '{key}' might be slowing queries down in collection '{collection}': {} read up to {} payloads each",
            match met.searches {
                1 => "1 search".to_owned(),
                searches => format!("{} searches", grouped(searches)),
            },
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
                        "An index of collection '{name}' is being built{step}: until then searches compare {rows} rows{of_vector} one by one"
                    ),
                    "nothing to do; `indexed_only` searches skip these rows",
                )
            }
            None => (
                "INDEX_MISSING",
                format!(
                    "{rows} rows{of_vector} of collection '{name}' have no index: searches compare them one by one"
                ),
                "the server builds an index when no writes arrive for a while; if it lacks the memory, give a larger --memory",
            ),
        };
        Issue::new(code, name, description, by_hand(solution))
    };
    missing.iter().map(of).collect()
}

/// How much faster searches have to become before more memory is worth a word, and for how many times the memory at most.
const FASTER_MIN: f64 = 2.0;
const MEMORY_TIMES_MAX: u64 = 4;

/// If a stair of memory above is much faster, with all that is stored.
fn budget_too_small(app: &App, names: &[String], points: u64) -> Option<Issue> {
    if points < limits::PLANNED_POINTS_MIN {
        return None;
    }
    app.issues.planned(names.len(), points, || {
        next_stair(&staircase::of_stored(app, names))
    })
}

/// What the staircase says of more memory.
fn next_stair(stairs: &Staircase) -> Option<Issue> {
    let own = stairs.memory_bytes;
    let now = &stairs.stairs[stairs.here()?];
    let larger = |stair: &&Stair| {
        stair.memory_bytes_min > own
            && stair.memory_bytes_min <= own.saturating_mul(MEMORY_TIMES_MAX)
            && stair.queries_per_s >= FASTER_MIN * now.queries_per_s
    };
    let stair = stairs.stairs.iter().find(larger)?;
    let (more, times) = (
        stair.memory_bytes_min - own,
        stair.queries_per_s / now.queries_per_s,
    );
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    let whose = match stairs.only_collection() {
        Some(name) => format!("searches of collection '{name}'"),
        None => "searches of all collections, on average,".to_owned(),
    };
    let description = format!(
        "+{} MB: {whose} about {times:.0} times faster. The data is larger than what --memory {}MB can keep in RAM: a search takes \
         about {}, with {} MB {}. These figures are reckoned",
        megabytes(more),
        megabytes(own),
        now.reading(),
        megabytes(stair.memory_bytes_min),
        stair.reading()
    );
    let solution = by_hand(format!(
        "start with --memory {}MB; GET /plan lists all steps",
        megabytes(stair.memory_bytes_min)
    ));
    Some(Issue {
        collection: stairs.only_collection().map(str::to_owned),
        ..Issue::new(
            "BUDGET_TOO_SMALL",
            stairs.only_collection().unwrap_or("server"),
            description,
            solution,
        )
    })
}

/// Too little disk for writes.
fn disk_full(app: &App) -> Option<Issue> {
    let (free, needed) = too_little_disk(app.engine.storage().as_ref()).ok()??;
    Some(Issue {
        code: "DISK_FULL",
        instance: "disk".to_owned(),
        collection: None,
        description: format!(
            "{} MB of disk are free, writes need {} MB: what adds data is refused with 507. Searches and deletes go on",
            free / 1_000_000,
            needed.div_ceil(1_000_000)
        ),
        solution: by_hand(
            "delete points, collections or old snapshots, or enlarge the disk; writes go on by themselves then",
        ),
    })
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
            "check what else uses the disk, and its health; `ramlet machine` measures it again",
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
                "Reads take {} on average, at most {} are normal: searches wait longer {than}",
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

/// Once, when there is something to say: what is stored needs so much, and more would bring so much.
pub fn log_staircase(app: &App) {
    let stairs = staircase::of_stored(app, &app.engine.collection_names());
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    let Some(here) = stairs.here() else {
        if let Some(first) = stairs.stairs.first() {
            tracing::warn!(
                "plan of what is stored: an index of all of it needs {} MB, {} MB are given",
                megabytes(first.memory_bytes_min),
                megabytes(stairs.memory_bytes)
            );
        }
        return;
    };
    let told = |stair: &Stair| {
        format!(
            "{} MB: {:.0} queries/s, {} each",
            megabytes(stair.memory_bytes_min),
            stair.queries_per_s,
            stair.reading()
        )
    };
    let now = told(&stairs.stairs[here]);
    let more: Vec<String> = stairs.stairs[here + 1..].iter().map(told).collect();
    let more = if more.is_empty() {
        "more memory brings nothing".to_owned()
    } else {
        more.join("; ")
    };
    tracing::info!(
        points = stairs.points(),
        "plan of what is stored: here, from {now}. Next: {more}. These are predictions; see GET /plan"
    );
}

/// Looks again; what is new and what is over is told in the log.
pub fn look(app: &App) {
    let ids: BTreeSet<String> = app.engine.names_by_id().into_keys().collect();
    app.unindexed.keep(|id| ids.contains(id));
    app.damage.keep(|id| ids.contains(id));
    app.issues.log_changes(&find(app, &app.engine.collection_names()));
}
