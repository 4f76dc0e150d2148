//! Servers over copies of one loaded collection: started cold in a limit, asked, stopped.

use std::cell::{Cell as Slot, RefCell};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde_json::json;

use super::ask::{Kind, render};
use super::changes::{COLLECTION, write_point};
use super::corpus::Corpus;
use super::options::TextArgs;
use super::replay::{Replay, Track, Watch, run};
use super::text_storage::{Searchers, Storage};
use crate::host::cgroup;
use crate::host::cgroup::Tree;
use crate::host::guard::{Guard, Trace};
use crate::host::server::{Failure, Program, Server, Start, Used, copy_all, drop_caches};
use crate::traffic::api::{Api, collection_path};
use crate::traffic::fill::{Filled, fill_points};
use crate::traffic::http::Target;
use crate::traffic::requests::Requests;
use crate::{ByteSize, Progress};

/// Under what a run is made.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Conditions {
    pub storage: Storage,
    /// As it was asked for; None: in bytes.
    pub fraction: Option<f64>,
    pub memory_bytes: u64,
    pub threads: usize,
    pub searchers: Searchers,
}

/// How the collection got there, and how large it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Loaded {
    pub filled: Filled,
    /// From the first document until the collection was green.
    pub green_seconds: f64,
    pub server_cpu_s: f64,
    pub memory_peak_bytes: u64,
    /// Of all files but the log's.
    pub index_bytes: u64,
}

/// What the servers of a run used for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Cost {
    pub server_cpu_us_per_query: f64,
    pub reads_per_query: Option<f64>,
    pub read_bytes_per_query: f64,
    pub client_cpu_us_per_query: f64,
    /// The sum over the servers, start included.
    pub memory_peak_bytes: u64,
    /// From the start of the processes until all were ready.
    pub start_seconds: f64,
}

/// Servers that run.
pub struct Up<'g> {
    servers: Vec<Server<'g>>,
    pub targets: Vec<Target>,
    start_seconds: f64,
}

/// A run, or why there was none.
pub type Outcome<T> = Result<T, String>;

/// All that a measurement holds; its directories go when it is dropped, and by the guard if it isn't.
pub struct Rig<'a> {
    pub args: &'a TextArgs,
    pub corpus: &'a Corpus,
    pub progress: &'a Progress,
    guard: Guard,
    tree: Option<Tree>,
    work: PathBuf,
    in_ram: Option<PathBuf>,
    /// Which copies are there: for what, and how many.
    copies: RefCell<Option<(Storage, u64, usize)>>,
    /// Why the page cache can't be dropped.
    pub caches_kept: RefCell<Option<String>>,
    pub about: RefCell<String>,
    pub index_bytes: Slot<u64>,
}

impl<'a> Rig<'a> {
    pub fn new(args: &'a TextArgs, corpus: &'a Corpus, progress: &'a Progress) -> Result<Rig<'a>> {
        let guard = Guard::start()?;
        let tree = (!args.no_cgroup).then(Tree::here);
        if let Some(tree) = &tree {
            tree.remove_stale();
            // Says at once whether groups can be made.
            drop(tree.group("try", 64_000_000)?);
        }
        let work = own_directory(&args.dir, &guard)?;
        let in_ram = match args.storages.contains(&Storage::Ram) {
            true => Some(own_directory(&args.ram_dir, &guard)?),
            false => None,
        };
        let own = std::env::current_exe().context("finding this program")?;
        // A copy is charged to the group that runs it, as on a machine of its own.
        fs::copy(&own, work.join("ramlet")).with_context(|| format!("copying {}", own.display()))?;
        Ok(Rig {
            args,
            corpus,
            progress,
            guard,
            tree,
            work,
            in_ram,
            copies: RefCell::default(),
            caches_kept: RefCell::new(args.keep_caches.then(|| "it was asked to stay".into())),
            about: RefCell::default(),
            index_bytes: Slot::new(0),
        })
    }

    /// Loads the documents in the limit that is meant for it, and keeps what the server wrote for all runs.
    pub fn load(&self) -> Result<Loaded> {
        let directory = self.work.join("loaded");
        fs::create_dir_all(&directory)?;
        let memory = self.args.load_memory.0;
        let server = match self.start_one(&directory, memory, "auto", None)? {
            Ok(server) => server,
            Err(failure) => bail!("the server doesn't start in {}: {failure}", ByteSize(memory)),
        };
        let mut api = Api::new(server.target().clone());
        *self.about.borrow_mut() = api.about();
        let mut loaded = self.fill(&mut api)?;
        self.check_ranks(&mut api)?;
        loaded.server_cpu_s = server.used().cpu_s;
        loaded.memory_peak_bytes = server.memory_peak();
        server.stop();
        loaded.index_bytes = bytes_of(&directory)?;
        self.index_bytes.set(loaded.index_bytes);
        Ok(loaded)
    }

    fn fill(&self, api: &mut Api) -> Result<Loaded> {
        api.create(COLLECTION, &json!({ "vectors": {} }))?;
        let path = format!("{}/index?wait=true", collection_path(COLLECTION));
        api.call("PUT", &path, Some(&self.args.schema()))
            .context("making the text index")?;
        let (started, count) = (Instant::now(), self.corpus.documents);
        let mut documents = self.corpus.documents()?;
        let mut write = |id: u64, out: &mut Vec<u8>| write_point(id, &mut documents, out);
        let show = &mut |done| {
            self.progress
                .show(format!("loading: {done} of {count} documents"))
        };
        let filled = fill_points(api.target(), COLLECTION, count, &mut write, show)?;
        let timeout = Duration::from_secs_f64(self.args.timeout);
        api.wait_until_green(COLLECTION, timeout, &mut |state| {
            self.progress
                .show(format!("{}: building the index", state.status));
        })?;
        let there = api.count(COLLECTION)?;
        ensure!(
            there == count,
            "{there} of {count} documents are there after loading"
        );
        Ok(Loaded {
            filled,
            green_seconds: started.elapsed().as_secs_f64(),
            ..Loaded::default()
        })
    }

    /// Fails when the server can't rank texts, or finds nothing at all: then there is nothing to measure.
    fn check_ranks(&self, api: &mut Api) -> Result<()> {
        let path = format!("{}/points/query", collection_path(COLLECTION));
        for query in self.corpus.log.iter().take(50) {
            let body = Kind::Any.body(query, &self.args.field, self.args.limit);
            let answer = api.call("POST", &path, Some(&body));
            let answer = answer.context("the server doesn't rank texts")?;
            let points = answer["result"]["points"].as_array();
            if points.is_some_and(|points| !points.is_empty()) {
                return Ok(());
            }
        }
        bail!(
            "none of the first 50 queries finds a document by '{}'",
            self.args.field
        )
    }

    /// Starts what the conditions ask for, over copies and with a cold page cache.
    pub fn start(&self, conditions: &Conditions) -> Result<Outcome<Up<'_>>> {
        let servers = match conditions.searchers {
            Searchers::Shared => 1,
            Searchers::Separate => conditions.threads,
        };
        let directories = self.copies(conditions, servers)?;
        self.drop_caches();
        let memory = conditions.memory_bytes / servers as u64;
        let threads = Some(conditions.threads / servers);
        let backend = conditions.storage.backend();
        let mut up = Up {
            servers: Vec::new(),
            targets: Vec::new(),
            start_seconds: 0.0,
        };
        let started = Instant::now();
        for directory in &directories {
            match self.start_one(directory, memory, backend, threads)? {
                Ok(server) => {
                    up.targets.push(server.target().clone());
                    up.servers.push(server);
                }
                Err(failure) => return Ok(Err(told(&failure, memory))),
            }
        }
        up.start_seconds = started.elapsed().as_secs_f64();
        Ok(Ok(up))
    }

    fn start_one(
        &self,
        directory: &Path,
        memory: u64,
        backend: &str,
        threads: Option<usize>,
    ) -> Result<Result<Server<'_>, Failure>> {
        let program = self.program(backend, threads);
        let start = Start {
            program: &program,
            directory,
            tree: self.tree.as_ref(),
            memory_bytes: memory,
            log: &self.work.join("server.log"),
            timeout: Duration::from_secs_f64(self.args.timeout),
        };
        Server::start(&start, &self.guard)
    }

    /// `threads`: of the searches; None: as the server chooses.
    fn program(&self, backend: &str, threads: Option<usize>) -> Program {
        let cores = crate::Machine::here().cores;
        match &self.args.exec {
            Some(line) => Program::Line(
                line.replace("{backend}", backend)
                    .replace("{threads}", &threads.unwrap_or(cores).to_string()),
            ),
            None => {
                let mut more = vec!["--backend".to_string(), backend.to_string()];
                if let Some(threads) = threads {
                    more.extend(["--threads".to_string(), threads.to_string()]);
                }
                more.extend(self.args.serve.split_whitespace().map(str::to_string));
                Program::Ramlet {
                    binary: self.work.join("ramlet"),
                    more,
                }
            }
        }
    }

    /// Directories of their own for so many servers. The runs of one storage and limit share them: a server may rewrite in a small limit
    /// what it finds.
    fn copies(&self, conditions: &Conditions, count: usize) -> Result<Vec<PathBuf>> {
        let root = match (conditions.storage, &self.in_ram) {
            (Storage::Ram, Some(directory)) => directory,
            _ => &self.work,
        };
        let of = |number: usize| root.join(format!("copy-{number}"));
        let key = (conditions.storage, conditions.memory_bytes);
        let there = self.copies.borrow().filter(|(s, m, _)| (*s, *m) == key);
        let there = there.map_or(0, |(_, _, count)| count);
        if there == 0 {
            self.forget_copies()?;
        }
        for number in there..count {
            copy_all(&self.work.join("loaded"), &of(number)).context("copying the loaded collection")?;
        }
        *self.copies.borrow_mut() = Some((key.0, key.1, there.max(count)));
        Ok((0..count).map(of).collect())
    }

    /// The next run begins with what was loaded.
    pub fn forget_copies(&self) -> Result<()> {
        self.copies.borrow_mut().take();
        for root in std::iter::once(&self.work).chain(&self.in_ram) {
            for entry in fs::read_dir(root)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with("copy-") {
                    fs::remove_dir_all(entry.path())?;
                }
            }
        }
        Ok(())
    }

    /// Sends the log; `beside` runs on a thread of its own meanwhile.
    pub fn replay<T: Send>(
        &self,
        up: &mut Up<'_>,
        requests: &Requests,
        clients: usize,
        queries: usize,
        span_max: Duration,
        beside: impl FnOnce(&Watch) -> T + Send,
    ) -> Result<Outcome<(Track, Cost, T)>> {
        let before = up.used();
        let replay = Replay {
            targets: &up.targets,
            requests,
            clients,
            queries,
            span_max,
        };
        let watch = Watch::default();
        let (track, other) = std::thread::scope(|scope| {
            let other = scope.spawn(|| beside(&watch));
            (run(&replay, &watch), other.join())
        });
        let after = up.used();
        for server in &mut up.servers {
            if let Some(failure) = server.failure()? {
                return Ok(Err(told(&failure, 0)));
            }
        }
        let Ok(other) = other else {
            bail!("what happens beside the searches has panicked");
        };
        if let Some((first, count)) = track.errors.iter().max_by_key(|(_, count)| **count) {
            let all = track.error_count() + track.answered() as u64;
            return Ok(Err(format!("failed: {count} of {all} queries: {first}")));
        }
        let cost = cost(&track, &before, &after, up);
        Ok(Ok((track, cost, other)))
    }

    /// The log as requests, for whichever server is asked.
    pub fn requests(&self, kind: Kind, up: &Up<'_>) -> Requests {
        let queries = match kind {
            Kind::Phrase => &self.corpus.phrases,
            _ => &self.corpus.log,
        };
        let (field, limit) = (&self.args.field, self.args.limit);
        render(&up.targets[0], COLLECTION, kind, queries, field, limit)
    }

    fn drop_caches(&self) {
        if self.caches_kept.borrow().is_none()
            && let Err(error) = drop_caches()
        {
            self.progress.note(format!(
                "{error:#}: what reads through it looks faster than it is"
            ));
            *self.caches_kept.borrow_mut() = Some(format!("{error:#}"));
        }
    }
}

impl Drop for Rig<'_> {
    fn drop(&mut self) {
        for directory in std::iter::once(&self.work).chain(&self.in_ram) {
            if fs::remove_dir_all(directory).is_ok() {
                let _ = self.guard.forget(Trace::Directory(directory));
            }
        }
    }
}

impl Up<'_> {
    fn used(&self) -> Used {
        let mut all = Used {
            reads_counted: true,
            ..Used::default()
        };
        for used in self.servers.iter().map(Server::used) {
            all.cpu_s += used.cpu_s;
            all.disk.reads += used.disk.reads;
            all.disk.read_bytes += used.disk.read_bytes;
            all.reads_counted &= used.reads_counted;
        }
        all
    }

    pub fn stop(self) {
        self.servers.into_iter().for_each(Server::stop);
    }
}

fn cost(track: &Track, before: &Used, after: &Used, up: &Up<'_>) -> Cost {
    let answered = track.answered().max(1) as f64;
    let each = |of: &dyn Fn(&Used) -> f64| (of(after) - of(before)).max(0.0) / answered;
    Cost {
        server_cpu_us_per_query: each(&|used| used.cpu_s * 1e6),
        reads_per_query: after.reads_counted.then(|| each(&|used| used.disk.reads as f64)),
        read_bytes_per_query: each(&|used| used.disk.read_bytes as f64),
        client_cpu_us_per_query: track.client_cpu_s * 1e6 / answered,
        memory_peak_bytes: up.servers.iter().map(Server::memory_peak).sum(),
        start_seconds: up.start_seconds,
    }
}

fn told(failure: &Failure, memory: u64) -> String {
    match (failure, memory) {
        (Failure::OutOfMemory, _) => "out of memory".into(),
        (Failure::Ended(words), 0) => format!("it ended: {words}"),
        (Failure::Ended(words), memory) => format!("refused in {}: {words}", ByteSize(memory)),
    }
}

/// A directory of this process's under `parent`, under the guard's eyes; those of killed runs are removed.
fn own_directory(parent: &Path, guard: &Guard) -> Result<PathBuf> {
    for name in cgroup::stale_names(parent) {
        let removed = fs::remove_dir_all(parent.join(&name));
        removed.with_context(|| format!("removing {name} of a killed run"))?;
    }
    let directory = parent.join(cgroup::own_name("text"));
    guard.watch(Trace::Directory(&directory))?;
    fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    Ok(directory)
}

/// What the files take on the disk, those of the log left out: they are made ahead, and hold what is elsewhere.
fn bytes_of(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_log = entry.file_name().to_string_lossy().starts_with("log-");
        bytes += match entry.file_type()?.is_dir() {
            true => bytes_of(&entry.path())?,
            false if is_log => 0,
            false => entry.metadata()?.blocks() * 512,
        };
    }
    Ok(bytes)
}
