//! The socket: a bounded number of connections, each with its bytes from the ledger.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ramlet::{Engine, Scratch};
use ramlet_io::system::{holder_of_port, set_segment_bytes_max};
use ramlet_memory::Consumer;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::connection::{Paid, Place};
use super::eviction::Eviction;
use crate::access::audit::Peer;
use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::nodes::changes::Replayer;
use crate::observability::issues;
use crate::options::{GrpcPort, ServerOptions};
use crate::router::router;
use crate::threads::balancer::{Balancer, Meter};
use crate::threads::pool::spawn_blocking;
use crate::threads::workers::{Api, Workers};

/// A server that has its port and isn't answering yet.
pub struct Bound {
    listener: TcpListener,
    grpc: Option<TcpListener>,
    app: Arc<App>,
}

/// The runtime that the server is meant to run on: it accepts, and has the pool for what blocks. Connections have threads
/// of their own: as many as have a search slot, [`limits::ASYNC_THREADS`] at least.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(limits::BLOCKING_THREADS)
        .thread_stack_size(limits::THREAD_STACK_BYTES)
        .thread_name("ramlet-pool")
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
    let holder = match failure.kind() {
        io::ErrorKind::AddrInUse => {
            holder_of_port(port).map_or(String::new(), |caller| format!(": {caller} listens there"))
        }
        _ => String::new(),
    };
    let place = format!("can't listen on {host}:{port}: {failure}{holder}");
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
    set_segment_bytes_max(socket.as_fd(), limits::SEGMENT_BYTES)?;
    socket.bind(addr)?;
    socket.listen(limits::BACKLOG)
}

impl Bound {
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// For making changes of a log that is shared with others.
    pub fn replayer(&self) -> io::Result<Replayer> {
        Replayer::new(self.app.clone())
    }

    /// Where gRPC is answered, if it is.
    pub fn grpc_addr(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Answers until `shutdown` is done.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let Bound { listener, grpc, app } = self;
        let (stop, stopped) = watch::channel(false);
        let workers = Arc::new(Workers::start(&app, &stopped)?);
        let mut tasks = JoinSet::new();
        tasks.spawn(monitor_recall(app.engine.clone()));
        tasks.spawn(expire_points(app.clone()));
        tasks.spawn(look_for_issues(app.clone()));
        let acceptor = Acceptor {
            listener,
            places: Arc::new(Semaphore::new(app.connections_max)),
            account: app.connections.clone(),
            bytes: limits::connection_bytes(app.tls.is_some()),
            encrypted: app.tls.is_some(),
            api: Api::Rest(router(app.clone())),
            eviction: Arc::default(),
            balancer: app.balancer.clone(),
            app: app.clone(),
        };
        tasks.spawn(acceptor.accept_all(workers.clone()));
        if let Some(listener) = grpc {
            let acceptor = Acceptor {
                listener,
                places: Arc::new(Semaphore::new(app.http2.places)),
                account: app.calls.clone(),
                bytes: app.http2.connection_bytes(),
                encrypted: app.tls.is_some(),
                api: Api::Grpc,
                eviction: Arc::default(),
                balancer: app.balancer.clone(),
                app: app.clone(),
            };
            tasks.spawn(acceptor.accept_all(workers.clone()));
        }
        shutdown.await;
        let _ = stop.send(true);
        tasks.shutdown().await;
        if let Some(workers) = Arc::into_inner(workers) {
            workers.join().await;
        }
        Ok(())
    }
}

/// A port, and what a connection through it costs.
struct Acceptor {
    listener: TcpListener,
    places: Arc<Semaphore>,
    account: Consumer,
    bytes: u64,
    encrypted: bool,
    api: Api,
    eviction: Arc<Eviction>,
    balancer: Arc<Balancer>,
    /// For the count of those that are turned away.
    app: Arc<App>,
}

impl Acceptor {
    async fn accept_all(self, workers: Arc<Workers>) {
        let mut failures = SeldomLog::default();
        loop {
            let dealt = match self.listener.accept().await {
                Ok((stream, from)) => match self.pay().await {
                    Ok(paid) => workers.assign(stream, self.place(paid, from), self.api.clone()),
                    Err(e) => {
                        self.reject(&stream, &e);
                        Ok(())
                    }
                },
                Err(e) => Err(e),
            };
            // Out of file descriptors, or a client gone again: the next one may do.
            if let Err(e) = dealt {
                if let Some(before) = failures.tell(Instant::now()) {
                    tracing::warn!(untold = before, "accepting a connection failed: {e}");
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }

    /// A place and the bytes of a connection. A connection that is here is evicted meanwhile; further clients wait in the kernel's backlog.
    async fn pay(&self) -> ApiResult<Paid> {
        let place = loop {
            match self.places.clone().try_acquire_owned() {
                Ok(place) => break place,
                Err(_) => self.wait().await,
            }
        };
        let deadline = Instant::now() + limits::MEMORY_WAIT;
        loop {
            match self.account.reserve(self.bytes) {
                Ok(held) => return Ok((held, place)),
                Err(e) if Instant::now() > deadline => return Err(e.into()),
                Err(_) => self.wait().await,
            }
        }
    }

    fn place(&self, paid: Paid, from: SocketAddr) -> Place {
        Place {
            _paid: paid,
            peer: Peer(from.ip()),
            guard: self.eviction.enter(),
            meter: Meter::new(self.balancer.clone()),
        }
    }

    async fn wait(&self) {
        self.eviction.evict();
        tokio::time::sleep(limits::EVICT_PAUSE).await;
    }

    /// Says why and when to come again, without a task or a buffer. Clients of gRPC try again by themselves; for an encrypted
    /// answer there is no memory.
    fn reject(&self, stream: &TcpStream, e: &ApiError) {
        self.app
            .refusals
            .note(e.refusal, (e.status, &e.message), ("a connection", "", None));
        if !self.encrypted && matches!(self.api, Api::Rest(_)) {
            reject(stream, e);
        }
    }
}

/// What happens many times a second and is told now and then.
#[derive(Default)]
struct SeldomLog {
    told: Option<Instant>,
    untold: u64,
}

impl SeldomLog {
    /// How many weren't told since the last one, if this one is to be told.
    fn tell(&mut self, now: Instant) -> Option<u64> {
        let long_ago = |at| now.saturating_duration_since(at) >= limits::WARNING_PERIOD;
        if self.told.is_some_and(|at| !long_ago(at)) {
            self.untold += 1;
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

/// Has the recall of a real query measured now and then.
async fn monitor_recall(engine: Arc<Engine>) {
    loop {
        tokio::time::sleep(limits::MONITOR_PERIOD).await;
        // The engine's list of names may be locked while a collection is created on disk.
        let engine = engine.clone();
        let _ = spawn_blocking(move || engine.monitor_recall_once()).await;
    }
}

/// Has points deleted whose time is over.
async fn expire_points(app: Arc<App>) {
    let engine = &app.engine;
    for turn in 0u32.. {
        tokio::time::sleep(limits::EXPIRY_PERIOD).await;
        // A reader's points expire by the writer's deletes.
        if app.only_follows() {
            continue;
        }
        let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) else {
            continue;
        };
        let (of, unindexed) = (
            engine.clone(),
            turn.is_multiple_of(limits::EXPIRY_UNINDEXED_TURNS),
        );
        let (done, is_done) = tokio::sync::oneshot::channel();
        let job = Box::new(move |scratch: &mut Scratch| {
            of.expire(now.as_micros() as i64, unindexed, scratch);
            let _ = done.send(());
        });
        // Not one after another where a turn takes longer; all threads may be busy.
        if engine.run(job).is_ok() {
            let _ = is_done.await;
        }
    }
}

/// Looks now and then at what may be wrong, for the log and the metrics.
async fn look_for_issues(app: Arc<App>) {
    let mut first = true;
    loop {
        tokio::time::sleep(limits::ISSUES_PERIOD).await;
        let app = app.clone();
        // By then the disk is measured, where it wasn't before.
        let first = std::mem::take(&mut first);
        let looked = spawn_blocking(move || {
            if first {
                issues::log_staircase(&app);
            }
            issues::look(&app);
        });
        let _ = looked.await;
    }
}

/// Says why and when to come again, without a task or a buffer.
fn reject(stream: &TcpStream, e: &ApiError) {
    let body = serde_json::json!({ "status": { "error": e.message }, "time": 0.0 }).to_string();
    let text = format!(
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        limits::RETRY_AFTER_SECONDS,
        body.len()
    );
    let _ = stream.try_write(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_all_the_time_is_told_now_and_then() {
        let (mut failures, start) = (SeldomLog::default(), Instant::now());
        let told: Vec<_> = (0..1_000)
            .filter_map(|i| failures.tell(start + limits::WARNING_PERIOD * i / 400))
            .collect();
        assert_eq!(told, [0, 399, 399]);
    }
}
