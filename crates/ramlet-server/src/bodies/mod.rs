//! Bodies of requests: their limits, their memory, reading and decoding them.

pub mod body;
pub mod body_rule;
pub mod decompress;
pub mod multipart;
pub mod receive;
