//! Where a collection's bytes are, and how its vectors are indexed.

use ramlet::{Calibrated, Collection, ComponentMemory, MeasuredRecall, PartUse, SegmentReport, VectorReport};
use serde_json::{Value, json};

/// The `result` of `GET /collections/{name}/memory`.
pub fn memory_json(collection: &Collection) -> Value {
    let info = collection.info();
    let segments = collection.segment_reports();
    let measured = collection.measured_recall();
    json!({
        "points_count": info.points_count,
        "segments_count": info.segments_count,
        "disk_bytes": info.disk_bytes,
        "components": info.memory.iter().map(component_json).collect::<Vec<_>>(),
        "segments": segments.iter().map(segment_json).collect::<Vec<_>>(),
        "recall_measured": measured.iter().map(recall_json).collect::<Vec<_>>(),
    })
}

fn component_json(c: &ComponentMemory) -> Value {
    json!({
        "component": c.component,
        "kind": c.kind,
        "heap_bytes": c.heap_bytes,
        "pinned_bytes": c.pinned_bytes,
        "disk_bytes": c.disk_bytes,
    })
}

/// `drift`: the share of the rows that are gone since the index was built and calibrated on them.
fn segment_json(segment: &SegmentReport) -> Value {
    json!({
        "segment": segment.segment,
        "rows": segment.rows,
        "deleted": segment.deleted,
        "drift": f64::from(segment.deleted) / f64::from(segment.rows.max(1)),
        "vectors": segment.vectors.iter().map(vector_json).collect::<Vec<_>>(),
    })
}

fn vector_json(vector: &VectorReport) -> Value {
    json!({
        "vector": vector.vector,
        "index": vector.index,
        "rows": vector.rows,
        "clusters": vector.report.clusters,
        "parts": vector.report.parts.iter().map(part_json).collect::<Vec<_>>(),
        "calibration": vector.report.calibrated.iter().map(calibrated_json).collect::<Vec<_>>(),
    })
}

fn part_json(part: &PartUse) -> Value {
    let placement = match (part.heap_bytes + part.pinned_bytes, part.disk_bytes) {
        (0, _) => "disk",
        (ram, disk) if ram < disk => "partly in RAM",
        _ => "RAM",
    };
    json!({
        "part": part.name,
        "placement": placement,
        "heap_bytes": part.heap_bytes,
        "pinned_bytes": part.pinned_bytes,
        "disk_bytes": part.disk_bytes,
    })
}

fn calibrated_json(c: &Calibrated) -> Value {
    json!({ "recall": c.recall, "limit": c.wanted, "probes": c.probes, "epsilon": c.epsilon })
}

fn recall_json(m: &MeasuredRecall) -> Value {
    json!({ "vector": m.vector, "queries": m.queries, "recall": m.recall, "standard_error": m.error })
}
