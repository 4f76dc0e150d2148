//! Which slots the manifests cover: a node without data begins from the newest.

use crate::error::Result;
use crate::manifest::{BackupInfo, Covered, Entry, read_async};
use crate::store::Store;

/// What the manifests up to `head` cover, where those up to `known.0` cover `known.1`.
pub(super) async fn covered_from(store: &Store, head: u64, known: (u64, Covered)) -> Result<Covered> {
    for number in (known.0 + 1..=head).rev() {
        if let Entry::Backup(info) = read_async(store, number).await?.entry
            && let Some(covered) = info.covered
        {
            return Ok(covered);
        }
    }
    Ok(known.1)
}

/// The newest backup of a running shard that wasn't pruned: its number and what it is; `None` where there is none.
pub fn newest_covered(store: &Store) -> Result<Option<(u64, BackupInfo)>> {
    for number in crate::manifest::history(store)?.live.into_iter().rev() {
        if let Entry::Backup(info) = crate::manifest::read(store, number)?.entry
            && info.covered.is_some()
        {
            return Ok(Some((number, info)));
        }
    }
    Ok(None)
}
