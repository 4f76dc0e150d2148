//! Control groups of our own, version 1 or 2: the hard limit on memory that measurements are about, and the kernel's account of disk reads.
//!
//! Source: Documentation/admin-guide/cgroup-v1/{memory,blkio-controller}.rst and cgroup-v2.rst of Linux.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where control groups are mounted, and in which of them this process is.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The memory controller of version 1, if it is there.
    memory_v1: Option<PathBuf>,
    /// The disk controller of version 1.
    blkio_v1: Option<PathBuf>,
    v2: Option<PathBuf>,
    /// Text of `/proc/self/cgroup`.
    own: String,
}

/// A group with a limit. It is emptied and removed when it is dropped; a child of this process must be waited for before, since until
/// then it counts as in the group.
#[derive(Debug)]
pub struct Group {
    version: u8,
    memory: PathBuf,
    /// Counts reads: the same directory in version 2.
    disk: Option<PathBuf>,
}

/// What the kernel says of a group's memory, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct MemoryFigures {
    pub usage_bytes: u64,
    /// None where the kernel doesn't keep it (version 2 before Linux 5.19).
    pub peak_bytes: Option<u64>,
    pub oom_kills: u64,
    /// How often the limit was met: reclaim, not failure.
    pub limit_met: u64,
}

/// What a group's processes did to the disks, reads that the page cache answered left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct DiskFigures {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
}

/// Why there can be no group here; a sentence.
#[derive(Debug)]
pub struct CannotMake(String);

impl fmt::Display for CannotMake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "no memory cgroup can be made here: {}. As root it works; without, inside `systemd-run --user --scope -p Delegate=yes`; \
             or measure without a limit: --no-cgroup (docs/measuring.md)",
            self.0
        )
    }
}

impl std::error::Error for CannotMake {}

/// Groups of ours begin so; then come the process that made them and when it was started.
const PREFIX: &str = "ramlet-bench-";
fn group_name(name: &str) -> String {
    format!("{PREFIX}{}-{name}", identity(std::process::id()))
}

/// A second: beyond any disk.
const OPERATIONS_MAX: u32 = 1_000_000_000;
/// A group is busy until its last process is gone.
const REMOVAL_TRIES: u32 = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(50);

impl Tree {
    /// The machine's.
    pub fn here() -> Tree {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        Tree::of(&mounts, own)
    }

    fn of(mounts: &str, own: String) -> Tree {
        let mut tree = Tree {
            memory_v1: None,
            blkio_v1: None,
            v2: None,
            own,
        };
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let &[_, point, kind, options, ..] = fields.as_slice() else {
                continue;
            };
            let has = |name: &str| options.split(',').any(|option| option == name);
            match kind {
                "cgroup2" => tree.v2 = tree.v2.or(Some(point.into())),
                "cgroup" if has("memory") => tree.memory_v1 = Some(point.into()),
                "cgroup" if has("blkio") => tree.blkio_v1 = Some(point.into()),
                _ => {}
            }
        }
        tree
    }

    /// The directory of this process's own group under a mount point; the mount point itself where that isn't visible, as in a container.
    fn own_under(&self, mount: &Path, controller: &str) -> PathBuf {
        let own = self.own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let matches = match controller {
                "" => number == "0",
                name => controllers.split(',').any(|c| c == name),
            };
            matches.then(|| mount.join(path.trim_start_matches('/')))
        });
        own.filter(|path| path.is_dir())
            .unwrap_or_else(|| mount.to_path_buf())
    }

    /// A version 2 directory that hands its memory controller down to its children. Processes may be in leaves only, so that a group
    /// beside our own is as good as one below it; where neither may be made (a delegated scope), this process moves to a leaf first.
    fn parent_v2(&self, mount: &Path) -> Result<PathBuf, CannotMake> {
        let own = self.own_under(mount, "");
        let up = own.parent().filter(|up| up.starts_with(mount));
        let candidates = [Some(own.as_path()), up, Some(mount)];
        for parent in candidates.into_iter().flatten() {
            if hands_down(parent) {
                return Ok(parent.to_path_buf());
            }
        }
        let leaf = own.join(format!("{PREFIX}self"));
        let moved = fs::create_dir_all(&leaf)
            .and_then(|()| fs::write(leaf.join("cgroup.procs"), std::process::id().to_string()));
        if moved.is_ok() && hands_down(&own) {
            return Ok(own);
        }
        // Back to where it was.
        let _ = fs::write(own.join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&leaf);
        Err(CannotMake(format!(
            "{} hands no memory controller down to groups of ours",
            own.display()
        )))
    }

    /// Where a group's memory would be limited, where its reads are counted, and the version.
    fn parents(&self) -> Result<(PathBuf, Option<PathBuf>, u8), CannotMake> {
        if let Some(mount) = &self.memory_v1 {
            let disk = self.blkio_v1.as_ref().map(|m| self.own_under(m, "blkio"));
            return Ok((self.own_under(mount, "memory"), disk, 1));
        }
        match &self.v2 {
            None => Err(CannotMake("none is mounted".into())),
            Some(mount) => self.parent_v2(mount).map(|parent| (parent, None, 2)),
        }
    }

    /// Where the group of that name will be: for who removes it, whatever happens.
    pub fn places(&self, name: &str) -> Result<Vec<PathBuf>, CannotMake> {
        let (memory, disk, version) = self.parents()?;
        let name = group_name(name);
        let disk = disk.filter(|_| version == 1);
        Ok([Some(memory), disk]
            .into_iter()
            .flatten()
            .map(|parent| parent.join(&name))
            .collect())
    }

    /// Makes a group of this process's that holds at most so many bytes, without swap. `name` tells it from this process's others.
    pub fn group(&self, name: &str, memory_bytes: u64) -> Result<Group, CannotMake> {
        let (memory, disk, version) = self.parents()?;
        let name = group_name(name);
        let told = |path: &Path, e: std::io::Error| CannotMake(format!("{}: {e}", path.display()));
        let memory = memory.join(&name);
        fs::create_dir(&memory).map_err(|e| told(&memory, e))?;
        // Without it reads are counted by bytes only.
        let disk = match version {
            1 => disk
                .map(|parent| parent.join(&name))
                .filter(|path| fs::create_dir(path).is_ok() && begins_to_count(path)),
            _ => Some(memory.clone()),
        };
        let group = Group {
            version,
            memory,
            disk,
        };
        group
            .set_limit(memory_bytes)
            .map_err(|e| told(&group.memory, e))?;
        Ok(group)
    }

    /// Removes groups of ours whose makers are gone: killed runs'. Returns how many.
    pub fn remove_stale(&self) -> usize {
        let Ok((memory, disk, _)) = self.parents() else {
            return 0;
        };
        let groups = [Some(memory), disk].into_iter().flatten();
        let stale = groups.flat_map(|parent| {
            stale_names(&parent)
                .into_iter()
                .map(move |name| parent.join(name))
        });
        stale.filter(|path| remove(path)).count()
    }
}

/// Version 1 counts a group's accesses to a disk only while a limit is set for it (since Linux 6.10): one that no disk reaches.
/// Removes the group, and is false, where no disk takes it.
fn begins_to_count(group: &Path) -> bool {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let disks = entries.filter(|entry| {
        let name = entry.file_name();
        let in_ram = ["loop", "ram", "zram"];
        !in_ram.iter().any(|kind| name.to_string_lossy().starts_with(kind))
    });
    let numbers = disks.filter_map(|disk| fs::read_to_string(disk.path().join("dev")).ok());
    let limit = |number: String| {
        let line = format!("{} {OPERATIONS_MAX}", number.trim());
        fs::write(group.join("blkio.throttle.read_iops_device"), line).is_ok()
    };
    let counts = numbers.map(limit).filter(|done| *done).count() > 0;
    if !counts {
        let _ = fs::remove_dir(group);
    }
    counts
}

/// Whether the directory's children have a memory controller; tries to switch it on. Disk counters are taken where they can be had.
fn hands_down(parent: &Path) -> bool {
    let control = parent.join("cgroup.subtree_control");
    let _ = fs::write(&control, "+io");
    let has = || {
        let text = fs::read_to_string(&control).unwrap_or_default();
        text.split_whitespace()
            .any(|name| name.trim_start_matches('+') == "memory")
    };
    has() || (fs::write(&control, "+memory").is_ok() && has())
}

/// Names in a directory that a run of ours made which is no longer there.
pub(crate) fn stale_names(parent: &Path) -> Vec<String> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_stale(name)).collect()
}

fn is_stale(name: &str) -> bool {
    let of_maker = || {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
        let (pid, started) = (parts.next()?.parse::<u32>().ok()?, parts.next()?);
        Some(identity(pid) != format!("{pid}-{started}"))
    };
    of_maker().unwrap_or(false)
}

/// A name for something of this process's that can be told to be stale later: in a directory of measurements, or of groups.
pub fn own_name(what: &str) -> String {
    format!("{PREFIX}{}-{what}", identity(std::process::id()))
}

/// `PID-START`: numbers of processes are used again, together with when they were started they aren't. `PID-gone` when it isn't there.
fn identity(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name in parentheses, which may hold blanks, come fields 3 and on; the start is field 22.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let started = rest.split_whitespace().nth(19).unwrap_or("gone");
    format!("{pid}-{started}")
}

impl Group {
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Its directories: one or two.
    pub fn directories(&self) -> Vec<PathBuf> {
        let disk = self.disk.iter().filter(|path| **path != self.memory);
        std::iter::once(&self.memory).chain(disk).cloned().collect()
    }

    /// A process enters the group by writing its number to these files. It must do so before it touches memory: what was
    /// charged elsewhere stays there.
    pub fn entrances(&self) -> Vec<PathBuf> {
        let directories = self.directories().into_iter();
        directories.map(|path| path.join("cgroup.procs")).collect()
    }

    /// Changes the limit; fails when more is in use and can't be reclaimed.
    pub fn set_limit(&self, bytes: u64) -> std::io::Result<()> {
        let write = |name: &str, value: u64| fs::write(self.memory.join(name), value.to_string());
        if self.version == 1 {
            write("memory.limit_in_bytes", bytes)?;
            // Only where swap is accounted.
            let _ = write("memory.memsw.limit_in_bytes", bytes);
        } else {
            write("memory.max", bytes)?;
            let _ = write("memory.swap.max", 0);
        }
        Ok(())
    }

    pub fn memory(&self) -> MemoryFigures {
        let read = |name: &str| fs::read_to_string(self.memory.join(name)).unwrap_or_default();
        let number = |name: &str| read(name).trim().parse().ok();
        match self.version {
            1 => MemoryFigures {
                usage_bytes: number("memory.usage_in_bytes").unwrap_or(0),
                peak_bytes: number("memory.max_usage_in_bytes"),
                oom_kills: field(&read("memory.oom_control"), "oom_kill"),
                limit_met: number("memory.failcnt").unwrap_or(0),
            },
            _ => MemoryFigures {
                usage_bytes: number("memory.current").unwrap_or(0),
                peak_bytes: number("memory.peak"),
                oom_kills: field(&read("memory.events"), "oom_kill"),
                limit_met: field(&read("memory.events"), "max"),
            },
        }
    }

    /// None where the kernel counts no disk accesses by group. Of several disks the busiest counts: the others lie below it (LVM, RAID).
    pub fn disk(&self) -> Option<DiskFigures> {
        let read = |name: &str| fs::read_to_string(self.disk.as_ref()?.join(name)).ok();
        match self.version {
            1 => {
                let (bytes, count) = (
                    read("blkio.throttle.io_service_bytes")?,
                    read("blkio.throttle.io_serviced")?,
                );
                Some(DiskFigures {
                    reads: most_v1(&count, "Read"),
                    read_bytes: most_v1(&bytes, "Read"),
                    writes: most_v1(&count, "Write"),
                    write_bytes: most_v1(&bytes, "Write"),
                })
            }
            _ => read("io.stat").map(|text| DiskFigures {
                reads: most_v2(&text, "rios="),
                read_bytes: most_v2(&text, "rbytes="),
                writes: most_v2(&text, "wios="),
                write_bytes: most_v2(&text, "wbytes="),
            }),
        }
    }

    /// Processes in it.
    pub fn processes(&self) -> Vec<u32> {
        processes_in(&self.memory)
    }

    /// Kills what is in it, at once.
    pub fn kill(&self) {
        kill_all(&self.memory);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.directories().iter().for_each(|path| {
            remove(path);
        });
    }
}

/// Kills what is in a group and removes it; false when it stays, or wasn't there.
pub(crate) fn remove(path: &Path) -> bool {
    if !path.is_dir() {
        return false;
    }
    for _ in 0..REMOVAL_TRIES {
        if fs::remove_dir(path).is_ok() {
            return true;
        }
        kill_all(path);
        std::thread::sleep(REMOVAL_PAUSE);
    }
    !path.is_dir()
}

fn processes_in(path: &Path) -> Vec<u32> {
    let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn kill_all(path: &Path) {
    let processes = processes_in(path);
    if !processes.is_empty() {
        signal("KILL", processes.iter().map(|pid| i64::from(*pid)));
    }
}

/// Sends a signal by the shell's own `kill`: there is no safe call for it in the standard library. A negative number is a process group.
pub fn signal(name: &str, processes: impl Iterator<Item = i64>) {
    let list: Vec<String> = processes.map(|pid| pid.to_string()).collect();
    let line = format!("kill -s {name} -- {}", list.join(" "));
    // Fails when they are gone by themselves.
    let _ = Command::new("sh")
        .args(["-c", &line])
        .stderr(Stdio::null())
        .status();
}

/// The number after `name` in lines of `name number`.
fn field(text: &str, name: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

/// Lines are `254:0 Read 123`.
fn most_v1(text: &str, operation: &str) -> u64 {
    let value = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        (fields.next()? == operation).then(|| fields.next()?.parse::<u64>().ok())?
    };
    text.lines().filter_map(value).max().unwrap_or(0)
}

/// Lines are `254:0 rbytes=123 wbytes=0 rios=1 ...`.
fn most_v2(text: &str, key: &str) -> u64 {
    let fields = text.split_whitespace();
    fields
        .filter_map(|field| field.strip_prefix(key)?.parse::<u64>().ok())
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
#[path = "cgroup_tests.rs"]
mod tests;
