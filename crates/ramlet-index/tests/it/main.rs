//! Indexes against brute force, on several backends.

mod counting;
mod disk;
mod random;

mod flat;
mod ivf;
mod query;
mod topk;
mod warm;
