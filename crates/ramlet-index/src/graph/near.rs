//! Each row's candidates out of the tiles around it, and the first choice among them.
//!
//! Every row has its own nearest tiles (by their means): in many dimensions rows lie far from the mean of their own
//! tile, and each in another direction. On hard data (100 dimensions, 100,000 rows, 6,000 compared) candidates from
//! the tiles around the tile's mean had 59 % of the true 10 nearest. Rows are worked on in groups of neighbouring
//! tiles, so that a tile is loaded once for many of them.

use std::ops::Range;
use std::sync::Arc;

use ramlet_io::Storage;
use ramlet_kernels::{Kernels, kernels};

use super::links::{FORWARD, NONE};
use super::prune::{Compared, Pruning};
use super::records::{Records, Tiles};
use super::temporary::{Appender, Stored};
use crate::error::Result;

/// Tiles, nearest to a row's own tile, among which are the row's nearest.
const TILES_AROUND: usize = 1024;

/// Nodes whose candidates' records are gathered at once.
const BATCH: usize = 256;

/// Bytes of tiles that are held while a group is compared with them.
const LOADED_BYTES: usize = 2 << 20;

/// Finds candidates.
pub(super) struct Near<'a> {
    pub(super) tiles: &'a Tiles,
    /// A record for the mean of each tile.
    pub(super) centres: &'a [u8],
    /// Rows that each row is compared with, about.
    pub(super) compared: usize,
    /// Candidates of a row.
    pub(super) candidates: usize,
    /// Edges chosen among them at most.
    pub(super) chosen: usize,
    pub(super) threads: usize,
    /// For a group of rows.
    pub(super) group_bytes: usize,
}

/// The nearest rows found so far.
#[derive(Default)]
struct Found {
    nearest: Vec<(u32, u32)>,
    limit: u32,
}

/// A tile: its first node, its records, and the probes that it is in.
type Loaded<'p> = (u32, Arc<Vec<u8>>, &'p [(u32, u32)]);

/// Rows worked on together: all of some tiles.
struct Group {
    nodes: Range<u32>,
    /// Their records.
    rows: Vec<u8>,
    found: Vec<Found>,
    /// Tiles to be compared with, and rows of the group; ascending.
    probes: Vec<(u32, u32)>,
}

impl Near<'_> {
    /// A file with `1 + FORWARD` words for each node: how many were chosen; they, and then the nearest others.
    pub(super) fn link<'s>(
        &self,
        records: &mut Records<'_>,
        spill: &'s dyn Storage,
        buffer_bytes: usize,
    ) -> Result<Stored<'s>> {
        let mut out = Appender::create(spill, "tmp-graph-forward", buffer_bytes)?;
        let most = self.group_rows(records.stride);
        let mut tile = 0;
        while tile < self.tiles.count() {
            let first = self.tiles.starts[tile];
            let end = self
                .tiles
                .starts
                .partition_point(|start| (start - first.min(*start)) as usize <= most)
                - 1;
            let end = end.clamp(tile + 1, self.tiles.count());
            let mut group = self.gather(tile..end, records)?;
            self.probe(tile..end, records.stride, &mut group);
            self.compare(records, &mut group)?;
            self.choose(records, &group, &mut out)?;
            tile = end;
        }
        out.finish()
    }

    fn probes_each(&self) -> usize {
        let rows = self.tiles.starts[self.tiles.count()] as usize;
        let count = (self.compared * self.tiles.count()).div_ceil(rows.max(1));
        count.clamp(1, self.tiles.count().max(1))
    }

    fn group_rows(&self, stride: usize) -> usize {
        let each = stride + (self.probes_each() + 2 * self.candidates) * 8 + size_of::<Found>();
        (self.group_bytes / each).clamp(BATCH, 1 << 14)
    }

    fn gather(&self, tiles: Range<usize>, records: &mut Records<'_>) -> Result<Group> {
        let nodes = self.tiles.starts[tiles.start]..self.tiles.starts[tiles.end];
        let mut rows = Vec::with_capacity(nodes.len() * records.stride);
        for tile in tiles {
            rows.extend_from_slice(records.tile(tile)?);
        }
        let found = || Found {
            nearest: Vec::with_capacity(2 * self.candidates),
            limit: u32::MAX,
        };
        Ok(Group {
            found: nodes.clone().map(|_| found()).collect(),
            rows,
            probes: vec![(0, 0); nodes.len() * self.probes_each()],
            nodes,
        })
    }

    /// Finds the nearest tiles of every row.
    fn probe(&self, tiles: Range<usize>, stride: usize, group: &mut Group) {
        let (each, table) = (self.probes_each(), kernels());
        let (mut order, mut around, mut compared) = (Vec::new(), Vec::new(), Compared::default());
        for tile in tiles {
            compared.prepare(&self.centres[tile * stride..][..stride]);
            order.clear();
            compared.distances(table, self.centres, stride, |i, distance| {
                order.push((distance, i as u32))
            });
            let count = TILES_AROUND.max(2 * each).min(order.len());
            if count < order.len() {
                order.select_nth_unstable(count);
                order.truncate(count);
            }
            order.sort_unstable_by_key(|(_, tile)| *tile);
            around.clear();
            for (_, tile) in &order {
                around.extend_from_slice(&self.centres[*tile as usize * stride..][..stride]);
            }
            let nodes = self.tiles.nodes(tile);
            let first = (nodes.start - group.nodes.start) as usize;
            let share = nodes.len().div_ceil(self.threads.max(1)).max(1);
            let rows = &group.rows[first * stride..][..nodes.len() * stride];
            let probes = &mut group.probes[first * each..][..nodes.len() * each];
            let (order, around) = (&order, &around);
            std::thread::scope(|scope| {
                let parts = rows.chunks(share * stride).zip(probes.chunks_mut(share * each));
                for ((rows, probes), first) in parts.zip((first as u32..).step_by(share)) {
                    scope.spawn(move || {
                        let (mut compared, mut near) = (Compared::default(), Vec::new());
                        let rows = rows.chunks_exact(stride).zip(probes.chunks_exact_mut(each));
                        for ((record, probes), row) in rows.zip(first..) {
                            near.clear();
                            compared.prepare(record);
                            compared.distances(table, around, stride, |i, distance| {
                                near.push((distance, order[i].1));
                            });
                            if each < near.len() {
                                near.select_nth_unstable(each);
                            }
                            for (probe, (_, tile)) in probes.iter_mut().zip(&near) {
                                *probe = (*tile, row);
                            }
                        }
                    });
                }
            });
        }
        group.probes.sort_unstable();
    }

    /// Compares every row with those of its tiles.
    fn compare(&self, records: &mut Records<'_>, group: &mut Group) -> Result<()> {
        let stride = records.stride;
        let Group {
            nodes,
            rows,
            found,
            probes,
        } = group;
        let mut rest = &probes[..];
        let mut loaded: Vec<Loaded<'_>> = Vec::new();
        while !rest.is_empty() {
            loaded.clear();
            let mut bytes = 0;
            while let Some((tile, _)) = rest.first()
                && bytes < LOADED_BYTES
            {
                let (now, later) = rest.split_at(rest.partition_point(|probe| probe.0 == *tile));
                let part = Arc::clone(records.tile(*tile as usize)?);
                bytes += part.len();
                loaded.push((self.tiles.starts[*tile as usize], part, now));
                rest = later;
            }
            let share = found.len().div_ceil(self.threads.max(1)).max(1);
            let (loaded, rows, first_node) = (&loaded, &*rows, nodes.start);
            std::thread::scope(|scope| {
                for (part, found) in found.chunks_mut(share).enumerate() {
                    scope.spawn(move || {
                        let mut compared = Compared::default();
                        let first = part * share;
                        let end = first + found.len();
                        for (start, tile, probes) in loaded {
                            let from = probes.partition_point(|(_, row)| (*row as usize) < first);
                            let own = probes[from..].iter().map(|(_, row)| *row as usize);
                            for row in own.take_while(|row| *row < end) {
                                compared.prepare(&rows[row * stride..][..stride]);
                                let node = first_node + row as u32;
                                let found = &mut found[row - first];
                                found.compare(&compared, tile, stride, *start, node, self.candidates);
                            }
                        }
                    });
                }
            });
        }
        Ok(())
    }

    /// Chooses neighbours among what was found.
    fn choose(&self, records: &mut Records<'_>, group: &Group, out: &mut Appender<'_>) -> Result<()> {
        let stride = records.stride;
        let mut nearest: Vec<Vec<(u32, u32)>> = Vec::new();
        let (mut gathered, mut links) = (Vec::new(), Vec::new());
        for found in group.found.chunks(BATCH) {
            nearest.clear();
            gathered.clear();
            links.clear();
            for found in found {
                let mut sorted = found.nearest.clone();
                sorted.sort_unstable();
                sorted.truncate(self.candidates);
                for (_, id) in &sorted {
                    records.copy(*id, &mut gathered)?;
                }
                nearest.push(sorted);
            }
            links.resize(found.len() * (1 + FORWARD), NONE);
            let share = found.len().div_ceil(self.threads.max(1)).max(1);
            let mut rest = &gathered[..];
            std::thread::scope(|scope| {
                let parts = nearest.chunks(share).zip(links.chunks_mut(share * (1 + FORWARD)));
                for (nearest, links) in parts {
                    let count: usize = nearest.iter().map(Vec::len).sum();
                    let (records, later) = rest.split_at(count * stride);
                    rest = later;
                    scope.spawn(move || self.choose_part(nearest, records, stride, links));
                }
            });
            out.push_words(&links)?;
        }
        Ok(())
    }

    fn choose_part(&self, nearest: &[Vec<(u32, u32)>], mut records: &[u8], stride: usize, links: &mut [u32]) {
        let mut pruning = Pruning::default();
        for (nearest, links) in nearest.iter().zip(links.chunks_exact_mut(1 + FORWARD)) {
            let (now, later) = records.split_at(nearest.len() * stride);
            records = later;
            pruning.records.clear();
            pruning.records.extend_from_slice(now);
            pruning.candidates.clone_from(nearest);
            links[0] = pruning.choose(stride, self.chosen) as u32;
            for (link, place) in links[1..].iter_mut().zip(&pruning.order) {
                *link = nearest[*place as usize].1;
            }
        }
    }
}

impl Found {
    fn compare(
        &mut self,
        compared: &Compared,
        tile: &[u8],
        stride: usize,
        first: u32,
        node: u32,
        wanted: usize,
    ) {
        let table: &Kernels = kernels();
        compared.distances(table, tile, stride, |i, distance| {
            let id = first + i as u32;
            if distance < self.limit && id != node {
                self.nearest.push((distance, id));
                if self.nearest.len() == wanted * 2 {
                    self.nearest.select_nth_unstable(wanted - 1);
                    self.nearest.truncate(wanted);
                    self.limit = self.nearest[wanted - 1].0;
                }
            }
        });
    }
}
