//! Random points of all shards: each as likely as any other.

use std::hash::{BuildHasher, RandomState};

use ramlet::PointId;
use serde_json::{Map, Value, json};

use super::answers::Point;
use super::ask::Divided;
use super::points::Count;
use super::raw::points_of;
use crate::error::ApiResult;

/// xorshift64*.
pub struct Chance(u64);

impl Chance {
    /// Another one for every request.
    pub fn new() -> Chance {
        Chance(RandomState::new().hash_one(0) | 1)
    }

    /// Below `most`.
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) % most
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

/// So many points that match `filter`, in any order. `body`: the query that a shard is asked, without its limit.
pub async fn sample(
    asked: &Divided,
    filter: Option<&Value>,
    mut body: Map<String, Value>,
    wanted: usize,
) -> ApiResult<Vec<Point>> {
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let collection = asked.collection();
    let counted = json!({ "filter": filter, "exact": true, "shard_key": body.get("shard_key") }).to_string();
    let path = ("POST", "/collections/{collection}/points/count");
    let counts = asked
        .ask_all(|| asked.other(path, collection, counted.clone()))
        .await?;
    body.insert("limit".to_owned(), json!(wanted));
    let body = Value::Object(body).to_string();
    let path = ("POST", "/collections/{collection}/points/query");
    let parts = asked
        .ask_all(|| asked.other(path, collection, body.clone()))
        .await?;
    let mut shards = Vec::with_capacity(parts.len());
    for ((_, count), (_, part)) in counts.iter().zip(&parts) {
        let points: Vec<Point> = points_of(part)?.iter().map(Point::from).collect();
        // Counted a moment before.
        let left = count.read::<Count>()?.count.max(points.len() as u64);
        shards.push((left, points));
    }
    Ok(drawn(shards, wanted, &mut Chance::new()))
}

/// Draws from shards by what is left in each, without putting back.
fn drawn<T>(mut shards: Vec<(u64, Vec<T>)>, wanted: usize, chance: &mut Chance) -> Vec<T> {
    let mut out = Vec::new();
    while out.len() < wanted {
        let all: u64 = shards.iter().map(|(left, _)| left).sum();
        if all == 0 {
            break;
        }
        let mut nth = chance.below(all);
        for (left, points) in &mut shards {
            if nth < *left {
                *left -= 1;
                match points.pop() {
                    Some(point) => out.push(point),
                    // Points were deleted since they were counted.
                    None => *left = 0,
                }
                break;
            }
            nth -= *left;
        }
    }
    out
}

/// The ids of points, ascending.
pub fn ids_of(points: &[Point]) -> Vec<PointId> {
    let mut ids: Vec<PointId> = points.iter().map(|point| point.id).collect();
    ids.sort_unstable();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_drawn_from_by_their_sizes() {
        let mut counts = [0u32; 3];
        let mut chance = Chance(7);
        for _ in 0..10_000 {
            let shards = [10u64, 30, 60]
                .iter()
                .enumerate()
                .map(|(shard, left)| (*left, vec![shard; 5]))
                .collect();
            let drawn = drawn(shards, 5, &mut chance);
            assert_eq!(drawn.len(), 5);
            drawn.into_iter().for_each(|shard| counts[shard] += 1);
        }
        for (count, expected) in counts.iter().zip([5_000f64, 15_000.0, 30_000.0]) {
            let off = (f64::from(*count) - expected).abs() / expected.sqrt();
            assert!(off < 5.0, "{counts:?}");
        }
        assert_eq!(drawn(vec![(2, vec![1, 2]), (0, vec![])], 9, &mut chance).len(), 2);
    }
}
