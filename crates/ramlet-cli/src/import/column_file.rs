//! Parquet and Arrow files: each row becomes a document. Row groups and record batches are read one after another.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail};
use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::cells::{is_known, write_row};
use super::document::FieldNames;
use super::documents::Documents;
use crate::output::note;

/// Rows of a Parquet file that are decoded at a time.
const BATCH_ROWS: usize = 256;
/// What an Arrow file begins with; the other form, a stream, has no beginning of its own.
const ARROW_FILE: &[u8] = b"ARROW1";
const PARQUET_FILE: &[u8] = b"PAR1";

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// Rows of columns. Memory: the pages of the columns that are read, and 256 rows; of an Arrow file a record batch.
pub struct ColumnFile {
    name: String,
    batches: Batches,
    /// Numbers of the columns that JSON has a form for.
    wanted: Vec<usize>,
    /// Their names.
    columns: Vec<String>,
    batch: Option<RecordBatch>,
    /// Of the batch, the next.
    next_row: usize,
    text: String,
    /// Rows given.
    rows: u64,
    /// 0: nobody knows.
    rows_all: u64,
}

impl ColumnFile {
    pub fn open_parquet(path: &Path, names: &FieldNames) -> Result<ColumnFile> {
        let name = path.display().to_string();
        let place = || name.clone();
        let mut file = File::open(path).with_context(place)?;
        if head(&mut file, PARQUET_FILE.len()).with_context(place)? != PARQUET_FILE {
            bail!("{name}: it isn't a Parquet file: those begin with PAR1");
        }
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).with_context(place)?;
        let rows = builder.metadata().file_metadata().num_rows();
        let schema = builder.schema().clone();
        let reader = builder.with_batch_size(BATCH_ROWS).build().with_context(place)?;
        let rows = u64::try_from(rows).unwrap_or(0);
        ColumnFile::new(path, (&schema, names), Box::new(reader), rows)
    }

    pub fn open_arrow(path: &Path, names: &FieldNames) -> Result<ColumnFile> {
        let name = path.display().to_string();
        let place = || name.clone();
        let mut file = File::open(path).with_context(place)?;
        if head(&mut file, ARROW_FILE.len()).with_context(place)? == ARROW_FILE {
            let reader = FileReader::try_new_buffered(file, None).with_context(place)?;
            return ColumnFile::new(path, (&reader.schema(), names), Box::new(reader), 0);
        }
        let reader = StreamReader::try_new_buffered(file, None).with_context(place)?;
        ColumnFile::new(path, (&reader.schema(), names), Box::new(reader), 0)
    }

    fn new(
        path: &Path,
        (schema, names): (&SchemaRef, &FieldNames),
        batches: Batches,
        rows_all: u64,
    ) -> Result<ColumnFile> {
        let name = path.display().to_string();
        let (mut wanted, mut columns) = (Vec::new(), Vec::<String>::new());
        for (at, field) in schema.fields().iter().enumerate() {
            let (column, kind) = (field.name(), field.data_type());
            if columns.contains(column) {
                bail!("{name}: column {}: '{column}' names two columns", at + 1);
            }
            if is_known(kind) {
                wanted.push(at);
                columns.push(column.clone());
                continue;
            }
            if names.has(column) {
                bail!(
                    "{name}: the column '{column}' is of type {kind}: ids are numbers or texts, vectors are lists of numbers; --id-field and --vector-field name other columns"
                );
            }
            note!("{name}: the column '{column}' is left out: JSON has no {kind}");
        }
        if wanted.is_empty() {
            bail!("{name}: no column of it can be read");
        }
        Ok(ColumnFile {
            name,
            batches,
            wanted,
            columns,
            batch: None,
            next_row: 0,
            text: String::new(),
            rows: 0,
            rows_all,
        })
    }

    /// Reads on until there is a row; false at the end.
    fn fill(&mut self) -> Result<bool> {
        while self
            .batch
            .as_ref()
            .is_none_or(|batch| self.next_row >= batch.num_rows())
        {
            let Some(batch) = self.batches.next() else {
                return Ok(false);
            };
            self.batch = Some(batch.map_err(|error| self.unread(&error))?);
            self.next_row = 0;
        }
        Ok(true)
    }

    /// The message of a row group that isn't read. The readers of some compressions aren't built in.
    fn unread(&self, error: &ArrowError) -> Error {
        let message = error.to_string();
        let hint = match message.contains("Disabled feature") {
            true => {
                "; this program reads SNAPPY, ZSTD, LZ4, GZIP and none: write the file again with one of these (pyarrow: pq.write_table(t, FILE, compression='zstd'))"
            }
            false => "",
        };
        anyhow!("{}: behind row {}: {message}{hint}", self.name, self.rows)
    }
}

/// The first bytes, or those that are there.
fn head(file: &mut File, bytes: usize) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(bytes as u64).read_to_end(&mut head)?;
    file.rewind()?;
    Ok(head)
}

impl Documents for ColumnFile {
    fn next(&mut self) -> Result<bool> {
        let mut out = std::mem::take(&mut self.text).into_bytes();
        out.clear();
        if !self.fill()? {
            return Ok(false);
        }
        if let Some(batch) = &self.batch {
            write_row(batch, &self.wanted, self.next_row, &mut out)
                .with_context(|| format!("{}: row {}", self.name, self.rows))?;
        }
        self.text = String::from_utf8(out).context("JSON is UTF-8")?;
        self.next_row += 1;
        self.rows += 1;
        Ok(true)
    }
    fn text(&self) -> &str {
        &self.text
    }
    /// Rows count from 0, as in files of vectors.
    fn line(&self) -> u64 {
        self.rows.saturating_sub(1)
    }
    fn unit(&self) -> &'static str {
        "row"
    }
    fn columns(&self) -> Vec<String> {
        self.columns.clone()
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn progress(&self) -> (u64, u64) {
        (self.rows, self.rows_all)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    fn columns(fields: &[(&str, DataType)], names: &FieldNames) -> Result<Vec<String>> {
        let fields: Vec<Field> = fields
            .iter()
            .map(|(name, kind)| Field::new(*name, kind.clone(), true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let file = ColumnFile::new(
            Path::new("f.parquet"),
            (&schema, names),
            Box::new(std::iter::empty()),
            0,
        );
        file.map(|file| file.columns())
    }

    #[test]
    fn what_would_be_lost_is_refused() {
        let usual = FieldNames::default();
        let error = |fields: &[(&str, DataType)], names: &FieldNames| match columns(fields, names) {
            Ok(columns) => columns.join(","),
            Err(error) => error.to_string(),
        };
        let (text, bytes) = (DataType::Utf8, DataType::Binary);
        assert_eq!(error(&[("a", text.clone()), ("b", bytes.clone())], &usual), "a");
        let twice = error(
            &[("a", text.clone()), ("b", text.clone()), ("a", text.clone())],
            &usual,
        );
        assert!(twice.contains("column 3: 'a' names two columns"), "{twice}");
        for (field, names) in [
            ("vector", FieldNames::default()),
            ("id", FieldNames::default()),
            ("key", FieldNames::new(Some("key"), &[])),
            ("e", FieldNames::new(None, &["v=e".to_string()])),
        ] {
            let refused = error(&[("a", text.clone()), (field, bytes.clone())], &names);
            let wanted = format!("the column '{field}' is of type Binary");
            assert!(refused.contains(&wanted), "{refused}");
        }
        let no_vectors = FieldNames::new(None, &["none".to_string()]);
        assert_eq!(error(&[("a", text), ("vector", bytes)], &no_vectors), "a");
    }
}
