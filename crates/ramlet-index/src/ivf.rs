//! The inverted file: exact vectors in clusters on disk, centroids in RAM, and codes of the vectors in RAM if the
//! budget has room for them.
//!
//! Three files: rows in cluster order, each with its segment row's number; each segment row's position; centroids with
//! the clusters' places and the calibration. A fourth, of codes in the order of the rows, is optional: without it a
//! search reads whole clusters, with it single rows.

mod build;
mod candidates;
mod codes;
mod compact;
mod inspect;
mod picked;
mod search;

mod assign;
mod buckets;
mod calibrate;
mod cells;
mod centroids;
mod encode;
mod gap;
mod held;
mod kmeans;
mod meta;
mod misses;
mod order;
mod points;
mod product_query;
mod products;
mod progress;
mod random;
mod ranked;
mod reach;
mod rebalance;
mod recalibrate;
mod report;
mod rough;
mod sample;
mod spill;
mod splits;
mod train;
mod tree;
mod way;

pub use build::{
    IvfBuilt, IvfCodes, IvfFiles, IvfParams, NO_POSITION, build_ivf, clusters_most, clusters_wanted,
    scratch_least,
};
pub use calibrate::{Calibration, CalibrationPoint, LOST_BY_QUERIES, Reached, Rule};
pub use cells::count as cells_of;
pub use centroids::Centroids;
pub(crate) use codes::CodeLists;
pub use codes::CodesInRam;
pub use meta::{centroid_bytes, held_bytes};
pub use misses::{Deviations, DeviationsByDepth};
pub(crate) use picked::Picked;
pub(crate) use products::ProductLists;
pub use progress::{Phase, Progress};
pub(crate) use random::Random;
pub(crate) use reach::Reach;
pub use search::{Effort, Ivf};
