//! Which nodes hold which shard, as far as is known.

/// Another node, which holds a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardNode {
    pub node: String,
    pub url: String,
    /// It owns the shard's log.
    pub owns: bool,
    /// The last slot of the shard's log that it said to have applied.
    pub slot: u64,
}

/// The nodes of all shards.
pub trait ShardMap: Send + Sync {
    /// Those that are known to live, but for this one.
    fn nodes(&self, shard: u32) -> Vec<ShardNode>;
    /// Looks at them soon, before its time: one that should be there wasn't.
    fn look(&self);
}
