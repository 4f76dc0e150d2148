//! A log in files by day or hour, of a bounded size and number: `audit.2026-11-28.log`, then `audit.2026-11-28_001.log`.
//!
//! The time comes with the lines, as text: nothing here reads a clock. What is appended is handed to the kernel at once and synced
//! when a file is closed, so a power loss may take the last lines, and the end of the process none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::posix::drop_cached;

/// How often a new file is begun, whatever the size of the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    Day,
    Hour,
}

/// Bounds of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollingBounds {
    pub period: Period,
    /// A file that holds so many bytes is followed by another.
    pub file_bytes: u64,
    /// Files kept, the one that is written among them.
    pub files: usize,
}

/// The open end of a log.
pub struct RollingFiles {
    dir: PathBuf,
    prefix: &'static str,
    bounds: RollingBounds,
    open: Option<Open>,
}

struct Open {
    file: File,
    name: Name,
    len: u64,
    /// Bytes since the kernel was told to write.
    cached: u64,
}

/// What a file's name says: its period, and which it is of several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    period: String,
    number: u32,
}

/// Bytes that the kernel may gather before it is told that nobody reads them: then it begins to write, and drops what it has
/// written. Nothing waits for it: with a sync at each of these 12,041 of 80,000 lines, 10,000 a second beside
/// other writers of the disk, found a full queue.
const CACHED_BYTES: u64 = 256 << 10;

impl RollingFiles {
    /// Makes the directory, and tries whether files can be made in it.
    pub fn open(dir: &Path, prefix: &'static str, bounds: RollingBounds) -> io::Result<RollingFiles> {
        fs::create_dir_all(dir)?;
        let probe = dir.join(format!("{prefix}.tmp"));
        File::create(&probe)?;
        fs::remove_file(&probe)?;
        Ok(RollingFiles {
            dir: dir.to_owned(),
            prefix,
            bounds,
            open: None,
        })
    }

    /// Appends whole lines to the file of `now`, which begins with a date and an hour as in `2026-11-28T14`.
    pub fn append(&mut self, lines: &[u8], now: &str) -> io::Result<()> {
        let appended = self.try_append(lines, now);
        if appended.is_err() {
            // A part of a line may be there: the file is looked at anew.
            self.open = None;
        }
        appended
    }

    fn try_append(&mut self, lines: &[u8], now: &str) -> io::Result<()> {
        let (dir, prefix, bounds) = (&self.dir, self.prefix, self.bounds);
        let period = period_of(now, bounds.period);
        let fits = |open: &Open| open.name.period == period && open.len < bounds.file_bytes;
        let mut open = match self.open.take().filter(fits) {
            Some(open) => open,
            None => {
                let next = next(dir, prefix, bounds, period)?;
                remove_oldest(dir, prefix, bounds.files)?;
                next
            }
        };
        open.file.write_all(lines)?;
        open.len += lines.len() as u64;
        open.cached += lines.len() as u64;
        if open.cached >= CACHED_BYTES {
            drop_cached(&open.file);
            open.cached = 0;
        }
        self.open = Some(open);
        Ok(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Nobody waits for it any more, and what can't be synced now was written all the same.
        let _ = self.file.sync_data();
        drop_cached(&self.file);
    }
}

impl Name {
    fn file(&self, prefix: &str) -> String {
        match self.number {
            0 => format!("{prefix}.{}.log", self.period),
            number => format!("{prefix}.{}_{number:03}.log", self.period),
        }
    }

    /// `None` of a file that isn't ours.
    fn parse(file: &str, prefix: &str) -> Option<Name> {
        let inner = file
            .strip_prefix(prefix)?
            .strip_prefix('.')?
            .strip_suffix(".log")?;
        let (period, number) = match inner.split_once('_') {
            Some((period, number)) => (period, number.parse().ok()?),
            None => (inner, 0),
        };
        let name = Name {
            period: period.to_owned(),
            number,
        };
        let shape = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "0");
        let is_period = ["0000-00-00", "0000-00-00-00"].contains(&shape(period).as_str());
        (is_period && name.file(prefix) == file).then_some(name)
    }
}

fn period_of(now: &str, period: Period) -> String {
    let end = match period {
        Period::Day => 10,
        Period::Hour => 13,
    };
    now.get(..end).unwrap_or(now).replace('T', "-")
}

/// Files of the log, the oldest first.
fn names(dir: &Path, prefix: &str) -> io::Result<Vec<Name>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir)? {
        let file = entry?.file_name();
        all.extend(file.to_str().and_then(|file| Name::parse(file, prefix)));
    }
    all.sort_unstable();
    Ok(all)
}

/// The last file of the period if there is room in it, else the next.
fn next(dir: &Path, prefix: &str, bounds: RollingBounds, period: String) -> io::Result<Open> {
    let there = names(dir, prefix)?;
    let last = there.into_iter().rfind(|name| name.period == period);
    let mut name = last.unwrap_or(Name { period, number: 0 });
    let mut open = at_end(&dir.join(name.file(prefix)), name.clone())?;
    if open.len >= bounds.file_bytes {
        name.number += 1;
        open = at_end(&dir.join(name.file(prefix)), name)?;
    }
    Ok(open)
}

/// Opens a file at its end, behind a whole line.
fn at_end(path: &Path, name: Name) -> io::Result<Open> {
    // For whoever runs the server, and the group: a program that collects logs.
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o640);
    let mut file = options.open(path)?;
    let mut len = file.seek(SeekFrom::End(0))?;
    if len > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != [b'\n'] {
            file.write_all(b"\n")?;
            len += 1;
        }
    }
    Ok(Open {
        file,
        name,
        len,
        cached: 0,
    })
}

fn remove_oldest(dir: &Path, prefix: &str, files: usize) -> io::Result<()> {
    let all = names(dir, prefix)?;
    let surplus = all.len().saturating_sub(files.max(1));
    for name in &all[..surplus] {
        fs::remove_file(dir.join(name.file(prefix)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: RollingBounds = RollingBounds {
        period: Period::Day,
        file_bytes: 8,
        files: 3,
    };

    fn there(dir: &Path) -> Vec<String> {
        let names = names(dir, "audit").expect("a directory");
        names.iter().map(|name| name.file("audit")).collect()
    }

    #[test]
    fn files_are_bounded_in_size_and_number() {
        let dir = &std::env::temp_dir().join(format!("ramlet-rolling-{}", std::process::id()));
        fs::create_dir_all(dir).expect("a directory");
        fs::write(dir.join("audit.notes.log"), "a stranger's").expect("writes");
        let mut log = RollingFiles::open(dir, "audit", BOUNDS).expect("a log");
        log.append(b"first\n", "2026-11-27T23:59:59Z").expect("appends");
        for _ in 0..3 {
            log.append(b"four\n", "2026-11-28T00:00:00Z").expect("appends");
        }
        assert_eq!(
            there(dir),
            [
                "audit.2026-11-27.log",
                "audit.2026-11-28.log",
                "audit.2026-11-28_001.log"
            ]
        );
        drop(log);
        // Another process goes on where this one ended, behind a line that was cut off.
        fs::write(dir.join("audit.2026-11-28_001.log"), "cut").expect("writes");
        let mut log = RollingFiles::open(dir, "audit", BOUNDS).expect("a log");
        for _ in 0..2 {
            log.append(b"five\n", "2026-11-28T01:00:00Z").expect("appends");
        }
        assert_eq!(
            there(dir),
            [
                "audit.2026-11-28.log",
                "audit.2026-11-28_001.log",
                "audit.2026-11-28_002.log"
            ]
        );
        let text = fs::read_to_string(dir.join("audit.2026-11-28_001.log")).expect("reads");
        assert_eq!(text, "cut\nfive\n");
        assert!(dir.join("audit.notes.log").exists(), "it isn't ours");
        fs::remove_dir_all(dir).expect("removes");
    }

    #[test]
    fn names_are_ours_or_not() {
        for ours in [
            "audit.2026-11-28.log",
            "audit.2026-11-28-14.log",
            "audit.2026-11-28_1000.log",
        ] {
            let name = Name::parse(ours, "audit").unwrap_or_else(|| panic!("{ours}"));
            assert_eq!(name.file("audit"), ours);
        }
        for other in [
            "audit.log",
            "audit.2026-11-28_1.log",
            "audit.2026-11-28_000.log",
            "audit.2026-11.log",
            "b.2026-11-28.log",
        ] {
            assert_eq!(Name::parse(other, "audit"), None, "{other}");
        }
        assert_eq!(period_of("2026-11-28T14:00:00Z", Period::Hour), "2026-11-28-14");
    }
}
