//! Custom sharding (`sharding_method: custom`): users place points by shard keys.
//!
//! The points of a key are a shard: a directory, log and segments of its own, like a collection's. Under the collection's name stands one
//! more directory, with the settings and without points. A reader gets one view of the shards that it asks for, so nothing that reads knows of keys;
//! a writer names its shards. Ordinary collections have none of this.

mod align;
mod engine;
mod once;
mod set;
mod writes;

pub use ramlet_format::catalog::ShardKey;

pub use align::{align, is_keyed};
pub use once::{each_once, is_once};
pub use set::{Shard, ShardSet, no_shard};
pub use writes::JoinedWrites;

use crate::types::CollectionConfig;

/// Which shards of a collection a request is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ShardSelection {
    /// Nothing was said: a reader gets all, a writer is refused where there are keys.
    #[default]
    All,
    Keys(Vec<ShardKey>),
    /// The target where there is one, else the fallback.
    WithFallback {
        target: ShardKey,
        fallback: ShardKey,
    },
}

/// A shard, as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardInfo {
    pub number: u32,
    pub key: ShardKey,
    pub points_count: u64,
}

/// Whether points are put into shards by keys.
pub fn is_custom(config: &CollectionConfig) -> bool {
    config
        .other
        .get("sharding_method")
        .and_then(|method| method.as_str())
        == Some("custom")
}
