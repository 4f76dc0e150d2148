//! The table of kernels of one instruction set.

use std::ops::Range;

use crate::operands::{
    Extent, FastScan, FastScanned, InterleavedBall, InterleavedCodes, InterleavedLimit, InterleavedQuery,
    Nearest, Nearness, OwnCosts, TRELLIS_STATES, TrellisCosts,
};

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

/// Safety: the processor has the table's features; `rows` covers `out.len()` codes which start `stride` bytes apart;
/// the query is as long as a code has dimensions, at most `MAX_U8_DIMS`.
pub(crate) type CodesKernel = unsafe fn(query: &[i8], rows: &[u8], stride: usize, out: &mut [i32]);

/// Safety of all: the processor has the table's features.
#[derive(Clone, Copy)]
pub(crate) struct EntryKernels {
    /// The slices have the same length.
    pub(crate) difference: unsafe fn(query: &[f32], step: f32, levels: &[u8], out: &mut [f32]) -> Extent,
    /// The slices have the same length.
    pub(crate) round: unsafe fn(values: &[f32], per_unit: f32, out: &mut [i8]) -> (i32, i32),
    /// There are four levels for each column of the table.
    pub(crate) tabulate: unsafe fn(levels: &[i8], table: &mut [u8]),
}

/// Safety: the processor has the table's features.
pub(crate) type NearnessKernel =
    unsafe fn(&Nearness, products: &[i32], heads: &[[u8; 8]], first: u32, out: &mut [u64]);

/// Safety: the processor has the table's features, and there is room for `distances.len() + 4` places at `out`. Returns how many were
/// written.
pub(crate) type PlacesKernel = unsafe fn(distances: &[u64], most: u64, out: *mut u32) -> usize;

/// Safety: the processor has the table's features; `interleaved_blocks` covers the range; one `Nearest` for each query.
type NearestKernel = unsafe fn(
    queries: &[InterleavedQuery<'_>],
    interleaved_blocks: &InterleavedCodes<'_>,
    range: Range<usize>,
    nearest: &mut [Nearest],
);

/// Safety: the processor has the table's features; a limit for each query, `codes` covers the scales, and `out` has a number for
/// each interleaved block of each query.
type WithinKernel = unsafe fn(
    queries: &[InterleavedQuery<'_>],
    limits: &[InterleavedLimit],
    codes: &[u8],
    scales: &[f32],
    out: &mut [u16],
);

/// Safety: the processor has the table's features; `codes` covers the squares, which are of whole interleaved blocks; `distances` has as many
/// for each query, and `near` a number for each of its interleaved blocks.
type CloserKernel = unsafe fn(
    queries: &[InterleavedBall<'_>],
    codes: &[u8],
    squares: &[u32],
    distances: &mut [u32],
    near: &mut [u16],
);

#[derive(Clone, Copy)]
pub(crate) struct NearestKernels {
    pub(crate) nearest: NearestKernel,
    pub(crate) within: WithinKernel,
    pub(crate) closer: CloserKernel,
}

/// Safety: the processor has the table's features; the query has whole columns; `interleaved_blocks` covers `out.len() / 16` interleaved blocks
/// without gaps; `out` holds whole interleaved blocks.
pub(crate) type InterleavedKernel = unsafe fn(query: &[i8], interleaved_blocks: &[u8], out: &mut [i32]);

/// Safety: the processor has the table's features; `lut` holds whole columns; `groups` covers `out.len() / 32` groups
/// of `lut.len()` bytes which start `stride` bytes apart; `out` holds whole groups.
pub(crate) type FastScanSumsKernel =
    unsafe fn(lut: &[u8], groups: &[u8], stride: usize, ahead: &[u8], out: &mut [u32]);

/// Safety of both: the processor has the table's features; every row has `planes * plane_bytes` bytes, `out` an entry
/// for each; the query has `plane_bytes * 8` entries, rounded up to 64; `planes` is in `1..=MAX_PLANES`.
#[derive(Clone, Copy)]
pub(crate) struct PlanesKernel {
    pub(crate) one: unsafe fn(query: &[i8], planes: u32, plane_bytes: usize, row: &[u8]) -> i32,
    pub(crate) many:
        unsafe fn(query: &[i8], planes: u32, plane_bytes: usize, rows: &[&[u8]], out: &mut [i32]),
}

/// Safety: the processor has the table's features; `lut` holds whole columns, `groups` at most `FAST_SCAN_GROUPS` groups of
/// `stride` bytes, and `stride` isn't less than `lut` and factors; `out` is empty.
pub(crate) type FilteredScanKernel =
    unsafe fn(&FastScan<'_>, groups: &[u8], ahead: &[&[u8]], out: &mut FastScanned);

/// Safety: the processor has the table's features; all slices have the same length.
type ChainKernel = unsafe fn(
    own: &OwnCosts<'_>,
    pairs: &[[TrellisCosts; TRELLIS_STATES]],
    before: &mut [[u32; TRELLIS_STATES]],
    codes: &mut [u8],
) -> f32;

/// Safety: the processor has the table's features.
type EntriesKernel = unsafe fn(
    values: &[f32],
    edges: &[usize],
    words: [&[TrellisCosts]; 2],
    scale: f32,
    out: &mut [TrellisCosts],
);

#[derive(Clone, Copy)]
pub(crate) struct TrellisKernels {
    pub(crate) chain: ChainKernel,
    pub(crate) entries: EntriesKernel,
}

/// Safety of all: the processor has the table's features.
#[derive(Clone, Copy)]
pub(crate) struct GridKernels {
    /// The slices have the same length.
    pub(crate) to_bytes: unsafe fn(&[f32], &mut [u8]) -> f32,
    /// The slices have the same length; at most seven planes.
    pub(crate) levels: unsafe fn(&[f32], u32, &mut [u8]) -> f64,
    /// `out` has the planes' bytes.
    pub(crate) planes: unsafe fn(&[u8], u32, &mut [u8]),
    /// `out` has a bit for each value.
    pub(crate) signs: unsafe fn(&[f32], &mut [u8]),
    /// The slices have the same length.
    pub(crate) values: unsafe fn(&[f32], &[u8], u32, &mut [f32]),
    /// The slices have the same length.
    pub(crate) add: unsafe fn(&mut [f32], &[u8], f32),
    /// The slices have the same length.
    pub(crate) dot: unsafe fn(&[f32], &[f32]) -> f64,
    pub(crate) size: unsafe fn(&[f32]) -> f64,
}

/// The kernels of one instruction set. Holding a reference proves that the processor has its features.
///
/// Slices of different lengths are a programming error and panic.
pub struct Kernels {
    pub(crate) name: &'static str,
    /// Indexed by [`crate::Measure`].
    pub(crate) f32: [FloatKernel; 3],
    pub(crate) f16: [FloatKernel; 3],
    pub(crate) u8: [U8Kernel; 3],
    /// Indexed by [`crate::CodeWidth`].
    pub(crate) codes: [CodesKernel; 2],
    pub(crate) fast_scan_sums: FastScanSumsKernel,
    pub(crate) planes: PlanesKernel,
    pub(crate) entry: EntryKernels,
    pub(crate) fast_scan: FilteredScanKernel,
    pub(crate) nearness: NearnessKernel,
    pub(crate) places: PlacesKernel,
    pub(crate) interleaved: InterleavedKernel,
    pub(crate) nearest: NearestKernels,
    pub(crate) grid: GridKernels,
    pub(crate) trellis: TrellisKernels,
    /// Safety: the processor has the table's features; both slices have the same length.
    pub(crate) to_f16: unsafe fn(&[f32], &mut [u16]),
    pub(crate) from_f16: unsafe fn(&[u16], &mut [f32]),
}

impl Kernels {
    /// `scalar`, `avx2`, `avx512`, `avx512vbmi` or `neon`.
    pub fn name(&self) -> &'static str {
        self.name
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
