//! Edges and codes in RAM, if there is room: a beam search then reads only the nearest nodes, to score them exactly.
//!
//! Taken from the nodes at open: the first edges of each node (they stand in the order of their choice, so a prefix is
//! a sparser graph), sorted and written as gaps of 7 bits a byte, 2 to 3 bytes each; and every node's code, which
//! stands in the lists of those that lead to it. The vectors may be there too, and then nothing is read. Per node about `2.2 * edges + ceil(d/2) + 8` bytes: 130 at 100
//! dimensions and 32 edges.

use std::sync::Arc;

use ramlet_io::IoContext;
use ramlet_kernels::Kernels;
use ramlet_memory::{AnonBuf, Consumer};

use super::code::{AT_ONCE, CodedQuery};
use super::layout::{DEGREE_MAX, Node, NodeLayout};
use super::meta::Meta;
use super::search_list::SearchList;
use crate::error::{IndexError, Result};
use crate::rows::reading::stream;
use crate::rows::rows_file::RowsFile;
use crate::search::search_stats::SearchStats;

/// Nodes whose lists are placed relative to one start.
const GROUP: usize = 64;

/// Bytes by which the memory for edges grows.
const GROWTH: usize = 1 << 20;

/// Most bytes of a list: a count, and 5 per edge.
const LIST_MAX: usize = 1 + 5 * DEGREE_MAX;

/// Numbers seen that are remembered, one per place: it saves looking at most nodes twice.
const SEEN: usize = 1 << 13;

/// A graph's edges and codes.
#[derive(Debug)]
pub struct Ram {
    codes: AnonBuf,
    coded_bytes: usize,
    edges: AnonBuf,
    /// Where each group's lists start u64, and each node's list within them u16.
    groups: AnonBuf,
    places: AnonBuf,
    /// Edges of a node at most.
    per_node: usize,
    /// Each node's vector and number as they stand in its block, if they are here too.
    vectors: Option<AnonBuf>,
    vector_bytes: usize,
}

/// Bytes of RAM for a graph's edges and codes, about (edges take 2 to 3 bytes); and its vectors, if they are to be there.
pub(super) fn bytes_for(rows: u64, layout: &NodeLayout, form: RamForm) -> u64 {
    let edges = form.edges.min(layout.degree) as u64;
    let vector = if form.vectors {
        layout.vector_bytes as u64 + 4
    } else {
        0
    };
    rows * (layout.coded_bytes() as u64 + edges * 5 / 2 + 4 + vector) + (GROWTH + SEEN) as u64
}

/// What of a graph is to be in RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RamForm {
    /// Edges of each node, the first ones.
    pub edges: usize,
    /// The vectors too: then a search reads nothing.
    pub vectors: bool,
}

/// A graph's part in RAM, which views of the same files share.
#[derive(Clone, Debug)]
pub struct GraphInRam(Arc<Ram>);

impl GraphInRam {
    pub(super) fn new(ram: Ram) -> GraphInRam {
        GraphInRam(Arc::new(ram))
    }

    /// What of it there is.
    pub fn form(&self) -> RamForm {
        RamForm {
            edges: self.0.per_node,
            vectors: self.0.vectors.is_some(),
        }
    }
}

impl std::ops::Deref for GraphInRam {
    type Target = Ram;

    fn deref(&self) -> &Ram {
        &self.0
    }
}

/// One thread's memory for beam searches in RAM.
#[derive(Debug, Default)]
pub(super) struct RamLists {
    seen: Vec<u32>,
    ids: Vec<u32>,
    /// Codes of one node's neighbours, and their factors.
    codes: Vec<u8>,
    adds: Vec<u8>,
    scales: Vec<u8>,
}

impl Ram {
    /// Reads all nodes once. Fails if the consumer hasn't the bytes.
    pub(super) fn load(
        meta: &Meta,
        nodes: &RowsFile,
        form: RamForm,
        consumer: &Consumer,
        io: &mut IoContext,
        buf: &mut AnonBuf,
    ) -> Result<Ram> {
        let (layout, rows) = (meta.layout, meta.shape.rows as usize);
        let coded_bytes = layout.coded_bytes();
        let mut ram = Ram {
            codes: AnonBuf::reserved(consumer, rows * coded_bytes)?,
            coded_bytes,
            edges: AnonBuf::reserved(consumer, GROWTH)?,
            groups: AnonBuf::reserved(consumer, rows.div_ceil(GROUP) * 8)?,
            places: AnonBuf::reserved(consumer, rows * 2)?,
            per_node: form.edges.clamp(1, DEGREE_MAX),
            vector_bytes: layout.vector_bytes + 4,
            vectors: match form.vectors {
                true => Some(AnonBuf::reserved(consumer, rows * (layout.vector_bytes + 4))?),
                false => None,
            },
        };
        let mut known = AnonBuf::reserved(consumer, rows.div_ceil(8))?;
        for i in 0..meta.entries {
            let [code, add, scale] = meta.codes(i..i + 1);
            ram.keep(meta.entry(i), code, [add, scale], &mut known);
        }
        let (mut end, mut group) = (0, 0);
        let mut ids = Vec::with_capacity(DEGREE_MAX);
        stream(nodes, buf, io, &mut |id, row| {
            let node = Node::check(layout, row)?;
            if let Some(vectors) = &mut ram.vectors {
                let out = &mut vectors[id as usize * ram.vector_bytes..][..ram.vector_bytes];
                let (vector, number) = out.split_at_mut(layout.vector_bytes);
                vector.copy_from_slice(node.vector());
                number.copy_from_slice(&node.number().to_le_bytes());
            }
            let [codes, adds, scales] = node.codes(node.count());
            let coded = codes
                .chunks_exact(layout.code_bytes)
                .zip(adds.chunks_exact(2).zip(scales.chunks_exact(2)));
            ids.clear();
            for (i, (code, (add, scale))) in coded.enumerate() {
                ids.push(meta.check_node(node.id(i))?);
                ram.keep(ids[i], code, [add, scale], &mut known);
            }
            ids.truncate(ram.per_node);
            ids.sort_unstable();
            let place = id as usize;
            if place.is_multiple_of(GROUP) {
                group = end;
                ram.groups[place / GROUP * 8..][..8].copy_from_slice(&(end as u64).to_le_bytes());
            }
            ram.places[place * 2..][..2].copy_from_slice(&((end - group) as u16).to_le_bytes());
            if ram.edges.len() < end + LIST_MAX {
                let more = ram.edges.len() + GROWTH;
                ram.edges.ensure(more)?;
            }
            end += write_list(&ids, &mut ram.edges[end..]);
            Ok(())
        })?;
        ram.edges.shrink_to(end);
        let missing = (0..rows).find(|id| known[id / 8] >> (id % 8) & 1 == 0);
        match missing {
            None => Ok(ram),
            Some(id) => Err(IndexError::Mismatch(format!("nothing leads to node {id}"))),
        }
    }

    fn keep(&mut self, id: u32, code: &[u8], [add, scale]: [&[u8]; 2], known: &mut [u8]) {
        let (byte, bit) = (&mut known[id as usize / 8], 1 << (id % 8));
        if *byte & bit != 0 {
            return;
        }
        *byte |= bit;
        let out = &mut self.codes[id as usize * self.coded_bytes..][..self.coded_bytes];
        let (to_code, factors) = out.split_at_mut(code.len());
        to_code.copy_from_slice(code);
        factors[..2].copy_from_slice(add);
        factors[2..].copy_from_slice(scale);
    }

    pub(super) fn bytes(&self) -> u64 {
        let all = [&self.codes, &self.edges, &self.groups, &self.places];
        all.into_iter()
            .chain(&self.vectors)
            .map(|buf| buf.capacity() as u64)
            .sum()
    }

    pub(super) fn has_vectors(&self) -> bool {
        self.vectors.is_some()
    }

    /// A node's vector and the segment row's number, if they are here.
    pub(super) fn vector(&self, node: u32) -> Option<(&[u8], u32)> {
        let vectors = self.vectors.as_ref()?;
        let own = &vectors[node as usize * self.vector_bytes..][..self.vector_bytes];
        let (vector, number) = own.split_last_chunk()?;
        Some((vector, u32::from_le_bytes(*number)))
    }

    /// Share of a full node's edges that is here.
    pub(super) fn share(&self, degree: usize) -> f64 {
        (self.per_node as f64 / degree as f64).min(1.0)
    }

    /// Visits the nearest nodes known until all of them are visited.
    pub(super) fn beam_search(
        &self,
        query: &CodedQuery,
        candidates: &mut SearchList,
        lists: &mut RamLists,
        kernels: &Kernels,
        stats: &mut SearchStats,
    ) {
        lists.start(self.coded_bytes);
        while let Some((_, node)) = candidates.visit() {
            self.gather(node, lists);
            let count = lists.ids.len();
            let mut distances = [0.0f32; AT_ONCE];
            let distances = &mut distances[..count];
            query.estimate(kernels, &lists.codes, &lists.adds, &lists.scales, distances);
            stats.codes_scored += count as u64;
            for (distance, id) in distances.iter().zip(&lists.ids) {
                if *distance <= candidates.threshold() {
                    candidates.offer(*distance, *id);
                }
            }
        }
    }

    /// A node's neighbours that weren't seen lately, with their codes.
    fn gather(&self, node: u32, lists: &mut RamLists) {
        let RamLists {
            seen,
            ids,
            codes,
            adds,
            scales,
        } = lists;
        ids.clear();
        codes.clear();
        adds.clear();
        scales.clear();
        read_list(self.list(node), |id| {
            let place = &mut seen[id.wrapping_mul(0x9e37_79b1) as usize >> (32 - SEEN.ilog2())];
            if *place != id {
                *place = id;
                ids.push(id);
            }
        });
        for id in &*ids {
            let coded = &self.codes[*id as usize * self.coded_bytes..][..self.coded_bytes];
            let (code, factors) = coded.split_at(self.coded_bytes - 4);
            codes.extend_from_slice(code);
            adds.extend_from_slice(&factors[..2]);
            scales.extend_from_slice(&factors[2..]);
        }
    }

    fn list(&self, node: u32) -> &[u8] {
        let node = node as usize;
        let group = self.groups[node / GROUP * 8..]
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let within = u16::from_le_bytes([self.places[node * 2], self.places[node * 2 + 1]]);
        &self.edges[group as usize + usize::from(within)..]
    }
}

impl RamLists {
    fn start(&mut self, coded_bytes: usize) {
        self.seen.clear();
        self.seen.resize(SEEN, u32::MAX);
        self.ids.reserve(DEGREE_MAX);
        self.codes.reserve(DEGREE_MAX * coded_bytes);
        self.adds.reserve(DEGREE_MAX * 2);
        self.scales.reserve(DEGREE_MAX * 2);
    }
}

/// Writes a count and the gaps of ascending numbers; how many bytes. There is room for [`LIST_MAX`].
fn write_list(ids: &[u32], out: &mut [u8]) -> usize {
    out[0] = ids.len() as u8;
    let (mut at, mut last) = (1, 0);
    for id in ids {
        let mut gap = id - last;
        last = *id;
        while gap >= 0x80 {
            out[at] = gap as u8 | 0x80;
            gap >>= 7;
            at += 1;
        }
        out[at] = gap as u8;
        at += 1;
    }
    at
}

/// Calls `each` with the numbers that `write_list` wrote.
fn read_list(bytes: &[u8], mut each: impl FnMut(u32)) {
    let (mut at, mut last) = (1, 0u32);
    for _ in 0..bytes[0] {
        let (mut gap, mut shift) = (0, 0);
        loop {
            let byte = bytes[at];
            at += 1;
            gap |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
            shift += 7;
        }
        last += gap;
        each(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back() {
        let lists: [&[u32]; 5] = [
            &[],
            &[0],
            &[u32::MAX],
            &[5, 5, 132, 133, 1 << 14, u32::MAX - 1],
            &[127, 255],
        ];
        for ids in lists {
            let mut bytes = [0xaa; LIST_MAX];
            let len = write_list(ids, &mut bytes);
            let mut back = Vec::new();
            read_list(&bytes[..len], |id| back.push(id));
            assert_eq!(back, ids);
        }
    }
}
