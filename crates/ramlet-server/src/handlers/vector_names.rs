//! Named vectors that come to a collection and go from it.

use serde_json::json;

use crate::answers::answer::Answer;
use crate::error::ApiResult;
use crate::request::call::Call;
use crate::wire::name_rules::check_vector_name;
use crate::wire::vector_names::WireNewVector;

/// `PUT /collections/{collection}/vectors/{vector}`.
pub async fn create(mut call: Call) -> ApiResult<Answer> {
    let name = call.request.param("vector").to_owned();
    check_vector_name(&name)?;
    let wire: WireNewVector = call.parse().await?;
    let new = wire.into_new()?;
    let collection = call.collection().await?;
    let done = call
        .block(&call.app.managing, move |_| {
            Ok(collection.create_vector_name(&name, &new)?)
        })
        .await?;
    call.answer(&json!({ "operation_id": done.operation_id, "status": call.request.query.finished() }))
}

/// `DELETE /collections/{collection}/vectors/{vector}`: no-op when there is none.
pub async fn delete(call: Call) -> ApiResult<Answer> {
    let name = call.request.param("vector").to_owned();
    let collection = call.collection().await?;
    let done = call
        .block(&call.app.managing, move |_| {
            Ok(collection.delete_vector_name(&name)?)
        })
        .await?;
    call.answer(&json!({ "operation_id": done.operation_id, "status": call.request.query.finished() }))
}
