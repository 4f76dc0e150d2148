//! Changes of points.

use std::collections::VecDeque;
use std::sync::Arc;

use ramlet::{Collection, ShardSelection, UpdateChain, UpdateOp};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::request::call::Call;
use crate::request::execute::{Queued, Updated};
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

/// `POST /points/batch`: all are checked first, then done in their order; a failure stops there.
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
    let mut line = Line::new(&call, n);
    for Change { op, shards } in changes {
        if let Err(refused) = line.put(&collection, &shards, op).await {
            // Those before it come first: one of them may have failed.
            line.finish().await?;
            return Err(refused);
        }
    }
    line.finish().await?;
    call.answer(&line.answers)
}

/// Operations of one batch on their way: those that are queued together share a sync of the log.
struct Line<'a> {
    call: &'a Call,
    chain: UpdateChain,
    /// Of those in the queue.
    shards: ShardSelection,
    queued: VecDeque<(Queued, u64)>,
    queued_bytes: u64,
    answers: Vec<UpdateAnswer>,
}

impl<'a> Line<'a> {
    fn new(call: &'a Call, operations: usize) -> Line<'a> {
        Line {
            call,
            chain: UpdateChain::default(),
            shards: ShardSelection::All,
            queued: VecDeque::new(),
            queued_bytes: 0,
            answers: Vec::with_capacity(operations),
        }
    }

    /// Queues an operation behind the others. An error: it is refused, or one before it failed.
    async fn put(&mut self, whole: &Arc<Collection>, shards: &ShardSelection, op: UpdateOp) -> ApiResult<()> {
        let collection = whole.within(shards)?;
        if *shards != self.shards || !collection.has_one_line() || self.call.looks_before(&collection, &op) {
            self.finish().await?;
            self.shards = shards.clone();
        }
        if !collection.has_one_line() {
            let updated = self.call.submit(&collection, op).await?;
            self.answers.push(told(self.call, updated));
            return Ok(());
        }
        self.call.admit(&collection, &op).await?;
        let bytes = op.bytes();
        while self.queued.len() >= limits::OPERATIONS_QUEUED
            || (!self.queued.is_empty() && self.queued_bytes + bytes > limits::OPERATIONS_QUEUED_BYTES)
        {
            self.take_oldest().await?;
        }
        let queued = match self.submit(&collection, &op) {
            // Alone it may have the place, or the memory, that those before it hold.
            Err(_) if !self.queued.is_empty() => {
                self.finish().await?;
                self.submit(&collection, &op)?
            }
            queued => queued?,
        };
        self.queued.push_back((queued, bytes));
        self.queued_bytes += bytes;
        Ok(())
    }

    fn submit(&self, collection: &Arc<Collection>, op: &UpdateOp) -> ApiResult<Queued> {
        let (done, queued) = self.call.completion(collection, op);
        collection.submit_behind(&self.chain, op, done)?;
        Ok(queued)
    }

    /// Waits until all are done. An error: one failed, and those behind it changed nothing.
    async fn finish(&mut self) -> ApiResult<()> {
        while !self.queued.is_empty() {
            self.take_oldest().await?;
        }
        Ok(())
    }

    async fn take_oldest(&mut self) -> ApiResult<()> {
        if let Some((queued, bytes)) = self.queued.pop_front() {
            self.queued_bytes -= bytes;
            match self.call.updated(queued).await {
                Ok(updated) => self.answers.push(told(self.call, updated)),
                Err(failed) => {
                    // Those behind it have nothing else to tell, and give back what they hold.
                    for (refused, _) in self.queued.drain(..) {
                        let _ = refused.ended().await;
                    }
                    return Err(failed);
                }
            }
        }
        Ok(())
    }
}
