//! What all requests share.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ramlet::plan::Machine;
use ramlet::{Collection, Engine};
use ramlet_memory::Consumer;
use tokio::sync::Semaphore;

use crate::access::audit::Audit;
use crate::access::auth::Keys;
use crate::error::{ApiError, ApiResult};
use crate::guards::quotas::Quotas;
use crate::guards::rates::Rates;
use crate::limits;
use crate::nodes::node::{Node, Role};
use crate::observability::damage::Damage;
use crate::observability::issue::Known;
use crate::observability::read_waits::ReadWaits;
use crate::observability::refusals::Refusals;
use crate::observability::slow_log::SlowLog;
use crate::observability::stats::RequestStats;
use crate::observability::steps::clock;
use crate::observability::unindexed::Unindexed;
use crate::observability::waits::Waits;
use crate::options::{AllocatorStats, LogLevel, ServerOptions, SnapshotFetch};
use crate::threads::balancer::Balancer;
use crate::threads::pool::spawn_blocking;
use crate::transport::http2::Http2;
use crate::transport::tls::Tls;

/// The server's state: one per process, shared by all connections.
pub struct App {
    pub(crate) engine: Arc<Engine>,
    pub(crate) keys: Keys,
    pub(crate) audit: Option<Arc<Audit>>,
    /// Largest body of any route, bytes.
    pub(crate) body_bytes_max: u64,
    /// Account of bodies and of what is parsed from them.
    pub(crate) requests: Consumer,
    /// Account of answers until they are sent.
    pub(crate) responses: Consumer,
    /// Account of what streamed answers hold to their end: lists of points, packers.
    pub(crate) streams: Consumer,
    /// Account of open connections.
    pub(crate) connections: Consumer,
    pub(crate) connections_max: usize,
    /// Account of open connections of HTTP/2.
    pub(crate) calls: Consumer,
    pub(crate) http2: Http2,
    /// Places of calls of HTTP/2 that wait for their first bytes.
    pub(crate) waiting: Arc<Semaphore>,
    /// What connections are encrypted with.
    pub(crate) tls: Option<Tls>,
    /// Places on the blocking pool for changes of collections...
    pub(crate) managing: Arc<Semaphore>,
    /// ... and for builds of payload indexes, which may take long.
    pub(crate) building: Arc<Semaphore>,
    /// Snapshots are taken and restored one at a time...
    pub(crate) snapshotting: Arc<Semaphore>,
    /// ... and received a few at once.
    pub(crate) uploads: Semaphore,
    /// Downloads a snapshot, where that is allowed.
    pub(crate) fetch: Option<SnapshotFetch>,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) allocator: Option<fn() -> AllocatorStats>,
    /// Set on a node of several.
    pub(crate) node: Option<Arc<Node>>,
    /// Empty until it is measured.
    pub(crate) machine: Arc<OnceLock<Machine>>,
    /// What the threads that hold connections have to do.
    pub(crate) balancer: Arc<Balancer>,
    pub(crate) stats: RequestStats,
    pub(crate) unindexed: Unindexed,
    pub(crate) damage: Damage,
    pub(crate) refusals: Refusals,
    pub(crate) slow: SlowLog,
    pub(crate) read_waits: ReadWaits,
    pub(crate) waits: Waits,
    pub(crate) issues: Known,
    pub(crate) rates: Rates,
    pub(crate) quotas: Quotas,
    pub(crate) started: Instant,
    /// Microseconds since 1970.
    pub(crate) started_at: i64,
}

impl App {
    /// A request about a collection failed: whether its files are damaged is kept for `/issues`.
    pub fn note_damage(&self, collection: Option<&str>, failed: &ApiError) {
        let name = collection.filter(|_| failed.is_damage);
        if let Some(Ok(collection)) = name.and_then(|name| self.engine.collection_in_ram(name)) {
            self.damage.note(collection.id(), failed);
        }
    }

    pub fn new(options: ServerOptions) -> Arc<App> {
        let ledger = options.engine.ledger().clone();
        let encrypted = options.tls.is_some();
        let http2 = Http2::new(options.engine.budget().elastic, encrypted);
        let connection_bytes = limits::connection_bytes(encrypted);
        // A thread that holds connections for each search slot that is free for one.
        let threads = limits::ASYNC_THREADS.max(options.engine.budget().slots_outside);
        let connections_max = options.connections.max(1);
        let slow_bytes = limits::SLOW_BYTES.min(options.engine.budget().memory_bytes / limits::SLOW_SHARE);
        let kept = ledger.keeper("slow requests", slow_bytes);
        let slow = SlowLog::new(options.slow_query, kept.clone());
        let slow_ns = slow
            .threshold()
            .map_or(0, |threshold| threshold.as_nanos() as u64);
        options.engine.watch().set(clock, slow_ns);
        Arc::new(App {
            keys: Keys::new(&options),
            audit: options.audit,
            body_bytes_max: options.body_bytes_max,
            requests: ledger.consumer("requests", options.request_bytes),
            responses: ledger.consumer("responses", options.response_bytes),
            streams: ledger.consumer("streams", options.response_bytes),
            connections: ledger.consumer("connections", connections_max as u64 * connection_bytes),
            connections_max,
            calls: ledger.consumer("connections of HTTP/2", http2.all_bytes()),
            http2,
            waiting: Arc::new(Semaphore::new(http2.waiting)),
            tls: options.tls,
            managing: Arc::new(Semaphore::new(limits::MANAGE_CALLS)),
            building: Arc::new(Semaphore::new(limits::BUILD_CALLS)),
            snapshotting: Arc::new(Semaphore::new(1)),
            uploads: Semaphore::new(limits::UPLOADS),
            fetch: options.fetch,
            log_level: options.log_level,
            allocator: options.allocator,
            node: options.node.map(Arc::new),
            machine: options.machine,
            balancer: Arc::new(Balancer::new(threads)),
            stats: RequestStats::new(ledger.keeper("request counts", limits::COUNTS_BYTES)),
            unindexed: Unindexed::new(ledger.keeper("issues", limits::ISSUES_BYTES)),
            damage: Damage::new(ledger.keeper("issues", limits::ISSUES_BYTES)),
            refusals: Refusals::new(kept),
            slow,
            read_waits: ReadWaits::default(),
            waits: Waits::default(),
            issues: Known::new(ledger.keeper("issues", limits::ISSUES_BYTES)),
            rates: Rates::default(),
            quotas: Quotas::load(&options.engine),
            started: Instant::now(),
            started_at: now_micros(),
            engine: options.engine,
        })
    }

    /// Whether all that changes here comes from a log that somebody else writes.
    pub(crate) fn only_follows(&self) -> bool {
        let role = self.node.as_ref().map(|node| node.log.status().role);
        role == Some(Role::Reader)
    }

    /// A collection by name or alias. One that isn't in RAM is loaded off the threads of connections.
    pub(crate) async fn collection(&self, name: &str) -> ApiResult<Arc<Collection>> {
        if let Some(found) = self.engine.collection_at_once(name) {
            return Ok(found?);
        }
        let (engine, name) = (self.engine.clone(), name.to_owned());
        let loaded = spawn_blocking(move || engine.collection(&name)).await;
        Ok(loaded.map_err(ApiError::internal)??)
    }
}

pub fn now_micros() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
