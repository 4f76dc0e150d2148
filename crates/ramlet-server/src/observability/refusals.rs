//! Requests that were refused for want of something: counted by kind, and a line of each kind in the log at most once a second.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::http::StatusCode;
use ramlet::ErrorKind;
use ramlet_memory::{Consumer, Reservation};
use serde_json::{Value, json};

use super::slow_log::begin_of;
use crate::limits;

/// What was wanting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Memory, for now (429).
    MemoryBusy,
    /// More memory than the request could ever have (413).
    MemoryNever,
    /// Memory, for good: the data takes it (507).
    MemoryFull,
    /// A body above the cap of its route (413).
    BodyTooLarge,
    /// Too many wait already (429).
    QueueFull,
    /// A rate of the collection's strict mode (429).
    Rate,
    /// A quota (507).
    Quota,
    DiskFull,
    Descriptors,
    /// Collections that are closed, or whose writes have stopped, and the end of the server (503).
    CollectionClosed,
    WritesStopped,
    ShuttingDown,
}

/// All kinds, by the names in the metrics and the log.
pub const REFUSALS: [(Refusal, &str); 12] = [
    (Refusal::MemoryBusy, "memory_busy"),
    (Refusal::MemoryNever, "memory_never"),
    (Refusal::MemoryFull, "memory_full"),
    (Refusal::BodyTooLarge, "body_too_large"),
    (Refusal::QueueFull, "queue_full"),
    (Refusal::Rate, "rate"),
    (Refusal::Quota, "quota"),
    (Refusal::DiskFull, "disk_full"),
    (Refusal::Descriptors, "descriptors"),
    (Refusal::CollectionClosed, "collection_closed"),
    (Refusal::WritesStopped, "writes_stopped"),
    (Refusal::ShuttingDown, "shutting_down"),
];

impl Refusal {
    pub fn of_kind(kind: ErrorKind) -> Option<Refusal> {
        Some(match kind {
            ErrorKind::OverBudget => Refusal::MemoryBusy,
            ErrorKind::TooLarge => Refusal::MemoryNever,
            ErrorKind::MemoryFull => Refusal::MemoryFull,
            ErrorKind::Busy => Refusal::QueueFull,
            ErrorKind::DiskFull => Refusal::DiskFull,
            ErrorKind::NoDescriptors => Refusal::Descriptors,
            ErrorKind::CollectionClosed => Refusal::CollectionClosed,
            ErrorKind::WritesStopped => Refusal::WritesStopped,
            ErrorKind::Closed => Refusal::ShuttingDown,
            ErrorKind::BadInput
            | ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::Corrupt
            | ErrorKind::NoPermission
            | ErrorKind::Io => return None,
        })
    }

    /// Of what the server itself refuses.
    pub fn of_status(status: StatusCode) -> Option<Refusal> {
        match status {
            StatusCode::PAYLOAD_TOO_LARGE => Some(Refusal::BodyTooLarge),
            StatusCode::TOO_MANY_REQUESTS => Some(Refusal::Rate),
            StatusCode::INSUFFICIENT_STORAGE => Some(Refusal::Quota),
            StatusCode::SERVICE_UNAVAILABLE => Some(Refusal::ShuttingDown),
            _ => None,
        }
    }
}

/// See the module.
pub struct Refusals {
    kinds: Mutex<[OfKind; REFUSALS.len()]>,
    /// Pays for the last refusals.
    from: Consumer,
}

#[derive(Default)]
struct OfKind {
    count: u64,
    last: Option<Last>,
    /// When the last line was logged, and refusals since that had none.
    logged: Option<Instant>,
    unlogged: u64,
}

/// The last refusal of a kind: what the client was told.
struct Last {
    at: Instant,
    message: String,
    request: String,
    collection: String,
    _held: Reservation,
}

/// A text that isn't longer than this is kept whole.
const KEPT_BYTES: usize = 1_024;

impl Refusals {
    pub fn new(from: Consumer) -> Refusals {
        Refusals {
            kinds: Mutex::default(),
            from,
        }
    }

    /// Counts an answer that is a refusal, and logs it if no other of its kind was logged in the last second.
    /// Other failures of the server itself have a line each. A request is its path, its id and the collection
    /// that it names.
    pub fn note(
        &self,
        refusal: Option<Refusal>,
        (status, message): (StatusCode, &str),
        (request, request_id, collection): (&str, &str, Option<&str>),
    ) {
        let collection = collection.unwrap_or_default();
        let Some(refusal) = refusal else {
            if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED {
                tracing::error!(
                    status = status.as_u16(),
                    request,
                    request_id,
                    collection,
                    "failed: {message}"
                );
            }
            return;
        };
        let (kind, name) = REFUSALS[refusal as usize];
        debug_assert_eq!(kind, refusal);
        let now = Instant::now();
        self.keep(refusal, now, (message, request, collection));
        if let Some(unlogged) = self.count_one(refusal, now) {
            tracing::warn!(
                kind = name,
                status = status.as_u16(),
                request,
                request_id,
                collection,
                others_unlogged = unlogged,
                "refused: {message}"
            );
        }
    }

    fn keep(&self, refusal: Refusal, at: Instant, texts: (&str, &str, &str)) {
        let kept = |text| begin_of(text, KEPT_BYTES).to_owned();
        let (message, request, collection) = (kept(texts.0), kept(texts.1), kept(texts.2));
        let bytes = (size_of::<Last>() + message.len() + request.len() + collection.len()) as u64;
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let last = &mut kinds[refusal as usize].last;
        // Its bytes first: there may be no others.
        *last = None;
        *last = self.from.reserve(bytes).ok().map(|held| Last {
            at,
            message,
            request,
            collection,
            _held: held,
        });
    }

    /// The kinds of which there were some, the latest first, with the last refusal of each.
    pub fn told(&self) -> Vec<Value> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let mut met: Vec<_> = kinds
            .iter()
            .zip(REFUSALS)
            .filter(|(of, _)| of.count > 0)
            .collect();
        met.sort_by_key(|(of, _)| std::cmp::Reverse(of.last.as_ref().map(|last| last.at)));
        let row = |(of, (_, name)): (&OfKind, (Refusal, &str))| {
            let last = of.last.as_ref();
            json!({
                "kind": name,
                "count": of.count,
                "message": last.map(|last| &last.message),
                "request_path": last.map(|last| &last.request),
                "collection_name": last.map(|last| &last.collection).filter(|name| !name.is_empty()),
                "seconds_ago": last.map(|last| last.at.elapsed().as_secs_f64()),
            })
        };
        met.into_iter().map(row).collect()
    }

    /// Refusals since the last line, if there is to be one now.
    fn count_one(&self, refusal: Refusal, now: Instant) -> Option<u64> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let of = &mut kinds[refusal as usize];
        of.count += 1;
        if of.logged.is_some_and(|last| now - last < limits::LOG_PERIOD) {
            of.unlogged += 1;
            return None;
        }
        of.logged = Some(now);
        Some(std::mem::take(&mut of.unlogged))
    }

    /// In the order of [`REFUSALS`].
    pub fn counts(&self) -> [u64; REFUSALS.len()] {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        std::array::from_fn(|at| kinds[at].count)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn names_stand_in_the_order_of_the_kinds() {
        for (at, (kind, _)) in REFUSALS.iter().enumerate() {
            assert_eq!(*kind as usize, at, "{kind:?}");
        }
    }

    fn refusals(bytes: u64) -> Refusals {
        Refusals::new(ramlet_memory::Ledger::new(bytes).consumer("slow requests", bytes))
    }

    #[test]
    fn the_last_of_each_kind_is_told_the_latest_first() {
        let refusals = refusals(1 << 20);
        let note = |refusal, message: &str, collection| {
            let answer = (StatusCode::TOO_MANY_REQUESTS, message);
            refusals.note(Some(refusal), answer, ("/a", "r1", collection));
        };
        note(Refusal::MemoryNever, "first", Some("books"));
        note(Refusal::MemoryNever, "second", Some("books"));
        note(Refusal::DiskFull, &"é".repeat(2_000), None);
        let told = refusals.told();
        let kinds: Vec<_> = told.iter().map(|row| (&row["kind"], &row["count"])).collect();
        assert_eq!(
            kinds,
            [
                (&json!("disk_full"), &json!(1)),
                (&json!("memory_never"), &json!(2))
            ]
        );
        assert_eq!(told[0]["message"].as_str().map(str::len), Some(KEPT_BYTES));
        assert_eq!(
            (
                &told[1]["message"],
                &told[1]["collection_name"],
                &told[0]["collection_name"]
            ),
            (&json!("second"), &json!("books"), &Value::Null)
        );
        let short = self::refusals(10);
        short.note(
            Some(Refusal::Rate),
            (StatusCode::TOO_MANY_REQUESTS, "no room"),
            ("/a", "r1", None),
        );
        assert_eq!(
            (
                short.counts()[Refusal::Rate as usize],
                &short.told()[0]["message"]
            ),
            (1, &Value::Null)
        );
    }

    #[test]
    fn a_line_a_second_of_each_kind() {
        let (refusals, start) = (refusals(1 << 20), Instant::now());
        let told = |kind, ms| refusals.count_one(kind, start + Duration::from_millis(ms));
        assert_eq!(told(Refusal::MemoryBusy, 0), Some(0));
        assert_eq!(told(Refusal::MemoryBusy, 10), None);
        assert_eq!(
            told(Refusal::DiskFull, 20),
            Some(0),
            "another kind has its own line"
        );
        assert_eq!(told(Refusal::MemoryBusy, 999), None);
        assert_eq!(told(Refusal::MemoryBusy, 1_000), Some(2), "two had none");
        assert_eq!(refusals.counts()[Refusal::MemoryBusy as usize], 4);
    }
}
