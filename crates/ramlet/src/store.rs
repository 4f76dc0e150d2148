//! Committing a manifest: the one moment in which files become the collection's state.

use ramlet_format::catalog::{self, Catalog};
use ramlet_format::envelope::EnvelopeKind;
use ramlet_format::manifest::{self, FileEntry, Manifest, SegmentEntry};
use ramlet_format::{Component, FileCrc, bitmap};
use ramlet_io::{IoErrorKind, Storage};

use crate::error::{Error, Result};
use crate::segment::{SCRATCH_PREFIX, SegmentView, deletes_file, is_ours};

const TMP: &str = ".tmp";

/// How far a failed commit got.
pub enum CommitError {
    /// The old manifest is in force; a later commit under another number may succeed.
    Before(Error),
    /// It can't be told which manifest is in force: writing must stop.
    Unknown(Error),
}

impl CommitError {
    fn before(e: impl Into<Error>) -> CommitError {
        let e = e.into();
        // Only a full disk and a file that couldn't be opened are known to leave nothing behind that later syncs might
        // pretend to have written.
        if e.is_full() {
            CommitError::Before(e)
        } else {
            CommitError::Unknown(e)
        }
    }
    fn unknown(e: impl Into<Error>) -> CommitError {
        CommitError::Unknown(e.into())
    }
}

/// Writes a small file whole and syncs it.
pub fn write_whole(storage: &dyn Storage, name: &str, bytes: &[u8]) -> Result<()> {
    let mut file = storage.create(name)?;
    file.append(bytes)?;
    file.sync()?;
    Ok(())
}

/// Writes the deletes of a segment under the number of the manifest that will name it.
pub fn write_deletes(storage: &dyn Storage, view: &SegmentView, number: u64) -> Result<FileEntry> {
    let name = deletes_file(view.segment.id(), number);
    let bytes = bitmap::encode(EnvelopeKind::Deletes, &view.deletes.to_bitmap());
    // A file of this name may be left from a commit that didn't happen.
    if storage.list()?.binary_search(&name).is_ok() {
        storage.remove(&name)?;
    }
    write_whole(storage, &name, &bytes)?;
    let mut crc = FileCrc::new();
    crc.update(&bytes);
    Ok(FileEntry {
        name,
        bytes: bytes.len() as u64,
        crc: crc.value(),
        component: Component::Deletes,
    })
}

/// Makes `manifest` the state: all files it names are synced already, their names are made durable here.
pub fn commit(storage: &dyn Storage, manifest: &Manifest) -> std::result::Result<(), CommitError> {
    storage.sync_dir().map_err(CommitError::before)?;
    commit_file(storage, &manifest::file_name(manifest.number), &manifest.encode())
}

/// `name.tmp`, sync, rename, sync directory.
pub fn commit_file(storage: &dyn Storage, name: &str, bytes: &[u8]) -> std::result::Result<(), CommitError> {
    let tmp = format!("{name}{TMP}");
    match storage.remove(&tmp) {
        Err(e) if e.kind != IoErrorKind::NotFound => return Err(CommitError::before(e)),
        // What a crash left, if anything.
        _ => {}
    }
    if let Err(e) = write_whole(storage, &tmp, bytes) {
        let _ = storage.remove(&tmp);
        return Err(CommitError::before(e));
    }
    storage.rename(&tmp, name).map_err(CommitError::unknown)?;
    storage.sync_dir().map_err(CommitError::unknown)
}

/// The newest catalog of a data directory.
pub fn newest_catalog(storage: &dyn Storage) -> Result<Option<Catalog>> {
    let numbers = storage
        .list()?
        .into_iter()
        .filter_map(|n| catalog::parse_file_name(&n));
    let Some(number) = numbers.max() else {
        return Ok(None);
    };
    let name = catalog::file_name(number);
    let file = storage.open(&name)?;
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(&mut bytes, 0)?;
    let at = |e: &dyn std::fmt::Display| Error::corrupt(format!("{}/{name}: {e}", storage.location()));
    let catalog = Catalog::decode(&bytes).map_err(|e| at(&e))?;
    if catalog.number != number {
        return Err(at(&format!("holds catalog {}", catalog.number)));
    }
    Ok(Some(catalog))
}

/// The newest manifest of a directory.
pub fn newest_manifest(storage: &dyn Storage) -> Result<Option<Manifest>> {
    let numbers = storage
        .list()?
        .into_iter()
        .filter_map(|n| manifest::parse_file_name(&n));
    let Some(number) = numbers.max() else {
        return Ok(None);
    };
    let name = manifest::file_name(number);
    let at = |e: &dyn std::fmt::Display| Error::corrupt(format!("{}/{name}: {e}", storage.location()));
    let file = storage.open(&name)?;
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(&mut bytes, 0)?;
    let manifest = Manifest::decode(&bytes).map_err(|e| at(&e))?;
    if manifest.number != number {
        return Err(at(&format!("holds manifest {}", manifest.number)));
    }
    Ok(Some(manifest))
}

/// Removes files of ours that the manifest doesn't name, and all manifests but the newest two.
/// Foreign files are left, and told of once.
pub fn remove_orphans(storage: &dyn Storage, manifest: &Manifest) -> Result<()> {
    let keep: std::collections::BTreeSet<&str> = manifest.segments.iter().flat_map(files_of).collect();
    for name in storage.list()? {
        let old_manifest = manifest::parse_file_name(&name).is_some_and(|n| n + 1 < manifest.number);
        let tmp = name
            .strip_suffix(TMP)
            .is_some_and(|n| manifest::parse_file_name(n).is_some());
        if old_manifest || tmp || (is_ours(&name) && !keep.contains(name.as_str())) {
            storage.remove(&name)?;
        } else if !keep.contains(name.as_str()) && is_foreign(&name) {
            tracing::warn!(file = %name, directory = %storage.location(), "not one of ours: left alone");
        }
    }
    Ok(())
}

fn is_foreign(name: &str) -> bool {
    manifest::parse_file_name(name).is_none() && !crate::log::is_log_name(name) && name != "LOCK"
}

/// Names of all files of a segment.
pub fn files_of(segment: &SegmentEntry) -> impl Iterator<Item = &str> {
    segment
        .files
        .iter()
        .chain(&segment.deletes)
        .map(|f| f.name.as_str())
}

/// Removes files that nothing names any more; readers that still have them open are not disturbed.
pub fn remove_quietly<'a>(storage: &dyn Storage, names: impl Iterator<Item = &'a str>) {
    for name in names {
        if let Err(e) = storage.remove(name) {
            // The next open removes it as an orphan.
            tracing::warn!(file = %name, error = %e, "could not remove a file that is no longer used");
        }
    }
}

/// Removes all manifests but `number` and the one before.
pub fn remove_old_manifests(storage: &dyn Storage, number: u64) {
    if let Some(old) = number.checked_sub(2) {
        // One commit leaves one; after failed commits the next open removes the rest.
        let _ = storage.remove(&manifest::file_name(old));
    }
}

/// Removes what the failed build of a payload index left: its tables and the scratch files of their sorting.
pub fn remove_field_files(storage: &dyn Storage, slot: u16) {
    let (table, scratch) = (format!(".x{slot}"), [format!("-x{slot}-"), format!("-w{slot}-")]);
    let texts = ["twd", "tls", "tln", "tps"].map(|suffix| format!(".{suffix}{slot}"));
    remove_ours(storage, &|name| match name.starts_with(SCRATCH_PREFIX) {
        true => scratch.iter().any(|tag| name.contains(tag)),
        false => name.ends_with(&table) || texts.iter().any(|suffix| name.ends_with(suffix)),
    });
}

/// Removes the deletes that were written for a manifest that didn't come to be.
pub fn remove_deletes_of(storage: &dyn Storage, number: u64) {
    let suffix = deletes_file(0, number);
    let suffix = suffix.trim_start_matches('0');
    remove_ours(storage, &|name| name.ends_with(suffix));
}

fn remove_ours(storage: &dyn Storage, which: &dyn Fn(&str) -> bool) {
    if let Ok(names) = storage.list() {
        let gone = names.iter().filter(|name| is_ours(name) && which(name));
        remove_quietly(storage, gone.map(String::as_str));
    }
}

/// Removes what a failed job left.
pub fn remove_job_files(storage: &dyn Storage, segment: u64) {
    let prefix = format!("{segment:08}.");
    let scratch = format!("{SCRATCH_PREFIX}{segment}-");
    remove_ours(storage, &|name| {
        name.starts_with(&prefix) || name.starts_with(&scratch)
    });
}
