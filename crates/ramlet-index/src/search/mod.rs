//! Shared by all searches: which rows, how far, one thread's memory, counts.

pub mod allowed;
pub mod calibration;
pub mod rounds;
pub mod scratch;
pub mod search_stats;
