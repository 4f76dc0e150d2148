//! What every measurement needs and no engine: made-up vectors with exact truth, recall, latencies, machine figures, records.
//!
//! This crate knows nothing of the engine: it measures Ramlet and its peers by the same code.
//!
//! In reading order: [`Clustered`] makes vectors; [`Nearest`] finds the exact neighbours; [`Set`] is both as files; [`Filters`]
//! gives rows values to filter by, with the filtered truth; [`Latencies`], [`recall`] and [`Summary`] turn runs into numbers;
//! [`Machine`] and [`Record`] say where and keep them; [`Table`] and [`Plot`] show them. [`BenchArgs`] is `ramlet bench`, whose servers run
//! in a [`cgroup`] and under the eyes of a [`guard`].

mod random;
mod rotation;

mod clustered;
mod nearest;
mod set;
mod write;

mod filters;

mod latency;
pub mod recall;
mod summary;

pub mod process;

pub mod machine;
mod probe;
mod record;

pub mod args;
mod size;

pub mod files;

pub mod cgroup;
pub mod guard;
pub mod server;

pub mod api;
pub mod client;
pub mod fill;
pub mod grpc;
pub mod http;
pub mod json;
pub mod load;
pub mod requests;
pub mod setting;
pub mod wire;

pub mod data;
pub mod measure;
pub mod ram;
pub mod search;
pub mod text;

mod command;
mod output_args;
mod plot;
mod progress;
pub mod table;
mod ticks;

pub mod ingest;
pub mod io;

pub use clustered::{Clustered, Difficulty, Shape};
pub use command::{BenchArgs, BenchCommand};
pub use filters::{FilterCase, Filters, RANKS, Selection, rank};
pub use latency::Latencies;
pub use machine::Machine;
pub use nearest::Nearest;
pub use output_args::OutputArgs;
pub use plot::{Axis, Curve, Plot};
pub use probe::{DiskFigures, probe_disk};
pub use progress::Progress;
pub use random::Random;
pub use record::Record;
pub use set::{Element, Metric, Set, SetInfo};
pub use size::ByteSize;
pub use summary::{Comparison, Summary};
pub use table::Table;
pub use write::{WriteOptions, write_set};

/// Neighbours that recall is about.
pub const K: usize = 10;
