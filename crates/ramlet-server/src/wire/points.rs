//! Points coming in: the list form and the batch form.

use ramlet::{Point, PointId, ShardSelection, UpdateMode, UpdateOp};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::filter::WireFilter;
use super::inference::Purpose;
use super::shard_key::WireShards;
use super::vector::{BatchVectors, VectorStruct, WireVector};
use crate::error::{ApiError, ApiResult};

/// What is to be done, and in which shards.
#[derive(Debug)]
pub struct Change {
    pub op: UpdateOp,
    pub shards: ShardSelection,
}

/// `PUT /points`: one of `points` and `batch`.
#[derive(Debug, Deserialize)]
pub struct WireUpsert {
    points: Option<Vec<WirePoint>>,
    batch: Option<WireBatch>,
    update_filter: Option<WireFilter>,
    update_mode: Option<WireUpdateMode>,
    #[serde(default)]
    shard_key: WireShards,
}

#[derive(Debug, Deserialize)]
struct WirePoint {
    id: PointId,
    #[serde(alias = "vectors")]
    vector: VectorStruct,
    payload: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
struct WireBatch {
    ids: Vec<PointId>,
    vectors: BatchVectors,
    payloads: Option<Vec<Option<Box<RawValue>>>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireUpdateMode {
    Upsert,
    UpdateOnly,
    InsertOnly,
}

impl WireUpsert {
    pub fn into_change(self) -> ApiResult<Change> {
        let points = match (self.points, self.batch) {
            (Some(points), None) => {
                let points = points.into_iter().zip(0..);
                points
                    .map(|(point, i)| point.into_point(i))
                    .collect::<ApiResult<_>>()?
            }
            (None, Some(batch)) => batch.into_points()?,
            (None, None) => return Err(ApiError::format("either `points` or `batch` must be given")),
            (Some(_), Some(_)) => {
                return Err(ApiError::format(
                    "`points` and `batch` are given, only one may be",
                ));
            }
        };
        let mode = match self.update_mode {
            None | Some(WireUpdateMode::Upsert) => UpdateMode::Upsert,
            Some(WireUpdateMode::UpdateOnly) => UpdateMode::UpdateOnly,
            Some(WireUpdateMode::InsertOnly) => UpdateMode::InsertOnly,
        };
        let op = UpdateOp::Upsert {
            points,
            filter: self.update_filter,
            mode,
        };
        Ok(Change {
            op,
            shards: self.shard_key.0,
        })
    }
}

impl WirePoint {
    fn into_point(self, index: usize) -> ApiResult<Point> {
        Ok(Point {
            id: self.id,
            vectors: self.vector.resolve(&format!("points[{index}].vector"))?,
            payload: json_bytes(self.payload),
        })
    }
}

impl WireBatch {
    fn into_points(self) -> ApiResult<Vec<Point>> {
        let n = self.ids.len();
        let mut points: Vec<Point> = self
            .ids
            .into_iter()
            .map(|id| Point {
                id,
                vectors: Vec::new(),
                payload: Vec::new(),
            })
            .collect();
        match self.vectors {
            BatchVectors::Default(list) => put_vectors(&mut points, ramlet::DEFAULT_VECTOR, list)?,
            BatchVectors::Named(named) => {
                for (name, list) in named {
                    put_vectors(&mut points, &name, list)?;
                }
            }
        }
        if let Some(payloads) = self.payloads {
            check_length("payloads", payloads.len(), n)?;
            for (point, payload) in points.iter_mut().zip(payloads) {
                point.payload = json_bytes(payload);
            }
        }
        Ok(points)
    }
}

fn put_vectors(points: &mut [Point], name: &str, list: Vec<WireVector>) -> ApiResult<()> {
    let field = if name.is_empty() {
        "vectors".to_owned()
    } else {
        format!("vectors.{name}")
    };
    check_length(&field, list.len(), points.len())?;
    let path = match name {
        "" => "batch.vectors",
        _ => "batch.vectors.?",
    };
    for (point, vector) in points.iter_mut().zip(list) {
        let vector = vector.resolve(path, Purpose::Document)?;
        point.vectors.push((name.to_owned(), vector));
    }
    Ok(())
}

fn check_length(field: &str, got: usize, ids: usize) -> ApiResult<()> {
    if got == ids {
        return Ok(());
    }
    Err(ApiError::validation(
        format!("batch.{field}"),
        format!("has {got} elements, but there are {ids} ids"),
    ))
}

/// The text of a JSON value without copying it; nothing for null.
pub fn json_bytes(value: Option<Box<RawValue>>) -> Vec<u8> {
    value.map_or_else(Vec::new, |raw| String::from(Box::<str>::from(raw)).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ApiResult<UpdateOp> {
        serde_json::from_str::<WireUpsert>(text)
            .map_err(ApiError::format)?
            .into_change()
            .map(|change| change.op)
    }
    fn points(text: &str) -> Vec<Point> {
        match parse(text).unwrap() {
            UpdateOp::Upsert { points, .. } => points,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn list_and_batch_mean_the_same() {
        let list = points(
            r#"{"points":[{"id":1,"vector":[1,2],"payload":{"a" : 1}},
                          {"id":"00000000-0000-0000-0000-000000000002","vector":[3,4],"payload":null}]}"#,
        );
        let batch = points(
            r#"{"batch":{"ids":[1,"00000000000000000000000000000002"],"vectors":[[1,2],[3,4]],
                         "payloads":[{"a" : 1}, null]}, "points": null}"#,
        );
        assert_eq!(list, batch);
        assert_eq!(list[0].payload, br#"{"a" : 1}"#);
        assert_eq!(list[1].id, PointId::Uuid(2));
        assert!(list[1].payload.is_empty());
    }

    #[test]
    fn named_batches() {
        let got = points(r#"{"batch":{"ids":[1,2],"vectors":{"a":[[1],[2]],"b":[[3],[4]]}}}"#);
        assert_eq!(
            got[1].vectors,
            vec![
                ("a".to_owned(), vec![2.0].into()),
                ("b".to_owned(), vec![4.0].into())
            ]
        );
    }

    #[test]
    fn lengths_of_a_batch_must_agree() {
        for body in [
            r#"{"batch":{"ids":[1],"vectors":[[1],[2]]}}"#,
            r#"{"batch":{"ids":[1],"vectors":{"a":[]}}}"#,
            r#"{"batch":{"ids":[1],"vectors":[[1]],"payloads":[]}}"#,
        ] {
            let e = parse(body).unwrap_err();
            assert_eq!(e.status.as_u16(), 422, "{body}: {e:?}");
            assert!(e.message.contains("but there are 1 ids"), "{e:?}");
        }
    }

    #[test]
    fn bad_points_say_what_and_where() {
        for (body, part) in [
            ("{}", "either `points` or `batch`"),
            (r#"{"points":[{"vector":[1]}]}"#, "missing field `id`"),
            (r#"{"points":[{"id":1}]}"#, "missing field `vector`"),
            (r#"{"points":[{"id":-1,"vector":[1]}]}"#, "negative"),
            (r#"{"points":[{"id":"x","vector":[1]}]}"#, "not a valid point ID"),
            (r#"{"points":[],"update_mode":"sometimes"}"#, "sometimes"),
            (r#"{"points":[],"shard_key":-1}"#, "shard_key"),
        ] {
            let e = parse(body).unwrap_err();
            assert_eq!(e.status.as_u16(), 400, "{body}");
            assert!(e.message.contains(part), "{body}: {}", e.message);
        }
    }
}
