//! A handler's input: the request, its grant and reservation, and the server's state.

use std::sync::Arc;

use ramlet::filter::Filter;
use ramlet::{Collection, Scratch, Strict, UnindexedField};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::admission::Admitted;
use super::api_request::ApiRequest;
use super::growing_reservation::GrowingReservation;
use crate::access::auth::{Access, Grant};
use crate::answers::answer::Answer;
use crate::answers::out::Out;
use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::guards::strict_guard::Guard;
use crate::limits;
use crate::observability::steps::Steps;
use crate::threads::pool::spawn_blocking;
use crate::wire::name_rules::check_name;

/// A request that may run. How it does: [`execute`](super::execute).
pub struct Call {
    pub app: Arc<App>,
    pub request: ApiRequest,
    pub admitted: Admitted,
}

/// The fields without an index that a read's filter asks about.
pub struct FilterReads {
    app: Arc<App>,
    collection: Arc<Collection>,
    fields: Vec<UnindexedField>,
    steps: Option<Arc<Steps>>,
}

impl FilterReads {
    /// Reads, and notes how many payloads were read for want of an index: for `/issues`, and for what is told of slow requests.
    pub fn noted<T>(&self, scratch: &mut Scratch, read: impl FnOnce(&mut Scratch) -> T) -> T {
        scratch.take_payloads_checked();
        let found = read(scratch);
        self.note(scratch.take_payloads_checked());
        found
    }

    /// So many payloads were read.
    pub fn note(&self, payloads: u64) {
        if !self.fields.is_empty() {
            self.app.unindexed.note(&self.collection, &self.fields, payloads);
            if let Some(steps) = &self.steps {
                steps.note_unindexed(self.fields.clone(), payloads);
            }
        }
    }
}

impl Call {
    pub fn new(app: Arc<App>, request: ApiRequest, (grant, held): (Grant, GrowingReservation)) -> Call {
        let held = Arc::new(held);
        Call {
            app,
            request,
            admitted: Admitted { grant, held },
        }
    }

    /// Names of the collections that the key opens.
    pub fn collection_names(&self) -> Vec<String> {
        let mut names = self.app.engine.collection_names();
        names.retain(|name| self.admitted.grant.may_see(name));
        names
    }

    /// Refuses points of other collections than those that the key opens.
    pub fn check_lookup(&self, collection: &str) -> ApiResult<()> {
        self.admitted.grant.check(Access::Read, Some(collection))
    }

    /// The collection that the path names, directly or by an alias.
    pub async fn collection(&self) -> ApiResult<Arc<Collection>> {
        let name = self.named()?;
        let collection = self.app.collection(name).await?;
        if let Some(timeout) = self.request.query.timeout
            && let Some(strict) = self.strict(&collection)
        {
            strict.timeout(timeout.as_secs())?;
        }
        Ok(collection)
    }

    /// Refused where the path names no collection, or one that is closed; loads nothing.
    pub fn check_collection(&self) -> ApiResult<()> {
        Ok(self.app.engine.check_collection(self.named()?)?)
    }

    fn named(&self) -> ApiResult<&str> {
        let name = self.request.param("collection");
        if name.len() > limits::NAME_BYTES {
            check_name("collection_name", name)?;
        }
        Ok(name)
    }

    /// The strict mode of a collection that has it.
    pub fn strict<'a>(&'a self, collection: &'a Collection) -> Option<Guard<'a>> {
        Guard::of(&self.app.rates, &self.app.engine, collection)
    }

    /// Counts a read that costs so much, where the collection is strict.
    pub fn check_rate(&self, collection: &Collection, cost: u64) -> ApiResult<()> {
        self.strict(collection).map_or(Ok(()), |strict| strict.read(cost))
    }

    /// A read with this filter, counted and checked where the collection is strict. Returns what notes its payloads.
    pub fn check_read(
        &self,
        collection: &Arc<Collection>,
        filter: Option<&Filter>,
    ) -> ApiResult<FilterReads> {
        if let Some(strict) = self.strict(collection) {
            strict.filter(filter)?;
            strict.read(Strict::cost_of_filter(filter))?;
        }
        Ok(self.reads(collection, filter))
    }

    /// What notes the payloads that are read for a filter.
    pub fn reads(&self, collection: &Arc<Collection>, filter: Option<&Filter>) -> FilterReads {
        FilterReads {
            app: self.app.clone(),
            collection: collection.clone(),
            fields: filter
                .map(|filter| collection.unindexed_fields(filter))
                .unwrap_or_default(),
            steps: self.request.steps.clone(),
        }
    }

    /// The body as `T`. Large ones are parsed off the async threads.
    pub async fn parse<T: DeserializeOwned + Send + 'static>(&mut self) -> ApiResult<T> {
        let body = self.request.take_body();
        if body.bytes() <= limits::PARSE_INLINE_BYTES {
            return body.read();
        }
        let held = self.admitted.held.clone();
        let parsed = spawn_blocking(move || {
            let _held = held;
            body.read()
        });
        parsed.await.map_err(ApiError::internal)?
    }

    /// From now on the request's steps are noted, if that is asked for, or was before; then all its searches are explained.
    pub fn explain(&mut self, asked: bool) -> bool {
        let all = self.request.steps.is_some();
        // A few are timed for what they tell of the disk.
        if !all && (asked || self.app.read_waits.is_next_timed()) {
            self.request.steps = Some(Steps::new(self.request.start));
        }
        if let Some(steps) = &self.request.steps {
            steps.note_received(self.admitted.held.waited());
            steps.note_headers(&self.request.incoming.headers);
        }
        all
    }

    /// A small result, written here and now.
    pub fn answer<T: Serialize + ?Sized>(&self, result: &T) -> ApiResult<Answer> {
        let mut out = Out::new(&self.app.responses);
        out.value(result);
        Ok(Answer::Json(out))
    }

    /// Bytes for figures of the server while they are gathered: so many for a row of the counts of requests, and for a collection.
    pub async fn gather(
        &self,
        by_collection: bool,
        (row, collection): (u64, u64),
    ) -> ApiResult<GrowingReservation> {
        let app = &self.app;
        // Those that are not in RAM are counted, not told of.
        let collections = app.engine.loaded_collections().len() as u64;
        let bytes = app.stats.row_count(by_collection) * row + collections * collection;
        Ok(GrowingReservation::in_time(bytes, &app.responses).await?)
    }
}
