//! Requests that took long, with what they spent their time on: a few of the last ones, for `GET /profiler/slow_requests` and the log.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ramlet_memory::{Consumer, Reservation};
use serde_json::{Value, json};

use super::steps::{Searched, Steps, StepsUs};
use crate::access::audit::timestamp;
use crate::limits;
use crate::wire::explain::{explained_within, meaning};
use crate::wire::explain_words::millis;

/// From when on a request is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlowQuery {
    /// From a second on, and without the steps: what the count of requests knows anyway.
    #[default]
    Unset,
    /// From so long on; the steps of all requests are noted.
    From(Duration),
    Off,
}

/// See the module.
pub struct SlowLog {
    slow: SlowQuery,
    entries: Mutex<VecDeque<Entry>>,
    from: Consumer,
    requests: AtomicU64,
    /// When the last line was logged, and requests since that had none.
    logged: Mutex<(Option<Instant>, u64)>,
}

struct Entry {
    name: &'static str,
    collection: String,
    took: Duration,
    timestamp: String,
    count: u64,
    /// JSON.
    body: String,
    request_id: String,
    explain: String,
    means: Vec<String>,
    us: StepsUs,
    _held: Reservation,
}

/// A request that is over.
pub struct Ended<'a> {
    /// By the name of the audit log.
    pub name: &'static str,
    pub path: &'a str,
    /// Of the client, or made: [`crate::request::request_id`].
    pub id: &'a str,
    pub collection: Option<&'a str>,
    pub status: u16,
    pub took: Duration,
    pub body: Option<&'a Bytes>,
    pub steps: Option<&'a Arc<Steps>>,
}

impl SlowLog {
    /// `from`: pays for the entries.
    pub fn new(slow: SlowQuery, from: Consumer) -> SlowLog {
        SlowLog {
            slow,
            entries: Mutex::default(),
            from,
            requests: AtomicU64::new(0),
            logged: Mutex::default(),
        }
    }

    /// How long a request takes from which on it is slow.
    pub fn threshold(&self) -> Option<Duration> {
        match self.slow {
            SlowQuery::Unset => Some(limits::SLOW_DEFAULT),
            SlowQuery::From(threshold) => Some(threshold),
            SlowQuery::Off => None,
        }
    }

    /// Steps of a request that begins, where they are noted of all.
    pub fn steps(&self, start: Instant) -> Option<Arc<Steps>> {
        matches!(self.slow, SlowQuery::From(_)).then(|| Steps::new(start))
    }

    /// Of a body what an entry shows of it, if need be.
    pub fn kept(&self, body: &Bytes) -> Option<Bytes> {
        self.threshold()?;
        Some(match body.len() {
            // Shared: it is gone with the request.
            ..=limits::PARSE_INLINE_BYTES => body.clone(),
            _ => Bytes::copy_from_slice(&body[..limits::SLOW_BODY_BYTES]),
        })
    }

    /// The same of a message of gRPC; it becomes JSON when it proves to be slow.
    pub fn kept_message(&self, message: &Bytes) -> Option<Bytes> {
        self.threshold()?;
        (message.len() <= limits::SLOW_MESSAGE_BYTES).then(|| message.clone())
    }

    pub fn is_slow(&self, took: Duration) -> bool {
        self.threshold().is_some_and(|threshold| took >= threshold)
    }

    /// Slow requests since the start.
    pub fn count(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Keeps it and logs it, if it took long.
    pub fn note(&self, ended: &Ended<'_>) {
        if !self.is_slow(ended.took) {
            return;
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        let us = ended.steps.map(|steps| steps.us()).unwrap_or_default();
        let means: Vec<String> = match ended.steps {
            None => Vec::new(),
            Some(steps) => steps.with_searches(|all| all.iter().flat_map(|one| meaning(one, us)).collect()),
        };
        self.log(ended, us, &means);
        let explain = ended
            .steps
            .filter(|steps| steps.with_searches(|all| !all.is_empty()));
        let explain = explain.and_then(|steps| explained_within(steps, false, limits::SLOW_EXPLAIN_BYTES));
        let entry = (
            ended
                .body
                .map_or_else(|| "null".to_owned(), |body| shortened(body)),
            explain.unwrap_or_else(|| "null".to_owned()),
        );
        self.keep(ended, entry, means, us);
    }

    fn keep(&self, ended: &Ended<'_>, (body, explain): (String, String), means: Vec<String>, us: StepsUs) {
        let collection = ended.collection.unwrap_or_default().to_owned();
        let mut entries = self.lock();
        let same = |e: &Entry| e.name == ended.name && e.collection == collection && e.body == body;
        let before = entries.iter().position(same).and_then(|at| entries.remove(at));
        let count = 1 + before.as_ref().map_or(0, |entry| entry.count);
        // Of the same request the slowest run is shown.
        if let Some(mut before) = before.filter(|before| before.took >= ended.took) {
            before.count = count;
            entries.push_back(before);
            return;
        }
        let texts = ended.id.len()
            + body.len()
            + explain.len()
            + collection.len()
            + means.iter().map(String::len).sum::<usize>();
        let bytes = (size_of::<Entry>() + texts) as u64 + ENTRY_BYTES_MORE;
        let held = loop {
            match self.from.reserve(bytes) {
                Ok(held) if entries.len() < limits::SLOW_ENTRIES => break held,
                // The oldest makes room; where none is left, memory is so short that this one isn't kept.
                _ if entries.pop_front().is_none() => return,
                _ => {}
            }
        };
        entries.push_back(Entry {
            name: ended.name,
            collection,
            took: ended.took,
            timestamp: timestamp(),
            count,
            body,
            request_id: ended.id.to_owned(),
            explain,
            means,
            us,
            _held: held,
        });
    }

    /// A line, at most one a second: what is slow for one reason is slow for all.
    fn log(&self, ended: &Ended<'_>, us: StepsUs, means: &[String]) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if logged.0.is_some_and(|last| now - last < limits::LOG_PERIOD) {
            logged.1 += 1;
            return;
        }
        let unlogged = std::mem::replace(&mut *logged, (Some(now), 0)).1;
        drop(logged);
        let collection = ended.collection.unwrap_or_default();
        let took_ms = ended.took.as_micros() as f64 / 1e3;
        let meaning = match (means.is_empty(), ended.steps) {
            (false, _) => means.join("; "),
            (true, Some(steps)) => steps.with_searches(|all| longest_step(all, us, ended.took)),
            (true, None) => "start with --slow-query 100ms to record the steps of slow requests".to_owned(),
        };
        tracing::warn!(
            request = ended.name,
            path = ended.path,
            request_id = ended.id,
            collection,
            status = ended.status,
            took_ms,
            memory_wait_us = us.memory_wait,
            queue_us = us.queue,
            others_unlogged = unlogged,
            "slow request: {meaning}"
        );
    }

    /// The slowest `limit` of those kept whose names have `part` in them, slowest first, as the API has them.
    pub fn told(&self, limit: usize, part: Option<&str>) -> Vec<Value> {
        let entries = self.lock();
        let mut all: Vec<&Entry> = entries
            .iter()
            .filter(|entry| part.is_none_or(|part| entry.name.contains(part)))
            .collect();
        all.sort_by_key(|entry| std::cmp::Reverse(entry.took));
        all.into_iter().take(limit).map(Entry::told).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an entry takes beside itself and its long texts.
const ENTRY_BYTES_MORE: u64 = 128;

impl Entry {
    fn told(&self) -> Value {
        let json = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        json!({
            "collection_name": self.collection,
            "duration": self.took.as_micros() as f64 / 1e6,
            "datetime": self.timestamp,
            "request_name": self.name,
            "request_id": self.request_id,
            "approx_count": self.count,
            "request_body": json(&self.body),
            "memory_wait_us": self.us.memory_wait,
            "queue_us": self.us.queue,
            "meaning": self.means,
            "explain": json(&self.explain),
        })
    }
}

/// Numbers of a list that are shown: a query of 768 says no more.
const NUMBERS_SHOWN: usize = 3;

/// JSON text with its long lists of numbers cut, at most [`limits::SLOW_BODY_BYTES`]: as a JSON string where more is left, or it isn't JSON.
fn shortened(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let cut = without_numbers(&text);
    if cut.len() <= limits::SLOW_BODY_BYTES && serde_json::from_str::<serde::de::IgnoredAny>(&cut).is_ok() {
        return cut;
    }
    Value::from(begin_of(&cut, limits::SLOW_BODY_BYTES)).to_string()
}

/// The first letters of a text, of so many bytes at most.
pub fn begin_of(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Replaces what follows the first numbers of each list of numbers by one text that counts them.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(2 * limits::SLOW_BODY_BYTES));
    let mut rest = text;
    while let Some(at) = rest.find(['[', '"']) {
        let (before, found) = rest.split_at(at);
        out.push_str(before);
        if let Some(string) = found.strip_prefix('"') {
            let end = end_of_string(string);
            out.push_str(&found[..1 + end]);
            rest = &string[end..];
            continue;
        }
        let inner = &found[1..];
        let end = inner.find(|c: char| !is_of_numbers(c)).unwrap_or(inner.len());
        let numbers: Vec<&str> = inner[..end].split(',').collect();
        out.push('[');
        if inner[end..].starts_with(']') && numbers.len() > 2 * NUMBERS_SHOWN {
            let shown: Vec<&str> = numbers[..NUMBERS_SHOWN].iter().map(|n| n.trim()).collect();
            let more = numbers.len() - NUMBERS_SHOWN;
            out.push_str(&format!("{},\"{more} more\"", shown.join(",")));
            rest = &inner[end..];
        } else {
            rest = inner;
        }
    }
    out.push_str(rest);
    out
}

fn is_of_numbers(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, ',' | '.' | '-' | '+' | 'e' | 'E' | ' ' | '\n' | '\r' | '\t')
}

/// Bytes to the end of a string, its last quote included.
fn end_of_string(string: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in string.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    string.len()
}

/// Where most of its time went, for a request of which nothing else is to be said.
fn longest_step(searches: &[Searched], us: StepsUs, took: Duration) -> String {
    let sum = |of: fn(&Searched) -> u64| searches.iter().map(of).sum::<u64>() / 1_000;
    let total = took.as_micros() as u64;
    let steps = [
        (us.admission, "receiving and parsing the request"),
        (us.memory_wait, "waiting for memory"),
        (us.queue, "waiting for a search thread"),
        (
            sum(|one| one.cost.total_ns.saturating_sub(one.cost.collect_ns)),
            "searching",
        ),
        (
            us.fetch + sum(|one| one.cost.collect_ns),
            "reading ids, payloads and vectors",
        ),
        (us.encode, "writing the response"),
    ];
    let noted: u64 = steps.iter().map(|(us, _)| us).sum();
    let rest = (
        total.saturating_sub(noted),
        "carrying it out, waits for the log and for other requests included",
    );
    let (longest, step) = steps
        .into_iter()
        .chain([rest])
        .max_by_key(|(us, _)| *us)
        .unwrap_or(rest);
    format!("{} of {} went into {step}", millis(longest), millis(total))
}

#[cfg(test)]
mod tests {
    use ramlet_memory::Ledger;

    use super::*;

    fn log(slow: SlowQuery, bytes: u64) -> SlowLog {
        let ledger = Ledger::new(bytes);
        SlowLog::new(slow, ledger.consumer("slow requests", bytes))
    }

    fn note(log: &SlowLog, name: &'static str, ms: u64, body: &'static str) {
        let body = Bytes::from_static(body.as_bytes());
        log.note(&Ended {
            name,
            path: "/a",
            id: "r1",
            collection: Some("c"),
            status: 200,
            took: Duration::from_millis(ms),
            body: Some(&body),
            steps: None,
        });
    }

    #[test]
    fn what_has_no_other_meaning_names_its_longest_step() {
        let us = StepsUs {
            admission: 2_000,
            fetch: 1_000,
            ..StepsUs::default()
        };
        let of = |ms| longest_step(&[], us, Duration::from_millis(ms));
        assert_eq!(
            of(4),
            "2.0 ms of 4.0 ms went into receiving and parsing the request"
        );
        assert_eq!(
            of(23),
            "20.0 ms of 23.0 ms went into carrying it out, waits for the log and for other requests included"
        );
    }

    #[test]
    fn the_slowest_first_and_the_same_once() {
        let log = log(SlowQuery::From(Duration::from_millis(100)), 1 << 20);
        for (name, ms, body) in [
            ("query", 99, "{}"),
            ("query", 200, "{\"a\":1}"),
            ("query", 500, "{\"a\":2}"),
            ("query", 300, "{\"a\":1}"),
            ("query", 250, "{\"a\":1}"),
            ("upsert_points", 400, "{}"),
        ] {
            note(&log, name, ms, body);
        }
        let told = log.told(10, None);
        let of = |told: &[Value]| -> Vec<(f64, u64)> {
            let each = told.iter();
            each.map(|e| {
                (
                    e["duration"].as_f64().unwrap(),
                    e["approx_count"].as_u64().unwrap(),
                )
            })
            .collect()
        };
        assert_eq!(of(&told), [(0.5, 1), (0.4, 1), (0.3, 3)]);
        assert_eq!(
            (&told[2]["request_body"]["a"], &told[2]["request_id"]),
            (&json!(1), &json!("r1"))
        );
        assert_eq!(of(&log.told(1, Some("query"))), [(0.5, 1)]);
        assert_eq!(log.count(), 5);
    }

    #[test]
    fn off_is_off_and_unset_is_a_second() {
        for (slow, kept) in [(SlowQuery::Off, 0), (SlowQuery::Unset, 1)] {
            let log = log(slow, 1 << 20);
            note(&log, "query", 999, "{}");
            note(&log, "query", 1_000, "{}");
            assert_eq!(log.told(10, None).len(), kept, "{slow:?}");
            assert!(log.steps(Instant::now()).is_none(), "{slow:?}");
        }
        let log = log(SlowQuery::From(Duration::ZERO), 1 << 20);
        assert!(log.steps(Instant::now()).is_some());
    }

    #[test]
    fn it_holds_no_more_than_it_may() {
        let log = log(SlowQuery::From(Duration::ZERO), 1_200);
        let ledger = log.from.ledger().clone();
        for body in [
            "{\"a\":1}",
            "{\"a\":2}",
            "{\"a\":3}",
            "{\"a\":4}",
            "{\"a\":5}",
            "{\"a\":6}",
        ] {
            note(&log, "query", 5, body);
        }
        let told = log.told(10, None);
        assert!(!told.is_empty() && told.len() < 6, "{}", told.len());
        assert_eq!(told.last().unwrap()["request_body"]["a"], 6, "the newest stay");
        assert!(ledger.used() > 0 && ledger.peak() <= 1_200);
        drop(log);
        assert_eq!(ledger.used(), 0);
    }

    #[test]
    fn bodies_are_shown_without_their_vectors() {
        let check = |body: &str, expected: &str| assert_eq!(shortened(body.as_bytes()), expected, "{body}");
        check("{\"a\":[1,2,3,4,5,6]}", "{\"a\":[1,2,3,4,5,6]}");
        check(
            "{\"query\":[0.5, -1e3, 2,4,5,6,7,8.0],\"s\":\"[1,2,3,4,5,6,7,8]\"}",
            "{\"query\":[0.5,-1e3,2,\"5 more\"],\"s\":\"[1,2,3,4,5,6,7,8]\"}",
        );
        check(
            "[[1,2,3,4,5,6,7],[\"\\\"[\"]]",
            "[[1,2,3,\"4 more\"],[\"\\\"[\"]]",
        );
        check("{\"cut", "\"{\\\"cut\"");
        let long = format!("{{\"a\":\"{}\"}}", "ä".repeat(limits::SLOW_BODY_BYTES));
        let short = shortened(long.as_bytes());
        assert!(short.len() < limits::SLOW_BODY_BYTES + 32);
        assert!(
            serde_json::from_str::<String>(&short)
                .unwrap()
                .starts_with("{\"a\":\"ä")
        );
        assert_eq!(shortened(b"\xff"), "\"\u{fffd}\"");
    }
}
