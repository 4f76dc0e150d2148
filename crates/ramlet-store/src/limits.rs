//! Bounds of the crate, all in one place.

/// The least bytes of a chunk, unless a file ends.
pub const CHUNK_BYTES_MIN: usize = 512 << 10;

/// The most bytes of a chunk, and so of an object of data.
pub const CHUNK_BYTES_MAX: usize = 4 << 20;

/// A chunk ends, past its least length, where so many bits of the rolling hash are zero: 1 MiB later on average.
pub const CHUNK_CUT_BITS: u32 = 20;

/// Objects under way at once, memory permitting.
pub const PARALLEL_MAX: usize = 16;

/// The same where a server takes a snapshot.
pub const PARALLEL_BESIDE_MAX: usize = 2;

/// Chunks that are fetched at once for a directory that is being restored while it serves.
pub const PARALLEL_RESTORE_MAX: usize = 4;

/// Shorter files are fetched before a server begins.
pub const WAITING_FILE_BYTES_MIN: u64 = 64 << 10;

/// What a store's client holds in a server, beside what is on its way: threads, connections.
pub const CLIENT_BYTES: u64 = 2 << 20;

/// What the program, its runtime and one connection with TLS hold beside the ledger.
pub const PROCESS_BYTES: u64 = 20 << 20;

/// The least `--memory` of a push or a pull: the process, a buffer, one chunk under way with its copy, lists.
pub const MEMORY_MIN: u64 = 36 << 20;

/// What a known object, or a chunk of a list, holds in RAM.
pub const CHUNK_ENTRY_BYTES: u64 = 64;

/// A file's entry of a list, beside its chunks.
pub const FILE_ENTRY_BYTES: u64 = 256;

/// Manifests are small; a larger one isn't ours.
pub const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// Collections that a manifest names; of more it tells the number.
pub const NAMES_MAX: usize = 1_000;

/// The file of a backup that is a snapshot.
pub const SNAPSHOT_FILE: &str = "everything.snapshot";

/// Free bytes of the disk below which no client's file grows.
pub const LOCAL_FREE_MIN: u64 = 64 << 20;

/// The most bytes of an entry of a shard's log: a group of changes is at most 4 MiB, a request less.
pub const ENTRY_BYTES_MAX: u64 = (4 << 20) + (64 << 10);

/// Slots of a log that are read at once, where each holds no more than this; a larger entry is read alone.
pub const LOG_PARALLEL: u64 = 16;
pub const SMALL_ENTRY_BYTES: u64 = 128 << 10;

/// Slots of a log that a trim holds the numbers of at a time.
pub const TRIM_SLOTS_MAX: usize = 8_192;

/// The most bytes of what a node says of itself, and the most nodes that are told of.
pub const CARD_BYTES_MAX: u64 = 1 << 10;
pub const CARDS_MAX: usize = 64;

/// The most shards of a store.
pub const SHARDS_MAX: u32 = 64;

/// The most bytes of a list of chunks.
pub const INDEX_BYTES_MAX: u64 = 1 << 30;

/// How often a push or a prune begins again because another one was quicker.
pub const TRIES_MAX: u32 = 8;
