//! RAM: footprint, eviction and capacity.

pub mod capacity;
pub mod descriptors;
pub mod eviction;
pub mod footprint;
pub mod index_report;
pub mod quotas;
pub mod words;
