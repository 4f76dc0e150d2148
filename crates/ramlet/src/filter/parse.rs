//! Reading a filter from the API's JSON, in one pass and without buffering objects.
//!
//! A condition's kind shows in its keys, which come in any order: so all of them are fields of one private struct, and
//! what was found decides. Unknown keys are errors, nulls are as absent.

use std::fmt;

use serde::de::{
    self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer,
};

use super::ast::{Condition, FieldCheck, FieldCondition, Filter, Match, MinShould};
use super::parse_check::{RawBox, RawCount, RawPolygon, RawRadius, RawRange};
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
            return Err(de::Error::custom("min_count must be greater than 0"));
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
        checks.extend(self.geo_bounding_box.take().map(RawBox::into_check));
        checks.extend(self.geo_radius.take().map(RawRadius::into_check));
        if let Some(polygon) = self.geo_polygon.take() {
            checks.push(polygon.into_check()?);
        }
        checks.extend(self.values_count.take().map(RawCount::into_check));
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
