//! Searches: ranks the clusters, reads the nearest in a few large batches, and scores their rows exactly.
//!
//! With codes in RAM the nearest are not read but their codes are compared: see `codes`.

use ramlet_io::IoContext;
use ramlet_kernels::unpacked;
use ramlet_memory::AnonBuf;

use super::candidates::Candidates;
use super::inverted_file::Ivf;
use super::lists::Lists;
use super::products::ProductLists;
use super::ranked::Ranked;
use super::row_bitmap::RowBitmap;
use super::strategy::SearchStrategy;
use super::visit_order::sort_more;
use crate::centroids::SeedCentroids;
use crate::error::{IndexError, Result};
use crate::quant::Rotation;
use crate::report::IndexReport;
use crate::rows::cached_rows::CachedRows;
use crate::rows::positions::read_listed;
use crate::rows::reading::{stream, trailing_number};
use crate::rows::scan::{RowNumber, Search};
use crate::search::calibration::{ALL_SUPER_CENTROIDS, Rule};
use crate::search::rounds::Rounds;
use crate::search::scratch::IndexScratch;
use crate::search::search_stats::SearchStats;
use crate::vector_index::{Effort, IndexSearchParams, MeasuredAgain, Measures, MemoryUse, VectorIndex};
use crate::{Allowed, Query, TopK};

/// The clusters of so many of the nearest super-centroids, or all, each with how far it is, after making the query ready for that.
fn rank_super_centroids(
    centroids: &Ranked<'_>,
    rotation: Option<&Rotation>,
    query: &Query,
    count: u32,
    lists: &mut Lists,
) {
    let Lists { codes, clusters, .. } = lists;
    let (metric, kernels) = (query.metric(), query.kernels());
    codes
        .query
        .prepare(metric, rotation, centroids.mean, query.floats(), kernels);
    let (query, ranking) = (codes.query.rotated(), &mut codes.ranking);
    let count = count.max(1);
    match centroids.has_more_super_centroids_than(count) {
        true => centroids.rank_nearest_super_centroids((metric, count), query, kernels, ranking, clusters),
        false => centroids.rank(metric, query, kernels, ranking, clusters),
    }
}

/// Every cluster's distance as searches rank it; by how much it is less than it should be.
pub(super) fn distances_as_ranked(
    centroids: &Ranked<'_>,
    rotation: Option<&Rotation>,
    query: &Query,
    lists: &mut Lists,
    distances: &mut [f32],
) -> f32 {
    rank_super_centroids(centroids, rotation, query, ALL_SUPER_CENTROIDS, lists);
    for cluster in &lists.clusters {
        let (distance, number) = unpacked(*cluster);
        distances[number as usize] = distance;
    }
    lists.codes.query.less()
}

impl Ivf {
    /// Bytes of lists for searching codes.
    fn bytes_for_lists(&self, want: &IndexSearchParams, k: usize) -> u64 {
        let oversampled = self.oversampled(k, want);
        let known = Candidates::bytes_for(oversampled);
        let lists = match (&self.codes, &self.products) {
            (None, None) => return 0,
            (None, Some(products)) if products.numbers.is_none() => {
                let of_products = ProductLists::bytes_for(oversampled);
                of_products + self.sq8_beside(products).map_or(0, |_| known)
            }
            _ => known,
        };
        Lists::bytes_for_query(self.meta.shape.dims) + lists
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

    /// Visits the nearest clusters, and further ones while fewer rows are found than wanted, or a filter may admit nearer
    /// ones.
    fn probe(
        &self,
        search: &mut Search<'_, '_>,
        want: &IndexSearchParams,
        (effort, row_bitmap): (&Effort, bool),
        lists: &mut Lists,
        buf: &mut AnonBuf,
    ) -> Result<()> {
        self.rank_for(search, want, effort.probes, lists);
        let mut visited = 0;
        while let Some(more) = self.more(search, want, visited, search.top.len()) {
            let more = self.next_clusters(search, (want, Rule::ProbeThreshold), (visited, more), lists);
            let sorted = sort_more(&mut lists.clusters, visited, more);
            if row_bitmap {
                let clusters = std::mem::take(&mut lists.clusters);
                let done = self.visit_rows_bitmap(search, &clusters[visited..sorted], lists, buf);
                lists.clusters = clusters;
                done?;
                visited = sorted;
            }
            while visited < sorted {
                visited += self.visit(search, visited..sorted, lists, buf)?;
            }
            search.stats.probes = visited as u64;
        }
        Ok(())
    }

    /// Every cluster with how far it is, after making the query ready for that.
    pub(super) fn rank(&self, query: &Query, lists: &mut Lists) {
        self.rank_super_centroids(query, ALL_SUPER_CENTROIDS, lists);
    }

    /// The clusters of so many of the nearest super-centroids, or all, each with how far it is, after making the query ready for that.
    pub(super) fn rank_super_centroids(&self, query: &Query, count: u32, lists: &mut Lists) {
        rank_super_centroids(
            &self.meta.centroids(),
            self.rotation.as_ref(),
            query,
            count,
            lists,
        );
    }

    /// Puts the clusters that weren't ranked behind those that were, of which so many were visited.
    pub(super) fn rank_rest(&self, query: &Query, visited: usize, lists: &mut Lists) {
        let Lists {
            codes,
            clusters,
            sample,
            ..
        } = lists;
        if clusters.len() == self.meta.shape.clusters {
            return;
        }
        let (metric, kernels) = (query.metric(), query.kernels());
        let (query, ranking) = (codes.query.rotated(), &mut codes.ranking);
        // In the order of their numbers.
        self.meta
            .centroids()
            .rank(metric, query, kernels, ranking, sample);
        /// Behind all distances.
        const VISITED: u64 = u64::MAX;
        clusters.truncate(visited);
        clusters
            .iter()
            .for_each(|cluster| sample[*cluster as u32 as usize] = VISITED);
        clusters.extend(sample.iter().filter(|cluster| **cluster != VISITED));
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
        // One block at least for each: how many are visited at once differs from search to search.
        ranges.clear();
        ranges.reserve(room as usize);
        reads.clear();
        reads.reserve(room as usize);
        let (mut taken, mut used) = (0, 0);
        for cluster in &clusters[ranked] {
            let range = self.meta.positions(*cluster as u32);
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
        reads.reserve(room as usize);
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
}

impl VectorIndex for Ivf {
    fn search(
        &self,
        query: &Query,
        want: &IndexSearchParams,
        allowed: &mut Allowed<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        top: &mut TopK,
    ) -> Result<()> {
        self.check(query)?;
        let IndexScratch {
            stats,
            buf,
            rounds,
            own,
            ..
        } = scratch;
        let lists: &mut Lists = own.of();
        rounds.start(top.k(), allowed, want.fixed_effort.is_some());
        *stats = SearchStats::default();
        let (strategy, only) = (self.strategy(want, allowed, top.k()), allowed.only);
        let mut search = Search {
            query,
            allowed,
            io,
            top,
            stats,
            numbers: RowNumber::Trailing,
            rounds,
        };
        let (codes, products) = match want.codes.ignore {
            true => (None, None),
            false => (self.codes.as_ref(), self.products.as_ref()),
        };
        if let (SearchStrategy::Pick(_), Some(only)) = (strategy, only) {
            self.pick(&mut search, only, lists, buf)?;
        }
        let row_bitmap = matches!(strategy, SearchStrategy::Pick(_));
        let done = match (strategy, only) {
            (SearchStrategy::Listed, Some(only)) => self.listed(&mut search, only, lists, buf),
            (SearchStrategy::Probe(effort) | SearchStrategy::Pick(effort), _) => match (codes, products) {
                (Some(codes), _) => {
                    self.probe_codes(codes, &mut search, want, (&effort, row_bitmap), lists, buf)
                }
                (None, Some(products)) => {
                    self.probe_products(products, &mut search, want, (&effort, row_bitmap), lists, buf)
                }
                (None, None) => self.probe(&mut search, want, (&effort, row_bitmap), lists, buf),
            },
            (SearchStrategy::All | SearchStrategy::Listed, _) => {
                search.scan_run(&self.rows, 0..self.meta.shape.rows, buf)
            }
        };
        lists.trim(self.meta.shape.dims);
        rounds.trim();
        done
    }

    fn search_bytes(&self, _: &Query, want: &IndexSearchParams, allowed: &Allowed<'_>, k: usize) -> u64 {
        let bitmap = match allowed.only {
            Some(_) => RowBitmap::bytes_for(self.meta.shape.segment_rows),
            None => 0,
        };
        let lists = self.bytes_for_lists(want, k);
        // Which way it goes is asked only where that matters.
        let by_way = match bitmap + lists {
            0 => 0,
            _ => match self.strategy(want, allowed, k) {
                SearchStrategy::Pick(_) => bitmap + lists,
                SearchStrategy::Probe(_) => lists,
                SearchStrategy::All | SearchStrategy::Listed => 0,
            },
        };
        Rounds::bytes_for(k) + by_way
    }

    fn read_rows(
        &self,
        rows: &[u32],
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let segment_rows = self.meta.shape.segment_rows;
        read_listed(
            &self.positions,
            &self.rows,
            segment_rows,
            rows,
            scratch,
            io,
            &mut |row| split(row, each),
        )
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

    fn seeds(&self) -> Option<&dyn SeedCentroids> {
        Some(self)
    }

    fn measure_again(
        &self,
        queries: &Measures<'_>,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
    ) -> Result<Option<MeasuredAgain>> {
        self.measured_for(queries, scratch, io).map(Some)
    }

    fn memory(&self) -> MemoryUse {
        let files = || [self.rows.file(), self.positions.file()].into_iter();
        let centroids = self.meta.memory_bytes();
        let codes = || {
            self.scanned()
                .into_iter()
                .chain(self.extended())
                .chain(self.residual())
        };
        MemoryUse {
            heap_bytes: centroids,
            pinned_bytes: files().map(|file| file.ram_bytes()).sum::<u64>()
                + codes().map(CachedRows::bytes).sum::<u64>(),
            disk_bytes: files().map(|file| file.len()).sum::<u64>()
                + self.sq8.as_ref().map_or(0, |sq8| sq8.file.file().len())
                + codes().map(CachedRows::bytes_whole).sum::<u64>()
                + centroids,
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
