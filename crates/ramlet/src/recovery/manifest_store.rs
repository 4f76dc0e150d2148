//! Commits a manifest: the one moment in which files become part of the collection.

use ramlet_format::catalog::{self, Catalog};
use ramlet_format::envelope::EnvelopeKind;
use ramlet_format::manifest::{self, FileEntry, Manifest, SegmentEntry};
use ramlet_format::{Component, FileCrc, bitmap};
use ramlet_io::Storage;

use crate::error::{Error, Result};
use crate::faults::mutants;
use crate::segment::{SCRATCH_PREFIX, SegmentView, deletes_file, is_ours};

const TMP: &str = ".tmp";
const OLD: &str = ".old";

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
    if !mutants::is("list-not-synced") {
        file.sync()?;
    }
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

/// A file of a list of files, written whole under a new number for each change: the greatest number counts.
pub trait Numbered: Sized {
    fn file_name(number: u64) -> String;
    fn number_of(name: &str) -> Option<u64>;
    fn decode(bytes: &[u8]) -> ramlet_format::Result<Self>;
    fn number(&self) -> u64;
}

impl Numbered for Manifest {
    fn file_name(number: u64) -> String {
        manifest::file_name(number)
    }
    fn number_of(name: &str) -> Option<u64> {
        manifest::parse_file_name(name)
    }
    fn decode(bytes: &[u8]) -> ramlet_format::Result<Manifest> {
        Manifest::decode(bytes)
    }
    fn number(&self) -> u64 {
        self.number
    }
}

impl Numbered for Catalog {
    fn file_name(number: u64) -> String {
        catalog::file_name(number)
    }
    fn number_of(name: &str) -> Option<u64> {
        catalog::parse_file_name(name)
    }
    fn decode(bytes: &[u8]) -> ramlet_format::Result<Catalog> {
        Catalog::decode(bytes)
    }
    fn number(&self) -> u64 {
        self.number
    }
}

/// Which numbers of a kind there are: the newest counts; the one before it is kept under another name, `MANIFEST-000000000041.old`. So
/// nobody takes it for the newest where that one is lost; people may bring it back by its name.
pub struct Generations<T> {
    newest: u64,
    old: Option<u64>,
    /// The last number that was tried: what a failed commit left under it is never touched again.
    used: u64,
    kind: std::marker::PhantomData<fn() -> T>,
}

impl<T: Numbered> Generations<T> {
    /// Of an empty directory.
    pub fn none() -> Generations<T> {
        Generations {
            newest: 0,
            old: None,
            used: 0,
            kind: std::marker::PhantomData,
        }
    }

    /// The newest, read, and the names that others have. Changes nothing. `None`: there was never one. Corrupt where the newest is damaged, or
    /// lost: only one that it came after is left.
    pub fn newest(storage: &dyn Storage) -> Result<(Generations<T>, Option<T>)> {
        let names = storage.list()?;
        let newest = names.iter().filter_map(|name| T::number_of(name)).max();
        let old = names.iter().filter_map(|name| old_number::<T>(name)).max();
        let found = Generations {
            newest: newest.unwrap_or(0),
            old,
            used: newest.unwrap_or(0),
            kind: std::marker::PhantomData,
        };
        let is_lost =
            |old: &u64| newest.is_none_or(|newest| newest <= *old) && !mutants::is("lost-list-passed-over");
        if let Some(old) = old.filter(is_lost) {
            let (place, kept) = (storage.location(), old_name::<T>(old));
            let lost = T::file_name(old + 1);
            return Err(Error::corrupt(format!(
                "{place}: {lost} or a later one is lost; {kept} is of before it"
            )));
        }
        let newest = newest.map(|number| read_numbered(storage, &T::file_name(number), number));
        Ok((found, newest.transpose()?))
    }

    /// Removes what a crash left: files in the making, and all but one of before.
    pub fn tidy(&mut self, storage: &dyn Storage) -> Result<()> {
        let mut before = None;
        for name in storage.list()? {
            let began = name.strip_suffix(TMP).and_then(T::number_of).is_some();
            let is_older = old_number::<T>(&name).is_some_and(|number| Some(number) != self.old);
            if began || is_older {
                storage.remove(&name)?;
            }
            before = before.max(T::number_of(&name).filter(|number| *number < self.newest));
        }
        if let Some(before) = before {
            self.retire(storage, before);
            let older = |name: &String| T::number_of(name).is_some_and(|number| number < before);
            for name in storage.list()?.into_iter().filter(older) {
                storage.remove(&name)?;
            }
        }
        Ok(())
    }

    /// The number for the next one: each is used once, even where the commit fails.
    pub fn next(&mut self) -> u64 {
        self.used += 1;
        self.used
    }

    /// Makes a file of the number from [`Generations::next`] the newest: `name.tmp`, sync, rename, sync directory.
    pub fn commit(&mut self, storage: &dyn Storage, bytes: &[u8]) -> std::result::Result<(), CommitError> {
        let name = T::file_name(self.used);
        let tmp = match mutants::is("list-written-in-place") {
            true => name.clone(),
            false => format!("{name}{TMP}"),
        };
        if let Err(e) = write_whole(storage, &tmp, bytes) {
            let _ = storage.remove(&tmp);
            return Err(CommitError::before(e));
        }
        storage.rename(&tmp, &name).map_err(CommitError::unknown)?;
        if !mutants::is("list-name-not-synced") {
            storage.sync_dir().map_err(CommitError::unknown)?;
        }
        let before = std::mem::replace(&mut self.newest, self.used);
        if before > 0 {
            self.retire(storage, before);
        }
        Ok(())
    }

    /// Keeps one under its other name, instead of the one that was kept. What fails is done by the next start.
    fn retire(&mut self, storage: &dyn Storage, number: u64) {
        if storage
            .rename(&T::file_name(number), &old_name::<T>(number))
            .is_err()
        {
            return;
        }
        if let Some(older) = self.old.replace(number) {
            let _ = storage.remove(&old_name::<T>(older));
        }
    }
}

fn old_name<T: Numbered>(number: u64) -> String {
    format!("{}{OLD}", T::file_name(number))
}

fn old_number<T: Numbered>(name: &str) -> Option<u64> {
    name.strip_suffix(OLD).and_then(T::number_of)
}

/// The file that is kept of before the newest one, and its number.
pub fn kept<T: Numbered>(storage: &dyn Storage) -> Result<Option<(String, u64)>> {
    let old = storage
        .list()?
        .iter()
        .filter_map(|name| old_number::<T>(name))
        .max();
    Ok(old.map(|number| (old_name::<T>(number), number)))
}

/// A numbered file, whole, and of the number that its name has.
pub fn read_numbered<T: Numbered>(storage: &dyn Storage, name: &str, number: u64) -> Result<T> {
    let file = storage.open(name)?;
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(&mut bytes, 0)?;
    let at = |e: &dyn std::fmt::Display| Error::corrupt(format!("{}/{name}: {e}", storage.location()));
    let read = T::decode(&bytes).map_err(|e| at(&e))?;
    match read.number() == number {
        true => Ok(read),
        false => Err(at(&format!("holds number {}", read.number()))),
    }
}

/// The newest manifest of a directory.
pub fn newest_manifest(storage: &dyn Storage) -> Result<Option<Manifest>> {
    Generations::newest(storage).map(|(_, manifest)| manifest)
}

/// Makes `manifest` the state: all files it names are synced already, their names are made durable here.
pub fn commit(
    storage: &dyn Storage,
    generations: &mut Generations<Manifest>,
    manifest: &Manifest,
) -> std::result::Result<(), CommitError> {
    if !mutants::is("names-not-synced") {
        storage.sync_dir().map_err(CommitError::before)?;
    }
    generations.commit(storage, &manifest.encode())
}

/// Removes files of ours that the manifest doesn't name. Foreign files are left, and told of once.
pub fn remove_orphans(storage: &dyn Storage, manifest: &Manifest) -> Result<()> {
    let keep: std::collections::BTreeSet<&str> = manifest.segments.iter().flat_map(files_of).collect();
    for name in storage.list()? {
        if keep.contains(name.as_str()) {
            continue;
        }
        if is_ours(&name) {
            storage.remove(&name)?;
        } else if is_foreign(&name) {
            tracing::warn!(file = %name, directory = %storage.location(), "not one of ours: left alone");
        }
    }
    Ok(())
}

fn is_foreign(name: &str) -> bool {
    let number = Manifest::number_of(name).or_else(|| old_number::<Manifest>(name));
    number.is_none() && !crate::write::log::is_log_name(name) && name != "LOCK"
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
