//! What a handler answers with, and the response that it becomes.

use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use super::out::Out;
use super::pieces::Sent;
use super::stream::Stream;
use crate::error::ApiError;

/// What a handler answers with.
pub enum Answer {
    /// The envelope; the time is put in at the end.
    Json(Out),
    /// A long list, sent while it is read.
    Stream(Stream),
    /// A response of the handler's own.
    Whole(Response),
    /// Anything else: health checks, metrics, the version.
    Plain {
        status: StatusCode,
        content_type: &'static str,
        body: String,
    },
}

impl Answer {
    pub fn text(body: impl Into<String>) -> Answer {
        Answer::Plain {
            status: StatusCode::OK,
            content_type: TEXT,
            body: body.into(),
        }
    }
}

const TEXT: &str = "text/plain; charset=utf-8";

/// A text whose bytes are held until they are sent.
pub fn text_of(body: Sent) -> Response {
    respond(StatusCode::OK, TEXT, body_of(body))
}

pub fn body_of(mut answer: Sent) -> Body {
    match answer.0.pop_front() {
        Some(only) if answer.0.is_empty() => only.into(),
        Some(first) => {
            answer.0.push_front(first);
            Body::new(answer)
        }
        None => Body::empty(),
    }
}

pub fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// `{"status":{"error":...},"time":...}` with the headers that belong to the code.
pub fn refuse(e: &ApiError, start: Instant) -> Response {
    #[derive(serde::Serialize)]
    struct Status<'a> {
        error: &'a str,
    }
    #[derive(serde::Serialize)]
    struct Envelope<'a> {
        status: Status<'a>,
        time: f64,
    }
    let envelope = Envelope {
        status: Status { error: &e.message },
        time: start.elapsed().as_secs_f64(),
    };
    let body = serde_json::to_vec(&envelope).unwrap_or_default();
    let mut response = respond(e.status, "application/json", body);
    if let Some(bytes) = e.budget {
        response.extensions_mut().insert(bytes);
    }
    let headers = response.headers_mut();
    if let Some(seconds) = e.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if e.status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
