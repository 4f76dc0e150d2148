//! The values of an index, decoded from its keys, for facet counts.

use super::keys::{NUMBER, VALUE, keyword_key};
use super::range::KeyRange;
use crate::payload::{Json, JsonRef, Path};
use crate::types::FieldKind;

/// A value that facets count, as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FacetValue {
    Bool(bool),
    Int(i64),
    /// Keywords, and UUIDs with dashes.
    Str(String),
}

/// The keys of an index that are values which can be matched; `None` for kinds that facets can't be had of.
pub fn facet_range(kind: FieldKind) -> Option<KeyRange> {
    use FieldKind::{Bool, Integer, Keyword, Uuid};
    matches!(kind, Bool | Integer | Keyword | Uuid).then(|| KeyRange {
        from: vec![VALUE],
        to: vec![NUMBER],
    })
}

/// The value a key stands for; `None` when the key doesn't hold it whole: a long keyword, whose payload must be asked.
pub fn facet_value(kind: FieldKind, key: &[u8]) -> Option<FacetValue> {
    let value = key.strip_prefix(&[VALUE])?;
    match kind {
        FieldKind::Bool => Some(FacetValue::Bool(*value.first()? != 0)),
        FieldKind::Integer => {
            let bits = u64::from_be_bytes(value.try_into().ok()?);
            Some(FacetValue::Int((bits ^ 1 << 63) as i64))
        }
        FieldKind::Uuid => {
            let uuid = u128::from_be_bytes(value.try_into().ok()?);
            Some(FacetValue::Str(uuid::Uuid::from_u128(uuid).to_string()))
        }
        FieldKind::Keyword => {
            let escaped = value.strip_suffix(&[0, 1])?;
            let mut text = Vec::with_capacity(escaped.len());
            let mut bytes = escaped.iter();
            while let Some(&byte) = bytes.next() {
                text.push(byte);
                // A zero is followed by FF; what else follows one ends a cut key.
                if byte == 0 && bytes.next() != Some(&0xFF) {
                    return None;
                }
            }
            String::from_utf8(text).ok().map(FacetValue::Str)
        }
        _ => None,
    }
}

/// The keyword of a payload that has this key.
pub fn keyword_with_key(path: &Path, payload: &[u8], key: &[u8]) -> Option<String> {
    let mut found = None;
    let mut made = Vec::new();
    path.any_value(JsonRef::new(payload)?, &mut |value| {
        if let Some(Json::Str(text)) = value.read() {
            made.clear();
            keyword_key(&text, &mut made);
            if made == key {
                found = Some(text.into_owned());
            }
        }
        found.is_some()
    });
    found
}

#[cfg(test)]
mod tests {
    use super::super::keys::emit_keys;
    use super::*;

    fn values(kind: FieldKind, payload: &str) -> Vec<FacetValue> {
        let path = Path::parse("a").unwrap();
        let range = facet_range(kind).unwrap();
        let mut out = Vec::new();
        emit_keys(kind, &path, payload.as_bytes(), &mut |key| {
            if range.contains(key) {
                out.push(facet_value(kind, key).unwrap_or_else(|| {
                    FacetValue::Str(keyword_with_key(&path, payload.as_bytes(), key).unwrap())
                }));
            }
        });
        out
    }

    #[test]
    fn keys_give_their_values_back() {
        let text = |t: &str| FacetValue::Str(t.to_owned());
        let long = "é".repeat(400) + "end";
        let payload = format!(r#"{{"a":["b","","a\u0000b",7,null,"{long}","b"]}}"#);
        assert_eq!(
            values(FieldKind::Keyword, &payload),
            [text(""), text("a\0b"), text("b"), text(&long)]
        );
        let ints = values(
            FieldKind::Integer,
            r#"{"a":[3,-9223372036854775808,1.5,9223372036854775807,18446744073709551615]}"#,
        );
        assert_eq!(
            ints,
            [
                FacetValue::Int(i64::MIN),
                FacetValue::Int(3),
                FacetValue::Int(i64::MAX)
            ]
        );
        assert_eq!(
            values(FieldKind::Bool, r#"{"a":[true,false,0]}"#),
            [FacetValue::Bool(false), FacetValue::Bool(true)]
        );
        assert_eq!(
            values(
                FieldKind::Uuid,
                r#"{"a":["00000000000000000000000000000009","x"]}"#
            ),
            [text("00000000-0000-0000-0000-000000000009")]
        );
        assert_eq!(facet_range(FieldKind::Float), None);
    }
}
