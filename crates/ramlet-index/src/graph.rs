//! The graph index: every vector is a node on disk that carries its neighbours' codes, so that nothing per vector
//! need be in RAM.
//!
//! A search walks from node to node towards the query. A node's block holds its vector (scored exactly when the block
//! is read) and up to 192 neighbours with 4-bit codes of their vectors, by which the walk decides what to read next:
//! one read per node visited, none per neighbour looked at. RAM holds a sample of the nodes, by whose codes a walk
//! begins.
//!
//! Three files: nodes; each segment row's node; what is held in RAM ([`meta`]). Nodes stand in the order of clusters
//! (an inverted file is built first and thrown away), so that neighbours' numbers lie near each other.
//!
//! Subramanya et al., "DiskANN" (2019) for the pruning and for graphs on disk; Malkov and Yashunin, "HNSW" (2016).

mod build;
mod search;

mod braided;
mod calibrate;
mod candidates;
mod clusters;
mod code;
mod inlined;
mod layout;
mod leaders;
mod links;
mod meta;
mod pairs;
mod pool;
mod prune;
mod ram;
mod reach;
mod spread;
mod temporary;
mod walk;
mod write;

pub use build::{GraphBuilt, GraphFiles, GraphParams, build_graph, scratch_least};
pub use calibrate::{GraphCalibration, GraphPoint};
pub use layout::{DEGREE_MAX, GraphBytes, bytes_for, degree_for};
pub use ram::{GraphInRam, RamForm};
pub use search::Graph;
pub(crate) use walk::GraphLists;
