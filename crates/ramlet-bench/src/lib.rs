//! What every measurement from outside needs and no engine: load over HTTP and gRPC, control groups, machine figures, records.
//!
//! This crate knows nothing of the engine: it measures Ramlet and its peers by the same code. What it sends is a user's files or made up by
//! `ramlet-testdata`.
//!
//! In reading order: [`Summary`] turns runs into numbers; [`Machine`] and [`Record`] say where and keep them; [`Table`] and [`Plot`] show
//! them. [`BenchArgs`] is `ramlet bench`, whose servers run in a [`cgroup`] and under the eyes of a [`guard`].

mod summary;

pub mod machine;
mod probe;
mod record;

mod count;
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

pub use command::{BenchArgs, BenchCommand};
pub use count::{count, count_within};
pub use machine::Machine;
pub use output_args::OutputArgs;
pub use plot::{Axis, Curve, Plot};
pub use probe::{DiskFigures, probe_disk};
pub use progress::Progress;
pub use record::{Record, date};
pub use size::ByteSize;
pub use summary::{Comparison, Summary};
pub use table::Table;
