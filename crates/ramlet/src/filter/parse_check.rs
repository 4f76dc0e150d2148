//! Reading the checks of a field condition: match, range, counts and places.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

use super::ast::{
    AnyOf, DatetimeRange, FieldCheck, GeoBoundingBox, GeoPoint, GeoPolygon, GeoRadius, Match, Phrase, Range,
    Scalar, ValuesCount,
};
use super::datetime::parse_datetime;
use crate::limits::PHRASE_SLOP_MAX;

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
    slop: Option<u32>,
    prefix: Option<String>,
    substring: Option<String>,
    any: Option<AnyOf>,
    except: Option<AnyOf>,
}

impl<'de> Deserialize<'de> for Match {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Match, D::Error> {
        let raw = RawMatch::deserialize(d)?;
        if raw.slop.is_some() && raw.phrase.is_none() {
            return Err(de::Error::custom("match: `slop` needs `phrase`"));
        }
        let slop = raw.slop.unwrap_or(0);
        if slop > PHRASE_SLOP_MAX {
            return Err(de::Error::custom(format!(
                "match: a slop of {slop}; at most {PHRASE_SLOP_MAX} is possible"
            )));
        }
        let mut found = [
            raw.value.map(Match::Value),
            raw.text.map(Match::Text),
            raw.text_any.map(Match::TextAny),
            raw.phrase.map(|text| Match::Phrase(Phrase { text, slop })),
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
pub(super) struct RawRange {
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
    pub(super) fn into_check(self) -> Result<FieldCheck, String> {
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
pub(super) struct RawCount {
    lt: Option<u64>,
    gt: Option<u64>,
    gte: Option<u64>,
    lte: Option<u64>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBox {
    top_left: CheckedPoint,
    bottom_right: CheckedPoint,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRadius {
    center: CheckedPoint,
    radius: f64,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPolygon {
    exterior: RawRing,
    interiors: Option<Vec<RawRing>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRing {
    points: Vec<CheckedPoint>,
}

impl RawPolygon {
    pub(super) fn into_check(self) -> Result<FieldCheck, String> {
        let interiors = self.interiors.unwrap_or_default();
        let holes: Result<_, String> = interiors.into_iter().map(RawRing::into_ring).collect();
        Ok(FieldCheck::GeoPolygon(GeoPolygon {
            exterior: self.exterior.into_ring()?,
            interiors: holes?,
        }))
    }
}

impl RawCount {
    pub(super) fn into_check(self) -> FieldCheck {
        let RawCount { lt, gt, gte, lte } = self;
        FieldCheck::ValuesCount(ValuesCount { lt, gt, gte, lte })
    }
}

impl RawBox {
    pub(super) fn into_check(self) -> FieldCheck {
        let (top_left, bottom_right) = (self.top_left.0, self.bottom_right.0);
        FieldCheck::GeoBoundingBox(GeoBoundingBox {
            top_left,
            bottom_right,
        })
    }
}

impl RawRadius {
    pub(super) fn into_check(self) -> FieldCheck {
        FieldCheck::GeoRadius(GeoRadius {
            center: self.center.0,
            radius: self.radius,
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
