//! `order_by` of scrolls and queries.

use ramlet::{Direction, OrderBy, OrderValue};
use serde::Deserialize;

use crate::error::{ApiError, ApiResult};

/// A key, or a key with direction and start.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "order_by is a key or {\"key\": .., \"direction\": \"asc\" | \"desc\", \"start_from\": ..}"
)]
pub enum WireOrderBy {
    Key(String),
    Full {
        key: String,
        direction: Option<WireDirection>,
        start_from: Option<StartFrom>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WireDirection {
    Asc,
    Desc,
}

/// A number or a date.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum StartFrom {
    Int(i64),
    Float(f64),
    Date(String),
}

impl WireOrderBy {
    pub fn into_order(self) -> ApiResult<OrderBy> {
        let (key, direction, start_from) = match self {
            WireOrderBy::Key(key) => (key, None, None),
            WireOrderBy::Full {
                key,
                direction,
                start_from,
            } => (key, direction, start_from),
        };
        let start_from = match start_from {
            None => None,
            Some(StartFrom::Int(n)) => Some(OrderValue::Int(n)),
            Some(StartFrom::Float(x)) => Some(OrderValue::Float(x)),
            Some(StartFrom::Date(text)) => Some(OrderValue::Int(date_micros(&text).ok_or_else(|| {
                ApiError::format(format!(
                    "order_by.start_from: '{text}' is neither a number nor a date"
                ))
            })?)),
        };
        let direction = match direction {
            Some(WireDirection::Desc) => Direction::Desc,
            Some(WireDirection::Asc) | None => Direction::Asc,
        };
        Ok(OrderBy {
            key,
            direction,
            start_from,
        })
    }
}

/// Microseconds since 1970 of the date forms that the API reads: RFC 3339, or without zone (UTC), or a day.
fn date_micros(text: &str) -> Option<i64> {
    if let Ok(at) = chrono::DateTime::parse_from_rfc3339(text) {
        return Some(at.timestamp_micros());
    }
    for form in [
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%d %H:%M:%S%.f",
        "%Y-%m-%dT%H:%M",
        "%Y-%m-%d %H:%M",
    ] {
        if let Ok(at) = chrono::NaiveDateTime::parse_from_str(text, form) {
            return Some(at.and_utc().timestamp_micros());
        }
    }
    let day = chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(day.and_hms_opt(0, 0, 0)?.and_utc().timestamp_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ApiResult<OrderBy> {
        serde_json::from_str::<WireOrderBy>(text)
            .map_err(ApiError::format)?
            .into_order()
    }

    #[test]
    fn order_by_takes_its_forms() {
        let plain = OrderBy {
            key: "a".into(),
            direction: Direction::Asc,
            start_from: None,
        };
        assert_eq!(parse(r#""a""#), Ok(plain.clone()));
        assert_eq!(parse(r#"{"key":"a"}"#), Ok(plain.clone()));
        assert_eq!(
            parse(r#"{"key":"a","direction":"desc","start_from":1.5}"#),
            Ok(OrderBy {
                direction: Direction::Desc,
                start_from: Some(OrderValue::Float(1.5)),
                ..plain.clone()
            })
        );
        assert_eq!(
            parse(r#"{"key":"a","start_from":"1970-01-02"}"#),
            Ok(OrderBy {
                start_from: Some(OrderValue::Int(86_400_000_000)),
                ..plain
            })
        );
        assert!(parse(r#"{"key":"a","direction":"up"}"#).is_err());
        assert!(parse(r#"{"key":"a","start_from":"soon"}"#).is_err());
    }

    #[test]
    fn dates_without_zone_are_utc() {
        let expected = Some(1_000_000);
        for text in [
            "1970-01-01T00:00:01Z",
            "1970-01-01T01:00:01+01:00",
            "1970-01-01T00:00:01",
            "1970-01-01 00:00:01",
        ] {
            assert_eq!(date_micros(text), expected, "{text}");
        }
    }
}
