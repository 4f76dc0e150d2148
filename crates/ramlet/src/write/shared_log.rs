//! A log that other nodes read, as the writer thread sees it.

/// A log that others read. Groups of one collection come in order, and the next one only when the one before has returned.
pub trait GroupLog: Send + Sync {
    /// Makes a group durable there. An error says why no group is taken any more: the collection's writes stop until a restart.
    fn append(&self, collection: &str, lsn: u64, group: &[u8]) -> std::result::Result<(), String>;
}

/// What became of a group from the shared log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    Applied,
    /// Its own log has it already.
    Older,
    /// Its collection was deleted.
    Gone,
}
