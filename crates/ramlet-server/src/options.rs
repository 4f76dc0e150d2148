//! What the binary hands to the server.

use std::sync::{Arc, OnceLock};

use ramlet::Engine;
use ramlet::plan::Machine;

use crate::access::audit::Audit;
use crate::error::ApiResult;
use crate::limits;
use crate::nodes::node::Node;
use crate::observability::slow_log::SlowQuery;
use crate::transport::tls::Tls;

/// Where gRPC is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrpcPort {
    /// Nowhere.
    Off,
    /// Here; 0 lets the kernel choose.
    At(u16),
    /// Here, unless somebody else has the port: nobody asked for it by name.
    IfFree(u16),
}

/// How the server runs. The engine is open already; the server never opens a file.
pub struct ServerOptions {
    pub engine: Arc<Engine>,
    /// Address to listen on: an IP address or a name that resolves to one.
    pub host: String,
    /// REST port; 0 lets the kernel choose (see [`crate::bind`]).
    pub port: u16,
    pub grpc_port: GrpcPort,
    /// Key that may do everything. `None`: no key is asked for.
    pub api_key: Option<String>,
    /// Another key that may do everything: for the time in which keys are changed.
    pub alt_api_key: Option<String>,
    /// Key that may only read.
    pub read_only_api_key: Option<String>,
    /// Whether tokens (JWT) that the admin key has signed are keys too, each for what it says.
    pub jwt_rbac: bool,
    /// Where it is written who asked for what. Whoever starts it closes it, when the server has ended.
    pub audit: Option<Arc<Audit>>,
    /// Whether web pages of any origin may use the server. `None`: if a key is set.
    pub cors: Option<bool>,
    /// Encrypts all connections, of both ports; see [`ServerOptions::encrypted`].
    pub tls: Option<Tls>,
    /// Largest body of any route, bytes; a route's own cap holds below it.
    pub body_bytes_max: u64,
    /// Connections open at once.
    pub connections: usize,
    /// Bytes that bodies and what is parsed from them may hold together.
    pub request_bytes: u64,
    /// Bytes that answers may hold together until they are sent.
    pub response_bytes: u64,
    /// Downloads snapshots from URLs that clients name. `None`: they are refused.
    pub fetch: Option<SnapshotFetch>,
    /// How to see and change what is logged. `None`: whoever serves decides alone.
    pub log_level: Option<LogLevel>,
    /// Figures of the allocator, where the binary has one that tells.
    pub allocator: Option<fn() -> AllocatorStats>,
    /// From when on requests are slow.
    pub slow_query: SlowQuery,
    /// The log that this node shares with others.
    pub node: Option<Node>,
    /// What `POST /plan` reckons with; may be filled while the server runs.
    pub machine: Arc<OnceLock<Machine>>,
}

impl ServerOptions {
    /// Loopback, port 6333, no gRPC, no keys. Of the elastic memory of the engine's budget at most a quarter goes to
    /// connections and half to answers, to requests three quarters or more (`BudgetTable::requests_max`): together they are
    /// still bounded by the ledger, and neither can keep the other out for longer than one request takes.
    pub fn new(engine: Arc<Engine>) -> ServerOptions {
        let elastic = engine.budget().elastic;
        let request_bytes = engine.budget().requests_max();
        ServerOptions {
            engine,
            host: "127.0.0.1".to_owned(),
            port: 6333,
            grpc_port: GrpcPort::Off,
            api_key: None,
            alt_api_key: None,
            read_only_api_key: None,
            jwt_rbac: false,
            audit: None,
            cors: None,
            tls: None,
            body_bytes_max: limits::VECTOR_BODY_BYTES,
            connections: affordable(elastic, false),
            request_bytes,
            response_bytes: elastic / 2,
            fetch: None,
            log_level: None,
            allocator: None,
            slow_query: SlowQuery::default(),
            node: None,
            machine: Arc::default(),
        }
    }

    /// The same with encrypted connections, which are fewer.
    pub fn encrypted(self, tls: Tls) -> ServerOptions {
        ServerOptions {
            tls: Some(tls),
            connections: affordable(self.engine.budget().elastic, true),
            ..self
        }
    }
}

/// Connections that a quarter of the elastic memory is enough for.
fn affordable(elastic: u64, encrypted: bool) -> usize {
    let affordable = usize::try_from(elastic / 4 / limits::connection_bytes(encrypted)).unwrap_or(usize::MAX);
    affordable.clamp(limits::CONNECTIONS_MIN, limits::CONNECTIONS_DEFAULT)
}

/// Reads a URL, with an API key if one is given, and hands it on piece by piece; what the sink refuses ends it.
pub type SnapshotFetch =
    Arc<dyn Fn(&str, Option<&str>, &mut dyn FnMut(&[u8]) -> ApiResult<()>) -> ApiResult<()> + Send + Sync>;

/// What is logged, in the words of whoever logs (`info`, `ramlet=debug,h2=error`).
#[derive(Clone)]
pub struct LogLevel {
    pub get: Arc<dyn Fn() -> String + Send + Sync>,
    /// The error is a sentence for the user.
    pub set: Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>,
}

/// What the allocator says of itself, bytes (jemalloc's terms).
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct AllocatorStats {
    pub allocated: u64,
    pub active: u64,
    pub resident: u64,
    pub retained: u64,
    pub metadata: u64,
}

/// Whether the server may listen on `host`: only loopback, unless a key is set or the user said `insecure`.
/// The error is a sentence for the user.
pub fn check_exposure(host: &str, has_key: bool, insecure: bool) -> Result<(), String> {
    if has_key || insecure || is_loopback(host) {
        return Ok(());
    }
    Err(format!(
        "refusing to listen on {host} without an API key: everybody who reaches this machine could read and delete \
         all data. Set a key (--api-key), listen on 127.0.0.1, or say --insecure if the network is trusted"
    ))
}

/// Whether only this machine reaches `host`.
pub fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<std::net::IpAddr>() {
        Ok(ip) => ip.is_loopback(),
        Err(_) => bare.eq_ignore_ascii_case("localhost"),
    }
}
