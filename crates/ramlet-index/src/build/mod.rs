//! Shared by all builds: the rows' source, temporary files, progress, random choices.

pub mod progress;
pub mod random;
pub mod source;
pub mod temporary;
