//! Which format a file has.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Result, bail};
use ramlet_bench::files::EXTENSIONS;

use super::byte_input::is_stdin;
use crate::args::TextFormat;

/// What packed texts end in.
const PACKED: [&str; 4] = [".gz", ".gzip", ".zst", ".zstd"];

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text(TextFormat),
    /// Rows of vectors: the extension tells which.
    Rows,
    Parquet,
    Arrow,
}

/// The format that is told, or the extension's.
pub fn format_of(path: &Path, told: Option<TextFormat>) -> Result<Format> {
    if let Some(format) = told {
        return Ok(Format::Text(format));
    }
    if is_stdin(path) {
        bail!("standard input has no extension: give --format jsonl, json, csv or tsv");
    }
    let name = path
        .file_name()
        .map(OsStr::to_string_lossy)
        .unwrap_or_default()
        .to_ascii_lowercase();
    let plain = PACKED
        .iter()
        .find_map(|packed| name.strip_suffix(packed))
        .unwrap_or(&name);
    let extension = plain.rsplit_once('.').map_or("", |(_, extension)| extension);
    let text = match extension {
        "jsonl" | "ndjson" => TextFormat::Jsonl,
        "json" => TextFormat::Json,
        "csv" => TextFormat::Csv,
        "tsv" | "tab" => TextFormat::Tsv,
        "parquet" | "pq" => return Ok(Format::Parquet),
        "arrow" | "arrows" | "feather" | "ipc" => return Ok(Format::Arrow),
        rows if EXTENSIONS.contains(&rows) && plain == name => return Ok(Format::Rows),
        rows if EXTENSIONS.contains(&rows) => {
            bail!("{}: files of vectors can't be compressed", path.display())
        }
        _ => bail!(unknown(path)),
    };
    Ok(Format::Text(text))
}

fn unknown(path: &Path) -> String {
    format!(
        "{}: the format follows from the extension, one of .{}, .parquet .arrow .feather, or .jsonl .json .csv .tsv (also .gz, .zst); for a text of another name: --format jsonl, json, csv or tsv",
        path.display(),
        EXTENSIONS.join(" .")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_follow_from_extensions() {
        let check = |name: &str, expected: Option<Format>| {
            assert_eq!(format_of(Path::new(name), None).ok(), expected, "{name}");
        };
        check("a/b.npy", Some(Format::Rows));
        check("b.NPZ", Some(Format::Rows));
        check("b.jsonl", Some(Format::Text(TextFormat::Jsonl)));
        check("b.ndjson.gz", Some(Format::Text(TextFormat::Jsonl)));
        check("b.JSON.zst", Some(Format::Text(TextFormat::Json)));
        check("b.csv", Some(Format::Text(TextFormat::Csv)));
        check("b.parquet", Some(Format::Parquet));
        check("b.feather", Some(Format::Arrow));
        check("b.x.tsv.gz", Some(Format::Text(TextFormat::Tsv)));
        for name in ["-", "csv", "a.txt", "a.gz", "a.npy.gz"] {
            check(name, None);
        }
        let told = format_of(Path::new("-"), Some(TextFormat::Csv)).expect("told");
        assert_eq!(told, Format::Text(TextFormat::Csv));
    }
}
