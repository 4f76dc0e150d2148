//! The phases of an ingestion, one after another.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ramlet_testdata::mix;
use serde::Serialize;
use serde_json::json;

use super::made::Made;
use super::options::{Described, IngestOptions, Source};
use super::phase::Phase;
use super::place::{Place, Served};
use super::sample::Sample;
use super::sampler::Sampler;
use crate::files::{Rows, open_rows};
use crate::host::cgroup::MemoryFigures;
use crate::traffic::api::{Api, collection_path};
use crate::traffic::fill::fill;

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

/// The collection that is made and removed.
const COLLECTION: &str = "ramlet-bench-ingest";
/// Ids of a request that deletes.
const BATCH_IDS: usize = 2_000;

/// Runs all phases; `say` is told of each. What was made is gone at the end, also after a failure.
pub fn run(options: &IngestOptions, say: &mut dyn FnMut(&str)) -> Result<Ingest> {
    options.check()?;
    let mut rows: Box<dyn Rows> = match &options.source {
        Source::Made { dims } => Box::new(Made::new(*dims, options.points, options.seed)),
        Source::File { path, key } => open_rows(path, key)?,
    };
    let (points, dims) = (options.points.min(rows.rows()), rows.dim());
    if points == 0 {
        bail!("the file has no rows");
    }
    let place = Place::make(options)?;
    let mut served = Served::start(options, place.as_ref())?;
    let sampler = Sampler::new(served.pid, served.group_directory(), served.target.clone());
    let outcome = thread::scope(|scope| {
        let sampling = scope.spawn(|| sampler.run(options.every));
        let mut work = Work {
            options,
            served: &served,
            sampler: &sampler,
            api: Api::new(served.target.clone()),
            phases: Vec::new(),
            say,
        };
        let outcome = work.all(rows.as_mut(), points);
        if outcome.is_err() && !served.is_own() {
            let _ = work.api.drop_collection(COLLECTION);
        }
        sampler.stop();
        sampling.thread().unpark();
        outcome.map(|deleted| (deleted, work.phases))
    });
    // A server that has died explains more than the connection that broke.
    let (deleted, phases) = outcome.map_err(|error| match served.failure() {
        Some(words) => error.context(words),
        None => error,
    })?;
    let samples = sampler.into_samples();
    Ok(Ingest {
        options: options.described(dims),
        points,
        deleted,
        phases: with_peaks(phases, &samples),
        group: served.group_memory(),
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
    served: &'a Served<'a>,
    sampler: &'a Sampler,
    api: Api,
    phases: Vec<Ended>,
    say: &'a mut dyn FnMut(&str),
}

/// What a collection says of itself.
struct State {
    is_green: bool,
    points: u64,
    indexed: u64,
}

impl Work<'_> {
    /// All phases; how many points were deleted.
    fn all(&mut self, rows: &mut dyn Rows, points: u64) -> Result<u64> {
        self.phase(Phase::Start, true, &mut |_| Ok(()))?;
        self.phase(Phase::Load, false, &mut |work| work.load(rows, points))?;
        self.phase(Phase::Index, false, &mut |work| {
            work.until(&|state| state.is_green || state.indexed >= points)
        })?;
        self.phase(Phase::Merge, true, &mut |work| work.until_green(points))?;
        let going = going(points, self.options.delete);
        self.phase(Phase::Delete, false, &mut |work| work.delete(&going))?;
        let left = points - going.len() as u64;
        self.phase(Phase::Compact, true, &mut |work| work.until_green(left))?;
        self.phase(Phase::Release, true, &mut |work| {
            work.sampler.points.store(0, Ordering::Relaxed);
            work.sampler.segments.store(u64::MAX, Ordering::Relaxed);
            work.api.drop_collection(COLLECTION)
        })?;
        Ok(going.len() as u64)
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

    /// A collection that a killed run left in a server that goes on is removed first.
    fn load(&mut self, rows: &mut dyn Rows, points: u64) -> Result<()> {
        if self.api.collection(COLLECTION, None)?.is_some() {
            self.api.drop_collection(COLLECTION)?;
        }
        let distance = self.options.distance.api_name();
        let settings = json!({ "vectors": { "size": rows.dim(), "distance": distance } });
        self.api.create(COLLECTION, &settings)?;
        let sent = &self.sampler.points;
        fill(&self.served.target, COLLECTION, rows, points, &mut |read| {
            sent.store(read, Ordering::Relaxed);
        })?;
        Ok(())
    }

    fn delete(&mut self, going: &[u64]) -> Result<()> {
        let path = format!("{}/points/delete?wait=true", collection_path(COLLECTION));
        for ids in going.chunks(BATCH_IDS) {
            self.api.call("POST", &path, Some(&json!({ "points": ids })))?;
            self.sampler.points.fetch_sub(ids.len() as u64, Ordering::Relaxed);
        }
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
        let answer = self.api.call("GET", &collection_path(COLLECTION), None)?;
        let result = &answer["result"];
        let number = |name: &str| result[name].as_u64();
        if result["status"] == "red" {
            bail!("the collection is red: {}", result["optimizer_status"]);
        }
        if let Some(segments) = number("segments_count") {
            self.sampler.segments.store(segments, Ordering::Relaxed);
        }
        Ok(State {
            is_green: result["status"] == "green",
            points: number("points_count").unwrap_or(0),
            indexed: number("indexed_vectors_count").unwrap_or(0),
        })
    }
}

/// The points among `0..points` that are to go: any of them, in no order.
fn going(points: u64, percent: u64) -> Vec<u64> {
    let goes = |id: &u64| mix(id.wrapping_add(1)) % 100 < percent;
    (0..points).filter(goes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_the_share_goes() {
        let count = going(10_000, 80).len();
        assert!((7_800..8_200).contains(&count), "{count}");
        assert_eq!((going(1_000, 0).len(), going(1_000, 100).len()), (0, 1_000));
    }
}
