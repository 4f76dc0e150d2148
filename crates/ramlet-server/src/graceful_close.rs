//! How a connection is closed gracefully: after its answers, but not later than its client goes silent.
//!
//! HTTP/2 ends in two steps, and the library waits for the client to confirm the first. One that sent its preface and
//! nothing else confirms nothing: 150 of them kept all others out for a minute and more. HTTP/1 waits for the rest of a head.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use tokio::time::timeout;

use crate::eviction::{EvictionGuard, InFlight};
use crate::held_bytes::Held;
use crate::limits::{CLOSE_TIMEOUT, CLOSE_TIMEOUT_UNASKED};

/// Waits for a connection that is to end, as long as it is being answered or was a moment ago. `None`: it wasn't waited for
/// to its end.
pub async fn close_gracefully<T>(
    mut serving: Pin<&mut impl Future<Output = T>>,
    guard: &EvictionGuard,
) -> Option<T> {
    loop {
        let most = if guard.has_asked() {
            CLOSE_TIMEOUT
        } else {
            CLOSE_TIMEOUT_UNASKED
        };
        match timeout(most, serving.as_mut()).await {
            Ok(ended) => return Some(ended),
            Err(_) if guard.is_idle() => return None,
            Err(_) => {}
        }
    }
}

/// The body of an answer: its connection is busy until all of it was taken, and the call's bytes are held.
pub struct SentBody<B> {
    pub body: B,
    pub _in_flight: InFlight,
    pub _held: Held,
}

impl<B: Body + Unpin> Body for SentBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::eviction::Eviction;
    use crate::limits::EVICT_IDLE;

    #[tokio::test]
    async fn answers_are_waited_for_and_silence_is_not() {
        let eviction = Arc::new(Eviction::default());
        let guard = eviction.enter();
        let in_flight = guard.in_flight();
        let never = std::pin::pin!(std::future::pending::<()>());
        let mut waiting = std::pin::pin!(close_gracefully(never, &guard));
        let ended = timeout(EVICT_IDLE * 3 / 2, waiting.as_mut()).await;
        assert!(ended.is_err(), "it is being answered");
        drop(in_flight);
        let answered = Instant::now();
        assert_eq!(waiting.await, None);
        assert!(
            answered.elapsed() >= EVICT_IDLE,
            "the answer may be on its way still"
        );
    }
}
