//! `ramlet store pull`: a backup becomes a data directory, whole or not at all.
//!
//! Files are written to `DIR.part/data`, which is renamed when all are on the disk. `DIR.part/pull.json` says which backup they are of: a pull that was cut
//! off goes on from there.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use indicatif::HumanBytes;
use ramlet::{Engine, EngineOptions, SnapshotFile};
use ramlet_io::Backend;
use ramlet_server::collection_name_fault;
use ramlet_store::{BackupKind, Pull, Store, Target, TargetFile};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::progress::Progress;
use super::push::SNAPSHOT;
use crate::output::{self, many};

/// What the process holds beside the engine that restores a snapshot: its code and threads, and what the allocator keeps of the pull.
const BESIDE_ENGINE_BYTES: u64 = 12_000_000;
const STATE: &str = "pull.json";
/// The storage's.
const LOCK: &str = "LOCK";

/// Which backup a directory in the making is of.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    store: String,
    backup: u64,
}

/// Pulls it, and says what was fetched.
pub fn run(store: &Store, dir: &Path, backup: Option<u64>, memory: u64, json: bool) -> Result<()> {
    check_free(dir)?;
    let pull = Pull::begin(store, backup, memory)?;
    let part = part_of(dir)?;
    let (making, _lock) = begin(&part, store, &pull)?;
    let bytes = pull.info.bytes;
    let mut progress = Progress::new(Some(bytes));
    let files = match pull.info.of {
        BackupKind::Directory => making.clone(),
        BackupKind::Snapshot => part.join("snapshot"),
    };
    make_dir(&files)?;
    let pulled = pull.run(&Files(files.clone()), &mut |pulled| {
        progress.tell(
            pulled.fetched_bytes + pulled.kept_bytes,
            pulled.fetched_bytes,
            "fetched",
        );
    });
    progress.end();
    let pulled = pulled?;
    sync_dirs(&files)?;
    if pull.info.of == BackupKind::Snapshot {
        restore(&files, &making, memory)?;
        sync_dirs(&making)?;
    }
    fs::rename(&making, dir)
        .with_context(|| format!("renaming {} to {}", making.display(), dir.display()))?;
    sync_dir(parent_of(dir))?;
    fs::remove_dir_all(&part).with_context(|| part.display().to_string())?;
    if json {
        return output::line(format_args!(
            "{}",
            json!({
                "backup": pull.number,
                "files": pulled.files,
                "bytes": pulled.bytes,
                "fetched_bytes": pulled.fetched_bytes,
                "kept_bytes": pulled.kept_bytes,
            })
        ));
    }
    output::line(format_args!(
        "{}: backup {} of {store}, {}, {}; {} fetched, {} were there",
        dir.display(),
        pull.number,
        many(pulled.files, "file"),
        HumanBytes(pulled.bytes),
        HumanBytes(pulled.fetched_bytes),
        HumanBytes(pulled.kept_bytes)
    ))
}

/// Nothing is written into a directory that holds something.
fn check_free(dir: &Path) -> Result<()> {
    match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => match parent_of(dir).is_dir() {
            true => Ok(()),
            false => bail!("{} is no directory", parent_of(dir).display()),
        },
        Err(e) => Err(e).with_context(|| dir.display().to_string()),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => bail!(
                "{} isn't empty: a backup is pulled into a directory of its own",
                dir.display()
            ),
        },
    }
}

fn parent_of(dir: &Path) -> &Path {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// `DIR.part`.
fn part_of(dir: &Path) -> Result<PathBuf> {
    let name = dir
        .file_name()
        .with_context(|| format!("{} has no name", dir.display()))?;
    let mut part = name.to_owned();
    part.push(".part");
    Ok(parent_of(dir).join(part))
}

/// The directory in the making, and its lock.
fn begin(part: &Path, store: &Store, pull: &Pull<'_>) -> Result<(PathBuf, Box<dyn Send + Sync>)> {
    let state = State {
        store: store.to_string(),
        backup: pull.number,
    };
    let file = part.join(STATE);
    make_dir(part)?;
    let (storage, _) = ramlet_io::open_best(part, Backend::Pread)?;
    let lock = storage
        .lock()
        .with_context(|| format!("{}: is another pull under way?", part.display()))?;
    // A pull that was cut off before its first file, or after its last, left nothing that matters.
    if holds_only_state(part)? {
        let written = fs::write(&file, serde_json::to_vec(&state)?);
        written.with_context(|| file.display().to_string())?;
    }
    let found = fs::read(&file).ok();
    let found = found.and_then(|bytes| serde_json::from_slice::<State>(&bytes).ok());
    match found {
        Some(found) if found == state => {}
        Some(found) => bail!(
            "{} is of backup {} of {}, which was cut off: pull that one, or remove it",
            part.display(),
            found.backup,
            found.store
        ),
        None => bail!("{} is there, and no pull left it: remove it", part.display()),
    }
    Ok((part.join("data"), lock))
}

fn holds_only_state(part: &Path) -> Result<bool> {
    for entry in fs::read_dir(part).with_context(|| part.display().to_string())? {
        let name = entry?.file_name();
        if name != STATE && name != LOCK {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes a data directory of a snapshot of everything.
fn restore(files: &Path, data: &Path, memory: u64) -> Result<()> {
    // What an earlier try left isn't whole.
    if data.exists() {
        fs::remove_dir_all(data).with_context(|| data.display().to_string())?;
    }
    let (from, _) = ramlet_io::open_best(files, Backend::Pread)?;
    let (to, _) = ramlet_io::open_best(data, Backend::Pread)?;
    let file = SnapshotFile::open(from.as_ref(), SNAPSHOT)?;
    let options = EngineOptions::in_process(memory - BESIDE_ENGINE_BYTES, 1)?;
    let engine = Engine::open(to, options)?;
    let restored = engine.recover_everything(&file, false, &collection_name_fault);
    engine.close();
    restored.map(|_| ()).context("restoring the snapshot")
}

fn make_dir(dir: &Path) -> Result<()> {
    match fs::create_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done.with_context(|| dir.display().to_string()),
    }
}

/// A directory, those in it, and the one it lies in.
pub(super) fn sync_dirs(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_dir(&entry.path())?;
        }
    }
    sync_dir(dir)?;
    sync_dir(parent_of(dir))
}

fn sync_dir(dir: &Path) -> Result<()> {
    let synced = File::open(dir).and_then(|file| file.sync_all());
    synced.with_context(|| format!("syncing {}", dir.display()))
}

/// Files below a directory.
pub(super) struct Files(pub(super) PathBuf);

impl Target for Files {
    fn open(&self, name: &str, bytes: u64) -> io::Result<(Box<dyn TargetFile>, bool)> {
        let path = self.0.join(name);
        if let Some((directory, _)) = name.split_once('/') {
            let made = fs::create_dir(self.0.join(directory));
            made.or_else(|e| match e.kind() {
                io::ErrorKind::AlreadyExists => Ok(()),
                _ => Err(e),
            })?;
        }
        let was_there = path.exists();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        file.set_len(bytes)?;
        Ok((Box::new(OneFile(file)), was_there))
    }
}

struct OneFile(File);

impl TargetFile for OneFile {
    fn read_at(&mut self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.0.read_exact_at(out, at)
    }

    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}
