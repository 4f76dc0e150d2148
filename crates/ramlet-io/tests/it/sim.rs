//! The simulated disk: what survives a power loss, what may vanish, what may be torn.

use std::collections::BTreeSet;

use ramlet_io::{Fault, FaultOp, IoErrorKind, PAGE, SimStorage, Storage};

use crate::Rng;
use crate::backends::write_file;

const SECTOR: usize = 512;

/// Random states right now.
fn crashes(disk: &SimStorage, how_many: usize) -> Vec<SimStorage> {
    disk.crash_states(disk.journal_len(), 11, how_many)
}

#[test]
fn a_synced_file_survives_once_its_directory_is_synced() {
    let disk = SimStorage::new();
    let child = disk.subdir("child").expect("a directory");
    let bytes = Rng(1).bytes(10 * PAGE);
    write_file(child.as_ref(), "kept", &bytes, 1000);
    write_file(child.as_ref(), "gone", &bytes, 1000);
    child.remove("gone").expect("a removal");
    child.rename("kept", "renamed").expect("a rename");
    child.sync_dir().expect("a directory sync");
    let mut loose = child.create("loose").expect("a new file");
    loose.append(&bytes).expect("an append");
    for state in crashes(&disk, 50) {
        assert_eq!(state.read_file("child/renamed").expect("the file"), bytes);
        assert!(state.read_file("child/gone").is_err() && state.read_file("child/kept").is_err());
    }
}

#[test]
fn a_synced_file_may_vanish_with_its_name_and_a_name_may_come_without_bytes() {
    let disk = SimStorage::new();
    let mut file = disk.create("f").expect("a new file");
    file.append(&[5; PAGE]).expect("an append");
    file.sync().expect("a sync");
    let seen: BTreeSet<_> = crashes(&disk, 50)
        .iter()
        .map(|state| state.read_file("f").ok())
        .collect();
    assert_eq!(
        seen,
        BTreeSet::from([None, Some(vec![5; PAGE])]),
        "the name is loose, the bytes are not"
    );

    let disk = SimStorage::new();
    let mut file = disk.create("f").expect("a new file");
    file.append(&[5; PAGE]).expect("an append");
    file.flush().expect("a flush");
    disk.sync_dir().expect("a directory sync");
    let seen: BTreeSet<_> = crashes(&disk, 50)
        .iter()
        .map(|state| state.read_file("f").expect("the name is durable"))
        .collect();
    assert!(seen.contains(&vec![]) && seen.contains(&vec![5; PAGE]) && seen.contains(&vec![0; PAGE]));
}

#[test]
fn the_first_four_states_are_the_extremes() {
    let disk = SimStorage::new();
    write_file(&disk, "a", &[1; PAGE], PAGE);
    let mut file = disk.create("b").expect("a new file");
    file.append(&[2; PAGE]).expect("an append");
    file.flush().expect("a flush");
    disk.rename("b", "a").expect("a rename");
    let states = disk.crash_states(disk.journal_len(), 1, 0);
    let seen: Vec<_> = states
        .iter()
        .map(|state| state.read_file("a").expect("a"))
        .collect();
    // All lost; all kept; the name without its bytes; the bytes without their name.
    assert_eq!(seen, [vec![1; PAGE], vec![2; PAGE], vec![], vec![1; PAGE]]);
    assert!(
        states
            .iter()
            .all(|state| state.list_files() == ["a"] && state.journal_len() == 0)
    );
}

/// Each sector of an unsynced write is old or new, whole; both are seen, also within one file.
#[test]
fn unsynced_writes_are_torn_at_sectors() {
    let disk = SimStorage::new();
    let mut log = disk.create_log("log", 16 * SECTOR as u64).expect("a log");
    disk.sync_dir().expect("a directory sync");
    log.write_at(&[1; 16 * SECTOR], 0).expect("a write");
    log.sync().expect("a sync");
    log.write_at(&[2; 9 * SECTOR], 100).expect("a write");
    log.write_at(&[3; 2 * SECTOR], 4 * SECTOR as u64)
        .expect("a write");
    let newest = disk.read_file("log").expect("the log");
    let mut mixed = 0;
    for state in crashes(&disk, 300) {
        let bytes = state.read_file("log").expect("the log");
        assert_eq!(bytes.len(), 16 * SECTOR);
        let mut kinds = BTreeSet::new();
        for number in 0..16 {
            let range = number * SECTOR..(number + 1) * SECTOR;
            let mut first = [1; 16 * SECTOR];
            first[100..100 + 9 * SECTOR].fill(2);
            let versions = [&[1; SECTOR][..], &first[range.clone()], &newest[range.clone()]];
            let version = versions
                .iter()
                .position(|version| *version == &bytes[range.clone()]);
            kinds.insert(version.expect("a sector is whole, as it was at one moment"));
        }
        mixed += usize::from(kinds.len() > 2);
    }
    assert!(
        mixed > 20,
        "{mixed} of 300 states have sectors of all three moments"
    );
}

#[test]
fn changes_of_a_directory_are_lost_in_any_order() {
    let disk = SimStorage::new();
    for name in ["a", "b", "c", "d"] {
        disk.create(name).expect("a new file");
    }
    let seen: BTreeSet<_> = crashes(&disk, 100).iter().map(SimStorage::list_files).collect();
    assert_eq!(seen.len(), 16, "{seen:?}");
    // What was renamed in between has one of its names, or none.
    disk.sync_dir().expect("a directory sync");
    disk.create("e").expect("a new file");
    disk.rename("e", "f").expect("renames");
    disk.rename("f", "a").expect("renames");
    let seen: BTreeSet<_> = crashes(&disk, 100).iter().map(SimStorage::list_files).collect();
    let expected = [
        &["a", "b", "c", "d"][..],
        &["a", "b", "c", "d", "e"],
        &["a", "b", "c", "d", "f"],
    ];
    let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(seen, expected.into());
}

/// The name that a rename gives leads to the file that was renamed, also where its creation is lost and another had its name before.
#[test]
fn a_rename_is_of_a_file() {
    let disk = SimStorage::new();
    write_file(&disk, "tmp", &[1; PAGE], PAGE);
    disk.sync_dir().expect("a directory sync");
    disk.remove("tmp").expect("a removal");
    write_file(&disk, "tmp", &[2; PAGE], PAGE);
    disk.rename("tmp", "list").expect("a rename");
    for state in crashes(&disk, 100) {
        assert!(state.read_file("list").map_or(true, |bytes| bytes == [2; PAGE]));
    }
}

/// States with the same names, lengths and bytes have the same fingerprint, and others don't.
#[test]
fn fingerprints_are_of_contents() {
    let disk = SimStorage::new();
    let child = disk.subdir("child").expect("a directory");
    for (storage, name) in [(&disk as &dyn Storage, "a"), (child.as_ref(), "b")] {
        let mut file = storage.create(name).expect("a new file");
        file.append(&[7; 3 * PAGE]).expect("an append");
        file.append(&[0; PAGE + 1]).expect("an append");
        file.flush().expect("a flush");
    }
    let (mut contents, mut fingerprints) = (BTreeSet::new(), BTreeSet::new());
    let mut pairs = BTreeSet::new();
    let mut points = disk.crash_points();
    for at in 0..=disk.journal_len() {
        points.go_to(at);
        for number in 0..60 {
            let state = points.state(5, number);
            let there = state.disk();
            let read = |name: String| {
                let bytes = there.read_file(&name).expect("is listed");
                (name, bytes)
            };
            let directories = there.list_subdirs().expect("lists");
            let content = (
                directories,
                there.list_files().into_iter().map(read).collect::<Vec<_>>(),
            );
            contents.insert(content.clone());
            fingerprints.insert(state.fingerprint());
            pairs.insert((state.fingerprint(), content));
        }
    }
    assert!(contents.len() > 20, "{} are too few", contents.len());
    assert_eq!(contents.len(), fingerprints.len());
    assert_eq!(contents.len(), pairs.len());
}

#[test]
fn earlier_moments_have_earlier_states() {
    let disk = SimStorage::new();
    write_file(&disk, "a", &[1; PAGE], PAGE);
    let middle = disk.journal_len();
    write_file(&disk, "b", &[2; PAGE], PAGE);
    disk.remove("a").expect("a removal");
    disk.sync_dir().expect("a directory sync");
    for state in disk.crash_states(middle, 3, 20) {
        assert_eq!(state.list_files(), ["a"]);
    }
    for state in crashes(&disk, 20) {
        assert_eq!(state.list_files(), ["b"]);
    }
    assert!(
        disk.crash_states(0, 3, 5)
            .iter()
            .all(|state| state.list_files().is_empty())
    );
    let effects = disk.effects();
    assert_eq!(effects.len(), disk.journal_len());
    assert_eq!(
        effects[..2],
        ["create a", "write 4096 bytes at 0 of a"].map(str::to_owned)
    );
}

#[test]
fn states_are_disks_of_their_own_that_may_crash_again() {
    let disk = SimStorage::new();
    write_file(&disk, "a", &[1; PAGE], PAGE);
    let child = disk.subdir("child").expect("a directory");
    write_file(child.as_ref(), "f", &[4; PAGE], PAGE);
    let state = crashes(&disk, 0).remove(0);
    write_file(&state, "b", &[2; PAGE], PAGE);
    state.flip_bit("a", 7).expect("a byte of the file");
    assert_eq!(
        (disk.list_files(), state.list_files().len()),
        (vec!["a".into(), "child/f".into()], 3)
    );
    assert_eq!(disk.read_file("a").expect("a"), [1; PAGE]);
    for again in crashes(&state, 10) {
        assert_eq!(again.read_file("b").expect("b"), [2; PAGE]);
        assert_eq!(again.read_file("child/f").expect("f"), [4; PAGE]);
    }
    let same = |seed| -> Vec<_> {
        let states = disk.crash_states(2, seed, 30);
        states.iter().map(|state| state.read_file("a").ok()).collect()
    };
    assert_eq!(same(5), same(5), "the same seed, the same states");
}

#[test]
fn faults_fire_once_or_for_good_and_only_where_they_should() {
    let disk = SimStorage::new();
    disk.fail_nth(FaultOp::Create, 2, IoErrorKind::NoSpace);
    disk.create("a").expect("the first");
    assert_eq!(
        disk.create("b").err().map(|error| error.kind),
        Some(IoErrorKind::NoSpace)
    );
    disk.create("b").expect("the third");

    disk.inject(
        Fault::new(FaultOp::Sync, 1, IoErrorKind::Other)
            .on("log")
            .lasting(),
    );
    let mut log = disk.create_log("other", 4096).expect("another file");
    assert!(disk.create_log("log", 4096).is_err());
    assert!(disk.create_log("log", 4096).is_err());
    assert_eq!(
        disk.list().expect("names"),
        ["a", "b", "other"],
        "a log that can't be made isn't there"
    );
    log.sync().expect("another file");
    disk.clear_faults();

    disk.fail_from(FaultOp::Write, 1, IoErrorKind::NoSpace);
    assert!(log.write_at(&[1; 1000], 0).is_err());
    let mut out = [9; 1000];
    log.read_at(&mut out, 0).expect("a read");
    assert_eq!(
        (out[..500].to_vec(), out[500..].to_vec()),
        (vec![1; 500], vec![0; 500]),
        "half arrived"
    );
    disk.fail_nth(FaultOp::Any, 1, IoErrorKind::Other);
    assert!(disk.sync_dir().is_err());
    disk.sync_dir().expect("only once");
}

/// What the kernel does after a failed fsync: it forgets what it couldn't write, and the next one succeeds.
#[test]
fn after_a_failed_sync_no_later_one_promises_anything() {
    let disk = SimStorage::new();
    let mut log = disk.create_log("log", PAGE as u64).expect("a log");
    disk.sync_dir().expect("a directory sync");
    log.write_at(&[1; PAGE], 0).expect("a write");
    disk.fail_nth(FaultOp::Sync, 1, IoErrorKind::Other);
    assert!(log.sync().is_err());
    log.sync().expect("the kernel says so");
    let lost = crashes(&disk, 30)
        .iter()
        .any(|state| state.read_file("log").expect("the log") == [0; PAGE]);
    assert!(lost, "bytes written before the failed sync may be gone");
}

/// A random history against its own model: what was durable at any moment is in every state of that moment.
#[test]
fn durable_files_are_in_every_state_of_every_moment() {
    let disk = SimStorage::new();
    let mut rng = Rng(8);
    type Files = Vec<(String, Vec<u8>)>;
    let mut durable: Vec<(usize, Files)> = Vec::new();
    let mut synced: Files = Vec::new();
    for number in 0..40 {
        let name = format!("f{number}");
        let pages = rng.below(3) as usize + 1;
        let bytes = rng.bytes(pages * PAGE);
        let mut file = disk.create(&name).expect("a new file");
        file.append(&bytes).expect("an append");
        if rng.below(2) == 0 {
            file.sync().expect("a sync");
            synced.push((name, bytes));
        }
        if rng.below(3) == 0 {
            disk.sync_dir().expect("a directory sync");
            durable.push((disk.journal_len(), synced.clone()));
        }
    }
    assert!(durable.len() > 5 && synced.len() > 10);
    for at in 0..=disk.journal_len() {
        let last = durable.iter().rev().find(|(since, _)| *since <= at);
        for state in disk.crash_states(at, 1, 3) {
            for (name, bytes) in last.iter().flat_map(|(_, files)| files) {
                assert_eq!(
                    state.read_file(name).expect("a durable file"),
                    *bytes,
                    "{name} at {at}"
                );
            }
        }
    }
}
