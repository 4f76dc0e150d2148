//! Recall: what real queries find, compared with the target.

pub mod drift;
pub mod monitor;
pub mod query_sample;
