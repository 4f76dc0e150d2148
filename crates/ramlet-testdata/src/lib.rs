//! Made-up vectors and texts with exact truth, and what a program counts that measures in process. No engine, and few dependencies: the
//! engine's tests compile it.
//!
//! In reading order: [`Clustered`] makes vectors, [`Texts`] documents and queries; [`Nearest`] finds the exact neighbours; [`Set`] is
//! vectors and their neighbours as files; [`Filters`] gives rows values to filter by, with the filtered truth; [`recall`], [`Latencies`] and
//! [`process`] count; [`args`] reads a command line.

mod random;
mod rotation;

mod clustered;
mod texts;

mod nearest;
mod set;
mod write;

mod filters;

pub mod args;
mod latency;
pub mod process;
pub mod recall;

pub use clustered::{Clustered, Difficulty, RowScratch, Shape};
pub use filters::{FilterCase, Filters, RANKS, Selection, rank};
pub use latency::Latencies;
pub use nearest::Nearest;
pub use random::{Random, mix};
pub use set::{Element, Metric, Set, SetInfo};
pub use texts::{Document, Texts};
pub use write::{WriteOptions, write_set};

/// Neighbours that recall is about.
pub const K: usize = 10;
