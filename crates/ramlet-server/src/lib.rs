//! Ramlet's server: the Qdrant API, REST and gRPC, over the engine.
//!
//! `socket -> connection (bounded) -> route -> key -> memory for the body -> body -> engine -> answer (reserved)`.
//! Each step may refuse; none holds memory that the ledger doesn't know. Reading order of the rooms: [`routes`], `transport`,
//! `request` (admission, dispatch, execution), `bodies`, `handlers`, `answers`; `wire` has the types of the API. A search is read
//! in `handlers/search.rs`, `request/execute.rs` and `answers/portions.rs`.

mod access;
mod answers;
mod app;
mod bodies;
mod dashboard;
mod error;
pub mod grpc;
mod guards;
mod handlers;
pub mod limits;
mod nodes;
mod observability;
mod openapi;
mod options;
mod request;
mod router;
pub mod routes;
mod shards;
mod threads;
mod transport;
mod wire;

pub use access::audit::{Audit, AuditSink, Peer};
pub use access::auth::Access;
pub use app::App;
pub use error::{ApiError, status_of};
pub use nodes::changes::Replayer;
pub use nodes::forwarder::{ForwardedAnswer, ForwardedRequest, Forwarder, NoAnswer, Room, SendOn};
pub use nodes::node::{Node, NodeStatus, Role, SharedLog};
pub use nodes::peer::PeerNode;
pub use observability::slow_log::SlowQuery;
pub use options::{
    AllocatorStats, GrpcPort, LogLevel, ServerOptions, SnapshotFetch, check_exposure, is_loopback,
};
pub use router::router;
pub use shards::{ShardMap, Shards};
pub use transport::serve::{Bound, bind, runtime, serve};
pub use transport::tls::Tls;
pub use wire::name_rules::collection_name_fault;
