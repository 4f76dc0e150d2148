//! Responses: a handler's `result`, encoded as a message. One file per noun of the API.

pub mod collections;
pub mod group_messages;
pub mod points;
pub mod snapshots;

use ramlet_proto::{Message, qdrant as q};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::FRAME_HEAD;
use crate::error::{ApiError, ApiResult};

/// What a handler answered.
pub struct HandlerResult {
    /// `{"result": ...}` without points; where they stand there are their lengths.
    pub json: Vec<u8>,
    /// Points as fields of the answer's list, behind [`FRAME_HEAD`] free bytes.
    pub messages: Vec<u8>,
    /// Seconds.
    pub time: f64,
}

/// Writes the answer's message, behind [`FRAME_HEAD`] free bytes.
pub type Encode = fn(HandlerResult) -> ApiResult<Vec<u8>>;

impl HandlerResult {
    pub fn result<T: DeserializeOwned>(&self) -> ApiResult<T> {
        #[derive(Deserialize)]
        struct Envelope<T> {
            result: T,
        }
        let envelope: Envelope<T> = serde_json::from_slice(&self.json).map_err(ApiError::internal)?;
        Ok(envelope.result)
    }

    /// `rest` behind the points as they are.
    fn with_points(mut self, rest: &impl Message) -> ApiResult<Vec<u8>> {
        self.messages.resize(self.messages.len().max(FRAME_HEAD), 0);
        rest.encode(&mut self.messages).map_err(ApiError::internal)?;
        Ok(self.messages)
    }

    /// Points in their order, to be taken by their lengths.
    fn points(&self) -> Points<'_> {
        Points(self.messages.get(FRAME_HEAD..).unwrap_or_default())
    }
}

/// A message without points.
pub fn message(message: &impl Message) -> ApiResult<Vec<u8>> {
    let mut out = Vec::with_capacity(FRAME_HEAD + message.encoded_len());
    out.resize(FRAME_HEAD, 0);
    message.encode(&mut out).map_err(ApiError::internal)?;
    Ok(out)
}

/// The points that aren't placed yet.
struct Points<'a>(&'a [u8]);

impl<'a> Points<'a> {
    fn take(&mut self, lengths: &[usize]) -> ApiResult<&'a [u8]> {
        let (now, rest) = self
            .0
            .split_at_checked(lengths.iter().sum())
            .ok_or_else(|| ApiError::internal("the answer has fewer points than it says"))?;
        self.0 = rest;
        Ok(now)
    }
}

/// A list of points by their lengths, plain or as `{"points": ..}`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lengths {
    Plain(Vec<usize>),
    Under { points: Vec<usize> },
}

impl Lengths {
    fn of(&self) -> &[usize] {
        match self {
            Lengths::Plain(list) | Lengths::Under { points: list } => list,
        }
    }
}

/// Search, query, recommend, discover: `QueryResponse` and those with the same fields.
pub fn hits(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    let rest = q::QueryResponse {
        result: Vec::new(),
        time: handled.time,
        usage: None,
    };
    handled.with_points(&rest)
}

/// `QueryBatchResponse` and those with the same fields.
pub fn batches(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    let lists: Vec<Lengths> = handled.result()?;
    let mut out = Vec::with_capacity(FRAME_HEAD + handled.messages.len() + 8 * lists.len() + 16);
    out.resize(FRAME_HEAD, 0);
    let mut points = handled.points();
    for list in &lists {
        ramlet_proto::wire::put_bytes(&mut out, 1, points.take(list.of())?);
    }
    let rest = q::QueryBatchResponse {
        result: Vec::new(),
        time: handled.time,
        usage: None,
    };
    rest.encode(&mut out).map_err(ApiError::internal)?;
    Ok(out)
}

pub fn got(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    let rest = q::GetResponse {
        result: Vec::new(),
        time: handled.time,
        usage: None,
    };
    handled.with_points(&rest)
}

/// A point's id in JSON, as a message.
fn id(json: &Value) -> Option<q::PointId> {
    use q::point_id::PointIdOptions::{Num, Uuid};
    let id = match json {
        Value::Number(n) => Num(n.as_u64()?),
        Value::String(text) => Uuid(text.clone()),
        _ => return None,
    };
    Some(q::PointId {
        point_id_options: Some(id),
    })
}

pub fn scrolled(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    #[derive(Deserialize)]
    struct Page {
        next_page_offset: Option<Value>,
        #[serde(rename = "points")]
        _points: IgnoredAny,
    }
    let page: Page = handled.result()?;
    let rest = q::ScrollResponse {
        next_page_offset: page.next_page_offset.as_ref().and_then(id),
        result: Vec::new(),
        time: handled.time,
        usage: None,
    };
    handled.with_points(&rest)
}

pub fn counted(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    #[derive(Deserialize)]
    struct Count {
        count: u64,
    }
    let Count { count } = handled.result()?;
    message(&q::CountResponse {
        result: Some(q::CountResult { count }),
        time: handled.time,
        usage: None,
    })
}

#[derive(Deserialize)]
struct Updated {
    operation_id: Option<u64>,
    status: String,
}

impl Updated {
    fn message(self) -> q::UpdateResult {
        let status = match self.status.as_str() {
            "acknowledged" => q::UpdateStatus::Acknowledged,
            "completed" => q::UpdateStatus::Completed,
            "wait_timeout" => q::UpdateStatus::WaitTimeout,
            _ => q::UpdateStatus::UnknownUpdateStatus,
        };
        q::UpdateResult {
            operation_id: self.operation_id,
            status: status.into(),
        }
    }
}

pub fn updated(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    // Some changes are told as done and nothing more.
    let result = match handled.result::<Updated>() {
        Ok(updated) => updated.message(),
        Err(_) => q::UpdateResult {
            operation_id: None,
            status: q::UpdateStatus::Completed.into(),
        },
    };
    message(&q::PointsOperationResponse {
        result: Some(result),
        time: handled.time,
        usage: None,
    })
}

pub fn updated_all(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    let all: Vec<Updated> = handled.result()?;
    let result = all.into_iter().map(Updated::message).collect();
    message(&q::UpdateBatchResponse {
        result,
        time: handled.time,
        usage: None,
    })
}

/// `HealthCheck` of the API: who answers.
pub fn version(handled: HandlerResult) -> ApiResult<Vec<u8>> {
    let json: Value = serde_json::from_slice(&handled.json).map_err(ApiError::internal)?;
    let text = |name: &str| {
        json.get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    message(&q::HealthCheckReply {
        title: text("title"),
        version: text("version"),
        commit: Some(text("commit")),
    })
}
