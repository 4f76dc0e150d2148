//! gRPC as a load generator needs it: one call at a time on a blocking connection, messages rendered ahead, answers read into memory
//! used again. It shares the machine with the server it measures, so it does as little as can be done.
//!
//! Source: RFC 9113 (HTTP/2), RFC 7541 (HPACK), and "gRPC over HTTP2" of the gRPC project.

mod channel;
mod frame;
mod hpack;
mod message;

pub use channel::Channel;
pub(crate) use message::{read_ids, render_all};
