//! What happens to a server's memory while a million vectors come and go.
//!
//! In reading order: [`IngestOptions`] say what; `server` starts one or finds it; `vectors` are sent by `load`; [`Sample`]s are taken all
//! the while by `sampler`; [`run`] leads through the phases; [`report`] shows them.

mod api;
mod command;
mod load;
mod options;
mod phases;
pub mod report;
mod sample;
mod sampler;
mod server;
mod vectors;

pub use command::IngestArgs;
pub use options::{IngestOptions, Source, Where};
pub use phases::{Ended, Ingest, Phase, run};
pub use sample::{Group, Heap, Process, Sample};
