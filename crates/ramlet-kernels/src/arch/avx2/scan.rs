//! Kernels over packed codes: two columns, or 32 dimensions of a bit plane, a step.

use std::arch::x86_64::*;

use super::{load_32, sum_u32};
use crate::operands::{COLUMN_BYTES, GROUP};
use crate::scan::{COLUMNS_U16, fetch, fetch_one};
use crate::table::{Kernels, PlanesKernel};

#[target_feature(enable = "avx2")]
pub(super) fn fast_scan_sums(lut: &[u8], groups: &[u8], stride: usize, mut ahead: &[u8], out: &mut [u32]) {
    for (group, out) in out.chunks_exact_mut(GROUP).enumerate() {
        let totals = group_sums(lut, &groups[group * stride..][..lut.len()], &mut ahead);
        for (out, total) in out.as_chunks_mut::<8>().0.iter_mut().zip(totals) {
            // SAFETY: 8 numbers.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), total) };
        }
    }
    Kernels::prefetch_far(ahead);
}

/// The sums of a group's vectors, eight and eight.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn group_sums(lut: &[u8], group: &[u8], ahead: &mut &[u8]) -> [__m256i; 4] {
    const BLOCK: usize = COLUMNS_U16 * COLUMN_BYTES;
    if lut.len() <= BLOCK {
        return widened(block_sums(lut, group, ahead));
    }
    let mut totals = [_mm256_setzero_si256(); 4];
    for (lut, codes) in lut.chunks(BLOCK).zip(group.chunks(BLOCK)) {
        let sums = widened(block_sums(lut, codes, ahead));
        for (total, sums) in totals.iter_mut().zip(sums) {
            *total = _mm256_add_epi32(*total, sums);
        }
    }
    totals
}

/// The sums of vectors 0..8 and 16..24, and of 8..16 and 24..32, in 32 bits and in order.
#[inline]
#[target_feature(enable = "avx2")]
fn widened([first, second]: [__m256i; 2]) -> [__m256i; 4] {
    [
        _mm256_cvtepu16_epi32(_mm256_castsi256_si128(first)),
        _mm256_cvtepu16_epi32(_mm256_castsi256_si128(second)),
        _mm256_cvtepu16_epi32(_mm256_extracti128_si256::<1>(first)),
        _mm256_cvtepu16_epi32(_mm256_extracti128_si256::<1>(second)),
    ]
}

/// Sums of one half of the group: those of even vectors, plus 256 times those of odd ones, in 16 bits each; and those
/// of odd vectors alone. Each of the two 128-bit lanes sums its own columns.
#[derive(Clone, Copy)]
struct Half {
    both: __m256i,
    odd: __m256i,
}

impl Half {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(&mut self, entries: __m256i) {
        self.both = _mm256_add_epi16(self.both, entries);
        self.odd = _mm256_add_epi16(self.odd, _mm256_srli_epi16::<8>(entries));
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn even(&self) -> __m256i {
        _mm256_sub_epi16(self.both, _mm256_slli_epi16::<8>(self.odd))
    }
}

/// The sums over at most `COLUMNS_U16` columns: those of vectors 0..8 and 16..24, and of 8..16 and 24..32.
#[inline]
#[target_feature(enable = "avx2")]
fn block_sums(lut: &[u8], codes: &[u8], ahead: &mut &[u8]) -> [__m256i; 2] {
    let zero = Half {
        both: _mm256_setzero_si256(),
        odd: _mm256_setzero_si256(),
    };
    let (mut low, mut high) = (zero, zero);
    let ((lut, lut_tail), (codes, codes_tail)) = (lut.as_chunks::<32>(), codes.as_chunks::<32>());
    for (step, (lut, codes)) in lut.iter().zip(codes).enumerate() {
        // Two steps are a line.
        if step % 2 == 0 {
            fetch_one(ahead);
        }
        look_up(load_32(lut), load_32(codes), &mut low, &mut high);
    }
    if let (Some(lut), Some(codes)) = (lut_tail.first_chunk(), codes_tail.first_chunk()) {
        look_up(load_column(lut), load_column(codes), &mut low, &mut high);
    }
    let even = add_lanes(low.even(), high.even());
    let odd = add_lanes(low.odd, high.odd);
    [_mm256_unpacklo_epi16(even, odd), _mm256_unpackhi_epi16(even, odd)]
}

/// One column, and zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn load_column(column: &[u8; COLUMN_BYTES]) -> __m256i {
    // SAFETY: 16 bytes.
    _mm256_zextsi128_si256(unsafe { _mm_loadu_si128(column.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn look_up(lut: __m256i, codes: __m256i, low: &mut Half, high: &mut Half) {
    let level = _mm256_set1_epi8(15);
    low.add(_mm256_shuffle_epi8(lut, _mm256_and_si256(codes, level)));
    let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(codes), level);
    high.add(_mm256_shuffle_epi8(lut, upper));
}

/// Lanes `a0 + a1, b0 + b1`.
#[inline]
#[target_feature(enable = "avx2")]
fn add_lanes(a: __m256i, b: __m256i) -> __m256i {
    let even = _mm256_permute2x128_si256::<0x20>(a, b);
    _mm256_add_epi16(even, _mm256_permute2x128_si256::<0x31>(a, b))
}

pub(super) const PLANES: PlanesKernel = PlanesKernel {
    one: row_dot,
    many: row_dots,
};

#[target_feature(enable = "avx2")]
fn row_dots(query: &[i8], planes: u32, plane_bytes: usize, rows: &[&[u8]], out: &mut [i32]) {
    match planes {
        1 => dots::<1>(query, plane_bytes, rows, out),
        2 => dots::<2>(query, plane_bytes, rows, out),
        3 => dots::<3>(query, plane_bytes, rows, out),
        4 => dots::<4>(query, plane_bytes, rows, out),
        5 => dots::<5>(query, plane_bytes, rows, out),
        6 => dots::<6>(query, plane_bytes, rows, out),
        _ => dots::<7>(query, plane_bytes, rows, out),
    }
}

#[target_feature(enable = "avx2")]
fn row_dot(query: &[i8], planes: u32, plane_bytes: usize, row: &[u8]) -> i32 {
    let mut out = [0];
    row_dots(query, planes, plane_bytes, &[row], &mut out);
    out[0]
}

#[inline]
#[target_feature(enable = "avx2")]
fn dots<const P: usize>(query: &[i8], plane_bytes: usize, rows: &[&[u8]], out: &mut [i32]) {
    for (i, (row, out)) in rows.iter().zip(out).enumerate() {
        if let Some(ahead) = rows.get(i + 4) {
            ahead.iter().step_by(64).for_each(|byte| fetch(byte));
        }
        *out = dot::<P>(query, plane_bytes, row);
    }
}

/// The planes are unrolled, and words are broadcast from where they lie but for the last plane's last: half the time of a loop that looks
/// at each word whether the row ends there.
#[inline]
#[target_feature(enable = "avx2")]
fn dot<const P: usize>(query: &[i8], plane_bytes: usize, row: &[u8]) -> i32 {
    let (whole, left) = (plane_bytes / 4, plane_bytes % 4);
    debug_assert!(row.len() == P * plane_bytes && query.len() >= plane_bytes * 8);
    let mut sums = _mm256_setzero_si256();
    // The query's last 32 entries may all be padding.
    let (steps, rest) = query.as_chunks::<32>().0.split_at(whole);
    for (i, query) in steps.iter().enumerate() {
        let mut levels = _mm256_setzero_si256();
        for p in 0..P {
            // SAFETY: four bytes of a plane.
            let word = unsafe { word(row, p * plane_bytes + i * 4) };
            levels = _mm256_sub_epi8(_mm256_add_epi8(levels, levels), set_bits(word));
        }
        sums = _mm256_add_epi32(sums, products(levels, query));
    }
    if let Some(query) = rest.first().filter(|_| left > 0) {
        let mut levels = _mm256_setzero_si256();
        for p in 0..P {
            let at = p * plane_bytes + whole * 4;
            let word = if at + 4 <= row.len() {
                // SAFETY: just compared. What lies behind the plane's end is another plane's: there the query is zero.
                unsafe { word(row, at) }
            } else {
                let bytes = row[at..].iter().rev();
                bytes.fold(0, |word, byte| word << 8 | i32::from(*byte))
            };
            levels = _mm256_sub_epi8(_mm256_add_epi8(levels, levels), set_bits(word));
        }
        sums = _mm256_add_epi32(sums, products(levels, query));
    }
    sum_u32(sums) as i32
}

/// Products with levels of up to 7 bits, summed in lanes of 32 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn products(levels: __m256i, query: &[i8; 32]) -> __m256i {
    // Two products of at most 127 * 128: no saturation.
    let pairs = _mm256_maddubs_epi16(levels, load_32(query));
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}

/// Byte `i` is all ones if bit `i` is set.
#[inline]
#[target_feature(enable = "avx2")]
fn set_bits(bits: i32) -> __m256i {
    let byte_of = _mm256_setr_epi64x(
        0,
        0x0101_0101_0101_0101,
        0x0202_0202_0202_0202,
        0x0303_0303_0303_0303,
    );
    let bit_of = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte_of);
    _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit_of), bit_of)
}

/// Safety: four bytes from `at` on lie in the row.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn word(row: &[u8], at: usize) -> i32 {
    // SAFETY: the caller's.
    unsafe { row.as_ptr().add(at).cast::<i32>().read_unaligned() }
}
