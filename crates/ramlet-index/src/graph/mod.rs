//! The graph index: every vector is a node on disk with its neighbours' codes, so that nothing per vector need be in RAM.
//!
//! A search goes from node to node towards the query. A node's block holds its vector (scored exactly when the block
//! is read) and up to 192 neighbours with 4-bit codes of their vectors, by which the beam search decides what to read next:
//! one read per node visited, none per neighbour looked at. RAM holds a sample of the nodes, by whose codes a beam search
//! begins.
//!
//! Three files: nodes; each segment row's node; what is resident ([`meta`]). Nodes stand in the order of clusters
//! (an inverted file is built first and thrown away), so that neighbours' numbers lie near each other.
//!
//! Subramanya et al., "DiskANN" (2019) for the pruning and for graphs on disk; Malkov and Yashunin, "HNSW" (2016).

mod build;
mod built_from;
mod disk_graph;
mod search;

mod beam_search;
mod calibrate;
mod candidates;
mod clusters;
mod code;
mod compared;
mod expected;
mod inlined;
mod interleaved;
mod layout;
mod leaders;
mod links;
mod meta;
mod pairs;
mod prune;
mod ram;
mod reachability;
mod search_list;
mod sizes;
mod spread;
mod stored;
mod write;

pub use build::{GraphBuilt, build_graph, scratch_least};
pub use built_from::{GraphFiles, GraphParams};
pub use disk_graph::Graph;
pub use expected::{GraphCalibration, GraphPoint};
pub use layout::{DEGREE_MAX, degree_for};
pub use ram::{GraphInRam, RamForm};
pub use sizes::{GraphBytes, bytes_for};
