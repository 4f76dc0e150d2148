//! Load on a server: requests, the connections that carry them, and what comes back.

pub mod api;
pub mod client;
pub mod fill;
pub mod grpc;
pub mod http;
pub mod load;
pub mod measure;
pub mod requests;
pub mod setting;
pub mod wire;
