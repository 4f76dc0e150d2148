//! `check` says nothing of a sound directory and names the file of any damage.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ramlet::*;
use ramlet_format::manifest::Manifest;
use ramlet_io::{Fault, FaultOp, IoErrorKind, PreadStorage, SimStorage, Storage};

use crate::counts::Directory;
use crate::support::*;

fn filled() -> SimStorage {
    let disk = SimStorage::new();
    let engine = open(Arc::new(disk.clone()));
    engine
        .create_collection("c", config(4, Distance::Cosine))
        .unwrap();
    let collection = engine.collection("c").unwrap();
    let index = FieldIndex {
        kind: FieldKind::Integer,
        params: None,
    };
    collection.create_payload_index("n", index).unwrap();
    for round in 0..3 {
        let points = (0..100)
            .map(|i| point(round * 50 + i, vec![i as f32 + 1.0; 4], &format!("{{\"n\":{i}}}")))
            .collect();
        collection.update(upsert(points)).unwrap();
        collection.flush().unwrap();
    }
    collection.update(delete(&[1, 2, 60, 120])).unwrap();
    collection.flush().unwrap();
    collection
        .update(upsert(vec![point(1, vec![1.0; 4], "{}")]))
        .unwrap();
    drop(collection);
    engine.close();
    disk
}

fn run(disk: &SimStorage) -> (CheckReport, Vec<Checked>) {
    let mut all = Vec::new();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let report = check(&storage, &mut |checked| all.push(checked.clone())).expect("checks");
    (report, all)
}

#[test]
fn sound_and_damaged() {
    let disk = filled();
    let (report, all) = run(&disk);
    assert_eq!(report.problems, 0, "{all:?}");
    // One of them is in the log alone.
    assert_eq!((report.collections, report.points), (1, 197));
    assert!(report.log_groups >= 1);
    let mut rng = Rng(4);
    let segment_files: Vec<String> = disk
        .list_files()
        .into_iter()
        .filter(|n| n.contains("/0000"))
        .collect();
    assert!(segment_files.len() > 10, "{segment_files:?}");
    for name in segment_files {
        let copy = disk
            .crash_states(disk.journal_len(), 0, 0)
            .into_iter()
            .nth(1)
            .unwrap();
        let len = copy.read_file(&name).unwrap().len() as u64;
        copy.flip_bit(&name, rng.below(len)).unwrap();
        let (report, all) = run(&copy);
        let file = name.split('/').next_back().unwrap();
        let told = all.iter().any(|c| c.problem.is_some() && c.place.contains(file));
        assert!(report.problems > 0 && told, "{name}: {all:?}");
    }
}

/// A file that this process may not read may be sound: it isn't called damaged by a check, nor left out as lost by a salvage.
#[test]
fn what_cannot_be_read_is_not_called_damaged() {
    for kind in [IoErrorKind::NoPermission, IoErrorKind::NoDescriptors] {
        let disk = filled();
        let is_of_segment = |name: &String| name.contains("/0000");
        let name = disk
            .list_files()
            .into_iter()
            .find(is_of_segment)
            .expect("a segment's file");
        let file = name.split('/').next_back().expect("a name").to_owned();
        disk.inject(Fault::new(FaultOp::Read, 1, kind).on(&file).lasting());
        let (report, all) = run(&disk);
        assert_eq!(report.problems, 0, "{kind:?}: {all:?}");
        let told = |c: &&Checked| c.unreadable.is_some() && c.place.ends_with(&file);
        assert_eq!(all.iter().filter(told).count(), 1, "{kind:?}: {all:?}");
        assert!(report.unreadable >= 1);
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let out: Arc<dyn Storage> = Arc::new(SimStorage::new());
        let refused = salvage(&storage, "c", &out, "c.snapshot", 1).expect_err("it may be sound");
        assert!(refused.is_unreadable(), "{refused}");
        assert!(out.list().expect("lists").is_empty(), "nothing is written");
    }
}

/// Two collections whose points are in their logs alone, in a directory.
fn logged(name: &str) -> Directory {
    let directory = Directory::new(name);
    let engine = open(PreadStorage::open(&directory.0).expect("opens"));
    for name in ["a", "b"] {
        engine
            .create_collection(name, config(4, Distance::Cosine))
            .expect("creates");
        let collection = engine.collection(name).expect("is there");
        for id in 0..20 {
            collection
                .update(upsert(vec![point(id, vec![1.0; 4], "{\"text\":\"some words\"}")]))
                .expect("upserts");
        }
    }
    engine.close();
    directory
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("lists") {
        let (from, to) = {
            let entry = entry.expect("an entry");
            (entry.path(), to.join(entry.file_name()))
        };
        match from.is_dir() {
            true => copy(&from, &to),
            false => drop(fs::copy(&from, &to).expect("copies")),
        }
    }
}

/// The one file whose name begins so.
fn one(directory: &Path, prefix: &str) -> PathBuf {
    let names = fs::read_dir(directory)
        .expect("lists")
        .map(|entry| entry.expect("an entry").path());
    let mut found: Vec<PathBuf> = names
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        })
        .collect();
    found.sort();
    found.pop().expect("such a file")
}

/// What a check and a start say of a directory.
fn told(directory: &Path) -> (u64, String) {
    let storage: Arc<dyn Storage> = PreadStorage::open(directory).expect("opens");
    // One that can't be begun is of what concerns all collections.
    let problems = check(&storage, &mut |_| {}).map_or(1, |report| report.problems);
    match try_open(storage) {
        Ok(engine) => {
            engine.close();
            (problems, String::new())
        }
        Err(error) => (problems, error.to_string()),
    }
}

/// Damages a copy of `directory`: a check and a start must both name the file that is meant.
fn refused(directory: &Directory, case: &str, damage: impl Fn(&Path) -> PathBuf, words: &str) {
    let damaged = Directory::new(&format!("damaged-{}", case.replace(' ', "-")));
    copy(&directory.0, &damaged.0);
    let file = damage(&damaged.0);
    let name = file.file_name().expect("a file").to_string_lossy().into_owned();
    let (problems, error) = told(&damaged.0);
    assert!(
        problems > 0 && error.contains(words) && error.contains(&name),
        "{case} of {name}: {problems} problems, {error:?}"
    );
}

/// Two segments, then a log whose groups are in none.
fn written(name: &str) -> Directory {
    let directory = logged(name);
    let engine = open(PreadStorage::open(&directory.0).expect("opens"));
    let collection = engine.collection("b").expect("is there");
    for first in [100, 200, 300] {
        let points = (first..first + 30).map(|id| point(id, vec![1.0; 4], "{\"text\":\"words\"}"));
        collection.update(upsert(points.collect())).expect("upserts");
        if first < 300 {
            collection.flush().expect("flushes");
        }
    }
    engine.close();
    directory
}

fn cut_to(path: &Path, bytes: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("opens");
    file.set_len(bytes).expect("cuts");
}

#[test]
fn a_log_that_is_lost_is_not_taken_for_an_empty_one() {
    // The only one, and one behind others that were flushed, in a file that was used before.
    for directory in [logged("logs"), written("logs-behind")] {
        let log = |root: &Path| one(&root.join("c00000001"), "log-");
        let case = |name: &str| format!("{name} in {}", directory.0.file_name().unwrap().to_string_lossy());
        let check = |name: &str, damage: &dyn Fn(&Path), words: &str| {
            let damage = |root: &Path| {
                let log = log(root);
                damage(&log);
                log
            };
            refused(&directory, &case(name), damage, words);
        };
        check(
            "deleted",
            &|log| fs::remove_file(log).expect("removes"),
            "is lost",
        );
        for bytes in [0, 1, 4096, 4096 + 700] {
            check(
                &format!("cut to {bytes}"),
                &|log| cut_to(log, bytes),
                "it was truncated",
            );
        }
        let zeros = |log: &Path, from: usize, to: usize| {
            let mut bytes = fs::read(log).expect("reads");
            let to = to.min(bytes.len());
            bytes[from..to].fill(0);
            fs::write(log, bytes).expect("writes");
        };
        check("all zeros", &|log| zeros(log, 0, usize::MAX), "log header");
        check("no header", &|log| zeros(log, 0, 4096), "log header");
        check("no group", &|log| zeros(log, 4096, usize::MAX), "were durable");
        assert_eq!(told(&directory.0), (0, String::new()));
    }
}

#[test]
fn an_older_version_of_a_file_is_not_taken() {
    let directory = written("older");
    let older = Directory::new("older-before");
    copy(&directory.0, &older.0);
    let engine = open(PreadStorage::open(&directory.0).expect("opens"));
    let collection = engine.collection("b").expect("is there");
    collection
        .update(upsert(vec![point(999, vec![1.0; 4], "{}")]))
        .expect("upserts");
    engine.close();
    let log = one(&older.0.join("c00000001"), "log-");
    let take = |root: &Path| {
        let to = root.join("c00000001").join(log.file_name().unwrap());
        fs::copy(&log, &to).expect("copies");
        to
    };
    refused(&directory, "an older copy", take, "were durable");
}

#[test]
fn the_newest_list_is_not_replaced_by_the_one_before() {
    let directory = written("lists");
    let of = |dir: &'static str, prefix: &'static str, damage: fn(&Path)| {
        move |root: &Path| {
            let names = fs::read_dir(root.join(dir)).expect("lists");
            let names = names.map(|entry| entry.expect("an entry").path());
            let newest = names
                .filter(|path| {
                    let name = path.file_name().unwrap().to_string_lossy();
                    name.starts_with(prefix) && !name.ends_with(".old")
                })
                .max()
                .expect("there is one");
            damage(&newest);
            newest
        }
    };
    for (dir, prefix) in [("", "CATALOG-"), ("c00000001", "MANIFEST-")] {
        let remove = of(dir, prefix, |path| fs::remove_file(path).expect("removes"));
        refused(&directory, &format!("deleted {prefix}"), remove, "is lost");
        for bytes in [0, 1, 30] {
            let cut: fn(&Path) = match bytes {
                0 => |path| cut_to(path, 0),
                1 => |path| cut_to(path, 1),
                _ => |path| cut_to(path, 30),
            };
            refused(
                &directory,
                &format!("cut {prefix} to {bytes}"),
                of(dir, prefix, cut),
                "envelope",
            );
        }
    }
    assert_eq!(told(&directory.0), (0, String::new()));
    // The one that is kept is verified as well.
    let kept = directory.0.join("CATALOG-000000000002.old");
    assert!(kept.is_file());
    fs::write(&kept, b"damaged").expect("writes");
    assert_eq!(told(&directory.0), (1, String::new()));
}

/// All files are sound, and yet a start refuses them: they are of another directory.
#[test]
fn a_check_tries_what_a_start_does() {
    let directory = logged("starts");
    let listing = |dir: &Path| {
        let names = fs::read_dir(dir)
            .expect("lists")
            .map(|entry| entry.expect("an entry").path());
        let mut names: Vec<PathBuf> = names.collect();
        names.sort();
        names
    };
    let path = one(&directory.0.join("c00000001"), "MANIFEST-");
    let mut manifest = Manifest::decode(&fs::read(&path).expect("reads")).expect("decodes");
    manifest.collection = "c00000007".into();
    fs::write(&path, manifest.encode()).expect("writes");
    let before = listing(&directory.0.join("c00000001"));
    let storage: Arc<dyn Storage> = PreadStorage::open(&directory.0).expect("opens");
    let mut problems = Vec::new();
    let report = check(&storage, &mut |checked| {
        problems.extend(checked.problem.as_ref().map(|_| checked.place.clone()));
    });
    assert_eq!(
        (report.expect("checks").problems, &problems[..]),
        (1, &["b/start".to_owned()][..])
    );
    assert_eq!(
        listing(&directory.0.join("c00000001")),
        before,
        "it changed nothing"
    );
    assert!(try_open(storage).is_err());
}

/// Of many collections each is started, and yet the catalog is read a few times only.
#[test]
fn a_check_opens_many_collections_by_few_engines() {
    let disk = SimStorage::new();
    let engine = open(Arc::new(disk.clone()));
    for n in 0..40 {
        let name = format!("c{n}");
        engine
            .create_collection(&name, config(4, Distance::Dot))
            .expect("creates");
        let collection = engine.collection(&name).expect("is there");
        let written = collection.update(upsert(vec![point(n, vec![1.0; 4], "{}")]));
        written.expect("upserts");
    }
    engine.close();
    drop(engine);
    let fault = Fault::new(FaultOp::Read, 12, IoErrorKind::Other);
    disk.inject(fault.on("CATALOG").lasting());
    let (report, all) = run(&disk);
    let found = (
        report.collections,
        report.log_groups,
        report.problems,
        report.skipped,
    );
    assert_eq!(found, (40, 40, 0, 0), "{all:?}");
    let started = all.iter().filter(|checked| checked.place.ends_with("/start"));
    assert_eq!(started.count(), 40);
}

#[test]
fn damaged_snapshots_are_noticed() {
    let directory = logged("snapshots");
    let engine = open(PreadStorage::open(&directory.0).expect("opens"));
    engine
        .create_snapshot(SnapshotScope::Collection("a"), 1)
        .expect("takes");
    engine
        .create_snapshot(SnapshotScope::Everything, 2)
        .expect("takes");
    engine.close();
    drop(engine);
    assert_eq!(told(&directory.0), (0, String::new()));
    let root = directory.0.join("snapshots");
    for snapshot in [one(&root.join("a"), "a-"), one(&root, "full-")] {
        let snapshot = snapshot
            .to_string_lossy()
            .trim_end_matches(".checksum")
            .to_owned();
        for file in [snapshot.clone(), format!("{snapshot}.checksum")] {
            let whole = fs::read(&file).expect("reads");
            for at in [0, 30] {
                let mut damaged = whole.clone();
                damaged[at] ^= 1;
                fs::write(&file, &damaged).expect("writes");
                let (problems, error) = told(&directory.0);
                assert_eq!((problems, error), (1, String::new()), "{file} at {at}");
            }
            fs::write(&file, &whole).expect("writes");
        }
    }
    assert_eq!(told(&directory.0), (0, String::new()));
}

#[test]
fn a_collection_that_the_catalog_does_not_list_is_kept() {
    let directory = logged("catalogs");
    let older = Directory::new("catalogs-older");
    copy(&directory.0, &older.0);
    // As somebody brings the one before back.
    fs::remove_file(older.0.join("CATALOG-000000000003")).expect("removes");
    let before = older.0.join("CATALOG-000000000002");
    fs::rename(before.with_extension("old"), before).expect("renames");
    let (problems, error) = told(&older.0);
    assert!(
        problems > 0 && error.contains("a newer catalog is missing"),
        "{problems}, {error}"
    );
    assert!(older.0.join("c00000001").is_dir(), "nothing was removed");

    // What can't be read stays too, and keeps nobody from the others.
    let manifest = one(&older.0.join("c00000001"), "MANIFEST-");
    fs::write(&manifest, b"damaged").expect("writes");
    let (problems, error) = told(&older.0);
    assert!(problems > 0 && error.is_empty(), "{problems}, {error}");
    assert!(manifest.is_file(), "nothing was removed");

    // What is no collection stays, and its number isn't taken.
    let foreign = directory.0.join("c00000009");
    fs::create_dir(&foreign).expect("a directory");
    fs::write(foreign.join("keep"), "me").expect("writes");
    // What was dropped goes.
    let dropped = Directory::new("catalogs-dropped");
    copy(&directory.0.join("c00000001"), &dropped.0);
    let engine = open(PreadStorage::open(&directory.0).expect("opens"));
    assert!(engine.delete_collection("b").expect("drops"));
    engine
        .create_collection("d", config(4, Distance::Cosine))
        .expect("creates");
    engine.close();
    drop(engine);
    assert!(directory.0.join("c00000010").is_dir() && foreign.join("keep").is_file());
    copy(&dropped.0, &directory.0.join("c00000001"));
    assert_eq!(told(&directory.0), (0, String::new()));
    assert!(!directory.0.join("c00000001").exists());
}

#[test]
fn a_directory_of_others_is_not_written_to() {
    let directory = Directory::new("not-ours");
    fs::create_dir_all(&directory.0).expect("a directory");
    let storage: Arc<dyn Storage> = PreadStorage::open(&directory.0).expect("opens");
    let error = check(&storage, &mut |_| {}).expect_err("it isn't ours");
    assert!(
        error.is_not_found() && error.to_string().contains("no data directory"),
        "{error}"
    );
    assert_eq!(fs::read_dir(&directory.0).expect("lists").count(), 0);
}

/// What is salvaged of collection `b` after a damage, restored beside the others: its points, and what is said to be lost.
fn salvaged(directory: &Directory, damage: impl Fn(&Path)) -> (Vec<u64>, Vec<String>) {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let (damaged, out) = (
        Directory::new(&format!("salvaged-{number}")),
        Directory::new(&format!("salvaged-{number}-out")),
    );
    copy(&directory.0, &damaged.0);
    damage(&damaged.0.join("c00000001"));
    let storage: Arc<dyn Storage> = PreadStorage::open(&damaged.0).expect("opens");
    let to: Arc<dyn Storage> = PreadStorage::open(&out.0).expect("opens");
    let found = salvage(&storage, "b", &to, "b.snapshot", 1).expect("salvages");
    let engine = Engine::open(storage, options(64 * MB)).expect("opens");
    let file = SnapshotFile::open(to.as_ref(), "b.snapshot").expect("is there");
    engine.recover_collection("b", &file, None).expect("restores");
    let collection = engine.collection("b").expect("is open again");
    let mut scratch = engine.scratch().expect("scratch");
    let ids = contents(&collection, &mut scratch)
        .into_keys()
        .map(|id| match id {
            PointId::Num(id) => id,
            PointId::Uuid(_) => panic!("numbers alone"),
        });
    let ids = ids.collect();
    engine.close();
    (ids, found.lost)
}

#[test]
fn what_can_be_read_is_salvaged() {
    let directory = written("salvage");
    // 0..20 and 100..130 in one segment, 200..230 in another, 300..330 in the log.
    let all: Vec<u64> = [0..20, 100..130, 200..230, 300..330]
        .into_iter()
        .flatten()
        .collect();
    let without = |gone: std::ops::Range<u64>| -> Vec<u64> {
        all.iter().copied().filter(|id| !gone.contains(id)).collect()
    };
    assert_eq!(salvaged(&directory, |_| {}), (all.clone(), vec![]));
    let damage = |path: &Path| {
        let mut bytes = fs::read(path).expect("reads");
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        fs::write(path, bytes).expect("writes");
    };
    let segments = |dir: &Path| {
        let names = fs::read_dir(dir)
            .expect("lists")
            .map(|entry| entry.expect("an entry").path());
        let mut names: Vec<PathBuf> = names
            .filter(|path| path.extension().is_some_and(|e| e == "pay"))
            .collect();
        names.sort();
        names
    };
    let (ids, lost) = salvaged(&directory, |dir| damage(segments(dir).last().expect("a segment")));
    assert_eq!(ids, without(200..230), "{lost:?}");
    assert!(lost.len() == 1 && lost[0].contains(".pay"), "{lost:?}");
    let (ids, lost) = salvaged(&directory, |dir| {
        fs::remove_file(one(dir, "log-")).expect("removes")
    });
    assert_eq!(ids, without(300..330), "{lost:?}");
    assert!(lost.len() == 1 && lost[0].contains("log-"), "{lost:?}");
    // The one before knows the same segments, and another log.
    let (ids, lost) = salvaged(&directory, |dir| {
        let mut names: Vec<_> = fs::read_dir(dir)
            .expect("lists")
            .map(|e| e.expect("an entry").path())
            .collect();
        names.retain(|path| {
            path.file_stem()
                .is_some_and(|s| s.to_string_lossy().starts_with("MANIFEST"))
                && path.extension().is_none()
        });
        damage_start(&names[0]);
    });
    assert!(!lost.is_empty() && lost[0].contains("MANIFEST"), "{lost:?}");
    assert!(ids.len() >= 50, "{ids:?}");
}

fn damage_start(path: &Path) {
    let mut bytes = fs::read(path).expect("reads");
    bytes[30] ^= 1;
    fs::write(path, bytes).expect("writes");
}
