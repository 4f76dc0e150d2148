//! A collection's settings coming in: create and change.
//!
//! Settings are checked for their types, kept and shown as they came; what the engine reads of them: `ramlet::settings`.

use std::collections::BTreeMap;

use ramlet::settings::{Placement, StrictMode, key};
use ramlet::{CollectionConfig, Datatype, Distance, MultiVectorConfig, VectorParams};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::given::Given;
use super::settings::SearchSettings;
use super::sparse::{WireSparseVectors, change_sparse, sparse_config};
use crate::error::{ApiError, ApiResult};
use crate::limits;

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
    init_from: Given,
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
struct WireVectorParams {
    size: u64,
    distance: Distance,
    #[serde(flatten)]
    search: SearchSettings,
    on_disk: Option<bool>,
    memory: Option<Placement>,
    datatype: Option<String>,
    multivector_config: Option<MultiVectorConfig>,
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

/// One vector's parameters (the default vector) or a map of them by name.
fn vectors_config(vectors: Option<Value>) -> ApiResult<BTreeMap<String, VectorParams>> {
    let map = match vectors {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(ApiError::format("`vectors` is an object")),
    };
    if map.contains_key("distance") || map.get("size").is_some_and(Value::is_number) {
        let params = vector_params("vectors", Value::Object(map))?;
        return Ok(BTreeMap::from([(ramlet::DEFAULT_VECTOR.to_owned(), params)]));
    }
    map.into_iter()
        .map(|(name, value)| {
            check_vector_name(&name)?;
            let params = vector_params(&format!("vectors.{name}"), value)?;
            Ok((name, params))
        })
        .collect()
}

/// Whether a vector may have this name: the empty one is the default vector's.
pub fn check_vector_name(name: &str) -> ApiResult<()> {
    let what = if name.len() > limits::VECTOR_NAME_BYTES {
        format!("must have at most {} bytes", limits::VECTOR_NAME_BYTES)
    } else if name == "." || name == ".." {
        "must not be a path".to_owned()
    } else if let Some(c) = forbidden_in(name) {
        format!("cannot contain {c:?} char")
    } else {
        return Ok(());
    };
    let what = format!("a vector's name {what}");
    Err(ApiError::validation("vector_name", what))
}

/// The first character that no name may have.
fn forbidden_in(name: &str) -> Option<char> {
    const FORBIDDEN: [char; 9] = ['<', '>', ':', '"', '/', '\\', '|', '?', '*'];
    name.chars().find(|c| FORBIDDEN.contains(c) || c.is_control())
}

/// 422: the API keeps neither vectors nor payloads on the heap.
fn not_pinned(path: &str, memory: Option<Placement>) -> ApiResult<()> {
    match memory {
        Some(Placement::Pinned) => Err(ApiError::validation(
            path,
            "`pinned` is not supported here, must be `cold` or `cached`",
        )),
        _ => Ok(()),
    }
}

fn vector_params(path: &str, value: Value) -> ApiResult<VectorParams> {
    let wire: WireVectorParams =
        serde_json::from_value(value).map_err(|e| ApiError::format(format!("{path}: {e}")))?;
    let size = check_size(&format!("{path}.size"), wire.size)?;
    let datatype = wire.datatype.map(|d| datatype(path, &d)).transpose()?;
    let mut other = BTreeMap::new();
    not_pinned(&format!("{path}.memory"), wire.memory)?;
    put(&mut other, key::MEMORY, &wire.memory)?;
    wire.search.put(&mut other, &format!("{path}."))?;
    Ok(VectorParams {
        size,
        distance: wire.distance,
        datatype,
        on_disk: wire.on_disk,
        multivector_config: wire.multivector_config,
        other,
    })
}

pub(super) fn check_size(path: &str, size: u64) -> ApiResult<usize> {
    let most = limits::VECTOR_SIZE_MAX;
    let known = usize::try_from(size).ok().filter(|n| (1..=most).contains(n));
    known.ok_or_else(|| {
        let what = format!("value {size} invalid, must be from 1 to {most}");
        ApiError::validation(path, what)
    })
}

pub(super) fn datatype(path: &str, name: &str) -> ApiResult<Datatype> {
    match name {
        "float32" => Ok(Datatype::Float32),
        "float16" => Ok(Datatype::Float16),
        "uint8" => Ok(Datatype::Uint8),
        "turbo4" => Ok(Datatype::Turbo4),
        "turbo8" => Ok(Datatype::Turbo8),
        "turbo16" => Ok(Datatype::Turbo16),
        other => Err(ApiError::format(format!(
            "{path}.datatype: unknown datatype `{other}`"
        ))),
    }
}

fn to_object<T: Serialize>(value: &T) -> ApiResult<Map<String, Value>> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(ApiError::internal("a group of settings is not an object")),
        Err(e) => Err(ApiError::internal(e)),
    }
}

/// Lays a group of settings over what is there.
pub(super) fn put<T: Serialize>(
    other: &mut BTreeMap<String, Value>,
    key: &str,
    group: &Option<T>,
) -> ApiResult<()> {
    if let Some(group) = group {
        merge(
            other,
            key,
            serde_json::to_value(group).map_err(ApiError::internal)?,
        );
    }
    Ok(())
}

/// Objects are merged key by key (null takes a key away), anything else is replaced.
fn merge(other: &mut BTreeMap<String, Value>, key: &str, value: Value) {
    let Value::Object(new) = value else {
        other.insert(key.to_owned(), value);
        return;
    };
    let entry = other
        .entry(key.to_owned())
        .or_insert_with(|| Value::Object(Map::new()));
    if !entry.is_object() {
        *entry = Value::Object(Map::new());
    }
    if let Value::Object(old) = entry {
        for (field, value) in new {
            match value {
                Value::Null => old.remove(&field),
                value => old.insert(field, value),
            };
        }
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

/// `/collections/aliases` is a route: a collection of this name could be neither asked nor dropped.
const RESERVED_NAME: &str = "aliases";

/// Why neither a collection nor an alias may have this name; `None`: they may.
pub fn collection_name_fault(name: &str) -> Option<String> {
    if name.is_empty() || name.len() > limits::NAME_BYTES {
        Some(format!("must have from 1 to {} bytes", limits::NAME_BYTES))
    } else if name == "." || name == ".." {
        Some("must not be a path".to_owned())
    } else if name == RESERVED_NAME {
        Some(format!("`/collections/{RESERVED_NAME}` is a route of the API"))
    } else {
        forbidden_in(name).map(|c| format!("collection name cannot contain {c:?} char"))
    }
}

/// Whether a collection or an alias may have this name. `field` is what the API calls it in this place.
pub fn check_name(field: &str, name: &str) -> ApiResult<()> {
    let Some(what) = collection_name_fault(name) else {
        return Ok(());
    };
    let message = format!("Validation error in path parameters: [{field}: value {name:?} invalid, {what}]");
    Err(ApiError::new(
        axum::http::StatusCode::UNPROCESSABLE_ENTITY,
        message,
    ))
}

#[cfg(test)]
#[path = "collection_tests.rs"]
mod tests;
