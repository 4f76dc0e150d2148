//! Load on a server: closed loop (each connection asks again when it is answered) or open loop (at a rate, whatever the server does).
//!
//! In an open loop a request has a time at which it is due, and its latency counts from then: what waits because all connections
//! are busy has waited (no "coordinated omission", Gil Tene). In a closed loop latency counts from sending; a slow server is asked less.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ramlet_testdata::Latencies;
use ramlet_testdata::process::thread_cpu_ns;

use super::api;
use super::client::{Client, read_ids};
use super::http::Target;
use super::requests::Requests;
use super::wire::Wire;

/// How to ask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// A thread each; so many requests are under way at once at most.
    pub connections: usize,
    /// Requests a second in an open loop; None: a closed one.
    pub rate: Option<f64>,
    /// At least so long ...
    pub span: Duration,
    /// ... and at least so many requests ...
    pub requests_min: u64,
    /// ... but never longer than this.
    pub span_max: Duration,
    /// For each answer.
    pub timeout: Duration,
}

/// Requests of a warm-up, if it can be: a server may look at the first few hundred queries of an index to fit its effort to them.
const WARMING: u64 = 300;
/// How many times as long as asked for it may take then.
const WARMING_LONGER: f64 = 10.0;

impl Load {
    /// What comes before a run: so many seconds, and [`WARMING`] requests unless that takes far longer; nothing for 0 seconds.
    pub fn to_warm_up(connections: usize, rate: Option<f64>, seconds: f64, timeout: Duration) -> Load {
        Load {
            connections,
            rate,
            span: Duration::from_secs_f64(seconds),
            requests_min: WARMING,
            span_max: Duration::from_secs_f64(seconds * WARMING_LONGER),
            timeout,
        }
    }
}

/// What came back.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Answered 2xx.
    pub answered: u64,
    pub seconds: f64,
    pub latencies: Latencies,
    /// By status or what went wrong, and how often.
    pub errors: BTreeMap<String, u64>,
    /// Ids of the first answer to each query; None where there was none.
    pub found: Vec<Option<Vec<u64>>>,
    /// How long that answer took.
    pub first_ns: Vec<Option<u64>>,
    /// Of this side, all threads.
    pub client_cpu_s: f64,
    /// Open loop: the longest that a request was sent after it was due.
    pub behind_s: f64,
    /// Open loop: requests that had been due before the end and weren't sent, since all connections were waiting.
    pub unsent: u64,
}

/// What one thread saw.
#[derive(Default)]
struct Seen {
    answered: u64,
    latencies: Latencies,
    errors: BTreeMap<String, u64>,
    found: Vec<(usize, Vec<u64>, u64)>,
    cpu_ns: u64,
    behind: Duration,
}

/// Errors in a row after which a connection gives up: the server is gone.
const FAILURES_MAX: u32 = 5;
const AFTER_FAILURE: Duration = Duration::from_millis(50);

struct Clock {
    start: Instant,
    next: AtomicU64,
    sent: AtomicU64,
    stop: AtomicBool,
}

impl Outcome {
    pub fn queries_per_s(&self) -> f64 {
        self.answered as f64 / self.seconds.max(1e-9)
    }

    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// How many of the `k` nearest were found, over the queries that were answered; 0 when none was.
    pub fn recall(&self, truth: &[Vec<u64>]) -> f64 {
        let (mut hits, mut wanted) = (0, 0);
        for (found, truth) in self.found.iter().zip(truth) {
            let Some(found) = found else { continue };
            hits += truth.iter().filter(|id| found.contains(id)).count();
            wanted += truth.len();
        }
        hits as f64 / wanted.max(1) as f64
    }
}

/// Sends the requests in turn, beginning again after the last. Never fails: what goes wrong is counted.
pub fn run(target: &Target, requests: &Requests, load: &Load) -> Outcome {
    let clock = Clock {
        start: Instant::now(),
        next: AtomicU64::new(0),
        sent: AtomicU64::new(0),
        stop: AtomicBool::new(requests.is_empty()),
    };
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..load.connections.max(1))
            .map(|_| scope.spawn(|| clock.ask_all(target, requests, load)))
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or_default())
            .collect()
    });
    let mut outcome = Outcome {
        seconds: clock.start.elapsed().as_secs_f64(),
        found: vec![None; requests.len()],
        first_ns: vec![None; requests.len()],
        ..Outcome::default()
    };
    outcome.unsent = clock.unsent(load, outcome.seconds);
    for one in seen {
        outcome.answered += one.answered;
        outcome.latencies.add(&one.latencies);
        outcome.client_cpu_s += one.cpu_ns as f64 / 1e9;
        outcome.behind_s = outcome.behind_s.max(one.behind.as_secs_f64());
        for (error, count) in one.errors {
            *outcome.errors.entry(error).or_default() += count;
        }
        for (at, ids, ns) in one.found {
            outcome.found[at].get_or_insert(ids);
            outcome.first_ns[at].get_or_insert(ns);
        }
    }
    outcome
}

impl Clock {
    /// Of an open loop that ended after so long: what was due and not sent.
    fn unsent(&self, load: &Load, seconds: f64) -> u64 {
        let Some(rate) = load.rate else {
            return 0;
        };
        let due = |seconds: f64| (seconds * rate).ceil() as u64;
        let wanted = due(load.span.as_secs_f64()).max(load.requests_min);
        let due = due(seconds.min(load.span_max.as_secs_f64())).min(wanted);
        due.saturating_sub(self.sent.load(Ordering::Relaxed))
    }

    /// The number of the next request and when it is due; None when it is enough.
    fn next(&self, load: &Load) -> Option<(u64, Instant)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let due = match load.rate {
            Some(rate) => self.start + Duration::from_secs_f64(number as f64 / rate),
            None => now,
        };
        let at = due.max(now) - self.start;
        let is_enough = due - self.start >= load.span && number >= load.requests_min;
        let ends = is_enough || at >= load.span_max || self.stop.load(Ordering::Relaxed);
        (!ends).then_some((number, due))
    }

    fn ask_all(&self, target: &Target, requests: &Requests, load: &Load) -> Seen {
        let (mut seen, mut connection, mut failures) = (Seen::default(), None, 0);
        let mut ids = Vec::new();
        let cpu = thread_cpu_ns();
        while failures < FAILURES_MAX {
            let Some((number, due)) = self.next(load) else {
                break;
            };
            if let Some(wait) = due.checked_duration_since(Instant::now()) {
                std::thread::sleep(wait);
            }
            let at = (number % requests.len() as u64) as usize;
            seen.behind = seen.behind.max(due.elapsed());
            self.sent.fetch_add(1, Ordering::Relaxed);
            match ask(target, load, &mut connection, requests, at) {
                Ok((200..=299, body)) => {
                    failures = 0;
                    seen.answered += 1;
                    let ns = due.elapsed().as_nanos() as u64;
                    seen.latencies.note(ns);
                    // Later answers to the same query say the same.
                    if number < requests.len() as u64 {
                        read_ids(requests.wire(), body, &mut ids);
                        seen.found.push((at, ids.clone(), ns));
                    }
                }
                Ok((status, body)) => {
                    let of = if requests.wire() == Wire::Grpc {
                        "gRPC status "
                    } else {
                        ""
                    };
                    let told = format!("{of}{status}: {}", api::sentence(body));
                    *seen.errors.entry(told).or_default() += 1;
                    std::thread::sleep(AFTER_FAILURE);
                }
                Err(error) => {
                    failures += 1;
                    *seen.errors.entry(error.to_string()).or_default() += 1;
                    std::thread::sleep(AFTER_FAILURE);
                }
            }
        }
        if failures >= FAILURES_MAX {
            self.stop.store(true, Ordering::Relaxed);
        }
        seen.cpu_ns = thread_cpu_ns() - cpu;
        seen
    }
}

fn ask<'c>(
    target: &Target,
    load: &Load,
    connection: &'c mut Option<Client>,
    requests: &Requests,
    at: usize,
) -> std::io::Result<(u16, &'c [u8])> {
    let open = match connection.take().filter(Client::is_open) {
        Some(open) => connection.insert(open),
        None => connection.insert(Client::connect(requests.wire(), target, load.timeout)?),
    };
    let answer = open.ask(requests, at)?;
    Ok((answer.status, answer.body))
}
