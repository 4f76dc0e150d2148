//! Object stores: probed before they are trusted, backups in them, and the log of a shard whose writer and readers they connect.
//!
//! A store is anything that the `object_store` crate reaches: a directory, S3, memory. Nothing below the command line knows of it. The layout of
//! a store is in [`layout`], the order of things in docs/adr/0069-backups-in-an-object-store.md and 0070.

mod chunks;
mod error;
mod hash;
#[cfg(feature = "s3")]
mod http;
mod index;
mod known;
mod manifest;
mod nonce;
mod open;
mod prune;
mod pull;
mod push;
mod restore;
mod shards;
mod snapshot;
mod snapshots;
mod store;
mod target;

pub mod check;
pub mod layout;
pub mod limits;
pub mod shard;

pub use check::{Finding, Outcome, check};
pub use error::{Result, StoreError, StoreErrorKind};
pub use hash::Sha;
pub use index::{Chunk, FileIndex};
pub use manifest::{BackupInfo, BackupKind, Entry, Sweep, list_backups};
pub use nonce::nonce;
pub use open::{S3Options, StoreUrl, open, open_with};
pub use prune::{Pruned, prune, prune_shard};
pub use pull::{Pull, Pulled};
pub use push::{Described, Progress, Push, PushReport, SourceFile, push, push_files, push_within};
pub use restore::{Restored, Restoring};
pub use shards::{settle_shards, shard_count, shard_store};
pub use snapshot::SnapshotPush;
pub use snapshots::SnapshotStore;
pub use store::{Listed, Store};
pub use target::{Target, TargetFile};
