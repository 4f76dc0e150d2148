//! `hnsw_config`: how a graph is built, and when none is used.

use serde::{Deserialize, Serialize};

use super::Placement;

/// The API's `HnswConfigDiff`: what isn't set is the engine's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HnswConfig {
    /// Edges of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub m: Option<usize>,
    /// Neighbours looked at while a node is linked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ef_construct: Option<usize>,
    /// kB of matching vectors up to which a filtered search compares all of them.
    #[serde(
        default,
        alias = "full_scan_threshold_kb",
        skip_serializing_if = "Option::is_none"
    )]
    pub full_scan_threshold: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_indexing_threads: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_disk: Option<bool>,
    /// Goes before `on_disk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Placement>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_m: Option<usize>,
    /// Codes of a node's neighbours beside their numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline_storage: Option<bool>,
}

/// Least values that the API takes.
const EF_CONSTRUCT_MIN: usize = 4;
const FULL_SCAN_KB_MIN: usize = 10;

impl HnswConfig {
    /// These settings, and those of `base` where there are none.
    pub fn or(self, base: HnswConfig) -> HnswConfig {
        HnswConfig {
            m: self.m.or(base.m),
            ef_construct: self.ef_construct.or(base.ef_construct),
            full_scan_threshold: self.full_scan_threshold.or(base.full_scan_threshold),
            max_indexing_threads: self.max_indexing_threads.or(base.max_indexing_threads),
            on_disk: self.on_disk.or(base.on_disk),
            memory: self.memory.or(base.memory),
            payload_m: self.payload_m.or(base.payload_m),
            inline_storage: self.inline_storage.or(base.inline_storage),
        }
    }

    /// The field that is out of its range, and what is wrong with it.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let least = [
            ("ef_construct", self.ef_construct, EF_CONSTRUCT_MIN),
            ("full_scan_threshold", self.full_scan_threshold, FULL_SCAN_KB_MIN),
        ];
        match least
            .into_iter()
            .find(|(_, value, least)| value.is_some_and(|v| v < *least))
        {
            None => Ok(()),
            Some((field, value, least)) => Err((
                field,
                format!("value {} invalid, must be {least} or larger", value.unwrap_or(0)),
            )),
        }
    }
}
