//! Bytes of each component, on disk and in RAM. The formulas stand beside the formats; what isn't public there stands
//! here, and only here.

use ramlet_format::rows::RowsLayout;
use ramlet_index::{CodeKind, graph};

use super::spec::Spec;
use crate::schema::element;
use crate::types::Distance;

const PAGE: u64 = 4096;
/// Rows of a group of codes.
const GROUP: u64 = 32;
/// Clusters hold so many rows at least.
const ROWS_PER_CLUSTER_MIN: u64 = 128;
/// A row's id and version, as the segment has them.
const ROW_ID_BYTES: u64 = 24;
/// Rows of one segment at most; more make further segments.
pub const SEGMENT_ROWS_MAX: u64 = 1 << 31;
/// Payload blocks carry headers and checksums.
const RECORD_BYTES: u64 = 6;

/// Bits a dimension of the codes of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codes {
    /// 1 bit, and `bits` in all where there are finer ones.
    Signs { bits: u64 },
    /// Digits of 4 bits: one for every two dimensions, or as many as there is room for.
    Product { digits: u64 },
    /// The same with rows' numbers, which are as many as there is room for.
    Numbered { digits: u64 },
}

/// Clusters of so many rows, with enough scratch for their build.
pub fn clusters(rows: u64) -> u64 {
    (8 * rows.isqrt()).min(rows / ROWS_PER_CLUSTER_MIN).max(1)
}

/// Clusters of a cell, which so many clusters have but under Manhattan (docs/adr/0047).
const CELL: u64 = 16;
const CELLS_FROM: u64 = 1_024;

/// Cells that are ranked before clusters are.
pub fn cells(clusters: u64, metric: Distance) -> u64 {
    match clusters >= CELLS_FROM && metric != Distance::Manhattan {
        true => clusters.div_ceil(CELL),
        false => 0,
    }
}

/// Centroids in RAM: int8, scale and square of each, its range of rows; and cells.
pub fn centroids(clusters: u64, metric: Distance, dims: u64) -> u64 {
    clusters * (dims + 8 + 4) + cells(clusters, metric) * (dims + 8) + dims * 4
}

/// Signs in groups of 32 rows, two factors, row number.
pub fn coarse(rows: u64, dims: u64) -> u64 {
    let id = if rows < 1 << 24 { 3 } else { 4 };
    rows.div_ceil(GROUP) * (dims.div_ceil(4) * 16 + GROUP * (4 + id))
}

/// Planes behind the sign, and a factor.
pub fn fine(rows: u64, dims: u64, bits: u64) -> u64 {
    rows * ((bits - 1) * dims.div_ceil(8) + 2)
}

/// What fine codes of so many bits leave over, and three factors; none of vectors that hardly take more themselves.
pub fn rest(spec: &Spec) -> Option<u64> {
    let (dims, fine) = (spec.dims as usize, CodeKind::fine(spec.dims as usize));
    let CodeKind::Fine { bits } = fine else {
        return None;
    };
    let row = CodeKind::rest(dims, bits).row_bytes(dims, 0) as u64;
    (spec.row_bytes() > 2 * row).then_some(spec.points * row)
}

/// The file of compact rows, and pages of one read; `None`: vectors take hardly more.
pub fn compact(spec: &Spec) -> Option<(u64, u64)> {
    crate::layout::compact_is_worth_it(spec.row_bytes(), spec.dims).then(|| {
        let layout = CodeKind::Compact.layout(spec.dims as usize, 0);
        (
            layout.data_pages(spec.points) * PAGE,
            u64::from(layout.block_pages()),
        )
    })
}

/// Product codes of so many digits of 4 bits, in groups of 32 rows.
pub fn product(rows: u64, dims: u64, digits: u64) -> u64 {
    rows.div_ceil(GROUP) * GROUP / 2 * digits + dims * 16 * 4
}

/// The same with rows' numbers.
pub fn numbered(rows: u64, dims: u64, digits: u64) -> u64 {
    let id = if rows < 1 << 24 { 3 } else { 4 };
    product(rows, dims, digits) + rows.div_ceil(GROUP) * GROUP * id
}

/// A file of rows: whole blocks, with what they waste.
pub fn rows_file(rows: u64, row_bytes: u64) -> u64 {
    let layout = RowsLayout::for_row(u32::try_from(row_bytes.max(1)).unwrap_or(u32::MAX));
    rows.div_ceil(u64::from(layout.rows_per_block())) * u64::from(layout.block_pages()) * PAGE
}

/// Pages of one read of a row.
pub fn row_pages(row_bytes: u64) -> u64 {
    let layout = RowsLayout::for_row(u32::try_from(row_bytes.max(1)).unwrap_or(u32::MAX));
    u64::from(layout.block_pages())
}

/// Vectors in cluster order, each with its row number.
pub fn vectors(spec: &Spec) -> u64 {
    rows_file(spec.points, spec.row_bytes() + 4)
}

/// The same in RAM, where nothing is between the blocks' rows.
pub fn vectors_ram(spec: &Spec) -> u64 {
    spec.points * (spec.row_bytes() + 4)
}

/// Ids by row, rows by id, and the filter of ids.
pub fn ids_disk(rows: u64) -> u64 {
    // The table of ids holds about 14 bytes a point, the filter 1.25.
    rows_file(rows, ROW_ID_BYTES) + rows * 15
}

/// Ids and versions by row, packed into RAM where ids are numbers: nothing for those that count up, else the bits that
/// differ within 256 rows; a byte is what uploads of some threads at once leave.
pub fn ids_ram(rows: u64) -> u64 {
    rows.div_ceil(256) * 32 + rows
}

pub fn payload(rows: u64, bytes: u64) -> u64 {
    match bytes {
        0 => 0,
        bytes => (rows * (bytes + RECORD_BYTES)).next_multiple_of(PAGE),
    }
}

/// Scratch that building a graph takes at least.
pub fn graph_scratch(spec: &Spec) -> u64 {
    graph::scratch_least(element(spec.element), spec.dims as usize) as u64
}

/// Edges of a node in RAM, unless the settings say otherwise, and the bytes of each: gaps of 7 bits a byte.
pub const GRAPH_EDGES: u64 = 32;
const EDGE_BYTES: f64 = 2.2;

/// Edges, codes with their factors, and places of a graph in RAM.
pub fn graph_edges(spec: &Spec) -> u64 {
    let edges = GRAPH_EDGES.min(u64::from(graph_of(spec).degree)) as f64 * EDGE_BYTES;
    (spec.points as f64 * (edges + spec.dims.div_ceil(2) as f64 + 4.0 + 2.125)) as u64
}

/// The graph's own figures.
pub fn graph_of(spec: &Spec) -> graph::GraphBytes {
    let element = element(spec.element);
    let (rows, dims) = (spec.points.min(SEGMENT_ROWS_MAX), spec.dims as usize);
    let degree = graph::degree_for(rows, dims, element);
    graph::bytes_for(rows, dims, element, degree, 1)
}
