//! What `ramlet serve` does around the server: log, panics, descriptors, the service manager, snapshots, the machine's profile.

pub mod descriptors;
pub mod log_lines;
pub mod panics;
pub mod profile;
pub mod redirect;
pub mod snapshots;
pub mod supervisor;
