//! The engine inside a budget, as a program that embeds it meets it: loading, searching, replacing. One JSON object a line.
//!
//! ```text
//! cargo bench -p ramlet --bench million -- load   SET DIR --memory 135MB [--stored] [--payload] [--datatype float32]
//! cargo bench -p ramlet --bench million -- search SET DIR --memory 135MB --threads 4 --ef 64,128,256 --recall 0.95
//! cargo bench -p ramlet --bench million -- update SET DIR --memory 135MB --replace 0.5 --stale mirrored --searchers 1
//! ```
//!
//! `SET` is the prefix of a set's files (`ramlet-bench make`). The limit of the process is the caller's business: `tests/rigs/million.py` runs
//! this in a memory cgroup of the budget's size, side by side with a peer. Options: `docs/measuring.md`.

mod drive;
mod load;
mod open;
mod search;
mod update;

use std::path::Path;
use std::process::ExitCode;

use ramlet_testdata::args::Args;

/// What a step of a measurement returns.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const FLAGS: [&str; 5] = ["stored", "payload", "exact", "quick", "verbose"];

fn main() -> ExitCode {
    // As the server does: no search in a small group waits for megabytes around a page of code.
    let _ = ramlet_io::read_code_in_portions();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("million: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome {
    let args = Args::parse(std::env::args().skip(1), &FLAGS)?;
    let set = || open::set(&args);
    let directory = args.word(2).map(Path::new);
    match (args.word(0), directory) {
        (Some("load"), Some(directory)) => load::run(&set()?, directory, &args),
        (Some("search"), Some(directory)) => search::run(&set()?, directory, &args),
        (Some("update"), Some(directory)) => update::run(&set()?, directory, &args),
        // `cargo test --all-targets` and a bare `cargo bench` run this too: then small, to see that it works.
        (None, _) => small(),
        _ => Err(
            "load, search or update, then a set's prefix and a directory; see benches/million/main.rs".into(),
        ),
    }
}

/// Everything once on a tiny set.
fn small() -> Outcome {
    let directory = std::env::temp_dir().join(format!("ramlet-million-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let outcome = small_in(&directory);
    let _ = std::fs::remove_dir_all(&directory);
    outcome
}

fn small_in(directory: &Path) -> Outcome {
    let shape = ramlet_testdata::Shape {
        dims: 32,
        seed: 1,
        difficulty: ramlet_testdata::Difficulty::Easy,
        clusters: 100,
    };
    let options = ramlet_testdata::WriteOptions {
        rows: 3_000,
        queries: 50,
        element: ramlet_testdata::Element::F32,
        truth_width: 10,
        threads: 1,
        with_bin: false,
    };
    let set = ramlet_testdata::write_set(&directory.join("set"), shape, options, &mut |_| ())?;
    let words =
        "--memory 64MB --threads 2 --seconds 0.05 --warm 0.01 --ef 128 --payload --stored --searchers 1";
    let args = Args::parse(words.split(' ').map(String::from), &FLAGS)?;
    load::run(&set, &directory.join("data"), &args)?;
    search::run(&set, &directory.join("data"), &args)?;
    update::run(&set, &directory.join("data-2"), &args)
}
