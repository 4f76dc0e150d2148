//! Every target over its corpus and over mutations of it: no panic, and no more memory than it may hold.
//!
//! With `RAMLET_FUZZ_SECONDS=N` each goes on for so long, with other mutations in every run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use ramlet_fuzz_targets::{Random, TARGETS, Target, find, mutate};

use crate::counting::peak_of;

/// Mutations of each file of the corpus, unless `RAMLET_FUZZ_ROUNDS` says otherwise. Of one whose every run opens an engine there are fewer.
const ROUNDS: usize = 400;
const SLOW: [(&str, usize); 3] = [("snapshot", 15), ("directory", 10), ("query", 60)];
/// Of the numbers that mutations are made of.
const SEED: u64 = 57;

/// Memory is counted for the process: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

pub fn place_of(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target)
}

/// Names and bytes.
pub fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(place_of(target)).unwrap_or_else(|e| panic!("the corpus of {target}: {e}"));
    let mut files: Vec<_> = entries
        .map(|entry| {
            let entry = entry.expect("lists");
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).expect("reads"))
        })
        .collect();
    files.sort();
    files
}

fn check(target: &Target, bytes: &[u8], what: &str) {
    let run = std::panic::AssertUnwindSafe(|| target.run(bytes));
    let mut outcome = Ok(());
    let held = peak_of(|| outcome = std::panic::catch_unwind(run));
    let most = target.memory_bytes_max + 8 * bytes.len();
    if outcome.is_err() || held > most {
        let place = std::env::temp_dir().join(format!("fuzz-{}", target.name));
        fs::write(&place, bytes).expect("writes");
        panic!(
            "{} on {what}: it panicked, or held {held} bytes of at most {most}; the input is in {}",
            target.name,
            place.display()
        );
    }
}

fn over_corpus(name: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let target = find(name);
    let files = corpus(name);
    assert!(!files.is_empty(), "{name} has no corpus");
    // What is made once for all runs isn't of one.
    target.run(&files[0].1);
    let slow = SLOW.iter().find(|(slow, _)| *slow == name);
    let asked = std::env::var("RAMLET_FUZZ_ROUNDS").ok();
    let asked = asked.map(|rounds| rounds.parse().expect("RAMLET_FUZZ_ROUNDS is a number"));
    let rounds = asked.unwrap_or(slow.map_or(ROUNDS, |(_, rounds)| *rounds));
    let mut random = Random::new(SEED);
    for (file, bytes) in &files {
        check(target, bytes, file);
        for round in 0..rounds {
            let mut mutated = bytes.clone();
            mutate(&mut mutated, &mut random);
            check(target, &mutated, &format!("mutation {round} of {file}"));
        }
    }
    check(target, b"", "nothing");
    if let Ok(seconds) = std::env::var("RAMLET_FUZZ_SECONDS") {
        let seconds = seconds.parse().expect("RAMLET_FUZZ_SECONDS is a number");
        go_on(target, &files, Duration::from_secs(seconds));
    }
}

/// A fault writes its input beside the seed, so any seed will do.
fn go_on(target: &Target, files: &[(String, Vec<u8>)], time: Duration) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = now.expect("after 1970").as_nanos() as u64;
    let (mut random, start, mut runs) = (Random::new(seed), Instant::now(), 0u64);
    while start.elapsed() < time {
        let (file, bytes) = &files[random.below(files.len())];
        let mut mutated = bytes.clone();
        (0..1 + random.below(3)).for_each(|_| mutate(&mut mutated, &mut random));
        check(
            target,
            &mutated,
            &format!("run {runs} of seed {seed}, from {file}"),
        );
        runs += 1;
    }
    println!(
        "{}: {runs} more runs in {} s, seed {seed}",
        target.name,
        time.as_secs()
    );
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            over_corpus(stringify!($name));
        })*

        #[test]
        fn every_target_has_a_test_and_a_binary() {
            let tested = [$(stringify!($name)),*];
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, tested);
            let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
            let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("reads");
            for name in names {
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} in the manifest");
                let source = fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).expect("reads");
                assert!(source.contains(&format!("find(\"{name}\")")), "{name} in its binary");
            }
            let directories = fs::read_dir(fuzz.join("corpus")).expect("lists").count();
            assert_eq!(directories, tested.len(), "directories of the corpus");
        }
    };
}

tests! {
    rows records sorted bloom bitmap manifest catalog log snapshot directory text filter payload vectors hdf5 npz jsonl json csv query update body grpc
}
