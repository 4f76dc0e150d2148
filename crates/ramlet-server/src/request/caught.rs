//! A panic during a request fails only that request: its connection, and the others on it, continue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

use crate::error::{ApiError, ApiResult};

/// What `work` answers; a panic in it is an internal error. Its message and place are in the log: the panic hook's.
///
/// Pinned by the caller: taken by value, a call's future would stand twice in the future around it, and be copied.
pub async fn caught<T>(mut work: Pin<&mut impl Future<Output = ApiResult<T>>>) -> ApiResult<T> {
    std::future::poll_fn(|cx| {
        // What the future holds is dropped and never seen again; what it shares lies under locks that are poisoned by a panic.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        polled.unwrap_or_else(|_| {
            let sentence = "internal error: a bug in the server; its log says where";
            Poll::Ready(Err(ApiError::internal(sentence)))
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    #[tokio::test]
    async fn a_panic_is_an_internal_error() {
        let at_once = pin!(async { panic!("at once") });
        let later = pin!(async {
            tokio::task::yield_now().await;
            panic!("after a pause")
        });
        for failed in [caught::<()>(at_once).await, caught::<()>(later).await] {
            assert_eq!(failed.unwrap_err().status.as_u16(), 500);
        }
        assert_eq!(caught(pin!(async { Ok(3) })).await.unwrap(), 3);
    }
}
