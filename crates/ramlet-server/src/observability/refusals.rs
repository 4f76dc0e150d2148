//! Requests that were refused for want of something: counted by kind, and a line of each kind in the log at most once a second.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::http::StatusCode;
use ramlet::ErrorKind;

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
#[derive(Default)]
pub struct Refusals {
    kinds: Mutex<[OfKind; REFUSALS.len()]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct OfKind {
    count: u64,
    /// When the last line was logged, and refusals since that had none.
    logged: Option<Instant>,
    unlogged: u64,
}

impl Refusals {
    /// Counts an answer that is a refusal, and logs it if no other of its kind was logged in the last second.
    /// Other failures of the server itself have a line each. A request is its path and its id.
    pub fn note(
        &self,
        refusal: Option<Refusal>,
        (status, message): (StatusCode, &str),
        (request, request_id): (&str, &str),
    ) {
        let Some(refusal) = refusal else {
            if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED {
                tracing::error!(status = status.as_u16(), request, request_id, "failed: {message}");
            }
            return;
        };
        let (kind, name) = REFUSALS[refusal as usize];
        debug_assert_eq!(kind, refusal);
        if let Some(unlogged) = self.count_one(refusal, Instant::now()) {
            tracing::warn!(
                kind = name,
                status = status.as_u16(),
                request,
                request_id,
                others_unlogged = unlogged,
                "refused: {message}"
            );
        }
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
        kinds.map(|of| of.count)
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

    #[test]
    fn a_line_a_second_of_each_kind() {
        let (refusals, start) = (Refusals::default(), Instant::now());
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
