//! Distances between a query and rows, dot products with codes, and half precision.

use crate::operands::{CodeWidth, MAX_U8_DIMS, Measure};
use crate::table::{Kernels, check_rows};

impl Kernels {
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
