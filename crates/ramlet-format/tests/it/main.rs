//! Round trips against models, hostile bytes, and fingerprints of every format.

mod support;

mod bloom;
mod fingerprints;
mod hostile;
mod log;
mod records;
mod rows;
mod snapshot;
mod sorted;
mod whole;
