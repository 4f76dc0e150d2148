//! The inverted file: exact vectors in clusters on disk, centroids in RAM, and codes in RAM if the budget has room.
//!
//! Three files: rows in cluster order, each with its segment row's number; each segment row's position; centroids with
//! the clusters' places and the calibration. A fourth, of codes in the order of the rows, is optional: without it a
//! search reads whole clusters, with it single rows.

mod build;
mod inverted_file;
mod search;

mod assign;
mod buckets;
mod calibrate;
mod candidates;
mod codes;
mod divide;
mod effort;
mod encode;
mod inspect;
mod kmeans;
mod lists;
mod meta;
mod misses;
mod next_clusters;
mod order;
mod points;
mod probe_codes;
mod probe_products;
mod probe_threshold;
mod product_query;
mod products;
mod ranked;
mod ranking;
mod read_sq8;
mod rebalance;
mod recalibrate;
mod resident;
mod residual_sample;
mod rough;
mod row_bitmap;
mod rows_out;
mod sample;
mod spill;
mod splits;
mod sq8_rows;
mod strategy;
mod super_centroids;
mod train;
mod tree;
mod visit_bitmap;
mod visit_order;

pub use build::{
    IvfBuilt, IvfCodes, IvfFiles, IvfParams, build_ivf, built_most, centroids_beside, clusters_most,
    clusters_wanted, scratch_least, trained_of,
};
pub use codes::CodesInRam;
pub use inverted_file::Ivf;
pub use meta::{centroid_bytes, resident_bytes};
pub use super_centroids::count as super_centroids_of;
