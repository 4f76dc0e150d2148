//! Ramlet's engine: collections of points on disk inside a RAM budget.

mod collection;
mod engine;
mod error;
pub mod filter;
pub mod payload;
mod request;
mod types;

pub use collection::{Collection, CollectionInfo, CollectionStatus, Completion};
pub use engine::{AliasOp, Engine, EngineOptions, Scratch};
pub use error::{Error, ErrorKind, Result};
pub use request::*;
pub use types::*;
