//! The inputs of a graph build.

use std::sync::Arc;

use ramlet_io::{ReadFile, WriteFile};

use crate::build::progress::Progress;
use crate::{Element, Metric};

/// What is built, and with what.
#[derive(Clone, Copy, Debug)]
pub struct GraphParams<'p> {
    pub metric: Metric,
    pub element: Element,
    pub dims: usize,
    /// Rows of the segment; each number that the source gives lies below.
    pub segment_rows: u32,
    /// Bytes that the build may hold at a time, about.
    pub scratch_bytes: usize,
    pub threads: usize,
    /// Equal seeds, rows and scratch give equal files, whatever the number of threads.
    pub seed: u64,
    /// Most neighbours of a node (the API's `M`, twice): 4 to [`crate::graph::DEGREE_MAX`]. Nodes may get fewer, to fit a block.
    pub degree: usize,
    /// Nearest rows among which neighbours are chosen first (the API's `ef_construct`): 16 to 512.
    pub candidates: usize,
    pub progress: Progress<'p>,
}

/// The files of the graph, created and later synced by the caller. The seeds are those of their blocks.
pub struct GraphFiles<'f> {
    /// Rows: one node each.
    pub nodes: &'f mut dyn WriteFile,
    pub nodes_seed: u64,
    /// Rows: the node (u32) of each segment row, or [`crate::NO_POSITION`].
    pub positions: &'f mut dyn WriteFile,
    pub positions_seed: u64,
    /// An envelope: entry points and calibration.
    pub meta: &'f mut dyn WriteFile,
    /// Open what was written and flushed of `nodes` and of `positions`, for the calibration.
    pub open_nodes: &'f dyn Fn() -> ramlet_io::Result<Arc<dyn ReadFile>>,
    pub open_positions: &'f dyn Fn() -> ramlet_io::Result<Arc<dyn ReadFile>>,
}
