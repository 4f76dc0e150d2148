//! Searches: the query API and the older search routes.

mod expression;
mod idf;
mod input;
mod kinds;
mod legacy;
mod one_or_many;
mod query_groups;

use ramlet::settings::check_recall;
use ramlet::{
    Highlight, HighlightText, Idf, LookupLocation, OffsetUnit, Prefetch, QuantizationParams, QueryRequest,
    ScrollRequest, SearchParams, SearchRequest, ShardSelection, TextQuery,
};
use serde::Deserialize;

use super::filter::WireFilter;
use super::order::WireOrderBy;
use super::selectors::{WithPayload, WithVector, payload_selector, vector_selector};
use super::shard_key::WireShards;
use crate::error::{ApiError, ApiResult};
use idf::WireIdf;
use kinds::{WireQuery, WireText};
pub use legacy::{
    IntoQuery, WireBatch, WireDiscoverRequest, WireRecommendGroups, WireRecommendRequest, WireSearchGroups,
    WireSearchRequest,
};
use one_or_many::OneOrMany;
pub use query_groups::{IntoGroups, WireQueryGroups};
use ramlet::PointId;

const LIMIT_DEFAULT: usize = ramlet::QUERY_LIMIT_DEFAULT;

/// What a request of the query API comes to.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "nearly every request is the large one")]
pub enum ParsedQuery {
    Nearest(SearchRequest),
    Query(Box<QueryRequest>),
}

impl ParsedQuery {
    pub fn params(&self) -> &SearchParams {
        match self {
            ParsedQuery::Nearest(search) => &search.params,
            ParsedQuery::Query(query) => &query.params,
        }
    }

    pub fn params_mut(&mut self) -> &mut SearchParams {
        match self {
            ParsedQuery::Nearest(search) => &mut search.params,
            ParsedQuery::Query(query) => &mut query.params,
        }
    }
}

impl From<QueryRequest> for ParsedQuery {
    fn from(request: QueryRequest) -> ParsedQuery {
        match request.into_search() {
            Ok(search) => ParsedQuery::Nearest(search),
            Err(query) => ParsedQuery::Query(query),
        }
    }
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
    prefetch: OneOrMany<WirePrefetch>,
    lookup_from: Option<WireLookupFrom>,
    /// Own addition.
    highlight: Option<WireHighlight>,
    #[serde(default)]
    shard_key: WireShards,
}

/// Whether and how words are marked.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "highlight: true, false, or an object of `fragments`, `fragment_chars`, `pre`, `post`, `offsets`, `texts`"
)]
pub enum WireHighlight {
    Wanted(bool),
    How(WireHow),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireHow {
    fragments: Option<usize>,
    fragment_chars: Option<usize>,
    pre: Option<String>,
    post: Option<String>,
    offsets: Option<OffsetUnit>,
    #[serde(default)]
    texts: Vec<WireHighlightText>,
}

/// Words that are marked as well.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireHighlightText {
    using: String,
    text: String,
}

impl From<WireHighlightText> for HighlightText {
    fn from(WireHighlightText { using, text }: WireHighlightText) -> HighlightText {
        HighlightText { using, text }
    }
}

impl WireHighlight {
    fn into_highlight(self) -> Option<Highlight> {
        let default = Highlight::default();
        match self {
            WireHighlight::Wanted(wanted) => wanted.then_some(default),
            WireHighlight::How(how) => Some(Highlight {
                fragments: how.fragments.unwrap_or(default.fragments),
                fragment_chars: how.fragment_chars.unwrap_or(default.fragment_chars),
                pre: how.pre.unwrap_or(default.pre),
                post: how.post.unwrap_or(default.post),
                offsets: how.offsets,
                texts: how.texts.into_iter().map(HighlightText::from).collect(),
            }),
        }
    }
}

impl WireQueryRequest {
    /// `name`: what the API calls this part of a request where it validates it.
    fn into_request(self, name: &str) -> ApiResult<QueryRequest> {
        let within = |e: ApiError| e.within(name);
        Ok(QueryRequest {
            prefetch: prefetches(self.prefetch).map_err(within)?,
            query: self.query.map(WireQuery::into_kind).transpose()?,
            using: self.using.unwrap_or_default(),
            filter: self.filter,
            params: search_params(self.params, self.recall).map_err(within)?,
            score_threshold: self.score_threshold,
            limit: check_limit(self.limit.unwrap_or(LIMIT_DEFAULT)).map_err(within)?,
            offset: self.offset.unwrap_or(0),
            with_payload: payload_selector(self.with_payload, false),
            with_vectors: vector_selector(self.with_vector),
            lookup_from: self.lookup_from.map(WireLookupFrom::into_location).transpose()?,
            highlight: self.highlight.and_then(WireHighlight::into_highlight),
        })
    }
}

impl IntoQuery for WireQueryRequest {
    fn shards(&self) -> ShardSelection {
        self.shard_key.0.clone()
    }

    fn into_query(self) -> ApiResult<QueryRequest> {
        self.into_request("internal")
    }
}

/// A query of which another one goes on.
#[derive(Debug, Deserialize)]
pub struct WirePrefetch {
    #[serde(default)]
    prefetch: OneOrMany<WirePrefetch>,
    query: Option<WireQuery>,
    using: Option<String>,
    filter: Option<WireFilter>,
    params: Option<WireParams>,
    score_threshold: Option<f32>,
    limit: Option<usize>,
    lookup_from: Option<WireLookupFrom>,
}

impl WirePrefetch {
    fn into_prefetch(self) -> ApiResult<Prefetch> {
        Ok(Prefetch {
            prefetch: prefetches(self.prefetch)?,
            query: self.query.map(WireQuery::into_kind).transpose()?,
            using: self.using.unwrap_or_default(),
            filter: self.filter,
            params: search_params(self.params, None)?,
            score_threshold: self.score_threshold,
            limit: check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))?,
            lookup_from: self.lookup_from.map(WireLookupFrom::into_location).transpose()?,
        })
    }
}

fn prefetches(wire: OneOrMany<WirePrefetch>) -> ApiResult<Vec<Prefetch>> {
    let each = wire.0.into_iter().enumerate();
    each.map(|(at, of)| {
        of.into_prefetch()
            .map_err(|e| e.within(format_args!("prefetch[{at}]")))
    })
    .collect()
}

/// Where the vectors of ids come from.
#[derive(Debug, Deserialize)]
pub struct WireLookupFrom {
    collection: String,
    vector: Option<String>,
    #[serde(default)]
    shard_key: WireShards,
}

impl WireLookupFrom {
    fn into_location(self) -> ApiResult<LookupLocation> {
        Ok(LookupLocation {
            collection: self.collection,
            vector: self.vector,
            shards: self.shard_key.0,
        })
    }
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

/// `params` of a search. `acorn` says nothing: filters need no extra edges here.
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
    idf: Option<WireIdf>,
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
    if wire.hnsw_ef == Some(0) {
        return Err(ApiError::validation(
            "params.hnsw_ef",
            "value 0 invalid, must be 1 or larger",
        ));
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
        idf: wire.idf.map(|WireIdf(idf)| idf),
    })
}

/// `POST /collections/{collection}/statistics`, our own: what the words of a query are weighed by, where shards of a collection count together.
#[derive(Debug, Deserialize)]
pub struct WireStatistics {
    pub using: String,
    /// Dimensions of a sparse vector...
    pub indices: Option<Vec<u32>>,
    idf: Option<WireIdf>,
    /// ... or words.
    text: Option<WireText>,
    #[serde(default)]
    pub shard_key: WireShards,
}

impl WireStatistics {
    pub fn idf(&mut self) -> Option<Idf> {
        self.idf.take().map(|WireIdf(idf)| idf)
    }

    pub fn text(&mut self) -> Option<TextQuery> {
        self.text.take().map(WireText::into_query)
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
    shard_key: WireShards,
}

impl WireScroll {
    pub fn shards(&self) -> ShardSelection {
        self.shard_key.0.clone()
    }

    pub fn into_scroll(self) -> ApiResult<ScrollRequest> {
        let order_by = self.order_by.map(WireOrderBy::into_order).transpose()?;
        if order_by.is_some() && self.offset.is_some() {
            return Err(ApiError::wrong_input(
                "`offset` can't be used with `order_by`; use `order_by.start_from` to go on",
            ));
        }
        Ok(ScrollRequest {
            filter: self.filter,
            offset: self.offset,
            limit: check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))
                .map_err(|e| e.within("scroll_request"))?,
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
    pub shard_key: WireShards,
}

/// `POST /points/count`.
#[derive(Debug, Deserialize)]
pub struct WireCount {
    pub filter: Option<WireFilter>,
    pub exact: Option<bool>,
    #[serde(default)]
    pub shard_key: WireShards,
}

#[cfg(test)]
#[path = "query_tests.rs"]
mod tests;
