//! Nobody who reads, and a disk that is full: neither is a panic.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use ramlet::{Engine, EngineOptions};
use ramlet_io::{Backend, open_best};
use ramlet_memory::{BudgetRequest, BudgetTable, Ledger};

use crate::fake_server::FakeServer;
use crate::import::TempDir;

/// Runs the binary with this in the place of standard output.
fn run(args: &[&str], stdout: Stdio) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ramlet"))
        .args(args)
        .env("RAMLET_DATA", "/nonexistent")
        .env_remove("RAMLET_API_KEY")
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|child| child.wait_with_output())
        .expect("the binary runs")
}

/// A pipe whose reader has gone already.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    let file = OpenOptions::new().write(true).open("/dev/full");
    file.expect("/dev/full").into()
}

fn check(args: &[&str]) {
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let output = run(args, unread());
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    assert!(!said(&output).contains("panicked"), "{args:?}: {}", said(&output));

    let output = run(args, full());
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", said(&output));
    let complaints: Vec<_> = said(&output)
        .lines()
        .filter(|line| line.contains("standard output"))
        .map(str::to_string)
        .collect();
    assert_eq!(complaints.len(), 1, "{args:?}: {}", said(&output));
    assert!(!said(&output).contains("panicked"), "{args:?}: {}", said(&output));
}

/// A data directory without collections.
fn make_data(path: &str) {
    std::fs::create_dir(path).expect("a directory");
    let (storage, _) = open_best(Path::new(path), Backend::Pread).expect("a storage");
    let budget = BudgetTable::plan(BudgetRequest::new(64_000_000, 2)).expect("a budget");
    let options = EngineOptions {
        ledger: Ledger::new(budget.ledger_limit()),
        budget,
        seed: 1,
        log_file_bytes: None,
    };
    Engine::open(storage, options).expect("an engine").close();
}

#[test]
fn plans_and_checks() {
    let dir = TempDir::new();
    check(&["plan", "--points", "1000", "--dim", "10"]);
    check(&["plan", "--points", "1000", "--dim", "10", "--json"]);
    let data = dir.path("data");
    make_data(&data);
    check(&["check", &data]);
}

#[test]
fn an_import_that_did_its_work_is_a_success() {
    let dir = TempDir::new();
    let file = dir.path("one.jsonl");
    std::fs::write(&file, "{\"id\": 1, \"vector\": [0, 1]}\n").expect("a file");
    let server = FakeServer::start();
    check(&["import", &file, "--collection", "c", "--url", &server.url]);
    assert_eq!(server.state().points.len(), 2, "once each time");
}

#[test]
fn a_table_of_the_bench() {
    let dir = TempDir::new();
    let place = dir.path("");
    let small = [
        "--rows",
        "1000",
        "--dim",
        "8",
        "--queries",
        "2",
        "--parallel",
        "1",
        "--oversampling",
        "1",
    ];
    let args = [
        &[
            "bench",
            "io",
            "--dir",
            &place,
            "--backends",
            "pread",
            "--disks",
            "local",
        ],
        &small[..],
    ]
    .concat();
    let output = run(&args, unread());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !said.contains("panicked") && output.status.code() != Some(101),
        "{said}"
    );
}
