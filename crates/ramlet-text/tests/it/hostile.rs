//! Containers that are cut or changed: an error or an answer, never a panic.

use ramlet_text::{Bm25, Hold, Mode, QueryTerm, TextIndex, TextInfo, TextQuery};

use crate::corpus::Corpus;
use crate::random::Random;
use crate::shelf::{Shelf, build, cache};

/// Opens and asks; how far it gets doesn't matter.
fn try_all(container: &[u8], hold: Hold) -> bool {
    let mut ranges = container;
    let Ok(index) = TextIndex::open(container.len() as u64, hold, cache(1 << 20), &mut ranges) else {
        return false;
    };
    for mode in [Mode::Any, Mode::All, Mode::Phrase] {
        let term = |text, position| QueryTerm {
            text,
            position,
            doc_freq: 100,
        };
        let terms = [term("w1", 0), term("w2", 1)];
        for (k1, terms) in [(1.2, &terms[..]), (0.5, &terms[..]), (1.2, &terms[..1])] {
            let bm25 = Bm25 {
                k1,
                ..Bm25::new(200, 4000)
            };
            let query = TextQuery { mode, terms, bm25 };
            let _ = index.search(&query, 0.0, &mut ranges, &mut |_, score| score);
            let _ = index.rows(mode, terms, &mut ranges, &mut |_| true);
        }
    }
    true
}

#[test]
fn changed_bytes_dont_panic() {
    let corpus = Corpus::new(41, 300, 20, 60);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    assert!(try_all(&container, Hold::Least) && try_all(&container, Hold::Whole));
    let mut random = Random::new(42);
    let mut opened = 0;
    for round in 0..300 {
        let mut broken = container.clone();
        for _ in 0..1 + round % 3 {
            let place = random.below(broken.len() as u32) as usize;
            broken[place] ^= 1 << random.below(8);
        }
        let hold = [Hold::Least, Hold::Whole][round % 2];
        opened += usize::from(try_all(&broken, hold));
    }
    assert!(
        opened > 30,
        "{opened} of them opened: nothing was tried behind the table"
    );
}

#[test]
fn cut_containers_are_refused() {
    let corpus = Corpus::new(43, 100, 30, 100);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    for len in (0..container.len()).step_by(7).chain([container.len() - 1]) {
        let mut cut = &container[..len];
        assert!(TextInfo::read(len as u64, &mut cut).is_err(), "{len} bytes");
        // A length that is more than there is.
        assert!(
            TextInfo::read(container.len() as u64, &mut cut).is_err(),
            "{len} bytes"
        );
    }
    assert!(TextInfo::read(container.len() as u64, &mut &container[..]).is_ok());
}

#[test]
fn panics_of_the_caller_are_the_callers() {
    let corpus = Corpus::new(44, 100, 30, 10);
    let (container, _) = build(&Shelf::ram(), &corpus, 1 << 20);
    let mut ranges = &container[..];
    let index =
        TextIndex::open(container.len() as u64, Hold::Whole, cache(1 << 20), &mut ranges).expect("open");
    let term = QueryTerm {
        text: "w1",
        position: 0,
        doc_freq: 1,
    };
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut each = |_: &[u32]| panic!("mine");
        let _ = index.rows(Mode::Any, &[term], &mut ranges, &mut each);
    }));
    assert!(caught.is_err());
}
