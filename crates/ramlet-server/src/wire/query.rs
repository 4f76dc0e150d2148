//! Searches: the query API and the older search routes.

use std::fmt;

use ramlet::settings::check_recall;
use ramlet::{OrderBy, PointId, QuantizationParams, QueryVector, ScrollRequest, SearchParams, SearchRequest};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::filter::WireFilter;
use super::given::Given;
use super::order::WireOrderBy;
use super::selectors::{WithPayload, WithVector, payload_selector, vector_selector};
use super::vector::{VectorKeys, WireVector, vector_of_seq};
use crate::error::{ApiError, ApiResult};
use crate::inference::{InputVector, Purpose};

const LIMIT_DEFAULT: usize = 10;

/// What a request of the query API comes to.
#[derive(Debug, Clone)]
pub enum Asked {
    Nearest(SearchRequest),
    /// Without a query, or by `order_by`: a scroll of `offset + limit` points of which the first `skip` fall away.
    Scroll {
        scroll: ScrollRequest,
        skip: usize,
    },
}

/// `POST /points/query`.
#[derive(Debug, Deserialize)]
pub struct WireQueryRequest {
    query: Option<WireQuery>,
    using: Option<String>,
    filter: Option<WireFilter>,
    params: Option<WireParams>,
    /// Own addition: as `params.recall`, for clients whose `params` take nothing unknown.
    recall: Option<f32>,
    score_threshold: Option<f32>,
    limit: Option<usize>,
    offset: Option<usize>,
    with_payload: Option<WithPayload>,
    #[serde(alias = "with_vectors")]
    with_vector: Option<WithVector>,
    #[serde(default)]
    prefetch: Given,
    #[serde(default)]
    lookup_from: Given,
    #[serde(default)]
    shard_key: Given,
}

#[derive(Debug, Deserialize)]
pub struct WireQueryBatch {
    pub searches: Vec<WireQueryRequest>,
}

impl WireQueryRequest {
    pub fn into_asked(self) -> ApiResult<Asked> {
        self.prefetch
            .refuse("`prefetch` (hybrid and multi-stage queries)")?;
        self.lookup_from.refuse("`lookup_from`")?;
        self.shard_key.refuse("`shard_key`")?;
        let limit = check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))?;
        let offset = self.offset.unwrap_or(0);
        let params = search_params(self.params, self.recall)?;
        let with_payload = payload_selector(self.with_payload, false);
        let with_vectors = vector_selector(self.with_vector);
        let query = match self.query {
            Some(WireQuery::Vector(vector)) => QueryVector::Vector(vector.resolve("query", Purpose::Query)?),
            Some(WireQuery::Id(id)) => QueryVector::Id(id),
            Some(WireQuery::Refused(feature)) => return Err(ApiError::unsupported(feature)),
            Some(WireQuery::OrderBy(order)) => {
                let order_by = Some(order.into_order()?);
                return Ok(scroll(
                    self.filter,
                    order_by,
                    limit,
                    offset,
                    with_payload,
                    with_vectors,
                ));
            }
            None => {
                return Ok(scroll(
                    self.filter,
                    None,
                    limit,
                    offset,
                    with_payload,
                    with_vectors,
                ));
            }
        };
        Ok(Asked::Nearest(SearchRequest {
            query,
            using: self.using.unwrap_or_default(),
            filter: self.filter,
            params,
            limit,
            offset,
            score_threshold: self.score_threshold,
            with_payload,
            with_vectors,
        }))
    }
}

fn scroll(
    filter: Option<WireFilter>,
    order_by: Option<OrderBy>,
    limit: usize,
    offset: usize,
    with_payload: ramlet::PayloadSelector,
    with_vectors: ramlet::VectorSelector,
) -> Asked {
    let limit = limit.saturating_add(offset);
    let scroll = ScrollRequest {
        filter,
        offset: None,
        limit,
        order_by,
        with_payload,
        with_vectors,
    };
    Asked::Scroll { scroll, skip: offset }
}

/// At least 1.
pub fn check_limit(limit: usize) -> ApiResult<usize> {
    match limit {
        0 => Err(ApiError::validation(
            "limit",
            "value 0 invalid, must be 1 or larger",
        )),
        n => Ok(n),
    }
}

/// `params` of a search. `acorn` and `idf` say nothing: filters need no extra edges here, and nothing is sparse.
#[derive(Debug, Default, Deserialize)]
pub struct WireParams {
    hnsw_ef: Option<usize>,
    exact: Option<bool>,
    indexed_only: Option<bool>,
    quantization: Option<WireQuantization>,
    /// Own addition: recall to reach, above 0 and below 1.
    recall: Option<f32>,
    /// Own addition: tell how each segment was searched.
    explain: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
struct WireQuantization {
    ignore: Option<bool>,
    rescore: Option<bool>,
    oversampling: Option<f32>,
}

/// `recall` is the one beside `params`; the one within goes before it.
fn search_params(params: Option<WireParams>, recall: Option<f32>) -> ApiResult<SearchParams> {
    let wire = params.unwrap_or_default();
    if let Some(outer) = recall {
        check_recall(outer).map_err(|e| ApiError::validation("recall", e))?;
    }
    if let Some(inner) = wire.recall {
        check_recall(inner).map_err(|e| ApiError::validation("params.recall", e))?;
    }
    let quantization = wire.quantization.unwrap_or_default();
    if let Some(times) = quantization.oversampling.filter(|times| *times < 1.0) {
        return Err(ApiError::validation(
            "params.quantization.oversampling",
            format!("value {times} invalid, must be 1.0 or larger"),
        ));
    }
    Ok(SearchParams {
        exact: wire.exact.unwrap_or(false),
        hnsw_ef: wire.hnsw_ef,
        indexed_only: wire.indexed_only.unwrap_or(false),
        recall: wire.recall.or(recall),
        quantization: QuantizationParams {
            ignore: quantization.ignore.unwrap_or(false),
            rescore: quantization.rescore,
            oversampling: quantization.oversampling,
        },
        explain: wire.explain.unwrap_or(false),
    })
}

/// The `query` field.
#[derive(Debug, Clone)]
pub enum WireQuery {
    Vector(WireVector),
    Id(PointId),
    OrderBy(WireOrderBy),
    /// A kind of query that isn't built, named for the client.
    Refused(&'static str),
}

/// The kinds of query by the key that shows them.
const REFUSED: &[(&str, &str)] = &[
    ("recommend", "the recommend query"),
    ("discover", "the discover query"),
    ("context", "the context query"),
    ("fusion", "the fusion query"),
    ("rrf", "the rrf query"),
    ("formula", "the formula query"),
    ("sample", "the sample query"),
    ("mmr", "`mmr` of the nearest query"),
    ("relevance_feedback", "the relevance feedback query"),
];

impl<'de> Deserialize<'de> for WireQuery {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<WireQuery, D::Error> {
        d.deserialize_any(QueryVisitor)
    }
}

struct QueryVisitor;

impl<'de> Visitor<'de> for QueryVisitor {
    type Value = WireQuery;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a query: a vector, a point id, {\"nearest\": ..} or {\"order_by\": ..}")
    }
    fn visit_u64<E: Error>(self, id: u64) -> Result<WireQuery, E> {
        Ok(WireQuery::Id(PointId::Num(id)))
    }
    fn visit_str<E: Error>(self, id: &str) -> Result<WireQuery, E> {
        PointId::deserialize(serde::de::value::StrDeserializer::new(id)).map(WireQuery::Id)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<WireQuery, A::Error> {
        vector_of_seq(seq).map(|vector| WireQuery::Vector(WireVector(InputVector::Vector(vector))))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WireQuery, A::Error> {
        let mut query = None;
        let mut refused = None;
        let mut keys: Option<VectorKeys> = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "nearest" => query = Some(map.next_value::<WireQuery>()?),
                "order_by" => query = Some(WireQuery::OrderBy(map.next_value()?)),
                other if VectorKeys::knows(other) => keys.get_or_insert_default().take(other, &mut map)?,
                other => match REFUSED.iter().find(|(name, _)| *name == other) {
                    Some((_, feature)) => {
                        if map.next_value::<Given>()?.0 {
                            refused = refused.or(Some(WireQuery::Refused(feature)));
                        }
                    }
                    None => {
                        map.next_value::<IgnoredAny>()?;
                    }
                },
            }
        }
        if let Some(keys) = keys {
            query = Some(WireQuery::Vector(WireVector(keys.finish()?)));
        }
        refused
            .or(query)
            .ok_or_else(|| A::Error::custom("the query has none of the known kinds"))
    }
}

/// `POST /points/search`, of clients before 1.16.
#[derive(Debug, Deserialize)]
pub struct WireSearchRequest {
    vector: WireNamedVector,
    filter: Option<WireFilter>,
    params: Option<WireParams>,
    /// Own addition: as `params.recall`, for clients whose `params` take nothing unknown.
    recall: Option<f32>,
    score_threshold: Option<f32>,
    limit: usize,
    offset: Option<usize>,
    with_payload: Option<WithPayload>,
    #[serde(alias = "with_vectors")]
    with_vector: Option<WithVector>,
    #[serde(default)]
    shard_key: Given,
}

#[derive(Debug, Deserialize)]
pub struct WireSearchBatch {
    pub searches: Vec<WireSearchRequest>,
}

impl WireSearchRequest {
    pub fn into_search(self) -> ApiResult<SearchRequest> {
        self.shard_key.refuse("`shard_key`")?;
        Ok(SearchRequest {
            query: QueryVector::Vector(self.vector.vector.resolve("vector", Purpose::Query)?),
            using: self.vector.name,
            filter: self.filter,
            params: search_params(self.params, self.recall)?,
            limit: check_limit(self.limit)?,
            offset: self.offset.unwrap_or(0),
            score_threshold: self.score_threshold,
            with_payload: payload_selector(self.with_payload, false),
            with_vectors: vector_selector(self.with_vector),
        })
    }
}

/// A vector, or `{"name": .., "vector": [..]}`.
#[derive(Debug)]
struct WireNamedVector {
    name: String,
    vector: WireVector,
}

impl<'de> Deserialize<'de> for WireNamedVector {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<WireNamedVector, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = WireNamedVector;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vector or {\"name\": .., \"vector\": [..]}")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<WireNamedVector, A::Error> {
                Ok(WireNamedVector {
                    name: String::new(),
                    vector: WireVector(InputVector::Vector(vector_of_seq(seq)?)),
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WireNamedVector, A::Error> {
                let (mut name, mut vector) = (None, None);
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "name" => name = Some(map.next_value::<String>()?),
                        "vector" => vector = Some(map.next_value::<WireVector>()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(WireNamedVector {
                    name: name.ok_or_else(|| A::Error::missing_field("name"))?,
                    vector: vector.ok_or_else(|| A::Error::missing_field("vector"))?,
                })
            }
        }
        d.deserialize_any(V)
    }
}

/// `POST /points/scroll`.
#[derive(Debug, Deserialize)]
pub struct WireScroll {
    offset: Option<PointId>,
    limit: Option<usize>,
    filter: Option<WireFilter>,
    with_payload: Option<WithPayload>,
    #[serde(alias = "with_vectors")]
    with_vector: Option<WithVector>,
    order_by: Option<WireOrderBy>,
    #[serde(default)]
    shard_key: Given,
}

impl WireScroll {
    pub fn into_scroll(self) -> ApiResult<ScrollRequest> {
        self.shard_key.refuse("`shard_key`")?;
        let order_by = self.order_by.map(WireOrderBy::into_order).transpose()?;
        if order_by.is_some() && self.offset.is_some() {
            return Err(ApiError::wrong_input(
                "`offset` can't be used with `order_by`; use `order_by.start_from` to go on",
            ));
        }
        Ok(ScrollRequest {
            filter: self.filter,
            offset: self.offset,
            limit: check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))?,
            order_by,
            with_payload: payload_selector(self.with_payload, true),
            with_vectors: vector_selector(self.with_vector),
        })
    }
}

/// `POST /points`.
#[derive(Debug, Deserialize)]
pub struct WireRetrieve {
    pub ids: Vec<PointId>,
    pub with_payload: Option<WithPayload>,
    #[serde(alias = "with_vectors")]
    pub with_vector: Option<WithVector>,
    #[serde(default)]
    pub shard_key: Given,
}

/// `POST /points/count`.
#[derive(Debug, Deserialize)]
pub struct WireCount {
    pub filter: Option<WireFilter>,
    pub exact: Option<bool>,
    #[serde(default)]
    pub shard_key: Given,
}

#[cfg(test)]
#[path = "query_tests.rs"]
mod tests;
