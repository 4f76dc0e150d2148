//! State behind the handles: of each collection ([`core`]), and of the engine ([`shared`]).

pub mod core;
pub mod segment_ids;
pub mod shared;
