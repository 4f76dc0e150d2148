//! Indexes against brute force, on several backends.

mod kth_distance;
mod build;
mod super_centroids;
mod codes;
mod counting;
mod deep;
mod depth;
mod disk;
mod random;
mod sq8_rows;

mod flat;
mod graph;
mod ivf;
mod cached_rows;
mod query;
mod residual_codes;
mod topk;
mod warm;
mod wild;
