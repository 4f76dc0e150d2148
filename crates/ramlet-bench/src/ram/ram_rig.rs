//! One limit at a time: a server in a group of it, loaded, restarted on a cold cache, and asked.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::args::{LoadIn, RamArgs};
use super::placement::Placement;
use crate::data::Data;
use crate::host::cgroup;
use crate::host::cgroup::Tree;
use crate::host::guard::{Guard, Trace};
use crate::host::server::{
    Failure, Program, Server, Start, Used, check_is_disk, copy_all, drop_caches, used_by,
};
use crate::traffic::api::Api;
use crate::traffic::fill::{Filled, fill};
use crate::traffic::http::Target;
use crate::traffic::load::Load;
use crate::traffic::measure::{Figures, measure};
use crate::traffic::requests::Requests;
use crate::traffic::setting::Setting;
use crate::{ByteSize, Progress};

const COLLECTION: &str = "ramlet-bench";
/// For an answer: longer, and the server counts as not serving.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// What came of a limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "why")]
pub enum Verdict {
    Served,
    OutOfMemory,
    /// It said no, or ended by itself; its words.
    Refused(String),
    /// Some queries weren't answered.
    Failed(String),
    /// In RAM was wanted.
    ReadsFromDisk(String),
}

/// How a collection got there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loaded {
    /// The limit that it was loaded in.
    pub memory_bytes: Option<u64>,
    pub filled: Filled,
    /// From the first point until the collection was green.
    pub green_seconds: f64,
    pub server_cpu_s: f64,
    pub memory_peak_bytes: u64,
}

/// A limit and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub placement: Placement,
    /// None: a server that runs without a limit of ours.
    pub memory_bytes: Option<u64>,
    #[serde(flatten)]
    pub verdict: Verdict,
    pub loaded: Option<Loaded>,
    /// From the start of the process until it was ready, of each run.
    pub start_seconds: Vec<f64>,
    /// All runs of all settings, in order.
    pub runs: Vec<Figures>,
    /// The most in any run, start included.
    pub memory_peak_bytes: Option<u64>,
    pub oom_kills: u64,
}

/// All that a measurement holds; its directory goes when it is dropped, and by the guard if it isn't.
pub struct Rig<'a> {
    pub args: &'a RamArgs,
    pub data: &'a Data,
    pub progress: &'a Progress,
    guard: Guard,
    tree: Option<Tree>,
    program: Option<Program>,
    /// A server that runs by itself.
    running: Option<Target>,
    work: PathBuf,
    /// With `--load once`: what came of loading for each placement in a limit.
    once: RefCell<HashMap<(&'static str, u64), Up<Stored>>>,
    /// With `--load each`: what was loaded last and served, in the directory `kept`.
    kept: RefCell<Option<(Placement, Loaded)>>,
    /// Why the page cache can't be dropped.
    pub caches: RefCell<Option<String>>,
    /// What the server calls itself.
    pub about: RefCell<String>,
}

/// A server, or why there is none.
type Up<T> = Result<T, Verdict>;
/// A directory with a loaded collection.
type Stored = (PathBuf, Loaded);

impl<'a> Rig<'a> {
    pub fn new(args: &'a RamArgs, data: &'a Data, progress: &'a Progress) -> Result<Rig<'a>> {
        let guard = Guard::start()?;
        check_is_disk(&args.dir)?;
        for name in cgroup::stale_names(&args.dir) {
            fs::remove_dir_all(args.dir.join(&name))
                .with_context(|| format!("removing {name} of a killed run"))?;
        }
        let tree = (!args.no_cgroup && args.server.is_none()).then(Tree::here);
        if let Some(tree) = &tree {
            tree.remove_stale();
            // Says at once whether groups can be made.
            drop(tree.group("try", 64_000_000)?);
        }
        let work = args.dir.join(cgroup::own_name("ram"));
        guard.watch(Trace::Directory(&work))?;
        fs::create_dir_all(&work).with_context(|| work.display().to_string())?;
        let running = match &args.server {
            None => None,
            Some(url) => Some(Target::parse(url, args.api_key.as_deref()).map_err(anyhow::Error::msg)?),
        };
        let program = match (&running, &args.exec) {
            (Some(_), _) => None,
            (None, Some(line)) => Some(Program::Line(line.clone())),
            (None, None) => Some(own_program(&work, &args.serve)?),
        };
        Ok(Rig {
            args,
            data,
            progress,
            guard,
            tree,
            program,
            running,
            work,
            once: RefCell::default(),
            kept: RefCell::default(),
            caches: RefCell::new(args.keep_caches.then(|| "it was asked to stay".into())),
            about: RefCell::default(),
        })
    }

    /// The version of control groups in use.
    pub fn cgroup_version(&self) -> Option<u8> {
        let tree = self.tree.as_ref()?;
        Some(tree.group("version", 64_000_000).ok()?.version())
    }

    /// Loads (or opens what was loaded) and measures in a limit, `repeats` times. `may_reopen`: what was loaded in the smallest limit
    /// so far that served will do.
    pub fn row(&self, placement: Placement, memory: u64, repeats: usize, may_reopen: bool) -> Result<Row> {
        let mut row = Row {
            placement,
            memory_bytes: self.running.is_none().then_some(memory),
            verdict: Verdict::Served,
            loaded: None,
            start_seconds: Vec::new(),
            runs: Vec::new(),
            memory_peak_bytes: None,
            oom_kills: 0,
        };
        if let Some(target) = &self.running {
            self.running_row(target, &mut row, repeats)?;
            return Ok(row);
        }
        let (directory, loaded) = match self.loaded(placement, memory, may_reopen)? {
            Ok(both) => both,
            Err(verdict) => {
                row.oom_kills = u64::from(verdict == Verdict::OutOfMemory);
                row.verdict = verdict;
                return Ok(row);
            }
        };
        row.loaded = Some(loaded);
        for repeat in 0..repeats {
            self.progress.say(format!(
                "{}, {}: run {} of {repeats}",
                placement.name(),
                ByteSize(memory),
                repeat + 1
            ));
            row.verdict = match self.is_shared(&directory) {
                false => self.run(&directory, memory, &mut row)?,
                true => self.run_on_copy(&directory, memory, &mut row)?,
            };
            if row.verdict != Verdict::Served {
                break;
            }
        }
        self.keep_or_remove(&row, directory)?;
        Ok(row)
    }

    /// Whether other limits open it too.
    fn is_shared(&self, directory: &Path) -> bool {
        self.args.load == LoadIn::Once || directory == self.work.join("kept")
    }

    /// A server may rebuild in a small limit what it finds, and the next limit would be measured on that.
    fn run_on_copy(&self, directory: &Path, memory: u64, row: &mut Row) -> Result<Verdict> {
        let copy = self.work.join("copy");
        copy_all(directory, &copy).with_context(|| format!("copying {}", directory.display()))?;
        let verdict = self.run(&copy, memory, row);
        fs::remove_dir_all(&copy)?;
        verdict
    }

    /// With `--load each`: what served is kept for the search, in place of what was kept before.
    fn keep_or_remove(&self, row: &Row, directory: PathBuf) -> Result<()> {
        let kept = self.work.join("kept");
        if self.args.load == LoadIn::Once || directory == kept {
            return Ok(());
        }
        let mut stored = self.kept.borrow_mut();
        match (&row.verdict, &row.loaded) {
            (Verdict::Served, Some(loaded)) => {
                if kept.exists() {
                    fs::remove_dir_all(&kept)?;
                }
                fs::rename(&directory, &kept)?;
                *stored = Some((row.placement, loaded.clone()));
            }
            _ => fs::remove_dir_all(&directory)?,
        }
        Ok(())
    }

    /// One start of the server on a cold cache, and every setting.
    fn run(&self, directory: &Path, memory: u64, row: &mut Row) -> Result<Verdict> {
        self.drop_caches();
        let started = Instant::now();
        let mut server = match self.start(directory, memory)? {
            Ok(server) => server,
            Err(verdict) => {
                row.oom_kills += u64::from(verdict == Verdict::OutOfMemory);
                return Ok(verdict);
            }
        };
        row.start_seconds.push(started.elapsed().as_secs_f64());
        let mut api = Api::new(server.target().clone());
        let green = api.wait_until_green(COLLECTION, self.timeout(), &mut |_| {});
        let asked = match green {
            Ok(()) => {
                std::thread::sleep(Duration::from_secs_f64(self.args.settle));
                self.ask(server.target(), &|| Some(server.used()), row)
            }
            Err(error) => Ok(Verdict::Refused(format!("{error:#}"))),
        };
        let peak = server.memory_peak();
        row.memory_peak_bytes = row.memory_peak_bytes.max(Some(peak));
        row.oom_kills += server.memory().map_or(0, |memory| memory.oom_kills);
        let verdict = match server.failure()? {
            Some(failure) => verdict_of(failure),
            None => asked?,
        };
        server.stop();
        Ok(verdict)
    }

    fn running_row(&self, target: &Target, row: &mut Row, repeats: usize) -> Result<()> {
        let mut api = Api::new(target.clone());
        *self.about.borrow_mut() = api.about();
        if api.collection(COLLECTION, None)?.is_some() {
            api.drop_collection(COLLECTION)?;
        }
        let used = || self.args.pid.map(|pid| used_by(&[pid]));
        row.loaded = Some(self.fill(&mut api, row.placement, None, &used)?);
        for _ in 0..repeats {
            row.verdict = self.ask(target, &used, row)?;
            if row.verdict != Verdict::Served {
                break;
            }
        }
        api.drop_collection(COLLECTION)
    }

    /// Warms up and measures every setting; adds the runs to the row.
    fn ask(&self, target: &Target, used: &dyn Fn() -> Option<Used>, row: &mut Row) -> Result<Verdict> {
        let efforts = match self.args.ef.as_slice() {
            [] => vec![None],
            efs => efs.iter().map(|ef| Some(*ef)).collect(),
        };
        let warm_up = Load::to_warm_up(self.args.connections, None, self.args.warm_up, ANSWER_TIMEOUT);
        for ef in efforts {
            let setting = Setting {
                collection: COLLECTION.into(),
                k: self.args.data.k,
                ef,
                ..Setting::default()
            };
            let requests = Requests::render(target, &setting, self.data.queries())?;
            crate::traffic::measure::warm_up(target, &requests, &warm_up, used);
            let load = Load {
                span: Duration::from_secs_f64(self.args.seconds),
                requests_min: requests.len() as u64,
                span_max: Duration::from_secs_f64(self.args.seconds_max.max(self.args.seconds)),
                ..warm_up
            };
            let (mut figures, _) = measure(target, &requests, &self.data.truth, &load, used);
            figures.setting = setting.name();
            let verdict = judge(row.placement, &figures);
            row.runs.push(figures);
            if verdict != Verdict::Served {
                return Ok(verdict);
            }
        }
        Ok(Verdict::Served)
    }

    /// The directory of a loaded collection.
    fn loaded(&self, placement: Placement, memory: u64, may_reopen: bool) -> Result<Up<Stored>> {
        let kept = self.kept.borrow().clone();
        if let Some((_, loaded)) = kept.filter(|(of, _)| may_reopen && *of == placement) {
            return Ok(Ok((self.work.join("kept"), loaded)));
        }
        if self.args.load == LoadIn::Each {
            return self.load(placement, memory, self.work.join("data"));
        }
        let largest = self.args.memory.iter().map(|size| size.0).max();
        let most = largest.unwrap_or(memory).max(memory);
        let key = (placement.name(), most);
        if let Some(known) = self.once.borrow().get(&key) {
            return Ok(known.clone());
        }
        let loaded = self.load(placement, most, self.work.join(placement.name()))?;
        self.once.borrow_mut().insert(key, loaded.clone());
        Ok(loaded)
    }

    /// Loads a fresh collection inside a limit, and stops the server.
    fn load(&self, placement: Placement, memory: u64, directory: PathBuf) -> Result<Up<Stored>> {
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        self.progress.say(format!(
            "{}, {}: loading {} vectors",
            placement.name(),
            ByteSize(memory),
            self.data.points
        ));
        let mut server = match self.start(&directory, memory)? {
            Ok(server) => server,
            Err(verdict) => return Ok(Err(verdict)),
        };
        let mut api = Api::new(server.target().clone());
        if self.about.borrow().is_empty() {
            *self.about.borrow_mut() = api.about();
        }
        let filled = self.fill(&mut api, placement, Some(memory), &|| Some(server.used()));
        let peak = server.memory_peak();
        if let Some(failure) = server.failure()? {
            return Ok(Err(verdict_of(failure)));
        }
        server.stop();
        Ok(match filled {
            Err(error) => Err(Verdict::Refused(format!("{error:#}"))),
            Ok(loaded) => Ok((
                directory,
                Loaded {
                    memory_peak_bytes: peak,
                    ..loaded
                },
            )),
        })
    }

    fn fill(
        &self,
        api: &mut Api,
        placement: Placement,
        memory: Option<u64>,
        used: &dyn Fn() -> Option<Used>,
    ) -> Result<Loaded> {
        let is_ramlet = api.ramlet().is_some();
        let config = self.args.config.as_ref();
        api.create(
            COLLECTION,
            &placement.settings(self.data.dims, self.data.distance, is_ramlet, config),
        )?;
        let (started, points) = (Instant::now(), self.data.points);
        let mut base = self.data.base()?;
        let show = &mut |done| self.progress.show(format!("loading: {done} of {points}"));
        let filled = fill(api.target(), COLLECTION, base.as_mut(), points, show)?;
        api.wait_until_green(COLLECTION, self.timeout(), &mut |state| {
            self.progress
                .show(format!("{}: building the index", state.status));
        })?;
        let there = api.count(COLLECTION)?;
        anyhow::ensure!(
            there == points,
            "{there} of {points} points are there after loading"
        );
        Ok(Loaded {
            memory_bytes: memory,
            filled,
            green_seconds: started.elapsed().as_secs_f64(),
            server_cpu_s: used().map_or(0.0, |used| used.cpu_s),
            memory_peak_bytes: 0,
        })
    }

    fn start(&self, directory: &Path, memory: u64) -> Result<Up<Server<'_>>> {
        let program = self
            .program
            .as_ref()
            .context("a server that runs isn't started")?;
        let log = self.work.join("server.log");
        let start = Start {
            program,
            directory,
            tree: self.tree.as_ref(),
            memory_bytes: memory,
            log: &log,
            timeout: self.timeout(),
        };
        Ok(Server::start(&start, &self.guard)?.map_err(verdict_of))
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.args.timeout)
    }

    fn drop_caches(&self) {
        if self.caches.borrow().is_none()
            && let Err(error) = drop_caches()
        {
            self.progress.note(format!(
                "{error:#}: servers that read through it look faster than they are"
            ));
            *self.caches.borrow_mut() = Some(format!("{error:#}"));
        }
    }
}

impl Drop for Rig<'_> {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.work).is_ok() {
            let _ = self.guard.forget(Trace::Directory(&self.work));
        }
    }
}

/// This program, copied: a copy is charged to the group that runs it, as on a machine of its own.
fn own_program(work: &Path, more: &str) -> Result<Program> {
    let binary = work.join("ramlet");
    let own = std::env::current_exe().context("finding this program")?;
    fs::copy(&own, &binary).with_context(|| format!("copying {}", own.display()))?;
    let more = more.split_whitespace().map(str::to_string).collect();
    Ok(Program::Ramlet { binary, more })
}

fn verdict_of(failure: Failure) -> Verdict {
    match failure {
        Failure::OutOfMemory => Verdict::OutOfMemory,
        Failure::Ended(words) => Verdict::Refused(words),
    }
}

/// What the figures of a run say about serving.
fn judge(placement: Placement, figures: &Figures) -> Verdict {
    let errors: u64 = figures.errors.values().sum();
    let all = errors + figures.answered;
    if let Some((first, _)) = figures.errors.iter().max_by_key(|(_, count)| **count) {
        return Verdict::Failed(format!("{errors} of {all} queries failed: {first}"));
    }
    if all == 0 {
        return Verdict::Failed("no query was answered".into());
    }
    let bytes = figures.read_bytes_per_query.unwrap_or(0.0);
    match placement.may_read(bytes) {
        true => Verdict::Served,
        false => Verdict::ReadsFromDisk(format!("{bytes:.0} bytes a query are read from the disk")),
    }
}
