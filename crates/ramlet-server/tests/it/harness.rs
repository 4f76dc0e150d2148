//! An engine in RAM, a router over it, and requests in one line.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Frame;
use ramlet::{Engine, EngineOptions};
use ramlet_io::RamStorage;
use ramlet_memory::{BudgetRequest, BudgetTable, Ledger};
use ramlet_server::{App, ServerOptions, router};
use serde_json::Value;
use tower::ServiceExt;

pub const MEMORY: u64 = 64 << 20;

pub fn engine() -> Arc<Engine> {
    engine_with(BudgetTable::plan(BudgetRequest::new(MEMORY, 1)).expect("enough memory"))
}

pub fn engine_with(budget: BudgetTable) -> Arc<Engine> {
    let ledger = Ledger::new(budget.ledger_limit());
    let options = EngineOptions {
        budget,
        ledger,
        seed: 1,
        log_file_bytes: None,
    };
    Engine::open(Arc::new(RamStorage::new(None)), options).expect("an engine in RAM")
}

pub fn options() -> ServerOptions {
    options_of(engine())
}

pub fn options_of(engine: Arc<Engine>) -> ServerOptions {
    let mut options = ServerOptions::new(engine);
    options.request_bytes = 8 << 20;
    options.response_bytes = 8 << 20;
    options
}

/// A router and its engine.
pub struct Server {
    pub router: Router,
    pub engine: Arc<Engine>,
}

pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.body))
    }
    pub fn error(&self) -> String {
        self.json()["status"]["error"]
            .as_str()
            .unwrap_or_else(|| panic!("no error: {:?}", self.body))
            .to_owned()
    }
    /// The result of a request that was meant to succeed.
    pub fn result(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{:?}", self.body);
        let json = self.json();
        assert_eq!(json["status"], "ok");
        assert!(json["time"].as_f64().is_some_and(|t| t >= 0.0), "{json}");
        json["result"].clone()
    }
}

impl Server {
    pub fn new(options: ServerOptions) -> Server {
        let engine = options.engine.clone();
        Server {
            router: router(App::new(options)),
            engine,
        }
    }
    pub fn open() -> Server {
        Server::new(options())
    }

    pub async fn send(&self, request: Request<Body>) -> Reply {
        let response = self
            .router
            .clone()
            .oneshot(request)
            .await
            .expect("the router is infallible");
        let (parts, mut stream) = response.into_parts();
        // Copied frame by frame, as a socket would: kept frames would keep their reservations.
        let mut body = Vec::new();
        while let Some(frame) = stream.frame().await {
            body.extend_from_slice(&frame.expect("the answer's body").into_data().expect("data"));
        }
        Reply {
            status: parts.status,
            headers: parts.headers,
            body: body.into(),
        }
    }
    pub async fn call(&self, method: &str, uri: &str, body: &str) -> Reply {
        self.send(request(method, uri, &[], Body::from(body.to_owned())))
            .await
    }
    pub async fn get(&self, uri: &str) -> Reply {
        self.call("GET", uri, "").await
    }

    /// Bytes that a consumer of the ledger holds now.
    pub fn held(&self, consumer: &str) -> u64 {
        self.engine
            .ledger()
            .report()
            .iter()
            .find(|c| c.name == consumer)
            .map_or(0, |c| c.used)
    }
}

pub fn request(method: &str, uri: &str, headers: &[(&str, &str)], body: Body) -> Request<Body> {
    let mut builder = Request::builder()
        .method(method)
        .uri(uri)
        .header("host", "localhost:6333");
    if let Some(len) = hyper::body::Body::size_hint(&body).exact()
        && len > 0
    {
        builder = builder.header("content-length", len);
    }
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(body).expect("a request")
}

/// A body that must not be read.
pub struct Untouched;

impl hyper::body::Body for Untouched {
    type Data = Bytes;
    type Error = std::convert::Infallible;
    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        panic!("the body of a refused request was read");
    }
}

/// A body of `left` chunks of `chunk` without a length.
pub struct Chunks {
    pub chunk: Bytes,
    pub left: usize,
}

impl hyper::body::Body for Chunks {
    type Data = Bytes;
    type Error = std::convert::Infallible;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(self.chunk.clone()))))
    }
}
