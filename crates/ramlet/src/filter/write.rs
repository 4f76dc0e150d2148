//! A filter as the API's JSON again, for logs and explanations.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use super::ast::{
    AnyOf, Condition, DatetimeRange, FieldCheck, FieldCondition, Filter, GeoPoint, Match, Scalar,
};
use super::datetime::format_datetime;

impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        for (name, clause) in [
            ("must", &self.must),
            ("should", &self.should),
            ("must_not", &self.must_not),
        ] {
            if !clause.is_empty() {
                map.serialize_entry(name, clause)?;
            }
        }
        if let Some(min_should) = &self.min_should {
            let value = json!({"conditions": min_should.conditions, "min_count": min_should.min_count});
            map.serialize_entry("min_should", &value)?;
        }
        map.end()
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Condition::Field(field) => field_value(field).serialize(s),
            Condition::IsEmpty(key) => json!({"is_empty": {"key": key}}).serialize(s),
            Condition::IsNull(key) => json!({"is_null": {"key": key}}).serialize(s),
            Condition::HasId(ids) => json!({"has_id": ids}).serialize(s),
            Condition::HasVector(name) => json!({"has_vector": name}).serialize(s),
            Condition::Nested { key, filter } => {
                json!({"nested": {"key": key, "filter": filter}}).serialize(s)
            }
            Condition::Slice { total, index } => {
                json!({"slice": {"total": total, "index": index}}).serialize(s)
            }
            Condition::Filter(filter) => filter.serialize(s),
        }
    }
}

fn field_value(field: &FieldCondition) -> Value {
    let (name, value) = match &field.check {
        FieldCheck::Match(m) => ("match", match_value(m)),
        FieldCheck::Range(r) => (
            "range",
            bounds([r.lt, r.gt, r.gte, r.lte].map(|b| b.map(Value::from))),
        ),
        FieldCheck::DatetimeRange(r) => ("range", datetime_bounds(r)),
        FieldCheck::GeoBoundingBox(b) => {
            let value = json!({"top_left": point(&b.top_left), "bottom_right": point(&b.bottom_right)});
            ("geo_bounding_box", value)
        }
        FieldCheck::GeoRadius(r) => (
            "geo_radius",
            json!({"center": point(&r.center), "radius": r.radius}),
        ),
        FieldCheck::GeoPolygon(p) => {
            let interiors: Vec<Value> = p.interiors.iter().map(|r| ring(r)).collect();
            (
                "geo_polygon",
                json!({"exterior": ring(&p.exterior), "interiors": interiors}),
            )
        }
        FieldCheck::ValuesCount(c) => (
            "values_count",
            bounds([c.lt, c.gt, c.gte, c.lte].map(|b| b.map(Value::from))),
        ),
        FieldCheck::IsEmpty(flag) => ("is_empty", json!(flag)),
        FieldCheck::IsNull(flag) => ("is_null", json!(flag)),
    };
    json!({"key": field.key, name: value})
}

fn match_value(m: &Match) -> Value {
    let list = |list: &AnyOf| match list {
        AnyOf::Ints(ints) => json!(ints),
        AnyOf::Strs(strs) => json!(strs),
    };
    match m {
        Match::Value(Scalar::Bool(v)) => json!({"value": v}),
        Match::Value(Scalar::Int(v)) => json!({"value": v}),
        Match::Value(Scalar::Str(v)) => json!({"value": v}),
        Match::Text(text) => json!({"text": text}),
        Match::TextAny(text) => json!({"text_any": text}),
        Match::Phrase(phrase) if phrase.slop == 0 => json!({"phrase": phrase.text}),
        Match::Phrase(phrase) => json!({"phrase": phrase.text, "slop": phrase.slop}),
        Match::Prefix(text) => json!({"prefix": text}),
        Match::Substring(text) => json!({"substring": text}),
        Match::Any(any) => json!({"any": list(any)}),
        Match::Except(except) => json!({"except": list(except)}),
    }
}

fn datetime_bounds(r: &DatetimeRange) -> Value {
    bounds([r.lt, r.gt, r.gte, r.lte].map(|b| b.map(|micros| Value::from(format_datetime(micros)))))
}

fn bounds(values: [Option<Value>; 4]) -> Value {
    let names = ["lt", "gt", "gte", "lte"].map(String::from);
    names
        .into_iter()
        .zip(values)
        .filter_map(|(name, v)| Some((name, v?)))
        .collect()
}

fn point(p: &GeoPoint) -> Value {
    json!({"lon": p.lon, "lat": p.lat})
}

fn ring(points: &[GeoPoint]) -> Value {
    json!({"points": points.iter().map(point).collect::<Vec<_>>()})
}
