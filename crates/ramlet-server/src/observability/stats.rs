//! Counts and durations of answers, for `/metrics` and `/telemetry`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ramlet_memory::Consumer;

use crate::request::growing_reservation::GrowingReservation;

/// Upper bounds of the histogram's buckets, microseconds; one more is above them all.
pub const BUCKETS_US: [u64; 16] = [
    100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400, 204_800, 409_600, 1_638_400,
    6_553_600, 26_214_400,
];

/// Answers of one endpoint with one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub requests: u64,
    pub total: Duration,
    pub shortest: Duration,
    pub longest: Duration,
    /// By bucket, not summed up.
    pub buckets: [u64; BUCKETS_US.len() + 1],
    pub last: SystemTime,
}

impl Count {
    fn new() -> Count {
        Count {
            requests: 0,
            total: Duration::ZERO,
            shortest: Duration::MAX,
            longest: Duration::ZERO,
            buckets: [0; BUCKETS_US.len() + 1],
            last: SystemTime::UNIX_EPOCH,
        }
    }

    fn add(&mut self, took: Duration, now: SystemTime) {
        self.requests += 1;
        self.total += took;
        self.shortest = self.shortest.min(took);
        self.longest = self.longest.max(took);
        self.last = now;
        let micros = took.as_micros();
        let bucket = BUCKETS_US.partition_point(|most| u128::from(*most) < micros);
        self.buckets[bucket] += 1;
    }
}

/// What was answered: `method` is empty for gRPC, `path` a pattern, never what clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    pub method: &'static str,
    pub path: &'static str,
    pub status: u16,
}

/// By endpoint and status: bounded by the routes. By collection too, where its few bytes can be had.
pub struct RequestStats {
    counts: Mutex<Counts>,
    /// Pays for the counts by collection.
    from: Consumer,
}

#[derive(Default)]
struct Counts {
    by_endpoint: BTreeMap<Endpoint, Count>,
    by_collection: BTreeMap<String, BTreeMap<Endpoint, Count>>,
    /// Rows of all collections, and what is held for as many as there ever were.
    rows: u64,
    held: GrowingReservation,
}

/// About what a row of counts takes.
const ROW_BYTES: u64 = 384;

/// Rows: endpoint, counts.
pub type Rows = Vec<(Endpoint, Count)>;

impl RequestStats {
    pub fn new(from: Consumer) -> RequestStats {
        RequestStats {
            counts: Mutex::default(),
            from,
        }
    }

    /// `collection`: of an answer that wasn't an error, where the path names one.
    pub fn record(&self, endpoint: Endpoint, collection: Option<&str>, took: Duration) {
        let now = SystemTime::now();
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .by_endpoint
            .entry(endpoint)
            .or_insert_with(Count::new)
            .add(took, now);
        if let Some(collection) = collection {
            counts.record_of(collection, endpoint, (took, now), &self.from);
        }
    }

    /// Rows that there are to tell, by endpoint and by collection.
    pub fn row_count(&self, by_collection: bool) -> u64 {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.by_endpoint.len() as u64 + if by_collection { counts.rows } else { 0 }
    }

    pub fn rows(&self) -> Rows {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.by_endpoint.iter().map(|(e, c)| (*e, *c)).collect()
    }

    /// By collection, in the order of names.
    pub fn rows_by_collection(&self) -> Vec<(String, Rows)> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = |of: &BTreeMap<Endpoint, Count>| of.iter().map(|(e, c)| (*e, *c)).collect();
        counts
            .by_collection
            .iter()
            .map(|(name, of)| (name.clone(), rows(of)))
            .collect()
    }

    /// Forgets a collection that is gone.
    pub fn forget(&self, collection: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rows) = counts.by_collection.remove(collection) {
            counts.rows -= rows.len() as u64;
        }
    }
}

impl Counts {
    fn record_of(
        &mut self,
        collection: &str,
        endpoint: Endpoint,
        (took, now): (Duration, SystemTime),
        from: &Consumer,
    ) {
        if let Some(count) = self
            .by_collection
            .get_mut(collection)
            .and_then(|of| of.get_mut(&endpoint))
        {
            return count.add(took, now);
        }
        if self.held.at_least((self.rows + 1) * ROW_BYTES, from).is_ok() {
            self.rows += 1;
            let of = self.by_collection.entry(collection.to_owned()).or_default();
            of.entry(endpoint).or_insert_with(Count::new).add(took, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramlet_memory::Ledger;

    #[test]
    fn answers_are_counted_by_endpoint_and_collection() {
        let ledger = Ledger::new(2 * ROW_BYTES);
        let stats = RequestStats::new(ledger.consumer("counts", 2 * ROW_BYTES));
        let endpoint = |status| Endpoint {
            method: "GET",
            path: "/a",
            status,
        };
        for (status, collection, micros) in [
            (200, Some("a"), 50),
            (200, Some("a"), 300),
            (200, Some("b"), 60_000_000),
            (404, None, 150),
            (200, Some("c"), 150),
        ] {
            stats.record(endpoint(status), collection, Duration::from_micros(micros));
        }
        let rows = stats.rows();
        assert_eq!(
            rows.iter()
                .map(|(e, c)| (e.status, c.requests))
                .collect::<Vec<_>>(),
            [(200, 4), (404, 1)]
        );
        let all = rows[0].1;
        assert_eq!(
            (all.shortest, all.longest),
            (Duration::from_micros(50), Duration::from_secs(60))
        );
        assert_eq!(
            (all.buckets[0], all.buckets[1], all.buckets[2], all.buckets[16]),
            (1, 1, 1, 1)
        );
        let names = |stats: &RequestStats| {
            stats
                .rows_by_collection()
                .into_iter()
                .map(|(n, _)| n)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&stats), ["a", "b"], "no bytes are left for c");
        stats.forget("a");
        stats.record(endpoint(200), Some("c"), Duration::ZERO);
        assert_eq!(names(&stats), ["b", "c"]);
    }
}
