//! Changes of points.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::Answer;
use crate::call::Call;
use crate::error::{ApiError, ApiResult};
use crate::execute::Updated;
use crate::limits;
use crate::wire::points::{Change, WireUpsert};
use crate::wire::selectors::WirePoints;
use crate::wire::updates::{
    WireDeletePayload, WireDeleteVectors, WireOperation, WireOperations, WireSetPayload, WireUpdateVectors,
};

#[derive(Serialize)]
struct UpdateAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    operation_id: Option<u64>,
    status: &'static str,
}

/// `PUT /points`.
pub async fn upsert(call: Call) -> ApiResult<Answer> {
    change(call, WireUpsert::into_change).await
}
/// `POST /points/delete`.
pub async fn delete(call: Call) -> ApiResult<Answer> {
    change(call, WirePoints::into_delete).await
}
/// `POST /points/payload`.
pub async fn set_payload(call: Call) -> ApiResult<Answer> {
    change(call, WireSetPayload::into_set).await
}
/// `PUT /points/payload`.
pub async fn overwrite_payload(call: Call) -> ApiResult<Answer> {
    change(call, WireSetPayload::into_overwrite).await
}
/// `POST /points/payload/delete`.
pub async fn delete_payload(call: Call) -> ApiResult<Answer> {
    change(call, WireDeletePayload::into_change).await
}
/// `POST /points/payload/clear`.
pub async fn clear_payload(call: Call) -> ApiResult<Answer> {
    change(call, WirePoints::into_clear).await
}
/// `PUT /points/vectors`.
pub async fn update_vectors(call: Call) -> ApiResult<Answer> {
    change(call, WireUpdateVectors::into_change).await
}
/// `POST /points/vectors/delete`.
pub async fn delete_vectors(call: Call) -> ApiResult<Answer> {
    change(call, WireDeleteVectors::into_change).await
}

/// Parses, turns into the engine's operation, submits, answers.
async fn change<T>(mut call: Call, into_change: fn(T) -> ApiResult<Change>) -> ApiResult<Answer>
where
    T: DeserializeOwned + Send + 'static,
{
    let collection = call.collection().await?;
    let Change { op, shards } = into_change(call.parse().await?)?;
    let updated = call.submit(&collection.within(&shards)?, op).await?;
    call.answer(&told(&call, updated))
}

fn told(call: &Call, updated: Updated) -> UpdateAnswer {
    match updated {
        Updated::Done { operation_id } => UpdateAnswer {
            operation_id: Some(operation_id),
            status: call.request.query.finished(),
        },
        Updated::TimedOut => UpdateAnswer {
            operation_id: None,
            status: "wait_timeout",
        },
    }
}

/// `POST /points/batch`: all are checked first, then done one after the other; a failure stops there.
pub async fn batch(mut call: Call) -> ApiResult<Answer> {
    let collection = call.collection().await?;
    let wire: WireOperations = call.parse().await?;
    let n = wire.operations.len();
    if n > limits::OPERATIONS_MAX {
        let what = format!("has {n} elements, at most {} are taken", limits::OPERATIONS_MAX);
        return Err(ApiError::validation("operations", what));
    }
    let changes = wire
        .operations
        .into_iter()
        .map(WireOperation::into_change)
        .collect::<ApiResult<Vec<_>>>()?;
    let mut answers = Vec::with_capacity(n);
    for Change { op, shards } in changes {
        let updated = call.submit(&collection.within(&shards)?, op).await?;
        answers.push(told(&call, updated));
    }
    call.answer(&answers)
}
