//! What each route does: one file per noun of the API.

pub mod aliases;
pub mod cluster;
pub mod collections;
pub mod dashboard;
pub mod facet;
pub mod indexes;
pub mod issues;
pub mod logger;
pub mod metrics;
pub mod optimizations;
pub mod plan;
pub mod points;
pub mod profiler;
pub mod projection;
pub mod quotas;
pub mod search;
pub mod service;
pub mod snapshots;
pub mod stairs;
pub mod telemetry;
pub mod updates;
pub mod vector_names;
