//! Lines of a text: JSON lines, and payloads beside vectors.

use std::io::{BufRead, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::byte_input::ByteInput;
use super::documents::{DOCUMENT_BYTES_MAX, Documents};

/// Lines of a file, one in memory at a time.
pub struct Lines {
    input: ByteInput,
    line: String,
    number: u64,
}

impl Lines {
    pub fn open(path: &Path) -> Result<Lines> {
        ByteInput::open(path).map(Lines::new)
    }

    pub fn new(input: ByteInput) -> Lines {
        Lines {
            input,
            line: String::new(),
            number: 0,
        }
    }

    fn place(&self) -> String {
        format!("{}: line {}", self.input.name, self.number)
    }

    /// Reads the next line; false at the end.
    fn read(&mut self) -> Result<bool> {
        let mut bytes = std::mem::take(&mut self.line).into_bytes();
        bytes.clear();
        let n = (&mut self.input.reader)
            .take(DOCUMENT_BYTES_MAX as u64)
            .read_until(b'\n', &mut bytes)
            .with_context(|| format!("{}: reading line {}", self.input.name, self.number + 1))?;
        if n == 0 {
            return Ok(false);
        }
        self.number += 1;
        // Before the text is looked at: the cut may lie within a character.
        if n == DOCUMENT_BYTES_MAX && !bytes.ends_with(b"\n") {
            bail!("{} is longer than {DOCUMENT_BYTES_MAX} bytes", self.place());
        }
        self.line = String::from_utf8(bytes).with_context(|| {
            let place = self.place();
            format!("{place} is not UTF-8; convert Latin-1 by: iconv -f LATIN1 -t UTF-8 FILE > NEW")
        })?;
        Ok(true)
    }
}

impl Documents for Lines {
    /// The next line that isn't blank.
    fn next(&mut self) -> Result<bool> {
        while self.read()? {
            if !self.line.trim().is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
    fn text(&self) -> &str {
        self.line.trim_end_matches(['\r', '\n'])
    }
    fn line(&self) -> u64 {
        self.number
    }
    fn name(&self) -> &str {
        &self.input.name
    }
    fn progress(&self) -> (u64, u64) {
        self.input.progress()
    }
}
