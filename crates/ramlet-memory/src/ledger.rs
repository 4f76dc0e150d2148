//! The account of all reserved bytes, and the named accounts within it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::reservation::{OverBudget, Reservation};

/// The account of all reserved bytes of a process.
///
/// Invariant: the sum of all reservations never exceeds `limit`, and no consumer's exceeds its cap. Reserving is
/// three compare-and-swap loops; only registering takes a lock, and reclaiming.
///
/// **Reclaimable memory.** Caches ([`Ledger::cache`]) may hold memory that its owners don't use at the moment. When a
/// reservation then finds the ledger full, the [`Reclaim`]ers are asked to give memory back. The reservation is tried
/// again, for some milliseconds while memory is on its way; what comes back meanwhile goes to no cache. So that this
/// always ends well, caches don't count against what the others were promised: what is set
/// aside ([`Ledger::set_aside`]), used or not, and all other reservations together never exceed `limit` either.
pub struct Ledger {
    total: Counter,
    /// What is set aside, and what is reserved beside that and beside caches.
    promised: Counter,
    /// Of `total`: what caches hold.
    reclaimable: AtomicU64,
    /// Bytes that reservations reclaim at this moment: caches leave them alone.
    awaited: AtomicU64,
    accounts: Mutex<Vec<Arc<Account>>>,
    reclaimers: Mutex<Vec<Weak<dyn Reclaim>>>,
}

/// Gives memory of caches back.
pub trait Reclaim: Send + Sync {
    /// Gives up at least `bytes` of reclaimable memory, as far as there are any; how many are, or will be, given back. Those that
    /// somebody reads at this moment may come back a little later; they count here until they have.
    ///
    /// Runs on the thread that reserves, which may hold any lock of the process: it must take none under which memory is
    /// reserved, and reserve none.
    fn reclaim(&self, bytes: u64) -> u64;
}

/// A named holder of bytes, with a cap of its own. Cheap to clone; clones share the account.
#[derive(Clone)]
pub struct Consumer {
    ledger: Arc<Ledger>,
    account: Arc<Account>,
    waits: u32,
    /// Waits for what others hold of the same account.
    queues: bool,
    /// What this holder has of the account, where it is counted ([`Consumer::for_one`]).
    own: Option<Arc<Own>>,
}

/// What one holder has of an account.
#[derive(Default)]
struct Own {
    bytes: AtomicU64,
    /// Has nothing to do: what it holds now it keeps until it has.
    rests: AtomicBool,
}

/// What an account's bytes count as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// Reserved while used.
    Use,
    /// The same, for as long as the data is there: nobody can wait for it.
    Keep,
    /// The cap is promised, whether used or not.
    SetAside,
    /// Given back when others need it.
    Reclaimable,
}

/// How often a reservation looks again whether reclaimed memory has come back: after 1 ms, 2 ms, 4 ms and so on, in all
/// 31 ms, in which nearly all searches that may be reading them end, in a small budget beside writes too. A refusal costs the client more.
const WAITS: u32 = 5;

/// The same of one that waits: in all half a second, which is longer than the searches that may be reading them.
const CACHE_WAITS: u32 = 9;

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
    claim: Claim,
    counter: Counter,
    /// Of these, what those hold who rest ([`Consumer::rest`]).
    resting: AtomicU64,
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
            promised: Counter::new(limit),
            reclaimable: AtomicU64::new(0),
            awaited: AtomicU64::new(0),
            accounts: Mutex::default(),
            reclaimers: Mutex::default(),
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

    /// Bytes reserved now that their holders give back when others need them.
    pub fn reclaimable_bytes(&self) -> u64 {
        self.reclaimable.load(Ordering::Relaxed)
    }

    /// Bytes that are set aside and not used now: whether cached in or free, their owners may want them at any time.
    pub fn unclaimed(&self) -> u64 {
        self.promised.used().saturating_sub(self.held())
    }

    /// Bytes reserved now that aren't reclaimable.
    pub fn held(&self) -> u64 {
        self.used().saturating_sub(self.reclaimable_bytes())
    }

    /// The consumer `name`, which may hold at most `cap` bytes (`u64::MAX`: only the ledger's limit).
    /// The same name gives the same account; its cap is the one it was first given.
    pub fn consumer(self: &Arc<Ledger>, name: &'static str, cap: u64) -> Consumer {
        self.account(name, cap, Claim::Use)
    }

    /// The same for what is held as long as there is data, or the process: who needs memory waits for it in vain ([`OverBudget::is_final`]).
    pub fn keeper(self: &Arc<Ledger>, name: &'static str, cap: u64) -> Consumer {
        self.account(name, cap, Claim::Keep)
    }

    /// Bytes that are promised to others than `account` for good: what is set aside, and what is kept.
    fn kept_beside(&self, account: &Account) -> u64 {
        let accounts = self.accounts();
        let others = accounts.iter().filter(|other| other.name != account.name);
        let kept = others.map(|other| match other.claim {
            Claim::SetAside => other.counter.limit,
            Claim::Keep => other.counter.used(),
            Claim::Use => other.resting.load(Ordering::Relaxed),
            Claim::Reclaimable => 0,
        });
        kept.sum()
    }

    /// The consumer `name`, for which `bytes` are set aside: it always gets so many, though it may have to wait until
    /// caches give way, and never more. Refused when others were promised them.
    pub fn set_aside(self: &Arc<Ledger>, name: &'static str, bytes: u64) -> Result<Consumer, OverBudget> {
        let known = self.accounts().iter().any(|account| account.name == name);
        let consumer = self.account(name, bytes, Claim::SetAside);
        if !known && !self.promised.take(bytes) {
            return Err(consumer.refuse(bytes));
        }
        Ok(consumer)
    }

    /// The consumer `name`, which gives back what others need: its owner registers a [`Reclaim`]er. It reclaims
    /// nothing from others.
    pub fn cache(self: &Arc<Ledger>, name: &'static str, cap: u64) -> Consumer {
        self.account(name, cap, Claim::Reclaimable)
    }

    /// From now on `reclaimer` is asked when memory is needed; those that were registered before are asked first.
    pub fn register(&self, reclaimer: Weak<dyn Reclaim>) {
        let mut reclaimers = self.reclaimers.lock().unwrap_or_else(PoisonError::into_inner);
        reclaimers.retain(|known| known.strong_count() > 0);
        reclaimers.push(reclaimer);
    }

    fn account(self: &Arc<Ledger>, name: &'static str, cap: u64, claim: Claim) -> Consumer {
        let mut accounts = self.accounts();
        let known = accounts.iter().find(|account| account.name == name).cloned();
        let account = known.unwrap_or_else(|| {
            let account = Arc::new(Account {
                name,
                claim,
                counter: Counter::new(cap.min(self.total.limit)),
                resting: AtomicU64::new(0),
                refused: AtomicU64::new(0),
            });
            accounts.push(account.clone());
            account
        });
        Consumer {
            ledger: self.clone(),
            account,
            waits: WAITS,
            queues: false,
            own: None,
        }
    }

    /// Reclaims memory of caches until `bytes` are free or on their way; false when nothing is.
    fn reclaim(&self, bytes: u64) -> bool {
        // A copy, so that a reclaimer whose last owner this is may go without the lock.
        let reclaimers = self
            .reclaimers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let missing = bytes.saturating_sub(self.total.free());
        let mut coming = 0;
        for reclaimer in reclaimers.iter().filter_map(Weak::upgrade) {
            if coming < missing {
                coming += reclaimer.reclaim(missing - coming);
            }
        }
        coming > 0 || missing == 0
    }

    /// Every consumer, in the order in which they were first named.
    pub fn report(&self) -> Vec<ConsumerReport> {
        self.accounts().iter().map(|account| account.report()).collect()
    }

    /// The two consumers that hold most, largest first; unused places have an empty name. Allocates nothing.
    fn largest(&self) -> [(&'static str, u64); 2] {
        let mut top = [("", 0); 2];
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

    /// The same account; but its reservations wait a little for caches to give way before they are refused: half a second
    /// at most. For whoever would rather wait than be refused.
    pub fn waiting(&self) -> Consumer {
        Consumer {
            waits: CACHE_WAITS,
            ..self.clone()
        }
    }

    /// The same account; but its reservations wait a little for others of this account to end before they are refused: 31 ms at most. For whoever holds it
    /// no longer than that, as searches do.
    pub fn queued(&self) -> Consumer {
        Consumer {
            queues: true,
            ..self.clone()
        }
    }

    /// The same account, for one holder, say a search: what its reservations hold together is counted, so that a refusal can tell whether waiting for others
    /// would help ([`OverBudget::is_final`]). Three quarters of the account are the most that one may count on: beside others the rest is never free for long.
    /// Clones count together.
    pub fn for_one(&self) -> Consumer {
        Consumer {
            own: Some(Arc::default()),
            ..self.clone()
        }
    }

    /// The same account, for a holder that is there for as long as the process: nobody can wait for what it holds.
    pub fn lasting(&self) -> Consumer {
        let one = self.for_one();
        one.rest();
        one
    }

    /// From now on nobody waits for what this one holder has: it has nothing to do, and keeps that for later.
    pub fn rest(&self) {
        self.set_resting(true);
    }

    /// It has something to do again, and gives back what it holds when that is done.
    pub fn work(&self) {
        self.set_resting(false);
    }

    /// By the thread that holds it: what is reserved at the same moment elsewhere might be counted as the other of both.
    fn set_resting(&self, rests: bool) {
        let Some(own) = &self.own else {
            return;
        };
        if own.rests.swap(rests, Ordering::Relaxed) != rests {
            let bytes = own.bytes.load(Ordering::Relaxed);
            match rests {
                true => self.account.resting.fetch_add(bytes, Ordering::Relaxed),
                false => self.account.resting.fetch_sub(bytes, Ordering::Relaxed),
            };
        }
    }

    /// What of the account those hold who rest, this one left out.
    fn resting_beside(&self) -> u64 {
        let all = self.account.resting.load(Ordering::Relaxed);
        match &self.own {
            Some(own) if own.rests.load(Ordering::Relaxed) => {
                all.saturating_sub(own.bytes.load(Ordering::Relaxed))
            }
            _ => all,
        }
    }

    /// Bytes that a reservation could get: right now, or, unless this is a cache, when caches have given way.
    pub fn available(&self) -> u64 {
        let (free, reclaimable) = (self.ledger.total.free(), self.ledger.reclaimable_bytes());
        let theirs = match self.account.claim {
            Claim::Use | Claim::Keep => self.ledger.promised.free().min(free + reclaimable),
            Claim::SetAside => free + reclaimable,
            Claim::Reclaimable => free.saturating_sub(self.ledger.awaited.load(Ordering::Relaxed)),
        };
        self.account.counter.free().min(theirs)
    }

    /// Bytes that a reservation could get once all that others hold for a moment is given back.
    pub fn available_in_time(&self) -> u64 {
        self.possible().saturating_sub(self.used())
    }

    /// Bytes that a reservation would get without reclaiming any.
    pub fn available_now(&self) -> u64 {
        self.available().min(self.ledger.total.free())
    }

    /// Takes `bytes` from both accounts, or neither.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, OverBudget> {
        self.take(bytes)?;
        Ok(Reservation::new(self.clone(), bytes))
    }

    pub(crate) fn take(&self, bytes: u64) -> Result<(), OverBudget> {
        let (ledger, account) = (&self.ledger, &self.account);
        if !account.counter.take(bytes) && !self.take_from_others(bytes) {
            return Err(self.refuse(bytes));
        }
        let counts = matches!(account.claim, Claim::Use | Claim::Keep);
        let promised = !counts || ledger.promised.take(bytes);
        if !promised || !self.take_memory(bytes) {
            if promised && counts {
                ledger.promised.give(bytes);
            }
            account.counter.give(bytes);
            return Err(self.refuse(bytes));
        }
        // Only now: a request that the ledger refused was never held.
        account.counter.note_peak();
        ledger.total.note_peak();
        if let Some(own) = &self.own {
            own.bytes.fetch_add(bytes, Ordering::Relaxed);
            if own.rests.load(Ordering::Relaxed) {
                account.resting.fetch_add(bytes, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Takes what others give back to the account soon, if it queues.
    fn take_from_others(&self, bytes: u64) -> bool {
        let counter = &self.account.counter;
        let mut waits = if self.queues && bytes <= counter.limit {
            0..WAITS
        } else {
            0..0
        };
        waits.any(|wait| {
            thread::sleep(Duration::from_millis(1 << wait));
            counter.take(bytes)
        })
    }

    /// Takes memory; what it was promised to is settled.
    fn take_memory(&self, bytes: u64) -> bool {
        let ledger = &self.ledger;
        if self.account.claim == Claim::Reclaimable {
            let taken = ledger
                .total
                .take_beside(bytes, ledger.awaited.load(Ordering::Relaxed));
            if taken {
                ledger.reclaimable.fetch_add(bytes, Ordering::Relaxed);
            }
            return taken;
        }
        if ledger.total.take(bytes) {
            return true;
        }
        ledger.awaited.fetch_add(bytes, Ordering::Relaxed);
        let taken = self.reclaim_for(bytes);
        ledger.awaited.fetch_sub(bytes, Ordering::Relaxed);
        taken
    }

    fn reclaim_for(&self, bytes: u64) -> bool {
        let ledger = &self.ledger;
        for wait in 0..=self.waits {
            if wait > 0 {
                thread::sleep(Duration::from_millis(1 << (wait - 1)));
                if ledger.total.take(bytes) {
                    return true;
                }
            }
            if !ledger.reclaim(bytes) {
                return false;
            }
            if ledger.total.take(bytes) {
                return true;
            }
        }
        false
    }

    pub(crate) fn give(&self, bytes: u64) {
        match self.account.claim {
            Claim::Use | Claim::Keep => self.ledger.promised.give(bytes),
            Claim::SetAside => {}
            Claim::Reclaimable => {
                self.ledger.reclaimable.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
        self.ledger.total.give(bytes);
        self.account.counter.give(bytes);
        if let Some(own) = &self.own {
            own.bytes.fetch_sub(bytes, Ordering::Relaxed);
            if own.rests.load(Ordering::Relaxed) {
                self.account.resting.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
    }

    /// Bytes that this consumer would have if nobody else held what is given back.
    fn possible(&self) -> u64 {
        match self.account.claim {
            Claim::SetAside | Claim::Reclaimable => self.cap(),
            Claim::Use | Claim::Keep => {
                let beside = self.ledger.kept_beside(&self.account);
                let resting = self.resting_beside();
                let own = self.cap().saturating_sub(resting);
                own.min(self.ledger.limit().saturating_sub(beside + resting))
            }
        }
    }

    /// Counts a refusal and says what would have been possible.
    pub(crate) fn refuse(&self, asked: u64) -> OverBudget {
        self.account.refused.fetch_add(1, Ordering::Relaxed);
        OverBudget {
            consumer: self.name(),
            asked,
            available: self.available(),
            held: self
                .own
                .as_ref()
                .map_or(0, |own| own.bytes.load(Ordering::Relaxed)),
            limit: match self.own {
                None => self.possible(),
                Some(_) => self.possible() / 4 * 3,
            },
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
        self.take_beside(bytes, 0)
    }

    /// Takes bytes if so many others stay free.
    fn take_beside(&self, bytes: u64, others: u64) -> bool {
        let most = self.limit.saturating_sub(others);
        let within = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= most);
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
