//! Residual codes: the error that extended codes leave, encoded again.
//!
//! A row's residual is `r = f u + e`, with `f` and `u` as its extended code has them. `e` is coded the same way: all `b` bits of
//! its levels in planes. Together they are a code of 12 bits a dimension, which tells a distance to within a millionth of its
//! scale at a third of the bytes that the row takes: who has both in RAM reads nothing.
//!
//! | bytes | what |
//! |---|---|
//! | 0..n b | `b` planes of `n = ceil(d / 8)` bytes, the most significant (the signs) first, as in extended codes |
//! | 2 | the factor of `e` times `2^(b - 1) sqrt(d)` in the index's unit, f16 |
//! | 2 | by how much `add` is more than the group says, f16 |
//! | 2 | by what share `r` is longer than what both codes say of its own direction, f16 |
//!
//! The last one makes the remainder perpendicular to `r`, as with codes of one stage: a query that equals a row, or nearly,
//! gets that row's distance but for rounding.

use super::{ExtendedLayout, from_half};

/// Bits of a level that codes have in all at 100 dimensions. A distance's error shrinks with the root of the dimensions.
const BITS: f64 = 12.0;
const BITS_DIMS: f64 = 100.0;
/// The kernels take no more planes.
const BITS_MAX: u8 = 7;

/// Where things lie in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResidualLayout {
    pub(crate) dims: usize,
    pub(crate) bits: u8,
}

impl ResidualLayout {
    pub(crate) fn new(dims: usize, bits: u8) -> ResidualLayout {
        ResidualLayout { dims, bits }
    }

    /// Bits of what extended codes of `extended` bits leave over.
    pub(crate) fn bits_for(dims: usize, extended: u8) -> u8 {
        let all = BITS - (dims.max(1) as f64 / BITS_DIMS).log2() / 2.0;
        ((all.ceil() as i32) - i32::from(extended)).clamp(2, i32::from(BITS_MAX)) as u8
    }

    pub(crate) fn is_valid(bits: u8) -> bool {
        (2..=BITS_MAX).contains(&bits)
    }

    pub(crate) fn code_bytes(&self) -> usize {
        usize::from(self.bits) * self.dims.div_ceil(8)
    }

    pub(crate) fn row_bytes(&self) -> usize {
        self.code_bytes() + 6
    }

    /// The factor, what is to be added to `add`, and by what share all is longer.
    pub(crate) fn factors(&self, row: &[u8]) -> [f32; 3] {
        let bytes = &row[self.code_bytes()..];
        std::array::from_fn(|i| from_half([bytes[i * 2], bytes[i * 2 + 1]]))
    }
}

/// The factor of a row's extended code, without what it is stored times.
pub(crate) fn extended_factor(layout: &ExtendedLayout, row: &[u8], unit: f64) -> f64 {
    let bytes = &row[layout.code_bytes()..];
    let scale = (layout.dims as f64).sqrt() * f64::from(1u32 << layout.planes());
    f64::from(from_half([bytes[0], bytes[1]])) * unit / scale
}
