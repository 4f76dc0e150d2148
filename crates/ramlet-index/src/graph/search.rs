//! Graph search: beam search, or the listed rows, or all rows.

use ramlet_io::{IoContext, SearchStage};
use ramlet_memory::AnonBuf;
use roaring::RoaringBitmap;

use super::beam_search::{BeamSearch, GraphLists};
use super::disk_graph::Graph;
use super::expected::Expected;
use super::layout::Node;
use crate::error::{IndexError, Result};
use crate::rows::positions::{find_positions, read_listed};
use crate::rows::reading::{ALONE_COST, LISTED_ROWS, stream};
use crate::search::scratch::{IndexScratch, RowLists};
use crate::search::search_stats::SearchStats;
use crate::vector_index::{EFFORT_DEFAULT, IndexSearchParams, MemoryUse, VectorIndex};
use crate::{Allowed, Query, TopK};

/// Nodes known, per node that is read in the end.
const ROOM: f64 = 1.5;
const ROOM_MIN: usize = 48;
/// Whatever is asked, at most so many (3 MiB).
const ROOM_MAX: usize = 1 << 18;

/// What effort 128 takes at least: with less, chance decides more than the calibration. (Where clusters are tight, one was
/// enough for the target, and eight times that found no other cluster.)
const PATIENCE_MIN: f64 = 4.0;

/// Rows of a beam search that keeps its own, where it has fewer to find: patience was measured with so many.
const MET_MIN: usize = 10;

/// In RAM, nodes visited grow with this power of how many times fewer edges there are than on disk.
const RAM_POWER: f64 = 0.8;

/// Nodes read per node wanted after a beam search in RAM, and a few more: by 4 bits they aren't quite in order.
const RESCORED: usize = 2;
const RESCORED_MORE: usize = 10;

/// How a search goes about it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SearchStrategy {
    /// All nodes, in the order of the file.
    All,
    /// Only the rows of the bitmap, each by its position.
    Listed,
    BeamSearch(Expected),
}

impl Graph {
    /// What a search for the `wanted` nearest is expected to take.
    pub fn expected(&self, want: &IndexSearchParams, wanted: f64) -> Expected {
        let recall = want.recall.unwrap_or(self.recall);
        let effort = f64::from(want.effort.unwrap_or(EFFORT_DEFAULT)) / f64::from(EFFORT_DEFAULT);
        let usual = self.meta.calibration.expected(recall, wanted);
        let patience = usual.patience.max(PATIENCE_MIN);
        Expected { patience, ..usual }.times(effort)
    }

    /// The cheapest way, counted in reads of single nodes.
    fn strategy(&self, want: &IndexSearchParams, allowed: &Allowed<'_>, k: usize) -> SearchStrategy {
        let all = (self.nodes.data_pages() / ALONE_COST) as f64;
        let listed = allowed.only.map(|only| {
            let rows = only.len() as f64;
            rows + rows.min(self.positions.data_pages() as f64)
        });
        let (strategy, cost) = if want.exact {
            (SearchStrategy::All, all)
        } else {
            // The k nearest among those allowed are about the k / share nearest of all.
            let share = allowed.share(u64::from(self.meta.shape.rows));
            let near = self.expected(want, k as f64);
            let far = self.expected(want, k as f64 / share);
            let expected = Expected {
                patience: near.patience / share,
                reads: far.reads.max(near.reads + near.patience / share),
            };
            if expected.reads < all {
                (SearchStrategy::BeamSearch(expected), expected.reads)
            } else {
                (SearchStrategy::All, all)
            }
        };
        match listed {
            Some(listed) if listed <= cost => SearchStrategy::Listed,
            _ => strategy,
        }
    }

    /// Nodes that a beam search knows at any time which is expected to visit `wanted`.
    fn room_for(&self, wanted: f64) -> usize {
        let room = match &self.ram {
            // What fewer edges lead to is less: more nodes are visited for the same.
            Some(ram) => wanted / ram.share(self.degree()).powf(RAM_POWER),
            None => wanted * ROOM,
        };
        (room as usize).clamp(ROOM_MIN, ROOM_MAX)
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

    fn beam_search(
        &self,
        search: &mut Offering<'_, '_>,
        expected: Expected,
        lists: &mut GraphLists,
        buf: &mut AnonBuf,
        io: &mut IoContext,
        stats: &mut SearchStats,
    ) -> Result<()> {
        let mut beam = BeamSearch {
            graph: self,
            lists,
            buf,
            kernels: search.query.kernels(),
            skipped: None,
        };
        let wanted = expected.reads.max(search.top.k() as f64);
        if let Some(ram) = &self.ram {
            beam.start(search.query.floats(), self.room_for(wanted), stats);
            beam.in_ram(ram, stats);
            let before = io.enter(SearchStage::Rows);
            let done = rescore(&mut beam, search, io, stats);
            io.enter(before);
            return done;
        }
        beam.start(search.query.floats(), self.room_for(wanted), stats);
        let patience = (expected.patience.ceil() as u64).max(1);
        let mut stale = 0;
        let mut met = std::mem::take(&mut beam.lists.met);
        // Patience is for who looks for ten of this graph's rows. For fewer, or with what other segments have found before, hardly any node
        // on the way is better than what is there, and the beam search would end far from its goal.
        let k = search.top.k();
        let keeps_met = k < MET_MIN || !search.top.is_empty();
        met.clear(if keeps_met { k.max(MET_MIN) } else { 0 });
        while stale < patience || search.top.len() < search.top.k() {
            // The last round reads no more than it takes to lose patience.
            let left = patience.saturating_sub(stale);
            let width = if left > 0 {
                self.width.min(left as usize)
            } else {
                self.width
            };
            let visited = beam.round(width, io, stats, &mut |node, io, stats| {
                let (found, row) = (search.found, node.number());
                let distance = search.query.distance_of_row(node.vector());
                search.offer_with(distance, row, io, stats)?;
                let is_near = keeps_met && met.push(distance, row);
                stale = match is_near || search.found > found {
                    true => 0,
                    false => stale + 1,
                };
                Ok(())
            })?;
            if visited == 0 {
                break;
            }
        }
        beam.lists.met = met;
        Ok(())
    }

    /// Visits the listed rows by their positions.
    fn listed(
        &self,
        search: &mut Offering<'_, '_>,
        only: &RoaringBitmap,
        lists: &mut RowLists,
        buf: &mut AnonBuf,
        io: &mut IoContext,
        stats: &mut SearchStats,
    ) -> Result<()> {
        let RowLists {
            reads,
            positions,
            rows,
        } = lists;
        let mut listed = only.range(..self.meta.shape.segment_rows);
        loop {
            rows.clear();
            rows.extend(listed.by_ref().take(LISTED_ROWS));
            if rows.is_empty() {
                return Ok(());
            }
            find_positions(
                &self.positions,
                self.meta.shape.rows,
                rows,
                positions,
                reads,
                buf,
                io,
            )?;
            let mut rest = &positions[..];
            let at_once = self.nodes.blocks_in(buf)? as usize;
            while !rest.is_empty() {
                reads.clear();
                let (now, later) = rest.split_at(self.nodes.plan_blocks(rest, at_once, reads));
                stats.reads += reads.len() as u64;
                stats.pages_read += reads.len() as u64 * u64::from(self.nodes.block_pages());
                let bytes = self.nodes.read_many(io, reads, buf)?;
                for (_, row) in self.nodes.rows_in_reads(now, reads, bytes) {
                    let node = Node::check(self.meta.layout, row)?;
                    stats.rows_scored += 1;
                    search.offer(node.vector(), node.number(), io, stats)?;
                }
                rest = later;
            }
        }
    }

    /// Visits all nodes; those that `search` holds already are left out.
    fn all(
        &self,
        search: &mut Offering<'_, '_>,
        buf: &mut AnonBuf,
        io: &mut IoContext,
        stats: &mut SearchStats,
    ) -> Result<()> {
        let blocks = self.nodes.rows().div_ceil(self.nodes.rows_per_block());
        let at_once = self.nodes.blocks_in(buf)?;
        let mut left = self.nodes.rows() as usize;
        for block in (0..blocks).step_by(at_once as usize) {
            let count = at_once.min(blocks - block);
            stats.reads += 1;
            stats.pages_read += u64::from(count) * u64::from(self.nodes.block_pages());
            // Asking a filter may read: the bytes are in `buf` and stay.
            let bytes = self.nodes.read_run(io, block, count, buf)?;
            for block in bytes.chunks_exact(self.nodes.block_bytes()) {
                let here = left.min(self.nodes.rows_per_block() as usize);
                left -= here;
                for row in block.chunks_exact(self.nodes.stride()).take(here) {
                    let node = Node::check(self.meta.layout, row)?;
                    stats.rows_scored += 1;
                    search.offer(node.vector(), node.number(), io, stats)?;
                }
            }
        }
        Ok(())
    }
}

/// Reads the nearest of what a beam search in RAM found, until as many rows as are wanted are among them, and some more.
fn rescore(
    beam: &mut BeamSearch<'_>,
    search: &mut Offering<'_, '_>,
    io: &mut IoContext,
    stats: &mut SearchStats,
) -> Result<()> {
    let k = search.top.k();
    let (mut at, mut end) = (0, k * RESCORED + RESCORED_MORE);
    let mut admitted = 0;
    loop {
        let read = beam.read_ranks(at..end, io, stats, &mut |vector, number, io, stats| {
            search.offer(vector, number, io, stats)
        })?;
        at += read;
        if read == 0 {
            return Ok(());
        }
        if at >= end {
            // Filters let few through: then as many more are read as it takes, while that finds anything.
            if search.top.len() == k && search.found == admitted {
                return Ok(());
            }
            admitted = search.found;
            end = at + k.max(RESCORED_MORE);
            if search.allowed.is_free() {
                return Ok(());
            }
        }
    }
}

/// What a search offers its nodes to.
struct Offering<'s, 'a> {
    query: &'s Query,
    allowed: &'s mut Allowed<'a>,
    top: &'s mut TopK,
    /// Nodes that entered the result.
    found: u64,
    /// Whether the result may hold what is offered.
    again: bool,
}

impl Offering<'_, '_> {
    fn offer(&mut self, vector: &[u8], row: u32, io: &mut IoContext, stats: &mut SearchStats) -> Result<()> {
        self.offer_with(self.query.distance_of_row(vector), row, io, stats)
    }

    fn offer_with(
        &mut self,
        distance: f32,
        row: u32,
        io: &mut IoContext,
        stats: &mut SearchStats,
    ) -> Result<()> {
        if !self.top.would_enter(distance, row) || self.again && self.top.holds(row) {
            return Ok(());
        }
        stats.rows_checked += 1;
        if self.allowed.admits(row, io)? {
            self.top.push(distance, row);
            self.found += 1;
        }
        Ok(())
    }
}

impl VectorIndex for Graph {
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
            lists,
            own,
            ..
        } = scratch;
        *stats = SearchStats::default();
        let (strategy, only) = (self.strategy(want, allowed, top.k()), allowed.only);
        let mut search = Offering {
            query,
            allowed,
            top,
            found: 0,
            again: false,
        };
        match (strategy, only) {
            (SearchStrategy::Listed, Some(only)) => self.listed(&mut search, only, lists, buf, io, stats),
            (SearchStrategy::BeamSearch(expected), _) => {
                let of_beam: &mut GraphLists = own.of();
                let done = self.beam_search(&mut search, expected, of_beam, buf, io, stats);
                of_beam.trim();
                done?;
                if search.top.len() == search.top.k() {
                    return Ok(());
                }
                // The beam search met too few that may be found: then all are looked at.
                search.again = true;
                match only {
                    Some(only) => self.listed(&mut search, only, lists, buf, io, stats),
                    None => self.all(&mut search, buf, io, stats),
                }
            }
            (SearchStrategy::All | SearchStrategy::Listed, _) => self.all(&mut search, buf, io, stats),
        }
    }

    fn search_bytes(&self, _: &Query, want: &IndexSearchParams, allowed: &Allowed<'_>, k: usize) -> u64 {
        match self.strategy(want, allowed, k) {
            SearchStrategy::BeamSearch(expected) => {
                GraphLists::bytes_for(k, self.room_for(expected.reads.max(k as f64)))
            }
            SearchStrategy::All | SearchStrategy::Listed => 0,
        }
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
            &self.nodes,
            segment_rows,
            rows,
            scratch,
            io,
            &mut |row| {
                let node = Node::check(self.meta.layout, row)?;
                each(node.number(), node.vector())
            },
        )
    }

    fn for_each_row(
        &self,
        scratch: &mut IndexScratch,
        io: &mut IoContext,
        each: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        stream(&self.nodes, &mut scratch.buf, io, &mut |_, row| {
            let node = Node::check(self.meta.layout, row)?;
            each(node.number(), node.vector())
        })
    }

    fn rows(&self) -> u32 {
        self.meta.shape.rows
    }

    fn memory(&self) -> MemoryUse {
        let files = || [&self.nodes, &self.positions].into_iter().map(|rows| rows.file());
        let meta = self.meta.memory_bytes();
        let ram = self.ram.as_ref().map_or(0, |ram| ram.bytes());
        MemoryUse {
            heap_bytes: meta,
            pinned_bytes: files().map(|file| file.ram_bytes()).sum::<u64>() + ram,
            disk_bytes: files().map(|file| file.len()).sum::<u64>() + meta,
        }
    }

    fn kind(&self) -> &'static str {
        "hnsw"
    }
}
