//! Answers: JSON written straight into bytes that are reserved as they grow.

use std::time::Instant;

use bytes::Bytes;
use ramlet::{NamedVectors, OrderValue, PointId, Record, ScoredPoint};
use ramlet_memory::Consumer;
use ramlet_proto::wire::put_message;
use serde::Serialize;

use crate::admission::Held;
use crate::error::{ApiError, ApiResult};
use crate::grpc::FRAME_HEAD;
use crate::grpc::tell::points as tell;
use crate::limits;

/// How points stand in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    #[default]
    Json,
    /// As protobuf messages beside the JSON, fields of this number; in the JSON stands how many bytes each has.
    Messages(u32),
}

/// The answer `{"result": ..., "status": "ok", "time": ...}` under construction.
///
/// Bytes are reserved from "responses" a step ahead, and held until the last of them is sent.
/// A failure on the way is kept and told by [`Out::finish`]; the writer then stops growing.
pub struct Out {
    bytes: Vec<u8>,
    form: Form,
    /// Points of the form [`Form::Messages`].
    messages: Vec<u8>,
    held: Held,
    from: Consumer,
    /// Bytes held for what the engine hands over to be written.
    expected: u64,
    failed: Option<ApiError>,
}

impl Out {
    /// An answer that begins its `result`.
    pub fn new(from: &Consumer) -> Out {
        let mut out = Out::part(from);
        out.raw("{\"result\":");
        out
    }

    /// An answer whose points stand in `form`.
    pub fn of(form: Form, from: &Consumer) -> Out {
        let mut out = Out::new(from);
        out.form = form;
        out
    }

    /// A further piece of an answer that was begun.
    pub fn part(from: &Consumer) -> Out {
        Out {
            bytes: Vec::new(),
            form: Form::Json,
            messages: Vec::new(),
            held: Held::default(),
            from: from.clone(),
            expected: 0,
            failed: None,
        }
    }

    /// Reserves `bytes` for what the engine is about to hand over, so that nothing is computed that can't be sent.
    pub fn expect(&mut self, bytes: u64) -> ApiResult<()> {
        self.expected = bytes;
        self.hold((self.bytes.capacity() + self.messages.capacity()) as u64);
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// The same; what is taken just now is waited for as [`Held::in_time`] does.
    pub async fn expect_in_time(&mut self, bytes: u64) -> ApiResult<()> {
        let written = (self.bytes.capacity() + self.messages.capacity()) as u64;
        self.held
            .in_time(bytes.saturating_add(written), &self.from)
            .await?;
        self.expect(bytes)
    }

    fn hold(&mut self, written: u64) {
        if self.failed.is_none()
            && let Err(e) = self
                .held
                .at_least(self.expected.saturating_add(written), &self.from)
        {
            self.failed = Some(e.into());
        }
    }

    pub fn is_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn room(&mut self, more: usize) -> bool {
        if self.failed.is_some() {
            return false;
        }
        if self.bytes.len() + more <= self.bytes.capacity() {
            return true;
        }
        let Some(target) = self.grown(&self.bytes, more, &self.messages) else {
            self.failed = Some(too_large());
            return false;
        };
        self.hold(target + (self.bytes.capacity() + self.messages.capacity()) as u64);
        if self.failed.is_none() {
            self.bytes.reserve_exact(target as usize - self.bytes.len());
        }
        self.failed.is_none()
    }

    /// As [`Out::room`], for points of the form [`Form::Messages`].
    fn room_for_message(&mut self, more: usize) -> bool {
        if self.failed.is_some() {
            return false;
        }
        if self.messages.len() + more <= self.messages.capacity() {
            return true;
        }
        let Some(target) = self.grown(&self.messages, more, &self.bytes) else {
            self.failed = Some(too_large());
            return false;
        };
        self.hold(target + (self.bytes.capacity() + self.messages.capacity()) as u64);
        if self.failed.is_none() {
            self.messages.reserve_exact(target as usize - self.messages.len());
        }
        self.failed.is_none()
    }

    /// The capacity that makes room for `more` bytes, if the answer may have so many.
    fn grown(&self, bytes: &[u8], more: usize, others: &[u8]) -> Option<u64> {
        let len = (bytes.len() + more) as u64;
        if len + others.len() as u64 > limits::RESPONSE_BYTES {
            return None;
        }
        // By half, in whole steps: old and new copy exist together for a moment.
        Some(if bytes.is_empty() && len <= 512 {
            512
        } else {
            (len + len / 2).next_multiple_of(limits::RESPONSE_STEP_BYTES.min(len.next_power_of_two()))
        })
    }

    pub fn raw(&mut self, text: &str) {
        self.raw_bytes(text.as_bytes());
    }

    /// Bytes that are JSON already.
    pub fn raw_bytes(&mut self, json: &[u8]) {
        if self.room(json.len()) {
            self.bytes.extend_from_slice(json);
        }
    }

    /// Any serialisable value.
    pub fn value<T: Serialize + ?Sized>(&mut self, value: &T) {
        let result = serde_json::to_writer(&mut *self, value);
        if let Err(e) = result
            && self.failed.is_none()
        {
            self.failed = Some(ApiError::internal(e));
        }
    }

    /// A list whose items come one by one.
    pub fn open_list(&mut self) -> ListOut<'_> {
        self.raw("[");
        ListOut {
            out: self,
            first: true,
        }
    }

    /// A point as a message; its length stands in the JSON.
    fn message(
        &mut self,
        field: u32,
        bytes_max: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
    ) {
        if !self.room_for_message(FRAME_HEAD + bytes_max) {
            return;
        }
        if self.messages.is_empty() {
            self.messages.resize(FRAME_HEAD, 0);
        }
        let before = self.messages.len();
        match put_message(&mut self.messages, field, write) {
            Ok(()) => self.value(&(self.messages.len() - before)),
            Err(e) => self.failed = Some(ApiError::internal(e)),
        }
    }

    fn id(&mut self, id: PointId) {
        self.raw("{\"id\":");
        self.value(&id);
    }

    fn body(&mut self, payload: Option<&[u8]>, vectors: Option<&NamedVectors>, order: Option<OrderValue>) {
        if let Some(payload) = payload {
            self.raw(",\"payload\":");
            self.raw_bytes(if payload.is_empty() { b"{}" } else { payload });
        }
        if let Some(vectors) = vectors {
            self.raw(",\"vector\":");
            self.vectors(vectors);
        }
        if let Some(order) = order {
            self.raw(",\"order_value\":");
            self.value(&order);
        }
        self.raw("}");
    }

    /// The default vector alone as a list, otherwise a map by name.
    fn vectors(&mut self, vectors: &NamedVectors) {
        if let [(name, vector)] = vectors.as_slice()
            && name == ramlet::DEFAULT_VECTOR
        {
            return self.value(vector);
        }
        self.raw("{");
        for (i, (name, vector)) in vectors.iter().enumerate() {
            if i > 0 {
                self.raw(",");
            }
            self.value(name);
            self.raw(":");
            self.value(vector);
        }
        self.raw("}");
    }

    pub fn record(&mut self, record: &Record) {
        if let Form::Messages(field) = self.form {
            return self.message(field, tell::record_bytes(record), |out| tell::record(out, record));
        }
        self.id(record.id);
        self.body(
            record.payload.as_deref(),
            record.vectors.as_ref(),
            record.order_value,
        );
    }

    pub fn hit(&mut self, hit: &ScoredPoint) {
        if let Form::Messages(field) = self.form {
            return self.message(field, tell::hit_bytes(hit), |out| tell::hit(out, hit));
        }
        self.id(hit.id);
        self.scored(hit.version, hit.score);
        if let Some(highlights) = &hit.highlights {
            self.raw(",\"highlights\":");
            self.raw_bytes(highlights);
        }
        self.body(hit.payload.as_deref(), hit.vectors.as_ref(), hit.order_value);
    }

    fn scored(&mut self, version: u64, score: f32) {
        self.raw(",\"version\":");
        self.value(&version);
        self.raw(",\"score\":");
        self.value(&score);
    }

    /// Ends the envelope.
    pub fn close(&mut self, start: Instant) {
        self.raw(",\"status\":\"ok\",\"time\":");
        self.value(&start.elapsed().as_secs_f64());
        self.raw("}");
    }

    /// The whole answer. The bytes carry their reservation with them.
    pub fn finish(mut self, start: Instant) -> ApiResult<Bytes> {
        self.close(start);
        self.into_bytes()
    }

    /// What was written so far: JSON, points as messages behind [`FRAME_HEAD`] free bytes, and the bytes held for both.
    pub fn into_parts(self) -> ApiResult<(Vec<u8>, Vec<u8>, Held)> {
        match self.failed {
            Some(e) => Err(e),
            None => Ok((self.bytes, self.messages, self.held)),
        }
    }

    /// What was written so far, with its reservation.
    pub fn into_bytes(self) -> ApiResult<Bytes> {
        match self.failed {
            Some(e) => Err(e),
            None => Ok(with_held(self.bytes, self.held)),
        }
    }
}

/// Bytes on their way out that give back what is held for them when they are sent.
pub fn with_held(bytes: Vec<u8>, held: Held) -> Bytes {
    Bytes::from_owner(Sent { bytes, _held: held })
}

fn too_large() -> ApiError {
    let message = format!(
        "the answer is larger than the {} bytes that one answer may have; ask for fewer points",
        limits::RESPONSE_BYTES
    );
    ApiError::new(axum::http::StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// A list under construction.
pub struct ListOut<'a> {
    out: &'a mut Out,
    first: bool,
}

impl ListOut<'_> {
    pub fn item<T>(&mut self, write: impl FnOnce(&mut Out) -> T) -> T {
        if !std::mem::take(&mut self.first) {
            self.out.raw(",");
        }
        write(self.out)
    }

    pub fn close(self) {
        self.out.raw("]");
    }
}

impl std::io::Write for Out {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        if !self.room(buf.len()) {
            return Err(std::io::Error::other("the answer doesn't fit"));
        }
        self.bytes.extend_from_slice(buf);
        Ok(buf.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Sent {
    bytes: Vec<u8>,
    _held: Held,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramlet_memory::Ledger;

    fn text(fill: impl FnOnce(&mut Out)) -> String {
        let ledger = Ledger::new(1 << 20);
        let mut out = Out::new(&ledger.consumer("responses", u64::MAX));
        fill(&mut out);
        let bytes = out.finish(Instant::now()).unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (result, rest) = text
            .strip_prefix("{\"result\":")
            .unwrap()
            .split_once(",\"status\":\"ok\"")
            .unwrap();
        assert!(rest.starts_with(",\"time\":") && rest.ends_with('}'), "{rest}");
        result.to_owned()
    }

    #[test]
    fn records_embed_payload_bytes_and_vectors() {
        let record = Record {
            id: PointId::Num(7),
            payload: Some(br#"{"a": [1, 2]}"#.to_vec()),
            vectors: Some(vec![(String::new(), vec![0.1, -2.0].into())]),
            order_value: Some(OrderValue::Int(3)),
        };
        assert_eq!(
            text(|o| o.record(&record)),
            r#"{"id":7,"payload":{"a": [1, 2]},"vector":[0.1,-2.0],"order_value":3}"#
        );
        let bare = Record {
            payload: None,
            vectors: None,
            order_value: None,
            ..record
        };
        assert_eq!(text(|o| o.record(&bare)), r#"{"id":7}"#);
        let empty = Record {
            payload: Some(Vec::new()),
            vectors: Some(Vec::new()),
            ..bare
        };
        assert_eq!(text(|o| o.record(&empty)), r#"{"id":7,"payload":{},"vector":{}}"#);
    }

    #[test]
    fn hits_have_version_and_score() {
        let hit = ScoredPoint {
            id: PointId::Uuid(1),
            order_value: None,
            highlights: None,
            score: 0.25,
            version: 9,
            payload: None,
            vectors: Some(vec![("a\"b".into(), vec![1.0].into())]),
        };
        assert_eq!(
            text(|o| {
                let mut list = o.open_list();
                list.item(|o| o.hit(&hit));
                list.item(|o| o.raw("0"));
                list.close();
            }),
            r#"[{"id":"00000000-0000-0000-0000-000000000001","version":9,"score":0.25,"vector":{"a\"b":[1.0]}},0]"#
        );
    }

    #[test]
    fn an_answer_beyond_the_budget_is_refused_and_gives_back_its_bytes() {
        let ledger = Ledger::new(100_000);
        let responses = ledger.consumer("responses", u64::MAX);
        let mut out = Out::new(&responses);
        out.raw_bytes(&[b' '; 60_000]);
        out.raw_bytes(&[b' '; 60_000]);
        let e = out.finish(Instant::now()).unwrap_err();
        assert_eq!(e.status.as_u16(), 413, "{e:?}");
        assert!(responses.reserve(100_000).is_ok(), "all given back");
    }

    #[test]
    fn bytes_are_held_until_they_are_sent() {
        let ledger = Ledger::new(100_000);
        let responses = ledger.consumer("responses", u64::MAX);
        let mut out = Out::new(&responses);
        out.raw_bytes(&[b' '; 20_000]);
        let bytes = out.finish(Instant::now()).unwrap();
        assert!(responses.reserve(90_000).is_err());
        drop(bytes);
        assert!(responses.reserve(90_000).is_ok());
    }
}
