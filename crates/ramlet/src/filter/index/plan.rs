//! The index keys that a condition needs.

use super::cover::{Area, areas_of_box, areas_of_circle, areas_of_polygon, cover};
use super::keys::{
    KEYWORD_BYTES, NULL, NUMBER, OTHER, PRESENT, VALUE, escape, float_bits, float_key, geo_key, int_key, key,
    keyword_key, uuid_key,
};
use super::range::{KeyRange, merged};
use crate::filter::ast::{
    AnyOf, DatetimeRange, FieldCheck, FieldCondition, Match, Range, Scalar, ValuesCount,
};
use crate::filter::parse_datetime;
use crate::filter::uuids::parse_uuid;
use crate::types::FieldKind;

/// What an index says to a condition: the rows with a key in `ranges`, or with `negate` all other rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPlan {
    /// Sorted, apart from each other; empty = no rows.
    pub ranges: Vec<KeyRange>,
    /// These are the matching rows; `false`: they are among them, and must be checked.
    pub exact: bool,
    pub negate: bool,
}

/// The plan of `condition` on an index of `kind` over the condition's key; `None` when it says nothing.
/// Without `negate`, a plan means "some value of the row is in the ranges".
pub fn plan(kind: FieldKind, condition: &FieldCondition) -> Option<IndexPlan> {
    Some(match &condition.check {
        FieldCheck::Match(m) => match_plan(kind, m),
        FieldCheck::Range(range) => number_plan(kind, range),
        FieldCheck::DatetimeRange(range) => datetime_plan(kind, range),
        FieldCheck::GeoBoundingBox(bounds) => geo_plan(kind, &areas_of_box(bounds)),
        FieldCheck::GeoRadius(circle) => geo_plan(kind, &areas_of_circle(circle)),
        FieldCheck::GeoPolygon(polygon) => geo_plan(kind, &areas_of_polygon(polygon)),
        FieldCheck::ValuesCount(count) => return count_plan(count),
        FieldCheck::IsEmpty(flag) => IndexPlan {
            negate: *flag,
            ..exact(vec![tag(PRESENT)])
        },
        FieldCheck::IsNull(flag) => IndexPlan {
            negate: !*flag,
            ..exact(vec![tag(NULL)])
        },
    })
}

fn tag(tag: u8) -> KeyRange {
    KeyRange::tags(tag, tag)
}

fn exact(ranges: Vec<KeyRange>) -> IndexPlan {
    IndexPlan {
        ranges: merged(ranges),
        exact: true,
        negate: false,
    }
}

fn inexact(ranges: Vec<KeyRange>) -> IndexPlan {
    IndexPlan {
        exact: false,
        ..exact(ranges)
    }
}

fn match_plan(kind: FieldKind, m: &Match) -> IndexPlan {
    match m {
        // Texts are kept in pieces.
        Match::Value(Scalar::Str(_)) | Match::Any(AnyOf::Strs(_)) | Match::Except(_)
            if kind == FieldKind::Text =>
        {
            inexact(vec![strings(kind)])
        }
        Match::Value(value) => points_plan(kind, std::iter::once(value.clone())),
        Match::Any(AnyOf::Ints(ints)) => points_plan(kind, ints.iter().map(|i| Scalar::Int(*i))),
        Match::Any(AnyOf::Strs(strs)) => points_plan(kind, strs.iter().map(|s| Scalar::Str(s.clone()))),
        Match::Except(list) => except_plan(kind, list),
        Match::Prefix(prefix) if kind == FieldKind::Keyword => prefix_plan(prefix),
        Match::Text(_) | Match::TextAny(_) | Match::Phrase(_) | Match::Prefix(_) | Match::Substring(_) => {
            inexact(vec![strings(kind)])
        }
    }
}

/// Every row with a string.
fn strings(kind: FieldKind) -> KeyRange {
    match kind {
        // One key per row instead of one per value.
        FieldKind::Keyword | FieldKind::Datetime | FieldKind::Uuid | FieldKind::Text => tag(PRESENT),
        FieldKind::Integer | FieldKind::Float | FieldKind::Bool | FieldKind::Geo => tag(OTHER),
    }
}

fn points_plan(kind: FieldKind, values: impl Iterator<Item = Scalar>) -> IndexPlan {
    let mut all = exact(Vec::new());
    for value in values {
        let (range, is_exact) = point(kind, &value);
        all.ranges.push(range);
        all.exact &= is_exact;
    }
    all.ranges = merged(all.ranges);
    all
}

/// The keys of a value, and whether only that value has them.
fn point(kind: FieldKind, value: &Scalar) -> (KeyRange, bool) {
    let (key, exact) = match (kind, value) {
        (FieldKind::Keyword, Scalar::Str(s)) => (key(|k| keyword_key(s, k)), s.len() <= KEYWORD_BYTES),
        (FieldKind::Integer, Scalar::Int(i)) => (key(|k| int_key(*i, k)), true),
        (FieldKind::Bool, Scalar::Bool(b)) => (vec![VALUE, u8::from(*b)], true),
        (FieldKind::Float, Scalar::Int(i)) => (key(|k| float_key(VALUE, *i as f64, k)), false),
        // Other spellings of the same time have the same key.
        (FieldKind::Datetime, Scalar::Str(s)) => match parse_datetime(s) {
            Some(micros) => (key(|k| int_key(micros, k)), false),
            None => (vec![OTHER], false),
        },
        (FieldKind::Uuid, Scalar::Str(s)) => match parse_uuid(s) {
            Some(uuid) => (key(|k| uuid_key(uuid, k)), true),
            None => (vec![OTHER], false),
        },
        _ => (vec![OTHER], false),
    };
    (KeyRange::prefix(key), exact)
}

/// Any value but null that isn't listed: the gaps between the listed keys, and all values of other types.
fn except_plan(kind: FieldKind, list: &AnyOf) -> IndexPlan {
    let mut listed: Vec<KeyRange> = Vec::new();
    let mut is_exact = true;
    match (kind, list) {
        (FieldKind::Keyword, AnyOf::Strs(strs)) => {
            // Another value may share a cut key, so such keys can't be left out.
            let (whole, cut): (Vec<_>, Vec<_>) = strs.iter().partition(|s| s.len() <= KEYWORD_BYTES);
            listed.extend(whole.iter().map(|s| KeyRange::prefix(key(|k| keyword_key(s, k)))));
            is_exact = cut.is_empty();
        }
        (FieldKind::Integer, AnyOf::Ints(ints)) => {
            listed.extend(ints.iter().map(|i| KeyRange::prefix(key(|k| int_key(*i, k)))));
        }
        (_, AnyOf::Strs(strs)) => is_exact = strs.is_empty(),
        (_, AnyOf::Ints(ints)) => is_exact = ints.is_empty(),
    }
    let mut gaps = Vec::with_capacity(listed.len() + 1);
    let mut from = vec![VALUE];
    for range in merged(listed) {
        gaps.push(KeyRange { from, to: range.from });
        from = range.to;
    }
    gaps.push(KeyRange {
        from,
        to: vec![OTHER + 1],
    });
    IndexPlan {
        exact: is_exact,
        ..exact(gaps)
    }
}

fn prefix_plan(prefix: &str) -> IndexPlan {
    let bytes = prefix.as_bytes();
    let mut from = vec![VALUE];
    escape(&bytes[..bytes.len().min(KEYWORD_BYTES)], &mut from);
    IndexPlan {
        exact: bytes.len() <= KEYWORD_BYTES,
        ..exact(vec![KeyRange::prefix(from)])
    }
}

fn number_plan(kind: FieldKind, range: &Range) -> IndexPlan {
    let floats = |tag| {
        let (low, high) = float_bounds(range)?;
        let low = key(|k| {
            k.push(tag);
            k.extend_from_slice(&low.to_be_bytes());
        });
        let high = key(|k| {
            k.push(tag);
            k.extend_from_slice(&high.to_be_bytes());
        });
        Some(KeyRange::between(low, &high))
    };
    match kind {
        FieldKind::Float => exact(floats(VALUE).into_iter().collect()),
        FieldKind::Integer => {
            let (bounds, is_exact) = int_bounds(range);
            let mut ranges: Vec<KeyRange> = floats(NUMBER).into_iter().collect();
            ranges.extend(bounds.map(int_range));
            IndexPlan {
                exact: is_exact,
                ..exact(ranges)
            }
        }
        _ => inexact(vec![tag(OTHER)]),
    }
}

fn int_range((low, high): (i64, i64)) -> KeyRange {
    KeyRange::between(key(|k| int_key(low, k)), &key(|k| int_key(high, k)))
}

/// Least and greatest ordered bits of the floats in the range.
fn float_bounds(range: &Range) -> Option<(u64, u64)> {
    let mut low = 0u64;
    let mut high = u64::MAX;
    if let Some(b) = range.gte {
        low = low.max(float_bits(b));
    }
    if let Some(b) = range.gt {
        low = low.max(float_bits(b).checked_add(1)?);
    }
    if let Some(b) = range.lte {
        high = high.min(float_bits(b));
    }
    if let Some(b) = range.lt {
        high = high.min(float_bits(b).checked_sub(1)?);
    }
    (low <= high).then_some((low, high))
}

/// Least and greatest integers whose nearest float is in the range, and whether that is exact: beyond 2^53 several
/// integers share a float, so there the bounds are only wide enough.
fn int_bounds(range: &Range) -> (Option<(i64, i64)>, bool) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    const WIDEN: i64 = 2_048;
    let given = [range.lt, range.gt, range.gte, range.lte];
    let is_exact = given.iter().flatten().all(|b| b.abs() < EXACT);
    // `as` saturates, which is right for bounds outside of i64.
    let low = |b: f64, step: i64| {
        if b.abs() < EXACT {
            b as i64 + step
        } else {
            (b as i64).saturating_sub(WIDEN)
        }
    };
    let high = |b: f64, step: i64| {
        if b.abs() < EXACT {
            b as i64 - step
        } else {
            (b as i64).saturating_add(WIDEN)
        }
    };
    let lows = [
        range.gte.map(|b| low(b.ceil(), 0)),
        range.gt.map(|b| low(b.floor(), 1)),
    ];
    let highs = [
        range.lte.map(|b| high(b.floor(), 0)),
        range.lt.map(|b| high(b.ceil(), 1)),
    ];
    let least = lows.into_iter().flatten().max().unwrap_or(i64::MIN);
    let most = highs.into_iter().flatten().min().unwrap_or(i64::MAX);
    ((least <= most).then_some((least, most)), is_exact)
}

fn datetime_plan(kind: FieldKind, range: &DatetimeRange) -> IndexPlan {
    match kind {
        FieldKind::Datetime => exact(micros_bounds(range).map(int_range).into_iter().collect()),
        // An id is never a time, so only what isn't an id can be one.
        FieldKind::Uuid => inexact(vec![tag(OTHER)]),
        _ => inexact(vec![strings(kind)]),
    }
}

fn micros_bounds(range: &DatetimeRange) -> Option<(i64, i64)> {
    let mut low = range.gte.unwrap_or(i64::MIN);
    let mut high = range.lte.unwrap_or(i64::MAX);
    if let Some(b) = range.gt {
        low = low.max(b.checked_add(1)?);
    }
    if let Some(b) = range.lt {
        high = high.min(b.checked_sub(1)?);
    }
    (low <= high).then_some((low, high))
}

/// Points outside of the map are under [`OTHER`], so it is always part of the answer.
fn geo_plan(kind: FieldKind, areas: &[Area]) -> IndexPlan {
    let mut ranges = vec![tag(OTHER)];
    if kind == FieldKind::Geo {
        let z_keys =
            |(low, high): (u64, u64)| KeyRange::between(key(|k| geo_key(low, k)), &key(|k| geo_key(high, k)));
        ranges.extend(cover(areas).into_iter().map(z_keys));
    }
    inexact(ranges)
}

/// Counts above 0 need something present; a range with 0 also matches rows without any key.
fn count_plan(count: &ValuesCount) -> Option<IndexPlan> {
    if count.contains(0) {
        return None;
    }
    let any_above = count.lt.is_none() && count.lte.is_none() && count.contains(1);
    Some(IndexPlan {
        exact: any_above,
        ..exact(vec![tag(PRESENT)])
    })
}
