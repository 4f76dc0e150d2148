//! Edges back, by an external sort, and the second choice among all of a node's edges.

use std::ops::Range;

use ramlet_io::Storage;
use ramlet_kernels::kernels;

use super::links::{FORWARD, NONE, some};
use super::prune::Pruning;
use super::records::Records;
use super::temporary::{Appender, Stored};
use crate::error::Result;

/// Edges back that are looked at for one node; a hub has more.
const BACK_MAX: usize = 192;

/// Nodes worked on at once.
const BATCH: usize = 256;

/// Bytes of an edge in a bucket: the node it leads to, and the node it comes from.
const EDGE: usize = 8;

/// Adds edges back.
pub(super) struct Reverse {
    pub(super) rows: u32,
    pub(super) degree: usize,
    pub(super) threads: usize,
    /// For edges in memory.
    pub(super) edges_bytes: usize,
    pub(super) buffer_bytes: usize,
}

/// Edges by the window of nodes they lead to.
struct Windows<'s> {
    stored: Stored<'s>,
    /// Where each window's edges lie.
    pieces: Vec<Vec<(u64, u32)>>,
}

impl Reverse {
    /// A file of `degree` words for each node: its neighbours in the order of their choice, then [`NONE`].
    pub(super) fn link<'s>(
        &self,
        forward: &Stored<'_>,
        records: &mut Records<'_>,
        spill: &'s dyn Storage,
    ) -> Result<Stored<'s>> {
        let window = self.window_nodes();
        let windows = self.distribute(forward, window, spill)?;
        let mut out = Appender::create(spill, "tmp-graph-links", self.buffer_bytes)?;
        let mut edges: Vec<(u32, u32)> = Vec::new();
        let mut bytes = Vec::new();
        for (i, pieces) in windows.pieces.iter().enumerate() {
            edges.clear();
            for (offset, len) in pieces {
                bytes.resize(*len as usize, 0);
                windows.stored.read(&mut bytes, *offset)?;
                let word = |bytes: [u8; 4]| u32::from_le_bytes(bytes);
                edges.extend(bytes.as_chunks::<EDGE>().0.iter().map(|edge| {
                    let [a, b, c, d, e, f, g, h] = *edge;
                    (word([a, b, c, d]), word([e, f, g, h]))
                }));
            }
            edges.sort_unstable();
            let first = i as u32 * window;
            let nodes = first..first.saturating_add(window).min(self.rows);
            self.link_window(nodes, &edges, forward, records, &mut out)?;
        }
        out.finish()
    }

    /// Nodes of a window: so many that their edges fit the memory for them, if there are a few hubs among them too.
    fn window_nodes(&self) -> u32 {
        let nodes = self.edges_bytes / (EDGE * FORWARD * 2);
        nodes.clamp(BATCH, self.rows.max(BATCH as u32) as usize) as u32
    }

    fn distribute<'s>(
        &self,
        forward: &Stored<'_>,
        window: u32,
        spill: &'s dyn Storage,
    ) -> Result<Windows<'s>> {
        let count = self.rows.div_ceil(window) as usize;
        let room = (self.buffer_bytes * 4 / count.max(1)).max(64 * EDGE);
        let mut out = Appender::create(spill, "tmp-graph-back", self.buffer_bytes)?;
        let mut pieces = vec![Vec::new(); count];
        let mut buffers = vec![Vec::with_capacity(room); count];
        let mut flush = |window: usize, buffer: &mut Vec<u8>| -> Result<()> {
            pieces[window].push((out.offset(), buffer.len() as u32));
            out.push(buffer)?;
            buffer.clear();
            Ok(())
        };
        let (mut bytes, mut words) = (Vec::new(), Vec::new());
        for first in (0..self.rows).step_by(BATCH) {
            let batch = BATCH.min((self.rows - first) as usize);
            let at = u64::from(first) * (1 + FORWARD) as u64;
            forward.read_words(at, batch * (1 + FORWARD), &mut bytes, &mut words)?;
            for (links, node) in words.chunks_exact(1 + FORWARD).zip(first..) {
                for id in &links[1..=links[0] as usize] {
                    let to = (id / window) as usize;
                    let buffer = &mut buffers[to];
                    buffer.extend_from_slice(&id.to_le_bytes());
                    buffer.extend_from_slice(&node.to_le_bytes());
                    if buffer.len() + EDGE > room {
                        flush(to, buffer)?;
                    }
                }
            }
        }
        for (window, buffer) in buffers.iter_mut().enumerate() {
            flush(window, buffer)?;
        }
        Ok(Windows {
            stored: out.finish()?,
            pieces,
        })
    }

    fn link_window(
        &self,
        nodes: Range<u32>,
        mut edges: &[(u32, u32)],
        forward: &Stored<'_>,
        records: &mut Records<'_>,
        out: &mut Appender<'_>,
    ) -> Result<()> {
        let stride = records.stride;
        let (mut bytes, mut words) = (Vec::new(), Vec::new());
        // Of each node: its record and its candidates' records, one after another, and the candidates' numbers.
        let (mut gathered, mut ids, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut links = Vec::new();
        for first in nodes.clone().step_by(BATCH) {
            let batch = BATCH.min((nodes.end - first) as usize);
            let at = u64::from(first) * (1 + FORWARD) as u64;
            forward.read_words(at, batch * (1 + FORWARD), &mut bytes, &mut words)?;
            gathered.clear();
            ids.clear();
            ends.clear();
            for (own, node) in words.chunks_exact(1 + FORWARD).zip(first..) {
                let own = some(&own[1..]);
                let start = ids.len();
                ids.extend_from_slice(own);
                let back = edges.partition_point(|(to, _)| *to == node);
                let (now, later) = edges.split_at(back);
                ids.extend(every(now, BACK_MAX).filter(|from| !own.contains(from)));
                edges = later;
                ends.push(ids.len());
                records.copy(node, &mut gathered)?;
                for id in &ids[start..] {
                    records.copy(*id, &mut gathered)?;
                }
            }
            links.clear();
            links.resize(batch * self.degree, NONE);
            self.choose(&gathered, &ids, &ends, stride, &mut links);
            out.push_words(&links)?;
        }
        Ok(())
    }

    fn choose(&self, gathered: &[u8], ids: &[u32], ends: &[usize], stride: usize, links: &mut [u32]) {
        let share = ends.len().div_ceil(self.threads.max(1)).max(1);
        std::thread::scope(|scope| {
            for (part, links) in links.chunks_mut(share * self.degree).enumerate() {
                scope.spawn(move || {
                    let mut pruning = Pruning::default();
                    for (i, links) in (part * share..).zip(links.chunks_exact_mut(self.degree)) {
                        let start = if i == 0 { 0 } else { ends[i - 1] };
                        let ids = &ids[start..ends[i]];
                        // A record of its own stands before each node's candidates.
                        let records = &gathered[(start + i) * stride..][..(1 + ids.len()) * stride];
                        choose_one(ids, records, stride, &mut pruning, links);
                    }
                });
            }
        });
    }
}

fn choose_one(ids: &[u32], records: &[u8], stride: usize, pruning: &mut Pruning, links: &mut [u32]) {
    let (own, others) = records.split_at(stride);
    let Pruning {
        compared,
        candidates,
        records,
        ..
    } = pruning;
    compared.prepare(own);
    candidates.clear();
    compared.distances(kernels(), others, stride, |i, distance| {
        candidates.push((distance, i as u32));
    });
    candidates.sort_unstable();
    records.clear();
    for (_, place) in &*candidates {
        records.extend_from_slice(&others[*place as usize * stride..][..stride]);
    }
    pruning.choose(stride, links.len());
    for (link, place) in links.iter_mut().zip(&pruning.order) {
        *link = ids[pruning.candidates[*place as usize].1 as usize];
    }
}

/// The sources of at most `most` of the edges, evenly out of all.
fn every(edges: &[(u32, u32)], most: usize) -> impl Iterator<Item = u32> {
    let count = edges.len().min(most);
    (0..count).map(move |i| edges[i * edges.len() / count].1)
}
