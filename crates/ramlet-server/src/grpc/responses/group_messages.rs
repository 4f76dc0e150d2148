//! Groups, facets and distance matrices.

use std::fmt;

use ramlet_proto::wire::{put_bytes, put_message};
use ramlet_proto::{Message, qdrant as q};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::{FRAME_HEAD, HandlerResult, Points, id, message};
use crate::error::{ApiError, ApiResult};

#[derive(serde::Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Default)]
struct Group {
    id: Value,
    hits: Vec<usize>,
    lookup: Option<usize>,
    /// Whether the lookup was written before the hits: points are taken in the order of their writing.
    lookup_first: bool,
}

impl<'de> Deserialize<'de> for Group {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Group, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Group;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a group")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Group, A::Error> {
                let (mut group, mut hits_seen) = (Group::default(), false);
                while let Some(key) = map.next_key::<&str>()? {
                    match key {
                        "id" => group.id = map.next_value()?,
                        "hits" => (group.hits, hits_seen) = (map.next_value()?, true),
                        "lookup" => (group.lookup, group.lookup_first) = (map.next_value()?, !hits_seen),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(group)
            }
        }
        d.deserialize_map(V)
    }
}

/// Tags of the fields `hits` and `lookup` of a group.
const HITS_TAG: u8 = 2 << 3 | 2;
const LOOKUP_TAG: u8 = 3 << 3 | 2;

/// `QueryGroupsResponse` and those with the same fields.
pub fn groups(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    let Groups { groups } = handled.result()?;
    let mut out = Vec::with_capacity(FRAME_HEAD + handled.messages.len() + 32 * groups.len() + 16);
    out.resize(FRAME_HEAD, 0);
    let mut points = handled.points();
    put_message(&mut out, 1, |out| {
        for group in groups {
            put_message(out, 1, |out| put_group(out, &group, &mut points))?;
        }
        Ok::<_, ApiError>(())
    })?;
    let rest = q::QueryGroupsResponse {
        result: None,
        time: handled.time,
        usage: None,
    };
    rest.encode(&mut out).map_err(ApiError::internal)?;
    Ok(out)
}

fn put_group(out: &mut Vec<u8>, group: &Group, points: &mut Points<'_>) -> ApiResult<()> {
    put_bytes(out, 1, &group_id(&group.id).encode_to_vec());
    if group.lookup_first {
        put_lookup(out, group, points)?;
    }
    out.extend_from_slice(points.take(&group.hits)?);
    if !group.lookup_first {
        put_lookup(out, group, points)?;
    }
    Ok(())
}

/// The point that the group's id names: written as a hit is, under another field.
fn put_lookup(out: &mut Vec<u8>, group: &Group, points: &mut Points<'_>) -> ApiResult<()> {
    let Some(len) = group.lookup else { return Ok(()) };
    let at = out.len();
    out.extend_from_slice(points.take(&[len])?);
    if let Some(tag) = out.get_mut(at)
        && *tag == HITS_TAG
    {
        *tag = LOOKUP_TAG;
    }
    Ok(())
}

fn group_id(json: &Value) -> q::GroupId {
    use q::group_id::Kind::{IntegerValue, StringValue, UnsignedValue};
    let kind = match json {
        Value::String(text) => Some(StringValue(text.clone())),
        Value::Number(n) => n
            .as_u64()
            .map(UnsignedValue)
            .or_else(|| n.as_i64().map(IntegerValue)),
        _ => None,
    };
    q::GroupId { kind }
}

pub fn facet(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    use q::facet_value::Variant::{BoolValue, IntegerValue, StringValue};
    #[derive(serde::Deserialize)]
    struct Hits {
        hits: Vec<Hit>,
    }
    #[derive(serde::Deserialize)]
    struct Hit {
        value: Value,
        count: u64,
    }
    let Hits { hits } = handled.result()?;
    let hit = |hit: Hit| {
        let variant = match hit.value {
            Value::String(text) => Some(StringValue(text)),
            Value::Bool(b) => Some(BoolValue(b)),
            Value::Number(n) => n.as_i64().map(IntegerValue),
            _ => None,
        };
        q::FacetHit {
            value: Some(q::FacetValue { variant }),
            count: hit.count,
        }
    };
    message(&q::FacetResponse {
        hits: hits.into_iter().map(hit).collect(),
        time: handled.time,
        usage: None,
    })
}

pub fn pairs(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    #[derive(serde::Deserialize)]
    struct Pairs {
        pairs: Vec<Pair>,
    }
    #[derive(serde::Deserialize)]
    struct Pair {
        a: Value,
        b: Value,
        score: f32,
    }
    let Pairs { pairs } = handled.result()?;
    let pair = |p: Pair| q::SearchMatrixPair {
        a: id(&p.a),
        b: id(&p.b),
        score: p.score,
    };
    let result = q::SearchMatrixPairs {
        pairs: pairs.into_iter().map(pair).collect(),
    };
    message(&q::SearchMatrixPairsResponse {
        result: Some(result),
        time: handled.time,
        usage: None,
    })
}

pub fn offsets(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    #[derive(serde::Deserialize)]
    struct Offsets {
        offsets_row: Vec<u64>,
        offsets_col: Vec<u64>,
        scores: Vec<f32>,
        ids: Vec<Value>,
    }
    let of: Offsets = handled.result()?;
    let result = q::SearchMatrixOffsets {
        offsets_row: of.offsets_row,
        offsets_col: of.offsets_col,
        scores: of.scores,
        ids: of.ids.iter().filter_map(id).collect(),
    };
    message(&q::SearchMatrixOffsetsResponse {
        result: Some(result),
        time: handled.time,
        usage: None,
    })
}
