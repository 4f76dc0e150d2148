//! Documents and the log of queries on them: people's files, or made up.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ramlet_testdata::Texts;
use serde_json::{Map, Value, json};

use super::options::TextArgs;

/// What is searched, and what is asked. Memory: the log, and the tables of what is made up.
pub struct Corpus {
    origin: Origin,
    /// How it is called in tables.
    pub name: String,
    pub documents: u64,
    /// The log, in its order.
    pub log: Vec<String>,
    /// Pairs of words that stand side by side in documents.
    pub phrases: Vec<String>,
}

enum Origin {
    Made(Texts),
    File(std::path::PathBuf),
}

/// Documents in their order, beginning again after the last.
pub struct Documents<'c> {
    corpus: &'c Corpus,
    lines: Option<Box<dyn BufRead + Send>>,
    line: String,
    next: u64,
}

/// Of a file, documents whose words may become queries and phrases: every so many, so many at most.
const SAMPLE_EVERY: u64 = 20;
const SAMPLES_MAX: usize = 20_000;
const PHRASES: usize = 2_000;
const LINE_BYTES_MAX: u64 = 32 << 20;

impl Corpus {
    /// Opens what the command line names; reads a file once, to count it.
    pub fn open(args: &TextArgs) -> Result<Corpus> {
        match &args.docs {
            None => Ok(Corpus::made(args)),
            Some(path) => Corpus::file(args, path),
        }
    }

    fn made(args: &TextArgs) -> Corpus {
        let (documents, log) = (args.made(), args.log as u64);
        let made = Texts::new(args.seed, documents);
        Corpus {
            name: "made up by Zipf's law".into(),
            documents,
            log: (0..log).map(|n| made.query(n, log)).collect(),
            phrases: (0..PHRASES as u64).map(|n| made.phrase(n)).collect(),
            origin: Origin::Made(made),
        }
    }

    fn file(args: &TextArgs, path: &Path) -> Result<Corpus> {
        let mut corpus = Corpus {
            origin: Origin::File(path.to_path_buf()),
            name: file_name(path),
            documents: 0,
            log: Vec::new(),
            phrases: Vec::new(),
        };
        let mut lines = open_lines(path)?;
        let (mut line, mut number) = (String::new(), 0);
        let mut titles = Vec::new();
        let most = args.documents.unwrap_or(u64::MAX);
        while corpus.documents < most && next_line(&mut *lines, &mut line, &mut number, &corpus.name)? {
            if corpus.documents.is_multiple_of(SAMPLE_EVERY) && titles.len() < SAMPLES_MAX {
                let place = || format!("{}: line {number}", corpus.name);
                let document: Map<String, Value> =
                    serde_json::from_str(&line).with_context(|| format!("{} is no JSON object", place()))?;
                let text = document.get(&args.field).and_then(Value::as_str);
                let text = text.with_context(|| format!("{} has no text '{}'", place(), args.field))?;
                let title = document.get("title").and_then(Value::as_str);
                titles.push(title.map_or_else(|| words_of(text, 3), str::to_string));
                corpus.phrases.push(words_of(text, 2));
            }
            corpus.documents += 1;
        }
        ensure!(
            corpus.documents > 0,
            "{}: there is no document in it",
            corpus.name
        );
        corpus.phrases.truncate(PHRASES);
        corpus.log = match &args.queries {
            Some(path) => read_log(path, args.log)?,
            None => titles,
        };
        corpus.log.retain(|query| !query.trim().is_empty());
        ensure!(!corpus.log.is_empty(), "there is no query to ask");
        corpus.log.truncate(args.log);
        Ok(corpus)
    }

    pub fn documents(&self) -> Result<Documents<'_>> {
        Ok(Documents {
            corpus: self,
            lines: None,
            line: String::new(),
            next: 0,
        })
    }
}

impl Documents<'_> {
    /// Appends the next document as a JSON object.
    pub fn write(&mut self, out: &mut Vec<u8>) -> Result<()> {
        match &self.corpus.origin {
            Origin::Made(made) => {
                let document = made.document(self.next);
                self.next += 1;
                let text = json!({ "title": document.title, "body": document.body, "n": self.next - 1 });
                serde_json::to_writer(out, &text)?;
            }
            Origin::File(path) => {
                let name = &self.corpus.name;
                if self.lines.is_none() || self.next == self.corpus.documents {
                    (self.lines, self.next) = (Some(open_lines(path)?), 0);
                }
                let lines = self.lines.as_mut().context("opened above")?;
                let mut number = self.next;
                if !next_line(&mut **lines, &mut self.line, &mut number, name)? {
                    bail!("{name} has become shorter");
                }
                self.next += 1;
                out.extend_from_slice(as_payload(&self.line, name, number)?.as_bytes());
            }
        }
        Ok(())
    }
}

/// The document as it is stored: its `payload` if it has one, itself if not. Its id is left to the number of its row.
fn as_payload(line: &str, name: &str, number: u64) -> Result<String> {
    let told = || format!("{name}: line {number} is no JSON object");
    let mut document: Map<String, Value> = serde_json::from_str(line).with_context(told)?;
    match document.remove("payload") {
        Some(Value::Object(payload)) => document = payload,
        Some(other) => drop(document.insert("payload".into(), other)),
        None => {}
    }
    document.remove("vector");
    Ok(Value::Object(document).to_string())
}

/// Reads the next line that isn't blank; false at the end.
fn next_line(
    lines: &mut (dyn BufRead + Send),
    line: &mut String,
    number: &mut u64,
    name: &str,
) -> Result<bool> {
    loop {
        line.clear();
        *number += 1;
        let read = std::io::Read::take(&mut *lines, LINE_BYTES_MAX).read_line(line);
        let read = read.with_context(|| format!("{name}: reading line {number}"))?;
        if read == 0 {
            return Ok(false);
        }
        ensure!(
            (read as u64) < LINE_BYTES_MAX,
            "{name}: line {number} is longer than {LINE_BYTES_MAX} bytes"
        );
        if !line.trim().is_empty() {
            return Ok(true);
        }
    }
}

fn read_log(path: &Path, most: usize) -> Result<Vec<String>> {
    let (mut lines, name) = (open_lines(path)?, file_name(path));
    let (mut line, mut number, mut log) = (String::new(), 0, Vec::new());
    while log.len() < most && next_line(&mut *lines, &mut line, &mut number, &name)? {
        let last = line.trim_end().rsplit('\t').next().unwrap_or_default();
        log.push(last.to_string());
    }
    Ok(log)
}

fn open_lines(path: &Path) -> Result<Box<dyn BufRead + Send>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    Ok(match path.extension().is_some_and(|ending| ending == "gz") {
        true => Box::new(BufReader::new(flate2::read::MultiGzDecoder::new(file))),
        false => Box::new(BufReader::new(file)),
    })
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Words side by side from the middle of a text; fewer when it is shorter.
fn words_of(text: &str, count: usize) -> String {
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let from = (words.len() / 2).min(words.len().saturating_sub(count));
    words[from..(from + count).min(words.len())].join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_side_by_side() {
        for (text, expected) in [
            ("one two, three four five", "three four"),
            ("one", "one"),
            ("", ""),
            ("a-b", "a b"),
        ] {
            assert_eq!(words_of(text, 2), expected, "{text}");
        }
    }

    #[test]
    fn documents_as_they_are_stored() {
        let check = |line: &str, expected: Value| {
            let stored = as_payload(line, "f", 1).expect("an object");
            assert_eq!(serde_json::from_str::<Value>(&stored).expect("JSON"), expected);
        };
        check(r#"{"id":"x","body":"t"}"#, json!({"id":"x","body":"t"}));
        check(
            r#"{"id":1,"vector":[1],"payload":{"body":"t"}}"#,
            json!({"body":"t"}),
        );
        check(r#"{"payload":"t","body":"b"}"#, json!({"payload":"t","body":"b"}));
        let error = as_payload("[1]", "f", 7).expect_err("no object");
        assert_eq!(error.to_string(), "f: line 7 is no JSON object");
    }
}
