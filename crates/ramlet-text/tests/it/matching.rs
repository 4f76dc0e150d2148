//! Rows that match, against a scan.

use ramlet_text::{Hold, Mode, QueryTerm};

use crate::corpus::{Corpus, word};
use crate::oracle::occurrences;
use crate::random::Random;
use crate::shelf::{Shelf, build, open};

fn matches(tokens: &[(String, u32)], mode: Mode, terms: &[QueryTerm<'_>]) -> bool {
    let has = |term: &QueryTerm<'_>| tokens.iter().any(|(token, _)| token == term.text);
    match mode {
        Mode::Any => terms.iter().any(has),
        Mode::All => terms.iter().all(has),
        Mode::Phrase => occurrences(tokens, terms) > 0,
    }
}

#[test]
fn rows_are_those_of_a_scan() {
    let corpus = Corpus::new(11, 2500, 30, 25);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    let mut random = Random::new(12);
    for hold in [Hold::Least, Hold::Whole] {
        let index = open(&container, hold);
        for round in 0..60 {
            let texts: Vec<String> = (0..1 + random.below(3)).map(|_| word(&mut random, 27)).collect();
            // Gaps in the phrase, and a place that doesn't begin at 0.
            let term = |(at, text)| QueryTerm {
                text,
                position: 5 + at * (1 + round % 2),
                doc_freq: 0,
            };
            let terms: Vec<QueryTerm<'_>> = (0u32..)
                .zip(&texts)
                .map(|(at, text)| term((at, text.as_str())))
                .collect();
            for mode in [Mode::Any, Mode::All, Mode::Phrase] {
                let mut found = Vec::new();
                let mut each = |rows: &[u32]| {
                    found.extend_from_slice(rows);
                    true
                };
                index
                    .rows(mode, &terms, &mut &container[..], &mut each)
                    .expect("rows");
                let expected: Vec<u32> = (0u32..)
                    .zip(&corpus.0)
                    .filter(|(_, tokens)| matches(tokens, mode, &terms))
                    .map(|(row, _)| row)
                    .collect();
                assert_eq!(found, expected, "{mode:?} {terms:?}");
                for row in [0, 3, 17, 1200, 2499, 2500, u32::MAX] {
                    let holds = index
                        .holds(row, mode, &terms, &mut &container[..])
                        .expect("a row");
                    assert_eq!(holds, expected.contains(&row), "row {row}, {mode:?} {terms:?}");
                }
            }
        }
    }
}

#[test]
fn it_stops_when_told() {
    let corpus = Corpus::new(13, 3000, 20, 5);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    let index = open(&container, Hold::Whole);
    let term = QueryTerm {
        text: "w1",
        position: 0,
        doc_freq: 0,
    };
    let mut calls = 0;
    let mut each = |_: &[u32]| {
        calls += 1;
        false
    };
    index
        .rows(Mode::All, &[term], &mut &container[..], &mut each)
        .expect("rows");
    assert_eq!(calls, 1);
}

#[test]
fn no_terms_match_nothing() {
    let corpus = Corpus::new(14, 100, 20, 5);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    let index = open(&container, Hold::Whole);
    for mode in [Mode::Any, Mode::All, Mode::Phrase] {
        let mut each = |_: &[u32]| panic!("a row for no terms");
        index
            .rows(mode, &[], &mut &container[..], &mut each)
            .expect("none");
    }
    assert_eq!(index.doc_freqs(&["w1", "nowhere"]).expect("counts")[1], 0);
    assert_eq!(
        u64::from(index.doc_freqs(&["w1"]).expect("counts")[0]),
        corpus.doc_freq("w1")
    );
}
