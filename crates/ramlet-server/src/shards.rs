//! The threads that hold the connections. Each has its own, its own loop, and if the engine has one for it a search slot:
//! a request is read, searched and answered without another thread, and nothing wanders between them.

use std::io;
use std::net::TcpStream as StdStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use ramlet_memory::Reservation;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::app::App;
use crate::tls::Socket;
use crate::turns::Stay;
use crate::{grpc, inline, limits, pool, serve};

/// What a connection speaks.
#[derive(Clone)]
pub enum Api {
    Rest(Router),
    Grpc,
}

/// The bytes that a connection holds, and its place: given back in this order, so that who waits for the place finds the bytes.
pub type Paid = (Reservation, OwnedSemaphorePermit);

/// A connection on its way to the thread that will hold it.
struct Accepted {
    stream: StdStream,
    paid: (Paid, Stay),
    api: Api,
}

/// One thread: how many connections it holds, and the way to it. As many wait there as have a place, at most.
struct Shard {
    open: Arc<AtomicUsize>,
    inbox: mpsc::UnboundedSender<Accepted>,
    ended: oneshot::Receiver<()>,
}

pub struct Shards(Vec<Shard>);

impl Shards {
    /// Starts the threads. They end when `stopped` says so and their connections are done, or [`limits::SHUTDOWN_GRACE`]
    /// later.
    pub fn start(app: &Arc<App>, stopped: &watch::Receiver<bool>) -> io::Result<Shards> {
        let shards = (0..limits::ASYNC_THREADS.max(app.engine.budget().slots_outside))
            .map(|_| Shard::start(app.clone(), stopped.clone()));
        Ok(Shards(shards.collect::<io::Result<_>>()?))
    }

    /// Hands a connection to the thread that holds the fewest.
    pub fn deal(&self, stream: TcpStream, paid: (Paid, Stay), api: Api) -> io::Result<()> {
        let stream = stream.into_std()?;
        let fewest = self.0.iter().min_by_key(|s| s.open.load(Ordering::Relaxed));
        let shard = fewest.ok_or_else(|| io::Error::other("no thread holds connections"))?;
        shard.open.fetch_add(1, Ordering::Relaxed);
        let accepted = Accepted { stream, paid, api };
        shard
            .inbox
            .send(accepted)
            .map_err(|_| io::Error::other("the thread that holds connections has ended"))
    }

    /// Waits until all have ended.
    pub async fn join(self) {
        for Shard { inbox, ended, .. } in self.0 {
            drop(inbox);
            let _ = ended.await;
        }
    }
}

impl Shard {
    fn start(app: Arc<App>, stopped: watch::Receiver<bool>) -> io::Result<Shard> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()?;
        let open = Arc::new(AtomicUsize::new(0));
        let (inbox, accepted) = mpsc::unbounded_channel();
        let (ends, ended) = oneshot::channel();
        let (held, home) = (open.clone(), Handle::current());
        let (has_entered, entered) = std::sync::mpsc::channel();
        std::thread::Builder::new()
            .name("ramlet-http".into())
            .stack_size(limits::SEARCH_STACK_BYTES)
            .spawn(move || {
                pool::adopt(home);
                inline::enter(&app.engine);
                drop(has_entered);
                run(runtime, app, accepted, (held, stopped));
                inline::leave();
                drop(ends);
            })?;
        // Its slot is its own before anybody can ask for one: the sender is dropped by then.
        let _: Result<(), _> = entered.recv();
        Ok(Shard { open, inbox, ended })
    }
}

fn run(
    runtime: Runtime,
    app: Arc<App>,
    mut accepted: mpsc::UnboundedReceiver<Accepted>,
    (open, mut stopped): (Arc<AtomicUsize>, watch::Receiver<bool>),
) {
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                _ = stopped.changed() => break,
                Some(_) = tasks.join_next() => { open.fetch_sub(1, Ordering::Relaxed); }
                next = accepted.recv() => match next {
                    Some(next) => { tasks.spawn(hold(next, app.clone(), stopped.clone())); }
                    None => break,
                }
            }
        }
        drop(accepted);
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(limits::SHUTDOWN_GRACE, all).await.is_err() {
            tracing::warn!(
                "connections still open after {:?} are cut",
                limits::SHUTDOWN_GRACE
            );
        }
    });
}

async fn hold(accepted: Accepted, app: Arc<App>, mut stopped: watch::Receiver<bool>) {
    let Accepted { stream, paid, api } = accepted;
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(e) => return tracing::warn!("a connection can't be held: {e}"),
    };
    let _ = stream.set_nodelay(true);
    let socket = tokio::select! {
        socket = begin(stream, &app, &paid.1) => socket,
        () = paid.1.asked() => return,
        _ = stopped.changed() => return,
    };
    let stream = match socket {
        Ok(socket) => socket,
        Err(e) => return tracing::debug!("a connection can't be encrypted: {e}"),
    };
    match api {
        Api::Rest(router) => serve::connection(stream, (app, router), stopped, paid).await,
        Api::Grpc => grpc::serve_calls(stream, app, stopped, paid).await,
    }
}

/// Waits for the first bytes, which say that somebody is there.
async fn begin(stream: TcpStream, app: &App, stay: &Stay) -> io::Result<Socket> {
    tokio::time::timeout(limits::HEAD_TIMEOUT, stream.readable()).await??;
    stay.speaks();
    Socket::new(stream, app.tls.as_ref()).await
}
