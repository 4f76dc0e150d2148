//! The full validation of a payload on arrival.

use std::fmt;

use super::json::{decode_escape, parse_number};

/// Deepest nesting of objects and arrays. The API's own parser refuses 128 levels of a whole request body,
/// in which a payload lies a few levels down.
pub const DEPTH_MAX: usize = 120;

/// What is wrong with a payload, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadError {
    pub what: String,
    pub at: usize,
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "payload: {} at byte {}", self.what, self.at)
    }
}

impl std::error::Error for PayloadError {}

impl PayloadError {
    pub(super) fn new(what: impl Into<String>, at: usize) -> PayloadError {
        PayloadError {
            what: what.into(),
            at,
        }
    }
}

/// Checks that `raw` is a JSON object (RFC 8259) in UTF-8 of at most `bytes_max` bytes, nested at most [`DEPTH_MAX`]
/// deep, with numbers that a float holds. Empty bytes stand for "no payload" and pass. Doubled keys are allowed:
/// the last one is what readers see. Allocates nothing.
pub fn validate(raw: &[u8], bytes_max: usize) -> Result<(), PayloadError> {
    if raw.is_empty() {
        return Ok(());
    }
    if raw.len() > bytes_max {
        let what = format!("{} bytes are more than the limit of {bytes_max}", raw.len());
        return Err(PayloadError::new(what, bytes_max));
    }
    if let Err(e) = std::str::from_utf8(raw) {
        return Err(PayloadError::new("not UTF-8", e.valid_up_to()));
    }
    let mut checker = Checker { raw, at: 0 };
    checker.skip_space();
    if checker.peek() != Some(b'{') {
        return Err(checker.error("must be a JSON object"));
    }
    checker.value(0)?;
    checker.skip_space();
    match checker.peek() {
        None => Ok(()),
        Some(_) => Err(checker.error("something follows the object")),
    }
}

/// Appends `raw` to `out` without the whitespace between tokens. For bytes that passed [`validate`].
pub fn compact(raw: &[u8], out: &mut Vec<u8>) {
    out.reserve(raw.len());
    let mut rest = raw;
    while let Some((&b, behind)) = rest.split_first() {
        match b {
            b'"' => {
                let string;
                (string, rest) = rest.split_at(string_len(rest));
                out.extend_from_slice(string);
                continue;
            }
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b => out.push(b),
        }
        rest = behind;
    }
}

/// Bytes of the string that `raw` begins with, its quotes included.
fn string_len(raw: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', raw.get(at..).unwrap_or_default()) {
        at += found + 1;
        if raw[at - 1] == b'"' {
            return at;
        }
        // What is escaped ends no string.
        at += 1;
    }
    raw.len()
}

struct Checker<'a> {
    raw: &'a [u8],
    at: usize,
}

impl Checker<'_> {
    fn peek(&self) -> Option<u8> {
        self.raw.get(self.at).copied()
    }

    fn error(&self, what: &str) -> PayloadError {
        PayloadError::new(what, self.at)
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Recursion is bounded by [`DEPTH_MAX`] small frames.
    fn value(&mut self, depth: usize) -> Result<(), PayloadError> {
        match self.peek() {
            Some(b'{') => self.container(depth, b'}'),
            Some(b'[') => self.container(depth, b']'),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(_) => Err(self.error("expected a value")),
            None => Err(self.error("ends inside a value")),
        }
    }

    fn container(&mut self, depth: usize, close: u8) -> Result<(), PayloadError> {
        if depth >= DEPTH_MAX {
            return Err(PayloadError::new(
                format!("nested deeper than {DEPTH_MAX} levels"),
                self.at,
            ));
        }
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            if close == b'}' {
                self.key()?;
            }
            self.value(depth + 1)?;
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b) if b == close => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.error(&format!("expected ',' or '{}'", close as char))),
            }
            self.skip_space();
        }
    }

    fn key(&mut self) -> Result<(), PayloadError> {
        if self.peek() != Some(b'"') {
            return Err(self.error("expected a key in quotes"));
        }
        self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.error("expected ':'"));
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    fn string(&mut self) -> Result<(), PayloadError> {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => match decode_escape(&self.raw[self.at..]) {
                    Some((_, used)) => self.at += used,
                    None => return Err(self.error("not a valid escape")),
                },
                Some(0..=0x1f) => return Err(self.error("control character in a string")),
                Some(_) => self.at += 1,
                None => return Err(self.error("ends inside a string")),
            }
        }
    }

    fn number(&mut self) -> Result<(), PayloadError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        match parse_number(&self.raw[start..self.at]) {
            Some(_) => Ok(()),
            None => Err(PayloadError::new("number beyond the range of a float", start)),
        }
    }

    fn digits(&mut self) -> Result<(), PayloadError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.error("expected a digit"));
        }
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), PayloadError> {
        if !self.raw[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error(&format!("expected '{word}'")));
        }
        self.at += word.len();
        Ok(())
    }
}
