//! What all requests share.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ramlet::Engine;
use ramlet::plan::Machine;
use ramlet_memory::Consumer;
use tokio::sync::Semaphore;

use crate::auth::Keys;
use crate::limits;
use crate::options::{AllocatorStats, ServerOptions, is_loopback};
use crate::stats::RequestStats;
use crate::strict::Rates;

/// The server's state: one per process, shared by all connections.
pub struct App {
    pub(crate) engine: Arc<Engine>,
    pub(crate) keys: Keys,
    /// Account of bodies and of what is parsed from them.
    pub(crate) requests: Consumer,
    /// Account of answers until they are sent.
    pub(crate) responses: Consumer,
    /// Account of open connections.
    pub(crate) connections: Consumer,
    pub(crate) connections_max: usize,
    /// Places on the blocking pool for changes of collections...
    pub(crate) managing: Arc<Semaphore>,
    /// ... and for builds of payload indexes, which may take long.
    pub(crate) building: Arc<Semaphore>,
    pub(crate) allocator: Option<fn() -> AllocatorStats>,
    /// Empty until it is measured.
    pub(crate) machine: Arc<OnceLock<Machine>>,
    pub(crate) stats: RequestStats,
    pub(crate) rates: Rates,
    pub(crate) started: Instant,
    /// Microseconds since 1970.
    pub(crate) started_at: i64,
}

impl App {
    pub fn new(options: ServerOptions) -> Arc<App> {
        let ledger = options.engine.ledger().clone();
        let connections_max = options.connections.max(1);
        Arc::new(App {
            keys: Keys::new(
                options.api_key,
                options.read_only_api_key,
                is_loopback(&options.host),
            ),
            requests: ledger.consumer("requests", options.request_bytes),
            responses: ledger.consumer("responses", options.response_bytes),
            connections: ledger.consumer("connections", connections_max as u64 * limits::CONNECTION_BYTES),
            connections_max,
            managing: Arc::new(Semaphore::new(limits::MANAGE_CALLS)),
            building: Arc::new(Semaphore::new(limits::BUILD_CALLS)),
            allocator: options.allocator,
            machine: options.machine,
            stats: RequestStats::new(ledger.consumer("request counts", limits::COUNTS_BYTES)),
            rates: Rates::default(),
            started: Instant::now(),
            started_at: now_micros(),
            engine: options.engine,
        })
    }
}

fn now_micros() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
