//! Payload indexes of a collection.

use serde_json::json;

use crate::answers::answer::Answer;
use crate::error::ApiResult;
use crate::request::call::Call;
use crate::wire::index::WireCreateIndex;

/// `PUT /collections/{collection}/index`: answers when the index is built.
pub async fn create(mut call: Call) -> ApiResult<Answer> {
    let wire: WireCreateIndex = call.parse().await?;
    let (field, index) = wire.into_index()?;
    let collection = call.collection().await?;
    if let Some(strict) = call.strict(&collection) {
        strict.new_index()?;
    }
    let done = call
        .block(&call.app.building, move |_| {
            Ok(collection.create_payload_index(&field, index)?)
        })
        .await?;
    call.answer(&json!({ "operation_id": done.operation_id, "status": call.request.query.finished() }))
}

/// `DELETE /collections/{collection}/index/{field}`.
pub async fn delete(call: Call) -> ApiResult<Answer> {
    let field = call.request.param("field").to_owned();
    let collection = call.collection().await?;
    let done = call
        .block(&call.app.building, move |_| {
            Ok(collection.delete_payload_index(&field)?)
        })
        .await?;
    call.answer(&json!({ "operation_id": done.operation_id, "status": call.request.query.finished() }))
}
