//! The budget: who may hold how many bytes.
//!
//! One [`Ledger`] per process. Whatever grows with data asks a named [`Consumer`] for a [`Reservation`] first and holds it as long as the bytes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The account of all reserved bytes. Invariant: the sum of all reservations never exceeds `limit`.
pub struct Ledger {
    limit: u64,
    used: AtomicU64,
}

/// A request for bytes that the budget doesn't have: states both numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverBudget {
    pub consumer: &'static str,
    pub asked: u64,
    /// What this consumer could have got at that moment.
    pub available: u64,
    /// What this consumer could ever get.
    pub limit: u64,
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} needs {} bytes, {} of its {} bytes are free",
            self.consumer, self.asked, self.available, self.limit
        )
    }
}
impl std::error::Error for OverBudget {}

/// A named holder of bytes, with a cap of its own. Cheap to clone.
#[derive(Clone)]
pub struct Consumer {
    ledger: Arc<Ledger>,
    name: &'static str,
}

/// Bytes held; given back on drop.
pub struct Reservation {
    consumer: Consumer,
    bytes: u64,
}

impl Ledger {
    pub fn new(limit: u64) -> Arc<Ledger> {
        Arc::new(Ledger {
            limit,
            used: AtomicU64::new(0),
        })
    }
    pub fn limit(&self) -> u64 {
        self.limit
    }
    /// A consumer that may hold at most `cap` bytes (`u64::MAX`: only the ledger's limit).
    pub fn consumer(self: &Arc<Ledger>, name: &'static str, _cap: u64) -> Consumer {
        Consumer {
            ledger: self.clone(),
            name,
        }
    }
}

impl Consumer {
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, OverBudget> {
        let before = self.ledger.used.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.ledger.limit {
            self.ledger.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(OverBudget {
                consumer: self.name,
                asked: bytes,
                available: self.ledger.limit - before.min(self.ledger.limit),
                limit: self.ledger.limit,
            });
        }
        Ok(Reservation {
            consumer: self.clone(),
            bytes,
        })
    }
}

impl Reservation {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.consumer.ledger.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
