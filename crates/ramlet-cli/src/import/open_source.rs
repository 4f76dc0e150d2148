//! Opens what is imported.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Result, bail};
use ramlet_bench::files::{EXTENSIONS, open_rows};

use super::jsonl::{JsonlSource, Lines};
use super::row_source::RowSource;
use super::source::Source;
use crate::args::Ids;

/// Opens a file by its extension.
pub fn open(path: &Path, key: &str, payload: Option<&Path>, ids: Ids) -> Result<Box<dyn Source>> {
    let name = path
        .file_name()
        .map(OsStr::to_string_lossy)
        .unwrap_or_default()
        .to_ascii_lowercase();
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    if plain.ends_with(".jsonl") || plain.ends_with(".ndjson") {
        if payload.is_some() {
            bail!("--payload goes with files of bare vectors; lines of {name} carry their own");
        }
        let lines = Lines::open(path)?;
        return Ok(Box::new(JsonlSource::new(lines, ids)?));
    }
    if !EXTENSIONS.contains(&name.rsplit('.').next().unwrap_or_default()) {
        bail!(
            "{name}: the format follows from the extension, one of .{} .jsonl .jsonl.gz",
            EXTENSIONS.join(" .")
        );
    }
    let rows = open_rows(path, key)?;
    let payload = payload.map(Lines::open).transpose()?;
    Ok(Box::new(RowSource::new(rows, payload)))
}
