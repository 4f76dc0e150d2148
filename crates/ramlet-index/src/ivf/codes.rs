//! Searching codes in RAM: scan the nearest clusters' codes, keep the rows that may be among the nearest, read those
//! exactly, best first, until no further one can enter the result.

use std::ops::Range;

use ramlet_memory::AnonBuf;

use super::meta::Meta;
use super::search::{Ivf, sort_more};
use crate::{TopK, Want};
use crate::error::{IndexError, Result};
use crate::flat::check_stride;
use crate::quant::{CodeLayout, CodeQuery, Rotation};
use crate::rows_file::RowsFile;
use crate::scan::{Lists, Search};

/// Codes compared by one call of the kernels; their products lie on the stack.
const PRODUCTS: usize = 64;

/// Blocks of codes scanned between two looks at how many candidates there are.
const BLOCKS: u32 = 8;

/// Candidates kept until they must be read: at least so many, and so many times the rows that are wanted.
const CANDIDATES_MIN: usize = 1024;
const CANDIDATES_PER_WANTED: usize = 4;
/// But, unless more rows are wanted, at most so many (512 KiB).
const CANDIDATES_MAX: usize = 1 << 16;

/// Rows read at once after the first, smaller batch has shown how near the nearest are.
const RESCORED: usize = 64;

/// A file of codes in memory, and how to read it.
#[derive(Debug)]
pub(super) struct Codes {
    pub(super) file: RowsFile,
    layout: CodeLayout,
    rotation: Rotation,
}

/// One thread's memory for searching codes.
#[derive(Debug, Default)]
pub(crate) struct CodeLists {
    query: CodeQuery,
    candidates: Candidates,
}

/// Rows that may be among the nearest.
#[derive(Debug, Default)]
struct Candidates {
    /// Their least possible keys, and positions.
    list: Vec<(f32, u32)>,
    /// The smallest of their greatest possible keys: as many rows as are wanted lie within.
    uppers: TopK,
    /// Whether those rows are sure to be admitted, so that others may be dropped on their account.
    narrows: bool,
    /// Most candidates, but for those of one more run of blocks.
    room: usize,
}

impl Candidates {
    fn start(&mut self, wanted: usize, narrows: bool, rows_per_run: usize) {
        self.list.clear();
        self.uppers.clear(if narrows { wanted } else { 0 });
        self.narrows = narrows;
        let room = wanted.saturating_mul(CANDIDATES_PER_WANTED);
        self.room = room.clamp(CANDIDATES_MIN, CANDIDATES_MAX).max(wanted);
        self.list.reserve_exact(self.room + rows_per_run);
    }

    /// A key above this can't be among the nearest.
    fn limit(&self, top: &TopK) -> f32 {
        if self.narrows {
            self.uppers.threshold().min(top.threshold())
        } else {
            top.threshold()
        }
    }

    fn push(&mut self, lower: f32, upper: f32, position: u32) {
        // A sum that overflowed says nothing about the row.
        let lower = if lower.is_nan() { f32::NEG_INFINITY } else { lower };
        self.list.push((lower, position));
        if self.narrows {
            self.uppers.push(upper, position);
        }
    }

    /// Whether too many are left even when those that later ones have ruled out are gone.
    fn is_full(&mut self, top: &TopK) -> bool {
        if self.list.len() < self.room {
            return false;
        }
        let limit = self.limit(top);
        self.list.retain(|(lower, _)| *lower <= limit);
        self.list.len() > self.room / 2
    }
}

impl Codes {
    /// Rotates the centroids of `meta`, so that queries need be rotated once only.
    pub(super) fn new(file: RowsFile, meta: &mut Meta) -> Result<Codes> {
        let shape = meta.shape;
        let Some(bits) = shape.codes else {
            return Err(IndexError::Mismatch("the index was built without codes".into()));
        };
        check_stride(&file, bits.row_bytes(shape.dims))?;
        if file.rows() != shape.rows || !shape.metric.has_codes() {
            let rows = file.rows();
            return Err(IndexError::Mismatch(format!(
                "{shape:?} with {rows} rows of codes"
            )));
        }
        if shape.rows > 0 && !file.is_in_memory() {
            return Err(IndexError::Mismatch("the codes are not in memory".into()));
        }
        let rotation = Rotation::new(shape.dims);
        let (mut vector, mut scratch) = (Vec::with_capacity(shape.dims), Vec::new());
        for centroid in meta.centroids_mut().chunks_exact_mut(shape.dims * 4) {
            let (values, _) = centroid.as_chunks_mut::<4>();
            vector.clear();
            vector.extend(values.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            rotation.apply(&mut vector, &mut scratch);
            for (bytes, value) in values.iter_mut().zip(&vector) {
                *bytes = value.to_le_bytes();
            }
        }
        Ok(Codes {
            file,
            layout: CodeLayout::new(bits, shape.dims),
            rotation,
        })
    }

    pub(super) fn pages(&self) -> u64 {
        self.file.data_pages()
    }

    /// Compares the codes at consecutive positions, at most `BLOCKS` blocks.
    fn scan(
        &self,
        search: &mut Search<'_, '_>,
        lists: &mut CodeLists,
        wanted: Range<u32>,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let per_block = self.file.rows_per_block();
        let (first, end) = (wanted.start / per_block, wanted.end.div_ceil(per_block));
        let bytes = self.file.read_run(search.io, first, end - first, buf)?;
        let blocks = bytes.chunks_exact(self.file.block_bytes());
        for (block, start) in blocks.zip((first * per_block..).step_by(per_block as usize)) {
            let from = wanted.start.max(start);
            let to = wanted.end.min(start.saturating_add(per_block));
            let rows = &block[(from - start) as usize * self.layout.row_bytes()..];
            self.scan_rows(
                search,
                lists,
                &rows[..(to - from) as usize * self.layout.row_bytes()],
                from,
            );
        }
        Ok(())
    }

    fn scan_rows(&self, search: &mut Search<'_, '_>, lists: &mut CodeLists, rows: &[u8], first: u32) {
        let CodeLists { query, candidates } = lists;
        let (layout, row_bytes) = (&self.layout, self.layout.row_bytes());
        let mut products = [0i32; PRODUCTS];
        let mut limit = candidates.limit(search.top);
        let parts = rows.chunks(PRODUCTS * row_bytes);
        for (part, first) in parts.zip((first..).step_by(PRODUCTS)) {
            let products = &mut products[..part.len() / row_bytes];
            query.products(layout, search.query.kernels(), part, products);
            search.stats.codes_scored += products.len() as u64;
            for ((row, product), position) in part.chunks_exact(row_bytes).zip(&*products).zip(first..) {
                let estimate = query.estimate(layout, row, *product);
                let lower = estimate.key - estimate.error;
                // Almost every row ends here. (A NaN doesn't.)
                if lower > limit.max(search.reach.limit())
                    || !search.allowed.admits_by_bitmaps(estimate.number)
                {
                    continue;
                }
                search.reach.met(estimate.key, estimate.number);
                if lower > limit {
                    continue;
                }
                candidates.push(lower, estimate.key + estimate.error, position);
                limit = candidates.limit(search.top);
            }
        }
    }
}

impl Ivf {
    /// Visits the nearest clusters, and further ones while fewer rows are found than wanted or the filter admits fewer of
    /// those near the query than expected.
    pub(super) fn probe_codes(
        &self,
        codes: &Codes,
        search: &mut Search<'_, '_>,
        want: &Want,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        lists.codes.query.prepare(&codes.rotation, search.query.floats());
        self.rank(search.query, lists.codes.query.rotated(), &mut lists.clusters);
        let rows_per_run = (BLOCKS * codes.file.rows_per_block()) as usize;
        let narrows = search.allowed.filter.is_none();
        lists
            .codes
            .candidates
            .start(search.top.k(), narrows, rows_per_run);
        let mut visited = 0;
        while let Some(more) = self.more(search, want, visited) {
            if let Some(only) = self.better_listed(search, visited) {
                search.again = true;
                return self.listed(search, only, lists, buf);
            }
            let sorted = sort_more(&mut lists.clusters, visited, more);
            for place in visited..sorted {
                self.visit_codes(codes, search, lists.clusters[place].1, lists, buf)?;
            }
            visited = sorted;
            search.stats.probes = visited as u64;
            self.rescore(search, lists, buf)?;
        }
        Ok(())
    }

    fn visit_codes(
        &self,
        codes: &Codes,
        search: &mut Search<'_, '_>,
        cluster: u32,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let shape = &self.meta.shape;
        let centroid = &self.meta.centroids()[cluster as usize * shape.dims * 4..][..shape.dims * 4];
        let kernels = search.query.kernels();
        lists
            .codes
            .query
            .enter(shape.metric, &codes.layout, centroid, kernels);
        let mut rest = self.meta.positions(cluster);
        let per_block = codes.file.rows_per_block();
        while !rest.is_empty() {
            let end = (rest.start / per_block + BLOCKS)
                .saturating_mul(per_block)
                .min(rest.end);
            codes.scan(search, &mut lists.codes, rest.start..end, buf)?;
            rest.start = end;
            if lists.codes.candidates.is_full(search.top) {
                self.rescore(search, lists, buf)?;
            }
        }
        Ok(())
    }

    /// Reads the candidates, the likeliest first, until the next one can't enter the result; then there are none.
    fn rescore(&self, search: &mut Search<'_, '_>, lists: &mut Lists, buf: &mut AnonBuf) -> Result<()> {
        let Lists {
            reads,
            positions,
            codes: CodeLists { candidates, .. },
            ..
        } = lists;
        reads.clear();
        reads.reserve(RESCORED.max(search.top.k()));
        positions.clear();
        positions.reserve(RESCORED.max(search.top.k()));
        candidates
            .list
            .sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let (mut at, mut batch) = (0, search.top.k());
        while at < candidates.list.len() {
            let limit = candidates.limit(search.top);
            let next = candidates.list[at..].iter().take(batch.max(1));
            positions.clear();
            positions.extend(
                next.take_while(|(lower, _)| *lower <= limit)
                    .map(|(_, position)| position),
            );
            if positions.is_empty() {
                break;
            }
            (at, batch) = (at + positions.len(), RESCORED);
            positions.sort_unstable();
            search.scan_positions(&self.rows, positions, reads, buf)?;
        }
        candidates.list.clear();
        Ok(())
    }
}
