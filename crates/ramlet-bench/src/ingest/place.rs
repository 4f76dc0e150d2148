//! Where the server lives: a directory and a control group of its own, which go with this process however it ends; or elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::options::{IngestOptions, Where};
use super::sample::{Process, memory_directory};
use crate::host::cgroup::{MemoryFigures, Tree, own_name, stale_names};
use crate::host::guard::{Guard, Trace};
use crate::host::server::{Program, Server, Start, check_is_disk};
use crate::traffic::api::Api;
use crate::traffic::http::Target;

/// For being ready.
const START_FOR: Duration = Duration::from_secs(60);
/// A group that limits nothing still counts.
const NO_LIMIT: u64 = 1 << 50;

/// What is made before a server of our own is started; all of it goes when it is dropped, after the server.
pub(crate) struct Place {
    guard: Guard,
    directory: PathBuf,
    tree: Option<Tree>,
}

impl Place {
    /// None for a server that runs already.
    pub(crate) fn make(options: &IngestOptions) -> Result<Option<Place>> {
        let in_group = match options.place {
            Where::Running { .. } => return Ok(None),
            Where::Own { in_group, .. } | Where::Command { in_group, .. } => in_group,
        };
        check_is_disk(&options.directory)?;
        for name in stale_names(&options.directory) {
            // One that can't be removed is in nobody's way.
            let _ = fs::remove_dir_all(options.directory.join(name));
        }
        let guard = Guard::start()?;
        let directory = options.directory.join(own_name("ingest"));
        guard.watch(Trace::Directory(&directory))?;
        fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        let tree = in_group.then(Tree::here);
        if let Some(tree) = &tree {
            tree.remove_stale();
        }
        Ok(Some(Place {
            guard,
            directory,
            tree,
        }))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What can't be removed now, the guard tries again.
        if fs::remove_dir_all(&self.directory).is_ok() {
            let _ = self.guard.forget(Trace::Directory(&self.directory));
        }
    }
}

/// The server: what of it is watched, and asked.
pub(crate) struct Served<'p> {
    pub target: Target,
    pub pid: u32,
    own: Option<Server<'p>>,
}

impl<'p> Served<'p> {
    /// Starts it in its place, or looks whether it is there.
    pub(crate) fn start(options: &IngestOptions, place: Option<&'p Place>) -> Result<Served<'p>> {
        let (program, memory_bytes) = match (&options.place, place) {
            (Where::Running { url, pid }, _) => return running(url, *pid, options.api_key.as_deref()),
            (_, None) => bail!("a server that is started needs a place"),
            (Where::Own { memory_bytes, .. }, Some(place)) => (own_program(&place.directory)?, *memory_bytes),
            (
                Where::Command {
                    command,
                    memory_bytes,
                    ..
                },
                _,
            ) => (Program::Line(command.clone()), memory_bytes.unwrap_or(NO_LIMIT)),
        };
        let place = place.context("a server that is started needs a place")?;
        let start = Start {
            program: &program,
            directory: &place.directory.join("data"),
            tree: place.tree.as_ref(),
            memory_bytes,
            log: &place.directory.join("log"),
            timeout: START_FOR,
        };
        let server = Server::start(&start, &place.guard)?;
        let server = server.map_err(|failure| anyhow!("the server doesn't start: {failure}"))?;
        let own = server.processes();
        Ok(Served {
            target: server.target().clone(),
            pid: largest(&own).context("the server's process is gone")?,
            own: Some(server),
        })
    }

    /// Whether it goes with this run; else what is in it must be cleared away.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Where the kernel tells of its group's memory.
    pub(crate) fn group_directory(&self) -> Option<PathBuf> {
        memory_directory(&self.own.as_ref()?.group_directories())
    }

    pub(crate) fn group_memory(&self) -> Option<MemoryFigures> {
        self.own.as_ref()?.memory()
    }

    /// Why it is gone, if it is.
    pub(crate) fn failure(&mut self) -> Option<String> {
        let failure = self.own.as_mut()?.failure().ok()??;
        Some(format!("the server is gone: {failure}"))
    }
}

/// A copy: its code is charged to the group that runs it first.
fn own_program(directory: &Path) -> Result<Program> {
    let binary = directory.join("ramlet");
    let own = std::env::current_exe().context("finding this program")?;
    fs::copy(&own, &binary).with_context(|| format!("copying {}", own.display()))?;
    Ok(Program::Ramlet {
        binary,
        more: Vec::new(),
    })
}

fn running(url: &str, pid: u32, key: Option<&str>) -> Result<Served<'static>> {
    let target = Target::parse(url, key).map_err(|sentence| anyhow!(sentence))?;
    Process::of(pid).ok_or_else(|| anyhow!("there is no process {pid} on this machine"))?;
    if !Api::new(target.clone()).is_ready() {
        bail!("no server answers at {url}");
    }
    Ok(Served {
        target,
        pid,
        own: None,
    })
}

/// The process with the most memory: a command may be a shell with the server below it.
fn largest(processes: &[u32]) -> Option<u32> {
    let rss = |pid: &u32| Process::of(*pid).map_or(0, |process| process.rss);
    processes.iter().copied().max_by_key(rss)
}
