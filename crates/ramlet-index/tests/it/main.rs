//! Indexes against brute force, on several backends.

mod build;
mod codes;
mod counting;
mod deep;
mod depth;
mod disk;
mod kth_distance;
mod measured_again;
mod random;
mod sq8_rows;
mod super_centroids;

mod cached_rows;
mod flat;
mod graph;
mod ivf;
mod query;
mod residual_codes;
mod topk;
mod warm;
mod wild;
