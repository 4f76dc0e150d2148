//! The result of planning.

use serde::Serialize;

use super::cost::Speed;
use super::counts::Counts;
use super::spec::Spec;

/// How a collection would stand and how fast it would be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    pub spec: Spec,
    /// What was given; `None`: as much as all in RAM needs.
    pub memory_bytes: u64,
    pub search_threads: usize,
    pub cores: usize,
    #[serde(flatten)]
    pub chosen: Outcome,
    /// Bytes that data may take in this memory.
    pub room_bytes: u64,
    /// The staircase: every layout that is faster than all that need less memory, and what was chosen.
    pub steps: Vec<Step>,
    /// What the figures rest on, in sentences.
    pub assumptions: Vec<String>,
}

/// One layout and what it brings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    pub index: IndexKind,
    pub layout: Layout,
    pub components: Vec<ComponentPlan>,
    /// Of all components.
    pub ram_bytes: u64,
    pub disk_bytes: u64,
    /// The least `--memory` with which this layout fits.
    pub memory_bytes_min: u64,
    pub counts: Counts,
    pub reads_per_query: f64,
    /// Read in sequence beside them, where whole clusters or all rows are.
    pub scan_bytes_per_query: f64,
    #[serde(flatten)]
    pub speed: Speed,
    pub build_seconds: f64,
}

/// A layout on the staircase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// The least `--memory` that brings it.
    pub memory_bytes_min: u64,
    /// Whether it is what the plan is about.
    pub chosen: bool,
    pub index: IndexKind,
    pub layout: Layout,
    /// What of it is in RAM.
    pub in_ram: Vec<&'static str>,
    pub ram_bytes: u64,
    pub reads_per_query: f64,
    pub scan_bytes_per_query: f64,
    #[serde(flatten)]
    pub speed: Speed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexKind {
    Flat,
    Ivf,
    Hnsw,
}

/// What of the index is in RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Centroids or entry points; the rest is read.
    OnDisk,
    /// Codes of one bit a dimension.
    OneBit,
    /// Product codes.
    Product,
    /// Codes of some bits.
    ExtendedLow,
    /// Product codes that say which rows they are, with more sub-quantizers.
    ProductWithIds,
    /// Codes of many bits.
    Extended,
    /// Codes of many bits and what they leave over: nothing is read.
    Residual,
    /// A graph's edges and codes.
    Edges,
    /// The vectors, without codes.
    VectorsInRam,
    /// The vectors, and codes of one bit a dimension.
    VectorsAndOneBit,
    /// Codes of many bits, or a graph's edges, and the vectors.
    AllInRam,
}

/// Where a component is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentPlan {
    pub component: &'static str,
    pub place: Place,
    /// Fewer than `disk_bytes`: of the first rows alone.
    pub ram_bytes: u64,
    pub disk_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In RAM as well as on disk.
    Ram,
    Disk,
}

impl Outcome {
    pub fn in_ram(&self) -> Vec<&'static str> {
        let held = |c: &&ComponentPlan| c.place == Place::Ram && c.ram_bytes > 0;
        self.components.iter().filter(held).map(|c| c.component).collect()
    }

    /// As a step that so much memory brings.
    pub fn step(&self, memory_bytes_min: u64) -> Step {
        Step {
            memory_bytes_min,
            chosen: false,
            index: self.index,
            layout: self.layout,
            in_ram: self.in_ram(),
            ram_bytes: self.ram_bytes,
            reads_per_query: self.reads_per_query,
            scan_bytes_per_query: self.scan_bytes_per_query,
            speed: self.speed,
        }
    }
}
