//! Collections, their aliases, indexes and named vectors.

use ramlet_proto::qdrant as q;

use super::super::node::{Fields, Key, Node};
use super::super::setting_names as s;
use super::super::setting_names::{DATATYPE, DISTANCE, MEMORY, MODIFIER, SHARDING, setting};
use super::{DecodedRequest, required, shard_key_one, word};
use crate::error::{ApiError, ApiResult};

pub fn named(collection: String) -> ApiResult<DecodedRequest> {
    Ok(DecodedRequest::of(collection, Node::Null))
}

pub fn create_shard_key(of: q::CreateShardKeyRequest) -> ApiResult<DecodedRequest> {
    let new = of.request.unwrap_or_default();
    Ok(DecodedRequest::of(of.collection_name, new_shard_key(new)))
}

/// Also as a change of a cluster.
fn new_shard_key(new: q::CreateShardKey) -> Node {
    let state = |state: i32| match q::ReplicaState::try_from(state) {
        Ok(state) => Node::Word(state.as_str_name()),
        Err(_) => Node::Wrong(format!("initial_state: there is no state {state}")),
    };
    let placement = (!new.placement.is_empty()).then_some(new.placement);
    Fields::new()
        .put("shard_key", required(new.shard_key, "shard_key", shard_key_one))
        .uint("shards_number", new.shards_number)
        .uint("replication_factor", new.replication_factor)
        .maybe("placement", placement, |peers| Node::list(peers, Node::Uint))
        .maybe("initial_state", new.initial_state, state)
        .node()
}

pub fn delete_shard_key(of: q::DeleteShardKeyRequest) -> ApiResult<DecodedRequest> {
    let gone = of.request.unwrap_or_default();
    Ok(DecodedRequest::of(of.collection_name, gone_shard_key(gone)))
}

fn gone_shard_key(of: q::DeleteShardKey) -> Node {
    let key = required(of.shard_key, "shard_key", shard_key_one);
    Fields::new().put("shard_key", key).node()
}

/// Exactly one kind of change, as REST has them.
pub fn change_cluster(of: q::UpdateCollectionClusterSetupRequest) -> ApiResult<DecodedRequest> {
    use q::update_collection_cluster_setup_request::Operation::*;
    let nothing = || Fields::new().node();
    let shard = |id: u32| Fields::new().uint("shard_id", Some(id));
    let at = |id: u32, peer: u64| shard(id).uint("peer_id", Some(peer)).node();
    let between = |id: u32, from: u64, to: u64| {
        let places = shard(id).uint("from_peer_id", Some(from));
        places.uint("to_peer_id", Some(to)).node()
    };
    let (name, body) = match of.operation {
        // Refused as an empty body is, once it is known who asks.
        None => return named(of.collection_name),
        Some(MoveShard(of)) => ("move_shard", between(of.shard_id, of.from_peer_id, of.to_peer_id)),
        Some(ReplicateShard(of)) => (
            "replicate_shard",
            between(of.shard_id, of.from_peer_id, of.to_peer_id),
        ),
        Some(AbortTransfer(of)) => (
            "abort_transfer",
            between(of.shard_id, of.from_peer_id, of.to_peer_id),
        ),
        Some(DropReplica(of)) => ("drop_replica", at(of.shard_id, of.peer_id)),
        Some(RestartTransfer(of)) => (
            "restart_transfer",
            between(of.shard_id, of.from_peer_id, of.to_peer_id),
        ),
        Some(ReplicatePoints(_)) => ("replicate_points", nothing()),
        Some(CreateShardKey(new)) => ("create_sharding_key", new_shard_key(new)),
        Some(DeleteShardKey(gone)) => ("drop_sharding_key", gone_shard_key(gone)),
    };
    let body = Fields::new().put(name, body).node();
    DecodedRequest::of(of.collection_name, body).timeout(of.timeout)
}

pub fn create(of: q::CreateCollection) -> ApiResult<DecodedRequest> {
    let name = of.collection_name.clone();
    let timeout = of.timeout;
    #[allow(deprecated)]
    let body = Fields::new()
        .maybe("vectors", of.vectors_config, vectors_config)
        .maybe("sparse_vectors", of.sparse_vectors_config, sparse_config)
        .maybe("hnsw_config", of.hnsw_config, |of| s::hnsw(of).node())
        .maybe("wal_config", of.wal_config, |of| s::wal(of).node())
        .maybe("optimizers_config", of.optimizers_config, s::optimizers)
        .uint("shard_number", of.shard_number)
        .flag("on_disk_payload", of.on_disk_payload)
        .uint("replication_factor", of.replication_factor)
        .uint("write_consistency_factor", of.write_consistency_factor)
        .maybe("quantization_config", of.quantization_config, s::quantization)
        .maybe("sharding_method", of.sharding_method, |v| setting(v, SHARDING))
        .maybe("strict_mode_config", of.strict_mode_config, s::strict)
        .maybe("metadata", metadata(of.metadata), |m| m)
        .maybe("payload", of.payload, |of| s::payload_storage(of).node())
        .maybe("id_tracker", of.id_tracker, |of| s::id_tracker(of).node());
    DecodedRequest::of(name, body.node()).timeout(timeout)
}

fn metadata(entries: Vec<bytes::Bytes>) -> Option<Node> {
    (!entries.is_empty()).then_some(Node::Payload(entries))
}

pub fn update(of: q::UpdateCollection) -> ApiResult<DecodedRequest> {
    let body = Fields::new()
        .maybe("optimizers_config", of.optimizers_config, s::optimizers)
        .maybe("params", of.params, params_diff)
        .maybe("hnsw_config", of.hnsw_config, |of| s::hnsw(of).node())
        .maybe("vectors", of.vectors_config, vectors_diff)
        .maybe(
            "quantization_config",
            of.quantization_config,
            s::quantization_diff,
        )
        .maybe("sparse_vectors", of.sparse_vectors_config, sparse_config)
        .maybe("strict_mode_config", of.strict_mode_config, s::strict)
        .maybe("metadata", metadata(of.metadata), |m| m);
    DecodedRequest::of(of.collection_name, body.node()).timeout(of.timeout)
}

#[allow(deprecated)]
fn params_diff(of: q::CollectionParamsDiff) -> Node {
    Fields::new()
        .uint("replication_factor", of.replication_factor)
        .uint("write_consistency_factor", of.write_consistency_factor)
        .flag("on_disk_payload", of.on_disk_payload)
        .uint("read_fan_out_factor", of.read_fan_out_factor)
        .uint("read_fan_out_delay_ms", of.read_fan_out_delay_ms)
        .maybe("payload", of.payload, |of| s::payload_storage(of).node())
        .maybe("id_tracker", of.id_tracker, |of| s::id_tracker(of).node())
        .node()
}

pub fn delete(of: q::DeleteCollection) -> ApiResult<DecodedRequest> {
    DecodedRequest::of(of.collection_name, Node::Null).timeout(of.timeout)
}

fn vectors_config(of: q::VectorsConfig) -> Node {
    use q::vectors_config::Config::{Params, ParamsMap};
    match of.config {
        Some(Params(one)) => vector_params(one),
        Some(ParamsMap(map)) => Node::Map(
            map.map
                .into_iter()
                .map(|entry| {
                    (
                        Key::Owned(entry.key),
                        vector_params(entry.value.unwrap_or_default()),
                    )
                })
                .collect(),
        ),
        None => Node::Null,
    }
}

#[allow(deprecated)]
fn vector_params(of: q::VectorParams) -> Node {
    Fields::new()
        .put("size", Node::Uint(of.size))
        .put("distance", word(of.distance, DISTANCE, "distance"))
        .maybe("hnsw_config", of.hnsw_config, |of| s::hnsw(of).node())
        .maybe("quantization_config", of.quantization_config, s::quantization)
        .flag("on_disk", of.on_disk)
        .maybe("datatype", of.datatype, |v| setting(v, DATATYPE))
        .maybe("multivector_config", of.multivector_config, multivector)
        .maybe("memory", of.memory, |v| setting(v, MEMORY))
        .node()
}

fn multivector(of: q::MultiVectorConfig) -> Node {
    Fields::new()
        .put("comparator", setting(of.comparator, s::COMPARATOR))
        .node()
}

fn vectors_diff(of: q::VectorsConfigDiff) -> Node {
    use q::vectors_config_diff::Config::{Params, ParamsMap};
    let entries = match of.config {
        Some(Params(one)) => vec![(Key::Borrowed(""), vector_diff(one))],
        Some(ParamsMap(map)) => map
            .map
            .into_iter()
            .map(|entry| {
                (
                    Key::Owned(entry.key),
                    vector_diff(entry.value.unwrap_or_default()),
                )
            })
            .collect(),
        None => return Node::Null,
    };
    Node::Map(entries)
}

#[allow(deprecated)]
fn vector_diff(of: q::VectorParamsDiff) -> Node {
    Fields::new()
        .maybe("hnsw_config", of.hnsw_config, |of| s::hnsw(of).node())
        .maybe(
            "quantization_config",
            of.quantization_config,
            s::quantization_diff,
        )
        .flag("on_disk", of.on_disk)
        .maybe("memory", of.memory, |v| setting(v, MEMORY))
        .node()
}

fn sparse_config(of: q::SparseVectorConfig) -> Node {
    let params = |of: q::SparseVectorParams| {
        Fields::new()
            .maybe("index", of.index, |of| s::sparse_index(of).node())
            .maybe("modifier", of.modifier, |v| setting(v, MODIFIER))
            .node()
    };
    Node::Map(
        of.map
            .into_iter()
            .map(|entry| (Key::Owned(entry.key), params(entry.value.unwrap_or_default())))
            .collect(),
    )
}

pub fn aliases(of: q::ChangeAliases) -> ApiResult<DecodedRequest> {
    use q::alias_operations::Action as Is;
    let action = |of: q::AliasOperations| {
        let (name, fields) = match of.action {
            Some(Is::CreateAlias(of)) => (
                "create_alias",
                Fields::new()
                    .put("collection_name", Node::Text(of.collection_name))
                    .put("alias_name", Node::Text(of.alias_name)),
            ),
            Some(Is::RenameAlias(of)) => (
                "rename_alias",
                Fields::new()
                    .put("old_alias_name", Node::Text(of.old_alias_name))
                    .put("new_alias_name", Node::Text(of.new_alias_name)),
            ),
            Some(Is::DeleteAlias(of)) => (
                "delete_alias",
                Fields::new().put("alias_name", Node::Text(of.alias_name)),
            ),
            None => return Node::Wrong("an action on aliases is empty".to_owned()),
        };
        Fields::new().put(name, fields.node()).node()
    };
    let body = Fields::new().put("actions", Node::list(of.actions, action));
    DecodedRequest::plain(body.node()).timeout(of.timeout)
}

const FIELD_TYPES: &[&str] = &[
    "keyword", "integer", "float", "geo", "text", "bool", "datetime", "uuid",
];

pub fn create_index(of: q::CreateFieldIndexCollection) -> ApiResult<DecodedRequest> {
    let schema = match (of.field_index_params.and_then(|p| p.index_params), of.field_type) {
        (Some(params), _) => Some(index_params(params)),
        (None, Some(kind)) => Some(word(kind, FIELD_TYPES, "field_type")),
        (None, None) => None,
    };
    let body =
        Fields::new()
            .put("field_name", Node::Text(of.field_name))
            .maybe("field_schema", schema, |s| s);
    DecodedRequest::of(of.collection_name, body.node())
        .wait(of.wait)
        .timeout(of.timeout)?
        .ordering(of.ordering)
}

fn index_params(of: q::payload_index_params::IndexParams) -> Node {
    use q::payload_index_params::IndexParams as Is;
    let (kind, fields) = match of {
        Is::KeywordIndexParams(of) => {
            let prefix = of.prefix.map(|_| true);
            ("keyword", s::keyword(of).flag("prefix", prefix))
        }
        Is::IntegerIndexParams(of) => ("integer", s::integer(of)),
        Is::FloatIndexParams(of) => ("float", s::float(of)),
        Is::GeoIndexParams(of) => ("geo", s::geo(of)),
        Is::BoolIndexParams(of) => ("bool", s::boolean(of)),
        Is::DatetimeIndexParams(of) => ("datetime", s::datetime(of)),
        Is::UuidIndexParams(of) => ("uuid", s::uuid(of)),
        Is::TextIndexParams(of) => ("text", text_index(of)),
    };
    fields.put("type", Node::Word(kind)).node()
}

pub const TOKENIZERS: &[&str] = &["", "prefix", "whitespace", "word", "multilingual", "code"];

fn text_index(of: q::TextIndexParams) -> Fields {
    use q::stemming_algorithm::StemmingParams::{Disabled, Snowball};
    let stopwords = of.stopwords.clone().map(|of| {
        Fields::new()
            .put("languages", Node::words(of.languages))
            .put("custom", Node::words(of.custom))
            .node()
    });
    let stemmer = of
        .stemmer
        .clone()
        .and_then(|s| s.stemming_params)
        .map(|of| match of {
            Snowball(of) => Fields::new()
                .put("type", Node::Word("snowball"))
                .put("language", Node::Text(of.language))
                .node(),
            Disabled(_) => Fields::new().put("type", Node::Word("none")).node(),
        });
    let scoring = of
        .scoring
        .map(|of| Fields::new().put("type", setting(of.r#type, &["bm25"])).node());
    let tokenizer = setting(of.tokenizer, TOKENIZERS);
    s::text_plain(of)
        .put("tokenizer", tokenizer)
        .maybe("stopwords", stopwords, |s| s)
        .maybe("stemmer", stemmer, |s| s)
        .maybe("scoring", scoring, |s| s)
}

pub fn delete_index(of: q::DeleteFieldIndexCollection) -> ApiResult<DecodedRequest> {
    if of.field_name.is_empty() {
        return Err(ApiError::validation("field_name", "must not be empty"));
    }
    DecodedRequest::of(of.collection_name, Node::Null)
        .param("field", of.field_name)
        .wait(of.wait)
        .timeout(of.timeout)?
        .ordering(of.ordering)
}

pub fn create_vector(of: q::CreateVectorNameRequest) -> ApiResult<DecodedRequest> {
    use q::create_vector_name_request::VectorConfig::{DenseConfig, SparseConfig};
    let config = |of| match of {
        DenseConfig(of) => {
            let dense = Fields::new()
                .put("size", Node::Uint(of.size))
                .put("distance", word(of.distance, DISTANCE, "distance"))
                .maybe("multivector_config", of.multivector_config, multivector)
                .maybe("datatype", of.datatype, |v| setting(v, DATATYPE));
            Fields::new().put("dense", dense.node()).node()
        }
        SparseConfig(of) => {
            let sparse = Fields::new()
                .maybe("modifier", of.modifier, |v| setting(v, MODIFIER))
                .maybe("datatype", of.datatype, |v| setting(v, DATATYPE));
            Fields::new().put("sparse", sparse.node()).node()
        }
    };
    let body = required(of.vector_config, "vector_config", config);
    DecodedRequest::of(of.collection_name, body)
        .param("vector", of.vector_name)
        .wait(of.wait)
        .timeout(of.timeout)?
        .ordering(of.ordering)
}

pub fn delete_vector(of: q::DeleteVectorNameRequest) -> ApiResult<DecodedRequest> {
    DecodedRequest::of(of.collection_name, Node::Null)
        .param("vector", of.vector_name)
        .wait(of.wait)
        .timeout(of.timeout)?
        .ordering(of.ordering)
}

pub fn snapshot(collection: String, name: String) -> ApiResult<DecodedRequest> {
    Ok(DecodedRequest::of(collection, Node::Null).param("snapshot", name))
}
