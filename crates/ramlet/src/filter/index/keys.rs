//! The index keys of a payload.

use super::cover::z_order;
use crate::filter::ast::GeoPoint;
use crate::filter::field_check::{geo_point, is_filled};
use crate::filter::parse_datetime;
use crate::filter::uuids::parse_uuid;
use crate::limits::{TEXT_KEY_BYTES_MAX, TEXT_KEYS_MAX};
use crate::payload::{Json, JsonRef, Number, Path};
use crate::text::TextField;
use crate::types::FieldKind;

pub(super) const VALUE: u8 = 1;
pub(super) const NUMBER: u8 = 2;
pub(super) const OTHER: u8 = 3;
pub(super) const NULL: u8 = 4;
pub(super) const PRESENT: u8 = 5;

/// Bytes of a keyword that are kept in its key; beyond that a hash tells values apart.
pub(super) const KEYWORD_BYTES: usize = 512;

/// Longest key: a cut keyword of zero bytes only, its tag, end and hash.
pub const KEY_BYTES_MAX: usize = 1 + 2 * KEYWORD_BYTES + 2 + 8;

/// Calls `emit` once for each key that the payload has at `path`, in key order. Keys carry no row number yet. Of a text index,
/// the keys but those of tokens.
pub fn emit_keys(kind: FieldKind, path: &Path, payload: &[u8], emit: &mut dyn FnMut(&[u8])) {
    collect(path, payload, &mut |keys, value| keys.add_value(kind, value)).emit(emit);
}

/// The keys of a text index.
pub fn emit_text_keys(text: &TextField, path: &Path, payload: &[u8], emit: &mut dyn FnMut(&[u8])) {
    let add = &mut |keys: &mut Keys, value: JsonRef<'_>| match value.read() {
        Some(Json::Str(string)) => keys.add_text(text, &string),
        _ => keys.add_value(FieldKind::Text, value),
    };
    collect(path, payload, add).emit(emit);
}

fn collect(path: &Path, payload: &[u8], add: &mut dyn FnMut(&mut Keys, JsonRef<'_>)) -> Keys {
    let mut keys = Keys::default();
    let Some(root) = JsonRef::new(payload) else {
        return keys;
    };
    path.any_node(root, &mut |node| {
        if is_filled(node) {
            keys.add(&[PRESENT]);
        }
        match node.array() {
            Some(elements) => elements.for_each(|element| add(&mut keys, element)),
            None => add(&mut keys, node),
        }
        false
    });
    keys
}

/// Whether a key is a value of the index's kind.
pub fn is_value(key: &[u8]) -> bool {
    key.first() == Some(&VALUE)
}

/// Whether a key tells that the payload has the field, and not empty: one for each payload that has.
pub fn is_presence(key: &[u8]) -> bool {
    key == [PRESENT]
}

/// Keys of one payload, end to end, so that many values cost two allocations.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    spans: Vec<std::ops::Range<usize>>,
    /// There are more tokens than are kept.
    is_full: bool,
}

impl Keys {
    fn add(&mut self, key: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.spans.push(start..self.bytes.len());
    }

    fn add_value(&mut self, kind: FieldKind, value: JsonRef<'_>) {
        let start = self.bytes.len();
        write_value(kind, value, &mut self.bytes);
        if self.bytes.len() > start {
            self.spans.push(start..self.bytes.len());
        }
    }

    fn add_text(&mut self, text: &TextField, value: &str) {
        let mut has_tokens = false;
        text.document(value, &mut |token| {
            has_tokens = true;
            self.add_token(token);
        });
        if !has_tokens {
            self.add(&[OTHER]);
        }
    }

    fn add_token(&mut self, token: &str) {
        if self.is_full {
            return;
        }
        let start = self.bytes.len();
        keyword_key(token, &mut self.bytes);
        self.spans.push(start..self.bytes.len());
        if self.spans.len() < TEXT_KEYS_MAX && self.bytes.len() < TEXT_KEY_BYTES_MAX {
            return;
        }
        // Most are doubles, as a rule.
        self.compact();
        if self.spans.len() > TEXT_KEYS_MAX / 2 || self.bytes.len() > TEXT_KEY_BYTES_MAX / 2 {
            self.is_full = true;
            self.add(&[NUMBER]);
        }
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.spans
            .sort_unstable_by(|a, b| bytes[a.clone()].cmp(&bytes[b.clone()]));
        self.spans.dedup_by(|a, b| bytes[a.clone()] == bytes[b.clone()]);
    }

    /// Each key once.
    fn compact(&mut self) {
        self.sort();
        let mut kept = Keys {
            is_full: self.is_full,
            ..Keys::default()
        };
        for span in &self.spans {
            kept.add(&self.bytes[span.clone()]);
        }
        *self = kept;
    }

    fn emit(mut self, emit: &mut dyn FnMut(&[u8])) {
        self.sort();
        for span in self.spans {
            emit(&self.bytes[span]);
        }
    }
}

fn write_value(kind: FieldKind, value: JsonRef<'_>, out: &mut Vec<u8>) {
    let Some(json) = value.read() else { return };
    if matches!(json, Json::Null) {
        return out.push(NULL);
    }
    match (kind, &json) {
        (FieldKind::Keyword, Json::Str(text)) => return keyword_key(text, out),
        (FieldKind::Integer, Json::Number(Number::I64(i))) => return int_key(*i, out),
        (FieldKind::Integer, Json::Number(n)) => return float_key(NUMBER, n.as_f64(), out),
        (FieldKind::Float, Json::Number(n)) => return float_key(VALUE, n.as_f64(), out),
        (FieldKind::Bool, Json::Bool(b)) => return out.extend_from_slice(&[VALUE, u8::from(*b)]),
        (FieldKind::Datetime, Json::Str(text)) => {
            if let Some(micros) = parse_datetime(text) {
                return int_key(micros, out);
            }
        }
        (FieldKind::Uuid, Json::Str(text)) => {
            if let Some(uuid) = parse_uuid(text) {
                return uuid_key(uuid, out);
            }
        }
        (FieldKind::Geo, Json::Object(_)) => {
            if let Some(point) = geo_point(value).filter(on_earth) {
                return geo_key(z_order(point), out);
            }
        }
        _ => {}
    }
    out.push(OTHER);
}

fn on_earth(p: &GeoPoint) -> bool {
    (-180.0..=180.0).contains(&p.lon) && (-90.0..=90.0).contains(&p.lat)
}

/// Appends the key of a string.
pub(super) fn keyword_key(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.push(VALUE);
    escape(&bytes[..bytes.len().min(KEYWORD_BYTES)], out);
    if bytes.len() <= KEYWORD_BYTES {
        out.extend_from_slice(&[0, 1]);
    } else {
        out.extend_from_slice(&[0, 2]);
        out.extend_from_slice(&fnv1a(bytes).to_be_bytes());
    }
}

pub(super) fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for &b in bytes {
        out.push(b);
        if b == 0 {
            out.push(0xFF);
        }
    }
}

/// Fowler-Noll-Vo 1a, 64 bits. Collisions only cost a second look at the payload.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, b| {
        (hash ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

pub(super) fn int_key(value: i64, out: &mut Vec<u8>) {
    out.push(VALUE);
    out.extend_from_slice(&(value as u64 ^ 1 << 63).to_be_bytes());
}

pub(super) fn float_key(tag: u8, value: f64, out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(&float_bits(value).to_be_bytes());
}

/// Bits that compare as the numbers do; both zeros are one.
pub(super) fn float_bits(value: f64) -> u64 {
    let bits = if value == 0.0 { 0 } else { value.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

pub(super) fn uuid_key(value: u128, out: &mut Vec<u8>) {
    out.push(VALUE);
    out.extend_from_slice(&value.to_be_bytes());
}

pub(super) fn geo_key(z: u64, out: &mut Vec<u8>) {
    out.push(VALUE);
    out.extend_from_slice(&z.to_be_bytes());
}

/// A key made by one of the writers above.
pub(super) fn key(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(17);
    write(&mut out);
    out
}
