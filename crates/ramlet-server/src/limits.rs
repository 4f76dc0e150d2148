//! Every bound of the server, in one place.
//!
//! A limit that is about bytes of RAM is also an account of the ledger: see [`crate::admission`].

use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Payloads read for one search by a field without an index, from which on `/issues` tells of the field: about a millisecond's worth.
pub const UNINDEXED_PAYLOADS_MIN: u64 = 1_000;
/// Fields that are told of.
pub const UNINDEXED_FIELDS: usize = 64;

/// Collections whose damaged files are told of, and what is kept of a sentence about one.
pub const DAMAGED_COLLECTIONS: usize = 32;
pub const DAMAGE_SAID_BYTES: usize = 512;

/// Bytes for names of what is wrong: of issues, of fields without an index, and of damaged files.
pub const ISSUES_BYTES: u64 = 128 * KIB;
/// Bytes of the metadata that explains a call: clients take 8 KiB of all metadata when nothing else is said.
pub const EXPLAIN_METADATA_BYTES: usize = 6 << 10;
/// A request that takes so long is slow when nothing else is said.
pub const SLOW_DEFAULT: Duration = Duration::from_secs(1);
/// Slow requests that are kept, ...
pub const SLOW_ENTRIES: usize = 64;
/// ... what is shown of a body and of how the search was done, bytes, ...
pub const SLOW_BODY_BYTES: usize = 2 << 10;

/// Messages of gRPC up to this are shown with a slow request, and what one takes as text meanwhile.
pub const SLOW_MESSAGE_BYTES: usize = 16 << 10;
pub const SLOW_MESSAGE_TEXT_BYTES: u64 = 128 << 10;
pub const SLOW_EXPLAIN_BYTES: usize = 4 << 10;
/// ... and the most that all take: of the budget, one in so many bytes.
pub const SLOW_BYTES: u64 = 256 * KIB;
pub const SLOW_SHARE: u64 = 256;
/// Between two lines in the log about refusals of one kind, or slow requests.
pub const LOG_PERIOD: Duration = Duration::from_secs(1);
/// Between two looks at what may be wrong.
pub const ISSUES_PERIOD: Duration = Duration::from_secs(10);
/// What a plan said holds so long; the machine may be measured meanwhile.
pub const PLAN_KEPT: Duration = Duration::from_secs(60);
/// Searches of which one is timed when nobody asks.
pub const SEARCHES_PER_TIMED: u64 = 32;
/// Batches of reads from which on their mean says something, and so many of the last ones that it is made of.
pub const READS_JUDGED: f64 = 64.0;
pub const READS_JUDGED_MAX: f64 = 1_024.0;
/// A disk is slow that takes so many times as long as it did when it was measured; less than this is never slow.
pub const SLOW_TIMES: u64 = 4;
pub const READ_US_MIN: u64 = 500;
/// Syncs of the log from which on their mean says something, and what is slow, microseconds: ten times what a usual SSD takes.
pub const SYNCS_JUDGED: u64 = 16;
pub const SYNC_SLOW_US: u64 = 50_000;
/// Points of a collection from which on it is reckoned what more memory would bring.
pub const PLANNED_POINTS_MIN: u64 = 20_000;
/// Length of what `/logger` is told to log.
pub const LOG_LEVEL_BYTES: usize = 4_096;
/// Bytes an idle HTTP/1 connection holds: task, read and write buffers, kernel socket (measured: 14 KiB).
pub const CONNECTION_BYTES: u64 = 14 * KIB;
/// What is encrypted and not yet sent, of a connection.
pub const TLS_SEND_BYTES: usize = 16 << 10;
/// Bytes that a connection holds more when it is encrypted: keys, a record that came (16 KiB at most), and what isn't sent.
const TLS_BYTES: u64 = 48 * KIB;

/// Bytes of an HTTP/1 connection.
pub const fn connection_bytes(encrypted: bool) -> u64 {
    CONNECTION_BYTES + tls_bytes(encrypted)
}

/// What encryption takes of a connection's memory.
pub const fn tls_bytes(encrypted: bool) -> u64 {
    if encrypted { TLS_BYTES } else { 0 }
}

/// Connections open at once when nothing else is said: 3.5 MiB of the budget.
pub const CONNECTIONS_DEFAULT: usize = 256;
/// ... and in the smallest budget.
pub const CONNECTIONS_MIN: usize = 16;
/// Connections the kernel may hold before we accept them.
pub const BACKLOG: u32 = 256;
/// Socket buffers are charged to the memory cgroup too (version 2; version 1 counts them apart); the kernel would grow
/// them to megabytes each, and doubles what it is told. All connections together get half of the kernel's row, within these.
pub const SOCKET_BUFFER_BYTES: std::ops::RangeInclusive<u64> = 32 * KIB..=256 * KIB;
/// Largest TCP segment. A receiver confirms every second segment at once, and a single one after 40 ms. Those of the loopback
/// have 64 KiB: a socket buffer holds one, and each 64 KiB of an answer waited for its confirmation. The smallest buffer
/// holds four of these.
pub const SEGMENT_BYTES: u16 = 8 << 10;
/// Read buffer of a connection, and with it the largest head of a request.
pub const HEAD_BYTES: usize = 16 * KIB as usize;
pub const HEADERS_MAX: usize = 64;

/// Bytes an HTTP/2 connection holds beside what it was sent and its calls: task, buffers, tables of headers, kernel socket.
pub const CONNECTION_BYTES_HTTP2: u64 = 40 * KIB;
/// What a client may send on one connection before it is read; the protocol begins with 64 KiB less one.
pub const WINDOW_BYTES: std::ops::RangeInclusive<u64> = 64 * KIB - 1..=512 * KIB;
/// Connections of HTTP/2 in the smallest budget.
pub const CONNECTIONS_HTTP2_MIN: usize = 4;
/// Calls at once on one connection: what its client sent of them before they are looked at has no account yet. Clients begin
/// with 100 before they are told (RFC 9113, 6.5.2), so fewer are for budgets in which so many have no room anyway.
pub const STREAMS: std::ops::RangeInclusive<u64> = 32..=128;
/// Bytes of the elastic memory for each of them.
pub const STREAM_SHARE: u64 = 64 * KIB;
/// Largest head of a call, as HTTP/2 counts it: a 256th of the elastic memory within these.
pub const HEAD_BYTES_HTTP2: std::ops::RangeInclusive<u64> = 8 * KIB..=HEAD_BYTES as u64;
/// Largest frame.
pub const FRAME_BYTES: u32 = 16 * KIB as u32;
/// Bytes of a call's answer on their way into the socket.
pub const SEND_BUFFER_BYTES: usize = 64 * KIB as usize;
/// Calls that a client gave up before they were looked at: more are an attack, and end the connection.
pub const RESETS_PENDING: usize = 20;
/// Faulty calls that we gave up, before the connection ends.
pub const RESETS_LOCAL: usize = 128;
/// A silent connection is asked whether it lives, ...
pub const PING_PERIOD: Duration = Duration::from_secs(60);
/// ... and ends when it doesn't say so.
pub const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a call beside its message: tasks, and a usual head, ...
pub const CALL_BYTES: u64 = 6 * KIB;
/// ... which has this, ...
pub const CALL_HEAD_BYTES: u64 = 3 * KIB;
/// ... a field of it that beside its texts: a table that doubles, of entries of 104 bytes.
pub const HEADER_BYTES: u64 = 208;
/// Calls that wait for these bytes: a 32nd of the elastic memory, within these. Others are refused at once.
pub const CALLS_WAITING: std::ops::RangeInclusive<u64> = 32..=512;
/// Bytes of a message on its way into the engine's form.
pub const NODE_BYTES: u64 = 128;
/// Objects and lists inside of each other in a payload.
pub const PAYLOAD_DEPTH_MAX: usize = 100;

/// From the beginning of a connection to the first bytes.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// From the end of an answer to the end of the next request's head. Longer than the clients' pools and proxies keep a
/// connection that isn't used (5 s to 90 s), so that it is they who close it: a request that is sent into a connection that
/// is just being closed fails. Where others wait for a place it ends sooner, see [`EVICT_IDLE`].
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(100);
/// While others wait for a place, a connection ends that said nothing at all in this time, wherever its client is: the first
/// bytes come with the end of the handshake, ...
pub const EVICT_SILENT: Duration = Duration::from_millis(100);
/// ... or that was idle so long, ...
pub const EVICT_IDLE: Duration = Duration::from_secs(1);
/// ... or whose client sent nothing of a body for so long: three packets lost in a row take 1.4 s, ...
pub const EVICT_BODY: Duration = Duration::from_secs(2);
/// ... or that never asked for anything in this time; or when none is idle, one that has been there so long, after an answer.
pub const EVICT_AGE: Duration = Duration::from_millis(250);
/// An idle connection that is to end is waited for so long, ...
pub const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);
/// ... and one that never asked for anything.
pub const CLOSE_TIMEOUT_UNASKED: Duration = Duration::from_millis(30);
/// What begins like HTTP/2 and isn't whole yet is looked at again after this.
pub const PREFACE_PAUSE: Duration = Duration::from_millis(5);
/// Whoever waits outside looks again after this.
pub const EVICT_PAUSE: Duration = Duration::from_millis(20);
/// Between two lines in the log about connections that can't be accepted.
pub const WARNING_PERIOD: Duration = Duration::from_secs(5);
/// Silence inside a body.
pub const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// The slowest body that is waited for, bytes a second, after [`BODY_IDLE_TIMEOUT`] of grace.
pub const BODY_RATE_MIN: u64 = 32 * KIB;
/// Silence of a client that is being answered.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer timeouts mean this, a century: a moment further away can't be told.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);
/// A read without `timeout` is given up after this.
pub const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Connections in the middle of a request get this long when the server stops.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// At most one real query in this time has its recall measured: two searches and 256 reads.
pub const MONITOR_PERIOD: Duration = Duration::from_secs(10);
/// So often points are deleted whose time is over...
pub const EXPIRY_PERIOD: Duration = Duration::from_secs(1);
/// ... and each so many times also where the field has no index: all payloads are read.
pub const EXPIRY_UNINDEXED_TURNS: u32 = 60;
/// A request whose memory others hold waits so long for it, before it is refused: bodies come and go within a second...
pub const MEMORY_WAIT: Duration = Duration::from_secs(2);
/// ... looking again and again after pauses that double from the first to the last of these.
pub const MEMORY_PAUSES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(2)..=Duration::from_millis(32);
/// A request that holds no more than this may wait for the memory of its answer.
pub const WAIT_BYTES: u64 = 64 * KIB;
/// Seconds that a refused client is asked to wait.
pub const RETRY_AFTER_SECONDS: u32 = 1;

/// Largest body with vectors (the API's default limit).
pub const VECTOR_BODY_BYTES: u64 = 32 * MIB;
/// What is read and forgotten of a body that was refused.
pub const DRAINED_BYTES: u64 = 2 * VECTOR_BODY_BYTES;
/// How long the rest of a refused body may keep its answer waiting without a byte of it.
pub const DRAINED_IDLE: Duration = Duration::from_millis(500);
/// Largest body of a query, filter or list of ids.
pub const QUERY_BODY_BYTES: u64 = 8 * MIB;
/// Largest body of settings; they are kept as a JSON tree, which may take a hundred times the text.
pub const CONFIG_BODY_BYTES: u64 = 64 * KIB;
/// Chunked bodies reserve in steps of this.
pub const BODY_STEP_BYTES: u64 = 64 * KIB;
/// Bodies above this are parsed on the blocking pool, so that health checks stay quick.
pub const PARSE_INLINE_BYTES: usize = 64 * KIB as usize;

/// Answers reserve in steps of this while they are written.
pub const RESPONSE_STEP_BYTES: u64 = 64 * KIB;
/// Largest answer.
pub const RESPONSE_BYTES: u64 = 64 * MIB;
/// The shortest answer that is packed for a client that takes gzip: packing costs 10 to 20 µs a KiB, clients on the same
/// machine ask for it too, and the hits of a usual search have 600 bytes.
pub const PACK_BYTES_MIN: usize = 16 * KIB as usize;
/// The longest that is packed before its first byte is sent, so that its length can be told.
pub const PACK_BYTES_WHOLE: usize = 256 * KIB as usize;
/// A record of the engine without payload and vectors.
pub const RECORD_BYTES: u64 = 160;
/// What a point with payload or vectors is taken for in an answer before it is read: so much is held before a search begins.
pub const WRITTEN_BYTES: u64 = KIB;
/// Points whose payloads and vectors are in memory at once, at most, ...
pub const FETCH_RECORDS: usize = 64;
/// ... at first, while it isn't known how large they are, ...
pub const FETCH_FIRST: usize = 4;
/// ... at most so many times as many as those before, ...
pub const FETCH_GROWTH: usize = 4;
/// ... and about the bytes that they may have together. They are fetched, written and dropped in such batches.
pub const BATCH_BYTES: u64 = 64 * KIB;
/// About the bytes of a portion of a streamed answer, ...
pub const FETCH_BYTES: u64 = 512 * KIB;
/// ... and in the smallest budget.
pub const FETCH_BYTES_MIN: u64 = 64 * KIB;
/// What a list of points takes that waits behind another one of its answer, beside its points.
pub const LIST_PART_BYTES: u64 = 320;
/// What opens an answer is no longer; beyond, it has points.
pub const OPENING_BYTES: usize = 4 * KIB as usize;
/// Records without payload and vectors in one portion of an answer.
pub const LIST_RECORDS: usize = 1024;
/// Between two tries of a streamed answer to get memory or a search slot for its next portion.
pub const STREAM_PAUSE: Duration = Duration::from_millis(10);

/// Snapshots are sent and received in portions of this.
pub const TRANSFER_BYTES: usize = 256 * KIB as usize;
/// Snapshots received at once.
pub const UPLOADS: usize = 2;
/// What a thread that takes or restores a snapshot costs: its stack in use and its share of the kernel.
pub const JOB_THREAD_BYTES: u64 = 192 * KIB;

/// Threads that hold connections, where no more of them have a search slot.
pub const ASYNC_THREADS: usize = 2;
/// Each looks so often whether another has less to do, ...
pub const MOVE_PERIOD: Duration = Duration::from_millis(200);
/// ... and gives connections away that make the two more even by this share of that time.
pub const MOVE_GAIN: f64 = 0.1;
/// Largest `limit` + `offset` of a search on the thread that holds its connection.
pub const INLINE_HITS: usize = 128;
/// Most lists of hits that are fused there.
pub const INLINE_LEAVES: usize = 4;
/// Largest `hnsw_ef` of one.
pub const INLINE_EF: usize = 1024;
/// A search that took longer there sends the next ones to the search threads, ...
pub const INLINE_TIME: Duration = Duration::from_millis(3);
/// ... so many.
pub const INLINE_SKIPS: std::ops::RangeInclusive<u32> = 16..=4096;
/// A search that took no longer lets so many wait there: to wake another thread and be woken by it costs as much.
pub const INLINE_QUICK: Duration = Duration::from_micros(50);
pub const INLINE_WAITING: usize = 4;
/// Threads for calls that block: parsing of large bodies, collection changes, index builds.
pub const BLOCKING_THREADS: usize = 4;
/// Of those, how many may change collections, ...
pub const MANAGE_CALLS: usize = 2;
/// ... and how many may build a payload index (the engine does one job at a time): parsing always finds a thread.
pub const BUILD_CALLS: usize = 1;
const _: () = assert!(MANAGE_CALLS + BUILD_CALLS < BLOCKING_THREADS);
/// Stack of each thread of the server...
pub const THREAD_STACK_BYTES: usize = 512 * KIB as usize;
/// ... and of one that searches: what the engine gives its own.
pub const SEARCH_STACK_BYTES: usize = MIB as usize;

/// Half of the audit log's queue: lines wait in one while the other is written. About 250 bytes are a line, and on two busy cores
/// the thread that writes may wait for a twentieth of a second.
pub fn audit_queue_bytes(elastic: u64) -> u64 {
    (elastic / 16).clamp(32 * KIB, 2 * MIB)
}
/// What a line of the audit log holds of a client's text: a subject, an address, an id of a request.
pub const AUDIT_TEXT_CHARS: usize = 256;

/// Counts of requests by collection: about 680 rows, of one endpoint and status each.
pub const COUNTS_BYTES: u64 = 256 * KIB;

/// Bytes beside the answer while the metrics are written: for a row of the counts, and for a collection.
pub const METRICS_BYTES: (u64, u64) = (256, 2 * KIB);
/// The same of the telemetry, which is a tree first.
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
/// Alias changes of one request.
pub const ALIAS_ACTIONS_MAX: usize = 1_024;
/// Largest `limit` + `offset` that the engine takes; larger ones are cut to what the collection has.
pub const LIMIT_MAX: usize = 1 << 20;
/// Candidates of a query with maximal marginal relevance (the API's bound).
pub const MMR_CANDIDATES_MAX: usize = 16_384;
