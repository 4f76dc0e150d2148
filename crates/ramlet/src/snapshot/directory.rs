//! The snapshot directory: one subdirectory for each collection, and whole-storage snapshots beside them.
//!
//! A collection's directory is its name with every byte but `A-Z a-z 0-9 _ - .` as `%XX` (a dot in front too), as in a URL;
//! beyond 200 bytes it is cut and a hash takes the place of the rest. `LOCK` is `%4COCK`. Beside `NAME.snapshot` lies `NAME.snapshot.checksum`,
//! its SHA-256.

use std::fmt::Write;
use std::sync::Arc;

use ramlet_format::hash::hash64;
use ramlet_format::is_plain_name;
use ramlet_format::snapshot::{HEADER_BYTES, Header};
use ramlet_io::{ReadFile, Storage};

use super::source::check_sha256;
use super::{SnapshotDescription, SnapshotFile, SnapshotReader, SnapshotScope, Workspace};
use crate::error::{Error, Result};
use crate::limits::SNAPSHOT_NAME_BYTES;

const SUFFIX: &str = ".snapshot";
pub(super) const CHECKSUM: &str = ".checksum";
/// Ends the name of what is being written.
pub(super) const TMP: &str = ".tmp";
/// A directory's name is at most this long: file systems take 255.
const DIRECTORY_BYTES: usize = 200;

/// Those of a shard are beside those of collections: no collection that is served has a slash in its name.
fn directory_of(scope: SnapshotScope<'_>) -> String {
    match scope {
        SnapshotScope::Everything => String::new(),
        SnapshotScope::Collection(name) => directory_name(name),
        SnapshotScope::Shard(name, number) => directory_name(&format!("{name}/shards/{number}")),
    }
}

/// The directory of all snapshots.
#[derive(Clone)]
pub struct SnapshotDir {
    storage: Arc<dyn Storage>,
    /// Another server may share the directory; then what it is writing isn't ours to remove.
    _lock: Option<Arc<Box<dyn Send + Sync>>>,
}

impl SnapshotDir {
    /// Removes what was being written when the process ended.
    pub fn open(storage: Arc<dyn Storage>) -> Result<SnapshotDir> {
        let lock = storage.lock().ok().map(Arc::new);
        if lock.is_some() {
            remove_orphans(storage.as_ref())?;
            for name in storage.list_subdirs()? {
                remove_orphans(storage.subdir(&name)?.as_ref())?;
            }
        }
        Ok(SnapshotDir { storage, _lock: lock })
    }

    /// Where the snapshots of `scope` go.
    pub fn create(&self, scope: SnapshotScope<'_>) -> Result<Arc<dyn Storage>> {
        Ok(match scope {
            SnapshotScope::Everything => self.storage.clone(),
            SnapshotScope::Collection(_) | SnapshotScope::Shard(..) => {
                self.storage.subdir(&directory_of(scope))?
            }
        })
    }

    /// As [`SnapshotDir::create`]; `None` when there is no directory yet.
    fn existing(&self, scope: SnapshotScope<'_>) -> Result<Option<Arc<dyn Storage>>> {
        let there = match scope {
            SnapshotScope::Everything => true,
            SnapshotScope::Collection(_) | SnapshotScope::Shard(..) => {
                has(&self.storage.list_subdirs()?, &directory_of(scope))
            }
        };
        there.then(|| self.create(scope)).transpose()
    }

    pub fn root(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// By name, which ends in the time they were taken.
    pub fn list(&self, scope: SnapshotScope<'_>) -> Result<Vec<SnapshotDescription>> {
        let Some(storage) = self.existing(scope)? else {
            return Ok(Vec::new());
        };
        let files = storage.list()?;
        let names = files.iter().filter(|name| name.ends_with(SUFFIX));
        names
            .map(|name| describe(storage.as_ref(), &files, name))
            .collect()
    }

    /// `NotFound` when there is none of this name.
    pub fn open_file(&self, scope: SnapshotScope<'_>, name: &str) -> Result<SnapshotFile> {
        let (_, file) = self.find(scope, name)?;
        Ok(SnapshotFile {
            file,
            name: name.to_string(),
        })
    }

    pub fn delete(&self, scope: SnapshotScope<'_>, name: &str) -> Result<()> {
        let (storage, _) = self.find(scope, name)?;
        storage.remove(name)?;
        // A file that somebody else put there has none.
        let _ = storage.remove(&format!("{name}{CHECKSUM}"));
        Ok(storage.sync_dir()?)
    }

    /// The directory that holds it, and the file. Only what is listed is opened: no symbolic link, nothing outside.
    fn find(&self, scope: SnapshotScope<'_>, name: &str) -> Result<(Arc<dyn Storage>, Arc<dyn ReadFile>)> {
        let missing = || Error::not_found(format!("Not found: Snapshot {name} doesn't exist"));
        let named = name.len() <= SNAPSHOT_NAME_BYTES + 55 && name.ends_with(SUFFIX) && !name.contains('/');
        let storage = match named {
            true => self.existing(scope)?.ok_or_else(missing)?,
            false => return Err(missing()),
        };
        if !has(&storage.list()?, name) {
            return Err(missing());
        }
        let file = storage.open(name)?;
        Ok((storage, file))
    }

    /// Whether an absolute path names a place within the directory.
    pub fn holds(&self, path: &str) -> bool {
        self.parts_within(path).is_some_and(|parts| parts.len() <= 2)
    }

    /// What stands behind the directory in an absolute path within it.
    fn parts_within<'a>(&self, path: &'a str) -> Option<Vec<&'a str>> {
        let root = self.storage.location();
        let inside = path.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/')?;
        let parts: Vec<&str> = inside.split('/').collect();
        let is_plain = |part: &&str| !part.is_empty() && !part.starts_with('.');
        parts.iter().all(is_plain).then_some(parts)
    }

    /// The file of an absolute path within the directory.
    pub fn open_path(&self, path: &str) -> Result<SnapshotFile> {
        let root = self.storage.location();
        let outside = || Error::bad_input(format!("{path} is not in the directory of snapshots, {root}"));
        let missing = || Error::bad_input(format!("Bad request: Snapshot file {path:?} does not exist"));
        let parts = self.parts_within(path).ok_or_else(outside)?;
        let (storage, name) = match parts[..] {
            [name] => (self.storage.clone(), name),
            [dir, name] => {
                let there = self.storage.list_subdirs()?;
                // The collection's name, as clients of the API build a path, or that of the directory.
                let dir = [dir.to_owned(), directory_name(dir)];
                let dir = dir.iter().find(|dir| has(&there, dir)).ok_or_else(missing)?;
                (self.storage.subdir(dir)?, name)
            }
            _ => return Err(outside()),
        };
        if !has(&storage.list()?, name) {
            return Err(missing());
        }
        Ok(SnapshotFile {
            file: storage.open(name)?,
            name: name.to_string(),
        })
    }
}

/// `prefix-NUMBER-YYYY-MM-DD-HH-MM-SS.snapshot`, as the API's users know them.
pub fn file_name(prefix: &str, number: u64, created: u64) -> String {
    let plain: String = prefix
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "_-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .take(SNAPSHOT_NAME_BYTES - 64)
        .collect();
    let seconds = i64::try_from(created).ok();
    let time = seconds
        .and_then(|s| chrono::DateTime::from_timestamp(s, 0))
        .unwrap_or_default();
    let name = format!("{plain}-{number}-{}{SUFFIX}", time.format("%Y-%m-%d-%H-%M-%S"));
    match is_plain_name(&name) {
        true => name,
        // It began with what makes a name no plain one.
        false => format!("s{name}"),
    }
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|n| n == name)
}

fn directory_name(collection: &str) -> String {
    let mut out = String::with_capacity(collection.len());
    for (at, byte) in collection.bytes().enumerate() {
        match byte {
            // The directory's own lock has that name.
            _ if at == 0 && collection == "LOCK" => out.push_str("%4C"),
            b'.' if at > 0 => out.push('.'),
            b'_' | b'-' => out.push(byte as char),
            _ if byte.is_ascii_alphanumeric() => out.push(byte as char),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    if out.len() > DIRECTORY_BYTES {
        out.truncate(DIRECTORY_BYTES - 17);
        let _ = write!(out, "%{:016x}", hash64(collection.as_bytes()));
    }
    out
}

fn describe(storage: &dyn Storage, files: &[String], name: &str) -> Result<SnapshotDescription> {
    let file = storage.open(name)?;
    let mut head = [0; HEADER_BYTES];
    // What isn't ours is listed all the same: it can be downloaded and deleted.
    let header = match file.len() >= HEADER_BYTES as u64 {
        true => file
            .read_at(&mut head, 0)
            .ok()
            .and_then(|()| Header::decode(&head).ok()),
        false => None,
    };
    let sidecar = format!("{name}{CHECKSUM}");
    Ok(SnapshotDescription {
        name: name.to_string(),
        created: header.and_then(|h| h.created),
        bytes: file.len(),
        checksum: has(files, &sidecar)
            .then(|| read_checksum(storage, &sidecar))
            .flatten(),
    })
}

fn read_checksum(storage: &dyn Storage, name: &str) -> Option<String> {
    let file = storage.open(name).ok()?;
    let mut text = [0; 64];
    file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text).ok()?;
    is_sha256(text).then(|| text.to_string())
}

/// Verifies a file of a directory of snapshots: its frames, and its SHA-256 where it lies beside it. Its bytes; `None` for what is no snapshot.
pub fn verify_snapshot(storage: &dyn Storage, name: &str, work: &mut Workspace) -> Result<Option<u64>> {
    if !name.ends_with(SUFFIX) {
        return Ok(None);
    }
    let file = SnapshotFile::open(storage, name)?;
    let sidecar = format!("{name}{CHECKSUM}");
    if has(&storage.list()?, &sidecar) {
        let wanted = read_checksum(storage, &sidecar);
        let wanted = wanted.ok_or_else(|| Error::corrupt(format!("{sidecar} is no SHA-256")))?;
        check_sha256(&file, &wanted, work)?;
    }
    SnapshotReader::open(&file)?.verify(work)?;
    Ok(Some(file.bytes()))
}

/// Whether it is 64 hex digits.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// What was being written, and checksums of files that never came to be.
fn remove_orphans(storage: &dyn Storage) -> Result<()> {
    let files = storage.list()?;
    for name in &files {
        let orphan = name
            .strip_suffix(CHECKSUM)
            .is_some_and(|file| file.ends_with(SUFFIX) && !has(&files, file));
        let unfinished = name.strip_suffix(TMP).is_some_and(|file| file.ends_with(SUFFIX));
        if orphan || unfinished {
            storage.remove(name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_told_apart_and_lead_nowhere() {
        let check = |name: &str, expected: &str| assert_eq!(directory_name(name), expected);
        check("docs_v2-a", "docs_v2-a");
        check("a.b", "a.b");
        check("..", "%2E.");
        check("a/b", "a%2Fb");
        check("a%2Fb", "a%252Fb");
        check("ä", "%C3%A4");
        check("LOCK", "%4COCK");
        check("LOCKS", "LOCKS");
        let long = [&"x".repeat(255), &format!("{}y", "x".repeat(254))[..]].map(directory_name);
        assert_ne!(long[0], long[1]);
        assert!(long.iter().all(|name| name.len() == DIRECTORY_BYTES));
    }

    #[test]
    fn names_of_files() {
        let name = file_name("docs", 7, 1_700_000_000);
        assert_eq!(name, "docs-7-2023-11-14-22-13-20.snapshot");
        for prefix in ["", "../..", "a/b", &"é".repeat(300)] {
            let name = file_name(prefix, u64::MAX, u64::MAX);
            assert!(
                is_plain_name(&name) && name.len() <= SNAPSHOT_NAME_BYTES,
                "{name}"
            );
        }
    }
}
