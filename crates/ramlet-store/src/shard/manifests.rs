//! Which slots the manifests cover: a node without data begins from the newest.
//!
//! What a manifest covers, and what it lets go, is never less than in one before: [`may_follow`] decides that where a manifest is published. Else a writer
//! that was taken over could publish late, and nodes would begin from it where slots are gone.

use crate::error::{Result, StoreError, StoreErrorKind};
use crate::manifest::{BackupInfo, Covered, Entry, History, Manifest, read_async};
use crate::store::Store;

/// So many manifests are looked through for those of the shard.
const LOOKED_THROUGH_MAX: u64 = 1_000;

/// What the manifests up to `head` cover, where those up to `known.0` cover `known.1`.
pub(super) async fn covered_from(store: &Store, head: u64, known: (u64, Covered)) -> Result<Covered> {
    for number in (known.0 + 1..=head).rev() {
        if let Some(covered) = covered_of(&read_async(store, number).await?) {
            return Ok(covered);
        }
    }
    Ok(known.1)
}

/// The newest backup of a running shard that wasn't pruned: its number and what it is; `None` where there is none.
pub fn newest_covered(store: &Store) -> Result<Option<(u64, BackupInfo)>> {
    newest_covered_before(store, &crate::manifest::history(store)?)
}

/// The same where the numbers so far say `history`.
pub(crate) fn newest_covered_before(store: &Store, history: &History) -> Result<Option<(u64, BackupInfo)>> {
    for number in history.live.iter().rev() {
        if let Entry::Backup(info) = crate::manifest::read(store, *number)?.entry
            && info.covered.is_some()
        {
            return Ok(Some((*number, info)));
        }
    }
    Ok(None)
}

/// The last slot that may be deleted where the last `keep` backups of the shard stay, with the log behind them; 0: none.
pub fn deletable(store: &Store, keep: usize) -> Result<u64> {
    let head = crate::manifest::history(store)?.head;
    let (mut left, mut deleted) = (keep, 0);
    for number in (1..=head).rev().take(LOOKED_THROUGH_MAX as usize) {
        let Some(covered) = covered_of(&crate::manifest::read(store, number)?) else {
            continue;
        };
        left = left.saturating_sub(1);
        deleted = deleted.max(covered.deleted);
        if left == 0 {
            return Ok(deleted.max(covered.slot));
        }
    }
    Ok(deleted)
}

/// Fails where a manifest that covers `mine` may not come behind `other`.
pub(crate) fn may_follow(store: &Store, other: Covered, mine: Covered) -> Result<()> {
    if other.slot <= mine.slot && other.deleted <= mine.deleted {
        return Ok(());
    }
    Err(StoreError::new(
        StoreErrorKind::Exists,
        format!(
            "{store}: a backup up to slot {} is there already, this one reaches slot {}",
            other.slot, mine.slot
        ),
    ))
}

fn covered_of(manifest: &Manifest) -> Option<Covered> {
    match &manifest.entry {
        Entry::Backup(info) => info.covered,
        Entry::Sweep(_) => None,
    }
}
