//! `GET /profiler/slow_requests`: what took long, and why.

use serde_json::json;

use crate::answers::answer::Answer;
use crate::error::ApiResult;
use crate::request::call::Call;

/// As the API answers without `limit`.
const LIMIT: usize = 10;

/// Requests, slowest first; beside them, of our own, background jobs that are over, what syncs of the log took, and refusals.
pub async fn slow_requests(call: Call) -> ApiResult<Answer> {
    let query = &call.request.query;
    let limit = query
        .number("limit")?
        .map_or(LIMIT, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let requests = call.app.slow.told(limit, query.get("request"));
    let watch = call.app.engine.watch();
    let now = crate::observability::steps::clock();
    let names = call.app.engine.names_by_id();
    let mut jobs = watch.jobs();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.took_ns));
    let jobs = jobs.iter().take(limit).map(|job| {
        json!({
            "kind": job.kind,
            "collection_name": names.get(&job.collection),
            "duration": job.took_ns as f64 / 1e9,
            "ended_seconds_ago": now.saturating_sub(job.ended_ns) as f64 / 1e9,
            "failed": job.failed,
        })
    });
    let syncs = watch.syncs();
    call.answer(&json!({
        "requests": requests,
        "threshold_seconds": call.app.slow.threshold().map(|t| t.as_secs_f64()),
        "jobs": jobs.collect::<Vec<_>>(),
        "refusals": call.app.refusals.told(),
        "log_syncs": {
            "count": syncs.count,
            "mean_us": syncs.total_ns.checked_div(syncs.count).unwrap_or(0) / 1_000,
            "longest_us": syncs.longest_ns / 1_000,
        },
    }))
}
