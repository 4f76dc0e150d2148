//! One request to one shard, or to several at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use bytes::Bytes;
use ramlet_memory::OverBudget;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::known::{SHARD, Shards};
use crate::access::auth::Grant;
use crate::answers::answer::Answer;
use crate::answers::out::{Form, Out};
use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::nodes::changes;
use crate::nodes::forward::{Envelope, Failed, PASSED, body_of, number, query_of, url_of};
use crate::nodes::forwarder::{ForwardedRequest, NoAnswer, Room};
use crate::nodes::node::{Node, SLOT, SLOT_MIN};
use crate::observability::steps::{Steps, TOLD_FROM};
use crate::request::api_request::{ApiRequest, Incoming, RequestBody};
use crate::request::call::Call;
use crate::request::growing_reservation::GrowingReservation;
use crate::request::params::QueryParams;
use crate::request::route::Route;
use crate::routes::routes;

/// A request that is about several shards, without its body.
pub struct Divided {
    pub app: Arc<App>,
    pub node: Arc<Node>,
    pub route: &'static Route,
    pub params: Vec<(String, String)>,
    /// Behind the question mark.
    pub query: String,
    pub grant: Grant,
    pub form: Form,
    /// Whether it came by gRPC, whose limits are checked otherwise.
    pub is_message: bool,
    /// Who asks.
    headers: HeaderMap,
    /// The slot of each shard that a read waits for.
    slots: Vec<u64>,
    pub start: Instant,
    pub deadline: Instant,
    /// Where it is noted what it spends its time on, if that is noted of all requests.
    steps: Option<Arc<Steps>>,
    /// What the body and what comes of it hold.
    _held: (Arc<GrowingReservation>, GrowingReservation),
}

/// A request to one shard.
pub struct Ask {
    pub route: &'static Route,
    pub params: Vec<(String, String)>,
    pub query: String,
    pub body: Bytes,
    /// Whether its searches tell how they are done: from so long on.
    pub told_from: Option<Duration>,
}

/// The answer of one shard.
pub struct Part {
    pub shard: u32,
    /// The URL of the node that answered, and how long that took.
    pub node: String,
    pub waited: Duration,
    json: Vec<u8>,
    _held: Held,
}

#[expect(dead_code, reason = "they are held")]
enum Held {
    Here(GrowingReservation, GrowingReservation),
    There(Arc<Mutex<Growing>>),
}

/// What is held for an answer, and why it can't grow any more.
#[derive(Default)]
struct Growing {
    held: GrowingReservation,
    short: Option<OverBudget>,
}

impl Part {
    /// The `result`.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> ApiResult<T> {
        let envelope: Envelope<'a> = serde_json::from_slice(&self.json).map_err(ApiError::internal)?;
        let result = envelope
            .result
            .ok_or_else(|| ApiError::internal("a shard's answer without a result"))?;
        serde_json::from_str(result.get()).map_err(ApiError::internal)
    }

    /// How a search was done, if that was asked for; a list of a batch.
    pub fn explain<'a, T: Deserialize<'a>>(&'a self) -> ApiResult<Option<T>> {
        #[derive(Deserialize)]
        struct Beside<'a> {
            #[serde(borrow)]
            explain: Option<&'a RawValue>,
        }
        // Else all of it would be read once more for nothing.
        if memchr::memmem::find(&self.json, b"\"explain\":").is_none() {
            return Ok(None);
        }
        let beside: Beside<'a> = serde_json::from_slice(&self.json).map_err(ApiError::internal)?;
        let explain = beside.explain.map(|explain| serde_json::from_str(explain.get()));
        explain.transpose().map_err(ApiError::internal)
    }
}

/// A route of the table.
pub fn route(method: &str, path: &str) -> ApiResult<&'static Route> {
    let mut all = routes().iter();
    all.find(|route| route.method == method && route.path == path)
        .ok_or_else(|| ApiError::internal(format!("there is no route {method} {path}")))
}

impl Divided {
    /// The request, and its body as JSON.
    pub async fn new(node: &Arc<Node>, route: &'static Route, mut call: Call) -> ApiResult<(Divided, Bytes)> {
        let incoming = &call.request.incoming;
        let mut headers = HeaderMap::new();
        for name in PASSED {
            if let Some(value) = incoming.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut query = query_of(&call);
        if call.request.query.is_consistent && incoming.query.is_empty() {
            // A message says it in a field of its own.
            if !query.is_empty() {
                query.push('&');
            }
            query.push_str("consistency=majority");
        }
        let slots = match (&node.shards, incoming.headers.get(SLOT_MIN)) {
            (Some(shards), Some(asked)) => slots_of(asked, shards.count())?,
            _ => Vec::new(),
        };
        let is_message = call.request.is_message();
        let (body, text) = body_of(&mut call).await?;
        let divided = Divided {
            params: call.request.params().to_vec(),
            query,
            form: call.request.form,
            is_message,
            headers,
            slots,
            start: call.request.start,
            deadline: call.request.deadline(),
            steps: call.request.steps,
            app: call.app,
            node: node.clone(),
            route,
            grant: call.admitted.grant,
            _held: (call.admitted.held, text),
        };
        Ok((divided, body))
    }

    /// Whether its steps are noted in any case.
    pub fn is_noted(&self) -> bool {
        self.steps.is_some()
    }

    /// From how long on a shard tells how it did its part, where nobody asked but the log of slow requests.
    pub fn told_from(&self) -> Duration {
        self.app.slow.threshold().unwrap_or_default() / limits::SLOW_PARTS
    }

    /// Where its steps are noted, if they are in any case, or somebody asked for them. The request is here and parsed.
    pub fn steps(&self, asked: bool) -> Option<Arc<Steps>> {
        let steps = self.steps.clone();
        let steps = steps.or_else(|| asked.then(|| Steps::new(self.start)))?;
        steps.note_received(self._held.0.waited());
        Some(steps)
    }

    pub fn shards(&self) -> &Shards {
        self.node
            .shards
            .as_ref()
            .expect("only where collections are divided")
    }

    pub fn count(&self) -> u32 {
        self.shards().count()
    }

    pub fn all(&self) -> std::ops::Range<u32> {
        0..self.count()
    }

    /// The collection that the path names.
    pub fn collection(&self) -> &str {
        let named = self.params.iter().find(|(name, _)| name == "collection");
        named.map_or("", |(_, value)| value.as_str())
    }

    /// The request itself, with this body.
    pub fn same(&self, body: impl Into<Bytes>) -> Ask {
        Ask {
            route: self.route,
            params: self.params.clone(),
            query: self.query.clone(),
            body: body.into(),
            told_from: None,
        }
    }

    /// A read of a collection by another route.
    pub fn other(
        &self,
        (method, path): (&str, &str),
        collection: &str,
        body: impl Into<Bytes>,
    ) -> ApiResult<Ask> {
        Ok(Ask {
            route: route(method, path)?,
            params: vec![("collection".to_owned(), collection.to_owned())],
            query: self.query.clone(),
            body: body.into(),
            told_from: None,
        })
    }

    /// The answer of shard 0.
    pub async fn first(&self, body: Bytes) -> ApiResult<Answer> {
        let part = self.ask(0, self.same(body)).await?;
        let mut out = self.out();
        out.raw(part.read::<&serde_json::value::RawValue>()?.get());
        Ok(Answer::Json(out))
    }

    /// An answer that begins its `result`.
    pub fn out(&self) -> Out {
        Out::new(&self.app.responses)
    }

    /// An answer whose points stand in the form that is asked for.
    pub fn points_out(&self) -> Out {
        let mut out = Out::within(GrowingReservation::default(), 0, self.form, &self.app.responses);
        out.raw("{\"result\":");
        out
    }

    pub fn answer<T: serde::Serialize + ?Sized>(&self, result: &T) -> ApiResult<Answer> {
        let mut out = self.out();
        out.value(result);
        Ok(Answer::Json(out))
    }

    /// Bytes for what answers are made into.
    pub fn hold(&self, bytes: u64) -> ApiResult<GrowingReservation> {
        let mut held = GrowingReservation::default();
        held.at_least(bytes, &self.shards().gathered)?;
        Ok(held)
    }

    /// Asks several shards at once. The first of their errors, in the order of the shards, is the error.
    pub async fn ask_some(&self, asks: Vec<(u32, Ask)>) -> ApiResult<Vec<(u32, Part)>> {
        let each = asks.into_iter().map(|(shard, ask)| async move {
            let part = self.ask(shard, ask).await;
            part.map(|part| (shard, part))
        });
        at_once(each.collect()).await.into_iter().collect()
    }

    /// Asks all shards the same.
    pub async fn ask_all(&self, ask: impl Fn() -> ApiResult<Ask>) -> ApiResult<Vec<(u32, Part)>> {
        let asks = self.all().map(|shard| ask().map(|ask| (shard, ask)));
        self.ask_some(asks.collect::<ApiResult<_>>()?).await
    }

    /// Asks one shard.
    pub async fn ask(&self, shard: u32, ask: Ask) -> ApiResult<Part> {
        let begun = Instant::now();
        let mut part = match shard == self.shards().own {
            true => self.ask_here(ask).await?,
            false => self.ask_there(shard, ask).await?,
        };
        part.waited = begun.elapsed();
        Ok(part)
    }

    fn headers_for(&self, shard: u32, is_read: bool, told_from: Option<Duration>) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(SHARD, HeaderValue::from(shard));
        if let Some(from) = told_from.filter(|from| !from.is_zero()) {
            headers.insert(TOLD_FROM, HeaderValue::from(from.as_micros() as u64));
        }
        if is_read {
            let written = self.shards().written[shard as usize].load(Ordering::Acquire);
            let asked = self.slots.get(shard as usize).copied().unwrap_or_default();
            if written.max(asked) > 0 {
                headers.insert(SLOT_MIN, HeaderValue::from(written.max(asked)));
            }
        }
        headers
    }

    async fn ask_here(&self, ask: Ask) -> ApiResult<Part> {
        let Ask {
            route,
            params,
            query,
            body,
            told_from,
        } = ask;
        let named = params.iter().find(|(name, _)| name == "collection");
        self.grant
            .check(route.access, named.map(|(_, name)| name.as_str()))?;
        // At once or not at all: the request that this one is of holds memory.
        let mut held = GrowingReservation::default();
        held.at_least(route.body.after(&body), &self.app.requests)?;
        let (is_read, shard) = (route.access.reads(), self.shards().own);
        let incoming = Incoming {
            query: query.clone(),
            headers: self.headers_for(shard, is_read, told_from),
            ..Incoming::default()
        };
        let written = incoming.written.clone();
        let given = (RequestBody::Json(body), Form::WholeJson);
        // Its time is that of this part; it ends when the whole has to.
        let steps = told_from.map(|_| Steps::new(Instant::now()));
        let request = ApiRequest::new(params, QueryParams::parse(&query)?, given, self.start);
        let request = request.with(incoming).noted(steps);
        let call = Call::new(self.app.clone(), request, (self.grant.clone(), held));
        let answer = changes::handle(route, call).await.map_err(|e| told(shard, e))?;
        if !is_read {
            let slot = self.node.log.status().slot;
            self.shards()
                .note_written(shard, slot.max(written.load(Ordering::Acquire)));
        }
        let Answer::Json(out) = answer else {
            return Err(ApiError::internal("a shard's answer that is no JSON"));
        };
        let (mut json, _, held) = out.into_parts()?;
        json.push(b'}');
        // What its points become.
        let again = self.hold(json.len() as u64)?;
        Ok(Part {
            shard,
            node: self.node.log.status().url,
            waited: Duration::ZERO,
            json,
            _held: Held::Here(held, again),
        })
    }

    async fn ask_there(&self, shard: u32, ask: Ask) -> ApiResult<Part> {
        let (shards, is_read) = (self.shards(), ask.route.access.reads());
        let mut nodes = shards.nodes(shard, is_read);
        let until = Instant::now() + limits::SHARD_NODE_WAIT;
        while nodes.is_empty() && Instant::now() < until {
            // One that was started a moment ago isn't known yet.
            shards.map.look();
            tokio::time::sleep(limits::OWNER_POLL).await;
            nodes = shards.nodes(shard, is_read);
        }
        let (mut failed, mut tried) = (None, Vec::new());
        loop {
            let mut untried = nodes.iter().filter(|node| !tried.contains(&node.node));
            let Some(node) = untried.next().cloned() else {
                break;
            };
            let is_last = untried.next().is_none();
            tried.push(node.node.clone());
            let left = self.deadline.saturating_duration_since(Instant::now());
            let timeout = match is_read && !is_last {
                true => left.min(limits::SHARD_READ_WAIT),
                false => left + limits::FORWARD_GRACE,
            };
            let held = Arc::new(Mutex::new(Growing::default()));
            let request = ForwardedRequest {
                method: ask.route.method,
                url: url_of(&node.url, ask.route, &ask.params, &ask.query),
                headers: self.headers_for(shard, is_read, ask.told_from),
                body: ask.body.clone(),
                timeout,
                answer_bytes_max: limits::RESPONSE_BYTES,
                room: Some(self.room(held.clone())),
            };
            let Some(lanes) = &shards.lanes[shard as usize] else {
                return Err(ApiError::internal("a lane to this node itself"));
            };
            let answer = tokio::select! {
                answer = lanes[usize::from(!is_read)].send(request) => answer,
                why = shards.replaced(shard, (&node, &tried), is_read) => Err(NoAnswer::Lost(why)),
            };
            // There may be others by now.
            nodes = shards.nodes(shard, is_read);
            let answer = match answer {
                Ok(answer) => answer,
                Err(NoAnswer::Busy) => {
                    let what = format!("Busy: too many requests wait to be sent to shard {shard}");
                    return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, what));
                }
                Err(NoAnswer::TooLong(why)) => {
                    let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                    let short = held.short.take().map(ApiError::from);
                    let mut e = short.unwrap_or_else(|| ApiError::internal(&why));
                    e.message.push_str(
                        ". The answers of shards don't fit: ask for fewer points (limit), or for less of each",
                    );
                    return Err(e);
                }
                Err(NoAnswer::NotReached(why)) => {
                    shards.note_silent(&node.url);
                    failed = Some(away(shard, format_args!("{} isn't reached: {why}", node.url)));
                    continue;
                }
                Err(NoAnswer::Lost(why)) => {
                    shards.note_silent(&node.url);
                    let lost = match is_read {
                        true => away(shard, format_args!("{} didn't answer: {why}", node.url)),
                        false => away(
                            shard,
                            format_args!(
                                "{} didn't answer, whether the write is done there isn't known: {why}",
                                node.url
                            ),
                        ),
                    };
                    match is_read {
                        true => failed = Some(lost),
                        // Another node would send it to the same owner.
                        false => return Err(lost),
                    }
                    continue;
                }
            };
            let status = StatusCode::from_u16(answer.status).map_err(ApiError::internal)?;
            if status.is_success() {
                if !is_read && let Some(slot) = number(&answer.headers, &SLOT) {
                    shards.note_written(shard, slot);
                }
                return Ok(Part {
                    shard,
                    node: node.url,
                    waited: Duration::ZERO,
                    json: answer.body,
                    _held: Held::There(held),
                });
            }
            let e = refused_there(shard, status, &answer.headers, &answer.body);
            // It holds another shard by now, or can't answer for the moment.
            if status != StatusCode::MISDIRECTED_REQUEST && status != StatusCode::SERVICE_UNAVAILABLE {
                return Err(e);
            }
            failed = Some(e);
        }
        Err(failed.unwrap_or_else(|| away(shard, format_args!("no node holds it now"))))
    }

    /// Memory for an answer and what is made of it, as it comes.
    fn room(&self, growing: Arc<Mutex<Growing>>) -> Room {
        let from = self.shards().gathered.clone();
        Arc::new(move |bytes| {
            let mut growing = growing.lock().unwrap_or_else(PoisonError::into_inner);
            let all = bytes * limits::GATHERED_OF_TEXT;
            growing.held.at_least(all, &from).map_err(|e| {
                let why = e.to_string();
                growing.short = Some(e);
                why
            })
        })
    }
}

/// `12,9,33`: a slot of each shard.
fn slots_of(asked: &HeaderValue, shards: u32) -> ApiResult<Vec<u64>> {
    let slots = asked.to_str().ok().and_then(|text| {
        text.split(',')
            .map(|slot| slot.trim().parse::<u64>().ok())
            .collect()
    });
    match slots {
        Some(slots) if Vec::len(&slots) == shards as usize => Ok(slots),
        _ => Err(ApiError::wrong_input(format!(
            "{SLOT_MIN} has a slot of each of the {shards} shards, as ramlet-slot of an answer has them"
        ))),
    }
}

/// 503 with the shard that nobody answers for.
fn away(shard: u32, why: std::fmt::Arguments<'_>) -> ApiError {
    ApiError {
        retry_after: Some(limits::RETRY_AFTER_SECONDS),
        ..ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("Shard {shard} doesn't answer: {why}"),
        )
    }
}

/// What is wrong with the request is wrong at all shards; any other error is one shard's.
fn told(shard: u32, e: ApiError) -> ApiError {
    match e.status.is_server_error() {
        false => e,
        true => ApiError {
            message: format!("Shard {shard}: {}", e.message),
            ..e
        },
    }
}

fn refused_there(shard: u32, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ApiError {
    let said = serde_json::from_slice::<Envelope<'_>>(body).ok();
    let said = said.and_then(|envelope| serde_json::from_str::<Failed>(envelope.status?.get()).ok());
    let message = said.map_or_else(|| format!("the node answered {status}"), |failed| failed.error);
    // The route is known here, so what isn't there is the collection or the point.
    let status = match status {
        StatusCode::MISDIRECTED_REQUEST => StatusCode::SERVICE_UNAVAILABLE,
        status => status,
    };
    let e = ApiError {
        retry_after: number(headers, &header::RETRY_AFTER).map(|seconds| seconds as u32),
        ..ApiError::new(status, message)
    };
    told(shard, e)
}

/// Runs all of them at once, and waits for all.
pub async fn at_once<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_ready = true;
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *done = Some(output),
                    Poll::Pending => is_ready = false,
                }
            }
        }
        match is_ready {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    done.into_iter().flatten().collect()
}
