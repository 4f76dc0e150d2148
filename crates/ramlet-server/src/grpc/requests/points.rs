//! Upserts, and reads of points by id.

use ramlet_proto::qdrant as q;

use super::super::node::{Fields, Node};
use super::filter::filter;
use super::vectors::vectors;
use super::{DecodedRequest, id, required, shard_key, with_payload, with_vectors, word};
use crate::error::ApiResult;

pub fn get(of: q::GetPoints) -> ApiResult<DecodedRequest> {
    let body = Fields::new()
        .put("ids", Node::list(of.ids, id))
        .maybe("with_payload", of.with_payload, with_payload)
        .maybe("with_vector", of.with_vectors, with_vectors)
        .maybe("shard_key", of.shard_key_selector, shard_key);
    DecodedRequest::of(of.collection_name, body.node())
        .timeout(of.timeout)?
        .consistency(of.read_consistency)
}

pub fn upsert(of: q::UpsertPoints) -> ApiResult<DecodedRequest> {
    let body = Fields::new()
        .put("points", Node::list(of.points, point))
        .maybe("shard_key", of.shard_key_selector, shard_key)
        .maybe("update_filter", of.update_filter, filter)
        .maybe("update_mode", of.update_mode, mode);
    DecodedRequest::of(of.collection_name, body.node())
        .wait(of.wait)
        .timeout(of.timeout)?
        .ordering(of.ordering)
}

pub fn mode(value: i32) -> Node {
    word(value, &["upsert", "insert_only", "update_only"], "update_mode")
}

pub fn point(of: q::PointStruct) -> Node {
    Fields::new()
        .put("id", required(of.id, "id", id))
        .put("vector", of.vectors.map_or(Node::Map(Vec::new()), vectors))
        .maybe("payload", payload(of.payload), |p| p)
        .node()
}

/// Nothing for an empty one.
fn payload(entries: Vec<bytes::Bytes>) -> Option<Node> {
    (!entries.is_empty()).then_some(Node::Payload(entries))
}

pub fn point_vectors(of: q::PointVectors) -> Node {
    Fields::new()
        .put("id", required(of.id, "id", id))
        .put("vector", required(of.vectors, "vectors", vectors))
        .node()
}
