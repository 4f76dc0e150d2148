//! The three ways of a call into the engine: the search slots, the update queue, the blocking pool.

use std::sync::Arc;
use std::time::Instant;

use ramlet::{Collection, Completion, Scratch, Strict, UpdateOp, UpdateResult};
use ramlet_memory::Consumer;
use tokio::sync::{Semaphore, oneshot};

use super::call::{Call, FilterReads};
use super::growing_reservation::GrowingReservation;
use crate::answers::answer::Answer;
use crate::answers::list::List;
use crate::answers::out::{Form, Out};
use crate::answers::portions::Next;
use crate::answers::shown_parts::Expected;
use crate::answers::stream::Stream;
use crate::error::{ApiError, ApiResult};
use crate::guards::strict_guard::adds;
use crate::limits;
use crate::observability::steps::clock;
use crate::threads::pool::spawn_blocking;
use crate::threads::slots::{on_slot, on_slot_or_here};

/// How an update ended.
pub enum Updated {
    Done {
        operation_id: u64,
    },
    /// `timeout` passed first; the update is still under way.
    TimedOut,
}

/// An update that is in the engine's queue.
pub struct Queued {
    outcome: oneshot::Receiver<ramlet::Result<UpdateResult>>,
    /// Notes the payloads that its filter needs.
    reads: FilterReads,
}

impl Queued {
    /// Waits until it is done, or refused.
    pub async fn ended(self) -> ApiResult<ramlet::Result<UpdateResult>> {
        let dropped = |_| ApiError::internal("the update was dropped");
        let result = self.outcome.await.map_err(dropped)?;
        if let Ok(done) = &result {
            self.reads.note(done.payloads_checked);
        }
        Ok(result)
    }
}

impl Call {
    /// Runs `job` on a search slot.
    pub async fn on_slot<T, F>(&self, job: F) -> ApiResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Scratch) -> ApiResult<T> + Send + 'static,
    {
        let job = self.queued(job);
        on_slot(&self.app.engine, self.request.deadline(), job).await
    }

    /// The job, which notes how long it waited for a search thread, and gives that thread a clock, where somebody wants to know.
    fn queued<T, F>(&self, job: F) -> impl FnOnce(&mut Scratch) -> ApiResult<T> + Send + 'static
    where
        T: Send + 'static,
        F: FnOnce(&mut Scratch) -> ApiResult<T> + Send + 'static,
    {
        let (steps, app, queued) = (self.request.steps.clone(), self.app.clone(), Instant::now());
        move |scratch: &mut Scratch| {
            let waited = queued.elapsed();
            app.waits.queue.note(waited);
            if let Some(steps) = steps {
                steps.note_queue(waited);
                scratch.set_clock(clock);
            }
            job(scratch)
        }
    }

    /// So many bytes. They are waited for, unless the request itself holds what others wait for.
    async fn hold(&self, bytes: u64, from: &Consumer) -> ApiResult<GrowingReservation> {
        if self.admitted.held.bytes() <= limits::WAIT_BYTES {
            let held = GrowingReservation::in_time(bytes, from).await?;
            self.app.waits.note_memory(held.waited());
            if let Some(steps) = &self.request.steps {
                steps.note_memory(held.waited());
            }
            return Ok(held);
        }
        let mut held = GrowingReservation::default();
        held.at_least(bytes, from)?;
        Ok(held)
    }

    /// An answer that needs so many bytes, `handed` of them for what the engine hands over.
    async fn begin(&self, bytes: u64, handed: u64) -> ApiResult<Out> {
        let held = self.hold(bytes, &self.app.responses).await?;
        let mut out = Out::within(held, handed, self.request.form, &self.app.responses);
        out.raw("{\"result\":");
        Ok(out)
    }

    /// Runs `job` on a search slot, which also writes the answer. `expected`: bytes that the job is known to need.
    pub async fn read<F>(&self, expected: u64, job: F) -> ApiResult<Answer>
    where
        F: FnOnce(&mut Scratch, &mut Out) -> ApiResult<()> + Send + 'static,
    {
        let mut out = self.begin(expected, expected).await?;
        let held = self.admitted.held.clone();
        self.on_slot(move |scratch| {
            job(scratch, &mut out)?;
            // Given back before the answer goes out: who has it may count on the bytes.
            drop(held);
            Ok(Answer::Json(out))
        })
        .await
    }

    /// Runs `open` on a search slot, which finds the points of the answer, and writes them: at once when they are one
    /// portion, otherwise as a stream that fetches a portion when the one before is on its way. `quick`: the engine is asked for a
    /// matter of a millisecond, and the thread that holds the connection may do it itself.
    pub async fn list<F>(&self, expected: Expected, quick: bool, open: F) -> ApiResult<Answer>
    where
        F: FnOnce(&mut Scratch, &mut Out, &mut List) -> ApiResult<()> + Send + 'static,
    {
        let app = &self.app;
        // What is held to the end comes first, of an account of its own: nobody who has it keeps others from their portions.
        let listing = self.hold(expected.listing, &app.streams).await?;
        let mut list = List::new(listing, &app.streams);
        let mut out = self.begin(expected.first, expected.handed).await?;
        let held = self.admitted.held.clone();
        let whole = self.request.form != Form::Json;
        let (list, out, next) = on_slot_or_here(
            &app.engine,
            self.request.deadline(),
            quick,
            self.queued(move |scratch| {
                open(scratch, &mut out, &mut list)?;
                drop(held);
                let next = match whole {
                    // The length of a message stands in front of it.
                    true => list.write_rest(scratch, &mut out).map(|()| Next::Done)?,
                    false => list.write_next(scratch, &mut out)?,
                };
                list.fit()?;
                Ok((list, out, next))
            }),
        )
        .await?;
        let (mut list, mut out, mut next) = (list, out, next);
        while let Next::Short(bytes) = next {
            if out.len() > limits::OPENING_BYTES {
                // Points of other lists, which are sent meanwhile.
                next = Next::More;
                break;
            }
            // The first point is larger than what is held, which is given back: no more than what opens the list stays.
            let opened = out.into_head()?;
            let held = GrowingReservation::in_time(bytes.max(expected.next), &app.responses).await?;
            out = Out::within(held, expected.handed, self.request.form, &app.responses);
            out.raw_bytes(&opened);
            (list, out, next) = on_slot(&app.engine, self.request.deadline(), move |scratch| {
                let next = list.write_next(scratch, &mut out)?;
                Ok((list, out, next))
            })
            .await?;
        }
        if next == Next::Done {
            list.end(&mut out);
            return Ok(Answer::Json(out));
        }
        Ok(Answer::Stream(Stream {
            app: app.clone(),
            begun: self.request.start,
            first: out.into_sent()?,
            list,
            expected,
        }))
    }

    /// Whether [`Call::admit`] looks at points, of which those that are queued still may be some.
    pub fn looks_before(&self, collection: &Collection, op: &UpdateOp) -> bool {
        let strict = self.strict(collection);
        strict.is_some_and(|strict| strict.has_write_rate()) && Strict::cost_of(op).is_err()
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
                    on_slot(&self.app.engine, self.request.deadline(), count)
                        .await?
                        .max(1)
                }
            },
        };
        strict.write(cost)
    }

    /// Queues `op` and waits until it is durable, in both modes of `wait`: an acknowledged change survives.
    pub async fn submit(&self, collection: &Arc<Collection>, op: UpdateOp) -> ApiResult<Updated> {
        self.admit(collection, &op).await?;
        let (done, queued) = self.completion(collection, &op);
        collection.submit(op, done)?;
        self.updated(queued).await
    }

    /// Refuses a change by quotas and strict mode.
    pub async fn admit(&self, collection: &Arc<Collection>, op: &UpdateOp) -> ApiResult<()> {
        if adds(op) {
            self.app.quotas.check(&self.app.engine)?;
        }
        self.check_change(collection, op).await
    }

    /// What the engine is given with an update, and what to wait for then.
    pub fn completion(&self, collection: &Arc<Collection>, op: &UpdateOp) -> (Completion, Queued) {
        let (tx, outcome) = oneshot::channel();
        let reads = self.reads(collection, Strict::cost_of(op).err());
        let held = self.admitted.held.clone();
        let done = move |result| {
            drop(held);
            let _ = tx.send(result);
        };
        (Box::new(done), Queued { outcome, reads })
    }

    /// Waits for a queued update.
    pub async fn updated(&self, queued: Queued) -> ApiResult<Updated> {
        let done = queued.ended();
        let result = match self.request.query.timeout {
            None => done.await?,
            Some(limit) => match tokio::time::timeout_at((self.request.start + limit).into(), done).await {
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
        let held = self.admitted.held.clone();
        let place = places.clone().acquire_owned().await.map_err(ApiError::internal)?;
        let done = spawn_blocking(move || {
            let (_place, _held) = (place, held);
            job(&app.engine)
        });
        done.await.map_err(ApiError::internal)?
    }
}
