//! The settings of dense vectors at their creation.

use std::collections::BTreeMap;

use ramlet::settings::{Placement, key};
use ramlet::{Datatype, Distance, MultiVectorConfig, VectorParams};
use serde::Deserialize;
use serde_json::Value;

use super::name_rules::check_vector_name;
use super::search_settings::SearchSettings;
use super::stored_settings::put;
use crate::error::{ApiError, ApiResult};
use crate::limits;

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

/// One vector's parameters (the default vector) or a map of them by name.
pub fn vectors_config(vectors: Option<Value>) -> ApiResult<BTreeMap<String, VectorParams>> {
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

/// 422: the API keeps neither vectors nor payloads on the heap.
pub fn not_pinned(path: &str, memory: Option<Placement>) -> ApiResult<()> {
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

pub fn check_size(path: &str, size: u64) -> ApiResult<usize> {
    let most = limits::VECTOR_SIZE_MAX;
    let known = usize::try_from(size).ok().filter(|n| (1..=most).contains(n));
    known.ok_or_else(|| {
        let what = format!("value {size} invalid, must be from 1 to {most}");
        ApiError::validation(path, what)
    })
}

pub fn datatype(path: &str, name: &str) -> ApiResult<Datatype> {
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
