//! `ramlet top`: a running server's memory and time, refreshed every few seconds.

use std::io::{IsTerminal, stdout};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ramlet_bench::api::collection_path;
use serde_json::{Value, json};
use ureq::http::Method;

use super::samples::{Sample, buckets, quantile, samples, since, sum};
use crate::args::TopArgs;
use crate::import::api::Api;
use crate::output::{self, many, shown};

/// Running jobs and consumers of memory that are shown.
const JOBS_SHOWN: usize = 5;
const CONSUMERS_SHOWN: usize = 9;
/// Width of the bars, in characters.
const BAR: usize = 30;
/// What clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Answers that are searches, and writes of points; by the names of the endpoints.
const SEARCHES: [&str; 8] = [
    "/points/query",
    "/points/search",
    "/points/recommend",
    "/points/discover",
    "Points/Query",
    "Points/Search",
    "Points/Recommend",
    "Points/Discover",
];
const WRITES: [&str; 8] = [
    "Points/Upsert",
    "Points/Delete",
    "Points/Update",
    "Points/Set",
    "Points/Overwrite",
    "Points/Clear",
    "/points/batch",
    "/points/delete",
];

/// A look at the server.
struct Poll {
    at: Instant,
    memory: Value,
    samples: Vec<Sample>,
    jobs: Vec<Value>,
}

/// Asks and prints until it is ended, or once.
pub fn run(args: &TopArgs) -> Result<()> {
    let api = Api::new(&args.url, args.api_key.clone(), 1)?;
    api.check_reachable()?;
    let every = Duration::from_secs_f64(args.interval);
    let redraws = stdout().is_terminal() && !args.json && !args.once;
    let mut before = look(&api)?;
    loop {
        sleep(every);
        let now = look(&api)?;
        let picture = picture(&args.url, &now, &before);
        match args.json {
            true => output::line(format_args!("{picture}"))?,
            false => output::text(format_args!(
                "{}{}",
                if redraws { CLEAR } else { "" },
                told(&picture)
            ))?,
        }
        if args.once {
            return Ok(());
        }
        before = now;
    }
}

fn look(api: &Api) -> Result<Poll> {
    let at = Instant::now();
    let memory = api.ok(Method::GET, "/memory", &Value::Null)?;
    let reply = api.ask(Method::GET, "/metrics", b"")?;
    let text = std::str::from_utf8(reply.success()?).context("the server's metrics")?;
    let samples = samples(text);
    let running = samples
        .iter()
        .filter(|s| s.name == "collection_running_optimizations" && s.value > 0.0);
    let jobs = running.take(JOBS_SHOWN).filter_map(|s| job(api, s.label("id")));
    Ok(Poll {
        at,
        memory,
        jobs: jobs.collect(),
        samples,
    })
}

/// What is done to a collection at this moment; `None`: it is done by now.
fn job(api: &Api, collection: &str) -> Option<Value> {
    let path = format!("{}/optimizations", collection_path(collection));
    let answer = api.get(&path).ok()??;
    let running = &answer["running"][0];
    let step = &running["progress"]["children"][0];
    let queued = &answer["summary"]["queued_segments"];
    let is_any = running.is_object() || queued.as_u64().is_some_and(|n| n > 0);
    is_any.then(|| {
        json!({
            "collection": collection,
            "kind": running["optimizer"],
            "step": step["name"],
            "done": step["done"],
            "total": step["total"],
            "queued_segments": queued,
        })
    })
}

/// The figures, those a second of the time between two looks.
fn picture(url: &str, now: &Poll, before: &Poll) -> Value {
    let seconds = (now.at - before.at).as_secs_f64().max(1e-3);
    let gauge = |name: &str| sum(&now.samples, name, |_| true);
    let grew = |name: &str| (gauge(name) - sum(&before.samples, name, |_| true)).max(0.0);
    let answers = |of: &[&str]| {
        let takes = |s: &Sample| is_of(s, of);
        let count = |look: &Poll| {
            ["rest_responses_total", "grpc_responses_total"]
                .iter()
                .map(|name| sum(&look.samples, name, takes))
                .sum::<f64>()
        };
        (count(now) - count(before)).max(0.0)
    };
    let searches = grew("ramlet_searches_total");
    let reads = (searches > 0.0).then(|| grew("ramlet_search_reads_total") / searches);
    let [p50, p99] = [0.5, 0.99].map(|share| latency(now, before, share));
    let counts = |name: &str, label: &str| -> Vec<Value> {
        let some = now.samples.iter().filter(|s| s.name == name && s.value > 0.0);
        some.map(|s| json!({"name": s.label(label), "count": s.value}))
            .collect()
    };
    let version = now.samples.iter().find(|s| s.name == "ramlet_info");
    json!({
        "url": url,
        "version": version.map(|s| s.label("version")),
        "uptime_seconds": gauge("ramlet_uptime_seconds"),
        "memory": memory(&now.memory),
        "collections": gauge("collections_total") as u64,
        "points": gauge("collection_points") as u64,
        "searches_per_second": answers(&SEARCHES) / seconds,
        "search_p50_ms": p50.map(|s| s * 1e3),
        "search_p99_ms": p99.map(|s| s * 1e3),
        "reads_per_search": reads,
        "writes_per_second": (answers(&WRITES) + upserts(now) - upserts(before)) / seconds,
        "refusals_per_second": grew("ramlet_refusals_total") / seconds,
        "searches_waiting": gauge("ramlet_searches_waiting") as u64,
        "jobs": now.jobs,
        "issues": counts("ramlet_issues", "code"),
        "recall": now.samples.iter().filter(|s| s.name == "ramlet_recall_measured").map(|s| json!({
            "collection": s.label("collection"), "vector": s.label("vector"), "recall": s.value,
        })).collect::<Vec<_>>(),
    })
}

fn is_of(s: &Sample, endpoints: &[&str]) -> bool {
    endpoints.iter().any(|part| s.label("endpoint").contains(part))
}

/// Upserts by REST: their path is that of others, with another method.
fn upserts(look: &Poll) -> f64 {
    sum(&look.samples, "rest_responses_total", |s| {
        s.label("method") == "PUT" && s.label("endpoint").ends_with("/points")
    })
}

/// Of the searches between two looks; of all since the start where there was none.
fn latency(now: &Poll, before: &Poll, share: f64) -> Option<f64> {
    let of = |look: &Poll| {
        let name = |prefix: &str| format!("{prefix}_responses_duration_seconds_bucket");
        let [rest, grpc] =
            ["rest", "grpc"].map(|prefix| buckets(&look.samples, &name(prefix), |s| is_of(s, &SEARCHES)));
        match (rest.is_empty(), grpc.is_empty()) {
            (true, _) => grpc,
            (_, true) => rest,
            _ => rest.iter().zip(&grpc).map(|(a, b)| (a.0, a.1 + b.1)).collect(),
        }
    };
    let now = of(now);
    quantile(&since(&now, &of(before)), share).or_else(|| quantile(&now, share))
}

fn memory(memory: &Value) -> Value {
    let ledger = &memory["ledger"];
    let mut consumers: Vec<&Value> = ledger["consumers"].as_array().into_iter().flatten().collect();
    consumers.retain(|c| c["used_bytes"].as_u64().is_some_and(|n| n > 0));
    consumers.sort_by_key(|c| std::cmp::Reverse(c["used_bytes"].as_u64()));
    let consumers = consumers
        .iter()
        .map(|c| json!({"name": c["name"], "used_bytes": c["used_bytes"]}));
    json!({
        "budget_bytes": memory["budget"]["memory_bytes"],
        "reservable_bytes": ledger["limit_bytes"],
        "reserved_bytes": ledger["used_bytes"],
        "resident_bytes": memory["process"]["rss_bytes"],
        "consumers": consumers.collect::<Vec<_>>(),
    })
}

/// At most 80 columns.
fn told(picture: &Value) -> String {
    let number = |name: &str| picture[name].as_f64().unwrap_or(0.0);
    let memory = &picture["memory"];
    let bytes = |name: &str| memory[name].as_f64().unwrap_or(0.0);
    let mut out = format!(
        "ramlet {} at {}, up {}\n",
        shown(picture["version"].as_str().unwrap_or("?")),
        shown(picture["url"].as_str().unwrap_or("")),
        lasting(number("uptime_seconds"))
    );
    out.push_str(&format!(
        "{} given, {} resident; {} of {} reserved\n\n",
        megabytes(bytes("budget_bytes")),
        megabytes(bytes("resident_bytes")),
        megabytes(bytes("reserved_bytes")),
        megabytes(bytes("reservable_bytes"))
    ));
    for consumer in memory["consumers"]
        .as_array()
        .into_iter()
        .flatten()
        .take(CONSUMERS_SHOWN)
    {
        let used = consumer["used_bytes"].as_f64().unwrap_or(0.0);
        let share = used / bytes("reservable_bytes").max(1.0);
        let bar = "#".repeat((share * BAR as f64).round() as usize);
        let name = shown(consumer["name"].as_str().unwrap_or(""));
        out.push_str(&format!("  {name:<24}{:>10}  {bar}\n", megabytes(used)));
    }
    let or_dash = |name: &str, unit: &str| match picture[name].as_f64() {
        Some(figure) => format!("{figure:.2}{unit}"),
        None => "-".to_owned(),
    };
    out.push_str(&format!(
        "\n{:.1} searches/s, p50 {}, p99 {}, {} reads each, {:.0} waiting\n",
        number("searches_per_second"),
        or_dash("search_p50_ms", " ms"),
        or_dash("search_p99_ms", " ms"),
        or_dash("reads_per_search", ""),
        number("searches_waiting")
    ));
    out.push_str(&format!(
        "{:.1} writes/s, {:.1} refusals/s; {} in {}\n",
        number("writes_per_second"),
        number("refusals_per_second"),
        many(number("points") as u64, "point"),
        many(number("collections") as u64, "collection")
    ));
    for job in picture["jobs"].as_array().into_iter().flatten() {
        out.push_str(&job_told(job));
    }
    for issue in picture["issues"].as_array().into_iter().flatten() {
        let code = shown(issue["name"].as_str().unwrap_or(""));
        out.push_str(&format!("issue: {code}: see GET /issues\n"));
    }
    out
}

fn job_told(job: &Value) -> String {
    let name = shown(job["collection"].as_str().unwrap_or(""));
    let kind = job["kind"].as_str().unwrap_or("waits for its turn");
    let percent = match (job["done"].as_f64(), job["total"].as_f64()) {
        (Some(done), Some(total)) if total > 0.0 => format!(" {:.0} %", 100.0 * done / total),
        _ => String::new(),
    };
    let step = match job["step"].as_str() {
        Some(step) => format!(", {}{percent}", shown(step)),
        None => String::new(),
    };
    format!("job: {kind} of `{name}`{step}\n")
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

fn lasting(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(at: Instant, searches: u32, metrics: &str) -> Poll {
        let memory = json!({
            "budget": {"memory_bytes": 64_000_000},
            "ledger": {"limit_bytes": 48_000_000, "used_bytes": 16_000_000, "consumers": [
                {"name": "requests", "used_bytes": 0},
                {"name": "search slots", "used_bytes": 4_000_000},
                {"name": "cached data", "used_bytes": 12_000_000},
            ]},
            "process": {"rss_bytes": 30_000_000},
        });
        let endpoint = "endpoint=\"/collections/{name}/points/query\",method=\"POST\"";
        let text = format!(
            "rest_responses_total{{{endpoint}}} {searches}\nramlet_searches_total {searches}\nramlet_search_reads_total {}\n\
             rest_responses_duration_seconds_bucket{{{endpoint},le=\"0.001\"}} {searches}\n\
             rest_responses_duration_seconds_bucket{{{endpoint},le=\"+Inf\"}} {searches}\n{metrics}",
            searches * 3
        );
        Poll {
            at,
            memory,
            samples: samples(&text),
            jobs: vec![
                json!({"collection": "c", "kind": "merge", "step": "compare", "done": 45, "total": 100}),
            ],
        }
    }

    #[test]
    fn figures_are_of_the_time_between_two_looks() {
        let start = Instant::now();
        let before = seen(start, 100, "");
        let now = seen(
            start + Duration::from_secs(2),
            300,
            "ramlet_issues{code=\"SLOW_DISK\"} 1\nramlet_uptime_seconds 90\n",
        );
        let picture = picture("http://a", &now, &before);
        assert_eq!(picture["searches_per_second"], 100.0);
        assert_eq!(
            (&picture["reads_per_search"], &picture["search_p50_ms"]),
            (&json!(3.0), &json!(0.5))
        );
        let consumers = &picture["memory"]["consumers"];
        assert_eq!(
            (&consumers[0]["name"], consumers.as_array().map(Vec::len)),
            (&json!("cached data"), Some(2))
        );
        let told = told(&picture);
        for line in [
            "64.0 MB given, 30.0 MB resident; 16.0 MB of 48.0 MB reserved\n",
            "  cached data                12.0 MB  ########\n",
            "100.0 searches/s, p50 0.50 ms, p99 0.99 ms, 3.00 reads each, 0 waiting\n",
            "job: merge of `c`, compare 45 %\n",
            "issue: SLOW_DISK: see GET /issues\n",
        ] {
            assert!(told.contains(line), "{line}\n{told}");
        }
        assert!(told.lines().all(|line| line.len() <= 80), "{told}");
    }
}
