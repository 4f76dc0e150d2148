//! `/issues`: what needs somebody's hand.

use ramlet::ErrorKind;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::error::ApiResult;

/// `GET /issues`: collections that are closed, whose writes have stopped, or whose background work fails, each until it works again.
pub async fn list(call: Call) -> ApiResult<Answer> {
    let engine = &call.app.engine;
    let of = |name: String| {
        let (code, description) = match engine.collection(&name) {
            Ok(collection) => {
                let error = collection.info().optimizer_error?;
                match collection.has_stopped() {
                    true => ("WRITES_STOPPED", format!("Collection '{name}': {error}")),
                    false => (
                        "OPTIMIZER_ERROR",
                        format!("Background work of collection '{name}' fails: {error}"),
                    ),
                }
            }
            Err(e) if e.kind() == ErrorKind::CollectionClosed => ("COLLECTION_CLOSED", e.to_string()),
            // Deleted meanwhile.
            Err(_) => return None,
        };
        Some(json!({
            "code": code, "instance_id": name, "related_collection": name,
            "description": description, "solution": "none",
        }))
    };
    let issues: Vec<Value> = call.collection_names().into_iter().filter_map(of).collect();
    call.answer(&json!({ "issues": issues }))
}

/// `DELETE /issues`: nothing is kept; what still fails shows again.
pub async fn clear(call: Call) -> ApiResult<Answer> {
    call.answer(&true)
}
