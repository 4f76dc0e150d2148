//! Sending vectors to a collection. Ids are row numbers, so that the truth of a set is the truth of the answers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use ramlet_testdata::process::thread_cpu_ns;

use super::api::{collection_path, sentence};
use super::http::Target;
use crate::files::Rows;
use crate::json::write_vector;

/// Requests under way at once.
const CONNECTIONS: usize = 2;
/// Of a request: its own cost vanishes, and a server of 32 MB takes it.
const BODY_BYTES: usize = 256 << 10;
const BATCH_POINTS_MAX: usize = 1_000;
/// How long a server may answer nothing but 429 to one request.
const BUSY_FOR: Duration = Duration::from_secs(600);
/// For an answer: a server that builds a graph of all it has before it takes more needs long for one, on cores that others use too.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3600);

/// What a load took.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Filled {
    pub points: u64,
    /// Until the last point was acknowledged.
    pub seconds: f64,
    /// Of this side.
    pub client_cpu_s: f64,
}

struct Shared<'a> {
    target: &'a Target,
    path: String,
    points_max: AtomicUsize,
    stop: AtomicBool,
    failure: Mutex<Option<anyhow::Error>>,
    cpu_ns: AtomicUsize,
}

/// Points as text, and where each ends.
#[derive(Default)]
struct Batch {
    text: Vec<u8>,
    ends: Vec<usize>,
}

/// Sends the first `points` of `rows`; `show` hears how many were read. Holds a few requests of 256 KiB.
///
/// Waits when the server says 429 and sends less at once when it says 413, as the API's clients do.
pub fn fill(
    target: &Target,
    collection: &str,
    rows: &mut dyn Rows,
    points: u64,
    show: &mut dyn FnMut(u64),
) -> Result<Filled> {
    let mut vector = Vec::new();
    let mut write = |row: u64, out: &mut Vec<u8>| {
        if !rows.read(&mut vector)? {
            bail!("the file ends at row {row} of {points}");
        }
        out.extend_from_slice(format!("{{\"id\":{row},\"vector\":").as_bytes());
        write_vector(&vector, out).with_context(|| format!("row {row}"))?;
        out.push(b'}');
        Ok(())
    };
    fill_points(target, collection, points, &mut write, show)
}

/// As [`fill`], of points of any kind: `write` appends the JSON of point `n`.
pub fn fill_points(
    target: &Target,
    collection: &str,
    points: u64,
    write: &mut dyn FnMut(u64, &mut Vec<u8>) -> Result<()>,
    show: &mut dyn FnMut(u64),
) -> Result<Filled> {
    let started = Instant::now();
    let shared = Shared {
        target,
        path: format!("{}/points?wait=false", collection_path(collection)),
        points_max: AtomicUsize::new(usize::MAX),
        stop: AtomicBool::new(false),
        failure: Mutex::new(None),
        cpu_ns: AtomicUsize::new(0),
    };
    let (sender, receiver) = sync_channel(CONNECTIONS);
    let receiver = Mutex::new(receiver);
    let before = thread_cpu_ns();
    let read = std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| shared.send_all(&receiver));
        }
        read_all(write, points, sender, &shared.stop, show)
    });
    let failure = shared
        .failure
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = failure.or(read.as_ref().err().map(|e| anyhow!("{e:#}"))) {
        return Err(error.context("loading"));
    }
    let cpu_ns = shared.cpu_ns.into_inner() as u64 + (thread_cpu_ns() - before);
    Ok(Filled {
        points: read.unwrap_or(0),
        seconds: started.elapsed().as_secs_f64(),
        client_cpu_s: cpu_ns as f64 / 1e9,
    })
}

fn read_all(
    write: &mut dyn FnMut(u64, &mut Vec<u8>) -> Result<()>,
    points: u64,
    sender: SyncSender<Batch>,
    stop: &AtomicBool,
    show: &mut dyn FnMut(u64),
) -> Result<u64> {
    let mut row = 0;
    while row < points {
        let mut batch = Batch::default();
        while row < points && batch.text.len() < BODY_BYTES && batch.ends.len() < BATCH_POINTS_MAX {
            write(row, &mut batch.text)?;
            batch.text.push(b',');
            batch.ends.push(batch.text.len());
            row += 1;
        }
        show(row);
        // Nobody listens once a sender has failed; its error is the one to tell.
        if stop.load(Ordering::Relaxed) || sender.send(batch).is_err() {
            break;
        }
    }
    Ok(row)
}

impl Shared<'_> {
    fn send_all(&self, receiver: &Mutex<Receiver<Batch>>) {
        let mut connection = None;
        loop {
            let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(batch) = next else { break };
            // After a failure the channel is drained, so that the reading side never blocks.
            if self.stop.load(Ordering::Relaxed) {
                continue;
            }
            if let Err(error) = self.send(&batch, &mut connection) {
                self.stop.store(true, Ordering::Relaxed);
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(error);
            }
        }
        self.cpu_ns.fetch_add(thread_cpu_ns() as usize, Ordering::Relaxed);
    }

    fn send(&self, batch: &Batch, connection: &mut Option<super::http::Connection>) -> Result<()> {
        let (mut from, mut body, mut request) = (0, Vec::new(), Vec::new());
        let started = Instant::now();
        while from < batch.ends.len() {
            let count = self
                .points_max
                .load(Ordering::Relaxed)
                .min(batch.ends.len() - from);
            batch.body(from, from + count, &mut body);
            request.clear();
            self.target.render("PUT", &self.path, &body, &mut request);
            let open = match connection.take().filter(|c| c.is_open()) {
                Some(open) => connection.insert(open),
                None => connection.insert(self.target.connect(WRITE_TIMEOUT)?),
            };
            let answer = open.ask(&request)?;
            match answer.status {
                200..=299 => from += count,
                413 if count > 1 => {
                    self.points_max.fetch_min(count / 2, Ordering::Relaxed);
                }
                429 if started.elapsed() < BUSY_FOR && !self.stop.load(Ordering::Relaxed) => {
                    let seconds = answer.retry_after_s.unwrap_or(1).clamp(1, 10);
                    std::thread::sleep(Duration::from_secs(seconds));
                }
                status => bail!("{status}: {}", sentence(answer.body)),
            }
        }
        Ok(())
    }
}

impl Batch {
    /// Replaces `body` with the request for points `from..to`.
    fn body(&self, from: usize, to: usize, body: &mut Vec<u8>) {
        let start = if from == 0 { 0 } else { self.ends[from - 1] };
        body.clear();
        body.extend_from_slice(b"{\"points\":[");
        // Without the last point's comma.
        body.extend_from_slice(&self.text[start..self.ends[to - 1] - 1]);
        body.extend_from_slice(b"]}");
    }
}
