//! The account of all reserved bytes, and the named accounts within it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::reservation::{OverBudget, Reservation};

/// The account of all reserved bytes of a process.
///
/// Invariant: the sum of all reservations never exceeds `limit`, and no consumer's exceeds its cap. Reserving is
/// two compare-and-swap loops; only registering a name takes a lock.
pub struct Ledger {
    total: Counter,
    accounts: Mutex<Vec<Arc<Account>>>,
}

/// A named holder of bytes, with a cap of its own. Cheap to clone; clones share the account.
#[derive(Clone)]
pub struct Consumer {
    ledger: Arc<Ledger>,
    account: Arc<Account>,
}

/// One row of [`Ledger::report`]. Bytes, except `refused`: the number of reservations turned down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerReport {
    pub name: &'static str,
    pub cap: u64,
    pub used: u64,
    pub peak: u64,
    pub refused: u64,
}

struct Account {
    name: &'static str,
    counter: Counter,
    refused: AtomicU64,
}

/// Bytes in use, never above `limit`.
struct Counter {
    limit: u64,
    used: AtomicU64,
    peak: AtomicU64,
}

impl Ledger {
    /// A ledger for `limit` bytes in all.
    pub fn new(limit: u64) -> Arc<Ledger> {
        Arc::new(Ledger {
            total: Counter::new(limit),
            accounts: Mutex::new(Vec::new()),
        })
    }

    pub fn limit(&self) -> u64 {
        self.total.limit
    }

    /// Bytes reserved now.
    pub fn used(&self) -> u64 {
        self.total.used()
    }

    /// The most bytes that were ever reserved at once.
    pub fn peak(&self) -> u64 {
        self.total.peak.load(Ordering::Relaxed)
    }

    /// The consumer `name`, which may hold at most `cap` bytes (`u64::MAX`: only the ledger's limit).
    /// The same name gives the same account; its cap is the one it was first given.
    pub fn consumer(self: &Arc<Ledger>, name: &'static str, cap: u64) -> Consumer {
        let mut accounts = self.accounts();
        let known = accounts.iter().find(|account| account.name == name).cloned();
        let account = known.unwrap_or_else(|| {
            let counter = Counter::new(cap.min(self.total.limit));
            let account = Arc::new(Account {
                name,
                counter,
                refused: AtomicU64::new(0),
            });
            accounts.push(account.clone());
            account
        });
        Consumer {
            ledger: self.clone(),
            account,
        }
    }

    /// Every consumer, in the order in which they were first named.
    pub fn report(&self) -> Vec<ConsumerReport> {
        self.accounts().iter().map(|account| account.report()).collect()
    }

    /// The three consumers that hold most, largest first; unused places have an empty name. Allocates nothing.
    fn largest(&self) -> [(&'static str, u64); 3] {
        let mut top = [("", 0); 3];
        for account in self.accounts().iter() {
            let entry = (account.name, account.counter.used());
            if let Some(place) = top.iter().position(|held| held.1 < entry.1) {
                top[place..].rotate_right(1);
                top[place] = entry;
            }
        }
        top
    }

    fn accounts(&self) -> MutexGuard<'_, Vec<Arc<Account>>> {
        // Nothing under this lock can leave the list half changed.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Consumer {
    pub fn name(&self) -> &'static str {
        self.account.name
    }

    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Bytes that this consumer holds now.
    pub fn used(&self) -> u64 {
        self.account.counter.used()
    }

    /// Bytes that this consumer may ever hold: its cap, at most the ledger's limit.
    pub fn cap(&self) -> u64 {
        self.account.counter.limit
    }

    /// Bytes that a reservation made right now could get.
    pub fn available(&self) -> u64 {
        self.account.counter.free().min(self.ledger.total.free())
    }

    /// Takes `bytes` from both accounts, or neither.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, OverBudget> {
        self.take(bytes)?;
        Ok(Reservation::new(self.clone(), bytes))
    }

    pub(crate) fn take(&self, bytes: u64) -> Result<(), OverBudget> {
        if !self.account.counter.take(bytes) {
            return Err(self.refuse(bytes));
        }
        if !self.ledger.total.take(bytes) {
            self.account.counter.give(bytes);
            return Err(self.refuse(bytes));
        }
        // Only now: a request that the ledger refused was never held.
        self.account.counter.note_peak();
        self.ledger.total.note_peak();
        Ok(())
    }

    pub(crate) fn give(&self, bytes: u64) {
        self.ledger.total.give(bytes);
        self.account.counter.give(bytes);
    }

    /// Counts a refusal and says what would have been possible.
    pub(crate) fn refuse(&self, asked: u64) -> OverBudget {
        self.account.refused.fetch_add(1, Ordering::Relaxed);
        OverBudget {
            consumer: self.name(),
            asked,
            available: self.available(),
            limit: self.cap(),
            largest: self.ledger.largest(),
        }
    }
}

impl Account {
    fn report(&self) -> ConsumerReport {
        ConsumerReport {
            name: self.name,
            cap: self.counter.limit,
            used: self.counter.used(),
            peak: self.counter.peak.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

// Relaxed throughout: the numbers guard no other memory, each is right by itself.
impl Counter {
    fn new(limit: u64) -> Counter {
        Counter {
            limit,
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn free(&self) -> u64 {
        self.limit - self.used()
    }

    fn take(&self, bytes: u64) -> bool {
        let within = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .is_ok()
    }

    fn note_peak(&self) {
        self.peak.fetch_max(self.used(), Ordering::Relaxed);
    }

    fn give(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "gave back {bytes} bytes of {before}");
    }
}
