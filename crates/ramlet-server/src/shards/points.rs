//! Points by id, in order, and counted.

use std::collections::HashMap;

use bytes::Bytes;
use ramlet::{Direction, PointId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answers::{By, Point, WirePoint, merged, write_list};
use super::ask::Divided;
use super::ids::{divided, shard_of};
use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};
use crate::wire::query::{WireCount, WireRetrieve, WireScroll};
use crate::wire::selectors::{WithPayload, payload_selector, vector_selector};

/// `GET /collections/{collection}/points/{id}`.
pub async fn one(asked: &Divided) -> ApiResult<Answer> {
    let id = asked.params.iter().find(|(name, _)| name == "id");
    let id = id.and_then(|(_, text)| text.parse::<PointId>().ok());
    // What is no id is refused by the shard that is here.
    let shard = id.map_or(asked.shards().own, |id| shard_of(id, asked.count()));
    let part = asked.ask(shard, asked.same(Bytes::new())).await?;
    let mut out = asked.points_out();
    Point::from(&part.read::<WirePoint<'_>>()?).write_record(&mut out)?;
    Ok(Answer::Json(out))
}

/// `POST /collections/{collection}/points`.
pub async fn several(asked: &Divided, body: &Bytes) -> ApiResult<Answer> {
    let wire: WireRetrieve = serde_json::from_slice(body).map_err(ApiError::format)?;
    let raw: Selected<'_> = serde_json::from_slice(body).map_err(ApiError::format)?;
    let found = retrieve(
        asked,
        (asked.collection(), raw.shard_key),
        &wire.ids,
        (raw.with_payload, raw.vector()),
    )
    .await?;
    let mut out = asked.points_out();
    write_list(found, &mut out, Point::write_record)?;
    Ok(Answer::Json(out))
}

/// What is wanted of points, as it came.
#[derive(Deserialize)]
struct Selected<'a> {
    #[serde(borrow)]
    with_payload: Option<&'a RawValue>,
    #[serde(borrow)]
    with_vector: Option<&'a RawValue>,
    #[serde(borrow)]
    with_vectors: Option<&'a RawValue>,
    #[serde(borrow)]
    shard_key: Option<&'a RawValue>,
}

impl<'a> Selected<'a> {
    fn vector(&self) -> Option<&'a RawValue> {
        self.with_vector.or(self.with_vectors)
    }
}

/// Points of a collection, or under some of its shard keys, by their ids: in that order, each once. Those that aren't there are left out.
pub async fn retrieve<K: serde::Serialize + Copy>(
    asked: &Divided,
    (collection, keys): (&str, K),
    ids: &[PointId],
    (payload, vector): (Option<&RawValue>, Option<&RawValue>),
) -> ApiResult<Vec<Point>> {
    let mut asks = Vec::new();
    for (shard, ids) in (0..).zip(divided(ids.iter().copied(), asked.count())) {
        // A collection that isn't there is told by one of them at least.
        if ids.is_empty() && shard != asked.shards().own {
            continue;
        }
        let body = json!({ "ids": ids, "with_payload": payload, "with_vector": vector, "shard_key": keys });
        let path = ("POST", "/collections/{collection}/points");
        asks.push((shard, asked.other(path, collection, body.to_string())?));
    }
    let parts = asked.ask_some(asks).await?;
    let mut found: HashMap<PointId, Point> = HashMap::new();
    for (_, part) in &parts {
        for point in part.read::<Vec<WirePoint<'_>>>()? {
            found.insert(point.id, Point::from(&point));
        }
    }
    Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
}

/// Lays payloads and vectors of points over those that were found without.
pub async fn dress(
    asked: &Divided,
    points: Vec<Point>,
    keys: Option<&Value>,
    (payload, vector): (Option<&Value>, Option<&Value>),
) -> ApiResult<Vec<Point>> {
    let wanted = (wants_payload(payload)?, wants_vector(vector)?);
    if points.is_empty() || wanted == (false, false) && !is_keyed(asked).await? {
        return Ok(points);
    }
    let ids: Vec<PointId> = points.iter().map(|point| point.id).collect();
    let raw = |value: Option<&Value>| {
        let text = value.map_or_else(|| "false".to_owned(), ToString::to_string);
        RawValue::from_string(text).map_err(ApiError::internal)
    };
    let (payload, vector) = (raw(payload)?, raw(vector)?);
    let place = (asked.collection(), keys);
    let found = retrieve(asked, place, &ids, (Some(&payload), Some(&vector))).await?;
    let mut found: HashMap<PointId, Point> = found.into_iter().map(|point| (point.id, point)).collect();
    // One that was deleted meanwhile is no hit any more.
    let dressed = points.into_iter().filter_map(|point| {
        let parts = found.remove(&point.id)?;
        Some(Point {
            payload: parts.payload,
            vector: parts.vector,
            shard_key: parts.shard_key,
            ..point
        })
    });
    Ok(dressed.collect())
}

/// Whether its points show a shard key.
async fn is_keyed(asked: &Divided) -> ApiResult<bool> {
    let collection = asked.app.collection(asked.collection()).await?;
    Ok(collection.shard_infos().is_some())
}

fn wants_payload(value: Option<&Value>) -> ApiResult<bool> {
    let with = value
        .map(WithPayload::deserialize)
        .transpose()
        .map_err(ApiError::format)?;
    Ok(payload_selector(with, false) != ramlet::PayloadSelector::None)
}

fn wants_vector(value: Option<&Value>) -> ApiResult<bool> {
    let with = value
        .map(Deserialize::deserialize)
        .transpose()
        .map_err(ApiError::format)?;
    Ok(vector_selector(with) != ramlet::VectorSelector::None)
}

/// `POST /collections/{collection}/points/scroll`.
pub async fn scroll(asked: &Divided, body: Bytes) -> ApiResult<Answer> {
    #[derive(Deserialize)]
    struct Page<'a> {
        #[serde(borrow)]
        points: Vec<WirePoint<'a>>,
        next_page_offset: Option<PointId>,
    }
    let wire: WireScroll = serde_json::from_slice(&body).map_err(ApiError::format)?;
    let scroll = wire.into_scroll()?;
    let parts = asked.ask_all(|| Ok(asked.same(body.clone()))).await?;
    let (mut lists, mut next) = (Vec::new(), None::<PointId>);
    for (_, part) in &parts {
        let page: Page<'_> = part.read()?;
        next = [next, page.next_page_offset].into_iter().flatten().min();
        lists.push(page.points);
    }
    let by = scroll.order_by.as_ref().map_or(By::Id, |order| By::Value {
        descending: order.direction == Direction::Desc,
    });
    let mut points = merged(lists, by, usize::MAX);
    if points.len() > scroll.limit {
        let rest = points.split_off(scroll.limit);
        next = [next, rest.first().map(|point| point.id)]
            .into_iter()
            .flatten()
            .min();
    }
    let next = next.filter(|_| scroll.order_by.is_none());
    let mut out = asked.points_out();
    out.raw("{\"points\":");
    write_list(points, &mut out, Point::write_record)?;
    out.raw(",\"next_page_offset\":");
    out.value(&next);
    out.raw("}");
    Ok(Answer::Json(out))
}

#[derive(Deserialize)]
pub struct Count {
    pub count: u64,
}

/// `POST /collections/{collection}/points/count`.
pub async fn count(asked: &Divided, body: Bytes) -> ApiResult<Answer> {
    let _: WireCount = serde_json::from_slice(&body).map_err(ApiError::format)?;
    let parts = asked.ask_all(|| Ok(asked.same(body.clone()))).await?;
    let mut count = 0;
    for (_, part) in &parts {
        count += part.read::<Count>()?.count;
    }
    asked.answer(&json!({ "count": count }))
}
