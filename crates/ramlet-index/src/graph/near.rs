//! Each row's candidates out of the tiles around it, and the first choice among them.

use std::ops::Range;
use std::sync::Arc;

use ramlet_io::Storage;
use ramlet_kernels::{Measure, kernels};

use super::links::{FORWARD, NONE};
use super::prune::Pruning;
use super::records::{Records, Tiles};
use super::temporary::{Appender, Stored};
use crate::error::Result;

/// Rows that each row is compared with, about: those of the nearest tiles.
const COMPARED_ROWS: usize = 6000;

/// Finds candidates within tiles.
pub(super) struct Near<'a> {
    pub(super) tiles: &'a Tiles,
    /// The tiles' means, one after another.
    pub(super) centres: &'a [f32],
    pub(super) dims: usize,
    /// Candidates of a row.
    pub(super) candidates: usize,
    /// Edges chosen among them at most.
    pub(super) chosen: usize,
    pub(super) threads: usize,
}

/// The rows around a tile: the first node's number, and records.
type Part = (u32, Arc<Vec<u8>>);

impl Near<'_> {
    /// A file with `1 + FORWARD` words for each node: how many were chosen; they, and then the nearest others.
    pub(super) fn link<'s>(
        &self,
        records: &mut Records<'_>,
        spill: &'s dyn Storage,
        buffer_bytes: usize,
    ) -> Result<Stored<'s>> {
        let mut out = Appender::create(spill, "tmp-graph-forward", buffer_bytes)?;
        let centres: Vec<u8> = self
            .centres
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let mut keys = vec![0.0f32; self.tiles.count()];
        let mut links = Vec::new();
        for tile in 0..self.tiles.count() {
            let centre = &self.centres[tile * self.dims..][..self.dims];
            kernels().f32_rows(Measure::L2sq, centre, &centres, self.dims * 4, &mut keys);
            let mut parts: Vec<Part> = Vec::new();
            for near in self.nearest(&keys) {
                parts.push((self.tiles.starts[near], Arc::clone(records.tile(near)?)));
            }
            let own = Arc::clone(records.tile(tile)?);
            links.clear();
            links.resize(self.tiles.nodes(tile).len() * (1 + FORWARD), NONE);
            self.link_tile(self.tiles.nodes(tile), &own, records.stride, &parts, &mut links);
            out.push_words(&links)?;
        }
        out.finish()
    }

    /// The nearest tiles that have enough rows between them, in order of their numbers.
    fn nearest(&self, keys: &[f32]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by(|a, b| keys[*a].total_cmp(&keys[*b]).then(a.cmp(b)));
        let mut rows = 0;
        let enough = |tile: &usize| {
            let before = rows;
            rows += self.tiles.nodes(*tile).len();
            before < COMPARED_ROWS
        };
        let mut nearest: Vec<usize> = order.into_iter().take_while(enough).collect();
        nearest.sort_unstable();
        nearest
    }

    fn link_tile(&self, nodes: Range<u32>, own: &[u8], stride: usize, parts: &[Part], links: &mut [u32]) {
        let share = nodes.len().div_ceil(self.threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let work = own
                .chunks(share * stride)
                .zip(links.chunks_mut(share * (1 + FORWARD)));
            for ((own, links), first) in work.zip((nodes.start..).step_by(share)) {
                scope.spawn(move || {
                    let mut pruning = Pruning::default();
                    let rows = own.chunks_exact(stride).zip(links.chunks_exact_mut(1 + FORWARD));
                    for ((record, links), node) in rows.zip(first..) {
                        self.link_row(node, record, stride, parts, &mut pruning, links);
                    }
                });
            }
        });
    }

    fn link_row(
        &self,
        node: u32,
        record: &[u8],
        stride: usize,
        parts: &[Part],
        pruning: &mut Pruning,
        links: &mut [u32],
    ) {
        let table = kernels();
        let Pruning {
            compared,
            candidates,
            records,
            ..
        } = pruning;
        candidates.clear();
        records.clear();
        compared.prepare(record);
        let (wanted, mut limit) = (self.candidates, u32::MAX);
        for (first, part) in parts {
            compared.distances(table, part, stride, |i, distance| {
                let id = first + i as u32;
                if distance < limit && id != node {
                    candidates.push((distance, id));
                    if candidates.len() == wanted * 4 {
                        candidates.select_nth_unstable(wanted - 1);
                        candidates.truncate(wanted);
                        limit = candidates[wanted - 1].0;
                    }
                }
            });
        }
        candidates.sort_unstable();
        candidates.truncate(wanted);
        for (_, id) in &*candidates {
            // Parts are in order of their first nodes.
            let (first, part) = &parts[parts.partition_point(|(first, _)| first <= id) - 1];
            records.extend_from_slice(&part[(id - first) as usize * stride..][..stride]);
        }
        links[0] = pruning.choose(stride, self.chosen) as u32;
        for (link, place) in links[1..].iter_mut().zip(&pruning.order) {
            *link = pruning.candidates[*place as usize].1;
        }
    }
}
