//! Kernels over packed codes: four columns, or 64 dimensions of a bit plane, a step.

use std::arch::x86_64::*;

use crate::operands::{COLUMN_BYTES, GROUP};
use crate::scan::{COLUMNS_U16, fetch, fetch_one};
use crate::table::{Kernels, PlanesKernel};

/// Codes stream from memory: so many bytes ahead are asked for, across pages, where the processor doesn't by itself.
const AHEAD: usize = 1024;

/// Tried on Zen 4 and lost: four columns turned so that a vector's levels lie side by side, looked up in all 64 entries by
/// VBMI and added by VNNI, which leaves nothing to put in order (768 dimensions: 3.4 ns a vector against 2.7); asking
/// for a short run's first 2 KB at once and for whole groups ahead (no difference in searches).
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn fast_scan_sums(lut: &[u8], groups: &[u8], stride: usize, ahead: &[u8], out: &mut [u32]) {
    let mut left = ahead;
    for (group, out) in out.chunks_exact_mut(GROUP).enumerate() {
        let next = groups.get(group * stride + AHEAD..).unwrap_or_default();
        next[..next.len().min(stride)]
            .iter()
            .step_by(64)
            .for_each(|byte| fetch(byte));
        let group = &groups[group * stride..][..lut.len()];
        let mut totals = [_mm512_setzero_si512(); 2];
        let blocks = lut.chunks(COLUMNS_U16 * COLUMN_BYTES);
        for (lut, codes) in blocks.zip(group.chunks(COLUMNS_U16 * COLUMN_BYTES)) {
            let sums = block_sums(lut, codes, &mut left);
            let (low, high) = (_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64::<1>(sums));
            totals[0] = _mm512_add_epi32(totals[0], _mm512_cvtepu16_epi32(low));
            totals[1] = _mm512_add_epi32(totals[1], _mm512_cvtepu16_epi32(high));
        }
        for (out, total) in out.as_chunks_mut::<16>().0.iter_mut().zip(totals) {
            // SAFETY: 16 numbers.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), total) };
        }
    }
    Kernels::prefetch_far(left);
}

/// Sums of one half of the group: those of even vectors, plus 256 times those of odd ones, in 16 bits each; and those
/// of odd vectors alone. Each of the four 128-bit lanes sums its own columns.
#[derive(Clone, Copy)]
pub(super) struct Half {
    both: __m512i,
    pub(super) odd: __m512i,
}

impl Half {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn zero() -> Half {
        Half {
            both: _mm512_setzero_si512(),
            odd: _mm512_setzero_si512(),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn add(&mut self, entries: __m512i) {
        self.both = _mm512_add_epi16(self.both, entries);
        self.odd = _mm512_add_epi16(self.odd, _mm512_srli_epi16::<8>(entries));
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn even(&self) -> __m512i {
        _mm512_sub_epi16(self.both, _mm512_slli_epi16::<8>(self.odd))
    }
}

/// The sums of a group's 32 vectors over at most `COLUMNS_U16` columns, in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn block_sums(lut: &[u8], codes: &[u8], ahead: &mut &[u8]) -> __m512i {
    let (mut low, mut high) = (Half::zero(), Half::zero());
    let ((lut, lut_tail), (codes, codes_tail)) = (lut.as_chunks::<64>(), codes.as_chunks::<64>());
    for (lut, codes) in lut.iter().zip(codes) {
        fetch_one(ahead);
        // SAFETY: 64 bytes each.
        let (lut, codes) = unsafe {
            (
                _mm512_loadu_si512(lut.as_ptr().cast()),
                _mm512_loadu_si512(codes.as_ptr().cast()),
            )
        };
        look_up(lut, codes, &mut low, &mut high);
    }
    if !lut_tail.is_empty() {
        let mask = (1 << lut_tail.len()) - 1;
        // SAFETY: masked-off bytes are not read; the others are those of the tails, which are equally long. A table of
        // zeros adds nothing.
        let (lut, codes) = unsafe {
            (
                _mm512_maskz_loadu_epi8(mask, lut_tail.as_ptr().cast()),
                _mm512_maskz_loadu_epi8(mask, codes_tail.as_ptr().cast()),
            )
        };
        look_up(lut, codes, &mut low, &mut high);
    }
    in_order([low.even(), low.odd, high.even(), high.odd])
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn look_up(lut: __m512i, codes: __m512i, low: &mut Half, high: &mut Half) {
    let level = _mm512_set1_epi8(15);
    low.add(_mm512_shuffle_epi8(lut, _mm512_and_si512(codes, level)));
    let upper = _mm512_and_si512(_mm512_srli_epi16::<4>(codes), level);
    high.add(_mm512_shuffle_epi8(lut, upper));
}

/// Adds up the lanes of each vector, and puts even and odd, low and high sums into the order of the group.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn in_order([a, b, c, d]: [__m512i; 4]) -> __m512i {
    let ab = add_lanes(a, b);
    let cd = add_lanes(c, d);
    // Lanes: sums of a, b, c, d.
    let sums = add_lanes(ab, cd);
    #[rustfmt::skip]
    let order = _mm512_set_epi16(
        31, 23, 30, 22, 29, 21, 28, 20, 27, 19, 26, 18, 25, 17, 24, 16,
        15, 7, 14, 6, 13, 5, 12, 4, 11, 3, 10, 2, 9, 1, 8, 0,
    );
    _mm512_permutexvar_epi16(order, sums)
}

/// Lanes `a0 + a1, a2 + a3, b0 + b1, b2 + b3`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add_lanes(a: __m512i, b: __m512i) -> __m512i {
    let even = _mm512_shuffle_i64x2::<0b10_00_10_00>(a, b);
    _mm512_add_epi16(even, _mm512_shuffle_i64x2::<0b11_01_11_01>(a, b))
}

/// Rows in flight.
const ROWS: usize = 4;

pub(super) const PLANES: PlanesKernel = PlanesKernel {
    one: row_dot,
    many: row_dots,
};

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in super::super) fn row_dot(query: &[i8], planes: u32, plane_bytes: usize, row: &[u8]) -> i32 {
    let [sums] = match planes {
        1 => sums::<1, 1>(query, plane_bytes, [row]),
        2 => sums::<2, 1>(query, plane_bytes, [row]),
        3 => sums::<3, 1>(query, plane_bytes, [row]),
        4 => sums::<4, 1>(query, plane_bytes, [row]),
        5 => sums::<5, 1>(query, plane_bytes, [row]),
        6 => sums::<6, 1>(query, plane_bytes, [row]),
        _ => sums::<7, 1>(query, plane_bytes, [row]),
    };
    _mm512_reduce_add_epi32(sums)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in super::super) fn row_dots(
    query: &[i8],
    planes: u32,
    plane_bytes: usize,
    rows: &[&[u8]],
    out: &mut [i32],
) {
    // The number of planes is known in each loop, which makes it straight.
    match planes {
        1 => many::<1>(query, plane_bytes, rows, out),
        2 => many::<2>(query, plane_bytes, rows, out),
        3 => many::<3>(query, plane_bytes, rows, out),
        4 => many::<4>(query, plane_bytes, rows, out),
        5 => many::<5>(query, plane_bytes, rows, out),
        6 => many::<6>(query, plane_bytes, rows, out),
        _ => many::<7>(query, plane_bytes, rows, out),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn many<const P: usize>(query: &[i8], plane_bytes: usize, rows: &[&[u8]], out: &mut [i32]) {
    let (blocks, rest) = rows.as_chunks::<ROWS>();
    let (out_blocks, out_rest) = out.as_chunks_mut::<ROWS>();
    for (i, (rows, out)) in blocks.iter().zip(out_blocks).enumerate() {
        for ahead in blocks.get(i + 1).into_iter().flatten() {
            ahead.iter().step_by(64).for_each(|byte| fetch(byte));
        }
        let sums = super::sum_each(sums::<P, ROWS>(query, plane_bytes, *rows));
        // SAFETY: four numbers.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), sums) };
    }
    for (row, out) in rest.iter().zip(out_rest) {
        let [sums] = sums::<P, 1>(query, plane_bytes, [row]);
        *out = _mm512_reduce_add_epi32(sums);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn sums<const P: usize, const R: usize>(query: &[i8], plane_bytes: usize, rows: [&[u8]; R]) -> [__m512i; R] {
    let mut sums = [_mm512_setzero_si512(); R];
    let (query, _) = query.as_chunks::<64>();
    let whole = query.len().min(plane_bytes / 8);
    for (i, query) in query[..whole].iter().enumerate() {
        // SAFETY: a row has P planes, and each has eight bytes at `i * 8`.
        let word = |row: &[u8], p| unsafe { read_word(row.as_ptr().add(p * plane_bytes + i * 8)) };
        add_products::<P, R>(&mut sums, query, rows, word);
    }
    if let Some(query) = query.get(whole) {
        add_products::<P, R>(&mut sums, query, rows, |row, p| {
            last_word(row, p * plane_bytes + whole * 8)
        });
    }
    sums
}

/// Adds the products of 64 dimensions of each row; `word` gives their bits in a row's plane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn add_products<const P: usize, const R: usize>(
    sums: &mut [__m512i; R],
    query: &[i8; 64],
    rows: [&[u8]; R],
    word: impl Fn(&[u8], usize) -> u64,
) {
    // SAFETY: 64 entries.
    let query = unsafe { _mm512_loadu_si512(query.as_ptr().cast()) };
    for (sum, row) in sums.iter_mut().zip(rows) {
        let mut levels = _mm512_setzero_si512();
        for p in 0..P {
            let weight = _mm512_set1_epi8(1 << (P - 1 - p));
            levels = _mm512_mask_add_epi8(levels, word(row, p), levels, weight);
        }
        *sum = _mm512_dpbusd_epi32(*sum, levels, query);
    }
}

/// Safety: eight bytes are readable.
#[inline]
unsafe fn read_word(at: *const u8) -> u64 {
    // SAFETY: the caller vouches for them.
    unsafe { at.cast::<u64>().read_unaligned() }
}

/// Eight bytes from `at` on, which is in the row; what would lie behind the row is zero.
///
/// Behind a plane's end they are another plane's: there the query is zero.
#[inline]
fn last_word(row: &[u8], at: usize) -> u64 {
    let Some(last) = row.len().checked_sub(8) else {
        let bytes = row[at..].iter().rev();
        return bytes.fold(0, |word, byte| word << 8 | u64::from(*byte));
    };
    let from = at.min(last);
    // SAFETY: the row has eight bytes from `last` on, and `from` isn't behind it.
    let word = unsafe { read_word(row.as_ptr().add(from)) };
    // By whole bytes, fewer than eight: `at` is in the row.
    word >> ((at - from) * 8 % 64)
}
