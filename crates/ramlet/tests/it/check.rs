//! `check` says nothing of a sound directory and names the file of any damage.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ramlet::*;
use ramlet_io::{PreadStorage, SimStorage, Storage};

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
    assert_eq!((report.collections, report.points), (1, 196));
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
    let report = check(&storage, &mut |_| {}).expect("checks");
    match try_open(storage) {
        Ok(engine) => {
            engine.close();
            (report.problems, String::new())
        }
        Err(error) => (report.problems, error.to_string()),
    }
}

#[test]
fn a_log_that_is_lost_is_not_taken_for_an_empty_one() {
    let directory = logged("logs");
    assert_eq!(told(&directory.0), (0, String::new()));
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 4] = [
        ("there is no log file", |log| {
            fs::remove_file(log).expect("removes")
        }),
        ("its header is lost", |log| fs::write(log, []).expect("writes")),
        ("its header is lost", |log| {
            let bytes = fs::metadata(log).expect("is there").len();
            fs::write(log, vec![0; bytes as usize]).expect("writes");
        }),
        // Amid the groups.
        ("it was cut", |log| {
            let file = fs::OpenOptions::new().write(true).open(log).expect("opens");
            file.set_len(4096 + 700).expect("cuts");
        }),
    ];
    for (i, (words, damage)) in damages.into_iter().enumerate() {
        let damaged = Directory::new(&format!("logs-{i}"));
        copy(&directory.0, &damaged.0);
        damage(&one(&damaged.0.join("c00000001"), "log-"));
        let (problems, error) = told(&damaged.0);
        assert!(
            problems > 0 && error.contains(words),
            "{words}: {problems}, {error}"
        );
    }
}

#[test]
fn a_collection_that_the_catalog_does_not_list_is_kept() {
    let directory = logged("catalogs");
    let older = Directory::new("catalogs-older");
    copy(&directory.0, &older.0);
    fs::remove_file(one(&older.0, "CATALOG-")).expect("removes");
    let (problems, error) = told(&older.0);
    assert!(
        problems > 0 && error.contains("a newer catalog is missing"),
        "{problems}, {error}"
    );
    assert!(older.0.join("c00000001").is_dir(), "nothing was removed");

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
