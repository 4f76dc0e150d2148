//! Searching: rank the clusters, read the nearest in a few large batches, score their rows exactly.

use ramlet_format::envelope::{self, EnvelopeKind};
use ramlet_io::IoContext;
use ramlet_memory::AnonBuf;
use roaring::RoaringBitmap;

use super::build::NO_POSITION;
use super::calibrate::Calibration;
use super::centroids::AT_ONCE;
use super::meta::Meta;
use crate::error::{IndexError, Result};
use crate::flat::{ALONE_COST, LISTED_ROWS, check_stride, read_positions, stream};
use crate::rows_file::RowsFile;
use crate::scan::{IndexScratch, Lists, RowNumber, Search, SearchStats, trailing_number};
use crate::vector_index::{EFFORT_DEFAULT, MemoryUse, VectorIndex, Want};
use crate::{Allowed, Element, Metric, Query, TopK};

/// An inverted file: vectors lie in clusters, and a search visits those whose centroids are nearest to the query.
///
/// RAM: the centroids (`4 * dims` bytes each) and 4 bytes per cluster, no byte per vector. A search of `p` of `K`
/// clusters compares `K` centroids, reads about `p / K` of the file in batches as large as the scratch's buffer, and
/// scores what it read exactly. How many clusters reach the recall target was measured at build on held-out rows.
///
/// Sivic and Zisserman, "Video Google" (2003); Jégou, Douze, Schmid, "Product Quantization for Nearest Neighbor
/// Search" (2011), section IV.
#[derive(Debug)]
pub struct Ivf {
    rows: RowsFile,
    positions: RowsFile,
    meta: Meta,
    recall: f32,
}

/// The clusters visited hold at least so many times the rows that are wanted.
const ROOM: f64 = 2.0;

/// How a search goes about it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// All rows, in the order of the file.
    All,
    /// Only the rows of the bitmap, each by its position.
    Listed,
    /// So many clusters.
    Probe(u32),
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
            recall,
        })
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

    /// Clusters that a search visits at least for its `wanted` nearest, at this effort.
    pub fn probes(&self, wanted: f64, effort: Option<u32>) -> u32 {
        let calibrated = self.meta.calibration.probes(self.recall, wanted, self.clusters());
        // What was measured at 10 and 100 says little about 10,000; but so many rows must be there to be found.
        let clusters_of_wanted = wanted * f64::from(self.clusters()) / f64::from(self.rows().max(1));
        let calibrated = calibrated.max((ROOM * clusters_of_wanted).ceil() as u32);
        let effort = u64::from(effort.unwrap_or(EFFORT_DEFAULT));
        let probes = (u64::from(calibrated) * effort).div_ceil(u64::from(EFFORT_DEFAULT));
        (probes.min(u64::from(self.clusters())) as u32).max(1)
    }

    /// The cheapest way, counted in pages read in sequence.
    fn way(&self, want: &Want, allowed: &Allowed<'_>, k: usize) -> Way {
        let all = self.rows.data_pages();
        let listed = allowed.only.map(|only| {
            let each = u64::from(self.rows.block_pages());
            (only.len() * each * ALONE_COST).saturating_add(self.positions.data_pages().min(only.len()))
        });
        let (way, pages) = match want.exact {
            true => (Way::All, all),
            false => {
                // The k nearest among those allowed are about the k / share nearest of all.
                let wanted = k as f64 / allowed.share(u64::from(self.meta.shape.rows));
                let probes = self.probes(wanted, want.effort);
                let pages = (all / u64::from(self.clusters()) + 1) * u64::from(probes);
                if pages < all {
                    (Way::Probe(probes), pages)
                } else {
                    (Way::All, all)
                }
            }
        };
        if listed.is_some_and(|listed| listed < pages) {
            Way::Listed
        } else {
            way
        }
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

    /// Visits the nearest `probes` clusters, and further ones while fewer rows are found than wanted.
    fn probe(
        &self,
        search: &mut Search<'_, '_>,
        probes: u32,
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        self.rank(search.query, &mut lists.clusters);
        let mut sorted = 0;
        let mut visited = 0;
        let enough = probes as usize;
        while visited < enough || (search.top.len() < search.top.k() && visited < lists.clusters.len()) {
            if visited == sorted {
                sorted = sort_more(&mut lists.clusters, sorted, enough);
            }
            visited += self.visit(search, visited..sorted, lists, buf)?;
        }
        search.stats.probes = visited as u64;
        Ok(())
    }

    /// Every cluster with its key.
    fn rank(&self, query: &Query, clusters: &mut Vec<(f32, u32)>) {
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
            query.key_centroids(centroids, keys);
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
    fn listed(
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
        let IndexScratch { stats, buf, lists } = scratch;
        *stats = SearchStats::default();
        let (way, only) = (self.way(want, allowed, top.k()), allowed.only);
        let mut search = Search {
            query,
            allowed,
            io,
            top,
            stats,
            numbers: RowNumber::Trailing,
        };
        match (way, only) {
            (Way::Listed, Some(only)) => self.listed(&mut search, only, lists, buf),
            (Way::Probe(probes), _) => self.probe(&mut search, probes, lists, buf),
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
        let files = [self.rows.file(), self.positions.file()];
        let centroids = self.meta.memory_bytes();
        MemoryUse {
            heap_bytes: centroids,
            pinned_bytes: files.iter().map(|file| file.pinned_bytes()).sum(),
            disk_bytes: files.iter().map(|file| file.len()).sum::<u64>() + centroids,
        }
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
fn sort_more(clusters: &mut [(f32, u32)], sorted: usize, more: usize) -> usize {
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
