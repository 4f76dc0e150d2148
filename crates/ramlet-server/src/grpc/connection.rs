//! Connections of HTTP/2, a bounded number of them.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::sync::Arc;

use axum::http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http2;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;

use super::dispatch::{dispatch, refused};
use super::entry::Entry;
use crate::app::App;
use crate::audit::name_peer;
use crate::error::ApiError;
use crate::held::Held;
use crate::leaving::{Sending, last_answers};
use crate::limits;
use crate::loads::Calls;
use crate::shards::Place;
use crate::timed_io::TimedIo;
use crate::tls::Socket;

/// What a connection may be sent before it is read, and what it takes in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2 {
    pub window: u32,
    /// Bytes of a connection beside its window.
    pub own: u64,
    /// Connections at once.
    pub places: usize,
    /// Calls at once on one.
    pub streams: u32,
    /// Largest head of a call.
    pub head: u32,
    /// Calls that may wait for their first bytes.
    pub waiting: usize,
}

impl Http2 {
    /// Of `elastic` bytes: half for connections at most, taken as they come, and a thousandth for one's window. (Programs have a
    /// connection for each of their processes, and one without a place waits in the kernel until its client gives up: with an eighth
    /// there were 14 places in 135 MB.)
    pub fn new(elastic: u64, encrypted: bool) -> Http2 {
        let within = |n: u64, bounds: RangeInclusive<u64>| n.clamp(*bounds.start(), *bounds.end());
        let window = within(elastic / 1024, limits::WINDOW_BYTES);
        let own = limits::CONNECTION_BYTES_HTTP2 + limits::tls_bytes(encrypted);
        let each = own + window;
        let places = usize::try_from(elastic / 2 / each).unwrap_or(usize::MAX);
        Http2 {
            window: window as u32,
            own,
            places: places.clamp(limits::CONNECTIONS_HTTP2_MIN, limits::CONNECTIONS_DEFAULT),
            streams: within(elastic / limits::STREAM_SHARE, limits::STREAMS) as u32,
            head: within(elastic / 256, limits::HEAD_BYTES_HTTP2) as u32,
            waiting: within(elastic / 32 / limits::CALL_BYTES, limits::CALLS_WAITING) as usize,
        }
    }

    /// Bytes that one connection takes at most, its calls apart.
    pub fn connection_bytes(self) -> u64 {
        self.own + u64::from(self.window)
    }

    pub fn all_bytes(self) -> u64 {
        self.connection_bytes() * self.places as u64
    }
}

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

/// Answers the calls of one connection.
pub async fn serve_calls(stream: Socket, app: Arc<App>, stopped: watch::Receiver<bool>, place: Place) {
    let service = service_fn(|request| {
        let app = app.clone();
        async move { Ok::<_, Infallible>(dispatch(app, request).await) }
    });
    serve_http2(stream, (&app, &place), stopped, (service, refused)).await;
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Answers the requests of one connection until it ends or `stopped` says so; those that there is no memory for as `refused` has it.
pub async fn serve_http2<S, B>(
    stream: Socket,
    (
        app,
        Place {
            peer, stay, meter, ..
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
    let begun = tokio::select! {
        begun = TimedIo::after_preface(stream) => begun,
        () = stay.asked() => return,
        _ = stopped.changed() => return,
    };
    let Ok(io) = begun else {
        return;
    };
    let service = service_fn(|mut request: Request<Incoming>| {
        let (app, busy) = (app.clone(), stay.busy());
        name_peer(&mut request, app.audit.as_ref(), *peer);
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
                Err(e) => (Held::default(), Ok(refused(&e.into()))),
            };
            busy.leave_if_told();
            response.map(|response| {
                response.map(|body| Sending {
                    body,
                    _busy: busy,
                    _held,
                })
            })
        }
    });
    meter.calls_are_apart();
    let builder = http2(app.http2, Calls(meter.clone()));
    let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(io), service));
    let ended = tokio::select! {
        ended = serving.as_mut() => Some(ended),
        _ = stopped.changed() => {
            serving.as_mut().graceful_shutdown();
            last_answers(serving, stay).await
        }
        () = stay.asked() => {
            serving.as_mut().graceful_shutdown();
            last_answers(serving, stay).await
        }
    };
    if let Some(Err(e)) = ended {
        tracing::debug!("a connection ended: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_server_has_places_for_the_processes_of_a_program() {
        for (elastic, least) in [
            (2 << 20, 8),
            (4_886_528, 20),
            (10_190_848, 45),
            (12_419_072, 56),
            (1 << 30, 256),
        ] {
            let of = Http2::new(elastic, false);
            assert!(of.places >= least, "{} places of {elastic} bytes", of.places);
            assert!(
                of.all_bytes() <= elastic / 2,
                "{} of {elastic} bytes",
                of.all_bytes()
            );
        }
    }
}
