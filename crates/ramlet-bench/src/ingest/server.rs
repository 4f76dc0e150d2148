//! The server that is filled: started for it and removed after it, or one that runs already.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::api::Api;
use super::options::{IngestOptions, Where};
use super::sample::{Process, memory_directory};
use crate::cgroup::{Group, MemoryFigures, Tree, own_name, signal};
use crate::guard::{Guard, Trace};
use crate::http::Target;

/// How long a server may take until it answers.
const START_FOR: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
/// Lines of its standard error that are kept for the error message.
const LINES: usize = 5;
/// A group that limits nothing still counts.
const NO_LIMIT: u64 = 1 << 50;

/// Enters the groups whose entrances come first, as many as the first word says, and becomes the rest of the line.
const ENTER: &str =
    "n=$1; shift; while [ $n -gt 0 ]; do echo $$ > \"$1\" || exit 1; shift; n=$((n-1)); done; exec \"$@\"";

/// A server, and what goes when it is dropped.
pub(crate) struct Server {
    target: Target,
    pid: u32,
    /// In the order in which they go.
    process: Option<Started>,
    place: Option<Place>,
}

/// A process that was started here, in a process group of its own.
struct Started {
    child: Child,
    errors: Arc<Mutex<VecDeque<String>>>,
}

/// Where it lives: a data directory, and a cgroup if one was asked for. Both go with it, and with this process.
struct Place {
    data: PathBuf,
    group: Option<Group>,
    guard: Guard,
}

impl Server {
    /// Starts it, or looks whether it is there.
    pub(crate) fn start(options: &IngestOptions) -> Result<Server> {
        match &options.place {
            Where::Running { url, pid } => running(&target(url, options)?, *pid),
            Where::Own {
                memory_bytes,
                in_group,
            } => own(options, *memory_bytes, *in_group),
            Where::Command {
                command,
                url,
                memory_bytes,
                in_group,
            } => {
                let limit = in_group.then_some(memory_bytes.unwrap_or(NO_LIMIT));
                by_command(options, command, &target(url, options)?, limit)
            }
        }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Of its group, where it has one.
    pub(crate) fn group_directory(&self) -> Option<PathBuf> {
        let group = self.place.as_ref()?.group.as_ref()?;
        memory_directory(&group.directories())
    }

    pub(crate) fn group_memory(&self) -> Option<MemoryFigures> {
        Some(self.place.as_ref()?.group.as_ref()?.memory())
    }

    /// Whether it was started here: then all of it goes, and nothing needs to be cleared away in it.
    pub(crate) fn is_own(&self) -> bool {
        self.process.is_some()
    }

    /// What it said before it ended, if it has ended.
    pub(crate) fn last_words(&mut self) -> Option<String> {
        let started = self.process.as_mut()?;
        let status = started.child.try_wait().ok()??;
        Some(started.ended(status))
    }
}

fn target(url: &str, options: &IngestOptions) -> Result<Target> {
    Target::parse(url, options.api_key.as_deref()).map_err(|sentence| anyhow!(sentence))
}

fn running(target: &Target, pid: u32) -> Result<Server> {
    Process::of(pid).ok_or_else(|| anyhow!("there is no process {pid} on this machine"))?;
    let answer = Api::new(target.clone()).once("GET", "/", b"");
    answer.with_context(|| format!("no server answers at {}", target.url()))?;
    Ok(Server {
        target: target.clone(),
        pid,
        process: None,
        place: None,
    })
}

fn own(options: &IngestOptions, memory_bytes: u64, in_group: bool) -> Result<Server> {
    let program = std::env::current_exe().context("finding this program")?;
    let place = Place::make(options, in_group.then_some(memory_bytes))?;
    let memory = memory_bytes.to_string();
    let words = [
        "serve",
        "--no-probe",
        "--port",
        "0",
        "--memory",
        &memory,
        "--data",
    ];
    let mut line: Vec<&OsStr> = vec![program.as_os_str()];
    line.extend(words.map(OsStr::new));
    line.push(place.data.as_os_str());
    let (mut started, lines) = Started::spawn(&line, &place)?;
    let url = started.listening(&lines)?;
    Ok(Server {
        target: target(&url, options)?,
        pid: started.child.id(),
        process: Some(started),
        place: Some(place),
    })
}

fn by_command(options: &IngestOptions, command: &str, target: &Target, limit: Option<u64>) -> Result<Server> {
    if Api::new(target.clone()).once("GET", "/", b"").is_ok() {
        bail!(
            "a server answers at {} before the command was started",
            target.url()
        );
    }
    let place = Place::make(options, limit)?;
    let line = format!("exec {command}");
    let (mut started, _) = Started::spawn(&["sh".as_ref(), "-c".as_ref(), line.as_ref()], &place)?;
    started.answering(target)?;
    Ok(Server {
        target: target.clone(),
        pid: started.child.id(),
        process: Some(started),
        place: Some(place),
    })
}

impl Place {
    fn make(options: &IngestOptions, limit: Option<u64>) -> Result<Place> {
        let guard = Guard::start()?;
        let data = options.work.join(own_name("ingest"));
        guard.watch(Trace::Directory(&data))?;
        fs::create_dir(&data).with_context(|| data.display().to_string())?;
        let mut place = Place {
            data,
            group: None,
            guard,
        };
        if let Some(limit) = limit {
            let tree = Tree::here();
            tree.remove_stale();
            let group = tree.group("ingest", limit)?;
            for path in group.directories() {
                place.guard.watch(Trace::Group(&path))?;
            }
            place.group = Some(group);
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.group.take());
        // What can't be removed now, the guard tries again.
        if fs::remove_dir_all(&self.data).is_ok() {
            let _ = self.guard.forget(Trace::Directory(&self.data));
        }
    }
}

impl Started {
    /// Runs `line` in the place's group, its data directory as the current one; returns the lines it prints.
    fn spawn(line: &[&OsStr], place: &Place) -> Result<(Started, Receiver<String>)> {
        let entrances = place.group.as_ref().map(Group::entrances).unwrap_or_default();
        let mut command = Command::new("sh");
        command.args(["-c", ENTER, "sh", &entrances.len().to_string()]);
        command.args(&entrances).args(line);
        command
            .current_dir(&place.data)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("starting the server")?;
        place.guard.watch(Trace::Processes(child.id()))?;
        let errors = Arc::new(Mutex::new(VecDeque::new()));
        let (sender, lines) = channel();
        // Both are read to their ends, so that the server never waits for a reader.
        read_lines(child.stdout.take(), move |line| {
            let _ = sender.send(line);
        });
        let kept = errors.clone();
        read_lines(child.stderr.take(), move |line| {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push_back(line);
            if kept.len() > LINES {
                kept.pop_front();
            }
        });
        Ok((Started { child, errors }, lines))
    }

    /// Waits until it says where it listens.
    fn listening(&mut self, lines: &Receiver<String>) -> Result<String> {
        let end = Instant::now() + START_FOR;
        while Instant::now() < end {
            if let Ok(line) = lines.recv_timeout(PAUSE) {
                if let Some(url) = line.strip_prefix("listening on ") {
                    return Ok(url.trim().to_owned());
                }
            } else if let Some(status) = self.child.try_wait()? {
                bail!(self.ended(status));
            }
        }
        bail!("the server didn't listen within {} s", START_FOR.as_secs())
    }

    /// Waits until something answers.
    fn answering(&mut self, target: &Target) -> Result<()> {
        let end = Instant::now() + START_FOR;
        while Instant::now() < end {
            if Api::new(target.clone()).once("GET", "/", b"").is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!(self.ended(status));
            }
            thread::sleep(PAUSE);
        }
        bail!(
            "the command didn't answer at {} within {} s",
            target.url(),
            START_FOR.as_secs()
        )
    }

    fn ended(&self, status: ExitStatus) -> String {
        // A moment for what it said last to arrive.
        thread::sleep(PAUSE);
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let said: Vec<&str> = errors.iter().map(String::as_str).collect();
        format!("the server has ended ({status}): {}", said.join(" / "))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // All of its process group: a command may have started others.
        signal("KILL", std::iter::once(-i64::from(self.child.id())));
        let _ = self.child.wait();
    }
}

/// Hands each line of `from` to `take`, on a thread of its own.
fn read_lines(from: Option<impl Read + Send + 'static>, mut take: impl FnMut(String) + Send + 'static) {
    let Some(from) = from else { return };
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(std::io::Result::ok) {
            take(line);
        }
    });
}
