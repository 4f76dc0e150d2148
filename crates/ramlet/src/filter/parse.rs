//! Reading a filter from the API's JSON, in one pass and without buffering objects.
//!
//! A condition's kind shows in its keys, which come in any order: so all of them are fields of one private struct, and
//! what was found decides. Unknown keys are errors, nulls are as absent.

use std::fmt;

use serde::de::{
    self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer,
};

use super::ast::{
    AnyOf, Condition, DatetimeRange, FieldCheck, FieldCondition, Filter, GeoBoundingBox, GeoPoint,
    GeoPolygon, GeoRadius, Match, MinShould, Range, Scalar, ValuesCount,
};
use super::datetime::parse_datetime;
use crate::types::PointId;

#[derive(serde::Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a filter: an object with must, should, must_not, min_should"
)]
struct RawFilter {
    #[serde(default)]
    must: Conditions,
    #[serde(default)]
    should: Conditions,
    #[serde(default)]
    must_not: Conditions,
    min_should: Option<MinShould>,
}

impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Filter, D::Error> {
        let raw = RawFilter::deserialize(d)?;
        Ok(Filter {
            must: raw.must.0,
            should: raw.should.0,
            must_not: raw.must_not.0,
            min_should: raw.min_should,
        })
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMinShould {
    conditions: Vec<Condition>,
    min_count: u64,
}

impl<'de> Deserialize<'de> for MinShould {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<MinShould, D::Error> {
        let raw = RawMinShould::deserialize(d)?;
        if raw.min_count < 1 {
            return Err(de::Error::custom("min_count must be 1 or larger, got 0"));
        }
        Ok(MinShould {
            conditions: raw.conditions,
            min_count: raw.min_count,
        })
    }
}

/// Nothing, one condition, or a list.
#[derive(Default)]
struct Conditions(Vec<Condition>);

impl<'de> Deserialize<'de> for Conditions {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Conditions, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Conditions;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a condition or a list of conditions")
            }
            fn visit_unit<E>(self) -> Result<Conditions, E> {
                Ok(Conditions::default())
            }
            fn visit_none<E>(self) -> Result<Conditions, E> {
                Ok(Conditions::default())
            }
            fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Conditions, D::Error> {
                d.deserialize_any(OneOrMany)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Conditions, A::Error> {
                let one = Condition::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Conditions(vec![one]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Conditions, A::Error> {
                let mut all = Vec::new();
                while let Some(condition) = seq.next_element()? {
                    all.push(condition);
                }
                Ok(Conditions(all))
            }
        }
        d.deserialize_any(OneOrMany)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a filter condition (an object)")]
struct RawCondition {
    key: Option<String>,
    r#match: Option<Match>,
    range: Option<RawRange>,
    geo_bounding_box: Option<RawBox>,
    geo_radius: Option<RawRadius>,
    geo_polygon: Option<RawPolygon>,
    values_count: Option<RawCount>,
    is_empty: Option<FlagOrKey>,
    is_null: Option<FlagOrKey>,
    has_id: Option<Vec<PointId>>,
    has_vector: Option<String>,
    nested: Option<RawNested>,
    slice: Option<RawSlice>,
    #[serde(default)]
    must: Option<Conditions>,
    #[serde(default)]
    should: Option<Conditions>,
    #[serde(default)]
    must_not: Option<Conditions>,
    min_should: Option<MinShould>,
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Condition, D::Error> {
        RawCondition::deserialize(d)?
            .into_condition()
            .map_err(de::Error::custom)
    }
}

impl RawCondition {
    fn into_condition(mut self) -> Result<Condition, String> {
        let whole = self.take_whole();
        let filter = self.take_filter();
        let checks = self.take_checks()?;
        let kinds = whole.len() + usize::from(filter.is_some()) + usize::from(self.key.is_some());
        if kinds > 1 {
            return Err("filter condition mixes several kinds of condition in one object".to_string());
        }
        if let Some(key) = self.key {
            return field_condition(key, checks);
        }
        if !checks.is_empty() {
            return Err("filter condition on a field lacks its `key`".to_string());
        }
        // `{}` is an empty filter.
        let whole = whole.into_iter().next().or(filter.map(Condition::Filter));
        Ok(whole.unwrap_or(Condition::Filter(Filter::default())))
    }

    /// Conditions that are one key by themselves.
    fn take_whole(&mut self) -> Vec<Condition> {
        let mut whole = Vec::new();
        if let Some(FlagOrKey::Key(key)) = self.is_empty.take_if(|v| matches!(v, FlagOrKey::Key(_))) {
            whole.push(Condition::IsEmpty(key));
        }
        if let Some(FlagOrKey::Key(key)) = self.is_null.take_if(|v| matches!(v, FlagOrKey::Key(_))) {
            whole.push(Condition::IsNull(key));
        }
        whole.extend(self.has_id.take().map(Condition::HasId));
        whole.extend(self.has_vector.take().map(Condition::HasVector));
        whole.extend(self.nested.take().map(|n| Condition::Nested {
            key: n.key,
            filter: n.filter,
        }));
        whole.extend(self.slice.take().map(|s| Condition::Slice {
            total: s.total,
            index: s.index,
        }));
        whole
    }

    fn take_filter(&mut self) -> Option<Filter> {
        let (must, should, must_not) = (self.must.take(), self.should.take(), self.must_not.take());
        let min_should = self.min_should.take();
        if must.is_none() && should.is_none() && must_not.is_none() && min_should.is_none() {
            return None;
        }
        Some(Filter {
            must: must.unwrap_or_default().0,
            should: should.unwrap_or_default().0,
            must_not: must_not.unwrap_or_default().0,
            min_should,
        })
    }

    fn take_checks(&mut self) -> Result<Vec<FieldCheck>, String> {
        let mut checks = Vec::new();
        checks.extend(self.r#match.take().map(FieldCheck::Match));
        if let Some(range) = self.range.take() {
            checks.push(range.into_check()?);
        }
        checks.extend(self.geo_bounding_box.take().map(|b| {
            FieldCheck::GeoBoundingBox(GeoBoundingBox {
                top_left: b.top_left.0,
                bottom_right: b.bottom_right.0,
            })
        }));
        checks.extend(self.geo_radius.take().map(|r| {
            FieldCheck::GeoRadius(GeoRadius {
                center: r.center.0,
                radius: r.radius,
            })
        }));
        if let Some(polygon) = self.geo_polygon.take() {
            checks.push(FieldCheck::GeoPolygon(polygon.into_polygon()?));
        }
        checks.extend(self.values_count.take().map(|c| {
            FieldCheck::ValuesCount(ValuesCount {
                lt: c.lt,
                gt: c.gt,
                gte: c.gte,
                lte: c.lte,
            })
        }));
        if let Some(FlagOrKey::Flag(flag)) = self.is_empty.take() {
            checks.push(FieldCheck::IsEmpty(flag));
        }
        if let Some(FlagOrKey::Flag(flag)) = self.is_null.take() {
            checks.push(FieldCheck::IsNull(flag));
        }
        Ok(checks)
    }
}

fn field_condition(key: String, mut checks: Vec<FieldCheck>) -> Result<Condition, String> {
    match checks.len() {
        0 => Err(format!(
            "At least one field condition must be specified: '{key}' has no match, range, geo_*, values_count, is_empty or is_null"
        )),
        1 => Ok(Condition::Field(FieldCondition {
            key,
            check: checks.remove(0),
        })),
        _ => {
            let field = |check| {
                Condition::Field(FieldCondition {
                    key: key.clone(),
                    check,
                })
            };
            Ok(Condition::Filter(Filter {
                should: checks.into_iter().map(field).collect(),
                ..Filter::default()
            }))
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNested {
    key: String,
    filter: Filter,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSlice {
    total: u64,
    index: u64,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    key: String,
}

/// `is_empty` and `is_null`: a flag beside `key`, or an object with the key inside.
enum FlagOrKey {
    Flag(bool),
    Key(String),
}

impl<'de> Deserialize<'de> for FlagOrKey {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<FlagOrKey, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = FlagOrKey;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a boolean, or an object with `key`")
            }
            fn visit_bool<E>(self, flag: bool) -> Result<FlagOrKey, E> {
                Ok(FlagOrKey::Flag(flag))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FlagOrKey, A::Error> {
                RawKey::deserialize(MapAccessDeserializer::new(map)).map(|k| FlagOrKey::Key(k.key))
            }
        }
        d.deserialize_any(Either)
    }
}

#[derive(serde::Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a match: an object with one of value, text, any, except, ..."
)]
struct RawMatch {
    value: Option<Scalar>,
    text: Option<String>,
    text_any: Option<String>,
    phrase: Option<String>,
    prefix: Option<String>,
    substring: Option<String>,
    any: Option<AnyOf>,
    except: Option<AnyOf>,
}

impl<'de> Deserialize<'de> for Match {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Match, D::Error> {
        let raw = RawMatch::deserialize(d)?;
        let mut found = [
            raw.value.map(Match::Value),
            raw.text.map(Match::Text),
            raw.text_any.map(Match::TextAny),
            raw.phrase.map(Match::Phrase),
            raw.prefix.map(Match::Prefix),
            raw.substring.map(Match::Substring),
            raw.any.map(Match::Any),
            raw.except.map(Match::Except),
        ]
        .into_iter()
        .flatten();
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            _ => Err(de::Error::custom(
                "match needs exactly one of value, text, text_any, phrase, prefix, substring, any, except",
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Scalar, D::Error> {
        struct Visit;
        impl Visitor<'_> for Visit {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a 64-bit integer or a boolean to match")
            }
            fn visit_bool<E>(self, v: bool) -> Result<Scalar, E> {
                Ok(Scalar::Bool(v))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Scalar, E> {
                Ok(Scalar::Int(v))
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Scalar, E> {
                let wrong = || E::invalid_value(de::Unexpected::Unsigned(v), &self);
                i64::try_from(v).map(Scalar::Int).map_err(|_| wrong())
            }
            fn visit_str<E>(self, v: &str) -> Result<Scalar, E> {
                Ok(Scalar::Str(v.to_string()))
            }
            fn visit_string<E>(self, v: String) -> Result<Scalar, E> {
                Ok(Scalar::Str(v))
            }
        }
        d.deserialize_any(Visit)
    }
}

impl<'de> Deserialize<'de> for AnyOf {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<AnyOf, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = AnyOf;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of strings or a list of integers")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<AnyOf, A::Error> {
                let mut list = None;
                while let Some(value) = seq.next_element::<Scalar>()? {
                    match (&mut list, value) {
                        (None, Scalar::Int(i)) => list = Some(AnyOf::Ints(vec![i])),
                        (None, Scalar::Str(s)) => list = Some(AnyOf::Strs(vec![s])),
                        (Some(AnyOf::Ints(ints)), Scalar::Int(i)) => ints.push(i),
                        (Some(AnyOf::Strs(strs)), Scalar::Str(s)) => strs.push(s),
                        _ => {
                            return Err(de::Error::custom(
                                "expected a list of strings or a list of integers",
                            ));
                        }
                    }
                }
                Ok(list.unwrap_or(AnyOf::Strs(Vec::new())))
            }
        }
        d.deserialize_seq(List)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a range: an object with lt, gt, lte, gte")]
struct RawRange {
    lt: Option<Bound>,
    gt: Option<Bound>,
    gte: Option<Bound>,
    lte: Option<Bound>,
}

enum Bound {
    Number(f64),
    Micros(i64),
}

impl<'de> Deserialize<'de> for Bound {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Bound, D::Error> {
        struct Visit;
        impl Visitor<'_> for Visit {
            type Value = Bound;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or an RFC 3339 datetime")
            }
            fn visit_i64<E>(self, v: i64) -> Result<Bound, E> {
                Ok(Bound::Number(v as f64))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Bound, E> {
                Ok(Bound::Number(v as f64))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Bound, E> {
                Ok(Bound::Number(v))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Bound, E> {
                let wrong = || E::invalid_value(de::Unexpected::Str(v), &self);
                parse_datetime(v).map(Bound::Micros).ok_or_else(wrong)
            }
        }
        d.deserialize_any(Visit)
    }
}

impl RawRange {
    fn into_check(self) -> Result<FieldCheck, String> {
        let bounds = [self.lt, self.gt, self.gte, self.lte];
        let micros = bounds.each_ref().map(|b| match b {
            Some(Bound::Micros(m)) => Some(*m),
            _ => None,
        });
        let numbers = bounds.each_ref().map(|b| match b {
            Some(Bound::Number(n)) => Some(*n),
            _ => None,
        });
        let any_micros = micros.iter().any(Option::is_some);
        if any_micros && numbers.iter().any(Option::is_some) {
            return Err("range mixes numbers and datetimes".to_string());
        }
        if any_micros {
            let [lt, gt, gte, lte] = micros;
            return Ok(FieldCheck::DatetimeRange(DatetimeRange { lt, gt, gte, lte }));
        }
        let [lt, gt, gte, lte] = numbers;
        Ok(FieldCheck::Range(Range { lt, gt, gte, lte }))
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCount {
    lt: Option<u64>,
    gt: Option<u64>,
    gte: Option<u64>,
    lte: Option<u64>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBox {
    top_left: CheckedPoint,
    bottom_right: CheckedPoint,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRadius {
    center: CheckedPoint,
    radius: f64,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPolygon {
    exterior: RawRing,
    interiors: Option<Vec<RawRing>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRing {
    points: Vec<CheckedPoint>,
}

impl RawPolygon {
    fn into_polygon(self) -> Result<GeoPolygon, String> {
        let interiors = self.interiors.unwrap_or_default();
        Ok(GeoPolygon {
            exterior: self.exterior.into_ring()?,
            interiors: interiors
                .into_iter()
                .map(RawRing::into_ring)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl RawRing {
    fn into_ring(self) -> Result<Vec<GeoPoint>, String> {
        let points: Vec<GeoPoint> = self.points.into_iter().map(|p| p.0).collect();
        if points.len() < 4 {
            return Err(format!(
                "polygon ring needs at least 4 points, got {}",
                points.len()
            ));
        }
        if points.first() != points.last() {
            return Err("polygon ring isn't closed: its first and last points must be the same".to_string());
        }
        Ok(points)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a geo point: an object with lon and lat")]
struct RawPoint {
    lon: f64,
    lat: f64,
}

struct CheckedPoint(GeoPoint);

impl<'de> Deserialize<'de> for CheckedPoint {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<CheckedPoint, D::Error> {
        let RawPoint { lon, lat } = RawPoint::deserialize(d)?;
        if !(-180.0..=180.0).contains(&lon) || !(-90.0..=90.0).contains(&lat) {
            return Err(de::Error::custom(format!(
                "geo point lon {lon}, lat {lat} is outside of -180..180, -90..90"
            )));
        }
        Ok(CheckedPoint(GeoPoint { lon, lat }))
    }
}
