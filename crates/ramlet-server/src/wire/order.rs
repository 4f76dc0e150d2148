//! `order_by` of scrolls and queries.

use ramlet::filter::parse_datetime;
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
            Some(StartFrom::Date(text)) => Some(OrderValue::Int(parse_datetime(&text).ok_or_else(|| {
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
}
