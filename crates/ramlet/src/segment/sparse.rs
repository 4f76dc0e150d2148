//! Sparse vectors of a segment: rows by number, and inverted lists over them.
//!
//! Lists are a sorted table of `dimension, row, weight`, terms one of `dimension, most, least, rows`: 4 bytes each, big endian
//! (weights by their bits). A search goes through windows of rows; within one it adds up list after list, those that can
//! contribute most first (MaxScore: Turtle and Flood 1995). Once the hits so far are beyond what the lists that are left can
//! give, these are read only as far as a row that was met might still enter, so the result is exact.

use ramlet_format::component::Component;
use ramlet_format::manifest::{FileEntry, SegmentEntry};
use ramlet_format::sorted::SortedWriter;
use ramlet_index::{
    Allowed, IndexError, IndexScratch, IndexSearchParams, MemoryUse, Query, SearchStats, SparseRow, TopK,
    VectorIndex, sparse_distance,
};
use ramlet_io::{IoContext, PAGE};
use ramlet_memory::AnonBuf;

use super::files::FileContext;
use super::job::Job;
use super::names::{seed, segment_file};
use super::records::{RecordsColumn, index_failure, rows_of_records};
use super::sink::Sink;
use super::sink::push_key;
use super::sorter::Sorter;
use super::table::TableFile;
use crate::error::{Error, Result};
use crate::read::sums::Sums;

/// Postings about as dear as reading one row.
const POSTINGS_PER_ROW: u64 = 256;
/// What a bound is raised by, so that the order of additions never hides a row.
const SLACK: f64 = 1e-9;

/// A column of sparse vectors.
pub struct SparseColumn {
    rows: RecordsColumn,
    lists: TableFile,
    terms: TableFile,
    segment_rows: u32,
}

/// A dimension of a query that the segment has.
struct Term {
    dim: u32,
    weight: f64,
    /// Most that it adds to a row's sum, at least 0.
    most: f64,
    rows: u64,
}

impl SparseColumn {
    /// `None`: the segment has no lists of this vector.
    pub fn open(
        file_context: &FileContext,
        entry: &SegmentEntry,
        slot: u16,
        rows: RecordsColumn,
        io: &mut IoContext,
    ) -> Result<std::result::Result<SparseColumn, RecordsColumn>> {
        let files = (
            entry.file(Component::Postings { slot }),
            entry.file(Component::Terms { slot }),
        );
        let (Some(lists), Some(terms)) = files else {
            return Ok(Err(rows));
        };
        Ok(Ok(SparseColumn {
            rows,
            lists: TableFile::open(file_context, entry.id, lists, io)?,
            terms: TableFile::open(file_context, entry.id, terms, io)?,
            segment_rows: entry.rows,
        }))
    }

    /// Most and least weight of a dimension, and in how many rows it is.
    fn term(&self, dim: u32, io: &mut IoContext, buf: &mut AnonBuf) -> Result<Option<(f32, f32, u32)>> {
        let mut found = None;
        self.terms.from(&dim.to_be_bytes(), io, buf, &mut |value, rows| {
            let (words, _) = value.as_chunks::<4>();
            if let [known, most, least] = words
                && u32::from_be_bytes(*known) == dim
            {
                found = Some((f32::from_be_bytes(*most), f32::from_be_bytes(*least), rows));
            }
            false
        })?;
        Ok(found)
    }

    fn terms_of(&self, query: &[(u32, f32)], io: &mut IoContext, buf: &mut AnonBuf) -> Result<Vec<Term>> {
        let mut terms = Vec::with_capacity(query.len());
        for &(dim, weight) in query {
            if let Some((most, least, rows)) = self.term(dim, io, buf)? {
                let weight = f64::from(weight);
                let most = (weight * f64::from(most)).max(weight * f64::from(least)).max(0.0);
                let rows = u64::from(rows);
                terms.push(Term {
                    dim,
                    weight,
                    most,
                    rows,
                });
            }
        }
        terms.sort_by(|a, b| b.most.total_cmp(&a.most));
        Ok(terms)
    }

    /// Calls `each(row, weight)` for a list's rows from `from` on, below `to`.
    fn postings(
        &self,
        dim: u32,
        (from, to): (u32, u32),
        io: &mut IoContext,
        buf: &mut AnonBuf,
        each: &mut dyn FnMut(u32, f32),
    ) -> Result<()> {
        let key = |row: u32| (u64::from(dim) << 32 | u64::from(row)).to_be_bytes();
        self.lists
            .range((&key(from), &key(to)), io, buf, &mut |value, bits| {
                if let Some(row) = value.last_chunk::<4>() {
                    each(u32::from_be_bytes(*row), f32::from_bits(bits));
                }
                true
            })
    }
}

/// The key of the best that a sum may become.
fn bound(sum: f64, more: f64) -> f32 {
    let most = sum + more;
    sparse_distance(Some(most + most.abs() * SLACK))
}

impl SparseColumn {
    /// The rows of a window, list after list; false: none of them can enter.
    fn add_up(
        &self,
        terms: &[Term],
        top: &TopK,
        sums: &mut Sums,
        stats: &mut SearchStats,
        (io, buf): (&mut IoContext, &mut AnonBuf),
    ) -> Result<bool> {
        let mut left: f64 = terms.iter().map(|term| term.most).sum();
        let end = sums.first.saturating_add(Sums::WINDOW).min(self.segment_rows);
        for term in terms {
            let known = !top.would_enter(bound(0.0, left), sums.first);
            if known
                && !sums
                    .iter()
                    .any(|(row, sum)| top.would_enter(bound(sum, left), row))
            {
                return Ok(false);
            }
            let first = sums.first;
            self.postings(term.dim, (first, end), io, buf, &mut |row, weight| {
                stats.codes_scored += 1;
                if let Some(at) = sums.place(row, known) {
                    sums.add(at, term.weight * f64::from(weight));
                }
            })?;
            left = (left - term.most).max(0.0);
        }
        Ok(true)
    }

    fn search_lists(
        &self,
        terms: &[Term],
        allowed: &mut Allowed<'_>,
        stats: &mut SearchStats,
        (io, buf): (&mut IoContext, &mut AnonBuf),
        top: &mut TopK,
    ) -> ramlet_index::Result<()> {
        let mut sums = Sums::new(self.segment_rows);
        for first in (0..self.segment_rows).step_by(Sums::WINDOW as usize) {
            let end = first.saturating_add(Sums::WINDOW);
            if allowed
                .only
                .is_some_and(|only| only.range_cardinality(first..end) == 0)
            {
                continue;
            }
            sums.begin(first);
            let some = self.add_up(terms, top, &mut sums, stats, (io, buf));
            if !some.map_err(index_failure)? {
                continue;
            }
            for (row, sum) in sums.iter() {
                stats.rows_scored += 1;
                let key = sparse_distance(Some(sum));
                if top.would_enter(key, row) {
                    stats.rows_checked += 1;
                    if allowed.admits(row, io)? {
                        top.push(key, row);
                    }
                }
            }
        }
        Ok(())
    }
}

impl VectorIndex for SparseColumn {
    fn search(
        &self,
        query: &Query,
        want: &IndexSearchParams,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        top: &mut TopK,
    ) -> ramlet_index::Result<()> {
        let Some(entries) = query.sparse() else {
            return Err(IndexError::Mismatch("a dense query over sparse rows".into()));
        };
        scratch.stats = SearchStats::default();
        let mut buf = AnonBuf::new(0);
        let terms = self.terms_of(entries, io, &mut buf).map_err(index_failure)?;
        let postings: u64 = terms.iter().map(|term| term.rows).sum();
        // Few rows are rather compared themselves.
        if let Some(only) = allowed.only
            && only.len() * POSTINGS_PER_ROW < postings
        {
            return self.rows.search(query, want, allowed, scratch, io, top);
        }
        self.search_lists(&terms, allowed, &mut scratch.stats, (io, &mut buf), top)
    }

    fn search_bytes(&self, _: &Query, _: &IndexSearchParams, _: &Allowed<'_>, _: usize) -> u64 {
        Sums::BYTES + 17 * PAGE as u64
    }

    rows_of_records!(rows);

    fn document_frequencies(
        &self,
        dims: &[u32],
        _: &mut IndexScratch,
        io: &mut IoContext,
        counts: &mut [u64],
    ) -> ramlet_index::Result<()> {
        let mut buf = AnonBuf::new(0);
        for (dim, count) in dims.iter().zip(counts) {
            let term = self.term(*dim, io, &mut buf).map_err(index_failure)?;
            *count += term.map_or(0, |(_, _, rows)| u64::from(rows));
        }
        Ok(())
    }

    fn memory(&self) -> MemoryUse {
        let rows = self.rows.memory();
        MemoryUse {
            heap_bytes: rows.heap_bytes + self.lists.heap_bytes() + self.terms.heap_bytes(),
            pinned_bytes: 0,
            disk_bytes: rows.disk_bytes + self.lists.disk_bytes() + self.terms.disk_bytes(),
        }
    }

    fn kind(&self) -> &'static str {
        "sparse"
    }
}

/// Sorts the weights of a segment by dimension, in a job's memory.
pub struct ListsBuilder {
    segment: u64,
    slot: u16,
    sorter: Sorter,
}

impl ListsBuilder {
    pub fn new(segment: u64, slot: u16, job: &Job<'_>) -> ListsBuilder {
        let (storage, bytes) = (job.storage.clone(), job.scratch_bytes / 4);
        let sorter = Sorter::new(
            storage,
            format!("{segment}-p{slot}"),
            bytes,
            job.scratch_bytes / 2,
        );
        ListsBuilder {
            segment,
            slot,
            sorter,
        }
    }

    pub fn push(&mut self, row: u32, bytes: &[u8]) -> Result<()> {
        let vector =
            SparseRow::parse(bytes).ok_or_else(|| Error::corrupt("a sparse row that doesn't decode"))?;
        let mut key = [0; 12];
        for (dim, weight) in vector.iter() {
            key[..4].copy_from_slice(&dim.to_be_bytes());
            key[4..8].copy_from_slice(&row.to_be_bytes());
            key[8..].copy_from_slice(&weight.to_bits().to_be_bytes());
            self.sorter.push(&key)?;
        }
        Ok(())
    }

    /// Writes the lists and their directory.
    pub fn finish(self, job: &mut Job<'_>, files: &mut Vec<FileEntry>) -> Result<()> {
        let (segment, slot) = (self.segment, self.slot);
        let table = |component| -> Result<(SortedWriter, Sink)> {
            let sink = Sink::create(job.storage.as_ref(), segment_file(segment, component), component)?;
            Ok((SortedWriter::new(seed(segment, component)), sink))
        };
        let (mut lists, mut lists_sink) = table(Component::Postings { slot })?;
        let (mut terms, mut terms_sink) = table(Component::Terms { slot })?;
        let mut current: Option<Directory> = None;
        self.sorter.finish(job.io, &mut |key| {
            push_key(&mut lists, key, &mut lists_sink)?;
            let (words, _) = key.as_chunks::<4>();
            let &[dim, _, bits] = words else {
                return Err(Error::corrupt("a posting of the wrong length"));
            };
            let weight = f32::from_be_bytes(bits);
            match &mut current {
                Some(term) if term.dim == dim => term.add(weight),
                _ => {
                    if let Some(done) = current.replace(Directory::new(dim, weight)) {
                        push_key(&mut terms, &done.key(), &mut terms_sink)?;
                    }
                }
            }
            Ok(())
        })?;
        if let Some(done) = current {
            push_key(&mut terms, &done.key(), &mut terms_sink)?;
        }
        lists.finish(&mut lists_sink.out);
        files.push(lists_sink.finish()?);
        terms.finish(&mut terms_sink.out);
        files.push(terms_sink.finish()?);
        Ok(())
    }
}

/// What the directory says of a dimension.
struct Directory {
    dim: [u8; 4],
    most: f32,
    least: f32,
    rows: u32,
}

impl Directory {
    fn new(dim: [u8; 4], weight: f32) -> Directory {
        Directory {
            dim,
            most: weight,
            least: weight,
            rows: 1,
        }
    }

    fn add(&mut self, weight: f32) {
        self.most = self.most.max(weight);
        self.least = self.least.min(weight);
        self.rows += 1;
    }

    fn key(&self) -> [u8; 16] {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&self.dim);
        key[4..8].copy_from_slice(&self.most.to_be_bytes());
        key[8..12].copy_from_slice(&self.least.to_be_bytes());
        key[12..].copy_from_slice(&self.rows.to_be_bytes());
        key
    }
}
