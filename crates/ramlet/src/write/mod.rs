//! Writes: from an update through the log and the memtable to a new view.

pub mod adoption;
pub mod change;
pub mod disk_room;
pub mod encoding;
pub mod group;
pub mod group_commit;
pub mod log;
pub mod memtable;
pub mod replica;
pub mod resolve;
pub mod shared_log;
pub mod writer;
