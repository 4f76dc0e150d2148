use std::sync::mpsc;

use ramlet_memory::{AppendRegion, Ledger, Span, page_bytes};

use crate::Rng;

/// Bytes that tell which item they belong to.
fn item(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number as usize * 31 + at * 7) as u8).collect()
}

#[test]
fn items_come_back_aligned_and_whole() {
    let ledger = Ledger::new(64 << 20);
    let consumer = ledger.consumer("points", u64::MAX);
    let (region, mut appender) = AppendRegion::create(&consumer, 8 * page_bytes(), 1000).expect("a region");
    let mut rng = Rng(7);
    let mut spans = Vec::new();
    for number in 0..3000 {
        let len = if rng.below(100) == 0 {
            50_000
        } else {
            rng.below(400) as usize
        };
        let align = 1 << rng.below(8);
        let bytes = item(number, len);
        let cut = rng.below(len as u64 + 1) as usize;
        let span = appender
            .push_parts(&[&bytes[..cut], &bytes[cut..]], align)
            .expect("room");
        assert_eq!(span.len as usize, len);
        assert!(len == 0 || (region.get(span).as_ptr() as usize).is_multiple_of(align));
        spans.push((span, number, len));
    }
    for (span, number, len) in spans {
        assert_eq!(region.get(span), item(number, len));
    }
    assert_eq!(region.bytes_reserved(), ledger.used());
    drop(appender);
    assert!(ledger.used() > 0, "a reader keeps the region");
    drop(region);
    assert_eq!(ledger.used(), 0);
}

/// Items of one size are found by their number alone.
#[test]
fn a_chunk_holds_what_it_says_it_holds() {
    let ledger = Ledger::new(8 << 20);
    let asked = 2 * page_bytes() - 100;
    let (region, mut appender) =
        AppendRegion::create(&ledger.consumer("x", u64::MAX), asked, 10).expect("a region");
    assert_eq!(region.chunk_bytes(), 2 * page_bytes());
    let each = region.chunk_bytes() / 16;
    for number in 0..3 * each {
        let span = appender.push(&item(number as u64, 16), 16).expect("room");
        assert_eq!(
            (span.chunk as usize, span.offset as usize),
            (number / each, number % each * 16)
        );
    }
}

#[test]
fn a_large_item_leaves_the_current_chunk_open() {
    let ledger = Ledger::new(1 << 20);
    let (region, mut appender) =
        AppendRegion::create(&ledger.consumer("x", u64::MAX), page_bytes(), 10).expect("a region");
    let first = appender.push(b"first", 1).expect("room");
    let large = appender.push(&item(1, 3 * page_bytes()), 1).expect("room");
    let second = appender.push(b"second", 1).expect("room");
    assert_ne!(first.chunk, large.chunk);
    assert_eq!((second.chunk, second.offset), (first.chunk, 5));
    assert_eq!(region.get(large), item(1, 3 * page_bytes()));
}

#[test]
fn a_refused_item_changes_nothing() {
    let ledger = Ledger::new(4 * page_bytes() as u64);
    let (region, mut appender) =
        AppendRegion::create(&ledger.consumer("x", u64::MAX), page_bytes(), 3).expect("a region");
    let kept = appender.push(&[1; 100], 1).expect("a page");
    let used = ledger.used();
    appender
        .push(&vec![2; 3 * page_bytes()], 1)
        .expect_err("over the budget");
    assert_eq!(ledger.used(), used);
    appender
        .push(&vec![3; page_bytes() - 100], 1)
        .expect("the rest of the page");
    appender
        .push(&vec![4; page_bytes()], 1)
        .expect("the second chunk");
    appender.push(&vec![5; page_bytes()], 1).expect("the third chunk");
    let refused = appender.push(&[6; 1], 1).expect_err("all chunks are used");
    assert_eq!((refused.available, refused.limit), (0, 3 * page_bytes() as u64));
    assert_eq!(region.get(kept), [1; 100]);
}

#[test]
#[should_panic(expected = "reaches beyond")]
fn a_span_beyond_the_written_bytes_panics() {
    let ledger = Ledger::new(1 << 20);
    let (region, mut appender) =
        AppendRegion::create(&ledger.consumer("x", u64::MAX), page_bytes(), 3).expect("a region");
    appender.push(&[1; 10], 1).expect("room");
    region.get(Span {
        chunk: 0,
        offset: 5,
        len: 6,
    });
}

#[test]
#[should_panic(expected = "a span of this region")]
fn a_span_of_a_chunk_that_never_was_panics() {
    let ledger = Ledger::new(1 << 20);
    let (region, _appender) =
        AppendRegion::create(&ledger.consumer("x", u64::MAX), page_bytes(), 3).expect("a region");
    region.get(Span {
        chunk: 2,
        offset: 0,
        len: 1,
    });
}

/// Readers hold slices of committed items while the writer goes on; items arrive whole and stay as they are.
#[test]
fn readers_see_whole_items_while_the_writer_appends() {
    const ITEMS: u64 = if cfg!(miri) { 200 } else { 20_000 };
    let ledger = Ledger::new(64 << 20);
    let (region, mut appender) =
        AppendRegion::create(&ledger.consumer("x", u64::MAX), 4 * page_bytes(), 4000).expect("a region");
    std::thread::scope(|scope| {
        let readers = [(); 2].map(|()| {
            let (sender, receiver) = mpsc::channel::<(Span, u64, usize)>();
            let region = region.clone();
            scope.spawn(move || {
                let mut held = Vec::new();
                for (span, number, len) in receiver {
                    assert_eq!(region.get(span), item(number, len));
                    if number % 97 == 0 {
                        held.push((region.get(span), number, len));
                    }
                }
                assert!(!held.is_empty());
                for (bytes, number, len) in held {
                    assert_eq!(bytes, item(number, len), "committed bytes never change");
                }
            });
            sender
        });
        let mut rng = Rng(3);
        for number in 0..ITEMS {
            let len = rng.below(300) as usize + 1;
            let span = appender.push(&item(number, len), 4).expect("room");
            for reader in &readers {
                reader.send((span, number, len)).expect("a living reader");
            }
        }
        drop(readers);
    });
}

/// Hundreds of collections have two regions each, most of them nearly empty.
#[test]
fn what_is_reserved_follows_what_is_written() {
    let ledger = Ledger::new(1 << 30);
    let consumer = ledger.consumer("x", u64::MAX);
    let (region, mut appender) = AppendRegion::create(&consumer, 16 * page_bytes(), 256).expect("a region");
    assert!(ledger.used() < 512, "{} bytes for an empty region", ledger.used());
    appender.push(&[1; 100], 1).expect("room");
    let one = ledger.used();
    assert!(one <= 5 * page_bytes() as u64, "{one} bytes for 100");
    for _ in 0..10_000 {
        appender.push(&[2; 100], 1).expect("room");
    }
    let (used, written) = (ledger.used() as f64, 1_000_100.0);
    assert!(
        (written..written * 1.1).contains(&used),
        "{used} bytes for {written}"
    );
    assert_eq!(region.bytes_reserved(), ledger.used());
}
