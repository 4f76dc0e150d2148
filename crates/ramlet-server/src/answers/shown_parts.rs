//! Which parts of its points an answer shows, and what they take.

use ramlet::{Collection, PayloadSelector, QueryRequest, ScrollRequest, SearchRequest, VectorSelector};

use crate::limits::{
    BATCH_BYTES, FETCH_BYTES, FETCH_BYTES_MIN, FETCH_FIRST, FETCH_RECORDS, LIMIT_MAX, RECORD_BYTES,
    RESPONSE_STEP_BYTES, WRITTEN_BYTES,
};

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

    pub fn any(&self) -> bool {
        self.payload != PayloadSelector::None || self.vectors != VectorSelector::None
    }

    /// Bytes of a point's vectors, in the engine's form.
    pub fn vector_bytes(&self, collection: &Collection) -> u64 {
        collection.floats_of(&self.vectors) as u64 * 4
    }

    /// Whether `n` points come with their payloads and vectors at once: that is quicker for few.
    pub fn at_once(&self, collection: &Collection, n: usize) -> bool {
        let vectors = self.vector_bytes(collection).saturating_mul(n as u64);
        !self.any() || (n <= FETCH_RECORDS && vectors <= portion_bytes(collection))
    }

    /// Points that are fetched together, before it is known how large they are.
    pub fn first_batch(&self, collection: &Collection) -> usize {
        batch_of(self.vector_bytes(collection), FETCH_FIRST)
    }

    /// What a list of at most `n` of `limit` and `offset` points takes.
    pub fn expected(&self, collection: &Collection, listed: usize, n: usize) -> Expected {
        let vectors = self.vector_bytes(collection);
        let batch = match self.at_once(collection, n) {
            true => n,
            false => batch_of(vectors, FETCH_RECORDS),
        };
        let portion = portion_bytes(collection);
        let handed = match self.any() {
            true => vectors * batch.min(n) as u64,
            false => 0,
        };
        let written = match self.any() {
            true => portion.min((n as u64).saturating_mul(WRITTEN_BYTES)),
            false => 0,
        };
        Expected {
            listing: list_bytes(collection, listed),
            handed,
            first: handed + written,
            next: handed + portion + RESPONSE_STEP_BYTES,
        }
    }
}

/// About the bytes of a portion that is sent: where there is little memory, less.
pub fn portion_bytes(collection: &Collection) -> u64 {
    (collection.memory_limit() / 64).clamp(FETCH_BYTES_MIN, FETCH_BYTES)
}

/// Points that are fetched together when one has about `each` bytes.
pub fn batch_of(each: u64, most: usize) -> usize {
    ((BATCH_BYTES / each.max(1)) as usize).clamp(1, most)
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

/// `limit` groups of `size` points, which is more than can be asked for, are as many groups as there are points.
pub fn fit_groups(collection: &Collection, limit: usize, size: usize) -> usize {
    if limit.saturating_mul(size) <= LIMIT_MAX {
        return limit;
    }
    let points = usize::try_from(collection.info().points_count).unwrap_or(usize::MAX);
    limit.min(points).max(1)
}

/// Bytes that a list is known to need.
#[derive(Debug, Clone, Copy, Default)]
pub struct Expected {
    /// For its points without payloads and vectors.
    pub listing: u64,
    /// For vectors that the engine hands over to be written, ...
    pub handed: u64,
    /// ... and with what is written of them at first, ...
    pub first: u64,
    /// ... and for each further portion.
    pub next: u64,
}

impl Expected {
    /// Of two lists that are found and written one after the other.
    pub fn or(self, other: Expected) -> Expected {
        Expected {
            listing: self.listing.max(other.listing),
            handed: self.handed.max(other.handed),
            first: self.first.max(other.first),
            next: self.next.max(other.next),
        }
    }
}
