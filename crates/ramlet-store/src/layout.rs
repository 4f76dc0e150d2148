//! The names in a store. Each but those of nodes is created once and never again, also after it was deleted.
//!
//! | name | what |
//! |---|---|
//! | `ramlet-store` | says that this place is ours: format, version, an id of its own |
//! | `backup/manifests/NUMBER` | what a backup consists of, or what a sweep kept; 20 digits, from 1; never deleted |
//! | `backup/objects/EPOCH/SHA` | a chunk of a file, or a list of chunks; named by the last sweep before it was written (0: none) and its SHA-256 |
//! | `log/SLOT` | an entry of a shard's log ([`entry`](crate::shard::Entry)); 20 digits, from 1. Seals and records that count for nothing are never deleted |
//! | `nodes/ID` | what a node says of itself ([`nodes`](crate::shard::Card)): the one kind of object that is written over |
//! | `shards` | into how many shards the store is divided: created once ([`settle_shards`](crate::settle_shards)) |
//! | `shard-N/...` | the store of a shard, with all of these names but `shards`, where there are more than one |
//! | `probe/UUID/...` | what [`check`](crate::check::check) tries a store with; deleted by it |
//!
//! The epoch is why a sweep needs no clock and no lock. An object of an older epoch that no kept backup names is dead for ever: a later push writes
//! the same bytes under a new name. So a delete that comes late deletes nothing that anybody needs.

use object_store::path::Path;

use crate::hash::Sha;

/// The object that marks a store as ours.
pub const MARKER: &str = "ramlet-store";

/// The folder of manifests.
pub const MANIFESTS: &str = "backup/manifests";

/// The folder of objects.
pub const OBJECTS: &str = "backup/objects";

/// The folder of a shard's log.
pub const LOG: &str = "log";

/// The folder of nodes.
pub const NODES: &str = "nodes";

/// The number of shards.
pub const SHARDS: &str = "shards";

/// The folder of a shard.
pub fn shard_folder(shard: u32) -> String {
    format!("shard-{shard}")
}

/// The folder of probes.
pub const PROBES: &str = "probe";

/// `backup/manifests/00000000000000000007`.
pub fn manifest_path(number: u64) -> Path {
    Path::from(format!("{MANIFESTS}/{number:020}"))
}

/// `log/00000000000000000007`.
pub fn slot_path(slot: u64) -> Path {
    Path::from(format!("{LOG}/{slot:020}"))
}

/// `nodes/0123abcd..`.
pub fn node_path(node: &str) -> Path {
    Path::from(format!("{NODES}/{node}"))
}

/// The number of a manifest's path; `None` for any other.
pub fn manifest_number(path: &Path) -> Option<u64> {
    let name = path.as_ref().strip_prefix(MANIFESTS)?.strip_prefix('/')?;
    number(name)
}

/// The slot of a path; `None` for any other.
pub fn slot_number(path: &Path) -> Option<u64> {
    number(path.as_ref().strip_prefix(LOG)?.strip_prefix('/')?)
}

/// `backup/objects/00000000000000000000/ba78..`.
pub fn object_path(epoch: u64, sha: &Sha) -> Path {
    Path::from(format!("{OBJECTS}/{epoch:020}/{sha}"))
}

/// Epoch and hash of an object's path; `None` for any other.
pub fn object_name(path: &Path) -> Option<(u64, Sha)> {
    let name = path.as_ref().strip_prefix(OBJECTS)?.strip_prefix('/')?;
    let (epoch, sha) = name.split_once('/')?;
    Some((number(epoch)?, Sha::parse(sha)?))
}

fn number(name: &str) -> Option<u64> {
    let is_plain = name.len() == 20 && name.bytes().all(|b| b.is_ascii_digit());
    is_plain.then(|| name.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let sha = Sha::of(b"x");
        assert_eq!(manifest_number(&manifest_path(7)), Some(7));
        assert_eq!(object_name(&object_path(3, &sha)), Some((3, sha)));
        assert_eq!(slot_number(&slot_path(9)), Some(9));
        assert_eq!(slot_number(&manifest_path(9)), None);
        for foreign in [
            "backup/manifests/7",
            "backup/manifests/0000000000000000000x",
            "other/00000000000000000007",
        ] {
            assert_eq!(manifest_number(&Path::from(foreign)), None, "{foreign}");
            assert_eq!(object_name(&Path::from(foreign)), None, "{foreign}");
        }
    }
}
