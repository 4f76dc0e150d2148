//! Scrolling in the order of an index.

use super::keys::{NUMBER, VALUE, float_bits, float_key, int_key, key};
use super::range::{KeyRange, after};
use crate::filter::parse_datetime;
use crate::payload::{Json, JsonRef, Number, Path};
use crate::types::{FieldKind, OrderValue};

/// The value a key stands for; `None` for kinds without an order and for keys that aren't values.
pub fn order_value(kind: FieldKind, key: &[u8]) -> Option<OrderValue> {
    let bits = |tag| {
        Some(u64::from_be_bytes(
            key.strip_prefix(&[tag])?.get(..8)?.try_into().ok()?,
        ))
    };
    match kind {
        FieldKind::Integer | FieldKind::Datetime => Some(OrderValue::Int((bits(VALUE)? ^ 1 << 63) as i64)),
        FieldKind::Float => {
            let bits = bits(VALUE)?;
            let float = f64::from_bits(if bits >> 63 == 1 { bits ^ 1 << 63 } else { !bits });
            Some(OrderValue::Float(float))
        }
        FieldKind::Keyword | FieldKind::Bool | FieldKind::Geo | FieldKind::Uuid | FieldKind::Text => None,
    }
}

/// The keys to scroll through: all values of the index, from `start_from` on (downwards when `descending`).
/// `None` for kinds without an order.
pub fn order_range(kind: FieldKind, start_from: Option<OrderValue>, descending: bool) -> Option<KeyRange> {
    if !matches!(kind, FieldKind::Integer | FieldKind::Float | FieldKind::Datetime) {
        return None;
    }
    let mut range = KeyRange {
        from: vec![VALUE],
        to: vec![NUMBER],
    };
    let start = match (kind, start_from) {
        (_, None) => return Some(range),
        (FieldKind::Float, Some(OrderValue::Float(f))) => key(|k| float_key(VALUE, f, k)),
        (FieldKind::Float, Some(OrderValue::Int(i))) => key(|k| float_key(VALUE, i as f64, k)),
        (_, Some(OrderValue::Int(i))) => key(|k| int_key(i, k)),
        (_, Some(OrderValue::Float(f))) => {
            let whole = if descending { f.floor() } else { f.ceil() };
            key(|k| int_key(whole as i64, k))
        }
    };
    if descending {
        range.to = after(&start);
    } else {
        range.from = start;
    }
    Some(range)
}

/// Calls `found` for each value of the payload that an index of `kind` would be scrolled by, doubled ones too, in the
/// payload's order.
pub fn order_values_of(kind: FieldKind, path: &Path, payload: &[u8], found: &mut dyn FnMut(OrderValue)) {
    let Some(root) = JsonRef::new(payload) else { return };
    path.any_value(root, &mut |value| {
        let order = match (kind, value.read()) {
            (FieldKind::Integer, Some(Json::Number(Number::I64(i)))) => Some(OrderValue::Int(i)),
            (FieldKind::Float, Some(Json::Number(n))) => Some(OrderValue::Float(canonical(n.as_f64()))),
            (FieldKind::Datetime, Some(Json::Str(text))) => parse_datetime(&text).map(OrderValue::Int),
            _ => None,
        };
        if let Some(order) = order {
            found(order);
        }
        false
    });
}

/// One zero, as in keys.
fn canonical(f: f64) -> f64 {
    if float_bits(f) == float_bits(0.0) { 0.0 } else { f }
}
