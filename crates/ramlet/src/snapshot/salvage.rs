//! Writes the readable part of a collection that can't be opened as a snapshot.

use std::sync::Arc;

use ramlet_format::catalog::{Catalog, CollectionEntry};
use ramlet_format::manifest::{Manifest, SegmentEntry};
use ramlet_format::snapshot::{Contents, Frame, FrameKind, Header};
use ramlet_io::{IoContext, Storage};
use ramlet_memory::Ledger;

use super::Workspace;
use super::restore::check_group;
use super::sink::Sink;
use crate::error::{Error, Result};
use crate::faults::panics::guarded;
use crate::jobs::Settings;
use crate::recovery::catalog::is_directory_id;
use crate::recovery::manifest_store::{self, Generations};
use crate::recovery::verify::{VERIFY_MEMORY, file_context_of, segment_is_sound, whole_file};
use crate::schema::Schema;
use crate::write::log::Log;

/// What a salvage found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Points in the segments that are in the snapshot; those of the log come to it.
    pub points: u64,
    /// Groups of changes of the log that are in the snapshot.
    pub groups: u64,
    /// What is left out, and why.
    pub lost: Vec<String>,
}

/// Writes a snapshot of what can be read of `collection` (its name, or its directory's where the catalog can't be read) as `name` in `out`. Nothing
/// in the data directory is changed; no server may have it open. Left out are segments of which a file is damaged, and groups of the log that can't be
/// read. Where the deletes of a segment can't be read, points that were deleted or changed since are there as they were before. What this process
/// may not read is not lost: that is an error, and nothing is written.
pub fn salvage(
    storage: &Arc<dyn Storage>,
    collection: &str,
    out: &Arc<dyn Storage>,
    name: &str,
    created: u64,
) -> Result<Salvaged> {
    let _lock = storage.lock()?;
    let mut found = Salvaged::default();
    let directory = directory_of(storage.as_ref(), collection)?;
    let mut manifest = manifest_of(directory.as_ref(), &mut found.lost)?;
    let settings: Settings = serde_json::from_value(manifest.config.clone())
        .map_err(|e| Error::corrupt(format!("settings: {e}")))?;
    let schema = Schema::new(&settings.config, &settings.slots)?;
    let logs = manifest.clone();
    let file_context = file_context_of(directory.clone())?;
    let mut io = IoContext::for_storage(directory.as_ref(), 16)?;
    let mut unreadable = None;
    manifest.segments.retain_mut(|entry| {
        let deletes = drop_damaged_deletes(directory.as_ref(), entry, &mut found.lost);
        let sound = guarded(|| {
            entry
                .all_files()
                .try_for_each(|file| whole_file(directory.as_ref(), file).map_err(|e| e.at(&file.name)))?;
            segment_is_sound(entry, &file_context, &schema, &mut io)
        });
        if let Err(e) = &sound {
            let (id, live) = (entry.id, entry.live);
            found.lost.push(format!("segment {id}, {live} points: {e}"));
        }
        let failed = [deletes.err(), sound.as_ref().err().cloned()]
            .into_iter()
            .flatten();
        unreadable = unreadable
            .take()
            .or(failed.into_iter().find(Error::is_unreadable));
        found.points += if sound.is_ok() { u64::from(entry.live) } else { 0 };
        sound.is_ok()
    });
    if let Some(e) = unreadable {
        return Err(e);
    }
    manifest.collection = "snapshot".to_owned();
    (manifest.number, manifest.applied_lsn, manifest.durable_lsn) = (1, 0, 0);
    manifest.logs.clear();

    let ledger = Ledger::new(VERIFY_MEMORY);
    let mut work = Workspace::new(&ledger.consumer("salvage", u64::MAX))?;
    Sink::create(out.clone(), name)?.fill(&mut |sink| {
        sink.begin(Header {
            contents: Contents::Collection,
            created: Some(created),
        })?;
        sink.frame(FrameKind::Collection, &manifest.encode())?;
        let (mut groups, mut refused) = (0, Vec::new());
        let lost = Log::salvage(directory.as_ref(), &logs, &mut |group| {
            if let Err(e) = guarded(|| check_group(group, &schema)) {
                refused.push(format!("a group of changes: {e}"));
                return Ok(());
            }
            groups += 1;
            sink.frame(FrameKind::Changes, group)
        })?;
        found.groups = groups;
        found.lost.extend(lost.into_iter().chain(refused));
        for file in manifest.segments.iter().flat_map(SegmentEntry::all_files) {
            sink.head(Frame {
                kind: FrameKind::File,
                crc: file.crc,
                bytes: file.bytes,
            })?;
            let source = directory.open(&file.name)?;
            let mut at = 0;
            while at < file.bytes {
                let n = work.buf.len().min((file.bytes - at) as usize);
                source.read_at(&mut work.buf[..n], at)?;
                sink.append(&work.buf[..n])?;
                at += n as u64;
            }
        }
        sink.frame(FrameKind::Finished, b"")?;
        sink.end()
    })?;
    Ok(found)
}

fn directory_of(storage: &dyn Storage, collection: &str) -> Result<Arc<dyn Storage>> {
    let is_there = |id: &str| Ok::<_, Error>(storage.list_subdirs()?.iter().any(|name| name == id));
    let catalog = match is_directory_id(collection) && is_there(collection)? {
        // Whatever the catalog says.
        true => None,
        false => Generations::<Catalog>::newest(storage)?.1,
    };
    let id = match &catalog {
        None => collection,
        Some(catalog) => {
            let mut entries = catalog.collections.iter();
            let entry = entries.find(|entry| entry.name == collection);
            if let Some(entry) = entry.filter(|entry| !entry.shards.is_empty()) {
                return Err(of_shards(entry));
            }
            entry.map_or(collection, |entry| &entry.id)
        }
    };
    match is_there(id)? {
        true => Ok(storage.subdir(id)?),
        false => Err(Error::not_found(format!(
            "there is no collection `{collection}`, and no directory of this name"
        ))),
    }
}

/// Each shard is salvaged by itself: which of them is damaged, and what is left of it, is for whoever puts them together again to know.
fn of_shards(entry: &CollectionEntry) -> Error {
    let shards = entry.shards.iter();
    let shards: Vec<_> = shards
        .map(|shard| format!("{} (shard key {})", shard.id, shard.key))
        .collect();
    Error::bad_input(format!(
        "the points of `{}` are in shards, which are salvaged one by one, by their directories: {}",
        entry.name,
        shards.join(", ")
    ))
}

/// The newest manifest that can be read.
fn manifest_of(directory: &dyn Storage, lost: &mut Vec<String>) -> Result<Manifest> {
    let why = match manifest_store::newest_manifest(directory) {
        Ok(Some(manifest)) => return Ok(manifest),
        Ok(None) => Error::corrupt("there is no manifest"),
        Err(e) => e,
    };
    let Some((name, number)) = manifest_store::kept::<Manifest>(directory)? else {
        return Err(why);
    };
    let before = manifest_store::read_numbered(directory, &name, number)?;
    lost.push(format!("{why}: what is in {name}, of before it, is taken"));
    Ok(before)
}

fn drop_damaged_deletes(
    directory: &dyn Storage,
    entry: &mut SegmentEntry,
    lost: &mut Vec<String>,
) -> Result<()> {
    let Some(deletes) = &entry.deletes else {
        return Ok(());
    };
    whole_file(directory, deletes).inspect_err(|e| {
        let (id, gone) = (entry.id, entry.rows - entry.live);
        lost.push(format!(
            "the deletes of segment {id}: {gone} points are as they were before they were deleted or changed: {e}"
        ));
        (entry.deletes, entry.live) = (None, entry.rows);
    })
}
