//! Which nodes hold which shard, as far as is known.

use crate::nodes::peer::PeerNode;

/// The nodes of all shards.
pub trait ShardMap: Send + Sync {
    /// Those that are known to live, but for this one.
    fn nodes(&self, shard: u32) -> Vec<PeerNode>;
    /// Looks at them soon, before its time: one that should be there wasn't.
    fn look(&self);
}
