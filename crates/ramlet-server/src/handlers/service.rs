//! The server about itself: version, health, metrics, memory.

use std::fmt::Write;

use axum::http::StatusCode;
use ramlet::MeasuredRecall;
use ramlet::filter::format_datetime;
use ramlet_io::system::{cgroup_memory_limit, cgroup_memory_usage, process_memory};
use ramlet_memory::RowKind;
use serde_json::{Value, json};

use crate::app::App;
use crate::call::Call;
use crate::dispatch::Answer;
use crate::error::ApiResult;

/// The version of the API that is spoken: clients compare it with their own.
pub const API_VERSION: &str = "1.20.0";
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// `GET /`: not in the envelope.
pub async fn version(_: Call) -> ApiResult<Answer> {
    let body = json!({
        "title": "ramlet - qdrant-compatible vector search engine",
        "version": API_VERSION,
        "commit": "",
        "ramlet": OWN_VERSION,
    });
    Ok(Answer::Plain {
        status: StatusCode::OK,
        content_type: "application/json",
        body: body.to_string(),
    })
}

pub async fn healthz(_: Call) -> ApiResult<Answer> {
    Ok(Answer::text("healthz check passed"))
}

pub async fn livez(_: Call) -> ApiResult<Answer> {
    Ok(Answer::text("livez check passed"))
}

/// Not ready when writes have stopped: a restart is needed.
pub async fn readyz(call: Call) -> ApiResult<Answer> {
    if call.app.engine.writable() {
        return Ok(Answer::text("all shards are ready"));
    }
    let body = "writes have stopped after a failed write to disk; reads go on; restart the server".to_owned();
    Ok(Answer::Plain {
        status: StatusCode::SERVICE_UNAVAILABLE,
        content_type: "text/plain; charset=utf-8",
        body,
    })
}

/// `GET /cluster`: a single node.
pub async fn cluster(call: Call) -> ApiResult<Answer> {
    call.answer(&json!({ "status": "disabled" }))
}

/// `GET /issues`: none are collected.
pub async fn issues(call: Call) -> ApiResult<Answer> {
    call.answer(&json!({ "issues": [] }))
}

pub async fn clear_issues(call: Call) -> ApiResult<Answer> {
    call.answer(&true)
}

/// `GET /telemetry`: what the API's model asks for, and the counts of requests.
pub async fn telemetry(call: Call) -> ApiResult<Answer> {
    let app = &call.app;
    let started = format_datetime(app.started_at);
    call.answer(&json!({
        "id": format!("{:016x}", app.started_at),
        "app": { "name": "ramlet", "version": API_VERSION, "startup": started },
        "collections": { "number_of_collections": app.engine.collection_names().len() },
        "cluster": { "enabled": false },
        "ramlet": { "version": OWN_VERSION, "uptime_seconds": app.started.elapsed().as_secs() },
    }))
}

/// `GET /memory`: the budget, who holds what of it, and what the kernel and the allocator say.
pub async fn memory(call: Call) -> ApiResult<Answer> {
    call.answer(&memory_json(&call.app))
}

fn memory_json(app: &App) -> Value {
    let ledger = app.engine.ledger();
    let consumers: Vec<Value> = ledger
        .report()
        .iter()
        .map(|c| {
            json!({
                "name": c.name, "used_bytes": c.used, "peak_bytes": c.peak, "cap_bytes": c.cap, "refused": c.refused,
            })
        })
        .collect();
    let table = app.engine.budget();
    let rows: Vec<Value> = table
        .rows()
        .iter()
        .map(|row| json!({ "name": row.name, "bytes": row.bytes, "kind": kind_name(row.kind) }))
        .collect();
    json!({
        "budget": {
            "memory_bytes": table.memory_bytes, "search_threads": table.search_threads, "rows": rows,
        },
        "ledger": {
            "limit_bytes": ledger.limit(), "used_bytes": ledger.used(), "peak_bytes": ledger.peak(),
            "consumers": consumers,
        },
        "process": process_json(),
        "block_cache": cache_json(app),
        "allocator": app.allocator.map(|stats| stats()),
        "storage": app.engine.storage().backend(),
    })
}

/// What the kernel says, to hold beside the ledger.
fn process_json() -> Value {
    let process = process_memory();
    json!({
        "rss_bytes": process.rss, "rss_peak_bytes": process.rss_peak, "anon_bytes": process.anon,
        "file_bytes": process.file, "cgroup_limit_bytes": cgroup_memory_limit(),
        "cgroup_used_bytes": cgroup_memory_usage(),
    })
}

fn cache_json(app: &App) -> Value {
    let cache = app.engine.cache().stats();
    json!({
        "hits": cache.hits, "misses": cache.misses, "pages": cache.pages, "pages_max": cache.pages_max,
        "used_bytes": cache.bytes,
    })
}

fn kind_name(kind: RowKind) -> String {
    format!("{kind:?}").to_lowercase()
}

/// `GET /metrics`, in Prometheus' text form. Names as the API's where it has the figure.
pub async fn metrics(call: Call) -> ApiResult<Answer> {
    Ok(Answer::text(metrics_text(&call.app)))
}

fn metrics_text(app: &App) -> String {
    let mut out = String::new();
    let ledger = app.engine.ledger();
    head(&mut out, "app_info", "gauge", "Name and version of the server");
    let _ = writeln!(
        out,
        "app_info{{name=\"ramlet\",version=\"{OWN_VERSION}\",api_version=\"{API_VERSION}\"}} 1"
    );
    head(&mut out, "collections_total", "gauge", "Number of collections");
    let _ = writeln!(out, "collections_total {}", app.engine.collection_names().len());
    head(
        &mut out,
        "ramlet_writable",
        "gauge",
        "1 while writes are accepted",
    );
    let _ = writeln!(out, "ramlet_writable {}", u8::from(app.engine.writable()));
    head(
        &mut out,
        "ramlet_ledger_limit_bytes",
        "gauge",
        "Memory that reservations may hold",
    );
    let _ = writeln!(out, "ramlet_ledger_limit_bytes {}", ledger.limit());
    let report = ledger.report();
    head(
        &mut out,
        "ramlet_ledger_used_bytes",
        "gauge",
        "Memory reserved now, by consumer",
    );
    for c in &report {
        let _ = writeln!(
            out,
            "ramlet_ledger_used_bytes{{consumer=\"{}\"}} {}",
            c.name, c.used
        );
    }
    head(
        &mut out,
        "ramlet_ledger_refused_total",
        "counter",
        "Reservations refused, by consumer",
    );
    for c in &report {
        let _ = writeln!(
            out,
            "ramlet_ledger_refused_total{{consumer=\"{}\"}} {}",
            c.name, c.refused
        );
    }
    let process = process_memory();
    head(
        &mut out,
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory of the process",
    );
    let _ = writeln!(out, "process_resident_memory_bytes {}", process.rss);
    head(
        &mut out,
        "process_resident_memory_peak_bytes",
        "gauge",
        "The most that was ever resident",
    );
    let _ = writeln!(out, "process_resident_memory_peak_bytes {}", process.rss_peak);
    let cache = app.engine.cache().stats();
    head(
        &mut out,
        "ramlet_block_cache_hits_total",
        "counter",
        "Reads that the block cache answered",
    );
    let _ = writeln!(out, "ramlet_block_cache_hits_total {}", cache.hits);
    head(
        &mut out,
        "ramlet_block_cache_misses_total",
        "counter",
        "Reads that went to disk",
    );
    let _ = writeln!(out, "ramlet_block_cache_misses_total {}", cache.misses);
    if let Some(stats) = app.allocator {
        allocator_text(&mut out, stats());
    }
    recall_text(&mut out, app);
    requests_text(&mut out, app);
    out
}

/// Recall of real queries, where some were measured.
fn recall_text(out: &mut String, app: &App) {
    let mut measured = Vec::new();
    for name in app.engine.collection_names() {
        if let Ok(collection) = app.engine.collection(&name) {
            let of = |m| (format!("collection=\"{}\"", escaped(&name)), m);
            measured.extend(collection.measured_recall().into_iter().map(of));
        }
    }
    if measured.is_empty() {
        return;
    }
    for (series, kind, help, value) in RECALL_SERIES {
        head(out, series, kind, help);
        for (collection, m) in &measured {
            let _ = writeln!(
                out,
                "{series}{{{collection},vector=\"{}\"}} {}",
                escaped(&m.vector),
                value(m)
            );
        }
    }
}

type RecallSeries = (
    &'static str,
    &'static str,
    &'static str,
    fn(&MeasuredRecall) -> f64,
);

const RECALL_SERIES: [RecallSeries; 3] = [
    (
        "ramlet_recall_measured",
        "gauge",
        "Mean recall of real queries, measured on a sample of them",
        |m| m.recall,
    ),
    (
        "ramlet_recall_measured_error",
        "gauge",
        "Standard error of that mean",
        |m| m.error,
    ),
    (
        "ramlet_recall_queries_total",
        "counter",
        "Queries whose recall was measured",
        |m| m.queries as f64,
    ),
];

/// A label's value, as the text format wants it.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn allocator_text(out: &mut String, stats: crate::AllocatorStats) {
    for (name, bytes) in [
        ("memory_allocated_bytes", stats.allocated),
        ("memory_active_bytes", stats.active),
        ("memory_resident_bytes", stats.resident),
        ("memory_retained_bytes", stats.retained),
        ("memory_metadata_bytes", stats.metadata),
    ] {
        head(out, name, "gauge", "As the allocator counts");
        let _ = writeln!(out, "{name} {bytes}");
    }
}

fn requests_text(out: &mut String, app: &App) {
    let rows = app.stats.rows();
    head(
        out,
        "rest_responses_total",
        "counter",
        "Answers by method, endpoint and status",
    );
    for (method, path, status, count) in &rows {
        let n = count.requests;
        let _ = writeln!(
            out,
            "rest_responses_total{{method=\"{method}\",endpoint=\"{path}\",status=\"{status}\"}} {n}"
        );
    }
    head(
        out,
        "rest_responses_seconds_total",
        "counter",
        "Time spent on them",
    );
    for (method, path, status, count) in &rows {
        let seconds = count.total.as_secs_f64();
        let _ = writeln!(
            out,
            "rest_responses_seconds_total{{method=\"{method}\",endpoint=\"{path}\",status=\"{status}\"}} {seconds}"
        );
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
