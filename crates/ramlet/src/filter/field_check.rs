//! One field condition, prepared once and checked against many payloads.

use super::ast::{
    AnyOf, DatetimeRange, FieldCheck, GeoBoundingBox, GeoPoint, GeoPolygon, GeoRadius, Match, Range, Scalar,
    ValuesCount,
};
use super::datetime::parse_datetime;
use super::tokens::TokenCheck;
use super::uuids::parse_uuid;
use crate::payload::{Json, JsonRef, Number, Path};

/// A check with its lists sorted and its texts cut.
#[derive(Debug, Clone)]
pub(super) enum Check {
    Value(Scalar),
    Tokens(TokenCheck),
    Prefix(String),
    Substring(String),
    Any(AnyOf),
    Except(AnyOf),
    /// One of the ids, in whatever way it is written; the flag: any other value.
    Uuids(Uuids, bool),
    Range(Range),
    DatetimeRange(DatetimeRange),
    GeoBoundingBox(GeoBoundingBox),
    GeoRadius(GeoRadius),
    GeoPolygon(GeoPolygon),
    ValuesCount(ValuesCount),
    IsEmpty(bool),
    IsNull(bool),
}

impl Check {
    /// `tokens`: of a text condition; `are_uuids`: the field's index takes its values for these.
    pub(super) fn new(check: &FieldCheck, tokens: Option<TokenCheck>, are_uuids: bool) -> Check {
        if let Some(tokens) = tokens {
            return Check::Tokens(tokens);
        }
        if let (true, FieldCheck::Match(asked)) = (are_uuids, check)
            && let Some((uuids, is_except)) = Uuids::of(asked)
        {
            return Check::Uuids(uuids, is_except);
        }
        match check {
            FieldCheck::Match(Match::Value(value)) => Check::Value(value.clone()),
            FieldCheck::Match(Match::Text(_) | Match::TextAny(_) | Match::Phrase(_)) => {
                unreachable!("a text condition has tokens")
            }
            FieldCheck::Match(Match::Prefix(text)) => Check::Prefix(text.clone()),
            FieldCheck::Match(Match::Substring(text)) => Check::Substring(text.clone()),
            FieldCheck::Match(Match::Any(list)) => Check::Any(sorted(list)),
            FieldCheck::Match(Match::Except(list)) => Check::Except(sorted(list)),
            FieldCheck::Range(range) => Check::Range(*range),
            FieldCheck::DatetimeRange(range) => Check::DatetimeRange(*range),
            FieldCheck::GeoBoundingBox(bounds) => Check::GeoBoundingBox(*bounds),
            FieldCheck::GeoRadius(circle) => Check::GeoRadius(*circle),
            FieldCheck::GeoPolygon(polygon) => Check::GeoPolygon(polygon.clone()),
            FieldCheck::ValuesCount(count) => Check::ValuesCount(*count),
            FieldCheck::IsEmpty(flag) => Check::IsEmpty(*flag),
            FieldCheck::IsNull(flag) => Check::IsNull(*flag),
        }
    }

    /// Whether the values at `path` pass; `root` is `None` for a point without payload.
    pub(super) fn holds(&self, path: &Path, root: Option<JsonRef<'_>>) -> bool {
        match self {
            Check::ValuesCount(count) => count_holds(count, path, root),
            Check::IsEmpty(flag) => {
                let filled = root.is_some_and(|root| path.any_node(root, &mut is_filled));
                filled != *flag
            }
            Check::IsNull(flag) => {
                let null = root.is_some_and(|root| path.any_value(root, &mut JsonRef::is_null));
                null == *flag
            }
            Check::Tokens(tokens) => root.is_some_and(|root| tokens.holds(path, root)),
            _ => root.is_some_and(|root| path.any_value(root, &mut |value| self.value_holds(value))),
        }
    }

    fn value_holds(&self, value: JsonRef<'_>) -> bool {
        let Some(json) = value.read() else { return false };
        match self {
            Check::Value(wanted) => scalar_is(wanted, &json),
            Check::Any(list) => list_has(list, &json),
            Check::Except(list) => !matches!(json, Json::Null) && !list_has(list, &json),
            Check::Uuids(uuids, false) => uuids.has(&json),
            Check::Uuids(uuids, true) => !matches!(json, Json::Null) && !uuids.has(&json),
            Check::Range(range) => matches!(json, Json::Number(n) if range.contains(n.as_f64())),
            Check::GeoBoundingBox(bounds) => geo_point(value).is_some_and(|p| bounds.contains(p)),
            Check::GeoRadius(circle) => geo_point(value).is_some_and(|p| circle.contains(p)),
            Check::GeoPolygon(polygon) => geo_point(value).is_some_and(|p| polygon.contains(p)),
            _ => matches!(json, Json::Str(text) if self.text_holds(&text)),
        }
    }

    fn text_holds(&self, text: &str) -> bool {
        match self {
            Check::Prefix(prefix) => text.starts_with(prefix.as_str()),
            Check::Substring(part) => text.contains(part.as_str()),
            Check::DatetimeRange(range) => parse_datetime(text).is_some_and(|micros| range.contains(micros)),
            _ => false,
        }
    }
}

/// Strings of which some are UUIDs: these are equal however they are written.
#[derive(Debug, Clone)]
pub(super) struct Uuids {
    /// Both sorted.
    ids: Vec<u128>,
    others: AnyOf,
}

impl Uuids {
    /// Of a condition on strings, and whether it is one on all others.
    fn of(asked: &Match) -> Option<(Uuids, bool)> {
        let (strs, is_except) = match asked {
            Match::Value(Scalar::Str(text)) => (std::slice::from_ref(text), false),
            Match::Any(AnyOf::Strs(strs)) => (strs.as_slice(), false),
            Match::Except(AnyOf::Strs(strs)) => (strs.as_slice(), true),
            _ => return None,
        };
        let mut ids: Vec<u128> = strs.iter().filter_map(|text| parse_uuid(text)).collect();
        ids.sort_unstable();
        let others = strs.iter().filter(|text| parse_uuid(text).is_none());
        let others = sorted(&AnyOf::Strs(others.cloned().collect()));
        Some((Uuids { ids, others }, is_except))
    }

    fn has(&self, json: &Json<'_>) -> bool {
        let Json::Str(text) = json else { return false };
        match parse_uuid(text) {
            Some(id) => self.ids.binary_search(&id).is_ok(),
            None => list_has(&self.others, json),
        }
    }
}

fn sorted(list: &AnyOf) -> AnyOf {
    let mut list = list.clone();
    match &mut list {
        AnyOf::Ints(ints) => ints.sort_unstable(),
        AnyOf::Strs(strs) => strs.sort_unstable(),
    }
    list
}

fn scalar_is(wanted: &Scalar, json: &Json<'_>) -> bool {
    match (wanted, json) {
        (Scalar::Bool(wanted), Json::Bool(value)) => wanted == value,
        (Scalar::Int(wanted), Json::Number(Number::I64(value))) => wanted == value,
        (Scalar::Str(wanted), Json::Str(value)) => wanted == value,
        _ => false,
    }
}

fn list_has(list: &AnyOf, json: &Json<'_>) -> bool {
    match (list, json) {
        (AnyOf::Ints(ints), Json::Number(Number::I64(value))) => ints.binary_search(value).is_ok(),
        (AnyOf::Strs(strs), Json::Str(value)) => strs.binary_search_by(|s| s.as_str().cmp(value)).is_ok(),
        _ => false,
    }
}

/// Neither null nor an empty array.
pub(super) fn is_filled(node: JsonRef<'_>) -> bool {
    match node.array() {
        Some(mut elements) => elements.next().is_some(),
        None => !node.is_null(),
    }
}

/// An object with numbers at `lat` and `lon`.
pub(super) fn geo_point(value: JsonRef<'_>) -> Option<GeoPoint> {
    let number = |key| match value.get(key)?.read()? {
        Json::Number(n) => Some(n.as_f64()),
        _ => None,
    };
    Some(GeoPoint {
        lon: number("lon")?,
        lat: number("lat")?,
    })
}

/// Each value counts by itself; a path that leads nowhere counts 0 once.
fn count_holds(count: &ValuesCount, path: &Path, root: Option<JsonRef<'_>>) -> bool {
    let mut any = false;
    let holds = root.is_some_and(|root| {
        path.any_node(root, &mut |node| {
            any = true;
            let n = match node.array() {
                Some(elements) => elements.count() as u64,
                None => u64::from(!node.is_null()),
            };
            count.contains(n)
        })
    });
    holds || (!any && count.contains(0))
}
