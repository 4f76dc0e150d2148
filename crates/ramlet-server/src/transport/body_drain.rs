//! The drain: reads and discards the unread rest of a request's body before the response is sent.
//!
//! HTTP/1 has one body after the other on a connection: an answer to a body that wasn't read to its end closes the
//! connection. The answer doesn't say so, so a client that keeps connections sends its next request into a closed one, or
//! is still sending this one and doesn't get to see the answer (RFC 9112, sections 9.3 and 9.6).
//!
//! In HTTP/2 such an answer is followed by a reset of its stream (RFC 9113, section 8.1). Clients take that for a failure of the
//! stream, and don't show the answer (curl 7.88), or wait for leave to send on until they time out (httpx 0.28).

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body as AnyBody;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CONNECTION, EXPECT};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use super::eviction::BodyWait;
use crate::limits;

type Place = Arc<Mutex<Option<Incoming>>>;

/// Answers by `router`, with nothing left of the body. `body_wait` of HTTP/1 says while its client keeps it waiting.
pub async fn answer_drained(
    mut router: Router,
    request: hyper::Request<Incoming>,
    body_wait: Option<BodyWait>,
) -> Response {
    if request.body().is_end_stream() {
        return ready(router.call(request.map(AnyBody::new)).await);
    }
    let place = Place::default();
    let watched = |body| {
        AnyBody::new(Watched {
            body: Some(body),
            place: place.clone(),
            body_wait: body_wait.clone(),
        })
    };
    // Such a body comes only when it is asked for.
    let expects = request.headers().contains_key(EXPECT);
    let request: Request = request.map(watched);
    let mut response = ready(router.call(request).await);
    let left = place.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(left) = left
        && !expects
        && !drained(left).await
        && body_wait.is_some()
    {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

fn ready(response: Result<Response, std::convert::Infallible>) -> Response {
    match response {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Reads and forgets, within bounds: whether the body's end was met. A client that announces more than is worth reading, or
/// that waits for the answer before it sends on, has the answer at once.
async fn drained(mut body: Incoming) -> bool {
    if body.size_hint().lower() > limits::DRAINED_BYTES {
        return false;
    }
    let deadline = Instant::now() + limits::BODY_IDLE_TIMEOUT;
    let mut seen = 0;
    while seen < limits::DRAINED_BYTES {
        let next = deadline.min(Instant::now() + limits::DRAINED_IDLE);
        match timeout_at(next, body.frame()).await {
            Ok(Some(Ok(frame))) => seen += frame.data_ref().map_or(0, |data| data.len() as u64),
            Ok(None) => return true,
            Ok(Some(Err(_))) | Err(_) => return false,
        }
    }
    false
}

/// A body that comes back when it is dropped before its end.
struct Watched {
    body: Option<Incoming>,
    place: Place,
    body_wait: Option<BodyWait>,
}

impl Watched {
    fn waiting(&self, waits: bool) {
        if let Some(body_wait) = &self.body_wait {
            body_wait.waiting(waits);
        }
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let next = Pin::new(body).poll_frame(cx);
        let is_pending = next.is_pending();
        // After an error there is nothing to read.
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        self.waiting(is_pending);
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.waiting(false);
        let left = self.body.take().filter(|body| !body.is_end_stream());
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = left;
    }
}
