//! The parts of an index, described for people.

/// Bytes of one part of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartUse {
    /// "rows", "positions", "centroids", "codes", ...
    pub name: &'static str,
    /// Resident, of the index itself.
    pub heap_bytes: u64,
    /// Of its file, what is cached in RAM.
    pub pinned_bytes: u64,
    pub disk_bytes: u64,
}

/// What reaching a recall takes, as it was measured when the index was built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibrated {
    /// Recall among the `wanted` nearest.
    pub recall: f32,
    pub wanted: u32,
    /// Clusters visited.
    pub probes: u32,
    /// How far codes may be off before a row is passed over, in deviations; `None`: no codes are searched.
    pub epsilon: Option<f32>,
}

/// An index, described. Made on request, never on the way of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexReport {
    /// 0: there are none.
    pub clusters: u32,
    pub parts: Vec<PartUse>,
    pub calibrated: Vec<Calibrated>,
}

/// Recalls that a report tells the effort of.
pub(crate) const REPORTED: [f32; 5] = [0.8, 0.9, 0.95, 0.98, 0.99];
