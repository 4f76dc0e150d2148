//! Directories that are filled while they are read.

use std::sync::Arc;

use object_store::memory::InMemory;
use ramlet_io::{RamStorage, Storage};
use ramlet_memory::{Consumer, Ledger};
use ramlet_store::{Pull, Restoring, Store};

use crate::backup::{Files, MemoryTarget, noise, pushed};
use crate::wrapped::{Lie, store};

const SEGMENT: &str = "c00000001/00000001.v0";

fn files() -> Files {
    [
        ("CATALOG-000000000001", noise(5_000, 1)),
        (SEGMENT, noise(9 << 20, 2)),
        ("c00000001/00000001.pay", noise(300_000, 3)),
        ("c00000001/00000001.ids", noise(3_000, 4)),
        ("c00000001/log-00000000000000000001", noise(200_000, 5)),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

fn memory() -> Consumer {
    Ledger::new(256 << 20).consumer("restore", u64::MAX)
}

fn begin(store: &Store, target: &MemoryTarget, has_begun: bool) -> Arc<Restoring> {
    let pull = Pull::within(store, None, &memory()).expect("there is a backup");
    let begun = pull.run_beside(target, has_begun, &mut |_| {});
    begun.expect("the store answers")
}

#[test]
fn files_of_segments_wait_and_others_do_not() {
    let store = store(&Arc::new(InMemory::new()), Lie::None);
    let files = files();
    pushed(&store, &files).expect("is pushed");
    let target = MemoryTarget::new();
    let restoring = begin(&store, &target, false);
    let there = target.contents();
    for (name, bytes) in &files {
        let waits = name == SEGMENT || name.ends_with(".pay");
        let expected = if waits {
            vec![0; bytes.len()]
        } else {
            bytes.clone()
        };
        assert!(there[name] == expected, "{name}");
    }
    assert!(restoring.fetch_all().expect("the store answers"));
    assert!(target.contents() == files);
    let progress = restoring.progress();
    assert_eq!(
        (progress.present, progress.fetched),
        (progress.bytes, progress.bytes)
    );
}

/// What a process that ended had fetched is verified, and not fetched again; what it spoilt is.
#[test]
fn what_lies_there_is_verified() {
    let store = store(&Arc::new(InMemory::new()), Lie::None);
    let files = files();
    pushed(&store, &files).expect("is pushed");
    let target = MemoryTarget::new();
    assert!(
        begin(&store, &target, false)
            .fetch_all()
            .expect("the store answers")
    );
    target.spoil(SEGMENT, 1 << 20);
    let again = begin(&store, &target, true);
    assert!(again.fetch_all().expect("the store answers"));
    assert!(target.contents() == files);
    let progress = again.progress();
    assert_eq!(progress.present, progress.bytes);
    assert!(
        0 < progress.fetched && progress.fetched <= progress.bytes / 2,
        "{progress:?}"
    );
}

/// A sync that failed isn't asked again: the kernel would say that all is well.
#[test]
fn what_a_failed_sync_lost_is_fetched_again() {
    let store = store(&Arc::new(InMemory::new()), Lie::None);
    let files = files();
    pushed(&store, &files).expect("is pushed");
    let target = MemoryTarget::new();
    let restoring = begin(&store, &target, false);
    target.fail_syncs(2);
    let tries = (0..5).take_while(|_| restoring.fetch_all().is_err()).count();
    assert_eq!(tries, 2);
    assert!(target.contents() == files);
    let progress = restoring.progress();
    assert_eq!(progress.present, progress.bytes);
}

#[test]
fn a_read_brings_what_it_touches() {
    let store = store(&Arc::new(InMemory::new()), Lie::None);
    let files = files();
    pushed(&store, &files).expect("is pushed");
    let local = Arc::new(RamStorage::new(None));
    let restoring = begin(&store, &MemoryTarget::new(), false);
    // Files of their length, as the target made them.
    let directory = local.subdir("c00000001").expect("is made");
    let mut file = directory.create("00000001.v0").expect("is made");
    file.append(&vec![0; files[SEGMENT].len()]).expect("is written");
    drop(file);
    let storage = restoring.over(local);
    let directory = storage.subdir("c00000001").expect("is there");
    let file = directory.open("00000001.v0").expect("is there");
    let mut out = vec![0; 10];
    file.read_at(&mut out, 100).expect("is fetched");
    let progress = restoring.progress();
    assert!(
        0 < progress.fetched && progress.fetched < files[SEGMENT].len() as u64,
        "{progress:?}"
    );
    // A file that is removed isn't fetched any more.
    directory.remove("00000001.v0").expect("is removed");
    assert!(restoring.fetch_all().expect("the store answers"));
}
