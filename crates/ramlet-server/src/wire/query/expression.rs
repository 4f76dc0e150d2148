//! Formulas.

use std::fmt;

use ramlet::filter::{Condition, GeoPoint, parse_datetime};
use ramlet::{Decay, DecayKind, Expression};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// An expression of a formula.
#[derive(Debug, Clone, PartialEq)]
pub struct WireExpression(pub Expression);

impl<'de> Deserialize<'de> for WireExpression {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<WireExpression, D::Error> {
        d.deserialize_any(ExpressionVisitor).map(WireExpression)
    }
}

struct ExpressionVisitor;

impl<'de> Visitor<'de> for ExpressionVisitor {
    type Value = Expression;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an expression: a number, a variable, a condition, or an operation")
    }
    fn visit_f64<E: Error>(self, v: f64) -> Result<Expression, E> {
        Ok(Expression::Constant(v))
    }
    fn visit_u64<E: Error>(self, v: u64) -> Result<Expression, E> {
        Ok(Expression::Constant(v as f64))
    }
    fn visit_i64<E: Error>(self, v: i64) -> Result<Expression, E> {
        Ok(Expression::Constant(v as f64))
    }
    fn visit_str<E: Error>(self, v: &str) -> Result<Expression, E> {
        Expression::variable(v).map_err(E::custom)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Expression, A::Error> {
        let Some(key) = map.next_key::<String>()? else {
            // `{}` is a condition that always holds.
            return Ok(Expression::Condition(Box::new(Condition::Filter(
                ramlet::filter::Filter::default(),
            ))));
        };
        let Some(expression) = operation(&key, &mut map)? else {
            let replayed = Replay {
                first: Some(key),
                rest: map,
            };
            let condition = Condition::deserialize(MapAccessDeserializer::new(replayed))?;
            return Ok(Expression::Condition(Box::new(condition)));
        };
        while let Some((key, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
            if is_operation(&key) {
                return Err(A::Error::custom(format!(
                    "an expression has two operations, one is `{key}`"
                )));
            }
        }
        Ok(expression)
    }
}

const OPERATIONS: &[&str] = &[
    "mult",
    "sum",
    "max",
    "min",
    "neg",
    "abs",
    "div",
    "sqrt",
    "pow",
    "exp",
    "log10",
    "ln",
    "acosh",
    "geo_distance",
    "datetime",
    "datetime_key",
    "lin_decay",
    "exp_decay",
    "gauss_decay",
];

fn is_operation(key: &str) -> bool {
    OPERATIONS.contains(&key)
}

/// The operation of a key; `None`: the key is that of a condition, or of nothing.
fn operation<'de, A: MapAccess<'de>>(key: &str, map: &mut A) -> Result<Option<Expression>, A::Error> {
    fn many<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Vec<Expression>, A::Error> {
        let all: Vec<WireExpression> = map.next_value()?;
        Ok(all.into_iter().map(|one| one.0).collect())
    }
    fn one<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Box<Expression>, A::Error> {
        map.next_value::<WireExpression>().map(|one| Box::new(one.0))
    }
    Ok(Some(match key {
        "mult" => Expression::Mult(many(map)?),
        "sum" => Expression::Sum(many(map)?),
        "max" => Expression::Max(many(map)?),
        "min" => Expression::Min(many(map)?),
        "neg" => Expression::Neg(one(map)?),
        "abs" => Expression::Abs(one(map)?),
        "sqrt" => Expression::Sqrt(one(map)?),
        "exp" => Expression::Exp(one(map)?),
        "ln" => Expression::Ln(one(map)?),
        "log10" => Expression::Log10(one(map)?),
        "acosh" => Expression::Acosh(one(map)?),
        "div" => {
            let div: WireDiv = map.next_value()?;
            Expression::Div {
                left: Box::new(div.left.0),
                right: Box::new(div.right.0),
                by_zero_default: div.by_zero_default,
            }
        }
        "pow" => {
            let pow: WirePow = map.next_value()?;
            Expression::Pow {
                base: Box::new(pow.base.0),
                exponent: Box::new(pow.exponent.0),
            }
        }
        "geo_distance" => {
            let WireDistance { origin, to } = map.next_value()?;
            Expression::GeoDistance {
                origin: origin.into_point().map_err(A::Error::custom)?,
                to,
            }
        }
        "datetime" => {
            let text: String = map.next_value()?;
            let micros = parse_datetime(&text).ok_or_else(|| {
                A::Error::custom(format!("Expected datetime in supported format for {text}"))
            })?;
            Expression::Datetime(micros)
        }
        "datetime_key" => Expression::DatetimeKey(map.next_value()?),
        "lin_decay" => decay(DecayKind::Linear, map.next_value()?),
        "exp_decay" => decay(DecayKind::Exponential, map.next_value()?),
        "gauss_decay" => decay(DecayKind::Gauss, map.next_value()?),
        _ => return Ok(None),
    }))
}

#[derive(serde::Deserialize)]
struct WireDiv {
    left: WireExpression,
    right: WireExpression,
    by_zero_default: Option<f64>,
}

#[derive(serde::Deserialize)]
struct WirePow {
    base: WireExpression,
    exponent: WireExpression,
}

#[derive(serde::Deserialize)]
struct WireDistance {
    origin: WireGeoPoint,
    to: String,
}

#[derive(serde::Deserialize)]
struct WireGeoPoint {
    lon: f64,
    lat: f64,
}

impl WireGeoPoint {
    fn into_point(self) -> Result<GeoPoint, String> {
        let WireGeoPoint { lon, lat } = self;
        match (-180.0..=180.0).contains(&lon) && (-90.0..=90.0).contains(&lat) {
            true => Ok(GeoPoint { lon, lat }),
            false => Err(format!("lon {lon}, lat {lat} is no point on the earth")),
        }
    }
}

#[derive(serde::Deserialize)]
struct WireDecay {
    x: WireExpression,
    target: Option<WireExpression>,
    scale: Option<f32>,
    midpoint: Option<f32>,
}

fn decay(kind: DecayKind, wire: WireDecay) -> Expression {
    Expression::Decay(Box::new(Decay {
        kind,
        x: wire.x.0,
        target: wire.target.map(|target| target.0),
        scale: wire.scale,
        midpoint: wire.midpoint,
    }))
}

/// A map whose first key was read already.
struct Replay<A> {
    first: Option<String>,
    rest: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Replay<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(key) => seed
                .deserialize(serde::de::value::StringDeserializer::new(key))
                .map(Some),
            None => self.rest.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.rest.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Expression, String> {
        serde_json::from_str::<WireExpression>(text)
            .map(|e| e.0)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn expressions_take_their_forms() {
        assert_eq!(parse("2"), Ok(Expression::Constant(2.0)));
        assert_eq!(parse("\"$score[3]\""), Ok(Expression::Score(3)));
        assert_eq!(parse("\"$score\""), Ok(Expression::Score(0)));
        assert_eq!(parse("\"a.b\""), Ok(Expression::Payload("a.b".into())));
        let product = Expression::Mult(vec![
            Expression::Constant(0.5),
            Expression::Neg(Box::new(Expression::Score(0))),
        ]);
        assert_eq!(parse(r#"{"mult":[0.5,{"neg":"$score"}]}"#), Ok(product));
        let condition = parse(r#"{"key":"a","match":{"value":3}}"#).unwrap();
        assert!(matches!(condition, Expression::Condition(_)), "{condition:?}");
        let filter = parse(r#"{"must":[{"has_id":[1]}]}"#).unwrap();
        assert!(matches!(filter, Expression::Condition(_)), "{filter:?}");
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for text in [
            "\"$score[x]\"",
            "\"$score[1]a\"",
            "true",
            r#"{"multiply":[1]}"#,
            r#"{"mult":[1],"sum":[1]}"#,
            r#"{"datetime":"soon"}"#,
            r#"{"geo_distance":{"origin":{"lon":200,"lat":0},"to":"a"}}"#,
            r#"{"div":{"left":1}}"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let deep = format!("{}1{}", r#"{"neg":"#.repeat(200), "}".repeat(200));
        assert!(parse(&deep).is_err());
    }
}
