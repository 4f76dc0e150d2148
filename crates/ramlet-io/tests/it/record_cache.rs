//! The cache of records against a model: what it returns was put there, it grows as far as others leave room, and gives all of it back.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ramlet_io::{PAGE, RecordCache, Symbols};
use ramlet_memory::{Consumer, Ledger};

use crate::Rng;

fn record_of(file: u64, row: u32) -> Vec<u8> {
    let mut rng = Rng(file << 32 | u64::from(row) | 1 << 60);
    let len = match rng.below(20) {
        0 => rng.below(1 + RecordCache::RECORD_BYTES_MAX as u64),
        _ => rng.below(600),
    };
    rng.bytes(len as usize)
}

fn check(cache: &RecordCache, file: u64, row: u32) -> bool {
    let mut out = vec![0; RecordCache::RECORD_BYTES_MAX];
    let found = cache.get(file, row, None, &mut out);
    if let Some(len) = found {
        assert_eq!(out[..len], record_of(file, row), "file {file}, row {row}");
    }
    found.is_some()
}

#[test]
fn what_is_found_is_what_was_put() {
    let ledger = Ledger::new(3 << 20);
    let consumer = ledger.cache("records", u64::MAX);
    let cache = RecordCache::new(&consumer, Arc::default());
    let mut rng = Rng(1);
    let (mut hits, mut ever_put) = (0u64, HashSet::new());
    for turn in 0..60_000 {
        let (file, row) = (rng.below(3), rng.below(8_000) as u32);
        if check(&cache, file, row) {
            assert!(ever_put.contains(&(file, row)));
            hits += 1;
        } else {
            assert!(cache.put(file, row, None, &record_of(file, row)));
            ever_put.insert((file, row));
        }
        if turn % 5_000 == 0 {
            assert!(cache.cut(300_000) >= 300_000.min(turn), "it has as much");
        }
        assert_eq!(
            (cache.bytes(), consumer.used()),
            (ledger.reclaimable_bytes(), ledger.used())
        );
    }
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.hits + stats.misses), (hits, 60_000));
    assert!(hits > 10_000, "3 MB of 9: {hits} hits");
    assert!(stats.bytes > 2 << 20, "{} bytes", stats.bytes);
    cache.cut(u64::MAX);
    assert_eq!((cache.bytes(), ledger.used()), (0, 0));
    assert!(!check(&cache, 0, 1) && cache.put(0, 1, None, &record_of(0, 1)) && check(&cache, 0, 1));
}

/// How many of 500 records, asked for once in so many others that come, are left after 20,000 of these; `each` follows each of them.
fn left_of_500(memory: u64, asked_every: u32, each: impl Fn(u32, &RecordCache)) -> usize {
    let ledger = Ledger::new(memory);
    let cache = RecordCache::new(&ledger.cache("records", u64::MAX), Arc::default());
    let used = 0..500;
    let put = |file, row| cache.put(file, row, None, &record_of(file, row));
    used.clone().for_each(|row| assert!(put(1, row)));
    let mut found = 0;
    for row in 0..20_000 {
        assert!(put(2, row));
        if row % asked_every == 0 {
            found = used.clone().filter(|row| check(&cache, 1, *row)).count();
        }
        each(row, &cache);
    }
    found
}

#[test]
fn what_is_asked_for_again_outlives_a_stream() {
    let found = left_of_500(2 << 20, 1_000, |_, _| {});
    assert!(found > 400, "{found} of 500 that are asked for all the time");
}

/// What others hold that records are worth more than goes for them, and no more of it than they need.
#[test]
fn others_make_way() {
    let ledger = Ledger::new(4 << 20);
    let consumer = ledger.cache("records", u64::MAX);
    let cache = RecordCache::new(&consumer, Arc::default());
    let held = Mutex::new(Vec::new());
    held.lock()
        .expect("one thread")
        .extend((0..64).map(|_| consumer.reserve(64 << 10).expect("room")));
    let held = Arc::new(held);
    let fill = |rows: Range<u32>| {
        rows.filter(|row| cache.put(1, *row, None, &record_of(1, *row)))
            .count()
    };
    assert_eq!((fill(0..100), cache.bytes()), (0, 0));
    let theirs = held.clone();
    cache.ask(Box::new(move |bytes| {
        let mut theirs = theirs.lock().expect("one thread");
        let pieces = (bytes as usize).div_ceil(64 << 10).min(theirs.len());
        let left = theirs.len() - pieces;
        theirs.truncate(left);
    }));
    assert_eq!(fill(0..100), 100);
    let left = held.lock().expect("one thread").len() as u64;
    assert!(cache.bytes() > 0 && ledger.used() <= ledger.limit());
    assert_eq!(left, (ledger.limit() - cache.bytes()) >> 16);
    fill(0..20_000);
    assert!(held.lock().expect("one thread").is_empty());
}

#[test]
fn it_leaves_what_others_want() {
    let ledger = Ledger::new(4 << 20);
    let leave = Arc::new(AtomicU64::new(3 << 20));
    let cache = RecordCache::new(&ledger.cache("records", u64::MAX), leave.clone());
    let fill = || {
        for row in 0..20_000 {
            cache.put(1, row, None, &record_of(1, row));
        }
    };
    fill();
    assert!(
        (512 << 10..=1 << 20).contains(&cache.bytes()),
        "{}",
        cache.bytes()
    );
    leave.store(0, Ordering::Relaxed);
    fill();
    assert!(cache.bytes() > 3 << 20, "{}", cache.bytes());
    // Longer ones are nobody's, and nothing is kept where there is no memory.
    assert!(!cache.put(1, u32::MAX, None, &vec![1; PAGE + 1]));
    let none = RecordCache::new(&ledger.cache("none", 0), Arc::default());
    assert!(!none.put(1, 1, None, b"record") && none.bytes() == 0);
}

#[test]
fn threads_read_what_they_wrote() {
    let ledger = Ledger::new(2 << 20);
    let cache = RecordCache::new(&ledger.cache("records", u64::MAX), Arc::default());
    std::thread::scope(|scope| {
        for seed in 1..4 {
            let cache = &cache;
            scope.spawn(move || {
                let mut rng = Rng(seed);
                for _ in 0..20_000 {
                    let row = rng.below(6_000) as u32;
                    if !check(cache, 7, row) {
                        cache.put(7, row, None, &record_of(7, row));
                    }
                    if rng.below(500) == 0 {
                        cache.cut(100_000);
                    }
                }
            });
        }
    });
    assert_eq!(cache.bytes(), ledger.used());
}

/// Words of a language of a thousand, some more often than others; every tenth record has none of them.
fn text_of(row: u32) -> Vec<u8> {
    let mut rng = Rng(u64::from(row) | 1 << 50);
    if row % 10 == 9 {
        let len = rng.below(1_000) as usize;
        return rng.bytes(len);
    }
    let mut text = b"{\"body\":\"".to_vec();
    for _ in 0..rng.below(120) {
        let most = 1 + rng.below(1_000);
        let mut word = Rng(rng.below(most) | 1 << 40);
        let letters = (0..2 + word.below(8)).map(|_| b'a' + word.below(20) as u8);
        text.extend(letters.chain([b' ']));
    }
    text.extend(b"\"}");
    text
}

fn learnt(consumer: &Consumer) -> Option<Symbols> {
    let sample: Vec<Vec<u8>> = (0..200).map(text_of).collect();
    let sample: Vec<&[u8]> = sample.iter().map(Vec::as_slice).collect();
    Symbols::learn(&sample, consumer.reserve(Symbols::LEARNING_BYTES).expect("room"))
}

#[test]
fn coded_records_are_what_was_put() {
    let ledger = Ledger::new(12 << 20);
    let symbols = learnt(&ledger.consumer("symbols", u64::MAX)).expect("texts");
    assert_eq!(ledger.used(), Symbols::BYTES);
    let cache = RecordCache::new(&ledger.cache("records", 2 << 20), Arc::default());
    let mut out = vec![0; RecordCache::RECORD_BYTES_MAX];
    let mut rng = Rng(5);
    let mut hits = 0;
    for turn in 0..40_000 {
        let row = rng.below(9_000) as u32;
        // Those that came before there were symbols are there as they came.
        let symbols = (turn > 2_000).then_some(&symbols);
        match cache.get(1, row, symbols, &mut out) {
            Some(len) => {
                assert_eq!(out[..len], text_of(row), "row {row}");
                hits += 1;
            }
            None => assert!(cache.put(1, row, symbols, &text_of(row))),
        }
        if turn % 1_000 == 0 {
            cache.cut(100_000);
        }
    }
    assert!(hits > 14_000, "{hits} hits");
    // Who has no symbols sees no codes.
    let row = (0..9_000).find(|row| row % 10 != 9 && cache.get(1, *row, Some(&symbols), &mut out).is_some());
    assert_eq!(cache.get(1, row.expect("some are there"), None, &mut out), None);
}

#[test]
fn more_coded_records_find_room() {
    let ledger = Ledger::new(12 << 20);
    let symbols = learnt(&ledger.consumer("symbols", u64::MAX)).expect("texts");
    let kept = |symbols: Option<&Symbols>| {
        let cache = RecordCache::new(&ledger.cache("records", 2 << 20), Arc::default());
        let texts = (0..).filter(|row| row % 10 != 9);
        let kept = texts
            .take_while(|row| cache.put_ahead(1, *row, symbols, &text_of(*row)))
            .count();
        cache.cut(u64::MAX);
        kept
    };
    let (plain, coded) = (kept(None), kept(Some(&symbols)));
    assert!(coded * 10 > plain * 14, "{plain} records, {coded} coded");
}

#[test]
fn symbols_are_learnt_where_they_are_worth_it() {
    let ledger = Ledger::new(12 << 20);
    let consumer = ledger.consumer("symbols", u64::MAX);
    let held = || consumer.reserve(Symbols::LEARNING_BYTES).expect("room");
    let mut rng = Rng(9);
    let noise: Vec<Vec<u8>> = (0..100).map(|_| rng.bytes(400)).collect();
    let noise: Vec<&[u8]> = noise.iter().map(Vec::as_slice).collect();
    assert!(
        Symbols::learn(&noise, held()).is_none(),
        "nothing becomes shorter"
    );
    let text = text_of(1);
    assert!(
        Symbols::learn(&[&text], held()).is_none(),
        "one record says little"
    );
    assert!(Symbols::learn(&[], held()).is_none());
    assert_eq!(ledger.used(), 0);
}

/// Memory that is taken back again and again, a little at a time, doesn't cost what is asked for.
#[test]
fn what_is_asked_for_again_outlives_cuts() {
    let found = left_of_500(4 << 20, 400, |row, cache| {
        if row > 4_000 && row % 200 == 0 {
            cache.cut(1);
        }
    });
    assert!(found > 300, "{found} of 500 that are asked for all the time");
}

#[test]
fn what_nobody_asked_for_takes_nothing_from_others() {
    let ledger = Ledger::new(4 << 20);
    let leave = Arc::new(AtomicU64::new(1 << 20));
    let cache = RecordCache::new(&ledger.cache("records", u64::MAX), leave);
    cache.ask(Box::new(|_| panic!("nobody makes way for it")));
    let ahead = |row: u32| cache.put_ahead(1, row, None, &record_of(1, row));
    let kept = (0..).take_while(|row| ahead(*row)).count() as u32;
    assert!(
        ledger.used() > 2 << 20 && ledger.used() <= 3 << 20,
        "{}",
        ledger.used()
    );
    assert!((100_000..120_000).any(|row| !ahead(row)));
    assert!(ledger.used() <= 3 << 20, "{}", ledger.used());
    let there = (0..kept).filter(|row| check(&cache, 1, *row));
    assert!(there.count() as u32 * 100 > kept * 98, "of {kept}");
    assert!(
        cache.put_ahead(1, u32::MAX, None, &vec![1; PAGE + 1]),
        "too long: the next may fit"
    );
}
