//! Writes that come to a node which doesn't own the log: they are sent to the one that does, with the identity of who asks.
//!
//! A message of gRPC is sent as the JSON that REST would have. Once the answer is here, this node waits until it has the write itself: who writes and reads
//! through one node reads its own writes.

use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::forwarder::{FORWARDED, ForwardedRequest, NoAnswer};
use super::node::{Node, Role, SLOT, away};
use crate::access::auth::Access;
use crate::answers::answer::Answer;
use crate::answers::out::Out;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::request::api_request::RequestBody;
use crate::request::call::Call;
use crate::request::growing_reservation::GrowingReservation;
use crate::request::request_id::REQUEST_ID;
use crate::request::route::Route;
use crate::threads::pool::spawn_blocking;

/// What tells who asks, and what the request is called in logs.
pub(crate) const PASSED: [HeaderName; 3] = [
    HeaderName::from_static("api-key"),
    header::AUTHORIZATION,
    REQUEST_ID,
];

/// The envelope of an answer, good or bad.
#[derive(Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow)]
    pub result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct Failed {
    pub error: String,
}

/// Sends a request to the node at `owner`, and gives its answer as this node's own.
pub(crate) async fn forward(
    node: &Node,
    route: &'static Route,
    mut call: Call,
    owner: &str,
) -> ApiResult<Answer> {
    let Some(forwarder) = &node.forwarder else {
        let what = format!("Forbidden: this node only reads; writes go to the writer: {owner}");
        return Err(ApiError::new(StatusCode::FORBIDDEN, what));
    };
    let incoming = &call.request.incoming;
    if incoming.headers.contains_key(FORWARDED) {
        return Err(away("this node doesn't write any more".to_owned()));
    }
    let mut headers = HeaderMap::new();
    for name in PASSED {
        if let Some(value) = incoming.headers.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    let own = HeaderValue::try_from(node.log.status().node).map_err(ApiError::internal)?;
    headers.insert(FORWARDED, own);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let url = url_of(owner, route, call.request.params(), &query_of(&call));
    let (written, waits) = (incoming.written.clone(), call.request.query.wait);
    let deadline = call.request.deadline();
    let (body, _text) = body_of(&mut call).await?;
    let answer_bytes_max = limits::FORWARDED_ANSWER_BYTES;
    let mut held = GrowingReservation::default();
    held.at_least(answer_bytes_max, &call.app.responses)?;
    let timeout = deadline.saturating_duration_since(Instant::now()) + limits::FORWARD_GRACE;
    let request = ForwardedRequest {
        method: route.method,
        url,
        headers,
        body,
        timeout,
        answer_bytes_max,
        room: None,
    };
    let answer = tokio::select! {
        answer = forwarder.send(owner, request) => answer,
        why = replaced(node, owner) => Err(NoAnswer::Lost(why)),
    };
    let answer = answer.map_err(|e| unanswered(owner, e))?;
    let parsed = serde_json::from_slice::<Envelope<'_>>(&answer.body).ok();
    let status = StatusCode::from_u16(answer.status).map_err(ApiError::internal)?;
    if !status.is_success() {
        let failed = parsed.and_then(|envelope| serde_json::from_str::<Failed>(envelope.status?.get()).ok());
        let message = failed.map_or_else(
            || format!("the node that writes answered {status}"),
            |failed| failed.error,
        );
        return Err(ApiError {
            retry_after: number(&answer.headers, &header::RETRY_AFTER).map(|seconds| seconds as u32),
            ..ApiError::new(status, message)
        });
    }
    let result = parsed.and_then(|envelope| envelope.result);
    let result =
        result.ok_or_else(|| ApiError::internal("the answer of the node that writes isn't understood"))?;
    if let Some(slot) = number(&answer.headers, &SLOT) {
        written.fetch_max(slot, Ordering::AcqRel);
        if waits || route.access != Access::Write {
            node.has_slot(slot, deadline).await;
        }
    }
    let mut out = Out::new(&call.app.responses);
    out.raw(result.get());
    Ok(Answer::Json(out))
}

/// Until another node owns the log: the one before may be stopped, and its answer far away.
async fn replaced(node: &Node, owner: &str) -> String {
    loop {
        tokio::time::sleep(limits::OWNER_POLL).await;
        let status = node.log.status();
        if status.role == Role::Writer || status.writer.as_deref() != Some(owner) {
            return "another node took over".to_owned();
        }
    }
}

fn unanswered(owner: &str, why: NoAnswer) -> ApiError {
    match why {
        NoAnswer::Busy => {
            let what = "Busy: too many writes wait to be sent to the node that writes";
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, what)
        }
        NoAnswer::NotReached(why) => away(format!("the node that writes isn't reached at {owner}: {why}")),
        NoAnswer::Lost(why) | NoAnswer::TooLong(why) => away(format!(
            "the node that writes didn't answer, whether the write is done isn't known ({owner}: {why})"
        )),
    }
}

pub(crate) fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// The query of a request, as the URL of another one has it.
pub(crate) fn query_of(call: &Call) -> String {
    match call.request.incoming.query.is_empty() {
        true => call.request.query.text(),
        false => call.request.incoming.query.clone(),
    }
}

/// Where a node is asked for a route.
pub(crate) fn url_of(node: &str, route: &Route, params: &[(String, String)], query: &str) -> String {
    let mut url = node.trim_end_matches('/').to_owned();
    for segment in route.path.split('/').skip(1) {
        url.push('/');
        match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(name) => {
                let named = params.iter().find(|(key, _)| key == name);
                let value = named.map_or("", |(_, value)| value.as_str());
                url.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
            }
            None => url.push_str(segment),
        }
    }
    if !query.is_empty() {
        url.push('?');
        url.push_str(query);
    }
    url
}

/// The body as JSON, and what is held for it beside what the request holds.
pub(crate) async fn body_of(call: &mut Call) -> ApiResult<(Bytes, GrowingReservation)> {
    let (message, bytes) = match call.request.take_body() {
        RequestBody::Json(body) => return Ok((body, GrowingReservation::default())),
        RequestBody::Message(message, bytes) => (message, bytes),
    };
    let most = bytes as u64 * limits::JSON_OF_MESSAGE + limits::FORWARDED_ANSWER_BYTES;
    // At once or not at all: it holds the message already.
    let mut held = GrowingReservation::default();
    held.at_least(most, &call.app.requests)?;
    let text = match bytes <= limits::PARSE_INLINE_BYTES {
        true => message.text(),
        false => spawn_blocking(move || message.text())
            .await
            .map_err(ApiError::internal)?,
    };
    Ok((text.map_err(ApiError::wrong_input)?.into(), held))
}
