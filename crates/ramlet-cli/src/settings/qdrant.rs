//! Keys of the API server's files that have no setting of ours: those of TLS, which work, and those without effect, each with why.

/// A key, or all keys under it, that nothing here follows.
pub struct Foreign {
    pub key: &'static str,
    pub why: &'static str,
    /// Values that ask for what is so anyway: nothing is said of them. `*`: all.
    pub same: &'static [&'static str],
}

/// What connections are encrypted with, by the names of the API's server; see `TlsFiles`.
pub const FILES_OF_TLS: [(&str, &str); 6] = [
    (
        "service.enable_tls",
        "encrypts REST and gRPC with the files below",
    ),
    (
        "service.verify_https_client_certificate",
        "lets in only clients with a certificate that `tls.ca_cert` has signed",
    ),
    ("tls.cert", "the certificate; `./tls/cert.pem` unless said"),
    ("tls.key", "its key; `./tls/key.pem` unless said"),
    (
        "tls.ca_cert",
        "authorities of clients; `./tls/cacert.pem` unless said",
    ),
    (
        "tls.cert_ttl",
        "seconds until the files are read again; 3600 unless said, null for never",
    ),
];

const fn foreign(key: &'static str, why: &'static str, same: &'static [&'static str]) -> Foreign {
    Foreign { key, why, same }
}

const ALONE: &str = "Ramlet is one process and has no cluster";
const PER_COLLECTION: &str =
    "a collection is told when it is created; the planner decides what it isn't told";
const BOUNDED: &str = "threads and queues are bounded by the memory budget";
const ON_DISK: &str = "snapshots lie on a local disk";
const PAGE: &str = "the page at /dashboard is part of the binary";
const NOT_BUILT: &str = "it isn't built";

/// The longest key that fits is the one that counts.
pub const WITHOUT_EFFECT: &[Foreign] = &[
    foreign("cluster", ALONE, &[]),
    foreign("cluster.enabled", ALONE, &["false"]),
    foreign("storage.node_type", ALONE, &["Normal"]),
    foreign("storage.shard_transfer_method", ALONE, &[]),
    foreign("storage.performance.incoming_shard_transfers_limit", ALONE, &[]),
    foreign("storage.performance.outgoing_shard_transfers_limit", ALONE, &[]),
    foreign("storage.collection", PER_COLLECTION, &[]),
    foreign("storage.hnsw_index", PER_COLLECTION, &[]),
    foreign("storage.hnsw_global_config", PER_COLLECTION, &[]),
    foreign("storage.optimizers", PER_COLLECTION, &[]),
    foreign("storage.optimizers_overwrite", PER_COLLECTION, &[]),
    foreign("storage.quantization", PER_COLLECTION, &[]),
    foreign("storage.on_disk_payload", PER_COLLECTION, &["true"]),
    foreign(
        "storage.max_collections",
        "the memory budget bounds how many collections there are",
        &[],
    ),
    foreign("storage.wal", "the log has files of one size", &[]),
    foreign(
        "storage.temp_path",
        "temporary files lie in the directory of the data",
        &[],
    ),
    foreign("storage.mmap_advice", "files are read around the page cache", &[]),
    foreign("storage.low_memory_mode", "the budget is kept always", &[]),
    foreign(
        "storage.recovery_mode",
        "--skip-collection leaves a collection closed",
        &[],
    ),
    foreign(
        "storage.handle_collection_load_errors",
        "a collection that can't be opened is closed, and the others are served",
        &["true"],
    ),
    foreign(
        "storage.async_scorer",
        "storage.performance.async_scorer is its name now",
        &[],
    ),
    foreign("storage.update_concurrency", BOUNDED, &[]),
    foreign("storage.update_queue_size", BOUNDED, &[]),
    foreign("storage.performance", BOUNDED, &[]),
    foreign("storage.snapshots_config", ON_DISK, &[]),
    foreign("storage.snapshots_config.snapshots_storage", ON_DISK, &["local"]),
    foreign("service.max_workers", BOUNDED, &[]),
    foreign("service.hardware_reporting", NOT_BUILT, &["false"]),
    foreign("service.metrics_prefix", NOT_BUILT, &[""]),
    foreign(
        "service.metrics_port",
        "metrics are at /metrics of the REST port",
        &[],
    ),
    foreign(
        "service.slow_query_secs",
        "`slow_query` says from when on a request is slow",
        &[],
    ),
    foreign("service.hide_jwt_dashboard", PAGE, &["false"]),
    foreign("service.static_content_dir", PAGE, &[]),
    foreign("service.enable_static_content", PAGE, &["true"]),
    foreign(
        "telemetry_disabled",
        "nothing is sent to anybody, whatever it says",
        &["*"],
    ),
    foreign("per_collection_metrics_enabled", NOT_BUILT, &[]),
    foreign("logger", "the log goes to standard error", &[]),
    foreign(
        "logger.on_disk.enabled",
        "the log goes to standard error",
        &["false"],
    ),
    foreign("debugger", NOT_BUILT, &[]),
    foreign(
        "inference",
        "texts become vectors of words here (BM25), or in the client",
        &[],
    ),
    foreign("gpu", NOT_BUILT, &[]),
    foreign("gpu.indexing", NOT_BUILT, &["false"]),
    foreign("feature_flags", "they are about the other server's own code", &[]),
    foreign("audit", NOT_BUILT, &[]),
];

/// The row about `key`.
pub fn without_effect(key: &str) -> Option<&'static Foreign> {
    let fits = |row: &&Foreign| {
        let rest = key.strip_prefix(row.key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    WITHOUT_EFFECT.iter().filter(fits).max_by_key(|row| row.key.len())
}
