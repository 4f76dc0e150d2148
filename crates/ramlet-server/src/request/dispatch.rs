//! One request through its steps: key, memory, body, handler, answer.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use bytes::Bytes;
use percent_encoding::percent_decode_str;

use super::admission::{admit, enter};
use super::api_request::{ApiRequest, Incoming, RequestBody};
use super::call::Call;
use super::caught::caught;
use super::params::QueryParams;
use super::request_id;
use super::route::{Route, shown_path};
use crate::access::audit::Peer;
use crate::access::audit_record::Subject;
use crate::access::auth::name_host;
use crate::access::cors;
use crate::answers::answer::{Answer, body_of, refuse, respond};
use crate::answers::compress;
use crate::answers::compress::{Packer, takes_gzip};
use crate::answers::out::Form;
use crate::answers::pieces::Sent;
use crate::answers::stream;
use crate::app::App;
use crate::bodies::body::read_body;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::observability::slow_log::Ended;
use crate::observability::stats::Endpoint;
use crate::observability::steps::Steps;
use crate::shards;

/// Answers one request of `route`.
pub async fn dispatch(route: &'static Route, app: Arc<App>, request: Request) -> Response {
    let start = Instant::now();
    let head_only = request.method() == Method::HEAD;
    // Counts are of what is within a collection.
    let counted = route.path.starts_with("/collections/{collection}/");
    let named = collection_of(route, request.uri());
    let is_page = cors::is_answerable(&app.keys, request.headers());
    let packs = takes_gzip(request.headers()) && !head_only;
    let id = request_id::of(request.headers());
    let (steps, mut body) = (app.slow.steps(start), None);
    let written = Arc::new(AtomicU64::new(0));
    let of = (start, steps.as_ref(), (&mut body, &written));
    let result = caught(pin!(answer(route, &app, request, of))).await;
    if let Err(e) = &result {
        let request = (route.path, request_id::text(&id), named.as_deref());
        app.refusals.note(e.refusal, (e.status, &e.message), request);
        app.note_damage(named.as_deref().filter(|_| counted), e);
    }
    let mut response = match result {
        Ok(Answer::Json(out)) => match out.finish(start) {
            Ok(bytes) => whole(&app, bytes, packs).await,
            Err(e) => refuse(&e, start),
        },
        Ok(Answer::Stream(stream)) => match packs.then(|| Packer::new(&app.streams)).flatten() {
            Some(packer) => packed(Body::new(stream.body(Some(packer)))),
            None => respond(StatusCode::OK, "application/json", Body::new(stream.body(None))),
        },
        Ok(Answer::Whole(response)) => response,
        Ok(Answer::Plain {
            status,
            content_type,
            body,
        }) => respond(status, content_type, body),
        Err(e) => refuse(&e, start),
    };
    if let Some(node) = &app.node {
        node.tell(response.headers_mut(), written.load(Ordering::Acquire));
    }
    let endpoint = Endpoint {
        method: route.method,
        path: route.path,
        status: response.status().as_u16(),
    };
    let took = start.elapsed();
    app.slow.note(&Ended {
        name: route.name.unwrap_or(route.path),
        path: route.path,
        id: request_id::text(&id),
        collection: named.as_deref(),
        status: response.status().as_u16(),
        took,
        body: body.as_ref(),
        steps: steps.as_ref(),
    });
    let collection = named.filter(|_| counted && response.status().is_success());
    app.stats.record(endpoint, collection.as_deref(), took);
    if is_page {
        cors::allow(&mut response);
    }
    // Of `HEAD` too: the router leaves the body out and tells its length.
    response
}

/// An answer that is written already, packed where that pays: a long one while it is sent.
async fn whole(app: &App, answer: Sent, packs: bool) -> Response {
    if packs && answer.len() > limits::PACK_BYTES_WHOLE {
        if let Some(packer) = Packer::new(&app.streams) {
            return packed(Body::new(stream::packed(answer, packer)));
        }
    } else if packs && let Some(small) = compress::whole(&answer, 0, &app.responses).await {
        return packed(body_of(small));
    }
    respond(StatusCode::OK, "application/json", body_of(answer))
}

fn packed(body: impl Into<Body>) -> Response {
    let mut response = respond(StatusCode::OK, "application/json", body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    response
}

/// The collection that the path names.
fn collection_of(route: &Route, uri: &Uri) -> Option<String> {
    if !route.path.starts_with("/collections/{collection}") {
        return None;
    }
    let segment = uri.path().split('/').nth(2)?;
    Some(percent_decode_str(segment).decode_utf8().ok()?.into_owned())
}

async fn answer(
    route: &'static Route,
    app: &Arc<App>,
    request: Request,
    (start, steps, (kept, written)): (
        Instant,
        Option<&Arc<Steps>>,
        (&mut Option<Bytes>, &Arc<AtomicU64>),
    ),
) -> ApiResult<Answer> {
    let (mut parts, mut unread) = request.into_parts();
    name_host(&mut parts);
    let (grant, record) = enter(app, route.access, subject(route, app, &parts), &parts.headers)?;
    let raw_query = parts.uri.query().unwrap_or("").to_owned();
    let query = QueryParams::parse(&raw_query)?;
    let params = RawPathParams::from_request_parts(&mut parts, &())
        .await
        .map_err(|_| ApiError::new(StatusCode::BAD_REQUEST, "the path is not valid UTF-8"))?;
    let params: Vec<(String, String)> = params
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let collection = params.iter().find(|(name, _)| name == "collection");
    let asks = (route.access, collection.map(|(_, name)| name.as_str()));
    admit(app, (&grant, &record), asks, start).await?;
    let rule = route.body.within(app.body_bytes_max);
    let (body, held) = read_body(&parts.headers, &mut unread, rule, &app.requests).await?;
    app.waits.note_memory(held.waited());
    *kept = app.slow.kept(&body);
    let incoming = Incoming {
        query: raw_query,
        written: written.clone(),
        head_only: parts.method == Method::HEAD,
        headers: parts.headers,
        body: unread.into(),
    };
    let given = (RequestBody::Json(body), Form::Json);
    let request = ApiRequest::new(params, query, given, start)
        .with(incoming)
        .noted(steps.cloned());
    let call = Call::new(app.clone(), request, (grant, held));
    let answer = shards::handle(route, call).await;
    answer.inspect_err(|e| record.failed(e))
}

/// What a request of a route is about.
fn subject(route: &Route, app: &App, parts: &Parts) -> Subject<'static> {
    if app.audit.is_none() {
        return Subject::default();
    }
    Subject {
        name: route.name,
        api: Cow::Owned(format!("{} {}", route.method, shown_path(route.path))),
        collection: collection_of(route, &parts.uri),
        peer: parts.extensions.get::<Peer>().copied(),
    }
}
