//! The threads that hold the connections. Each has its own, its own loop, and if the engine has one for it a search slot:
//! a request is read, searched and answered without another thread. What wanders between them is a connection as a whole,
//! where one thread has much more to do than another ([`balancer`](super::balancer)).

use std::future::Future;
use std::io;
use std::net::TcpStream as StdStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::Router;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::balancer::Meter;
use super::{inline, pool};
use crate::app::App;
use crate::transport::connection::Place;
use crate::transport::eviction::{Answering, EvictionGuard};
use crate::transport::http1;
use crate::transport::tls::Socket;
use crate::{grpc, limits};

/// What a connection speaks.
#[derive(Clone)]
pub enum Api {
    Rest(Router),
    Grpc,
}

/// A connection on its way to the thread that will hold it.
enum Arrival {
    New(Accepted),
    Moved(OpenConnection),
}

struct Accepted {
    stream: StdStream,
    place: Place,
    api: Api,
}

/// A connection that is held: it goes on wherever it is polled.
struct OpenConnection {
    connection: Pin<Box<dyn Future<Output = ()> + Send>>,
    meter: Arc<Meter>,
    answering: Answering,
}

impl OpenConnection {
    /// The thread that it is to move to, if it can now. Calls within it are bound to the thread that began them.
    fn to(&self) -> Option<usize> {
        let can = self.meter.are_calls_apart() || !self.answering.is_busy();
        self.meter.to().filter(|_| can)
    }
}

/// One thread: how many connections it holds, and the way to it. As many wait there as have a place, at most.
struct Worker {
    open: AtomicUsize,
    inbox: mpsc::UnboundedSender<Arrival>,
}

pub struct Workers {
    all: Arc<[Worker]>,
    /// The runtime of each, when it has ended.
    ended: Vec<oneshot::Receiver<Runtime>>,
}

impl Workers {
    /// Starts the threads. They end when `stopped` says so and their connections are done, or [`limits::SHUTDOWN_GRACE`]
    /// later.
    pub fn start(app: &Arc<App>, stopped: &watch::Receiver<bool>) -> io::Result<Workers> {
        let (inboxes, arrivals): (Vec<_>, Vec<_>) = (0..app.balancer.threads())
            .map(|_| mpsc::unbounded_channel())
            .unzip();
        let all: Arc<[Worker]> = inboxes.into_iter().map(Worker::new).collect();
        let mut ended = Vec::new();
        for (here, arrivals) in arrivals.into_iter().enumerate() {
            let thread = Thread {
                all: all.clone(),
                here,
                app: app.clone(),
                stopped: stopped.clone(),
            };
            ended.push(thread.start(arrivals)?);
        }
        Ok(Workers { all, ended })
    }

    /// Hands a connection to the thread that holds the fewest.
    pub fn assign(&self, stream: TcpStream, place: Place, api: Api) -> io::Result<()> {
        let stream = stream.into_std()?;
        let fewest = self.all.iter().min_by_key(|s| s.open.load(Ordering::Relaxed));
        let worker = fewest.ok_or_else(|| io::Error::other("no thread holds connections"))?;
        let accepted = Accepted { stream, place, api };
        worker
            .send(Arrival::New(accepted))
            .map_err(|_| io::Error::other("the thread that holds connections has ended"))
    }

    /// Waits until all have ended. A connection that moved has its timers on the thread it came from: none of the runtimes
    /// may end before.
    pub async fn join(self) {
        let mut runtimes = Vec::new();
        for ended in self.ended {
            runtimes.extend(ended.await);
        }
        runtimes.into_iter().for_each(Runtime::shutdown_background);
    }
}

impl Worker {
    fn new(inbox: mpsc::UnboundedSender<Arrival>) -> Worker {
        let open = AtomicUsize::new(0);
        Worker { open, inbox }
    }

    fn send(&self, arrival: Arrival) -> Result<(), Arrival> {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.inbox.send(arrival).map_err(|unsent| {
            self.left();
            unsent.0
        })
    }

    fn left(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a thread that holds connections knows.
struct Thread {
    all: Arc<[Worker]>,
    here: usize,
    app: Arc<App>,
    stopped: watch::Receiver<bool>,
}

impl Thread {
    fn start(self, arrivals: mpsc::UnboundedReceiver<Arrival>) -> io::Result<oneshot::Receiver<Runtime>> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()?;
        let (ends, ended) = oneshot::channel();
        let (has_entered, entered) = std::sync::mpsc::channel();
        let home = Handle::current();
        std::thread::Builder::new()
            .name("ramlet-http".into())
            .stack_size(limits::SEARCH_STACK_BYTES)
            .spawn(move || {
                pool::adopt(home);
                inline::enter(&self.app.engine);
                self.app.balancer.enter(self.here);
                drop(has_entered);
                runtime.block_on(self.run(arrivals));
                inline::leave();
                let _ = ends.send(runtime);
            })?;
        // Its slot is its own before anybody can ask for one: the sender is dropped by then.
        let _: Result<(), _> = entered.recv();
        Ok(ended)
    }

    async fn run(self, mut arrivals: mpsc::UnboundedReceiver<Arrival>) {
        let mut stopped = self.stopped.clone();
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                _ = stopped.changed() => break,
                Some(_) = tasks.join_next() => self.all[self.here].left(),
                next = arrivals.recv() => match next {
                    Some(next) => { tasks.spawn(self.task(next)); }
                    None => break,
                }
            }
        }
        arrivals.close();
        while let Ok(last) = arrivals.try_recv() {
            tasks.spawn(self.task(last));
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(limits::SHUTDOWN_GRACE, all).await.is_err() {
            tracing::warn!(
                "connections still open after {:?} are closed",
                limits::SHUTDOWN_GRACE
            );
        }
    }

    fn task(&self, arrival: Arrival) -> ConnectionTask {
        let open = match arrival {
            Arrival::New(accepted) => OpenConnection {
                meter: accepted.place.meter.clone(),
                answering: accepted.place.guard.answering(),
                connection: Box::pin(hold(accepted, self.app.clone(), self.stopped.clone())),
            },
            Arrival::Moved(open) => {
                open.meter.has_moved();
                open
            }
        };
        open.meter.connection_arrived();
        let all = self.all.clone();
        ConnectionTask {
            open: Some(open),
            all,
        }
    }
}

/// A connection on one of the threads, until it ends or is given to another.
struct ConnectionTask {
    open: Option<OpenConnection>,
    all: Arc<[Worker]>,
}

impl ConnectionTask {
    /// Gives the connection away if it is to move and can.
    fn leaves(&mut self) -> bool {
        let to = self.open.as_ref().and_then(OpenConnection::to);
        let Some(to) = to.and_then(|to| self.all.get(to)) else {
            return false;
        };
        let Some(open) = self.open.take() else {
            return false;
        };
        open.meter.connection_left();
        let Err(Arrival::Moved(open)) = to.send(Arrival::Moved(open)) else {
            return true;
        };
        open.meter.connection_arrived();
        self.open = Some(open);
        false
    }
}

impl Future for ConnectionTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.leaves() {
            return Poll::Ready(());
        }
        match &mut self.open {
            Some(OpenConnection {
                connection, meter, ..
            }) => meter.measure(|| connection.as_mut().poll(cx)),
            None => Poll::Ready(()),
        }
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            open.meter.connection_left();
        }
    }
}

async fn hold(accepted: Accepted, app: Arc<App>, mut stopped: watch::Receiver<bool>) {
    let Accepted { stream, place, api } = accepted;
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(e) => return tracing::warn!("a connection can't be held: {e}"),
    };
    let _ = stream.set_nodelay(true);
    let socket = tokio::select! {
        socket = begin(stream, &app, &place.guard) => socket,
        () = place.guard.evicted() => return,
        _ = stopped.changed() => return,
    };
    let stream = match socket {
        Ok(socket) => socket,
        Err(e) => return tracing::debug!("a connection can't be encrypted: {e}"),
    };
    match api {
        Api::Rest(router) => http1::serve_http1(stream, (app, router), stopped, place).await,
        Api::Grpc => grpc::serve_calls(stream, app, stopped, place).await,
    }
}

/// Waits for the first bytes, which say that somebody is there.
async fn begin(stream: TcpStream, app: &App, guard: &EvictionGuard) -> io::Result<Socket> {
    tokio::time::timeout(limits::HEAD_TIMEOUT, stream.readable()).await??;
    guard.first_bytes();
    Socket::new(stream, app.tls.as_ref()).await
}
