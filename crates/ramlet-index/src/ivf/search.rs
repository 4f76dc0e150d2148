//! Searching: rank the clusters, read the nearest in a few large batches, score their rows exactly.
//!
//! With codes in RAM the nearest are not read but their codes are compared: see `codes`.

use ramlet_format::envelope::{self, EnvelopeKind};
use ramlet_io::IoContext;
use ramlet_memory::AnonBuf;
use roaring::RoaringBitmap;

use super::build::NO_POSITION;
use super::calibrate::Calibration;
use super::centroids::AT_ONCE;
use super::codes::Codes;
use super::meta::Meta;
use super::reach::Reach;
use crate::error::{IndexError, Result};
use crate::flat::{ALONE_COST, LISTED_ROWS, check_stride, read_positions, stream};
use crate::report::IndexReport;
use crate::rows_file::RowsFile;
use crate::scan::{IndexScratch, Lists, RowNumber, Search, SearchStats, trailing_number};
use crate::vector_index::{EFFORT_DEFAULT, MemoryUse, VectorIndex, Want};
use crate::{Allowed, CodeBits, Element, Metric, Query, TopK};

/// An inverted file: vectors lie in clusters, and a search visits those whose centroids are nearest to the query.
///
/// RAM: the centroids (`4 * dims` bytes each) and 4 bytes per cluster, no byte per vector. A search of `p` of `K`
/// clusters compares `K` centroids, reads about `p / K` of the file in batches as large as the scratch's buffer, and
/// scores what it read exactly; with codes in RAM ([`Ivf::with_codes`]) it reads some rows one by one instead. How many clusters reach the recall target was measured at build on held-out rows.
///
/// Sivic and Zisserman, "Video Google" (2003); Jégou, Douze, Schmid, "Product Quantization for Nearest Neighbor
/// Search" (2011), section IV.
#[derive(Debug)]
pub struct Ivf {
    pub(super) rows: RowsFile,
    pub(super) positions: RowsFile,
    /// With codes its centroids are rotated as the codes are.
    pub(super) meta: Meta,
    pub(super) codes: Option<Codes>,
    recall: f32,
}

/// The clusters visited hold at least so many times the rows that are wanted.
const ROOM: f64 = 2.0;

/// Share of the neighbours not found that may be due to the codes' errors.
const CODES_LOSE: f32 = 0.1;

/// Pages of codes that are compared in the time of reading and comparing one page of rows in sequence (an estimate).
const CODE_PAGES: u64 = 8;

/// Rows read from disk per row wanted, when codes were searched (about, at 4 bits and 100 dimensions).
const READS_PER_WANTED: f64 = 3.0;

/// A filtered search that has visited clusters for this part of what comparing all matching rows costs, and hasn't found
/// enough, compares all matching rows: one over this is the most that is lost.
const PROBED_BEFORE_LISTED: u64 = 5;

/// How a search goes about it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// All rows, in the order of the file.
    All,
    /// Only the rows of the bitmap, each by its position.
    Listed,
    /// The nearest clusters.
    Probe,
}

impl Ivf {
    /// `centroids` holds the whole file of centroids, which stays in RAM; its reservation is the index's. `recall`
    /// (0 to 1) is the target that effort 128 aims at, over the 10 nearest.
    pub fn open(rows: RowsFile, positions: RowsFile, centroids: AnonBuf, recall: f32) -> Result<Ivf> {
        let body = envelope::decode(EnvelopeKind::Centroids, &centroids)?.len();
        let meta = Meta::parse(centroids, envelope::HEADER_BYTES..envelope::HEADER_BYTES + body)?;
        let shape = meta.shape;
        check_stride(&rows, shape.element.row_bytes(shape.dims) + 4)?;
        check_stride(&positions, 4)?;
        if rows.rows() != shape.rows || positions.rows() != shape.segment_rows {
            let (rows, positions) = (rows.rows(), positions.rows());
            return Err(IndexError::Mismatch(format!(
                "{shape:?} with {rows} rows and {positions} positions"
            )));
        }
        Ok(Ivf {
            rows,
            positions,
            meta,
            codes: None,
            recall,
        })
    }

    /// Searches the codes from now on, and reads from disk only the rows that they can't decide about.
    ///
    /// `codes` must be in memory (pinned, or in a storage that is): each search scans parts of it. Fails if it isn't,
    /// if the index was built without codes, or if they are of another shape.
    pub fn with_codes(mut self, codes: RowsFile) -> Result<Ivf> {
        self.codes = Some(Codes::new(codes, &mut self.meta)?);
        Ok(self)
    }

    /// Bits of the codes that were built beside the rows, whether this opening searches them or not.
    pub fn code_bits(&self) -> Option<CodeBits> {
        self.meta.shape.codes
    }

    pub fn metric(&self) -> Metric {
        self.meta.shape.metric
    }

    pub fn element(&self) -> Element {
        self.meta.shape.element
    }

    pub fn dims(&self) -> usize {
        self.meta.shape.dims
    }

    pub fn clusters(&self) -> u32 {
        self.meta.shape.clusters as u32
    }

    /// What was measured at build.
    pub fn calibration(&self) -> &Calibration {
        &self.meta.calibration
    }

    /// Clusters that a search visits at least for its `wanted` nearest.
    pub fn probes(&self, wanted: f64, want: &Want) -> u32 {
        let recall = want.recall.unwrap_or(self.recall);
        // What the codes lose is made up for by more clusters, which they make cheap.
        let lost = if self.codes.is_some() { CODES_LOSE } else { 0.0 };
        let recall = recall + (1.0 - recall) * lost;
        let calibrated = self.meta.calibration.probes(recall, wanted, self.clusters());
        // What was measured at 10 and 100 says little about 10,000; but so many rows must be there to be found.
        let clusters_of_wanted = wanted * f64::from(self.clusters()) / f64::from(self.rows().max(1));
        let calibrated = calibrated.max((ROOM * clusters_of_wanted).ceil() as u32);
        let effort = u64::from(want.effort.unwrap_or(EFFORT_DEFAULT));
        let probes = (u64::from(calibrated) * effort).div_ceil(u64::from(EFFORT_DEFAULT));
        (probes.min(u64::from(self.clusters())) as u32).max(1)
    }

    /// The cheapest way, counted in pages read in sequence.
    fn way(&self, want: &Want, allowed: &Allowed<'_>, k: usize) -> Way {
        let all = self.rows.data_pages();
        let (way, pages) = match want.exact {
            true => (Way::All, all),
            false => {
                // The k nearest among those allowed are about the k / share nearest of all.
                let wanted = k as f64 / allowed.share(u64::from(self.meta.shape.segment_rows));
                let probes = self.probes(wanted, want);
                let pages = self.probe_pages(probes, k, allowed);
                let few = self.codes.is_some() && self.reads(k, allowed) < u64::from(self.rows()) / 4;
                if pages < all || few {
                    (Way::Probe, pages)
                } else {
                    (Way::All, all)
                }
            }
        };
        // The rounds of a filtered search go further than expected rather than less far.
        let pages = if want.exact { pages } else { PROBED_BEFORE_LISTED * pages };
        if allowed.only.is_some_and(|only| self.listed_pages(only) < pages) {
            Way::Listed
        } else {
            way
        }
    }

    /// What comparing the rows of a bitmap costs.
    fn listed_pages(&self, only: &RoaringBitmap) -> u64 {
        let rows = self.alone(&self.rows, only.len());
        let positions = self.positions.data_pages().min(only.len());
        rows.saturating_add(if self.positions.is_in_memory() {
            only.len().div_ceil(u64::from(self.positions.rows_per_block()))
        } else {
            positions
        })
    }

    /// What so many rows cost, each for itself.
    fn alone(&self, file: &RowsFile, rows: u64) -> u64 {
        match file.is_in_memory() {
            // A miss of the cache for each.
            true => (2 * rows).div_ceil(u64::from(file.rows_per_block())) * u64::from(file.block_pages()),
            false => rows * u64::from(file.block_pages()) * ALONE_COST,
        }
    }

    /// Rows read after searching codes: what a filter will refuse is read too.
    fn reads(&self, k: usize, allowed: &Allowed<'_>) -> u64 {
        let share = f64::from(allowed.filter_share.unwrap_or(1.0)).max(1e-6);
        (k as f64 * READS_PER_WANTED / share) as u64
    }

    /// What visiting so many clusters costs.
    fn probe_pages(&self, probes: u32, k: usize, allowed: &Allowed<'_>) -> u64 {
        let clusters = u64::from(self.clusters());
        match &self.codes {
            Some(codes) => {
                let scanned = codes.pages() * u64::from(probes) / clusters / CODE_PAGES;
                scanned + self.alone(&self.rows, self.reads(k, allowed))
            }
            None => (self.rows.data_pages() / clusters + 1) * u64::from(probes),
        }
    }

    /// How many further clusters are to be visited after `visited`; `None`: enough is found.
    pub(super) fn more(&self, search: &mut Search<'_, '_>, want: &Want, visited: usize) -> Option<usize> {
        let k = search.top.k();
        if visited == 0 {
            let share = search.allowed.share(u64::from(self.meta.shape.segment_rows));
            return Some(search.reach.first(k, share, |wanted| self.probes(wanted, want)));
        }
        let recall = want.recall.unwrap_or(self.recall);
        let enough = search.reach.is_settled(recall) && search.top.len() >= k;
        (!enough && visited < self.meta.shape.clusters).then(|| Reach::next(visited))
    }

    /// The rows of the bitmap, when visiting further clusters won't cost much less than comparing all of them.
    pub(super) fn better_listed<'a>(&self, search: &Search<'_, 'a>, visited: usize) -> Option<&'a RoaringBitmap> {
        let only = search.allowed.only?;
        let so_far = self.probe_pages(visited as u32, search.top.k(), search.allowed);
        (self.listed_pages(only) < PROBED_BEFORE_LISTED * so_far).then_some(only)
    }

    fn check(&self, query: &Query) -> Result<()> {
        let shape = self.meta.shape;
        if (query.metric(), query.element(), query.dims()) == (shape.metric, shape.element, shape.dims) {
            return Ok(());
        }
        let query = (query.metric(), query.element(), query.dims());
        Err(IndexError::Mismatch(format!(
            "a query of {query:?} over {shape:?}"
        )))
    }

    /// Visits the nearest clusters, and further ones while fewer rows are found than wanted or the filter admits fewer of
    /// those near the query than expected.
    fn probe(
        &self,
        search: &mut Search<'_, '_>,
        want: &Want,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        self.rank(search.query, search.query.floats(), &mut lists.clusters);
        let mut visited = 0;
        while let Some(more) = self.more(search, want, visited) {
            if let Some(only) = self.better_listed(search, visited) {
                search.again = true;
                return self.listed(search, only, lists, buf);
            }
            let sorted = sort_more(&mut lists.clusters, visited, more);
            while visited < sorted {
                visited += self.visit(search, visited..sorted, lists, buf)?;
            }
            search.stats.probes = visited as u64;
        }
        Ok(())
    }

    /// Every cluster with its key; `floats` are the query's, in the space of the centroids.
    pub(super) fn rank(&self, query: &Query, floats: &[f32], clusters: &mut Vec<(f32, u32)>) {
        clusters.clear();
        let stride = self.meta.shape.dims * 4;
        let mut keys = [0.0f32; AT_ONCE];
        for (centroids, first) in self
            .meta
            .centroids()
            .chunks(AT_ONCE * stride)
            .zip((0..).step_by(AT_ONCE))
        {
            let keys = &mut keys[..centroids.len() / stride];
            query.key_centroids_of(floats, centroids, keys);
            clusters.extend(keys.iter().copied().zip(first..));
        }
    }

    /// Visits as many of the ranked clusters as fit the buffer (one at least), with one batch of reads; how many.
    fn visit(
        &self,
        search: &mut Search<'_, '_>,
        ranked: std::ops::Range<usize>,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<usize> {
        let Lists {
            reads,
            clusters,
            ranges,
            ..
        } = lists;
        let room = self.rows.blocks_in(buf)?;
        let per_block = self.rows.rows_per_block();
        let blocks = |range: &std::ops::Range<u32>| range.start / per_block..range.end.div_ceil(per_block);
        ranges.clear();
        let (mut taken, mut used) = (0, 0);
        for (_, cluster) in &clusters[ranked] {
            let range = self.meta.positions(*cluster);
            let needed = if range.is_empty() {
                0
            } else {
                blocks(&range).len() as u32
            };
            let gathered = needed <= room && !self.rows.is_in_memory();
            if !gathered {
                // Too large for the buffer, or nothing to wait for.
                search.scan_run(&self.rows, range, buf)?;
            } else if used + needed > room {
                break;
            } else if needed > 0 {
                ranges.push(range);
                used += needed;
            }
            taken += 1;
        }
        if ranges.is_empty() {
            return Ok(taken);
        }
        join_neighbours(ranges);
        reads.clear();
        for range in &*ranges {
            blocks(range).for_each(|block| self.rows.plan_block(block, reads));
        }
        search.stats.reads += ranges.len() as u64;
        search.stats.pages_read += reads.len() as u64 * u64::from(self.rows.block_pages());
        let mut bytes = self.rows.read_many(search.io, reads, buf)?;
        for range in &*ranges {
            let (now, later) = bytes.split_at(blocks(range).len() * self.rows.block_bytes());
            search.score_blocks(&self.rows, now, range.start / per_block, range.clone())?;
            bytes = later;
        }
        Ok(taken)
    }

    /// Visits the listed rows by their positions.
    pub(super) fn listed(
        &self,
        search: &mut Search<'_, '_>,
        only: &RoaringBitmap,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        let Lists {
            reads,
            positions,
            rows,
            ..
        } = lists;
        let mut listed = only.range(..self.meta.shape.segment_rows);
        loop {
            rows.clear();
            rows.extend(listed.by_ref().take(LISTED_ROWS));
            if rows.is_empty() {
                return Ok(());
            }
            self.find_positions(rows, positions, reads, buf, search.io)?;
            search.scan_positions(&self.rows, positions, reads, buf)?;
        }
    }

    /// The positions of ascending rows, ascending; rows without a vector have none.
    fn find_positions(
        &self,
        rows: &[u32],
        positions: &mut Vec<u32>,
        reads: &mut Vec<(u64, u32)>,
        buf: &mut AnonBuf,
        io: &mut IoContext,
    ) -> Result<()> {
        positions.clear();
        read_positions(&self.positions, rows, reads, buf, io, &mut |row, bytes| {
            match trailing_number(bytes)? {
                NO_POSITION => {}
                position if position < self.meta.shape.rows => positions.push(position),
                position => {
                    return Err(IndexError::Mismatch(format!(
                        "row {row} has the position {position}"
                    )));
                }
            }
            Ok(())
        })?;
        positions.sort_unstable();
        Ok(())
    }
}

impl VectorIndex for Ivf {
    fn search(
        &self,
        query: &Query,
        want: &Want,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        top: &mut TopK,
    ) -> Result<()> {
        self.check(query)?;
        let IndexScratch {
            stats,
            buf,
            lists,
            reach,
        } = scratch;
        reach.start(top.k(), allowed);
        *stats = SearchStats::default();
        let (way, only) = (self.way(want, allowed, top.k()), allowed.only);
        let mut search = Search {
            query,
            allowed,
            io,
            top,
            stats,
            numbers: RowNumber::Trailing,
            again: false,
            reach,
        };
        match (way, only) {
            (Way::Listed, Some(only)) => self.listed(&mut search, only, lists, buf),
            (Way::Probe, _) => match &self.codes {
                Some(codes) => self.probe_codes(codes, &mut search, want, lists, buf),
                None => self.probe(&mut search, want, lists, buf),
            },
            (Way::All | Way::Listed, _) => search.scan_run(&self.rows, 0..self.meta.shape.rows, buf),
        }
    }

    fn read_rows(
        &self,
        rows: &[u32],
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let IndexScratch {
            buf,
            lists:
                Lists {
                    reads,
                    positions,
                    rows: sorted,
                    ..
                },
            ..
        } = scratch;
        for rows in rows.chunks(LISTED_ROWS) {
            sorted.clear();
            sorted.extend(rows.iter().filter(|row| **row < self.meta.shape.segment_rows));
            sorted.sort_unstable();
            self.find_positions(sorted, positions, reads, buf, io)?;
            read_positions(&self.rows, positions, reads, buf, io, &mut |_, row| {
                split(row, each)
            })?;
        }
        Ok(())
    }

    fn for_each_row(
        &self,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        stream(&self.rows, &mut scratch.buf, io, &mut |_, row| split(row, each))
    }

    fn rows(&self) -> u32 {
        self.meta.shape.rows
    }

    fn memory(&self) -> MemoryUse {
        let codes = self.codes.as_ref().map(|codes| codes.file.file());
        let files = || [self.rows.file(), self.positions.file()].into_iter().chain(codes);
        let centroids = self.meta.memory_bytes();
        MemoryUse {
            heap_bytes: centroids,
            pinned_bytes: files().map(|file| file.pinned_bytes()).sum(),
            disk_bytes: files().map(|file| file.len()).sum::<u64>() + centroids,
        }
    }

    fn report(&self) -> IndexReport {
        self.described()
    }

    fn kind(&self) -> &'static str {
        "ivf"
    }
}

/// Hands on a stored row: the vector, and the number behind it.
fn split(row: &[u8], each: &mut dyn FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
    each(trailing_number(row)?, &row[..row.len().saturating_sub(4)])
}

/// Sorts at least `more` further clusters behind the first `sorted`; how many are sorted now.
pub(super) fn sort_more(clusters: &mut [(f32, u32)], sorted: usize, more: usize) -> usize {
    let order = |a: &(f32, u32), b: &(f32, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    let rest = &mut clusters[sorted..];
    let more = more.min(rest.len());
    if more < rest.len() {
        rest.select_nth_unstable_by(more, order);
    }
    rest[..more].sort_unstable_by(order);
    sorted + more
}

/// Sorts the clusters of one batch by place and joins those that follow each other: fewer, longer reads.
fn join_neighbours(ranges: &mut Vec<std::ops::Range<u32>>) {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, range| {
        let follows = range.end == next.start;
        if follows {
            range.end = next.end;
        }
        follows
    });
}
