//! The requests of an S3 store, through the HTTP client that the tree has already: one fewer in the program, and one provider of TLS.

use std::io::{self, ErrorKind};
use std::time::Duration;

use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

use crate::limits::{CHUNK_BYTES_MAX, PARALLEL_MAX};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Of a whole request: the largest object at 70 kB/s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// An answer holds an object at most, or a list of a thousand names.
const ANSWER_BYTES_MAX: u64 = CHUNK_BYTES_MAX as u64 * 2;

/// Makes one client for all requests of a store.
#[derive(Debug)]
pub struct Connector;

#[derive(Debug)]
struct Client(Agent);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::PlatformVerifier)
            .build();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(REQUEST_TIMEOUT))
            .max_idle_connections(PARALLEL_MAX)
            .max_idle_connections_per_host(PARALLEL_MAX)
            .tls_config(tls)
            .build();
        Ok(HttpClient::new(Client(config.new_agent())))
    }
}

#[async_trait::async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let agent = self.0.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let is_read = ["GET", "HEAD", "DELETE"].contains(&head.method.as_str());
            let answer = match is_read && body.is_empty() {
                true => agent.run(ureq::http::Request::from_parts(head, ())),
                false => agent.run(ureq::http::Request::from_parts(head, &body[..])),
            };
            let (head, mut body) = answer?.into_parts();
            let bytes = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
            Ok(HttpResponse::from_parts(head, HttpResponseBody::from(bytes)))
        });
        match asked.await {
            Ok(answer) => answer.map_err(|e: ureq::Error| HttpError::new(kind_of(&e), e)),
            Err(e) => Err(HttpError::new(HttpErrorKind::Unknown, e)),
        }
    }
}

/// What decides whether a request is sent again: one that has no effect twice is, unless it can't help.
fn kind_of(error: &ureq::Error) -> HttpErrorKind {
    match error {
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => HttpErrorKind::Connect,
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::Io(error) => kind_of_io(error),
        ureq::Error::BodyExceedsLimit(_) => HttpErrorKind::Decode,
        ureq::Error::Protocol(_) => HttpErrorKind::Request,
        _ => HttpErrorKind::Unknown,
    }
}

fn kind_of_io(error: &io::Error) -> HttpErrorKind {
    match error.kind() {
        ErrorKind::ConnectionRefused => HttpErrorKind::Connect,
        ErrorKind::TimedOut => HttpErrorKind::Timeout,
        ErrorKind::ConnectionAborted
        | ErrorKind::ConnectionReset
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    }
}
