//! Changes other than upserts, and the batch of all kinds.

use ramlet::{PointId, PointsSelector, UpdateOp};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::filter::WireFilter;
use super::points::{Change, WireUpsert, json_bytes};
use super::selectors::{WirePoints, points_selector};
use super::shard_key::WireShards;
use super::vector::VectorStruct;
use crate::error::{ApiError, ApiResult};

/// Set or overwrite payload.
#[derive(Debug, Deserialize)]
pub struct WireSetPayload {
    payload: Box<RawValue>,
    points: Option<Vec<PointId>>,
    filter: Option<WireFilter>,
    key: Option<String>,
    #[serde(default)]
    shard_key: WireShards,
}

impl WireSetPayload {
    pub fn into_set(self) -> ApiResult<Change> {
        let points = points_selector(self.points, self.filter)?;
        let op = UpdateOp::SetPayload {
            payload: json_bytes(Some(self.payload)),
            key: self.key,
            points,
        };
        Ok(Change {
            op,
            shards: self.shard_key.0,
        })
    }

    pub fn into_overwrite(self) -> ApiResult<Change> {
        // `key` says nothing here, as in the API: the whole payload is overwritten.
        let points = points_selector(self.points, self.filter)?;
        let op = UpdateOp::OverwritePayload {
            payload: json_bytes(Some(self.payload)),
            points,
        };
        Ok(Change {
            op,
            shards: self.shard_key.0,
        })
    }
}

#[derive(Debug, Deserialize)]
pub struct WireDeletePayload {
    keys: Vec<String>,
    points: Option<Vec<PointId>>,
    filter: Option<WireFilter>,
    #[serde(default)]
    shard_key: WireShards,
}

impl WireDeletePayload {
    pub fn into_change(self) -> ApiResult<Change> {
        let op = UpdateOp::DeletePayload {
            keys: self.keys,
            points: points_selector(self.points, self.filter)?,
        };
        Ok(Change {
            op,
            shards: self.shard_key.0,
        })
    }
}

#[derive(Debug, Deserialize)]
pub struct WireUpdateVectors {
    points: Vec<WirePointVectors>,
    update_filter: Option<WireFilter>,
    #[serde(default)]
    shard_key: WireShards,
}

#[derive(Debug, Deserialize)]
struct WirePointVectors {
    id: PointId,
    #[serde(alias = "vectors")]
    vector: VectorStruct,
}

impl WireUpdateVectors {
    pub fn into_change(self) -> ApiResult<Change> {
        if self.points.is_empty() {
            return Err(ApiError::validation("points", "must specify points to update"));
        }
        let resolve = |(i, p): (usize, WirePointVectors)| {
            let path = format!("points[{i}].vector");
            if p.vector.0.is_empty() {
                return Err(ApiError::validation(
                    path,
                    "must specify vectors to update for point",
                ));
            }
            Ok((p.id, p.vector.resolve(&path)?))
        };
        let points = self.points.into_iter().enumerate().map(resolve);
        let points = points.collect::<ApiResult<_>>()?;
        let op = UpdateOp::UpdateVectors {
            points,
            filter: self.update_filter,
        };
        Ok(Change {
            op,
            shards: self.shard_key.0,
        })
    }
}

#[derive(Debug, Deserialize)]
pub struct WireDeleteVectors {
    /// Names; the API calls the field so.
    #[serde(alias = "vectors")]
    vector: Vec<String>,
    points: Option<Vec<PointId>>,
    filter: Option<WireFilter>,
    #[serde(default)]
    shard_key: WireShards,
}

impl WireDeleteVectors {
    pub fn into_change(self) -> ApiResult<Change> {
        if self.vector.is_empty() {
            return Err(ApiError::validation(
                "vector",
                "must specify vector names to delete",
            ));
        }
        let op = UpdateOp::DeleteVectors {
            names: self.vector,
            points: points_selector(self.points, self.filter)?,
        };
        Ok(Change {
            op,
            shards: self.shard_key.0,
        })
    }
}

impl WirePoints {
    /// A change of just these points.
    fn into_change(self, op: fn(PointsSelector) -> UpdateOp) -> ApiResult<Change> {
        let (points, shards) = self.into_selector()?;
        Ok(Change {
            op: op(points),
            shards,
        })
    }

    pub fn into_delete(self) -> ApiResult<Change> {
        self.into_change(UpdateOp::Delete)
    }

    pub fn into_clear(self) -> ApiResult<Change> {
        self.into_change(UpdateOp::ClearPayload)
    }
}

/// `POST /points/batch`.
#[derive(Debug, Deserialize)]
pub struct WireOperations {
    pub operations: Vec<WireOperation>,
}

/// One operation: exactly one of the fields.
///
/// A struct of options, because an untagged enum would buffer every vector as a JSON tree first.
#[derive(Debug, Deserialize)]
pub struct WireOperation {
    upsert: Option<WireUpsert>,
    delete: Option<WirePoints>,
    set_payload: Option<WireSetPayload>,
    overwrite_payload: Option<WireSetPayload>,
    delete_payload: Option<WireDeletePayload>,
    clear_payload: Option<WirePoints>,
    update_vectors: Option<WireUpdateVectors>,
    delete_vectors: Option<WireDeleteVectors>,
}

impl WireOperation {
    pub fn into_change(self) -> ApiResult<Change> {
        let mut ops = [
            self.upsert.map(WireUpsert::into_change),
            self.delete.map(WirePoints::into_delete),
            self.set_payload.map(WireSetPayload::into_set),
            self.overwrite_payload.map(WireSetPayload::into_overwrite),
            self.delete_payload.map(WireDeletePayload::into_change),
            self.clear_payload.map(WirePoints::into_clear),
            self.update_vectors.map(WireUpdateVectors::into_change),
            self.delete_vectors.map(WireDeleteVectors::into_change),
        ]
        .into_iter()
        .flatten();
        match (ops.next(), ops.next()) {
            (Some(op), None) => op,
            (None, _) => Err(ApiError::format(
                "an operation is one of upsert, delete, set_payload, overwrite_payload, delete_payload, \
                 clear_payload, update_vectors and delete_vectors",
            )),
            (Some(_), Some(_)) => Err(ApiError::format("an operation of the batch has two kinds")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(text: &str) -> ApiResult<Vec<UpdateOp>> {
        let parsed: WireOperations = serde_json::from_str(text).map_err(ApiError::format)?;
        parsed
            .operations
            .into_iter()
            .map(|operation| operation.into_change().map(|change| change.op))
            .collect()
    }

    #[test]
    fn every_kind_of_operation_parses() {
        let ops = batch(
            r#"{"operations":[
                {"upsert":{"points":[{"id":1,"vector":[1]}]}},
                {"upsert":{"batch":{"ids":[1],"vectors":[[1]]}}},
                {"delete":{"points":[1]}},
                {"set_payload":{"payload":{"a": 1},"points":[1],"key":"x"}},
                {"overwrite_payload":{"payload":{},"points":[1]}},
                {"delete_payload":{"keys":["a"],"points":[1]}},
                {"clear_payload":{"points":[1]}},
                {"update_vectors":{"points":[{"id":1,"vector":{"a":[1]}}]}},
                {"delete_vectors":{"vector":["a"],"points":[1]}}
            ]}"#,
        )
        .unwrap();
        assert_eq!(ops.len(), 9);
        match &ops[3] {
            UpdateOp::SetPayload {
                payload,
                key,
                points: PointsSelector::Ids(ids),
            } => {
                assert_eq!(
                    (payload.as_slice(), key.as_deref(), ids.len()),
                    (&br#"{"a": 1}"#[..], Some("x"), 1)
                );
            }
            other => panic!("{other:?}"),
        }
        assert!(
            matches!(&ops[7], UpdateOp::UpdateVectors { points, filter: None } if points[0].1[0].0 == "a")
        );
    }

    #[test]
    fn an_operation_has_one_kind() {
        for body in [
            r#"{"operations":[{}]}"#,
            r#"{"operations":[{"delete":{"points":[1]},"clear_payload":{"points":[1]}}]}"#,
            r#"{"operations":[{"delete":{}}]}"#,
        ] {
            assert_eq!(batch(body).unwrap_err().status.as_u16(), 400, "{body}");
        }
    }
}
