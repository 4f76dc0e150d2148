//! What was measured of an index after it was built: kept beside its files, in the manifest's entry of the segment.
//!
//! `{"calibration": {"<slot>": [[probes, gap, recall@10, recall@100, gap, recall@10, recall@100], ..]}}`: by gap, and by border, which
//! versions before didn't measure.

use ramlet_format::manifest::SegmentEntry;
use ramlet_index::ivf::{CalibrationPoint, Reached};
use serde_json::Value;

const CALIBRATION: &str = "calibration";

/// Keeps a measurement with the segment.
pub fn note_calibration(extra: &mut Value, slot: u16, points: &[CalibrationPoint]) {
    let all = points.iter().map(
        |CalibrationPoint {
             probes,
             by_gap,
             by_border,
         }| {
            let (a, b) = (by_gap, by_border);
            serde_json::json!([
                probes,
                a.gap,
                a.recall_10,
                a.recall_100,
                b.gap,
                b.recall_10,
                b.recall_100
            ])
        },
    );
    extra[CALIBRATION][slot.to_string()] = all.collect();
}

/// Of a vector that is dropped.
pub fn forget_calibration(extra: &mut Value, slot: u16) {
    if let Some(all) = extra.get_mut(CALIBRATION).and_then(Value::as_object_mut) {
        all.remove(&slot.to_string());
    }
}

/// The measurement that was kept; none if there is none, or if it isn't one.
pub fn calibration_of(entry: &SegmentEntry, slot: u16) -> Vec<CalibrationPoint> {
    let kept = entry
        .extra
        .get(CALIBRATION)
        .and_then(|all| all.get(slot.to_string()));
    let reached = |value: &Value, at: usize| {
        Some(Reached {
            gap: value.get(at)?.as_f64()? as f32,
            recall_10: value.get(at + 1)?.as_f64()? as f32,
            recall_100: value.get(at + 2)?.as_f64()? as f32,
        })
    };
    let point = |value: &Value| {
        Some(CalibrationPoint {
            probes: u32::try_from(value.get(0)?.as_u64()?).ok()?,
            by_gap: reached(value, 1)?,
            by_border: reached(value, 4).unwrap_or(Reached::UNKNOWN),
        })
    };
    let points = kept
        .and_then(Value::as_array)
        .map(|points| points.iter().map(point));
    points.and_then(Iterator::collect).unwrap_or_default()
}
