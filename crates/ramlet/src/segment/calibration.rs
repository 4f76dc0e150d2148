//! Measurements of an index after its build, stored in the segment's entry of the manifest.
//!
//! `{"calibration": {"<slot>": [[probes, probe threshold, recall@10, recall@100, probe threshold, recall@10, recall@100, super-centroids], ..]}}`: by probe threshold, and by k-th distance,
//! and how many super-centroids' clusters are ranked. `{"unlike": {"<slot>": distance}}`: beyond which a query is out of distribution.
//! `{"lost": {"<slot>": times}}`: how many times the neighbours that searches should lose by that are lost by the queries that were asked;
//! of a segment that others were merged into what these say: `{"asked": {"<slot>": times}}`, where that was measured, how many times as many
//! are lost by these queries as by rows where nothing but the build measured what to visit.

use ramlet_format::manifest::SegmentEntry;
use ramlet_index::{Calibration, CalibrationPoint, Reached};
use serde_json::Value;

const CALIBRATION: &str = "calibration";
const OUT_OF_DISTRIBUTION: &str = "unlike";
const LOST: &str = "lost";
const ASKED: &str = "asked";

/// Keeps a measurement with the segment.
pub fn note_calibration(extra: &mut Value, slot: u16, measured: &Calibration) {
    let all = measured.points.iter().map(
        |CalibrationPoint {
             probes,
             super_centroids,
             by_threshold,
             by_kth_distance,
         }| {
            let (a, b) = (by_threshold, by_kth_distance);
            serde_json::json!([
                probes,
                a.threshold,
                a.recall_10,
                a.recall_100,
                b.threshold,
                b.recall_10,
                b.recall_100,
                super_centroids
            ])
        },
    );
    extra[CALIBRATION][slot.to_string()] = all.collect();
    extra[OUT_OF_DISTRIBUTION][slot.to_string()] = measured.far.into();
}

/// Keeps how many neighbours queries lose: here, and in a segment that this one is merged into.
pub fn note_sampled(extra: &mut Value, slot: u16, lost: f32, merged: f32) {
    extra[LOST][slot.to_string()] = lost.into();
    extra[ASKED][slot.to_string()] = merged.into();
}

/// Whether that was measured.
pub fn was_sampled(entry: &SegmentEntry, slot: u16) -> bool {
    let known = entry.extra.get(ASKED);
    known.is_some_and(|known| known.get(slot.to_string()).is_some())
}

/// What is thought of the queries on a segment that these are merged into: they lose what they lost before.
pub fn inherit_lost<'e>(extra: &mut Value, merged: impl Iterator<Item = &'e SegmentEntry>) {
    for entry in merged {
        let of_slots = entry.extra.get(ASKED).or(entry.extra.get(LOST));
        let of_slots = of_slots.and_then(Value::as_object);
        for (slot, lost) in of_slots.into_iter().flatten() {
            let before = extra.get(LOST).and_then(|all| all.get(slot)?.as_f64());
            if before.is_none_or(|before| lost.as_f64().is_some_and(|lost| lost > before)) {
                extra[LOST][slot] = lost.clone();
            }
        }
    }
}

/// Of a vector that is dropped.
pub fn forget_calibration(extra: &mut Value, slot: u16) {
    for kept in [CALIBRATION, OUT_OF_DISTRIBUTION, LOST, ASKED] {
        if let Some(all) = extra.get_mut(kept).and_then(Value::as_object_mut) {
            all.remove(&slot.to_string());
        }
    }
}

/// The measurement that was kept; one without points if there is none, or if it isn't one.
pub fn calibration_of(entry: &SegmentEntry, slot: u16) -> Calibration {
    let kept = |what: &str| entry.extra.get(what).and_then(|all| all.get(slot.to_string()));
    let number = |what: &str| kept(what).and_then(Value::as_f64).map(|number| number as f32);
    let reached = |value: &Value, at: usize| {
        Some(Reached {
            threshold: value.get(at)?.as_f64()? as f32,
            recall_10: value.get(at + 1)?.as_f64()? as f32,
            recall_100: value.get(at + 2)?.as_f64()? as f32,
        })
    };
    let point = |value: &Value| {
        Some(CalibrationPoint {
            probes: u32::try_from(value.get(0)?.as_u64()?).ok()?,
            super_centroids: u32::try_from(value.get(7)?.as_u64()?).ok()?,
            by_threshold: reached(value, 1)?,
            by_kth_distance: reached(value, 4)?,
        })
    };
    let points = kept(CALIBRATION)
        .and_then(Value::as_array)
        .map(|points| points.iter().map(point));
    let unknown = Calibration::default();
    Calibration {
        points: points.and_then(Iterator::collect).unwrap_or_default(),
        far: number(OUT_OF_DISTRIBUTION).unwrap_or(unknown.far),
        lost: number(LOST).unwrap_or(unknown.lost),
        ..unknown
    }
}
