//! Recall: what real queries find, against what was aimed at.

pub mod drift;
pub mod monitor;
pub mod query_sample;
