//! The cache against a model: what it returns was put there, and it holds no more than it may.

use std::collections::HashSet;

use ramlet_io::{BlockCache, PAGE};
use ramlet_memory::{Ledger, page_bytes};

use crate::Rng;

fn page_of(file: u64, page: u64) -> Vec<u8> {
    Rng(file << 32 | page | 1 << 60).bytes(PAGE)
}

#[test]
fn what_is_found_is_what_was_put() {
    let ledger = Ledger::new(4 << 20);
    let consumer = ledger.consumer("cache", u64::MAX);
    let bytes = 300 * PAGE as u64;
    let cache = BlockCache::new(&consumer, bytes).expect("room");
    // Four shards, each in whole pages of the machine.
    let rounded_off = 4 * (page_bytes() - PAGE) as u64;
    assert!(
        consumer.used() <= bytes && consumer.used() + rounded_off > bytes * 9 / 10,
        "{} bytes",
        consumer.used()
    );
    assert_eq!(cache.stats().bytes, consumer.used());
    let mut rng = Rng(1);
    let (mut hits, mut misses) = (0, 0);
    let mut ever_put = HashSet::new();
    let mut out = vec![0; 2 * PAGE];
    for _ in 0..20_000 {
        let (file, page) = (rng.below(3), rng.below(400));
        let pages = rng.below(2) as usize + 1;
        let out = &mut out[..pages * PAGE];
        let block: Vec<u8> = (0..pages as u64)
            .flat_map(|more| page_of(file, page + more))
            .collect();
        if cache.get(file, page, out) {
            hits += 1;
            assert!(*out == block[..] && ever_put.contains(&(file, page)));
        } else {
            misses += 1;
            cache.put(file, page, &block);
            ever_put.insert((file, page));
            ever_put.insert((file, page + 1));
        }
        let stats = cache.stats();
        assert!(stats.pages <= stats.pages_max && stats.pages_max < 300);
    }
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses), (hits, misses));
    assert!(hits > 1_000, "300 of 1,200 pages fit: {hits} hits");
    assert!(stats.pages > stats.pages_max * 9 / 10);
    drop(cache);
    assert_eq!(consumer.used(), 0);
}

#[test]
fn pages_in_use_survive_a_scan() {
    let ledger = Ledger::new(4 << 20);
    let cache = BlockCache::new(&ledger.consumer("cache", u64::MAX), 1 << 20).expect("room");
    let mut out = vec![0; PAGE];
    for _ in 0..4 {
        for page in 0..50 {
            if !cache.get(1, page, &mut out) {
                cache.put(1, page, &page_of(1, page));
            }
        }
    }
    for page in 0..500 {
        cache.put(2, page, &page_of(2, page));
    }
    let kept = (0..50).filter(|page| cache.get(1, *page, &mut out)).count();
    assert!(
        kept > 40,
        "{kept} of 50 pages in use survived 500 that were read once"
    );
}

#[test]
fn a_forgotten_file_goes_first() {
    let ledger = Ledger::new(4 << 20);
    let cache = BlockCache::new(&ledger.consumer("cache", u64::MAX), 1 << 20).expect("room");
    let mut out = vec![0; PAGE];
    for file in [1, 2] {
        for page in (0..100).chain(0..100) {
            if !cache.get(file, page, &mut out) {
                cache.put(file, page, &page_of(file, page));
            }
        }
    }
    cache.forget(1);
    for page in 0..100 {
        cache.put(3, page, &page_of(3, page));
    }
    let mut kept = |file| (0..100).filter(|page| cache.get(file, *page, &mut out)).count();
    let (forgotten, used) = (kept(1), kept(2));
    assert!(
        forgotten < used && used > 80,
        "{forgotten} of the forgotten, {used} of the used file"
    );
}

#[test]
fn a_cache_of_nothing_keeps_nothing() {
    let ledger = Ledger::new(1000);
    for bytes in [0, 100] {
        let cache = BlockCache::new(&ledger.consumer("cache", u64::MAX), bytes).expect("no bytes needed");
        cache.put(1, 1, &[1; PAGE]);
        assert!(!cache.get(1, 1, &mut [0; PAGE]));
        cache.forget(1);
        assert_eq!((cache.stats().pages_max, ledger.used()), (0, 0));
    }
    assert!(BlockCache::new(&ledger.consumer("cache", u64::MAX), 1 << 20).is_err());
}

#[test]
fn threads_share_it() {
    let ledger = Ledger::new(4 << 20);
    let cache = BlockCache::new(&ledger.consumer("cache", u64::MAX), 1 << 20).expect("room");
    let pages: Vec<_> = (0..400).map(|page| page_of(1, page)).collect();
    std::thread::scope(|scope| {
        for seed in 1..4 {
            let (cache, pages) = (&cache, &pages);
            scope.spawn(move || {
                let mut rng = Rng(seed);
                let mut out = vec![0; PAGE];
                for _ in 0..10_000 {
                    let page = rng.below(400);
                    match cache.get(1, page, &mut out) {
                        true => assert!(out == pages[page as usize]),
                        false => cache.put(1, page, &pages[page as usize]),
                    }
                }
            });
        }
    });
}
