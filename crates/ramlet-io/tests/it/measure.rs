//! The tools of measuring. No figure is tested: only what is done, and what is left behind.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::backends::skipped;
use ramlet_io::measure::{
    Kind, Method, Sqlite, TestFile, Transfer, Transferred, dies_with_parent, process_switches,
    thread_switches,
};
use ramlet_io::{IoErrorKind, Result};

/// An empty directory, removed on drop.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("ramlet-measure-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory");
        Dir(path)
    }

    fn names(&self) -> usize {
        fs::read_dir(&self.0).expect("a directory").count()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const BYTES: u64 = 4 << 20;

fn file(directory: &Path) -> TestFile {
    TestFile::create(directory, BYTES - 5, 1, &mut |_| {}).expect("a file")
}

fn transfer(method: Method, kind: Kind, depth: usize) -> Transfer {
    Transfer {
        method,
        kind,
        random: false,
        block_bytes: 65_536,
        depth,
        time: Duration::from_secs(3600),
        bytes_max: 2 * BYTES,
        seed: 2,
    }
}

/// By a clock that goes on by a microsecond when it is asked. None where the kernel refuses io_uring.
fn run(file: &TestFile, transfer: &Transfer) -> Option<Result<Transferred>> {
    let ticks = Cell::new(0);
    let now = || {
        ticks.set(ticks.get() + 1);
        Duration::from_micros(ticks.get())
    };
    match file.transfer(transfer, &now) {
        Err(error) if error.kind == IoErrorKind::Unsupported => None,
        other => Some(other),
    }
}

const METHODS: [Method; 3] = [Method::Sync, Method::Aio, Method::Uring];

#[test]
fn a_file_of_noise_has_no_name() {
    let dir = Dir::new("noise");
    let mut told = 0;
    let file = TestFile::create(&dir.0, BYTES - 5, 1, &mut |done| told = done).expect("a file");
    assert_eq!((file.bytes(), told, dir.names()), (BYTES, BYTES, 0));
    let bytes = fs::read(file.path()).expect("it opens by its path");
    assert_eq!(bytes.len() as u64, BYTES);
    let mut counts = [0u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let even = BYTES as f64 / 256.0;
    assert!(
        counts
            .iter()
            .all(|count| (f64::from(*count) / even - 1.0).abs() < 0.1)
    );
    assert!(TestFile::create(&dir.0.join("none"), 1, 1, &mut |_| {}).is_err());
}

#[test]
fn every_method_moves_what_it_is_told() {
    let dir = Dir::new("methods");
    let file = file(&dir.0);
    for method in METHODS {
        for kind in [Kind::Read, Kind::Write, Kind::WriteSync, Kind::WriteDataSync] {
            for depth in [1, 7, 256] {
                let transfer = transfer(method, kind, depth);
                let Some(done) = run(&file, &transfer) else {
                    continue;
                };
                let done = done.unwrap_or_else(|error| panic!("{method:?} {kind:?} {depth}: {error}"));
                assert_eq!(
                    (done.ops, done.bytes),
                    (128, 2 * BYTES),
                    "{method:?} {kind:?} {depth}"
                );
                assert!(done.latency_us_p50 <= done.latency_us_p99 && done.wall > Duration::ZERO);
            }
        }
    }
}

#[test]
fn writes_reach_their_blocks_and_reads_change_none() {
    let dir = Dir::new("blocks");
    for method in METHODS {
        let file = file(&dir.0);
        let before = fs::read(file.path()).expect("bytes");
        let Some(done) = run(&file, &transfer(method, Kind::Read, 3)) else {
            continue;
        };
        done.expect("reads");
        assert!(fs::read(file.path()).expect("bytes") == before);
        // Half of the blocks, from the start.
        let half = Transfer {
            bytes_max: BYTES / 2,
            ..transfer(method, Kind::Write, 1)
        };
        run(&file, &half).expect("as before").expect("writes");
        let after = fs::read(file.path()).expect("bytes");
        let (same, other): (Vec<_>, Vec<_>) = (0..64usize).partition(|block| {
            let range = block * 65_536..(block + 1) * 65_536;
            before[range.clone()] == after[range]
        });
        assert_eq!(
            (other, same),
            ((0..32).collect(), (32..64).collect()),
            "{method:?}"
        );
    }
}

#[test]
fn random_writes_go_everywhere_and_time_ends_them() {
    let dir = Dir::new("random");
    let file = file(&dir.0);
    let before = fs::read(file.path()).expect("bytes");
    let random = Transfer {
        random: true,
        block_bytes: 4096,
        time: Duration::from_micros(20_000),
        bytes_max: u64::MAX,
        ..transfer(Method::Sync, Kind::Write, 1)
    };
    let done = run(&file, &random).expect("no io_uring in it").expect("writes");
    // The clock is asked twice for each write, and a few times more.
    assert!((5_000..=20_000).contains(&done.ops), "{done:?}");
    let after = fs::read(file.path()).expect("bytes");
    let changed = before
        .chunks(4096)
        .zip(after.chunks(4096))
        .filter(|(a, b)| a != b)
        .count();
    assert!(changed > 1000, "{changed} of 1024");
}

#[test]
fn a_transfer_that_makes_no_sense_is_refused() {
    let dir = Dir::new("refused");
    let file = file(&dir.0);
    let sound = transfer(Method::Sync, Kind::Read, 1);
    for bad in [
        Transfer {
            block_bytes: 0,
            ..sound
        },
        Transfer {
            block_bytes: 1000,
            ..sound
        },
        Transfer {
            block_bytes: 8 << 20,
            ..sound
        },
        Transfer { depth: 0, ..sound },
        Transfer { depth: 257, ..sound },
    ] {
        assert!(file.transfer(&bad, &|| Duration::ZERO).is_err(), "{bad:?}");
    }
}

#[test]
fn two_take_turns() {
    // On a thread of its own: it stays on one processor.
    let switched = std::thread::spawn(|| {
        let start = Instant::now();
        let now = || start.elapsed();
        (thread_switches(200, &now), process_switches(200, &now))
    });
    let (threads, processes) = switched.join().expect("no panic");
    assert!(threads.expect("threads") > Duration::ZERO);
    assert!(processes.expect("processes") > Duration::ZERO);
}

#[test]
fn a_child_ends_with_the_thread_that_started_it() {
    let mut child = std::thread::spawn(|| {
        let mut command = Command::new("sleep");
        dies_with_parent(command.arg("600")).spawn().expect("sleep runs")
    })
    .join()
    .expect("no panic");
    let status = child.wait().expect("a status");
    assert!(!status.success());
}

#[test]
fn sqlite_where_it_is_installed() {
    let sqlite = match Sqlite::load() {
        Ok(sqlite) => sqlite,
        Err(error) => {
            assert_eq!(error.kind, IoErrorKind::NotFound);
            return skipped("SQLite isn't installed");
        }
    };
    assert!(sqlite.version().starts_with("3."), "{}", sqlite.version());
    let dir = Dir::new("sqlite");
    let path = dir.0.join("bench.db");
    let db = sqlite.open(&path).expect("a database");
    db.run("CREATE TABLE t (id INTEGER PRIMARY KEY, data BLOB, CHECK (length(data) < 100))")
        .expect("a table");
    let mut insert = db.insert("INSERT INTO t (data) VALUES (?)").expect("a statement");
    for len in 0..100 {
        insert.run(&vec![7; len]).expect("a row");
    }
    // A constraint that is broken: the message is SQLite's, and the statement goes on after it.
    let refused = insert.run(&[0; 100]).expect_err("too long");
    assert!(refused.detail.contains("CHECK"), "{refused}");
    insert.run(b"one more").expect("a row");
    drop(insert);
    let broken = "CREATE TABLE wrong AS SELECT 1 / (SELECT count(*) = 101 AND sum(length(data)) = 4958 FROM t) AS ok; \
                  CREATE UNIQUE INDEX one ON t (length(data)) WHERE id < 0";
    db.run(broken).expect("statements");
    let refused = db.run("SELECT nothing FROM wrong").expect_err("no such column");
    assert!(refused.detail.contains("nothing"), "{refused}");
    // 1 / 1 is 1 and 1 / 0 is NULL, which this refuses.
    db.run("CREATE TABLE sound (ok NOT NULL); INSERT INTO sound SELECT ok FROM wrong")
        .expect("all rows are there");
    drop(db);
    assert!(sqlite.open(&dir.0).is_err(), "a directory is no database");
}
