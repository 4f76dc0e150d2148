//! The table of kernels of one instruction set, and the choice of a table at run time.

use std::sync::OnceLock;

use crate::arch;
use crate::braid::BraidedKernel;
use crate::entry::EntryKernels;
use crate::grid::GridKernels;
use crate::nearest::NearestKernels;
use crate::nearness::{NearnessKernel, PlacesKernel};
use crate::scan::{FastscanKernel, PlanesKernel};
use crate::sift::SiftKernel;
use crate::trellis::TrellisKernels;

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

/// One float kernel. `row` holds the second vector's elements as little-endian bytes, at any alignment.
///
/// Safety of both: the processor has the table's features; a row has exactly the query's dimensions; `rows`
/// covers `out.len()` rows which start `stride` bytes apart.
#[derive(Clone, Copy)]
pub(crate) struct FloatKernel {
    pub(crate) one: unsafe fn(query: &[f32], row: &[u8]) -> f32,
    pub(crate) rows: unsafe fn(query: &[f32], rows: &[u8], stride: usize, out: &mut [f32]),
}

/// Safety: the processor has the table's features; both slices have the same length, at most `MAX_U8_DIMS`.
pub(crate) type U8Kernel = unsafe fn(&[u8], &[u8]) -> u32;

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

/// Safety: the processor has the table's features; `rows` covers `out.len()` codes which start `stride` bytes apart;
/// the query is as long as a code has dimensions, at most `MAX_U8_DIMS`.
pub(crate) type CodesKernel = unsafe fn(query: &[i8], rows: &[u8], stride: usize, out: &mut [i32]);

/// The kernels of one instruction set. Holding a reference proves that the processor has its features.
///
/// Slices of different lengths are a programming error and panic.
pub struct Kernels {
    pub(crate) name: &'static str,
    /// Indexed by [`Measure`].
    pub(crate) f32: [FloatKernel; 3],
    pub(crate) f16: [FloatKernel; 3],
    pub(crate) u8: [U8Kernel; 3],
    /// Indexed by [`CodeWidth`].
    pub(crate) codes: [CodesKernel; 2],
    pub(crate) fastscan: FastscanKernel,
    pub(crate) planes: PlanesKernel,
    pub(crate) entry: EntryKernels,
    pub(crate) sift: SiftKernel,
    pub(crate) nearness: NearnessKernel,
    pub(crate) places: PlacesKernel,
    pub(crate) braided: BraidedKernel,
    pub(crate) nearest: NearestKernels,
    pub(crate) grid: GridKernels,
    pub(crate) trellis: TrellisKernels,
    /// Safety: the processor has the table's features; both slices have the same length.
    pub(crate) to_f16: unsafe fn(&[f32], &mut [u16]),
    pub(crate) from_f16: unsafe fn(&[u16], &mut [f32]),
}

/// The best table for this processor, chosen once.
///
/// `RAMLET_KERNELS` = `scalar`, `avx2`, `avx512`, `avx512vbmi` or `neon` forces one; a table that is unknown or that this
/// processor lacks is ignored.
pub fn kernels() -> &'static Kernels {
    static CHOSEN: OnceLock<&'static Kernels> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let forced = std::env::var("RAMLET_KERNELS").unwrap_or_default();
        Kernels::by_name(&forced).unwrap_or_else(Kernels::best)
    })
}

impl Kernels {
    /// The reference: plain Rust, on every processor.
    pub fn scalar() -> &'static Kernels {
        &arch::scalar::TABLE
    }

    /// Every table that this processor can run, slowest first.
    pub fn all_available() -> impl Iterator<Item = &'static Kernels> {
        arch::detected().into_iter().flatten()
    }

    /// The table of that name, if this processor can run it.
    pub fn by_name(name: &str) -> Option<&'static Kernels> {
        Kernels::all_available().find(|table| table.name == name)
    }

    fn best() -> &'static Kernels {
        Kernels::all_available().last().unwrap_or(Kernels::scalar())
    }

    /// `scalar`, `avx2`, `avx512`, `avx512vbmi` or `neon`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Dot product.
    pub fn dot_f32(&self, a: &[f32], b: &[f32]) -> f32 {
        self.f32_row(Measure::Dot, a, f32_bytes(b))
    }

    /// Sum of squared differences.
    pub fn l2sq_f32(&self, a: &[f32], b: &[f32]) -> f32 {
        self.f32_row(Measure::L2sq, a, f32_bytes(b))
    }

    /// Sum of absolute differences.
    pub fn l1_f32(&self, a: &[f32], b: &[f32]) -> f32 {
        self.f32_row(Measure::L1, a, f32_bytes(b))
    }

    /// Dot product of a query with a row of half-precision bits.
    pub fn dot_f16(&self, query: &[f32], row: &[u16]) -> f32 {
        self.f16_row(Measure::Dot, query, u16_bytes(row))
    }

    /// Sum of squared differences of a query and a row of half-precision bits.
    pub fn l2sq_f16(&self, query: &[f32], row: &[u16]) -> f32 {
        self.f16_row(Measure::L2sq, query, u16_bytes(row))
    }

    /// Sum of absolute differences of a query and a row of half-precision bits.
    pub fn l1_f16(&self, query: &[f32], row: &[u16]) -> f32 {
        self.f16_row(Measure::L1, query, u16_bytes(row))
    }

    /// Dot product, exact up to [`MAX_U8_DIMS`] dimensions.
    pub fn dot_u8(&self, a: &[u8], b: &[u8]) -> u32 {
        self.u8_row(Measure::Dot, a, b)
    }

    /// Sum of squared differences, exact up to [`MAX_U8_DIMS`] dimensions.
    pub fn l2sq_u8(&self, a: &[u8], b: &[u8]) -> u32 {
        self.u8_row(Measure::L2sq, a, b)
    }

    /// Sum of absolute differences, exact up to [`MAX_U8_DIMS`] dimensions.
    pub fn l1_u8(&self, a: &[u8], b: &[u8]) -> u32 {
        self.u8_row(Measure::L1, a, b)
    }

    /// Compares `query` with a row of `f32` as they lie on disk: little-endian, any alignment.
    #[inline]
    pub fn f32_row(&self, measure: Measure, query: &[f32], row: &[u8]) -> f32 {
        assert_eq!(row.len(), query.len() * 4, "row and query differ in dimensions");
        if query.len() < SUMMED_IN_ORDER {
            return in_order(measure, query, row);
        }
        // SAFETY: the table proves the features; the lengths were just compared.
        unsafe { (self.f32[measure as usize].one)(query, row) }
    }

    /// Compares `query` with a row of half-precision numbers as they lie on disk: little-endian, any alignment.
    #[inline]
    pub fn f16_row(&self, measure: Measure, query: &[f32], row: &[u8]) -> f32 {
        assert_eq!(row.len(), query.len() * 2, "row and query differ in dimensions");
        // SAFETY: the table proves the features; the lengths were just compared.
        unsafe { (self.f16[measure as usize].one)(query, row) }
    }

    /// Compares two vectors of bytes; see [`MAX_U8_DIMS`].
    #[inline]
    pub fn u8_row(&self, measure: Measure, query: &[u8], row: &[u8]) -> u32 {
        assert_eq!(row.len(), query.len(), "row and query differ in dimensions");
        assert!(
            row.len() <= MAX_U8_DIMS,
            "{} dimensions, at most {MAX_U8_DIMS}",
            row.len()
        );
        // SAFETY: the table proves the features; the lengths were just compared.
        unsafe { (self.u8[measure as usize])(query, row) }
    }

    /// [`Kernels::f32_row`] for `out.len()` rows which start `stride` bytes apart, bit-equal to it.
    /// Faster than one call per row, because several rows are in flight at once.
    pub fn f32_rows(&self, measure: Measure, query: &[f32], rows: &[u8], stride: usize, out: &mut [f32]) {
        check_rows(query.len() * 4, rows, stride, out.len());
        if query.len() < SUMMED_IN_ORDER {
            for (i, out) in out.iter_mut().enumerate() {
                *out = in_order(measure, query, &rows[i * stride..][..query.len() * 4]);
            }
            return;
        }
        // SAFETY: the table proves the features; `check_rows` has checked the extent.
        unsafe { (self.f32[measure as usize].rows)(query, rows, stride, out) }
    }

    /// [`Kernels::f16_row`] for `out.len()` rows which start `stride` bytes apart, bit-equal to it.
    pub fn f16_rows(&self, measure: Measure, query: &[f32], rows: &[u8], stride: usize, out: &mut [f32]) {
        check_rows(query.len() * 2, rows, stride, out.len());
        // SAFETY: the table proves the features; `check_rows` has checked the extent.
        unsafe { (self.f16[measure as usize].rows)(query, rows, stride, out) }
    }

    /// Dot products of a signed query with `out.len()` codes of unsigned integers, which start `stride` bytes apart.
    /// A code has `query.len() / 2` bytes at four bits (the query's length is even), `query.len()` at eight.
    ///
    /// Exact up to [`MAX_U8_DIMS`] dimensions. Some processors take half the time at eight bits where no entry of the query is beyond 64.
    pub fn dot_codes(&self, width: CodeWidth, query: &[i8], rows: &[u8], stride: usize, out: &mut [i32]) {
        let code_bytes = match width {
            CodeWidth::Four => query.len() / 2,
            CodeWidth::Eight => query.len(),
        };
        assert_eq!(query.len(), width.query_len(code_bytes), "a query of odd length");
        assert!(
            query.len() <= MAX_U8_DIMS,
            "{} dimensions, at most {MAX_U8_DIMS}",
            query.len()
        );
        check_rows(code_bytes, rows, stride, out.len());
        // SAFETY: the table proves the features; lengths and extent were just checked.
        unsafe { (self.codes[width as usize])(query, rows, stride, out) }
    }

    /// Rounds to half precision (IEEE 754 binary16), to nearest, ties to even. Too large becomes infinity;
    /// a NaN stays one, quieted, with the upper bits of its payload.
    pub fn f32_to_f16(&self, from: &[f32], to: &mut [u16]) {
        assert_eq!(
            from.len(),
            to.len(),
            "conversion between slices of different lengths"
        );
        // SAFETY: the table proves the features; the lengths were just compared.
        unsafe { (self.to_f16)(from, to) }
    }

    /// Widens half precision, exactly; a NaN is quieted.
    pub fn f16_to_f32(&self, from: &[u16], to: &mut [f32]) {
        assert_eq!(
            from.len(),
            to.len(),
            "conversion between slices of different lengths"
        );
        // SAFETY: the table proves the features; the lengths were just compared.
        unsafe { (self.from_f16)(from, to) }
    }
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernels({})", self.name)
    }
}

pub(crate) fn check_rows(row_bytes: usize, rows: &[u8], stride: usize, count: usize) {
    let Some(last) = count.checked_sub(1) else { return };
    let end = last
        .checked_mul(stride)
        .and_then(|start| start.checked_add(row_bytes));
    assert!(
        stride >= row_bytes && end.is_some_and(|end| end <= rows.len()),
        "{count} rows of {row_bytes} bytes, {stride} apart, do not lie in {} bytes",
        rows.len()
    );
}

/// Fewer dimensions are summed in their order, each product rounded, on every processor: so does the server whose API this is, and
/// small vectors' scores, which people read and tests compare, are the same to the last digit. (With 100 it would take ten times as long.)
const SUMMED_IN_ORDER: usize = 16;

fn in_order(measure: Measure, query: &[f32], row: &[u8]) -> f32 {
    let row = row
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes));
    let pairs = query.iter().zip(row);
    match measure {
        Measure::Dot => pairs.fold(0.0, |sum, (q, v)| sum + q * v),
        Measure::L2sq => pairs.fold(0.0, |sum, (q, v)| sum + (q - v) * (q - v)),
        Measure::L1 => pairs.fold(0.0, |sum, (q, v)| sum + (q - v).abs()),
    }
}

fn f32_bytes(values: &[f32]) -> &[u8] {
    // SAFETY: the same memory; bytes have no alignment and no invalid values.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

fn u16_bytes(values: &[u16]) -> &[u8] {
    // SAFETY: the same memory; bytes have no alignment and no invalid values.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}
