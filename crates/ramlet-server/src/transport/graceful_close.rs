//! Serves a connection until its end and closes it gracefully: after its responses, but not later than its client goes silent.
//!
//! HTTP/2 ends in two steps, and the library waits for the client to confirm the first. One that sent its preface and
//! nothing else confirms nothing: 150 of them kept all others out for a minute and more. HTTP/1 waits for the rest of a head.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::timeout;

use super::eviction::{EvictionGuard, InFlight};
use crate::limits::{CLOSE_TIMEOUT, CLOSE_TIMEOUT_UNASKED};
use crate::request::growing_reservation::GrowingReservation;

/// What comes of a new connection's first bytes; `None`: they fail, it is evicted, or `stopped` says so.
pub async fn begin<T, E>(
    first: impl Future<Output = Result<T, E>>,
    guard: &EvictionGuard,
    stopped: &mut watch::Receiver<bool>,
) -> Option<T> {
    tokio::select! {
        first = first => first.ok(),
        () = guard.evicted() => None,
        _ = stopped.changed() => None,
    }
}

/// Serves a connection until it ends; one that is evicted, or that `stopped` ends, is shut down by `shut_down` and closed gracefully.
pub async fn serve_to_end<C, E>(
    mut serving: Pin<&mut C>,
    shut_down: fn(Pin<&mut C>),
    guard: &EvictionGuard,
    stopped: &mut watch::Receiver<bool>,
) where
    C: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let ended = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        // The value is always "stop": nothing else is ever sent.
        _ = stopped.changed() => None,
        () = guard.evicted() => None,
    };
    let ended = match ended {
        Some(ended) => Some(ended),
        None => {
            shut_down(serving.as_mut());
            close_gracefully(serving, guard).await
        }
    };
    if let Some(Err(e)) = ended {
        tracing::debug!("a connection ended: {e}");
    }
}

/// Waits for a connection that is to end, as long as it is being answered or was a moment ago. `None`: it wasn't waited for
/// to its end.
async fn close_gracefully<T>(
    mut serving: Pin<&mut impl Future<Output = T>>,
    guard: &EvictionGuard,
) -> Option<T> {
    loop {
        let most = if guard.has_sent_request() {
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
    pub _held: GrowingReservation,
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
    use crate::limits::EVICT_IDLE;
    use crate::transport::eviction::Eviction;

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
