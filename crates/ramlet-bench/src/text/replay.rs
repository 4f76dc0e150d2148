//! The query log, sent by so many clients, each answer with its time: speed by place in the log and over time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ramlet_testdata::process::thread_cpu_ns;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::traffic::api::sentence;
use crate::traffic::http::{Connection, Target};
use crate::traffic::requests::Requests;

/// How to send it.
#[derive(Debug, Clone, Copy)]
pub struct Replay<'a> {
    /// Client `n` asks target `n % targets`.
    pub targets: &'a [Target],
    pub requests: &'a Requests,
    pub clients: usize,
    /// Queries to send; the log begins again when it is shorter.
    pub queries: usize,
    pub span_max: Duration,
}

/// What others may see of a replay while it goes on.
#[derive(Debug)]
pub struct Watch {
    pub start: Instant,
    pub answered: AtomicU64,
    /// No more queries are sent.
    pub ended: AtomicBool,
}

/// What came back. Memory: 16 bytes an answer.
#[derive(Debug, Clone, Default)]
pub struct Track {
    /// Answers in the order of their times.
    answers: Vec<Answered>,
    pub errors: BTreeMap<String, u64>,
    /// Documents fetched, over all answers.
    pub hits: u64,
    pub client_cpu_s: f64,
}

#[derive(Debug, Clone, Copy)]
struct Answered {
    /// Since the start.
    at_us: u64,
    took_us: u64,
}

/// A part of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Window {
    pub queries: usize,
    pub seconds: f64,
    pub queries_per_s: f64,
    pub latency_ms_p50: f64,
    pub latency_ms_p99: f64,
    pub latency_ms_max: f64,
}

const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Errors after which a client gives up: the server is gone, or knows no such query.
const FAILURES_MAX: u32 = 5;
const AFTER_FAILURE: Duration = Duration::from_millis(50);

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            start: Instant::now(),
            answered: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }
}

/// Sends it to the end, or as long as it may. Never fails: what goes wrong is counted.
pub fn run(replay: &Replay<'_>, watch: &Watch) -> Track {
    let next = AtomicU64::new(0);
    let tracks: Vec<Track> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..replay.clients.max(1))
            .map(|client| {
                let target = &replay.targets[client % replay.targets.len()];
                let next = &next;
                scope.spawn(move || ask_all(target, replay, next, watch))
            })
            .collect();
        clients
            .into_iter()
            .map(|c| c.join().unwrap_or_default())
            .collect()
    });
    watch.ended.store(true, Ordering::Release);
    let mut all = Track::default();
    for one in tracks {
        all.answers.extend(one.answers);
        all.hits += one.hits;
        all.client_cpu_s += one.client_cpu_s;
        for (error, count) in one.errors {
            *all.errors.entry(error).or_default() += count;
        }
    }
    all.answers.sort_unstable_by_key(|answer| answer.at_us);
    all
}

fn ask_all(target: &Target, replay: &Replay<'_>, next: &AtomicU64, watch: &Watch) -> Track {
    let (mut track, mut connection, mut failures) = (Track::default(), None, 0);
    let cpu = thread_cpu_ns();
    while failures < FAILURES_MAX && watch.start.elapsed() < replay.span_max {
        let number = next.fetch_add(1, Ordering::Relaxed) as usize;
        if number >= replay.queries || replay.requests.is_empty() {
            break;
        }
        let (request, sent) = (
            replay.requests.get(number % replay.requests.len()),
            Instant::now(),
        );
        match ask(target, &mut connection, request) {
            Ok(hits) => {
                failures = 0;
                track.hits += hits as u64;
                track.answers.push(Answered {
                    at_us: watch.start.elapsed().as_micros() as u64,
                    took_us: sent.elapsed().as_micros() as u64,
                });
                watch.answered.fetch_add(1, Ordering::Relaxed);
            }
            Err(told) => {
                failures += 1;
                *track.errors.entry(told).or_default() += 1;
                std::thread::sleep(AFTER_FAILURE);
            }
        }
    }
    track.client_cpu_s = (thread_cpu_ns() - cpu) as f64 / 1e9;
    track
}

/// What is counted of an answer: payloads may have fields of any name.
#[derive(Deserialize)]
struct Answer {
    result: Found,
}

#[derive(Deserialize)]
struct Found {
    points: Vec<IgnoredAny>,
}

/// How many hits were answered; an error is a sentence.
fn ask(target: &Target, connection: &mut Option<Connection>, request: &[u8]) -> Result<usize, String> {
    let open = match connection.take().filter(Connection::is_open) {
        Some(open) => connection.insert(open),
        None => connection.insert(target.connect(ANSWER_TIMEOUT).map_err(|e| e.to_string())?),
    };
    let answer = open.ask(request).map_err(|error| error.to_string())?;
    match answer.status {
        200..=299 => serde_json::from_slice(answer.body)
            .map(|of: Answer| of.result.points.len())
            .map_err(|error| format!("an answer that can't be read: {error}")),
        status => Err(format!("{status}: {}", sentence(answer.body))),
    }
}

impl Track {
    pub fn answered(&self) -> usize {
        self.answers.len()
    }

    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    pub fn whole(&self) -> Window {
        self.window(0, self.answers.len())
    }

    /// Answers `from..to` in the order of time; None unless all are there.
    pub fn between(&self, from: usize, to: usize) -> Option<Window> {
        (from < to && to <= self.answers.len()).then(|| self.window(from, to))
    }

    fn window(&self, from: usize, to: usize) -> Window {
        let began = if from == 0 {
            0
        } else {
            self.answers[from - 1].at_us
        };
        let ended = self.answers[..to].last().map_or(began, |answer| answer.at_us);
        summed(&self.answers[from..to], ended - began)
    }

    /// Answers that came within one of the spans, and those that came outside of all.
    pub fn during(&self, spans: &[(Duration, Duration)]) -> (Window, Window) {
        let spans: Vec<(u64, u64)> = spans
            .iter()
            .map(|(from, to)| (from.as_micros() as u64, to.as_micros() as u64))
            .collect();
        let is_in = |answer: &Answered| {
            spans
                .iter()
                .any(|(from, to)| (*from..*to).contains(&answer.at_us))
        };
        let (inside, outside): (Vec<Answered>, Vec<Answered>) = self.answers.iter().partition(|a| is_in(a));
        let end = self.answers.last().map_or(0, |answer| answer.at_us);
        let of_spans: u64 = spans.iter().map(|(from, to)| to.min(&end) - from.min(&end)).sum();
        (summed(&inside, of_spans), summed(&outside, end - of_spans))
    }

    /// Seconds since the start, and queries a second around then; so many points.
    pub fn over_time(&self, points: usize) -> Vec<(f64, f64)> {
        let end = self.answers.last().map_or(0, |answer| answer.at_us);
        let step = (end / points.max(1) as u64).max(1);
        let mut counts = vec![0u64; points];
        for answer in &self.answers {
            let at = (answer.at_us / step) as usize;
            // The last answer stands on the end of the last step.
            counts[at.min(points - 1)] += 1;
        }
        let seconds = step as f64 / 1e6;
        let point = |(at, count): (usize, u64)| ((at as f64 + 0.5) * seconds, count as f64 / seconds);
        counts.into_iter().enumerate().map(point).collect()
    }
}

fn summed(answers: &[Answered], span_us: u64) -> Window {
    let mut took: Vec<u64> = answers.iter().map(|answer| answer.took_us).collect();
    took.sort_unstable();
    let ms = |quantile: f64| {
        let at = (took.len() as f64 * quantile).ceil() as usize;
        took.get(at.max(1) - 1).map_or(0.0, |us| *us as f64 / 1e3)
    };
    Window {
        queries: answers.len(),
        seconds: span_us as f64 / 1e6,
        queries_per_s: answers.len() as f64 / (span_us as f64 / 1e6).max(1e-9),
        latency_ms_p50: ms(0.5),
        latency_ms_p99: ms(0.99),
        latency_ms_max: ms(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer every `step` microseconds.
    fn steady(count: u64, step: u64) -> Track {
        let answer = |n: u64| Answered {
            at_us: (n + 1) * step,
            took_us: n + 1,
        };
        Track {
            answers: (0..count).map(answer).collect(),
            ..Track::default()
        }
    }

    #[test]
    fn windows_of_a_steady_replay() {
        let track = steady(1_000, 1_000);
        let whole = track.whole();
        assert_eq!(
            (whole.queries, whole.seconds, whole.queries_per_s),
            (1_000, 1.0, 1_000.0)
        );
        assert_eq!(
            (whole.latency_ms_p50, whole.latency_ms_p99, whole.latency_ms_max),
            (0.5, 0.99, 1.0)
        );
        let part = track.between(100, 200).expect("there");
        assert_eq!((part.queries, part.seconds), (100, 0.1));
        assert_eq!(track.between(100, 1_001), None);
        assert_eq!(Track::default().whole().queries_per_s, 0.0);
    }

    #[test]
    fn inside_and_outside_of_spans() {
        let ms = Duration::from_millis;
        let (inside, outside) = steady(1_000, 1_000).during(&[(ms(100), ms(200)), (ms(900), ms(5_000))]);
        assert_eq!((inside.queries, outside.queries), (201, 799));
        assert!((inside.seconds - 0.2).abs() < 1e-9 && (outside.seconds - 0.8).abs() < 1e-9);
    }

    #[test]
    fn speed_over_time() {
        let points = steady(1_000, 1_000).over_time(10);
        assert_eq!(points.len(), 10);
        assert!(
            points.iter().all(|(_, speed)| (speed - 1_000.0).abs() <= 20.0),
            "{points:?}"
        );
    }
}
