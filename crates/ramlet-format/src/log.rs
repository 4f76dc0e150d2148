//! The write-ahead log: a header page, then records one after another.
//!
//! Header:
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic `RAMLETLG` |
//! | 8..10 | format version u16 |
//! | 10..16 | 0 |
//! | 16..24 | salt u64: random, new for every use of the file, so records of an earlier use don't count |
//! | 24..32 | first_lsn u64: of the file's first record |
//! | 32..4092 | 0 |
//! | 4092..4096 | crc32c, sealed like a block (seed = "RAMLETLG" as u64, page 0) |
//!
//! Record, from offset 4096 on, unaligned:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | len u32: bytes from 8 on, so at least 25 |
//! | 4..8 | crc32c over bytes 8 .. 8+len |
//! | 8..16 | salt u64, as in the header |
//! | 16..24 | lsn u64: exactly one more than the record before |
//! | 24..32 | durable_lsn u64: when this was written, all up to there was synced |
//! | 32 | kind u8 |
//! | 33 .. 8+len | payload |
//!
//! A length of 0 ends the log: files are zeroed when created.
//!
//! *One write and sync, one record.* A disk may keep any of the pages of a write that a power cut interrupted. If a group
//! commit were several records, a later one could survive an earlier one, and [`judge_tail`] would have to call the log
//! corrupt, since that is also what a damaged acknowledged record looks like. So a group of operations goes into one
//! record's payload, with one lsn.

mod header;
mod judge;
mod record;

pub use header::{LogHeader, VERSION};
pub use judge::{Later, Stop, Tail, judge_tail};
pub use record::{
    Decoded, HEADER_BYTES, RECORD_BYTES_MAX, Record, begin, decode, encode, end, find_possible,
};
