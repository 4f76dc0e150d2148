//! Words for what searches do and take.

use ramlet::SearchStage;

/// Waits below this need no words, microseconds.
pub const WAIT_US_MIN: u64 = 1_000;

pub fn stage_name(stage: SearchStage) -> &'static str {
    match stage {
        SearchStage::Filter => "filter",
        SearchStage::Centroids => "centroids",
        SearchStage::Positions => "positions",
        SearchStage::Codes => "codes",
        SearchStage::Rows => "rows",
        SearchStage::Lists => "lists",
        SearchStage::Payloads => "payloads",
        SearchStage::Other => "other",
    }
}

pub fn millis(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1e3)
}
