//! Which chunks a store has that a new backup may name.

use std::collections::{HashMap, HashSet};

use ramlet_memory::{Consumer, Reservation};

use crate::error::{Result, StoreError};
use crate::hash::Sha;
use crate::index::{self, Chunk, FileIndex};
use crate::layout::{OBJECTS, object_name, object_path};
use crate::limits::{CHUNK_BYTES_MAX, CHUNK_ENTRY_BYTES, INDEX_BYTES_MAX};
use crate::manifest::{self, BackupInfo, Entry, History};
use crate::store::Store;

/// Chunks by their hash. Those of epochs before the last sweep count only where a kept backup names them.
pub struct Known {
    epochs: HashMap<Sha, u64>,
    held: Reservation,
}

impl Known {
    /// Of a store whose numbers say `history`.
    pub fn read(store: &Store, history: &History, memory: &Consumer) -> Result<Known> {
        let mut known = Known {
            epochs: HashMap::new(),
            held: memory.reserve(0)?,
        };
        let (mut older, mut older_held) = (HashSet::new(), memory.reserve(0)?);
        store.list(OBJECTS, &mut |listed| {
            match object_name(&listed.path) {
                Some((epoch, sha)) if epoch == history.last_sweep => known.add(sha, epoch)?,
                Some((epoch, sha)) if epoch < history.last_sweep => {
                    older_held.grow(CHUNK_ENTRY_BYTES)?;
                    older.insert((epoch, sha));
                }
                // Written by somebody who knows of a later sweep: not ours to name.
                _ => {}
            }
            Ok(())
        })?;
        if history.last_sweep > 0 {
            for number in &history.live {
                for chunk in chunks_of_backup(store, *number, memory)?.0 {
                    if older.contains(&(chunk.epoch, chunk.sha)) && !known.epochs.contains_key(&chunk.sha) {
                        known.add(chunk.sha, chunk.epoch)?;
                    }
                }
            }
        }
        Ok(known)
    }

    /// The epoch of a chunk that is there.
    pub fn epoch_of(&self, sha: &Sha) -> Option<u64> {
        self.epochs.get(sha).copied()
    }

    /// From now on it counts as there.
    pub fn add(&mut self, sha: Sha, epoch: u64) -> Result<()> {
        self.held.grow(CHUNK_ENTRY_BYTES)?;
        self.epochs.insert(sha, epoch);
        Ok(())
    }
}

/// All chunks that a backup names, those of its list too.
pub fn chunks_of_backup(store: &Store, number: u64, memory: &Consumer) -> Result<(Vec<Chunk>, Reservation)> {
    let Entry::Backup(info) = manifest::read(store, number)?.entry else {
        return Ok((vec![], memory.reserve(0)?));
    };
    let (files, mut held) = read_index(store, &info, memory)?;
    held.grow(
        info.chunks
            .saturating_add(info.index.len() as u64)
            .saturating_mul(CHUNK_ENTRY_BYTES),
    )?;
    let mut chunks = info.index;
    chunks.extend(files.into_iter().flat_map(|file| file.chunks));
    Ok((chunks, held))
}

/// The list of a backup's files.
pub fn read_index(
    store: &Store,
    info: &BackupInfo,
    memory: &Consumer,
) -> Result<(Vec<FileIndex>, Reservation)> {
    let bytes: u64 = info.index.iter().map(|chunk| u64::from(chunk.bytes)).sum();
    if bytes > INDEX_BYTES_MAX {
        return Err(StoreError::corrupt(format!("{store}: a list of {bytes} bytes")));
    }
    // The list as it is stored, and what is made of it: chunks are most of both.
    let mut held = memory.reserve(bytes.saturating_mul(3))?;
    let mut encoded = Vec::with_capacity(bytes as usize);
    for chunk in &info.index {
        encoded.extend_from_slice(&read_chunk(store, chunk)?);
    }
    let files = index::decode(&encoded)?;
    drop(encoded);
    let needed: u64 = files.iter().map(FileIndex::held_bytes).sum();
    if needed > held.bytes() {
        held.grow(needed - held.bytes())?;
    }
    held.shrink_to(needed);
    Ok((files, held))
}

/// A chunk's bytes, which are those that its name says.
pub fn read_chunk(store: &Store, chunk: &Chunk) -> Result<bytes::Bytes> {
    let path = object_path(chunk.epoch, &chunk.sha);
    let bytes = store.get(&path, CHUNK_BYTES_MAX as u64)?;
    verified(chunk, &bytes).map_err(|why| StoreError::corrupt(format!("{store}/{path}: {why}")))?;
    Ok(bytes)
}

/// Why these aren't the bytes of the chunk.
pub fn verified(chunk: &Chunk, bytes: &[u8]) -> std::result::Result<(), String> {
    if bytes.len() as u64 != u64::from(chunk.bytes) {
        return Err(format!("it has {} bytes instead of {}", bytes.len(), chunk.bytes));
    }
    match Sha::of(bytes) == chunk.sha {
        true => Ok(()),
        false => Err("its bytes are others than were written".to_owned()),
    }
}
