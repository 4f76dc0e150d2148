//! What each route does: one file per noun of the API.

pub mod aliases;
pub mod collections;
pub mod fetch;
pub mod indexes;
pub mod plan;
pub mod points;
pub mod refused;
pub mod search;
pub mod service;
pub mod snapshots;
pub mod updates;
