//! Lists of points, read and written in portions: an answer of thousands of points never has all their payloads
//! and vectors in memory.

use std::sync::Arc;

use ramlet::{
    Collection, Engine, Explained, NamedVectors, PayloadSelector, PointId, QueryRequest, Record, ScoredPoint,
    Scratch, ScrollRequest, SearchCost, SearchRequest, ShardKey, VectorSelector,
};

use super::out::Out;
use super::shown_parts::{Parts, batch_of, fit, portion_bytes};
use crate::error::ApiResult;
use crate::limits::{
    FETCH_GROWTH, FETCH_RECORDS, ID_BYTES, LIST_RECORDS, PAGE_IDS, RECORD_BYTES, RESPONSE_STEP_BYTES,
};
use crate::observability::steps::{Searched, Steps, timed};

impl Parts {
    /// What `find` finds with these parts of each point, if `n` come at once and there is memory for it, else without; and
    /// whether they are still to be fetched. `find` is told which try is the last. `now`: they could be written at once.
    pub fn find<T>(
        self,
        collection: &Collection,
        (n, now): (usize, bool),
        scratch: &mut Scratch,
        mut find: impl FnMut(Parts, bool, &mut Scratch) -> ramlet::Result<T>,
    ) -> ApiResult<(T, bool)> {
        let fetch = self.any();
        if !fetch || (now && self.at_once(collection, n)) {
            match find(self, !fetch, scratch) {
                Err(e) if e.is_over_budget() && fetch => scratch.settle(),
                found => return Ok((found?, false)),
            }
        }
        let none = Parts {
            payload: PayloadSelector::None,
            vectors: VectorSelector::None,
        };
        Ok((find(none, true, scratch)?, fetch))
    }
}

/// What was found, in its order.
enum Found {
    Ids(Vec<PointId>),
    Hits(Vec<ScoredPoint>),
    /// A page of a scroll, and the id to go on from, which stands behind its points.
    Page(Vec<Record>, Option<PointId>),
    LongPage(Box<LongPage>),
}

/// A page by ids that is too long to be in memory as a whole: its next ids are read when those before them are written.
struct LongPage {
    ids: Vec<PointId>,
    /// From where on, and how many points may still come.
    rest: ScrollRequest,
    /// There are points behind `ids`, from `rest.offset` on.
    goes_on: bool,
}

impl LongPage {
    fn is_more(&self) -> bool {
        self.goes_on && self.rest.limit > 0
    }

    fn turn(&mut self, collection: &Collection, scratch: &mut Scratch) -> ApiResult<()> {
        let left = self.rest.limit;
        self.rest.limit = left.min(PAGE_IDS);
        let found = collection.scroll_ids(&self.rest, scratch);
        self.rest.limit = left;
        let (ids, next) = found?;
        self.rest.limit -= ids.len();
        (self.ids, self.rest.offset, self.goes_on) = (ids, next, next.is_some());
        Ok(())
    }
}

/// How far a portion got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The list is written.
    Done,
    More,
    /// Nothing was written: its first point needs about so many bytes, which the answer can't get now.
    Short(u64),
}

/// A list of points on its way out.
pub struct Portions {
    collection: Arc<Collection>,
    parts: Arc<Parts>,
    found: Found,
    /// Whether payloads and vectors are still to be fetched.
    fetch: bool,
    /// Points written, or found to be gone.
    done: usize,
    /// Points that are fetched together the next time.
    batch: usize,
    any_written: bool,
    /// Where it is noted how long fetching and writing take.
    steps: Option<Arc<Steps>>,
}

impl Portions {
    fn new(collection: Arc<Collection>, parts: Arc<Parts>, found: Found, fetch: bool) -> Portions {
        let batch = match fetch {
            true => parts.first_batch(&collection),
            false => LIST_RECORDS,
        };
        Portions {
            collection,
            parts,
            found,
            fetch,
            done: 0,
            batch,
            any_written: false,
            steps: None,
        }
    }

    /// The same, whose times are noted.
    pub fn noted(self, steps: Option<Arc<Steps>>) -> Portions {
        Portions { steps, ..self }
    }

    pub fn ids(collection: Arc<Collection>, ids: Vec<PointId>, parts: Parts) -> Portions {
        Portions::new(collection, parts.into(), Found::Ids(ids), true)
    }

    /// The hits of a search, and how it was done: in parts if that was asked. Few hits that are written `now` come with their
    /// payloads at once, others without.
    pub fn hits(
        collection: Arc<Collection>,
        mut search: SearchRequest,
        now: bool,
        scratch: &mut Scratch,
    ) -> ApiResult<(Portions, Searched)> {
        let parts = Parts::of_search(&search);
        (search.limit, search.offset) = fit(&collection, search.limit, search.offset);
        let limit = search.limit;
        let (found, fetch) =
            parts
                .clone()
                .find(&collection, (limit, now), scratch, |parts, _, scratch| {
                    (search.with_payload, search.with_vectors) = (parts.payload, parts.vectors);
                    collection.search(&search, scratch)
                })?;
        let portions = Portions::new(collection.clone(), parts.into(), Found::Hits(found.hits), fetch);
        Ok((portions, searched(found.explain, found.cost)))
    }

    /// Hits that were found with these parts of each; `fetch`: without.
    pub fn found(
        collection: Arc<Collection>,
        hits: Vec<ScoredPoint>,
        parts: Arc<Parts>,
        fetch: bool,
    ) -> Portions {
        Portions::new(collection, parts, Found::Hits(hits), fetch)
    }

    /// The points of any other query, likewise.
    pub fn query(
        collection: Arc<Collection>,
        query: QueryRequest,
        now: bool,
        (engine, scratch): (&Engine, &mut Scratch),
    ) -> ApiResult<(Portions, Searched)> {
        let parts = Parts::of_query(&query);
        let (limit, offset) = fit(&collection, query.limit, query.offset);
        let mut asked = Some(query);
        let (found, fetch) =
            parts
                .clone()
                .find(&collection, (limit, now), scratch, |parts, last, scratch| {
                    let query = if last { asked.take() } else { asked.clone() };
                    let mut query =
                        query.ok_or_else(|| ramlet::Error::bad_input("the query was asked for twice"))?;
                    (query.limit, query.offset) = (limit, offset);
                    (query.with_payload, query.with_vectors) = (parts.payload, parts.vectors);
                    collection.query(query, engine, scratch)
                })?;
        let portions = Portions::new(collection.clone(), parts.into(), Found::Hits(found.hits), fetch);
        Ok((portions, searched(found.explain, found.cost)))
    }

    /// The points of a scroll. Behind them stands the id to go on from.
    pub fn scroll(
        collection: Arc<Collection>,
        mut scroll: ScrollRequest,
        scratch: &mut Scratch,
    ) -> ApiResult<Portions> {
        let parts = Parts::of_scroll(&scroll);
        (scroll.limit, _) = fit(&collection, scroll.limit, 0);
        if is_long(&collection, &scroll) {
            let mut page = Box::new(LongPage {
                ids: Vec::new(),
                rest: scroll,
                goes_on: true,
            });
            page.turn(&collection, scratch)?;
            let fetch = parts.any();
            return Ok(Portions::new(
                collection,
                parts.into(),
                Found::LongPage(page),
                fetch,
            ));
        }
        let limit = scroll.limit;
        let (page, fetch) =
            parts
                .clone()
                .find(&collection, (limit, true), scratch, |parts, _, scratch| {
                    (scroll.with_payload, scroll.with_vectors) = (parts.payload, parts.vectors);
                    collection.scroll(&scroll, scratch)
                })?;
        let found = Found::Page(page.points, page.next);
        Ok(Portions::new(collection.clone(), parts.into(), found, fetch))
    }

    /// What stands behind the points, which are all written.
    pub fn write_end(&self, out: &mut Out) {
        let next = match &self.found {
            Found::Ids(_) | Found::Hits(_) => return,
            Found::Page(_, next) => *next,
            Found::LongPage(page) => page.rest.offset.filter(|_| page.goes_on),
        };
        out.raw(",\"next_page_offset\":");
        out.value(&next);
    }

    pub fn collection_id(&self) -> &str {
        self.collection.id()
    }

    /// Bytes that the list takes without payloads and vectors.
    pub fn listing_bytes(&self) -> u64 {
        match &self.found {
            Found::Ids(_) => 0,
            Found::LongPage(page) => page.ids.len() as u64 * ID_BYTES,
            _ => self.len() as u64 * RECORD_BYTES,
        }
    }

    /// Whether points are left to be written. The next ids of a long page are read here.
    fn goes_on(&mut self, scratch: &mut Scratch) -> ApiResult<bool> {
        if self.done == self.len()
            && let Found::LongPage(page) = &mut self.found
            && page.is_more()
        {
            page.turn(&self.collection, scratch)?;
            self.done = 0;
        }
        Ok(self.done < self.len())
    }

    /// Whether points are left, as far as is known before the next ids are read.
    fn is_more(&self) -> bool {
        self.done < self.len() || matches!(&self.found, Found::LongPage(page) if page.is_more())
    }

    fn len(&self) -> usize {
        match &self.found {
            Found::Ids(ids) => ids.len(),
            Found::LongPage(page) => page.ids.len(),
            Found::Hits(hits) => hits.len(),
            Found::Page(records, _) => records.len(),
        }
    }

    fn id(&self, at: usize) -> PointId {
        match &self.found {
            Found::Ids(ids) => ids[at],
            Found::LongPage(page) => page.ids[at],
            Found::Hits(hits) => hits[at].id,
            Found::Page(records, _) => records[at].id,
        }
    }

    /// The shard that a point was found in.
    fn shard_key(&self, at: usize) -> Option<&ShardKey> {
        match &self.found {
            Found::Ids(_) | Found::LongPage(_) => None,
            Found::Hits(hits) => hits[at].shard_key.as_deref(),
            Found::Page(records, _) => records[at].shard_key.as_deref(),
        }
    }

    /// What is left of the list, which has to be in memory as a whole.
    pub fn write_rest(&mut self, scratch: &mut Scratch, out: &mut Out) -> ApiResult<()> {
        while self.goes_on(scratch)? {
            self.write_some(true, scratch, out)?;
            out.check()?;
        }
        Ok(())
    }

    /// About the bytes of a portion.
    pub fn full_bytes(&self) -> usize {
        portion_bytes(&self.collection) as usize
    }

    /// What a portion has room for, without brackets. Nothing that was written is written again, whatever failed.
    pub fn write_next(&mut self, scratch: &mut Scratch, out: &mut Out) -> ApiResult<Next> {
        let (begun, full) = (out.len(), self.full_bytes());
        while self.goes_on(scratch)? {
            match self.write_some(false, scratch, out) {
                Ok(None) if out.len() < full => continue,
                Ok(Some(bytes)) if out.len() == begun => return Ok(Next::Short(bytes)),
                Ok(_) => {}
                // It is tried again when this is on its way.
                Err(e) if e.retry_after.is_some() && out.len() > begun => {}
                Err(e) => return Err(e),
            }
            if self.is_more() {
                return Ok(Next::More);
            }
        }
        Ok(Next::Done)
    }

    /// As [`Portions::write_batch`], of as many points as there is memory for in the engine's form.
    fn write_some(&mut self, whole: bool, scratch: &mut Scratch, out: &mut Out) -> ApiResult<Option<u64>> {
        loop {
            let end = self.end_of_batch();
            match self.write_batch(end, whole, scratch, out) {
                Err(e) if e.is_over_budget() && self.fetch && end - self.done > 1 && !out.is_failed() => {
                    self.batch = 1;
                    scratch.settle();
                }
                done => return done,
            }
        }
    }

    fn end_of_batch(&self) -> usize {
        (self.done + self.batch).min(self.len())
    }

    /// Points up to `end`. The bytes that one needs which `out` had no memory for, where the answer needn't be `whole`: it isn't
    /// in `out`.
    fn write_batch(
        &mut self,
        end: usize,
        whole: bool,
        scratch: &mut Scratch,
        out: &mut Out,
    ) -> ApiResult<Option<u64>> {
        let steps = self.steps.clone();
        if !self.fetch {
            return timed(steps.as_ref(), Steps::note_encode, || {
                self.write_here(end, whole, out)
            });
        }
        let (payload, vectors) = (&self.parts.payload, &self.parts.vectors);
        let keyed = (self.done..end).map(|at| (self.id(at), self.shard_key(at)));
        let records = timed(steps.as_ref(), Steps::note_fetch, || {
            self.collection.retrieve_keyed(keyed, payload, vectors, scratch)
        })?;
        timed(steps.as_ref(), Steps::note_encode, || {
            self.write_records(end, whole, records, (scratch, out))
        })
    }

    /// Points up to `end`, which came with the list.
    fn write_here(&mut self, end: usize, whole: bool, out: &mut Out) -> ApiResult<Option<u64>> {
        while self.done < end {
            let (place, at) = (out.place(), self.done);
            self.comma(out);
            self.write_found(at, out);
            if !whole && out.back_to(&place) {
                return Ok(Some(self.found_bytes(at)));
            }
            out.check()?;
            (self.done, self.any_written) = (at + 1, true);
        }
        Ok(None)
    }

    /// Points up to `end`, with what was fetched for them.
    fn write_records(
        &mut self,
        end: usize,
        whole: bool,
        records: Vec<Record>,
        (scratch, out): (&mut Scratch, &mut Out),
    ) -> ApiResult<Option<u64>> {
        let ids: Vec<PointId> = (self.done..end).map(|at| self.id(at)).collect();
        let bytes: u64 = records.iter().map(record_bytes).sum();
        let count = records.len() as u64;
        let mut records = records.into_iter().peekable();
        for (at, id) in (self.done..end).zip(ids) {
            // A point that is gone meanwhile is left out.
            if let Some(record) = records.next_if(|record| record.id == id) {
                let (place, needs) = (out.place(), record_bytes(&record));
                self.comma(out);
                self.write_fetched(at, record, out);
                if !whole && out.back_to(&place) {
                    return Ok(Some(needs_written(needs)));
                }
                out.check()?;
                self.any_written = true;
            }
            self.done = at + 1;
        }
        drop(records);
        scratch.settle();
        // Large points: fewer of them the next time.
        let each = bytes.checked_div(count).unwrap_or(1);
        self.batch = batch_of(each, FETCH_RECORDS).min(FETCH_GROWTH * self.batch);
        Ok(None)
    }

    fn comma(&self, out: &mut Out) {
        if self.any_written {
            out.raw(",");
        }
    }

    /// Payloads and vectors that came with the list are in memory that the search's thread gives back: those that aren't
    /// written now are fetched again.
    pub fn leave_found(&mut self) {
        if self.fetch || !self.parts.any() {
            return;
        }
        (self.fetch, self.batch) = (true, self.parts.first_batch(&self.collection));
        match &mut self.found {
            Found::Ids(_) | Found::LongPage(_) => {}
            Found::Hits(hits) => hits
                .iter_mut()
                .for_each(|hit| (hit.payload, hit.vectors) = (None, None)),
            Found::Page(records, _) => records
                .iter_mut()
                .for_each(|record| (record.payload, record.vectors) = (None, None)),
        }
    }

    /// Bytes that a found point needs to be written.
    fn found_bytes(&self, at: usize) -> u64 {
        needs_written(match &self.found {
            Found::Ids(_) | Found::LongPage(_) => 0,
            Found::Hits(hits) => parts_bytes(hits[at].payload.as_ref(), hits[at].vectors.as_ref()),
            Found::Page(records, _) => record_bytes(&records[at]),
        })
    }

    fn write_found(&self, at: usize, out: &mut Out) {
        match &self.found {
            Found::Ids(_) => {}
            // Nothing else was asked for.
            Found::LongPage(page) => out.record(&bare(page.ids[at])),
            Found::Hits(hits) => out.hit(&hits[at]),
            Found::Page(records, _) => out.record(&records[at]),
        }
    }

    fn write_fetched(&self, at: usize, mut record: Record, out: &mut Out) {
        match &self.found {
            Found::Ids(_) | Found::LongPage(_) => out.record(&record),
            Found::Hits(hits) => {
                let (payload, vectors) = (record.payload, record.vectors);
                out.hit(&ScoredPoint {
                    payload,
                    vectors,
                    ..hits[at].clone()
                });
            }
            Found::Page(records, _) => {
                record.order_value = records[at].order_value;
                out.record(&record);
            }
        }
    }
}

/// Whether a scroll's page is read in several steps: it is long, and its points are in the order of their ids. With shard keys an id may
/// come twice.
pub fn is_long(collection: &Collection, scroll: &ScrollRequest) -> bool {
    scroll.limit > FETCH_RECORDS && scroll.order_by.is_none() && !collection.has_shard_keys()
}

fn bare(id: PointId) -> Record {
    Record {
        id,
        payload: None,
        vectors: None,
        order_value: None,
        shard_key: None,
    }
}

fn searched(parts: Vec<Explained>, cost: SearchCost) -> Searched {
    Searched {
        parts,
        cost,
        unindexed: Vec::new(),
        shards: None,
    }
}

pub fn record_bytes(record: &Record) -> u64 {
    parts_bytes(record.payload.as_ref(), record.vectors.as_ref())
}

fn parts_bytes(payload: Option<&Vec<u8>>, vectors: Option<&NamedVectors>) -> u64 {
    let vectors = vectors.into_iter().flatten();
    let vectors: usize = vectors.map(|(name, v)| name.len() + v.bytes()).sum();
    (payload.map_or(0, Vec::len) + vectors) as u64 + RECORD_BYTES
}

/// Bytes of memory that it takes to write a point of so many: a number of four bytes becomes up to 16, and pieces end with
/// some room.
pub fn needs_written(bytes: u64) -> u64 {
    4 * bytes + 2 * RESPONSE_STEP_BYTES
}
