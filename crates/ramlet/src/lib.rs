//! Ramlet's engine: collections of points on disk inside a RAM budget.

mod buffer;
mod change;
mod collection;
mod core;
mod deletes;
mod engine;
mod error;
pub mod filter;
mod footprint;
mod groups;
mod jobs;
pub mod limits;
mod log;
mod lookup;
mod maintenance;
mod matching;
pub mod payload;
mod query;
mod recover;
mod request;
mod resolve;
mod schema;
mod scroll;
mod segment;
mod shared;
mod store;
mod types;
mod view;
mod writer;

pub use collection::{Collection, CollectionInfo, CollectionStatus, Completion, ComponentMemory};
pub use engine::{AliasOp, Engine, EngineOptions, SlotJob};
pub use error::{Error, ErrorKind, Result};
pub use query::Scratch;
pub use request::*;
pub use types::*;
