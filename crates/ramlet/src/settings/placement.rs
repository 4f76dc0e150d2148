//! Placement of a component's bytes: RAM or disk.

use serde::{Deserialize, Serialize};

/// The API's `memory` of a component. Its data is on disk whatever this says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Read when needed, never kept on purpose.
    Cold,
    /// In RAM while nothing more useful needs the room.
    Cached,
    /// In RAM always.
    Pinned,
}
