//! JSON lines, plain or gzipped: one point a line.
//!
//! `{"id": 7, "vector": [..] | {"name": [..]}, "payload": {..}}`. What becomes of the id says [`Ids`]; without a `payload`
//! the other keys of the line are the payload. Vectors and payloads pass through as the text they are, for the server to judge.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Error, Result, anyhow, bail};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::ids::point_id;
use super::json::write_string;
use super::source::{Layout, Source};
use crate::args::Ids;

/// Longest line read; the bound on this reader's memory.
const LINE_BYTES_MAX: u64 = 32 << 20;
const BUFFER_BYTES: usize = 256 << 10;
/// What some programs begin UTF-8 with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Keys of an answer to a scroll that are neither vectors nor payload: such answers are imported as they are.
const KEYS_OF_SCROLL: [&str; 4] = ["shard_key", "order_value", "score", "version"];

/// Lines of a file, one in memory at a time.
pub struct Lines {
    reader: Box<dyn BufRead>,
    read: Arc<AtomicU64>,
    bytes: u64,
    name: String,
    line: String,
    number: u64,
}

/// Counts the bytes taken from the file, before decompression: the unit of the progress bar.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl Lines {
    /// Opens a file; `.gz` is decompressed on the way.
    pub fn open(path: &Path) -> Result<Lines> {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("opening {name}"))?;
        let bytes = file.metadata()?.len();
        let read = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            inner: file,
            read: read.clone(),
        };
        let reader: Box<dyn BufRead> = if name.ends_with(".gz") {
            let unpacked = flate2::read::MultiGzDecoder::new(counted);
            Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked))
        } else {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, counted))
        };
        Ok(Lines {
            reader,
            read,
            bytes,
            name,
            line: String::new(),
            number: 0,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }
    /// The line read last, with its end.
    pub fn line(&self) -> &str {
        &self.line
    }
    /// Its number, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next line that isn't blank; false at the end.
    pub fn next(&mut self) -> Result<bool> {
        loop {
            let place = self.number + 1;
            let mut bytes = std::mem::take(&mut self.line).into_bytes();
            bytes.clear();
            let n = (&mut self.reader)
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut bytes)
                .with_context(|| format!("{}: reading line {place}", self.name))?;
            if n == 0 {
                return Ok(false);
            }
            self.number = place;
            // Before the text is looked at: the cut may lie within a character.
            if n as u64 == LINE_BYTES_MAX && !bytes.ends_with(b"\n") {
                bail!(
                    "{}: line {place} is longer than {LINE_BYTES_MAX} bytes",
                    self.name
                );
            }
            if place == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
                bytes.drain(..BYTE_ORDER_MARK.len());
            }
            self.line = String::from_utf8(bytes)
                .with_context(|| format!("{}: line {place} is no UTF-8", self.name))?;
            if !self.line.trim().is_empty() {
                return Ok(true);
            }
        }
    }
}

/// The top level of a line: keys in order with their values as text.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with a vector")
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

/// One line, taken apart.
struct Document<'a> {
    id: Option<&'a RawValue>,
    vector: Option<&'a RawValue>,
    payload: Payload<'a>,
    rest: Vec<(String, &'a RawValue)>,
}

#[derive(Clone, Copy)]
enum Payload<'a> {
    /// The other fields of the line.
    Fields,
    /// `null`: there is none.
    Nothing,
    Object(&'a RawValue),
}

impl<'a> Document<'a> {
    fn parse(line: &'a str) -> Result<Document<'a>> {
        let Fields(fields) = serde_json::from_str(line)?;
        let mut document = Document {
            id: None,
            vector: None,
            payload: Payload::Fields,
            rest: Vec::new(),
        };
        for (key, value) in fields {
            match key.as_str() {
                "id" => document.id = Some(value),
                "vector" | "vectors" => document.vector = Some(value),
                "payload" if value.get().starts_with('{') => document.payload = Payload::Object(value),
                "payload" if value.get() == "null" => document.payload = Payload::Nothing,
                _ => document.rest.push((key, value)),
            }
        }
        document.vector = document.vector.filter(|v| v.get() != "null");
        document.check_rest()?;
        Ok(document)
    }

    /// With a payload of its own a line has no place for other fields, and none is dropped silently.
    fn check_rest(&self) -> Result<()> {
        if matches!(self.payload, Payload::Fields) {
            return Ok(());
        }
        let is_known = |key: &str| KEYS_OF_SCROLL.contains(&key);
        match self.rest.iter().find(|(key, _)| !is_known(key)) {
            Some((key, _)) => bail!(
                "the field '{key}' stands beside 'payload', which holds all fields of a point: put it in there, or leave 'payload' out"
            ),
            None => Ok(()),
        }
    }

    /// Each vector's name and dimension, or why it isn't one that a collection can be made for.
    fn vectors(&self) -> Result<Vec<(String, Result<usize>)>> {
        let Some(vector) = self.vector else {
            return Ok(Vec::new());
        };
        let alone = |dimension| Ok(vec![(String::new(), dimension)]);
        match vector.get().as_bytes().first() {
            Some(b'[') => alone(dimension("vector", vector)),
            Some(b'{') => {
                let Fields(named) = serde_json::from_str(vector.get())?;
                let has = |key: &str| named.iter().any(|(name, _)| name == key);
                if has("indices") && has("values") {
                    return alone(Err(anyhow!(
                        "'vector' is a sparse vector, which must have a name"
                    )));
                }
                let of = |(name, v): (String, &RawValue)| {
                    let dimension = dimension(&name, v);
                    (name, dimension)
                };
                Ok(named.into_iter().map(of).collect())
            }
            _ => alone(Err(anyhow!(
                "'vector' is neither a list of numbers nor an object of them"
            ))),
        }
    }

    fn write(&self, number: u64, ids: Ids, out: &mut Vec<u8>) -> Result<()> {
        let (id, kept) = point_id(self.id, number - 1, ids)?;
        out.extend_from_slice(b"{\"id\":");
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b",\"vector\":");
        out.extend_from_slice(self.vector.map_or("{}", |v| v.get()).as_bytes());
        // The file's own id, when the point has another.
        let kept = kept.map(|id| ("id".to_string(), id));
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
                write_payload(&fields, out);
            }
            (Payload::Nothing, kept) => write_payload(&Vec::from_iter(kept), out),
            (Payload::Fields, kept) => {
                let fields: Vec<_> = kept.into_iter().chain(self.rest.iter().cloned()).collect();
                write_payload(&fields, out);
            }
        }
        out.push(b'}');
        Ok(())
    }
}

/// Nothing when there are no fields.
fn write_payload(fields: &[(String, &RawValue)], out: &mut Vec<u8>) {
    for (at, (key, value)) in fields.iter().enumerate() {
        out.extend_from_slice(if at == 0 {
            b",\"payload\":{".as_slice()
        } else {
            b","
        });
        write_string(key, out);
        out.push(b':');
        out.extend_from_slice(value.get().as_bytes());
    }
    if !fields.is_empty() {
        out.push(b'}');
    }
}

fn dimension(name: &str, vector: &RawValue) -> Result<usize> {
    let numbers: Vec<f32> =
        serde_json::from_str(vector.get()).with_context(|| format!("'{name}' is no list of numbers"))?;
    if numbers.is_empty() {
        bail!("'{name}' is an empty list");
    }
    Ok(numbers.len())
}

/// Points from JSON lines. Memory: one line of at most 32 MiB, and a buffer.
pub struct JsonlSource {
    lines: Lines,
    /// Of line 1, but for vectors that aren't lists of numbers.
    layout: Layout,
    /// Why line 1 is no pattern for a collection.
    odd: Option<Error>,
    /// The collection was made for vectors as line 1 has them.
    settled: bool,
    ids: Ids,
    /// The first line is read at opening, to know the layout, and given out first.
    pending: bool,
}

impl JsonlSource {
    pub fn new(mut lines: Lines, ids: Ids) -> Result<JsonlSource> {
        if !lines.next()? {
            bail!("{}: there is no line in it", lines.name());
        }
        let place = || format!("line {}", lines.number());
        let vectors = Document::parse(lines.line())
            .and_then(|document| document.vectors())
            .with_context(|| format!("{}: {}", lines.name(), place()))?;
        let (mut layout, mut odd) = (Layout::new(), None);
        for (name, dimension) in vectors {
            match dimension {
                Ok(dimension) => layout.push((name, dimension)),
                Err(error) => odd = odd.or(Some(error.context(place()))),
            }
        }
        Ok(JsonlSource {
            lines,
            layout,
            odd,
            settled: false,
            ids,
            pending: true,
        })
    }

    fn advance(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.pending) {
            return Ok(true);
        }
        self.lines.next()
    }
}

impl Source for JsonlSource {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn settle_layout(&mut self) -> Result<()> {
        self.settled = true;
        match self.odd.take() {
            Some(error) => Err(error.context("a collection for such vectors must be there before")),
            None => Ok(()),
        }
    }

    fn skip(&mut self, points: u64) -> Result<()> {
        for _ in 0..points {
            if !self.advance()? {
                break;
            }
        }
        Ok(())
    }

    fn read(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        if !self.advance()? {
            return Ok(false);
        }
        let number = self.lines.number();
        let place = || format!("{}: line {number}", self.lines.name());
        let document = Document::parse(self.lines.line()).with_context(place)?;
        if self.settled && document.vector.is_none() && !self.layout.is_empty() {
            bail!(
                "{} has no vector, line 1 has one, of which the collection was made; one that is there already takes points without",
                place()
            );
        }
        document.write(number, self.ids, out).with_context(place)?;
        Ok(true)
    }

    fn progress(&self) -> (u64, u64) {
        (self.lines.read.load(Ordering::Relaxed), self.lines.bytes)
    }
    fn counts_points(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        check_as(Ids::File, line, expected);
    }

    fn check_as(ids: Ids, line: &str, expected: &str) {
        let mut out = Vec::new();
        let written = Document::parse(line).and_then(|d| d.write(8, ids, &mut out));
        let got = match written {
            Ok(()) => String::from_utf8(out).unwrap(),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(got, expected, "{line}");
    }

    #[test]
    fn lines_become_points() {
        check(
            r#"{"id": 5, "vector": [1, 2.50], "payload": {"a": 1}}"#,
            r#"{"id":5,"vector":[1, 2.50],"payload":{"a": 1}}"#,
        );
        check(
            r#"{"vector": {"t": [1]}, "title": "x", "b": [2]}"#,
            r#"{"id":7,"vector":{"t": [1]},"payload":{"title":"x","b":[2]}}"#,
        );
        check(r#"{"vectors": [1]}"#, r#"{"id":7,"vector":[1]}"#);
        check(
            r#"{"vector": [1], "payload": "text"}"#,
            r#"{"id":7,"vector":[1],"payload":{"payload":"text"}}"#,
        );
        check(
            r#"{"id": "6f9619ff-8b86-d011-b42d-00c04fc964ff", "body": "no vector"}"#,
            r#"{"id":"6f9619ff-8b86-d011-b42d-00c04fc964ff","vector":{},"payload":{"body":"no vector"}}"#,
        );
        check(r#"{"vector": [1], "payload": null}"#, r#"{"id":7,"vector":[1]}"#);
        check_as(
            Ids::Line,
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
                "error: the field 'title' stands beside 'payload', which holds all fields of a point: put it in there, or leave 'payload' out",
            );
        }
        check(
            r#"{"id": "six", "vector": [1]}"#,
            r#"error: the id "six" is neither an unsigned integer nor a UUID; --ids line or --ids hash takes it"#,
        );
        check(
            r#"{"id": -1, "vector": [1]}"#,
            r#"error: the id -1 is neither an unsigned integer nor a UUID; --ids line or --ids hash takes it"#,
        );
    }

    #[test]
    fn other_ids_stay_in_the_payload() {
        check(
            r#"{"id": "17", "body": "t"}"#,
            r#"{"id":17,"vector":{},"payload":{"body":"t"}}"#,
        );
        check_as(
            Ids::Line,
            r#"{"id": "six", "body": "t"}"#,
            r#"{"id":7,"vector":{},"payload":{"id":"six","body":"t"}}"#,
        );
        check_as(
            Ids::Hash,
            r#"{"id": "six", "payload": {"body": "t"}}"#,
            r#"{"id":"0a4503fe-9a46-534c-ad4e-07527b35e5e3","vector":{},"payload":{"body":"t","id":"six"}}"#,
        );
        check_as(
            Ids::Hash,
            r#"{"id": "six", "payload": {"id": 6}}"#,
            r#"{"id":"0a4503fe-9a46-534c-ad4e-07527b35e5e3","vector":{},"payload":{"id":6}}"#,
        );
        check_as(Ids::Line, r#"{"vector": [1]}"#, r#"{"id":7,"vector":[1]}"#);
        check_as(
            Ids::Hash,
            r#"{"vector": [1]}"#,
            "error: it has no id, and --ids hash needs one",
        );
    }

    #[test]
    fn layouts() {
        let layout = |line: &str| -> Result<Layout> {
            let vectors = Document::parse(line)?.vectors()?;
            vectors
                .into_iter()
                .map(|(name, dimension)| Ok((name, dimension?)))
                .collect()
        };
        assert_eq!(layout(r#"{"vector":[1,2]}"#).unwrap(), [(String::new(), 2)]);
        assert_eq!(
            layout(r#"{"vector":{"a":[1],"b":[1,2]}}"#).unwrap(),
            [("a".into(), 1), ("b".into(), 2)]
        );
        assert!(layout(r#"{"vector":null}"#).unwrap().is_empty());
        for bad in [
            r#"{"vector":[]}"#,
            r#"{"vector":5}"#,
            r#"{"vector":["a"]}"#,
            r#"{"vector":{"a":[[1]]}}"#,
            r#"{"vector":{"a":{"indices":[1],"values":[1]}}}"#,
            r#"{"vector":{"indices":[1],"values":[1]}}"#,
            r#"{"vector":{"a":{"text":"t","model":"qdrant/bm25"}}}"#,
            r#"{"vector":"text"}"#,
        ] {
            assert!(layout(bad).is_err(), "{bad}");
        }
    }
}
