//! Tables of text, CSV (RFC 4180) and TSV: the first line names the columns, each row becomes a document.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result, anyhow, bail};

use super::byte_input::ByteInput;
use super::column_types::{ColumnType, guess};
use super::documents::{DOCUMENT_BYTES_MAX, Documents};
use super::json::write_string;
use crate::output::note;

/// Rows looked at before the types of the columns are settled, and bytes of them.
const LOOK_AHEAD_ROWS: usize = 1_000;
const LOOK_AHEAD_BYTES: usize = 4 << 20;
/// Tried in this order where none is told: the one that the first line has most of.
const DELIMITERS: [u8; 4] = *b",;\t|";

/// How a table is read.
#[derive(Debug, Clone, Default)]
pub struct TableOptions {
    /// `None`: as the first line shows.
    pub delimiter: Option<u8>,
    /// (column, type) that are told.
    pub types: Vec<(String, ColumnType)>,
}

/// Rows of a table, one in memory at a time, and those looked ahead at: 4 MiB.
pub struct CsvRows {
    reader: csv::Reader<Bounded>,
    watch: Watch,
    name: String,
    progress: Box<dyn Fn() -> (u64, u64)>,
    columns: Vec<Column>,
    ahead: std::vec::IntoIter<csv::StringRecord>,
    ahead_rows: usize,
    record: csv::StringRecord,
    text: String,
    line: u64,
}

struct Column {
    name: String,
    kind: ColumnType,
    is_told: bool,
    /// Cells without a value, such as `NA`, were told of.
    is_noted: bool,
}

/// What a quote that isn't closed does, which makes the rest of the file one row.
#[derive(Clone)]
struct Watch(Rc<Watched>);

struct Watched {
    /// Bytes that a row may still take.
    bytes_left: Cell<usize>,
    /// Of quotes there was an odd number so far.
    in_quotes: Cell<bool>,
    at_end: Cell<bool>,
}

struct Bounded {
    inner: Box<dyn BufRead>,
    watch: Watch,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        let watched = &self.watch.0;
        watched.at_end.set(n == 0);
        let quotes = buffer[..n].iter().filter(|byte| **byte == b'"').count();
        watched.in_quotes.set(watched.in_quotes.get() ^ (quotes % 2 == 1));
        match watched.bytes_left.get().checked_sub(n) {
            Some(left) => watched.bytes_left.set(left),
            None => {
                return Err(io::Error::other(format!(
                    "a row is longer than {DOCUMENT_BYTES_MAX} bytes: is a quote not closed?"
                )));
            }
        }
        Ok(n)
    }
}

impl CsvRows {
    pub fn open(path: &Path, options: &TableOptions) -> Result<CsvRows> {
        let mut input = ByteInput::open(path)?;
        let name = input.name.clone();
        let delimiter = match options.delimiter {
            Some(delimiter) => delimiter,
            None => delimiter_of(
                input
                    .reader
                    .fill_buf()
                    .with_context(|| format!("reading {name}"))?,
            ),
        };
        let watch = Watch(Rc::new(Watched {
            bytes_left: Cell::new(DOCUMENT_BYTES_MAX),
            in_quotes: Cell::new(false),
            at_end: Cell::new(false),
        }));
        let progress = input.progress_of();
        let bounded = Bounded {
            inner: input.reader,
            watch: watch.clone(),
        };
        let reader = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .from_reader(bounded);
        let mut rows = CsvRows {
            reader,
            watch,
            name,
            progress: Box::new(progress),
            columns: Vec::new(),
            ahead: Vec::new().into_iter(),
            ahead_rows: 0,
            record: csv::StringRecord::new(),
            text: String::new(),
            line: 1,
        };
        rows.read_names(delimiter)?;
        rows.look_ahead(&options.types)?;
        Ok(rows)
    }

    fn read_names(&mut self, delimiter: u8) -> Result<()> {
        let names = self
            .reader
            .headers()
            .map_err(|error| at_line(&self.name, &error))?
            .clone();
        if names.get(0).is_some_and(|name| name.trim().starts_with("sep=")) {
            bail!(
                "{0}: line 1 is of a spreadsheet, and doesn't name the columns; remove it: tail -n +2 {0} > NEW",
                self.name
            );
        }
        let is_named = names.iter().any(|name| !name.trim().is_empty());
        for (at, name) in names.iter().enumerate() {
            let place = || format!("{}: line 1, column {}", self.name, at + 1);
            let mut name = name.trim().to_string();
            if name.is_empty() && is_named {
                // pandas writes its index so.
                name = format!("column_{}", at + 1);
                note!("{} has no name: it becomes '{name}'", place());
            }
            if name.is_empty() || name.parse::<f64>().is_ok() {
                bail!(
                    "{}: '{name}' is no name; the first line is to name the columns",
                    place()
                );
            }
            if self.columns.iter().any(|other| other.name == name) {
                bail!("{}: '{name}' names two columns", place());
            }
            self.columns.push(Column {
                name,
                kind: ColumnType::Text,
                is_told: false,
                is_noted: false,
            });
        }
        if let [only] = self.columns.as_slice()
            && only.name.contains([',', ';', '\t'])
        {
            bail!(
                "{}: line 1 is one column, '{}', between delimiters '{}': --delimiter tells another",
                self.name,
                only.name,
                char::from(delimiter)
            );
        }
        Ok(())
    }

    /// Reads rows until the types are clear, and keeps them.
    fn look_ahead(&mut self, told: &[(String, ColumnType)]) -> Result<()> {
        if let Some((name, _)) = told
            .iter()
            .find(|(name, _)| self.columns.iter().all(|c| c.name != *name))
        {
            let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
            bail!(
                "{}: --types names '{name}', and the columns are {}",
                self.name,
                names.join(", ")
            );
        }
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while rows.len() < LOOK_AHEAD_ROWS && bytes < LOOK_AHEAD_BYTES && self.read_record()? {
            bytes += self.record.as_slice().len();
            rows.push(self.record.clone());
        }
        for (at, column) in self.columns.iter_mut().enumerate() {
            let told = told.iter().find(|(name, _)| *name == column.name);
            column.is_told = told.is_some();
            column.kind = match told {
                Some((_, kind)) => *kind,
                None => guess(rows.iter().filter_map(|row| row.get(at))),
            };
        }
        self.ahead_rows = rows.len();
        self.ahead = rows.into_iter();
        Ok(())
    }

    fn read_record(&mut self) -> Result<bool> {
        // What the reader has read ahead counts for the next row: its buffer is small beside the bound.
        self.watch.0.bytes_left.set(DOCUMENT_BYTES_MAX);
        let read = self.reader.read_record(&mut self.record);
        let read = read.map_err(|error| at_line(&self.name, &error))?;
        // The library takes the end of the file for the end of the quote.
        let ends_open = self.watch.0.at_end.get() && self.watch.0.in_quotes.get();
        if read && ends_open && self.record.iter().any(|cell| cell.contains('\n')) {
            let line = self.record.position().map_or(0, csv::Position::line);
            bail!(
                "{}: line {line}: a quote is not closed: the row would go on to the end of the file",
                self.name
            );
        }
        Ok(read)
    }

    /// Writes the row as an object; empty cells are left out.
    fn write(&mut self) -> Result<()> {
        let mut out = std::mem::take(&mut self.text).into_bytes();
        out.clear();
        out.push(b'{');
        for (column, cell) in self.columns.iter_mut().zip(&self.record) {
            let is_missing = column.kind.is_missing(cell);
            if is_missing && !std::mem::replace(&mut column.is_noted, true) {
                note!(
                    "{}: line {}, column '{}': '{cell}' counts as an empty cell",
                    self.name,
                    self.line,
                    column.name
                );
            }
            if cell.is_empty() || is_missing {
                continue;
            }
            if out.len() > 1 {
                out.push(b',');
            }
            write_string(&column.name, &mut out);
            out.push(b':');
            let written = column.kind.write(cell, &mut out);
            written.map_err(|what| {
                let place = format!("{}: line {}, column '{}'", self.name, self.line, column.name);
                unfit(&place, (&*column, self.ahead_rows), cell, &what)
            })?;
        }
        out.push(b'}');
        self.text = String::from_utf8(out).context("JSON is UTF-8")?;
        Ok(())
    }
}

/// A cell of another type than its column's, which the first `ahead` rows decided.
fn unfit(place: &str, (column, ahead): (&Column, usize), cell: &str, what: &str) -> anyhow::Error {
    let shown: String = cell.chars().take(40).collect();
    let place = format!("{place}: '{shown}' is {what}");
    if column.is_told {
        return anyhow!("{place}, as --types tells");
    }
    // Fractions behind whole numbers stay numbers.
    let is_number = column.kind == ColumnType::Int && ColumnType::Float.write(cell, &mut Vec::new()).is_ok();
    let cure = match is_number {
        true => format!("--types {}=float takes both", column.name),
        false => format!("--types {}=text takes everything", column.name),
    };
    anyhow!("{place}, which the first {ahead} rows have; {cure}")
}

/// The CSV reader's error with the file's line and what it means.
fn at_line(name: &str, error: &csv::Error) -> anyhow::Error {
    let line = error
        .position()
        .map_or(String::new(), |at| format!(": line {}", at.line()));
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            anyhow!(
                "{name}{line} has {len} cells, and line 1 names {expected_len} columns: is a quote missing?"
            )
        }
        csv::ErrorKind::Utf8 { .. } => {
            anyhow!(
                "{name}{line} is no UTF-8; from Latin-1 it is made by: iconv -f LATIN1 -t UTF-8 FILE > NEW"
            )
        }
        csv::ErrorKind::Io(error) => anyhow!("{name}: {error}"),
        _ => anyhow!("{name}{line}: {error}"),
    }
}

/// The delimiter that the first line has most of, outside of quotes.
fn delimiter_of(beginning: &[u8]) -> u8 {
    let (mut counts, mut in_quotes) = ([0; DELIMITERS.len()], false);
    for byte in beginning.iter().take_while(|byte| **byte != b'\n') {
        in_quotes ^= *byte == b'"';
        if let (false, Some(at)) = (in_quotes, DELIMITERS.iter().position(|d| d == byte)) {
            counts[at] += 1;
        }
    }
    let most = counts.iter().max().copied().unwrap_or_default();
    let at = counts.iter().position(|count| *count == most);
    at.map_or(b',', |at| DELIMITERS[at])
}

impl Documents for CsvRows {
    fn next(&mut self) -> Result<bool> {
        match self.ahead.next() {
            Some(record) => self.record = record,
            None if !self.read_record()? => return Ok(false),
            None => {}
        }
        self.line = self.record.position().map_or(self.line, csv::Position::line);
        self.write()?;
        Ok(true)
    }
    fn text(&self) -> &str {
        &self.text
    }
    fn line(&self) -> u64 {
        self.line
    }
    fn columns(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn progress(&self) -> (u64, u64) {
        (self.progress)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_that_first_lines_show() {
        for (line, expected) in [
            ("a,b,c\n1;2;3;4;5", b','),
            ("a;b,c;d", b';'),
            ("a\tb\tc, d\n", b'\t'),
            ("\"a;b;c\",d", b','),
            ("a|b|c", b'|'),
            ("alone\n1,2", b','),
        ] {
            assert_eq!(delimiter_of(line.as_bytes()), expected, "{line}");
        }
    }
}
