//! What the server tells of itself: counts, durations, slow requests, refusals, issues.

pub mod damage;
pub mod issue;
pub mod issues;
pub mod read_waits;
pub mod refusals;
pub mod slow_log;
pub mod staircase;
pub mod stats;
pub mod steps;
pub mod unindexed;
pub mod waits;
