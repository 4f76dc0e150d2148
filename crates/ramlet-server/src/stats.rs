//! Counts of requests, for `/metrics` and `/telemetry`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Requests by method, path pattern and status: bounded by the routes, never by what clients send.
#[derive(Default)]
pub struct RequestStats {
    by_route: Mutex<BTreeMap<(&'static str, &'static str, u16), Count>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub requests: u64,
    pub total: Duration,
}

/// One row: method, path pattern, status, counts.
pub type Row = (&'static str, &'static str, u16, Count);

impl RequestStats {
    pub fn record(&self, method: &'static str, path: &'static str, status: u16, took: Duration) {
        let mut map = self.by_route.lock().unwrap_or_else(PoisonError::into_inner);
        let count = map.entry((method, path, status)).or_default();
        count.requests += 1;
        count.total += took;
    }

    pub fn rows(&self) -> Vec<Row> {
        let map = self.by_route.lock().unwrap_or_else(PoisonError::into_inner);
        map.iter()
            .map(|(&(method, path, status), &count)| (method, path, status, count))
            .collect()
    }
}
