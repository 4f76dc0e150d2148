//! Parquet and Arrow files: each row becomes a document. Row groups and record batches are read one after another.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail};
use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::cells::{is_known, write_row};
use super::documents::Documents;
use crate::output::note;

/// Rows of a Parquet file that are decoded at a time.
const BATCH_ROWS: usize = 256;
/// What an Arrow file begins with; the other form, a stream, has no beginning of its own.
const ARROW_FILE: &[u8; 6] = b"ARROW1";

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// Rows of columns. Memory: the pages of the columns that are read, and 256 rows; of an Arrow file a record batch.
pub struct ColumnFile {
    name: String,
    batches: Batches,
    /// Numbers of the columns that JSON has a form for.
    wanted: Vec<usize>,
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
    pub fn open_parquet(path: &Path) -> Result<ColumnFile> {
        let name = path.display().to_string();
        let place = || name.clone();
        let file = File::open(path).with_context(place)?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).with_context(place)?;
        let rows = builder.metadata().file_metadata().num_rows();
        let schema = builder.schema().clone();
        let reader = builder.with_batch_size(BATCH_ROWS).build().with_context(place)?;
        ColumnFile::new(path, &schema, Box::new(reader), u64::try_from(rows).unwrap_or(0))
    }

    pub fn open_arrow(path: &Path) -> Result<ColumnFile> {
        let name = path.display().to_string();
        let place = || name.clone();
        let mut file = File::open(path).with_context(place)?;
        let mut head = Vec::new();
        (&mut file)
            .take(ARROW_FILE.len() as u64)
            .read_to_end(&mut head)
            .with_context(place)?;
        file.rewind().with_context(place)?;
        if head == ARROW_FILE {
            let reader = FileReader::try_new_buffered(file, None).with_context(place)?;
            return ColumnFile::new(path, &reader.schema(), Box::new(reader), 0);
        }
        let reader = StreamReader::try_new_buffered(file, None).with_context(place)?;
        ColumnFile::new(path, &reader.schema(), Box::new(reader), 0)
    }

    fn new(path: &Path, schema: &SchemaRef, batches: Batches, rows_all: u64) -> Result<ColumnFile> {
        let name = path.display().to_string();
        let mut wanted = Vec::new();
        for (at, field) in schema.fields().iter().enumerate() {
            match is_known(field.data_type()) {
                true => wanted.push(at),
                false => note!(
                    "{name}: the column '{}' is left out: JSON has no {}",
                    field.name(),
                    field.data_type()
                ),
            }
        }
        if wanted.is_empty() {
            bail!("{name}: no column of it can be read");
        }
        Ok(ColumnFile {
            name,
            batches,
            wanted,
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

impl Documents for ColumnFile {
    fn next(&mut self) -> Result<bool> {
        let mut out = std::mem::take(&mut self.text).into_bytes();
        out.clear();
        if !self.fill()? {
            return Ok(false);
        }
        if let Some(batch) = &self.batch {
            write_row(batch, &self.wanted, self.next_row, &mut out)?;
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
    fn name(&self) -> &str {
        &self.name
    }
    fn progress(&self) -> (u64, u64) {
        (self.rows, self.rows_all)
    }
}
