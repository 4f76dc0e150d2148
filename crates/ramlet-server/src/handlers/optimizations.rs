//! `GET /collections/{collection}/optimizations`: what the background does and will do to the segments.

use ramlet::{Collection, JobKind, JobStep, JobUnderWay};
use serde_json::{Value, json};

use crate::answers::answer::Answer;
use crate::error::ApiResult;
use crate::request::call::Call;
use crate::wire::info::segment_uuid;

/// Parts that are told only when `with` names them. Jobs are done one at a time for all collections. What was done isn't kept: nothing is ever listed as
/// completed; nor is when it began (the engine reads no clock).
pub async fn list(call: Call) -> ApiResult<Answer> {
    let collection = call.collection().await?;
    let with = call.request.query.get("with").unwrap_or("").to_owned();
    let wants = |part: &str| with.split(',').any(|word| word.trim() == part);
    let (planned, idle) = collection.planned_jobs();
    let points: u64 = planned.iter().map(|(_, points)| points).sum();
    let mut out = json!({
        "summary": {
            "queued_optimizations": u64::from(!planned.is_empty()), "queued_segments": planned.len(),
            "queued_points": points, "idle_segments": idle.len(),
        },
        "running": collection.job_under_way().iter().map(|job| running(&collection, job)).collect::<Vec<_>>(),
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

fn running(collection: &Collection, job: &JobUnderWay) -> Value {
    let optimizer = match job.kind {
        JobKind::Merge => "merge",
        JobKind::Index => "indexing",
        JobKind::Rewrite => "vacuum",
    };
    json!({
        "uuid": segment_uuid(collection.id(), job.segment), "optimizer": optimizer, "status": "optimizing",
        "segments": segments(collection, &job.sources),
        "progress": {
            "name": "Segment Optimizing",
            "children": job.step().iter().map(step).collect::<Vec<_>>(),
        },
    })
}

fn step(step: &JobStep) -> Value {
    let name = match step.vector.as_str() {
        "" => step.name.to_owned(),
        vector => format!("{vector}: {}", step.name),
    };
    json!({ "name": name, "done": step.done, "total": step.total })
}

fn segments(collection: &Collection, all: &[(u64, u64)]) -> Value {
    let shown = |(number, points): &(u64, u64)| json!({ "uuid": segment_uuid(collection.id(), *number), "points_count": points });
    all.iter().map(shown).collect()
}
