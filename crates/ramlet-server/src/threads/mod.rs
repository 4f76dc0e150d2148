//! Threads: those that hold connections, the search slots, the pool for work that blocks.

pub mod balancer;
pub mod inline;
pub mod pool;
pub mod slots;
pub mod workers;
