//! `strict_mode_config`: requests that a collection refuses although the engine could run them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Limits of a collection, in force while `enabled` is true. Unset means no limit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StrictMode {
    pub enabled: Option<bool>,
    pub max_query_limit: Option<u64>,
    /// Seconds.
    pub max_timeout: Option<u64>,
    pub unindexed_filtering_retrieve: Option<bool>,
    pub unindexed_filtering_update: Option<bool>,
    pub search_max_hnsw_ef: Option<u64>,
    pub search_allow_exact: Option<bool>,
    pub search_max_oversampling: Option<f64>,
    pub upsert_max_batchsize: Option<u64>,
    pub search_max_batchsize: Option<u64>,
    pub max_collection_vector_size_bytes: Option<u64>,
    /// Operations a minute.
    pub read_rate_limit: Option<u64>,
    pub write_rate_limit: Option<u64>,
    pub max_collection_payload_size_bytes: Option<u64>,
    pub max_points_count: Option<u64>,
    pub filter_max_conditions: Option<u64>,
    pub condition_max_size: Option<u64>,
    /// By vector name.
    pub multivector_config: Option<BTreeMap<String, MultivectorLimit>>,
    pub sparse_config: Option<BTreeMap<String, SparseLimit>>,
    pub max_payload_index_count: Option<u64>,
    /// Of the memory that the process may have; deprecated by the API for its quotas.
    pub max_resident_memory_percent: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MultivectorLimit {
    pub max_vectors: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SparseLimit {
    pub max_length: Option<u64>,
}

impl StrictMode {
    /// The field that is out of its range, and how.
    pub fn check(&self) -> Result<(), (String, String)> {
        let at_least_one = [
            ("max_query_limit", self.max_query_limit),
            ("max_timeout", self.max_timeout),
            ("read_rate_limit", self.read_rate_limit),
            ("write_rate_limit", self.write_rate_limit),
            ("max_points_count", self.max_points_count),
        ];
        for (field, value) in at_least_one {
            least(field.to_owned(), value, 1)?;
        }
        for (name, limit) in self.multivector_config.iter().flatten() {
            least(
                format!("multivector_config.{name}.max_vectors"),
                limit.max_vectors,
                1,
            )?;
        }
        for (name, limit) in self.sparse_config.iter().flatten() {
            least(format!("sparse_config.{name}.max_length"), limit.max_length, 1)?;
        }
        match self.max_resident_memory_percent {
            Some(percent) if !(1..=100).contains(&percent) => Err((
                "max_resident_memory_percent".to_owned(),
                format!("value {percent} invalid, must be from 1 to 100"),
            )),
            _ => Ok(()),
        }
    }
}

fn least(field: String, value: Option<u64>, least: u64) -> Result<(), (String, String)> {
    match value {
        Some(n) if n < least => Err((field, format!("value {n} invalid, must be {least} or larger"))),
        _ => Ok(()),
    }
}
