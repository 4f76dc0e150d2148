//! Facets and distance matrices over shards.

use std::cmp::{Ordering, Reverse};

use bytes::Bytes;
use ramlet::{Matrix, PointId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::answers::{By, WirePoint, merged};
use super::ask::Divided;
use super::filters;
use super::ids::divided;
use super::keys;
use super::points::retrieve;
use super::query::check_name;
use super::samples::{ids_of, sample};
use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::wire::facet::{WireFacet, WireMatrix, write_offsets, write_pairs};

/// `POST /collections/{collection}/facet`: each shard tells all of its values, for one that is rare in each may be frequent in all.
pub async fn facet(asked: &Divided, body: &Bytes) -> ApiResult<Answer> {
    #[derive(Deserialize)]
    struct Hits {
        hits: Vec<Hit>,
    }
    #[derive(Deserialize)]
    struct Hit {
        value: Value,
        count: u64,
    }
    // In the order of one server: what isn't there is told first.
    asked.app.collection(asked.collection()).await?;
    let wire: WireFacet = serde_json::from_slice(body).map_err(ApiError::format)?;
    let (request, _) = wire.into_request()?;
    let mut raw: Map<String, Value> = serde_json::from_slice(body).map_err(ApiError::format)?;
    raw.insert("limit".to_owned(), json!(limits::LIMIT_MAX));
    let body = Value::Object(raw).to_string();
    let parts = asked.ask_all(|| Ok(asked.same(body.clone()))).await?;
    let mut all: Vec<Hit> = Vec::new();
    for (_, part) in &parts {
        all.extend(part.read::<Hits>()?.hits);
    }
    all.sort_by(|a, b| by_value(&a.value, &b.value));
    all.dedup_by(|next, first| {
        let same = next.value == first.value;
        if same {
            first.count += next.count;
        }
        same
    });
    all.sort_by_key(|hit| Reverse(hit.count));
    all.truncate(request.limit);
    let hits: Vec<Value> = all
        .iter()
        .map(|hit| json!({ "value": hit.value, "count": hit.count }))
        .collect();
    asked.answer(&json!({ "hits": hits }))
}

/// Values of one field are of one kind.
fn by_value(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (a, b) => a.as_i64().cmp(&b.as_i64()),
    }
}

/// `POST /points/search/matrix/pairs`, `/offsets`: points of all shards are drawn, and each is held against those that each shard has of them.
pub async fn matrix(asked: &Divided, body: &Bytes, is_offsets: bool) -> ApiResult<Answer> {
    let collection = asked.app.collection(asked.collection()).await?;
    let wire: WireMatrix = serde_json::from_slice(body).map_err(ApiError::format)?;
    let selection = wire.shards();
    let request = wire.into_request()?;
    keys::one_key(&collection, &selection, "a matrix")?;
    check_name(asked, asked.collection(), &request.using).await?;
    let raw: Map<String, Value> = serde_json::from_slice(body).map_err(ApiError::format)?;
    let given: Vec<&Value> = raw.get("filter").into_iter().collect();
    let has_vector = vec![json!({ "has_vector": request.using })];
    let filter = filters::merged(&given, has_vector, &[]);
    let query = Map::from_iter([
        ("query".to_owned(), json!({ "sample": "random" })),
        ("filter".to_owned(), json!(filter)),
        ("shard_key".to_owned(), json!(raw.get("shard_key"))),
    ]);
    let wanted = request.sample.min(ramlet::limits::MATRIX_SAMPLE_MAX + 1);
    let picked = sample(asked, filter.as_ref(), query, wanted).await?;
    if picked.len() > ramlet::limits::MATRIX_SAMPLE_MAX {
        return Err(ApiError::wrong_input(format_args!(
            "sample is {}, at most {} points are compared with each other",
            request.sample,
            ramlet::limits::MATRIX_SAMPLE_MAX
        )));
    }
    let ids = ids_of(&picked);
    let matrix = match ids.len() {
        0 | 1 => Matrix::default(),
        _ => nearest(asked, (ids, raw.get("shard_key")), &request.using, request.limit).await?,
    };
    let mut out = asked.out();
    match is_offsets {
        true => write_offsets(&matrix, &mut out),
        false => write_pairs(&matrix, &mut out),
    }
    Ok(Answer::Json(out))
}

/// For each point the nearest of the others.
async fn nearest(
    asked: &Divided,
    (ids, keys): (Vec<PointId>, Option<&Value>),
    using: &str,
    limit: usize,
) -> ApiResult<Matrix> {
    #[derive(Deserialize)]
    struct Points<'a> {
        #[serde(borrow)]
        points: Vec<WirePoint<'a>>,
    }
    let name = |text: String| RawValue::from_string(text).map_err(ApiError::internal);
    let (no, names) = (name("false".to_owned())?, name(json!([using]).to_string())?);
    let points = retrieve(asked, (asked.collection(), keys), &ids, (Some(&no), Some(&names))).await?;
    let mut vectors = Vec::with_capacity(points.len());
    for point in &points {
        let vector = super::raw::vector_of(point, using)?;
        vectors.push((point.id, vector.unwrap_or(Value::Null)));
    }
    let config = asked.app.collection(asked.collection()).await?.config();
    let distance = config.vectors.get(using).map(|params| params.distance);
    let by = match distance {
        Some(ramlet::Distance::Euclid | ramlet::Distance::Manhattan) => By::Distance,
        _ => By::Score,
    };
    let mut asks = Vec::new();
    for (shard, own) in (0..).zip(divided(ids.iter().copied(), asked.count())) {
        if own.is_empty() {
            continue;
        }
        let searches: Vec<Value> = vectors
            .iter()
            .map(|(id, vector)| {
                json!({
                    "query": { "nearest": vector }, "using": using, "limit": limit, "params": { "exact": true },
                    "filter": { "must": [{ "has_id": own }], "must_not": [{ "has_id": [id] }] }, "shard_key": keys,
                })
            })
            .collect();
        let path = ("POST", "/collections/{collection}/points/query/batch");
        let body = json!({ "searches": searches }).to_string();
        asks.push((shard, asked.other(path, asked.collection(), body)?));
    }
    let parts = asked.ask_some(asks).await?;
    let mut answers = Vec::with_capacity(parts.len());
    for (_, part) in &parts {
        answers.push(part.read::<Vec<Points<'_>>>()?.into_iter());
    }
    let places: Vec<PointId> = vectors.iter().map(|(id, _)| *id).collect();
    let mut nearest = Vec::with_capacity(places.len());
    for _ in &places {
        let lists = answers.iter_mut().filter_map(Iterator::next);
        let found = merged(lists.map(|list| list.points).collect(), by, limit);
        let cells = found.iter().filter_map(|point| {
            let place = places.binary_search(&point.id).ok()?;
            Some((place as u32, point.score))
        });
        nearest.push(cells.collect());
    }
    Ok(Matrix { ids: places, nearest })
}
