//! Rates of reads and writes by collection: strict mode's limits a minute.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;

use crate::error::{ApiError, ApiResult};

/// Operations a minute that a collection has left.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    per_minute: u64,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn full(per_minute: u64, now: Instant) -> Bucket {
        Bucket {
            per_minute,
            tokens: per_minute as f64,
            filled: now,
        }
    }

    /// Takes `cost`, or tells how much there is and how long to wait; `None`: it never has so much.
    fn take(&mut self, cost: u64, now: Instant) -> Result<(), Option<(f64, Duration)>> {
        if cost > self.per_minute {
            return Err(None);
        }
        let a_second = self.per_minute as f64 / 60.0;
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + elapsed * a_second).min(self.per_minute as f64);
        self.filled = now;
        let missing = cost as f64 - self.tokens;
        if missing > 0.0 {
            return Err(Some((self.tokens, Duration::from_secs_f64(missing / a_second))));
        }
        self.tokens -= cost as f64;
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Read,
    Write,
}

/// The buckets of all collections that have rates: as many as there are such collections, and those dropped lately.
#[derive(Default)]
pub struct Rates {
    buckets: Mutex<HashMap<(String, Kind), Bucket>>,
}

/// Buckets from which on those that are full again are forgotten.
const BUCKETS_KEPT: usize = 1024;

impl Rates {
    pub fn take(&self, collection: &str, kind: Kind, per_minute: u64, cost: u64) -> ApiResult<()> {
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() > BUCKETS_KEPT {
            let minute = Duration::from_secs(60);
            buckets.retain(|_, bucket| now.saturating_duration_since(bucket.filled) < minute);
        }
        let bucket = buckets
            .entry((collection.to_owned(), kind))
            .or_insert_with(|| Bucket::full(per_minute, now));
        if bucket.per_minute != per_minute {
            *bucket = Bucket::full(per_minute, now);
        }
        bucket.take(cost, now).map_err(|left| over_rate(kind, cost, left))
    }
}

fn over_rate(kind: Kind, cost: u64, left: Option<(f64, Duration)>) -> ApiError {
    let (what, retry_after) = match left {
        None => (
            ", request larger than rate limiter capacity, please try to split your request".to_owned(),
            None,
        ),
        Some((tokens, wait)) => {
            let seconds = wait.as_secs_f64().ceil().max(1.0) as u32;
            (
                format!(
                    ": Operation requires {cost} tokens but only {tokens:.1} were available. Retry after {seconds}s"
                ),
                Some(seconds),
            )
        }
    };
    let message = format!("Rate limiting exceeded: {kind:?} rate limit exceeded{what}");
    ApiError {
        retry_after,
        ..ApiError::new(StatusCode::TOO_MANY_REQUESTS, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_fills() {
        let start = Instant::now();
        let mut bucket = Bucket::full(6, start);
        assert_eq!(bucket.take(7, start), Err(None), "more than it ever has");
        assert_eq!(bucket.take(4, start), Ok(()));
        assert_eq!(bucket.take(4, start), Err(Some((2.0, Duration::from_secs(20)))));
        assert_eq!(bucket.take(2, start), Ok(()), "what was refused cost nothing");
        let later = start + Duration::from_secs(30);
        assert_eq!(bucket.take(3, later), Ok(()));
        assert!(bucket.take(1, later).is_err());
        assert_eq!(
            bucket.take(6, later + Duration::from_secs(600)),
            Ok(()),
            "it fills no further"
        );
    }

    #[test]
    fn rates_are_by_collection_and_kind() {
        let rates = Rates::default();
        assert!(rates.take("a", Kind::Read, 1, 1).is_ok());
        let e = rates.take("a", Kind::Read, 1, 1).unwrap_err();
        assert_eq!((e.status.as_u16(), e.retry_after), (429, Some(60)));
        assert!(rates.take("a", Kind::Write, 1, 1).is_ok());
        assert!(rates.take("b", Kind::Read, 1, 1).is_ok());
        assert!(
            rates.take("a", Kind::Read, 2, 2).is_ok(),
            "a new limit begins anew"
        );
        let e = rates.take("a", Kind::Read, 2, 3).unwrap_err();
        assert_eq!((e.status.as_u16(), e.retry_after), (429, None));
    }
}
