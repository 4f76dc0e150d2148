//! Old backups dropped: a sweep takes a number, then deletes what no kept backup names.
//!
//! No clock and no lock. Whoever pushes at the same time either got its number before, and is seen and kept, or finds the sweep's in its place and
//! begins again. Only objects of epochs before the sweep are deleted, and nobody names those again: see [`layout`](crate::layout).

use std::collections::HashSet;

use ramlet_memory::Consumer;

use crate::error::{Result, StoreError, StoreErrorKind};
use crate::known::chunks_of_backup;
use crate::layout::{OBJECTS, object_name};
use crate::limits::{CHUNK_ENTRY_BYTES, TRIES_MAX};
use crate::manifest::{self, Entry, History, Manifest, Published, Sweep};
use crate::push::ledger;
use crate::shard::newest_covered_before;
use crate::store::Store;

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Its number.
    pub sweep: u64,
    pub kept: Vec<u64>,
    pub dropped: Vec<u64>,
    pub deleted_objects: u64,
    pub deleted_bytes: u64,
}

/// Keeps the newest backups, `keep` of them, and deletes what only others needed. What was cut off is done by the next one.
pub fn prune(store: &Store, keep: usize, memory: u64, created: u64) -> Result<Pruned> {
    if keep == 0 {
        return Err(StoreError::wrong("at least one backup is kept"));
    }
    store.must_be_ours()?;
    let memory = ledger(memory)?.consumer("prune", u64::MAX);
    let pruned = announce(store, created, &|history| {
        let (mut dropped, mut kept) = split(&history.live, keep);
        // Nodes begin from it: what the first writer's directory had before the log is in no slot.
        if let Some((newest, _)) = newest_covered_before(store, history)?
            && let Some(at) = dropped.iter().position(|number| *number == newest)
        {
            kept.insert(0, dropped.remove(at));
        }
        Ok((dropped, kept))
    })?;
    sweep(store, pruned, &memory)
}

/// Of the backups that a running shard made, keeps the newest, `keep` of them; all others stay. With the memory of a ledger that others share. `None`: there
/// are fewer than `most`, and nothing was done.
pub fn prune_shard(
    store: &Store,
    (keep, most): (usize, usize),
    memory: &Consumer,
    created: u64,
) -> Result<Option<Pruned>> {
    let of_shard = |history: &History| {
        let mut numbers = Vec::new();
        for number in &history.live {
            if let Entry::Backup(info) = manifest::read(store, *number)?.entry
                && info.covered.is_some()
            {
                numbers.push(*number);
            }
        }
        Ok::<_, StoreError>(numbers)
    };
    if of_shard(&manifest::history(store)?)?.len() < most {
        return Ok(None);
    }
    let pruned = announce(store, created, &|history| {
        let (dropped, _) = split(&of_shard(history)?, keep.max(1));
        let is_kept = |number: &u64| !dropped.contains(number);
        Ok((
            dropped.clone(),
            history.live.iter().copied().filter(is_kept).collect(),
        ))
    })?;
    sweep(store, pruned, memory).map(Some)
}

/// Drops one backup, and deletes what only it needed.
pub(crate) fn forget(store: &Store, number: u64, memory: &Consumer, created: u64) -> Result<Pruned> {
    let pruned = announce(store, created, &|history| {
        let (dropped, kept): Choice = history.live.iter().partition(|live| **live == number);
        match dropped.is_empty() {
            true => Err(StoreError::not_found(format!("{store} holds no backup {number}"))),
            false => Ok((dropped, kept)),
        }
    })?;
    sweep(store, pruned, memory)
}

fn sweep(store: &Store, mut pruned: Pruned, memory: &Consumer) -> Result<Pruned> {
    let (mut named, mut held) = (HashSet::new(), memory.reserve(0)?);
    for number in &pruned.kept {
        for chunk in chunks_of_backup(store, *number, memory)?.0 {
            if named.insert((chunk.epoch, chunk.sha)) {
                held.grow(CHUNK_ENTRY_BYTES)?;
            }
        }
    }
    let mut dead = Vec::new();
    store.list(OBJECTS, &mut |listed| {
        let sweep = pruned.sweep;
        let is_dead = object_name(&listed.path)
            .is_some_and(|(epoch, sha)| epoch < sweep && !named.contains(&(epoch, sha)));
        if is_dead {
            held.grow(CHUNK_ENTRY_BYTES * 2)?;
            pruned.deleted_objects += 1;
            pruned.deleted_bytes += listed.bytes;
            dead.push(listed.path);
        }
        Ok(())
    })?;
    store.delete_all(dead)?;
    Ok(pruned)
}

/// Which backups go, and which stay.
type Choice = (Vec<u64>, Vec<u64>);

/// Takes the number from which on the others are gone.
fn announce(store: &Store, created: u64, choose: &dyn Fn(&History) -> Result<Choice>) -> Result<Pruned> {
    for _ in 0..TRIES_MAX {
        let history = manifest::history(store)?;
        let (dropped, kept) = choose(&history)?;
        let sweep = Manifest::next(&history, created, Entry::Sweep(Sweep { kept: kept.clone() }));
        if manifest::publish(store, &sweep)? == Published::Done {
            return Ok(Pruned {
                sweep: sweep.number,
                kept,
                dropped,
                ..Pruned::default()
            });
        }
    }
    Err(StoreError::new(
        StoreErrorKind::Failed,
        format!("{store}: others were quicker {TRIES_MAX} times; try again when fewer push"),
    ))
}

fn split(live: &[u64], keep: usize) -> Choice {
    let (dropped, kept) = live.split_at(live.len().saturating_sub(keep));
    (dropped.to_vec(), kept.to_vec())
}
