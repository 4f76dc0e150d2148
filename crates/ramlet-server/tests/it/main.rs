//! The router driven in-process, and the socket.

mod api;
mod audit;
mod auth;
mod batches;
mod bodies;
mod explain;
mod fields;
mod harness;
mod methods;
mod moving;
mod plan;
mod snapshots;
mod socket;
mod value_exists;
