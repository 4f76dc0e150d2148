//! Rankings against brute force: modes, parameters, statistics of a larger collection, filters.

use ramlet_text::{Bm25, Hold, Mode, QueryTerm, Ranges, TextIndex, TextQuery};

use crate::corpus::{Corpus, word};
use crate::oracle::ranking;
use crate::random::Random;
use crate::shelf::{Counted, Shelf, build, open};

const MODES: [Mode; 3] = [Mode::Any, Mode::All, Mode::Phrase];

/// The k best rows that `admits` lets in, best first.
pub fn best(
    index: &TextIndex,
    query: &TextQuery<'_>,
    k: usize,
    ranges: &mut dyn Ranges,
    admits: &mut dyn FnMut(u32) -> bool,
) -> Vec<(u32, f32)> {
    let mut found: Vec<(u32, f32)> = Vec::new();
    let mut before = None;
    let mut offer = |row: u32, score: f32| {
        assert!(before < Some(row), "row {row} after {before:?}");
        before = Some(row);
        if admits(row) {
            let place = found.partition_point(|(_, held)| *held >= score);
            found.insert(place, (row, score));
            found.truncate(k);
        }
        if found.len() < k {
            f32::NEG_INFINITY
        } else {
            found[k - 1].1
        }
    };
    index
        .search(query, f32::NEG_INFINITY, ranges, &mut offer)
        .expect("a search");
    found
}

fn same(found: &[(u32, f32)], expected: &[(u32, f64)], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (place, ((row, score), (expected_row, expected_score))) in found.iter().zip(expected).enumerate() {
        let close = |other: f64| (f64::from(*score) - other).abs() <= 1e-5 * other.abs();
        assert!(
            close(*expected_score),
            "{what}, place {place}: {score} instead of {expected_score}"
        );
        // Rows whose scores differ by rounding alone may change places.
        let tied = expected
            .iter()
            .any(|(other, other_score)| other == row && close(*other_score));
        let last = close(expected.last().expect("some").1);
        assert!(
            row == expected_row || tied || last,
            "{what}, place {place}: row {row} instead of {expected_row}"
        );
    }
}

fn terms<'t>(corpus: &Corpus, texts: &'t [String]) -> Vec<QueryTerm<'t>> {
    let term = |(position, text): (u32, &'t String)| QueryTerm {
        text,
        position,
        doc_freq: corpus.doc_freq(text),
    };
    (0u32..).zip(texts).map(term).collect()
}

fn words(random: &mut Random, of: u32) -> Vec<String> {
    let count = 1 + random.below(4);
    (0..count).map(|_| word(random, of)).collect()
}

#[test]
fn rankings_are_those_of_brute_force() {
    let corpus = Corpus::new(1, 3000, 40, 300);
    let (container, info) = build(&Shelf::ram(), &corpus, 1 << 20);
    assert_eq!(
        (info.documents, info.tokens),
        (corpus.documents(), corpus.tokens())
    );
    let bm25 = Bm25::new(corpus.documents(), corpus.tokens());
    let mut random = Random::new(2);
    for hold in [Hold::Least, Hold::Postings, Hold::Whole] {
        let index = open(&container, hold);
        for _ in 0..60 {
            let texts = words(&mut random, 330);
            let terms = terms(&corpus, &texts);
            for mode in MODES {
                let expected = ranking(&corpus, mode, &terms, &bm25);
                let query = TextQuery {
                    mode,
                    terms: &terms,
                    bm25,
                };
                for k in [1, 10, 5000] {
                    let found = best(&index, &query, k, &mut Counted::new(&container), &mut |_| true);
                    let what = format!("{mode:?} {texts:?}, best {k}");
                    same(&found, &expected[..k.min(expected.len())], &what);
                }
            }
        }
    }
}

/// Bounds of blocks are taken with the segment's own mean length; a collection's may be far from it.
#[test]
fn statistics_of_a_larger_collection_lose_no_row() {
    let corpus = Corpus::new(3, 4000, 60, 40);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    let index = open(&container, Hold::Whole);
    let mut random = Random::new(4);
    for tokens_per_document in [1, 3, 200, 5000] {
        let documents = 10 * corpus.documents();
        let bm25 = Bm25::new(documents, documents * tokens_per_document);
        for _ in 0..20 {
            let texts = words(&mut random, 40);
            let mut terms = terms(&corpus, &texts);
            terms.iter_mut().for_each(|term| term.doc_freq *= 3);
            for mode in MODES {
                let expected = ranking(&corpus, mode, &terms, &bm25);
                let query = TextQuery {
                    mode,
                    terms: &terms,
                    bm25,
                };
                let found = best(&index, &query, 10, &mut &container[..], &mut |_| true);
                let what = format!("{mode:?} {texts:?}, {tokens_per_document} tokens");
                same(&found, &expected[..10.min(expected.len())], &what);
            }
        }
    }
}

#[test]
fn other_parameters_are_scored_too() {
    let corpus = Corpus::new(5, 2000, 50, 100);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    let index = open(&container, Hold::Least);
    let mut random = Random::new(6);
    for (k1, b) in [(0.9, 0.4), (0.0, 0.75), (2.0, 0.0), (1.2, 1.0)] {
        let bm25 = Bm25 {
            k1,
            b,
            ..Bm25::new(corpus.documents(), corpus.tokens())
        };
        for _ in 0..20 {
            let texts = words(&mut random, 100);
            let terms = terms(&corpus, &texts);
            for mode in MODES {
                let expected = ranking(&corpus, mode, &terms, &bm25);
                let query = TextQuery {
                    mode,
                    terms: &terms,
                    bm25,
                };
                let found = best(&index, &query, 10, &mut &container[..], &mut |_| true);
                same(
                    &found,
                    &expected[..10.min(expected.len())],
                    &format!("{mode:?} {texts:?}, k1 {k1}, b {b}"),
                );
            }
        }
    }
}

#[test]
fn filters_are_asked_only_of_rows_that_would_enter() {
    let corpus = Corpus::new(7, 5000, 30, 60);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    let index = open(&container, Hold::Whole);
    let bm25 = Bm25::new(corpus.documents(), corpus.tokens());
    let texts = ["w2".to_owned(), "w5".to_owned()];
    let terms = terms(&corpus, &texts);
    let query = TextQuery {
        mode: Mode::Any,
        terms: &terms,
        bm25,
    };
    let mut asked = 0;
    let mut admits = |row: u32| {
        asked += 1;
        !row.is_multiple_of(3)
    };
    let found = best(&index, &query, 10, &mut &container[..], &mut admits);
    let mut expected = ranking(&corpus, Mode::Any, &terms, &bm25);
    let matching = expected.len();
    expected.retain(|(row, _)| !row.is_multiple_of(3));
    same(&found, &expected[..10], "filtered");
    assert!(asked * 4 < matching, "{asked} rows of {matching} were asked for");
}

/// Buffers score rows that no index has yet.
#[test]
fn a_row_without_an_index_scores_the_same() {
    let corpus = Corpus::new(8, 500, 90, 50);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    let index = open(&container, Hold::Whole);
    let bm25 = Bm25::new(corpus.documents(), corpus.tokens());
    let texts = ["w3".to_owned()];
    let terms = terms(&corpus, &texts);
    let query = TextQuery {
        mode: Mode::Any,
        terms: &terms,
        bm25,
    };
    for (row, score) in best(&index, &query, 500, &mut &container[..], &mut |_| true) {
        let tokens = &corpus.0[row as usize];
        let freq = tokens.iter().filter(|(token, _)| token == "w3").count() as u32;
        let norm = ramlet_text::norm(tokens.len() as u32);
        assert_eq!(norm, index.norm(row));
        assert_eq!(
            bm25.score(bm25.idf(terms[0].doc_freq), freq, norm).to_bits(),
            score.to_bits()
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let corpus = Corpus::new(9, 50, 10, 10);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    let index = open(&container, Hold::Whole);
    let term = QueryTerm {
        text: "w1",
        position: 0,
        doc_freq: 1,
    };
    let good = Bm25::new(10, 100);
    let many = vec![term; ramlet_text::QUERY_TERMS_MAX + 1];
    for (terms, bm25) in [
        (&many[..], good),
        (&many[..1], Bm25::new(0, 100)),
        (&many[..1], Bm25 { k1: f32::NAN, ..good }),
        (&many[..1], Bm25 { b: 1.5, ..good }),
    ] {
        let query = TextQuery {
            mode: Mode::Any,
            terms,
            bm25,
        };
        assert!(
            index
                .search(&query, 0.0, &mut &container[..], &mut |_, _| 0.0)
                .is_err(),
            "{bm25:?}"
        );
    }
}
