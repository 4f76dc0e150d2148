//! When points expire.

use serde::Deserialize;
use serde_json::Value;

use crate::filter::{Condition, DatetimeRange, FieldCheck, FieldCondition, Filter, Range};
use crate::payload::Path;
use crate::types::{CollectionConfig, FieldKind, OrderValue};

/// Points end some time after what a field of their payload says: `metadata.ramlet_ttl` of a collection.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct Expiry {
    /// Payload key of a date (RFC 3339) or of seconds since 1970. A point without it stays.
    pub field: String,
    /// How long a point stays after that.
    #[serde(default)]
    pub seconds: u32,
}

/// The last change, the setting and the index that something is known as of.
pub type ExpiryAsOf = (u64, Expiry, Option<FieldKind>);

impl Expiry {
    pub const KEY: &str = "ramlet_ttl";

    /// That of a collection, if it has one; the error says what is wrong with it.
    pub fn of(config: &CollectionConfig) -> Result<Option<Expiry>, String> {
        let set = config
            .other
            .get("metadata")
            .and_then(|metadata| metadata.get(Expiry::KEY));
        let expiry = set.filter(|set| !set.is_null()).map(Expiry::deserialize);
        let expiry = expiry
            .transpose()
            .map_err(|e| format!("metadata.{}: {e}; it takes {}", Expiry::KEY, example()))?;
        match expiry {
            Some(expiry) if expiry.field.is_empty() => Err(format!(
                "metadata.{}: `field` is empty; it takes {}",
                Expiry::KEY,
                example()
            )),
            expiry => Ok(expiry),
        }
    }

    /// Refuses a field that no point can have. A collection that has such a setting from before is opened all the same.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |e| {
            let (key, field) = (Expiry::KEY, &self.field);
            format!(
                "metadata.{key}: `field` is `{field}`: {e}; it takes {}",
                example()
            )
        };
        Path::parse(&self.field).map(drop).map_err(wrong)
    }

    /// When a point is over whose field has a value, as an index of this kind orders it: in microseconds since 1970.
    pub fn over_at(&self, value: &OrderValue, kind: FieldKind) -> i64 {
        let at = match (value, kind) {
            (OrderValue::Int(micros), FieldKind::Datetime) => *micros,
            (OrderValue::Int(seconds), _) => seconds.saturating_mul(1_000_000),
            (OrderValue::Float(seconds), _) => (seconds * 1e6).floor() as i64,
        };
        at.saturating_add(i64::from(self.seconds) * 1_000_000)
    }

    /// The points that are over at a time, in microseconds since 1970; `kind`: of the field's index.
    pub fn filter(&self, kind: Option<FieldKind>, now_micros: i64) -> Filter {
        let end = now_micros.saturating_sub(i64::from(self.seconds).saturating_mul(1_000_000));
        let condition = |check| {
            let key = self.field.clone();
            Condition::Field(FieldCondition { key, check })
        };
        let by_number = condition(FieldCheck::Range(Range {
            lte: Some(end as f64 / 1e6),
            ..Range::default()
        }));
        let by_date = condition(FieldCheck::DatetimeRange(DatetimeRange {
            lte: Some(end),
            ..DatetimeRange::default()
        }));
        let should = match kind {
            Some(FieldKind::Integer | FieldKind::Float) => vec![by_number],
            Some(FieldKind::Datetime) => vec![by_date],
            _ => vec![by_number, by_date],
        };
        Filter {
            should,
            ..Filter::default()
        }
    }
}

fn example() -> Value {
    serde_json::json!({"field": "created_at", "seconds": 86_400})
}
