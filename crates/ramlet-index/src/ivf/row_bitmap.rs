//! The positions of a bitmap's rows, so that clusters are visited for those rows only.
//!
//! Whoever knows the positions visits no cluster and scans no group without a row that may be found; so a filtered search
//! compares a part of what an exact one compares, the nearest first, whether the filter admits what lies around the query
//! or nothing of it. Without them the codes of everything on the way are scanned, and each that might be near looked up in
//! the bitmap: 20 ms where 1 % of 1,000,000 rows match and none of them near the query, 1 ms with them.

use crate::quant::{GROUP, lanes};

/// Bytes of a row bitmap that are kept for the next search.
const KEPT_BYTES: usize = 64 << 10;

/// A bit for each position: those that may be found. A word for each group of codes.
#[derive(Debug, Default)]
pub(crate) struct RowBitmap {
    pub(super) words: Vec<u32>,
    /// Positions that are read together, where there are no codes in RAM.
    pub(super) reading: Vec<u32>,
}

impl RowBitmap {
    /// Bytes for so many rows.
    pub(crate) fn bytes_for(rows: u32) -> u64 {
        u64::from(rows).div_ceil(GROUP as u64) * 4
    }

    pub(super) fn clear(&mut self, rows: u32) {
        self.words.clear();
        self.words.resize((rows as usize).div_ceil(GROUP), 0);
        self.reading.clear();
    }

    /// Gives back what a large segment took.
    pub(super) fn trim(&mut self) {
        if self.words.capacity() * 4 > KEPT_BYTES {
            self.words = Vec::new();
        }
    }

    #[inline]
    pub(super) fn set(&mut self, position: u32) {
        self.words[position as usize / GROUP] |= 1 << (position as usize % GROUP);
    }

    /// The groups of a range of positions that have such positions, with their lanes.
    pub(super) fn groups(&self, range: std::ops::Range<u32>) -> impl Iterator<Item = (u32, u32)> + '_ {
        let group = GROUP as u32;
        let groups = range.start / group..range.end.div_ceil(group);
        groups.filter_map(move |number| match self.words[number as usize] {
            0 => None,
            word => match word & lanes(number * group, &range) {
                0 => None,
                lanes => Some((number, lanes)),
            },
        })
    }
}

/// Shows `each` the positions of lanes of a group.
pub(super) fn each_lane(group: u32, mut lanes: u32, mut each: impl FnMut(u32)) {
    while lanes != 0 {
        each(group * GROUP as u32 + lanes.trailing_zeros());
        lanes &= lanes - 1;
    }
}
