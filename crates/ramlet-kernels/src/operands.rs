//! What kernels are given and what they give back.

/// Most dimensions a `u8` kernel accepts: above it, a dot product may not fit `u32`.
pub const MAX_U8_DIMS: usize = 65_536;

/// What is summed over the dimensions of two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// `sum a_i * b_i`
    Dot = 0,
    /// `sum (a_i - b_i)^2`
    L2sq = 1,
    /// `sum |a_i - b_i|`
    L1 = 2,
}

/// How many bits a code has in each dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeWidth {
    /// Byte `i` of `n` has dimension `i` in its low half and dimension `n + i` in its high half.
    Four = 0,
    /// Byte `i` is dimension `i`.
    Eight = 1,
}

impl CodeWidth {
    /// Bytes of a code.
    pub const fn code_bytes(self, dims: usize) -> usize {
        match self {
            CodeWidth::Four => dims.div_ceil(2),
            CodeWidth::Eight => dims,
        }
    }

    /// Entries of a query for codes of so many bytes. An odd number of dimensions at four bits leaves one over: 0.
    pub const fn query_len(self, code_bytes: usize) -> usize {
        match self {
            CodeWidth::Four => code_bytes * 2,
            CodeWidth::Eight => code_bytes,
        }
    }
}

/// Sizes of a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extent {
    /// Sum of squares.
    pub squares: f32,
    /// Greatest absolute value.
    pub largest: f32,
    /// Greatest sum of the absolute values of four neighbours, the first of which is a multiple of four.
    pub column: f32,
}

/// What turns a product and a centroid's head (`step`, `length`: f32, little endian) into its distance:
/// `per_length * length + per_product * step * (product - less)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Nearness {
    pub per_length: f32,
    pub per_product: f32,
    pub less: i32,
}

/// A query, and what makes a score of its products.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterleavedQuery<'q> {
    /// Whole columns, zeros behind the last dimension.
    pub levels: &'q [i8],
    pub per_product: f32,
    pub less: i32,
}

/// Codes with what makes scores of their products.
#[derive(Clone, Copy, Debug)]
pub struct InterleavedCodes<'b> {
    /// Whole interleaved blocks without gaps.
    pub codes: &'b [u8],
    pub scales: &'b [f32],
    pub bases: &'b [f32],
}

/// The code of least score so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nearest {
    pub score: f32,
    pub code: u32,
}

/// Scores `base + per_product * scale * (product - less)` up to this one are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterleavedLimit {
    pub base: f32,
    pub most: f32,
}

/// A query by squares, and the squared distances that are wanted of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterleavedBall<'q> {
    /// Whole columns, zeros behind the last dimension.
    pub levels: &'q [i8],
    /// The squared distance of a code is `its square + offset - 2 * product`, modulo 2^32.
    pub offset: u32,
    /// Those below this are wanted.
    pub limit: u32,
}

/// Vectors of a group that [`crate::Kernels::fast_scan_sums`] reads.
pub const GROUP: usize = 32;

/// Bytes of one column of a group, and of one column's lookup table.
pub const COLUMN_BYTES: usize = 16;

/// What turns a sum and two factors of a vector into its distance and the least that this may be:
///
/// ```text
/// distance   = base + add * a - along * f * (2 sum - offset)
/// lower = distance - error * sqrt(max(f^2 - a, 0)) - rounding
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
pub struct FastScan<'a> {
    /// As in [`crate::Kernels::fast_scan_sums`]: 16 bytes for each column.
    pub lut: &'a [u8],
    /// Bytes of a group: its columns, [`FACTOR_BYTES`] of factors, and what isn't looked at.
    pub stride: usize,
    pub bounds: Bounds,
    /// Vectors whose least distance is above it are dropped.
    pub limit: f32,
}

/// Groups scanned by one call at most.
pub const FAST_SCAN_GROUPS: usize = 8;

/// Room for all of their vectors, and for one register more than is kept.
const ROOM: usize = FAST_SCAN_GROUPS * GROUP + 16;

/// Vectors that were kept, ascending.
#[derive(Clone, Debug)]
pub struct FastScanned {
    pub(crate) count: usize,
    pub(crate) places: [u32; ROOM],
    pub(crate) sums: [u32; ROOM],
    pub(crate) adds: [f32; ROOM],
    pub(crate) distances: [f32; ROOM],
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
    pub distance: f32,
    pub lower: f32,
}

impl Default for FastScanned {
    fn default() -> FastScanned {
        FastScanned {
            count: 0,
            places: [0; ROOM],
            sums: [0; ROOM],
            adds: [0.0; ROOM],
            distances: [0.0; ROOM],
            lowers: [0.0; ROOM],
        }
    }
}

impl FastScanned {
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
            distance: self.distances[i],
            lower: self.lowers[i],
        })
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Kept> {
        (0..self.count).map_while(|i| self.get(i))
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// Keeps one more, of which there is room for `ROOM`.
    #[inline]
    pub(crate) fn push(&mut self, kept: Kept) {
        let i = self.count;
        self.places[i] = kept.place;
        self.sums[i] = kept.sum;
        self.adds[i] = kept.add;
        self.distances[i] = kept.distance;
        self.lowers[i] = kept.lower;
        self.count += 1;
    }
}

/// Bytes of a group's factors: 32 of `a`, then 32 of `f`, half-precision numbers, little endian.
pub const FACTOR_BYTES: usize = GROUP * 4;

/// Values of a code.
pub const TRELLIS_STATES: usize = 16;

/// What each value costs; or, with the value before in front, each pair of values.
pub type TrellisCosts = [f32; TRELLIS_STATES];

/// What each value of each sub-quantizer costs by itself: `first + factor * second`, or `first` alone.
#[derive(Clone, Copy, Debug)]
pub struct OwnCosts<'c> {
    pub first: &'c [TrellisCosts],
    pub second: Option<(f32, &'c [TrellisCosts])>,
}
