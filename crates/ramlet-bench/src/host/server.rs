//! A server that is being measured: started inside a control group, waited for, stopped; and what it used.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::cgroup;
use super::cgroup::{DiskFigures, Group, MemoryFigures, Tree};
use super::guard::{Guard, Trace};
use crate::traffic::api::Api;
use crate::traffic::http::Target;
use crate::{ByteSize, Machine};

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Our own binary, or a copy of it: `PROGRAM serve`.
    Ramlet { binary: PathBuf, more: Vec<String> },
    /// A line for the shell in which `{port}`, `{dir}` and `{memory}` (bytes) are replaced. It must stay in the foreground.
    Line(String),
}

/// Where and how.
#[derive(Debug, Clone)]
pub struct Start<'a> {
    pub program: &'a Program,
    /// Of the server's data.
    pub directory: &'a Path,
    /// None: no control group; the server is only told.
    pub tree: Option<&'a Tree>,
    pub memory_bytes: u64,
    pub log: &'a Path,
    /// For being ready.
    pub timeout: Duration,
}

/// Why there is no server.
#[derive(Debug)]
pub enum Failure {
    /// The kernel killed it for memory.
    OutOfMemory,
    /// It ended by itself; its last words.
    Ended(String),
}

/// A server as a child process. Killed, and its group removed, when it is dropped.
#[derive(Debug)]
pub struct Server<'g> {
    child: Child,
    group: Option<Group>,
    target: Target,
    guard: &'g Guard,
    log: PathBuf,
}

/// What the kernel counted for all processes of the server so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Used {
    pub cpu_s: f64,
    /// By the group; without one only bytes are known.
    pub disk: DiskFigures,
    pub reads_counted: bool,
}

/// Enters the control groups named before `--`, then becomes the rest.
const ENTER: &str = "while [ \"$1\" != -- ]; do echo $$ > \"$1\" || exit 97; shift; done; shift; exec \"$@\"";
const POLL_EVERY: Duration = Duration::from_millis(20);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Of the server's last words.
const WORDS_BYTES: usize = 400;

impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::OutOfMemory => write!(out, "out of memory"),
            Failure::Ended(words) => write!(out, "{words}"),
        }
    }
}

impl Program {
    fn command(&self, directory: &Path, port: u16, memory_bytes: u64, tell_memory: bool) -> Vec<String> {
        let dir = directory.display().to_string();
        match self {
            Program::Ramlet { binary, more } => {
                let mut line = vec![binary.display().to_string(), "serve".into(), "--no-probe".into()];
                line.extend(["--data".into(), dir, "--port".into(), port.to_string()]);
                // Its usual port may be somebody else's, now or in a moment.
                line.extend(["--grpc-port".into(), "disabled".into()]);
                // In a group it finds the limit by itself.
                if tell_memory {
                    line.extend(["--memory".into(), memory_bytes.to_string()]);
                }
                line.extend(more.iter().cloned());
                line
            }
            Program::Line(line) => {
                let line = line
                    .replace("{port}", &port.to_string())
                    .replace("{dir}", &dir)
                    .replace("{memory}", &memory_bytes.to_string());
                vec!["sh".into(), "-c".into(), line]
            }
        }
    }
}

impl<'g> Server<'g> {
    /// Starts it and waits until it is ready. An error is about the machine; that the server doesn't come up is a [`Failure`].
    pub fn start(start: &Start<'_>, guard: &'g Guard) -> Result<Result<Server<'g>, Failure>> {
        let port = free_port()?;
        let group = match start.tree {
            None => None,
            Some(tree) => {
                let name = format!("{port}");
                for path in &tree.places(&name)? {
                    guard.watch(Trace::Group(path))?;
                }
                Some(tree.group(&name, start.memory_bytes)?)
            }
        };
        let entrances = group.as_ref().map(Group::entrances).unwrap_or_default();
        let log = File::create(start.log).with_context(|| start.log.display().to_string())?;
        let line = start
            .program
            .command(start.directory, port, start.memory_bytes, group.is_none());
        let mut command = Command::new("sh");
        command
            .args(["-c", ENTER, "sh"])
            .args(entrances)
            .arg("--")
            .args(line);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A Ctrl-C is for the measurement, which stops the server itself.
        let child = command.process_group(0).spawn().context("starting a shell")?;
        guard.watch(Trace::Processes(child.id()))?;
        let mut server = Server {
            child,
            group,
            target: Target::local(port),
            guard,
            log: start.log.to_path_buf(),
        };
        Ok(server.wait_until_ready(start.timeout)?.map_or(Ok(server), Err))
    }

    fn wait_until_ready(&mut self, timeout: Duration) -> Result<Option<Failure>> {
        let (started, mut api) = (Instant::now(), Api::new(self.target.clone()));
        while started.elapsed() < timeout {
            if let Some(failure) = self.failure()? {
                return Ok(Some(failure));
            }
            if api.is_ready() {
                return Ok(None);
            }
            std::thread::sleep(POLL_EVERY);
        }
        let words = format!("not ready after {} s; {}", timeout.as_secs(), self.last_words());
        Ok(Some(Failure::Ended(words)))
    }

    /// Whether it is gone, or the kernel killed anything of it.
    pub fn failure(&mut self) -> Result<Option<Failure>> {
        let ended = self.child.try_wait().context("waiting for the server")?;
        if self.memory().is_some_and(|memory| memory.oom_kills > 0) {
            return Ok(Some(Failure::OutOfMemory));
        }
        let Some(status) = ended else { return Ok(None) };
        match status.code() {
            Some(97) => bail!("a process can't enter the control group: {}", self.last_words()),
            Some(126 | 127) => bail!("the server can't be started: {}", self.last_words()),
            _ => Ok(Some(Failure::Ended(format!(
                "it ended ({status}): {}",
                self.last_words()
            )))),
        }
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// None without a control group.
    pub fn memory(&self) -> Option<MemoryFigures> {
        self.group.as_ref().map(Group::memory)
    }

    /// Of its control group: one or two, none without a group.
    pub fn group_directories(&self) -> Vec<PathBuf> {
        self.group.as_ref().map(Group::directories).unwrap_or_default()
    }

    pub fn processes(&self) -> Vec<u32> {
        match &self.group {
            Some(group) => group.processes(),
            None => vec![self.child.id()],
        }
    }

    pub fn used(&self) -> Used {
        let mut used = used_by(&self.processes());
        if let Some(disk) = self.group.as_ref().and_then(Group::disk) {
            used.disk = disk;
            used.reads_counted = true;
        }
        used
    }

    /// Most memory that was ever in use: the group's, or what was resident of the processes that are there.
    pub fn memory_peak(&self) -> u64 {
        match self.memory().and_then(|memory| memory.peak_bytes) {
            Some(peak) => peak,
            None => self.processes().into_iter().map(resident_peak).sum(),
        }
    }

    /// SIGTERM, then timeout, then SIGKILL.
    pub fn stop(mut self) {
        cgroup::signal("TERM", std::iter::once(-i64::from(self.child.id())));
        let started = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && started.elapsed() < STOP_TIMEOUT {
            std::thread::sleep(POLL_EVERY);
        }
    }

    /// The last line of what it printed.
    pub fn last_words(&self) -> String {
        last_line(&self.log)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        cgroup::signal("KILL", std::iter::once(-i64::from(self.child.id())));
        if let Some(group) = &self.group {
            group.kill();
        }
        let _ = self.child.wait();
        // The guard's pipe may be gone when everything ends; then nobody needs to be told.
        let _ = self.guard.forget(Trace::Processes(self.child.id()));
        if let Some(group) = self.group.take() {
            let directories = group.directories();
            drop(group);
            for path in directories.iter().filter(|path| !path.exists()) {
                let _ = self.guard.forget(Trace::Group(path));
            }
        }
    }
}

/// CPU and bytes of processes, by `/proc`.
pub fn used_by(processes: &[u32]) -> Used {
    let mut used = Used::default();
    for pid in processes {
        let of = ramlet_testdata::process::used_by(*pid);
        used.cpu_s += of.cpu_s;
        used.disk.read_bytes += of.read_bytes;
        used.disk.write_bytes += of.write_bytes;
    }
    used
}

/// Most bytes ever resident in a process; 0 when it is gone.
pub fn resident_peak(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: Option<u64> = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0) * 1024
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("finding a free port")?;
    Ok(listener.local_addr()?.port())
}

fn last_line(path: &Path) -> String {
    let mut bytes = Vec::new();
    let _ = File::open(path).and_then(|file| file.take(1 << 20).read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    // What follows an error is how to get help.
    let mut lines = text.lines().rev();
    let error = lines.clone().find(|line| line.starts_with("error:"));
    let line = error.or_else(|| lines.find(|line| !line.trim().is_empty()));
    let line = line.unwrap_or("it said nothing").trim();
    line.chars().take(WORDS_BYTES).collect()
}

/// Writes what is dirty and drops the page cache, so that the next reader finds nothing warm, whoever was charged for it. Says why not.
pub fn drop_caches() -> Result<()> {
    let synced = Command::new("sync").status().context("running sync")?;
    if !synced.success() {
        return Err(anyhow!("sync failed"));
    }
    fs::write("/proc/sys/vm/drop_caches", "3").context("the page cache can't be dropped (it takes root)")
}

/// Copies a directory; shares blocks where the file system can.
pub fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_all(&entry.path(), &target)?,
            false => fs::copy(entry.path(), &target).map(|_| ())?,
        }
    }
    Ok(())
}

/// The least limit: not even a shell lives in less.
const LIMIT_MIN: u64 = 1_000_000;

/// Fails when no process could live in one of these limits, or this machine has less memory: it would be none.
pub fn check_limits(flag: &str, limits: &[ByteSize]) -> Result<()> {
    let most = Machine::here().ram_bytes;
    for limit in limits {
        if limit.0 < LIMIT_MIN {
            bail!("{flag} {limit}: below {} no process starts", ByteSize(LIMIT_MIN));
        }
        if most > 0 && limit.0 > most {
            bail!("{flag} {limit}: this machine has {}", ByteSize(most));
        }
    }
    Ok(())
}

/// Fails when a line for the shell is none.
pub fn check_line(line: Option<&str>) -> Result<()> {
    if line.is_some_and(|line| line.trim().is_empty()) {
        bail!("--exec: there is no command");
    }
    Ok(())
}

/// Fails when there is no such process.
pub fn check_process(pid: u32) -> Result<()> {
    if !Path::new(&format!("/proc/{pid}")).exists() {
        bail!("there is no process {pid} on this machine");
    }
    Ok(())
}

/// Fails when the directory lies in RAM: what a server writes there would be charged as memory, and read as fast.
pub fn check_is_disk(directory: &Path) -> Result<()> {
    if !directory.is_dir() {
        bail!("{} is not a directory", directory.display());
    }
    let directory = directory
        .canonicalize()
        .with_context(|| directory.display().to_string())?;
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?.to_string(), fields.next()?.to_string());
        directory.starts_with(&point).then_some((point.len(), kind))
    };
    let kind = mounts.lines().filter_map(of).max_by_key(|(depth, _)| *depth);
    match kind {
        Some((_, kind)) if kind == "tmpfs" || kind == "ramfs" => {
            bail!(
                "{} is on {kind}, which is RAM; --dir names a directory on the disk to be measured",
                directory.display()
            )
        }
        _ => Ok(()),
    }
}
