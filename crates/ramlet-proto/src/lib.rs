//! The messages of the gRPC API, and how large they become.
//!
//! `generated/` is written by `cargo proto` from the files in `proto/`. Values of payloads are kept as the bytes they came in,
//! and maps are lists of entries; see `xtask/src/proto/mod.rs`.

mod shape;
pub mod wire;

#[allow(clippy::all, deprecated)]
#[rustfmt::skip]
mod generated {
    pub mod grpc_health_v1;
    pub mod grpc_reflection_v1;
    pub mod qdrant;
    pub mod shapes;
}

pub use generated::{grpc_health_v1 as health, grpc_reflection_v1 as reflection, qdrant};
pub use prost::{DecodeError, Message};
pub use shape::{Kind, Malformed, Shape, Shaped, Weight};

/// All files of the API as a `FileDescriptorSet`: what reflection tells.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
