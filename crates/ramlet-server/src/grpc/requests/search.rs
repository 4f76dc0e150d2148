//! The searches of clients before 1.16: search, recommend, discover, alone, in batches and in groups.

use ramlet_proto::qdrant as q;

use super::super::node::{Fields, Node};
use super::filter::filter;
use super::query::{lookup, params, strategy, with_lookup};
use super::vectors::{example, sparse, vector};
use super::{DecodedRequest, id, required, shard_key, with_payload, with_vectors, wrong_timeout};
use crate::error::ApiResult;

/// Fields that all of these messages have, and what they are called in REST.
macro_rules! shared {
    ($of:ident, $fields:expr) => {
        $fields
            .maybe("filter", $of.filter, filter)
            .put("limit", Node::Uint($of.limit.into()))
            .maybe("params", $of.params, params)
            .maybe("with_payload", $of.with_payload, with_payload)
            .maybe("with_vector", $of.with_vectors, with_vectors)
            .maybe("shard_key", $of.shard_key_selector, shard_key)
    };
}

/// ... those of groups.
macro_rules! grouped {
    ($of:ident, $fields:expr) => {
        $fields
            .put("group_by", Node::Text($of.group_by))
            .put("group_size", Node::Uint($of.group_size.into()))
            .maybe("with_lookup", $of.with_lookup, with_lookup)
    };
}

/// ... and those of recommendations.
macro_rules! recommended {
    ($of:ident, $fields:expr) => {
        $fields
            .put("positive", examples($of.positive, $of.positive_vectors))
            .put("negative", examples($of.negative, $of.negative_vectors))
            .maybe("strategy", $of.strategy, strategy)
            .float("score_threshold", $of.score_threshold)
            .text("using", $of.using)
            .maybe("lookup_from", $of.lookup_from, lookup)
    };
}

/// `vector` of a search: plain, or with its name.
fn target(data: Vec<f32>, indices: Option<q::SparseIndices>, name: Option<String>) -> Node {
    let vector = match indices {
        Some(indices) if indices.data.len() != data.len() => {
            let what = "Sparse indices does not match sparse vector conditions: values: Validation error: must be the same length as indices [{}]";
            return Node::Wrong(what.to_owned());
        }
        Some(indices) => sparse(indices.data, data),
        None => Node::Floats(data),
    };
    match name {
        Some(name) => Fields::new()
            .put("name", Node::Text(name))
            .put("vector", vector)
            .node(),
        None => vector,
    }
}

pub fn search(of: q::SearchPoints) -> ApiResult<DecodedRequest> {
    let (name, timeout, consistency) = (of.collection_name.clone(), of.timeout, of.read_consistency);
    DecodedRequest::of(name, search_one(of))
        .timeout(timeout)?
        .consistency(consistency)
}

fn search_one(of: q::SearchPoints) -> Node {
    let fields = Fields::new()
        .put("vector", target(of.vector, of.sparse_indices, of.vector_name))
        .maybe("timeout", wrong_timeout(of.timeout), Node::Wrong)
        .uint("offset", of.offset)
        .float("score_threshold", of.score_threshold);
    shared!(of, fields).node()
}

pub fn search_batch(of: q::SearchBatchPoints) -> ApiResult<DecodedRequest> {
    let body = Fields::new()
        .put("searches", Node::list(of.search_points, search_one))
        .node();
    DecodedRequest::of(of.collection_name, body)
        .timeout(of.timeout)?
        .consistency(of.read_consistency)
}

pub fn search_groups(of: q::SearchPointGroups) -> ApiResult<DecodedRequest> {
    let fields = Fields::new()
        .put("vector", target(of.vector, of.sparse_indices, of.vector_name))
        .float("score_threshold", of.score_threshold);
    let fields = grouped!(of, shared!(of, fields));
    DecodedRequest::of(of.collection_name, fields.node())
        .timeout(of.timeout)?
        .consistency(of.read_consistency)
}

/// Ids first, then vectors.
fn examples(ids: Vec<q::PointId>, vectors: Vec<q::Vector>) -> Node {
    Node::List(Box::new(
        ids.into_iter().map(id).chain(vectors.into_iter().map(vector)),
    ))
}

pub fn recommend(of: q::RecommendPoints) -> ApiResult<DecodedRequest> {
    let (name, timeout, consistency) = (of.collection_name.clone(), of.timeout, of.read_consistency);
    DecodedRequest::of(name, recommend_one(of))
        .timeout(timeout)?
        .consistency(consistency)
}

fn recommend_one(of: q::RecommendPoints) -> Node {
    let fields = Fields::new()
        .maybe("timeout", wrong_timeout(of.timeout), Node::Wrong)
        .uint("offset", of.offset);
    recommended!(of, shared!(of, fields)).node()
}

pub fn recommend_batch(of: q::RecommendBatchPoints) -> ApiResult<DecodedRequest> {
    let body = Fields::new()
        .put("searches", Node::list(of.recommend_points, recommend_one))
        .node();
    DecodedRequest::of(of.collection_name, body)
        .timeout(of.timeout)?
        .consistency(of.read_consistency)
}

pub fn recommend_groups(of: q::RecommendPointGroups) -> ApiResult<DecodedRequest> {
    let fields = recommended!(of, shared!(of, Fields::new()));
    let fields = grouped!(of, fields);
    DecodedRequest::of(of.collection_name, fields.node())
        .timeout(of.timeout)?
        .consistency(of.read_consistency)
}

pub fn discover(of: q::DiscoverPoints) -> ApiResult<DecodedRequest> {
    let (name, timeout, consistency) = (of.collection_name.clone(), of.timeout, of.read_consistency);
    DecodedRequest::of(name, discover_one(of))
        .timeout(timeout)?
        .consistency(consistency)
}

fn discover_one(of: q::DiscoverPoints) -> Node {
    use q::target_vector::Target::Single;
    let pair = |of: q::ContextExamplePair| {
        Fields::new()
            .put("positive", required(of.positive, "positive", example))
            .put("negative", required(of.negative, "negative", example))
            .node()
    };
    let target = of.target.and_then(|t| t.target).map(|Single(of)| of);
    let fields = Fields::new()
        .maybe("timeout", wrong_timeout(of.timeout), Node::Wrong)
        .maybe("target", target, example)
        .put("context", Node::list(of.context, pair))
        .uint("offset", of.offset)
        .text("using", of.using)
        .maybe("lookup_from", of.lookup_from, lookup);
    shared!(of, fields).node()
}

pub fn discover_batch(of: q::DiscoverBatchPoints) -> ApiResult<DecodedRequest> {
    let body = Fields::new()
        .put("searches", Node::list(of.discover_points, discover_one))
        .node();
    DecodedRequest::of(of.collection_name, body)
        .timeout(of.timeout)?
        .consistency(of.read_consistency)
}
