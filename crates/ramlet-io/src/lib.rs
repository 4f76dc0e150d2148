//! Bytes in and out of files.
pub mod storage;
pub use storage::*;
