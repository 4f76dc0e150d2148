//! Opens what is imported.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use ramlet_bench::files::open_rows;

use super::byte_input::is_stdin;
use super::chain::Chain;
use super::csv_rows::{CsvRows, TableOptions};
use super::document::FieldNames;
use super::document_source::DocumentSource;
use super::documents::Documents;
use super::format::{Format, format_of};
use super::json_values::JsonValues;
use super::lines::Lines;
use super::row_source::RowSource;
use super::source::Source;
use crate::args::{ImportArgs, TextFormat};

/// Opens files by what the command line says of them.
#[derive(Debug, Clone, Default)]
pub struct Opener {
    pub format: Option<TextFormat>,
    pub key: String,
    pub payload: Option<PathBuf>,
    pub names: FieldNames,
    pub table: TableOptions,
}

impl Opener {
    pub fn new(args: &ImportArgs) -> Opener {
        Opener {
            format: args.format,
            key: args.key.clone().unwrap_or_default(),
            payload: args.payload.clone(),
            names: FieldNames::new(args.id_field.as_deref(), &args.vector_field),
            table: TableOptions {
                delimiter: args.delimiter,
                types: args.types.clone(),
            },
        }
    }

    /// All files, one after another.
    pub fn open_all(self, files: &[PathBuf]) -> Result<Box<dyn Source>> {
        self.names.check_vectors()?;
        if files.len() == 1 {
            return self.open(&files[0]);
        }
        if files.iter().any(|file| is_stdin(file)) {
            bail!("standard input (-) can't be combined with files");
        }
        if self.payload.is_some() {
            bail!("--payload needs a single file of vectors: import the files one by one, with --ids append");
        }
        let open = move |path: &Path| self.open(path);
        Ok(Box::new(Chain::new(Box::new(open), files.to_vec())?))
    }

    pub fn open(&self, path: &Path) -> Result<Box<dyn Source>> {
        let name = path.display();
        if path.is_dir() {
            bail!("{name} is a directory: name its files, {name}/* for all");
        }
        let documents: Box<dyn Documents> = match format_of(path, self.format)? {
            Format::Rows => return self.open_rows(path),
            format @ (Format::Parquet | Format::Arrow) => column_file(path, format, &self.names)?,
            Format::Text(TextFormat::Jsonl) => Box::new(Lines::open(path)?),
            Format::Text(TextFormat::Json) => Box::new(JsonValues::open(path)?),
            Format::Text(TextFormat::Csv) => Box::new(CsvRows::open(path, &self.table)?),
            Format::Text(TextFormat::Tsv) => {
                let delimiter = self.table.delimiter.or(Some(b'\t'));
                let table = TableOptions {
                    delimiter,
                    ..self.table.clone()
                };
                Box::new(CsvRows::open(path, &table)?)
            }
        };
        if self.payload.is_some() {
            bail!(
                "--payload needs files of vectors; documents as in {} have their own payload",
                path.display()
            );
        }
        Ok(Box::new(DocumentSource::new(documents, self.names.clone())?))
    }

    fn open_rows(&self, path: &Path) -> Result<Box<dyn Source>> {
        let rows = open_rows(path, &self.key)?;
        let payload = self.payload.as_deref().map(Lines::open).transpose()?;
        let name = path.display().to_string();
        Ok(Box::new(RowSource::new(&name, rows, payload)))
    }
}

#[cfg(feature = "parquet")]
fn column_file(path: &Path, format: Format, names: &FieldNames) -> Result<Box<dyn Documents>> {
    use super::column_file::ColumnFile;
    let file = match format {
        Format::Arrow => ColumnFile::open_arrow(path, names)?,
        _ => ColumnFile::open_parquet(path, names)?,
    };
    Ok(Box::new(file))
}

#[cfg(not(feature = "parquet"))]
fn column_file(path: &Path, _: Format, _: &FieldNames) -> Result<Box<dyn Documents>> {
    bail!(
        "{0}: this program was built without the feature `parquet`, which reads Parquet and Arrow files (cargo build --features parquet); \
         DuckDB makes JSON lines of Parquet: duckdb -c \"COPY (FROM '{0}') TO '/dev/stdout' (FORMAT json)\" | ramlet import - --format jsonl",
        path.display()
    )
}
