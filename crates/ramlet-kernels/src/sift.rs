//! Scanning groups of codes, and keeping the few vectors that may be near.

use crate::scan::{COLUMN_BYTES, GROUP, MAX_COLUMNS};
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

/// How groups are scanned.
#[derive(Clone, Copy, Debug)]
pub struct Sift<'a> {
    /// As in [`Kernels::fastscan`]: 16 bytes for each column.
    pub lut: &'a [u8],
    /// Bytes of a group: its columns, [`FACTOR_BYTES`] of factors, and what isn't looked at.
    pub stride: usize,
    pub bounds: Bounds,
    /// Vectors whose least key is above it are dropped.
    pub limit: f32,
}

/// Groups sifted by one call at most.
pub const SIFT_GROUPS: usize = 8;

/// Room for all of their vectors, and for one register more than is kept.
const ROOM: usize = SIFT_GROUPS * GROUP + 16;

/// Vectors that were kept, ascending.
#[derive(Clone, Debug)]
pub struct Sifted {
    pub(crate) count: usize,
    pub(crate) places: [u32; ROOM],
    pub(crate) sums: [u32; ROOM],
    pub(crate) adds: [f32; ROOM],
    pub(crate) keys: [f32; ROOM],
    pub(crate) lowers: [f32; ROOM],
}

/// One vector that was kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept {
    /// `32 g + v` for vector `v` of group `g`.
    pub place: u32,
    pub sum: u32,
    /// Its factor `a`, widened.
    pub add: f32,
    pub key: f32,
    pub lower: f32,
}

impl Default for Sifted {
    fn default() -> Sifted {
        Sifted {
            count: 0,
            places: [0; ROOM],
            sums: [0; ROOM],
            adds: [0.0; ROOM],
            keys: [0.0; ROOM],
            lowers: [0.0; ROOM],
        }
    }
}

impl Sifted {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub fn get(&self, i: usize) -> Option<Kept> {
        (i < self.count).then(|| Kept {
            place: self.places[i],
            sum: self.sums[i],
            add: self.adds[i],
            key: self.keys[i],
            lower: self.lowers[i],
        })
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Kept> {
        (0..self.count).map_while(|i| self.get(i))
    }

    /// Keeps one more, of which there is room for `ROOM`.
    #[inline]
    pub(crate) fn push(&mut self, kept: Kept) {
        let i = self.count;
        self.places[i] = kept.place;
        self.sums[i] = kept.sum;
        self.adds[i] = kept.add;
        self.keys[i] = kept.key;
        self.lowers[i] = kept.lower;
        self.count += 1;
    }
}

/// Bytes of a group's factors: 32 of `a`, then 32 of `f`, half-precision numbers, little endian.
pub const FACTOR_BYTES: usize = GROUP * 4;

/// Safety: the processor has the table's features; `lut` holds whole columns, `groups` at most [`SIFT_GROUPS`] groups of
/// `stride` bytes, and `stride` isn't less than `lut` and factors; `out` is empty.
pub(crate) type SiftKernel = unsafe fn(&Sift<'_>, groups: &[u8], ahead: &[&[u8]], out: &mut Sifted);

/// What is compared instead of lower bounds, which saves the root of most vectors: one is dropped if
/// `t = key - within` is above zero and `t^2` above `error^2 * max(f^2 - a, 0)`.
#[derive(Clone, Copy)]
pub(crate) struct Within {
    pub(crate) limit: f32,
    pub(crate) error_squared: f32,
}

impl Sift<'_> {
    #[inline]
    pub(crate) fn within(&self) -> Within {
        Within {
            limit: self.limit + self.bounds.rounding,
            error_squared: self.bounds.error * self.bounds.error,
        }
    }
}

impl Kernels {
    /// Sums up the codes of whole groups as [`Kernels::fastscan`] does, and keeps the vectors whose least keys are at
    /// `limit` or below, or no numbers; near `limit`, rounding decides. Factors stand behind a group's columns.
    /// The bytes of `ahead[i]` are fetched while group `i` is scanned.
    ///
    /// Bit-equal in all tables, but for the bits of what isn't a number.
    #[inline]
    pub fn sift(&self, sift: &Sift<'_>, groups: &[u8], ahead: &[&[u8]], out: &mut Sifted) {
        let columns = sift.lut.len() / COLUMN_BYTES;
        assert!(columns <= MAX_COLUMNS && sift.lut.len().is_multiple_of(COLUMN_BYTES));
        assert!(
            sift.stride >= sift.lut.len() + FACTOR_BYTES,
            "groups without factors"
        );
        assert!(
            groups.len().is_multiple_of(sift.stride) && groups.len() <= sift.stride * SIFT_GROUPS,
            "{SIFT_GROUPS} whole groups at most"
        );
        out.count = 0;
        // SAFETY: the table proves the features; lengths were just checked.
        unsafe { (self.sift)(sift, groups, ahead, out) }
    }
}
