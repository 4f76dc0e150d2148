//! Messages about collections.

use ramlet::filter::parse_datetime;
use ramlet_proto::qdrant as q;
use serde::Deserialize;
use serde_json::Value;

use super::super::requests::collections::TOKENIZERS;
use super::super::setting_names::{
    self as s, DATATYPE, DISTANCE, MEMORY, MODIFIER, encode_values, part, plain_of, word_of,
};
use super::{HandlerResult, message};
use crate::error::ApiResult;

pub fn done(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    let result = matches!(handled.result::<Value>(), Ok(v) if v != Value::Bool(false));
    message(&q::CollectionOperationResponse {
        result,
        time: handled.time,
    })
}

pub fn exists(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    let exists = plain_of(&handled.result::<Value>()?, "exists").unwrap_or(false);
    message(&q::CollectionExistsResponse {
        result: Some(q::CollectionExists { exists }),
        time: handled.time,
    })
}

pub fn list(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    #[derive(Deserialize)]
    struct List {
        collections: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let List { collections } = handled.result()?;
    let collections = collections
        .into_iter()
        .map(|c| q::CollectionDescription { name: c.name })
        .collect();
    message(&q::ListCollectionsResponse {
        collections,
        time: handled.time,
    })
}

pub fn aliases(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    #[derive(Deserialize)]
    struct List {
        aliases: Vec<Alias>,
    }
    #[derive(Deserialize)]
    struct Alias {
        alias_name: String,
        collection_name: String,
    }
    let List { aliases } = handled.result()?;
    let alias = |a: Alias| q::AliasDescription {
        alias_name: a.alias_name,
        collection_name: a.collection_name,
    };
    message(&q::ListAliasesResponse {
        aliases: aliases.into_iter().map(alias).collect(),
        time: handled.time,
    })
}

const REPLICA_STATES: &[&str] = &["Active", "Dead", "Partial", "Initializing", "Listener"];

pub fn cluster(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    let json: Value = handled.result()?;
    let shard = |v: &Value| q::LocalShardInfo {
        shard_id: plain_of(v, "shard_id").unwrap_or(0),
        points_count: plain_of(v, "points_count").unwrap_or(0),
        state: word_of(v, "state", REPLICA_STATES).unwrap_or(0),
        shard_key: v.get("shard_key").map(shard_key),
    };
    let elsewhere = |v: &Value| q::RemoteShardInfo {
        shard_id: plain_of(v, "shard_id").unwrap_or(0),
        peer_id: plain_of(v, "peer_id").unwrap_or(0),
        state: word_of(v, "state", REPLICA_STATES).unwrap_or(0),
        shard_key: v.get("shard_key").filter(|key| !key.is_null()).map(shard_key),
    };
    message(&q::CollectionClusterInfoResponse {
        peer_id: plain_of(&json, "peer_id").unwrap_or(0),
        shard_count: plain_of(&json, "shard_count").unwrap_or(1),
        local_shards: elements(&json, "local_shards").map(shard).collect(),
        remote_shards: elements(&json, "remote_shards").map(elsewhere).collect(),
        time: handled.time,
        ..Default::default()
    })
}

fn elements<'a>(json: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    json.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn entries<'a>(json: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    json.get(name).and_then(Value::as_object).into_iter().flatten()
}

const STATUS: &[&str] = &["", "green", "yellow", "red", "grey"];

pub fn info(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    let json: Value = handled.result()?;
    let error = json
        .get("optimizer_status")
        .and_then(|s| plain_of::<String>(s, "error"));
    let optimizer_status = q::OptimizerStatus {
        ok: error.is_none(),
        error: error.unwrap_or_default(),
    };
    let field = |(key, v): (&String, &Value)| q::collection_info::PayloadSchemaEntry {
        key: key.clone(),
        value: Some(schema(v)),
    };
    let queue = part(&json, "update_queue").map(|v| q::UpdateQueueInfo {
        length: plain_of(v, "length").unwrap_or(0),
        deferred_points: plain_of(v, "deferred_points"),
    });
    let warning = |v: &Value| q::CollectionWarning {
        message: plain_of(v, "message").unwrap_or_default(),
    };
    let info = q::CollectionInfo {
        status: word_of(&json, "status", STATUS).unwrap_or(0),
        optimizer_status: Some(optimizer_status),
        segments_count: plain_of(&json, "segments_count").unwrap_or(0),
        config: part(&json, "config").map(config),
        payload_schema: entries(&json, "payload_schema").map(field).collect(),
        points_count: plain_of(&json, "points_count"),
        indexed_vectors_count: plain_of(&json, "indexed_vectors_count"),
        warnings: elements(&json, "warnings").map(warning).collect(),
        update_queue: queue,
        created_at: json.get("created_at").and_then(Value::as_str).and_then(timestamp),
    };
    message(&q::GetCollectionInfoResponse {
        result: Some(info),
        time: handled.time,
    })
}

/// A date of the API as a message.
pub fn timestamp(date: &str) -> Option<prost_types::Timestamp> {
    let micros = parse_datetime(date)?;
    Some(prost_types::Timestamp {
        seconds: micros.div_euclid(1_000_000),
        nanos: i32::try_from(micros.rem_euclid(1_000_000) * 1_000).ok()?,
    })
}

fn config(json: &Value) -> q::CollectionConfig {
    q::CollectionConfig {
        params: part(json, "params").map(params),
        hnsw_config: part(json, "hnsw_config").map(s::encode_hnsw),
        optimizer_config: part(json, "optimizer_config").map(s::encode_optimizers),
        wal_config: part(json, "wal_config").map(s::encode_wal),
        quantization_config: part(json, "quantization_config").and_then(s::encode_quantization),
        strict_mode_config: part(json, "strict_mode_config").map(s::encode_strict),
        metadata: encode_values(json.get("metadata")),
    }
}

#[allow(deprecated)]
fn params(json: &Value) -> q::CollectionParams {
    q::CollectionParams {
        shard_number: plain_of(json, "shard_number").unwrap_or(1),
        on_disk_payload: plain_of(json, "on_disk_payload").unwrap_or(false),
        vectors_config: part(json, "vectors").map(vectors),
        replication_factor: plain_of(json, "replication_factor"),
        write_consistency_factor: plain_of(json, "write_consistency_factor"),
        read_fan_out_factor: plain_of(json, "read_fan_out_factor"),
        read_fan_out_delay_ms: plain_of(json, "read_fan_out_delay_ms"),
        sharding_method: word_of(json, "sharding_method", s::SHARDING),
        sparse_vectors_config: part(json, "sparse_vectors").map(|_| sparse_vectors(json)),
        payload: part(json, "payload").map(s::encode_payload_storage),
        id_tracker: part(json, "id_tracker").map(s::encode_id_tracker),
    }
}

fn vectors(json: &Value) -> q::VectorsConfig {
    use q::vectors_config::Config::{Params, ParamsMap};
    let config = if json.get("size").is_some_and(Value::is_number) {
        Params(vector_params(json))
    } else {
        let entry = |(key, v): (&String, &Value)| q::vector_params_map::MapEntry {
            key: key.clone(),
            value: Some(vector_params(v)),
        };
        ParamsMap(q::VectorParamsMap {
            map: json.as_object().into_iter().flatten().map(entry).collect(),
        })
    };
    q::VectorsConfig { config: Some(config) }
}

#[allow(deprecated)]
fn vector_params(json: &Value) -> q::VectorParams {
    q::VectorParams {
        size: plain_of(json, "size").unwrap_or(0),
        distance: word_of(json, "distance", DISTANCE).unwrap_or(0),
        hnsw_config: part(json, "hnsw_config").map(s::encode_hnsw),
        quantization_config: part(json, "quantization_config").and_then(s::encode_quantization),
        on_disk: plain_of(json, "on_disk"),
        datatype: word_of(json, "datatype", DATATYPE),
        multivector_config: part(json, "multivector_config").map(|v| q::MultiVectorConfig {
            comparator: word_of(v, "comparator", s::COMPARATOR).unwrap_or(0),
        }),
        memory: word_of(json, "memory", MEMORY),
    }
}

fn sparse_vectors(json: &Value) -> q::SparseVectorConfig {
    let entry = |(key, v): (&String, &Value)| q::sparse_vector_config::MapEntry {
        key: key.clone(),
        value: Some(q::SparseVectorParams {
            index: part(v, "index").map(s::encode_sparse_index),
            modifier: word_of(v, "modifier", MODIFIER),
        }),
    };
    q::SparseVectorConfig {
        map: entries(json, "sparse_vectors").map(entry).collect(),
    }
}

const SCHEMA_TYPES: &[&str] = &[
    "", "keyword", "integer", "float", "geo", "text", "bool", "datetime", "uuid",
];

fn schema(json: &Value) -> q::PayloadSchemaInfo {
    q::PayloadSchemaInfo {
        data_type: word_of(json, "data_type", SCHEMA_TYPES).unwrap_or(0),
        params: part(json, "params").and_then(index_params),
        points: plain_of(json, "points"),
    }
}

fn index_params(json: &Value) -> Option<q::PayloadIndexParams> {
    use q::payload_index_params::IndexParams as Is;
    let params = match json.get("type")?.as_str()? {
        "keyword" => Is::KeywordIndexParams(q::KeywordIndexParams {
            prefix: plain_of(json, "prefix")
                .unwrap_or(false)
                .then_some(q::KeywordPrefixParams {}),
            ..s::encode_keyword(json)
        }),
        "integer" => Is::IntegerIndexParams(s::encode_integer(json)),
        "float" => Is::FloatIndexParams(s::encode_float(json)),
        "geo" => Is::GeoIndexParams(s::encode_geo(json)),
        "bool" => Is::BoolIndexParams(s::encode_boolean(json)),
        "datetime" => Is::DatetimeIndexParams(s::encode_datetime(json)),
        "uuid" => Is::UuidIndexParams(s::encode_uuid(json)),
        "text" => Is::TextIndexParams(text_index(json)),
        _ => return None,
    };
    Some(q::PayloadIndexParams {
        index_params: Some(params),
    })
}

fn text_index(json: &Value) -> q::TextIndexParams {
    use q::stemming_algorithm::StemmingParams::{Disabled, Snowball};
    let texts = |v: &Value, name: &str| {
        elements(v, name)
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    // A language alone is short for a set of one.
    let stopwords = part(json, "stopwords").map(|v| match v.as_str() {
        Some(language) => q::StopwordsSet {
            languages: vec![language.to_owned()],
            custom: Vec::new(),
        },
        None => q::StopwordsSet {
            languages: texts(v, "languages"),
            custom: texts(v, "custom"),
        },
    });
    let stemmer = part(json, "stemmer").map(|v| {
        let params = match plain_of::<String>(v, "language") {
            Some(language) => Snowball(q::SnowballParams { language }),
            None => Disabled(q::DisabledStemmer {}),
        };
        q::StemmingAlgorithm {
            stemming_params: Some(params),
        }
    });
    q::TextIndexParams {
        tokenizer: word_of(json, "tokenizer", TOKENIZERS).unwrap_or(0),
        stopwords,
        stemmer,
        scoring: part(json, "scoring")
            .filter(|v| **v != Value::Bool(false))
            .map(|_| q::TextScoringParams { r#type: 0 }),
        ..s::encode_text_plain(json)
    }
}

fn shard_key(key: &Value) -> q::ShardKey {
    use q::shard_key::Key::{Keyword, Number};
    let key = match key {
        Value::String(text) => Some(Keyword(text.clone())),
        other => other.as_u64().map(Number),
    };
    q::ShardKey { key }
}

pub fn shard_keys(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    let json: Value = handled.result()?;
    let key = |v: &Value| q::ShardKeyDescription {
        key: v.get("key").map(shard_key),
    };
    message(&q::ListShardKeysResponse {
        shard_keys: elements(&json, "shard_keys").map(key).collect(),
        time: handled.time,
    })
}
