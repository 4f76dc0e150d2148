//! A directory for other programs' files, that goes away with this process.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::host::guard::{Guard, Trace};

const PREFIX: &str = ".ramlet-machine-";

/// A new directory, removed on drop, and by a guard process when this one is killed.
pub struct Scratch {
    path: PathBuf,
    guard: Guard,
}

impl Scratch {
    pub fn new(directory: &Path) -> Result<Scratch, String> {
        remove_orphans(directory);
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        let directory = directory.canonicalize().map_err(failed)?;
        let guard = Guard::start().map_err(|error| format!("{error:#}"))?;
        let pid = std::process::id();
        let mut number = 0;
        loop {
            let path = directory.join(format!("{PREFIX}{pid}-{number}"));
            // Said before it is made: one that is there already is another's, and left alone.
            if path.exists() {
                number += 1;
                continue;
            }
            guard
                .watch(Trace::Directory(&path))
                .map_err(|error| format!("{error:#}"))?;
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Scratch { path, guard }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let _ = guard.forget(Trace::Directory(&path));
                    number += 1;
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if fs::remove_dir_all(&self.path).is_ok() {
            let _ = self.guard.forget(Trace::Directory(&self.path));
        }
    }
}

/// Directories of processes that are gone, whose guards were killed too.
fn remove_orphans(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        if let Some((pid, _)) = pid
            && pid.parse::<u32>().is_ok()
            && !Path::new("/proc").join(pid).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
