//! Threads that send requests to another node.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use axum::http::{HeaderMap, HeaderName};
use bytes::Bytes;
use ramlet_memory::Reservation;
use tokio::sync::oneshot;

use crate::limits;

/// Has the id of the node that sent a request on: it isn't sent any further.
pub const FORWARDED: HeaderName = HeaderName::from_static("ramlet-forwarded");

/// Asked before an answer becomes so many bytes long; an error: there is no memory for it.
pub type Room = Arc<dyn Fn(u64) -> Result<(), String> + Send + Sync>;

/// A request to another node.
pub struct ForwardedRequest {
    pub method: &'static str,
    pub url: String,
    pub headers: HeaderMap,
    /// JSON; empty: none.
    pub body: Bytes,
    pub timeout: Duration,
    pub answer_bytes_max: u64,
    /// `None`: `answer_bytes_max` are held.
    pub room: Option<Room>,
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
    /// It answers, and there is no memory for what.
    TooLong(String),
}

/// Sends requests to other nodes; blocks the calling thread.
pub type SendOn = Arc<dyn Fn(&ForwardedRequest) -> Result<ForwardedAnswer, NoAnswer> + Send + Sync>;

type Job = (
    ForwardedRequest,
    oneshot::Sender<Result<ForwardedAnswer, NoAnswer>>,
);

/// Threads that send requests on, to one node at a time.
pub struct Forwarder {
    send: SendOn,
    lane: Mutex<Lane>,
    /// Threads that run: those of a lane before may still wait for a node that was stopped.
    threads: Arc<AtomicUsize>,
    _held: Reservation,
    pub(crate) count: AtomicU64,
}

/// The way to one node. Its threads end when all that was sent is answered, and no more can come.
struct Lane {
    owner: String,
    queue: SyncSender<Job>,
}

/// Of a thread.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Forwarder {
    /// `held`: what connections take, [`limits::FORWARD_CONNECTION_BYTES`] for each of [`limits::FORWARD_THREADS`].
    pub fn new(send: SendOn, held: Reservation) -> Forwarder {
        Forwarder {
            send,
            lane: Mutex::new(Lane {
                owner: String::new(),
                queue: sync_channel(1).0,
            }),
            threads: Arc::default(),
            _held: held,
            count: AtomicU64::new(0),
        }
    }

    /// Sends a request to the node that writes now.
    pub(crate) async fn send(
        &self,
        owner: &str,
        request: ForwardedRequest,
    ) -> Result<ForwardedAnswer, NoAnswer> {
        let (done, is_done) = oneshot::channel();
        let queue = self
            .lane_to(owner)
            .map_err(|e| NoAnswer::NotReached(e.to_string()))?;
        queue.try_send((request, done)).map_err(|_| NoAnswer::Busy)?;
        drop(queue);
        self.count.fetch_add(1, Ordering::Relaxed);
        let lost = |_| NoAnswer::Lost("the server is shutting down".to_owned());
        is_done.await.map_err(lost)?
    }

    /// Another owner gets threads of its own, so that nobody waits behind what an old one doesn't answer; where too many still wait, those that are there.
    fn lane_to(&self, owner: &str) -> io::Result<SyncSender<Job>> {
        let mut lane = self.lane.lock().unwrap_or_else(PoisonError::into_inner);
        let running = self.threads.load(Ordering::Acquire);
        let has_room = running + limits::FORWARDS <= limits::FORWARD_THREADS;
        if lane.owner != owner && has_room {
            let (queue, jobs) = sync_channel(limits::FORWARDS_WAITING);
            let jobs = Arc::new(Mutex::new(jobs));
            for _ in 0..limits::FORWARDS {
                let (jobs, send) = (jobs.clone(), self.send.clone());
                self.threads.fetch_add(1, Ordering::AcqRel);
                let running = Running(self.threads.clone());
                thread::Builder::new()
                    .name("forward".to_owned())
                    .stack_size(limits::THREAD_STACK_BYTES)
                    .spawn(move || {
                        let _running = running;
                        work(&jobs, &send);
                    })?;
            }
            *lane = Lane {
                owner: owner.to_owned(),
                queue,
            };
        }
        Ok(lane.queue.clone())
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ramlet_memory::Ledger;

    use super::*;

    fn request(url: &str) -> ForwardedRequest {
        ForwardedRequest {
            method: "PUT",
            url: url.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout: Duration::from_secs(1),
            answer_bytes_max: 1,
            room: None,
        }
    }

    #[tokio::test]
    async fn nobody_waits_behind_a_node_that_was_stopped() {
        let (wake, stopped) = std::sync::mpsc::channel::<()>();
        let stopped = Mutex::new(stopped);
        let send: SendOn = Arc::new(move |request| {
            if request.url == "old" {
                let _ = stopped.lock().unwrap_or_else(PoisonError::into_inner).recv();
            }
            Err(NoAnswer::Lost(request.url.clone()))
        });
        let held = Ledger::new(1 << 20)
            .consumer("test", u64::MAX)
            .reserve(1)
            .expect("a byte");
        let forwarder = Arc::new(Forwarder::new(send, held));
        // All threads are taken, all places behind them, and some find none.
        let waiting: Vec<_> = (0..2 * limits::FORWARDS + limits::FORWARDS_WAITING)
            .map(|_| {
                let forwarder = forwarder.clone();
                tokio::spawn(async move { forwarder.send("old", request("old")).await.err() })
            })
            .collect();
        let begun = Instant::now();
        while forwarder.count.load(Ordering::Relaxed) < limits::FORWARDS_WAITING as u64 {
            assert!(begun.elapsed() < Duration::from_secs(20));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let other = forwarder.send("new", request("new")).await.err();
        assert_eq!(other, Some(NoAnswer::Lost("new".to_owned())));
        assert_eq!(forwarder.threads.load(Ordering::Acquire), limits::FORWARD_THREADS);
        drop(wake);
        let mut busy = 0;
        for one in waiting {
            match one.await.expect("no panic") {
                Some(NoAnswer::Busy) => busy += 1,
                answer => assert_eq!(answer, Some(NoAnswer::Lost("old".to_owned()))),
            }
        }
        assert!(busy >= limits::FORWARDS, "{busy}");
        // The threads of the old one end.
        let begun = Instant::now();
        while forwarder.threads.load(Ordering::Acquire) != limits::FORWARDS {
            assert!(begun.elapsed() < Duration::from_secs(20));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
