//! Building an index: tokens in, a container out.
//!
//! Tokens are gathered in RAM, sorted, and written as runs; the runs are merged into tantivy's serializer, term by term. Nothing
//! of tantivy's own writer is used: it wants 15 MB a thread, and its merger holds the dictionaries of all it merges.

use std::sync::Arc;

use ramlet_io::Storage;
use tantivy::directory::FileSlice;
use tantivy::fieldnorm::{FieldNormReader, FieldNormsSerializer};
use tantivy::index::SegmentComponent;
use tantivy::postings::{FieldSerializer, InvertedIndexSerializer};
use tantivy::{Index, Segment};

use crate::bm25::norm;
use crate::container::{ROWS_MAX, Section, TextInfo};
use crate::error::{Result, TextError, from_io};
use crate::guard::no_panic;
use crate::inverter::Inverter;
use crate::merge::{merge, reduce};
use crate::output::{BUFFERED, OutputDirectory};
use crate::ranges::ByteSink;
use crate::run::{BUFFER_BYTES, PostingSink, Run, RunWriter, Span};
use crate::schema::{field, schema, segment_id};

/// Bytes of a token; a longer one counts in its text's length, but isn't found. (A word of a language is shorter.)
pub const TOKEN_BYTES_MAX: usize = 4096;

/// Least scratch of a build, in bytes.
pub const SCRATCH_BYTES_MIN: u64 = 1 << 20;

/// Runs merged at once at most.
const FAN_IN_MAX: usize = 64;

/// What is shown a text's tokens, each with its position.
pub type TokenSink<'a> = &'a mut dyn FnMut(&str, u32);

/// Builds the index of one text field of one segment.
///
/// Holds the scratch it was given, and beside it: a byte a row (the lengths, while the lists are written also what tantivy
/// needs them for), and what [`TextBuilder::beside_bytes`] says for the dictionary and the longest list.
pub struct TextBuilder {
    storage: Arc<dyn Storage>,
    scratch: u64,
    inverter: Option<Inverter>,
    runs: Vec<Run>,
    /// One byte a row, as far as rows were added.
    norms: Vec<u8>,
    documents: u64,
    tokens: u64,
}

impl TextBuilder {
    /// `storage` gets temporary files, `tmp-text-*`: in all about twice the size of the index, and they are removed.
    /// `scratch`: bytes of RAM to sort in; the more, the fewer runs.
    pub fn new(storage: Arc<dyn Storage>, scratch: u64) -> Result<TextBuilder> {
        if scratch < SCRATCH_BYTES_MIN {
            return Err(TextError::Scratch {
                needed_bytes: SCRATCH_BYTES_MIN,
                given_bytes: scratch,
            });
        }
        Ok(TextBuilder {
            storage,
            scratch,
            inverter: None,
            runs: Vec::new(),
            norms: Vec::new(),
            documents: 0,
            tokens: 0,
        })
    }

    /// Bytes that a build holds beside its scratch when it has seen `rows` rows and `terms` different terms: a byte a row, 16 a
    /// term for tantivy's table of terms, 5 a row for the longest list, and 6 MiB, most of it for the transducer's cache.
    pub fn beside_bytes(rows: u64, terms: u64) -> u64 {
        (6 << 20) + 6 * rows + 16 * terms
    }

    /// Adds a row's text. Rows come in ascending order; those without text may be left out. `tokens` shows its argument each token and
    /// its position; positions don't descend.
    pub fn add(&mut self, row: u32, tokens: &mut dyn FnMut(TokenSink<'_>)) -> Result<()> {
        if row >= ROWS_MAX || (row as usize) < self.norms.len() {
            return Err(TextError::Misuse(format!(
                "row {row} comes after row {}; at most {ROWS_MAX} are possible",
                self.norms.len() as i64 - 1
            )));
        }
        let (mut count, mut result, mut before) = (0u32, Ok(()), 0);
        tokens(&mut |token, position| {
            count = count.saturating_add(1);
            if result.is_ok() && position < before {
                result = Err(TextError::Misuse(format!("position {position} after {before}")));
            }
            before = position;
            if result.is_ok() && !token.is_empty() && token.len() <= TOKEN_BYTES_MAX {
                result = self.token(token, row, position);
            }
        });
        result?;
        self.norms.resize(row as usize, norm(0));
        self.norms.push(norm(count));
        self.tokens += u64::from(count);
        self.documents += u64::from(count > 0);
        Ok(())
    }

    fn token(&mut self, token: &str, row: u32, position: u32) -> Result<()> {
        let bytes = self.scratch as usize;
        let inverter = self.inverter.get_or_insert_with(|| Inverter::new(bytes));
        if !inverter.add(token, row, position) {
            self.flush()?;
            let inverter = self.inverter.get_or_insert_with(|| Inverter::new(bytes));
            inverter.add(token, row, position);
        }
        Ok(())
    }

    /// What was gathered becomes a run.
    fn flush(&mut self) -> Result<()> {
        if let Some(inverter) = self.inverter.as_mut().filter(|inverter| !inverter.is_empty()) {
            let mut writer = RunWriter::create(&self.storage)?;
            inverter.drain(&mut writer)?;
            self.runs.push(writer.finish()?);
        }
        Ok(())
    }

    /// Writes the container of a segment of `rows` rows into `sink`, front to back.
    pub fn finish(mut self, rows: u32, sink: &mut dyn ByteSink) -> Result<TextInfo> {
        if rows > ROWS_MAX || self.norms.len() > rows as usize {
            return Err(TextError::Misuse(format!(
                "{rows} rows, of which {} were added; at most {ROWS_MAX} are possible",
                self.norms.len()
            )));
        }
        self.norms.resize(rows as usize, norm(0));
        let output = OutputDirectory::new(self.storage.clone());
        let mut info = TextInfo {
            rows: u64::from(rows),
            documents: self.documents,
            tokens: self.tokens,
            ..TextInfo::default()
        };
        no_panic(|| self.write(&output, &mut info))?;
        copy_out(&output, &mut info, sink)?;
        Ok(info)
    }

    fn write(mut self, output: &OutputDirectory, info: &mut TextInfo) -> Result<()> {
        let index = Index::create(output.clone(), schema(), Default::default())?;
        let segment = index.segment(index.new_segment_meta(segment_id(), info.rows as u32));
        write_norms(&segment, &self.norms)?;
        let norms = FieldNormReader::open(FileSlice::from(std::mem::take(&mut self.norms)))?;
        let mut serializer = InvertedIndexSerializer::open(&segment)?;
        {
            // tantivy takes the mean length for its block bounds from here; rows without text don't count.
            let tokens = match info.documents {
                0 => 0,
                documents => (u128::from(info.tokens) * u128::from(info.rows) / u128::from(documents)) as u64,
            };
            let lists = serializer
                .new_field(field(), tokens, Some(norms))
                .map_err(from_io)?;
            let mut lists = Lists {
                lists,
                info,
                output,
                before: [0; 2],
            };
            self.lists(&mut lists)?;
            lists.lists.close().map_err(from_io)?;
        }
        serializer.close().map_err(from_io)
    }

    fn lists(&mut self, sink: &mut dyn PostingSink) -> Result<()> {
        if self.runs.is_empty() {
            return match self.inverter.take() {
                Some(mut inverter) => inverter.drain(sink),
                None => Ok(()),
            };
        }
        self.flush()?;
        self.inverter = None;
        let fan_in = (self.scratch as usize / (2 * BUFFER_BYTES)).clamp(2, FAN_IN_MAX);
        let runs = reduce(&self.storage, std::mem::take(&mut self.runs), fan_in)?;
        merge(runs, sink)
    }
}

fn write_norms(segment: &Segment, norms: &[u8]) -> Result<()> {
    let file = segment
        .open_write(SegmentComponent::FieldNorms)
        .map_err(tantivy::TantivyError::from)?;
    let mut serializer = FieldNormsSerializer::from_write(file).map_err(from_io)?;
    serializer.serialize_field(field(), norms).map_err(from_io)?;
    serializer.close().map_err(from_io)
}

/// tantivy's serializer, as a sink.
struct Lists<'a> {
    lists: FieldSerializer<'a>,
    info: &'a mut TextInfo,
    output: &'a OutputDirectory,
    /// Bytes of postings and positions when the present term began.
    before: [u64; 2],
}

impl PostingSink for Lists<'_> {
    fn begin(&mut self, term: &[u8], span: Span) -> Result<()> {
        self.info.terms += 1;
        self.lists.new_term(term, span.rows, true).map_err(from_io)
    }

    fn row(&mut self, row: u32, deltas: &[u32]) -> Result<()> {
        self.lists.write_doc(row, deltas.len() as u32, deltas);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.lists.close_term().map_err(from_io)?;
        let now = [Section::Postings, Section::Positions].map(|section| self.output.written(section));
        let longest = [&mut self.info.longest_postings, &mut self.info.longest_positions];
        for ((longest, now), before) in longest.into_iter().zip(now).zip(self.before) {
            *longest = (*longest).max(now - before + BUFFERED);
        }
        self.before = now;
        Ok(())
    }
}

fn copy_out(output: &OutputDirectory, info: &mut TextInfo, sink: &mut dyn ByteSink) -> Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    for section in Section::ALL {
        let len = output.written(section);
        let temporary = output.take(section)?;
        let file = temporary.open()?;
        let mut offset = 0;
        while offset < len {
            let part = &mut buffer[..(len - offset).min(BUFFER_BYTES as u64) as usize];
            file.read_at(part, offset)?;
            sink.append(part)?;
            offset += part.len() as u64;
        }
        info.lengths[section as usize] = len;
    }
    sink.append(&info.encode())
}
