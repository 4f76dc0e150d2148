//! A document, `{"id": 7, "vector": [..] | {"name": [..]}, "payload": {..}}`, as a point.
//!
//! Without a `payload` the other fields are the payload. Vectors and payloads pass through as the text they are, for the server to judge.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::ids::Numbering;
use super::json::write_string;
use super::vector_text::numbers_of;

/// Keys of an answer to a scroll that are neither vectors nor payload: such answers are imported as they are.
const KEYS_OF_SCROLL: [&str; 4] = ["shard_key", "order_value", "score", "version"];

/// Which fields are what.
#[derive(Debug, Clone)]
pub struct FieldNames {
    /// `None`: `id`, if a document has it.
    pub id: Option<String>,
    pub vectors: VectorFields,
    /// Of a table, the columns of `emb_*`: what their names begin with, and their numbers.
    numbered: Vec<(String, RangeInclusive<u32>)>,
}

#[derive(Debug, Clone)]
pub enum VectorFields {
    /// `vector` or `vectors`: one, or an object of several by name.
    Usual,
    /// All fields are payload.
    Nothing,
    /// (name of the vector, field). `emb_*`: the columns `emb_0`, `emb_1` and so on, a number each.
    Named(Vec<(String, String)>),
}

impl Default for FieldNames {
    fn default() -> FieldNames {
        FieldNames {
            id: None,
            vectors: VectorFields::Usual,
            numbered: Vec::new(),
        }
    }
}

impl FieldNames {
    pub fn id(&self) -> &str {
        self.id.as_deref().unwrap_or("id")
    }

    /// Whether a field is the id or a vector.
    #[cfg(feature = "parquet")]
    pub fn has(&self, field: &str) -> bool {
        let is_vector = match &self.vectors {
            VectorFields::Usual => matches!(field, "vector" | "vectors"),
            VectorFields::Nothing => false,
            VectorFields::Named(all) => all.iter().any(|(_, of)| of == field),
        };
        is_vector || field == self.id()
    }

    /// Learns which columns a table has. A row leaves out empty cells, so it doesn't tell how many numbers a vector has.
    pub fn learn_columns(&mut self, columns: &[String]) {
        for (begin, number) in columns.iter().filter_map(|column| numbered(column)) {
            match self.numbered.iter_mut().find(|(of, _)| of == begin) {
                Some((_, all)) => *all = number.min(*all.start())..=number.max(*all.end()),
                None => self.numbered.push((begin.to_string(), number..=number)),
            }
        }
    }

    /// By `--id-field` and `--vector-field`: `FIELD` or `NAME=FIELD` each.
    pub fn new(id: Option<&str>, vectors: &[String]) -> FieldNames {
        let vectors = match vectors {
            [] => VectorFields::Usual,
            [none] if none == "none" => VectorFields::Nothing,
            some => VectorFields::Named(some.iter().map(|told| name_and_field(told)).collect()),
        };
        FieldNames {
            id: id.map(ToString::to_string),
            vectors,
            numbered: Vec::new(),
        }
    }
}

impl FieldNames {
    /// Fails where two fields would be one vector.
    pub fn check_vectors(&self) -> Result<()> {
        let VectorFields::Named(all) = &self.vectors else {
            return Ok(());
        };
        for (at, (name, field)) in all.iter().enumerate() {
            let Some((_, before)) = all[..at].iter().find(|(other, _)| other == name) else {
                continue;
            };
            let what = match name.as_str() {
                "" => "without a name".to_string(),
                name => format!("named '{name}'"),
            };
            bail!(
                "--vector-field makes '{before}' and '{field}' the vector {what}: give each its own, as --vector-field NAME=FIELD"
            );
        }
        Ok(())
    }
}

fn name_and_field(told: &str) -> (String, String) {
    match told.split_once('=') {
        Some((name, field)) => (name.to_string(), field.to_string()),
        None => (String::new(), told.to_string()),
    }
}

/// An object's keys in order, with their values as text.
#[derive(Debug, Default)]
pub struct Fields<'a>(pub Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                    fields.push((key, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// A document, taken apart.
#[derive(Debug)]
pub struct Document<'a> {
    pub id: Option<&'a RawValue>,
    vector: Vector<'a>,
    payload: Payload<'a>,
    rest: Vec<(String, &'a RawValue)>,
}

#[derive(Debug)]
enum Vector<'a> {
    Nothing,
    /// As the API takes it: one, or an object of several.
    Whole(Cow<'a, str>),
    /// By the name that each gets.
    Named(Vec<(String, Cow<'a, str>)>),
}

#[derive(Debug, Clone, Copy)]
enum Payload<'a> {
    /// The other fields of the document.
    Fields,
    /// `null`: there is none.
    Nothing,
    Object(&'a RawValue),
}

/// What a vector is, of which a collection can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Dense(usize),
    Sparse,
}

/// Numbers of vectors that stand in columns of their own.
#[derive(Default)]
struct Columns<'a> {
    /// (name of the vector, what the columns' names begin with, number of the column, value).
    numbers: Vec<(String, String, u32, &'a RawValue)>,
}

impl<'a> Columns<'a> {
    /// Takes a column of one of these fields; false: it is none.
    fn take(&mut self, fields: &[(String, String)], key: &str, value: &'a RawValue) -> bool {
        let Some((begin, number)) = numbered(key) else {
            return false;
        };
        let is_meant = |of: &&(String, String)| of.1.strip_suffix('*') == Some(begin);
        let Some((name, _)) = fields.iter().find(is_meant) else {
            return false;
        };
        self.numbers
            .push((name.clone(), begin.to_string(), number, value));
        true
    }

    /// Each vector's name and text. A column that is missing or empty would move all behind it.
    fn vectors(mut self, names: &FieldNames) -> Result<Vec<(String, String)>> {
        self.numbers.sort_by(|a, b| (&a.1, a.2).cmp(&(&b.1, b.2)));
        let mut vectors = Vec::new();
        for group in self.numbers.chunk_by(|a, b| a.1 == b.1) {
            let (name, begin, first, _) = &group[0];
            let last = group.last().map_or(*first, |(_, _, last, _)| *last);
            let columns = names.numbered.iter().find(|(of, _)| of == begin);
            let columns = columns.map_or(*first..=last, |(_, columns)| columns.clone());
            let mut text = String::new();
            let mut values = group.iter().peekable();
            for expected in columns {
                let is_here = |value: &&(String, String, u32, &RawValue)| {
                    value.2 == expected && value.3.get() != "null"
                };
                let Some((.., value)) = values.next_if(is_here) else {
                    bail!("the column '{begin}{expected}' of --vector-field '{begin}*' has no number");
                };
                text.push(if text.is_empty() { '[' } else { ',' });
                text.push_str(value.get());
            }
            text.push(']');
            vectors.push((name.clone(), text));
        }
        Ok(vectors)
    }
}

/// `emb_12` as `emb_` and 12.
pub fn numbered(key: &str) -> Option<(&str, u32)> {
    let begin = key.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &key[begin.len()..];
    // `emb_01` beside `emb_1` would be two of the same number.
    let is_plain = digits == "0" || !digits.starts_with('0');
    Some((begin, digits.parse().ok().filter(|_| is_plain)?))
}

impl<'a> Document<'a> {
    pub fn parse(text: &'a str, names: &FieldNames) -> Result<Document<'a>> {
        let Fields(fields) = serde_json::from_str(text)?;
        let mut document = Document {
            id: None,
            vector: Vector::Nothing,
            payload: Payload::Fields,
            rest: Vec::new(),
        };
        let mut named = Vec::new();
        let mut columns = Columns::default();
        for (key, value) in fields {
            match (&names.vectors, key.as_str()) {
                (_, id) if id == names.id() => document.id = filled(value),
                (VectorFields::Usual, "vector" | "vectors") => document.vector = whole(&key, value)?,
                (VectorFields::Named(all), field) if all.iter().any(|(_, of)| of == field) => {
                    let name = all
                        .iter()
                        .find(|(_, of)| of == field)
                        .map(|(name, _)| name.clone());
                    named.extend(vector_text(field, value)?.map(|text| (name.unwrap_or_default(), text)));
                }
                (VectorFields::Named(all), field) if columns.take(all, field, value) => {}
                (_, "payload") if value.get().starts_with('{') => document.payload = Payload::Object(value),
                (_, "payload") if value.get() == "null" => document.payload = Payload::Nothing,
                _ => document.rest.push((key, value)),
            }
        }
        named.extend(
            columns
                .vectors(names)?
                .into_iter()
                .map(|(name, text)| (name, Cow::Owned(text))),
        );
        if !named.is_empty() {
            document.vector = Vector::Named(named);
        }
        document.check_rest()?;
        Ok(document)
    }

    /// Fails where a field that was named is not in the first document: a slip, and all others would go in without.
    pub fn check_named(&self, names: &FieldNames) -> Result<()> {
        let missing = match (&names.id, &names.vectors) {
            (Some(id), _) if self.id.is_none() => format!("'{id}' of --id-field"),
            (_, VectorFields::Named(all)) if !self.has_vector() => {
                let fields: Vec<&str> = all.iter().map(|(_, field)| field.as_str()).collect();
                format!("'{}' of --vector-field", fields.join("', '"))
            }
            _ => return Ok(()),
        };
        let has: Vec<&str> = self.rest.iter().map(|(key, _)| key.as_str()).collect();
        bail!(
            "there is nothing under {missing}; other fields are {}",
            has.join(", ")
        )
    }

    /// With a payload of its own a document has no place for other fields, and none is dropped silently.
    fn check_rest(&self) -> Result<()> {
        if matches!(self.payload, Payload::Fields) {
            return Ok(());
        }
        let is_known = |key: &str| KEYS_OF_SCROLL.contains(&key);
        match self.rest.iter().find(|(key, _)| !is_known(key)) {
            Some((key, _)) => bail!(
                "the field '{key}' is beside 'payload', which must hold all fields of a point: move it into 'payload', or leave 'payload' out"
            ),
            None => Ok(()),
        }
    }

    pub fn has_vector(&self) -> bool {
        !matches!(self.vector, Vector::Nothing)
    }

    /// Fields outside of vectors and id, where those are the payload.
    pub fn rest(&self) -> &[(String, &'a RawValue)] {
        &self.rest
    }

    /// Whether the payload has a text under this path; of a longer path only the first part is looked at.
    pub fn has_text(&self, path: &str) -> bool {
        let first = path.split(['.', '[']).next().unwrap_or(path);
        let is_there = |(key, value): &(String, &RawValue)| match key == path || key == first {
            // Texts, and what may hold some.
            true => value.get().starts_with(['"', '[', '{']) && value.get().contains('"'),
            false => false,
        };
        match self.payload {
            Payload::Fields => self.rest.iter().any(is_there),
            Payload::Nothing => false,
            Payload::Object(object) => {
                serde_json::from_str(object.get()).is_ok_and(|Fields(fields)| fields.iter().any(is_there))
            }
        }
    }

    /// Each vector as text, by name.
    pub fn vectors(&self) -> Result<Vec<(String, &str)>> {
        match &self.vector {
            Vector::Nothing => Ok(Vec::new()),
            Vector::Named(named) => Ok(named
                .iter()
                .map(|(name, text)| (name.clone(), text.as_ref()))
                .collect()),
            Vector::Whole(text) if text.starts_with('{') => {
                let Fields(named) = serde_json::from_str(text)?;
                if is_sparse(&named) {
                    return Ok(vec![(String::new(), text.as_ref())]);
                }
                Ok(named
                    .into_iter()
                    .map(|(name, value)| (name, value.get()))
                    .collect())
            }
            Vector::Whole(text) => Ok(vec![(String::new(), text.as_ref())]),
        }
    }

    /// Each vector's name and kind, or why it isn't one that a collection can be made for.
    pub fn kinds(&self) -> Result<Vec<(String, Result<Kind>)>> {
        let of = |(name, text): (String, &str)| {
            let kind = kind(&name, text);
            (name, kind)
        };
        Ok(self.vectors()?.into_iter().map(of).collect())
    }

    /// Writes the point of row `row`, whose text is `text`.
    pub fn write(
        &self,
        row: u64,
        text: &str,
        (numbering, names): (&Numbering, &FieldNames),
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (id, kept) = numbering.id(self.id, row, text.trim().as_bytes())?;
        let kept = kept.map(|id| (names.id().to_string(), id));
        out.extend_from_slice(b"{\"id\":");
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b",\"vector\":");
        self.write_vector(out);
        self.write_payload(kept, out)?;
        out.push(b'}');
        Ok(())
    }

    fn write_vector(&self, out: &mut Vec<u8>) {
        match &self.vector {
            Vector::Nothing => out.extend_from_slice(b"{}"),
            Vector::Whole(text) => out.extend_from_slice(text.as_bytes()),
            Vector::Named(named) => match named.as_slice() {
                [(name, text)] if name.is_empty() => out.extend_from_slice(text.as_bytes()),
                named => write_object(
                    named.iter().map(|(name, text)| (name.as_str(), text.as_ref())),
                    out,
                ),
            },
        }
    }

    /// `kept`: the document's own id under the name of its field, when the point has another.
    fn write_payload(&self, kept: Option<(String, &RawValue)>, out: &mut Vec<u8>) -> Result<()> {
        match (self.payload, kept) {
            (Payload::Object(payload), None) => {
                out.extend_from_slice(b",\"payload\":");
                out.extend_from_slice(payload.get().as_bytes());
            }
            (Payload::Object(payload), Some(kept)) => {
                let Fields(mut fields) = serde_json::from_str(payload.get())?;
                if fields.iter().all(|(key, _)| *key != kept.0) {
                    fields.push(kept);
                }
                write_fields(&fields, out);
            }
            (Payload::Nothing, kept) => write_fields(&Vec::from_iter(kept), out),
            (Payload::Fields, kept) => {
                let fields: Vec<_> = kept.into_iter().chain(self.rest.iter().cloned()).collect();
                write_fields(&fields, out);
            }
        }
        Ok(())
    }
}

fn filled(value: &RawValue) -> Option<&RawValue> {
    (value.get() != "null").then_some(value)
}

/// Nothing when there are no fields.
fn write_fields(fields: &[(String, &RawValue)], out: &mut Vec<u8>) {
    if !fields.is_empty() {
        out.extend_from_slice(b",\"payload\":");
        write_object(fields.iter().map(|(key, value)| (key.as_str(), value.get())), out);
    }
}

fn write_object<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>, out: &mut Vec<u8>) {
    for (at, (key, value)) in fields.enumerate() {
        out.push(if at == 0 { b'{' } else { b',' });
        write_string(key, out);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'}');
}

fn whole<'a>(key: &str, value: &'a RawValue) -> Result<Vector<'a>> {
    Ok(vector_text(key, value)?.map_or(Vector::Nothing, Vector::Whole))
}

/// A vector as the API takes it: `null` is none, and a text of numbers is their list.
fn vector_text<'a>(field: &str, value: &'a RawValue) -> Result<Option<Cow<'a, str>>> {
    let text = value.get();
    if text == "null" {
        return Ok(None);
    }
    if !text.starts_with('"') {
        return Ok(Some(Cow::Borrowed(text)));
    }
    let inner: String = serde_json::from_str(text)?;
    let inner = inner.trim();
    if inner.is_empty() {
        return Ok(None);
    }
    if serde_json::from_str::<&RawValue>(inner).is_ok() && inner.starts_with(['[', '{']) {
        return Ok(Some(Cow::Owned(inner.to_string())));
    }
    let numbers = numbers_of(inner).with_context(|| format!("'{field}' is no vector"))?;
    Ok(Some(Cow::Owned(numbers)))
}

fn is_sparse(fields: &[(String, &RawValue)]) -> bool {
    let has = |key: &str| fields.iter().any(|(name, _)| name == key);
    has("indices") && has("values") && fields.len() == 2
}

fn kind(name: &str, text: &str) -> Result<Kind> {
    let shown = if name.is_empty() { "vector" } else { name };
    if let Ok(Fields(fields)) = serde_json::from_str(text)
        && is_sparse(&fields)
    {
        return match name {
            "" => Err(anyhow!(
                "the vector is sparse, and such a vector has a name: --vector-field NAME=FIELD gives it one"
            )),
            _ => Ok(Kind::Sparse),
        };
    }
    if !text.starts_with('[') {
        bail!("'{shown}' is neither a list of numbers nor an object of them");
    }
    if serde_json::from_str::<Vec<Vec<&RawValue>>>(text).is_ok_and(|parts| !parts.is_empty()) {
        bail!("'{shown}' is a list of lists (a multivector): create the collection for such vectors first");
    }
    let missing = serde_json::from_str::<Vec<Option<f32>>>(text).unwrap_or_default();
    if let Some(at) = missing.iter().position(Option::is_none) {
        bail!("number {at} of '{shown}' is null or NaN: correct the file, or leave the vector out");
    }
    let numbers: Vec<f32> =
        serde_json::from_str(text).with_context(|| format!("'{shown}' is no list of numbers"))?;
    match numbers.len() {
        0 => bail!("'{shown}' is an empty list"),
        dim => Ok(Kind::Dense(dim)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY_ROW: Numbering = Numbering::From(0);

    fn check(line: &str, expected: &str) {
        check_as(&Numbering::Own, line, expected);
    }

    fn check_as(ids: &Numbering, line: &str, expected: &str) {
        let mut out = Vec::new();
        let parsed = Document::parse(line, &FieldNames::default());
        let written = parsed.and_then(|d| d.write(7, line, (ids, &FieldNames::default()), &mut out));
        let got = match written {
            Ok(()) => String::from_utf8(out).unwrap(),
            Err(error) => format!("error: {error:#}"),
        };
        assert_eq!(got, expected, "{line}");
    }

    #[test]
    fn columns_of_numbers_are_a_vector() {
        let parse = |text: &'static str, fields: &[&str]| {
            let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
            let names = FieldNames::new(None, &fields);
            let document = Document::parse(text, &names);
            document.map(|document| {
                let vectors = document.vectors().expect("vectors").into_iter();
                let vectors: Vec<_> = vectors.map(|(name, text)| (name, text.to_owned())).collect();
                (
                    vectors,
                    document
                        .rest()
                        .iter()
                        .map(|(key, _)| key.clone())
                        .collect::<Vec<_>>(),
                )
            })
        };
        let text = r#"{"id":1,"v1":2,"v0":1.5,"v10":5,"v2":3,"w7":1,"w8":2,"v":0,"year2":9}"#;
        let (vectors, rest) = parse(r#"{"v1":2,"v0":1.5,"v2":3,"v":0,"year2":9}"#, &["v*"]).expect("parses");
        assert_eq!(vectors, [(String::new(), "[1.5,2,3]".to_owned())]);
        assert_eq!(rest, ["v", "year2"]);
        let (vectors, rest) = parse(text, &["b=w*"]).expect("parses");
        assert_eq!(vectors, [("b".to_owned(), "[1,2]".to_owned())]);
        assert_eq!(rest.len(), 6);
        for (text, missing) in [(text, "'v3'"), (r#"{"v0":1,"v1":null,"v2":3}"#, "'v1'")] {
            let error = parse(text, &["v*"]).expect_err("refused").to_string();
            assert!(error.contains(missing), "{error}");
        }
    }

    #[test]
    fn a_table_knows_its_columns_of_numbers() {
        let mut names = FieldNames::new(None, &["v*".to_string()]);
        names.learn_columns(&["id", "v0", "v1", "v2", "year"].map(ToString::to_string));
        let vector = |text: &str| match Document::parse(text, &names) {
            Ok(document) => document
                .vectors()
                .expect("vectors")
                .pop()
                .map(|(_, text)| text.to_string()),
            Err(error) => Some(error.to_string()),
        };
        assert_eq!(vector(r#"{"v0":1,"v1":2,"v2":3}"#).as_deref(), Some("[1,2,3]"));
        assert_eq!(vector(r#"{"year":1}"#), None);
        // Cells that are empty, first, last and between.
        for (text, missing) in [
            (r#"{"v1":2,"v2":3}"#, "'v0'"),
            (r#"{"v0":1,"v2":3}"#, "'v1'"),
            (r#"{"v0":1,"v1":2}"#, "'v2'"),
        ] {
            let error = vector(text).expect("an error");
            assert!(error.contains(missing), "{text}: {error}");
        }
    }

    #[test]
    fn an_id_stays_under_the_name_of_its_field() {
        let names = FieldNames::new(Some("_id"), &[]);
        for (text, expected) in [
            (
                r#"{"_id":"abc","id":5}"#,
                r#"{"id":7,"vector":{},"payload":{"_id":"abc","id":5}}"#,
            ),
            (
                r#"{"_id":"abc","payload":{"id":5}}"#,
                r#"{"id":7,"vector":{},"payload":{"id":5,"_id":"abc"}}"#,
            ),
            (
                r#"{"_id":"abc"}"#,
                r#"{"id":7,"vector":{},"payload":{"_id":"abc"}}"#,
            ),
        ] {
            let mut out = Vec::new();
            let document = Document::parse(text, &names).expect("parses");
            document
                .write(7, text, (&BY_ROW, &names), &mut out)
                .expect("written");
            assert_eq!(String::from_utf8(out).expect("text"), expected);
        }
    }

    #[test]
    fn lines_become_points() {
        check(
            r#"{"id": 5, "vector": [1, 2.50], "payload": {"a": 1}}"#,
            r#"{"id":5,"vector":[1, 2.50],"payload":{"a": 1}}"#,
        );
        check_as(
            &BY_ROW,
            r#"{"vector": {"t": [1]}, "title": "x", "b": [2]}"#,
            r#"{"id":7,"vector":{"t": [1]},"payload":{"title":"x","b":[2]}}"#,
        );
        check_as(&BY_ROW, r#"{"vectors": [1]}"#, r#"{"id":7,"vector":[1]}"#);
        check_as(
            &BY_ROW,
            r#"{"vector": [1], "payload": "text"}"#,
            r#"{"id":7,"vector":[1],"payload":{"payload":"text"}}"#,
        );
        check(
            r#"{"id": "6f9619ff-8b86-d011-b42d-00c04fc964ff", "body": "no vector"}"#,
            r#"{"id":"6f9619ff-8b86-d011-b42d-00c04fc964ff","vector":{},"payload":{"body":"no vector"}}"#,
        );
        check_as(
            &BY_ROW,
            r#"{"vector": [1], "payload": null}"#,
            r#"{"id":7,"vector":[1]}"#,
        );
        check_as(
            &BY_ROW,
            r#"{"id": "six", "payload": null, "shard_key": null}"#,
            r#"{"id":7,"vector":{},"payload":{"id":"six"}}"#,
        );
        check(
            r#"{"id": 1, "payload": {"a": 1}, "vector": [1], "shard_key": null, "order_value": 3, "score": 0, "version": 2}"#,
            r#"{"id":1,"vector":[1],"payload":{"a": 1}}"#,
        );
        for payload in ["{}", "null"] {
            check(
                &format!(r#"{{"vector": [1], "title": "x", "payload": {payload}}}"#),
                "error: the field 'title' is beside 'payload', which must hold all fields of a point: move it into 'payload', or leave 'payload' out",
            );
        }
        check(
            r#"{"id": "six", "vector": [1]}"#,
            r#"error: the id "six" is neither an unsigned integer nor a UUID; --ids hash makes a UUID of any text, --ids line numbers the rows"#,
        );
        check(
            r#"{"id": -1, "vector": [1]}"#,
            r#"error: the id -1 is neither an unsigned integer nor a UUID; --ids hash makes a UUID of any text, --ids line numbers the rows"#,
        );
    }

    #[test]
    fn other_ids_stay_in_the_payload() {
        check(
            r#"{"id": "17", "body": "t"}"#,
            r#"{"id":17,"vector":{},"payload":{"body":"t"}}"#,
        );
        check_as(
            &BY_ROW,
            r#"{"id": "six", "body": "t"}"#,
            r#"{"id":7,"vector":{},"payload":{"id":"six","body":"t"}}"#,
        );
        check_as(
            &Numbering::Hash,
            r#"{"id": "six", "payload": {"body": "t"}}"#,
            r#"{"id":"0a4503fe-9a46-534c-ad4e-07527b35e5e3","vector":{},"payload":{"body":"t","id":"six"}}"#,
        );
        check_as(
            &Numbering::Hash,
            r#"{"id": "six", "payload": {"id": 6}}"#,
            r#"{"id":"0a4503fe-9a46-534c-ad4e-07527b35e5e3","vector":{},"payload":{"id":6}}"#,
        );
        check_as(&BY_ROW, r#"{"vector": [1]}"#, r#"{"id":7,"vector":[1]}"#);
        check_as(
            &Numbering::Hash,
            r#"{"vector": [1]}"#,
            r#"{"id":"9ef94ba3-08b0-5191-9a75-b60aec9e440b","vector":[1]}"#,
        );
        check(r#"{"vector": [1]}"#, "error: it has no id");
    }

    #[test]
    fn vectors_by_their_fields() {
        let check = |told: &[&str], line: &str, expected: &str| {
            let told: Vec<String> = told.iter().map(ToString::to_string).collect();
            let names = FieldNames::new(Some("key"), &told);
            let mut out = Vec::new();
            let document = Document::parse(line, &names).expect("parsed");
            document
                .write(0, line, (&Numbering::Own, &FieldNames::default()), &mut out)
                .expect("written");
            assert_eq!(String::from_utf8(out).expect("text"), expected, "{line}");
        };
        check(
            &["embedding"],
            r#"{"key": 1, "id": "x", "embedding": [1, 2], "vector": [9]}"#,
            r#"{"id":1,"vector":[1, 2],"payload":{"id":"x","vector":[9]}}"#,
        );
        check(
            &["a=title emb", "b=body"],
            r#"{"key": 1, "title emb": "[1, 2]", "body": {"indices": [1], "values": [2]}, "c": 3}"#,
            r#"{"id":1,"vector":{"a":[1, 2],"b":{"indices": [1], "values": [2]}},"payload":{"c":3}}"#,
        );
        check(
            &["a=x", "b=y"],
            r#"{"key": 1, "x": null, "y": "1 2.5\n3"}"#,
            r#"{"id":1,"vector":{"b":[1,2.5,3]}}"#,
        );
        check(
            &["none"],
            r#"{"key": 1, "vector": [1]}"#,
            r#"{"id":1,"vector":{},"payload":{"vector":[1]}}"#,
        );
    }

    #[test]
    fn kinds_of_vectors() {
        let kinds = |line: &str| -> Result<Vec<(String, Kind)>> {
            let vectors = Document::parse(line, &FieldNames::default())?.kinds()?;
            vectors
                .into_iter()
                .map(|(name, kind)| Ok((name, kind?)))
                .collect()
        };
        let dense = |name: &str, dim| (name.to_string(), Kind::Dense(dim));
        assert_eq!(kinds(r#"{"vector":[1,2]}"#).unwrap(), [dense("", 2)]);
        assert_eq!(kinds(r#"{"vector":"[1, 2]"}"#).unwrap(), [dense("", 2)]);
        assert_eq!(
            kinds(r#"{"vector":{"a":[1],"b":[1,2]}}"#).unwrap(),
            [dense("a", 1), dense("b", 2)]
        );
        assert_eq!(
            kinds(r#"{"vector":{"a":{"indices":[1],"values":[1]}}}"#).unwrap(),
            [("a".to_string(), Kind::Sparse)]
        );
        assert!(kinds(r#"{"vector":null}"#).unwrap().is_empty());
        for bad in [
            r#"{"vector":[]}"#,
            r#"{"vector":5}"#,
            r#"{"vector":["a"]}"#,
            r#"{"vector":{"a":[[1]]}}"#,
            r#"{"vector":[1,null]}"#,
            r#"{"vector":{"indices":[1],"values":[1]}}"#,
            r#"{"vector":{"a":{"text":"t","model":"qdrant/bm25"}}}"#,
            r#"{"vector":"text"}"#,
        ] {
            assert!(kinds(bad).is_err(), "{bad}");
        }
    }
}
