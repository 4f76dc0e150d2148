//! Codes: a few bits per dimension from which a row's distance is estimated within a known error.
//!
//! Extended RaBitQ (Gao and Long, SIGMOD 2024; Gao et al., "Practical and asymptotically optimal quantization of
//! high-dimensional vectors", 2025). A row `x` of the cluster around `c` is coded by its residual, rotated by the same
//! random rotation `P` for all: `r = P x - c`, with `c` a rotated centroid. Its code is the grid vector `u` (each `u_i`
//! one of `2^B` values, one apart and symmetric around 0) that points most nearly in the direction of `r`. With
//! `f = |r|^2 / <u, r>` the remainder `r - f u` is perpendicular to `r`, and the rotation makes its direction random;
//! therefore, for any `y`,
//!
//! ```text
//! <r, y> = f <u, y>,  off by about |r - f u| |y| / sqrt(d - 1)
//! ```
//!
//! | metric | distance | `y` |
//! |---|---|---|
//! | Euclid | `\|P q - c\|^2 + \|r\|^2 - 2 <r, y>` | `P q - c` |
//! | Cosine | `(\|P q - c\|^2 + \|r\|^2 - \|q\|^2 - \|x\|^2) / 2 - <r, y>` | `P q - c` |
//! | Dot | `-<P q, c> - <r, y>` | `P q` |
//!
//! The uppermost bit of a level is the sign of `r_i`, whatever `B`: so the signs stand once, in groups of 32 rows that
//! are scanned by table look-up ([`GroupLayout`]), and the further bits as planes in a file of their own
//! ([`ExtendedLayout`]) that is looked at for few. `y` is rounded once per cluster, to whole numbers `z` such that the sums
//! of four of them fit a byte; everything after that is exact in integers, and the scan's sum is a part of the finer
//! one. Manhattan has no codes: rotating would change its distances.

mod encoder;
mod extended;
mod group;
pub(crate) mod product;
mod query;
mod residual_codes;
mod rotation;
mod row_ids;
mod sq8;

pub(crate) use encoder::{Encoder, Residual};
pub(crate) use extended::ExtendedLayout;
pub(crate) use group::{GROUP, GroupLayout, SignRow, groups, lanes};
pub use query::Epsilon;
pub(crate) use query::{CodeQuery, CodeSpace, ResidualQuery, SQ8_AT_ONCE};
use ramlet_format::rows::RowsLayout;
pub(crate) use row_ids::RowIdsLayout;
pub(crate) use sq8::{Sq8Layout, Sq8Row};

pub(crate) use residual_codes::ResidualLayout;
pub(crate) use rotation::Rotation;

use crate::Metric;

/// Bits that all dimensions of an extended code have together, at least (if eight each suffice).
const EXTENDED_BITS: usize = 600;
/// The same for the extended codes of fewer bits.
const EXTENDED_LOW_BITS: usize = 300;

/// Which codes a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKind {
    /// Signs, in groups of 32 rows: `d / 8 + 7` bytes a row (8 in a segment of 2^24 rows or more).
    OneBit,
    /// The further bits of codes of `bits` (2 to 8) in all: `(bits - 1) * d / 8 + 2` bytes a row.
    Extended { bits: u8 },
    /// Product codes of `m` sub-quantizers of 4 bits, in groups of 32 rows: `m / 2` bytes a row. In place of `OneBit` where there
    /// is no room for more; every row of a result is then read. With `row_ids` each group has the rows' numbers behind its codes, 3 bytes
    /// a row more (4 in a segment of 2^24 rows or more): who knows which row it is drops it without reading it; with so many
    /// sub-quantizers that few rows need rescoring.
    Product { m: u16, row_ids: bool },
    /// What the longest extended codes leave over, in `bits` (2 to 7): `bits * d / 8 + 6` bytes a row. Of use beside them only: then no
    /// row is read.
    Residual { bits: u8 },
    /// Rows of a byte a dimension, with their numbers: `d + 12` bytes a row. They stay on disk, and are read in place of the vectors:
    /// more of them lie in a page.
    Sq8,
}

impl CodeKind {
    /// Bits a dimension up to which codes leave many rows to be rescored, and scores by them are far off.
    pub const ROUGH_BITS: u8 = 2;

    /// The extended codes that leave one or two rows to read per search: 6 bits at 100 dimensions, 3 at 768, 2 at 1536.
    pub fn extended(dims: usize) -> CodeKind {
        let least = if dims <= 1024 { 3 } else { 2 };
        CodeKind::Extended {
            bits: EXTENDED_BITS.div_ceil(dims.max(1)).clamp(least, 8) as u8,
        }
    }

    /// Extended codes of about half as many bits, where that makes a difference.
    pub fn extended_low(dims: usize) -> Option<CodeKind> {
        let bits = EXTENDED_LOW_BITS.div_ceil(dims.max(1)).clamp(2, 8) as u8;
        let low = CodeKind::Extended { bits };
        (low.row_bytes(dims, 0) < CodeKind::extended(dims).row_bytes(dims, 0)).then_some(low)
    }

    /// Product codes of 4 bits for every two dimensions: 25 bytes a row at 100 dimensions.
    pub fn product(dims: usize) -> CodeKind {
        CodeKind::Product {
            m: product::ProductShape::scanned(dims).parts as u16,
            row_ids: false,
        }
    }

    /// What extended codes of so many bits leave over, such that all are 12 bits at 100 dimensions, 10 at 768, 9 at 1536.
    pub fn residual(dims: usize, extended: u8) -> CodeKind {
        CodeKind::Residual {
            bits: ResidualLayout::bits_for(dims, extended),
        }
    }

    /// Bytes of one row of the file: of a group of 32 for `OneBit` and `Product`.
    pub fn row_bytes(self, dims: usize, segment_rows: u32) -> usize {
        match self {
            CodeKind::OneBit => GroupLayout::new(dims, segment_rows).row_bytes(),
            CodeKind::Extended { bits } => ExtendedLayout::new(dims, bits).row_bytes(),
            CodeKind::Product { m, row_ids: false } => usize::from(m) * 16,
            CodeKind::Product { m, row_ids: true } => RowIdsLayout::new(m, segment_rows).row_bytes(),
            CodeKind::Residual { bits } => ResidualLayout::new(dims, bits).row_bytes(),
            CodeKind::Sq8 => Sq8Layout::new(dims).row_bytes(),
        }
    }

    /// How the file's rows lie in blocks.
    pub fn layout(self, dims: usize, segment_rows: u32) -> RowsLayout {
        let row_bytes = self.row_bytes(dims, segment_rows) as u32;
        match self {
            // Where these have no room, a cluster's are read.
            CodeKind::Sq8 | CodeKind::OneBit => RowsLayout::for_small_reads(row_bytes),
            _ => RowsLayout::for_row(row_bytes),
        }
    }

    /// Rows of the file for so many vectors.
    pub fn file_rows(self, vectors: u32) -> u32 {
        vectors.div_ceil(self.vectors_per_row())
    }

    /// Vectors of a row of the file.
    pub fn vectors_per_row(self) -> u32 {
        match self {
            CodeKind::OneBit | CodeKind::Product { .. } => GROUP as u32,
            CodeKind::Extended { .. } | CodeKind::Residual { .. } | CodeKind::Sq8 => 1,
        }
    }

    /// Bytes that the codes of so many vectors take in RAM.
    pub fn bytes_for(self, vectors: u32, dims: usize, segment_rows: u32) -> u64 {
        u64::from(self.file_rows(vectors)) * self.row_bytes(dims, segment_rows) as u64
    }

    /// Sub-quantizers of product codes, with or without numbers.
    pub fn subquantizers(self) -> Option<u16> {
        match self {
            CodeKind::Product { m, .. } => Some(m),
            CodeKind::OneBit | CodeKind::Extended { .. } | CodeKind::Residual { .. } | CodeKind::Sq8 => None,
        }
    }

    pub(crate) fn is_valid(self) -> bool {
        match self {
            CodeKind::OneBit | CodeKind::Sq8 => true,
            CodeKind::Extended { bits } => (2..=8).contains(&bits),
            CodeKind::Product { m, .. } => m > 0,
            CodeKind::Residual { bits } => ResidualLayout::is_valid(bits),
        }
    }
}

impl Metric {
    /// Whether rows can be coded: under Manhattan they can't, rotating would change their distances.
    pub fn has_codes(self) -> bool {
        self != Metric::Manhattan
    }

    /// Whether distances are products with the query: words of product codes then overlap, and a query's tables serve all clusters.
    pub fn distances_are_products(self) -> bool {
        matches!(self, Metric::Cosine | Metric::Dot)
    }

    /// Whether codes are compared with the query less the centroid. Under dot product a query may be far shorter
    /// than centroids are, and the error grows with what is compared.
    fn centres_query(self) -> bool {
        self != Metric::Dot
    }

    /// Share of `<r, y>` in a distance.
    fn code_scale(self) -> f32 {
        if self == Metric::Euclid { 2.0 } else { 1.0 }
    }

    /// Below it no distance lies, of whatever query and row.
    fn least_distance(self) -> f32 {
        match self {
            Metric::Euclid | Metric::Manhattan => 0.0,
            Metric::Cosine => -1.0,
            Metric::Dot => f32::NEG_INFINITY,
        }
    }

    /// A distance as estimated, but not below what distances can be; what isn't a number stays so. (Of many rows whose estimates are off by more
    /// than the nearest are away, some seem to lie beyond the query itself, and ruled out all others.)
    #[inline]
    pub(crate) fn possible(self, distance: f32) -> f32 {
        let least = self.least_distance();
        if distance < least { least } else { distance }
    }

    /// Share of the row's own part in a distance.
    fn add_scale(self) -> f32 {
        match self {
            Metric::Euclid => 1.0,
            Metric::Cosine => 0.5,
            Metric::Dot | Metric::Manhattan => 0.0,
        }
    }
}

/// Dot product of two lists, in f64: the factors of codes are computed once and decide what is read.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    ramlet_kernels::kernels().dot_f64(a, b)
}

/// Squared length.
pub(crate) fn squares(values: &[f32]) -> f64 {
    dot(values, values)
}

/// Most that half precision has, the least that it has whole, and the step of what is less.
const HALF_MOST: f64 = 65_504.0;
const HALF_NORMAL: f64 = 1.0 / 16_384.0;
const HALF_STEP: f64 = 1.0 / 16_777_216.0;

/// What isn't a number: whoever reckons with it knows nothing, and nobody takes it for near or far.
const HALF_UNKNOWN: [u8; 2] = [0, 0x7e];

/// Rounds to half precision; what is too large isn't a number, and estimates from it are then not believed. (Infinite factors made
/// distances infinite, of which all rows but these were nearer.)
fn to_half(value: f64) -> [u8; 2] {
    if value.is_nan() || value.abs() > HALF_MOST {
        return HALF_UNKNOWN;
    }
    let mut bits = [0];
    ramlet_kernels::kernels().f32_to_f16(&[value as f32], &mut bits);
    bits[0].to_le_bytes()
}

/// The same, but not more than the value where it is small: rounded up, `a` could exceed `f^2`, of which it is a part.
fn to_half_below(value: f64) -> [u8; 2] {
    match value > 0.0 && value < HALF_NORMAL {
        true => ((value / HALF_STEP) as u16).to_le_bytes(),
        false => to_half(value),
    }
}

fn from_half(bytes: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_le_bytes(bytes));
    let (sign, exponent, fraction) = ((bits & 0x8000) << 16, bits >> 10 & 31, bits & 0x3ff);
    match exponent {
        0 => f32::from_bits(sign | (fraction as f32 / 16_777_216.0).to_bits()),
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests;
