//! A request on its way into the engine, and the three ways in: search slots, the update queue, the blocking pool.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use ramlet::filter::Filter;
use ramlet::{Collection, Scratch, Strict, UpdateOp};
use ramlet_memory::Consumer;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, oneshot};

use crate::answer::Answer;
use crate::app::App;
use crate::auth::{Access, Grant};
use crate::error::{ApiError, ApiResult};
use crate::grpc::node::{self, Node};
use crate::held::Held;
use crate::limits;
use crate::out::{Form, Out};
use crate::params::QueryParams;
use crate::parts::Expected;
use crate::pool::spawn_blocking;
use crate::portions::{List, Next};
use crate::slots::{on_slot, on_slot_or_here};
use crate::stream::Stream;
use crate::strict_guard::{Guard, adds};
use crate::wire::collection::check_name;

/// What a handler gets.
pub struct Call {
    pub app: Arc<App>,
    params: Vec<(String, String)>,
    pub query: QueryParams,
    pub incoming: Incoming,
    pub grant: Grant,
    body: Given,
    form: Form,
    /// Held until the engine is done with what the body became, even when the client is gone by then.
    held: Arc<Held>,
    start: Instant,
    /// See [`Call::quick`].
    quick: bool,
}

/// The body of a request.
pub enum Given {
    Json(Bytes),
    /// A message in the shape of JSON, and the bytes it came in.
    Message(Node, usize),
}

impl Given {
    fn read<T: DeserializeOwned>(self) -> ApiResult<T> {
        match self {
            Given::Json(body) => serde_json::from_slice(&body).map_err(ApiError::format),
            Given::Message(node, _) => node::read(node).map_err(ApiError::wrong_input),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Given::Json(body) => body.len(),
            Given::Message(_, bytes) => *bytes,
        }
    }
}

/// The request as it came, for the few handlers that read it themselves.
#[derive(Default)]
pub struct Incoming {
    /// Behind the question mark, as it is.
    pub query: String,
    pub headers: HeaderMap,
    /// `HEAD`: the answer's body isn't sent.
    pub head_only: bool,
    /// Of routes whose body isn't read before the handler. Never locked: a body can't be shared, a lock can.
    pub body: Mutex<Body>,
}

/// How an update ended.
pub enum Updated {
    Done {
        operation_id: u64,
    },
    /// `timeout` passed first; the update is still under way.
    TimedOut,
}

impl Call {
    pub fn new(
        app: Arc<App>,
        params: Vec<(String, String)>,
        query: QueryParams,
        (body, form): (Given, Form),
        held: Held,
        start: Instant,
    ) -> Call {
        Call {
            app,
            params,
            query,
            incoming: Incoming::default(),
            grant: Grant::default(),
            body,
            form,
            held: Arc::new(held),
            start,
            quick: false,
        }
    }

    /// The same, with the request itself.
    pub fn with(self, incoming: Incoming) -> Call {
        Call { incoming, ..self }
    }

    /// The same, for somebody who may do no more than this.
    pub fn granted(self, grant: Grant) -> Call {
        Call { grant, ..self }
    }

    /// Names of the collections that the key opens.
    pub fn collection_names(&self) -> Vec<String> {
        let mut names = self.app.engine.collection_names();
        names.retain(|name| self.grant.sees(name));
        names
    }

    /// Refuses points of other collections than those that the key opens.
    pub fn check_lookup(&self, collection: &str) -> ApiResult<()> {
        self.grant.check(Access::Read, Some(collection))
    }

    /// What the engine is asked for is a matter of a millisecond: the thread that holds the connection may do it itself.
    pub fn quick(&mut self, is: bool) {
        self.quick = is;
    }

    /// Since the request came.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// A parameter of the path, percent-decoded.
    pub fn param(&self, name: &str) -> &str {
        self.params
            .iter()
            .find(|(key, _)| key == name)
            .map_or("", |(_, value)| value)
    }

    /// The collection that the path names, directly or by an alias.
    pub fn collection(&self) -> ApiResult<Arc<Collection>> {
        let name = self.param("collection");
        if name.len() > limits::NAME_BYTES {
            check_name("collection_name", name)?;
        }
        let collection = self.app.engine.collection(name)?;
        if let Some(timeout) = self.query.timeout
            && let Some(strict) = self.strict(&collection)
        {
            strict.timeout(timeout.as_secs())?;
        }
        Ok(collection)
    }

    /// The strict mode of a collection that has it.
    pub fn strict<'a>(&'a self, collection: &'a Collection) -> Option<Guard<'a>> {
        Guard::of(&self.app.rates, &self.app.engine, collection)
    }

    /// Counts a read that costs so much, where the collection is strict.
    pub fn check_rate(&self, collection: &Collection, cost: u64) -> ApiResult<()> {
        self.strict(collection).map_or(Ok(()), |strict| strict.read(cost))
    }

    /// Runs `job` on a search slot.
    pub async fn on_slot<T, F>(&self, job: F) -> ApiResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Scratch) -> ApiResult<T> + Send + 'static,
    {
        on_slot(&self.app.engine, self.deadline(), job).await
    }

    /// A read with this filter, counted and checked where the collection is strict.
    pub fn check_read(&self, collection: &Collection, filter: Option<&Filter>) -> ApiResult<()> {
        match self.strict(collection) {
            None => Ok(()),
            Some(strict) => {
                strict.filter(filter)?;
                strict.read(Strict::cost_of_filter(filter))
            }
        }
    }

    /// A change, counted and checked where the collection is strict.
    async fn check_change(&self, collection: &Arc<Collection>, op: &UpdateOp) -> ApiResult<()> {
        let Some(strict) = self.strict(collection) else {
            return Ok(());
        };
        strict.change(op)?;
        if !strict.has_write_rate() {
            return Ok(());
        }
        let cost = match Strict::cost_of(op) {
            Ok(cost) => cost,
            Err(filter) => match strict.cost_unindexed(filter) {
                Some(cost) => cost,
                None => {
                    let (filter, counted) = (filter.clone(), collection.clone());
                    let count =
                        move |scratch: &mut Scratch| Ok(counted.count(Some(&filter), false, scratch)?);
                    on_slot(&self.app.engine, self.deadline(), count).await?.max(1)
                }
            },
        };
        strict.write(cost)
    }

    /// The body as `T`. Large ones are parsed off the async threads.
    pub async fn parse<T: DeserializeOwned + Send + 'static>(&mut self) -> ApiResult<T> {
        let body = std::mem::replace(&mut self.body, Given::Json(Bytes::new()));
        if body.bytes() <= limits::PARSE_INLINE_BYTES {
            return body.read();
        }
        let held = self.held.clone();
        let parsed = spawn_blocking(move || {
            let _held = held;
            body.read()
        });
        parsed.await.map_err(ApiError::internal)?
    }

    /// A small result, written here and now.
    pub fn answer<T: Serialize + ?Sized>(&self, result: &T) -> ApiResult<Answer> {
        let mut out = Out::new(&self.app.responses);
        out.value(result);
        Ok(Answer::Json(out))
    }

    fn deadline(&self) -> Instant {
        self.start + self.query.timeout.unwrap_or(limits::READ_TIMEOUT)
    }

    /// Bytes for figures of the server while they are gathered: so many for a row of the counts of requests, and for a collection.
    pub async fn gather(&self, by_collection: bool, (row, collection): (u64, u64)) -> ApiResult<Held> {
        let app = &self.app;
        let collections = app.engine.collection_names().len() as u64;
        let bytes = app.stats.rows_to_tell(by_collection) * row + collections * collection;
        Ok(Held::in_time(bytes, &app.responses).await?)
    }

    /// So many bytes. They are waited for, unless the request itself holds what others wait for.
    async fn hold(&self, bytes: u64, from: &Consumer) -> ApiResult<Held> {
        if self.held.bytes() <= limits::PATIENT_BYTES {
            return Ok(Held::in_time(bytes, from).await?);
        }
        let mut held = Held::default();
        held.at_least(bytes, from)?;
        Ok(held)
    }

    /// An answer that needs so many bytes, `handed` of them for what the engine hands over.
    async fn begin(&self, bytes: u64, handed: u64) -> ApiResult<Out> {
        let held = self.hold(bytes, &self.app.responses).await?;
        let mut out = Out::within(held, handed, self.form, &self.app.responses);
        out.raw("{\"result\":");
        Ok(out)
    }

    /// Runs `job` on a search slot, which also writes the answer. `expected`: bytes that the job is known to need.
    pub async fn read<F>(&self, expected: u64, job: F) -> ApiResult<Answer>
    where
        F: FnOnce(&mut Scratch, &mut Out) -> ApiResult<()> + Send + 'static,
    {
        let mut out = self.begin(expected, expected).await?;
        let held = self.held.clone();
        on_slot_or_here(&self.app.engine, self.deadline(), self.quick, move |scratch| {
            job(scratch, &mut out)?;
            // Given back before the answer goes out: who has it may count on the bytes.
            drop(held);
            Ok(Answer::Json(out))
        })
        .await
    }

    /// Runs `open` on a search slot, which finds the points of the answer, and writes them: at once when they are one
    /// portion, otherwise as a stream that fetches a portion when the one before is on its way.
    pub async fn list<F>(&self, expected: Expected, open: F) -> ApiResult<Answer>
    where
        F: FnOnce(&mut Scratch, &mut Out) -> ApiResult<List> + Send + 'static,
    {
        let app = &self.app;
        // What is held to the end comes first, of an account of its own: nobody who has it keeps others from their portions.
        let mut listing = self.hold(expected.listing, &app.streams).await?;
        let mut out = self.begin(expected.first, expected.handed).await?;
        let held = self.held.clone();
        let whole = self.form != Form::Json;
        let (mut list, mut out, mut next) =
            on_slot_or_here(&app.engine, self.deadline(), self.quick, move |scratch| {
                let mut list = open(scratch, &mut out)?;
                drop(held);
                let next = match whole {
                    // The length of a message stands in front of it.
                    true => list.portions.write_rest(scratch, &mut out).map(|()| Next::Done)?,
                    false => list.portions.write_next(scratch, &mut out)?,
                };
                Ok((list, out, next))
            })
            .await?;
        while let Next::Short(bytes) = next {
            // The first point is larger than what is held, which is given back: no more than what opens the list stays.
            let opened = out.into_head()?;
            let held = Held::in_time(bytes.max(expected.next), &app.responses).await?;
            out = Out::within(held, expected.handed, self.form, &app.responses);
            out.raw_bytes(&opened);
            (list, out, next) = on_slot(&app.engine, self.deadline(), move |scratch| {
                let next = list.portions.write_next(scratch, &mut out)?;
                Ok((list, out, next))
            })
            .await?;
        }
        if next == Next::Done {
            out.raw(&list.suffix);
            return Ok(Answer::Json(out));
        }
        listing.shrink_to(list.portions.listing_bytes());
        Ok(Answer::Stream(Stream {
            app: app.clone(),
            begun: self.start,
            first: out.into_sent()?,
            list,
            listing,
            expected,
        }))
    }

    /// Queues `op` and waits until it is durable, in both modes of `wait`: an acknowledged change survives.
    pub async fn submit(&self, collection: &Arc<Collection>, op: UpdateOp) -> ApiResult<Updated> {
        if adds(&op) {
            self.app.quotas.check(&self.app.engine)?;
        }
        self.check_change(collection, &op).await?;
        let (tx, rx) = oneshot::channel();
        let held = self.held.clone();
        collection.submit(
            op,
            Box::new(move |result| {
                drop(held);
                let _ = tx.send(result);
            }),
        )?;
        let done = async { rx.await.map_err(|_| ApiError::internal("the update was dropped")) };
        let result = match self.query.timeout {
            None => done.await?,
            Some(limit) => match tokio::time::timeout_at((self.start + limit).into(), done).await {
                Ok(result) => result?,
                Err(_) => return Ok(Updated::TimedOut),
            },
        };
        Ok(Updated::Done {
            operation_id: result?.operation_id,
        })
    }

    /// Runs a call that blocks, such as creating a collection, on the blocking pool; `places` bounds how many do.
    ///
    /// It runs to its end even when the client leaves: half of a change is not an option.
    pub async fn block<T, F>(&self, places: &Arc<Semaphore>, job: F) -> ApiResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&ramlet::Engine) -> ApiResult<T> + Send + 'static,
    {
        let app = self.app.clone();
        let held = self.held.clone();
        let place = places.clone().acquire_owned().await.map_err(ApiError::internal)?;
        let done = spawn_blocking(move || {
            let (_place, _held) = (place, held);
            job(&app.engine)
        });
        done.await.map_err(ApiError::internal)?
    }
}

/// Refuses a token whose point isn't there any more.
pub async fn confirm(app: &App, grant: &Grant, deadline: Instant) -> ApiResult<()> {
    const WORDS: &str = "Invalid JWT, stateful validation failed";
    let Some(exists) = grant.value_exists() else {
        return Ok(());
    };
    let Ok(collection) = app.engine.collection(&exists.collection) else {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            format!("Forbidden: {WORDS}"),
        ));
    };
    let filter = exists.filter.clone();
    let count = move |scratch: &mut Scratch| Ok(collection.count(Some(&filter), true, scratch)?);
    match on_slot(&app.engine, deadline, count).await? {
        0 => Err(ApiError::new(StatusCode::UNAUTHORIZED, WORDS)),
        _ => Ok(()),
    }
}
