//! The phases of an ingestion, one after another.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::api::{Api, State};
use super::load;
use super::options::{Described, IngestOptions};
use super::sample::Sample;
use super::sampler::Sampler;
use super::server::Server;
use super::vectors::Vectors;
use crate::cgroup::MemoryFigures;

/// What the server is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Nothing yet.
    Start,
    /// Points are sent.
    Load,
    /// Until all of them are indexed.
    Index,
    /// Until the server is green: nothing is left to be merged.
    Merge,
    /// Points are deleted.
    Delete,
    /// Until it is green again.
    Compact,
    /// The collection is removed.
    Release,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Start => "start",
            Phase::Load => "load",
            Phase::Index => "index",
            Phase::Merge => "merge",
            Phase::Delete => "delete",
            Phase::Compact => "compact",
            Phase::Release => "release",
        }
    }
}

/// A phase that is over.
#[derive(Debug, Clone, Serialize)]
pub struct Ended {
    pub phase: Phase,
    pub seconds: f64,
    /// The most within the phase, of what was sampled.
    pub rss_peak: u64,
    /// At its end.
    pub last: Sample,
}

/// All that was seen.
#[derive(Debug, Clone, Serialize)]
pub struct Ingest {
    pub options: Described,
    pub points: u64,
    pub deleted: u64,
    pub phases: Vec<Ended>,
    /// Of the server's group, at the end.
    pub group: Option<MemoryFigures>,
    pub samples: Vec<Sample>,
}

impl Ingest {
    pub fn after(&self, phase: Phase) -> Option<&Sample> {
        self.phases
            .iter()
            .find(|ended| ended.phase == phase)
            .map(|ended| &ended.last)
    }
}

const POLL: Duration = Duration::from_millis(250);
/// A server that isn't green by then never will be.
const GREEN_WITHIN: Duration = Duration::from_secs(4 * 3600);
/// A server may turn green a moment before it sees that there is work.
const GREEN_FOR: Duration = Duration::from_millis(1500);

/// Runs all phases; `say` is told of each. What was made is gone at the end, also after a failure.
pub fn run(options: &IngestOptions, say: &mut dyn FnMut(&str)) -> Result<Ingest> {
    options.check()?;
    let mut vectors = Vectors::open(options)?;
    let mut server = Server::start(options)?;
    let sampler = Sampler::new(server.pid(), server.group_directory(), server.target().clone());
    let outcome = thread::scope(|scope| {
        let sampling = scope.spawn(|| sampler.run(options.every));
        let mut work = Work {
            options,
            server: &server,
            sampler: &sampler,
            api: Api::new(server.target().clone()),
            phases: Vec::new(),
            say,
        };
        let outcome = work.all(&mut vectors);
        if outcome.is_err() && !server.is_own() {
            let _ = work.api.remove();
        }
        sampler.stop();
        sampling.thread().unpark();
        outcome.map(|deleted| (deleted, work.phases))
    });
    // A server that has died explains more than the connection that broke.
    let (deleted, phases) = outcome.map_err(|error| match server.last_words() {
        Some(words) => error.context(words),
        None => error,
    })?;
    let samples = sampler.into_samples();
    Ok(Ingest {
        options: options.described(vectors.dims()),
        points: vectors.count(),
        deleted,
        phases: with_peaks(phases, &samples),
        group: server.group_memory(),
        samples,
    })
}

fn with_peaks(mut phases: Vec<Ended>, samples: &[Sample]) -> Vec<Ended> {
    for ended in &mut phases {
        let of_phase = samples.iter().filter(|s| s.phase == ended.phase.name());
        ended.rss_peak = of_phase.map(|s| s.process.rss).max().unwrap_or(0);
    }
    phases
}

/// What the phases share.
struct Work<'a> {
    options: &'a IngestOptions,
    server: &'a Server,
    sampler: &'a Sampler,
    api: Api,
    phases: Vec<Ended>,
    say: &'a mut dyn FnMut(&str),
}

impl Work<'_> {
    /// All phases; how many points were deleted.
    fn all(&mut self, vectors: &mut Vectors) -> Result<u64> {
        let (count, dims) = (vectors.count(), vectors.dims());
        self.phase(Phase::Start, true, &mut |_| Ok(()))?;
        self.phase(Phase::Load, false, &mut |work| {
            work.api.create(work.options, dims)?;
            let sent = &work.sampler.points;
            load::upsert(work.server.target(), vectors, work.options.parallel, sent)
        })?;
        self.phase(Phase::Index, false, &mut |work| {
            work.until(&|state| state.is_green || state.indexed >= count)
        })?;
        self.phase(Phase::Merge, true, &mut |work| work.until_green(count))?;
        let mut deleted = 0;
        self.phase(Phase::Delete, false, &mut |work| {
            let (target, left) = (work.server.target(), &work.sampler.points);
            deleted = load::delete(target, count, work.options.delete, left)?;
            Ok(())
        })?;
        self.phase(Phase::Compact, true, &mut |work| {
            work.until_green(count - deleted)
        })?;
        self.phase(Phase::Release, true, &mut |work| work.api.remove())?;
        Ok(deleted)
    }

    /// One phase, and the sample at its end: after a rest if the server is to be quiet then.
    fn phase(
        &mut self,
        phase: Phase,
        rests: bool,
        doing: &mut dyn FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        (self.say)(phase.name());
        self.sampler.begin(phase);
        let start = Instant::now();
        doing(self).with_context(|| format!("in the phase '{}'", phase.name()))?;
        let seconds = start.elapsed().as_secs_f64();
        if rests {
            thread::sleep(self.options.settle);
        }
        let Some(last) = self.sampler.take() else {
            bail!("the server's process is gone after the phase '{}'", phase.name());
        };
        self.phases.push(Ended {
            phase,
            seconds,
            rss_peak: last.process.rss,
            last,
        });
        Ok(())
    }

    /// Green for a while, and with as many points as it should have.
    fn until_green(&mut self, points: u64) -> Result<()> {
        loop {
            self.until(&|state| state.is_green)?;
            thread::sleep(GREEN_FOR);
            let state = self.look()?;
            if state.is_green {
                if state.points != points {
                    bail!("the collection has {} points, not {points}", state.points);
                }
                return Ok(());
            }
        }
    }

    fn until(&mut self, done: &dyn Fn(&State) -> bool) -> Result<()> {
        let start = Instant::now();
        while !done(&self.look()?) {
            if start.elapsed() > GREEN_WITHIN {
                bail!("it isn't done after {} hours", GREEN_WITHIN.as_secs() / 3600);
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn look(&mut self) -> Result<State> {
        let state = self.api.state()?;
        if let Some(segments) = state.segments {
            self.sampler.segments.store(segments, Ordering::Relaxed);
        }
        Ok(state)
    }
}
