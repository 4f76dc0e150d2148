//! `GET /collections/{collection}/optimizations`: what the background will do to the segments.

use ramlet::Collection;
use serde_json::{Value, json};

use crate::call::Call;
use crate::dispatch::Answer;
use crate::error::ApiResult;
use crate::wire::info::segment_uuid;

/// Parts that are told only when `with` names them. Jobs are done one at a time for all collections, and what was done
/// isn't kept: so nothing is ever listed as running or completed, a job under way is still the first of the queue.
pub async fn list(call: Call) -> ApiResult<Answer> {
    let collection = call.collection()?;
    let with = call.query.get("with").unwrap_or("").to_owned();
    let wants = |part: &str| with.split(',').any(|word| word.trim() == part);
    let (planned, idle) = collection.planned_jobs();
    let points: u64 = planned.iter().map(|(_, points)| points).sum();
    let mut out = json!({
        "summary": {
            "queued_optimizations": u64::from(!planned.is_empty()), "queued_segments": planned.len(),
            "queued_points": points, "idle_segments": idle.len(),
        },
        "running": [],
    });
    if wants("queued") {
        let job = json!([{ "optimizer": "merge", "segments": segments(&collection, &planned) }]);
        out["queued"] = if planned.is_empty() { json!([]) } else { job };
    }
    if wants("completed") {
        out["completed"] = json!([]);
    }
    if wants("idle_segments") {
        out["idle_segments"] = segments(&collection, &idle);
    }
    call.answer(&out)
}

fn segments(collection: &Collection, all: &[(u64, u64)]) -> Value {
    let shown = |(number, points): &(u64, u64)| json!({ "uuid": segment_uuid(collection.id(), *number), "points_count": points });
    all.iter().map(shown).collect()
}
