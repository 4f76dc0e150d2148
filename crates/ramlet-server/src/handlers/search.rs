//! Searches: the query API, and the older routes as queries.

use std::sync::Arc;

use ramlet::filter::{Condition, FieldCheck, FieldCondition, Filter, Match};
use ramlet::{
    Collection, PointGroup, Prefetch, QueryGroupsRequest, QueryKind, QueryRequest, Scratch, SearchParams,
    UnindexedField,
};
use serde::de::DeserializeOwned;

use crate::answers::answer::Answer;
use crate::answers::portions::Portions;
use crate::answers::shown_parts::{Expected, Parts, fit, fit_groups, list_bytes};
use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::observability::steps::{Searched, Steps};
use crate::request::call::Call;
use crate::wire::query::{
    IntoGroups, IntoQuery, ParsedQuery, WireBatch, WireDiscoverRequest, WireQueryGroups, WireQueryRequest,
    WireRecommendGroups, WireRecommendRequest, WireSearchGroups, WireSearchRequest, WireStatistics,
};

/// What stands around the list of points in the answer of a route.
type Around = (&'static str, &'static str);

const POINTS: Around = ("{\"points\":", "}");
const BARE: Around = ("", "");

/// `POST /collections/{collection}/points/query`.
pub async fn query(call: Call) -> ApiResult<Answer> {
    one::<WireQueryRequest>(call, POINTS).await
}

/// `POST /collections/{collection}/points/query/batch`.
pub async fn query_batch(call: Call) -> ApiResult<Answer> {
    batch::<WireQueryRequest>(call, POINTS).await
}

/// `POST /collections/{collection}/points/query/groups`.
pub async fn query_groups(call: Call) -> ApiResult<Answer> {
    groups::<WireQueryGroups>(call).await
}

/// `POST /collections/{collection}/points/search`.
pub async fn search(call: Call) -> ApiResult<Answer> {
    one::<WireSearchRequest>(call, BARE).await
}

/// `POST /collections/{collection}/points/search/batch`.
pub async fn search_batch(call: Call) -> ApiResult<Answer> {
    batch::<WireSearchRequest>(call, BARE).await
}

/// `POST /collections/{collection}/points/search/groups`.
pub async fn search_groups(call: Call) -> ApiResult<Answer> {
    groups::<WireSearchGroups>(call).await
}

/// `POST /collections/{collection}/points/recommend`.
pub async fn recommend(call: Call) -> ApiResult<Answer> {
    one::<WireRecommendRequest>(call, BARE).await
}

/// `POST /collections/{collection}/points/recommend/batch`.
pub async fn recommend_batch(call: Call) -> ApiResult<Answer> {
    batch::<WireRecommendRequest>(call, BARE).await
}

/// `POST /collections/{collection}/points/recommend/groups`.
pub async fn recommend_groups(call: Call) -> ApiResult<Answer> {
    groups::<WireRecommendGroups>(call).await
}

/// `POST /collections/{collection}/points/discover`.
pub async fn discover(call: Call) -> ApiResult<Answer> {
    one::<WireDiscoverRequest>(call, BARE).await
}

/// `POST /collections/{collection}/points/discover/batch`.
pub async fn discover_batch(call: Call) -> ApiResult<Answer> {
    batch::<WireDiscoverRequest>(call, BARE).await
}

async fn one<T>(mut call: Call, around: Around) -> ApiResult<Answer>
where
    T: IntoQuery + DeserializeOwned + Send + 'static,
{
    let wire = call.parse::<T>().await?;
    let shards = wire.shards();
    let mut asked = ParsedQuery::from(wire.into_query()?);
    let beside = asked.params().explain;
    asked.params_mut().explain |= call.explain(beside);
    check_lookups(&call, std::slice::from_ref(&asked))?;
    let collection = call.collection().await?.within(&shards)?;
    let asked = match check(&call, &collection, std::slice::from_ref(&asked), false)? {
        None => asked,
        Some(cost) => count(&call, &collection, cost, vec![asked]).await?.remove(0),
    };
    let expected = expected(&collection, &asked);
    let quick = is_quick(&asked);
    let (app, steps) = (call.app.clone(), call.request.steps.clone());
    call.list(expected, quick, move |scratch, _, list| {
        let portions = portions((&app, &collection), (asked, true), steps.as_ref(), scratch)?;
        list.push(around.0, portions, around.1);
        list.explained = steps.filter(|_| beside).map(|steps| (steps, false));
        Ok(())
    })
    .await
}

/// `POST /collections/{collection}/statistics`.
pub async fn statistics(mut call: Call) -> ApiResult<Answer> {
    let mut wire: WireStatistics = call.parse().await?;
    let collection = call.collection().await?.within(&wire.shard_key.0)?;
    let (idf, text) = (wire.idf(), wire.text());
    let mut dims = wire.indices.unwrap_or_default();
    dims.sort_unstable();
    dims.dedup();
    call.read(0, move |scratch, out| {
        match text {
            Some(text) => out.value(&collection.text_statistics(&wire.using, &text, scratch)?),
            None => out.value(&collection.sparse_statistics(&wire.using, &dims, idf.as_ref(), scratch)?),
        }
        Ok(())
    })
    .await
}

/// Refuses vectors of collections that the key doesn't open.
fn check_lookups(call: &Call, asked: &[ParsedQuery]) -> ApiResult<()> {
    for one in asked {
        if let ParsedQuery::Query(query) = one {
            for name in query.other_collections() {
                call.check_lookup(name)?;
            }
        }
    }
    Ok(())
}

/// The best of an index, and few of them: no filter whose own index may be large, no scan. Several such lists fused are as quick.
fn is_quick(asked: &ParsedQuery) -> bool {
    match asked {
        ParsedQuery::Nearest(search) => {
            let hits = search.limit.saturating_add(search.offset);
            search.filter.is_none() && is_small(&search.params, hits)
        }
        ParsedQuery::Query(query) => {
            let hits = query.limit.saturating_add(query.offset);
            is_small(&query.params, hits)
                && query.highlight.is_none()
                && match &query.query {
                    Some(kind @ QueryKind::Text(_)) => {
                        query.prefetch.is_empty() && is_of(kind, &query.using, query.filter.as_ref())
                    }
                    Some(QueryKind::Fusion(_)) => {
                        query.filter.is_none()
                            && query.prefetch.len() <= limits::INLINE_LEAVES
                            && query.prefetch.iter().all(is_leaf)
                    }
                    _ => false,
                }
        }
    }
}

fn is_leaf(prefetch: &Prefetch) -> bool {
    let Some(kind @ (QueryKind::Nearest(_) | QueryKind::Text(_))) = &prefetch.query else {
        return false;
    };
    prefetch.prefetch.is_empty()
        && is_of(kind, &prefetch.using, prefetch.filter.as_ref())
        && is_small(&prefetch.params, prefetch.limit)
}

fn is_small(params: &SearchParams, hits: usize) -> bool {
    let ef = params.hnsw_ef.unwrap_or(0);
    !params.exact && params.recall.is_none() && ef <= limits::INLINE_EF && hits <= limits::INLINE_HITS
}

/// Nothing is filtered, or words that are ranked anyway have to be there: the same lists are read.
fn is_of(kind: &QueryKind, using: &str, filter: Option<&Filter>) -> bool {
    let Some(filter) = filter else { return true };
    let by_words = |condition: &Condition| {
        use Match::{Phrase, Text, TextAny};
        matches!(condition, Condition::Field(FieldCondition { key, check })
            if key == using && matches!(check, FieldCheck::Match(Text(_) | TextAny(_) | Phrase(_))))
    };
    matches!(kind, QueryKind::Text(_))
        && filter.should.is_empty()
        && filter.must_not.is_empty()
        && filter.min_should.is_none()
        && filter.must.iter().all(by_words)
}

/// `[a, b, ...]`, each between `around`; one after the other on one slot: a batch takes its turn like any request. The points of the
/// first ones are written at once; of those beyond a portion it is known which they are before anything is sent.
async fn batch<T>(mut call: Call, around: Around) -> ApiResult<Answer>
where
    T: IntoQuery + DeserializeOwned + Send + 'static,
{
    let wire: WireBatch<T> = call.parse().await?;
    check_searches(wire.searches.len())?;
    let shards: Vec<_> = wire.searches.iter().map(IntoQuery::shards).collect();
    let searches = wire.searches.into_iter().enumerate();
    let within = |at: usize| move |e: ApiError| e.within(format_args!("searches[{at}]"));
    let mut all = searches
        .map(|(at, search)| search.into_query().map(ParsedQuery::from).map_err(within(at)))
        .collect::<ApiResult<Vec<_>>>()?;
    let beside = all.iter().any(|asked| asked.params().explain);
    if call.explain(beside) {
        all.iter_mut().for_each(|asked| asked.params_mut().explain = true);
    }
    check_lookups(&call, &all)?;
    let collection = call.collection().await?;
    let all = match check(&call, &collection, &all, true)? {
        None => all,
        Some(cost) => count(&call, &collection, cost, all).await?,
    };
    let shards = shards.iter().map(|shards| collection.within(shards));
    let shards = shards.collect::<Result<Vec<_>, _>>()?;
    let (app, steps) = (call.app.clone(), call.request.steps.clone());
    let each = all.iter().map(|asked| expected(&collection, asked));
    let expected = each.reduce(Expected::or).unwrap_or_default();
    call.list(expected, false, move |scratch, out, list| {
        out.raw("[");
        let mut now = true;
        for (at, (asked, collection)) in all.into_iter().zip(&shards).enumerate() {
            list.make_room(expected.listing)?;
            let portions = portions((&app, collection), (asked, now), steps.as_ref(), scratch)?;
            list.push(behind(at, around.0), portions, around.1);
            now = now && list.write_now(scratch, out)?;
        }
        list.end = "]";
        list.explained = steps.filter(|_| beside).map(|steps| (steps, true));
        Ok(())
    })
    .await
}

/// What strict mode says, but for the rate of reads; what the searches cost of that, if it is to be counted.
fn check(call: &Call, collection: &Collection, all: &[ParsedQuery], batch: bool) -> ApiResult<Option<u64>> {
    let Some(strict) = call.strict(collection) else {
        return Ok(None);
    };
    if batch {
        strict.batch(all.len())?;
    }
    let mut cost = 0;
    for asked in all {
        cost += match asked {
            ParsedQuery::Nearest(search) => strict.search_cost(search)?,
            ParsedQuery::Query(request) => strict.query(request)?,
        };
    }
    Ok(Some(cost))
}

/// Counts what searches cost of the rate of reads; ids that may stand for several vectors are looked up first.
async fn count(
    call: &Call,
    collection: &Arc<Collection>,
    cost: u64,
    all: Vec<ParsedQuery>,
) -> ApiResult<Vec<ParsedQuery>> {
    if !collection
        .strict_mode()
        .is_some_and(|strict| strict.looks_up_ids())
    {
        call.check_rate(collection, cost)?;
        return Ok(all);
    }
    let own = collection.clone();
    let look_up = move |scratch: &mut Scratch| {
        let mut more = 0;
        if let Some(strict) = own.strict_mode() {
            for asked in &all {
                more += match asked {
                    ParsedQuery::Nearest(search) => {
                        strict.parts_of_id(&search.using, &search.query, scratch)?
                    }
                    ParsedQuery::Query(request) => strict.parts_of_ids(request, scratch)?,
                };
            }
        }
        Ok((more, all))
    };
    let (more, all) = call.on_slot(look_up).await?;
    call.check_rate(collection, cost + more)?;
    Ok(all)
}

fn check_searches(n: usize) -> ApiResult<()> {
    if n <= limits::SEARCHES_MAX {
        return Ok(());
    }
    let what = format!("has {n} elements, at most {} are taken", limits::SEARCHES_MAX);
    Err(ApiError::validation("searches", what))
}

fn expected(collection: &Collection, asked: &ParsedQuery) -> Expected {
    let (parts, limit, offset) = match asked {
        ParsedQuery::Nearest(search) => (Parts::of_search(search), search.limit, search.offset),
        ParsedQuery::Query(query) => (Parts::of_query(query), query.limit, query.offset),
    };
    let (limit, offset) = fit(collection, limit, offset);
    parts.expected(collection, limit.saturating_add(offset), limit)
}

/// What stands before the points of a list, as the one at a place among others.
fn behind(at: usize, before: &str) -> String {
    let comma = if at > 0 { "," } else { "" };
    [comma, before].concat()
}

/// The points of a search, which are written `now` or later.
fn portions(
    (app, collection): (&App, &Arc<Collection>),
    (asked, now): (ParsedQuery, bool),
    steps: Option<&Arc<Steps>>,
    scratch: &mut Scratch,
) -> ApiResult<Portions> {
    let unindexed = match &asked {
        ParsedQuery::Nearest(search) => search
            .filter
            .iter()
            .flat_map(|f| collection.unindexed_fields(f))
            .collect(),
        ParsedQuery::Query(query) => unindexed_of(collection, query),
    };
    let (portions, searched) = match asked {
        ParsedQuery::Nearest(search) => Portions::hits(collection.clone(), search, now, scratch),
        ParsedQuery::Query(query) => Portions::query(collection.clone(), *query, now, (&app.engine, scratch)),
    }?;
    note(app, collection, (searched, unindexed), steps);
    Ok(portions.noted(steps.cloned()))
}

/// A search is done: what it says about missing indexes, and its steps where somebody wants to know.
fn note(
    app: &App,
    collection: &Collection,
    (searched, unindexed): (Searched, Vec<UnindexedField>),
    steps: Option<&Arc<Steps>>,
) {
    app.read_waits.count(&searched.cost);
    if !unindexed.is_empty() {
        app.unindexed
            .note(collection, &unindexed, searched.cost.payloads_checked);
    }
    if let Some(steps) = steps {
        app.read_waits.note(&searched.cost);
        steps.note_search(Searched {
            unindexed,
            ..searched
        });
    }
}

/// Fields without an index that a query and its prefetches ask about.
pub fn unindexed_of(collection: &Collection, query: &QueryRequest) -> Vec<UnindexedField> {
    fn add(collection: &Collection, prefetch: &[Prefetch], all: &mut Vec<UnindexedField>) {
        for one in prefetch {
            all.extend(one.filter.iter().flat_map(|f| collection.unindexed_fields(f)));
            add(collection, &one.prefetch, all);
        }
    }
    let own = query.filter.iter().flat_map(|f| collection.unindexed_fields(f));
    let mut all: Vec<_> = own.collect();
    add(collection, &query.prefetch, &mut all);
    all.sort_unstable();
    all.dedup();
    all
}

async fn groups<T>(mut call: Call) -> ApiResult<Answer>
where
    T: IntoGroups + DeserializeOwned + Send + 'static,
{
    let wire = call.parse::<T>().await?;
    let shards = wire.shards();
    let mut request: QueryGroupsRequest = wire.into_groups()?;
    let beside = request.query.params.explain;
    request.query.params.explain |= call.explain(beside);
    let asked = request.query.limit.saturating_mul(request.group_size);
    for name in request.query.other_collections() {
        call.check_lookup(name)?;
    }
    if let Some(lookup) = &request.with_lookup {
        call.check_lookup(&lookup.collection)?;
    }
    let collection = call.collection().await?.within(&shards)?;
    if let Some(strict) = call.strict(&collection) {
        strict.group_by(&request.group_by)?;
        // So many points may a search for groups want, which is what the limit is for.
        strict.limit(asked)?;
        let cost = strict.query(&request.query)?;
        strict.read(cost)?;
    }
    request.query.limit = fit_groups(&collection, request.query.limit, request.group_size);
    let hits = request.query.limit.saturating_mul(request.group_size);
    let parts = Parts::of_query(&request.query);
    let mut expected = parts.expected(&collection, hits, hits);
    expected.listing +=
        list_bytes(&collection, request.query.limit) / limits::RECORD_BYTES * limits::LIST_PART_BYTES;
    let (app, steps) = (call.app.clone(), call.request.steps.clone());
    call.list(expected, false, move |scratch, out, list| {
        let (found, fetch) =
            parts
                .clone()
                .find(&collection, (hits, true), scratch, |parts, _, scratch| {
                    (request.query.with_payload, request.query.with_vectors) = (parts.payload, parts.vectors);
                    collection.query_groups(&request, &app.engine, scratch)
                })?;
        let searched = Searched {
            parts: found.explain,
            cost: found.cost,
            ..Searched::default()
        };
        let unindexed = unindexed_of(&collection, &request.query);
        note(&app, &collection, (searched, unindexed), steps.as_ref());
        out.raw("{\"groups\":[");
        let parts = Arc::new(parts);
        for (at, PointGroup { id, hits, lookup }) in found.groups.into_iter().enumerate() {
            let id = serde_json::to_string(&id).map_err(ApiError::internal)?;
            let hits = Portions::found(collection.clone(), hits, parts.clone(), fetch).noted(steps.clone());
            list.push_with(behind(at, &format!("{{\"id\":{id},\"hits\":")), hits, lookup, "}");
        }
        list.end = "]}";
        list.explained = steps.filter(|_| beside).map(|steps| (steps, false));
        Ok(())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick(query: &str) -> bool {
        let query: WireQueryRequest = serde_json::from_str(query).expect("as the API has it");
        is_quick(&ParsedQuery::from(query.into_query().expect("as the API has it")))
    }

    #[test]
    fn what_an_index_answers_at_once_is_quick() {
        let text = r#"{"text": "a word"}"#;
        let leaf = |more: &str| format!(r#"{{"query": [1, 2]{more}}}"#);
        let fused = |leaves: &[String], more: &str| {
            let leaves = leaves.join(",");
            format!(r#"{{"prefetch": [{leaves}], "query": {{"fusion": "rrf"}}{more}}}"#)
        };
        let words = |more: &str| format!(r#"{{"query": {text}, "using": "body"{more}}}"#);
        let must = |key: &str, how: &str| {
            format!(r#", "filter": {{"must": [{{"key": "{key}", "match": {{"{how}": "red"}}}}]}}"#)
        };
        for yes in [
            leaf(""),
            words(""),
            words(&must("body", "text")),
            words(&must("body", "phrase")),
            fused(&[leaf(""), words(&must("body", "text_any"))], ""),
            words(r#", "limit": 100, "offset": 28"#),
            fused(&[leaf(""), words(r#", "limit": 128"#)], ""),
        ] {
            assert!(quick(&yes), "{yes}");
        }
        let filter = r#", "filter": {"must": [{"key": "a", "match": {"value": 1}}]}"#;
        for no in [
            leaf(filter),
            leaf(r#", "params": {"exact": true}"#),
            leaf(r#", "params": {"hnsw_ef": 5000}"#),
            words(filter),
            words(&must("title", "text")),
            words(&must("body", "value")),
            words(&must("body", "text").replace("must", "must_not")),
            leaf(&must("body", "text")),
            words(r#", "limit": 129"#),
            fused(&[leaf(""), words(filter)], ""),
            fused(&[leaf(""), words("")], filter),
            fused(&[leaf(""), fused(&[leaf("")], "")], ""),
            fused(&vec![leaf(""); limits::INLINE_LEAVES + 1], ""),
            r#"{"query": {"sample": "random"}}"#.into(),
            "{}".into(),
        ] {
            assert!(!quick(&no), "{no}");
        }
    }
}
