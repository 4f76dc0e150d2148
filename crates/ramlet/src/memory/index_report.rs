//! How each segment's vectors are indexed and where their parts are, for `/collections/{name}/memory`.

use ramlet_index::{IndexReport, PartUse};

use crate::read::view::View;
use crate::segment::VectorColumn;

/// One segment.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentReport {
    pub segment: u64,
    pub rows: u32,
    pub deleted: u32,
    pub vectors: Vec<VectorReport>,
}

/// One vector of a segment.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorReport {
    pub vector: String,
    /// "flat", "ivf", "hnsw".
    pub index: &'static str,
    pub rows: u32,
    pub report: IndexReport,
}

/// Every segment of a view; clusters and calibration as they were built.
pub fn of(view: &View) -> Vec<SegmentReport> {
    view.segments
        .iter()
        .map(|s| {
            let vectors = s.segment.columns().map(|column| VectorReport {
                vector: view
                    .schema
                    .vectors
                    .iter()
                    .find(|v| v.slot == column.slot)
                    .map_or_else(String::new, |v| v.name.clone()),
                index: column.index.kind(),
                rows: column.index.rows(),
                report: described(column),
            });
            SegmentReport {
                segment: s.segment.id(),
                rows: s.segment.rows(),
                deleted: s.deletes.len(),
                vectors: vectors.collect(),
            }
        })
        .collect()
}

/// The index, with what of it was put into RAM.
fn described(column: &VectorColumn) -> IndexReport {
    let mut report = column.index.report();
    for cached in column.cached_files() {
        match report.parts.iter_mut().find(|part| part.name == cached.kind()) {
            Some(part) => part.pinned_bytes += cached.bytes(),
            None => report.parts.push(PartUse {
                name: cached.kind(),
                heap_bytes: 0,
                pinned_bytes: cached.bytes(),
                disk_bytes: cached.bytes_whole(),
            }),
        }
    }
    report
}
