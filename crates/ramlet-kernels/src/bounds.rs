//! From the sums of a scanned group to bounds of its vectors' keys.

use crate::scan::GROUP;
use crate::table::Kernels;

/// What turns a sum and two factors of a vector into its key and the least that this may be:
///
/// ```text
/// key   = base + add * a - along * f * (2 sum - offset)
/// lower = key - error * sqrt(max(f^2 - a, 0)) - rounding
/// ```
///
/// For one-bit codes of residuals (RaBitQ; Gao and Long, SIGMOD 2024) `a` is `|r|^2` and `f^2 - a` the square of what the
/// code leaves over.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    pub base: f32,
    pub add: f32,
    pub along: f32,
    pub offset: f32,
    pub error: f32,
    pub rounding: f32,
}

/// Keys and their lower bounds of a group, and its factors `a`, widened.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounded {
    pub keys: [f32; GROUP],
    pub lowers: [f32; GROUP],
    pub adds: [f32; GROUP],
}

impl Default for Bounded {
    fn default() -> Bounded {
        Bounded {
            keys: [0.0; GROUP],
            lowers: [0.0; GROUP],
            adds: [0.0; GROUP],
        }
    }
}

/// Bytes of a group's factors: 32 of `a`, then 32 of `f`, half-precision numbers, little endian.
pub const FACTOR_BYTES: usize = GROUP * 4;

/// Safety: the processor has the table's features.
pub(crate) type BoundsKernel = unsafe fn(
    &Bounds,
    sums: &[u32; GROUP],
    factors: &[u8; FACTOR_BYTES],
    limit: f32,
    out: &mut Bounded,
) -> u32;

impl Kernels {
    /// Keys and lower bounds of a group's vectors; bit `v` of the result is set unless the lower bound of vector `v` is
    /// above `limit` (so it is if the bound isn't a number). Sums are below 2^31. Bit-equal in all tables, but for the
    /// bits of what isn't a number.
    #[inline]
    pub fn bound(
        &self,
        bounds: &Bounds,
        sums: &[u32; GROUP],
        factors: &[u8; FACTOR_BYTES],
        limit: f32,
        out: &mut Bounded,
    ) -> u32 {
        // SAFETY: the table proves the features.
        unsafe { (self.bound)(bounds, sums, factors, limit, out) }
    }
}
