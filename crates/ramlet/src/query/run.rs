//! Executes a query with its prefetches bottom-up, on one thread and over one view.

use std::sync::Arc;

use ramlet_io::{IoContext, SearchStage, StageUse, Stages};

use super::candidates::{Scope, best};
use super::examples::{Source, named_points};
use super::found::{Found, FoundList, union};
use super::others::OtherCollections;
use super::request::*;
use super::scorer::{Probe, Scorer};
use super::segment::SearchContext;
use super::text::TextAsked;
use super::{
    Scratch, Spent, aim, collect_found, formula, fusion, given, highlight, mmr, order, passes, place_of,
    search_all, sparse, want,
};
use crate::error::{Error, Result};
use crate::filter::{CompiledFilter, Filter};
use crate::limits::{LIMIT_MAX, MULTI_NUMBERS_MAX, PREFETCH_DEPTH_MAX, PREFETCHES_MAX};
use crate::read::lookup::Lookup;
use crate::read::matching::place_matches;
use crate::read::view::View;
use crate::request::{Explained, QueryVector, SearchCost, SearchParams, SearchResponse};
use crate::schema::{Schema, VectorField, VectorKind};
use crate::state::core::Core;
use crate::types::PointId;
use crate::types::vector::{MultiVector, Vector};

/// Runs a query.
pub fn query(
    (core, view): (&Arc<Core>, &Arc<View>),
    request: &QueryRequest,
    others: &dyn OtherCollections,
    scratch: &mut Scratch,
) -> Result<SearchResponse> {
    let before = Spent::so_far(&scratch.lookup.io);
    let (mut run, list) = Run::over(core, view, request, &[], others, scratch)?;
    let (skip, found) = (skipped(request), run.scratch.lookup.io.now());
    let mut response = SearchResponse {
        hits: Vec::with_capacity(list.found.len().saturating_sub(skip)),
        cost: run.cost,
        explain: run.explained.take().unwrap_or_default(),
    };
    let parts = (&request.with_payload, &request.with_vectors);
    collect_found(
        view,
        &list,
        skip,
        parts,
        run.is_plain(request),
        run.scratch,
        &mut response.hits,
    )?;
    if let Some(how) = &request.highlight {
        let context = (&**view, request);
        highlight::highlight(
            context,
            how,
            (&list, skip),
            &mut scratch.lookup,
            &mut response.hits,
        )?;
    }
    response.cost = before.until_now(&scratch.lookup.io, found, response.cost);
    Ok(response)
}

/// Points of the answer that are left out from its beginning.
pub fn skipped(request: &QueryRequest) -> usize {
    match (&request.query, request.prefetch.is_empty()) {
        // Chance has no order that one could skip in.
        (Some(QueryKind::SampleRandom), true) => 0,
        _ => request.offset,
    }
}

/// One query under way.
pub struct Run<'a> {
    view: &'a Arc<View>,
    others: &'a dyn OtherCollections,
    /// Points that the query names. Ascending.
    excluded: Vec<PointId>,
    pub scratch: &'a mut Scratch,
    pub cost: SearchCost,
    pub explained: Option<Vec<Explained>>,
    seed: u64,
}

/// One level of the tree.
struct Stage<'s> {
    prefetch: &'s [Prefetch],
    query: Option<&'s QueryKind>,
    using: &'s str,
    params: &'s SearchParams,
    score_threshold: Option<f32>,
    /// As the request has it, and with what is skipped.
    limit: usize,
    k: usize,
    lookup_from: Option<&'s LookupLocation>,
}

impl<'s> Stage<'s> {
    fn of_prefetch(prefetch: &'s Prefetch) -> Stage<'s> {
        Stage {
            prefetch: &prefetch.prefetch,
            query: prefetch.query.as_ref(),
            using: &prefetch.using,
            params: &prefetch.params,
            score_threshold: prefetch.score_threshold,
            limit: prefetch.limit,
            k: prefetch.limit,
            lookup_from: prefetch.lookup_from.as_ref(),
        }
    }

    fn of_request(request: &'s QueryRequest) -> Stage<'s> {
        Stage {
            prefetch: &request.prefetch,
            query: request.query.as_ref(),
            using: &request.using,
            params: &request.params,
            score_threshold: request.score_threshold,
            limit: request.limit,
            k: request.limit.saturating_add(skipped(request)),
            lookup_from: request.lookup_from.as_ref(),
        }
    }

    /// What can be told without looking at points.
    fn check(&self, schema: &Schema, depth: usize, stages: &mut usize) -> Result<()> {
        *stages += self.prefetch.len();
        if depth > PREFETCH_DEPTH_MAX || *stages > PREFETCHES_MAX {
            return Err(bad(format!(
                "prefetches depth {depth} exceeds max depth {PREFETCH_DEPTH_MAX}, or there are more than {PREFETCHES_MAX} of them"
            )));
        }
        self.check_query()?;
        if let Some(QueryKind::Text(query)) = self.query {
            TextAsked::new(schema, self.using, query)?;
        }
        self.prefetch
            .iter()
            .try_for_each(|p| Stage::of_prefetch(p).check(schema, depth + 1, stages))
    }

    fn check_query(&self) -> Result<()> {
        let none = self.prefetch.is_empty();
        match self.query {
            None if !none => Err(bad(
                "A query is needed to merge the prefetches. Can't have prefetches without defining a query.",
            )),
            None if self.score_threshold.is_some() => Err(bad(
                "A query is needed to use the score_threshold. Can't have score_threshold without defining a query.",
            )),
            Some(QueryKind::OrderBy(_)) if self.score_threshold.is_some() => {
                Err(bad("Can't use score_threshold with an order_by query."))
            }
            Some(QueryKind::Fusion(_)) if none && !self.using.is_empty() => Err(bad(FUSION_USING)),
            Some(QueryKind::Fusion(_)) if none => Err(bad("cannot apply Fusion without prefetches")),
            Some(QueryKind::Formula(_)) if none => Err(bad("cannot apply Formula without prefetches")),
            Some(QueryKind::Formula(formula)) => formula::check(formula),
            Some(QueryKind::Given(_)) if !none => {
                Err(bad("points that are given can't be combined with prefetches"))
            }
            Some(QueryKind::Given(points)) => given::check(points),
            Some(QueryKind::Recommend {
                positive,
                negative,
                strategy,
            }) => match strategy {
                RecommendStrategy::AverageVector if positive.is_empty() => Err(bad(
                    "Positive vectors should not be empty with `average` strategy",
                )),
                _ if positive.is_empty() && negative.is_empty() => Err(bad(
                    "At least one positive or negative vector is required with this strategy",
                )),
                _ => Ok(()),
            },
            Some(QueryKind::Context(pairs)) if pairs.is_empty() => {
                Err(bad("A context query needs at least one pair"))
            }
            _ => Ok(()),
        }
    }
}

/// A part that did one thing.
fn one_stage(spent: &SearchCost, stage: SearchStage, io: &IoContext) -> Explained {
    let used = StageUse {
        ns: spent.total_ns,
        waited_ns: spent.waited_ns,
        reads: spent.disk_reads,
        bytes: spent.disk_bytes,
    };
    Explained {
        read_bytes: used.bytes,
        total_ns: used.ns,
        stages: io.clock().map(|_| Box::new(Stages::whole(stage, used))),
        ..Explained::default()
    }
}

/// Whether points must be held against the filters again after prefetches.
fn asks_again(filters: &[&Filter]) -> bool {
    filters
        .iter()
        .any(|f| !f.should.is_empty() || f.min_should.is_some())
}

/// Refuses what can be told without looking at points.
pub fn check(schema: &Schema, request: &QueryRequest) -> Result<()> {
    let stage = Stage::of_request(request);
    stage.check(schema, 0, &mut 0)?;
    if let Some(how) = &request.highlight {
        how.check()?;
        highlight::check(schema, how)?;
    }
    if stage.k > LIMIT_MAX {
        return Err(Error::bad_input(format!(
            "limit + offset is {}, at most {LIMIT_MAX} is possible",
            stage.k
        )));
    }
    Ok(())
}

const FUSION_USING: &str = "Fusion queries cannot be combined with the 'using' field.";

fn bad(message: impl std::fmt::Display) -> Error {
    Error::bad_input(format!("Bad request: {message}"))
}

impl<'a> Run<'a> {
    /// Runs a request up to the places of its points, `more` filters beside its own; nothing is skipped yet.
    pub fn over(
        core: &Arc<Core>,
        view: &'a Arc<View>,
        request: &QueryRequest,
        more: &[&Filter],
        others: &'a dyn OtherCollections,
        scratch: &'a mut Scratch,
    ) -> Result<(Run<'a>, FoundList)> {
        check(&view.schema, request)?;
        let stage = Stage::of_request(request);
        let excluded = named_points(stage.query, stage.lookup_from, stage.prefetch, (core, others))?;
        let mut run = Run {
            view,
            others,
            excluded,
            scratch,
            cost: SearchCost::default(),
            explained: request.params.explain.then(Vec::new),
            seed: core.shared.salt(),
        };
        let mut filters = more.to_vec();
        filters.extend(&request.filter);
        let list = run.stage(&stage, &mut filters)?;
        Ok((run, list))
    }

    /// Whether the points are records without scores.
    pub fn is_plain(&self, request: &QueryRequest) -> bool {
        matches!(
            request.query,
            None | Some(QueryKind::OrderBy(_) | QueryKind::SampleRandom)
        )
    }

    /// `filters`: those of this level and of all above.
    fn stage<'f>(&mut self, stage: &Stage<'f>, filters: &mut Vec<&'f Filter>) -> Result<FoundList> {
        if stage.prefetch.is_empty() {
            return self.leaf(stage, filters);
        }
        let mut lists = Vec::with_capacity(stage.prefetch.len());
        for prefetch in stage.prefetch {
            let above = filters.len();
            filters.extend(&prefetch.filter);
            let list = self.stage(&Stage::of_prefetch(prefetch), filters);
            filters.truncate(above);
            lists.push(list?);
        }
        let rare = self.scratch.lookup.rare.clone();
        let rows = lists.iter().map(|list| list.found.len() as u64).sum();
        let mut merged = match stage.query {
            // Said after what the prefetches have to say.
            Some(QueryKind::Fusion(_)) if !stage.using.is_empty() => {
                return Err(bad(FUSION_USING));
            }
            Some(QueryKind::Fusion(fusion)) => {
                self.explain_merge(("fusion", "ranks merged", SearchStage::Other), rows, |_| {
                    fusion::fuse(fusion, &lists, &rare)
                })?
            }
            Some(QueryKind::Formula(formula)) => self.explain_merge(
                ("formula", "scores computed", SearchStage::Payloads),
                rows,
                |run| formula::rescore(formula, &lists, run.view, run.scratch),
            )?,
            _ => {
                let mut points = union(&lists, &rare)?;
                drop(lists);
                if asks_again(filters) {
                    self.explain_merge(
                        ("payloads", "filter asked again", SearchStage::Payloads),
                        rows,
                        |run| run.admit(&mut points.found, filters),
                    )?;
                }
                return self.scored(stage, None, Scope::Among(&points.found));
            }
        };
        if let Some(least) = stage.score_threshold {
            merged.found.retain(|found| found.score >= least);
        }
        Ok(merged.fit(stage.k))
    }

    /// What merges the prefetches' points, as a part of its own of what is explained.
    fn explain_merge<T>(
        &mut self,
        (index, strategy, of): (&'static str, &'static str, SearchStage),
        rows: u64,
        job: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = Spent::so_far(&self.scratch.lookup.io);
        let done = job(self)?;
        let io = &mut self.scratch.lookup.io;
        if let Some(explained) = &mut self.explained {
            let spent = before.until_now(io, before.at, SearchCost::default());
            explained.push(Explained {
                index,
                strategy,
                rows,
                reads: spent.disk_reads,
                ..one_stage(&spent, of, io)
            });
        }
        Ok(done)
    }

    /// Keeps the points that match here. What must hold and what mustn't was asked of them below; alternatives are more below
    /// than here.
    fn admit(&mut self, points: &mut Vec<Found>, filters: &[&Filter]) -> Result<()> {
        let Some(filter) = merged(self.view, filters, &[])? else {
            return Ok(());
        };
        let Lookup { io, buf, .. } = &mut self.scratch.lookup;
        let mut kept = 0;
        for at in 0..points.len() {
            if place_matches(self.view, points[at].place, &filter, io, buf)? {
                points[kept] = points[at];
                kept += 1;
            }
        }
        points.truncate(kept);
        Ok(())
    }

    fn leaf(&mut self, stage: &Stage<'_>, filters: &[&Filter]) -> Result<FoundList> {
        // Vectors' indexes pass over the points named without a filter, which is quicker.
        let by_filter: &[PointId] = match stage.query {
            None
            | Some(
                QueryKind::OrderBy(_) | QueryKind::SampleRandom | QueryKind::Text(_) | QueryKind::Given(_),
            ) => &self.excluded,
            _ => &[],
        };
        let filter = merged(self.view, filters, by_filter)?;
        self.scored(stage, filter.as_ref(), Scope::All)
    }

    /// The points of `scope` in the order of the stage's query.
    fn scored(
        &mut self,
        stage: &Stage<'_>,
        filter: Option<&CompiledFilter>,
        scope: Scope<'_>,
    ) -> Result<FoundList> {
        let points = usize::try_from(self.view.points()).unwrap_or(usize::MAX);
        let k = stage.k.min(points);
        match stage.query {
            None => order::by_id(self.view, filter, k, self.scratch),
            Some(QueryKind::OrderBy(by)) => order::by_value(self.view, by, filter, scope, k, self.scratch),
            Some(QueryKind::SampleRandom) => {
                self.seed = self.seed.wrapping_add(2);
                order::at_random(self.view, filter, scope, (k, self.seed), self.scratch)
            }
            Some(QueryKind::Given(points)) => self.given(stage, points, filter),
            Some(QueryKind::Text(query)) => TextAsked::new(&self.view.schema, stage.using, query)?.best(
                self.view,
                filter,
                (scope, k, stage.score_threshold),
                self.scratch,
                (&mut self.cost, self.explained.as_mut()),
            ),
            Some(query) => self.by_vectors(stage, query, filter, scope, k),
        }
    }

    fn given(
        &mut self,
        stage: &Stage<'_>,
        points: &[(PointId, f32)],
        filter: Option<&CompiledFilter>,
    ) -> Result<FoundList> {
        let told = ("given", "looked up", SearchStage::Other);
        let mut list = self.explain_merge(told, points.len() as u64, |run| {
            given::given(run.view, points, filter, run.scratch)
        })?;
        if let Some(least) = stage.score_threshold {
            list.found.retain(|found| found.score >= least);
        }
        Ok(list.fit(stage.k))
    }

    fn by_vectors(
        &mut self,
        stage: &Stage<'_>,
        query: &QueryKind,
        filter: Option<&CompiledFilter>,
        scope: Scope<'_>,
        k: usize,
    ) -> Result<FoundList> {
        let view = self.view.clone();
        let field = view.schema.vector(stage.using)?;
        let idf = stage.params.idf.as_ref();
        sparse::check_idf(field, idf)?;
        let source = Source::new(self.view, stage.using, stage.lookup_from, idf, self.others)?;
        let goal = self.goal(query, &source, field)?;
        // Other scores are made of several.
        let threshold = stage.score_threshold.filter(|_| !matches!(goal, Goal::Scored(_)));
        let excluded = std::mem::take(&mut self.excluded);
        let context = SearchContext {
            view: &view,
            field,
            filter,
            excluded: &excluded,
            want: want(stage.params, field, threshold)?,
            indexed_only: stage.params.indexed_only,
        };
        let found = match goal {
            Goal::Near(vector) => self.nearest(&context, &vector, scope, k),
            Goal::Diverse(vector, mmr) => self.diverse(&context, &vector, scope, stage, mmr),
            Goal::Scored(scorer) => self.best(&context, &scorer, scope, k),
        };
        let mut found = found?;
        if !matches!(query, QueryKind::NearestWithMmr { .. }) {
            cut(&mut found, field, stage.score_threshold);
        }
        self.excluded = excluded;
        Ok(found)
    }

    /// What a query with vectors is after.
    fn goal(&mut self, query: &QueryKind, source: &Source, field: &VectorField) -> Result<Goal> {
        let scratch = &mut *self.scratch;
        Ok(match query {
            QueryKind::Nearest(of) => Goal::Near(source.resolve(of, field, scratch)?),
            QueryKind::NearestWithMmr { nearest, mmr } => {
                check_mmr(mmr)?;
                Goal::Diverse(source.resolve(nearest, field, scratch)?, *mmr)
            }
            QueryKind::Recommend {
                positive,
                negative,
                strategy,
            } => {
                let positive = source.resolve_all(positive, field, scratch)?;
                let negative = source.resolve_all(negative, field, scratch)?;
                recommended(*strategy, &positive, &negative, field)?
            }
            QueryKind::Discover { target, context } => {
                let target = probe(source, target, field, scratch)?;
                let pairs = pairs(source, context, field, scratch)?;
                Goal::Scored(Scorer::Discover { target, pairs })
            }
            QueryKind::Context(context) => {
                Goal::Scored(Scorer::Context(pairs(source, context, field, scratch)?))
            }
            QueryKind::RelevanceFeedback {
                target,
                feedback,
                strategy,
            } => {
                let target = source.resolve(target, field, scratch)?;
                let mut items = Vec::with_capacity(feedback.len());
                for item in feedback {
                    items.push((source.resolve(&item.example, field, scratch)?, item.score));
                }
                Goal::Scored(Scorer::Linear(feedback_parts(&target, &items, *strategy, field)?))
            }
            QueryKind::OrderBy(_)
            | QueryKind::Fusion(_)
            | QueryKind::Formula(_)
            | QueryKind::Text(_)
            | QueryKind::SampleRandom
            | QueryKind::Given(_) => return Err(bad("this kind of query looks at no vectors")),
        })
    }

    fn nearest(
        &mut self,
        context: &SearchContext<'_>,
        vector: &Vector,
        scope: Scope<'_>,
        k: usize,
    ) -> Result<FoundList> {
        if let Scope::Among(_) = scope {
            let scorer = Scorer::Nearest(Probe::new(context.field, vector)?);
            return self.best(context, &scorer, scope, k);
        }
        let scratch = &mut *self.scratch;
        // Of the list and of the collector.
        let mut list = FoundList::with_room(k, &scratch.lookup.rare)?;
        aim(context.field, vector, scratch)?;
        scratch.top.clear(k);
        let cost = search_all(context, scratch, self.explained.as_mut())?;
        self.cost.add_all(&cost);
        list.found.extend(scratch.top.sorted().iter().map(|hit| Found {
            place: place_of(context.view, hit),
            score: context.field.metric.score(hit.distance),
        }));
        Ok(list.fit(k))
    }

    /// The best by a score, told as a part of its own.
    fn best(
        &mut self,
        context: &SearchContext<'_>,
        scorer: &Scorer,
        scope: Scope<'_>,
        k: usize,
    ) -> Result<FoundList> {
        let (before, cost) = (Spent::so_far(&self.scratch.lookup.io), self.cost);
        let found = best(context, scorer, scope, k, self.scratch, &mut self.cost)?;
        if let Some(explained) = &mut self.explained {
            let spent = before.until_now(&self.scratch.lookup.io, before.at, SearchCost::default());
            let of = |total: fn(&SearchCost) -> u64| total(&self.cost) - total(&cost);
            explained.push(Explained {
                using: context.field.name.clone(),
                index: "scores",
                strategy: match scope {
                    Scope::Among(_) => "listed",
                    Scope::All if of(|c| c.probes + c.codes_scanned) > 0 => "near the examples",
                    Scope::All => "all",
                },
                rows: match scope {
                    Scope::Among(points) => points.len() as u64,
                    Scope::All => self.view.points(),
                },
                probes: of(|c| c.probes),
                codes_scanned: of(|c| c.codes_scanned),
                rows_scored: of(|c| c.rows_scanned),
                rows_read: of(|c| c.rows_read),
                reads: spent.disk_reads,
                ..one_stage(&spent, SearchStage::Rows, &self.scratch.lookup.io)
            });
        }
        Ok(found)
    }

    fn diverse(
        &mut self,
        context: &SearchContext<'_>,
        vector: &Vector,
        scope: Scope<'_>,
        stage: &Stage<'_>,
        mmr: Mmr,
    ) -> Result<FoundList> {
        let points = usize::try_from(self.view.points()).unwrap_or(usize::MAX);
        let candidates = mmr.candidates_limit.unwrap_or(stage.limit).min(points);
        let mut near = self.nearest(context, vector, scope, candidates)?;
        cut(&mut near, context.field, stage.score_threshold);
        let probe = Probe::new(context.field, vector)?;
        let diversity = mmr.diversity.unwrap_or(mmr::DIVERSITY_DEFAULT);
        mmr::rerank(context, &probe, &near, (diversity, stage.k), self.scratch)
    }
}

fn merged(view: &View, filters: &[&Filter], excluded: &[PointId]) -> Result<Option<CompiledFilter>> {
    if filters.is_empty() && excluded.is_empty() {
        return Ok(None);
    }
    CompiledFilter::merged(&view.schema.fields, filters, excluded)
        .map(Some)
        .map_err(|e| Error::bad_input(format!("Wrong input: {e}")))
}

enum Goal {
    Near(Vector),
    Diverse(Vector, Mmr),
    Scored(Scorer),
}

/// Keeps what is better than the threshold.
fn cut(list: &mut FoundList, field: &VectorField, threshold: Option<f32>) {
    let bad = list
        .found
        .iter()
        .position(|found| !passes(field, found.score, threshold));
    if let Some(at) = bad {
        list.found.truncate(at);
    }
}

fn check_mmr(mmr: &Mmr) -> Result<()> {
    match mmr.diversity {
        Some(diversity) if !(0.0..=1.0).contains(&diversity) => Err(Error::bad_input(format!(
            "Wrong input: mmr.diversity: value {diversity} invalid, must be from 0.0 to 1.0"
        ))),
        _ => Ok(()),
    }
}

fn probe(source: &Source, of: &QueryVector, field: &VectorField, scratch: &mut Scratch) -> Result<Probe> {
    Probe::new(field, &source.resolve(of, field, scratch)?)
}

fn pairs(
    source: &Source,
    pairs: &[ContextPair],
    field: &VectorField,
    scratch: &mut Scratch,
) -> Result<Vec<(Probe, Probe)>> {
    let mut out = Vec::with_capacity(pairs.len());
    for pair in pairs {
        out.push((
            probe(source, &pair.positive, field, scratch)?,
            probe(source, &pair.negative, field, scratch)?,
        ));
    }
    Ok(out)
}

fn probes(vectors: &[Vector], field: &VectorField) -> Result<Vec<Probe>> {
    vectors.iter().map(|vector| Probe::new(field, vector)).collect()
}

fn recommended(
    strategy: RecommendStrategy,
    positive: &[Vector],
    negative: &[Vector],
    field: &VectorField,
) -> Result<Goal> {
    Ok(match strategy {
        RecommendStrategy::AverageVector => Goal::Near(average(positive, negative, field)?),
        RecommendStrategy::BestScore => Goal::Scored(Scorer::Best {
            positive: probes(positive, field)?,
            negative: probes(negative, field)?,
        }),
        RecommendStrategy::SumScores => {
            let positive = probes(positive, field)?.into_iter().map(|probe| (1.0, probe));
            let negative = probes(negative, field)?.into_iter().map(|probe| (-1.0, probe));
            Goal::Scored(Scorer::Linear(positive.chain(negative).collect()))
        }
    })
}

/// The mean of the positive ones, as far again from the mean of the negative ones; of multivectors the parts of all, those of
/// the negative ones turned round.
fn average(positive: &[Vector], negative: &[Vector], field: &VectorField) -> Result<Vector> {
    match field.kind {
        VectorKind::Sparse => return Ok(sparse::average(positive, negative)),
        VectorKind::Multi => return joined(positive, negative, field),
        VectorKind::Dense => {}
    }
    let mean = |vectors: &[Vector]| -> Vec<f32> {
        let mut sum = vec![0f32; field.dim];
        for values in vectors.iter().filter_map(Vector::dense) {
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        sum.iter_mut().for_each(|sum| *sum /= vectors.len() as f32);
        sum
    };
    let mut query = mean(positive);
    if !negative.is_empty() {
        let away = mean(negative);
        query
            .iter_mut()
            .zip(away)
            .for_each(|(value, away)| *value = *value + *value - away);
    }
    Ok(Vector::Dense(query))
}

fn joined(positive: &[Vector], negative: &[Vector], field: &VectorField) -> Result<Vector> {
    let numbers: usize = positive.iter().chain(negative).map(Vector::numbers).sum();
    if numbers > MULTI_NUMBERS_MAX {
        return Err(Error::bad_input(format!(
            "Wrong input: the examples have {numbers} numbers together, at most {MULTI_NUMBERS_MAX} are possible"
        )));
    }
    let mut values = Vec::with_capacity(numbers);
    for (vectors, sign) in [(positive, 1.0), (negative, -1.0)] {
        for vector in vectors {
            values.extend(numbers_of(vector).iter().map(|value| value * sign));
        }
    }
    let dim = field.dim;
    Ok(Vector::Multi(MultiVector { dim, values }))
}

/// One part comes without its own brackets.
fn numbers_of(vector: &Vector) -> &[f32] {
    match vector {
        Vector::Multi(multi) => &multi.values,
        Vector::Dense(values) => values,
        Vector::Sparse(_) => &[],
    }
}

/// `a` times the similarity to the target, and for each pair of examples of which one is rated higher
/// `(difference ^ b) * c` times what the better one is nearer.
fn feedback_parts(
    target: &Vector,
    items: &[(Vector, f32)],
    naive: NaiveFeedback,
    field: &VectorField,
) -> Result<Vec<(f32, Probe)>> {
    let mut weights = vec![0f32; items.len()];
    for (better, (_, high)) in items.iter().enumerate() {
        for (worse, (_, low)) in items.iter().enumerate() {
            let confidence = high - low;
            if better != worse && confidence > 0.0 {
                let part = confidence.powf(naive.b) * naive.c;
                weights[better] += part;
                weights[worse] -= part;
            }
        }
    }
    let mut parts = vec![(naive.a, Probe::new(field, target)?)];
    for ((vector, _), weight) in items.iter().zip(weights) {
        parts.push((weight, Probe::new(field, vector)?));
    }
    Ok(parts)
}
