//! Points of shards' answers: read, merged, and written as one node's.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use ramlet::{OrderValue, PointId, Ranked, Record, ScoredPoint, ShardKey};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::answers::out::Out;
use crate::error::ApiResult;
use crate::wire::vector::VectorStruct;

/// A point as a shard gave it: a hit of a search, or a record without score.
#[derive(Debug, Clone, Deserialize)]
pub struct WirePoint<'a> {
    pub id: PointId,
    #[serde(default)]
    pub version: u64,
    #[serde(default)]
    pub score: f32,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(borrow)]
    vector: Option<&'a RawValue>,
    #[serde(borrow)]
    highlights: Option<&'a RawValue>,
    pub order_value: Option<OrderValue>,
    shard_key: Option<ShardKey>,
}

/// One that is kept.
#[derive(Debug, Clone)]
pub struct Point {
    pub id: PointId,
    pub version: u64,
    pub score: f32,
    pub order_value: Option<OrderValue>,
    pub payload: Option<Box<RawValue>>,
    pub vector: Option<Box<RawValue>>,
    pub highlights: Option<Box<RawValue>>,
    pub shard_key: Option<Arc<ShardKey>>,
}

impl From<&WirePoint<'_>> for Point {
    fn from(wire: &WirePoint<'_>) -> Point {
        Point {
            id: wire.id,
            version: wire.version,
            score: wire.score,
            order_value: wire.order_value,
            payload: wire.payload.map(ToOwned::to_owned),
            vector: wire.vector.map(ToOwned::to_owned),
            highlights: wire.highlights.map(ToOwned::to_owned),
            shard_key: wire.shard_key.clone().map(Arc::new),
        }
    }
}

/// What fusion looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rank {
    pub id: PointId,
    pub version: u64,
    pub score: f32,
}

impl Ranked for Rank {
    type Key = PointId;

    fn key(&self) -> PointId {
        self.id
    }

    fn score(&self) -> f32 {
        self.score
    }

    fn scored(self, score: f32) -> Rank {
        Rank { score, ..self }
    }
}

/// How points of several shards are ordered. Where they are equal: by their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Distances: the least first.
    Distance,
    /// The highest first.
    Score,
    Value {
        descending: bool,
    },
    Id,
}

impl By {
    fn compare(self, a: &WirePoint<'_>, b: &WirePoint<'_>) -> Ordering {
        self.order(a, b).then(a.id.cmp(&b.id))
    }

    fn order(self, a: &WirePoint<'_>, b: &WirePoint<'_>) -> Ordering {
        match self {
            By::Distance => a.score.total_cmp(&b.score),
            By::Score => b.score.total_cmp(&a.score),
            By::Value { descending } => {
                let order = values(a.order_value, b.order_value);
                if descending { order.reverse() } else { order }
            }
            By::Id => Ordering::Equal,
        }
    }
}

fn values(a: Option<OrderValue>, b: Option<OrderValue>) -> Ordering {
    use OrderValue::{Float, Int};
    match (a, b) {
        (Some(Int(a)), Some(Int(b))) => a.cmp(&b),
        (Some(Float(a)), Some(Float(b))) => a.total_cmp(&b),
        (Some(Int(a)), Some(Float(b))) => (a as f64).total_cmp(&b),
        (Some(Float(a)), Some(Int(b))) => a.total_cmp(&(b as f64)),
        (None, None) => Ordering::Equal,
        (None, _) => Ordering::Greater,
        (_, None) => Ordering::Less,
    }
}

/// The first `most` of several lists, each of which is ordered already.
pub fn merged(lists: Vec<Vec<WirePoint<'_>>>, by: By, most: usize) -> Vec<Point> {
    let mut all: Vec<WirePoint<'_>> = lists.into_iter().flatten().collect();
    all.sort_by(|a, b| by.compare(a, b));
    all.iter().take(most).map(Point::from).collect()
}

/// The first `most` of several lists; equal ones in the order of `ids`, which has them all.
pub fn in_order(
    lists: Vec<Vec<WirePoint<'_>>>,
    by: By,
    ids: impl Iterator<Item = PointId>,
    most: usize,
) -> Vec<Point> {
    let mut places: HashMap<PointId, usize> = HashMap::new();
    for (at, id) in ids.enumerate() {
        places.entry(id).or_insert(at);
    }
    let mut all: Vec<WirePoint<'_>> = lists.into_iter().flatten().collect();
    let place = |point: &WirePoint<'_>| places.get(&point.id).copied();
    all.sort_by(|a, b| by.order(a, b).then_with(|| place(a).cmp(&place(b))));
    all.iter().take(most).map(Point::from).collect()
}

impl Point {
    /// A point that fusion found, which has no parts yet.
    pub fn bare(rank: Rank) -> Point {
        Point {
            id: rank.id,
            version: rank.version,
            score: rank.score,
            order_value: None,
            payload: None,
            vector: None,
            highlights: None,
            shard_key: None,
        }
    }

    pub fn rank(&self) -> Rank {
        Rank {
            id: self.id,
            version: self.version,
            score: self.score,
        }
    }

    fn parts(self) -> ApiResult<(Option<Vec<u8>>, Option<ramlet::NamedVectors>)> {
        let text = |raw: Box<RawValue>| String::from(Box::<str>::from(raw)).into_bytes();
        let vectors = match &self.vector {
            None => None,
            Some(raw) => {
                let wire: VectorStruct =
                    serde_json::from_str(raw.get()).map_err(crate::error::ApiError::internal)?;
                Some(wire.resolve("vector")?)
            }
        };
        Ok((self.payload.map(text), vectors))
    }

    /// As a hit, with its score.
    pub fn write_hit(mut self, out: &mut Out) -> ApiResult<()> {
        let highlights = self.highlights.take();
        let highlights = highlights.map(|raw| String::from(Box::<str>::from(raw)).into_bytes());
        let (id, score, version, order_value) = (self.id, self.score, self.version, self.order_value);
        let shard_key = self.shard_key.take();
        let (payload, vectors) = self.parts()?;
        out.hit(&ScoredPoint {
            id,
            score,
            version,
            payload,
            vectors,
            order_value,
            highlights,
            shard_key,
        });
        Ok(())
    }

    /// As a record.
    pub fn write_record(mut self, out: &mut Out) -> ApiResult<()> {
        let (id, order_value, shard_key) = (self.id, self.order_value, self.shard_key.take());
        let (payload, vectors) = self.parts()?;
        out.record(&Record {
            id,
            payload,
            vectors,
            order_value,
            shard_key,
        });
        Ok(())
    }
}

/// `[a, b, ...]`.
pub fn write_list(
    points: Vec<Point>,
    out: &mut Out,
    write: fn(Point, &mut Out) -> ApiResult<()>,
) -> ApiResult<()> {
    let mut list = out.open_list();
    for point in points {
        list.item(|out| write(point, out))?;
    }
    list.close();
    Ok(())
}
