//! Ramlet's server: the Qdrant API, REST and gRPC, over the engine.
//!
//! `socket -> connection (bounded) -> route -> key -> memory for the body -> body -> engine -> answer (reserved)`.
//! Each step may refuse; none holds memory that the ledger doesn't know. Reading order of the modules: [`routes`],
//! `dispatch`, `admission`, `handlers`, `execute`, `portions`, `out`; `wire` has the types of the API. A search is read in
//! `handlers/search.rs`, `execute.rs` and `portions.rs`.

mod admission;
mod answer;
mod api_request;
mod app;
mod audit;
mod audit_record;
mod auth;
mod balancer;
mod body;
mod body_drain;
mod body_rule;
mod call;
mod caught;
mod changes;
mod compress;
mod connection;
mod cors;
mod damage;
mod decompress;
mod dispatch;
mod download;
mod error;
mod eviction;
mod execute;
mod forward;
mod forwarder;
mod graceful_close;
mod growing_reservation;
pub mod grpc;
mod handlers;
mod http1;
mod http2;
pub mod inference;
mod inline;
mod issue;
mod issues;
mod jwt;
pub mod limits;
mod list;
mod moving_socket;
mod multipart;
mod node;
mod openapi;
mod options;
mod out;
mod params;
mod pieces;
mod pool;
mod portions;
mod projection;
mod quotas;
mod rates;
mod read_waits;
mod receive;
mod refusals;
mod request_id;
mod route;
mod router;
pub mod routes;
mod serve;
mod shown_parts;
mod slots;
mod slow_log;
mod staircase;
mod stats;
mod steps;
mod stream;
mod strict_guard;
mod timed_io;
mod tls;
mod unindexed;
mod waits;
mod wire;
mod workers;

pub use app::App;
pub use audit::{Audit, AuditSink, Peer};
pub use auth::Access;
pub use changes::Replayer;
pub use error::{ApiError, status_of};
pub use forwarder::{ForwardedAnswer, ForwardedRequest, Forwarder, NoAnswer, SendOn};
pub use node::{Node, NodeStatus, PeerNode, Role, SharedLog};
pub use options::{
    AllocatorStats, GrpcPort, LogLevel, ServerOptions, SnapshotFetch, check_exposure, is_loopback,
};
pub use router::router;
pub use serve::{Bound, bind, runtime, serve};
pub use slow_log::SlowQuery;
pub use tls::Tls;
pub use wire::name_rules::collection_name_fault;
