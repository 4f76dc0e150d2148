//! The socket: a bounded number of connections, each with its bytes from the ledger.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use ramlet::Engine;
use ramlet_memory::Reservation;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::app::App;
use crate::error::ApiError;
use crate::grpc::answer_calls;
use crate::limits;
use crate::options::{GrpcPort, ServerOptions};
use crate::routes::router;
use crate::timed_io::TimedIo;

/// A server that has its port and isn't answering yet.
pub struct Bound {
    listener: TcpListener,
    grpc: Option<TcpListener>,
    app: Arc<App>,
}

/// The runtime that the server is meant to run on: its threads and their stacks are lines of the budget.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(limits::ASYNC_THREADS)
        .max_blocking_threads(limits::BLOCKING_THREADS)
        .thread_stack_size(limits::THREAD_STACK_BYTES)
        .thread_name("ramlet-http")
        .enable_all()
        .build()
}

/// Binds, then answers until `shutdown` is done; requests under way get [`limits::SHUTDOWN_GRACE`].
pub async fn serve(options: ServerOptions, shutdown: impl Future<Output = ()>) -> io::Result<()> {
    bind(options).await?.serve(shutdown).await
}

/// Takes the ports. With port 0 the kernel chooses; [`Bound::local_addr`] tells.
pub async fn bind(options: ServerOptions) -> io::Result<Bound> {
    let share = options.engine.budget().kernel / 2 / options.connections.max(1) as u64 / 2;
    let buffer = share.clamp(
        *limits::SOCKET_BUFFER_BYTES.start(),
        *limits::SOCKET_BUFFER_BYTES.end(),
    ) as u32;
    let listener = listen_on(&options.host, options.port, buffer).await?;
    let grpc = match options.grpc_port {
        GrpcPort::Off => None,
        GrpcPort::At(port) => Some(listen_on(&options.host, port, buffer).await?),
        GrpcPort::IfFree(port) => match listen_on(&options.host, port, buffer).await {
            Ok(listener) => Some(listener),
            Err(e) => {
                tracing::warn!("no gRPC: {e}; --grpc-port sets another port");
                None
            }
        },
    };
    Ok(Bound {
        listener,
        grpc,
        app: App::new(options),
    })
}

/// The first of the name's addresses that can be had.
async fn listen_on(host: &str, port: u16, buffer: u32) -> io::Result<TcpListener> {
    let mut failure = io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address");
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
    for addr in addresses {
        match listen(addr, buffer) {
            Ok(listener) => return Ok(listener),
            Err(e) => failure = e,
        }
    }
    let place = format!("can't listen on {host}:{port}: {failure}");
    Err(io::Error::new(failure.kind(), place))
}

fn listen(addr: SocketAddr, buffer: u32) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    // Accepted sockets inherit these.
    socket.set_recv_buffer_size(buffer)?;
    socket.set_send_buffer_size(buffer)?;
    socket.bind(addr)?;
    socket.listen(limits::BACKLOG)
}

impl Bound {
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where gRPC is answered, if it is.
    pub fn grpc_addr(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Answers until `shutdown` is done.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let Bound { listener, grpc, app } = self;
        let router = router(app.clone());
        let places = Arc::new(Semaphore::new(app.connections_max));
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(monitor_recall(app.engine.clone(), stopped.clone()));
        if let Some(listener) = grpc {
            tasks.spawn(answer_calls(listener, app.clone(), stopped.clone()));
        }
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = tasks.join_next() => {}
                accepted = accept(&listener, &places) => match accepted {
                    Ok((stream, place)) => match app.connections.reserve(limits::CONNECTION_BYTES) {
                        Ok(held) => {
                            tasks.spawn(connection(stream, router.clone(), stopped.clone(), (place, held)));
                        }
                        Err(e) => turn_away(&stream, &e.into()),
                    },
                    // Out of file descriptors, or a client gone again: the next one may do.
                    Err(e) => {
                        tracing::warn!("accepting a connection failed: {e}");
                        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    }
                }
            }
        }
        drop(listener);
        let _ = stop.send(true);
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(limits::SHUTDOWN_GRACE, all).await.is_err() {
            tracing::warn!(
                "connections still open after {:?} are cut",
                limits::SHUTDOWN_GRACE
            );
        }
        Ok(())
    }
}

/// Has the recall of a real query measured now and then.
async fn monitor_recall(engine: Arc<Engine>, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(limits::MONITOR_PERIOD) => {}
            _ = stopped.changed() => return,
        }
        // The engine's list of names may be locked while a collection is created on disk.
        let engine = engine.clone();
        let _ = tokio::task::spawn_blocking(move || engine.monitor_recall_once()).await;
    }
}

/// A connection and its place. Without a free place the kernel's backlog holds the clients.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

async fn connection(
    stream: TcpStream,
    router: Router,
    mut stopped: watch::Receiver<bool>,
    _held: (OwnedSemaphorePermit, Reservation),
) {
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(TimedIo::new(stream));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEAD_TIMEOUT)
        .max_buf_size(limits::HEAD_BYTES)
        .max_headers(limits::HEADERS_MAX);
    let mut serving = std::pin::pin!(builder.serve_connection(io, TowerToHyperService::new(router)));
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        // The value is always "stop": nothing else is ever sent.
        _ = stopped.changed() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(e) = ended {
        tracing::debug!("a connection ended: {e}");
    }
}

/// Says why and when to come again, without a task or a buffer.
fn turn_away(stream: &TcpStream, e: &ApiError) {
    let body = serde_json::json!({ "status": { "error": e.message }, "time": 0.0 }).to_string();
    let text = format!(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        limits::RETRY_AFTER_SECONDS,
        body.len()
    );
    let _ = stream.try_write(text.as_bytes());
}
