//! Bytes of each component, on disk and in RAM. Formulas are beside the formats; those that aren't public there are here.

use ramlet_format::rows::RowsLayout;
use ramlet_index::{CodeKind, graph};

use super::spec::Spec;
use crate::schema::element;

const PAGE: u64 = 4096;
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
    /// Sub-quantizers of 4 bits: one for every two dimensions, or as many as there is room for.
    /// With the rows' numbers, where there is room for these too.
    Product { subquantizers: u64, row_ids: bool },
}

/// Bytes of all points' codes: in RAM, and of the file.
pub fn codes(spec: &Spec, kind: CodeKind) -> [u64; 2] {
    let (rows, dims) = (spec.segment_rows(), spec.dims as usize);
    // More points than a segment has make further ones.
    let of_all = |bytes: u64| {
        let all = u128::from(bytes) * u128::from(spec.points) / u128::from(rows.max(1));
        u64::try_from(all).unwrap_or(u64::MAX)
    };
    let file = kind.layout(dims, rows).data_pages(kind.file_rows(rows).into()) * PAGE;
    [kind.bytes_for(rows, dims, rows), file].map(of_all)
}

/// Pages of one read of SQ8 rows.
pub fn sq8_pages(spec: &Spec) -> u64 {
    CodeKind::Sq8.layout(spec.dims as usize, 0).block_pages().into()
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

/// The same with the filter of ids, which stays where metadata have room.
pub fn ids_held(rows: u64) -> u64 {
    ids_ram(rows) + rows * 5 / 4
}

pub fn payload(rows: u64, bytes: u64) -> u64 {
    match bytes {
        0 => 0,
        bytes => (rows * (bytes + RECORD_BYTES)).next_multiple_of(PAGE),
    }
}

/// Vectors without an index in RAM: without row numbers, and nothing between them.
pub fn flat_ram(spec: &Spec) -> u64 {
    spec.points * spec.row_bytes()
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
