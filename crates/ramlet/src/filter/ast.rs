//! The API's filter, as data.

use crate::types::PointId;

/// Which points a request is about. All clauses must hold; an empty filter matches every point.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    pub must: Vec<Condition>,
    /// At least one holds; no constraint when empty.
    pub should: Vec<Condition>,
    pub must_not: Vec<Condition>,
    pub min_should: Option<MinShould>,
}

/// At least `min_count` of the conditions hold.
#[derive(Debug, Clone, PartialEq)]
pub struct MinShould {
    pub conditions: Vec<Condition>,
    pub min_count: u64,
}

/// One condition of a clause.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    Field(FieldCondition),
    /// `{"is_empty": {"key": ..}}`
    IsEmpty(String),
    /// `{"is_null": {"key": ..}}`
    IsNull(String),
    HasId(Vec<PointId>),
    HasVector(String),
    /// Some element of the array at `key` is an object that matches `filter` by itself.
    Nested {
        key: String,
        filter: Filter,
    },
    /// The point's id falls into slice `index` of `total`.
    Slice {
        total: u64,
        index: u64,
    },
    Filter(Filter),
}

/// A check of the values at a payload path. The API's object may hold several checks, any of which may hold; such an
/// object is read as a [`Condition::Filter`] with a `should` of single checks.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldCondition {
    pub key: String,
    pub check: FieldCheck,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FieldCheck {
    Match(Match),
    Range(Range),
    DatetimeRange(DatetimeRange),
    GeoBoundingBox(GeoBoundingBox),
    GeoRadius(GeoRadius),
    GeoPolygon(GeoPolygon),
    ValuesCount(ValuesCount),
    IsEmpty(bool),
    IsNull(bool),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Match {
    Value(Scalar),
    /// All words of the text, in any order, ignoring case.
    Text(String),
    /// One of its words.
    TextAny(String),
    /// Its words side by side.
    Phrase(Phrase),
    Prefix(String),
    Substring(String),
    Any(AnyOf),
    /// Some value that isn't null is none of these.
    Except(AnyOf),
}

/// Words one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    pub text: String,
    /// Words that may stand between them, all in all.
    pub slop: u32,
}

/// A value that can be matched exactly. Floats can't: a float in a payload never equals an integer here.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    Bool(bool),
    Int(i64),
    Str(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum AnyOf {
    Ints(Vec<i64>),
    Strs(Vec<String>),
}

/// Bounds of a number; all that are given must hold.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Range {
    pub lt: Option<f64>,
    pub gt: Option<f64>,
    pub gte: Option<f64>,
    pub lte: Option<f64>,
}

/// Bounds of a datetime string, in microseconds since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DatetimeRange {
    pub lt: Option<i64>,
    pub gt: Option<i64>,
    pub gte: Option<i64>,
    pub lte: Option<i64>,
}

/// Bounds of the number of values at a path: null 0, an array its length, anything else 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ValuesCount {
    pub lt: Option<u64>,
    pub gt: Option<u64>,
    pub gte: Option<u64>,
    pub lte: Option<u64>,
}

/// Degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeoPoint {
    pub lon: f64,
    pub lat: f64,
}

/// Strictly inside; crosses the antimeridian when the left edge is east of the right one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeoBoundingBox {
    pub top_left: GeoPoint,
    pub bottom_right: GeoPoint,
}

/// Nearer than `radius` metres.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeoRadius {
    pub center: GeoPoint,
    pub radius: f64,
}

/// Inside the outer ring (not on it) and in none of the holes (nor on their rings). Rings are closed: the last point is the first.
#[derive(Debug, Clone, PartialEq)]
pub struct GeoPolygon {
    pub exterior: Vec<GeoPoint>,
    pub interiors: Vec<Vec<GeoPoint>>,
}

impl Range {
    pub fn contains(&self, value: f64) -> bool {
        self.lt.is_none_or(|b| value < b)
            && self.gt.is_none_or(|b| value > b)
            && self.gte.is_none_or(|b| value >= b)
            && self.lte.is_none_or(|b| value <= b)
    }
}

impl DatetimeRange {
    pub fn contains(&self, micros: i64) -> bool {
        self.lt.is_none_or(|b| micros < b)
            && self.gt.is_none_or(|b| micros > b)
            && self.gte.is_none_or(|b| micros >= b)
            && self.lte.is_none_or(|b| micros <= b)
    }
}

impl ValuesCount {
    pub fn contains(&self, count: u64) -> bool {
        self.lt.is_none_or(|b| count < b)
            && self.gt.is_none_or(|b| count > b)
            && self.gte.is_none_or(|b| count >= b)
            && self.lte.is_none_or(|b| count <= b)
    }
}

impl Filter {
    /// The conditions of all clauses, nested filters not entered.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Condition> {
        let min_should = self.min_should.iter().flat_map(|m| &m.conditions);
        self.must
            .iter()
            .chain(&self.should)
            .chain(&self.must_not)
            .chain(min_should)
    }

    /// The payload paths the filter reads, as written; those inside `nested` with the outer path and `[]` in front.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        self.collect_keys("", &mut keys);
        keys.sort();
        keys.dedup();
        keys
    }

    fn collect_keys(&self, prefix: &str, keys: &mut Vec<String>) {
        for condition in self.conditions() {
            match condition {
                Condition::Field(FieldCondition { key, .. })
                | Condition::IsEmpty(key)
                | Condition::IsNull(key) => {
                    keys.push(format!("{prefix}{key}"));
                }
                Condition::Nested { key, filter } => {
                    let array = key.strip_suffix("[]").filter(|k| !k.is_empty()).unwrap_or(key);
                    filter.collect_keys(&format!("{prefix}{array}[]."), keys);
                }
                Condition::Filter(filter) => filter.collect_keys(prefix, keys),
                Condition::HasId(_) | Condition::HasVector(_) | Condition::Slice { .. } => {}
            }
        }
    }
}
