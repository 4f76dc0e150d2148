//! Queries with groups.

use ramlet::{GROUP_SIZE_DEFAULT, QueryGroupsRequest, QueryRequest, ShardSelection, WithLookup};
use serde::Deserialize;

use super::kinds::WireQuery;
use super::one_or_many::OneOrMany;
use super::{WireLookupFrom, WireParams, WirePrefetch, WireQueryRequest};
use crate::error::{ApiError, ApiResult};
use crate::wire::filter::WireFilter;
use crate::wire::selectors::{WithPayload, WithVector, payload_selector, vector_selector};
use crate::wire::shard_key::WireShards;

/// What is a query with groups in other words.
pub trait IntoGroups {
    /// Of which shards.
    fn shards(&self) -> ShardSelection;
    fn into_groups(self) -> ApiResult<QueryGroupsRequest>;
}

/// What the API calls a query or search with groups where it validates it.
pub const GROUPS: &str = "search_group_request";

/// `POST /points/query/groups`.
#[derive(Debug, Deserialize)]
pub struct WireQueryGroups {
    query: Option<WireQuery>,
    using: Option<String>,
    filter: Option<WireFilter>,
    params: Option<WireParams>,
    /// Own addition: as `params.recall`, for clients whose `params` take nothing unknown.
    recall: Option<f32>,
    score_threshold: Option<f32>,
    limit: Option<usize>,
    with_payload: Option<WithPayload>,
    #[serde(alias = "with_vectors")]
    with_vector: Option<WithVector>,
    #[serde(default)]
    prefetch: OneOrMany<WirePrefetch>,
    lookup_from: Option<WireLookupFrom>,
    group_by: String,
    group_size: Option<usize>,
    with_lookup: Option<WithLookupInterface>,
    #[serde(default)]
    shard_key: WireShards,
}

impl IntoGroups for WireQueryGroups {
    fn shards(&self) -> ShardSelection {
        self.shard_key.0.clone()
    }

    fn into_groups(self) -> ApiResult<QueryGroupsRequest> {
        let size = self.group_size.unwrap_or(GROUP_SIZE_DEFAULT);
        let grouping = WireGrouping::new(self.group_by, size, self.with_lookup);
        let query = WireQueryRequest {
            query: self.query,
            using: self.using,
            filter: self.filter,
            params: self.params,
            recall: self.recall,
            score_threshold: self.score_threshold,
            limit: self.limit,
            offset: None,
            with_payload: self.with_payload,
            with_vector: self.with_vector,
            prefetch: self.prefetch,
            lookup_from: self.lookup_from,
            highlight: None,
            shard_key: self.shard_key,
        };
        grouping.into_groups(query.into_request(GROUPS)?, GROUPS)
    }
}

/// How hits are grouped.
pub struct WireGrouping {
    by: String,
    size: usize,
    with_lookup: Option<WithLookupInterface>,
}

impl WireGrouping {
    pub fn new(by: String, size: usize, with_lookup: Option<WithLookupInterface>) -> WireGrouping {
        WireGrouping {
            by,
            size,
            with_lookup,
        }
    }

    /// `name`: what the API calls this part of a request where it validates it.
    pub fn into_groups(self, query: QueryRequest, name: &str) -> ApiResult<QueryGroupsRequest> {
        if self.size == 0 {
            return Err(ApiError::validation(
                format_args!("{name}.group_size"),
                "value 0 invalid, must be 1 or larger",
            ));
        }
        Ok(QueryGroupsRequest {
            query,
            group_by: self.by,
            group_size: self.size,
            with_lookup: self.with_lookup.map(WithLookupInterface::into_lookup),
        })
    }
}

/// A collection's name, or with what to show of its points.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "with_lookup is a collection's name or an object with `collection`"
)]
pub enum WithLookupInterface {
    Name(String),
    Full {
        collection: String,
        with_payload: Option<WithPayload>,
        #[serde(alias = "with_vector")]
        with_vectors: Option<WithVector>,
    },
}

impl WithLookupInterface {
    fn into_lookup(self) -> WithLookup {
        let (collection, payload, vectors) = match self {
            WithLookupInterface::Name(name) => (name, None, None),
            WithLookupInterface::Full {
                collection,
                with_payload,
                with_vectors,
            } => (collection, with_payload, with_vectors),
        };
        WithLookup {
            collection,
            with_payload: payload_selector(payload, true),
            with_vectors: vector_selector(vectors),
        }
    }
}
