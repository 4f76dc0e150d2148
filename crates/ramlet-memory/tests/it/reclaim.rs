//! Reclaimable memory: caches give way when others need it, and nobody gets more than there is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use ramlet_memory::{Consumer, Ledger, Reclaim, Reservation};

use crate::Rng;

/// Reclaimable reservations that are given back one after another, the last first.
#[derive(Default)]
struct Pile {
    held: Mutex<Vec<Reservation>>,
    asked: AtomicU64,
}

impl Reclaim for Pile {
    fn reclaim(&self, bytes: u64) -> u64 {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut given = Vec::new();
        let mut sum = 0;
        let mut held = self.held.lock().expect("nothing panics under it");
        while sum < bytes {
            let Some(cached) = held.pop() else { break };
            sum += cached.bytes();
            given.push(cached);
        }
        sum
    }
}

fn pile(ledger: &Arc<Ledger>, cache: &Consumer, bytes: u64, step: u64) -> Arc<Pile> {
    let pile = Arc::new(Pile::default());
    let mut held = pile.held.lock().expect("fresh");
    (0..bytes / step).for_each(|_| held.push(cache.reserve(step).expect("room for it")));
    drop(held);
    let weak: Weak<Pile> = Arc::downgrade(&pile);
    ledger.register(weak);
    pile
}

#[test]
fn a_reservation_reclaims_what_caches_hold() {
    let ledger = Ledger::new(100);
    let cache = ledger.cache("records", 90);
    let pile = pile(&ledger, &cache, 90, 10);
    let user = ledger.consumer("user", u64::MAX);
    assert_eq!((ledger.reclaimable_bytes(), ledger.used()), (90, 90));
    assert_eq!(
        (user.available(), user.available_now(), cache.available()),
        (100, 10, 0)
    );
    let first = user.reserve(10).expect("free");
    assert_eq!(pile.asked.load(Ordering::Relaxed), 0, "there was room");
    let second = user.reserve(25).expect("after three reservations");
    assert_eq!((ledger.reclaimable_bytes(), ledger.used()), (60, 95));
    assert!(user.reserve(66).is_err(), "35 are used for good");
    assert_eq!(
        ledger.reclaimable_bytes(),
        60,
        "what can't be had isn't asked for"
    );
    let all = user.reserve(65).expect("all of it");
    assert_eq!(
        (ledger.reclaimable_bytes(), ledger.used(), ledger.peak()),
        (0, 100, 100)
    );
    drop((first, second, all));
    assert_eq!((ledger.used(), cache.used()), (0, 0));
}

#[test]
fn a_cache_takes_from_nobody() {
    let ledger = Ledger::new(100);
    let pile = pile(&ledger, &ledger.cache("a", 80), 80, 10);
    let refused = ledger.cache("b", 100).reserve(21).expect_err("20 are free");
    assert_eq!((refused.available, pile.asked.load(Ordering::Relaxed)), (20, 0));
}

#[test]
fn what_is_set_aside_can_be_cached_in_but_not_promised_again() {
    let ledger = Ledger::new(100);
    let job = ledger.set_aside("job", 40).expect("nothing is promised yet");
    let cache = ledger.cache("records", 95);
    let _pile = pile(&ledger, &cache, 95, 5);
    let user = ledger.consumer("user", u64::MAX);
    assert_eq!((user.available(), job.available()), (60, 40));
    let refused = user.reserve(61).expect_err("40 of 100 are set aside");
    assert_eq!((refused.available, ledger.reclaimable_bytes()), (60, 95));
    let used = user.reserve(60).expect("the rest");
    let scratch = job.reserve(40).expect("what was set aside");
    assert!(job.reserve(1).is_err() && user.reserve(1).is_err());
    assert_eq!((ledger.used(), ledger.reclaimable_bytes()), (100, 0));
    drop(scratch);
    assert!(user.reserve(1).is_err(), "it stays set aside");
    assert_eq!(ledger.set_aside("job", 40).expect("the same").cap(), 40);
    let refused = ledger.set_aside("other", 1).err().expect("all is promised");
    assert_eq!(refused.consumer, "other");
    drop(used);
}

#[test]
fn waiting_consumers_wait_for_what_is_being_read() {
    let ledger = Ledger::new(100);
    let cache = ledger.cache("records", 100);
    /// Gives back after a while, as when a search reads what is cached.
    struct Slow(Mutex<Option<Reservation>>, AtomicBool);
    impl Reclaim for Slow {
        fn reclaim(&self, _: u64) -> u64 {
            self.1.store(true, Ordering::Release);
            self.0
                .lock()
                .expect("fresh")
                .as_ref()
                .map_or(0, Reservation::bytes)
        }
    }
    let slow = Arc::new(Slow(
        Mutex::new(Some(cache.reserve(100).expect("room"))),
        AtomicBool::new(false),
    ));
    let weak: Weak<Slow> = Arc::downgrade(&slow);
    ledger.register(weak);
    let user = ledger.consumer("user", u64::MAX);
    assert!(user.reserve(1).is_err(), "a request waits some milliseconds only");
    assert!(slow.1.swap(false, Ordering::AcqRel), "but it has asked");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !slow.1.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let cached = slow.0.lock().expect("fresh").take();
            drop(cached);
        });
        let held = user.waiting().reserve(100).expect("one that waits gets it");
        assert_eq!(ledger.used(), 100);
        drop(held);
    });
    assert!(user.reserve(100).is_ok());
}

#[test]
fn what_comes_back_goes_to_no_other_cache() {
    /// Whatever comes back is cached in again at once, if the ledger lets it.
    struct Greedy(Arc<Pile>, Consumer, AtomicU64);
    impl Reclaim for Greedy {
        fn reclaim(&self, bytes: u64) -> u64 {
            let coming = self.0.reclaim(bytes);
            while let Ok(cached) = self.1.reserve(10) {
                self.2.fetch_add(1, Ordering::Relaxed);
                self.0.held.lock().expect("nothing panics under it").push(cached);
            }
            coming
        }
    }
    let ledger = Ledger::new(100);
    let cache = ledger.cache("records", 100);
    let held = (0..10).map(|_| cache.reserve(10).expect("room")).collect();
    let pile = Arc::new(Pile {
        held: Mutex::new(held),
        asked: AtomicU64::new(0),
    });
    let greedy = Arc::new(Greedy(pile, cache.clone(), AtomicU64::new(0)));
    let weak: Weak<Greedy> = Arc::downgrade(&greedy);
    ledger.register(weak);
    let user = ledger.consumer("user", u64::MAX);
    let first = user.reserve(30).expect("three reservations come back");
    assert_eq!(
        greedy.2.load(Ordering::Relaxed),
        0,
        "nothing was free beside them"
    );
    assert_eq!((first.bytes(), ledger.reclaimable_bytes()), (30, 70));
    drop(first);
    assert_eq!(cache.available(), 30, "nobody waits any more");
}

#[test]
fn reclaimers_are_asked_in_order_and_forgotten_when_gone() {
    let ledger = Ledger::new(100);
    let cache = ledger.cache("records", 100);
    let (first, second) = (pile(&ledger, &cache, 50, 10), pile(&ledger, &cache, 50, 10));
    let user = ledger.consumer("user", u64::MAX);
    let held = user.reserve(60).expect("five of the first, one of the second");
    assert_eq!(
        (
            first.held.lock().expect("fresh").len(),
            second.held.lock().expect("fresh").len()
        ),
        (0, 4)
    );
    drop((first, second));
    assert_eq!((ledger.reclaimable_bytes(), ledger.used()), (0, 60));
    assert!(user.reserve(41).is_err());
    drop(held);
}

/// Threads that use, set aside and cache at random: the sum stays within the limit, and what was promised is always had.
#[test]
fn limits_and_promises_hold_under_threads() {
    const LIMIT: u64 = 100_000;
    let ledger = Ledger::new(LIMIT);
    let jobs = ledger.set_aside("jobs", 30_000).expect("room");
    let writes = ledger.set_aside("writes", 20_000).expect("room");
    let cache = ledger.cache("records", 95_000);
    let pile = pile(&ledger, &cache, 95_000, 500);
    std::thread::scope(|scope| {
        for (seed, consumer) in [(1, jobs.waiting()), (2, writes.waiting())] {
            let ledger = &ledger;
            scope.spawn(move || {
                let mut rng = Rng(seed);
                for _ in 0..300 {
                    let mut held = consumer
                        .reserve(1 + rng.below(consumer.cap() / 2))
                        .expect("it is set aside");
                    held.grow(rng.below(consumer.cap() / 2)).expect("so is this");
                    assert!(ledger.used() <= LIMIT);
                }
            });
        }
        for seed in 3..5 {
            let (ledger, pile, cache) = (&ledger, &pile, &cache);
            scope.spawn(move || {
                let mut rng = Rng(seed);
                let user = ledger.consumer("users", 40_000);
                for _ in 0..2000 {
                    let held = user.reserve(rng.below(30_000));
                    if let Ok(cached) = cache.reserve(1 + rng.below(2_000)) {
                        pile.held.lock().expect("nothing panics under it").push(cached);
                    }
                    drop(held);
                    assert!(ledger.used() <= LIMIT);
                }
            });
        }
    });
    assert!(ledger.peak() <= LIMIT);
    assert_eq!(
        (ledger.used(), ledger.reclaimable_bytes()),
        (cache.used(), cache.used())
    );
    drop(pile);
    assert_eq!((ledger.used(), ledger.reclaimable_bytes()), (0, 0));
    assert!(ledger.consumer("users", 40_000).reserve(40_000).is_ok());
}

/// Whoever queues waits for what others hold of the account; not for more than it may ever have.
#[test]
fn who_queues_waits_for_others_of_the_account() {
    let ledger = Ledger::new(1000);
    let account = ledger.consumer("searches", 100);
    let mut got = 0;
    for _ in 0..20 {
        let held = account.reserve(80).expect("room");
        assert!(account.reserve(50).is_err(), "it doesn't queue");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(2));
                drop(held);
            });
            got += u32::from(account.queued().reserve(50).is_ok());
        });
    }
    assert!(got > 10, "{got} of 20");
    assert!(account.queued().reserve(101).is_err());
    let held = account.reserve(80).expect("room");
    assert!(account.queued().reserve(50).is_err(), "nobody gives any back");
    drop(held);
    assert_eq!((account.used(), ledger.used()), (0, 0));
}
