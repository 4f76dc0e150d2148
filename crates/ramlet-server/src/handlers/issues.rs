//! `/issues`: what needs somebody's hand.

use serde_json::{Value, json};

use crate::answers::answer::Answer;
use crate::error::ApiError;
use crate::error::ApiResult;
use crate::observability::issue::Issue;
use crate::observability::issues::find;
use crate::request::call::Call;
use crate::threads::pool::spawn_blocking;

/// `GET /issues`: collections that are closed, whose writes have stopped, whose background work fails, whose files are damaged, or whose vectors have no index; fields that filters ask about
/// without an index; a budget that is small for the data; a slow disk. Each until it is over.
pub async fn list(call: Call) -> ApiResult<Answer> {
    let (app, names) = (call.app.clone(), call.collection_names());
    // What all share isn't told to a key of some collections.
    let all = names.len() == app.engine.collection_names().len();
    let found = spawn_blocking(move || find(&app, &names)).await;
    let found = found.map_err(ApiError::internal)?;
    let told = found.iter().filter(|issue| all || issue.collection.is_some());
    let issues: Vec<Value> = told.map(Issue::json).collect();
    call.answer(&json!({ "issues": issues }))
}

/// `DELETE /issues`: what searches have met is forgotten; what still is so shows again.
pub async fn clear(call: Call) -> ApiResult<Answer> {
    call.app.unindexed.clear();
    call.app.damage.clear();
    call.app.read_waits.clear();
    call.answer(&true)
}
