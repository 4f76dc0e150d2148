//! One call through its steps: method, key, memory, message, handler, answer.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::request::Parts;
use axum::http::{
    HeaderMap, HeaderName, HeaderValue, Method as HttpMethod, Request, Response, StatusCode, header,
};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::sync::watch;

use super::frame::{self, Messages, Sent};
use super::methods::{Bound, Method, Points, find};
use super::requests::DecodedRequest;
use super::responses::HandlerResult;
use super::{FRAME_HEAD, health, reflection, status, storage_read};
use crate::access::audit::Peer;
use crate::access::audit_record::{AuditRecord, Subject};
use crate::access::auth::{Access, Grant, name_host};
use crate::answers::answer::Answer;
use crate::answers::compress;
use crate::answers::out::{Form, refused_whole};
use crate::answers::pieces;
use crate::answers::pieces::Pieces;
use crate::app::App;
use crate::bodies::body::told;
use crate::bodies::body_rule::BodyRule;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::observability::slow_log::Ended;
use crate::observability::stats::Endpoint;
use crate::observability::steps::Steps;
use crate::request::admission::{admit, enter};
use crate::request::api_request::{ApiRequest, RequestBody};
use crate::request::call::Call;
use crate::request::caught::caught;
use crate::request::growing_reservation::GrowingReservation;
use crate::request::request_id;
use crate::shards;
use crate::threads::pool::spawn_blocking;
use crate::transport::connection::Place;
use crate::transport::http2::serve_http2;
use crate::transport::tls::Socket;
use crate::wire::explain::explained_within;

const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPT: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// Asks for how a search was done, and has the answer: JSON, as `explain` of REST.
const EXPLAIN: HeaderName = HeaderName::from_static("ramlet-explain");
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

/// Answers the calls of one connection.
pub async fn serve_calls(stream: Socket, app: Arc<App>, stopped: watch::Receiver<bool>, place: Place) {
    let service = service_fn(|request| {
        let app = app.clone();
        async move { Ok::<_, Infallible>(dispatch(app, request).await) }
    });
    serve_http2(stream, (&app, &place), stopped, (service, refused)).await;
}

/// Answers one call.
async fn dispatch(app: Arc<App>, request: Request<Incoming>) -> Response<Sent> {
    let start = Instant::now();
    let (mut parts, body) = request.into_parts();
    if parts.method != HttpMethod::POST || !is_grpc(&parts.headers) {
        return no_grpc();
    }
    name_host(&mut parts);
    let path = parts.uri.path();
    let id = request_id::of(&parts.headers);
    let result = match find(path) {
        Some(bound) => {
            let mut collection = None;
            let mut shown = None;
            let unread = (body, &mut collection, &mut shown);
            let subject = subject(path, bound.route.name, &parts);
            let explains = parts.headers.contains_key(EXPLAIN);
            let steps = app
                .slow
                .steps(start)
                .or_else(|| explains.then(|| Steps::new(start)));
            let of = (start, steps.as_ref());
            let done = caught(pin!(call(&app, bound, (subject, &parts.headers), unread, of))).await;
            count(
                &app,
                (bound, &id),
                done.as_ref().err(),
                (collection, shown),
                (start, steps.as_ref()),
            );
            let mut response = match done {
                Ok(message) if wants_gzip(&parts.headers) => packed(&app, message).await,
                Ok(message) => answered(Sent::Whole(message)),
                Err(e) => return refused(&e),
            };
            if let Some(steps) = steps.filter(|_| explains) {
                add_steps(&steps, response.headers_mut());
            }
            return response;
        }
        None => caught(pin!(own_service(&app, path, &parts, body))).await,
    };
    match result {
        Ok(sent) => answered(sent),
        Err(e) => refused(&e),
    }
}

/// How the searches of a call were done, in its metadata.
fn add_steps(steps: &Steps, headers: &mut HeaderMap) {
    let any = steps.with_searches(|searches| !searches.is_empty());
    let told = any.then(|| explained_within(steps, false, limits::EXPLAIN_METADATA_BYTES));
    if let Some(value) = told.flatten().and_then(|text| HeaderValue::try_from(text).ok()) {
        headers.insert(EXPLAIN, value);
    }
}

/// The call as a row of the counts: its method, and the code it ended with.
fn count(
    app: &App,
    (bound, id): (&Bound, &HeaderValue),
    failed: Option<&ApiError>,
    (collection, shown): (Option<String>, Option<Bytes>),
    (start, steps): (Instant, Option<&Arc<Steps>>),
) {
    let id = request_id::text(id);
    // Counts are of what is within a collection.
    let counted = bound.route.path.starts_with("/collections/{collection}/");
    if let Some(e) = failed {
        app.refusals.note(
            e.refusal,
            (e.status, &e.message),
            (bound.method.path, id, collection.as_deref()),
        );
        app.note_damage(collection.as_deref().filter(|_| counted), e);
    }
    let endpoint = Endpoint {
        method: "",
        path: bound.method.path,
        status: failed.map_or(0, |e| status::code_of(e.status) as u16),
    };
    let took = start.elapsed();
    // Written once more as JSON, for slow requests only.
    let shown = shown.filter(|_| app.slow.is_slow(took));
    let shown = shown.and_then(|message| as_json(app, bound.method, message));
    app.slow.note(&Ended {
        name: bound.route.name.unwrap_or(bound.method.path),
        path: bound.method.path,
        id,
        collection: collection.as_deref(),
        status: endpoint.status,
        took,
        body: shown.as_ref(),
        steps,
    });
    let collection = collection.filter(|_| counted && failed.is_none());
    app.stats.record(endpoint, collection.as_deref(), took);
}

/// A message as the body that REST would have; `None` where there is no memory for that now.
fn as_json(app: &App, method: &Method, message: Bytes) -> Option<Bytes> {
    let _held = app.requests.reserve(limits::SLOW_MESSAGE_TEXT_BYTES).ok()?;
    let request = (method.request.decode)(message).ok()?;
    Some(request.body.text().ok()?.into())
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"))
}

fn no_grpc() -> Response<Sent> {
    let mut response = Response::new(Sent::End(true));
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
}

fn answered(sent: Sent) -> Response<Sent> {
    let mut response = Response::new(sent);
    response.headers_mut().insert(header::CONTENT_TYPE, CONTENT_TYPE);
    response
}

/// Whether the client packs what it asks and takes gzip. Taking it alone isn't a wish: clients of gRPC say so by
/// themselves, those on the same machine too.
fn wants_gzip(headers: &HeaderMap) -> bool {
    let takes = || headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok());
    headers.get(ENCODING).is_some_and(|v| v == "gzip")
        && takes()
            .flat_map(|v| v.split(','))
            .any(|name| name.trim() == "gzip")
}

/// The answer to a client that wants gzip; each message says by itself whether it is packed.
async fn packed(app: &App, message: pieces::Sent) -> Response<Sent> {
    let small = compress::whole(&message, FRAME_HEAD, &app.responses).await;
    let small = small.and_then(|small| frame::packed(small).ok());
    let mut response = answered(Sent::Whole(small.unwrap_or(message)));
    response
        .headers_mut()
        .insert(ENCODING, HeaderValue::from_static("gzip"));
    response
}

fn refused(e: &ApiError) -> Response<Sent> {
    let mut response = Response::new(Sent::End(true));
    *response.headers_mut() = status::failed(e);
    response.headers_mut().insert(header::CONTENT_TYPE, CONTENT_TYPE);
    response
}

/// What a call is about, as far as its head says.
fn subject<'a>(path: &'a str, name: Option<&'static str>, parts: &Parts) -> Subject<'a> {
    Subject {
        name,
        api: Cow::Borrowed(path),
        collection: None,
        peer: parts.extensions.get::<Peer>().copied(),
    }
}

/// Services beside the API's methods: health, reflection, and what isn't answered.
async fn own_service(app: &Arc<App>, path: &str, parts: &Parts, body: Incoming) -> ApiResult<Sent> {
    let headers = &parts.headers;
    match path {
        "/grpc.health.v1.Health/Check" => {
            app.keys.authorise(Access::Public, headers)?;
            health::check(app, Messages::new(headers, body)?).await
        }
        "/grpc.health.v1.Health/Watch" => {
            app.keys.authorise(Access::Public, headers)?;
            health::watch(app, Messages::new(headers, body)?).await
        }
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => {
            enter(app, Access::Read, subject(path, None, parts), headers)?;
            reflection::info(app, Messages::new(headers, body)?)
        }
        path if let Some(name) = storage_read::name_of(path) => {
            let subject = subject(path, Some(name), parts);
            Err(storage_read::refusal(app, subject, headers, body).await)
        }
        _ => {
            // What a client calls by a name of its own isn't repeated in the audit log.
            enter(
                app,
                Access::ReadSome,
                subject("unknown method", None, parts),
                headers,
            )?;
            Err(ApiError::new(
                StatusCode::NOT_IMPLEMENTED,
                format!("there is no method {path}"),
            ))
        }
    }
}

/// What a message of a method may be: REST takes no body where it is in the path.
fn rule_of(app: &App, bound: &Bound) -> BodyRule {
    let rule = match bound.route.body {
        BodyRule { cap: 0, .. } => BodyRule {
            cap: limits::CONFIG_BODY_BYTES,
            ..BodyRule::QUERY
        },
        rule => rule,
    };
    rule.within(app.body_bytes_max)
}

async fn call(
    app: &Arc<App>,
    bound: &'static Bound,
    (subject, headers): (Subject<'_>, &HeaderMap),
    (body, collection, shown): (Incoming, &mut Option<String>, &mut Option<Bytes>),
    of: (Instant, Option<&Arc<Steps>>),
) -> ApiResult<pieces::Sent> {
    let entered = enter(app, bound.route.access, subject, headers)?;
    let mut held = GrowingReservation::default();
    let message = Messages::new(headers, body)?
        .single(rule_of(app, bound), &mut held, &app.requests)
        .await?;
    let len = message.len();
    app.waits.note_memory(held.waited());
    *shown = app.slow.kept_message(&message);
    let request = decode(app, bound.method, rule_of(app, bound), message, &mut held).await?;
    answer(
        app,
        bound,
        (headers, entered),
        ((request, len), held, collection),
        of,
    )
    .await
}

/// The answer to a message that is decoded, of so many bytes.
async fn answer(
    app: &Arc<App>,
    bound: &'static Bound,
    (headers, (grant, mut record)): (&HeaderMap, (Grant, AuditRecord)),
    ((request, len), held, collection): ((DecodedRequest, usize), GrowingReservation, &mut Option<String>),
    (start, steps): (Instant, Option<&Arc<Steps>>),
) -> ApiResult<pieces::Sent> {
    let (method, route) = (bound.method, bound.route);
    check_collection(&request)?;
    let named = request.params.iter().find(|(name, _)| name == "collection");
    let named = named.map(|(_, name)| name.as_str());
    record.about(named);
    admit(app, (&grant, &record), (route.access, named), start).await?;
    if route.path.starts_with("/collections/{collection}") {
        *collection = request.params.first().map(|(_, name)| name.clone());
    }
    let given = (
        RequestBody::Message(request.body, len),
        Form::Messages(method.points.field()),
    );
    let mut request = ApiRequest::new(request.params, request.query, given, start).noted(steps.cloned());
    request.client_timeout = grpc_timeout(headers).filter(|_| route.access.reads());
    if app.node.is_some() {
        request.incoming.headers.clone_from(headers);
    }
    let call = Call::new(app.clone(), request, (grant, held));
    let answer = shards::handle(route, call)
        .await
        .inspect_err(|e| record.failed(e))?;
    write(app, method, answer, start)
}

/// A call whose message is here, without a connection: for fuzz targets. Changes are applied to the collection `instead`, and
/// skipped if they name none. 501 for a path that no method has.
pub async fn unframed(app: &Arc<App>, path: &str, message: Bytes, instead: &str) -> ApiResult<()> {
    let start = Instant::now();
    let unknown = || ApiError::new(StatusCode::NOT_IMPLEMENTED, format!("there is no method {path}"));
    let bound = find(path).ok_or_else(unknown)?;
    let (headers, len, rule) = (HeaderMap::new(), message.len(), rule_of(app, bound));
    let entered = enter(app, bound.route.access, Subject::default(), &headers)?;
    rule.check(len as u64)?;
    let mut held = GrowingReservation::in_time(rule.before(len as u64), &app.requests)
        .await
        .map_err(told)?;
    let mut request = decode(app, bound.method, rule, message, &mut held).await?;
    if !bound.route.access.reads() {
        match request.params.first_mut() {
            Some((name, value)) if name == "collection" => *value = instead.to_owned(),
            _ => return Ok(()),
        }
    }
    answer(
        app,
        bound,
        (&headers, entered),
        ((request, len), held, &mut None),
        (start, None),
    )
    .await
    .map(drop)
}

/// Reckons what the message becomes, then decodes it; large ones off the async threads.
async fn decode(
    app: &Arc<App>,
    method: &'static Method,
    rule: BodyRule,
    message: Bytes,
    held: &mut GrowingReservation,
) -> ApiResult<DecodedRequest> {
    let len = message.len() as u64;
    let weight = method
        .request
        .shape
        .weigh(&message)
        .map_err(ApiError::wrong_input)?;
    let leaves = weight.leaves * rule.per_element.max(limits::NODE_BYTES);
    let becomes =
        weight.bytes + weight.elements * rule.per_open + leaves + weight.singles * limits::NODE_BYTES;
    held.at_least_in_time(rule.before(len).max(len + becomes), &app.requests)
        .await
        .map_err(told)?;
    let decode = method.request.decode;
    if message.len() <= limits::PARSE_INLINE_BYTES {
        return decode(message);
    }
    let inside = std::mem::take(held);
    let decoded = spawn_blocking(move || (decode(message), inside));
    let (request, inside) = decoded.await.map_err(ApiError::internal)?;
    *held = inside;
    request
}

/// The path of REST can't be without a name, a message can.
fn check_collection(request: &DecodedRequest) -> ApiResult<()> {
    match request.params.first() {
        Some((name, value)) if name == "collection" && value.is_empty() => Err(ApiError::wrong_input(
            "Validation error in body: [collection_name: value \"\" invalid, must have from 1 to 255 bytes]",
        )),
        _ => Ok(()),
    }
}

/// Writes the answer's message, its bytes held until they are sent.
fn write(app: &App, method: &Method, answer: Answer, start: Instant) -> ApiResult<pieces::Sent> {
    let (json, messages, mut held) = match answer {
        Answer::Json(out) => {
            let (mut json, messages, held) = out.into_parts()?;
            json.push(b'}');
            (json, messages, held)
        }
        Answer::Plain { body, .. } => (
            body.into_bytes(),
            Pieces::default(),
            GrowingReservation::default(),
        ),
        Answer::Stream(_) | Answer::Whole(_) => {
            return Err(ApiError::internal("the method's answer is no message"));
        }
    };
    let inside = matches!(method.points, Points::Inside(_));
    // Points inside of the answer's parts are put in a row, and then written once more: twice in memory each time.
    let again = if inside { messages.capacity() } else { 0 };
    held.at_least(held.bytes() + (json.len() + again) as u64, &app.responses)
        .map_err(|e| refused_whole(&e))?;
    let (listed, messages) = match inside {
        true => (Pieces::default(), messages.into_vecs().concat()),
        false => (messages, Vec::new()),
    };
    let time = start.elapsed().as_secs_f64();
    let message = (method.encode)(HandlerResult { json, messages, time })?;
    Ok(frame::framed(listed, message)?.into_sent(held))
}

/// `grpc-timeout`: up to eight digits and a unit.
fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let n: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(n * 3600),
        "M" => Duration::from_secs(n * 60),
        "S" => Duration::from_secs(n),
        "m" => Duration::from_millis(n),
        "u" => Duration::from_micros(n),
        "n" => Duration::from_nanos(n),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_units() {
        let parse = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", HeaderValue::from_static(text));
            grpc_timeout(&headers)
        };
        assert_eq!(parse("5S"), Some(Duration::from_secs(5)));
        assert_eq!(parse("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for bad in ["", "S", "5", "5x", "-1S", "123456789S"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
