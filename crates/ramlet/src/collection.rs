//! A collection, as its users see it.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

use ramlet_format::catalog::CollectionEntry;
use ramlet_index::encode_row;
use ramlet_memory::{size, size_up};

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::faults::locks::whole;
use crate::filter::Filter;
use crate::filter::index::{emit_keys, is_presence};
use crate::jobs::maintenance;
use crate::jobs::progress::JobUnderWay;
use crate::jobs::{self, Moment, NewVector, vector_names};
use crate::limits::{GROUP_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::memory::descriptors;
use crate::memory::index_report::SegmentReport;
use crate::payload::{Path, validate};
use crate::query::request::{GroupsResponse, QueryGroupsRequest, QueryRequest, TextQuery, TextStatistics};
use crate::query::{self, Scratch, selector};
use crate::read::info::{CollectionInfo, CollectionStatus};
use crate::read::scroll;
use crate::read::view::View;
use crate::recall::monitor::{MeasuredRecall, RecallMonitor, Sample};
use crate::request::*;
use crate::schema::{PayloadField, Schema, Slots, VectorField, called};
use crate::segment::field_rows;
use crate::sharding::{
    JoinedWrites, Shard, ShardInfo, ShardKey, ShardSelection, ShardSet, each_once, is_once, no_shard,
};
use crate::state::core::{Core, Whom, Work};
use crate::types::*;
use crate::write::change::{encode_delete, encode_payload, encode_put, encode_put_head, encode_vector_head};
use crate::write::encoding::{check_column, check_dense, encode_vector, encode_vectors};

/// The status message if a segment lacks an index for lack of memory and no job will build it.
fn lacking_index(view: &View) -> Option<String> {
    view.segments.iter().find_map(|s| {
        let (name, lack) = s.segment.lacking_index(&view.schema)?;
        Some(format!(
            "too little memory for an index of {}: its build needs {}, {} were there; searches compare all {} rows of segment {} one by \
             one. A larger --memory lets it be built",
            called(name),
            size_up(lack.needed_bytes),
            size(lack.given_bytes),
            s.segment.rows(),
            s.segment.id(),
        ))
    })
}

/// Of one collection without keys, or one shard.
fn info_of(core: &Arc<Core>) -> CollectionInfo {
    let view = core.view.load_full();
    let (config, busy, stopped) = {
        let writer = core.writer();
        let busy = writer.frozen.is_some()
            || maintenance::awaits_index(&writer)
            || jobs::memtable_index_is_amortised(&writer)
            || [Moment::Busy, Moment::Idle]
                .iter()
                .any(|moment| !jobs::candidates(core, &writer, *moment).is_empty());
        let stopped = writer.check_writable().err();
        (
            writer.config.clone(),
            busy,
            stopped.map(|error| error.to_string()),
        )
    };
    let error = stopped
        .or_else(|| core.backoff.first())
        .or_else(|| (!busy).then(|| lacking_index(&view)).flatten());
    let indexed = view.segments.iter().map(|s| s.segment.indexed_vectors()).sum();
    CollectionInfo {
        status: match (&error, busy) {
            (Some(_), _) => CollectionStatus::Red,
            (None, true) => CollectionStatus::Yellow,
            (None, false) => CollectionStatus::Green,
        },
        optimizer_error: error,
        points_count: view.points(),
        indexed_vectors_count: indexed,
        vectors_count: vectors_count(&view),
        segments_count: (view.segments.len() + view.memtables.iter().filter(|b| b.len > 0).count()) as u64,
        payload_index_points: view
            .schema
            .fields
            .iter()
            .map(|f| (f.path.clone(), points_with(&view, f)))
            .collect(),
        config,
        disk_bytes: view.segments.iter().map(|s| s.segment.disk_bytes()).sum(),
        last_operation_id: view.operation,
        update_queue: whole(&core.queue).waiting.len() as u64,
        memory: crate::memory::footprint::of(&view),
    }
}

/// A handle; cheap to clone by `Arc`.
pub struct Collection {
    /// Settings and points; for a collection with shard keys only the settings.
    core: Arc<Core>,
    shards: Option<Arc<ShardSet>>,
    /// The shards that this handle reads and writes; `None`: all.
    chosen: Option<Vec<Arc<Shard>>>,
    /// The handle of the whole collection, which keeps it loaded as long as this one exists.
    _whole: Option<Arc<Collection>>,
}

impl Collection {
    pub(crate) fn new(core: Arc<Core>) -> Collection {
        Collection {
            core,
            shards: None,
            chosen: None,
            _whole: None,
        }
    }

    pub(crate) fn keyed(settings: Arc<Core>, shards: ShardSet) -> Collection {
        Collection {
            core: settings,
            shards: Some(Arc::new(shards)),
            chosen: None,
            _whole: None,
        }
    }

    /// A handle for some of the shards. `BadInput` with the API's message if no shard has such a key.
    pub fn within(self: &Arc<Self>, selection: &ShardSelection) -> Result<Arc<Collection>> {
        let none = ShardSet::default();
        let shards = self.shards.as_deref().unwrap_or(&none);
        match shards.choose(selection)? {
            None => Ok(self.clone()),
            chosen if self.shards.is_some() => Ok(Arc::new(Collection {
                core: self.core.clone(),
                shards: self.shards.clone(),
                chosen,
                _whole: Some(self.clone()),
            })),
            _ => Err(Error::bad_input("Wrong input: No shards found for shard key")),
        }
    }

    /// The same for one shard by its number. `NotFound` if there is none.
    pub fn within_shard(self: &Arc<Self>, number: u32) -> Result<Arc<Collection>> {
        let key = self.shard_of_number(number)?.key.clone();
        self.within(&ShardSelection::Keys(vec![(*key).clone()]))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn shard_set(&self) -> Option<&Arc<ShardSet>> {
        self.shards.as_ref()
    }

    pub(crate) fn shards(&self) -> Vec<Arc<Shard>> {
        self.shards
            .as_ref()
            .map_or_else(Vec::new, |set| (*set.list()).clone())
    }

    /// Whether nobody holds a shard or the list of shards.
    pub(crate) fn shards_unused(&self) -> bool {
        let Some(set) = &self.shards else {
            return true;
        };
        let list = set.list();
        // One is the set's, one is this.
        Arc::strong_count(set) == 1
            && Arc::strong_count(&list) == 2
            && list.iter().all(|shard| Arc::strong_count(shard) == 1)
    }

    /// `NotFound` if no shard has the number.
    pub(crate) fn shard_of_number(&self, number: u32) -> Result<Arc<Shard>> {
        let mut shards = self.shards().into_iter();
        shards
            .find(|shard| shard.number == number)
            .ok_or_else(|| no_shard(number))
    }

    /// Its own, then those of the shards.
    pub(crate) fn cores(&self) -> Vec<Arc<Core>> {
        let shards = self.shards();
        let shards = shards.iter().map(|shard| shard.core.clone());
        std::iter::once(self.core.clone()).chain(shards).collect()
    }

    /// As a catalog lists it under a name.
    pub(crate) fn entry(&self, name: &str) -> CollectionEntry {
        CollectionEntry {
            name: name.to_string(),
            id: self.core.id.clone(),
            shards: self.shards().iter().map(|shard| shard.entry()).collect(),
        }
    }

    pub fn has_shard_keys(&self) -> bool {
        self.shards.is_some()
    }

    /// Its shards; `None` without shard keys.
    pub fn shard_infos(&self) -> Option<Vec<ShardInfo>> {
        self.shards.as_ref().map(|set| set.infos())
    }

    pub(crate) fn view(&self) -> Arc<View> {
        let Some(set) = &self.shards else {
            return self.core.view.load_full();
        };
        let view = set.view(&self.core, self.chosen.as_deref(), false);
        view.unwrap_or_else(|_| self.core.view.load_full())
    }

    /// The same of all shards.
    pub(crate) fn whole_view(&self) -> Arc<View> {
        let whole = Collection {
            core: self.core.clone(),
            shards: self.shards.clone(),
            chosen: None,
            _whole: None,
        };
        whole.view()
    }

    /// The view for readers; an error once the collection was deleted, because its view is then empty.
    pub(crate) fn live_view(&self) -> Result<Arc<View>> {
        match &self.shards {
            None => self.core.live_view(),
            Some(set) => set.view(&self.core, self.chosen.as_deref(), true),
        }
    }

    /// Whether it takes no more writes until a restart; [`CollectionInfo::optimizer_error`] says why.
    pub fn has_stopped(&self) -> bool {
        let has_stopped = |core: &Arc<Core>| core.has_stopped.load(Ordering::Acquire);
        self.cores().iter().any(has_stopped)
    }

    pub fn info(&self) -> CollectionInfo {
        let mut info = info_of(&self.core);
        let all = self.shards();
        for shard in self.chosen.as_ref().unwrap_or(&all) {
            info.add(info_of(&shard.core));
        }
        info
    }

    /// Points that have each vector, by its name.
    pub(crate) fn vectors_count(&self) -> Vec<(String, u64)> {
        vectors_count(&self.whole_view())
    }

    pub fn config(&self) -> CollectionConfig {
        self.core.writer().config.clone()
    }

    /// Queues an update. Returns `Busy` at once if the queue is full, and `BadInput` for faults that need no state
    /// (unknown vector name, wrong dimension, payload not an object, missing shard key). An engine thread calls `done`.
    pub fn submit(&self, op: UpdateOp, done: Completion) -> Result<()> {
        let (first, rest) = self.targets()?;
        if rest.is_empty() {
            return submit(first, Cow::Owned(op), Whom { done, chain: None });
        }
        to_several(first, rest, done, |core, done| {
            submit(core, Cow::Borrowed(&op), Whom { done, chain: None })
        })
    }

    /// The same behind the others of `chain`, without waiting for them: many share a sync of the log. An error that this returns breaks no chain:
    /// it is the caller's to submit no more, or to submit the same once those before are done.
    pub fn submit_behind(&self, chain: &UpdateChain, op: &UpdateOp, done: Completion) -> Result<()> {
        let (first, rest) = self.targets()?;
        if !rest.is_empty() {
            let what = "a chain of updates is of one shard";
            return Err(Error::bad_input(what));
        }
        let chain = Some(chain);
        submit(first, Cow::Borrowed(op), Whom { done, chain })
    }

    /// Whether all that is written by this handle waits in one line.
    pub fn has_one_line(&self) -> bool {
        self.targets().is_ok_and(|(_, rest)| rest.is_empty())
    }

    /// Queues whole points given as columns: each number is read once and copied only into the log's form. Errors are those of
    /// [`Collection::submit`], for all points or none. The caller chooses the batch size: in the queue a batch takes about the bytes
    /// of the columns.
    pub fn submit_rows(&self, rows: &PointRows<'_>, done: Completion) -> Result<()> {
        let (first, rest) = self.targets()?;
        let alone = |done| Whom { done, chain: None };
        if rest.is_empty() {
            return submit_rows(first, rows, alone(done));
        }
        to_several(first, rest, done, |core, done| {
            submit_rows(core, rows, alone(done))
        })
    }

    /// The cores that a write goes to: the first shard, and the others.
    fn targets(&self) -> Result<(&Arc<Core>, &[Arc<Shard>])> {
        match (&self.shards, self.chosen.as_deref()) {
            (None, _) => Ok((&self.core, &[])),
            (Some(_), Some([first, rest @ ..])) => Ok((&first.core, rest)),
            _ => Err(Error::bad_input("Wrong input: Shard key not specified")),
        }
    }

    /// [`Collection::submit`], then waits for the completion.
    pub fn update(&self, op: UpdateOp) -> Result<UpdateResult> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.submit(
            op,
            Box::new(move |result| {
                let _ = sender.send(result);
            }),
        )?;
        receiver
            .recv()
            .map_err(|_| Error::new(ErrorKind::Closed, "the engine stopped before the update was done"))?
    }

    pub fn search(&self, request: &SearchRequest, scratch: &mut Scratch) -> Result<SearchResponse> {
        scratch.begin();
        let view = self.live_view()?;
        if !is_once(&view) {
            let mut request = request.clone();
            let span = (request.limit, std::mem::take(&mut request.offset));
            return each_once(&view, span, scratch, |limit, scratch| {
                request.limit = limit;
                search_in(&view, &request, scratch)
            });
        }
        let found = search_in(&view, request, scratch)?;
        if self.shards.is_none() {
            self.core.monitor.offer(request);
        }
        Ok(found)
    }

    /// Appends the hits to `out`. Allocates nothing when warm, without filter, payload and vectors.
    pub fn search_into(
        &self,
        request: &SearchRequest,
        scratch: &mut Scratch,
        out: &mut Vec<ScoredPoint>,
    ) -> Result<SearchCost> {
        scratch.begin();
        let view = self.live_view()?;
        query::search(&view, request, scratch, out, None)
    }

    /// Runs a query with its prefetches. `engine` has the other collections that it takes vectors from.
    pub fn query(
        &self,
        request: QueryRequest,
        engine: &Engine,
        scratch: &mut Scratch,
    ) -> Result<SearchResponse> {
        if request.limit == 0 {
            return self.live_view().map(|_| SearchResponse::default());
        }
        match request.into_search() {
            Ok(search) => self.search(&search, scratch),
            Err(request) => {
                scratch.begin();
                let view = self.live_view()?;
                let within = (&self.core, &view);
                if !is_once(&view) {
                    let mut request = *request;
                    let span = (request.limit, query::skipped(&request));
                    request.offset = 0;
                    return each_once(&view, span, scratch, |limit, scratch| {
                        request.limit = limit;
                        query::query(within, &request, engine, scratch)
                    });
                }
                let response = query::query(within, &request, engine, scratch)?;
                if self.shards.is_none() {
                    self.core.monitor.offer_stages(&request);
                }
                Ok(response)
            }
        }
    }

    /// Refuses a query that can't be run on any points of this collection.
    pub fn check_query(&self, request: &QueryRequest) -> Result<()> {
        query::check(&self.live_view()?.schema, request)
    }

    /// The statistics that weigh `dims` of the vector `using`, ascending: of all points, or of those that `idf` says.
    pub fn sparse_statistics(
        &self,
        using: &str,
        dims: &[u32],
        idf: Option<&Idf>,
        scratch: &mut Scratch,
    ) -> Result<SparseStatistics> {
        scratch.begin();
        let view = self.live_view()?;
        query::sparse_statistics(&view, using, dims, idf, &mut scratch.lookup)
    }

    /// The statistics that weigh the words of a text query.
    pub fn text_statistics(
        &self,
        using: &str,
        text: &TextQuery,
        scratch: &mut Scratch,
    ) -> Result<TextStatistics> {
        scratch.begin();
        let view = self.live_view()?;
        query::TextAsked::new(&view.schema, using, text)?.count(&view, &mut scratch.lookup)
    }

    /// Runs a query whose hits are grouped by a field's values; groups are ordered by their best hits.
    pub fn query_groups(
        &self,
        request: &QueryGroupsRequest,
        engine: &Engine,
        scratch: &mut Scratch,
    ) -> Result<GroupsResponse> {
        scratch.begin();
        let view = self.live_view()?;
        query::query_groups((&self.core, &view), request, engine, scratch)
    }

    /// The recall monitor.
    pub(crate) fn monitor(&self) -> &RecallMonitor {
        &self.core.monitor
    }

    /// Measures the recall of a kept query.
    pub(crate) fn measure_recall(&self, sample: &Sample, scratch: &mut Scratch) -> Result<()> {
        scratch.begin();
        self.core.monitor.measure(&self.view(), sample, scratch)
    }

    /// The measured recall of real queries by vector ([`crate::Engine::monitor_recall_once`]).
    pub fn measured_recall(&self) -> Vec<MeasuredRecall> {
        self.core.monitor.measured()
    }

    /// How each segment's vectors are indexed, and the placement of the indexes' parts.
    pub fn segment_reports(&self) -> Vec<SegmentReport> {
        crate::memory::index_report::of(&self.view())
    }

    /// Reads points in the order of `ids`, without unknown ones.
    pub fn retrieve(
        &self,
        ids: &[PointId],
        with_payload: &PayloadSelector,
        with_vectors: &VectorSelector,
        scratch: &mut Scratch,
    ) -> Result<Vec<Record>> {
        let ids = ids.iter().map(|id| (*id, None));
        self.retrieve_keyed(ids, with_payload, with_vectors, scratch)
    }

    /// The same; an id with a shard key is read from that shard.
    pub fn retrieve_keyed<'k>(
        &self,
        ids: impl ExactSizeIterator<Item = (PointId, Option<&'k ShardKey>)>,
        with_payload: &PayloadSelector,
        with_vectors: &VectorSelector,
        scratch: &mut Scratch,
    ) -> Result<Vec<Record>> {
        let view = self.live_view()?;
        check_vector_names(&view.schema, with_vectors)?;
        let payload = selector(with_payload)?;
        scratch.begin();
        let lookup = &mut scratch.lookup;
        let mut records = Vec::with_capacity(ids.len().min(1024));
        for (id, key) in ids {
            let place = match key {
                None => view.find(id, lookup)?,
                Some(key) => view.find_keyed(id, key, lookup)?,
            };
            if let Some(place) = place {
                records.push(scroll::record(&view, id, place, &payload, with_vectors, lookup)?);
            }
        }
        Ok(records)
    }

    pub fn scroll(&self, request: &ScrollRequest, scratch: &mut Scratch) -> Result<ScrollPage> {
        let view = self.live_view()?;
        check_vector_names(&view.schema, &request.with_vectors)?;
        scratch.begin();
        scroll::scroll(&view, request, &mut scratch.lookup)
    }

    /// Only the ids of what a scroll without `order_by` finds, and the id to go on from: a long page needs no more of its points at once.
    pub fn scroll_ids(
        &self,
        request: &ScrollRequest,
        scratch: &mut Scratch,
    ) -> Result<(Vec<PointId>, Option<PointId>)> {
        let view = self.live_view()?;
        check_vector_names(&view.schema, &request.with_vectors)?;
        scratch.begin();
        scroll::ids(&view, request, &mut scratch.lookup)
    }

    pub fn count(&self, filter: Option<&Filter>, exact: bool, scratch: &mut Scratch) -> Result<u64> {
        let view = self.live_view()?;
        scroll::count(&view, filter, exact, &mut scratch.lookup)
    }

    /// Builds a payload index over the existing points and maintains it. Creating the same again is a no-op; another kind replaces it.
    pub fn create_payload_index(&self, field: &str, index: FieldIndex) -> Result<UpdateResult> {
        Path::parse(field)
            .map_err(|e| Error::bad_input(format!("Wrong input: field_name `{field}`: {e}")))?;
        self.check_new_files()?;
        self.change_first(&|core, slots| {
            jobs::create_field_index(core, field, index.clone(), slots.map(|slots| slots.next_field))
        })?;
        Ok(UpdateResult {
            operation_id: self.view().operation,
            ..UpdateResult::default()
        })
    }

    /// Deletes a payload index; a no-op if there is none.
    pub fn delete_payload_index(&self, field: &str) -> Result<UpdateResult> {
        self.core.check_open()?;
        self.change_after(|core| jobs::delete_field_index(core, field))?;
        Ok(UpdateResult {
            operation_id: self.view().operation,
            ..UpdateResult::default()
        })
    }

    /// Adds a named vector; existing points don't have it. Adding the same again is a no-op, another one with
    /// the name is refused.
    pub fn create_vector_name(&self, name: &str, new: &NewVector) -> Result<UpdateResult> {
        self.check_new_files()?;
        self.change_first(&|core, slots| {
            vector_names::add(core, name, new, slots.map(|slots| slots.next_vector))
        })?;
        Ok(UpdateResult {
            operation_id: self.view().operation,
            ..UpdateResult::default()
        })
    }

    /// Drops a named vector of all points; a no-op if there is none.
    pub fn delete_vector_name(&self, name: &str) -> Result<UpdateResult> {
        self.core.check_open()?;
        self.change_after(|core| vector_names::remove(core, name).map(drop))?;
        Ok(UpdateResult {
            operation_id: self.view().operation,
            ..UpdateResult::default()
        })
    }

    fn check_new_files(&self) -> Result<()> {
        for core in self.cores() {
            core.check_open()?;
            descriptors::check_files(&core)?;
            core.guarded(|| jobs::make_room_for_files(&core))?;
        }
        Ok(())
    }

    /// Applies a settings change that adds something: first in the shards, which take the collection's slots.
    fn change_first(&self, change: &dyn Fn(&Core, Option<&Slots>) -> Result<()>) -> Result<()> {
        match &self.shards {
            None => self.core.guarded(|| change(&self.core, None)),
            Some(set) => set.change_first(&self.core, &|core, slots| change(core, Some(slots))),
        }
    }

    /// Applies a settings change that removes something: last in the shards.
    fn change_after(&self, change: impl FnOnce(&Core) -> Result<()>) -> Result<()> {
        match &self.shards {
            None => self.core.guarded(|| change(&self.core)),
            Some(set) => set.change_after(&self.core, change),
        }
    }

    /// Runs all due background jobs on this thread: flushes and merges, until none is left.
    pub fn wait_idle(&self) -> Result<()> {
        self.cores().iter().try_for_each(|core| maintenance::settle(core))
    }

    /// Rows without an index in segments above the collection's threshold, by vector.
    pub fn unindexed_vectors(&self) -> Vec<(String, u64)> {
        let view = self.view();
        let mut all = Vec::new();
        for field in &view.schema.vectors {
            let is_flat = |s: &&crate::segment::SegmentView| {
                let column = s.segment.vector(field.slot);
                column.is_some_and(|column| column.index.kind() == "flat")
                    && field.kb(u64::from(s.live())) > view.schema.indexing_kb
            };
            let rows = view
                .segments
                .iter()
                .filter(is_flat)
                .map(|s| u64::from(s.live()))
                .sum();
            if rows > 0 {
                all.push((field.name.clone(), rows));
            }
        }
        all
    }

    /// The job that rewrites some of the segments now.
    pub fn job_under_way(&self) -> Option<Arc<JobUnderWay>> {
        self.cores().iter().find_map(|core| core.progress.job())
    }

    /// Segments that the next job will rewrite, without those being rewritten now, and the remaining ones: their numbers and live points.
    pub fn planned_jobs(&self) -> (Vec<(u64, u64)>, Vec<(u64, u64)>) {
        let (mut planned, mut rest) = (Vec::new(), Vec::new());
        for core in self.cores() {
            let (more_planned, more_rest) = planned_jobs_of(&core);
            planned.extend(more_planned);
            rest.extend(more_rest);
        }
        (planned, rest)
    }

    /// Flushes the memtable to a segment (for tests and benches; the log makes it durable anyway).
    pub fn flush(&self) -> Result<()> {
        let cores = self.cores();
        cores
            .iter()
            .try_for_each(|core| core.guarded(|| jobs::flush_all(core)))
    }

    /// Number of floats in the selected vectors of a point that has them all. Takes no lock.
    pub fn floats_of(&self, vectors: &VectorSelector) -> usize {
        let view = self.core.view.load();
        let wanted = |name: &String| match vectors {
            VectorSelector::None => false,
            VectorSelector::All => true,
            VectorSelector::Names(names) => names.contains(name),
        };
        let all = view.schema.vectors.iter();
        all.filter(|v| wanted(&v.name)).map(|v| v.dim).sum()
    }

    /// The ledger's limit over all collections, for callers that size their portions.
    pub fn memory_limit(&self) -> u64 {
        self.core.updates.ledger().limit()
    }

    /// The collection's id, the name of its directory. Unlike its name it is never reused.
    pub fn id(&self) -> &str {
        &self.core.id
    }

    pub fn is_dropped(&self) -> bool {
        self.core.dropped.load(Ordering::Acquire)
    }
}

/// Queues a change of a collection without keys, or of one shard. Points and ids are encoded from where they are; what several shards have to
/// resolve is copied for each.
fn submit(core: &Arc<Core>, op: Cow<'_, UpdateOp>, whom: Whom<'_>) -> Result<()> {
    let view = core.view.load_full();
    check_op(&view.schema, &op)?;
    if !matches!(*op, UpdateOp::Delete(_)) {
        check_growth(core, &view)?;
    }
    let (work, bytes) = match &*op {
        UpdateOp::Upsert {
            points,
            filter: None,
            mode: UpdateMode::Upsert,
        } => {
            let (changes, largest) = encode_points(&view.schema, points)?;
            let bytes = queued_bytes(core, &changes, largest);
            (Work::Changes(changes), bytes)
        }
        UpdateOp::Delete(PointsSelector::Ids(ids)) => {
            let mut changes = Vec::with_capacity(ids.len() * 10);
            ids.iter().for_each(|id| encode_delete(&mut changes, *id));
            let bytes = changes.capacity() as u64;
            (Work::Changes(changes), bytes)
        }
        _ => {
            let bytes = op.bytes();
            (Work::Resolve(op.into_owned()), bytes)
        }
    };
    drop(view);
    core.enqueue(work, bytes, whom)
}

fn submit_rows(core: &Arc<Core>, rows: &PointRows<'_>, whom: Whom<'_>) -> Result<()> {
    let view = core.view.load_full();
    check_growth(core, &view)?;
    let (changes, largest) = encode_rows(&view.schema, rows)?;
    drop(view);
    let bytes = queued_bytes(core, &changes, largest);
    core.enqueue(Work::Changes(changes), bytes, whom)
}

/// The same change for several shards, completed when all are done.
fn to_several(
    first: &Arc<Core>,
    rest: &[Arc<Shard>],
    done: Completion,
    give: impl Fn(&Arc<Core>, Completion) -> Result<()>,
) -> Result<()> {
    let joined = JoinedWrites::new(1 + rest.len(), done);
    give(first, joined.part())?;
    for shard in rest {
        if let Err(e) = give(&shard.core, joined.part()) {
            joined.complete(Err(e));
        }
    }
    Ok(())
}

/// Refuses updates that add points if there is no room for another segment.
fn check_growth(core: &Core, view: &View) -> Result<()> {
    let room = core
        .file_context
        .check_room(descriptors::of_flat_segment(&view.schema));
    room.map_err(|e| match jobs::merges_may_free_memory(core) {
        true => e,
        false => e.for_good(),
    })?;
    crate::segment::check_pinned(&core.file_context, &view.schema, view.points())
}

/// Bytes of encoded changes in the queue. The largest may need a group of its own, beyond what the log buffers hold.
fn queued_bytes(core: &Core, changes: &Vec<u8>, largest: usize) -> u64 {
    (changes.capacity() + largest.saturating_sub(core.shared.group_bytes)) as u64
}

fn search_in(view: &View, request: &SearchRequest, scratch: &mut Scratch) -> Result<SearchResponse> {
    let mut hits = Vec::with_capacity(request.limit.min(1024));
    let mut explain = Vec::new();
    let explained = request.params.explain.then_some(&mut explain);
    let cost = query::search(view, request, scratch, &mut hits, explained)?;
    Ok(SearchResponse { hits, cost, explain })
}

/// Of a collection without keys, or of one shard.
fn planned_jobs_of(core: &Core) -> (Vec<(u64, u64)>, Vec<(u64, u64)>) {
    let (segments, candidates, memtables) = {
        let writer = core.writer();
        let mut candidates = jobs::candidates(core, &writer, Moment::Busy);
        if candidates.is_empty() {
            candidates = jobs::candidates(core, &writer, Moment::Idle);
        }
        (writer.segments.clone(), candidates, writer.view().memtables)
    };
    let shown = |s: &crate::segment::SegmentView| (s.segment.id(), u64::from(s.live()));
    let under_way = core.progress.job();
    let is_taken = |id: u64| {
        let mut sources = under_way.iter().flat_map(|job| &job.sources);
        sources.any(|(source, _)| *source == id)
    };
    let of = |views: &[crate::segment::SegmentView]| -> Vec<(u64, u64)> {
        let all = views.iter().map(shown);
        all.filter(|(id, _)| !is_taken(*id)).collect()
    };
    let planned = of(&candidates);
    let rest = of(&segments);
    let rest = rest
        .into_iter()
        .filter(|(id, _)| planned.iter().all(|(p, _)| p != id));
    // Counted as segments in `info`, and numbered where no segment's number is.
    let in_memtables = memtables
        .iter()
        .enumerate()
        .filter(|(_, memtable)| memtable.len > 0);
    let in_memtables = in_memtables.map(|(at, memtable)| (u64::MAX - at as u64, u64::from(memtable.live())));
    (planned.clone(), rest.chain(in_memtables).collect())
}

/// Points that have each vector. In segments, deleted rows are taken to have it as often as others.
fn vectors_count(view: &View) -> Vec<(String, u64)> {
    let of = |field: &crate::schema::VectorField| {
        let mut total = 0;
        for segment in &view.segments {
            let rows = u64::from(segment.segment.rows()).max(1);
            let column = segment.segment.vector(field.slot);
            total += column.map_or(0, |c| u64::from(c.index.rows())) * u64::from(segment.live()) / rows;
        }
        for memtable in &view.memtables {
            let has = |row: &u32| memtable.memtable.row(*row).has_vector(field.slot);
            total += memtable.live_rows().filter(has).count() as u64;
        }
        (field.name.clone(), total)
    };
    view.schema.vectors.iter().map(of).collect()
}

/// Points that have a payload index's field. In segments, deleted rows are taken to have it as often as others.
fn points_with(view: &View, field: &PayloadField) -> u64 {
    let mut total = 0;
    for segment in &view.segments {
        let rows = u64::from(segment.segment.rows()).max(1);
        total += field_rows(&segment.segment.entry, field.slot) * u64::from(segment.live()) / rows;
    }
    let Ok(path) = Path::parse(&field.path) else {
        return total;
    };
    for memtable in &view.memtables {
        for row in memtable.live_rows() {
            emit_keys(
                field.kind,
                &path,
                memtable.memtable.row(row).payload,
                &mut |key| {
                    total += u64::from(is_presence(key));
                },
            );
        }
    }
    total
}

fn check_vector_names(schema: &Schema, wanted: &VectorSelector) -> Result<()> {
    match wanted {
        VectorSelector::Names(names) => names.iter().try_for_each(|name| schema.vector(name).map(|_| ())),
        _ => Ok(()),
    }
}

fn check_payload(id: impl std::fmt::Display, payload: &[u8]) -> Result<()> {
    if payload.is_empty() {
        return Ok(());
    }
    validate(payload, PAYLOAD_BYTES_MAX)
        .map_err(|e| Error::bad_input(format!("Wrong input: payload of {id}: {e}")))
}

/// Refuses at once an update that is invalid in any state.
fn check_op(schema: &Schema, op: &UpdateOp) -> Result<()> {
    match op {
        UpdateOp::Upsert { points, .. } if points.is_empty() => {
            Err(Error::bad_input("Bad request: Empty update request"))
        }
        UpdateOp::Upsert { points, .. } => points.iter().try_for_each(|point| {
            check_payload(format_args!("point {}", point.id), &point.payload)?;
            point
                .vectors
                .iter()
                .try_for_each(|(name, values)| encode_vector(schema.vector(name)?, values).map(drop))
        }),
        UpdateOp::UpdateVectors { points, .. } => points.iter().try_for_each(|(_, vectors)| {
            vectors
                .iter()
                .try_for_each(|(name, values)| encode_vector(schema.vector(name)?, values).map(drop))
        }),
        UpdateOp::SetPayload { payload, key, .. } => {
            check_payload("the request", payload)?;
            key.as_deref().map_or(Ok(()), check_key)
        }
        UpdateOp::OverwritePayload { payload, .. } => check_payload("the request", payload),
        UpdateOp::DeletePayload { keys, .. } => keys.iter().try_for_each(|key| check_key(key)),
        UpdateOp::DeleteVectors { names, .. } => {
            names.iter().try_for_each(|name| schema.vector(name).map(|_| ()))
        }
        UpdateOp::Delete(_) | UpdateOp::ClearPayload(_) => Ok(()),
    }
}

fn check_key(key: &str) -> Result<()> {
    Path::parse(key)
        .map(|_| ())
        .map_err(|e| Error::bad_input(format!("Wrong input: {e}")))
}

/// The changes, and the length of the largest.
fn encode_points(schema: &Schema, points: &[Point]) -> Result<(Vec<u8>, usize)> {
    let bytes: usize = points
        .iter()
        .map(|p| 64 + p.payload.len() + p.vectors.iter().map(|(_, v)| v.bytes()).sum::<usize>())
        .sum();
    let mut changes = Vec::with_capacity(bytes);
    let mut largest = 0;
    for point in points {
        let start = changes.len();
        let vectors = encode_vectors(schema, &point.vectors)?;
        encode_put(
            &mut changes,
            point.id,
            vectors.iter().map(|(slot, v)| (*slot, v.as_slice())),
            &point.payload,
        );
        largest = largest.max(check_length(point.id, changes.len() - start)?);
    }
    Ok((changes, largest))
}

/// The same of points that are given as columns.
fn encode_rows(schema: &Schema, rows: &PointRows<'_>) -> Result<(Vec<u8>, usize)> {
    let columns = columns_of(schema, rows)?;
    let row_bytes: usize = columns.iter().map(|(field, _)| 6 + field.row_bytes()).sum();
    let payload_bytes: usize = rows.payloads.iter().map(Vec::len).sum();
    let bytes = rows.ids.len() * (PointId::ENCODED_MAX + 6 + row_bytes) + payload_bytes;
    let mut changes = Vec::with_capacity(bytes);
    let mut largest = 0;
    for (at, id) in rows.ids.iter().enumerate() {
        let start = changes.len();
        let payload = rows.payloads.get(at).map_or(&[][..], Vec::as_slice);
        check_payload(format_args!("point {id}"), payload)?;
        encode_put_head(&mut changes, *id, columns.len());
        for (field, numbers) in &columns {
            let row = &numbers[at * field.dim..][..field.dim];
            check_dense(field, row).map_err(|e| e.at(format_args!("point {id}")))?;
            encode_vector_head(&mut changes, field.slot, field.row_bytes());
            encode_row(field.metric, field.element, row, &mut changes);
        }
        encode_payload(&mut changes, payload);
        largest = largest.max(check_length(*id, changes.len() - start)?);
    }
    Ok((changes, largest))
}

/// The fields that the columns are of, by slot, ascending.
fn columns_of<'a, 's>(schema: &'s Schema, rows: &PointRows<'a>) -> Result<Vec<(&'s VectorField, &'a [f32])>> {
    let points = rows.ids.len();
    if points == 0 {
        return Err(Error::bad_input("Bad request: Empty update request"));
    }
    if !rows.payloads.is_empty() && rows.payloads.len() != points {
        let payloads = rows.payloads.len();
        return Err(Error::bad_input(format!(
            "Wrong input: {points} ids and {payloads} payloads: give as many, or no payload"
        )));
    }
    let mut columns: Vec<(&VectorField, &[f32])> = Vec::with_capacity(rows.vectors.len());
    for (name, numbers) in rows.vectors {
        let field = schema.vector(name)?;
        check_column(field, numbers.len(), points)?;
        columns.push((field, numbers));
    }
    columns.sort_unstable_by_key(|(field, _)| field.slot);
    match columns.windows(2).find(|pair| pair[0].0.slot == pair[1].0.slot) {
        Some(twice) => Err(Error::bad_input(format!(
            "Wrong input: vector `{}` is given twice",
            twice[0].0.name
        ))),
        None => Ok(columns),
    }
}

/// The bytes of a point's change, if a group can hold them.
fn check_length(id: PointId, bytes: usize) -> Result<usize> {
    const MOST: usize = GROUP_BYTES_MAX - 1024;
    if bytes <= MOST {
        return Ok(bytes);
    }
    Err(Error::new(
        ErrorKind::TooLarge,
        format!("point {id} takes {bytes} bytes, at most {MOST} are possible"),
    ))
}
