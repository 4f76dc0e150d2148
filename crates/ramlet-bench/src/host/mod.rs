//! The machine under a measurement: control groups, the server in them, the disk, and the guard that cleans up.

pub mod cgroup;
pub mod guard;
pub mod probe;
pub mod server;
