//! Progress of a build.

use std::fmt;

/// A part of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// First pass over the source: rows for the sample are chosen.
    Sample,
    /// Centroids are computed from the sample.
    Train,
    /// Second pass: every row gets its cluster.
    Assign,
    /// Third pass: rows go to buckets on disk.
    Distribute,
    /// Buckets are sorted and written, rows coded.
    Write,
    /// Of a graph, whose rows have been put in the order of clusters by then: rows are compared within clusters that overlap.
    Compare,
    /// Neighbours are chosen.
    Choose,
    /// Codes are joined to the neighbours.
    Inline,
    /// Nodes are written.
    Nodes,
}

impl Phase {
    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Sample => "sample",
            Phase::Train => "train",
            Phase::Assign => "assign",
            Phase::Distribute => "distribute",
            Phase::Write => "write",
            Phase::Compare => "compare",
            Phase::Choose => "choose",
            Phase::Inline => "inline",
            Phase::Nodes => "nodes",
        }
    }
}

/// Hears how far a build is: the phase, how much of it is done, and how much there is. Phases come in order, `done`
/// ascends; it is called at most a few hundred times.
#[derive(Clone, Copy, Default)]
pub struct Progress<'p>(pub Option<&'p dyn Fn(Phase, u64, u64)>);

impl Progress<'_> {
    pub(crate) fn report(self, phase: Phase, done: u64, total: u64) {
        if let Some(hear) = self.0 {
            hear(phase, done, total);
        }
    }

    /// Reports every hundredth of the way.
    pub(crate) fn advance(self, phase: Phase, before: u64, done: u64, total: u64) {
        let part = |done: u64| done * 100 / total.max(1);
        if part(before) != part(done) || done == total {
            self.report(phase, done, total);
        }
    }
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Progress({})",
            if self.0.is_some() { "heard" } else { "unheard" }
        )
    }
}
