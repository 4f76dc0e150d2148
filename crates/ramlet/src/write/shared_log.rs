//! A log that other nodes read, as the writer thread sees it.

/// A log that others read. Groups of one collection come in order, and the next one only when the one before has returned.
pub trait GroupLog: Send + Sync {
    /// Makes a group durable there. An error says why the group isn't taken: nothing of it is applied here.
    fn append(&self, collection: &str, lsn: u64, group: &[u8]) -> std::result::Result<(), String>;

    /// The group that was appended is in the collection's own log too, or can't come there.
    fn kept(&self, is_kept: bool);
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
