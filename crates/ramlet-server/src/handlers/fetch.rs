//! Records read and written in portions: an answer of thousands of points never has all their payloads in memory.

use ramlet::{
    Collection, PayloadSelector, PointId, Record, Scratch, ScrollRequest, SearchRequest, VectorSelector,
};

use crate::error::ApiResult;
use crate::limits::{FETCH_BYTES, FETCH_RECORDS, LIMIT_MAX, PAYLOAD_GUESS_BYTES, RECORD_BYTES};
use crate::out::Out;

/// Which parts of its points an answer shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    pub payload: PayloadSelector,
    pub vectors: VectorSelector,
}

impl Parts {
    fn any(&self) -> bool {
        self.payload != PayloadSelector::None || self.vectors != VectorSelector::None
    }

    /// Bytes that an answer of `n` points takes in the engine's form: what is reserved before it reads.
    pub fn expected_bytes(&self, collection: &Collection, n: usize) -> u64 {
        // Asked only where it matters: the collection's figures take its writer's lock.
        let n = match (n as u64).saturating_mul(RECORD_BYTES) > FETCH_BYTES {
            true => n.min(usize::try_from(collection.info().points_count).unwrap_or(usize::MAX)),
            false => n,
        };
        let floats: usize = match &self.vectors {
            VectorSelector::None => 0,
            VectorSelector::All => collection.config().vectors.values().map(|v| v.size).sum(),
            VectorSelector::Names(names) => {
                let vectors = collection.config().vectors;
                names
                    .iter()
                    .filter_map(|name| vectors.get(name))
                    .map(|v| v.size)
                    .sum()
            }
        };
        let payload = if self.payload == PayloadSelector::None {
            0
        } else {
            PAYLOAD_GUESS_BYTES
        };
        let portion = n.min(FETCH_RECORDS) as u64;
        (n as u64).saturating_mul(RECORD_BYTES) + portion * (floats as u64 * 4 + payload)
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

/// Calls `write` for each of `ids` that is there, in their order, with its place in the list.
pub fn records(
    collection: &Collection,
    ids: &[PointId],
    parts: &Parts,
    scratch: &mut Scratch,
    write: &mut dyn FnMut(usize, Record),
) -> ApiResult<()> {
    let (mut done, mut portion) = (0, FETCH_RECORDS);
    while done < ids.len() {
        let end = (done + portion).min(ids.len());
        let found = collection.retrieve(&ids[done..end], &parts.payload, &parts.vectors, scratch)?;
        let bytes: u64 = found.iter().map(record_bytes).sum();
        let mut found = found.into_iter().peekable();
        for (at, id) in ids.iter().enumerate().take(end).skip(done) {
            if let Some(record) = found.next_if(|record| record.id == *id) {
                write(at, record);
            }
        }
        // Large records: fewer of them the next time.
        let each = bytes / (end - done) as u64 + 1;
        portion = ((FETCH_BYTES / each) as usize).clamp(1, FETCH_RECORDS);
        done = end;
    }
    Ok(())
}

fn record_bytes(record: &Record) -> u64 {
    let payload = record.payload.as_ref().map_or(0, Vec::len);
    let vectors: usize = record
        .vectors
        .iter()
        .flatten()
        .map(|(name, v)| name.len() + v.len() * 4)
        .sum();
    (payload + vectors) as u64 + RECORD_BYTES
}

pub fn hits_bytes(collection: &Collection, search: &SearchRequest) -> u64 {
    let parts = Parts {
        payload: search.with_payload.clone(),
        vectors: search.with_vectors.clone(),
    };
    let (limit, offset) = fit(collection, search.limit, search.offset);
    parts.expected_bytes(collection, limit + offset)
}

pub fn scroll_bytes(collection: &Collection, scroll: &ScrollRequest) -> u64 {
    let parts = Parts {
        payload: scroll.with_payload.clone(),
        vectors: scroll.with_vectors.clone(),
    };
    parts.expected_bytes(collection, fit(collection, scroll.limit, 0).0)
}

/// `[...]` of the hits of a search.
pub fn hits(
    collection: &Collection,
    search: &SearchRequest,
    scratch: &mut Scratch,
    out: &mut Out,
) -> ApiResult<()> {
    let parts = Parts {
        payload: search.with_payload.clone(),
        vectors: search.with_vectors.clone(),
    };
    let (limit, offset) = fit(collection, search.limit, search.offset);
    let mut search = SearchRequest {
        limit,
        offset,
        ..search.clone()
    };
    if !parts.any() || limit <= FETCH_RECORDS {
        let found = collection.search(&search, scratch)?;
        out.list(&found.hits, Out::hit);
        return Ok(());
    }
    (search.with_payload, search.with_vectors) = (PayloadSelector::None, VectorSelector::None);
    let mut found = collection.search(&search, scratch)?.hits;
    let ids: Vec<PointId> = found.iter().map(|hit| hit.id).collect();
    let mut list = out.open_list();
    records(collection, &ids, &parts, scratch, &mut |at, record| {
        let hit = &mut found[at];
        (hit.payload, hit.vectors) = (record.payload, record.vectors);
        list.item(|out| out.hit(hit));
        (hit.payload, hit.vectors) = (None, None);
    })?;
    list.close();
    Ok(())
}

/// `[...]` of the points of a scroll after the first `skip`; the id to go on from.
pub fn scroll(
    collection: &Collection,
    scroll: &ScrollRequest,
    skip: usize,
    scratch: &mut Scratch,
    out: &mut Out,
    write: fn(&mut Out, &Record),
) -> ApiResult<Option<PointId>> {
    let parts = Parts {
        payload: scroll.with_payload.clone(),
        vectors: scroll.with_vectors.clone(),
    };
    let (limit, _) = fit(collection, scroll.limit, 0);
    let mut scroll = ScrollRequest {
        limit,
        ..scroll.clone()
    };
    if !parts.any() || limit <= FETCH_RECORDS {
        let page = collection.scroll(&scroll, scratch)?;
        out.list(page.points.get(skip..).unwrap_or(&[]), write);
        return Ok(page.next);
    }
    (scroll.with_payload, scroll.with_vectors) = (PayloadSelector::None, VectorSelector::None);
    let page = collection.scroll(&scroll, scratch)?;
    let points = page.points.get(skip..).unwrap_or(&[]);
    let ids: Vec<PointId> = points.iter().map(|point| point.id).collect();
    let mut list = out.open_list();
    records(collection, &ids, &parts, scratch, &mut |at, mut record| {
        record.order_value = points[at].order_value;
        list.item(|out| write(out, &record));
    })?;
    list.close();
    Ok(page.next)
}
