//! Takes samples while something else happens.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::api::Api;
use super::phases::Phase;
use super::sample::{Group, Heap, Process, Sample};
use crate::http::Target;

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
    api: Api,
    phase: Phase,
    samples: Vec<Sample>,
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
                api: Api::new(target),
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
        let heap = state.api.metrics().and_then(|text| Heap::parse(&text));
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
