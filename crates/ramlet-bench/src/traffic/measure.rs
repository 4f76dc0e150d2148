//! One run of load at one setting, as figures.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::http::Target;
use super::load;
use super::load::{Load, Outcome};
use super::requests::Requests;
use crate::host::server::Used;

/// What one run showed. Latencies in milliseconds, as a client saw them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figures {
    pub setting: String,
    pub queries_per_s: f64,
    pub recall: f64,
    pub latency_ms_mean: f64,
    pub latency_ms_p50: f64,
    pub latency_ms_p95: f64,
    pub latency_ms_p99: f64,
    pub latency_ms_p999: f64,
    pub latency_ms_max: f64,
    pub answered: u64,
    pub seconds: f64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Of the server; None when its processes aren't known.
    pub server_cpu_us_per_query: Option<f64>,
    pub reads_per_query: Option<f64>,
    pub read_bytes_per_query: Option<f64>,
    /// Of the load generator, which shares the machine.
    pub client_cpu_us_per_query: f64,
    /// Asked for, in an open loop.
    pub rate: Option<f64>,
    /// Open loop: the longest that a request was sent after it was due.
    pub behind_ms_max: Option<f64>,
    /// Open loop: requests that had been due and weren't sent before the end. They aren't among the latencies.
    pub unsent: Option<u64>,
}

/// How often it is looked whether a server is at rest, how many times in a row it must be, and for how long that is waited for.
const LOOK: Duration = Duration::from_millis(500);
const LOOKS: usize = 4;
const LOOKS_MAX: usize = 120;
/// What it may read from the disk and use of a core meanwhile.
const REST_BYTES: u64 = 64 << 10;
const REST_CPU: f64 = 0.1;

/// How often a server is warmed up anew that had something to do on account of the load before.
const ROUNDS: usize = 4;

/// Load that isn't counted; then waits until the server does nothing any more that it began on account of it, where that can be told.
/// What it made meanwhile is warmed up as well: an index that it wrote anew for this memory has seen no query yet.
pub fn warm_up(target: &Target, requests: &Requests, load: &Load, used: &dyn Fn() -> Option<Used>) {
    if load.span.is_zero() {
        return;
    }
    for _ in 0..ROUNDS {
        load::run(target, requests, load);
        if looks_until_at_rest(used).is_none_or(|looks| looks <= LOOKS) {
            return;
        }
    }
}

/// `None`: it can't be told, or takes too long.
fn looks_until_at_rest(used: &dyn Fn() -> Option<Used>) -> Option<usize> {
    let (mut before, mut at_rest) = (used()?, 0);
    for looks in 1..=LOOKS_MAX {
        std::thread::sleep(LOOK);
        let last = std::mem::replace(&mut before, used()?);
        let rests = before.disk.read_bytes.saturating_sub(last.disk.read_bytes) <= REST_BYTES
            && before.cpu_s - last.cpu_s <= REST_CPU * LOOK.as_secs_f64();
        at_rest = if rests { at_rest + 1 } else { 0 };
        if at_rest == LOOKS {
            return Some(looks);
        }
    }
    None
}

/// Runs `load` and puts its figures together; `used` tells what the server used so far. Also returns the answers themselves.
pub fn measure(
    target: &Target,
    requests: &Requests,
    truth: &[Vec<u64>],
    load: &Load,
    used: &dyn Fn() -> Option<Used>,
) -> (Figures, Outcome) {
    let before = used();
    let outcome = load::run(target, requests, load);
    let after = used();
    let answered = outcome.answered.max(1) as f64;
    let ms = |quantile| outcome.latencies.percentile(quantile) as f64 / 1e6;
    let each =
        |of: &dyn Fn(&Used) -> f64| Some((of(after.as_ref()?) - of(before.as_ref()?)).max(0.0) / answered);
    let counted = after.is_some_and(|used| used.reads_counted);
    let figures = Figures {
        setting: String::new(),
        queries_per_s: outcome.queries_per_s(),
        recall: outcome.recall(truth),
        latency_ms_mean: outcome.latencies.mean() / 1e6,
        latency_ms_p50: ms(0.5),
        latency_ms_p95: ms(0.95),
        latency_ms_p99: ms(0.99),
        latency_ms_p999: ms(0.999),
        latency_ms_max: outcome.latencies.max() as f64 / 1e6,
        answered: outcome.answered,
        seconds: outcome.seconds,
        errors: outcome.errors.clone(),
        server_cpu_us_per_query: each(&|used| used.cpu_s * 1e6),
        reads_per_query: each(&|used| used.disk.reads as f64).filter(|_| counted),
        read_bytes_per_query: each(&|used| used.disk.read_bytes as f64),
        client_cpu_us_per_query: outcome.client_cpu_s * 1e6 / answered,
        rate: load.rate,
        behind_ms_max: load.rate.map(|_| outcome.behind_s * 1e3),
        unsent: load.rate.map(|_| outcome.unsent),
    };
    (figures, outcome)
}
