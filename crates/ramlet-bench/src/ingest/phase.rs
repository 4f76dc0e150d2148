//! The phases of an ingest.

use serde::Serialize;

/// What the server is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Nothing yet.
    Start,
    /// Points are sent.
    Load,
    /// Until all of them are indexed.
    Index,
    /// Until the server is green: nothing is left to be merged.
    Merge,
    /// Points are deleted.
    Delete,
    /// Until it is green again.
    Compact,
    /// The collection is removed.
    Release,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Start => "start",
            Phase::Load => "load",
            Phase::Index => "index",
            Phase::Merge => "merge",
            Phase::Delete => "delete",
            Phase::Compact => "compact",
            Phase::Release => "release",
        }
    }
}
