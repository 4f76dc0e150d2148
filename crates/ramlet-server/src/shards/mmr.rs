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

/// A vector's name, its distance, and the shard keys that the query is about.
type Compared<'a> = (&'a str, Option<Distance>, Option<&'a Value>);

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
    (using, distance, keys): Compared<'_>,
    (diversity, most): (Option<f32>, usize),
) -> ApiResult<Vec<Point>> {
    if candidates.is_empty() || most == 0 {
        return Ok(Vec::new());
    }
    let ids: Vec<PointId> = candidates.iter().map(|point| point.id).collect();
    let _held = asked.hold((ids.len() * ids.len() * size_of::<f32>()) as u64)?;
    let alike = compared(asked, &ids, (using, distance, keys)).await?;
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
    (using, distance, keys): Compared<'_>,
) -> ApiResult<Vec<f32>> {
    let raw = |text: String| RawValue::from_string(text).map_err(ApiError::internal);
    let (no, names) = (raw("false".to_owned())?, raw(json!([using]).to_string())?);
    let points = retrieve(asked, (asked.collection(), keys), ids, (Some(&no), Some(&names))).await?;
    let mut vectors: HashMap<PointId, Value> = HashMap::new();
    for point in &points {
        vectors.extend(vector_of(point, using)?.map(|vector| (point.id, vector)));
    }
    let places: HashMap<PointId, usize> = ids.iter().copied().zip(0..).collect();
    // Sparse vectors that share nothing are not found.
    let unlike = if distance.is_none() {
        0.0
    } else {
        f32::NEG_INFINITY
    };
    let mut alike = vec![unlike; ids.len() * ids.len()];
    let asking: Vec<PointId> = ids
        .iter()
        .copied()
        .filter(|id| vectors.contains_key(id))
        .collect();
    for asking in asking.chunks((COMPARED_AT_ONCE / ids.len()).max(1)) {
        let searches = Searches {
            asking,
            vectors: &vectors,
            ids,
        };
        for (id, list) in searches.done(asked, (using, keys)).await? {
            for (other, score) in list {
                if let Some(column) = places.get(&other) {
                    alike[places[&id] * ids.len() + column] = similarity(score, distance);
                }
            }
        }
    }
    Ok(alike)
}

/// So many similarities are told at once: they come as text.
const COMPARED_AT_ONCE: usize = 8_192;

/// Some of the points, each of which asks for all.
struct Searches<'a> {
    asking: &'a [PointId],
    vectors: &'a HashMap<PointId, Value>,
    ids: &'a [PointId],
}

impl Searches<'_> {
    /// Of each that asks, with its score, what a shard has found.
    async fn done(
        &self,
        asked: &Divided,
        (using, keys): (&str, Option<&Value>),
    ) -> ApiResult<Vec<(PointId, Vec<(PointId, f32)>)>> {
        #[derive(Deserialize)]
        struct Points<'a> {
            #[serde(borrow)]
            points: Vec<WirePoint<'a>>,
        }
        let mut asks = Vec::new();
        for (shard, own) in (0..).zip(divided(self.ids.iter().copied(), asked.count())) {
            if own.is_empty() {
                continue;
            }
            let each = self.asking.iter().filter_map(|id| self.vectors.get(id));
            let searches: Vec<Value> = each
                .map(|vector| {
                    json!({
                        "query": { "nearest": vector }, "using": using, "limit": own.len(), "params": { "exact": true },
                        "filter": { "must": [{ "has_id": own }] }, "shard_key": keys,
                    })
                })
                .collect();
            let path = ("POST", "/collections/{collection}/points/query/batch");
            let body = json!({ "searches": searches }).to_string();
            asks.push((shard, asked.other(path, asked.collection(), body)?));
        }
        let mut found = Vec::with_capacity(asks.len() * self.asking.len());
        for (_, part) in &asked.ask_some(asks).await? {
            for (id, list) in self.asking.iter().zip(part.read::<Vec<Points<'_>>>()?) {
                let scores = list.points.iter().map(|point| (point.id, point.score));
                found.push((*id, scores.collect()));
            }
        }
        Ok(found)
    }
}
