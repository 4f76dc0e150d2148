//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use ramlet_bench::BenchArgs;
pub use ramlet_bench::files::Distance;
use ramlet_bench::{count, count_within};

use crate::import::column_types::{ColumnType, column_type};
use crate::size::ByteSize;

/// A search server that stores data on your SSD and stays within the RAM you give it.
#[derive(Debug, Parser)]
#[command(name = "ramlet", version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the collections of a data directory over the Qdrant API, REST and gRPC
    Serve(Box<ServeArgs>),
    /// Import documents (.csv .tsv .json .jsonl, also .gz and .zst; .parquet .arrow .feather), vectors (.npy .npz .fvecs .bvecs .fbin
    /// .u8bin .i8bin .hdf5), or another server's collections (--from)
    Import(ImportArgs),
    /// Search a running server: full text, or points similar to a stored one
    Search(SearchArgs),
    /// Show a running server's memory, searches, jobs and issues, refreshed every few seconds
    Top(TopArgs),
    /// List, create, download, restore and delete snapshots of a running server
    Snapshot(SnapshotArgs),
    /// Predict how much RAM a collection needs and how fast searches will be, before an upload
    Plan(PlanArgs),
    /// Measure this machine, compare it with the published list "memory speed", and save its profile for `plan` and `serve`
    Machine(MachineArgs),
    /// Measure a server from outside: how much RAM it needs, and how fast it answers
    Bench(BenchArgs),
    /// Verify every checksum of a data directory that no server has open
    Check(CheckArgs),
    /// Write the readable part of a damaged collection as a snapshot, without changing the data directory
    Salvage(SalvageArgs),
    /// Back up to an object store (S3 or a directory), and restore from it
    #[cfg(feature = "store")]
    Store(StoreArgs),
    /// Nodes over one store
    #[cfg(feature = "store")]
    Cluster(ClusterArgs),
    /// Check whether the server of this machine is ready, for health checks; the exit code is 0 if it is
    Health(HealthArgs),
    /// Print a shell's completion script for ramlet's commands and flags
    Completion(CompletionArgs),
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Read settings from this YAML file; may be given several times, and later files override earlier ones. Qdrant's files work too
    /// [env: RAMLET_CONFIG]
    #[arg(long, value_name = "FILE", visible_alias = "config-path")]
    pub config: Vec<PathBuf>,
    /// Read config.yaml, $RUN_MODE.yaml (production.yaml without RUN_MODE) and local.yaml of this directory, if they exist; --config overrides them
    /// [env: RAMLET_CONFIG_DIR]
    #[arg(long, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,
    /// Total RAM, as a memory cgroup counts it: 135MB, 128MiB, 1.5GB
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,
    /// Data directory
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Address to listen on
    #[arg(long)]
    pub host: Option<String>,
    /// REST port; 0 chooses a free one
    #[arg(long)]
    pub port: Option<u16>,
    /// gRPC port; 0 chooses a free one, `disabled` closes it
    #[arg(long, value_name = "PORT")]
    pub grpc_port: Option<String>,
    /// Admin API key
    #[arg(long, value_name = "KEY")]
    pub api_key: Option<String>,
    /// Second admin API key, for key rotation
    #[arg(long, value_name = "KEY")]
    pub alt_api_key: Option<String>,
    /// Read-only API key
    #[arg(long, value_name = "KEY")]
    pub read_only_api_key: Option<String>,
    /// Accept JWTs signed with the admin key, each with the access that it grants
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = boolean)]
    pub jwt_rbac: Option<bool>,
    /// Write an audit log of requests and whether they were allowed, as JSON lines
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = boolean)]
    pub audit: Option<bool>,
    /// Directory of the audit log
    #[arg(long, value_name = "DIR")]
    pub audit_dir: Option<PathBuf>,
    /// When the audit log begins a new file
    #[arg(long, value_enum)]
    pub audit_rotation: Option<Rotation>,
    /// Size at which the audit log begins a new file
    #[arg(long, value_name = "SIZE")]
    pub audit_file_size: Option<ByteSize>,
    /// Number of audit log files to keep
    #[arg(long, value_name = "N")]
    pub audit_files: Option<usize>,
    /// Log the client address of X-Forwarded-For; only for servers behind a proxy
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = boolean)]
    pub audit_forwarded: Option<bool>,
    /// Listen on any address without a key
    #[arg(long)]
    pub insecure: bool,
    /// Encrypt all connections, REST and gRPC, with this certificate or chain (PEM); it is read again every hour
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of that certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Accept only clients whose certificate is signed by one of these (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// Allow web pages of any origin to use the server (CORS)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = boolean)]
    pub cors: Option<bool>,
    /// Largest request body, at most 32MiB
    #[arg(long, value_name = "SIZE")]
    pub max_body: Option<ByteSize>,
    /// How files are read
    #[arg(long, value_enum)]
    pub backend: Option<Backend>,
    /// Don't measure the machine if it has no profile yet (2 s of reads in the background)
    #[arg(long)]
    pub no_probe: bool,
    /// Snapshot directory, or a store: file:///directory or s3://bucket/prefix
    #[arg(long, value_name = "DIR|URL")]
    pub snapshots_path: Option<PathBuf>,
    /// Where snapshots go: local, or s3 with a bucket
    #[arg(long, value_enum)]
    pub snapshots_storage: Option<SnapshotsStorage>,
    /// Bucket for snapshots, which then lie under `ramlet-snapshots/`
    #[arg(long, value_name = "NAME")]
    pub snapshots_s3_bucket: Option<String>,
    /// Region of the bucket
    #[arg(long, value_name = "NAME")]
    pub snapshots_s3_region: Option<String>,
    /// Key id for the bucket
    #[arg(long, value_name = "KEY")]
    pub snapshots_s3_access_key: Option<String>,
    /// Secret key for the bucket
    #[arg(long, value_name = "KEY")]
    pub snapshots_s3_secret_key: Option<String>,
    /// URL of a server that speaks S3
    #[arg(long, value_name = "URL")]
    pub snapshots_s3_endpoint: Option<String>,
    /// Leave this collection closed and its files unchanged; may be given several times
    #[arg(long, value_name = "NAME")]
    pub skip_collection: Vec<String>,
    /// Let clients restore snapshots from http:// and https:// URLs; the server then connects to any host that they name
    #[arg(long)]
    pub snapshots_from_urls: bool,
    /// Restore a collection from a snapshot before serving; may be given several times
    #[arg(long, value_name = "FILE:COLLECTION")]
    pub snapshot: Vec<String>,
    /// Restore all collections from a snapshot of the whole storage before serving
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot")]
    pub storage_snapshot: Option<PathBuf>,
    /// Let restored collections replace existing ones
    #[arg(long)]
    pub force_snapshot: bool,
    /// Fill an empty data directory from the newest backup in a store, and answer meanwhile
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    pub restore: Option<String>,
    /// Share the data with other nodes through a store: file:///directory or s3://bucket/prefix. The data directory is a copy then
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// What this node does with the store
    #[arg(long, value_enum)]
    pub role: Option<NodeRole>,
    /// Into how many shards the store is divided: said once, by the first node. 1 where nobody says it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub shards: Option<u32>,
    /// The shard that this node holds, from 0, and never leaves; otherwise the one with the fewest nodes
    #[arg(long, value_name = "N")]
    pub shard: Option<u32>,
    /// A node takes over when it hears nothing of the writer for so long: 10s, 1500ms
    #[arg(long, value_name = "TIME")]
    pub takeover_after: Option<String>,
    /// URL that other nodes tell of this one
    #[arg(long, value_name = "URL")]
    pub advertise: Option<String>,
    /// A writer makes a backup after so many slots of the log
    #[arg(long, value_name = "SLOTS")]
    pub store_backup_every: Option<u64>,
    /// A writer keeps its newest backups, so many, and the log behind the oldest of them; 0: all
    #[arg(long, value_name = "BACKUPS")]
    pub store_keep: Option<usize>,
    /// Number of search threads
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<u16>,
    /// Log and keep requests that take longer, with the time of their steps (`/profiler/slow_requests`): 100ms, 2s, or off
    #[arg(long, value_name = "TIME")]
    pub slow_query: Option<String>,
    /// Log level: error, warn, info, debug, trace, or by module (info,ramlet=debug)
    #[arg(long, value_name = "LEVEL")]
    pub log: Option<String>,
    /// Format of log lines
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
    // Flags of the API's server: taken, so that a command line of it works, and told to be without effect.
    #[arg(long, hide = true)]
    pub disable_telemetry: bool,
    #[arg(long, hide = true)]
    pub uri: Option<String>,
    #[arg(long, hide = true)]
    pub bootstrap: Option<String>,
    #[arg(long, hide = true)]
    pub reinit: bool,
    #[arg(long, hide = true)]
    pub stacktrace: bool,
}

/// Where snapshots go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SnapshotsStorage {
    /// Into a directory
    Local,
    /// Into a bucket
    S3,
}

/// Roles of nodes over a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NodeRole {
    /// Writes when nobody else does: at the start, or when the writer is silent. Follows it else
    Auto,
    /// Takes over at its start from whoever writes; then as auto
    Writer,
    /// Follows the writer, and never takes over
    Reader,
    /// As reader. It also builds indexes and merges for the other nodes, which download them
    Build,
}

#[cfg(feature = "store")]
impl NodeRole {
    /// Whether it builds for others.
    pub fn builds(self) -> bool {
        self == NodeRole::Build
    }

    /// Whether it may own the log.
    pub fn is_candidate(self) -> bool {
        matches!(self, NodeRole::Auto | NodeRole::Writer)
    }
}

/// What a line of the log looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Readable text
    Text,
    /// One JSON object per line
    Json,
}

/// How often the audit log's file changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Rotation {
    Daily,
    Hourly,
}

/// I/O backends by the names that people type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// io_uring where the kernel allows it, else pread
    Auto,
    #[value(name = "io_uring")]
    IoUring,
    Pread,
    Mmap,
}

// A number below zero is a wrong number, not an unknown argument.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct PlanArgs {
    /// Points of the collection
    #[arg(long, value_name = "N", value_parser = points)]
    pub points: u64,
    /// Dimensions of a vector
    #[arg(long, value_name = "D", value_parser = whole)]
    pub dim: u64,
    /// Total RAM, as a memory cgroup counts it [default: a table of all useful amounts]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,
    /// Recall: the share of the true nearest points to find
    #[arg(long, default_value_t = 0.95)]
    pub recall: f64,
    /// Results of a query
    #[arg(long, default_value_t = 10, value_parser = results)]
    pub k: u32,
    #[arg(long, visible_alias = "distance", value_enum, ignore_case = true, default_value_t = Distance::Cosine)]
    pub metric: Distance,
    /// Element type of the stored vectors
    #[arg(long, visible_alias = "datatype", value_enum, default_value_t = PlanElement::F32)]
    pub element: PlanElement,
    /// Average payload of a point, as JSON
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = whole)]
    pub payload_bytes: u64,
    /// Ids are UUIDs [default: numbers]
    #[arg(long)]
    pub uuids: bool,
    /// Responses include payloads
    #[arg(long)]
    pub with_payload: bool,
    /// Plan a graph [default: the faster of graph and inverted file]
    #[arg(long, conflicts_with = "ivf")]
    pub hnsw: bool,
    /// Plan an inverted file
    #[arg(long)]
    pub ivf: bool,
    /// The data is easy, like images [default: hard, like word vectors]
    #[arg(long)]
    pub easy: bool,
    /// Where the vectors must be [default: where they help most]
    #[arg(long, value_enum)]
    pub vectors: Option<Place>,
    /// Where the codes must be
    #[arg(long, value_enum)]
    pub codes: Option<Place>,
    /// Where the payloads must be
    #[arg(long, value_enum)]
    pub payload: Option<Place>,
    /// Number of search threads [default: the server's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Plan for the engine inside another program, without a server
    #[arg(long)]
    pub in_process: bool,
    /// Profile of a machine, as a server saves it in its data directory (machine.json)
    #[arg(long, value_name = "FILE", conflicts_with = "measure")]
    pub machine: Option<PathBuf>,
    /// First measure this machine and the disk of this directory (3 s), and save the profile there
    #[arg(long, value_name = "DIR")]
    pub measure: Option<PathBuf>,
    #[arg(long)]
    pub json: bool,
}

/// Elements by the names that people type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlanElement {
    #[value(alias = "float32")]
    F32,
    #[value(alias = "float16")]
    F16,
    #[value(alias = "uint8")]
    U8,
}

/// Where data may be told to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Place {
    Ram,
    Disk,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The files, read one after another, or patterns of names ('part-*.parquet'); the extension gives the format. `-` is standard input
    /// and needs --format
    #[arg(required_unless_present = "from", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Format of the files [default: from the extension]
    #[arg(long, value_enum)]
    pub format: Option<TextFormat>,
    /// Field with the ids [default: `id`, if the first row has it]
    #[arg(long, value_name = "FIELD")]
    pub id_field: Option<String>,
    /// Field with the vectors; `emb_*` for numbers in columns emb_0, emb_1 ..; NAME=FIELD for a vector of that name, may be given several times; `none` for no vectors
    /// [default: `vector` or `vectors`]
    #[arg(long, value_name = "FIELD")]
    pub vector_field: Vec<String>,
    /// Type of a table column: text, int, float, bool or json [default: guessed from the first rows]
    #[arg(long, value_name = "COLUMN=TYPE", value_delimiter = ',', value_parser = column_type)]
    pub types: Vec<(String, ColumnType)>,
    /// Delimiter of a table's cells [default: detected in the first line; a tab for .tsv]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// Copy the collections of another server with the Qdrant API: settings, payload indexes, points, aliases
    #[arg(long, value_name = "URL", conflicts_with_all = FOR_FILES)]
    pub from: Option<String>,
    /// Key of the other server [default: that of --api-key]
    #[arg(
        long,
        env = "RAMLET_FROM_API_KEY",
        hide_env_values = true,
        value_name = "KEY",
        requires = "from"
    )]
    pub from_api_key: Option<String>,
    /// File with the progress of an import with --from or --resume, for continuing it after an interruption
    #[arg(long, value_name = "FILE", default_value = "ramlet-import.json")]
    pub state: PathBuf,
    /// Collection to fill, created with the file's dimension if it doesn't exist; with --from, the only one to copy
    #[arg(long, value_name = "NAME", required_unless_present = "from", value_parser = filled)]
    pub collection: Option<String>,
    /// Server to send to
    #[arg(long, env = "RAMLET_URL", default_value = "http://localhost:6333")]
    pub url: String,
    #[arg(long, env = "RAMLET_API_KEY", hide_env_values = true, value_name = "KEY")]
    pub api_key: Option<String>,
    /// Distance of a new collection [default: the file's, else Cosine]
    #[arg(long, value_enum, ignore_case = true)]
    pub distance: Option<Distance>,
    /// Element type of a new collection [default: float32; uint8 for files of bytes, except with Cosine]
    #[arg(long, value_enum)]
    pub datatype: Option<Datatype>,
    /// JSON lines file with the payload of each row, for files that have only vectors
    #[arg(long, value_name = "FILE")]
    pub payload: Option<PathBuf>,
    /// Dataset of an HDF5 file [default: `train`, or the only one], or array of an .npz [default: the only one with rows]
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// Points per request [default: about 256 KiB]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub batch: Option<usize>,
    /// Number of concurrent requests
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = connections)]
    pub parallel: usize,
    /// Skip the first N points
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole)]
    pub offset: u64,
    /// Import at most N points
    #[arg(long, value_name = "N", value_parser = whole)]
    pub limit: Option<u64>,
    /// First create a text index on these fields, with BM25 ranking and phrases
    #[arg(
        long,
        visible_alias = "text-field",
        value_name = "FIELDS",
        value_delimiter = ','
    )]
    pub text: Vec<String>,
    /// Language of the texts, for stemming and stop words; `none` for neither
    #[arg(long, value_name = "NAME", default_value = "english", requires = "text")]
    pub language: String,
    /// Tokenizer of the texts
    #[arg(long, value_enum, default_value_t = TextTokenizer::Unicode, requires = "text")]
    pub tokenizer: TextTokenizer,
    /// Ignore diacritics, so that `cafe` finds `café` [default: true with --tokenizer unicode, else false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", requires = "text", value_parser = boolean)]
    pub folding: Option<bool>,
    /// Where ids come from
    #[arg(long, value_enum, default_value_t = Ids::File)]
    pub ids: Ids,
    /// Number of the first row, with --ids line
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole)]
    pub first_id: u64,
    /// Save the progress in --state, and continue from there
    #[arg(long, conflicts_with = "offset")]
    pub resume: bool,
    /// Wait until the collection is green: flushed, indexed and merged
    #[arg(long)]
    pub wait: bool,
}

/// What only imports of files take.
const FOR_FILES: [&str; 19] = [
    "files",
    "payload",
    "distance",
    "datatype",
    "offset",
    "limit",
    "text",
    "ids",
    "resume",
    "format",
    "id_field",
    "vector_field",
    "types",
    "delimiter",
    "key",
    "first_id",
    "language",
    "tokenizer",
    "folding",
];

/// Where ids come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ids {
    /// The file's ids: integers and UUIDs; a quoted number is that number. In a file without ids, rows are numbered from 0
    File,
    /// Numbers after the collection's highest id; a row's own id stays in the payload
    Append,
    /// The row's number, from --first-id; a row's own id stays in the payload
    Line,
    /// A UUID (version 5, OID namespace) of the id's text, which stays in the payload, or of the whole row if it has no id
    Hash,
    /// New UUIDs; a row's own id stays in the payload
    Uuid,
}

/// Formats of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TextFormat {
    /// One object per line
    Jsonl,
    /// An array of objects, or objects one after another
    Json,
    /// A table whose first line names the columns
    Csv,
    /// The same, separated by tabs
    Tsv,
}

#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Words to search for
    #[arg(required_unless_present = "like")]
    pub words: Vec<String>,
    #[arg(long, value_name = "NAME", value_parser = filled)]
    pub collection: String,
    /// Server to query
    #[arg(long, env = "RAMLET_URL", default_value = "http://localhost:6333")]
    pub url: String,
    #[arg(long, env = "RAMLET_API_KEY", hide_env_values = true, value_name = "KEY")]
    pub api_key: Option<String>,
    /// Field with the texts [default: the field that has a text index]
    #[arg(long, value_name = "NAME")]
    pub field: Option<String>,
    /// Language for stemming and stop words, `none` for neither; the field's text index is first rebuilt if it has another one
    #[arg(long, value_name = "NAME", conflicts_with = "like")]
    pub language: Option<String>,
    /// Tokenizer; the field's text index is first rebuilt if it has another one
    #[arg(long, value_enum, conflicts_with = "like")]
    pub tokenizer: Option<TextTokenizer>,
    /// Ignore diacritics; the field's text index is first rebuilt if it doesn't match
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", conflicts_with = "like", value_parser = boolean)]
    pub folding: Option<bool>,
    /// Which of the words a text must have
    #[arg(long, value_enum, default_value_t = Mode::Any)]
    pub mode: Mode,
    /// Maximum number of hits
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = positive)]
    pub limit: usize,
    /// Filter of the API: '{"must": [{"key": "year", "match": {"value": 1969}}]}'
    #[arg(long, value_name = "JSON")]
    pub filter: Option<String>,
    /// Find points similar to the one with this id, by their vectors
    #[arg(long, value_name = "ID", conflicts_with_all = ["words", "field", "mode"])]
    pub like: Option<String>,
    /// Which of several named vectors --like compares
    #[arg(long, value_name = "NAME", requires = "like")]
    pub using: Option<String>,
    /// After the hits, print where the time went and what that means
    #[arg(long)]
    pub explain: bool,
    /// Print the hits as JSON lines
    #[arg(long)]
    pub json: bool,
}

/// What cuts texts into words: our default, and those of the API by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TextTokenizer {
    /// Words of all scripts, with normalised letters
    Unicode,
    /// Runs of letters and digits
    Word,
    /// Runs of characters other than white space
    Whitespace,
    /// Runs of letters and digits, and all their prefixes
    Prefix,
    /// Like `word`, with dictionaries for scripts without spaces
    Multilingual,
    /// Parts of identifiers in programs
    Code,
}

/// See [`SearchArgs::mode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Any of them; texts with more of them rank higher
    Any,
    /// All of them
    All,
    /// All of them, adjacent and in this order
    Phrase,
}

#[derive(Debug, Args)]
pub struct MachineArgs {
    /// At most a minute instead of ten: fewer lines, and less time for each
    #[arg(long)]
    pub quick: bool,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Plot the disk's speed by the number of concurrent reads
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Directory on the disk to measure; the profile (machine.json) stays there [default: the data directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Measure only these groups: profile, disk, fsync, sqlite, rocksdb, http, redis, network, memory, system, hashing
    #[arg(long, value_name = "GROUPS", value_delimiter = ',')]
    pub only: Vec<String>,
}

#[derive(Debug, Args)]
pub struct TopArgs {
    /// Server to query
    #[arg(long, env = "RAMLET_URL", default_value = "http://localhost:6333")]
    pub url: String,
    #[arg(long, env = "RAMLET_API_KEY", hide_env_values = true, value_name = "KEY")]
    pub api_key: Option<String>,
    /// Seconds between two samples; rates are averages over this time
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    pub interval: f64,
    /// Print once and exit
    #[arg(long)]
    pub once: bool,
    /// Print each sample as a line of JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct SnapshotArgs {
    #[command(subcommand)]
    pub command: SnapshotCommand,
    /// The collection [default: a snapshot of the whole server]
    #[arg(long, value_name = "NAME", global = true, value_parser = filled)]
    pub collection: Option<String>,
    /// Server to query
    #[arg(
        long,
        env = "RAMLET_URL",
        default_value = "http://localhost:6333",
        global = true
    )]
    pub url: String,
    #[arg(
        long,
        env = "RAMLET_API_KEY",
        hide_env_values = true,
        value_name = "KEY",
        global = true
    )]
    pub api_key: Option<String>,
    /// Print JSON lines
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// List the server's snapshots
    List,
    /// Create a snapshot on the server
    Create,
    /// Download a snapshot
    Download {
        /// Its name
        name: String,
        /// The file to write [default: its name]
        #[arg(value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Upload a file, which the server restores as --collection, replacing an existing one
    Restore {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Delete a snapshot on the server
    Delete {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The data directory
    pub dir: PathBuf,
    /// Print findings and final totals as JSON lines
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct SalvageArgs {
    /// The data directory, which no server may have open
    pub dir: PathBuf,
    /// Name of the collection, or of its directory if the catalog is damaged
    pub collection: String,
    /// The snapshot to write
    #[arg(value_name = "FILE.snapshot")]
    pub file: PathBuf,
}

#[cfg(feature = "store")]
#[derive(Debug, Args)]
pub struct ClusterArgs {
    #[command(subcommand)]
    pub command: ClusterCommand,
}

#[cfg(feature = "store")]
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Run some nodes on this machine, over a store, until Ctrl-C: to see how they follow each other
    Demo(DemoArgs),
}

#[cfg(feature = "store")]
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The store that they share: file:///directory or s3://bucket/prefix. It stays
    pub url: String,
    /// How many
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    pub nodes: u16,
    /// Into how many shards an empty store is divided
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=9))]
    pub shards: Option<u32>,
    /// RAM of each
    #[arg(long, value_name = "SIZE", default_value = "96MB")]
    pub memory: ByteSize,
    /// A node takes over when it hears nothing of the writer for so long
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub takeover_after: String,
    /// Where their data directories and logs are made, and kept; without it, in the directory of temporary files, until the end
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

#[cfg(feature = "store")]
#[derive(Debug, Args)]
pub struct StoreArgs {
    #[command(subcommand)]
    pub command: StoreCommand,
    /// Print JSON lines
    #[arg(long, global = true)]
    pub json: bool,
}

/// Of stores: URL is file:///directory or s3://bucket/prefix, with AWS_* variables as other tools have them.
#[cfg(feature = "store")]
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Try whether a store can be trusted with data: racing writers, reads and lists right after writes
    Check { url: String },
    /// Back up a data directory that no server has open, or all collections of a running server (http://host:6333). What is there already isn't sent
    Push {
        /// The directory, or the URL of the server
        source: String,
        url: String,
        #[arg(long, env = "RAMLET_API_KEY", hide_env_values = true, value_name = "KEY")]
        api_key: Option<String>,
        #[command(flatten)]
        memory: StoreMemory,
        /// Don't try the store first
        #[arg(long)]
        no_check: bool,
    },
    /// Restore a backup into a directory that isn't there yet
    Pull {
        url: String,
        dir: PathBuf,
        /// Number of the backup [default: the newest]
        #[arg(long, value_name = "N")]
        backup: Option<u64>,
        #[command(flatten)]
        memory: StoreMemory,
    },
    /// List the backups of a store
    List { url: String },
    /// Drop all but the newest backups, and delete what only those needed
    Prune {
        url: String,
        /// Backups to keep
        #[arg(long, value_name = "N", value_parser = positive)]
        keep: usize,
        #[command(flatten)]
        memory: StoreMemory,
    },
}

#[cfg(feature = "store")]
#[derive(Debug, Clone, Copy, Args)]
pub struct StoreMemory {
    /// RAM in all, as a memory cgroup counts it; more of it sends and fetches more at once
    #[arg(long, value_name = "SIZE", default_value = "64MB")]
    pub memory: ByteSize,
}

#[derive(Debug, Args)]
pub struct HealthArgs {
    /// Server to check [default: the address that `serve` uses with this environment and these files]
    #[arg(long)]
    pub url: Option<String>,
    /// The server's settings file, as for `serve` [env: RAMLET_CONFIG]
    #[arg(long, value_name = "FILE", visible_alias = "config-path")]
    pub config: Vec<PathBuf>,
    /// The server's settings directory, as for `serve` [env: RAMLET_CONFIG_DIR]
    #[arg(long, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The directory; created if missing
    pub dir: PathBuf,
}

/// Element types by the API's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lowercase")]
pub enum Datatype {
    Float32,
    Float16,
    Uint8,
}

impl Datatype {
    pub fn api_name(self) -> &'static str {
        match self {
            Datatype::Float32 => "float32",
            Datatype::Float16 => "float16",
            Datatype::Uint8 => "uint8",
        }
    }
}

fn positive(text: &str) -> Result<usize, String> {
    let most = usize::MAX as u64;
    let n = count_within(1..=most, text)
        .map_err(|_| "it takes a whole number from 1, like 500 or 10k".to_string())?;
    usize::try_from(n).map_err(|e| e.to_string())
}

/// A character, or `tab`.
fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if matches!(text, "tab" | "\\t") => Ok(b'\t'),
        [byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() => Ok(*byte),
        _ => Err("it takes one character, or `tab`".to_string()),
    }
}

fn points(text: &str) -> Result<u64, String> {
    count_within(0..=ramlet::plan::POINTS_MAX, text).map_err(|_| {
        format!(
            "it takes a whole number from 0 to {}, like 500000, 10k or 1M",
            ramlet::plan::POINTS_MAX
        )
    })
}

// The planner knows their ranges.
fn whole(text: &str) -> Result<u64, String> {
    count(text)
}

fn results(text: &str) -> Result<u32, String> {
    u32::try_from(count(text)?).map_err(|_| "it takes a whole number of 32 bits".to_string())
}

/// Each is a thread of its own.
const CONNECTIONS_MAX: usize = 256;

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(n) if (0.1..=3600.0).contains(&n) => Ok(n),
        _ => Err("it takes seconds from 0.1 to 3600".to_string()),
    }
}

fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=CONNECTIONS_MAX) => Ok(n),
        _ => Err(format!("it takes a whole number from 1 to {CONNECTIONS_MAX}")),
    }
}

const THREADS_MAX: u16 = 256;

/// Search threads, of the flag and of the environment.
pub fn threads(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(n @ 1..=THREADS_MAX) => Ok(n),
        _ => Err(format!("it takes a whole number from 1 to {THREADS_MAX}")),
    }
}

/// What is empty is an unset variable of a shell more often than not.
fn filled(text: &str) -> Result<String, String> {
    match text.is_empty() {
        true => Err("it is empty".to_string()),
        false => Ok(text.to_string()),
    }
}

/// Yes or no, in the words of flags and of the environment alike.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("it is neither true, 1, yes, on nor false, 0, no, off".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn search_takes_words_or_a_point() {
        let ok = |line: &str| Cli::try_parse_from(line.split(' ')).is_ok();
        assert!(ok(
            "ramlet search red wheelbarrow --collection c --mode phrase --limit 3"
        ));
        assert!(ok("ramlet search --like 7 --collection c --using image"));
        assert!(!ok("ramlet search --collection c") && !ok("ramlet search red --like 7 --collection c"));
        assert!(!ok("ramlet search red") && !ok("ramlet search red --collection c --limit 0"));
    }

    #[test]
    fn snapshots_are_of_a_collection_or_of_all() {
        let ok = |line: &str| Cli::try_parse_from(line.split(' ')).is_ok();
        assert!(ok("ramlet snapshot list") && ok("ramlet snapshot create --collection c --json"));
        assert!(
            ok("ramlet snapshot --collection c download a.snapshot b") && !ok("ramlet snapshot download")
        );
        assert!(ok("ramlet top --once --interval 0.5") && !ok("ramlet top --interval 0"));
    }

    #[test]
    fn import_takes_what_the_readme_says() {
        let line = "ramlet import a.npy --collection c --distance euclid --limit 5 --wait";
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let Command::Import(args) = cli.command else {
            panic!("{cli:?}")
        };
        assert_eq!(args.distance, Some(Distance::Euclid));
        assert_eq!((args.limit, args.parallel, args.wait), (Some(5), 2, true));
        let ok = |line: &str| Cli::try_parse_from(line.split(' ')).is_ok();
        assert!(!ok("ramlet import a --collection c --batch 0"));
        assert!(ok("ramlet import a --collection c --parallel 256"));
        assert!(!ok("ramlet import a --collection c --parallel 257"));
        assert!(!ok("ramlet import a --collection c --parallel 0"));
        assert!(!ok("ramlet import a --collection "), "its name is empty");
        assert!(
            ok("ramlet import --from http://a:6333") && ok("ramlet import --from http://a --collection c")
        );
        assert!(ok(
            "ramlet import a --collection c --text body,title --ids hash --resume"
        ));
        assert!(!ok("ramlet import a --collection c --resume --offset 5"));
        assert!(!ok("ramlet import --from http://a:6333 --text body"));
        assert!(!ok("ramlet import --from http://a:6333 --key train"));
        assert!(ok(
            "ramlet import a.csv b.csv --collection c --types zip=text,year=int --delimiter ; --id-field key"
        ));
        assert!(ok(
            "ramlet import - --format csv --collection c --vector-field a=x --vector-field b=y --limit 1M"
        ));
        assert!(!ok("ramlet import a.csv --collection c --types zip=number"));
        assert!(!ok("ramlet import a.csv --collection c --delimiter ab"));
        assert!(!ok("ramlet import a") && !ok("ramlet import a --collection c --from http://a"));
    }
}
