//! `/issues`: what needs somebody's hand.

use serde_json::{Value, json};

use crate::call::Call;
use crate::dispatch::Answer;
use crate::error::ApiResult;

/// `GET /issues`: collections whose background work fails, each until it works again.
pub async fn list(call: Call) -> ApiResult<Answer> {
    let engine = &call.app.engine;
    let of = |name: String| {
        let error = engine.collection_info(&name).ok()?.optimizer_error?;
        Some(json!({
            "code": "OPTIMIZER_ERROR", "instance_id": name, "related_collection": name,
            "description": format!("Background work of collection '{name}' fails: {error}"),
            "solution": "none",
        }))
    };
    let issues: Vec<Value> = call.collection_names().into_iter().filter_map(of).collect();
    call.answer(&json!({ "issues": issues }))
}

/// `DELETE /issues`: nothing is kept; what still fails shows again.
pub async fn clear(call: Call) -> ApiResult<Answer> {
    call.answer(&true)
}
