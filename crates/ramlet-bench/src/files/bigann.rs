//! `.fbin`, `.u8bin`, `.i8bin` (big-ann-benchmarks): rows and dimension as two u32, then all the numbers.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result};

use super::element::Element;
use super::rows::{RowFile, RowLayout};

/// Opens a big-ann file.
pub fn open(mut file: File, element: Element) -> Result<RowFile> {
    let mut head = [0; 8];
    file.read_exact(&mut head)
        .context("the file is shorter than its 8-byte head")?;
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let layout = RowLayout {
        element,
        dim: word(4) as usize,
        rows: u64::from(word(0)),
        start: 8,
        prefixed: false,
    };
    RowFile::new(file, layout)
}
