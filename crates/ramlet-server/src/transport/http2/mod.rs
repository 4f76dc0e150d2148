//! Connections of HTTP/2, a bounded number of them: gRPC, and REST where a client asks for it so.

mod call_bytes;
mod sizes;

use std::sync::Arc;

use axum::http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http2;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;

use super::connection::Place;
use super::graceful_close::{SentBody, begin, serve_to_end};
use super::timed_io::TimedIo;
use super::tls::Socket;
use crate::access::audit::name_peer;
use crate::app::App;
use crate::error::ApiError;
use crate::limits;
use crate::request::growing_reservation::GrowingReservation;
use crate::request::request_id;
use crate::request::request_id::REQUEST_ID;
use crate::threads::balancer::Calls;
use call_bytes::Entry;

pub use sizes::Http2;

/// Builder of connections within the limits.
fn http2(of: Http2, calls: Calls) -> http2::Builder<Calls> {
    let mut builder = http2::Builder::new(calls);
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(of.window)
        .initial_connection_window_size(of.window)
        .max_concurrent_streams(of.streams)
        .max_frame_size(limits::FRAME_BYTES)
        .max_header_list_size(of.head)
        .max_send_buf_size(limits::SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(limits::RESETS_PENDING)
        .max_local_error_reset_streams(limits::RESETS_LOCAL)
        .keep_alive_interval(limits::PING_PERIOD)
        .keep_alive_timeout(limits::PING_TIMEOUT);
    builder
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Answers the requests of one connection until it ends or `stopped` says so; those that there is no memory for as `refused` has it.
pub async fn serve_http2<S, B>(
    stream: Socket,
    (
        app,
        Place {
            peer, guard, meter, ..
        },
    ): (&Arc<App>, &Place),
    mut stopped: watch::Receiver<bool>,
    (service, refused): (S, fn(&ApiError) -> Response<B>),
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Send,
    S::Future: Send + 'static,
    S::Error: Into<Cause>,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Cause>,
{
    let Some(io) = begin(TimedIo::after_preface(stream), guard, &mut stopped).await else {
        return;
    };
    let service = service_fn(|mut request: Request<Incoming>| {
        let (app, in_flight) = (app.clone(), guard.in_flight());
        name_peer(&mut request, app.audit.as_ref(), *peer);
        let id = request_id::name(request.headers_mut());
        // This far it is done before the connection's next head is looked at; the request goes at once where there is no memory.
        // Boxed: the library hands this future on by value four times, and each layer here would hold it twice.
        let entry = Entry::of(&request, &app).map(|entry| (entry, Box::pin(service.call(request))));
        async move {
            let entered = match entry {
                Ok((entry, answered)) => entry.held(&app).await.map(|held| (held, answered)),
                Err(e) => Err(e),
            };
            let (_held, response) = match entered {
                Ok((held, answered)) => (held, answered.await),
                Err(e) => (GrowingReservation::default(), Ok(refused(&e.into()))),
            };
            in_flight.close_if_last();
            response.map(|mut response| {
                response.headers_mut().insert(REQUEST_ID, id);
                response.map(|body| SentBody {
                    body,
                    _in_flight: in_flight,
                    _held,
                })
            })
        }
    });
    meter.calls_are_apart();
    let builder = http2(app.http2, Calls(meter.clone()));
    let serving = std::pin::pin!(builder.serve_connection(TokioIo::new(io), service));
    serve_to_end(serving, http2::Connection::graceful_shutdown, guard, &mut stopped).await;
}
