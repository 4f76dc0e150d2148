//! Queries over shards.
//!
//! Each stage without prefetches is asked of all shards, and its lists are merged: a score says how a point stands to the query, whatever other points there are.
//! Where lists meet, the stage above is done as one node does it. Fusion is done here, over the merged lists. Any other stage is asked of the shards once more, each
//! with the points that are its own: as a prefetch by their ids, for a formula with the scores that they have.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use bytes::Bytes;
use ramlet::limits::LIMIT_MAX;
use ramlet::{
    Collection, CollectionConfig, Direction, Distance, Mmr, Modifier, PointId, Prefetch, QueryKind,
    QueryRequest, RecommendStrategy, fused,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answers::{By, Point, Rank, WirePoint, in_order, merged, write_list};
use super::ask::{Ask, Divided, Part, at_once};
use super::filters;
use super::ids::{divided, divided_by};
use super::keys::one_key;
use super::points::{dress, retrieve};
use super::raw::{Object, Query, id_of, inputs, objects, objects_mut, points_of, vector_of};
use super::samples::{Chance, sample};
use super::told::Told;
use super::{Form, highlights, refused, settings, statistics};
use crate::access::auth::Access;
use crate::answers::answer::Answer;
use crate::error::{ApiError, ApiResult};
use crate::handlers::search::unindexed_of;
use crate::limits;
use crate::observability::steps::{Steps, timed};
use crate::request::growing_reservation::GrowingReservation;
use crate::wire::explain::beside_result;

const QUERY: (&str, &str) = ("POST", "/collections/{collection}/points/query");
const QUERIES: (&str, &str) = ("POST", "/collections/{collection}/points/query/batch");
/// Bytes of a point of a list without payload and vectors.
const POINT_BYTES: u64 = 2 * size_of::<Point>() as u64;

/// `POST /points/query`, and the older routes.
pub async fn one(asked: &Divided, form: Form, body: &Bytes) -> ApiResult<Answer> {
    let json = std::str::from_utf8(body).map_err(ApiError::format)?;
    // What is wrong with it is told before memory is.
    let (mut typed, _) = Query::typed(asked, form, json)?;
    let collection = asked.app.collection(asked.collection()).await?;
    if typed.limit > 0 {
        fit(asked, &mut typed).await?;
        collection.check_query(&typed)?;
    }
    let _tree = asked.hold(body.len() as u64 * limits::TREE_OF_JSON)?;
    let query = Query::read(asked, form, json)?;
    let beside = query.typed.params.explain;
    let steps = asked.steps(beside);
    let run = Run::new(asked, query).await?;
    let points = run.points().await?;
    run.tell(steps.as_ref(), &collection);
    let mut out = asked.points_out();
    let (before, behind) = around(form);
    timed(steps.as_ref(), Steps::note_encode, || {
        out.raw(before);
        write_list(points, &mut out, Point::write_hit)?;
        out.raw(behind);
        ApiResult::Ok(())
    })?;
    if let Some(steps) = steps.filter(|_| beside) {
        out.raw(&beside_result(&steps, false));
    }
    Ok(Answer::Json(out))
}

/// A limit beyond what is possible is that of all points.
async fn fit(asked: &Divided, typed: &mut QueryRequest) -> ApiResult<()> {
    if typed.limit.saturating_add(typed.offset) <= LIMIT_MAX {
        return Ok(());
    }
    let points = settings::points_count(asked).await?;
    typed.offset = typed.offset.min(points);
    typed.limit = typed.limit.min(points - typed.offset).max(1);
    Ok(())
}

fn around(form: Form) -> (&'static str, &'static str) {
    match form {
        Form::Query => ("{\"points\":", "}"),
        _ => ("", ""),
    }
}

/// Several of them.
pub async fn batch(asked: &Divided, form: Form, body: &Bytes) -> ApiResult<Answer> {
    #[derive(Deserialize)]
    struct Batch<'a> {
        #[serde(borrow)]
        searches: Vec<&'a RawValue>,
    }
    let _trees = asked.hold(body.len() as u64 * limits::TREE_OF_JSON)?;
    let Batch { searches } = serde_json::from_slice(body).map_err(ApiError::format)?;
    if searches.len() > limits::SEARCHES_MAX {
        let what = format!(
            "has {} elements, at most {} are taken",
            searches.len(),
            limits::SEARCHES_MAX
        );
        return Err(ApiError::validation("searches", what));
    }
    let mut queries = Vec::with_capacity(searches.len());
    for (at, json) in searches.iter().enumerate() {
        let within = |e: ApiError| e.within(format_args!("searches[{at}]"));
        queries.push(Query::read(asked, form, json.get()).map_err(within)?);
    }
    let beside = queries.iter().any(|query| query.typed.params.explain);
    let collection = asked.app.collection(asked.collection()).await?;
    let steps = asked.steps(beside);
    let mut runs = Vec::with_capacity(queries.len());
    for query in queries {
        runs.push(Run::new(asked, query).await?);
    }
    let lists = match runs.iter().all(Run::is_one_list) {
        true => together(asked, &runs).await?,
        false => {
            let mut lists = Vec::with_capacity(runs.len());
            for some in runs.chunks(limits::SHARD_SEARCHES) {
                for list in at_once(some.iter().map(Run::points).collect()).await {
                    lists.push(list?);
                }
            }
            lists
        }
    };
    if steps.is_some() {
        runs.iter().for_each(|run| run.tell(steps.as_ref(), &collection));
    }
    let mut out = asked.points_out();
    let (before, behind) = around(form);
    timed(steps.as_ref(), Steps::note_encode, || {
        let mut list = out.open_list();
        for points in lists {
            list.item(|out| {
                out.raw(before);
                let written = write_list(points, out, Point::write_hit);
                out.raw(behind);
                written
            })?;
        }
        list.close();
        ApiResult::Ok(())
    })?;
    if let Some(steps) = steps.filter(|_| beside) {
        out.raw(&beside_result(&steps, true));
    }
    Ok(Answer::Json(out))
}

/// Searches of one stage each: every shard is asked all of them at once.
async fn together(asked: &Divided, runs: &[Run<'_>]) -> ApiResult<Vec<Vec<Point>>> {
    #[derive(Deserialize)]
    struct Points<'a> {
        #[serde(borrow)]
        points: Vec<WirePoint<'a>>,
    }
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let searches: Vec<Object> = runs.iter().map(Run::one_list).collect();
    let body = Bytes::from(json!({ "searches": searches }).to_string());
    let ask = || {
        let ask = asked.other(QUERIES, asked.collection(), body.clone())?;
        Ok(Ask {
            told_from: runs.iter().filter_map(Run::told_from).min(),
            ..ask
        })
    };
    let parts = asked.ask_all(ask).await?;
    let mut answers = Vec::with_capacity(parts.len());
    for (_, part) in &parts {
        answers.push(part.read::<Vec<Points<'_>>>()?.into_iter());
        let explains: Option<Vec<&RawValue>> = match runs.iter().any(|run| run.told.is_some()) {
            true => part.explain()?,
            false => None,
        };
        let mut explains = explains.into_iter().flatten();
        for run in runs {
            let explain = explains.next();
            if let Some(told) = &run.told {
                told.note(asked, part, explain)?;
            }
        }
    }
    let mut lists = Vec::with_capacity(runs.len());
    for run in runs {
        let each = answers.iter_mut().filter_map(Iterator::next);
        let found = run.merge(run.root(), each.map(|list| list.points).collect())?;
        lists.push(run.behind_offset(found));
    }
    Ok(lists)
}

/// One level of the tree.
#[derive(Clone, Copy)]
struct Stage<'s> {
    raw: &'s Object,
    prefetch: &'s [Prefetch],
    query: Option<&'s QueryKind>,
    using: &'s str,
    score_threshold: Option<f32>,
    limit: usize,
    most: usize,
    /// Of a query for nearest points that are unlike each other: only that they are near.
    is_near: bool,
}

impl<'s> Stage<'s> {
    fn of_prefetch(raw: &'s Object, typed: &'s Prefetch) -> Stage<'s> {
        Stage {
            raw,
            prefetch: &typed.prefetch,
            query: typed.query.as_ref(),
            using: &typed.using,
            score_threshold: typed.score_threshold,
            limit: typed.limit,
            most: typed.limit,
            is_near: false,
        }
    }

    fn prefetches(self) -> impl Iterator<Item = Stage<'s>> {
        let raw = objects(self.raw.get("prefetch")).into_iter();
        raw.zip(self.prefetch)
            .map(|(raw, typed)| Stage::of_prefetch(raw, typed))
    }

    /// Whether scores are made of the similarities to several vectors.
    fn is_scored(self) -> bool {
        match self.query {
            Some(QueryKind::Recommend { strategy, .. }) => *strategy != RecommendStrategy::AverageVector,
            Some(
                QueryKind::Discover { .. } | QueryKind::Context(_) | QueryKind::RelevanceFeedback { .. },
            ) => true,
            _ => false,
        }
    }

    /// Its own fields that a shard is asked by.
    fn body(self) -> Object {
        const OWN: [&str; 5] = ["query", "using", "params", "recall", "score_threshold"];
        let each = OWN.iter();
        let mut body: Object = each
            .filter_map(|name| Some(((*name).to_owned(), self.raw.get(*name)?.clone())))
            .collect();
        if self.is_scored() {
            body.remove("score_threshold");
        }
        if self.is_near
            && let Some(query) = body.get_mut("query").and_then(Value::as_object_mut)
        {
            query.remove("mmr");
        }
        body
    }
}

/// A query under way.
pub struct Run<'a> {
    asked: &'a Divided,
    config: Arc<CollectionConfig>,
    pub query: Query,
    /// Points that the query names: none of them is a hit.
    excluded: Vec<PointId>,
    /// Beside the query's own filter.
    pub more: Option<Value>,
    /// How it is done, where somebody wants to know.
    told: Option<Arc<Told>>,
}

impl<'a> Run<'a> {
    /// Checks a query, and looks up the vectors of the points that it names.
    pub async fn new(asked: &'a Divided, mut query: Query) -> ApiResult<Run<'a>> {
        let collection: Arc<Collection> = asked.app.collection(asked.collection()).await?;
        let config = Arc::new(collection.config());
        let is_asked = query.typed.params.explain;
        let told = (is_asked || asked.is_noted()).then(|| Arc::new(Told::new(asked, is_asked)));
        if query.typed.limit == 0 {
            // Nothing is looked for, so nothing can be missing.
            return Ok(Run {
                asked,
                config,
                query,
                excluded: Vec::new(),
                more: None,
                told,
            });
        }
        fit(asked, &mut query.typed).await?;
        collection.check_query(&query.typed)?;
        let typed = &query.typed;
        if !typed.prefetch.is_empty() || matches!(typed.query, Some(QueryKind::NearestWithMmr { .. })) {
            one_key(&collection, &query.keys, "a query with prefetches or `mmr`")?;
        }
        let root = (typed.query.as_ref(), typed.using.as_str(), typed.limit);
        check_stage(&config, root, &typed.prefetch)?;
        let excluded = look_up(asked, &mut query.raw).await?;
        statistics::weigh(asked, &config, &mut query).await?;
        highlights::add_words(&mut query);
        Ok(Run {
            asked,
            config,
            query,
            excluded,
            more: None,
            told,
        })
    }

    /// The same query with other numbers and another filter: of another part of the same work.
    pub fn again(&self, limit: usize, more: Option<Value>) -> Run<'a> {
        let mut typed = self.query.typed.clone();
        (typed.limit, typed.offset) = (limit, 0);
        Run {
            asked: self.asked,
            config: self.config.clone(),
            query: Query {
                typed,
                raw: self.query.raw.clone(),
                keys: self.query.keys.clone(),
            },
            excluded: self.excluded.clone(),
            more,
            told: self.told.clone(),
        }
    }

    /// Payloads and vectors of hits were fetched since then.
    pub fn note_fetch(&self, begun: Instant) {
        if let Some(told) = &self.told {
            told.note_fetch(begun.elapsed());
        }
    }

    /// It is done: notes how.
    pub fn tell(&self, steps: Option<&Arc<Steps>>, collection: &Collection) {
        if let Some(steps) = steps {
            let told = self.told.as_ref();
            let told = told.map(|told| told.take(unindexed_of(collection, &self.query.typed)));
            steps.note_search(told.unwrap_or_default());
        }
    }

    fn root(&self) -> Stage<'_> {
        let typed = &self.query.typed;
        Stage {
            raw: &self.query.raw,
            prefetch: &typed.prefetch,
            query: typed.query.as_ref(),
            using: &typed.using,
            score_threshold: typed.score_threshold,
            limit: typed.limit,
            most: self.most(),
            is_near: false,
        }
    }

    /// Chance has no order that one could skip in.
    fn skipped(&self) -> usize {
        match (&self.query.typed.query, self.query.typed.prefetch.is_empty()) {
            (Some(QueryKind::SampleRandom), true) => 0,
            _ => self.query.typed.offset,
        }
    }

    fn most(&self) -> usize {
        self.query.typed.limit.saturating_add(self.skipped())
    }

    fn behind_offset(&self, mut points: Vec<Point>) -> Vec<Point> {
        points.drain(..self.skipped().min(points.len()));
        points
    }

    /// What is shown of its points.
    fn shown(&self) -> (Option<&Value>, Option<&Value>) {
        let given = |name: &str| self.query.raw.get(name).filter(|value| !value.is_null());
        (given("with_payload"), given("with_vector"))
    }

    /// The shard keys that it is about, as they came.
    fn keys(&self) -> Option<&Value> {
        self.query.raw.get("shard_key")
    }

    fn filters(&self) -> Vec<&Value> {
        self.more.iter().chain(self.query.raw.get("filter")).collect()
    }

    /// The points of the answer.
    pub async fn points(&self) -> ApiResult<Vec<Point>> {
        if self.query.typed.limit == 0 {
            return Ok(Vec::new());
        }
        let root = self.root();
        let filters = self.filters();
        let found = self.stage(root, filters, true).await?;
        let found = self.behind_offset(found);
        match root.query {
            Some(QueryKind::Fusion(_)) => {
                let begun = Instant::now();
                let dressed = self.dressed(found).await;
                self.note_fetch(begun);
                dressed
            }
            _ => Ok(found),
        }
    }

    /// Points that were found without payloads and vectors, with what is shown of them.
    async fn dressed(&self, found: Vec<Point>) -> ApiResult<Vec<Point>> {
        if self.query.typed.highlight.is_none() {
            return dress(self.asked, found, self.keys(), self.shown()).await;
        }
        let _held = self.hold_points(found.len())?;
        let ranks: Vec<Rank> = found.iter().map(Point::rank).collect();
        let parts = divided_by(ranks.iter().copied(), |rank| rank.id, self.asked.count());
        let mut asks = Vec::new();
        for (shard, own) in (0..).zip(parts).filter(|(_, own)| !own.is_empty()) {
            let mut body = given(&own);
            self.finish(&mut body, own.len(), true);
            asks.push((shard, self.ask_of(Value::Object(body).to_string())?));
        }
        let parts = self.asked.ask_some(asks).await?;
        let order = ranks.iter().map(|rank| rank.id);
        Ok(in_order(self.lists(&parts)?, By::Id, order, ranks.len()))
    }

    /// From how long on shards tell how they did it, if they are to.
    fn told_from(&self) -> Option<Duration> {
        self.told.as_ref().map(|told| told.from)
    }

    /// A query to a shard.
    fn ask_of(&self, body: impl Into<Bytes>) -> ApiResult<Ask> {
        let ask = self.asked.other(QUERY, self.asked.collection(), body)?;
        Ok(Ask {
            told_from: self.told_from(),
            ..ask
        })
    }

    /// The lists of shards; how each was made is noted.
    fn lists<'p>(&self, parts: &'p [(u32, Part)]) -> ApiResult<Vec<Vec<WirePoint<'p>>>> {
        let mut lists = Vec::with_capacity(parts.len());
        for (_, part) in parts {
            lists.push(points_of(part)?);
            if let Some(told) = &self.told {
                told.note(self.asked, part, part.explain()?)?;
            }
        }
        Ok(lists)
    }

    /// Whether it takes one list of each shard.
    fn is_one_list(&self) -> bool {
        let typed = &self.query.typed;
        let one_by_one = matches!(
            typed.query,
            Some(QueryKind::SampleRandom | QueryKind::NearestWithMmr { .. })
        );
        typed.prefetch.is_empty() && !one_by_one && typed.limit > 0
    }

    fn one_list(&self) -> Object {
        self.leaf_body(self.root(), &self.filters(), true)
    }

    fn by_of(&self, stage: Stage<'_>) -> By {
        match stage.query {
            None | Some(QueryKind::SampleRandom | QueryKind::Given(_)) => By::Id,
            Some(QueryKind::OrderBy(order)) => By::Value {
                descending: order.direction == Direction::Desc,
            },
            Some(
                QueryKind::Nearest(_)
                | QueryKind::NearestWithMmr { .. }
                | QueryKind::Recommend {
                    strategy: RecommendStrategy::AverageVector,
                    ..
                },
            ) => {
                let params = self.config.vectors.get(stage.using);
                match params.map(|params| params.distance) {
                    Some(Distance::Euclid | Distance::Manhattan) => By::Distance,
                    _ => By::Score,
                }
            }
            Some(_) => By::Score,
        }
    }

    fn leaf_body(&self, stage: Stage<'_>, filters: &[&Value], shows: bool) -> Object {
        let mut body = stage.body();
        if let Some(filter) = filters::merged(filters, Vec::new(), &self.excluded) {
            body.insert("filter".to_owned(), filter);
        }
        self.finish(&mut body, stage.most, shows);
        body
    }

    fn finish(&self, body: &mut Object, most: usize, shows: bool) {
        body.insert("limit".to_owned(), json!(most));
        if let Some(keys) = self.keys() {
            body.insert("shard_key".to_owned(), keys.clone());
        }
        if body.get("params").is_none_or(Value::is_null) {
            body.insert("params".to_owned(), json!({}));
        }
        if let Some(params) = body.get_mut("params").and_then(Value::as_object_mut) {
            params.insert("explain".to_owned(), json!(self.told.is_some()));
        }
        if shows {
            for name in ["with_payload", "with_vector", "highlight"] {
                if let Some(value) = self.query.raw.get(name) {
                    body.insert(name.to_owned(), value.clone());
                }
            }
        }
    }

    /// Points of a stage, best first. `filters`: those of this level and of all above. `shows`: with what the answer shows of them.
    fn stage<'s>(
        &'s self,
        stage: Stage<'s>,
        filters: Vec<&'s Value>,
        shows: bool,
    ) -> Pin<Box<dyn Future<Output = ApiResult<Vec<Point>>> + Send + 's>> {
        Box::pin(async move {
            if let Some(QueryKind::NearestWithMmr { mmr, .. }) = stage.query
                && !stage.is_near
            {
                return self.diverse(stage, *mmr, filters, shows).await;
            }
            if stage.prefetch.is_empty() {
                return self.leaf(stage, &filters, shows).await;
            }
            let each = stage.prefetches().map(|prefetch| {
                let mut filters = filters.clone();
                filters.extend(prefetch.raw.get("filter"));
                self.stage(prefetch, filters, false)
            });
            let mut lists = Vec::with_capacity(stage.prefetch.len());
            for (list, prefetch) in at_once(each.collect()).await.into_iter().zip(stage.prefetches()) {
                lists.push(ranks(list?, prefetch));
            }
            let _held = self.hold_points(lists.iter().map(Vec::len).sum())?;
            match stage.query {
                // Said after what the prefetches have to say.
                Some(QueryKind::Fusion(_)) if !stage.using.is_empty() => Err(ApiError::new(
                    StatusCode::BAD_REQUEST,
                    "Bad request: Fusion queries cannot be combined with the 'using' field.",
                )),
                Some(QueryKind::Fusion(fusion)) => {
                    let begun = Instant::now();
                    let lists: Vec<&[Rank]> = lists.iter().map(|list| &list[..]).collect();
                    let mut found = fused(fusion, &lists)?;
                    if let Some(told) = &self.told {
                        let rows = lists.iter().map(|list| list.len()).sum();
                        told.note_merge("fusion", rows, begun);
                    }
                    if let Some(least) = stage.score_threshold {
                        found.retain(|rank| rank.score >= least);
                    }
                    found.truncate(stage.most);
                    Ok(found.into_iter().map(Point::bare).collect())
                }
                Some(QueryKind::Formula(_)) => self.formula(stage, &lists, shows).await,
                _ => self.among(stage, &filters, &lists, shows).await,
            }
        })
    }

    /// Of the nearest points those that are unlike each other.
    async fn diverse<'s>(
        &'s self,
        stage: Stage<'s>,
        mmr: Mmr,
        filters: Vec<&'s Value>,
        shows: bool,
    ) -> ApiResult<Vec<Point>> {
        let near = Stage {
            most: mmr.candidates_limit.unwrap_or(stage.limit),
            is_near: true,
            ..stage
        };
        if near.most == 0 {
            return Ok(Vec::new());
        }
        let near = self.stage(near, filters, shows).await?;
        let params = self.config.vectors.get(stage.using);
        let of = (stage.using, params.map(|params| params.distance), self.keys());
        super::mmr::chosen(self.asked, near, of, (mmr.diversity, stage.most)).await
    }

    fn hold_points(&self, points: usize) -> ApiResult<GrowingReservation> {
        self.asked.hold(points as u64 * POINT_BYTES)
    }

    async fn leaf(&self, stage: Stage<'_>, filters: &[&Value], shows: bool) -> ApiResult<Vec<Point>> {
        let body = self.leaf_body(stage, filters, shows);
        if let Some(QueryKind::SampleRandom) = stage.query {
            let filter = body.get("filter").cloned();
            return sample(self.asked, filter.as_ref(), body, stage.most).await;
        }
        let body = Bytes::from(Value::Object(body).to_string());
        let each = self.asked.all();
        let asks = each.map(|shard| self.ask_of(body.clone()).map(|ask| (shard, ask)));
        self.gather(stage, asks.collect::<ApiResult<_>>()?).await
    }

    async fn gather(&self, stage: Stage<'_>, asks: Vec<(u32, Ask)>) -> ApiResult<Vec<Point>> {
        let parts = self.asked.ask_some(asks).await?;
        self.merge(stage, self.lists(&parts)?)
    }

    /// The first points of the lists of all shards.
    fn merge(&self, stage: Stage<'_>, lists: Vec<Vec<WirePoint<'_>>>) -> ApiResult<Vec<Point>> {
        let found = match stage.query {
            Some(QueryKind::Given(points)) => {
                let _held = self.hold_points(points.len())?;
                in_order(lists, By::Id, points.iter().map(|(id, _)| *id), stage.most)
            }
            _ => merged(lists, self.by_of(stage), stage.most),
        };
        Ok(self.cut(stage, found))
    }

    /// Points up to the first that doesn't pass the threshold: of scores that are made of several, shards don't cut by themselves.
    fn cut(&self, stage: Stage<'_>, mut found: Vec<Point>) -> Vec<Point> {
        if let Some(threshold) = stage.score_threshold.filter(|_| stage.is_scored()) {
            let params = self.config.vectors.get(stage.using);
            let passes = |score: f32| match params.map(|params| params.distance) {
                Some(Distance::Euclid | Distance::Manhattan) => score < threshold,
                _ => score > threshold,
            };
            let bad = found.iter().position(|point| !passes(point.score));
            found.truncate(bad.unwrap_or(found.len()));
        }
        found
    }

    /// The points of lists, in the order of the stage's query: each shard orders those that it has.
    async fn among(
        &self,
        stage: Stage<'_>,
        filters: &[&Value],
        lists: &[Vec<Rank>],
        shows: bool,
    ) -> ApiResult<Vec<Point>> {
        let mut ids: Vec<PointId> = lists.iter().flatten().map(|rank| rank.id).collect();
        ids.sort_unstable();
        ids.dedup();
        if let Some(QueryKind::SampleRandom) = stage.query {
            Chance::new().shuffle(&mut ids);
            ids.truncate(stage.most);
        }
        // What must hold was asked of them below; alternatives are more below than here.
        let filter = filters::merged(filters, Vec::new(), &[]);
        let mut asks = Vec::new();
        for (shard, ids) in (0..).zip(divided(ids, self.asked.count())) {
            if ids.is_empty() {
                continue;
            }
            let mut body = stage.body();
            body.insert("prefetch".to_owned(), by_ids(&ids, Object::new()));
            if let Some(filter) = &filter {
                body.insert("filter".to_owned(), filter.clone());
            }
            self.finish(&mut body, stage.most, shows);
            asks.push((shard, self.ask_of(Value::Object(body).to_string())?));
        }
        let mut found = self.gather(stage, asks).await?;
        if let Some(QueryKind::SampleRandom) = stage.query {
            Chance::new().shuffle(&mut found);
        }
        Ok(found)
    }

    /// A formula of the scores of lists: each shard is given those of the points that it has, whatever made them.
    async fn formula(&self, stage: Stage<'_>, lists: &[Vec<Rank>], shows: bool) -> ApiResult<Vec<Point>> {
        let count = self.asked.count();
        let each = lists.iter();
        let by_list: Vec<Vec<Vec<Rank>>> = each
            .map(|list| divided_by(list.iter().copied(), |rank| rank.id, count))
            .collect();
        let mut asks = Vec::new();
        for shard in self.asked.all() {
            let own = by_list.iter().map(|parts| &parts[shard as usize]);
            if own.clone().all(Vec::is_empty) {
                continue;
            }
            let mut body = stage.body();
            let prefetch = own.map(|list| Value::Object(given(list)));
            body.insert("prefetch".to_owned(), prefetch.collect());
            self.finish(&mut body, stage.most, shows);
            asks.push((shard, self.ask_of(Value::Object(body).to_string())?));
        }
        let parts = self.asked.ask_some(asks).await?;
        // Equal ones in the order of the lists, as one node has them.
        let order = lists.iter().flatten().map(|rank| rank.id);
        Ok(in_order(self.lists(&parts)?, By::Score, order, stage.most))
    }
}

/// A prefetch of just these points.
fn by_ids(ids: &[PointId], mut body: Object) -> Value {
    body.insert("filter".to_owned(), json!({ "must": [{ "has_id": ids }] }));
    body.insert("limit".to_owned(), json!(ids.len().max(1)));
    Value::Object(body)
}

/// A query of just these points, with the scores that they have.
fn given(ranks: &[Rank]) -> Object {
    let ids: Vec<PointId> = ranks.iter().map(|rank| rank.id).collect();
    let scores: Vec<f32> = ranks.iter().map(|rank| rank.score).collect();
    let mut body = Object::new();
    body.insert(
        "query".to_owned(),
        json!({ "given": { "ids": ids, "scores": scores } }),
    );
    body.insert("limit".to_owned(), json!(ranks.len().max(1)));
    body
}

/// A prefetch's list, for the stage above.
fn ranks(points: Vec<Point>, stage: Stage<'_>) -> Vec<Rank> {
    let is_plain = matches!(
        stage.query,
        None | Some(QueryKind::OrderBy(_) | QueryKind::SampleRandom)
    );
    let rank = |point: &Point| match is_plain {
        // Nothing scored it.
        true => Rank {
            score: 1.0,
            ..point.rank()
        },
        false => point.rank(),
    };
    points.iter().map(rank).collect()
}

/// Refuses what shards can't do together.
fn check_stage(
    config: &CollectionConfig,
    (query, using, limit): (Option<&QueryKind>, &str, usize),
    prefetch: &[Prefetch],
) -> ApiResult<()> {
    if let Some(QueryKind::NearestWithMmr { mmr, .. }) = query {
        let sparse = config.sparse_vectors.get(using);
        if sparse.is_some_and(|sparse| sparse.modifier == Some(Modifier::Idf)) {
            return Err(refused("`mmr` of a vector with the IDF modifier"));
        }
        let candidates = mmr.candidates_limit.unwrap_or(limit);
        if candidates > limits::SHARD_MMR_CANDIDATES {
            return Err(refused(format_args!(
                "`mmr` of {candidates} candidates, more than {},",
                limits::SHARD_MMR_CANDIDATES
            )));
        }
    }
    prefetch
        .iter()
        .try_for_each(|one| check_stage(config, (one.query.as_ref(), &one.using, one.limit), &one.prefetch))
}

/// A collection, a vector of it, and the shard keys where its points are looked for: JSON.
type Place = (String, String, String);

#[derive(Deserialize)]
struct LookupFrom {
    collection: String,
    vector: Option<String>,
    #[serde(default)]
    shard_key: Value,
}

/// `keys`: those of the query itself.
fn place_of(asked: &Divided, stage: &Object, keys: &Value) -> ApiResult<Place> {
    let using = stage.get("using").and_then(Value::as_str).unwrap_or_default();
    match stage.get("lookup_from").filter(|from| !from.is_null()) {
        None => Ok((asked.collection().to_owned(), using.to_owned(), keys.to_string())),
        Some(from) => {
            let from = LookupFrom::deserialize(from).map_err(ApiError::format)?;
            let vector = from.vector.unwrap_or_else(|| using.to_owned());
            Ok((from.collection, vector, from.shard_key.to_string()))
        }
    }
}

fn each_stage(stage: &mut Object, each: &mut dyn FnMut(&mut Object) -> ApiResult<()>) -> ApiResult<()> {
    each(stage)?;
    for prefetch in objects_mut(stage.get_mut("prefetch")) {
        each_stage(prefetch, each)?;
    }
    Ok(())
}

/// Refuses to look points up in a collection that isn't there, in the words of a query for that, or that the key doesn't open.
pub async fn found_for_lookup(asked: &Divided, name: &str) -> ApiResult<()> {
    asked.grant.check(Access::Read, Some(name))?;
    let found = asked.app.collection(name).await;
    let found = found.map(drop);
    found.map_err(|e| match e.status {
        StatusCode::NOT_FOUND => ApiError::not_found(format_args!("Collection {name} not found")),
        _ => e,
    })
}

/// Puts the vectors of points in place of their ids. The ids of points of the collection itself, which are no hits: ascending.
async fn look_up(asked: &Divided, raw: &mut Object) -> ApiResult<Vec<PointId>> {
    let own = asked.app.engine.resolve_alias(asked.collection());
    let keys = raw.get("shard_key").cloned().unwrap_or_default();
    let mut wanted: HashMap<Place, Vec<PointId>> = HashMap::new();
    let (mut excluded, mut others) = (Vec::new(), Vec::new());
    each_stage(raw, &mut |stage| {
        let place = place_of(asked, stage, &keys)?;
        if stage.get("lookup_from").is_some_and(|from| !from.is_null()) {
            others.push(place.0.clone());
        }
        let ids: Vec<PointId> = inputs(stage.get_mut("query"))
            .into_iter()
            .filter_map(|input| id_of(input))
            .collect();
        if asked.app.engine.resolve_alias(&place.0) == own {
            excluded.extend(&ids);
        }
        if !ids.is_empty() {
            wanted.entry(place).or_default().extend(ids);
        }
        Ok(())
    })?;
    for name in others {
        found_for_lookup(asked, &name).await?;
    }
    excluded.sort_unstable();
    excluded.dedup();
    let mut vectors: HashMap<(Place, PointId), Value> = HashMap::new();
    for (place, mut ids) in wanted {
        ids.sort_unstable();
        ids.dedup();
        let names = serde_json::to_string(&[&place.1]).map_err(ApiError::internal)?;
        let names = RawValue::from_string(names).map_err(ApiError::internal)?;
        let no = RawValue::from_string("false".to_owned()).map_err(ApiError::internal)?;
        let keys: Value = serde_json::from_str(&place.2).map_err(ApiError::internal)?;
        let found = retrieve(asked, (&place.0, &keys), &ids, (Some(&no), Some(&names))).await?;
        let found: HashMap<PointId, Point> = found.into_iter().map(|point| (point.id, point)).collect();
        for id in ids {
            let point = found
                .get(&id)
                .ok_or_else(|| ApiError::not_found(format_args!("No point with id {id} found")))?;
            let vector = vector_of(point, &place.1)?;
            let Some(vector) = vector else {
                check_name(asked, &place.0, &place.1).await?;
                return Err(ApiError::not_found(format_args!(
                    "Vector with name {:?} for point {id}",
                    place.1
                )));
            };
            vectors.insert((place.clone(), id), vector);
        }
    }
    each_stage(raw, &mut |stage| {
        // Statistics go there.
        stage.entry("params").or_insert(Value::Null);
        let place = place_of(asked, stage, &keys)?;
        for input in inputs(stage.get_mut("query")) {
            if let Some(vector) = id_of(input).and_then(|id| vectors.get(&(place.clone(), id))) {
                *input = vector.clone();
            }
        }
        stage.remove("lookup_from");
        Ok(())
    })?;
    Ok(excluded)
}

/// Refuses a vector that the collection hasn't.
pub async fn check_name(asked: &Divided, collection: &str, name: &str) -> ApiResult<()> {
    let config = asked.app.collection(collection).await?.config();
    if config.vectors.contains_key(name) || config.sparse_vectors.contains_key(name) {
        return Ok(());
    }
    let told = match name {
        "" => "the collection has no default vector",
        name => name,
    };
    Err(ApiError::wrong_input(format_args!(
        "Not existing vector name error: {told}"
    )))
}
