//! The inverted file, in its plain form: exact vectors in clusters, centroids in RAM.
//!
//! Three files: rows in cluster order, each with its segment row's number; each segment row's position; centroids with
//! the clusters' places and the calibration.

mod build;
mod search;

mod assign;
mod buckets;
mod calibrate;
mod centroids;
mod kmeans;
mod meta;
mod random;
mod sample;
mod spill;
mod tree;

pub use build::{IvfBuilt, IvfFiles, IvfParams, NO_POSITION, build_ivf};
pub use calibrate::{Calibration, CalibrationPoint};
pub use search::Ivf;
