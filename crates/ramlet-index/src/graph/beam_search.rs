//! Beam search for a query (DiskANN): reads the nearest unvisited nodes, and compares their neighbours' codes.

use ramlet_io::IoContext;
use ramlet_kernels::Kernels;
use ramlet_memory::AnonBuf;

use super::code::{AT_ONCE, CodedQuery};
use super::disk_graph::{Graph, WIDTH_MAX};
use super::layout::Node;
use super::ram::{Ram, RamLists};
use super::search_list::{Known, SearchList};
use crate::TopK;
use crate::error::Result;
use crate::search::search_stats::SearchStats;

/// One thread's memory for beam searches.
#[derive(Debug, Default)]
pub(crate) struct GraphLists {
    query: CodedQuery,
    candidates: SearchList,
    /// Nodes of one round, and how to read them.
    picked: Vec<u32>,
    reads: Vec<(u64, u32)>,
    ram: RamLists,
    /// The nearest rows that a beam search has met, where the result doesn't tell how near it has come.
    pub(super) met: TopK,
}

impl GraphLists {
    /// Bytes that a beam search for the `k` nearest among `room` nodes takes as long as it lasts, beyond what stays for the next.
    pub(crate) fn bytes_for(k: usize, room: usize) -> u64 {
        let known = room.saturating_sub(CANDIDATES_KEPT) * size_of::<Known>();
        (TopK::bytes_for(k.saturating_sub(MET_USUAL)) + known) as u64
    }

    /// Gives back what only a large search needs.
    pub(super) fn trim(&mut self) {
        if self.met.k() > MET_USUAL {
            self.met = TopK::default();
        }
        self.candidates.shrink_to(CANDIDATES_KEPT);
    }
}

/// Known nodes that a usual search keeps, and most that stay for the next.
const CANDIDATES_USUAL: usize = 512;
const CANDIDATES_KEPT: usize = 4096;

/// Rows met that a usual search keeps.
pub(super) const MET_USUAL: usize = 128;

/// Bytes of a thread's lists in usual searches.
pub(super) const fn lists_bytes(dims: usize) -> usize {
    9 * dims + CANDIDATES_USUAL * size_of::<Known>() + WIDTH_MAX * 20 + TopK::bytes_for(MET_USUAL)
}

/// A beam search under way.
pub(super) struct BeamSearch<'w> {
    pub(super) graph: &'w Graph,
    pub(super) lists: &'w mut GraphLists,
    pub(super) buf: &'w mut AnonBuf,
    pub(super) kernels: &'static Kernels,
    /// A node that is not visited: as if it weren't there.
    pub(super) skipped: Option<u32>,
}

impl BeamSearch<'_> {
    /// Knows the entry points, and at most `room` nodes at any time.
    pub(super) fn start(&mut self, floats: &[f32], room: usize, stats: &mut SearchStats) {
        let GraphLists {
            query,
            candidates,
            picked,
            reads,
            ..
        } = &mut *self.lists;
        let meta = &self.graph.meta;
        query.prepare(&meta.frame, floats);
        candidates.clear(room);
        picked.reserve(WIDTH_MAX);
        reads.reserve(WIDTH_MAX);
        for first in (0..meta.entries).step_by(AT_ONCE) {
            let some = first..(first + AT_ONCE).min(meta.entries);
            let mut distances = [0.0f32; AT_ONCE];
            let distances = &mut distances[..some.len()];
            let [codes, adds, scales] = meta.codes(some.clone());
            query.estimate(self.kernels, codes, adds, scales, distances);
            for (distance, i) in distances.iter().zip(some) {
                candidates.offer(number(*distance), meta.entry(i));
            }
        }
        stats.codes_scored += meta.entries as u64;
    }

    /// Visits the nearest `width` nodes, and shows them; how many there were.
    pub(super) fn round(
        &mut self,
        width: usize,
        io: &mut IoContext,
        stats: &mut SearchStats,
        each: &mut dyn FnMut(&Node<'_>, &mut IoContext, &mut SearchStats) -> Result<()>,
    ) -> Result<usize> {
        let GraphLists {
            query,
            candidates,
            picked,
            reads,
            ..
        } = &mut *self.lists;
        picked.clear();
        reads.clear();
        while picked.len() < width
            && let Some((_, id)) = candidates.visit()
        {
            if Some(id) != self.skipped {
                picked.push(id);
            }
        }
        let nodes = &self.graph.nodes;
        plan(self.graph, picked, reads, stats);
        let bytes = nodes.read_many(io, reads, self.buf)?;
        for (_, row) in nodes.rows_in_reads(picked, reads, bytes) {
            let node = Node::check(self.graph.meta.layout, row)?;
            stats.rows_scored += 1;
            each(&node, io, stats)?;
            let count = node.count();
            let mut distances = [0.0f32; AT_ONCE];
            let distances = &mut distances[..count];
            let [codes, adds, scales] = node.codes(count);
            query.estimate(self.kernels, codes, adds, scales, distances);
            stats.codes_scored += count as u64;
            for (i, distance) in distances.iter().enumerate() {
                let distance = number(*distance);
                if distance <= candidates.threshold() {
                    candidates.offer(distance, self.graph.meta.check_node(node.id(i))?);
                }
            }
        }
        Ok(picked.len())
    }
}

impl BeamSearch<'_> {
    /// Visits in RAM all that is near, without reading anything.
    pub(super) fn in_ram(&mut self, ram: &Ram, stats: &mut SearchStats) {
        let GraphLists {
            query,
            candidates,
            ram: lists,
            ..
        } = &mut *self.lists;
        ram.beam_search(query, candidates, lists, self.kernels, stats);
    }

    /// Reads the known nodes of these ranks, and shows them; how many there were.
    pub(super) fn read_ranks(
        &mut self,
        ranks: std::ops::Range<usize>,
        io: &mut IoContext,
        stats: &mut SearchStats,
        each: &mut dyn FnMut(&[u8], u32, &mut IoContext, &mut SearchStats) -> Result<()>,
    ) -> Result<usize> {
        let GraphLists {
            candidates,
            picked,
            reads,
            ..
        } = &mut *self.lists;
        picked.clear();
        reads.clear();
        picked.extend(candidates.ranks(ranks.start..ranks.end.min(ranks.start + WIDTH_MAX)));
        if let Some(ram) = self.graph.ram.as_ref().filter(|ram| ram.has_vectors()) {
            for (vector, number) in picked.iter().filter_map(|node| ram.vector(*node)) {
                stats.rows_scored += 1;
                each(vector, number, io, stats)?;
            }
            return Ok(picked.len());
        }
        plan(self.graph, picked, reads, stats);
        let nodes = &self.graph.nodes;
        let bytes = nodes.read_many(io, reads, self.buf)?;
        for (_, row) in nodes.rows_in_reads(picked, reads, bytes) {
            let node = Node::check(self.graph.meta.layout, row)?;
            stats.rows_scored += 1;
            each(node.vector(), node.number(), io, stats)?;
        }
        Ok(picked.len())
    }
}

/// Plans the reads of at most [`WIDTH_MAX`] nodes: ascending, so that neighbours in the file are one.
fn plan(graph: &Graph, picked: &mut [u32], reads: &mut Vec<(u64, u32)>, stats: &mut SearchStats) {
    picked.sort_unstable();
    let planned = graph.nodes.plan_blocks(picked, WIDTH_MAX, reads);
    debug_assert_eq!(planned, picked.len());
    stats.reads += reads.len() as u64;
    stats.pages_read += reads.len() as u64 * u64::from(graph.nodes.block_pages());
}

/// What isn't a number (an overflow) is the farthest of all.
fn number(distance: f32) -> f32 {
    if distance.is_nan() {
        f32::INFINITY
    } else {
        distance
    }
}
