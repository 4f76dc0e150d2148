//! `GET /plan`: what more memory would bring to what is stored.

use serde_json::json;

use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};
use crate::observability::staircase;
use crate::request::call::Call;
use crate::threads::pool::spawn_blocking;

/// All collections that the key opens together.
pub async fn stored(call: Call) -> ApiResult<Answer> {
    let (app, names) = (call.app.clone(), call.collection_names());
    let of = app.clone();
    let stairs = spawn_blocking(move || staircase::of_stored(&of, &names)).await;
    let mut told = stairs.map_err(ApiError::internal)?.json();
    told["machine_measured"] = json!(app.machine.get().is_some());
    call.answer(&told)
}
