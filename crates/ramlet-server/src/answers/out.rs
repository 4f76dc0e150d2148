//! Answers: JSON written straight into bytes that are reserved as they grow.

use std::time::Instant;

use ramlet::{NamedVectors, OrderValue, PointId, Record, ScoredPoint, ShardKey};
use ramlet_memory::{Consumer, OverBudget, size};
use ramlet_proto::wire::put_message;
use serde::Serialize;

use super::pieces::{Mark, PIECE, Pieces, Sent};
use crate::error::{ApiError, ApiResult};
use crate::grpc::FRAME_HEAD;
use crate::grpc::responses::points as messages;
use crate::limits;
use crate::request::growing_reservation::GrowingReservation;

/// How points stand in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    #[default]
    Json,
    /// JSON that isn't streamed: all of it is in memory before anything is sent.
    WholeJson,
    /// As protobuf messages beside the JSON, fields of this number; in the JSON stands how many bytes each has.
    Messages(u32),
}

/// The answer `{"result": ..., "status": "ok", "time": ...}` under construction.
///
/// Bytes are reserved from "responses" a piece ahead, and held until each piece is sent. What is held grows at once or not at
/// all: then the writer stops growing, and the answer either goes back to its last whole point ([`Out::back_to`]) or fails
/// ([`Out::finish`]).
pub struct Out {
    bytes: Pieces,
    form: Form,
    /// Points of the form [`Form::Messages`].
    messages: Pieces,
    held: GrowingReservation,
    from: Consumer,
    /// Bytes held for what the engine hands over to be written.
    expected: u64,
    failed: Option<Failure>,
}

/// Why an answer can't be written on.
#[derive(Debug, Clone)]
enum Failure {
    /// There is no memory for what comes now.
    Short(OverBudget),
    Other(ApiError),
}

/// A place in an answer to go back to.
pub struct Place(Mark, Mark);

impl Out {
    /// An answer that begins its `result`.
    pub fn new(from: &Consumer) -> Out {
        let mut out = Out::part(from);
        out.raw("{\"result\":");
        out
    }

    /// A further piece of an answer that was begun.
    pub fn part(from: &Consumer) -> Out {
        Out::within(GrowingReservation::default(), 0, Form::Json, from)
    }

    /// A piece of an answer whose points stand in `form`, with what is held for it: `expected` of that for what the engine
    /// hands over.
    pub fn within(held: GrowingReservation, expected: u64, form: Form, from: &Consumer) -> Out {
        Out {
            bytes: Pieces::default(),
            form,
            messages: Pieces::default(),
            held,
            from: from.clone(),
            expected,
            failed: None,
        }
    }

    /// Whether the answer's length stands in front of it.
    pub fn comes_whole(&self) -> bool {
        self.form != Form::Json
    }

    pub fn is_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Bytes written.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.messages.len()
    }

    /// Makes room for `more` bytes in a row of what `of` chooses.
    fn room(&mut self, more: usize, of: fn(&mut Out) -> (&mut Pieces, usize)) -> bool {
        if self.failed.is_some() {
            return false;
        }
        if (self.len() + more) as u64 > limits::RESPONSE_BYTES {
            self.failed = Some(Failure::Other(too_large()));
            return false;
        }
        let mut held = std::mem::take(&mut self.held);
        let (expected, from) = (self.expected, self.from.clone());
        let mut short = None;
        let (pieces, others) = of(self);
        let made = pieces.make_room(more, |bytes| {
            let all = expected.saturating_add((bytes + others) as u64);
            short = held.at_least(all, &from).err();
            short.is_none()
        });
        self.held = held;
        self.failed = short.map(Failure::Short);
        made
    }

    fn json(&mut self) -> (&mut Pieces, usize) {
        (&mut self.bytes, self.messages.capacity())
    }

    fn points(&mut self) -> (&mut Pieces, usize) {
        (&mut self.messages, self.bytes.capacity())
    }

    /// Here a point begins, or something else that is whole or not there.
    pub fn place(&self) -> Place {
        Place(self.bytes.mark(), self.messages.mark())
    }

    /// Forgets what was written since, if there was no memory for it; whether it was so.
    pub fn back_to(&mut self, place: &Place) -> bool {
        if !matches!(self.failed, Some(Failure::Short(_))) {
            return false;
        }
        self.failed = None;
        self.bytes.back_to(place.0);
        self.messages.back_to(place.1);
        true
    }

    pub fn raw(&mut self, text: &str) {
        self.raw_bytes(text.as_bytes());
    }

    /// Bytes that are JSON already.
    pub fn raw_bytes(&mut self, mut json: &[u8]) {
        while self.failed.is_none() {
            let (now, later) = json.split_at(json.len().min(self.bytes.free()));
            self.bytes.last.extend_from_slice(now);
            if later.is_empty() || !self.room(later.len().min(PIECE), Out::json) {
                return;
            }
            json = later;
        }
    }

    /// Any serialisable value.
    pub fn value<T: Serialize + ?Sized>(&mut self, value: &T) {
        let result = serde_json::to_writer(&mut *self, value);
        if let Err(e) = result
            && self.failed.is_none()
        {
            self.failed = Some(Failure::Other(ApiError::internal(e)));
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
        let more = FRAME_HEAD + bytes_max;
        if self.failed.is_some() || (self.messages.free() < more && !self.room(more, Out::points)) {
            return;
        }
        let first = self.messages.len() == 0;
        let out = &mut self.messages.last;
        if first {
            out.resize(FRAME_HEAD, 0);
        }
        let before = out.len();
        match put_message(out, field, write) {
            Ok(()) => {
                let bytes = out.len() - before;
                self.value(&bytes);
            }
            Err(e) => self.failed = Some(Failure::Other(ApiError::internal(e))),
        }
    }

    fn id(&mut self, id: PointId) {
        self.raw("{\"id\":");
        self.value(&id);
    }

    fn body(
        &mut self,
        payload: Option<&[u8]>,
        vectors: Option<&NamedVectors>,
        shard_key: Option<&ShardKey>,
        order: Option<OrderValue>,
    ) {
        if let Some(payload) = payload {
            self.raw(",\"payload\":");
            self.raw_bytes(if payload.is_empty() { b"{}" } else { payload });
        }
        if let Some(vectors) = vectors {
            self.raw(",\"vector\":");
            self.vectors(vectors);
        }
        if let Some(key) = shard_key {
            self.raw(",\"shard_key\":");
            self.value(key);
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
            return self.message(field, messages::record_bytes(record), |out| {
                messages::record(out, record)
            });
        }
        self.id(record.id);
        self.body(
            record.payload.as_deref(),
            record.vectors.as_ref(),
            record.shard_key.as_deref(),
            record.order_value,
        );
    }

    pub fn hit(&mut self, hit: &ScoredPoint) {
        if let Form::Messages(field) = self.form {
            return self.message(field, messages::hit_bytes(hit), |out| messages::hit(out, hit));
        }
        self.id(hit.id);
        self.scored(hit.version, hit.score);
        if let Some(highlights) = &hit.highlights {
            self.raw(",\"highlights\":");
            self.raw_bytes(highlights);
        }
        self.body(
            hit.payload.as_deref(),
            hit.vectors.as_ref(),
            hit.shard_key.as_deref(),
            hit.order_value,
        );
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
    pub fn finish(mut self, start: Instant) -> ApiResult<Sent> {
        self.close(start);
        self.into_sent()
    }

    /// What was written so far: JSON, points as messages behind [`FRAME_HEAD`] free bytes, and the bytes held for both.
    pub fn into_parts(self) -> ApiResult<(Vec<u8>, Pieces, GrowingReservation)> {
        self.check()?;
        let mut json = self.bytes.into_vecs();
        let json = if json.len() == 1 {
            json.swap_remove(0)
        } else {
            json.concat()
        };
        Ok((json, self.messages, self.held))
    }

    /// What opens the answer, as a copy: some bytes beside what is held, which is given back.
    pub fn into_head(self) -> ApiResult<Vec<u8>> {
        self.check()?;
        Ok(self.bytes.into_vecs().concat())
    }

    /// What was written so far, with its reservation.
    pub fn into_sent(self) -> ApiResult<Sent> {
        self.check()?;
        Ok(self.bytes.into_sent(self.held))
    }

    /// Why the answer can't be written, if it can't.
    pub fn check(&self) -> ApiResult<()> {
        match &self.failed {
            None => Ok(()),
            Some(Failure::Short(e)) => Err(refused_whole(e)),
            Some(Failure::Other(e)) => Err(e.clone()),
        }
    }
}

/// What a client is told whose answer has to be in memory as a whole, and isn't to be had. More than a quarter of the account isn't waited for: the points that
/// are written are in memory as well.
pub fn refused_whole(e: &OverBudget) -> ApiError {
    let most = e.limit / 4;
    let mut told = ApiError::from(OverBudget {
        limit: most,
        ..e.clone()
    });
    told.message.push_str(&format!(
        ". An answer in one piece may have {} here: ask for fewer points (limit), for less of each \
         (with_payload, with_vectors), or for one search at a time",
        size(most)
    ));
    told
}

fn too_large() -> ApiError {
    let message = format!(
        "the response is larger than the limit of {}. Waiting doesn't help: ask for fewer points",
        size(limits::RESPONSE_BYTES)
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
        self.raw_bytes(buf);
        match self.failed {
            None => Ok(buf.len()),
            Some(_) => Err(std::io::Error::other("the answer doesn't fit")),
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
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
        let text = String::from_utf8(bytes.0.iter().flatten().copied().collect()).unwrap();
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
            shard_key: None,
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
            shard_key: None,
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
