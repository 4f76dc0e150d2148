//! A second process that outlives a measurement only to clean up after it: whatever ends the measurement, kill -9 included, closes the
//! pipe between them.

use std::fs;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};

use super::cgroup;

/// The measurement's end of the pipe. What it is told to watch is removed when this process ends, however it ends.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    pipe: Mutex<Option<ChildStdin>>,
}

/// What a measurement may leave behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace<'a> {
    /// A control group, with what runs in it.
    Group(&'a Path),
    /// All processes of a process group, by the number of its first.
    Processes(u32),
    /// A directory with all that is in it.
    Directory(&'a Path),
}

impl Trace<'_> {
    fn line(&self) -> String {
        match self {
            Trace::Group(path) => format!("group {}", path.display()),
            Trace::Processes(first) => format!("processes {first}"),
            Trace::Directory(path) => format!("directory {}", path.display()),
        }
    }
}

impl Guard {
    /// Starts this very program as `bench guard`.
    pub fn start() -> Result<Guard> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        command.args(["bench", "guard"]);
        Guard::start_as(command)
    }

    /// Starts `command`, which must come to [`serve`].
    pub fn start_as(mut command: Command) -> Result<Guard> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A process group of its own: a Ctrl-C is for the measurement.
            .process_group(0)
            .spawn()
            .context("starting the guard process")?;
        let pipe = Mutex::new(child.stdin.take());
        Ok(Guard { child, pipe })
    }

    /// From now on `trace` is removed when this process ends. To be said before it is made.
    pub fn watch(&self, trace: Trace<'_>) -> Result<()> {
        self.tell("+", trace)
    }

    /// It is gone in the ordinary way.
    pub fn forget(&self, trace: Trace<'_>) -> Result<()> {
        self.tell("-", trace)
    }

    fn tell(&self, sign: &str, trace: Trace<'_>) -> Result<()> {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let pipe = pipe.as_mut().context("the guard process is gone")?;
        writeln!(pipe, "{sign}{}", trace.line()).context("the guard process is gone")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.pipe.lock().unwrap_or_else(PoisonError::into_inner).take());
        let _ = self.child.wait();
    }
}

/// The guard's life: listens until the pipe closes, then removes what is still being watched, the newest first.
pub fn serve() {
    let mut watched: Vec<String> = Vec::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.split_at_checked(1) {
            Some(("+", trace)) => watched.push(trace.to_string()),
            Some(("-", trace)) => watched.retain(|known| known != trace),
            _ => {}
        }
    }
    // Processes go first: they might write to a directory that is being removed.
    let is_directory = |trace: &String| trace.starts_with("directory ");
    let (directories, others): (Vec<_>, Vec<_>) = watched.into_iter().rev().partition(is_directory);
    others.iter().chain(&directories).for_each(|trace| remove(trace));
}

fn remove(trace: &str) {
    match trace.split_once(' ') {
        Some(("group", path)) => {
            cgroup::remove(Path::new(path));
        }
        Some(("processes", first)) => {
            if let Ok(first) = first.parse::<i64>() {
                cgroup::signal("KILL", std::iter::once(-first));
            }
        }
        Some(("directory", path)) => {
            // What dies with the measurement may still write for a moment.
            for _ in 0..100 {
                if fs::remove_dir_all(path).is_ok() || !Path::new(path).exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        _ => {}
    }
}
