//! Texts in process, as a program that embeds the engine asks for them: the files that `ramlet-bench texts` writes, loaded and searched. One JSON object a line.
//!
//! ```text
//! cargo bench -p ramlet --bench text -- index PREFIX DIR --memory 2GB [--field body]
//! cargo bench -p ramlet --bench text -- ask   PREFIX DIR --memory 2GB --kinds term,any,all,phrase --clients 1,2 --seconds 2 --limit 20 [--ids-only]
//! cargo bench -p ramlet --bench text -- tokens [--seconds 1]      # MB a second of each tokenizer, by script
//! ```
//!
//! `tests/rigs/texts.py` runs this and bare tantivy over the same files in turns.

#[allow(dead_code, reason = "what is about vectors is the other bench's")]
#[path = "../million/open.rs"]
mod open;

mod ask;
mod index;
mod tokens;

use std::path::Path;
use std::process::ExitCode;

use ramlet_testdata::Texts;
use ramlet_testdata::args::Args;
use serde_json::{Value, json};

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
        (Some("tokens"), ..) => tokens::run(&args),
        // `cargo test --all-targets` and a bare `cargo bench` run this too: then small, to see that it works.
        (None, ..) => small(),
        _ => Err(
            "tokens; or index or ask, then the prefix of the files and a directory; see benches/text/main.rs"
                .into(),
        ),
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
    write_files(&prefix)?;
    let words = "--memory 64MB --threads 2 --seconds 0.05";
    let args = Args::parse(words.split(' ').map(String::from), &FLAGS)?;
    let prefix = prefix.to_string_lossy();
    index::run(&prefix, &directory.join("data"), &args)?;
    ask::run(&prefix, &directory.join("data"), &args)?;
    let words = "--seconds 0";
    tokens::run(&Args::parse(words.split(' ').map(String::from), &FLAGS)?)
}

/// The files that `ramlet-bench texts` writes, of few documents.
fn write_files(prefix: &Path) -> Outcome {
    const DOCUMENTS: u64 = 2_000;
    const QUERIES: u64 = 40;
    let texts = Texts::new(42, DOCUMENTS);
    let documents = (0..DOCUMENTS).map(|n| {
        let document = texts.document(n);
        json!({ "title": document.title, "body": document.body, "n": n })
    });
    let queries = (0..QUERIES).flat_map(|n| {
        let (query, phrase) = (texts.query(n, QUERIES), texts.phrase(n));
        let longest = query.split(' ').max_by_key(|word| word.len()).unwrap_or(&query);
        [
            ("term", longest),
            ("any", &query),
            ("all", &query),
            ("phrase", &phrase),
        ]
        .map(|(kind, text)| json!({ "kind": kind, "text": text }))
    });
    write_lines(&prefix.with_extension("docs.jsonl"), documents)?;
    write_lines(&prefix.with_extension("queries.jsonl"), queries)
}

fn write_lines(path: &Path, lines: impl Iterator<Item = Value>) -> Outcome {
    let lines: Vec<String> = lines.map(|line| format!("{line}\n")).collect();
    Ok(std::fs::write(path, lines.concat())?)
}
