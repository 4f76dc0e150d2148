//! Search settings of a collection's vectors: index, codes, and placement of their parts.
//!
//! They are kept as they came ([`crate::CollectionConfig::other`], [`crate::VectorParams::other`]) and shown so; here they
//! get their types. A vector's own setting goes before the collection's.

mod expiry;
mod hnsw;
mod placement;
mod quantization;
mod strict_mode;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use expiry::{Expiry, ExpiryAsOf};
pub use hnsw::HnswConfig;
pub use placement::Placement;
pub use quantization::{
    BinaryEncoding, BinaryQuantization, BinaryQueryEncoding, CodeSpec, Compression, ProductQuantization,
    Quantization, ScalarQuantization, ScalarType, TurboBits, TurboQuantization, codes_wanted,
};
pub use strict_mode::{MultivectorLimit, SparseLimit, StrictMode};

/// Which index a vector gets: own addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexKind {
    /// What the planner finds faster in the memory there is.
    #[default]
    Auto,
    Ivf,
    Hnsw,
}

/// The settings of one vector, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct VectorSettings {
    pub index: IndexKind,
    /// Recall among the nearest that searches aim at; `None`: the engine's default.
    pub recall: Option<f32>,
    /// `None`: the engine chooses codes by the room there is.
    pub quantization: Option<Quantization>,
    pub hnsw: HnswConfig,
    /// Where the vectors themselves lie; `None`: where there is room.
    pub rows: Option<Placement>,
    /// Where their codes lie; `None`: in RAM where there is room.
    pub codes: Option<Placement>,
    /// Where the graph lies; `None`: in RAM where there is room.
    pub graph: Option<Placement>,
}

/// The keys of the settings, in a collection's and a vector's `other`.
pub mod key {
    pub const HNSW: &str = "hnsw_config";
    pub const QUANTIZATION: &str = "quantization_config";
    pub const MEMORY: &str = "memory";
    pub const STRICT: &str = "strict_mode_config";
    /// Own additions: the API's answer has no place for them among the parameters of a vector.
    pub const INDEX: &str = "index";
    pub const RECALL: &str = "recall";
}

impl VectorSettings {
    /// Of a vector with `own` settings, in a collection with settings `shared`.
    ///
    /// Fails on what no settings can be; says which and why.
    pub fn resolve(
        own: &BTreeMap<String, Value>,
        on_disk: Option<bool>,
        shared: &BTreeMap<String, Value>,
    ) -> Result<VectorSettings, String> {
        let quantization: Option<Quantization> =
            get(own, key::QUANTIZATION)?.or(get(shared, key::QUANTIZATION)?);
        let hnsw = get::<HnswConfig>(own, key::HNSW)?
            .unwrap_or_default()
            .or(get::<HnswConfig>(shared, key::HNSW)?.unwrap_or_default());
        let recall: Option<f32> = get(own, key::RECALL)?.or(get(shared, key::RECALL)?);
        if let Some(recall) = recall {
            check_recall(recall)?;
        }
        let of_disk = |on_disk: bool| match on_disk {
            true => Placement::Cold,
            false => Placement::Cached,
        };
        Ok(VectorSettings {
            index: get(own, key::INDEX)?
                .or(get(shared, key::INDEX)?)
                .unwrap_or_default(),
            recall,
            quantization,
            hnsw,
            rows: get(own, key::MEMORY)?.or(on_disk.map(of_disk)),
            codes: quantization.as_ref().and_then(Quantization::placement),
            graph: hnsw.memory.or(hnsw.on_disk.map(of_disk)),
        })
    }

    /// Whether the vectors themselves may be kept in RAM when there is room.
    pub fn may_cache_rows(&self) -> bool {
        self.rows != Some(Placement::Cold)
    }

    /// Whether codes may be kept in RAM when there is room.
    pub fn may_cache_codes(&self) -> bool {
        self.codes != Some(Placement::Cold)
    }
}

/// Refuses what is no recall to aim at.
pub fn check_recall(recall: f32) -> Result<(), String> {
    match recall > 0.0 && recall < 1.0 {
        true => Ok(()),
        false => Err(format!("value {recall} invalid, must be above 0 and below 1")),
    }
}

fn get<T: DeserializeOwned>(settings: &BTreeMap<String, Value>, key: &str) -> Result<Option<T>, String> {
    match settings.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => T::deserialize(value).map(Some).map_err(|e| format!("{key}: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(own: &str, on_disk: Option<bool>, shared: &str) -> Result<VectorSettings, String> {
        let map = |text: &str| serde_json::from_str(text).expect("an object");
        VectorSettings::resolve(&map(own), on_disk, &map(shared))
    }

    #[test]
    fn own_settings_go_before_the_collections() {
        let none = settings("{}", None, "{}").unwrap();
        assert_eq!(none, VectorSettings::default());
        assert!(none.may_cache_rows() && none.may_cache_codes());
        let shared = r#"{"quantization_config":{"scalar":{"type":"int8","always_ram":true}},"recall":0.9,
            "hnsw_config":{"m":8,"ef_construct":50,"on_disk":true},"index":"hnsw"}"#;
        let all = settings("{}", None, shared).unwrap();
        assert_eq!(
            (all.codes, all.graph),
            (Some(Placement::Pinned), Some(Placement::Cold))
        );
        assert_eq!((all.index, all.recall), (IndexKind::Hnsw, Some(0.9)));
        let own = r#"{"quantization_config":{"binary":{"memory":"cold"}},"recall":0.99,"hnsw_config":{"m":32},
            "index":"ivf","memory":"cold"}"#;
        let one = settings(own, Some(false), shared).unwrap();
        assert!(matches!(one.quantization, Some(Quantization::Binary(_))));
        assert_eq!((one.hnsw.m, one.hnsw.ef_construct), (Some(32), Some(50)));
        assert_eq!(
            (one.rows, one.codes),
            (Some(Placement::Cold), Some(Placement::Cold))
        );
        assert_eq!((one.index, one.recall), (IndexKind::Ivf, Some(0.99)));
        assert!(!one.may_cache_rows() && !one.may_cache_codes());
        assert!(!settings("{}", Some(true), "{}").unwrap().may_cache_rows());
    }

    #[test]
    fn wrong_settings_name_their_key() {
        for (own, part) in [
            (r#"{"recall":1.0}"#, "above 0 and below 1"),
            (r#"{"recall":"high"}"#, "recall"),
            (r#"{"index":"tree"}"#, "index"),
            (r#"{"quantization_config":{"wavelet":{}}}"#, "quantization_config"),
            (r#"{"hnsw_config":{"m":-1}}"#, "hnsw_config"),
            (r#"{"memory":"warm"}"#, "memory"),
        ] {
            let e = settings(own, None, "{}").unwrap_err();
            assert!(e.contains(part), "{own}: {e}");
        }
    }
}
