//! Writes: from a change through the log and the memtable to what readers see.

pub mod change;
pub mod encoding;
pub mod group_commit;
pub mod log;
pub mod memtable;
pub mod resolve;
pub mod writer;
