//! Documents and queries as files, for programs that aren't servers.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, FromArgMatches};
use serde_json::json;

use super::ask::Kind;
use super::corpus::Corpus;
use super::options::TextArgs;

/// Queries of a kind that are written.
const QUERIES: usize = 2_000;

/// Writes `PREFIX.docs.jsonl`, a document a line, and `PREFIX.queries.jsonl`, a query a line with its kind (`term`, `any`, `all`, `phrase`): those
/// that `ramlet bench text` with these arguments works with. Returns the number of documents.
pub fn write_corpus(prefix: &Path, arguments: &[String]) -> Result<u64> {
    let command = TextArgs::augment_args(clap::Command::new("texts").no_binary_name(true));
    let matches = command.try_get_matches_from(arguments)?;
    let args = TextArgs::from_arg_matches(&matches)?.settled();
    let corpus = Corpus::open(&args)?;
    let mut out = create(prefix, "docs")?;
    let (mut documents, mut line) = (corpus.documents()?, Vec::new());
    for _ in 0..corpus.documents {
        line.clear();
        documents.write(&mut line)?;
        line.push(b'\n');
        out.write_all(&line)?;
    }
    out.flush()?;
    let mut out = create(prefix, "queries")?;
    for kind in Kind::ALL {
        let texts = match kind {
            Kind::Phrase => &corpus.phrases,
            _ => &corpus.log,
        };
        for text in texts.iter().take(QUERIES) {
            writeln!(out, "{}", json!({ "kind": kind, "text": kind.words(text) }))?;
        }
    }
    out.flush()?;
    Ok(corpus.documents)
}

fn create(prefix: &Path, what: &str) -> Result<BufWriter<File>> {
    let mut name = prefix.as_os_str().to_owned();
    name.push(format!(".{what}.jsonl"));
    let path = PathBuf::from(name);
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    Ok(BufWriter::new(file))
}
