//! The bytes of a graph, for planning.

use ramlet_format::PAGE;
use ramlet_format::rows::file_bytes;

use super::beam_search::lists_bytes;
use super::layout::NodeLayout;
use super::meta;
use crate::Element;

/// What a graph takes, for planning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphBytes {
    /// Files of nodes, positions and meta.
    pub disk: u64,
    /// Resident: the meta, with entry points.
    pub ram: u64,
    /// What one search thread holds besides: its lists, and a buffer for `width` nodes.
    pub thread: u64,
    /// One read.
    pub read: u64,
    /// Neighbours that a node really has room for.
    pub degree: u32,
}

/// The bytes of a graph of `rows` vectors with at most `degree` neighbours each.
pub fn bytes_for(rows: u64, dims: usize, element: Element, degree: usize, width: usize) -> GraphBytes {
    let narrow = u32::try_from(rows).unwrap_or(u32::MAX);
    let layout = NodeLayout::choose(element, dims, narrow, degree);
    let row_bytes = layout.row_bytes();
    let read = (row_bytes + 4).next_multiple_of(PAGE) as u64;
    let ram = meta::file_bytes(meta::entries_for(narrow), dims) as u64;
    GraphBytes {
        disk: file_bytes(rows, row_bytes as u32) + file_bytes(rows, 4) + ram,
        ram,
        thread: (lists_bytes(dims) as u64) + read * width as u64,
        read,
        degree: layout.degree as u32,
    }
}
