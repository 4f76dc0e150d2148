//! All limits of the engine.

/// Longest log group: one write and one fdatasync. Also the largest encoded point.
pub const GROUP_BYTES_MAX: usize = 4 << 20;
/// Group size from which on no more changes are added: the log buffers, within these.
pub const GROUP_BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=1 << 20;
/// Largest payload of one point, JSON text.
pub const PAYLOAD_BYTES_MAX: usize = 2 << 20;
/// Largest dimension of a vector.
pub const DIM_MAX: usize = 65_536;
/// Stop words of one tokenizer, beside those of languages.
pub const STOPWORDS_MAX: usize = 4_096;
/// Parameters of one text index, JSON text.
pub const TEXT_PARAMS_BYTES_MAX: usize = 64 << 10;
/// Tokens of the text of one condition.
pub const TEXT_TOKENS_MAX: usize = 4_096;
/// Words allowed between those of a phrase: fewer than the positions between two values.
pub const PHRASE_SLOP_MAX: u32 = 99;
/// Distinct tokens of one payload in a text index, and their bytes. At least half of these are kept; every text condition
/// reads a payload with more.
pub const TEXT_KEYS_MAX: usize = 32_768;
pub const TEXT_KEY_BYTES_MAX: usize = 512 << 10;
/// Weights of one sparse vector.
pub const SPARSE_ENTRIES_MAX: usize = 65_536;
/// Numbers of one multivector, all parts together.
pub const MULTI_NUMBERS_MAX: usize = 1 << 20;
/// Named vectors of one collection: a row's presence is one 64-bit mask.
pub const VECTORS_MAX: usize = 64;
/// Payload indexes of one collection.
pub const FIELD_INDEXES_MAX: usize = 256;
/// Bytes of an empty collection: 12 KB of heap, 5 KB of kernel memory for its directory and log, its memtables' arenas.
pub const COLLECTION_BYTES: u64 = 20 << 10;
/// Length of a string shard key.
pub const SHARD_KEY_BYTES_MAX: usize = 1_024;
/// Bytes of an open segment file beside its index: about 1 KB of heap, and a part of the kernel's 1.5 KB (inode 1.1, name 0.2,
/// open file 0.25); the kernel reserve has the rest.
pub const SEGMENT_FILE_BYTES: u64 = 2 << 10;
/// Open files of one segment take at most this part of the metadata account. Half of that is for optional files. A
/// segment, the next one, and their merge have room in the other half.
pub const FILES_SHARE: u64 = 8;
/// Reads in flight of the writer and of a job.
pub const BACKGROUND_READS: usize = 32;
/// Updates in one collection's queue.
pub const QUEUE_OPS_MAX: usize = 4_096;
/// Searches waiting for a slot.
pub const SEARCH_QUEUE_MAX: usize = 1_024;
/// Least and greatest length of a log file; a larger group gets a file of its own size.
pub const LOG_FILE_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=8 << 20;
/// Length of a collection's first log file, and the growth of the file after a full one: 10,000 collections take 160 MB of disk, not 40 GB.
pub const LOG_FILE_FIRST_BYTES: u64 = 16 << 10;
pub const LOG_FILE_GROWTH: u64 = 4;
/// Bytes of a collection that is only listed: its entry in the catalog, a second one while a change is committed, and its
/// entry in the table of names. Each name adds `LISTED_NAME_TIMES` its length.
pub const LISTED_BYTES: u64 = 352;
pub const LISTED_NAME_TIMES: u64 = 3;
/// Collections that a start opens; the others are opened on demand, or one by one when nothing else is due.
pub const OPENED_AT_START: usize = 256;
/// Log bytes up to which a collection is unloaded without a flush: they are replayed in some milliseconds.
pub const UNLOAD_LOG_BYTES: u64 = 256 << 10;
/// Collections opened at the same time.
pub const LOADS_AT_ONCE: usize = 2;
/// Collections visited in one idle round, and during writes.
pub const VISITS_IDLE: usize = 32;
pub const VISITS_BUSY: usize = 4;
/// Collections with expired points that one round of expiry opens.
pub const EXPIRY_LOADS: usize = 32;
/// Interval of checking an unloaded collection for expired points if no index lists them all.
pub const EXPIRY_UNLISTED_MICROS: i64 = 600_000_000;
/// Log bytes of one collection after which its buffer is flushed even when it isn't full.
pub const LOG_BYTES_MAX: u64 = 64 << 20;
/// Chunk of a memtable's arena.
pub const MEMTABLE_CHUNK_BYTES: usize = 64 << 10;
/// Chunks of one memtable at most.
pub const MEMTABLE_CHUNKS_MAX: usize = 256;
/// Bytes of a memtable row beside its data: id map entry and row directory.
pub const MEMTABLE_ROW_OVERHEAD: u64 = 96;
/// While nobody writes, a memtable is flushed for an index if it has at least one in this many of the stored rows.
pub const FLUSH_SHARE: u64 = 64;
/// Segments of about the same size that are merged into one.
pub const MERGE_FANIN: usize = 4;
/// When idle, segments join the largest if they have at least this share of its rows.
pub const IDLE_MERGE_SHARE: f64 = 0.1;
/// The amortised cost of compaction: rows compared in the time of rewriting one with its index (0.2 us from disk, 50 us).
/// A small segment is merged once searches have spent on it what the merge costs. So the total is at most
/// twice the optimum.
pub const MERGE_COST: u64 = 256;
/// The same if the merged rows get a graph.
pub const MERGE_COST_OF_GRAPH: u64 = 8 * MERGE_COST;
/// Rows from which on a segment beside a larger one may get its own index before `indexing_threshold`: an index of fewer rows
/// saves little. If they aren't in RAM, each search reads all of them.
pub const EARLY_INDEX_ROWS: u64 = 128;
/// The same for memtable rows, with the small segments that they are merged with: in RAM so many are compared in 50 us.
pub const EARLY_INDEX_MEMTABLE_ROWS: u64 = 1_000;
/// Share of deleted rows above which a segment is rewritten alone.
pub const REWRITE_DELETED_SHARE: f64 = 0.2;
/// Segments with fewer rows aren't rewritten only for their deletes.
pub const REWRITE_ROWS_MIN: u32 = 1_000;
/// Least memory of a job.
pub const JOB_SCRATCH_MIN: u64 = 1280 << 10;
/// Memory of a job that reads files into RAM: its buffer of 256 KiB, and lists.
pub const FILL_SCRATCH: u64 = 320 << 10;
/// A job's memory beside twice its rows, if nobody else needs it, ...
pub const JOB_SCRATCH_BASE: u64 = 4 << 20;
/// ... the least of a job that writes a segment, beside the rows, ...
pub const JOB_SCRATCH_LEAST: u64 = 1 << 20;
/// ... and for each dimension of the longest vectors: an index needs at least 352 bytes of seven sixteenths.
pub const JOB_SCRATCH_PER_DIM: u64 = 1 << 10;
/// Pending bytes of a segment file before an append.
pub const SINK_BYTES: usize = 64 << 10;
/// Sorted runs merged at once.
pub const SORT_RUNS_MAX: usize = 64;
/// kB of vectors in a segment from which it gets an approximate index (`indexing_threshold` unset).
pub const INDEXING_THRESHOLD_KB: usize = 10_000;
/// Segments from which on some are merged where another node builds the indexes: until its come, more would take files and time.
pub const SEGMENTS_WAITING_MAX: usize = 64;
/// Free disk below which upserts answer 507; deletes still work.
pub const DISK_FREE_MIN: u64 = 64 << 20;
/// Free disk left by a merge that frees more than it writes: manifests and deletes must still be written.
pub const MERGE_FREE_MIN: u64 = 4 << 20;
/// Bytes of changes between two checks of free disk.
pub const DISK_RECHECK_BYTES: usize = 8 << 20;
/// Most hits of one search (limit + offset) and most points of one page.
pub const LIMIT_MAX: usize = 1 << 20;

/// Points of a distance matrix: 16.8 million comparisons.
pub const MATRIX_SAMPLE_MAX: usize = 4_096;
/// Copy buffer of a snapshot.
pub const COPY_BYTES: usize = 256 << 10;
/// Bytes of a snapshot or an upload beside that: the file's own buffer, handles.
pub const SNAPSHOT_BYTES: u64 = 256 << 10;
/// Bytes of a snapshot between two syncs and checks of free disk.
pub const SNAPSHOT_SYNC_BYTES: u64 = 32 << 20;
/// RAM for a manifest or catalog of a snapshot while it is read, per byte of its text.
pub const SNAPSHOT_LIST_FACTOR: u64 = 10;
/// Longest name of a snapshot's file.
pub const SNAPSHOT_NAME_BYTES: usize = 200;
/// Nesting of prefetches, without the query above them.
pub const PREFETCH_DEPTH_MAX: usize = 64;
/// Prefetches of one query in all: each result list is held until it is merged.
pub const PREFETCHES_MAX: usize = 1_024;
/// Texts whose words a highlight marks beside those of queries: over shards, those of prefetches are among them.
pub const HIGHLIGHT_TEXTS_MAX: usize = 2 * PREFETCHES_MAX;
/// Nesting and number of expressions of one formula.
pub const FORMULA_DEPTH_MAX: usize = 64;
pub const FORMULA_NODES_MAX: usize = 4_096;
/// Examples of one query: of recommend, context pairs, feedback.
pub const EXAMPLES_MAX: usize = 1_024;
/// Multiplications of an MMR query: points chosen, times candidates, times dimensions. Some seconds.
pub const MMR_WORK_MAX: u64 = 1 << 34;
/// Points examined to find groups, and again to fill them.
pub const GROUP_POINTS_MAX: usize = 1 << 16;
