//! Builds: the same in little scratch as in much, within their bound, nothing left behind.

use ramlet_text::{Hold, SCRATCH_BYTES_MIN, TOKEN_BYTES_MAX, TextBuilder, TextError};

use crate::corpus::Corpus;
use crate::counting::peak_bytes;
use crate::shelf::{Shelf, build, open};

#[test]
fn runs_that_are_merged_make_the_same_index() {
    // Scratch for all at once against one that makes a dozen runs.
    let corpus = Corpus::new(21, 20_000, 40, 5000);
    let shelf = Shelf::ram();
    let (at_once, info) = build(&shelf, &corpus, 256 << 20);
    let (merged, merged_info) = build(&shelf, &corpus, SCRATCH_BYTES_MIN);
    assert!(
        info == merged_info && at_once == merged,
        "{info:?} {merged_info:?}"
    );
    assert!(
        shelf.storage.list().expect("names").is_empty(),
        "temporary files are left"
    );
}

/// The sink of a build whose size doesn't count.
struct Nowhere(u64);

impl ramlet_text::ByteSink for Nowhere {
    fn append(&mut self, bytes: &[u8]) -> ramlet_text::Result<()> {
        self.0 += bytes.len() as u64;
        Ok(())
    }
}

#[test]
fn memory_stays_within_its_bound() {
    let shelf = Shelf::files();
    for (rows, words) in [(20_000, 2000), (80_000, 40_000)] {
        let corpus = Corpus::new(22, rows, 20, words);
        let run = || {
            let mut builder = TextBuilder::new(shelf.storage.clone(), SCRATCH_BYTES_MIN).expect("a builder");
            for (row, tokens) in (0u32..).zip(&corpus.0) {
                let mut show = |each: &mut dyn FnMut(&str, u32)| {
                    tokens.iter().for_each(|(token, position)| each(token, *position));
                };
                builder.add(row, &mut show).expect("ascending rows");
            }
            builder.finish(rows as u32, &mut Nowhere(0)).expect("a container")
        };
        let (peak, info) = peak_bytes(run);
        let bound = SCRATCH_BYTES_MIN + TextBuilder::beside_bytes(info.rows, info.terms);
        assert!(
            peak as u64 <= bound,
            "{peak} bytes held, {bound} allowed, {info:?}"
        );
        assert!(
            peak as u64 > SCRATCH_BYTES_MIN / 2,
            "{peak} bytes: was it measured?"
        );
    }
}

#[test]
fn empty_segments_are_indexes_too() {
    for rows in [0, 5] {
        let builder = TextBuilder::new(Shelf::ram().storage.clone(), SCRATCH_BYTES_MIN).expect("a builder");
        let mut container = Vec::new();
        let info = builder.finish(rows, &mut container).expect("a container");
        assert_eq!((info.rows, info.documents, info.terms), (u64::from(rows), 0, 0));
        for hold in [Hold::Least, Hold::Whole] {
            assert_eq!(open(&container, hold).doc_freqs(&["w"]).expect("counts"), [0]);
        }
    }
}

#[test]
fn misuse_is_refused() {
    let shelf = Shelf::ram();
    let small = TextBuilder::new(shelf.storage.clone(), SCRATCH_BYTES_MIN - 1);
    assert!(matches!(small, Err(TextError::Scratch { .. })));
    let new = || TextBuilder::new(shelf.storage.clone(), SCRATCH_BYTES_MIN).expect("a builder");
    let mut builder = new();
    builder.add(3, &mut |each| each("a", 0)).expect("a row");
    assert!(
        builder.add(3, &mut |each| each("a", 0)).is_err(),
        "the same row again"
    );
    assert!(
        builder
            .add(4, &mut |each| {
                each("a", 2);
                each("a", 1)
            })
            .is_err(),
        "positions descend"
    );
    let mut builder = new();
    builder.add(3, &mut |each| each("a", 0)).expect("a row");
    assert!(
        builder.finish(3, &mut Vec::new()).is_err(),
        "fewer rows than were added"
    );
}

/// They count in the length, and aren't found.
#[test]
fn tokens_beyond_the_bound_are_left_out() {
    let long = "x".repeat(TOKEN_BYTES_MAX + 1);
    let fits = "y".repeat(TOKEN_BYTES_MAX);
    let mut builder = TextBuilder::new(Shelf::ram().storage.clone(), SCRATCH_BYTES_MIN).expect("a builder");
    let mut show = |each: &mut dyn FnMut(&str, u32)| {
        each(&long, 0);
        each(&fits, 1);
    };
    builder.add(0, &mut show).expect("a row");
    let mut container = Vec::new();
    let info = builder.finish(1, &mut container).expect("a container");
    assert_eq!((info.tokens, info.terms), (2, 1));
    assert_eq!(
        open(&container, Hold::Whole)
            .doc_freqs(&[&long, &fits])
            .expect("counts"),
        [0, 1]
    );
}
