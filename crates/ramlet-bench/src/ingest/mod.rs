//! What happens to a server's memory while a million vectors come and go.
//!
//! In reading order: [`IngestOptions`] say what; `place` is where the server lives; `made` are vectors made as they are sent; [`Sample`]s
//! are taken all the while by `sampler`; [`run`] leads through the phases; [`ingest_report`] shows them.

mod command;
pub mod ingest_report;
mod made;
mod options;
mod phase;
mod phases;
mod place;
mod sample;
mod sampler;

pub use command::IngestArgs;
pub use options::{IngestOptions, Source, Where};
pub use phase::Phase;
pub use phases::{Ended, Ingest, run};
pub use sample::{Group, Heap, Process, Sample};
