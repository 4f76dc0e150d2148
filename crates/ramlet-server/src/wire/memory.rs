//! Where a collection's bytes are, and how its vectors are indexed.

use std::collections::BTreeMap;

use ramlet::{
    Calibrated, Collection, ComponentMemory, MeasuredRecall, PartUse, SegmentReport, VectorParams,
    VectorReport,
};
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
        "segments": segments.iter().map(|s| segment_json(s, &info.config.vectors)).collect::<Vec<_>>(),
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
fn segment_json(segment: &SegmentReport, params: &BTreeMap<String, VectorParams>) -> Value {
    json!({
        "segment": segment.segment,
        "rows": segment.rows,
        "deleted": segment.deleted,
        "drift": f64::from(segment.deleted) / f64::from(segment.rows.max(1)),
        "vectors": segment.vectors.iter().map(|v| vector_json(v, params.get(&v.vector))).collect::<Vec<_>>(),
    })
}

fn vector_json(vector: &VectorReport, params: Option<&VectorParams>) -> Value {
    let rows_bytes = params.and_then(|params| rows_bytes(vector, params));
    let part = |part| part_json(part, rows_bytes);
    json!({
        "vector": vector.vector,
        "index": vector.index,
        "rows": vector.rows,
        "clusters": vector.report.clusters,
        "parts": vector.report.parts.iter().map(part).collect::<Vec<_>>(),
        "calibration": vector.report.calibrated.iter().map(calibrated_json).collect::<Vec<_>>(),
    })
}

/// Bytes of all rows of a vector as they are pinned. Their file is larger: blocks have room to spare and a check each.
fn rows_bytes(vector: &VectorReport, params: &VectorParams) -> Option<u64> {
    // How many parts they have isn't known here.
    if params.multivector_config.is_some() {
        return None;
    }
    let number = if vector.index == "ivf" {
        ROW_NUMBER_BYTES
    } else {
        0
    };
    let row = params.size * params.datatype.unwrap_or_default().bytes() + number;
    Some(u64::from(vector.rows) * row as u64)
}

/// In cluster order each vector has its row's number beside it.
const ROW_NUMBER_BYTES: usize = 4;

fn part_json(part: &PartUse, rows_bytes: Option<u64>) -> Value {
    let whole = match part.name {
        "rows" => rows_bytes.unwrap_or(part.disk_bytes).min(part.disk_bytes),
        _ => part.disk_bytes,
    };
    let placement = match part.heap_bytes + part.pinned_bytes {
        0 => "disk",
        ram if ram < whole => "partly in RAM",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_in_ram_take_less_than_their_file() {
        let placed = |pinned_bytes, rows_bytes| {
            let part = PartUse {
                name: "rows",
                heap_bytes: 0,
                pinned_bytes,
                disk_bytes: 409_600,
            };
            part_json(&part, rows_bytes)["placement"].clone()
        };
        assert_eq!(placed(404_000, Some(404_000)), "RAM");
        assert_eq!(placed(404_000 - 4096, Some(404_000)), "partly in RAM");
        assert_eq!(placed(0, Some(404_000)), "disk");
        // How much there is to pin isn't known.
        assert_eq!(placed(404_000, None), "partly in RAM");
    }
}
