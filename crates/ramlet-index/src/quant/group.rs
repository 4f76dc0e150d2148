//! 1-bit codes of 32 rows in scan order.
//!
//! | bytes | what |
//! |---|---|
//! | 0..16 n | `n = ceil(d / 4)` columns of 16 bytes: byte `j` of column `c` has the signs of dimensions `4c..4c + 4` (bit 0 is dimension `4c`; 1 is not negative) of row `j` in its low half and of row `16 + j` in its high half |
//! | 64 | `add` of the 32 rows, f16 |
//! | 64 | `f` of the 32 rows times `sqrt(d)`, f16; 0 when a row is its centroid |
//! | 96 or 128 | numbers of the rows in the segment, 3 bytes each, or 4 in a segment of 2^24 rows or more |
//!
//! `add` is `|r|^2` (under cosine `+ 1 - |x|^2`) in units of the square of the index's unit, `f` in those units. What
//! isn't filled at the end of the file is 0.
//!
//! The arrangement is that of André, Kermarrec, Le Scouarnec, "Cache locality is not enough: high-performance nearest
//! neighbor search with product quantization fast scan" (2015), with groups of 32.

use std::ops::Range;

use ramlet_kernels::FACTOR_BYTES;

use super::from_half;

/// Rows of a group.
pub(crate) const GROUP: usize = 32;

/// Bytes of a row's number.
pub(super) fn number_bytes(segment_rows: u32) -> usize {
    if segment_rows < 1 << 24 { 3 } else { 4 }
}

/// Where things lie in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupLayout {
    pub(crate) columns: usize,
    number_bytes: usize,
}

/// What a group needs of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignRow<'a> {
    /// Bit `i` of byte `i / 8`: the sign of dimension `i`.
    pub(crate) signs: &'a [u8],
    pub(crate) add: [u8; 2],
    pub(crate) factor: [u8; 2],
    pub(crate) number: u32,
}

impl GroupLayout {
    pub(crate) fn new(dims: usize, segment_rows: u32) -> GroupLayout {
        GroupLayout {
            columns: dims.div_ceil(4),
            number_bytes: number_bytes(segment_rows),
        }
    }

    pub(crate) fn row_bytes(&self) -> usize {
        self.columns * 16 + GROUP * (4 + self.number_bytes)
    }

    /// What of a group a scan reads: all but the numbers.
    #[inline]
    pub(crate) fn scanned<'g>(&self, group: &'g [u8]) -> &'g [u8] {
        &group[..self.columns * 16 + FACTOR_BYTES]
    }

    /// Where a row's number stands.
    #[inline]
    pub(crate) fn number_bytes<'g>(&self, group: &'g [u8], lane: usize) -> &'g [u8] {
        let at = self.columns * 16 + FACTOR_BYTES + lane * self.number_bytes;
        &group[at..][..self.number_bytes]
    }

    #[inline]
    pub(crate) fn number(&self, group: &[u8], lane: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes[..self.number_bytes].copy_from_slice(self.number_bytes(group, lane));
        u32::from_le_bytes(bytes)
    }

    pub(crate) fn add(&self, group: &[u8], lane: usize) -> f32 {
        let factors = &group[self.columns * 16..][..FACTOR_BYTES];
        from_half([factors[lane * 2], factors[lane * 2 + 1]])
    }

    /// The signs of a row, bit `i` of byte `i / 8` for dimension `i`, into as many bytes as they take.
    pub(crate) fn signs(&self, group: &[u8], lane: usize, out: &mut [u8]) {
        let shift = if lane < 16 { 0 } else { 4 };
        out.fill(0);
        for column in 0..self.columns {
            let code = group[column * 16 + lane % 16] >> shift & 15;
            out[column / 2] |= code << (column % 2 * 4);
        }
    }

    /// Puts a row in its lane of a group that holds 0 there.
    pub(crate) fn put(&self, group: &mut [u8], lane: usize, row: &SignRow<'_>) {
        let shift = if lane < 16 { 0 } else { 4 };
        for column in 0..self.columns {
            let code = row.signs[column / 2] >> (column % 2 * 4) & 15;
            group[column * 16 + lane % 16] |= code << shift;
        }
        let factors = &mut group[self.columns * 16..];
        factors[lane * 2..][..2].copy_from_slice(&row.add);
        factors[GROUP * 2 + lane * 2..][..2].copy_from_slice(&row.factor);
        factors[GROUP * 4 + lane * self.number_bytes..][..self.number_bytes]
            .copy_from_slice(&row.number.to_le_bytes()[..self.number_bytes]);
    }
}

/// The groups that have these positions.
#[inline]
pub(crate) fn groups(positions: &Range<u32>) -> Range<u32> {
    if positions.is_empty() {
        return 0..0;
    }
    positions.start / GROUP as u32..positions.end.div_ceil(GROUP as u32)
}

/// Bits of the lanes of a group, which begins at position `start`, that are wanted.
#[inline]
pub(crate) fn lanes(start: u32, wanted: &Range<u32>) -> u32 {
    let from = wanted.start.saturating_sub(start);
    let to = (wanted.end - start).min(GROUP as u32);
    let below = |lane: u32| (1u64 << lane) - 1;
    (below(to) & !below(from)) as u32
}
