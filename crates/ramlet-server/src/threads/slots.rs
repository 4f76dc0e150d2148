//! The engine's search slots: a bounded number of threads that read.

use std::time::Instant;

use axum::http::StatusCode;
use ramlet::{Engine, Scratch, SlotJob};
use tokio::sync::oneshot;

use super::inline::Turn;
use crate::error::{ApiError, ApiResult};

/// Runs `job` on a search slot and waits for its result. A job whose client is gone isn't started.
pub async fn on_slot<T, F>(engine: &Engine, deadline: Instant, job: F) -> ApiResult<T>
where
    T: Send + 'static,
    F: FnOnce(&mut Scratch) -> ApiResult<T> + Send + 'static,
{
    on_slot_or_here(engine, deadline, false, job).await
}

/// The same; a `quick` job may run on this thread's own slot.
pub async fn on_slot_or_here<T, F>(engine: &Engine, deadline: Instant, quick: bool, job: F) -> ApiResult<T>
where
    T: Send + 'static,
    F: FnOnce(&mut Scratch) -> ApiResult<T> + Send + 'static,
{
    if quick && let Some(turn) = Turn::take() {
        // It comes before this thread sleeps: whoever looked at the clock meanwhile would be this thread.
        turn.comes().await;
        return turn.run(job).unwrap_or_else(|| Err(no_answer()));
    }
    let (tx, rx) = oneshot::channel();
    let job: SlotJob = Box::new(move |scratch| {
        if !tx.is_closed() {
            let _ = tx.send(job(scratch));
        }
    });
    engine.run(job)?;
    match tokio::time::timeout_at(deadline.into(), rx).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(no_answer()),
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "Timeout: the operation took longer than allowed",
        )),
    }
}

fn no_answer() -> ApiError {
    ApiError::internal("the search thread gave no answer")
}
