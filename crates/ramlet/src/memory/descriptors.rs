//! File descriptors: a new collection must still open after a restart with the same limit, and its segments must fit in RAM.
//!
//! Every file of a segment that is read stays open, as do a collection's log and directory. A collection whose points are in
//! the memtables still takes two descriptors and will take a dozen, once they are flushed: these are counted as promised.
//! (306 collections of six vectors, made under a limit of 1,024, flushed theirs while they were opened, and couldn't be.)

use std::sync::Arc;

use ramlet_io::Storage;
use ramlet_io::system::OpenFiles;
use ramlet_memory::Consumer;

use crate::error::{Error, ErrorKind, Result};
use crate::limits::{FILES_SHARE, SEGMENT_FILE_BYTES};
use crate::schema::Schema;
use crate::state::core::Core;
use crate::types::CollectionConfig;

/// Descriptors of a collection without segments: its log and its directory.
const EMPTY: u64 = 2;
/// Files of a segment that stay open beside those of its vectors: ids by row, rows by id, payloads.
const SEGMENT: u64 = 3;
/// Files of a vector with an index: its rows, where they are, its codes in up to five files.
const INDEXED_VECTOR: u64 = 7;
/// The part of all descriptors that new collections leave free, for connections, segments that are being written, merges.
const FREE_SHARE: u64 = 3;

/// Refuses a new collection whose segments might find no descriptors, or no RAM for so many open files.
pub fn check_collection(
    storage: &dyn Storage,
    metadata: &Consumer,
    others: &[Arc<Core>],
    config: &CollectionConfig,
) -> Result<()> {
    let of_segment = of_segment(config);
    check_memory(metadata, of_segment)?;
    check(storage, others, EMPTY + of_segment)
}

/// Refuses a new file for each segment of a collection.
pub fn check_files(core: &Core) -> Result<()> {
    let files = core.view.load().segments.len() as u64 + 1;
    check_memory(&core.file_context.metadata, of_segment(&core.writer().config) + 1)?;
    check(
        core.file_context.storage.as_ref(),
        &core.shared.live_collections(),
        files,
    )
}

/// Refuses files that each segment is to have, so many in all, where a few segments would fill the room with open files.
fn check_memory(metadata: &Consumer, files: u64) -> Result<()> {
    let (bytes, most) = (files * SEGMENT_FILE_BYTES, metadata.cap() / FILES_SHARE);
    if bytes <= most {
        return Ok(());
    }
    let what = format!(
        "{files} files a segment, one for each payload index, take {bytes} bytes of RAM while they are open, more than the {most} that this \
         budget has for them; fewer payload indexes or more memory would do"
    );
    Err(Error::new(ErrorKind::TooLarge, what))
}

/// Whether collections that are loaded, so many directories, leave free what new ones leave: their logs and directories, and a small segment each.
pub fn has_room(storage: &dyn Storage, others: impl Iterator<Item = Arc<Core>>, directories: u64) -> bool {
    let Some(OpenFiles { open, most }) = storage.open_files() else {
        return true;
    };
    let promised: u64 = others.map(|core| promised_to(&core)).sum();
    let wanted = promised + directories * (EMPTY + SEGMENT + 1);
    open.saturating_add(wanted) <= most - most / FREE_SHARE
}

fn check(storage: &dyn Storage, collections: &[Arc<Core>], wanted: u64) -> Result<()> {
    let Some(OpenFiles { open, most }) = storage.open_files() else {
        return Ok(());
    };
    let promised: u64 = collections.iter().map(|core| promised_to(core)).sum();
    let allowed = most - most / FREE_SHARE;
    if open.saturating_add(promised).saturating_add(wanted) <= allowed {
        return Ok(());
    }
    let what = format!(
        "{open} of {most} file descriptors are open, {promised} more are for segments of the collections that are there, \
         {wanted} are asked for, and a third is kept free; a higher limit (ulimit -n) allows more"
    );
    Err(Error::new(ErrorKind::NoDescriptors, what))
}

/// What a collection will open when its memtable becomes its first segment.
fn promised_to(core: &Core) -> u64 {
    match core.view.load().segments.is_empty() && !core.is_dropped() {
        true => of_segment(&core.writer().config),
        false => 0,
    }
}

/// Files of a small segment: a vector has more if even a small one is to have an index.
fn of_segment(config: &CollectionConfig) -> u64 {
    let of_vector = match config.indexing_threshold {
        Some(1..) => INDEXED_VECTOR,
        _ => 1,
    };
    files(config.vectors.len(), of_vector, config.payload_schema.len())
}

/// The same for one without an index of vectors.
pub fn of_flat_segment(schema: &Schema) -> u64 {
    files(schema.vectors.len(), 1, schema.fields.len())
}

fn files(vectors: usize, of_vector: u64, fields: usize) -> u64 {
    SEGMENT + vectors as u64 * of_vector + fields as u64
}
