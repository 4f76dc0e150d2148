//! JSON arrays of objects, read element by element: `[{..}, {..}]`, on one line or many. Objects one after another are read too.

use std::io::BufRead;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::byte_input::ByteInput;
use super::documents::{DOCUMENT_BYTES_MAX, Documents};

/// What may stand next outside of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was read: `[` or an element.
    Beginning,
    /// Within an array: an element, or its end.
    Element,
    /// Behind an element of an array: a comma, or the end.
    Comma,
    /// Elements that no brackets are around.
    Bare,
    /// Behind the array: nothing more.
    End,
}

/// Elements of a file, one in memory at a time: at most 32 MiB.
pub struct JsonValues {
    input: ByteInput,
    state: State,
    text: String,
    line: u64,
    column: u64,
    /// Of the next byte.
    next_line: u64,
    next_column: u64,
}

/// Follows brackets and strings until an element has ended.
#[derive(Default)]
struct Element {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Element {
    /// Whether the element ends with this byte.
    fn ends_with(&mut self, byte: u8) -> bool {
        if self.in_string {
            match (self.escaped, byte) {
                (true, _) => self.escaped = false,
                (false, b'\\') => self.escaped = true,
                (false, b'"') => self.in_string = false,
                _ => {}
            }
            return self.depth == 0 && !self.in_string;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth == 0 && !self.in_string
    }
}

impl JsonValues {
    pub fn open(path: &Path) -> Result<JsonValues> {
        Ok(JsonValues {
            input: ByteInput::open(path)?,
            state: State::Beginning,
            text: String::new(),
            line: 1,
            column: 0,
            next_line: 1,
            next_column: 0,
        })
    }

    fn place(&self) -> String {
        format!(
            "{}: line {}, column {}",
            self.input.name,
            self.next_line,
            self.next_column + 1
        )
    }

    fn peek(&mut self) -> Result<Option<u8>> {
        let place = |line| format!("{}: reading line {line}", self.input.name);
        let filled = self.input.reader.fill_buf();
        Ok(filled.with_context(|| place(self.next_line))?.first().copied())
    }

    /// Goes over the byte that was looked at.
    fn take(&mut self, byte: u8) {
        self.input.reader.consume(1);
        self.count(&[byte]);
    }

    fn count(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => (self.next_line, self.next_column) = (self.next_line + 1, 0),
                _ => self.next_column += 1,
            }
        }
    }

    /// Goes over what is between elements; the first byte of one, or `None` at the end.
    fn seek_element(&mut self) -> Result<Option<u8>> {
        loop {
            let Some(byte) = self.peek()? else {
                return match self.state {
                    State::Element | State::Comma => {
                        bail!(
                            "{}: the file ends within the array: it is truncated",
                            self.place()
                        )
                    }
                    _ => Ok(None),
                };
            };
            self.state = match (self.state, byte) {
                (state, b' ' | b'\t' | b'\r' | b'\n') => state,
                (State::Beginning, b'[') => State::Element,
                (State::Element | State::Comma, b']') => State::End,
                (State::Comma, b',') => State::Element,
                (State::Beginning | State::Bare, b'{') => {
                    self.state = State::Bare;
                    return Ok(Some(byte));
                }
                (State::Element, b'{') => return Ok(Some(byte)),
                (state, _) => bail!("{}: {}", self.place(), misplaced(state, byte)),
            };
            self.take(byte);
        }
    }

    /// Appends the element that begins here.
    fn read_element(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut element = Element::default();
        loop {
            let buffer = self
                .input
                .reader
                .fill_buf()
                .with_context(|| format!("{}: reading line {}", self.input.name, self.next_line))?;
            if buffer.is_empty() {
                bail!(
                    "{}: the file ends within the object that begins in line {}: it is truncated",
                    self.input.name,
                    self.line
                );
            }
            let end = buffer.iter().position(|byte| element.ends_with(*byte));
            let taken = end.map_or(buffer.len(), |at| at + 1);
            let begin = bytes.len();
            bytes.extend_from_slice(&buffer[..taken]);
            self.input.reader.consume(taken);
            self.count(&bytes[begin..]);
            if end.is_some() {
                return Ok(());
            }
            if bytes.len() > DOCUMENT_BYTES_MAX {
                bail!(
                    "{}: the object that begins in line {} is longer than {DOCUMENT_BYTES_MAX} bytes",
                    self.input.name,
                    self.line
                );
            }
        }
    }
}

fn misplaced(state: State, byte: u8) -> String {
    let found = char::from(byte);
    match state {
        State::Comma => format!("'{found}' where a comma or the end of the array is expected"),
        State::End => format!("'{found}' after the end of the array"),
        _ => format!(
            "'{found}' where an object is expected: the file must be an array of objects, [{{..}}, {{..}}]"
        ),
    }
}

impl Documents for JsonValues {
    fn next(&mut self) -> Result<bool> {
        if self.seek_element()?.is_none() {
            return Ok(false);
        }
        (self.line, self.column) = (self.next_line, self.next_column);
        let mut bytes = std::mem::take(&mut self.text).into_bytes();
        bytes.clear();
        self.read_element(&mut bytes)?;
        self.text = String::from_utf8(bytes).with_context(|| {
            format!(
                "{}: the object in line {} is not UTF-8",
                self.input.name, self.line
            )
        })?;
        if self.state == State::Element {
            self.state = State::Comma;
        }
        Ok(true)
    }
    fn text(&self) -> &str {
        &self.text
    }
    fn line(&self) -> u64 {
        self.line
    }
    fn column(&self) -> u64 {
        self.column
    }
    fn name(&self) -> &str {
        &self.input.name
    }
    fn progress(&self) -> (u64, u64) {
        self.input.progress()
    }
}
