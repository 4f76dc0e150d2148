//! The byte layout of a node, and the number of nodes.
//!
//! A row of the file of nodes, little endian; `D` is the degree:
//!
//! | bytes | what |
//! |---|---|
//! | vector | the row, encoded |
//! | 4 | the segment row's number u32 |
//! | 2 | neighbours u16, at most `D` |
//! | 2 | 0 |
//! | D * ceil(d/2) | the neighbours' codes, in the order in which pruning chose them: a prefix is a sparser graph |
//! | D * 2, D * 2 | their factors f16: `\|r\|^2` and `f` |
//! | D * 3 or 4 | their node numbers, in 3 bytes if there are at most 2^24 nodes |
//! | .. | 0 |

use ramlet_format::PAGE;

use super::code::{AT_ONCE, FACTOR_BYTES, code_bytes};
use crate::Element;
use crate::error::{IndexError, Result};

/// Most neighbours of a node.
pub const DEGREE_MAX: usize = AT_ONCE;

/// Bytes of a block that rows may fill.
const BLOCK: usize = PAGE - 4;

const HEAD: usize = 8;

/// Neighbours of a node from which on more of them don't pay for a larger read.
const DEGREE_USUAL: usize = 128;

/// Neighbours that a node has at least, however large that makes its block.
const DEGREE_LEAST: usize = 64;

/// Pages of a block, as far as [`DEGREE_LEAST`] neighbours fit. A disk gives five sixths as many reads of 8 KiB as of 4.
const PAGES_MAX: usize = 2;

/// A node may lose this share of its neighbours (in percent) if that makes its block a page smaller.
const LOST_PERCENT: usize = 25;

/// Where things lie in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeLayout {
    pub(crate) vector_bytes: usize,
    pub(crate) code_bytes: usize,
    pub(crate) id_bytes: usize,
    pub(crate) degree: usize,
}

impl NodeLayout {
    /// With at most `degree` neighbours; fewer if that makes reads smaller.
    pub(crate) fn choose(element: Element, dims: usize, rows: u32, degree: usize) -> NodeLayout {
        let mut layout = NodeLayout {
            vector_bytes: element.row_bytes(dims),
            code_bytes: code_bytes(dims),
            id_bytes: id_bytes(rows),
            degree: degree.clamp(1, DEGREE_MAX),
        };
        let pages = (layout.used() + 4).div_ceil(PAGE);
        let room = ((pages - 1) * PAGE).saturating_sub(4 + layout.vector_bytes + HEAD);
        let fewer = room / layout.neighbour_bytes();
        if fewer * 100 >= layout.degree * (100 - LOST_PERCENT) {
            layout.degree = fewer;
        }
        layout
    }

    /// As a file of nodes states it.
    pub(crate) fn stated(element: Element, dims: usize, rows: u32, degree: usize) -> NodeLayout {
        NodeLayout {
            vector_bytes: element.row_bytes(dims),
            code_bytes: code_bytes(dims),
            id_bytes: id_bytes(rows),
            degree,
        }
    }

    fn neighbour_bytes(&self) -> usize {
        self.code_bytes + FACTOR_BYTES + self.id_bytes
    }

    fn used(&self) -> usize {
        self.vector_bytes + HEAD + self.degree * self.neighbour_bytes()
    }

    /// Bytes of a row of the file: so many that blocks are one page, or as few as one node takes.
    pub(crate) fn row_bytes(&self) -> usize {
        match BLOCK / self.used() {
            0 => (self.used() + 4).next_multiple_of(PAGE) - 4,
            per_page => BLOCK / per_page,
        }
    }

    /// Bytes of one neighbour's code with its factors.
    pub(crate) fn coded_bytes(&self) -> usize {
        self.code_bytes + FACTOR_BYTES
    }

    fn adds(&self) -> usize {
        self.vector_bytes + HEAD + self.degree * self.code_bytes
    }

    /// Writes a node over `out`, `row_bytes` long. `coded` are the neighbours' codes with their factors.
    pub(crate) fn write(&self, row: &[u8], number: u32, ids: &[u32], coded: &[u8], out: &mut [u8]) {
        out.fill(0);
        out[..self.vector_bytes].copy_from_slice(row);
        out[self.vector_bytes..][..4].copy_from_slice(&number.to_le_bytes());
        out[self.vector_bytes + 4..][..2].copy_from_slice(&(ids.len() as u16).to_le_bytes());
        let adds = self.adds();
        for (i, (id, coded)) in ids.iter().zip(coded.chunks_exact(self.coded_bytes())).enumerate() {
            let (code, factors) = coded.split_at(self.code_bytes);
            out[self.vector_bytes + HEAD + i * self.code_bytes..][..self.code_bytes].copy_from_slice(code);
            out[adds + i * 2..][..2].copy_from_slice(&factors[..2]);
            out[adds + (self.degree + i) * 2..][..2].copy_from_slice(&factors[2..]);
            let at = adds + self.degree * 4 + i * self.id_bytes;
            out[at..][..self.id_bytes].copy_from_slice(&id.to_le_bytes()[..self.id_bytes]);
        }
    }
}

/// Neighbours of a node, unless the caller knows better: as many as fit one page if that is many, else two.
///
/// Simulated with a million rows of 100 dimensions (hard): recall .90 takes 98 reads with 64 neighbours (a page), 58 with 96, 47 with
/// 136 (two pages) and 34 with 208 (three).
pub fn degree_for(rows: u64, dims: usize, element: Element) -> usize {
    let layout = NodeLayout::stated(element, dims, u32::try_from(rows).unwrap_or(u32::MAX), 1);
    let fit = |pages: usize| {
        (pages * PAGE).saturating_sub(4 + layout.vector_bytes + HEAD) / layout.neighbour_bytes()
    };
    let most = (1..=PAGES_MAX).map(fit).find(|fit| *fit >= DEGREE_USUAL);
    most.unwrap_or(fit(PAGES_MAX)).clamp(DEGREE_LEAST, DEGREE_MAX)
}

fn id_bytes(rows: u32) -> usize {
    if rows <= 1 << 24 { 3 } else { 4 }
}

/// A view of one node's row; `check`ed.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    layout: NodeLayout,
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Node<'a> {
    /// `bytes` has [`NodeLayout::row_bytes`] at least.
    pub(crate) fn check(layout: NodeLayout, bytes: &'a [u8]) -> Result<Node<'a>> {
        let at = layout.vector_bytes + 4;
        let count = usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        if count > layout.degree {
            let degree = layout.degree;
            return Err(IndexError::Mismatch(format!(
                "a node has {count} neighbours, at most {degree}"
            )));
        }
        Ok(Node { layout, bytes, count })
    }

    /// The encoded row.
    pub(crate) fn vector(&self) -> &'a [u8] {
        &self.bytes[..self.layout.vector_bytes]
    }

    /// The segment row's number.
    pub(crate) fn number(&self) -> u32 {
        let at = self.layout.vector_bytes;
        let bytes = &self.bytes[at..at + 4];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The first `count` neighbours' codes, and their factors in two lists.
    pub(crate) fn codes(&self, count: usize) -> [&'a [u8]; 3] {
        let (layout, adds) = (&self.layout, self.layout.adds());
        [
            &self.bytes[layout.vector_bytes + HEAD..][..count * layout.code_bytes],
            &self.bytes[adds..][..count * 2],
            &self.bytes[adds + layout.degree * 2..][..count * 2],
        ]
    }

    /// The node number of neighbour `i`.
    pub(crate) fn id(&self, i: usize) -> u32 {
        let width = self.layout.id_bytes;
        let at = self.layout.adds() + self.layout.degree * FACTOR_BYTES + i * width;
        let mut id = [0; 4];
        id[..width].copy_from_slice(&self.bytes[at..at + width]);
        u32::from_le_bytes(id)
    }
}
