//! Backups of a running node: where others begin, and up to where the log may go. The owner makes them, or the node that builds for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use ramlet::{CopiedFile, Engine};
use ramlet_server::{Replayer, Role};
use ramlet_store::shard::{Covered, Position, deletable, newest_covered};
use ramlet_store::{BackupKind, Described, Push, StoreError, StoreErrorKind, prune_shard, push_within};

use super::{NodeLog, WRITER_POLL};
use crate::store::now;

/// No backup sooner after the one before.
pub(super) const BACKUP_PAUSE: Duration = Duration::from_secs(10);
/// Bytes of changes after which a backup is made, whatever their number.
const BACKUP_BYTES: u64 = 64 << 20;
const COPY_BYTES: usize = 1 << 20;
/// The owner waits so many times longer for the backup of a node that builds before it makes one itself.
const PATIENCE: u64 = 8;

impl NodeLog {
    /// Backs up now and then, until another one owns the log.
    pub(super) fn keep(&self, engine: &Arc<Engine>, replayer: &Replayer) {
        let (mut backed, mut seen, mut found) = (Instant::now(), 0, 0);
        loop {
            self.pause(WRITER_POLL, &mut seen);
            if self.is_stopped() || self.role() != Role::Writer {
                return;
            }
            let covered = before(self.known().position);
            self.note_now_and_then(covered);
            let builder = self.known().builder;
            if let Some(number) = builder.filter(|number| *number > found) {
                found = number;
                self.heed_backup();
            }
            let patience = if builder.is_some() { PATIENCE } else { 1 };
            let is_due = self.is_backup_due(covered, patience);
            if !is_due || backed.elapsed() < BACKUP_PAUSE {
                continue;
            }
            backed = Instant::now();
            self.known().fresh_bytes = 0;
            // Changes of collections wait: a copy with one that is behind its slot would have it made twice.
            match replayer.between_changes(|| self.push(engine)) {
                Ok((number, slot)) => tracing::info!(backup = number, slot, "backed up"),
                Err(e) if self.is_stopped() => tracing::debug!("{e:#}"),
                Err(e) => tracing::warn!("no backup: {e:#}"),
            }
            if let Err(e) = self.drop_old() {
                tracing::warn!("old backups and slots stay for now: {e:#}");
            }
        }
    }

    /// Whether so much was written since the last backup that another one is due.
    pub(super) fn is_backup_due(&self, covered: Position, patience: u64) -> bool {
        let slots = covered.slot.saturating_sub(self.log.known_covered().slot);
        let bytes = self.known().fresh_bytes;
        slots >= self.backup_every.saturating_mul(patience) || bytes >= BACKUP_BYTES * patience && slots > 0
    }

    /// Another node made a backup: what the log doesn't need for it any more may go.
    fn heed_backup(&self) {
        let dropped = newest_covered(self.log.store()).map(|newest| {
            if let Some((number, Some(covered))) = newest.map(|(number, info)| (number, info.covered)) {
                self.log.note_covered(number, covered);
                self.known().fresh_bytes = 0;
            }
        });
        let dropped = dropped.map_err(Into::into).and_then(|()| self.drop_old());
        if let Err(e) = dropped {
            tracing::warn!("old backups and slots stay for now: {e:#}");
        }
    }

    /// Deletes backups of this log and slots that aren't kept.
    fn drop_old(&self) -> Result<()> {
        if self.keep == 0 {
            return Ok(());
        }
        let trimmed = self.log.trim(&self.memory)?;
        // A sweep reads the lists of all backups that stay.
        let most = 2 * self.keep;
        let pruned = prune_shard(self.log.store(), (self.keep, most), &self.memory, now()?)?;
        let pruned = pruned.unwrap_or_default();
        tracing::info!(
            slots = trimmed.deleted,
            seals = trimmed.kept,
            backups = pruned.dropped.len(),
            objects = pruned.deleted_objects,
            "deleted"
        );
        Ok(())
    }

    /// Sends all files to the store, each collection as of a moment behind the slot that is said. No change of collections may be under way.
    pub(super) fn push(&self, engine: &Engine) -> Result<(u64, u64)> {
        let _held = self.memory.reserve(COPY_BYTES as u64)?;
        let position = self.known().position;
        let deleted = match self.keep {
            0 => self.log.known_covered().deleted,
            keep => deletable(self.log.store(), keep)?,
        };
        let covered = Covered {
            slot: before(position).slot,
            epoch: position.epoch,
            changes: position.slot,
            deleted,
        };
        let collections = engine.collection_names();
        let report = push_within(self.log.store(), &self.memory, now()?, &mut |_| {}, &mut |push| {
            let mut failed = None;
            let mut buf = vec![0; COPY_BYTES];
            let copied = engine.copy(&mut |file| {
                send(push, file, &mut buf).map_err(|e| {
                    let plain = ramlet::Error::bad_input(e.to_string());
                    failed = Some(e);
                    plain
                })
            });
            if let Some(error) = failed {
                return Err(error);
            }
            copied.map_err(|e| StoreError::new(StoreErrorKind::Failed, e.to_string()))?;
            Ok(Described {
                of: BackupKind::Directory,
                collections: collections.clone(),
                covered: Some(covered),
                snapshot: None,
            })
        })?;
        self.log.note_covered(report.number, covered);
        self.backup.store(report.number, Ordering::Release);
        Ok((report.number, covered.slot))
    }
}

/// A slot up to which all is surely in the directory of an owner: the last group may be on its way into the log file.
pub(super) fn before(position: Position) -> Position {
    Position {
        slot: position.slot.saturating_sub(1),
        ..position
    }
}

fn send(push: &mut Push<'_>, file: &CopiedFile, buf: &mut [u8]) -> std::result::Result<(), StoreError> {
    push.begin_file(&file.name)?;
    let mut at = 0;
    while at < file.bytes {
        let part = (buf.len() as u64).min(file.bytes - at) as usize;
        let read = file.read_at(&mut buf[..part], at);
        read.map_err(|e| StoreError::new(StoreErrorKind::Failed, format!("{}: {e}", file.name)))?;
        push.write(&buf[..part])?;
        at += part as u64;
    }
    let ended = push.end_file()?;
    match file.exact.is_none_or(|exact| exact == ended) {
        true => Ok(()),
        false => Err(StoreError::new(
            StoreErrorKind::Corrupt,
            format!("{}: its checksum isn't what its manifest says", file.name),
        )),
    }
}
