//! The `query` field: what kind of query it is shows in its keys.

use std::collections::BTreeMap;
use std::fmt;

use ramlet::{
    ContextPair, FeedbackItem, Formula, Fusion, Mmr, NaiveFeedback, PointId, QueryKind, QueryVector,
    RecommendStrategy, TextQuery, TextStatistics,
};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::expression::WireExpression;
use super::input::VectorInput;
use super::one_or_many::OneOrMany;
use crate::error::{ApiError, ApiResult};
use crate::limits::MMR_CANDIDATES_MAX;
use crate::wire::order::WireOrderBy;
use crate::wire::vector::{VectorKeys, WireVector, vector_of_seq};

/// The `query` field.
#[derive(Debug)]
pub enum WireQuery {
    Vector(VectorInput),
    Recommend(WireRecommendInput),
    Discover(WireDiscoverInput),
    Context(OneOrMany<WirePair>),
    OrderBy(WireOrderBy),
    Fusion(WireFusion),
    Rrf(WireRrf),
    Formula(Formula),
    Sample,
    Feedback(WireFeedback),
    Mmr(VectorInput, WireMmr),
    Text(WireText),
    Given(WireGiven),
}

/// Our own: points with their scores, of a search that was done elsewhere.
#[derive(Debug, Deserialize)]
pub struct WireGiven {
    ids: Vec<PointId>,
    scores: Vec<f32>,
}

impl WireGiven {
    fn into_kind(self) -> ApiResult<QueryKind> {
        let (ids, scores) = (self.ids.len(), self.scores.len());
        if ids != scores {
            let what = format!("has {ids} ids and {scores} scores, one is needed for each");
            return Err(ApiError::validation("query.given", what));
        }
        Ok(QueryKind::Given(self.ids.into_iter().zip(self.scores).collect()))
    }
}

/// Words to rank by, alone or with the parameters of the score.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "text: a string, or an object with `query`")]
pub enum WireText {
    Plain(String),
    Full {
        query: String,
        scoring: Option<WireTextScoring>,
        /// Our own.
        #[serde(default)]
        repeated: bool,
        /// Our own: what shards of a collection counted together.
        statistics: Option<TextStatistics>,
    },
}

#[derive(Debug, Deserialize)]
pub struct WireTextScoring {
    bm25: WireBm25,
}

#[derive(Debug, Deserialize)]
struct WireBm25 {
    k: Option<f64>,
    b: Option<f64>,
}

impl WireText {
    pub fn into_query(self) -> TextQuery {
        match self {
            WireText::Plain(text) => TextQuery {
                text,
                ..TextQuery::default()
            },
            WireText::Full {
                query,
                scoring,
                repeated,
                statistics,
            } => {
                let bm25 = scoring.map(|scoring| scoring.bm25);
                TextQuery {
                    text: query,
                    repeated,
                    k: bm25.as_ref().and_then(|bm25| bm25.k),
                    b: bm25.as_ref().and_then(|bm25| bm25.b),
                    statistics,
                }
            }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
pub struct WireMmr {
    diversity: Option<f32>,
    candidates_limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireStrategy {
    AverageVector,
    BestScore,
    SumScores,
}

impl WireStrategy {
    pub fn into_strategy(strategy: Option<WireStrategy>) -> RecommendStrategy {
        match strategy {
            None | Some(WireStrategy::AverageVector) => RecommendStrategy::AverageVector,
            Some(WireStrategy::BestScore) => RecommendStrategy::BestScore,
            Some(WireStrategy::SumScores) => RecommendStrategy::SumScores,
        }
    }
}

#[derive(Debug, Deserialize)]
pub struct WireRecommendInput {
    positive: Option<Vec<VectorInput>>,
    negative: Option<Vec<VectorInput>>,
    strategy: Option<WireStrategy>,
}

#[derive(Debug, Deserialize)]
pub struct WireDiscoverInput {
    target: VectorInput,
    context: OneOrMany<WirePair>,
}

/// Two examples, one to be nearer to than to the other.
#[derive(Debug, Deserialize)]
pub struct WirePair {
    positive: VectorInput,
    negative: VectorInput,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WireFusion {
    Rrf,
    Dbsf,
}

#[derive(Debug, Deserialize)]
pub struct WireRrf {
    k: Option<usize>,
    weights: Option<Vec<f32>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WireSample {
    Random,
}

#[derive(Debug, Deserialize)]
pub struct WireFeedback {
    target: VectorInput,
    feedback: Vec<WireFeedbackItem>,
    strategy: WireFeedbackStrategy,
}

#[derive(Debug, Deserialize)]
struct WireFeedbackItem {
    example: VectorInput,
    score: f32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WireFeedbackStrategy {
    Naive { a: f32, b: f32, c: f32 },
}

impl WirePair {
    fn into_pair(self) -> ApiResult<ContextPair> {
        Ok(ContextPair {
            positive: self.positive.resolve("query.context.positive")?,
            negative: self.negative.resolve("query.context.negative")?,
        })
    }
}

/// The engine's pairs.
pub fn pairs(wire: OneOrMany<WirePair>) -> ApiResult<Vec<ContextPair>> {
    wire.0.into_iter().map(WirePair::into_pair).collect()
}

/// The engine's examples.
pub fn vectors(path: &str, wire: Option<Vec<VectorInput>>) -> ApiResult<Vec<QueryVector>> {
    let each = wire.unwrap_or_default().into_iter().enumerate();
    each.map(|(i, input)| input.resolve(&format!("{path}[{i}]")))
        .collect()
}

impl WireRecommendInput {
    fn into_kind(self) -> ApiResult<QueryKind> {
        let positive = vectors("query.recommend.positive", self.positive)?;
        let negative = vectors("query.recommend.negative", self.negative)?;
        let strategy = WireStrategy::into_strategy(self.strategy);
        let refused = match strategy {
            RecommendStrategy::AverageVector if positive.is_empty() => {
                Some("positive vectors must not be empty with the `average_vector` strategy")
            }
            _ if positive.is_empty() && negative.is_empty() => Some("needs a positive or a negative vector"),
            _ => None,
        };
        match refused {
            Some(what) => Err(ApiError::validation("query.recommend", what)),
            None => Ok(QueryKind::Recommend {
                positive,
                negative,
                strategy,
            }),
        }
    }
}

impl WireQuery {
    pub fn into_kind(self) -> ApiResult<QueryKind> {
        Ok(match self {
            WireQuery::Vector(vector) => QueryKind::Nearest(vector.resolve("query")?),
            WireQuery::Mmr(nearest, mmr) => QueryKind::NearestWithMmr {
                nearest: nearest.resolve("query.nearest")?,
                mmr: mmr.into_mmr()?,
            },
            WireQuery::Recommend(input) => input.into_kind()?,
            WireQuery::Discover(input) => QueryKind::Discover {
                target: input.target.resolve("query.discover.target")?,
                context: pairs(input.context)?,
            },
            WireQuery::Context(context) => QueryKind::Context(pairs(context)?),
            WireQuery::OrderBy(order) => QueryKind::OrderBy(order.into_order()?),
            WireQuery::Fusion(WireFusion::Rrf) => QueryKind::Fusion(Fusion::Rrf {
                k: None,
                weights: None,
            }),
            WireQuery::Fusion(WireFusion::Dbsf) => QueryKind::Fusion(Fusion::Dbsf),
            WireQuery::Rrf(rrf) => {
                if rrf.k == Some(0) {
                    return Err(ApiError::validation(
                        "query.rrf.k",
                        "value 0 invalid, must be 1 or larger",
                    ));
                }
                QueryKind::Fusion(Fusion::Rrf {
                    k: rrf.k,
                    weights: rrf.weights,
                })
            }
            WireQuery::Formula(formula) => QueryKind::Formula(formula),
            WireQuery::Sample => QueryKind::SampleRandom,
            WireQuery::Text(text) => QueryKind::Text(text.into_query()),
            WireQuery::Given(given) => given.into_kind()?,
            WireQuery::Feedback(wire) => wire.into_kind()?,
        })
    }
}

impl WireMmr {
    fn into_mmr(self) -> ApiResult<Mmr> {
        if let Some(diversity) = self.diversity.filter(|d| !(0.0..=1.0).contains(d)) {
            return Err(ApiError::validation(
                "query.mmr.diversity",
                format!("value {diversity} invalid, must be from 0.0 to 1.0"),
            ));
        }
        if let Some(many) = self.candidates_limit.filter(|n| *n > MMR_CANDIDATES_MAX) {
            return Err(ApiError::validation(
                "query.mmr.candidates_limit",
                format!("value {many} invalid, must be from 0 to {MMR_CANDIDATES_MAX}"),
            ));
        }
        Ok(Mmr {
            diversity: self.diversity,
            candidates_limit: self.candidates_limit,
        })
    }
}

impl WireFeedback {
    fn into_kind(self) -> ApiResult<QueryKind> {
        let WireFeedbackStrategy::Naive { a, b, c } = self.strategy;
        if self.feedback.is_empty() {
            let what = "feedback elements must be non-empty";
            return Err(ApiError::validation(
                "internal.query.relevance_feedback.feedback",
                what,
            ));
        }
        if b < 0.0 {
            return Err(ApiError::validation(
                "internal.query.relevance_feedback.strategy.naive.b",
                format!("value {b:?} invalid, must be 0.0 or larger"),
            ));
        }
        let item = |item: WireFeedbackItem| {
            Ok(FeedbackItem {
                example: item
                    .example
                    .resolve("query.relevance_feedback.feedback.example")?,
                score: item.score,
            })
        };
        Ok(QueryKind::RelevanceFeedback {
            target: self.target.resolve("query.relevance_feedback.target")?,
            feedback: self.feedback.into_iter().map(item).collect::<ApiResult<_>>()?,
            strategy: NaiveFeedback { a, b, c },
        })
    }
}

impl<'de> Deserialize<'de> for WireQuery {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<WireQuery, D::Error> {
        d.deserialize_any(QueryVisitor)
    }
}

/// What the keys of a query have shown so far.
#[derive(Default)]
struct Seen {
    kind: Option<WireQuery>,
    nearest: Option<VectorInput>,
    mmr: Option<WireMmr>,
    formula: Option<WireExpression>,
    defaults: BTreeMap<String, Box<RawValue>>,
    vector: Option<VectorKeys>,
    /// Of a text query, or of what a model makes a vector of.
    text: Option<WireText>,
}

struct QueryVisitor;

impl<'de> Visitor<'de> for QueryVisitor {
    type Value = WireQuery;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a query: a vector, a point id, or an object such as {\"nearest\": ..}")
    }
    fn visit_u64<E: Error>(self, id: u64) -> Result<WireQuery, E> {
        Ok(WireQuery::Vector(VectorInput::Id(PointId::Num(id))))
    }
    fn visit_str<E: Error>(self, id: &str) -> Result<WireQuery, E> {
        let id = PointId::deserialize(serde::de::value::StrDeserializer::new(id))?;
        Ok(WireQuery::Vector(VectorInput::Id(id)))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<WireQuery, A::Error> {
        vector_of_seq(seq).map(|vector| WireQuery::Vector(VectorInput::Vector(vector)))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WireQuery, A::Error> {
        let mut seen = Seen::default();
        while let Some(key) = map.next_key::<String>()? {
            seen.take(&key, &mut map)?;
        }
        seen.into_query()
    }
}

impl Seen {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let kind = match key {
            "nearest" => {
                self.nearest = map.next_value()?;
                None
            }
            "text" => {
                self.text = map.next_value()?;
                None
            }
            "mmr" => {
                self.mmr = map.next_value()?;
                None
            }
            "formula" => {
                self.formula = map.next_value()?;
                None
            }
            "defaults" => {
                self.defaults = map.next_value::<Option<_>>()?.unwrap_or_default();
                None
            }
            "recommend" => map.next_value::<Option<_>>()?.map(WireQuery::Recommend),
            "discover" => map.next_value::<Option<_>>()?.map(WireQuery::Discover),
            "context" => map.next_value::<Option<_>>()?.map(WireQuery::Context),
            "order_by" => map.next_value::<Option<_>>()?.map(WireQuery::OrderBy),
            "fusion" => map.next_value::<Option<_>>()?.map(WireQuery::Fusion),
            "rrf" => map.next_value::<Option<_>>()?.map(WireQuery::Rrf),
            "given" => map.next_value::<Option<_>>()?.map(WireQuery::Given),
            "sample" => map
                .next_value::<Option<WireSample>>()?
                .map(|WireSample::Random| WireQuery::Sample),
            "relevance_feedback" => map.next_value::<Option<_>>()?.map(WireQuery::Feedback),
            _ => {
                match VectorKeys::knows(key) {
                    true => self.vector.get_or_insert_default().take(key, map)?,
                    false => {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                None
            }
        };
        if kind.is_some() && self.kind.is_some() {
            return Err(A::Error::custom("the query has several kinds at once"));
        }
        self.kind = self.kind.take().or(kind);
        Ok(())
    }

    fn into_query<E: Error>(mut self) -> Result<WireQuery, E> {
        if let Some(mut keys) = self.vector {
            match self.text {
                Some(WireText::Plain(text)) => keys.set_text(text),
                Some(WireText::Full { .. }) => return Err(E::custom("the query has several kinds at once")),
                None => {}
            }
            return Ok(WireQuery::Vector(VectorInput::Vector(WireVector(Ok(
                keys.finish()?
            )))));
        }
        if let Some(nearest) = self.nearest {
            return Ok(match self.mmr {
                Some(mmr) => WireQuery::Mmr(nearest, mmr),
                None => WireQuery::Vector(nearest),
            });
        }
        if let Some(formula) = self.formula {
            let defaults = self.defaults.into_iter();
            return Ok(WireQuery::Formula(Formula {
                expression: formula.0,
                defaults: defaults
                    .map(|(key, json)| (key, Box::<str>::from(json).into_string().into_bytes()))
                    .collect(),
            }));
        }
        if let Some(text) = self.text.take() {
            return match self.kind {
                Some(_) => Err(E::custom("the query has several kinds at once")),
                None => Ok(WireQuery::Text(text)),
            };
        }
        self.kind
            .ok_or_else(|| E::custom("the query has none of the known kinds"))
    }
}
