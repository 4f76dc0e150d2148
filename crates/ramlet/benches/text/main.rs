//! Texts in process, as a program that embeds the engine asks for them: the files that `ramlet-bench texts` writes, loaded and searched. One JSON object a line.
//!
//! ```text
//! cargo bench -p ramlet --bench text -- index PREFIX DIR --memory 2GB [--field body]
//! cargo bench -p ramlet --bench text -- ask   PREFIX DIR --memory 2GB --kinds term,any,all,phrase --clients 1,2 --seconds 2 --limit 20 [--ids-only]
//! ```
//!
//! `tests/rigs/texts.py` runs this and bare tantivy over the same files in turns.

#[allow(dead_code, reason = "what is about vectors is the other bench's")]
#[path = "../million/open.rs"]
mod open;

mod ask;
mod index;

use std::path::Path;
use std::process::ExitCode;

use ramlet_bench::args::Args;

/// What a step of a measurement returns.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const FLAGS: [&str; 2] = ["ids-only", "verbose"];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("text: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome {
    let args = Args::parse(std::env::args().skip(1), &FLAGS)?;
    let directory = args.word(2).map(Path::new);
    match (args.word(0), args.word(1), directory) {
        (Some("index"), Some(prefix), Some(directory)) => index::run(prefix, directory, &args),
        (Some("ask"), Some(prefix), Some(directory)) => ask::run(prefix, directory, &args),
        // `cargo test --all-targets` and a bare `cargo bench` run this too: then small, to see that it works.
        (None, ..) => small(),
        _ => {
            Err("index or ask, then the prefix of the files and a directory; see benches/text/main.rs".into())
        }
    }
}

/// Everything once on a few documents.
fn small() -> Outcome {
    let directory = std::env::temp_dir().join(format!("ramlet-text-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let outcome = small_in(&directory);
    let _ = std::fs::remove_dir_all(&directory);
    outcome
}

fn small_in(directory: &Path) -> Outcome {
    let prefix = directory.join("texts");
    ramlet_bench::text::write_made(&prefix, 42, 2_000, 40)?;
    let words = "--memory 64MB --threads 2 --seconds 0.05";
    let args = Args::parse(words.split(' ').map(String::from), &FLAGS)?;
    let prefix = prefix.to_string_lossy();
    index::run(&prefix, &directory.join("data"), &args)?;
    ask::run(&prefix, &directory.join("data"), &args)
}
