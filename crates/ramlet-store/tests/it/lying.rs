//! Stores that can't be trusted are refused, by the name of what they do wrong.

use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::path::Path;

use ramlet_store::{Finding, Outcome, Store, StoreErrorKind, check};

use crate::wrapped::{Lie, store};

fn objects(inner: &InMemory) -> Vec<String> {
    let store = Store::over(Arc::new(inner.fork()), "memory:").expect("threads");
    let mut names = Vec::new();
    for folder in ["probe", "backup"] {
        let each = &mut |listed: ramlet_store::Listed| {
            names.push(listed.path.to_string());
            Ok(())
        };
        store.list(folder, each).expect("a list");
    }
    names
}

/// The probes that refuse a store of this kind. Nothing is left behind.
fn refused(lie: Lie) -> Vec<Finding> {
    let inner = Arc::new(InMemory::new());
    let findings = check(&store(&inner, lie), &mut |_| {}).expect("it can be tried");
    if ![Lie::KeepsDeleted, Lie::StaleList].contains(&lie) {
        assert_eq!(objects(&inner), [""; 0], "{lie:?} leaves probes");
    }
    findings.into_iter().filter(Finding::is_refused).collect()
}

#[test]
fn a_store_that_keeps_its_word_is_taken() {
    assert_eq!(refused(Lie::None), []);
}

#[test]
fn each_lie_is_named() {
    for (lie, probe, says) in [
        (Lie::AllCreate, "create if absent", "16 of 16"),
        (Lie::AllSwap, "compare and swap", "16 of 16"),
        (Lie::KeepsFirst, "overwrites", "is lost"),
        (Lie::StaleList, "list after write", "lacks"),
        (Lie::ShiftedRanges, "ranges", "others"),
        (Lie::KeepsDeleted, "delete", "still read"),
    ] {
        let found = refused(lie);
        let finding = found.iter().find(|finding| finding.probe == probe);
        let finding = finding.unwrap_or_else(|| panic!("{lie:?} passes {probe}: {found:?}"));
        assert!(finding.to_string().contains(says), "{lie:?}: {finding}");
    }
}

#[test]
fn a_store_without_swaps_is_taken() {
    let inner = Arc::new(InMemory::new());
    let findings = check(&store(&inner, Lie::NoSwap), &mut |_| {}).expect("it can be tried");
    let swap = findings
        .iter()
        .find(|finding| finding.probe == "compare and swap");
    let swap = swap.expect("it was tried");
    assert!(matches!(swap.outcome, Outcome::NotOffered(_)), "{swap}");
    assert!(!findings.iter().any(Finding::is_refused));
}

#[test]
fn wrong_keys_are_told_at_once() {
    let inner = Arc::new(InMemory::new());
    let error = check(&store(&inner, Lie::Denied), &mut |_| {}).expect_err("nothing is allowed");
    assert_eq!(error.kind(), StoreErrorKind::Denied);
    assert!(error.to_string().contains("the key is unknown"), "{error}");
}

#[test]
fn a_place_of_something_else_is_left_alone() {
    let inner = Arc::new(InMemory::new());
    let honest = store(&inner, Lie::None);
    let photo = Path::from("photos/cat.jpg");
    honest.put(&photo, "meow".into()).expect("it is put");
    for refused in [
        check(&honest, &mut |_| {}).map(|_| ()),
        honest.claim(),
        honest.must_be_ours(),
    ] {
        let error = refused.expect_err("it isn't ours");
        assert_eq!(error.kind(), StoreErrorKind::Foreign);
        assert!(error.to_string().contains("photos/cat.jpg"), "{error}");
    }
    assert_eq!(objects(&inner), [""; 0]);
}

#[test]
fn a_marker_of_another_version_is_refused() {
    let inner = Arc::new(InMemory::new());
    let honest = store(&inner, Lie::None);
    for (marker, says) in [
        (r#"{"format":"ramlet-store","version":9,"id":"x"}"#, "version 9"),
        ("{}", "isn't what"),
        ("", "isn't what"),
    ] {
        let path = Path::from("ramlet-store");
        let put = honest.put(&path, marker.to_owned().into());
        put.expect("it is put");
        let error = honest.claim().expect_err(marker);
        assert_eq!(error.kind(), StoreErrorKind::Foreign);
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_lost_answer_is_no_verdict() {
    for lost in [1, 2, 5] {
        assert_eq!(refused(Lie::CutOff(lost)), []);
    }
    let inner = Arc::new(InMemory::new());
    let cut = store(&inner, Lie::CutOff(usize::MAX / 8));
    let error = check(&cut, &mut |_| {}).expect_err("no race can be told");
    assert_eq!(error.kind(), StoreErrorKind::NoAnswer);
    assert_eq!(objects(&inner), [""; 0]);
}

#[test]
fn a_place_is_claimed_though_the_answer_is_lost() {
    let inner = Arc::new(InMemory::new());
    let lost = store(&inner, Lie::LostAnswers);
    lost.claim().expect("the marker is there");
    assert!(lost.is_ours().expect("it is read"));
    let inner = Arc::new(InMemory::new());
    let cut = store(&inner, Lie::FailsAfter(0));
    cut.claim().expect_err("no marker is there");
}

/// Between the looks of one at the marker and at what else is there, another one makes it.
#[test]
fn who_claims_a_place_at_the_same_moment_gets_it() {
    for turn in 0..200 {
        let inner = Arc::new(InMemory::new());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let claimed = store(&inner, Lie::None).claim();
                    claimed.unwrap_or_else(|e| panic!("turn {turn}: {e}"));
                });
            }
        });
    }
}
