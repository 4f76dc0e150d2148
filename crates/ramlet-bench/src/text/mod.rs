//! `ramlet bench text`: how fast texts are searched, by threads, searchers, storage and memory.
//!
//! Method of the article "Solid State Drives vs. RAMDirectory": a query log is replayed over an index that is larger than the memory, a
//! stored field of the first 20 hits is fetched, and speed is told over the whole log and between two cut-offs. Beyond it: kinds of queries,
//! an index that is replaced meanwhile, and what the article left open, searches while documents come in.

mod ask;
mod changes;
mod corpus;
mod options;
mod replay;
mod text_article;
mod text_report;
mod text_rig;
mod text_storage;
mod written;

pub use options::TextArgs;
pub use written::write_corpus;

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::host::server::{check_is_disk, check_limits};
use crate::{Machine, Progress};
use ask::Kind;
use changes::{Changes, Updated};
use corpus::Corpus;
use options::Part;
use replay::{Track, Window};
use text_report::Report;
use text_rig::{Conditions, Cost, Loaded, Outcome, Rig, Up};
use text_storage::{Searchers, Storage};

/// A run of the log.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// `served`, or why not.
    pub outcome: String,
    pub whole: Window,
    /// Up to the first cut-off: from cold.
    pub cold: Option<Window>,
    /// Between the cut-offs.
    pub between: Option<Window>,
    /// From the second one on.
    pub warm: Option<Window>,
    pub hits_per_query: f64,
    pub cost: Cost,
    /// Seconds, queries a second.
    pub over_time: Vec<(f64, f64)>,
}

/// A run of the grid.
#[derive(Debug, Clone, Serialize)]
pub struct GridRun {
    #[serde(flatten)]
    pub conditions: Conditions,
    #[serde(flatten)]
    pub run: Run,
}

/// A run of one kind of queries.
#[derive(Debug, Clone, Serialize)]
pub struct KindRun {
    #[serde(flatten)]
    pub conditions: Conditions,
    pub kind: Kind,
    #[serde(flatten)]
    pub run: Run,
}

/// A run while the index was replaced.
#[derive(Debug, Clone, Serialize)]
pub struct ReplaceRun {
    #[serde(flatten)]
    pub run: Run,
    /// Of each replacement, since the start.
    pub spans_s: Vec<(f64, f64)>,
    pub during: Window,
    pub otherwise: Window,
}

/// A run while documents came in.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateRun {
    /// Asked for, in documents a second.
    pub rate: f64,
    pub updated: Updated,
    #[serde(flatten)]
    pub run: Run,
}

/// Points of a curve over time.
const POINTS: usize = 60;
/// Of the log, before a run that is to be warm.
const WARM_SHARE: usize = 5;
/// Clients for each core where much is waited for.
const WAITING: usize = 6;
/// Replacements that a run waits for.
const REPLACEMENTS: usize = 3;

/// Runs all of it; prints the tables.
pub fn run(args: &TextArgs) -> Result<()> {
    let args = args.settled();
    check(&args)?;
    let progress = Progress::new(0);
    progress.show("reading the documents");
    let corpus = Corpus::open(&args)?;
    let rig = Rig::new(&args, &corpus, &progress)?;
    progress.say(format!("loading {} documents", corpus.documents));
    let loaded = rig.load()?;
    let mut report = Report::new(&args, &corpus, loaded);
    for part in &args.parts {
        match part {
            Part::Grid => grid(&rig, &mut report)?,
            Part::Kinds => kinds(&rig, &mut report)?,
            Part::Replace => report.replace = Some(replace(&rig)?),
            Part::Updates => updates(&rig, &mut report)?,
        }
    }
    report.server = rig.about.borrow().clone();
    report.caches_kept = rig.caches_kept.borrow().clone();
    drop(rig);
    drop(progress);
    report.finish()
}

fn check(args: &TextArgs) -> Result<()> {
    args.output.check()?;
    let (from, to) = args.cuts();
    ensure!(
        from < to,
        "--cut {from},{to}: the first must be less than the second"
    );
    ensure!(
        to <= args.log,
        "--cut {from},{to}: the log has {} queries (--log)",
        args.log
    );
    check_is_disk(&args.dir)?;
    if args.storages.contains(&Storage::Ram) {
        let directory = args.ram_dir.display();
        ensure!(
            args.ram_dir.is_dir(),
            "--ram-dir {directory}: there is no such directory"
        );
        ensure!(
            check_is_disk(&args.ram_dir).is_err(),
            "{directory} is on a disk; --ram-dir names a directory in RAM (tmpfs), or leave 'ram' out of --storages"
        );
    }
    check_limits("--memory", &args.memory)?;
    check_limits("--load-memory", &[args.load_memory])
}

/// Every limit of every storage, every number of threads, both kinds of searchers: each a fresh start.
fn grid(rig: &Rig, report: &mut Report) -> Result<()> {
    for &storage in &rig.args.storages {
        for (fraction, memory_bytes) in limits(rig, storage) {
            for &threads in &rig.args.threads {
                for &searchers in &rig.args.searchers {
                    // One searcher of one thread is both.
                    if threads == 1 && searchers != rig.args.searchers[0] {
                        continue;
                    }
                    let conditions = Conditions {
                        storage,
                        fraction,
                        memory_bytes,
                        threads,
                        searchers,
                    };
                    let run = cold_run(rig, &conditions)?;
                    rig.progress.note(text_report::line(&conditions, &run));
                    report.grid.push(GridRun { conditions, run });
                }
            }
        }
    }
    rig.forget_copies()
}

/// The limits of a storage, in shares of the index and in bytes. What lies in RAM has the article's 24 GB of 14.
fn limits(rig: &Rig, storage: Storage) -> Vec<(Option<f64>, u64)> {
    let index = rig.index_bytes.get() as f64;
    let of = |share: f64| (Some(share), ((share * index) as u64).max(rig.args.memory_least.0));
    let mut limits: Vec<(Option<f64>, u64)> = match storage {
        Storage::Ram => vec![of(text_article::fraction(24))],
        _ if !rig.args.memory.is_empty() => rig.args.memory.iter().map(|size| (None, size.0)).collect(),
        _ => rig.args.fractions.iter().map(|share| of(*share)).collect(),
    };
    limits.dedup_by_key(|(_, bytes)| *bytes);
    limits
}

/// From a cold start on.
fn cold_run(rig: &Rig, conditions: &Conditions) -> Result<Run> {
    let mut up = match rig.start(conditions)? {
        Ok(up) => up,
        Err(why) => return Ok(Run::none(why)),
    };
    let requests = rig.requests(Kind::Any, &up);
    let (log, span) = (rig.args.log, Duration::from_secs_f64(rig.args.seconds_max));
    let outcome = rig.replay(&mut up, &requests, conditions.threads, log, span, |_| ())?;
    up.stop();
    Ok(match outcome {
        Ok((track, cost, ())) => Run::of(&track, cost, rig.args.cuts()),
        Err(why) => Run::none(why),
    })
}

/// What the parts beside the grid run under: as many clients as cores, in the limit of the loading.
fn beside(rig: &Rig, storage: Storage) -> Conditions {
    let cores = Machine::here().cores;
    Conditions {
        storage,
        fraction: None,
        memory_bytes: rig.args.load_memory.0,
        threads: cores.clamp(1, 4),
        searchers: Searchers::Shared,
    }
}

/// The storage that they run on when one is enough.
fn on_disk(rig: &Rig) -> Storage {
    let last = rig.args.storages.last();
    last.copied().unwrap_or(Storage::IoUring)
}

/// One kind after the other, each warm: everything was asked once before.
fn kinds(rig: &Rig, report: &mut Report) -> Result<()> {
    for &storage in &rig.args.storages {
        for conditions in warm(rig, storage) {
            let mut up = match rig.start(&conditions)? {
                Ok(up) => up,
                Err(why) => {
                    rig.progress.note(format!("{}: {why}", storage.name()));
                    continue;
                }
            };
            for kind in Kind::ALL {
                let run = warm_run(rig, &mut up, conditions.threads, kind)?;
                rig.progress.note(format!(
                    "{}: {}",
                    kind.name(),
                    text_report::line(&conditions, &run)
                ));
                report.kinds.push(KindRun {
                    conditions,
                    kind,
                    run,
                });
            }
            up.stop();
        }
    }
    rig.forget_copies()
}

/// What the kinds are asked under: memory for all of it, and on a disk the least of the grid's limits. In RAM and where memory is
/// short also with more clients than cores, of which some wait.
fn warm(rig: &Rig, storage: Storage) -> Vec<Conditions> {
    let ample = beside(rig, storage);
    let many = |of: Conditions| Conditions {
        threads: of.threads * WAITING,
        ..of
    };
    if storage == Storage::Ram {
        return vec![ample, many(ample)];
    }
    let least = limits(rig, storage).into_iter().min_by_key(|(_, bytes)| *bytes);
    let scarce = least.filter(|(_, bytes)| *bytes < ample.memory_bytes);
    let scarce = scarce.map(|(fraction, memory_bytes)| Conditions {
        fraction,
        memory_bytes,
        ..ample
    });
    std::iter::once(ample)
        .chain(scarce)
        .chain(scarce.map(many))
        .collect()
}

fn warm_run(rig: &Rig, up: &mut Up<'_>, clients: usize, kind: Kind) -> Result<Run> {
    let requests = rig.requests(kind, up);
    let mut ask = |span| rig.replay(up, &requests, clients, rig.args.log, span, |_| ());
    let span = Duration::from_secs_f64(rig.args.seconds_max / 2.0);
    // What it can't do shows in the run that counts.
    let _ = ask(4 * span)?;
    let outcome = ask(span)?;
    Ok(Run::warm(outcome.map(|(track, cost, ())| (track, cost))))
}

fn replace(rig: &Rig) -> Result<ReplaceRun> {
    rig.progress.say("searching while the index is replaced");
    rig.forget_copies()?;
    let every = rig.args.replace_every.unwrap_or((rig.args.log / 4).max(1));
    let documents = (rig.corpus.documents as f64 * rig.args.replace_share).ceil() as u64;
    let conditions = beside(rig, on_disk(rig));
    let mut up = match rig.start(&conditions)? {
        Ok(up) => up,
        Err(why) => return Ok(ReplaceRun::none(why)),
    };
    let requests = rig.requests(Kind::Any, &up);
    let target = up.targets[0].clone();
    let mut changes = Changes::new(rig.corpus)?;
    let timeout = Duration::from_secs_f64(rig.args.timeout);
    let span = Duration::from_secs_f64(rig.args.seconds_max * REPLACEMENTS as f64);
    // Long enough for the last replacement; the span is what ends it.
    let queries = usize::MAX;
    let outcome = rig.replay(&mut up, &requests, conditions.threads, queries, span, |watch| {
        changes::replace(&target, &mut changes, documents, every as u64, watch, timeout)
    })?;
    up.stop();
    Ok(match outcome {
        Err(why) => ReplaceRun::none(why),
        Ok((track, cost, spans)) => {
            let spans = spans?;
            let (during, otherwise) = track.during(&spans);
            ReplaceRun {
                run: Run::of(&track, cost, rig.args.cuts()),
                spans_s: spans
                    .iter()
                    .map(|(from, to)| (from.as_secs_f64(), to.as_secs_f64()))
                    .collect(),
                during,
                otherwise,
            }
        }
    })
}

fn updates(rig: &Rig, report: &mut Report) -> Result<()> {
    for &rate in &rig.args.updates {
        rig.progress
            .say(format!("searching while {rate} documents a second come in"));
        // Each rate begins with the same index.
        rig.forget_copies()?;
        let (updated, run) = update_run(rig, rate)?;
        report.updates.push(UpdateRun { rate, updated, run });
    }
    rig.forget_copies()
}

fn update_run(rig: &Rig, rate: f64) -> Result<(Updated, Run)> {
    let conditions = beside(rig, on_disk(rig));
    let mut up = match rig.start(&conditions)? {
        Ok(up) => up,
        Err(why) => return Ok((Updated::default(), Run::none(why))),
    };
    let requests = rig.requests(Kind::Any, &up);
    let (clients, span) = (conditions.threads, Duration::from_secs_f64(rig.args.seconds_max));
    let warm = rig.args.log / WARM_SHARE;
    let _ = rig.replay(&mut up, &requests, clients, warm, span, |_| ())?;
    let target = up.targets[0].clone();
    let mut changes = Changes::new(rig.corpus)?;
    let outcome = rig.replay(
        &mut up,
        &requests,
        clients,
        usize::MAX,
        span,
        |watch| match rate {
            0.0 => Ok(Updated::default()),
            rate => changes::stream(&target, &mut changes, rate, watch),
        },
    )?;
    up.stop();
    Ok(match outcome {
        Err(why) => (Updated::default(), Run::none(why)),
        Ok((track, cost, updated)) => (updated?, Run::warm(Ok((track, cost)))),
    })
}

impl Run {
    fn of(track: &Track, cost: Cost, (from, to): (usize, usize)) -> Run {
        let answered = track.answered();
        Run {
            outcome: "served".into(),
            whole: track.whole(),
            cold: track.between(0, from),
            between: track.between(from, to),
            warm: track.between(to, answered),
            hits_per_query: track.hits as f64 / answered.max(1) as f64,
            cost,
            over_time: track.over_time(POINTS),
        }
    }

    /// Without cut-offs.
    fn warm(outcome: Outcome<(Track, Cost)>) -> Run {
        match outcome {
            Ok((track, cost)) => Run::of(&track, cost, (0, 0)),
            Err(why) => Run::none(why),
        }
    }

    fn none(why: String) -> Run {
        Run {
            outcome: why,
            whole: Window::default(),
            cold: None,
            between: None,
            warm: None,
            hits_per_query: 0.0,
            cost: Cost::default(),
            over_time: Vec::new(),
        }
    }

    pub fn served(&self) -> bool {
        self.outcome == "served"
    }
}

impl ReplaceRun {
    fn none(why: String) -> ReplaceRun {
        ReplaceRun {
            run: Run::none(why),
            spans_s: Vec::new(),
            during: Window::default(),
            otherwise: Window::default(),
        }
    }
}
