//! What is told of a collection.

use std::hash::{DefaultHasher, Hash, Hasher};

use ramlet::settings::{VectorSettings, key};
use ramlet::{CollectionConfig, CollectionInfo, CollectionStatus, VectorParams};
use serde_json::{Map, Value, json};

use super::index::kind_name;

/// `indexing_threshold` (kB) that is shown when none was set.
const INDEXING_THRESHOLD_KB: usize = 10_000;

/// The `result` of `GET /collections/{name}`, with the fields that the API's model requires.
pub fn info_json(info: &CollectionInfo) -> Value {
    let mut json = json!({
        "status": status_name(info.status),
        "optimizer_status": optimizer_status(info),
        "points_count": info.points_count,
        "indexed_vectors_count": info.indexed_vectors_count,
        "segments_count": info.segments_count,
        "config": config_json(&info.config),
        "payload_schema": payload_schema(info),
        "update_queue": { "length": info.update_queue },
        "ramlet": {
            "disk_bytes": info.disk_bytes, "last_operation_id": info.last_operation_id,
            "vectors": own_settings(&info.config),
        },
    });
    let warnings = warnings(info);
    if !warnings.is_empty() {
        json["warnings"] = warnings.into();
    }
    json
}

pub fn optimizer_status(info: &CollectionInfo) -> Value {
    match &info.optimizer_error {
        Some(error) => json!({ "error": error }),
        None => json!("ok"),
    }
}

/// What its owner may not expect of how it was made.
fn warnings(info: &CollectionInfo) -> Vec<Value> {
    let mut all = Vec::new();
    if info.config.vectors.is_empty() && info.config.sparse_vectors.is_empty() {
        all.push(json!({ "message": "The collection has no vectors: it can't be searched" }));
    }
    let vectors = info.config.vectors.iter();
    all.extend(vectors.filter_map(|vector| inline_storage_warning(vector, &info.config)));
    all
}

/// The API stores codes of neighbours in a graph's nodes where a dense vector is quantized, and says when that can't be.
fn inline_storage_warning(
    (name, vector): (&String, &VectorParams),
    config: &CollectionConfig,
) -> Option<Value> {
    let has_codes = [&vector.other, &config.other]
        .iter()
        .any(|of| of.contains_key(key::QUANTIZATION));
    let asked = vector.other.get(key::HNSW)?.get("inline_storage")?.as_bool()?;
    let what = match () {
        () if !asked => return None,
        () if vector.multivector_config.is_some() => "multivectors can't have it",
        () if !has_codes => "it needs `quantization_config`",
        () => return None,
    };
    Some(
        json!({ "message": format!("`hnsw_config.inline_storage` of vector '{name}' is without effect: {what}") }),
    )
}

/// A UUID for a segment: of its collection's directory and its number.
pub fn segment_uuid(collection: &str, segment: u64) -> String {
    let mut hasher = DefaultHasher::new();
    collection.hash(&mut hasher);
    let (high, low) = (hasher.finish(), segment);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xFFFF,
        high & 0xFFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    )
}

pub fn status_name(status: CollectionStatus) -> &'static str {
    match status {
        CollectionStatus::Green => "green",
        CollectionStatus::Yellow => "yellow",
        CollectionStatus::Red => "red",
    }
}

fn payload_schema(info: &CollectionInfo) -> Value {
    let mut schema = Map::new();
    for (field, index) in &info.config.payload_schema {
        let points = info
            .payload_index_points
            .iter()
            .find(|(name, _)| name == field)
            .map_or(0, |(_, n)| *n);
        let mut entry = Map::from_iter([
            ("data_type".to_owned(), json!(kind_name(index.kind))),
            ("points".to_owned(), json!(points)),
        ]);
        if let Some(params) = &index.params {
            entry.insert("params".to_owned(), params.clone());
        }
        schema.insert(field.clone(), Value::Object(entry));
    }
    Value::Object(schema)
}

pub fn config_json(config: &CollectionConfig) -> Value {
    let other = |key: &str| config.other.get(key).cloned();
    let mut out = json!({
        "params": params_json(config),
        "hnsw_config": over(json!({
            "m": 16, "ef_construct": 100, "full_scan_threshold": 10_000, "max_indexing_threads": 0, "on_disk": false,
        }), other("hnsw_config")),
        "optimizer_config": optimizer_json(config),
        "wal_config": over(json!({
            "wal_capacity_mb": 32, "wal_segments_ahead": 0, "wal_retain_closed": 1,
        }), other("wal_config")),
        "quantization_config": other("quantization_config"),
        "strict_mode_config": other("strict_mode_config").unwrap_or_else(|| json!({ "enabled": false })),
    });
    if let (Value::Object(map), Some(metadata)) = (&mut out, other("metadata")) {
        map.insert("metadata".to_owned(), metadata);
    }
    out
}

fn optimizer_json(config: &CollectionConfig) -> Value {
    let mut out = over(
        json!({
            "deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "default_segment_number": 0,
            "max_segment_size": null, "memmap_threshold": null, "indexing_threshold": INDEXING_THRESHOLD_KB,
            "flush_interval_sec": 5, "max_optimization_threads": null,
        }),
        config.other.get("optimizers_config").cloned(),
    );
    if let Some(threshold) = config.indexing_threshold {
        out["indexing_threshold"] = json!(threshold);
    }
    // "auto" goes in, but the API's answer has only numbers and null.
    if out["max_optimization_threads"].is_string() {
        out["max_optimization_threads"] = Value::Null;
    }
    out
}

/// Settings of our own by vector, resolved: clients refuse unknown fields among a vector's parameters.
fn own_settings(config: &CollectionConfig) -> Value {
    let of = |(name, params): (&String, &VectorParams)| {
        let settings = VectorSettings::resolve(&params.other, params.on_disk, &config.other).ok()?;
        Some((
            name.clone(),
            json!({ "index": settings.index, "recall": settings.recall }),
        ))
    };
    Value::Object(config.vectors.iter().filter_map(of).collect())
}

/// A vector's parameters without what the API doesn't know.
fn vector_json(params: &VectorParams) -> Value {
    let mut out = json!(params);
    if let Value::Object(map) = &mut out {
        map.retain(|field, _| field != key::INDEX && field != key::RECALL);
    }
    out
}

pub fn params_json(config: &CollectionConfig) -> Value {
    let mut out = Map::new();
    let vectors = match config.vectors.get(ramlet::DEFAULT_VECTOR) {
        Some(only) if config.vectors.len() == 1 => vector_json(only),
        _ => {
            let each = config.vectors.iter();
            Value::Object(
                each.map(|(name, params)| (name.clone(), vector_json(params)))
                    .collect(),
            )
        }
    };
    out.insert("vectors".to_owned(), vectors);
    if !config.sparse_vectors.is_empty() {
        out.insert("sparse_vectors".to_owned(), json!(config.sparse_vectors));
    }
    for key in ["shard_number", "replication_factor", "write_consistency_factor"] {
        out.insert(
            key.to_owned(),
            config.other.get(key).cloned().unwrap_or_else(|| json!(1)),
        );
    }
    for key in [
        "sharding_method",
        "read_fan_out_factor",
        "read_fan_out_delay_ms",
        "payload",
        "id_tracker",
    ] {
        if let Some(value) = config.other.get(key) {
            out.insert(key.to_owned(), value.clone());
        }
    }
    out.insert(
        "on_disk_payload".to_owned(),
        json!(config.on_disk_payload.unwrap_or(true)),
    );
    Value::Object(out)
}

/// `set` laid over the defaults.
fn over(defaults: Value, set: Option<Value>) -> Value {
    let (Value::Object(mut base), Some(Value::Object(set))) = (defaults.clone(), set) else {
        return defaults;
    };
    base.extend(set);
    Value::Object(base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramlet::{Distance, FieldIndex, FieldKind};

    fn params(size: usize) -> VectorParams {
        VectorParams {
            size,
            distance: Distance::Dot,
            datatype: None,
            on_disk: None,
            multivector_config: None,
            other: Default::default(),
        }
    }

    #[test]
    fn what_was_set_is_shown_over_the_defaults() {
        let mut config = CollectionConfig {
            indexing_threshold: Some(7),
            ..Default::default()
        };
        config.vectors.insert(String::new(), params(4));
        config.other.insert("hnsw_config".into(), json!({"m": 3}));
        config.other.insert(
            "optimizers_config".into(),
            json!({"max_optimization_threads": "auto"}),
        );
        config.payload_schema.insert(
            "a".into(),
            FieldIndex {
                kind: FieldKind::Integer,
                params: None,
            },
        );
        let info = CollectionInfo {
            status: CollectionStatus::Yellow,
            optimizer_error: Some("x".into()),
            points_count: 5,
            indexed_vectors_count: 0,
            vectors_count: Vec::new(),
            segments_count: 1,
            config,
            payload_index_points: vec![("a".into(), 2)],
            disk_bytes: 10,
            last_operation_id: 3,
            update_queue: 1,
            memory: Vec::new(),
        };
        let shown = info_json(&info);
        assert_eq!(shown["status"], "yellow");
        assert_eq!(shown["optimizer_status"], json!({"error": "x"}));
        assert_eq!(
            shown["config"]["params"]["vectors"],
            json!({"size": 4, "distance": "Dot"})
        );
        assert_eq!(shown["config"]["hnsw_config"]["m"], 3);
        assert_eq!(shown["config"]["hnsw_config"]["ef_construct"], 100);
        assert_eq!(shown["config"]["optimizer_config"]["indexing_threshold"], 7);
        assert_eq!(
            shown["config"]["optimizer_config"]["max_optimization_threads"],
            Value::Null
        );
        assert_eq!(
            shown["payload_schema"],
            json!({"a": {"data_type": "integer", "points": 2}})
        );
    }

    #[test]
    fn several_vectors_are_a_map() {
        let mut config = CollectionConfig::default();
        assert_eq!(params_json(&config)["vectors"], json!({}));
        config.vectors.insert(String::new(), params(1));
        config.vectors.insert("b".into(), params(2));
        assert_eq!(params_json(&config)["vectors"]["b"]["size"], 2);
        assert_eq!(params_json(&config)["vectors"][""]["size"], 1);
    }
}
