//! RAM: what is held where, what makes way first, and how much there is room for.

pub mod capacity;
pub mod descriptors;
pub mod eviction;
pub mod footprint;
pub mod index_report;
pub mod quotas;
pub mod words;
