//! Indexes against brute force, on several backends.

mod border;
mod build;
mod cells;
mod codes;
mod compact;
mod counting;
mod deep;
mod depth;
mod disk;
mod random;

mod flat;
mod graph;
mod ivf;
mod pinned;
mod query;
mod rest;
mod topk;
mod warm;
mod wild;
