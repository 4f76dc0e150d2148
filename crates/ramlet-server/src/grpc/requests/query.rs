//! Queries of the query API.

use ramlet_proto::qdrant as q;

use super::super::node::{Fields, Node};
use super::filter::{date, filter};
use super::formula::expression;
use super::vectors::input;
use super::{DecodedRequest, id, required, shard_key, with_payload, with_vectors, word, wrong_timeout};
use crate::error::ApiResult;

pub fn points(of: q::QueryPoints) -> ApiResult<DecodedRequest> {
    let (name, timeout, consistency) = (of.collection_name.clone(), of.timeout, of.read_consistency);
    DecodedRequest::of(name, one(of))
        .timeout(timeout)?
        .consistency(consistency)
}

fn one(of: q::QueryPoints) -> Node {
    Fields::new()
        .maybe("timeout", wrong_timeout(of.timeout), Node::Wrong)
        .maybe("prefetch", some(of.prefetch), |list| Node::list(list, prefetch))
        .maybe("query", of.query, query)
        .text("using", of.using)
        .maybe("filter", of.filter, filter)
        .maybe("params", of.params, params)
        .float("score_threshold", of.score_threshold)
        .uint("limit", of.limit)
        .uint("offset", of.offset)
        .maybe("with_vector", of.with_vectors, with_vectors)
        .maybe("with_payload", of.with_payload, with_payload)
        .maybe("shard_key", of.shard_key_selector, shard_key)
        .maybe("lookup_from", of.lookup_from, lookup)
        .node()
}

pub fn batch(of: q::QueryBatchPoints) -> ApiResult<DecodedRequest> {
    let body = Fields::new()
        .put("searches", Node::list(of.query_points, one))
        .node();
    DecodedRequest::of(of.collection_name, body)
        .timeout(of.timeout)?
        .consistency(of.read_consistency)
}

pub fn groups(of: q::QueryPointGroups) -> ApiResult<DecodedRequest> {
    let body = Fields::new()
        .maybe("prefetch", some(of.prefetch), |list| Node::list(list, prefetch))
        .maybe("query", of.query, query)
        .text("using", of.using)
        .maybe("filter", of.filter, filter)
        .maybe("params", of.params, params)
        .float("score_threshold", of.score_threshold)
        .maybe("with_payload", of.with_payload, with_payload)
        .maybe("with_vector", of.with_vectors, with_vectors)
        .maybe("lookup_from", of.lookup_from, lookup)
        .uint("limit", of.limit)
        .uint("group_size", of.group_size)
        .put("group_by", Node::Text(of.group_by))
        .maybe("with_lookup", of.with_lookup, with_lookup)
        .maybe("shard_key", of.shard_key_selector, shard_key);
    DecodedRequest::of(of.collection_name, body.node())
        .timeout(of.timeout)?
        .consistency(of.read_consistency)
}

pub fn with_lookup(of: q::WithLookup) -> Node {
    Fields::new()
        .put("collection", Node::Text(of.collection))
        .maybe("with_payload", of.with_payload, with_payload)
        .maybe("with_vectors", of.with_vectors, with_vectors)
        .node()
}

pub fn lookup(of: q::LookupLocation) -> Node {
    Fields::new()
        .put("collection", Node::Text(of.collection_name))
        .text("vector", of.vector_name)
        .maybe("shard_key", of.shard_key_selector, shard_key)
        .node()
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn prefetch(of: q::PrefetchQuery) -> Node {
    Fields::new()
        .maybe("prefetch", some(of.prefetch), |list| Node::list(list, prefetch))
        .maybe("query", of.query, query)
        .text("using", of.using)
        .maybe("filter", of.filter, filter)
        .maybe("params", of.params, params)
        .float("score_threshold", of.score_threshold)
        .uint("limit", of.limit)
        .maybe("lookup_from", of.lookup_from, lookup)
        .node()
}

pub fn params(of: q::SearchParams) -> Node {
    Fields::new()
        .uint("hnsw_ef", of.hnsw_ef)
        .flag("exact", of.exact)
        .flag("indexed_only", of.indexed_only)
        .maybe("quantization", of.quantization, |of| {
            Fields::new()
                .flag("ignore", of.ignore)
                .flag("rescore", of.rescore)
                .float("oversampling", of.oversampling)
                .node()
        })
        .maybe("acorn", of.acorn, |of| {
            Fields::new()
                .flag("enable", of.enable)
                .float("max_selectivity", of.max_selectivity)
                .node()
        })
        .maybe("idf", of.idf, |of| match of.corpus {
            Some(corpus) => Fields::new().put("corpus", filter(corpus)).node(),
            None => Node::Word("global"),
        })
        .node()
}

const STRATEGIES: &[&str] = &["average_vector", "best_score", "sum_scores"];

/// `strategy` of a recommendation.
pub fn strategy(value: i32) -> Node {
    word(value, STRATEGIES, "strategy")
}

fn query(of: q::Query) -> Node {
    use q::query::Variant as Is;
    let (name, node) = match of.variant {
        Some(Is::Nearest(of)) => ("nearest", input(of)),
        Some(Is::NearestWithMmr(of)) => return mmr(of),
        Some(Is::Recommend(of)) => ("recommend", recommend(of)),
        Some(Is::Discover(of)) => ("discover", discover(of)),
        Some(Is::Context(of)) => ("context", Node::list(of.pairs, pair)),
        Some(Is::OrderBy(of)) => ("order_by", order_by(of)),
        Some(Is::Fusion(value)) => ("fusion", word(value, &["rrf", "dbsf"], "fusion")),
        Some(Is::Sample(value)) => ("sample", word(value, &["random"], "sample")),
        Some(Is::Formula(of)) => return formula(of),
        Some(Is::Rrf(of)) => ("rrf", rrf(of)),
        Some(Is::RelevanceFeedback(of)) => ("relevance_feedback", feedback(of)),
        Some(Is::Text(of)) => ("text", text(of)),
        None => return Node::Wrong("the query is empty".to_owned()),
    };
    Fields::new().put(name, node).node()
}

fn mmr(of: q::NearestInputWithMmr) -> Node {
    Fields::new()
        .put("nearest", required(of.nearest, "nearest", input))
        .maybe("mmr", of.mmr, |of| {
            Fields::new()
                .float("diversity", of.diversity)
                .uint("candidates_limit", of.candidates_limit)
                .node()
        })
        .node()
}

fn recommend(of: q::RecommendInput) -> Node {
    Fields::new()
        .put("positive", Node::list(of.positive, input))
        .put("negative", Node::list(of.negative, input))
        .maybe("strategy", of.strategy, strategy)
        .node()
}

fn discover(of: q::DiscoverInput) -> Node {
    Fields::new()
        .put("target", required(of.target, "target", input))
        .put(
            "context",
            required(of.context, "context", |of| Node::list(of.pairs, pair)),
        )
        .node()
}

fn pair(of: q::ContextInputPair) -> Node {
    Fields::new()
        .put("positive", required(of.positive, "positive", input))
        .put("negative", required(of.negative, "negative", input))
        .node()
}

fn formula(of: q::Formula) -> Node {
    Fields::new()
        .put("formula", required(of.expression, "expression", expression))
        .put("defaults", Node::Payload(of.defaults))
        .node()
}

fn rrf(of: q::Rrf) -> Node {
    Fields::new()
        .uint("k", of.k)
        .maybe("weights", some(of.weights), Node::Floats)
        .node()
}

fn feedback(of: q::RelevanceFeedbackInput) -> Node {
    use q::feedback_strategy::Variant::Naive;
    let item = |of: q::FeedbackItem| {
        Fields::new()
            .put("example", required(of.example, "example", input))
            .put("score", Node::Float(of.score.into()))
            .node()
    };
    let strategy = |of: q::FeedbackStrategy| match of.variant {
        Some(Naive(of)) => {
            let weights = Fields::new()
                .put("a", Node::Float(of.a.into()))
                .put("b", Node::Float(of.b.into()))
                .put("c", Node::Float(of.c.into()));
            Fields::new().put("naive", weights.node()).node()
        }
        None => Node::Wrong("the feedback's strategy is empty".to_owned()),
    };
    Fields::new()
        .put("target", required(of.target, "target", input))
        .put("feedback", Node::list(of.feedback, item))
        .put("strategy", required(of.strategy, "strategy", strategy))
        .node()
}

fn text(of: q::TextQuery) -> Node {
    use q::text_query::Scoring::Bm25;
    match of.scoring {
        None => Node::Text(of.query),
        Some(Bm25(params)) => {
            let bm25 = Fields::new().float("k", params.k).float("b", params.b).node();
            let scoring = Fields::new().put("bm25", bm25).node();
            Fields::new()
                .put("query", Node::Text(of.query))
                .put("scoring", scoring)
                .node()
        }
    }
}

pub fn order_by(of: q::OrderBy) -> Node {
    use q::start_from::Value as Is;
    let start = |of: q::StartFrom| match of.value {
        Some(Is::Float(x)) => Node::Float(x),
        Some(Is::Integer(n)) => Node::Int(n),
        Some(Is::Timestamp(time)) => date(time),
        Some(Is::Datetime(text)) => Node::Text(text),
        None => Node::Null,
    };
    Fields::new()
        .put("key", Node::Text(of.key))
        .maybe("direction", of.direction, |value| {
            word(value, &["asc", "desc"], "direction")
        })
        .maybe("start_from", of.start_from, start)
        .node()
}

pub fn scroll(of: q::ScrollPoints) -> ApiResult<DecodedRequest> {
    let body = Fields::new()
        .maybe("filter", of.filter, filter)
        .maybe("offset", of.offset, id)
        .uint("limit", of.limit)
        .maybe("with_payload", of.with_payload, with_payload)
        .maybe("with_vector", of.with_vectors, with_vectors)
        .maybe("order_by", of.order_by, order_by)
        .maybe("shard_key", of.shard_key_selector, shard_key);
    DecodedRequest::of(of.collection_name, body.node())
        .timeout(of.timeout)?
        .consistency(of.read_consistency)
}

pub fn count(of: q::CountPoints) -> ApiResult<DecodedRequest> {
    let body = Fields::new()
        .maybe("filter", of.filter, filter)
        .flag("exact", of.exact)
        .maybe("shard_key", of.shard_key_selector, shard_key);
    DecodedRequest::of(of.collection_name, body.node())
        .timeout(of.timeout)?
        .consistency(of.read_consistency)
}

pub fn facet(of: q::FacetCounts) -> ApiResult<DecodedRequest> {
    let body = Fields::new()
        .put("key", Node::Text(of.key))
        .maybe("filter", of.filter, filter)
        .uint("limit", of.limit)
        .flag("exact", of.exact)
        .maybe("shard_key", of.shard_key_selector, shard_key);
    DecodedRequest::of(of.collection_name, body.node())
        .timeout(of.timeout)?
        .consistency(of.read_consistency)
}

pub fn matrix(of: q::SearchMatrixPoints) -> ApiResult<DecodedRequest> {
    let body = Fields::new()
        .maybe("filter", of.filter, filter)
        .uint("sample", of.sample)
        .uint("limit", of.limit)
        .text("using", of.using)
        .maybe("shard_key", of.shard_key_selector, shard_key);
    DecodedRequest::of(of.collection_name, body.node())
        .timeout(of.timeout)?
        .consistency(of.read_consistency)
}
