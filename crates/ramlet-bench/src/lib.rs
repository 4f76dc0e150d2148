//! What every measurement from outside needs and no engine: load over HTTP and gRPC, control groups, machine figures, records.
//!
//! This crate knows nothing of the engine: it measures Ramlet and its peers by the same code. What it sends is a user's files or made up by
//! `ramlet-testdata`.
//!
//! In reading order: [`Summary`] turns runs into numbers; [`Machine`] and [`Record`] say where and keep them; [`Table`] and [`Plot`] show
//! them. [`BenchArgs`] is `ramlet bench`, whose servers run in a [`cgroup`] and under the eyes of a [`guard`].

mod command;
mod count;
pub mod data;
pub mod files;
mod host;
pub mod ingest;
pub mod io;
pub mod json;
pub mod machine;
pub mod ram;
mod results;
pub mod search;
mod size;
pub mod text;
mod traffic;

pub use command::{BenchArgs, BenchCommand};
pub use count::{count, count_within};
pub use host::probe::{DiskFigures, probe_disk};
pub use host::{cgroup, guard, server};
pub use machine::Machine;
pub use results::output_args::OutputArgs;
pub use results::plot::{Axis, Curve, Plot};
pub use results::progress::Progress;
pub use results::record::{Record, date};
pub use results::summary::{Comparison, Summary};
pub use results::table;
pub use results::table::Table;
pub use size::ByteSize;
pub use traffic::{api, client, fill, grpc, http, load, measure, requests, setting, wire};
