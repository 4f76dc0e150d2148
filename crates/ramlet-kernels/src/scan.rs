//! Kernels over packed codes: groups of 32 that are scanned by lookup, and bit planes.

use crate::operands::{COLUMN_BYTES, GROUP, MAX_U8_DIMS};
use crate::table::Kernels;

/// Most columns of a group: the sums stay far below `u32`, and one block of `u16` sums is bounded.
pub const MAX_COLUMNS: usize = 16_384;

/// Most bit planes of a code: its codes and a query's bytes multiply pairwise within `i16`.
pub const MAX_PLANES: u32 = 7;

/// Columns that may be summed in `u16`: `256 * 255 < 65,536`.
pub(crate) const COLUMNS_U16: usize = 256;

impl Kernels {
    /// Sums of table entries that 4-bit codes choose, for groups of [`GROUP`] vectors (FastScan: André, Kermarrec and
    /// Le Scouarnec, "Cache locality is not enough", VLDB 2015):
    /// `out[g * 32 + v] = sum over c in 0..columns of lut[c * 16 + code(g, c, v)]`.
    ///
    /// Byte `j` of a group's column `c` has the code of vector `j` in its low half and that of vector `16 + j` in its
    /// high half. A group begins every `stride` bytes with its `columns * 16` bytes; nothing behind those is read. `out`
    /// has 32 entries for each group, `lut` has 16 for each column.
    ///
    /// Exact up to [`MAX_COLUMNS`] columns.
    pub fn fast_scan_sums(&self, lut: &[u8], groups: &[u8], stride: usize, columns: usize, out: &mut [u32]) {
        assert!(columns <= MAX_COLUMNS, "{columns} columns, at most {MAX_COLUMNS}");
        assert_eq!(
            lut.len(),
            columns * COLUMN_BYTES,
            "a table of {columns} columns has 16 bytes for each"
        );
        assert_eq!(out.len() % GROUP, 0, "sums of a part of a group");
        crate::table::check_rows(lut.len(), groups, stride, out.len() / GROUP);
        // SAFETY: the table proves the features; lengths and extent were just checked.
        unsafe { (self.fast_scan_sums)(lut, groups, stride, &[], out) }
    }

    /// [`Kernels::fast_scan_sums`] of one group; the lines of `ahead` are fetched meanwhile, one for each four columns or so. (A dozen at once
    /// and more wait for each other.)
    pub fn fast_scan_sums_of_group(&self, lut: &[u8], group: &[u8], ahead: &[u8], out: &mut [u32; GROUP]) {
        assert!(
            lut.len() <= MAX_COLUMNS * COLUMN_BYTES && lut.len().is_multiple_of(COLUMN_BYTES),
            "a table of {} bytes",
            lut.len()
        );
        assert!(group.len() >= lut.len(), "a group of {} bytes", group.len());
        // SAFETY: the table proves the features; lengths were just checked.
        unsafe { (self.fast_scan_sums)(lut, group, group.len(), ahead, out) }
    }

    /// Dot product of a signed query with a code in bit planes: `sum of q_i * u_i`, where dimension `i` of the code is
    /// `u_i = sum over p of bit_p(i) << (planes - 1 - p)`.
    ///
    /// The row has `planes` planes of `dims.div_ceil(8)` bytes, the most significant first; dimension `i` is bit `i % 8`
    /// of byte `i / 8`. The query has as many entries as `dims` rounded up to 64, those from `dims` on zero: so it doesn't
    /// matter what the bits behind `dims` are. Exact up to [`MAX_U8_DIMS`] dimensions and [`MAX_PLANES`] planes.
    #[inline]
    pub fn planes_dot(&self, query: &[i8], dims: usize, planes: u32, row: &[u8]) -> i32 {
        let plane_bytes = check_planes(query, dims, planes);
        check_row(row, planes, plane_bytes);
        // SAFETY: the table proves the features; all lengths were just checked.
        unsafe { (self.planes.one)(query, planes, plane_bytes, row) }
    }

    /// [`Kernels::planes_dot`] of rows anywhere in memory, into an `out` of the same length. Several rows are in flight
    /// at once, and those ahead are fetched.
    pub fn planes_dot_many(&self, query: &[i8], dims: usize, planes: u32, rows: &[&[u8]], out: &mut [i32]) {
        let plane_bytes = check_planes(query, dims, planes);
        assert_eq!(rows.len(), out.len(), "rows and results differ in number");
        rows.iter().for_each(|row| check_row(row, planes, plane_bytes));
        // SAFETY: the table proves the features; all lengths were just checked.
        unsafe { (self.planes.many)(query, planes, plane_bytes, rows, out) }
    }

    /// Asks for the cache lines of these bytes, which are soon to be read. A hint: changes nothing, and does nothing
    /// where the processor has no such instruction.
    #[inline]
    pub fn prefetch(bytes: &[u8]) {
        lines(bytes).for_each(fetch);
    }

    /// The same for what is long, and read in sequence later: it comes into the second cache.
    #[inline]
    pub fn prefetch_far(bytes: &[u8]) {
        lines(bytes).for_each(fetch_far);
    }
}

/// Bytes of a plane.
#[inline]
fn check_planes(query: &[i8], dims: usize, planes: u32) -> usize {
    assert!(dims <= MAX_U8_DIMS, "{dims} dimensions, at most {MAX_U8_DIMS}");
    assert!(
        (1..=MAX_PLANES).contains(&planes),
        "{planes} planes, not in 1..={MAX_PLANES}"
    );
    assert_eq!(query.len(), dims.next_multiple_of(64), "a query is padded to 64");
    debug_assert!(
        query[dims..].iter().all(|q| *q == 0),
        "a query is padded with zeros"
    );
    dims.div_ceil(8)
}

#[inline]
fn check_row(row: &[u8], planes: u32, plane_bytes: usize) {
    let row_bytes = planes as usize * plane_bytes;
    assert_eq!(
        row.len(),
        row_bytes,
        "a row of {planes} planes has {row_bytes} bytes"
    );
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// The cache lines that bytes lie in: the first one's beginning may lie before them.
#[inline]
fn lines(bytes: &[u8]) -> impl Iterator<Item = *const u8> {
    let first = bytes.as_ptr();
    let before = first.addr() % LINE;
    let count = if bytes.is_empty() {
        0
    } else {
        (before + bytes.len()).div_ceil(LINE)
    };
    (0..count).map(move |line| first.wrapping_sub(before).wrapping_add(line * LINE))
}

/// Asks for one cache line, wherever it points.
#[inline]
#[cfg(target_arch = "x86_64")]
pub(crate) fn fetch(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86_64 processor has it; it reads nothing that a program could see and never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// Asks for one cache line, wherever it points.
#[inline]
#[cfg(target_arch = "aarch64")]
pub(crate) fn fetch(at: *const u8) {
    // SAFETY: a hint, which reads nothing that a program could see and never faults.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at,
            options(nostack, readonly, preserves_flags));
    }
}

/// There is no such instruction.
#[inline]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn fetch(_at: *const u8) {}

/// Asks for one cache line, wherever it points, not into the nearest cache but the next.
///
/// The nearest takes few requests at a time (24 on Zen 4), and a program that asks for more waits. Groups of 9 lines in runs of
/// five all over 64 MB, asked for ten ahead and each looked at for 30 ns: 60 ns a group that way, 35 so, 80 unasked. But single
/// rows, which are compared at once, are slower so: a whole search 242 us instead of 214, and 205 with groups alone.
#[inline]
#[cfg(target_arch = "x86_64")]
fn fetch_far(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    // SAFETY: every x86_64 processor has it; it reads nothing that a program could see and never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) };
}

/// Asks for one cache line, wherever it points, not into the nearest cache but the next.
#[inline]
#[cfg(target_arch = "aarch64")]
fn fetch_far(at: *const u8) {
    // SAFETY: a hint, which reads nothing that a program could see and never faults.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{at}]", at = in(reg) at,
            options(nostack, readonly, preserves_flags));
    }
}

/// Asks for the first line of what is ahead, as [`Kernels::prefetch_far`] does. A dozen at once wait for each other: between steps of work
/// they don't.
#[inline]
#[cfg(target_arch = "x86_64")]
pub(crate) fn fetch_one(ahead: &mut &[u8]) {
    if let Some((line, later)) = ahead.split_at_checked(LINE) {
        fetch_far(line.as_ptr());
        *ahead = later;
    }
}

/// There is no such instruction.
#[inline]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn fetch_far(_at: *const u8) {}
