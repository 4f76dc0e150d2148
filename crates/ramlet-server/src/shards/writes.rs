//! Changes of points, divided by the shards of their ids.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use ramlet::PointId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Writing;
use super::ask::{Ask, Divided};
use super::ids::shard_of;
use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};
use crate::limits;

/// The fields of an object, as they came.
type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// An operation's part for each shard that it is about: JSON text.
type Parts = Vec<(u32, String)>;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Done {
    #[serde(skip_serializing_if = "Option::is_none")]
    operation_id: Option<u64>,
    status: String,
}

/// Does a change at all shards that it is about. It is done when all have done it; an error names the shard whose part failed.
pub async fn write(asked: &Divided, writing: Writing, body: Bytes) -> ApiResult<Answer> {
    if writing == Writing::Batch {
        return batch(asked, &body).await;
    }
    let fields: Fields<'_> = serde_json::from_slice(&body).map_err(ApiError::format)?;
    let parts = parts(asked, writing == Writing::Points, &fields)?;
    let asks = parts.into_iter().map(|(shard, part)| (shard, asked.same(part)));
    let mut done = Vec::new();
    for (_, part) in asked.ask_some(asks.collect()).await? {
        done.push(part.read::<Done>()?);
    }
    asked.answer(&together(done)?)
}

/// The answer to what several shards did: the latest of their operations, and the worst of their states.
fn together(done: Vec<Done>) -> ApiResult<Done> {
    let operation_id = done.iter().filter_map(|done| done.operation_id).max();
    let waits = done.iter().position(|done| done.status == "wait_timeout");
    let mut done = done;
    if done.is_empty() {
        return Err(ApiError::internal("a change that no shard made"));
    }
    let status = done.swap_remove(waits.unwrap_or(0)).status;
    Ok(Done {
        operation_id: operation_id.filter(|_| waits.is_none()),
        status,
    })
}

fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

fn given<'a>(fields: &Fields<'a>, name: &str) -> Option<&'a RawValue> {
    fields.get(name).copied().filter(|raw| !is_null(raw))
}

/// The object with some of its fields replaced.
fn with(fields: &Fields<'_>, replaced: &[(&str, &str)]) -> ApiResult<String> {
    let mut out = String::from("{");
    let mut put = |name: &str, value: &str| -> ApiResult<()> {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&serde_json::to_string(name).map_err(ApiError::internal)?);
        out.push(':');
        out.push_str(value);
        Ok(())
    };
    for (name, value) in fields {
        if !replaced.iter().any(|(other, _)| other == name) {
            put(name, value.get())?;
        }
    }
    replaced.iter().try_for_each(|(name, value)| put(name, value))?;
    out.push('}');
    Ok(out)
}

/// What each shard is to do of an operation. What isn't understood goes to the shard that is here, which says what is wrong.
fn parts(asked: &Divided, is_of_points: bool, fields: &Fields<'_>) -> ApiResult<Parts> {
    let divided = match (is_of_points, given(fields, "points"), given(fields, "batch")) {
        (true, Some(points), None) => points_parts(asked.count(), fields, points)?,
        (true, None, Some(batch)) => batch_parts(asked.count(), fields, batch)?,
        (false, Some(ids), None) if given(fields, "filter").is_none() => {
            ids_parts(asked.count(), fields, ids)?
        }
        (false, None, None) if given(fields, "filter").is_some() => {
            let whole = with(fields, &[])?;
            Some(asked.all().map(|shard| (shard, whole.clone())).collect())
        }
        _ => None,
    };
    match divided {
        Some(parts) if !parts.is_empty() => Ok(parts),
        _ => Ok(vec![(asked.shards().own, with(fields, &[])?)]),
    }
}

fn listed(items: &[&str]) -> String {
    let bytes = items.iter().map(|item| item.len() + 1).sum::<usize>();
    let mut out = String::with_capacity(bytes + 2);
    out.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(item);
    }
    out.push(']');
    out
}

fn points_parts(shards: u32, fields: &Fields<'_>, points: &RawValue) -> ApiResult<Option<Parts>> {
    #[derive(Deserialize)]
    struct Named {
        id: PointId,
    }
    let Ok(points) = serde_json::from_str::<Vec<&RawValue>>(points.get()) else {
        return Ok(None);
    };
    let mut by_shard: Vec<Vec<&str>> = vec![Vec::new(); shards as usize];
    for point in points {
        let Ok(Named { id }) = serde_json::from_str(point.get()) else {
            return Ok(None);
        };
        by_shard[shard_of(id, shards) as usize].push(point.get());
    }
    each_part(by_shard, |points| with(fields, &[("points", &listed(points))])).map(Some)
}

fn ids_parts(shards: u32, fields: &Fields<'_>, ids: &RawValue) -> ApiResult<Option<Parts>> {
    let Ok(ids) = serde_json::from_str::<Vec<PointId>>(ids.get()) else {
        return Ok(None);
    };
    let parts = super::ids::divided(ids, shards);
    each_part(parts, |ids| {
        let ids = serde_json::to_string(ids).map_err(ApiError::internal)?;
        with(fields, &[("points", &ids)])
    })
    .map(Some)
}

fn each_part<T>(by_shard: Vec<Vec<T>>, mut part: impl FnMut(&[T]) -> ApiResult<String>) -> ApiResult<Parts> {
    let some = (0..).zip(by_shard).filter(|(_, items)| !items.is_empty());
    some.map(|(shard, items)| Ok((shard, part(&items)?))).collect()
}

/// Points as columns: ids, vectors, payloads.
fn batch_parts(shards: u32, fields: &Fields<'_>, batch: &RawValue) -> ApiResult<Option<Parts>> {
    let Ok(columns) = serde_json::from_str::<Fields<'_>>(batch.get()) else {
        return Ok(None);
    };
    let Some(ids) =
        given(&columns, "ids").and_then(|ids| serde_json::from_str::<Vec<PointId>>(ids.get()).ok())
    else {
        return Ok(None);
    };
    let column = |raw: &'_ RawValue| -> Option<Vec<String>> {
        let items = serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok()?;
        let is_right = items.len() == ids.len();
        is_right.then(|| items.into_iter().map(|item| item.get().to_owned()).collect())
    };
    let Some(vectors) = given(&columns, "vectors") else {
        return Ok(None);
    };
    let named: Option<Vec<(String, Vec<String>)>> = match vectors.get().starts_with('{') {
        false => column(vectors).map(|only| vec![(String::new(), only)]),
        true => serde_json::from_str::<Fields<'_>>(vectors.get())
            .ok()
            .and_then(|by_name| {
                let each = by_name.iter();
                each.map(|(name, raw)| Some((name.clone().into_owned(), column(raw)?)))
                    .collect()
            }),
    };
    let payloads = match given(&columns, "payloads") {
        None => Some(None),
        Some(raw) => column(raw).map(Some),
    };
    let (Some(named), Some(payloads)) = (named, payloads) else {
        return Ok(None);
    };
    let is_plain = !vectors.get().starts_with('{');
    let mut by_shard: Vec<Vec<usize>> = vec![Vec::new(); shards as usize];
    for (at, id) in ids.iter().enumerate() {
        by_shard[shard_of(*id, shards) as usize].push(at);
    }
    each_part(by_shard, |places| {
        let of = |column: &[String]| {
            let items: Vec<&str> = places.iter().map(|at| column[*at].as_str()).collect();
            listed(&items)
        };
        let own: Vec<PointId> = places.iter().map(|at| ids[*at]).collect();
        let own = serde_json::to_string(&own).map_err(ApiError::internal)?;
        let vectors = match is_plain {
            true => of(&named[0].1),
            false => {
                let each = named.iter().map(|(name, column)| {
                    let name = serde_json::to_string(name).map_err(ApiError::internal)?;
                    Ok(format!("{name}:{}", of(column)))
                });
                format!("{{{}}}", each.collect::<ApiResult<Vec<_>>>()?.join(","))
            }
        };
        let mut replaced = vec![("ids", own), ("vectors", vectors)];
        replaced.extend(payloads.as_ref().map(|column| ("payloads", of(column))));
        let replaced: Vec<(&str, &str)> = replaced
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect();
        with(fields, &[("batch", &with(&columns, &replaced)?)])
    })
    .map(Some)
}

/// `POST /points/batch`: each shard does its parts in their order.
async fn batch(asked: &Divided, body: &Bytes) -> ApiResult<Answer> {
    #[derive(Deserialize)]
    struct Operations<'a> {
        #[serde(borrow)]
        operations: Vec<Fields<'a>>,
    }
    let Operations { operations } = serde_json::from_slice(body).map_err(ApiError::format)?;
    if operations.len() > limits::OPERATIONS_MAX {
        let what = format!(
            "has {} elements, at most {} are taken",
            operations.len(),
            limits::OPERATIONS_MAX
        );
        return Err(ApiError::validation("operations", what));
    }
    let number = operations.len();
    // For each shard its operations, and which of the request's they are.
    let mut by_shard: Vec<(Vec<String>, Vec<usize>)> = vec![Default::default(); asked.count() as usize];
    for (at, operation) in operations.iter().enumerate() {
        let mut kinds = operation.iter().filter(|(_, raw)| !is_null(raw));
        let parts = match (kinds.next(), kinds.next()) {
            (Some((kind, raw)), None) => {
                let is_of_points = kind == "upsert" || kind == "update_vectors";
                let fields: Fields<'_> = serde_json::from_str(raw.get()).map_err(ApiError::format)?;
                let name = serde_json::to_string(kind).map_err(ApiError::internal)?;
                let parts = parts(asked, is_of_points, &fields)?.into_iter();
                parts
                    .map(|(shard, part)| (shard, format!("{{{name}:{part}}}")))
                    .collect()
            }
            _ => vec![(asked.shards().own, with(operation, &[])?)],
        };
        for (shard, part) in parts {
            let (texts, places) = &mut by_shard[shard as usize];
            texts.push(part);
            places.push(at);
        }
    }
    if number == 0 {
        by_shard[asked.shards().own as usize].0.clear();
    }
    let mut asks: Vec<(u32, Ask)> = Vec::new();
    for (shard, (texts, _)) in (0..).zip(&by_shard) {
        if !texts.is_empty() || number == 0 && shard == asked.shards().own {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            asks.push((
                shard,
                asked.same(format!("{{\"operations\":{}}}", listed(&texts))),
            ));
        }
    }
    let mut done: Vec<Vec<Done>> = vec![Vec::new(); number];
    for (shard, part) in asked.ask_some(asks).await? {
        let answers = part.read::<Vec<Done>>()?;
        for (at, answer) in by_shard[shard as usize].1.iter().zip(answers) {
            done[*at].push(answer);
        }
    }
    let all = done.into_iter().map(together).collect::<ApiResult<Vec<_>>>()?;
    asked.answer(&all)
}
