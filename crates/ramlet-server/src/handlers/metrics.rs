//! `GET /metrics`, in Prometheus' text form: names as the API's where it has the figure, `ramlet_*` for our own.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use ramlet::{CollectionInfo, CollectionStatus, JOB_KINDS, JobTimes, MeasuredRecall, SYNC_BUCKETS_US};
use ramlet_io::system::{process_counts, process_memory};

use super::service::{API_VERSION, OWN_VERSION};
use crate::answers::answer::{Answer, text_of};
use crate::answers::out::Out;
use crate::app::App;
use crate::error::ApiResult;
use crate::handlers::telemetry::shown_name;
use crate::limits;
use crate::nodes::node::Role;
use crate::observability::issue::CODES;
use crate::observability::refusals::REFUSALS;
use crate::observability::stats::{BUCKETS_US, Count, Rows};
use crate::observability::waits::{Histogram, WAIT_BUCKETS_US};
use crate::request::call::Call;
use crate::request::route::shown_path;

pub async fn metrics(call: Call) -> ApiResult<Answer> {
    let by_collection = call.request.query.boolean("per_collection")?.unwrap_or(false);
    let anonymize = call.request.query.boolean("anonymize")?.unwrap_or(false);
    let _held = call.gather(by_collection, limits::METRICS_BYTES).await?;
    let mut text = Text(Out::part(&call.app.responses));
    service(&mut text, &call.app);
    collections(&mut text, &call.app, anonymize);
    memory(&mut text, &call.app);
    process(&mut text);
    storage(&mut text, &call.app);
    operator(&mut text, &call.app);
    shared_log(&mut text, &call.app);
    requests(&mut text, &call.app, by_collection, anonymize);
    Ok(Answer::Whole(text_of(text.0.into_sent()?)))
}

type Labels<'a> = &'a [(&'a str, &'a str)];

/// The text as it is written, its bytes held: a server that has seen much has a megabyte to tell.
struct Text(Out);

impl Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.raw(text);
        Ok(())
    }
}

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.0.raw(name);
        for (i, (label, value)) in labels.iter().enumerate() {
            let _ = write!(
                self,
                "{}{label}=\"{}\"",
                if i == 0 { "{" } else { "," },
                escaped(value)
            );
        }
        let _ = writeln!(self, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// Of buckets that aren't summed up, the last above all bounds.
    fn histogram(&mut self, (name, help): (&str, &str), buckets: &[u64], most_us: &[u64], total_ns: u64) {
        self.family(name, "histogram", help);
        let (bucket, mut below) = (format!("{name}_bucket"), 0);
        for (count, most) in buckets.iter().zip(most_us) {
            below += count;
            self.sample(&bucket, &[("le", &(*most as f64 / 1e6).to_string())], below);
        }
        let count = buckets.iter().sum::<u64>();
        self.sample(&bucket, &[("le", "+Inf")], count);
        self.sample(&format!("{name}_sum"), &[], total_ns as f64 / 1e9);
        self.sample(&format!("{name}_count"), &[], count);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.sample(name, &[], value);
    }
}

/// A label's value, as the text format wants it.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn service(text: &mut Text, app: &App) {
    text.family("app_info", "gauge", "information about qdrant server");
    // The name that dashboards look for; who answers is told beside it.
    text.sample("app_info", &[("name", "qdrant"), ("version", API_VERSION)], 1);
    text.family("ramlet_info", "gauge", "Version of Ramlet");
    text.sample("ramlet_info", &[("version", OWN_VERSION)], 1);
    text.gauge("app_status_recovery_mode", "features enabled in qdrant server", 0);
    let is_node = u8::from(app.node.is_some());
    text.gauge("cluster_enabled", "is cluster support enabled", is_node);
    text.gauge(
        "ramlet_uptime_seconds",
        "Since the start",
        app.started.elapsed().as_secs_f64(),
    );
    text.gauge(
        "ramlet_writable",
        "1 while writes are accepted",
        u8::from(app.engine.writable()),
    );
    if let Some((written, lost)) = app.audit.as_ref().map(|audit| audit.counts()) {
        text.counter("ramlet_audit_lines_total", "Lines of the audit log", written);
        text.counter(
            "ramlet_audit_lines_lost_total",
            "Lines of the audit log that could not be written",
            lost,
        );
    }
}

fn collections(text: &mut Text, app: &App, anonymize: bool) {
    let count = app.engine.collection_count();
    text.gauge("collections_total", "number of collections", count);
    text.gauge(
        "ramlet_collections_closed",
        "collections that could not be opened at the start",
        app.engine.closed_collections().len(),
    );
    text.gauge(
        "ramlet_collections_stopped",
        "collections that take no more writes until a restart",
        app.engine.stopped_collections(),
    );
    let unloaded = app.engine.unloaded_collections();
    text.gauge(
        "ramlet_collections_unloaded",
        "collections that are not in RAM; they have no series of their own",
        unloaded.collections,
    );
    text.gauge(
        "ramlet_collections_unseen",
        "collections not opened since the start, so not verified yet",
        app.engine.unseen_collections(),
    );
    let loaded = app.engine.loaded_collections().into_iter();
    let all: Vec<_> = loaded
        .map(|(name, c)| (shown_name(&name, anonymize), c.info(), c.measured_recall()))
        .collect();
    let vectors: u64 = all
        .iter()
        .flat_map(|(_, info, _)| &info.vectors_count)
        .map(|(_, n)| n)
        .sum();
    text.gauge(
        "collections_vector_total",
        "total number of vectors in all collections",
        vectors + unloaded.vectors,
    );
    text.family(
        "collection_vectors",
        "gauge",
        "amount of vectors grouped by vector name",
    );
    for (id, info, _) in &all {
        for (vector, count) in &info.vectors_count {
            text.sample("collection_vectors", &[("id", id), ("vector", vector)], count);
        }
    }
    for (series, help, value) in COLLECTION_SERIES {
        text.family(series, "gauge", help);
        for (id, info, _) in &all {
            text.sample(series, &[("id", id)], value(info));
        }
    }
    for (series, kind, help, value) in RECALL_SERIES {
        text.family(series, kind, help);
        for (id, _, measured) in &all {
            for m in measured {
                text.sample(series, &[("collection", id), ("vector", &m.vector)], value(m));
            }
        }
    }
}

type OfCollection = fn(&CollectionInfo) -> u64;

const COLLECTION_SERIES: [(&str, &str, OfCollection); 7] = [
    (
        "collection_points",
        "approximate amount of points per collection",
        |c| c.points_count,
    ),
    (
        "collection_running_optimizations",
        "number of currently running optimization tasks per collection",
        |c| u64::from(c.status == CollectionStatus::Yellow),
    ),
    (
        "collection_update_queue_length",
        "number of pending operations in the update queue",
        |c| c.update_queue,
    ),
    (
        "ramlet_collection_indexed_vectors",
        "Vectors in segments that have an index",
        |c| c.indexed_vectors_count,
    ),
    ("ramlet_collection_segments", "Segments and write buffers", |c| {
        c.segments_count
    }),
    (
        "ramlet_collection_disk_bytes",
        "Bytes of its segments on disk",
        |c| c.disk_bytes,
    ),
    (
        "ramlet_collection_memory_bytes",
        "Bytes of its data in memory",
        |c| c.memory.iter().map(|m| m.heap_bytes + m.pinned_bytes).sum(),
    ),
];

type OfRecall = fn(&MeasuredRecall) -> f64;

const RECALL_SERIES: [(&str, &str, &str, OfRecall); 3] = [
    (
        "ramlet_recall_measured",
        "gauge",
        "Mean recall of real queries, measured on a sample of them",
        |m| m.recall,
    ),
    (
        "ramlet_recall_measured_error",
        "gauge",
        "Standard error of that mean",
        |m| m.error,
    ),
    (
        "ramlet_recall_queries_total",
        "counter",
        "Queries whose recall was measured",
        |m| m.queries as f64,
    ),
];

fn memory(text: &mut Text, app: &App) {
    if let Some(stats) = app.allocator.map(|stats| stats()) {
        for (name, help, bytes) in [
            (
                "memory_active_bytes",
                "Total number of bytes in active pages allocated by the application",
                stats.active,
            ),
            (
                "memory_allocated_bytes",
                "Total number of bytes allocated by the application",
                stats.allocated,
            ),
            (
                "memory_metadata_bytes",
                "Total number of bytes dedicated to metadata",
                stats.metadata,
            ),
            (
                "memory_resident_bytes",
                "Maximum number of bytes in physically resident data pages mapped",
                stats.resident,
            ),
            (
                "memory_retained_bytes",
                "Total number of bytes in virtual memory mappings",
                stats.retained,
            ),
        ] {
            text.gauge(name, help, bytes);
        }
    }
    let (ledger, budget) = (app.engine.ledger(), app.engine.budget());
    text.gauge(
        "ramlet_memory_budget_bytes",
        "The memory budget",
        budget.memory_bytes,
    );
    text.gauge(
        "ramlet_ledger_limit_bytes",
        "Memory that reservations may hold",
        ledger.limit(),
    );
    text.gauge(
        "ramlet_ledger_peak_bytes",
        "Peak of all reservations",
        ledger.peak(),
    );
    text.gauge(
        "ramlet_ledger_lent_bytes",
        "Reserved memory that caches hold",
        ledger.reclaimable_bytes(),
    );
    let report = ledger.report();
    text.family(
        "ramlet_ledger_used_bytes",
        "gauge",
        "Memory reserved now, by consumer",
    );
    for c in &report {
        text.sample("ramlet_ledger_used_bytes", &[("consumer", c.name)], c.used);
    }
    text.family(
        "ramlet_ledger_refused_total",
        "counter",
        "Reservations refused, by consumer",
    );
    for c in &report {
        text.sample("ramlet_ledger_refused_total", &[("consumer", c.name)], c.refused);
    }
}

fn process(text: &mut Text) {
    let (memory, counts) = (process_memory(), process_counts());
    text.gauge(
        "process_resident_memory_bytes",
        "Resident memory of the process",
        memory.rss,
    );
    text.gauge(
        "process_resident_memory_peak_bytes",
        "Peak of resident memory",
        memory.rss_peak,
    );
    let all = [
        (
            "process_threads",
            "gauge",
            "count of active threads",
            counts.threads,
        ),
        (
            "process_open_fds",
            "gauge",
            "count of currently open file descriptors",
            counts.open_files,
        ),
        (
            "process_max_fds",
            "gauge",
            "limit for open file descriptors",
            counts.open_files_max,
        ),
        (
            "process_minor_page_faults_total",
            "counter",
            "count of minor page faults which didn't cause a disk access",
            counts.faults_minor,
        ),
        (
            "process_major_page_faults_total",
            "counter",
            "count of disk accesses caused by a mmap page fault",
            counts.faults_major,
        ),
        (
            "ramlet_disk_read_bytes_total",
            "counter",
            "Bytes read from disks",
            counts.read_bytes,
        ),
        (
            "ramlet_disk_written_bytes_total",
            "counter",
            "Bytes written to disks",
            counts.written_bytes,
        ),
    ];
    for (name, kind, help, value) in all {
        if let Some(value) = value {
            text.family(name, kind, help);
            text.sample(name, &[], value);
        }
    }
}

fn storage(text: &mut Text, app: &App) {
    let cache = app.engine.cache().stats();
    text.counter(
        "ramlet_block_cache_hits_total",
        "Reads that the block cache answered",
        cache.hits,
    );
    text.counter(
        "ramlet_block_cache_misses_total",
        "Reads that went to disk",
        cache.misses,
    );
    text.gauge(
        "ramlet_block_cache_bytes",
        "Bytes in the block cache",
        cache.bytes,
    );
    let records = app.engine.records();
    text.counter(
        "ramlet_record_cache_hits_total",
        "Record cache hits: payloads and parts of posting lists",
        records.hits,
    );
    text.counter(
        "ramlet_record_cache_misses_total",
        "Record cache misses",
        records.misses,
    );
    text.gauge(
        "ramlet_record_cache_bytes",
        "Bytes in the record cache",
        records.bytes,
    );
    if let Ok(free) = app.engine.storage().free_bytes() {
        text.gauge("ramlet_disk_free_bytes", "Free space on the data disk", free);
    }
}

type OfJobs = fn(&JobTimes) -> f64;

/// What is slow, what is refused, what is under way, what is wrong.
fn operator(text: &mut Text, app: &App) {
    text.counter(
        "ramlet_slow_requests_total",
        "Requests that took longer than --slow-query",
        app.slow.count(),
    );
    text.family(
        "ramlet_refusals_total",
        "counter",
        "Requests refused, by the missing resource",
    );
    for ((_, kind), count) in REFUSALS.iter().zip(app.refusals.counts()) {
        text.sample("ramlet_refusals_total", &[("kind", kind)], count);
    }
    text.family("ramlet_issues", "gauge", "Open issues, by the codes of /issues");
    for (code, count) in CODES.iter().zip(app.issues.counts()) {
        text.sample("ramlet_issues", &[("code", code)], count);
    }
    text.gauge(
        "ramlet_unindexed_fields",
        "Fields that filters use without an index, reading many payloads",
        app.unindexed.count(),
    );
    text.gauge(
        "ramlet_searches_waiting",
        "Searches that wait for a search thread",
        app.engine.searches_waiting(),
    );
    let [searches, reads, bytes] = app.read_waits.counts();
    for (name, help, value) in [
        (
            "ramlet_searches_total",
            "Finished searches, counting each search of a batch",
            searches,
        ),
        ("ramlet_search_reads_total", "Reads that they did", reads),
        ("ramlet_search_read_bytes_total", "Bytes of these", bytes),
    ] {
        text.counter(name, help, value);
    }
    let (reads, ns) = app.read_waits.totals();
    text.counter(
        "ramlet_read_waits_timed_total",
        "Batches of reads that were timed: a sample",
        reads,
    );
    text.counter(
        "ramlet_read_wait_seconds_total",
        "Time that these took",
        ns as f64 / 1e9,
    );
    text.counter(
        "ramlet_cache_evicted_bytes_total",
        "Bytes of cached codes, vectors and records evicted for reservations",
        app.engine.evicted_bytes(),
    );
    waits(text, app);
    let times = app.engine.watch().job_times();
    let series: [(&str, &str, OfJobs); 3] = [
        ("ramlet_jobs_total", "Finished background jobs, by kind", |t| {
            t.count as f64
        }),
        (
            "ramlet_jobs_failed_total",
            "Failed background jobs, by kind",
            |t| t.failed as f64,
        ),
        ("ramlet_job_seconds_total", "Time that they took", |t| {
            t.total_ns as f64 / 1e9
        }),
    ];
    for (name, help, value) in series {
        text.family(name, "counter", help);
        for (kind, times) in JOB_KINDS.iter().zip(&times) {
            text.sample(name, &[("kind", kind)], value(times));
        }
    }
}

/// What requests wait for.
/// Of a node over a store.
fn shared_log(text: &mut Text, app: &App) {
    let Some(node) = &app.node else {
        return;
    };
    let status = node.log.status();
    text.gauge(
        "ramlet_store_slot",
        "Last slot of the shared log that is applied.",
        status.slot,
    );
    text.gauge("ramlet_store_epoch", "Epoch of the log's writer.", status.epoch);
    text.gauge(
        "ramlet_store_writer",
        "1: this node owns the log and takes writes.",
        u8::from(status.role == Role::Writer),
    );
    text.gauge(
        "ramlet_store_build",
        "1: this node builds indexes and merges for others.",
        u8::from(status.builds),
    );
    text.gauge(
        "ramlet_store_builds_elsewhere",
        "1: another node builds indexes and merges for this one.",
        u8::from(status.builds_elsewhere),
    );
    text.counter(
        "ramlet_store_built_total",
        "Merges and index builds of this node.",
        app.engine.built(),
    );
    if let Some(forwarder) = &node.forwarder {
        text.counter(
            "ramlet_store_forwarded_total",
            "Writes that were sent to the node that owns the log.",
            forwarder.count.load(Ordering::Relaxed),
        );
    }
    text.gauge(
        "ramlet_store_backup_slot",
        "Slot up to which the newest backup in the store reaches.",
        status.covered,
    );
    text.gauge(
        "ramlet_store_fault",
        "1: the node takes no more writes, or doesn't follow the log any more.",
        u8::from(status.fault.is_some()),
    );
    if let Some(age) = status.staleness() {
        text.gauge(
            "ramlet_store_staleness_seconds",
            "Since a reader had applied all of the log.",
            age.as_secs_f64(),
        );
    }
}

fn waits(text: &mut Text, app: &App) {
    let of = |waits: &Histogram, name, help, text: &mut Text| {
        let (buckets, total_ns) = waits.counts_and_total();
        text.histogram((name, help), &buckets, &WAIT_BUCKETS_US, total_ns);
    };
    let queue = (
        "ramlet_queue_wait_seconds",
        "Waits of queued searches for a search thread",
    );
    of(&app.waits.queue, queue.0, queue.1, text);
    let memory = (
        "ramlet_memory_wait_seconds",
        "Waits for memory for a body or a response; requests that didn't wait aren't counted",
    );
    of(&app.waits.memory, memory.0, memory.1, text);
    let watch = app.engine.watch();
    let syncs = watch.syncs();
    let name = "ramlet_log_sync_seconds";
    let help = "Group writes to the log including the sync";
    text.histogram((name, help), &syncs.buckets, &SYNC_BUCKETS_US, syncs.total_ns);
    let (stalls, stalled_ns) = watch.stalls();
    text.counter(
        "ramlet_write_stalls_total",
        "Waits of writes for room in the write buffers",
        stalls,
    );
    text.counter(
        "ramlet_write_stall_seconds_total",
        "Time that these took",
        stalled_ns as f64 / 1e9,
    );
}

fn requests(text: &mut Text, app: &App, by_collection: bool, anonymize: bool) {
    text.counter(
        "ramlet_connections_moved_total",
        "Connections moved from a busy thread to a less busy one",
        app.balancer.moved(),
    );
    let rows: Vec<(Option<String>, Rows)> = if by_collection {
        let all = app.stats.rows_by_collection().into_iter();
        all.map(|(name, rows)| (Some(shown_name(&name, anonymize)), rows))
            .collect()
    } else {
        vec![(None, app.stats.rows())]
    };
    for (prefix, grpc) in [("rest", false), ("grpc", true)] {
        let of = |(collection, rows): &(Option<String>, Rows)| -> Vec<Row> {
            let rows = rows
                .iter()
                .filter(|(endpoint, _)| endpoint.method.is_empty() == grpc);
            rows.map(|(endpoint, count)| Row {
                collection: collection.clone(),
                method: endpoint.method,
                path: shown_path(endpoint.path),
                status: endpoint.status.to_string(),
                count: *count,
            })
            .collect()
        };
        responses(text, prefix, &rows.iter().flat_map(of).collect::<Vec<_>>());
    }
}

struct Row {
    collection: Option<String>,
    method: &'static str,
    path: String,
    status: String,
    count: Count,
}

impl Row {
    fn labels(&self) -> Vec<(&str, &str)> {
        let mut labels = Vec::with_capacity(5);
        if !self.method.is_empty() {
            labels.push(("method", self.method));
        }
        labels.extend([("endpoint", self.path.as_str()), ("status", self.status.as_str())]);
        labels.extend(self.collection.as_deref().map(|name| ("collection", name)));
        labels
    }
}

type OfCount = fn(&Count) -> f64;

const DURATIONS: [(&str, &str, OfCount); 3] = [
    ("avg", "average response duration", |c| {
        c.total.as_secs_f64() / c.requests as f64
    }),
    ("min", "minimum response duration", |c| c.shortest.as_secs_f64()),
    ("max", "maximum response duration", |c| c.longest.as_secs_f64()),
];

fn responses(text: &mut Text, prefix: &str, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let name = format!("{prefix}_responses_total");
    text.family(&name, "counter", "total number of responses");
    rows.iter()
        .for_each(|row| text.sample(&name, &row.labels(), row.count.requests));
    for (which, help, value) in DURATIONS {
        let name = format!("{prefix}_responses_{which}_duration_seconds");
        text.family(&name, "gauge", help);
        rows.iter()
            .for_each(|row| text.sample(&name, &row.labels(), value(&row.count)));
    }
    let name = format!("{prefix}_responses_duration_seconds");
    text.family(&name, "histogram", "response duration histogram");
    rows.iter().for_each(|row| histogram(text, &name, row));
}

fn histogram(text: &mut Text, name: &str, row: &Row) {
    let (bucket, mut below) = (format!("{name}_bucket"), 0);
    for (count, most) in row.count.buckets.iter().zip(BUCKETS_US) {
        below += count;
        let le = (most as f64 / 1e6).to_string();
        let mut labels = row.labels();
        labels.push(("le", &le));
        text.sample(&bucket, &labels, below);
    }
    let mut labels = row.labels();
    labels.push(("le", "+Inf"));
    text.sample(&bucket, &labels, row.count.requests);
    text.sample(
        &format!("{name}_sum"),
        &row.labels(),
        row.count.total.as_secs_f64(),
    );
    text.sample(&format!("{name}_count"), &row.labels(), row.count.requests);
}
