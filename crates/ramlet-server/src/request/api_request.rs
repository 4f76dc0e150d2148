//! A request: path, headers and body.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::HeaderMap;
use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::params::QueryParams;
use crate::answers::out::Form;
use crate::error::{ApiError, ApiResult};
use crate::grpc::node::{self, Node};
use crate::limits;
use crate::observability::steps::Steps;

/// A request, the same for REST and gRPC.
pub struct ApiRequest {
    params: Vec<(String, String)>,
    pub query: QueryParams,
    pub incoming: Incoming,
    body: RequestBody,
    /// How the answer's points are to be written.
    pub form: Form,
    /// When it came.
    pub start: Instant,
    /// So long the client waits (`grpc-timeout`). Clients send it with every call, so strict mode doesn't look at it.
    pub client_timeout: Option<Duration>,
    /// What it spends its time on, where somebody wants to know.
    pub steps: Option<Arc<Steps>>,
}

impl ApiRequest {
    pub fn new(
        params: Vec<(String, String)>,
        query: QueryParams,
        (body, form): (RequestBody, Form),
        start: Instant,
    ) -> ApiRequest {
        ApiRequest {
            params,
            query,
            incoming: Incoming::default(),
            body,
            form,
            start,
            client_timeout: None,
            steps: None,
        }
    }

    /// The same, with what some handlers read themselves.
    pub fn with(self, incoming: Incoming) -> ApiRequest {
        ApiRequest { incoming, ..self }
    }

    /// The same, whose steps are noted where they are given.
    pub fn noted(self, steps: Option<Arc<Steps>>) -> ApiRequest {
        ApiRequest { steps, ..self }
    }

    /// The same with another body, as JSON.
    pub fn with_body(self, body: Bytes) -> ApiRequest {
        let body = RequestBody::Json(body);
        ApiRequest { body, ..self }
    }

    /// A parameter of the path, percent-decoded.
    pub fn param(&self, name: &str) -> &str {
        self.params
            .iter()
            .find(|(key, _)| key == name)
            .map_or("", |(_, value)| value)
    }

    /// All parameters of the path.
    pub fn params(&self) -> &[(String, String)] {
        &self.params
    }

    /// Whether it came by gRPC.
    pub fn is_message(&self) -> bool {
        matches!(self.body, RequestBody::Message(..))
    }

    /// The body, once.
    pub fn take_body(&mut self) -> RequestBody {
        std::mem::replace(&mut self.body, RequestBody::Json(Bytes::new()))
    }

    /// Since the request came.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// When a read of it is given up.
    pub fn deadline(&self) -> Instant {
        let given = self.query.timeout.into_iter().chain(self.client_timeout);
        self.start + given.min().unwrap_or(limits::READ_TIMEOUT)
    }
}

/// The body of a request.
pub enum RequestBody {
    Json(Bytes),
    /// A message in the shape of JSON, and the bytes it came in.
    Message(Node, usize),
}

impl RequestBody {
    pub fn read<T: DeserializeOwned>(self) -> ApiResult<T> {
        match self {
            RequestBody::Json(body) => serde_json::from_slice(&body).map_err(ApiError::format),
            RequestBody::Message(node, _) => node::read(node).map_err(ApiError::wrong_input),
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            RequestBody::Json(body) => body.len(),
            RequestBody::Message(_, bytes) => *bytes,
        }
    }
}

/// The request as it came, for the few handlers that read it themselves.
#[derive(Default)]
pub struct Incoming {
    /// Behind the question mark, as it is.
    pub query: String,
    pub headers: HeaderMap,
    /// The slot that another node wrote for it.
    pub written: Arc<AtomicU64>,
    /// `HEAD`: the answer's body isn't sent.
    pub head_only: bool,
    /// Of routes whose body isn't read before the handler. Never locked: a body can't be shared, a lock can.
    pub body: Mutex<Body>,
}
