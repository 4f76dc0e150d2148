//! Requests of the query API, independent of the protocol.

use super::expression::Expression;
use crate::filter::Filter;
pub use crate::ranking::Statistics as TextStatistics;
use crate::request::{Explained, OrderBy, QueryVector, SearchCost, SearchParams, SearchRequest};
use crate::sharding::ShardSelection;
use crate::types::{PayloadSelector, PointId, Record, ScoredPoint, VectorSelector};

/// Limit of a query and of a prefetch where none is given.
pub const QUERY_LIMIT_DEFAULT: usize = 10;
/// Hits of a group where the query API isn't told how many.
pub const GROUP_SIZE_DEFAULT: usize = 3;
/// `k` of reciprocal rank fusion.
pub const RRF_K_DEFAULT: usize = 2;

/// A query: of the points of a collection, or of what its prefetches found.
#[derive(Debug, Clone)]
pub struct QueryRequest {
    /// Done first; `query` then looks at what they found only.
    pub prefetch: Vec<Prefetch>,
    /// `None`: points in the order of their ids.
    pub query: Option<QueryKind>,
    /// Name of the vector; `""` is the default one.
    pub using: String,
    /// Holds for the prefetches too.
    pub filter: Option<Filter>,
    pub params: SearchParams,
    pub score_threshold: Option<f32>,
    pub limit: usize,
    pub offset: usize,
    pub with_payload: PayloadSelector,
    pub with_vectors: VectorSelector,
    /// Where the vectors of ids in `query` come from; `None`: this collection and `using`.
    pub lookup_from: Option<LookupLocation>,
    /// Show where the hits' texts have the words of text queries, of this one and of its prefetches.
    pub highlight: Option<Highlight>,
}

/// How the words of a query are shown in a hit's text.
#[derive(Debug, Clone, PartialEq)]
pub struct Highlight {
    /// Fragments of a field at most, the best ones; 0: its texts whole.
    pub fragments: usize,
    /// Of a fragment, at most, without what stands around words; of a word that is longer, its beginning.
    pub fragment_chars: usize,
    /// What stands before each word, and what behind it. Texts aren't escaped.
    pub pre: String,
    pub post: String,
    /// Tells where fragments and words stand in the field's texts, in this unit.
    pub offsets: Option<OffsetUnit>,
    /// Words that are marked as if the request had text queries with them.
    pub texts: Vec<HighlightText>,
}

/// Words of a field.
#[derive(Debug, Clone, PartialEq)]
pub struct HighlightText {
    pub using: String,
    pub text: String,
}

/// What places in a text are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub enum OffsetUnit {
    /// Bytes of UTF-8.
    #[serde(rename = "utf-8", alias = "utf8")]
    Utf8,
    /// Units of UTF-16, as strings of JavaScript, Java and C# count.
    #[serde(rename = "utf-16", alias = "utf16")]
    Utf16,
}

impl Default for Highlight {
    fn default() -> Highlight {
        Highlight {
            fragments: 1,
            fragment_chars: 160,
            pre: "<em>".into(),
            post: "</em>".into(),
            offsets: None,
            texts: Vec::new(),
        }
    }
}

impl Default for QueryRequest {
    fn default() -> QueryRequest {
        QueryRequest {
            prefetch: Vec::new(),
            query: None,
            using: String::new(),
            filter: None,
            params: SearchParams::default(),
            score_threshold: None,
            limit: QUERY_LIMIT_DEFAULT,
            offset: 0,
            with_payload: PayloadSelector::None,
            with_vectors: VectorSelector::None,
            lookup_from: None,
            highlight: None,
        }
    }
}

impl QueryRequest {
    /// The plain search that this is, or itself.
    pub fn into_search(self) -> Result<SearchRequest, Box<QueryRequest>> {
        if !self.prefetch.is_empty() || self.lookup_from.is_some() || self.highlight.is_some() {
            return Err(Box::new(self));
        }
        match self.query {
            Some(QueryKind::Nearest(query)) => Ok(SearchRequest {
                query,
                using: self.using,
                filter: self.filter,
                params: self.params,
                limit: self.limit,
                offset: self.offset,
                score_threshold: self.score_threshold,
                with_payload: self.with_payload,
                with_vectors: self.with_vectors,
            }),
            query => Err(Box::new(QueryRequest { query, ..self })),
        }
    }
}

/// A query whose results another one goes on from. At most [`crate::limits::PREFETCH_DEPTH_MAX`] deep.
#[derive(Debug, Clone)]
pub struct Prefetch {
    pub prefetch: Vec<Prefetch>,
    pub query: Option<QueryKind>,
    pub using: String,
    /// Beside those of the queries it is for.
    pub filter: Option<Filter>,
    pub params: SearchParams,
    pub score_threshold: Option<f32>,
    pub limit: usize,
    pub lookup_from: Option<LookupLocation>,
}

impl QueryRequest {
    /// Names of other collections that vectors are taken from, by this query and its prefetches.
    pub fn other_collections(&self) -> Vec<&str> {
        fn add<'q>(from: Option<&'q LookupLocation>, prefetch: &'q [Prefetch], out: &mut Vec<&'q str>) {
            out.extend(from.map(|from| from.collection.as_str()));
            for one in prefetch {
                add(one.lookup_from.as_ref(), &one.prefetch, out);
            }
        }
        let mut names = Vec::new();
        add(self.lookup_from.as_ref(), &self.prefetch, &mut names);
        names
    }
}

impl Default for Prefetch {
    fn default() -> Prefetch {
        let request = QueryRequest::default();
        Prefetch {
            prefetch: request.prefetch,
            query: request.query,
            using: request.using,
            filter: request.filter,
            params: request.params,
            score_threshold: request.score_threshold,
            limit: request.limit,
            lookup_from: request.lookup_from,
        }
    }
}

/// How points are chosen and ordered.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryKind {
    Nearest(QueryVector),
    /// The nearest, reordered so that they are unlike each other (maximal marginal relevance).
    NearestWithMmr {
        nearest: QueryVector,
        mmr: Mmr,
    },
    Recommend {
        positive: Vec<QueryVector>,
        negative: Vec<QueryVector>,
        strategy: RecommendStrategy,
    },
    /// Nearest to `target` within the zone of most context pairs.
    Discover {
        target: QueryVector,
        context: Vec<ContextPair>,
    },
    /// On the positive side of as many pairs as possible.
    Context(Vec<ContextPair>),
    OrderBy(OrderBy),
    Fusion(Fusion),
    Formula(Formula),
    /// By how well the texts of the payload field that `using` names fit the words (BM25).
    Text(TextQuery),
    /// So many of the points, at random.
    SampleRandom,
    /// Just these, in this order, with these scores: of a search that was done elsewhere. It takes no prefetches.
    Given(Vec<(PointId, f32)>),
    RelevanceFeedback {
        target: QueryVector,
        feedback: Vec<FeedbackItem>,
        strategy: NaiveFeedback,
    },
}

/// Words to rank by. A point scores when its text has any of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextQuery {
    /// Cut as the field's texts are.
    pub text: String,
    /// A word that stands twice in the query counts twice, as in most search engines; in the API's once.
    pub repeated: bool,
    /// How soon more of the same word counts less, at least 0; 1.2 unless set.
    pub k: Option<f64>,
    /// How much long texts are held against, 0 to 1; 0.75 unless set.
    pub b: Option<f64>,
    /// Of all parts of what this collection is a part of; counted here unless set.
    pub statistics: Option<TextStatistics>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Mmr {
    /// 0 (only near) to 1 (only unlike); 0.5 unless set.
    pub diversity: Option<f32>,
    /// Points to choose from; the query's limit unless set.
    pub candidates_limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecommendStrategy {
    #[default]
    AverageVector,
    BestScore,
    SumScores,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ContextPair {
    pub positive: QueryVector,
    pub negative: QueryVector,
}

/// How the results of several prefetches become one.
#[derive(Debug, Clone, PartialEq)]
pub enum Fusion {
    /// Reciprocal ranks: the sum of `1 / (rank / weight + k - 1)`, ranks from 1.
    Rrf {
        /// [`RRF_K_DEFAULT`] unless set; at least 1.
        k: Option<usize>,
        /// One for each prefetch; all 1 if `None`.
        weights: Option<Vec<f32>>,
    },
    /// The sum of scores, those of each prefetch scaled to mean and deviation.
    Dbsf,
}

/// A score computed of those of the prefetches and of the payload.
#[derive(Debug, Clone, PartialEq)]
pub struct Formula {
    pub expression: Expression,
    /// Values of variables that a point lacks, by variable (a payload key or `$score[i]`): JSON text.
    pub defaults: Vec<(String, Vec<u8>)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FeedbackItem {
    pub example: QueryVector,
    pub score: f32,
}

/// Coefficients of the naive feedback strategy: of the similarity to the target, the exponent of a pair's confidence, and of
/// its part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NaiveFeedback {
    pub a: f32,
    pub b: f32,
    pub c: f32,
}

/// A vector of another collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupLocation {
    pub collection: String,
    /// `None`: the one that the query uses.
    pub vector: Option<String>,
    /// Where it has shard keys: of which shards.
    pub shards: ShardSelection,
}

/// A query whose hits are gathered by the values of a payload field.
#[derive(Debug, Clone)]
pub struct QueryGroupsRequest {
    /// `limit` is that of the groups; `offset` isn't used.
    pub query: QueryRequest,
    /// Payload key: its strings and integers name the groups.
    pub group_by: String,
    pub group_size: usize,
    pub with_lookup: Option<WithLookup>,
}

/// Points of another collection whose ids are those of the groups.
#[derive(Debug, Clone, PartialEq)]
pub struct WithLookup {
    pub collection: String,
    pub with_payload: PayloadSelector,
    pub with_vectors: VectorSelector,
}

/// What names a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupId {
    Unsigned(u64),
    Signed(i64),
    Str(String),
}

impl GroupId {
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            GroupId::Str(text) => text.len(),
            _ => 0,
        }
    }

    /// The point that this group could be called after.
    pub fn point_id(&self) -> Option<PointId> {
        match self {
            GroupId::Unsigned(n) => Some(PointId::Num(*n)),
            GroupId::Signed(_) => None,
            GroupId::Str(text) => uuid::Uuid::try_parse(text)
                .ok()
                .map(|u| PointId::Uuid(u.as_u128())),
        }
    }
}

impl serde::Serialize for GroupId {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            GroupId::Unsigned(n) => s.serialize_u64(*n),
            GroupId::Signed(n) => s.serialize_i64(*n),
            GroupId::Str(text) => s.serialize_str(text),
        }
    }
}

/// Groups in the order of their best hits, and what finding them cost.
#[derive(Debug, Clone, Default)]
pub struct GroupsResponse {
    pub groups: Vec<PointGroup>,
    pub cost: SearchCost,
    /// When asked for: the parts of all queries that were made for the groups.
    pub explain: Vec<Explained>,
}

/// Hits of one value, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct PointGroup {
    pub id: GroupId,
    pub hits: Vec<ScoredPoint>,
    pub lookup: Option<Record>,
}
