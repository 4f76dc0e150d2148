//! Keys of the API server's files without a setting of ours: the TLS keys, which work, and keys without effect, each with the reason.

/// A key, or all keys under it, without effect here.
pub struct Foreign {
    pub key: &'static str,
    pub why: &'static str,
    /// Values that match what Ramlet does anyway: no message for them. `*`: all.
    pub same: &'static [&'static str],
}

/// The TLS files, by the names of the API's server; see `TlsFiles`.
pub const FILES_OF_TLS: [(&str, &str); 6] = [
    (
        "service.enable_tls",
        "encrypts REST and gRPC with the files below",
    ),
    (
        "service.verify_https_client_certificate",
        "accepts only clients with a certificate signed by `tls.ca_cert`",
    ),
    ("tls.cert", "the certificate; default `./tls/cert.pem`"),
    ("tls.key", "its private key; default `./tls/key.pem`"),
    (
        "tls.ca_cert",
        "authorities for client certificates; default `./tls/cacert.pem`",
    ),
    (
        "tls.cert_ttl",
        "seconds until the files are read again; default 3600, null for never",
    ),
];

const fn foreign(key: &'static str, why: &'static str, same: &'static [&'static str]) -> Foreign {
    Foreign { key, why, same }
}

const ALONE: &str = "there is no such cluster: nodes share a `store`";
const PER_COLLECTION: &str = "this is set when a collection is created; the planner chooses what isn't set";
const BOUNDED: &str = "the memory budget limits threads and queues";
const PAGE: &str = "the page at /dashboard is part of the binary";
const NOT_BUILT: &str = "not implemented";

/// The longest matching key applies.
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
        "the memory budget limits the number of collections",
        &[],
    ),
    foreign("storage.wal", "log files have a fixed size", &[]),
    foreign(
        "storage.temp_path",
        "temporary files are in the data directory",
        &[],
    ),
    foreign(
        "storage.mmap_advice",
        "files are read without the page cache",
        &[],
    ),
    foreign("storage.low_memory_mode", "the memory budget always applies", &[]),
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
        "its name is now storage.performance.async_scorer",
        &[],
    ),
    foreign("storage.update_concurrency", BOUNDED, &[]),
    foreign("storage.update_queue_size", BOUNDED, &[]),
    foreign("storage.performance", BOUNDED, &[]),
    foreign("service.max_workers", BOUNDED, &[]),
    foreign("service.hardware_reporting", NOT_BUILT, &["false"]),
    foreign("service.metrics_prefix", NOT_BUILT, &[""]),
    foreign(
        "service.metrics_port",
        "metrics are at /metrics of the REST port",
        &[],
    ),
    foreign("service.slow_query_secs", "`slow_query` sets this", &[]),
    foreign("service.hide_jwt_dashboard", PAGE, &["false"]),
    foreign("service.static_content_dir", PAGE, &[]),
    foreign("service.enable_static_content", PAGE, &["true"]),
    foreign("telemetry_disabled", "Ramlet never sends telemetry", &["*"]),
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
        "the server computes BM25 vectors; other models run in the client",
        &[],
    ),
    foreign("gpu", NOT_BUILT, &[]),
    foreign("gpu.indexing", NOT_BUILT, &["false"]),
    foreign("feature_flags", "these concern the other server's own code", &[]),
    foreign("audit", "the audit log has no such key here", &[]),
];

/// The row about `key`.
pub fn without_effect(key: &str) -> Option<&'static Foreign> {
    let fits = |row: &&Foreign| {
        let rest = key.strip_prefix(row.key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    WITHOUT_EFFECT.iter().filter(fits).max_by_key(|row| row.key.len())
}
