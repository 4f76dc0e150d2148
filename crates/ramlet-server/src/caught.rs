//! A bug in answering one request fails that request: its connection, and the others on it, go on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use crate::error::{ApiError, ApiResult};

/// What `work` answers; a panic in it is an internal error. Its message and place are in the log: the panic hook's.
pub async fn caught<T>(work: impl Future<Output = ApiResult<T>>) -> ApiResult<T> {
    let mut work = pin!(work);
    std::future::poll_fn(|cx| {
        // What the future holds is dropped and never seen again; what it shares lies under locks that are poisoned by a panic.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        polled.unwrap_or_else(|_| {
            let sentence = "a bug was met while this was answered; the server's log tells where";
            Poll::Ready(Err(ApiError::internal(sentence)))
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_internal_error() {
        let at_once = caught::<()>(async { panic!("at once") }).await;
        let later = caught::<()>(async {
            tokio::task::yield_now().await;
            panic!("after a pause")
        });
        for failed in [at_once, later.await] {
            assert_eq!(failed.unwrap_err().status.as_u16(), 500);
        }
        assert_eq!(caught(async { Ok(3) }).await.unwrap(), 3);
    }
}
