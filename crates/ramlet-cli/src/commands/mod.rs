//! The commands, one a file, and what several of them print or ask.

pub mod check_directory;
pub mod explain;
pub mod health;
pub mod machine;
pub mod plan;
pub mod salvage;
pub mod samples;
pub mod search;
pub mod snapshot_commands;
pub mod stairs;
pub mod text_schema;
pub mod top;
