//! A table of byte strings in strictly ascending order: the id map and the payload indexes (value or id, then row).
//!
//! Every data block is one page:
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | count u16, at least 1 |
//! | 2 .. | entries: varint bytes shared with the key before, varint bytes of the rest, the rest |
//! | .. | 0 |
//! | 4090-2*r .. 4090 | restarts: offset u16 of every 32nd entry, whose shared count is 0 |
//! | 4090..4092 | r u16 = ceil(count / 32) |
//! | 4092..4096 | crc32c |
//!
//! Index region: first key and last key of the table, then per block its *fence*; each as length u16 and bytes. A block's
//! fence is the shortest prefix of its first key that is greater than every key before; block 0 has the empty one.
//! Footer numbers: keys, 0, 0, 0; there are as many blocks as data pages.

mod block;
mod index;
mod writer;

pub use block::{SortedBlock, SortedCursor, SortedPlace};
pub use index::SortedIndex;
pub use writer::{SortedMeta, SortedWriter};

/// Longest key in bytes: two always fit a block.
pub const KEY_BYTES_MAX: usize = 2000;

/// Every so many entries a whole key, so that a seek needs a binary search and at most this many steps. 32 costs 12-byte
/// id keys about 6 % of the file.
const RESTART_INTERVAL: usize = 32;
