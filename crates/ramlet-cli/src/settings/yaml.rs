//! A YAML file as a list of keys with their texts and lines. What stands in it stays text: whoever asks for a setting reads it as they read
//! the same from a flag.

use std::path::Path;

use anyhow::{Context, Result, bail};
use saphyr_parser::{Event, Parser, ScalarStyle};

/// A file is read as a whole: a larger one is none of settings.
const BYTES_MAX: u64 = 1 << 20;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its keys from the outside in, with dots between.
    pub key: String,
    /// `None`: null.
    pub value: Option<String>,
    /// From 1.
    pub line: usize,
}

/// Reads the settings of a file.
pub fn read(path: &Path) -> Result<Vec<Entry>> {
    let told = || format!("the configuration {}", path.display());
    let bytes = std::fs::metadata(path).with_context(told)?.len();
    if bytes > BYTES_MAX {
        bail!("{}: {bytes} bytes; the limit is {BYTES_MAX}", told());
    }
    let text = std::fs::read_to_string(path).with_context(told)?;
    parse(&text).with_context(told)
}

/// An open mapping or list.
struct Level {
    key: String,
    is_list: bool,
    keys: Vec<String>,
}

/// The entries of a text, in its order. A list is an entry for each element, all with the list's key.
pub fn parse(text: &str) -> Result<Vec<Entry>> {
    let (mut entries, mut levels) = (Vec::new(), Vec::<Level>::new());
    // The key whose value comes next.
    let mut pending: Option<String> = None;
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| {
            let at = e.marker();
            anyhow::anyhow!("line {}, column {}: {}", at.line(), at.col() + 1, e.info())
        })?;
        let line = span.start.line();
        match event {
            Event::DocumentStart(_) if documents == 1 => {
                bail!("line {line}: a second document (---); a settings file has only one")
            }
            Event::DocumentStart(_) => documents += 1,
            Event::Alias(_) => bail!("line {line}: aliases (*name) aren't supported; write the value"),
            Event::Scalar(value, style, ..) => match (levels.last_mut(), pending.take()) {
                // An empty document is one empty scalar.
                (None, _) if value.trim().is_empty() || value == "~" => {}
                (None, _) => bail!("line {line}: settings are lines like `port: 6333`, not `{value}`"),
                (Some(level), None) if !level.is_list => {
                    let key = match level.key.as_str() {
                        "" => value.to_string(),
                        outer => format!("{outer}.{value}"),
                    };
                    if level.keys.contains(&key) {
                        bail!("line {line}: `{key}` is given twice");
                    }
                    level.keys.push(key.clone());
                    pending = Some(key);
                }
                (Some(level), key) => {
                    let plain = style == ScalarStyle::Plain;
                    let is_null = plain && matches!(&*value, "" | "~" | "null" | "Null" | "NULL");
                    entries.push(Entry {
                        key: key.unwrap_or_else(|| level.key.clone()),
                        value: (!is_null).then(|| value.into_owned()),
                        line,
                    });
                }
            },
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                let outer = levels.last().map(|level| level.key.clone());
                if levels.last().is_some_and(|level| !level.is_list) && pending.is_none() {
                    bail!("line {line}: a key is one word");
                }
                let is_list = matches!(event, Event::SequenceStart(..));
                if levels.is_empty() && is_list {
                    bail!("line {line}: settings are lines like `port: 6333`, not a list");
                }
                levels.push(Level {
                    key: pending.take().or(outer).unwrap_or_default(),
                    is_list,
                    keys: Vec::new(),
                });
            }
            Event::MappingEnd | Event::SequenceEnd => {
                levels.pop();
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, Option<&str>, usize)]) {
        let entries = parse(text).unwrap_or_else(|e| panic!("{text}: {e:#}"));
        let seen: Vec<_> = entries
            .iter()
            .map(|e| (e.key.as_str(), e.value.as_deref(), e.line))
            .collect();
        assert_eq!(seen, expected, "{text}");
    }

    #[test]
    fn values_stay_text_under_their_keys() {
        check("", &[]);
        check("# nothing\n", &[]);
        check("---\n", &[]);
        check("memory: 135MB\n", &[("memory", Some("135MB"), 1)]);
        check(
            "# a\nservice:\n  http_port: 6333\n  api_key: '007'\n  grpc_port: null\n  host:\nstorage: {storage_path: \"./x: y\"}\n",
            &[
                ("service.http_port", Some("6333"), 3),
                ("service.api_key", Some("007"), 4),
                ("service.grpc_port", None, 5),
                ("service.host", None, 6),
                ("storage.storage_path", Some("./x: y"), 7),
            ],
        );
        check("{\"port\": 1}", &[("port", Some("1"), 1)]);
        check(
            "a:\n  - 1\n  - {b: 2}\nc: 'null'\n",
            &[("a", Some("1"), 2), ("a.b", Some("2"), 3), ("c", Some("null"), 4)],
        );
        check("a: {}\nb: []\n", &[]);
    }

    #[test]
    fn what_cannot_be_read_names_its_line() {
        for (text, expected) in [
            ("a: 1\na: 2\n", "line 2: `a` is given twice"),
            ("port 6333\n", "line 1: settings are lines like"),
            ("- a\n", "line 1: settings are lines like"),
            ("a: &x 1\nb: *x\n", "line 2: aliases"),
            ("a: 1\n---\nb: 2\n", "line 2: a second document"),
            ("a: [1\n", "line 2"),
            ("a:\n\tb: 1\n", "line 2"),
            ("? [a]\n: 1\n", "line 1: a key is one word"),
        ] {
            let error = format!("{:#}", parse(text).expect_err(text));
            assert!(error.contains(expected), "{text}: {error}");
        }
        let deep = "[".repeat(100_000);
        let _ = parse(&format!("a: {deep}"));
    }
}
