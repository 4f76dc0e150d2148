//! Connections of HTTP/1, and those that turn out to speak HTTP/2.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;

use super::body_drain;
use super::connection::Place;
use super::graceful_close::{SentBody, begin, serve_to_end};
use super::http2::serve_http2;
use super::timed_io::TimedIo;
use super::tls::Socket;
use crate::access::audit::name_peer;
use crate::answers::answer;
use crate::app::App;
use crate::error::ApiError;
use crate::limits;
use crate::request::growing_reservation::GrowingReservation;
use crate::request::request_id;
use crate::request::request_id::REQUEST_ID;

/// HTTP/1, or HTTP/2 where the client begins with it.
pub async fn serve_http1(
    stream: Socket,
    (app, router): (Arc<App>, Router),
    mut stopped: watch::Receiver<bool>,
    place: Place,
) {
    let guard = &place.guard;
    let Some(http2) = begin(stream.speaks_http2(), guard, &mut stopped).await else {
        return;
    };
    if http2 {
        match app.calls.reserve(app.http2.connection_bytes()) {
            Ok(_more) => {
                let service = service_fn(move |request| {
                    let answered = body_drain::answer_drained(router.clone(), request, None);
                    async move { Ok::<_, Infallible>(answered.await) }
                });
                serve_http2(stream, (&app, &place), stopped, (service, refuse)).await
            }
            Err(e) => tracing::debug!("a connection was refused: {e}"),
        }
        return;
    }
    let io = TokioIo::new(TimedIo::new(stream));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits::IDLE_TIMEOUT)
        .max_buf_size(limits::HEAD_BYTES)
        .max_headers(limits::HEADERS_MAX);
    let service = service_fn(|mut request| {
        let in_flight = guard.in_flight();
        name_peer(&mut request, app.audit.as_ref(), place.peer);
        let id = request_id::name(request.headers_mut());
        let answered = body_drain::answer_drained(router.clone(), request, Some(in_flight.body_wait()));
        async move {
            let mut response = answered.await;
            response.headers_mut().insert(REQUEST_ID, id);
            if in_flight.is_last() {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            // A head of HTTP/1 is in its connection's bytes.
            let _held = GrowingReservation::default();
            Ok::<_, Infallible>(response.map(|body| SentBody {
                body,
                _in_flight: in_flight,
                _held,
            }))
        }
    });
    let serving = std::pin::pin!(builder.serve_connection(io, service));
    serve_to_end(serving, http1::Connection::graceful_shutdown, guard, &mut stopped).await;
}

fn refuse(e: &ApiError) -> Response {
    answer::refuse(e, Instant::now())
}
