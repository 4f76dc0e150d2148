//! How a connection ends that was asked to: after its answers, but not later than its client goes silent.
//!
//! HTTP/2 says goodbye in two steps, and the library waits for the client to confirm the first. One that sent its preface and
//! nothing else confirms nothing: 150 of them kept all others out for a minute and more. HTTP/1 waits for the rest of a head.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use tokio::time::timeout;

use crate::held::Held;
use crate::limits::{GOODBYE, GOODBYE_UNMET};
use crate::turns::{Busy, Stay};

/// Waits for a connection that is to end, as long as it is being answered or was a moment ago. `None`: it wasn't waited for
/// to its end.
pub async fn last_answers<T>(mut serving: Pin<&mut impl Future<Output = T>>, stay: &Stay) -> Option<T> {
    loop {
        let goodbye = if stay.is_met() { GOODBYE } else { GOODBYE_UNMET };
        match timeout(goodbye, serving.as_mut()).await {
            Ok(ended) => return Some(ended),
            Err(_) if stay.is_silent() => return None,
            Err(_) => {}
        }
    }
}

/// The body of an answer: its connection is busy until all of it was taken, and the call's bytes are held.
pub struct Sending<B> {
    pub body: B,
    pub _busy: Busy,
    pub _held: Held,
}

impl<B: Body + Unpin> Body for Sending<B> {
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
    use crate::limits::TURN_SILENCE;
    use crate::turns::Turns;

    #[tokio::test]
    async fn answers_are_waited_for_and_silence_is_not() {
        let turns = Arc::new(Turns::default());
        let stay = turns.enter();
        let busy = stay.busy();
        let never = std::pin::pin!(std::future::pending::<()>());
        let mut waiting = std::pin::pin!(last_answers(never, &stay));
        let ended = timeout(TURN_SILENCE * 3 / 2, waiting.as_mut()).await;
        assert!(ended.is_err(), "it is being answered");
        drop(busy);
        let answered = Instant::now();
        assert_eq!(waiting.await, None);
        assert!(
            answered.elapsed() >= TURN_SILENCE,
            "the answer may be on its way still"
        );
    }
}
