//! What was measured of an index after it was built: kept beside its files, in the manifest's entry of the segment.
//!
//! `{"calibration": {"<slot>": [[probes, gap, recall@10, recall@100, gap, recall@10, recall@100], ..]}}`: by gap, and by border, which
//! versions before didn't measure. `{"unlike": {"<slot>": key}}`: beyond which near clusters are those of a query that is unlike these.

use ramlet_format::manifest::SegmentEntry;
use ramlet_index::ivf::{Calibration, CalibrationPoint, Reached};
use serde_json::Value;

const CALIBRATION: &str = "calibration";
const UNLIKE: &str = "unlike";

/// Keeps a measurement with the segment.
pub fn note_calibration(extra: &mut Value, slot: u16, measured: &Calibration) {
    let all = measured.points.iter().map(
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
    extra[UNLIKE][slot.to_string()] = measured.far.into();
}

/// Of a vector that is dropped.
pub fn forget_calibration(extra: &mut Value, slot: u16) {
    for kept in [CALIBRATION, UNLIKE] {
        if let Some(all) = extra.get_mut(kept).and_then(Value::as_object_mut) {
            all.remove(&slot.to_string());
        }
    }
}

/// The measurement that was kept; one without points if there is none, or if it isn't one.
pub fn calibration_of(entry: &SegmentEntry, slot: u16) -> Calibration {
    let kept = |what: &str| entry.extra.get(what).and_then(|all| all.get(slot.to_string()));
    let far = kept(UNLIKE).and_then(Value::as_f64);
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
    let points = kept(CALIBRATION)
        .and_then(Value::as_array)
        .map(|points| points.iter().map(point));
    let unknown = Calibration::default();
    Calibration {
        points: points.and_then(Iterator::collect).unwrap_or_default(),
        far: far.map_or(unknown.far, |far| far as f32),
        ..unknown
    }
}
