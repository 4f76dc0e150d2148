//! Threads that send requests to another node.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use axum::http::HeaderMap;
use bytes::Bytes;
use ramlet_memory::Reservation;
use tokio::sync::oneshot;

use crate::limits;

/// A request to another node.
pub struct ForwardedRequest {
    pub method: &'static str,
    pub url: String,
    pub headers: HeaderMap,
    /// JSON; empty: none.
    pub body: Bytes,
    pub timeout: Duration,
    pub answer_bytes_max: u64,
}

/// Its answer.
pub struct ForwardedAnswer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoAnswer {
    /// Too many others wait to be sent.
    Busy,
    /// Nothing of the request was done.
    NotReached(String),
    /// What became of it isn't known.
    Lost(String),
}

/// Sends requests to other nodes; blocks the calling thread.
pub type SendOn = Arc<dyn Fn(&ForwardedRequest) -> Result<ForwardedAnswer, NoAnswer> + Send + Sync>;

type Job = (
    ForwardedRequest,
    oneshot::Sender<Result<ForwardedAnswer, NoAnswer>>,
);

/// Threads that send requests on.
pub struct Forwarder {
    queue: SyncSender<Job>,
    _held: Reservation,
    pub(crate) count: AtomicU64,
}

impl Forwarder {
    /// Starts [`limits::FORWARDS`] threads, which end with it. `held`: what their connections take, [`limits::FORWARD_CONNECTION_BYTES`] each.
    pub fn start(send: &SendOn, held: Reservation) -> io::Result<Forwarder> {
        let (queue, jobs) = sync_channel(limits::FORWARDS_WAITING);
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..limits::FORWARDS {
            let (jobs, send) = (jobs.clone(), send.clone());
            thread::Builder::new()
                .name("forward".to_owned())
                .stack_size(limits::THREAD_STACK_BYTES)
                .spawn(move || work(&jobs, &send))?;
        }
        Ok(Forwarder {
            queue,
            _held: held,
            count: AtomicU64::new(0),
        })
    }

    pub(crate) async fn send(&self, request: ForwardedRequest) -> Result<ForwardedAnswer, NoAnswer> {
        let (done, is_done) = oneshot::channel();
        self.queue.try_send((request, done)).map_err(|e| match e {
            TrySendError::Full(_) => NoAnswer::Busy,
            TrySendError::Disconnected(_) => NoAnswer::NotReached("the server is shutting down".to_owned()),
        })?;
        self.count.fetch_add(1, Ordering::Relaxed);
        let lost = |_| NoAnswer::Lost("the server is shutting down".to_owned());
        is_done.await.map_err(lost)?
    }
}

fn work(jobs: &Mutex<Receiver<Job>>, send: &SendOn) {
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((request, done)) = next else {
            return;
        };
        // Nobody waits any more, and nothing was sent.
        if !done.is_closed() {
            let _ = done.send(send(&request));
        }
    }
}
