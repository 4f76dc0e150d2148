//! From a handler's result to bytes: lists in portions, streams, files, compression.

pub mod answer;
pub mod compress;
pub mod download;
pub mod list;
pub mod out;
pub mod pieces;
pub mod portions;
pub mod shown_parts;
pub mod stream;
