//! All limits of the engine.

/// Longest group of the log: one write and one fdatasync. Also the largest point, encoded.
pub const GROUP_BYTES_MAX: usize = 4 << 20;
/// Group above which no more changes are added to it: half of the log buffers, within these.
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
/// Words that may stand between those of a phrase: fewer than there are places between two values.
pub const PHRASE_SLOP_MAX: u32 = 99;
/// Distinct tokens of one payload in a text index, and their bytes: half of these at least are kept, and a payload with more
/// is looked at by every text condition.
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
/// What a collection costs, empty: 12 KB of heap, 5 KB of kernel memory for its directory and log, its memtables' arenas.
pub const COLLECTION_BYTES: u64 = 20 << 10;
/// Length of a shard key that is a word.
pub const SHARD_KEY_BYTES_MAX: usize = 1_024;
/// What an open file of a segment costs beside its index: about 1 KB of heap, and of the kernel's memory 1.5 KB (inode 1.1, name 0.2,
/// open file 0.25), of which the kernel's reserve has the rest.
pub const SEGMENT_FILE_BYTES: u64 = 2 << 10;
/// Open files of one segment take at most this part of what metadata may take. Half of that is for what segments can do without: a
/// segment, the next one, and what both are merged into have room in the other half.
pub const FILES_SHARE: u64 = 8;
/// Updates that wait in one collection's queue.
pub const QUEUE_OPS_MAX: usize = 4_096;
/// Searches that wait for a slot.
pub const SEARCH_QUEUE_MAX: usize = 1_024;
/// Least and most of a log file's length; a group larger than that gets a file of its own size.
pub const LOG_FILE_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=8 << 20;
/// Length of a collection's first log file, and how many times longer the one after a filled one is: 10,000 collections take 160 MB of disk, not 40 GB.
pub const LOG_FILE_FIRST_BYTES: u64 = 16 << 10;
pub const LOG_FILE_GROWTH: u64 = 4;
/// What a collection costs that is only listed: its entry in the catalog, once more while a change of it is committed, and what is
/// remembered of it. Names come on top, `LISTED_NAME_TIMES` each.
pub const LISTED_BYTES: u64 = 352;
pub const LISTED_NAME_TIMES: u64 = 3;
/// Collections that a start opens; the others are opened when they are asked for, or looked at one by one when nothing else is due.
pub const OPENED_AT_START: usize = 256;
/// Log of a collection that is closed as it is; where there is more, it is flushed first. So much is replayed in some milliseconds.
pub const UNLOAD_LOG_BYTES: u64 = 256 << 10;
/// Collections that are opened at the same time.
pub const LOADS_AT_ONCE: usize = 2;
/// Collections that are looked at in one idle round, and beside writes.
pub const VISITS_IDLE: usize = 32;
pub const VISITS_BUSY: usize = 4;
/// Collections with expired points that are opened for one turn of their deletion.
pub const EXPIRY_LOADS: usize = 32;
/// When an unloaded collection is looked at again whose points expire by a field without an index that lists them all.
pub const EXPIRY_UNLISTED_MICROS: i64 = 600_000_000;
/// Log bytes of one collection after which its buffer is flushed even when it isn't full.
pub const LOG_BYTES_MAX: u64 = 64 << 20;
/// Chunk of a memtable's arena.
pub const MEMTABLE_CHUNK_BYTES: usize = 64 << 10;
/// Chunks of one memtable at most.
pub const MEMTABLE_CHUNKS_MAX: usize = 256;
/// What a row of the memtable costs beside its bytes: id map entry and row directory.
pub const MEMTABLE_ROW_OVERHEAD: u64 = 96;
/// A memtable is flushed for an index, while nobody writes, if it holds at least one in so many of the stored rows.
pub const FLUSH_SHARE: u64 = 64;
/// Segments of about the same size that are merged into one.
pub const MERGE_FANIN: usize = 4;
/// When nothing else is to do, segments join the largest if they hold at least this share of its rows.
pub const IDLE_MERGE_SHARE: f64 = 0.1;
/// The amortised cost of compaction: rows compared in the time of writing one anew, with its index (0.2 us from disk, 50 us).
/// Once searches have spent as much on a small segment as a merge would take, it is merged. So neither costs more than
/// twice what was needed.
pub const MERGE_COST: u64 = 256;
/// The same where the merged rows get a graph.
pub const MERGE_COST_OF_GRAPH: u64 = 8 * MERGE_COST;
/// Rows from which a segment beside a larger one may get an index of its own before `indexing_threshold` is reached: with fewer
/// there is little to leave out. Where they aren't in RAM each search reads all of them.
pub const EARLY_INDEX_ROWS: u64 = 128;
/// The same of rows in the memtable, with the small segments that they are merged with: in RAM so many are compared in 50 us.
pub const EARLY_INDEX_MEMTABLE_ROWS: u64 = 1_000;
/// Share of deleted rows above which a segment is rewritten alone.
pub const REWRITE_DELETED_SHARE: f64 = 0.2;
/// Segments below this many rows aren't rewritten for their deletes alone.
pub const REWRITE_ROWS_MIN: u32 = 1_000;
/// Least memory that a job works with.
pub const JOB_SCRATCH_MIN: u64 = 1280 << 10;
/// What a job takes beside twice the rows it works on, where that is nobody's loss, ...
pub const JOB_SCRATCH_BASE: u64 = 4 << 20;
/// ... and what one that writes a segment takes at least beside the rows, ...
pub const JOB_SCRATCH_LEAST: u64 = 1 << 20;
/// ... and for each dimension of the longest vectors: an index isn't built with less than 352 bytes of seven sixteenths.
pub const JOB_SCRATCH_PER_DIM: u64 = 1 << 10;
/// Pending bytes of a segment file before they are appended.
pub const SINK_BYTES: usize = 64 << 10;
/// Sorted runs merged at once.
pub const SORT_RUNS_MAX: usize = 64;
/// kB of vectors in a segment from which it gets an approximate index (`indexing_threshold` unset).
pub const INDEXING_THRESHOLD_KB: usize = 10_000;
/// Free disk below which upserts answer 507; deletes still work.
pub const DISK_FREE_MIN: u64 = 64 << 20;
/// Free disk that a merge leaves which gives back more than it writes: manifests and lists of deletes must still be written.
pub const MERGE_FREE_MIN: u64 = 4 << 20;
/// Changes that are taken before free disk is asked for again.
pub const DISK_RECHECK_BYTES: usize = 8 << 20;
/// Most hits of one search (limit + offset) and most points of one page.
pub const LIMIT_MAX: usize = 1 << 20;

/// Points that a distance matrix compares with each other, at most: 16.8 million comparisons.
pub const MATRIX_SAMPLE_MAX: usize = 4_096;
/// What a snapshot is copied through, to and from disk.
pub const COPY_BYTES: usize = 256 << 10;
/// What a snapshot or an upload holds beside it: the file's own buffer, handles.
pub const SNAPSHOT_BYTES: u64 = 256 << 10;
/// Bytes of a snapshot after which it is synced, and free disk is asked for again.
pub const SNAPSHOT_SYNC_BYTES: u64 = 32 << 20;
/// RAM for a manifest or catalog of a snapshot while it is read, per byte of its text.
pub const SNAPSHOT_LIST_FACTOR: u64 = 10;
/// Longest name of a snapshot's file.
pub const SNAPSHOT_NAME_BYTES: usize = 200;
/// Prefetches within each other, the query above them not counted.
pub const PREFETCH_DEPTH_MAX: usize = 64;
/// Prefetches of one query in all: each result list is held until it is merged.
pub const PREFETCHES_MAX: usize = 1_024;
/// Expressions within each other, and in all, of one formula.
pub const FORMULA_DEPTH_MAX: usize = 64;
pub const FORMULA_NODES_MAX: usize = 4_096;
/// Examples of one query: of recommend, context pairs, feedback.
pub const EXAMPLES_MAX: usize = 1_024;
/// Multiplications that choosing unlike points may take: points chosen, times candidates, times dimensions. Some seconds.
pub const MMR_WORK_MAX: u64 = 1 << 34;
/// Points looked at to find groups, and again to fill them, at most.
pub const GROUP_POINTS_MAX: usize = 1 << 16;
