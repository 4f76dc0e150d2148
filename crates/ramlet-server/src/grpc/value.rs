//! Payloads: JSON text from encoded `Value` messages and back, without a tree in between.

use std::fmt;

use bytes::Bytes;
use ramlet_proto::wire::{Field, Fields, put_bytes, put_double, put_message, put_tag, put_uint, put_varint};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::limits::PAYLOAD_DEPTH_MAX;

/// Why a payload isn't JSON.
#[derive(Debug, PartialEq)]
pub enum NotJson {
    Broken,
    Deep,
    Utf8,
    Number(f64),
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotJson::Broken => f.write_str("a payload's bytes are not a Value message"),
            NotJson::Deep => write!(f, "a payload has more than {PAYLOAD_DEPTH_MAX} levels"),
            NotJson::Utf8 => f.write_str("a text in a payload is not UTF-8"),
            NotJson::Number(x) => write!(f, "the number {x} of a payload is none of JSON"),
        }
    }
}

type Result<T> = std::result::Result<T, NotJson>;

/// A JSON object of the entries of a `map<string, Value>`.
pub fn write_map(entries: &[Bytes], out: &mut String) -> Result<()> {
    out.push('{');
    let mut first = true;
    for entry in entries {
        write_entry(entry, &mut first, PAYLOAD_DEPTH_MAX, out)?;
    }
    out.push('}');
    Ok(())
}

/// The JSON of one `Value`.
pub fn write_value(value: &[u8], out: &mut String) -> Result<()> {
    write_at(value, PAYLOAD_DEPTH_MAX, out)
}

fn write_entry(entry: &[u8], first: &mut bool, depth: usize, out: &mut String) -> Result<()> {
    let (mut key, mut value) = (&[][..], &[][..]);
    for field in Fields::new(entry) {
        match field.map_err(|_| NotJson::Broken)? {
            (1, Field::Len(bytes)) => key = bytes,
            (2, Field::Len(bytes)) => value = bytes,
            _ => {}
        }
    }
    if !std::mem::take(first) {
        out.push(',');
    }
    text(key, out)?;
    out.push(':');
    write_at(value, depth, out)
}

fn write_at(value: &[u8], depth: usize, out: &mut String) -> Result<()> {
    let deeper = depth.checked_sub(1).ok_or(NotJson::Deep)?;
    // The last of a oneof holds; a value without any is null.
    let mut kind = None;
    for field in Fields::new(value) {
        let field = field.map_err(|_| NotJson::Broken)?;
        if (1..=7).contains(&field.0) {
            kind = Some(field);
        }
    }
    match kind {
        None | Some((1, Field::Varint(_))) => out.push_str("null"),
        Some((2, Field::Fixed64(bytes))) => number(f64::from_le_bytes(bytes), out)?,
        Some((3, Field::Varint(n))) => integer(n as i64, out),
        Some((4, Field::Len(bytes))) => text(bytes, out)?,
        Some((5, Field::Varint(b))) => out.push_str(if b == 0 { "false" } else { "true" }),
        Some((6, Field::Len(fields))) => {
            out.push('{');
            let mut first = true;
            for entry in lists_of(fields) {
                write_entry(entry?, &mut first, deeper, out)?;
            }
            out.push('}');
        }
        Some((7, Field::Len(values))) => {
            out.push('[');
            for (at, value) in lists_of(values).enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_at(value?, deeper, out)?;
            }
            out.push(']');
        }
        Some(_) => return Err(NotJson::Broken),
    }
    Ok(())
}

/// The elements of field 1: entries of a struct, values of a list.
fn lists_of(message: &[u8]) -> impl Iterator<Item = Result<&[u8]>> {
    Fields::new(message).filter_map(|field| match field {
        Ok((1, Field::Len(bytes))) => Some(Ok(bytes)),
        Ok((1, _)) | Err(_) => Some(Err(NotJson::Broken)),
        Ok(_) => None,
    })
}

fn integer(n: i64, out: &mut String) {
    use fmt::Write;
    // Writing into a string can't fail.
    let _ = write!(out, "{n}");
}

fn number(x: f64, out: &mut String) -> Result<()> {
    if !x.is_finite() {
        return Err(NotJson::Number(x));
    }
    out.push_str(&serde_json::to_string(&x).map_err(|_| NotJson::Number(x))?);
    Ok(())
}

/// A JSON string; text that needs no escapes goes as it is.
fn text(bytes: &[u8], out: &mut String) -> Result<()> {
    let text = std::str::from_utf8(bytes).map_err(|_| NotJson::Utf8)?;
    if text.bytes().any(|b| b < 0x20 || b == b'"' || b == b'\\') {
        out.push_str(&serde_json::to_string(text).map_err(|_| NotJson::Utf8)?);
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
    Ok(())
}

/// Appends the entries of the JSON object `json` as fields `number` of a `map<string, Value>`.
pub fn put_payload(
    out: &mut Vec<u8>,
    number: u32,
    json: &[u8],
) -> std::result::Result<(), serde_json::Error> {
    let mut parser = serde_json::Deserializer::from_slice(json);
    parser.deserialize_any(EntriesOut { out, number })
}

/// Bytes that `json` takes at most as `Value` messages: an empty list of three bytes becomes six, and lengths beyond
/// 127 bytes take more.
pub fn payload_bytes(json: &[u8]) -> usize {
    json.len() * 4 + 16
}

/// An object's entries.
struct EntriesOut<'a> {
    out: &'a mut Vec<u8>,
    number: u32,
}

impl<'de> Visitor<'de> for EntriesOut<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }
    fn visit_unit<E>(self) -> std::result::Result<(), E> {
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(key) = map.next_key::<KeyText<'de>>()? {
            put_message(self.out, self.number, |out| {
                put_bytes(out, 1, key.0.as_bytes());
                put_message(out, 2, |out| map.next_value_seed(ValueOut(out)))
            })?;
        }
        Ok(())
    }
}

/// A key, borrowed where it has no escapes.
struct KeyText<'de>(std::borrow::Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for KeyText<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = KeyText<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> std::result::Result<KeyText<'de>, E> {
                Ok(KeyText(text.into()))
            }
            fn visit_str<E: Error>(self, text: &str) -> std::result::Result<KeyText<'de>, E> {
                Ok(KeyText(text.to_owned().into()))
            }
        }
        d.deserialize_str(V)
    }
}

/// The fields of one `Value`.
struct ValueOut<'a>(&'a mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for ValueOut<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> std::result::Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueOut<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> std::result::Result<(), E> {
        put_uint(self.0, 1, 0);
        Ok(())
    }
    fn visit_bool<E>(self, b: bool) -> std::result::Result<(), E> {
        put_uint(self.0, 5, u64::from(b));
        Ok(())
    }
    fn visit_i64<E>(self, n: i64) -> std::result::Result<(), E> {
        put_uint(self.0, 3, n as u64);
        Ok(())
    }
    fn visit_u64<E>(self, n: u64) -> std::result::Result<(), E> {
        match i64::try_from(n) {
            Ok(_) => put_uint(self.0, 3, n),
            Err(_) => put_double(self.0, 2, n as f64),
        }
        Ok(())
    }
    fn visit_f64<E>(self, x: f64) -> std::result::Result<(), E> {
        put_double(self.0, 2, x);
        Ok(())
    }
    fn visit_str<E>(self, text: &str) -> std::result::Result<(), E> {
        put_bytes(self.0, 4, text.as_bytes());
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<(), A::Error> {
        put_message(self.0, 7, |out| {
            loop {
                let before = out.len();
                // The tag goes in before it is known whether there is an element.
                let mut any = false;
                put_message(out, 1, |out| {
                    any = seq.next_element_seed(ValueOut(out))?.is_some();
                    Ok(())
                })?;
                if !any {
                    out.truncate(before);
                    return Ok(());
                }
            }
        })
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<(), A::Error> {
        put_message(self.0, 6, |out| EntriesOut { out, number: 1 }.visit_map(map))
    }
}

/// Appends floats as a packed field.
pub fn put_floats(out: &mut Vec<u8>, number: u32, floats: &[f32]) {
    if floats.is_empty() {
        return;
    }
    put_tag(out, number, 2);
    put_varint(out, 4 * floats.len() as u64);
    for x in floats {
        out.extend_from_slice(&x.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// JSON to messages and back to text.
    fn there_and_back(json: &str) -> String {
        let mut out = Vec::new();
        put_payload(&mut out, 3, json.as_bytes()).unwrap();
        assert!(out.len() <= payload_bytes(json.as_bytes()), "{json}");
        let entries: Vec<Bytes> = Fields::new(&out)
            .map(|field| match field {
                Ok((3, Field::Len(entry))) => Bytes::copy_from_slice(entry),
                other => panic!("{other:?}"),
            })
            .collect();
        let mut text = String::new();
        write_map(&entries, &mut text).unwrap();
        text
    }

    #[test]
    fn payloads_come_back_as_they_were() {
        let long = format!(
            r#"{{"long":"{}","l":[{}1]}}"#,
            "x".repeat(20_000),
            "[],{},1.5,".repeat(900)
        );
        for json in [
            "{}",
            r#"{"a":1,"b":-9223372036854775808,"c":1.5,"d":1.0,"e":1e+300,"f":null,"g":true,"h":false}"#,
            r#"{"":{"":[]},"x":[[],{},[null,[1,[2,[3]]]]]}"#,
            r#"{"ä\"\\\n\u0001":"ü\t\u0000 \"quoted\" \\ ok"}"#,
            &long,
        ] {
            assert_eq!(there_and_back(json), json);
        }
        assert_eq!(
            there_and_back(r#"{"n":18446744073709551615}"#),
            r#"{"n":1.8446744073709552e+19}"#
        );
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let value = |bytes: &[u8]| write_value(bytes, &mut String::new());
        let mut nan = Vec::new();
        put_double(&mut nan, 2, f64::NAN);
        assert!(matches!(value(&nan), Err(NotJson::Number(_))));
        assert_eq!(value(&[0x22, 1, 0xff]), Err(NotJson::Utf8));
        assert_eq!(value(&[0x22, 9, 1]), Err(NotJson::Broken));
        assert_eq!(value(&[0x22, 0]), Ok(()), "an empty text");
        let mut deep = Vec::new();
        for _ in 0..PAYLOAD_DEPTH_MAX + 1 {
            let mut outer = Vec::new();
            put_message::<()>(&mut outer, 7, |out| {
                put_bytes(out, 1, &deep);
                Ok(())
            })
            .unwrap();
            deep = outer;
        }
        assert_eq!(value(&deep), Err(NotJson::Deep));
    }
}
