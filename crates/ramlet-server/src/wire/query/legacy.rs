//! The routes of clients before 1.16: search, recommend, discover, each as a query.

use std::fmt;

use ramlet::{QueryGroupsRequest, QueryKind, QueryRequest, ShardSelection};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::input::VectorInput;
use super::kinds::{WirePair, WireStrategy, pairs, vectors};
use super::one_or_many::OneOrMany;
use super::query_groups::{GROUPS, IntoGroups, WireGrouping, WithLookupInterface};
use super::{WireLookupFrom, WireParams, check_limit, search_params};
use crate::error::{ApiError, ApiResult};
use crate::wire::filter::WireFilter;
use crate::wire::selectors::{WithPayload, WithVector, payload_selector, vector_selector};
use crate::wire::shard_key::WireShards;
use crate::wire::vector::vector_of_seq;

/// A request's own fields beside those that all have, and both apart. (Flattened structs would be read through a tree.)
macro_rules! request {
    ($(#[$doc:meta])* $name:ident, $called:expr; { $($(#[$attribute:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize)]
        pub struct $name {
            $($(#[$attribute])* $field: $type,)*
            filter: Option<WireFilter>,
            params: Option<WireParams>,
            /// Own addition: as `params.recall`, for clients whose `params` take nothing unknown.
            recall: Option<f32>,
            score_threshold: Option<f32>,
            #[serde(alias = "top")]
            limit: Limit,
            offset: Option<usize>,
            with_payload: Option<WithPayload>,
            #[serde(alias = "with_vectors")]
            with_vector: Option<WithVector>,
            #[serde(default)]
            shard_key: WireShards,
        }

        impl $name {
            /// What the API calls this part of a request where it validates it.
            const CALLED: &str = $called;

            fn split(self) -> ApiResult<(($($type,)*), QueryRequest)> {
                let within = |e: ApiError| e.within(Self::CALLED);
                let request = QueryRequest {
                    filter: self.filter,
                    params: search_params(self.params, self.recall).map_err(within)?,
                    score_threshold: self.score_threshold,
                    limit: self.limit.checked(Self::CALLED).map_err(within)?,
                    offset: self.offset.unwrap_or(0),
                    with_payload: payload_selector(self.with_payload, false),
                    with_vectors: vector_selector(self.with_vector),
                    ..QueryRequest::default()
                };
                Ok((($(self.$field,)*), request))
            }
        }
    };
}

request! {
    /// `POST /points/search`.
    WireSearchRequest, "search_request"; {
        vector: WireNamedVector,
    }
}

request! {
    /// `POST /points/search/groups`.
    WireSearchGroups, GROUPS; {
        vector: WireNamedVector,
        group_by: String,
        group_size: usize,
        with_lookup: Option<WithLookupInterface>,
    }
}

/// A limit, and whether it came by gRPC.
#[derive(Debug)]
struct Limit {
    hits: usize,
    by_grpc: bool,
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Limit, D::Error> {
        let by_grpc = !d.is_human_readable();
        let hits = usize::deserialize(d)?;
        Ok(Limit { hits, by_grpc })
    }
}

impl Limit {
    /// The API holds all limits to 1 and more, but for that of a recommendation by gRPC.
    fn checked(&self, called: &str) -> ApiResult<usize> {
        match self {
            Limit {
                hits: 0,
                by_grpc: true,
            } if called == RECOMMEND => Ok(0),
            Limit { hits, .. } => check_limit(*hits),
        }
    }
}

const RECOMMEND: &str = "recommend_request";

request! {
    /// `POST /points/recommend`.
    WireRecommendRequest, RECOMMEND; {
        positive: Option<Vec<VectorInput>>,
        negative: Option<Vec<VectorInput>>,
        strategy: Option<WireStrategy>,
        using: Option<String>,
        lookup_from: Option<WireLookupFrom>,
    }
}

request! {
    /// `POST /points/recommend/groups`.
    WireRecommendGroups, "recommend_group_request"; {
        positive: Option<Vec<VectorInput>>,
        negative: Option<Vec<VectorInput>>,
        strategy: Option<WireStrategy>,
        using: Option<String>,
        lookup_from: Option<WireLookupFrom>,
        group_by: String,
        group_size: usize,
        with_lookup: Option<WithLookupInterface>,
    }
}

request! {
    /// `POST /points/discover`.
    WireDiscoverRequest, "discover_request"; {
        target: Option<VectorInput>,
        #[serde(default)]
        context: OneOrMany<WirePair>,
        using: Option<String>,
        lookup_from: Option<WireLookupFrom>,
    }
}

/// Several of one kind.
#[derive(Debug, Deserialize)]
pub struct WireBatch<T> {
    pub searches: Vec<T>,
}

/// What is a query in other words.
pub trait IntoQuery {
    /// Of which shards.
    fn shards(&self) -> ShardSelection;
    fn into_query(self) -> ApiResult<QueryRequest>;
}

fn lookup(
    query: QueryKind,
    using: Option<String>,
    lookup_from: Option<WireLookupFrom>,
    rest: QueryRequest,
) -> ApiResult<QueryRequest> {
    Ok(QueryRequest {
        query: Some(query),
        using: using.unwrap_or_default(),
        lookup_from: lookup_from.map(WireLookupFrom::into_location).transpose()?,
        ..rest
    })
}

fn recommend(
    positive: Option<Vec<VectorInput>>,
    negative: Option<Vec<VectorInput>>,
    strategy: Option<WireStrategy>,
) -> ApiResult<QueryKind> {
    Ok(QueryKind::Recommend {
        positive: vectors("positive", positive)?,
        negative: vectors("negative", negative)?,
        strategy: WireStrategy::into_strategy(strategy),
    })
}

impl WireNamedVector {
    fn into_query(self, rest: QueryRequest) -> ApiResult<QueryRequest> {
        Ok(QueryRequest {
            query: Some(QueryKind::Nearest(self.vector.resolve("vector")?)),
            using: self.name,
            ..rest
        })
    }
}

impl IntoQuery for WireSearchRequest {
    fn shards(&self) -> ShardSelection {
        self.shard_key.0.clone()
    }

    fn into_query(self) -> ApiResult<QueryRequest> {
        let ((vector,), rest) = self.split()?;
        vector.into_query(rest)
    }
}

impl IntoQuery for WireRecommendRequest {
    fn shards(&self) -> ShardSelection {
        self.shard_key.0.clone()
    }

    fn into_query(self) -> ApiResult<QueryRequest> {
        let ((positive, negative, strategy, using, from), rest) = self.split()?;
        lookup(recommend(positive, negative, strategy)?, using, from, rest)
    }
}

impl IntoQuery for WireDiscoverRequest {
    fn shards(&self) -> ShardSelection {
        self.shard_key.0.clone()
    }

    fn into_query(self) -> ApiResult<QueryRequest> {
        let ((target, context, using, from), rest) = self.split()?;
        let context = pairs(context)?;
        let query = match target {
            Some(target) => QueryKind::Discover {
                target: target.resolve("target")?,
                context,
            },
            None => QueryKind::Context(context),
        };
        lookup(query, using, from, rest)
    }
}

impl IntoGroups for WireSearchGroups {
    fn shards(&self) -> ShardSelection {
        self.shard_key.0.clone()
    }

    fn into_groups(self) -> ApiResult<QueryGroupsRequest> {
        let ((vector, by, size, with_lookup), rest) = self.split()?;
        WireGrouping::new(by, size, with_lookup).into_groups(vector.into_query(rest)?, Self::CALLED)
    }
}

impl IntoGroups for WireRecommendGroups {
    fn shards(&self) -> ShardSelection {
        self.shard_key.0.clone()
    }

    fn into_groups(self) -> ApiResult<QueryGroupsRequest> {
        let ((positive, negative, strategy, using, from, by, size, with_lookup), rest) = self.split()?;
        let query = lookup(recommend(positive, negative, strategy)?, using, from, rest)?;
        WireGrouping::new(by, size, with_lookup).into_groups(query, Self::CALLED)
    }
}

/// A vector, or `{"name": .., "vector": ..}`.
#[derive(Debug)]
struct WireNamedVector {
    name: String,
    vector: VectorInput,
}

impl<'de> Deserialize<'de> for WireNamedVector {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<WireNamedVector, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = WireNamedVector;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vector or {\"name\": .., \"vector\": ..}")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<WireNamedVector, A::Error> {
                Ok(WireNamedVector {
                    name: String::new(),
                    vector: VectorInput::Vector(vector_of_seq(seq)?),
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WireNamedVector, A::Error> {
                let (mut name, mut vector) = (None, None);
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "name" => name = Some(map.next_value::<String>()?),
                        "vector" => vector = Some(map.next_value::<VectorInput>()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                let Some(vector @ VectorInput::Vector(_)) = vector else {
                    return Err(A::Error::missing_field("vector"));
                };
                Ok(WireNamedVector {
                    name: name.ok_or_else(|| A::Error::missing_field("name"))?,
                    vector,
                })
            }
        }
        d.deserialize_any(V)
    }
}
