//! A collection's settings coming in: create and change.
//!
//! Settings are checked for their types, kept and shown as they came; what the engine reads of them: `ramlet::settings`.

use std::collections::BTreeMap;

use ramlet::CollectionConfig;
use ramlet::settings::{Placement, StrictMode, key};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::has_value::HasValue;
use super::search_settings::SearchSettings;
use super::sparse::{WireSparseVectors, change_sparse, sparse_config};
use super::stored_settings::{merge, put};
use super::vector_params::{not_pinned, vectors_config};
use crate::error::{ApiError, ApiResult};

/// `PUT /collections/{name}`.
#[derive(Debug, Default, Deserialize)]
pub struct WireCreate {
    vectors: Option<Value>,
    sparse_vectors: Option<WireSparseVectors>,
    shard_number: Option<u32>,
    sharding_method: Option<String>,
    replication_factor: Option<u32>,
    write_consistency_factor: Option<u32>,
    on_disk_payload: Option<bool>,
    payload: Option<MemoryParams>,
    id_tracker: Option<MemoryParams>,
    #[serde(flatten)]
    search: SearchSettings,
    wal_config: Option<WalDiff>,
    optimizers_config: Option<OptimizersDiff>,
    strict_mode_config: Option<StrictMode>,
    metadata: Option<Map<String, Value>>,
    #[serde(default)]
    init_from: HasValue,
}

/// `PATCH /collections/{name}`.
#[derive(Debug, Default, Deserialize)]
pub struct WireUpdate {
    vectors: Option<BTreeMap<String, WireVectorDiff>>,
    optimizers_config: Option<OptimizersDiff>,
    params: Option<ParamsDiff>,
    #[serde(flatten)]
    search: SearchSettings,
    sparse_vectors: Option<WireSparseVectors>,
    strict_mode_config: Option<StrictMode>,
    metadata: Option<Map<String, Value>>,
}

/// `memory` of a component: where it should lie.
#[derive(Debug, Serialize, Deserialize)]
struct MemoryParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Placement>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ParamsDiff {
    #[serde(skip_serializing_if = "Option::is_none")]
    replication_factor: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_consistency_factor: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_fan_out_factor: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_fan_out_delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<MemoryParams>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_tracker: Option<MemoryParams>,
    #[serde(skip_serializing)]
    on_disk_payload: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WalDiff {
    #[serde(skip_serializing_if = "Option::is_none")]
    wal_capacity_mb: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wal_segments_ahead: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wal_retain_closed: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
struct OptimizersDiff {
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted_threshold: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vacuum_min_vector_number: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default_segment_number: Option<usize>,
    #[serde(alias = "max_segment_size_kb", skip_serializing_if = "Option::is_none")]
    max_segment_size: Option<usize>,
    #[serde(alias = "memmap_threshold_kb", skip_serializing_if = "Option::is_none")]
    memmap_threshold: Option<usize>,
    #[serde(alias = "indexing_threshold_kb", skip_serializing_if = "Option::is_none")]
    indexing_threshold: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flush_interval_sec: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_optimization_threads: Option<Threads>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prevent_unoptimized: Option<bool>,
}

/// A number of threads or "auto".
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "max_optimization_threads is a number or \"auto\"")]
enum Threads {
    Number(usize),
    Setting(Auto),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Auto {
    Auto,
}

#[derive(Debug, Deserialize)]
struct WireVectorDiff {
    #[serde(flatten)]
    search: SearchSettings,
    on_disk: Option<bool>,
    memory: Option<Placement>,
}

impl WireCreate {
    pub fn into_config(self) -> ApiResult<CollectionConfig> {
        self.init_from.refuse("`init_from`")?;
        match self.sharding_method.as_deref() {
            None | Some("auto" | "custom") => {}
            Some(other) => return Err(ApiError::format(format!("unknown sharding_method `{other}`"))),
        }
        let mut config = CollectionConfig {
            vectors: vectors_config(self.vectors)?,
            sparse_vectors: sparse_config(self.sparse_vectors)?,
            on_disk_payload: self.on_disk_payload,
            ..CollectionConfig::default()
        };
        for (key, number) in [
            ("shard_number", self.shard_number),
            ("replication_factor", self.replication_factor),
            ("write_consistency_factor", self.write_consistency_factor),
        ] {
            put_at_least_one(&mut config.other, key, number)?;
        }
        if let Some(custom) = self.sharding_method.filter(|method| method == "custom") {
            config.other.insert("sharding_method".to_owned(), custom.into());
        }
        not_pinned("payload.memory", self.payload.as_ref().and_then(|of| of.memory))?;
        put(&mut config.other, "payload", &self.payload)?;
        put(&mut config.other, "id_tracker", &self.id_tracker)?;
        if let Some(wal) = &self.wal_config {
            at_least("wal_config.wal_capacity_mb", wal.wal_capacity_mb, 1)?;
        }
        put(&mut config.other, "wal_config", &self.wal_config)?;
        put_strict(&mut config.other, self.strict_mode_config.as_ref())?;
        put(&mut config.other, "metadata", &self.metadata)?;
        put_optimizers(&mut config, &self.optimizers_config)?;
        self.search.put(&mut config.other, "")?;
        Ok(config)
    }
}

impl WireUpdate {
    /// Lays the changes over `config`.
    pub fn apply(&self, config: &mut CollectionConfig) -> ApiResult<()> {
        if let Some(sparse) = &self.sparse_vectors {
            change_sparse(sparse, config)?;
        }
        for (name, diff) in self.vectors.iter().flatten() {
            let params = config
                .vectors
                .get_mut(name)
                .ok_or_else(|| ApiError::wrong_input(format!("Not existing vector name error: {name}")))?;
            if diff.on_disk.is_some() {
                params.on_disk = diff.on_disk;
            }
            not_pinned(&format!("vectors.{name}.memory"), diff.memory)?;
            put(&mut params.other, key::MEMORY, &diff.memory)?;
            diff.search.put(&mut params.other, &format!("vectors.{name}."))?;
        }
        if let Some(params) = &self.params {
            let numbers = [
                ("replication_factor", params.replication_factor),
                ("write_consistency_factor", params.write_consistency_factor),
            ];
            for (field, number) in numbers {
                at_least(&format!("params.{field}"), number.map(|n| n as usize), 1)?;
            }
            config.on_disk_payload = params.on_disk_payload.or(config.on_disk_payload);
            for (key, value) in to_object(params)? {
                merge(&mut config.other, &key, value);
            }
        }
        put_strict(&mut config.other, self.strict_mode_config.as_ref())?;
        put(&mut config.other, "metadata", &self.metadata)?;
        put_optimizers(config, &self.optimizers_config)?;
        self.search.put(&mut config.other, "")
    }
}

fn to_object<T: Serialize>(value: &T) -> ApiResult<Map<String, Value>> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(ApiError::internal("a group of settings is not an object")),
        Err(e) => Err(ApiError::internal(e)),
    }
}

fn put_at_least_one(other: &mut BTreeMap<String, Value>, key: &str, number: Option<u32>) -> ApiResult<()> {
    match number {
        None => {}
        Some(0) => return Err(ApiError::validation(key, "value 0 invalid, must be 1 or larger")),
        Some(n) => {
            other.insert(key.to_owned(), n.into());
        }
    }
    Ok(())
}

/// Field by field: what isn't given stays as it is.
fn put_strict(other: &mut BTreeMap<String, Value>, strict: Option<&StrictMode>) -> ApiResult<()> {
    let Some(strict) = strict else { return Ok(()) };
    strict
        .check()
        .map_err(|(field, what)| ApiError::validation(format!("{}.{field}", key::STRICT), what))?;
    let mut given = to_object(strict)?;
    given.retain(|_, value| !value.is_null());
    merge(other, key::STRICT, Value::Object(given));
    Ok(())
}

fn at_least(path: &str, value: Option<usize>, least: usize) -> ApiResult<()> {
    match value {
        Some(n) if n < least => {
            let what = format!("value {n} invalid, must be {least} or larger");
            Err(ApiError::validation(path, what))
        }
        _ => Ok(()),
    }
}

fn put_optimizers(config: &mut CollectionConfig, diff: &Option<OptimizersDiff>) -> ApiResult<()> {
    if let Some(diff) = diff {
        if diff.deleted_threshold.is_some_and(|t| !(0.0..=1.0).contains(&t)) {
            let what = "must be from 0 to 1";
            return Err(ApiError::validation("optimizers_config.deleted_threshold", what));
        }
        for (field, value, least) in [
            ("vacuum_min_vector_number", diff.vacuum_min_vector_number, 100),
            ("max_segment_size", diff.max_segment_size, 1),
        ] {
            at_least(&format!("optimizers_config.{field}"), value, least)?;
        }
        config.indexing_threshold = diff.indexing_threshold.or(config.indexing_threshold);
    }
    put(&mut config.other, "optimizers_config", diff)
}

#[cfg(test)]
#[path = "collection_tests.rs"]
mod tests;
