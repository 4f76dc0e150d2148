//! Byte strings of any length by row number: payloads.
//!
//! Consecutive records share a block of one page as long as they fit; a larger record has a block of its own, of as many
//! pages as it needs. A block of one page:
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | count u16 |
//! | 2 .. 2+2*count | end of each record u16, counted from the first record's first byte |
//! | .. | the records' bytes, then 0 |
//! | 4092..4096 | crc32c |
//!
//! A block of more pages:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | length of its one record u32 |
//! | 4 .. 4+length | the record's bytes, then 0 |
//! | len-4 .. len | crc32c |
//!
//! Index region, per block: first row u32, first page u32. Footer numbers: rows, blocks, 0, 0.

mod block;
mod index;
mod writer;

pub use block::RecordsBlock;
pub use index::{BlockAt, RecordsIndex};
pub use writer::{RecordsMeta, RecordsWriter};

/// Longest record in bytes.
pub const RECORD_BYTES_MAX: usize = 64 << 20;
