//! Slices: read once in one batch, within the budget, given back.

use ramlet_memory::Ledger;
use ramlet_text::{Bm25, Hold, Mode, QueryTerm, SliceCache, TextError, TextIndex, TextQuery};

use crate::corpus::{Corpus, word};
use crate::random::Random;
use crate::search::best;
use crate::shelf::{Counted, Shelf, build, open};

fn query<'t>(terms: &'t [QueryTerm<'t>], mode: Mode) -> TextQuery<'t> {
    TextQuery {
        mode,
        terms,
        bm25: Bm25::new(1000, 20_000),
    }
}

fn term(text: &str, position: u32) -> QueryTerm<'_> {
    QueryTerm {
        text,
        position,
        doc_freq: 10,
    }
}

#[test]
fn a_query_reads_once_and_in_one_batch() {
    let corpus = Corpus::new(31, 2000, 40, 300);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    let terms = [term("w1", 0), term("w4", 1), term("w1", 2)];
    for (hold, batches) in [
        (Hold::Least, [1, 2]),
        (Hold::Postings, [0, 1]),
        (Hold::Whole, [0, 0]),
    ] {
        let index = open(&container, hold);
        let mut counted = Counted::new(&container);
        for (mode, batches) in [Mode::Any, Mode::Phrase].into_iter().zip(batches) {
            for _ in 0..3 {
                best(&index, &query(&terms, mode), 10, &mut counted, &mut |_| true);
                assert_eq!(counted.batches, batches, "{hold:?} {mode:?}");
            }
        }
    }
}

#[test]
fn every_byte_is_reserved_and_given_back() {
    let corpus = Corpus::new(32, 3000, 40, 2000);
    let (container, info) = build(&Shelf::ram(), &corpus, 1 << 20);
    let ledger = Ledger::new(2 * info.longest_postings + 8 * 1024);
    let consumer = ledger.consumer("text", u64::MAX);
    let cache = SliceCache::new(consumer.clone());
    let index = TextIndex::open(
        container.len() as u64,
        Hold::Least,
        cache.clone(),
        &mut &container[..],
    )
    .expect("open");
    let whole = open(&container, Hold::Whole);
    let mut random = Random::new(33);
    for _ in 0..500 {
        let text = word(&mut random, 2000);
        let terms = [term(&text, 0)];
        let query = query(&terms, Mode::Any);
        let found = best(&index, &query, 10, &mut &container[..], &mut |_| true);
        assert_eq!(
            found,
            best(&whole, &query, 10, &mut &container[..], &mut |_| true),
            "{text}"
        );
        assert!(ledger.used() <= ledger.limit() && ledger.used() >= cache.stats().held_bytes);
    }
    let stats = cache.stats();
    assert!(
        stats.hits > 0 && stats.slices > 0 && stats.read_bytes > stats.held_bytes,
        "{stats:?}"
    );
    drop(index);
    assert_eq!((consumer.used(), cache.stats().held_bytes), (0, 0));
}

#[test]
fn lists_that_dont_fit_are_refused() {
    let corpus = Corpus::new(34, 5000, 40, 50);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    let cache = SliceCache::new(Ledger::new(2000).consumer("text", 2000));
    let index =
        TextIndex::open(container.len() as u64, Hold::Least, cache, &mut &container[..]).expect("open");
    let terms = [term("w1", 0)];
    let refused = index.search(
        &query(&terms, Mode::Any),
        0.0,
        &mut &container[..],
        &mut |_, _| 0.0,
    );
    assert!(matches!(refused, Err(TextError::OverBudget(_))), "{refused:?}");
}

#[test]
fn reclaimed_slices_are_read_again() {
    use ramlet_memory::Reclaim;
    let corpus = Corpus::new(35, 1000, 40, 50);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    let ledger = Ledger::new(1 << 20);
    let cache = SliceCache::new(ledger.borrower("text", 1 << 20));
    let index = TextIndex::open(
        container.len() as u64,
        Hold::Least,
        cache.clone(),
        &mut &container[..],
    )
    .expect("open");
    let terms = [term("w1", 0), term("w2", 0)];
    let mut counted = Counted::new(&container);
    let first = best(&index, &query(&terms, Mode::All), 10, &mut counted, &mut |_| true);
    assert!(cache.reclaim(1) > 0 && cache.reclaim(u64::MAX) > 0 && cache.reclaim(1) == 0);
    assert_eq!(ledger.used(), 0);
    assert_eq!(
        best(&index, &query(&terms, Mode::All), 10, &mut counted, &mut |_| true),
        first
    );
    assert_eq!(counted.batches, 2);
}
