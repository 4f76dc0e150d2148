//! The audit log: who requested what, and whether it was allowed.
//!
//! A line of JSON for each request that a key is asked for, written when it is let in or refused, before anything is done. Fields
//! have the names of the API server's log. Payloads, queries, keys and tokens are in none of them.
//!
//! Requests never wait for the disk: their lines go to a queue of a fixed size, whose bytes are held from the start, and a thread
//! hands them on. Lines that find no room, or that can't be written, are counted, told in the server's log, and leave a line
//! `{"timestamp":..., "lost": n}` in the audit log.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::http::Request;
use ramlet::filter::format_datetime;
use ramlet_memory::{Ledger, OverBudget, Reservation};
use serde::Serialize;

use crate::limits;

/// Appends lines to the log; the time, in the form of their timestamps, says which file they belong to.
pub type AuditSink = Box<dyn FnMut(&[u8], &str) -> io::Result<()> + Send>;

/// The address that a connection came from.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// Says where a request comes from, where somebody asks.
pub fn name_peer<B>(request: &mut Request<B>, audit: Option<&Arc<Audit>>, peer: Peer) {
    if audit.is_some() {
        request.extensions_mut().insert(peer);
    }
}

/// The log, while the server runs. [`Audit::close`] writes what waits.
pub struct Audit {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Addresses are those that `X-Forwarded-For` names.
    pub(crate) trusts_forwarded: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    written: AtomicU64,
    lost: AtomicU64,
    _held: Reservation,
}

struct Queue {
    lines: Vec<u8>,
    /// Lines that found no room since the last write.
    lost: u64,
    closed: bool,
}

impl Audit {
    /// Starts the thread that writes.
    pub fn start(
        ledger: &Arc<Ledger>,
        elastic: u64,
        sink: AuditSink,
        trusts_forwarded: bool,
    ) -> io::Result<Arc<Audit>> {
        let half = limits::audit_queue_bytes(elastic);
        let full = |e: OverBudget| io::Error::other(e.to_string());
        let held = ledger
            .keeper("audit log", 2 * half)
            .reserve(2 * half)
            .map_err(full)?;
        let room = usize::try_from(half).unwrap_or(usize::MAX);
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
                lines: Vec::with_capacity(room),
                lost: 0,
                closed: false,
            }),
            changed: Condvar::new(),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            _held: held,
        });
        let writer = Writer {
            shared: shared.clone(),
            lines: Vec::with_capacity(room),
            sink,
            told: None,
            untold: 0,
        };
        let thread = std::thread::Builder::new()
            .name("ramlet-audit".into())
            .stack_size(limits::THREAD_STACK_BYTES)
            .spawn(move || writer.run())?;
        Ok(Arc::new(Audit {
            shared,
            thread: Mutex::new(Some(thread)),
            trusts_forwarded,
        }))
    }

    /// Writes what waits, and ends.
    pub fn close(&self) {
        self.shared.queue().closed = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// Lines that were written, and lines that were not, since the start.
    pub fn counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.shared.written), count(&self.shared.lost))
    }

    /// Puts a line into the queue, or counts it as lost.
    pub(crate) fn note(&self, line: &Line<'_>) {
        let Ok(mut text) = serde_json::to_vec(line) else {
            return;
        };
        text.push(b'\n');
        let mut queue = self.shared.queue();
        let room = queue.lines.capacity() - queue.lines.len();
        if queue.closed || text.len() > room {
            queue.lost += 1;
            return;
        }
        let before = queue.lines.len();
        queue.lines.extend_from_slice(&text);
        // The first wakes the writer, who may let more come; and the one that fills half of the queue, which ends that.
        let half = queue.lines.capacity() / 2;
        if before == 0 || (before < half && queue.lines.len() >= half) {
            self.shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Writer {
    shared: Arc<Shared>,
    lines: Vec<u8>,
    sink: AuditSink,
    told: Option<Instant>,
    /// Lines lost that the server's log doesn't tell yet.
    untold: u64,
}

impl Writer {
    fn run(mut self) {
        /// Between two writes, for more lines to come. A line that comes alone is written at once.
        const PAUSE: Duration = Duration::from_millis(100);
        let shared = self.shared.clone();
        let mut wrote: Option<Instant> = None;
        loop {
            let queue = shared.queue();
            let idle = |queue: &mut Queue| queue.lines.is_empty() && queue.lost == 0 && !queue.closed;
            let queue = shared.changed.wait_while(queue, idle);
            let queue = queue.unwrap_or_else(PoisonError::into_inner);
            let few = |queue: &mut Queue| queue.lines.len() < queue.lines.capacity() / 2 && !queue.closed;
            let pause = wrote.map_or(Duration::ZERO, |at| PAUSE.saturating_sub(at.elapsed()));
            let waited = shared.changed.wait_timeout_while(queue, pause, few);
            let mut queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            std::mem::swap(&mut queue.lines, &mut self.lines);
            let (lost, closed) = (std::mem::take(&mut queue.lost), queue.closed);
            drop(queue);
            self.write(lost);
            wrote = Some(Instant::now());
            if closed {
                return self.report_lost(true);
            }
        }
    }

    /// Writes the lines that were taken, and behind them how many didn't come this far.
    fn write(&mut self, lost: u64) {
        let now = timestamp();
        let mut missing = lost;
        if !self.lines.is_empty() {
            let count = self.lines.iter().filter(|byte| **byte == b'\n').count() as u64;
            match (self.sink)(&self.lines, &now) {
                Ok(()) => _ = self.shared.written.fetch_add(count, Ordering::Relaxed),
                Err(e) => {
                    missing += count;
                    self.because(&e);
                }
            }
            self.lines.clear();
        }
        if missing > 0 {
            self.shared.lost.fetch_add(missing, Ordering::Relaxed);
            self.untold += missing;
            let line = format!("{{\"timestamp\":\"{now}\",\"lost\":{missing}}}\n");
            let _ = (self.sink)(line.as_bytes(), &now);
        }
        self.report_lost(false);
    }

    fn because(&self, e: &io::Error) {
        if self.untold == 0 {
            tracing::error!("the audit log can't be written: {e}");
        }
    }

    /// Says how many lines are missing: at once, then now and then.
    fn report_lost(&mut self, last: bool) {
        let long_ago = self.told.is_none_or(|at| at.elapsed() >= limits::WARNING_PERIOD);
        if self.untold > 0 && (last || long_ago) {
            tracing::error!("{} lines of the audit log were lost", self.untold);
            (self.told, self.untold) = (Some(Instant::now()), 0);
        }
    }
}

/// Now, in the form of the API.
pub(crate) fn timestamp() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format_datetime(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// A line, in the words of the API server's log.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    pub timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'a str>,
    pub api: &'a str,
    pub auth_type: &'a str,
    /// Own: the key may only read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<&'a str>,
    /// Own: tells tokens apart that name no subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_hash: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing_id: Option<&'a str>,
    pub result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn line(api: &str) -> Line<'_> {
        Line {
            timestamp: String::new(),
            method: None,
            api,
            auth_type: "None",
            read_only: false,
            subject: None,
            token_hash: None,
            remote: None,
            collection: None,
            tracing_id: None,
            result: "ok",
            error: None,
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told_in_the_log() {
        let (begins, begun) = mpsc::channel();
        let (goes_on, go_on) = mpsc::channel::<()>();
        let (writes, written) = mpsc::channel();
        let sink = move |lines: &[u8], _: &str| {
            let _ = begins.send(());
            let _ = go_on.recv();
            let _ = writes.send(String::from_utf8(lines.to_vec()).expect("text"));
            Ok(())
        };
        let ledger = Ledger::new(1 << 20);
        let audit = Audit::start(&ledger, 0, Box::new(sink), false).expect("room for the queue");
        let held = ledger
            .report()
            .iter()
            .find(|c| c.name == "audit log")
            .map(|c| c.used);
        assert_eq!(held, Some(2 * limits::audit_queue_bytes(0)));
        audit.note(&line("first"));
        begun.recv().expect("it is being written");
        // The disk hangs: these never wait for it.
        for _ in 0..10_000 {
            audit.note(&line("another"));
        }
        drop(goes_on);
        audit.close();
        let all: Vec<String> = written.try_iter().collect();
        let lines: Vec<&str> = all.iter().flat_map(|lines| lines.lines()).collect();
        let (kept, lost) = audit.counts();
        assert_eq!(kept + lost, 10_001);
        assert_eq!(lines.len() as u64, kept + 1, "one tells of those that are lost");
        let told: serde_json::Value = serde_json::from_str(lines[lines.len() - 1]).expect("JSON");
        assert_eq!(told["lost"], lost);
        assert!(kept > 100 && lost > 1_000, "{kept} {lost}");
    }

    #[test]
    fn lines_that_cannot_be_written_are_lost() {
        let sink = |_: &[u8], _: &str| Err(io::Error::other("no room on the disk"));
        let audit =
            Audit::start(&Ledger::new(1 << 20), 0, Box::new(sink), false).expect("room for the queue");
        audit.note(&line("a"));
        audit.note(&line("b"));
        audit.close();
        assert_eq!(audit.counts(), (0, 2));
        audit.note(&line("late"));
        assert_eq!(audit.counts(), (0, 2), "nobody writes any more");
    }
}
