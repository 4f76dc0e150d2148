//! The ways to the other shards: threads that send requests to their nodes.
//!
//! Each shard has threads of its own for reads, and others for writes. So nobody waits behind a shard that doesn't answer but those who ask it.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use crate::limits;
use crate::nodes::forwarder::{ForwardedAnswer, ForwardedRequest, NoAnswer, SendOn};

type Job = (
    ForwardedRequest,
    oneshot::Sender<Result<ForwardedAnswer, NoAnswer>>,
);

/// To one shard, for reads or for writes. Its threads end with it.
pub struct Lane(SyncSender<Job>);

impl Lane {
    pub fn new(send: &SendOn, threads: usize) -> io::Result<Lane> {
        let (queue, jobs) = sync_channel(limits::SHARD_REQUESTS_WAITING);
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..threads {
            let (jobs, send) = (jobs.clone(), send.clone());
            thread::Builder::new()
                .name("shard".to_owned())
                .stack_size(limits::THREAD_STACK_BYTES)
                .spawn(move || work(&jobs, &send))?;
        }
        Ok(Lane(queue))
    }

    pub async fn send(&self, request: ForwardedRequest) -> Result<ForwardedAnswer, NoAnswer> {
        let (done, is_done) = oneshot::channel();
        self.0.try_send((request, done)).map_err(|_| NoAnswer::Busy)?;
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
