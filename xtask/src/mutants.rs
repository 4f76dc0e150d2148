//! `cargo xtask mutants [NAME..]`: each protocol that is broken on purpose must make a test fail, and the real one none.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Tests of the engine that are tried, the likeliest first: the rest isn't run for a mutant that is caught.
const TESTS: [&str; 8] = [
    "crash::",
    "adoption::",
    "check::",
    "edges::",
    "closed::",
    "panics::",
    "snapshots::",
    "reclaim::",
];
/// A mutant that makes a test hang is caught too.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Runs all mutants, or those that are named.
pub fn run(root: &Path, named: &[String]) -> ExitCode {
    let all = names(&root.join("crates/ramlet/src"));
    if let Some(unknown) = named.iter().find(|name| !all.contains(*name)) {
        eprintln!(
            "there is no mutant `{unknown}`; there are: {}",
            Vec::from_iter(&all)
                .iter()
                .map(|n| n.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        );
        return ExitCode::FAILURE;
    }
    if let Some(test) = TESTS.iter().find(|test| !passes(root, "", test)) {
        println!("the real code fails {test}");
        return ExitCode::FAILURE;
    }
    println!("the real code passes");
    let chosen: Vec<_> = all
        .iter()
        .filter(|name| named.is_empty() || named.contains(name))
        .collect();
    let mut survivors = 0;
    for name in &chosen {
        let start = Instant::now();
        let caught = TESTS.iter().find(|test| !passes(root, name, test));
        survivors += usize::from(caught.is_none());
        let told = caught.map_or("SURVIVES".to_owned(), |test| {
            format!("caught by {}", test.trim_end_matches(':'))
        });
        println!("{name:28} {told:22} {:4} s", start.elapsed().as_secs());
    }
    println!("{} mutants, {survivors} survive", chosen.len());
    match survivors {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn passes(root: &Path, mutant: &str, tests: &str) -> bool {
    let command = [
        "test",
        "-q",
        "-p",
        "ramlet",
        "--features",
        "mutants",
        "--test",
        "it",
        "--",
        tests,
    ];
    let started = Command::new(env!("CARGO"))
        .args(command)
        .current_dir(root)
        .env("RAMLET_MUTANT", mutant)
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => panic!("cargo can't be started: {error}"),
    };
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            // The first one waits for the build.
            Ok(None) if mutant.is_empty() || start.elapsed() < TIMEOUT => {
                std::thread::sleep(Duration::from_millis(50))
            }
            _ => {
                // Cargo and the tests.
                let group = format!("-{}", child.id());
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// The names that the engine's sources ask for.
fn names(directory: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            names.extend(self::names(&path));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let asked = text.split("mutants::is(\"").skip(1);
        names.extend(asked.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    names
}
