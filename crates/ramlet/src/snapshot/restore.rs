//! Restores one collection from a snapshot into an empty directory; then it is opened as usual.

use ramlet_format::Component;
use ramlet_format::manifest::{FileEntry, Manifest, SegmentEntry};
use ramlet_format::snapshot::{Frame, FrameKind};
use ramlet_io::Storage;

use super::source::refused;
use super::{SnapshotReader, Workspace, check_disk};
use crate::error::{Error, ErrorKind, Result};
use crate::jobs::Settings;
use crate::limits::{GROUP_BYTES_MAX, PAYLOAD_BYTES_MAX, SNAPSHOT_LIST_FACTOR};
use crate::payload::validate;
use crate::recovery::catalog::first_segment;
use crate::recovery::manifest_store::{self, CommitError, Generations};
use crate::recovery::recover::Parts;
use crate::schema::{Schema, Slots, check_config};
use crate::segment::is_ours;
use crate::types::CollectionConfig;
use crate::write::change::{self, Change};
use crate::write::encoding::{check_query, decode_vector};
use crate::write::log::Log;

/// Says whether a collection of these settings may take the place it is meant for.
pub type Fits<'a> = &'a dyn Fn(&CollectionConfig) -> Result<()>;

/// Writes the collection that begins with `frame` into the directory of `parts`: its files, its log, then its manifest.
pub fn build(
    reader: &mut SnapshotReader,
    frame: &Frame,
    parts: &Parts,
    fits: Fits<'_>,
    work: &mut Workspace,
) -> Result<()> {
    let storage = parts.file_context.storage.as_ref();
    let _held = work.memory.reserve(frame.bytes * SNAPSHOT_LIST_FACTOR)?;
    let body = reader.body(frame)?;
    let mut manifest = Manifest::decode(&body).map_err(|e| refused(&e))?;
    drop(body);
    let settings: Settings =
        serde_json::from_value(manifest.config.clone()).map_err(|e| refused(&format!("settings: {e}")))?;
    check_config(&settings.config)?;
    fits(&settings.config)?;
    check_slots(&settings.slots)?;
    let schema = Schema::new(&settings.config, &settings.slots).map_err(|e| refused(&e))?;
    check_names(&manifest)?;
    check_disk(storage, reader.bytes())?;

    let mut log = Log::create(parts.file_context.storage.clone(), 1, parts.shared.log_setup())?;
    let mut next = reader.next()?;
    while next.kind == FrameKind::Changes {
        let group = group(reader, &next, &schema, work)?;
        if let Some(file) = log.room_for(group.0.len(), parts.shared.salt())? {
            log.switch(file);
        }
        log.commit(&group.0)?;
        next = reader.next()?;
    }
    let (logs, durable_lsn) = (log.entries(0), log.last_lsn());
    drop(log);
    for entry in manifest.segments.iter().flat_map(SegmentEntry::all_files) {
        copy(reader, &next, entry, storage, work)?;
        next = reader.next()?;
    }
    if next.kind != FrameKind::Finished {
        return Err(refused(&format!("a {:?} frame behind the last file", next.kind)));
    }
    manifest.collection.clone_from(&parts.id);
    let mut manifests = Generations::none();
    (manifest.number, manifest.applied_lsn) = (manifests.next(), 0);
    (manifest.logs, manifest.durable_lsn) = (logs, durable_lsn);
    // The segments keep their ids: other collections that were restored from the same have the same files, until they write their own.
    manifest.next_segment = manifest.next_segment.max(first_segment(&parts.id));
    match manifest_store::commit(storage, &mut manifests, &manifest) {
        Ok(()) => Ok(()),
        Err(CommitError::Before(e) | CommitError::Unknown(e)) => Err(e),
    }
}

/// Every file has a name that we give to files of segments, and no other's: it can be neither manifest nor log.
fn check_names(manifest: &Manifest) -> Result<()> {
    let mut seen = std::collections::BTreeSet::new();
    for file in manifest.segments.iter().flat_map(SegmentEntry::all_files) {
        if !is_ours(&file.name) || !seen.insert(&file.name) {
            return Err(refused(&format!("a file of the name {:?}", file.name)));
        }
    }
    Ok(())
}

/// No two of a kind share a slot, and slots are what file names can hold.
fn check_slots(slots: &Slots) -> Result<()> {
    for (slots, most) in [
        (&slots.vectors, Component::VECTOR_SLOTS),
        (&slots.fields, Component::SLOTS),
    ] {
        let mut seen = std::collections::BTreeSet::new();
        for (name, slot) in slots {
            if *slot >= most || !seen.insert(slot) {
                return Err(refused(&format!("slot {slot} of {name:?}")));
            }
        }
    }
    Ok(())
}

/// A group, whose rows are as the schema has them: opening trusts what is in a log.
fn group(
    reader: &mut SnapshotReader,
    frame: &Frame,
    schema: &Schema,
    work: &Workspace,
) -> Result<(Vec<u8>, ramlet_memory::Reservation)> {
    if frame.bytes == 0 || frame.bytes > GROUP_BYTES_MAX as u64 {
        let what = format!(
            "changes of {} bytes; 1 to {GROUP_BYTES_MAX} are possible",
            frame.bytes
        );
        return Err(refused(&what));
    }
    // The record that the log makes of it too, and a vector of it in floats.
    let held = work.memory.reserve(6 * frame.bytes)?;
    let group = reader.body(frame)?;
    check_group(&group, schema)?;
    Ok((group, held))
}

/// Refuses a group whose rows aren't as the schema has them.
pub fn check_group(group: &[u8], schema: &Schema) -> Result<()> {
    change::for_each(group, |_, change| {
        let Change::Put(id, row) = change else {
            return Ok(());
        };
        for (slot, bytes) in row.vectors() {
            check_vector(schema, slot, bytes).map_err(|what| refused(&format!("point {id}: {what}")))?;
        }
        match row.payload {
            [] => Ok(()),
            payload => validate(payload, PAYLOAD_BYTES_MAX)
                .map_err(|e| refused(&format!("payload of point {id}: {e}"))),
        }
    })
    .map_err(|e| match e.kind() {
        ErrorKind::BadInput => e,
        _ => refused(&e),
    })
}

fn check_vector(schema: &Schema, slot: u16, bytes: &[u8]) -> std::result::Result<(), String> {
    let Some(vector) = schema.vectors.iter().find(|v| v.slot == slot) else {
        return Err(format!("a vector in slot {slot}, which the settings don't have"));
    };
    let found = bytes.len();
    if let Some(fixed) = vector.fixed_bytes().filter(|fixed| *fixed != found) {
        let name = &vector.name;
        return Err(format!("vector `{name}` of {found} bytes instead of {fixed}"));
    }
    let decoded = decode_vector(vector, bytes).and_then(|v| check_query(vector, &v));
    decoded.map_err(|e| e.to_string())
}

fn copy(
    reader: &mut SnapshotReader,
    frame: &Frame,
    entry: &FileEntry,
    storage: &dyn Storage,
    work: &mut Workspace,
) -> Result<()> {
    let agrees = frame.kind == FrameKind::File && frame.bytes == entry.bytes && frame.crc == entry.crc;
    if !agrees {
        let what = format!("{} isn't where and what the list of files says", entry.name);
        return Err(refused(&what));
    }
    let mut file = storage.create(&entry.name)?;
    reader.copy(frame, file.as_mut(), work)?;
    file.sync()?;
    Ok(())
}

/// Refuses what a collection of other vectors can't become: its clients would send the wrong ones.
pub fn check_same_vectors(there: &CollectionConfig, snapshot: &CollectionConfig) -> Result<()> {
    let vectors = |config: &CollectionConfig| {
        let dense = config.vectors.iter().map(|(name, v)| {
            let several = v.multivector_config.map_or("", |_| ", several");
            format!("`{name}`: {} of {:?}{several}", v.size, v.distance)
        });
        let sparse = config
            .sparse_vectors
            .keys()
            .map(|name| format!("`{name}`: sparse"));
        dense.chain(sparse).collect::<Vec<_>>().join(", ")
    };
    let (there, snapshot) = (vectors(there), vectors(snapshot));
    match there == snapshot {
        true => Ok(()),
        false => Err(Error::bad_input(format!(
            "the snapshot doesn't fit the collection, whose vectors are {there}; those of the snapshot are {snapshot}"
        ))),
    }
}
