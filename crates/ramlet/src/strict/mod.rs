//! Strict mode: requests that a collection's settings refuse.

pub mod strict_checks;
pub mod strict_queries;
