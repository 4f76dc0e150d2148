//! Maximal marginal relevance over shards: the candidates of all are compared with each other by searches among them, then chosen from as the engine does it.

use std::collections::HashMap;

use ramlet::{Distance, PointId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answers::{Point, WirePoint};
use super::ask::Divided;
use super::ids::divided;
use super::points::retrieve;
use super::raw::vector_of;
use crate::error::{ApiError, ApiResult};

/// Share of diversity where none is given.
const DIVERSITY: f32 = 0.5;

/// How alike points are: larger is more.
fn similarity(score: f32, distance: Option<Distance>) -> f32 {
    match distance {
        Some(Distance::Euclid) => 0.0 - score * score,
        Some(Distance::Manhattan) => 0.0 - score,
        Some(Distance::Cosine | Distance::Dot) | None => score,
    }
}

/// Chooses so many of the candidates; they keep their scores.
pub async fn chosen(
    asked: &Divided,
    candidates: Vec<Point>,
    (using, distance): (&str, Option<Distance>),
    (diversity, most): (Option<f32>, usize),
) -> ApiResult<Vec<Point>> {
    if candidates.is_empty() || most == 0 {
        return Ok(Vec::new());
    }
    let ids: Vec<PointId> = candidates.iter().map(|point| point.id).collect();
    let _held = asked.hold((ids.len() * ids.len() * size_of::<f32>()) as u64)?;
    let alike = compared(asked, &ids, (using, distance)).await?;
    let lambda = 1.0 - diversity.unwrap_or(DIVERSITY);
    // Candidates, how near each is to the query, and to the nearest of those that are chosen.
    let mut pending: Vec<(usize, f32, f32)> = candidates
        .iter()
        .enumerate()
        .map(|(at, point)| (at, similarity(point.score, distance), f32::NEG_INFINITY))
        .collect();
    let mut order = Vec::with_capacity(most.min(pending.len()));
    while order.len() < most && !pending.is_empty() {
        let is_first = order.is_empty();
        let value = |(_, relevance, nearest): &(usize, f32, f32)| match is_first {
            true => *relevance,
            false => lambda * relevance - (1.0 - lambda) * nearest,
        };
        // Of equal ones the last.
        let mut best = 0;
        for (at, one) in pending.iter().enumerate() {
            if value(one) >= value(&pending[best]) {
                best = at;
            }
        }
        if !is_first && value(&pending[best]) == f32::NEG_INFINITY {
            break;
        }
        let (next, ..) = pending.swap_remove(best);
        order.push(next);
        for (other, _, nearest) in &mut pending {
            *nearest = nearest.max(alike[*other * ids.len() + next]);
        }
    }
    let mut candidates: Vec<Option<Point>> = candidates.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|at| candidates[at].take()).collect())
}

/// How alike every two points are: each asks for all, in a row of the table.
async fn compared(
    asked: &Divided,
    ids: &[PointId],
    (using, distance): (&str, Option<Distance>),
) -> ApiResult<Vec<f32>> {
    #[derive(Deserialize)]
    struct Points<'a> {
        #[serde(borrow)]
        points: Vec<WirePoint<'a>>,
    }
    let raw = |text: String| RawValue::from_string(text).map_err(ApiError::internal);
    let (no, names) = (raw("false".to_owned())?, raw(json!([using]).to_string())?);
    let points = retrieve(asked, asked.collection(), ids, (Some(&no), Some(&names))).await?;
    let mut vectors: HashMap<PointId, Value> = HashMap::new();
    for point in &points {
        vectors.extend(vector_of(point, using)?.map(|vector| (point.id, vector)));
    }
    let places: HashMap<PointId, usize> = ids.iter().copied().zip(0..).collect();
    let mut asks = Vec::new();
    for (shard, own) in (0..).zip(divided(ids.iter().copied(), asked.count())) {
        if own.is_empty() {
            continue;
        }
        let each = ids.iter().filter_map(|id| vectors.get(id));
        let searches: Vec<Value> = each
            .map(|vector| {
                json!({
                    "query": { "nearest": vector }, "using": using, "limit": own.len(), "params": { "exact": true },
                    "filter": { "must": [{ "has_id": own }] },
                })
            })
            .collect();
        let path = ("POST", "/collections/{collection}/points/query/batch");
        let body = json!({ "searches": searches }).to_string();
        asks.push((shard, asked.other(path, asked.collection(), body)?));
    }
    // Sparse vectors that share nothing are not found.
    let unlike = if distance.is_none() {
        0.0
    } else {
        f32::NEG_INFINITY
    };
    let mut alike = vec![unlike; ids.len() * ids.len()];
    for (_, part) in &asked.ask_some(asks).await? {
        let asking = ids.iter().filter(|id| vectors.contains_key(id));
        for (id, list) in asking.zip(part.read::<Vec<Points<'_>>>()?) {
            for point in list.points {
                if let Some(column) = places.get(&point.id) {
                    alike[places[id] * ids.len() + column] = similarity(point.score, distance);
                }
            }
        }
    }
    Ok(alike)
}
