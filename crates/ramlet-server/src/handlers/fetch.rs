//! Lists of points, read and written in portions: an answer of thousands of points never has all their payloads
//! and vectors in memory.

use std::sync::Arc;

use ramlet::{
    Collection, Engine, Explained, PayloadSelector, PointId, QueryRequest, Record, ScoredPoint, Scratch,
    ScrollRequest, SearchRequest, VectorSelector,
};

use crate::error::ApiResult;
use crate::limits::{
    FETCH_BYTES, FETCH_BYTES_MIN, FETCH_RECORDS, LIMIT_MAX, LIST_RECORDS, PAYLOAD_GUESS_BYTES, RECORD_BYTES,
};
use crate::out::Out;

/// Which parts of its points an answer shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    pub payload: PayloadSelector,
    pub vectors: VectorSelector,
}

impl Parts {
    pub fn of_search(search: &SearchRequest) -> Parts {
        Parts {
            payload: search.with_payload.clone(),
            vectors: search.with_vectors.clone(),
        }
    }
    pub fn of_query(query: &QueryRequest) -> Parts {
        Parts {
            payload: query.with_payload.clone(),
            vectors: query.with_vectors.clone(),
        }
    }
    pub fn of_scroll(scroll: &ScrollRequest) -> Parts {
        Parts {
            payload: scroll.with_payload.clone(),
            vectors: scroll.with_vectors.clone(),
        }
    }

    fn any(&self) -> bool {
        self.payload != PayloadSelector::None || self.vectors != VectorSelector::None
    }

    /// Bytes that a portion of at most `n` points takes in the engine's form.
    pub fn portion_bytes(&self, collection: &Collection, n: usize) -> u64 {
        let each = self.point_bytes(collection);
        n.min(first_portion(collection, each)) as u64 * each
    }

    /// Bytes of a point's payload and vectors: a guess and the truth.
    fn point_bytes(&self, collection: &Collection) -> u64 {
        let floats = collection.floats_of(&self.vectors);
        let payload = if self.payload == PayloadSelector::None {
            0
        } else {
            PAYLOAD_GUESS_BYTES
        };
        floats as u64 * 4 + payload
    }
}

/// About the bytes of a portion: where there is little memory, less.
fn fetch_bytes(collection: &Collection) -> u64 {
    (collection.memory_limit() / 64).clamp(FETCH_BYTES_MIN, FETCH_BYTES)
}

/// Points of the first portion, when one is expected to have `each` bytes.
fn first_portion(collection: &Collection, each: u64) -> usize {
    ((fetch_bytes(collection) / each.max(1)) as usize).clamp(1, FETCH_RECORDS)
}

/// Bytes that a list of at most `n` points takes without their payloads and vectors.
pub fn list_bytes(collection: &Collection, n: usize) -> u64 {
    let bytes = (n as u64).saturating_mul(RECORD_BYTES);
    // Asked only where it matters: the collection's figures take its writer's lock.
    if bytes > FETCH_BYTES {
        bytes.min(collection.info().points_count.saturating_mul(RECORD_BYTES))
    } else {
        bytes
    }
}

/// `limit` and `offset` cut to what the collection has, where they are more than the engine takes.
pub fn fit(collection: &Collection, limit: usize, offset: usize) -> (usize, usize) {
    if limit.saturating_add(offset) <= LIMIT_MAX {
        return (limit, offset);
    }
    let points = usize::try_from(collection.info().points_count).unwrap_or(usize::MAX);
    let offset = offset.min(points);
    (limit.min(points - offset).max(1), offset)
}

/// What was found, in its order.
enum Found {
    Ids(Vec<PointId>),
    Hits(Vec<ScoredPoint>),
    Records(Vec<Record>),
}

/// A list of points on its way out.
pub struct Portions {
    collection: Arc<Collection>,
    parts: Parts,
    found: Found,
    /// Whether payloads and vectors are still to be fetched.
    fetch: bool,
    /// Points written, or found to be gone.
    done: usize,
    /// Points of the next portion.
    portion: usize,
    any_written: bool,
}

impl Portions {
    fn new(collection: Arc<Collection>, parts: Parts, found: Found, fetch: bool) -> Portions {
        let portion = if fetch {
            first_portion(&collection, parts.point_bytes(&collection))
        } else {
            LIST_RECORDS
        };
        Portions {
            collection,
            parts,
            found,
            fetch,
            done: 0,
            portion,
            any_written: false,
        }
    }

    pub fn ids(collection: Arc<Collection>, ids: Vec<PointId>, parts: Parts) -> Portions {
        Portions::new(collection, parts, Found::Ids(ids), true)
    }

    /// The hits of a search, and how it was done if that was asked. Few hits come with their payloads at once, many
    /// without.
    pub fn hits(
        collection: Arc<Collection>,
        mut search: SearchRequest,
        scratch: &mut Scratch,
    ) -> ApiResult<(Portions, Vec<Explained>)> {
        let parts = Parts::of_search(&search);
        let (limit, offset) = fit(&collection, search.limit, search.offset);
        let fetch = parts.any() && limit > first_portion(&collection, parts.point_bytes(&collection));
        (search.limit, search.offset) = (limit, offset);
        if fetch {
            (search.with_payload, search.with_vectors) = (PayloadSelector::None, VectorSelector::None);
        }
        let found = collection.search(&search, scratch)?;
        let portions = Portions::new(collection, parts, Found::Hits(found.hits), fetch);
        Ok((portions, found.explain))
    }

    /// The points of any other query, likewise.
    pub fn query(
        collection: Arc<Collection>,
        mut query: QueryRequest,
        engine: &Engine,
        scratch: &mut Scratch,
    ) -> ApiResult<(Portions, Vec<Explained>)> {
        let parts = Parts::of_query(&query);
        let (limit, offset) = fit(&collection, query.limit, query.offset);
        let fetch = parts.any() && limit > first_portion(&collection, parts.point_bytes(&collection));
        (query.limit, query.offset) = (limit, offset);
        if fetch {
            (query.with_payload, query.with_vectors) = (PayloadSelector::None, VectorSelector::None);
        }
        let found = collection.query(query, engine, scratch)?;
        let portions = Portions::new(collection, parts, Found::Hits(found.hits), fetch);
        Ok((portions, found.explain))
    }

    /// The points of a scroll; and the id to go on from.
    pub fn scroll(
        collection: Arc<Collection>,
        mut scroll: ScrollRequest,
        scratch: &mut Scratch,
    ) -> ApiResult<(Portions, Option<PointId>)> {
        let parts = Parts::of_scroll(&scroll);
        let (limit, _) = fit(&collection, scroll.limit, 0);
        let fetch = parts.any() && limit > first_portion(&collection, parts.point_bytes(&collection));
        scroll.limit = limit;
        if fetch {
            (scroll.with_payload, scroll.with_vectors) = (PayloadSelector::None, VectorSelector::None);
        }
        let page = collection.scroll(&scroll, scratch)?;
        Ok((
            Portions::new(collection, parts, Found::Records(page.points), fetch),
            page.next,
        ))
    }

    fn len(&self) -> usize {
        match &self.found {
            Found::Ids(ids) => ids.len(),
            Found::Hits(hits) => hits.len(),
            Found::Records(records) => records.len(),
        }
    }

    fn id(&self, at: usize) -> PointId {
        match &self.found {
            Found::Ids(ids) => ids[at],
            Found::Hits(hits) => hits[at].id,
            Found::Records(records) => records[at].id,
        }
    }

    /// The list as a whole, brackets included.
    pub fn write_all(&mut self, scratch: &mut Scratch, out: &mut Out) -> ApiResult<()> {
        out.raw("[");
        while self.write_next(scratch, out)? && !out.is_failed() {}
        out.raw("]");
        Ok(())
    }

    /// The next portion, without brackets; whether there are more. After a failure, of this or of `out`, the same
    /// portion can be written again.
    pub fn write_next(&mut self, scratch: &mut Scratch, out: &mut Out) -> ApiResult<bool> {
        let end = (self.done + self.portion).min(self.len());
        let mut any = self.any_written;
        let mut comma = |out: &mut Out| {
            if std::mem::replace(&mut any, true) {
                out.raw(",");
            }
        };
        let mut bytes = 0;
        if self.fetch {
            let ids: Vec<PointId> = (self.done..end).map(|at| self.id(at)).collect();
            let records =
                self.collection
                    .retrieve(&ids, &self.parts.payload, &self.parts.vectors, scratch)?;
            bytes = records.iter().map(record_bytes).sum();
            let mut records = records.into_iter().peekable();
            for (at, id) in (self.done..end).zip(ids) {
                // A point that is gone meanwhile is left out.
                if let Some(record) = records.next_if(|record| record.id == id) {
                    comma(out);
                    self.write_fetched(at, record, out);
                }
            }
        } else {
            for at in self.done..end {
                comma(out);
                self.write_found(at, out);
            }
        }
        if !out.is_failed() {
            self.any_written = any;
            self.advance(end, bytes);
        }
        Ok(self.done < self.len())
    }

    /// Large records: fewer of them the next time.
    fn advance(&mut self, end: usize, bytes: u64) {
        if self.fetch && end > self.done {
            let each = bytes / (end - self.done) as u64 + 1;
            self.portion = first_portion(&self.collection, each);
        }
        self.done = end;
    }

    fn write_found(&self, at: usize, out: &mut Out) {
        match &self.found {
            Found::Ids(_) => {}
            Found::Hits(hits) => out.hit(&hits[at]),
            Found::Records(records) => out.record(&records[at]),
        }
    }

    fn write_fetched(&self, at: usize, mut record: Record, out: &mut Out) {
        match &self.found {
            Found::Ids(_) => out.record(&record),
            Found::Hits(hits) => {
                let (payload, vectors) = (record.payload, record.vectors);
                out.hit(&ScoredPoint {
                    payload,
                    vectors,
                    ..hits[at].clone()
                });
            }
            Found::Records(records) => {
                record.order_value = records[at].order_value;
                out.record(&record);
            }
        }
    }
}

fn record_bytes(record: &Record) -> u64 {
    let payload = record.payload.as_ref().map_or(0, Vec::len);
    let vectors: usize = record
        .vectors
        .iter()
        .flatten()
        .map(|(name, v)| name.len() + v.bytes())
        .sum();
    (payload + vectors) as u64 + RECORD_BYTES
}
