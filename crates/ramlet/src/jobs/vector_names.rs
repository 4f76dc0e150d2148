//! Adding and dropping named vectors of a collection.
//!
//! Segments have no file of a vector that none of their points has, so a new one touches no segment. A name that comes back
//! gets another slot: what the log and the memtables still hold of the old one is left behind.

use std::sync::{Arc, MutexGuard};

use super::{Core, RunningJob, Settings, begin, commit, flush_with};
use crate::error::{Error, Result};
use crate::schema::{Schema, Slots, check_config};
use crate::segment::{Segment, SegmentView};
use crate::types::{CollectionConfig, DEFAULT_VECTOR, SparseVectorParams, VectorParams};
use crate::write::memtable::MemtableWriter;
use crate::write::writer::Writer;

/// What is added under a name.
#[derive(Debug, Clone, PartialEq)]
pub enum NewVector {
    Dense(Box<VectorParams>),
    Sparse(SparseVectorParams),
}

/// Adds a vector under a name; what is there already, with the same space, is left as it is. `next`: the slot to look for a free one from.
pub fn add(core: &Core, name: &str, new: &NewVector, next: Option<u16>) -> Result<()> {
    let rows = core
        .view
        .load()
        .memtables
        .iter()
        .map(|b| b.memtable.bytes())
        .max();
    let mut arena = begin(core, rows.unwrap_or(0))?;
    if is_there(&core.writer().config, name, new)? {
        return Ok(());
    }
    let mut writer = writer_without_frozen(core, &mut arena)?;
    let Settings { config, slots, .. } = with_vector(&writer, name, new, next)?;
    let schema = Arc::new(Schema::new(&config, &slots)?);
    // Before the commit: what comes after it must not fail for want of room.
    let fresh = MemtableWriter::new(schema, &writer.memtables)?;
    let (segments, applied_lsn) = (writer.segments.clone(), writer.manifest.applied_lsn);
    commit(core, &mut writer, segments, applied_lsn, Some((config, slots)))?;
    take_memtable(core, &mut writer, fresh)?;
    core.publish(&writer);
    drop(writer);
    core.shared.wake_maintenance();
    Ok(())
}

/// Drops a vector, with its files; false when there is none of the name.
pub fn remove(core: &Core, name: &str) -> Result<bool> {
    let _arena = begin(core, 0)?;
    let mut writer = core.writer();
    let (mut config, mut slots) = (writer.config.clone(), writer.slots.clone());
    if name == DEFAULT_VECTOR && config.vectors.len() == 1 && config.vectors.contains_key(name) {
        return Err(Error::bad_input(
            "Wrong input: Cannot delete the unnamed vector when it is the only dense vector in the collection",
        ));
    }
    let was_there = config.vectors.remove(name).is_some() | config.sparse_vectors.remove(name).is_some();
    let Some(slot) = slots.vectors.remove(name).filter(|_| was_there) else {
        return Ok(false);
    };
    let without = |view: &SegmentView| SegmentView {
        segment: Arc::new(Segment::without_vector(&view.segment, slot)),
        deletes: view.deletes.clone(),
    };
    let segments = writer.segments.iter().map(without).collect();
    let applied_lsn = writer.manifest.applied_lsn;
    commit(core, &mut writer, segments, applied_lsn, Some((config, slots)))?;
    writer.forget_vector(slot);
    core.publish(&writer);
    Ok(true)
}

/// Whether the name is taken by a vector of the same space; refused if by another one.
fn is_there(config: &CollectionConfig, name: &str, new: &NewVector) -> Result<bool> {
    let dense = config.vectors.get(name);
    let sparse = config.sparse_vectors.get(name);
    let same = match (dense, sparse, new) {
        (None, None, _) => return Ok(false),
        (Some(_), _, NewVector::Sparse(_)) => return Err(taken(name, "as a dense vector")),
        (None, Some(_), NewVector::Dense(_)) => return Err(taken(name, "as a sparse vector")),
        (Some(old), _, NewVector::Dense(new)) => {
            old.size == new.size
                && old.distance == new.distance
                && old.multivector_config == new.multivector_config
                && new
                    .datatype
                    .is_none_or(|datatype| datatype == old.datatype.unwrap_or_default())
        }
        (None, Some(old), NewVector::Sparse(new)) => {
            old.modifier.unwrap_or_default() == new.modifier.unwrap_or_default()
        }
    };
    match same {
        true => Ok(true),
        false => Err(taken(name, "with a different configuration")),
    }
}

fn taken(name: &str, how: &str) -> Error {
    Error::bad_input(format!("Wrong input: Vector {name} already exists {how}"))
}

/// The settings with one more vector.
fn with_vector(writer: &Writer, name: &str, new: &NewVector, next: Option<u16>) -> Result<Settings> {
    let (mut config, mut slots): (CollectionConfig, Slots) = (writer.config.clone(), writer.slots.clone());
    match new {
        NewVector::Dense(params) => drop(config.vectors.insert(name.to_string(), (**params).clone())),
        NewVector::Sparse(params) => drop(config.sparse_vectors.insert(name.to_string(), params.clone())),
    }
    check_config(&config)?;
    slots.next_vector = next.unwrap_or(slots.next_vector);
    slots.take_vector(name)?;
    Ok(Settings {
        config,
        slots,
        operation: writer.operation,
        whole_lsn: 0,
    })
}

/// The writer at a moment when no memtable waits to be flushed: the active one can become one then.
fn writer_without_frozen<'a>(core: &'a Core, arena: &mut RunningJob<'_>) -> Result<MutexGuard<'a, Writer>> {
    loop {
        flush_with(core, arena, None)?;
        let writer = core.writer();
        writer.check_writable()?;
        if writer.frozen.is_none() {
            return Ok(writer);
        }
    }
}

/// Rows from here on go into `fresh`, which knows the new vector; those before it become a segment.
fn take_memtable(core: &Core, writer: &mut Writer, fresh: MemtableWriter) -> Result<()> {
    if writer.active.is_empty() {
        writer.active = fresh;
        writer.spare = MemtableWriter::new(writer.schema.clone(), &writer.memtables).ok();
        return Ok(());
    }
    writer.spare = Some(fresh);
    writer.freeze(core.shared.salt())
}
