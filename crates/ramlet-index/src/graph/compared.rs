//! An 8-bit vector that records are compared with.

use ramlet_kernels::{INTERLEAVED_QUAD, InterleavedBall};

/// One thread's 8-bit vector that others are compared with.
#[derive(Debug, Default)]
pub(super) struct Compared {
    query: Vec<i8>,
    /// The sum of its squares, and 256 times the sum of its values; modulo 2^32, as all of this is computed: a distance
    /// itself is below it.
    offset: u32,
}

impl Compared {
    /// Takes a record.
    pub(super) fn prepare(&mut self, record: &[u8]) {
        let code = &record[..record.len() - 4];
        self.query.clear();
        self.query.extend(code.iter().map(|byte| (byte ^ 0x80) as i8));
        let sum: i32 = self.query.iter().map(|value| i32::from(*value)).sum();
        self.offset = squares(record).wrapping_add((sum as u32).wrapping_mul(256));
        let whole = self.query.len().next_multiple_of(INTERLEAVED_QUAD);
        self.query.resize(whole, 0);
    }

    /// The vector, with zeros up to a whole column of an interleaved block.
    pub(super) fn quads(&self) -> &[i8] {
        &self.query
    }

    /// Records nearer than the limit.
    pub(super) fn ball(&self, limit: u32) -> InterleavedBall<'_> {
        InterleavedBall {
            levels: &self.query,
            offset: self.offset,
            limit,
        }
    }

    /// The squared distance of a record of which product and sum of squares are known.
    #[inline]
    pub(super) fn distance(&self, product: i32, squares: u32) -> u32 {
        let twice = (product as u32).wrapping_mul(2);
        squares.wrapping_add(self.offset).wrapping_sub(twice)
    }
}

#[inline]
pub(super) fn squares(record: &[u8]) -> u32 {
    record.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}
