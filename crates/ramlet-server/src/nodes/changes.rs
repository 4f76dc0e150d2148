//! How changes of collections come into a log that nodes share, and out of it.
//!
//! Changes of points are groups of the engine, which go to the log on their way ([`ramlet::GroupLog`]). Changes of collections, indexes and aliases are
//! requests. The writer puts a request into the log first, then runs it. A reader runs it at the same place of the log, by the same function ([`replay`]). So
//! all nodes make the same changes in the same order, and collections get the same numbers everywhere.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use axum::http::StatusCode;
use bytes::Bytes;
use ramlet::ShardKey;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::forward::forward;
use super::keys::{DROPPED, KEYS};
use super::node::{Node, Place, stopped};
use crate::access::auth::{Access, Grant};
use crate::answers::answer::Answer;
use crate::answers::out::Form;
use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::limits;
use crate::request::api_request::{ApiRequest, RequestBody};
use crate::request::call::Call;
use crate::request::growing_reservation::GrowingReservation;
use crate::request::params::QueryParams;
use crate::request::route::Route;
use crate::routes::routes;
use crate::threads::pool::spawn_blocking;

/// A change of collections, as the log has it.
#[derive(Serialize, Deserialize)]
struct Change<'a> {
    method: &'a str,
    /// The route's pattern, and what stands for its parameters.
    path: &'a str,
    params: Vec<(String, String)>,
    query: String,
    /// The number that the next new collection gets: a change is about older ones.
    number: u64,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

/// What a route does to a node's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing that others see.
    Local,
    Read,
    Points,
    Change,
    /// What can't be told by the log.
    Never,
}

fn kind_of(route: &Route) -> Kind {
    const CHANGED: [&str; 6] = [
        "/collections/aliases",
        "/collections/{collection}",
        "/collections/{collection}/index",
        "/collections/{collection}/vectors",
        KEYS,
        DROPPED,
    ];
    let restores = ["upload", "recover", "recover_from"]
        .iter()
        .any(|end| route.path.ends_with(end));
    let path = route.path.strip_suffix("/{field}").unwrap_or(route.path);
    let path = path.strip_suffix("/{vector}").unwrap_or(path);
    match route.access {
        Access::Public | Access::Read | Access::ReadSome | Access::ReadFiles => Kind::Read,
        Access::Write => Kind::Points,
        Access::WriteFiles | Access::Manage if CHANGED.contains(&path) => Kind::Change,
        _ if restores && route.path.starts_with("/collections/") => Kind::Never,
        _ => Kind::Local,
    }
}

/// Runs a request that may, where its route and the role of this node let it.
pub async fn handle(route: &'static Route, call: Call) -> ApiResult<Answer> {
    let Some(node) = call.app.node.clone() else {
        return (route.handler)(call).await;
    };
    let kind = kind_of(route);
    match kind {
        Kind::Local => {}
        Kind::Read => {
            let deadline = call.request.deadline();
            if call.request.query.is_consistent {
                node.await_end(deadline).await?;
            }
            node.await_slot(&call.request.incoming.headers, deadline).await?;
        }
        Kind::Never => {
            return Err(ApiError::unsupported(format!(
                "{} {} on a node over a store",
                route.method, route.path
            )));
        }
        Kind::Points | Kind::Change => match node.place()? {
            Place::At(owner) => return forward(&node, route, call, &owner).await,
            Place::Here if kind == Kind::Change => {
                // To its end, also when the client leaves: what is in the log has to be made here.
                let done = tokio::spawn(change(node, route, call)).await;
                return done.map_err(ApiError::internal)?;
            }
            Place::Here => {}
        },
    }
    (route.handler)(call).await
}

async fn change(node: Arc<Node>, route: &'static Route, mut call: Call) -> ApiResult<Answer> {
    let body = match call.request.take_body() {
        RequestBody::Json(body) => body,
        RequestBody::Message(message, _) => message.text().map_err(ApiError::wrong_input)?.into(),
    };
    let body: Option<&RawValue> = match body.is_empty() {
        true => None,
        false => Some(serde_json::from_slice(&body).map_err(ApiError::format)?),
    };
    let _changing = node.changing.lock().await;
    let app = call.app.clone();
    let names_alias = ["PUT", "DELETE"].contains(&route.method) && route.path == "/collections/{collection}";
    let mut params = call.request.params().to_vec();
    for (name, value) in &mut params {
        // Which collection an alias meant is decided once.
        if name == "collection" && !names_alias {
            *value = app.engine.resolve_alias(value);
        }
    }
    let change = Change {
        method: route.method,
        path: route.path,
        params,
        query: call.request.incoming.query.clone(),
        number: app.engine.next_number(),
        body,
    };
    let change = serde_json::to_vec(&change).map_err(ApiError::internal)?;
    if change.len() as u64 > limits::CHANGE_BYTES {
        let what = format!(
            "a change of {} bytes, at most {} are possible",
            change.len(),
            limits::CHANGE_BYTES
        );
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, what));
    }
    let (log, logged) = (node.log.clone(), change.clone());
    let appended = spawn_blocking(move || log.append(logged)).await;
    let slot = appended
        .map_err(ApiError::internal)?
        .map_err(|why| stopped(&why))?;
    let until = Instant::now() + limits::CHANGE_WAIT;
    loop {
        let made = replay(&app, &change).await;
        match made {
            Err(e) if is_here_only(&e) && Instant::now() < until => {
                tokio::time::sleep(limits::CHANGE_PAUSE).await;
            }
            Err(e) if is_here_only(&e) => {
                let why = format!("a change that is in the log can't be made here: {}", e.message);
                node.log.fail(slot, &why);
                return Err(e);
            }
            made => {
                // What is wrong with a request is known at its slot too.
                note(&node, slot).await?;
                return made?.ok_or_else(|| ApiError::internal("the change was made before"));
            }
        }
    }
}

async fn note(node: &Arc<Node>, slot: u64) -> ApiResult<()> {
    let log = node.log.clone();
    let noted = spawn_blocking(move || log.made(slot)).await;
    noted.map_err(ApiError::internal)?.map_err(|why| stopped(&why))
}

/// Whether another node may succeed where this one fails: memory, disk, the end of the process. What is wrong with a request is wrong everywhere.
fn is_here_only(e: &ApiError) -> bool {
    e.status.is_server_error() || e.status == StatusCode::TOO_MANY_REQUESTS
}

/// Makes a change of the log; `None`: it was made here before.
async fn replay(app: &Arc<App>, change: &[u8]) -> ApiResult<Option<Answer>> {
    let change: Change<'_> = serde_json::from_slice(change).map_err(ApiError::internal)?;
    let mut all = routes().iter();
    let route = all.find(|route| route.method == change.method && route.path == change.path);
    let Some(route) = route.filter(|route| kind_of(route) == Kind::Change) else {
        let what = format!(
            "{} {} is no change that this version knows",
            change.method, change.path
        );
        return Err(ApiError::internal(what));
    };
    let named = change.params.iter().find(|(name, _)| name == "collection");
    let makes = (route.method, route.path) == ("PUT", "/collections/{collection}");
    if let Some((_, name)) = named.filter(|_| !makes) {
        let number = app.engine.number_of_collection(name);
        // The same name, and the same key, may have been given anew since then.
        let of_key = match (route.path, change.body) {
            (DROPPED, Some(body)) => key_of(body).and_then(|key| app.engine.number_of_shard_key(name, &key)),
            _ => None,
        };
        if number.max(of_key).is_some_and(|number| number >= change.number) {
            return Ok(None);
        }
    }
    let takes_number = makes || (route.method, route.path) == ("PUT", KEYS);
    if takes_number && !app.engine.begin_number(change.number) {
        return Ok(None);
    }
    let body = change
        .body
        .map_or_else(Bytes::new, |body| Bytes::copy_from_slice(body.get().as_bytes()));
    let held = GrowingReservation::in_time(route.body.after(&body), &app.requests).await?;
    let given = (RequestBody::Json(body), Form::Json);
    let query = QueryParams::parse(&change.query)?;
    let request = ApiRequest::new(change.params, query, given, Instant::now());
    let call = Call::new(app.clone(), request, (Grant::default(), held));
    (route.handler)(call).await.map(Some)
}

/// The shard key that a change is about.
fn key_of(body: &RawValue) -> Option<ShardKey> {
    #[derive(Deserialize)]
    struct Of {
        shard_key: ShardKey,
    }
    serde_json::from_str::<Of>(body.get()).ok().map(|of| of.shard_key)
}

/// Makes the changes of the log, one after the other, on a thread of its own.
pub struct Replayer {
    app: Arc<App>,
    runtime: tokio::runtime::Runtime,
}

impl Replayer {
    pub(crate) fn new(app: Arc<App>) -> io::Result<Replayer> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .thread_stack_size(limits::THREAD_STACK_BYTES)
            .enable_all()
            .build()?;
        Ok(Replayer { app, runtime })
    }

    /// Makes a change. An error: it couldn't be made here and should be tried again. What every node refuses is no error.
    pub fn replay(&self, change: &[u8]) -> Result<(), String> {
        match self.runtime.block_on(replay(&self.app, change)) {
            Err(e) if is_here_only(&e) => Err(e.message),
            _ => Ok(()),
        }
    }

    /// Runs `act` while no change is between the log and its making.
    pub fn between_changes<T>(&self, act: impl FnOnce() -> T) -> T {
        let node = self.app.node.clone();
        let _changing = node.as_ref().map(|node| node.changing.blocking_lock());
        act()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_that_writes_has_a_kind() {
        let kinds = |kind| {
            let of_kind = routes().iter().filter(move |route| kind_of(route) == kind);
            let mut all: Vec<_> = of_kind
                .map(|route| format!("{} {}", route.method, route.path))
                .collect();
            all.sort();
            all
        };
        assert_eq!(
            kinds(Kind::Change),
            [
                "DELETE /collections/{collection}",
                "DELETE /collections/{collection}/index/{field}",
                "DELETE /collections/{collection}/vectors/{vector}",
                "PATCH /collections/{collection}",
                "POST /collections/aliases",
                "POST /collections/{collection}/shards/delete",
                "PUT /collections/{collection}",
                "PUT /collections/{collection}/index",
                "PUT /collections/{collection}/shards",
                "PUT /collections/{collection}/vectors/{vector}",
            ]
        );
        let never = kinds(Kind::Never);
        assert_eq!(never.len(), 6, "{never:?}");
        let local = kinds(Kind::Local);
        assert!(local.iter().all(|route| !route.contains("/points")), "{local:?}");
    }
}
