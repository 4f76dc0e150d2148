//! Changes of points other than whole ones, and batches of changes.

use ramlet_proto::qdrant as q;
use ramlet_proto::qdrant::points_update_operation as op;

use super::super::node::{Fields, Node};
use super::filter::filter;
use super::points::{mode, point, point_vectors};
use super::{DecodedRequest, id, shard_key};
use crate::error::ApiResult;

/// `points` or `filter`, with `rest`.
fn select(selector: Option<q::PointsSelector>, rest: Fields) -> Fields {
    use q::points_selector::PointsSelectorOneOf::{Filter, Points};
    match selector.and_then(|s| s.points_selector_one_of) {
        Some(Points(list)) => rest.put("points", Node::list(list.ids, id)),
        Some(Filter(of)) => rest.put("filter", filter(of)),
        None => rest,
    }
}

/// What all changes may say beside what is changed.
type ChangeOptions = (Option<bool>, Option<u64>, Option<q::WriteOrdering>);

fn changed(
    collection: String,
    body: Fields,
    (wait, timeout, ordering): ChangeOptions,
) -> ApiResult<DecodedRequest> {
    DecodedRequest::of(collection, body.node())
        .wait(wait)
        .timeout(timeout)?
        .ordering(ordering)
}

fn in_shard(key: Option<q::ShardKeySelector>) -> Fields {
    Fields::new().maybe("shard_key", key, shard_key)
}

pub fn delete(of: q::DeletePoints) -> ApiResult<DecodedRequest> {
    let body = select(of.points, in_shard(of.shard_key_selector));
    changed(of.collection_name, body, (of.wait, of.timeout, of.ordering))
}

pub fn clear_payload(of: q::ClearPayloadPoints) -> ApiResult<DecodedRequest> {
    let body = select(of.points, in_shard(of.shard_key_selector));
    changed(of.collection_name, body, (of.wait, of.timeout, of.ordering))
}

pub fn set_payload(of: q::SetPayloadPoints) -> ApiResult<DecodedRequest> {
    let body = in_shard(of.shard_key_selector)
        .put("payload", Node::Payload(of.payload))
        .text("key", of.key);
    changed(
        of.collection_name,
        select(of.points_selector, body),
        (of.wait, of.timeout, of.ordering),
    )
}

pub fn delete_payload(of: q::DeletePayloadPoints) -> ApiResult<DecodedRequest> {
    let body = in_shard(of.shard_key_selector).put("keys", Node::words(of.keys));
    changed(
        of.collection_name,
        select(of.points_selector, body),
        (of.wait, of.timeout, of.ordering),
    )
}

pub fn update_vectors(of: q::UpdatePointVectors) -> ApiResult<DecodedRequest> {
    let body = in_shard(of.shard_key_selector)
        .put("points", Node::list(of.points, point_vectors))
        .maybe("update_filter", of.update_filter, filter);
    changed(of.collection_name, body, (of.wait, of.timeout, of.ordering))
}

pub fn delete_vectors(of: q::DeletePointVectors) -> ApiResult<DecodedRequest> {
    let body =
        in_shard(of.shard_key_selector).put("vector", Node::words(of.vectors.unwrap_or_default().names));
    changed(
        of.collection_name,
        select(of.points_selector, body),
        (of.wait, of.timeout, of.ordering),
    )
}

pub fn batch(of: q::UpdateBatchPoints) -> ApiResult<DecodedRequest> {
    let body = Fields::new().put("operations", Node::list(of.operations, operation));
    changed(of.collection_name, body, (of.wait, of.timeout, of.ordering))
}

#[allow(deprecated)]
fn operation(of: q::PointsUpdateOperation) -> Node {
    use op::Operation as Is;
    let (name, body) = match of.operation {
        Some(Is::Upsert(of)) => ("upsert", upsert(of)),
        Some(Is::DeletePoints(of)) => ("delete", select(of.points, in_shard(of.shard_key_selector))),
        Some(Is::DeleteDeprecated(of)) => ("delete", select(Some(of), Fields::new())),
        Some(Is::ClearPayload(of)) => (
            "clear_payload",
            select(of.points, in_shard(of.shard_key_selector)),
        ),
        Some(Is::ClearPayloadDeprecated(of)) => ("clear_payload", select(Some(of), Fields::new())),
        Some(Is::SetPayload(of)) => {
            let body = in_shard(of.shard_key_selector)
                .put("payload", Node::Payload(of.payload))
                .text("key", of.key);
            ("set_payload", select(of.points_selector, body))
        }
        Some(Is::OverwritePayload(of)) => {
            let body = in_shard(of.shard_key_selector)
                .put("payload", Node::Payload(of.payload))
                .text("key", of.key);
            ("overwrite_payload", select(of.points_selector, body))
        }
        Some(Is::DeletePayload(of)) => {
            let body = in_shard(of.shard_key_selector).put("keys", Node::words(of.keys));
            ("delete_payload", select(of.points_selector, body))
        }
        Some(Is::UpdateVectors(of)) => {
            let body = in_shard(of.shard_key_selector)
                .put("points", Node::list(of.points, point_vectors))
                .maybe("update_filter", of.update_filter, filter);
            ("update_vectors", body)
        }
        Some(Is::DeleteVectors(of)) => {
            let body = in_shard(of.shard_key_selector)
                .put("vector", Node::words(of.vectors.unwrap_or_default().names));
            ("delete_vectors", select(of.points_selector, body))
        }
        None => return Node::Wrong("an operation of the batch is empty".to_owned()),
    };
    Fields::new().put(name, body.node()).node()
}

fn upsert(of: op::PointStructList) -> Fields {
    in_shard(of.shard_key_selector)
        .put("points", Node::list(of.points, point))
        .maybe("update_filter", of.update_filter, filter)
        .maybe("update_mode", of.update_mode, mode)
}
