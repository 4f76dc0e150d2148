//! A cursor over JSON text.
//!
//! It trusts nothing: bytes that aren't JSON give `None` or an early end, never a panic and never an endless loop,
//! because every step consumes at least one byte. A value's slice is exact, so its text can be copied as it is.

use std::borrow::Cow;

/// One JSON value: the exact slice of its text. 16 bytes, copied freely.
#[derive(Debug, Clone, Copy)]
pub struct JsonRef<'a> {
    raw: &'a [u8],
}

/// A value taken one level apart.
#[derive(Debug, Clone)]
pub enum Json<'a> {
    Null,
    Bool(bool),
    Number(Number),
    /// Borrowed unless the text holds escapes.
    Str(Cow<'a, str>),
    Array(ArrayIter<'a>),
    Object(ObjectIter<'a>),
}

/// A number as it was written: an integer stays an integer, `1.0` is a float.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    I64(i64),
    /// Only above `i64::MAX`.
    U64(u64),
    F64(f64),
}

impl Number {
    /// The nearest float, as comparisons with a range see it.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::I64(i) => i as f64,
            Number::U64(u) => u as f64,
            Number::F64(f) => f,
        }
    }
}

impl<'a> JsonRef<'a> {
    /// A cursor on the one value of `bytes`; `None` when there is nothing but whitespace.
    pub fn new(bytes: &'a [u8]) -> Option<JsonRef<'a>> {
        let raw = bytes.trim_ascii();
        (!raw.is_empty()).then_some(JsonRef { raw })
    }

    /// The value's text.
    pub fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// Takes the value one level apart; `None` when the bytes aren't JSON.
    pub fn read(self) -> Option<Json<'a>> {
        Some(match *self.raw.first()? {
            b'{' => Json::Object(ObjectIter { rest: &self.raw[1..] }),
            b'[' => Json::Array(ArrayIter { rest: &self.raw[1..] }),
            b'"' => Json::Str(decode_string(self.raw)?),
            b'n' if self.raw == b"null" => Json::Null,
            b't' if self.raw == b"true" => Json::Bool(true),
            b'f' if self.raw == b"false" => Json::Bool(false),
            b'-' | b'0'..=b'9' => Json::Number(parse_number(self.raw)?),
            _ => return None,
        })
    }

    pub fn is_null(self) -> bool {
        self.raw == b"null"
    }

    pub fn is_object(self) -> bool {
        self.raw.first() == Some(&b'{')
    }

    /// The elements, when this is an array.
    pub fn array(self) -> Option<ArrayIter<'a>> {
        (self.raw.first() == Some(&b'[')).then(|| ArrayIter { rest: &self.raw[1..] })
    }

    /// The members, when this is an object.
    pub fn object(self) -> Option<ObjectIter<'a>> {
        self.is_object().then(|| ObjectIter { rest: &self.raw[1..] })
    }

    /// The member `key` of an object. Of doubled keys the last counts, so the whole object is scanned.
    pub fn get(self, key: &str) -> Option<JsonRef<'a>> {
        let mut members = self.object()?;
        let mut found = None;
        while let Some((name, value)) = members.next_raw() {
            if string_is(name, key) {
                found = Some(value);
            }
        }
        found
    }
}

/// The elements of an array, in order. Ends early on damaged bytes.
#[derive(Debug, Clone)]
pub struct ArrayIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for ArrayIter<'a> {
    type Item = JsonRef<'a>;

    fn next(&mut self) -> Option<JsonRef<'a>> {
        let rest = skip_comma(self.rest);
        let len = value_len(rest).unwrap_or(0);
        let (raw, rest) = rest.split_at(len);
        self.rest = rest;
        (len > 0).then_some(JsonRef { raw })
    }
}

/// The members of an object as written, doubled keys too. Ends early on damaged bytes.
#[derive(Debug, Clone)]
pub struct ObjectIter<'a> {
    rest: &'a [u8],
}

impl<'a> ObjectIter<'a> {
    /// The next member with its key's text, quotes included.
    fn next_raw(&mut self) -> Option<(&'a [u8], JsonRef<'a>)> {
        let rest = std::mem::take(&mut self.rest);
        let rest = skip_comma(rest);
        let (key, rest) = rest.split_at(string_len(rest)?);
        let rest = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let (raw, rest) = rest.split_at(value_len(rest)?);
        self.rest = rest;
        Some((key, JsonRef { raw }))
    }
}

impl<'a> Iterator for ObjectIter<'a> {
    type Item = (Cow<'a, str>, JsonRef<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.next_raw()?;
        match decode_string(key) {
            Some(key) => Some((key, value)),
            None => {
                self.rest = &[];
                None
            }
        }
    }
}

fn skip_comma(rest: &[u8]) -> &[u8] {
    let rest = rest.trim_ascii_start();
    rest.strip_prefix(b",").map_or(rest, <[u8]>::trim_ascii_start)
}

/// Bytes of the value that starts at `raw[0]`; never 0.
fn value_len(raw: &[u8]) -> Option<usize> {
    match *raw.first()? {
        b'"' => string_len(raw),
        b'{' | b'[' => container_len(raw),
        b't' | b'n' => raw.get(..4).map(|_| 4),
        b'f' => raw.get(..5).map(|_| 5),
        b'-' | b'0'..=b'9' => {
            let digit = |b: &u8| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
            Some(raw.iter().take_while(|b| digit(b)).count())
        }
        _ => None,
    }
}

fn container_len(raw: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0usize, 0usize);
    while let Some(&b) = raw.get(at) {
        match b {
            b'"' => at += string_len(&raw[at..])?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth -= 1;
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
    None
}

/// Bytes of the string that starts at `raw[0]`, both quotes included.
fn string_len(raw: &[u8]) -> Option<usize> {
    if raw.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    loop {
        match *raw.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Whether the quoted `raw` decodes to `text`; allocates only for escaped keys.
fn string_is(raw: &[u8], text: &str) -> bool {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if inner == text.as_bytes() {
        return !inner.contains(&b'\\');
    }
    inner.contains(&b'\\') && decode_string(raw).is_some_and(|s| s == text)
}

fn decode_string(raw: &[u8]) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let inner = std::str::from_utf8(inner).ok()?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (c, used) = decode_escape(&rest.as_bytes()[at..])?;
        out.push(c);
        rest = rest.get(at + used..)?;
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

/// The character of an escape that starts with its backslash, and the bytes it took (RFC 8259, section 7).
pub(super) fn decode_escape(raw: &[u8]) -> Option<(char, usize)> {
    let simple = match *raw.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return decode_unicode(raw),
        _ => return None,
    };
    Some((simple, 2))
}

fn decode_unicode(raw: &[u8]) -> Option<(char, usize)> {
    let first = hex4(raw.get(2..6)?)?;
    if !(0xD800..0xDC00).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    if raw.get(6..8)? != b"\\u" {
        return None;
    }
    let second = hex4(raw.get(8..12)?)?;
    if !(0xDC00..0xE000).contains(&second) {
        return None;
    }
    let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    Some((char::from_u32(code)?, 12))
}

fn hex4(digits: &[u8]) -> Option<u32> {
    digits
        .iter()
        .try_fold(0, |n, &d| Some(n * 16 + (d as char).to_digit(16)?))
}

/// The number of `raw`; `None` when it isn't one or is beyond what a float holds.
pub(super) fn parse_number(raw: &[u8]) -> Option<Number> {
    let text = std::str::from_utf8(raw).ok()?;
    if raw.iter().skip(1).all(u8::is_ascii_digit) && text != "-0" {
        if let Ok(i) = text.parse::<i64>() {
            return Some(Number::I64(i));
        }
        if let Ok(u) = text.parse::<u64>() {
            return Some(Number::U64(u));
        }
    }
    let f: f64 = text.parse().ok()?;
    f.is_finite().then_some(Number::F64(f))
}
