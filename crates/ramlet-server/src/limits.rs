//! Every bound of the server, in one place.
//!
//! A limit that is about bytes of RAM is also an account of the ledger: see [`crate::request::admission`].

use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Payloads that one search reads because a field has no index, from which on `/issues` reports the field: about a millisecond.
pub const UNINDEXED_PAYLOADS_MIN: u64 = 1_000;
/// Fields that are reported.
pub const UNINDEXED_FIELDS: usize = 64;

/// Collections whose damaged files are reported, and the bytes of a message about one.
pub const DAMAGED_COLLECTIONS: usize = 32;
pub const DAMAGE_SAID_BYTES: usize = 512;

/// Bytes for the names in issues: fields without an index, and damaged files.
pub const ISSUES_BYTES: u64 = 128 * KIB;
/// Bytes of the metadata that explains a call: by default clients accept 8 KiB of all metadata.
pub const EXPLAIN_METADATA_BYTES: usize = 6 << 10;
/// Default time from which on a request is slow.
pub const SLOW_DEFAULT: Duration = Duration::from_secs(1);
/// Slow requests that are kept, ...
pub const SLOW_ENTRIES: usize = 64;
/// ... the bytes kept of a body and of its `explain`, ...
pub const SLOW_BODY_BYTES: usize = 2 << 10;

/// Messages of gRPC up to this are shown with a slow request; and the bytes of one as text meanwhile.
pub const SLOW_MESSAGE_BYTES: usize = 16 << 10;
pub const SLOW_MESSAGE_TEXT_BYTES: u64 = 128 << 10;
pub const SLOW_EXPLAIN_BYTES: usize = 4 << 10;
/// ... and the most that all may take: this part of the budget.
pub const SLOW_BYTES: u64 = 256 * KIB;
pub const SLOW_SHARE: u64 = 256;
/// Least time between two log lines about refusals of one kind, or slow requests.
pub const LOG_PERIOD: Duration = Duration::from_secs(1);
/// Time between two checks for issues.
pub const ISSUES_PERIOD: Duration = Duration::from_secs(10);
/// How long a plan's result is reused; the machine may be measured meanwhile.
pub const PLAN_KEPT: Duration = Duration::from_secs(60);
/// One search in this many is timed without `explain`.
pub const SEARCHES_PER_TIMED: u64 = 32;
/// Batches of reads from which on their mean is used, and how many of the last ones it covers.
pub const READS_JUDGED: f64 = 64.0;
pub const READS_JUDGED_MAX: f64 = 1_024.0;
/// A disk is slow if a read takes this many times as long as when it was measured, and at least the second value.
pub const SLOW_TIMES: u64 = 4;
pub const READ_US_MIN: u64 = 500;
/// Log syncs from which on their mean is used, and the slow mean in microseconds: ten times that of a usual SSD.
pub const SYNCS_JUDGED: u64 = 16;
pub const SYNC_SLOW_US: u64 = 50_000;
/// Points of a collection from which on the gain of more memory is predicted.
pub const PLANNED_POINTS_MIN: u64 = 20_000;
/// Length of a log level given to `/logger`.
pub const LOG_LEVEL_BYTES: usize = 4_096;
/// Bytes of an idle HTTP/1 connection: task, read and write buffers, kernel socket (measured: 14 KiB).
pub const CONNECTION_BYTES: u64 = 14 * KIB;
/// Encrypted bytes of a connection that aren't sent yet.
pub const TLS_SEND_BYTES: usize = 16 << 10;
/// Further bytes of an encrypted connection: keys, a received record (16 KiB at most), and unsent bytes.
const TLS_BYTES: u64 = 48 * KIB;

/// Bytes of an HTTP/1 connection.
pub const fn connection_bytes(encrypted: bool) -> u64 {
    CONNECTION_BYTES + tls_bytes(encrypted)
}

/// Share of encryption in a connection's memory.
pub const fn tls_bytes(encrypted: bool) -> u64 {
    if encrypted { TLS_BYTES } else { 0 }
}

/// Default maximum of open connections: 3.5 MiB of the budget.
pub const CONNECTIONS_DEFAULT: usize = 256;
/// ... and in the smallest budget.
pub const CONNECTIONS_MIN: usize = 16;
/// Connections that the kernel may queue before they are accepted.
pub const BACKLOG: u32 = 256;
/// The memory cgroup is also charged for socket buffers (version 2; version 1 counts them separately). The kernel would grow
/// them to megabytes each, and doubles the given value. All connections together get half of the kernel's row, within these.
pub const SOCKET_BUFFER_BYTES: std::ops::RangeInclusive<u64> = 32 * KIB..=256 * KIB;
/// Largest TCP segment. A receiver acknowledges every second segment at once, and a single one after 40 ms. The loopback's segments
/// have 64 KiB: a socket buffer holds one, and each 64 KiB of a response waited for its ACK. The smallest buffer
/// holds four of these.
pub const SEGMENT_BYTES: u16 = 8 << 10;
/// Read buffer of a connection, and so the largest header of a request.
pub const HEAD_BYTES: usize = 16 * KIB as usize;
pub const HEADERS_MAX: usize = 64;

/// Bytes of an HTTP/2 connection beside received data and its calls: task, buffers, header tables, kernel socket.
pub const CONNECTION_BYTES_HTTP2: u64 = 40 * KIB;
/// Bytes that a client may send on one connection before they are read; the protocol begins with 64 KiB less one.
pub const WINDOW_BYTES: std::ops::RangeInclusive<u64> = 64 * KIB - 1..=512 * KIB;
/// HTTP/2 connections in the smallest budget.
pub const CONNECTIONS_HTTP2_MIN: usize = 4;
/// Concurrent calls on one connection. Their bytes aren't reserved until they are read. Clients begin
/// with 100 before they receive SETTINGS (RFC 9113, 6.5.2), so fewer are for budgets that have no room for so many anyway.
pub const STREAMS: std::ops::RangeInclusive<u64> = 32..=128;
/// Bytes of the elastic memory for each of them.
pub const STREAM_SHARE: u64 = 64 * KIB;
/// Largest header list of a call, as HTTP/2 counts it: a 256th of the elastic memory, within these.
pub const HEAD_BYTES_HTTP2: std::ops::RangeInclusive<u64> = 8 * KIB..=HEAD_BYTES as u64;
/// Largest frame.
pub const FRAME_BYTES: u32 = 16 * KIB as u32;
/// Bytes of a call's response on their way into the socket.
pub const SEND_BUFFER_BYTES: usize = 64 * KIB as usize;
/// Calls that a client resets before they are read: more are an attack, and end the connection.
pub const RESETS_PENDING: usize = 20;
/// Faulty calls that the server resets before it ends the connection.
pub const RESETS_LOCAL: usize = 128;
/// A silent connection is pinged, ...
pub const PING_PERIOD: Duration = Duration::from_secs(60);
/// ... and closed if it doesn't answer.
pub const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a call beside its message: tasks, and a usual header list, ...
pub const CALL_BYTES: u64 = 6 * KIB;
/// ... which has this many bytes, ...
pub const CALL_HEAD_BYTES: u64 = 3 * KIB;
/// ... and further bytes for each header beside its text: a table that doubles, of entries of 104 bytes.
pub const HEADER_BYTES: u64 = 208;
/// Calls that wait for these bytes: a 32nd of the elastic memory, within these. Others are refused at once.
pub const CALLS_WAITING: std::ops::RangeInclusive<u64> = 32..=512;
/// Bytes of a message while it is converted to the engine's form.
pub const NODE_BYTES: u64 = 128;
/// Nesting of objects and lists in a payload.
pub const PAYLOAD_DEPTH_MAX: usize = 100;

/// Time from the beginning of a connection to the first bytes.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Time from the end of a response to the end of the next request's header. It is longer than clients' pools and proxies keep an
/// unused connection (5 s to 90 s), so that they close it first: a request sent into a connection
/// that is being closed fails. It is shorter if others wait for a place, see [`EVICT_IDLE`].
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(100);
/// While others wait for a place, a connection is closed if it sent nothing at all in this time, wherever its client is: the first
/// bytes arrive with the end of the handshake, ...
pub const EVICT_SILENT: Duration = Duration::from_millis(100);
/// ... or if it was idle this long, ...
pub const EVICT_IDLE: Duration = Duration::from_secs(1);
/// ... or if its client sent nothing of a body for this long: three packets lost in a row take 1.4 s, ...
pub const EVICT_BODY: Duration = Duration::from_secs(2);
/// ... or if it never sent a request in this time. If none is idle, the connection that has been open this long is closed after a response.
pub const EVICT_AGE: Duration = Duration::from_millis(250);
/// How long to wait for the end of an idle connection, ...
pub const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);
/// ... and of one that never sent a request.
pub const CLOSE_TIMEOUT_UNASKED: Duration = Duration::from_millis(30);
/// Time between two checks of an incomplete HTTP/2 preface.
pub const PREFACE_PAUSE: Duration = Duration::from_millis(5);
/// Time between two checks for a free place.
pub const EVICT_PAUSE: Duration = Duration::from_millis(20);
/// Time between two log lines about connections that can't be accepted.
pub const WARNING_PERIOD: Duration = Duration::from_secs(5);
/// Silence allowed inside a body.
pub const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// The slowest accepted body, bytes a second, after [`BODY_IDLE_TIMEOUT`] of grace.
pub const BODY_RATE_MIN: u64 = 32 * KIB;
/// Silence allowed of a client that is being answered.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer timeouts count as this, a century: later moments can't be represented.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);
/// A read without `timeout` is aborted after this.
pub const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Time that running requests get when the server stops.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// At most one real query in this time has its recall measured: two searches and 256 reads.
pub const MONITOR_PERIOD: Duration = Duration::from_secs(10);
/// How often expired points are deleted...
pub const EXPIRY_PERIOD: Duration = Duration::from_secs(1);
/// ... and one in how many times also without an index on the field: all payloads are read.
pub const EXPIRY_UNINDEXED_TURNS: u32 = 60;
/// How long a request waits for memory that others hold before it is refused: bodies come and go within a second...
pub const MEMORY_WAIT: Duration = Duration::from_secs(2);
/// ... with pauses between checks that double from the first to the last of these.
pub const MEMORY_PAUSES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(2)..=Duration::from_millis(32);
/// A request that holds at most this may wait for the memory of its response.
pub const WAIT_BYTES: u64 = 64 * KIB;
/// Seconds in `Retry-After`.
pub const RETRY_AFTER_SECONDS: u32 = 1;

/// Largest body with vectors (the API's default limit).
pub const VECTOR_BODY_BYTES: u64 = 32 * MIB;
/// Bytes of a refused body that are read and discarded.
pub const DRAINED_BYTES: u64 = 2 * VECTOR_BODY_BYTES;
/// How long a refused body's rest may be silent before its response is sent.
pub const DRAINED_IDLE: Duration = Duration::from_millis(500);
/// Largest body of a query, filter or list of ids.
pub const QUERY_BODY_BYTES: u64 = 8 * MIB;
/// Largest body of settings; they are kept as a JSON tree, which may take a hundred times the text.
pub const CONFIG_BODY_BYTES: u64 = 64 * KIB;
/// Chunked bodies reserve in steps of this.
pub const BODY_STEP_BYTES: u64 = 64 * KIB;
/// Larger bodies are parsed on the blocking pool, so that health checks stay quick.
pub const PARSE_INLINE_BYTES: usize = 64 * KIB as usize;

/// Responses reserve in steps of this while they are written.
pub const RESPONSE_STEP_BYTES: u64 = 64 * KIB;
/// Largest response.
pub const RESPONSE_BYTES: u64 = 64 * MIB;
/// The shortest response that is compressed for a client that accepts gzip. Compression costs 10 to 20 us a KiB, clients on the same
/// machine ask for it too, and the hits of a usual search have 600 bytes.
pub const PACK_BYTES_MIN: usize = 16 * KIB as usize;
/// The longest response that is compressed before its first byte is sent, so that its length is known.
pub const PACK_BYTES_WHOLE: usize = 256 * KIB as usize;
/// Bytes of an engine's record without payload and vectors.
pub const RECORD_BYTES: u64 = 160;
/// Points of a long page whose ids are in memory at once, ...
pub const PAGE_IDS: usize = 8_192;
/// ... and the bytes of one.
pub const ID_BYTES: u64 = 32;
/// Bytes reserved for a point with payload or vectors before it is read: they are reserved before a search begins.
pub const WRITTEN_BYTES: u64 = KIB;
/// Points whose payloads and vectors are in memory at once, at most, ...
pub const FETCH_RECORDS: usize = 64;
/// ... at first, while their size is unknown, ...
pub const FETCH_FIRST: usize = 4;
/// ... growing at most by this factor from one batch to the next, ...
pub const FETCH_GROWTH: usize = 4;
/// ... and about the bytes that a batch may have. Points are fetched, written and dropped in such batches.
pub const BATCH_BYTES: u64 = 64 * KIB;
/// About the bytes of a portion of a streamed response, ...
pub const FETCH_BYTES: u64 = 512 * KIB;
/// ... and in the smallest budget.
pub const FETCH_BYTES_MIN: u64 = 64 * KIB;
/// Bytes of a list of points, beside its points, that waits behind another one of its response.
pub const LIST_PART_BYTES: u64 = 320;
/// Maximum length of the beginning of a response; a longer one has points.
pub const OPENING_BYTES: usize = 4 * KIB as usize;
/// Records without payload and vectors in one portion of a response.
pub const LIST_RECORDS: usize = 1024;
/// Time between two tries of a streamed response to get memory or a search slot for its next portion.
pub const STREAM_PAUSE: Duration = Duration::from_millis(10);

/// Portion size of snapshots that are sent and received.
pub const TRANSFER_BYTES: usize = 256 * KIB as usize;
/// Snapshots received at once.
pub const UPLOADS: usize = 2;
/// Bytes of a thread that takes or restores a snapshot: its used stack and its share of the kernel's memory.
pub const JOB_THREAD_BYTES: u64 = 192 * KIB;

/// Connection threads, if no more of them have a search slot.
pub const ASYNC_THREADS: usize = 2;
/// How often each compares its load with the others', ...
pub const MOVE_PERIOD: Duration = Duration::from_millis(200);
/// ... and the share of that time by which a move must make two threads more even.
pub const MOVE_GAIN: f64 = 0.1;
/// Largest `limit` + `offset` of a search on its connection's thread.
pub const INLINE_HITS: usize = 128;
/// Most lists of hits that are fused there.
pub const INLINE_LEAVES: usize = 4;
/// Largest `hnsw_ef` of one.
pub const INLINE_EF: usize = 1024;
/// After a search that took longer there, the next searches go to the search threads, ...
pub const INLINE_TIME: Duration = Duration::from_millis(3);
/// ... and after one that waited for the disk and took longer than this, ...
pub const INLINE_WAITED: Duration = Duration::from_micros(500);
/// ... this many.
pub const INLINE_SKIPS: std::ops::RangeInclusive<u32> = 16..=4096;
/// If the last search took no longer, so many may wait there: waking another thread and being woken costs as much.
pub const INLINE_QUICK: Duration = Duration::from_micros(50);
pub const INLINE_WAITING: usize = 4;
/// Threads for blocking calls: parsing of large bodies, collection changes, index builds.
pub const BLOCKING_THREADS: usize = 4;
/// Of those, how many may change collections, ...
pub const MANAGE_CALLS: usize = 2;
/// ... and how many may build a payload index (the engine runs one job at a time): parsing always finds a thread.
pub const BUILD_CALLS: usize = 1;
const _: () = assert!(MANAGE_CALLS + BUILD_CALLS < BLOCKING_THREADS);
/// Stack of each thread of the server...
pub const THREAD_STACK_BYTES: usize = 512 * KIB as usize;
/// ... and of a search thread: as large as the engine's own.
pub const SEARCH_STACK_BYTES: usize = MIB as usize;

/// Half of the audit log's queue: one half fills while the other is written. A line has about 250 bytes, and on two busy cores
/// the writing thread may wait for a twentieth of a second.
pub fn audit_queue_bytes(elastic: u64) -> u64 {
    (elastic / 16).clamp(32 * KIB, 2 * MIB)
}
/// Bytes of a client's text in an audit log line: a subject, an address, a request id.
pub const AUDIT_TEXT_CHARS: usize = 256;

/// Request counts by collection: about 680 rows, of one endpoint and status each.
pub const COUNTS_BYTES: u64 = 256 * KIB;

/// Bytes beside the response while metrics are written: for a row of the counts, and for a collection.
pub const METRICS_BYTES: (u64, u64) = (256, 2 * KIB);
/// The same for telemetry, which is first built as a tree.
pub const TELEMETRY_BYTES: (u64, u64) = (3 * KIB, 8 * KIB);

/// Elements of a dense vector.
pub const VECTOR_SIZE_MAX: usize = 65_536;
/// Bytes of a collection's or alias's name.
pub const NAME_BYTES: usize = 255;
/// Bytes of a vector's name.
pub const VECTOR_NAME_BYTES: usize = 200;
/// Searches of one batch request.
pub const SEARCHES_MAX: usize = 4_096;
/// Operations of one points/batch request.
pub const OPERATIONS_MAX: usize = 4_096;
/// Operations of one request that are queued together, and their bytes where it is more than one: others' updates find room beside them.
pub const OPERATIONS_QUEUED: usize = 512;
pub const OPERATIONS_QUEUED_BYTES: u64 = 256 * KIB;
/// Alias changes of one request.
pub const ALIAS_ACTIONS_MAX: usize = 1_024;
/// Largest `limit` + `offset` that the engine accepts; larger ones are reduced to the collection's size.
pub const LIMIT_MAX: usize = 1 << 20;
/// Candidates of a query with maximal marginal relevance (the API's bound).
pub const MMR_CANDIDATES_MAX: usize = 16_384;

/// The most bytes of a change of collections in a shared log.
pub const CHANGE_BYTES: u64 = 4 << 20;

/// How long a writer tries to make a change that is in the shared log, and how often.
pub const CHANGE_WAIT: Duration = Duration::from_secs(20);
pub const CHANGE_PAUSE: Duration = Duration::from_millis(200);

/// Writes that are sent to another node at once, ...
pub const FORWARDS: usize = 8;
/// Threads that send writes on: those of this owner, and of the one before, which may be stopped.
pub const FORWARD_THREADS: usize = 2 * FORWARDS;
/// What a connection to another node holds: buffers, and TLS.
pub const FORWARD_CONNECTION_BYTES: u64 = 96 * KIB;
/// ... and that wait for a thread which sends them.
pub const FORWARDS_WAITING: usize = 64;
/// The most bytes of the answer to one.
pub const FORWARDED_ANSWER_BYTES: u64 = 256 * KIB;
/// So many bytes of JSON for each of a message: a float of four bytes has up to eleven digits, a sign, a point and a comma.
pub const JSON_OF_MESSAGE: u64 = 5;
/// How much longer than the write's own timeout its answer is waited for.
pub const FORWARD_GRACE: Duration = Duration::from_secs(2);
/// How often who waits for it looks whether another node writes now.
pub const OWNER_POLL: Duration = Duration::from_millis(200);

/// Threads that send reads to another shard, and those that send writes.
pub const SHARD_LANE_THREADS: [usize; 2] = [4, 2];
/// Requests to a shard that wait for one of them, of each kind.
pub const SHARD_REQUESTS_WAITING: usize = 256;
/// What the connections to the nodes of another shard hold.
pub const SHARD_CONNECTIONS_BYTES: u64 =
    (SHARD_LANE_THREADS[0] + SHARD_LANE_THREADS[1]) as u64 * FORWARD_CONNECTION_BYTES;
/// How long a node that didn't answer is asked after all others.
pub const SHARD_AVOIDED: Duration = Duration::from_secs(15);
/// How long a request waits for a node of a shard that has none.
pub const SHARD_NODE_WAIT: Duration = Duration::from_secs(2);
/// How long a read waits for a node while there is another one that could be asked.
pub const SHARD_READ_WAIT: Duration = Duration::from_secs(5);
/// Bytes of a parsed JSON tree for each byte of its text, at most about.
pub const TREE_OF_JSON: u64 = 12;
/// What is held for a point of an answer that another shard gave: its parsed form beside its text.
pub const GATHERED_OF_TEXT: u64 = 2;
/// Searches of a batch that are under way at once, where collections are divided.
pub const SHARD_SEARCHES: usize = 4;
/// A shard tells how it did its part of a request for the log of slow ones, where that took such a part of what is slow.
pub const SLOW_PARTS: u32 = 4;
/// Candidates of a query with maximal marginal relevance, where collections are divided: each is searched with among all.
pub const SHARD_MMR_CANDIDATES: usize = 256;
