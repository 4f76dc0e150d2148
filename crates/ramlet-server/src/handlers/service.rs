//! The server about itself: version, health, metrics, memory.

use axum::http::StatusCode;
use ramlet_io::system::{cgroup_memory_limit, cgroup_memory_usage, process_memory};
use ramlet_memory::RowKind;
use serde_json::{Value, json};

use crate::answers::answer::Answer;
use crate::app::App;
use crate::error::ApiResult;
use crate::request::call::Call;

/// The version of the API that is spoken: clients compare it with their own.
pub const API_VERSION: &str = "1.20.0";
pub const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that was built, if the build says it in RAMLET_COMMIT; clients' suites expect 40 digits.
const COMMIT: &str = match option_env!("RAMLET_COMMIT") {
    Some(commit) => commit,
    None => "0000000000000000000000000000000000000000",
};

/// `GET /`: not in the envelope. Word for word the API's: clients and their suites compare all of it. Ramlet's own version is in `/memory` and `/metrics`.
pub async fn version(_: Call) -> ApiResult<Answer> {
    let body = json!({
        "title": "qdrant - vector search engine",
        "version": API_VERSION,
        "commit": COMMIT,
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
    Ok(Answer::text("healthz check passed"))
}

/// Not ready when writes have stopped: a restart is needed.
pub async fn readyz(call: Call) -> ApiResult<Answer> {
    let fault = call.app.node.as_ref().and_then(|node| node.log.status().fault);
    if let Some(why) = fault {
        return Ok(Answer::Plain {
            status: StatusCode::SERVICE_UNAVAILABLE,
            content_type: "text/plain; charset=utf-8",
            body: why,
        });
    }
    if call.app.engine.writable() {
        return Ok(Answer::text("all shards are ready"));
    }
    let body =
        "writes have stopped after a failed write to disk; reads continue; restart the server".to_owned();
    Ok(Answer::Plain {
        status: StatusCode::SERVICE_UNAVAILABLE,
        content_type: "text/plain; charset=utf-8",
        body,
    })
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
        "version": OWN_VERSION,
        "budget": {
            "memory_bytes": table.memory_bytes, "search_threads": table.search_threads, "rows": rows,
        },
        "ledger": {
            "limit_bytes": ledger.limit(), "used_bytes": ledger.used(), "peak_bytes": ledger.peak(),
            "consumers": consumers,
        },
        "process": process_json(),
        "block_cache": cache_json(app),
        "record_cache": records_json(app),
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

fn records_json(app: &App) -> Value {
    let records = app.engine.records();
    json!({ "hits": records.hits, "misses": records.misses, "used_bytes": records.bytes })
}

fn kind_name(kind: RowKind) -> String {
    format!("{kind:?}").to_lowercase()
}
