//! Documents of a file, one in memory at a time: each is the text of a JSON object.

use anyhow::{Error, Result, anyhow};

/// Longest document read; the bound on a reader's memory.
pub const DOCUMENT_BYTES_MAX: usize = 32 << 20;

/// Documents in order.
pub trait Documents {
    /// Reads the next one; false at the end.
    fn next(&mut self) -> Result<bool>;
    /// The one read last.
    fn text(&self) -> &str;
    /// Line of the file where that begins, from 1.
    fn line(&self) -> u64;
    /// What [`Documents::line`] counts.
    fn unit(&self) -> &'static str {
        "line"
    }
    /// Bytes before it in that line.
    fn column(&self) -> u64 {
        0
    }
    /// Names of a table's columns; nothing where each document has its own fields.
    fn columns(&self) -> Vec<String> {
        Vec::new()
    }
    /// Of the file.
    fn name(&self) -> &str;
    /// Bytes read of the file, and bytes in it.
    fn progress(&self) -> (u64, u64);
}

/// Puts an error of the JSON reader, which counts from the document's beginning, at its place in the file, and tells of the usual causes.
pub fn located(documents: &dyn Documents, error: Error) -> Error {
    let place = |line: u64| format!("{}: {} {line}", documents.name(), documents.unit());
    let Some(json) = error.downcast_ref::<serde_json::Error>() else {
        return error.context(place(documents.line()));
    };
    let (line, column) = (json.line().max(1) as u64, json.column() as u64);
    let before = if line == 1 { documents.column() } else { 0 };
    let said = json.to_string();
    let what = said.split(" at line ").next().unwrap_or(&said);
    let hint = hint(documents, json).unwrap_or_default();
    anyhow!(
        "{}, column {}: {what}{hint}",
        place(documents.line() + line - 1),
        before + column
    )
}

/// What is there instead of JSON, if it is something that people have.
fn hint(documents: &dyn Documents, error: &serde_json::Error) -> Option<&'static str> {
    let text = documents.text();
    let line = text.lines().nth(error.line().max(1) - 1)?;
    // The reader names the byte that it can't take, or one behind.
    let at = error.column().saturating_sub(1).min(line.len());
    let begin = (0..=at).rev().find(|at| line.is_char_boundary(*at))?;
    let rest = line[begin..].trim_start_matches('-');
    let within = |word: &str| {
        rest.starts_with(word)
            || rest.strip_prefix(&word[1..]).is_some() && line[..begin].ends_with(&word[..1])
    };
    if within("NaN") || within("Infinity") || within("inf") || within("nan") {
        return Some("; JSON has no NaN and no infinity: write null, or omit the field");
    }
    match (text.trim_start().chars().next()?, rest.chars().next()) {
        ('[', _) => Some("; it is a JSON array: --format json reads those"),
        (_, Some('\'')) => Some("; JSON needs double quotes: write it with Python's json.dumps"),
        (_, Some('T' | 'F')) => Some("; JSON writes true and false in lower case"),
        ('{', _) if error.is_eof() => {
            Some("; the line ends within the object: --format json reads objects of several lines")
        }
        ('{' | '"', _) => None,
        _ if documents.line() == 1 => Some("; a table is read by --format csv"),
        _ => None,
    }
}
