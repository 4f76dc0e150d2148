//! Extended codes: the further bits of a row.
//!
//! | bytes | what |
//! |---|---|
//! | 0..n p | `p = B - 1` planes of `n = ceil(d / 8)` bytes, the most significant first: bit `i % 8` of byte `i / 8` belongs to dimension `i` |
//! | 2 | `f` times `2^(B - 1) sqrt(d)` in the index's unit, f16 |

/// Where things lie in a row of extended codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtendedLayout {
    pub(crate) dims: usize,
    /// Bits of a whole level, the sign's included.
    pub(crate) bits: u8,
}

/// Squared error of the best evenly spaced codes of 1 to 8 bits for normal numbers of variance 1 (Max, "Quantizing for
/// minimum distortion", 1960).
const SQUARED_ERRORS: [f64; 8] = [
    0.3634, 0.1188, 0.037_44, 0.011_54, 0.003_495, 0.001_041, 0.000_304, 0.000_087,
];

/// Squared error of rounding `f` to half precision, as a share.
const HALF_SQUARED: f64 = 8e-8;

impl ExtendedLayout {
    pub(crate) fn new(dims: usize, bits: u8) -> ExtendedLayout {
        ExtendedLayout { dims, bits }
    }

    pub(crate) fn planes(&self) -> usize {
        usize::from(self.bits).saturating_sub(1)
    }

    pub(crate) fn plane_bytes(&self) -> usize {
        self.dims.div_ceil(8)
    }

    pub(crate) fn code_bytes(&self) -> usize {
        self.planes() * self.plane_bytes()
    }

    pub(crate) fn row_bytes(&self) -> usize {
        self.code_bytes() + 2
    }

    /// Length of the remainder over that of the residual, squared, as it is on average.
    pub(crate) fn remainder_squared(&self) -> f64 {
        let error = SQUARED_ERRORS[usize::from(self.bits).clamp(1, 8) - 1];
        error / (1.0 - error) + HALF_SQUARED
    }
}
