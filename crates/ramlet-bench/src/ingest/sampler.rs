//! Takes samples while something else happens.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::phase::Phase;
use super::sample::{Group, Heap, Process, Sample};
use crate::traffic::http::{Connection, Target};

/// What is watched, and what was seen.
pub(crate) struct Sampler {
    pid: u32,
    group: Option<PathBuf>,
    start: Instant,
    /// Points in the collection, as far as they are acknowledged.
    pub points: AtomicU64,
    /// As the collection said last; u64::MAX: nothing.
    pub segments: AtomicU64,
    stop: AtomicBool,
    state: Mutex<State>,
}

struct State {
    target: Target,
    connection: Option<Connection>,
    phase: Phase,
    samples: Vec<Sample>,
}

/// A server that is busy may take its time; a sample without its heap isn't worth more.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

impl State {
    /// By `/metrics`; None where the server doesn't tell.
    fn heap(&mut self) -> Option<Heap> {
        let mut connection = match self.connection.take().filter(Connection::is_open) {
            Some(open) => open,
            None => self.target.connect(ANSWER_WITHIN).ok()?,
        };
        let mut request = Vec::new();
        self.target.render("GET", "/metrics", b"", &mut request);
        let answer = connection.ask(&request).ok()?;
        let heap = match answer.status {
            200 => Heap::parse(&String::from_utf8_lossy(answer.body)),
            _ => None,
        };
        self.connection = Some(connection);
        heap
    }
}

impl Sampler {
    pub(crate) fn new(pid: u32, group: Option<PathBuf>, target: Target) -> Sampler {
        Sampler {
            pid,
            group,
            start: Instant::now(),
            points: AtomicU64::new(0),
            segments: AtomicU64::new(u64::MAX),
            stop: AtomicBool::new(false),
            state: Mutex::new(State {
                target,
                connection: None,
                phase: Phase::Start,
                samples: Vec::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, phase: Phase) {
        self.state().phase = phase;
    }

    /// Samples until [`Sampler::stop`], for a thread of its own.
    pub(crate) fn run(&self, every: Duration) {
        while !self.stop.load(Ordering::Relaxed) && self.take().is_some() {
            thread::park_timeout(every);
        }
    }

    /// The thread ends at its next look; it is to be unparked.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// One more sample; None when the process is gone.
    pub(crate) fn take(&self) -> Option<Sample> {
        let mut state = self.state();
        let heap = state.heap();
        let segments = self.segments.load(Ordering::Relaxed);
        let sample = Sample {
            at_s: self.start.elapsed().as_secs_f64(),
            phase: state.phase.name(),
            points: self.points.load(Ordering::Relaxed),
            segments: (segments != u64::MAX).then_some(segments),
            process: Process::of(self.pid)?,
            heap,
            group: self.group.as_deref().and_then(Group::of),
        };
        state.samples.push(sample);
        Some(sample)
    }

    pub(crate) fn into_samples(self) -> Vec<Sample> {
        self.state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .samples
    }
}
