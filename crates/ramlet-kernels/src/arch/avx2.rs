//! AVX2 with FMA and F16C: 8 floats or 32 bytes a step.

mod chain;
mod codes;
mod entry;
mod fast_scan;
mod interleaved;
mod levels;
mod nearest;
mod scan;

use std::arch::x86_64::*;

use super::scalar;
use crate::operands::Nearness;
use crate::table::FloatKernel;
use crate::{Kernels, nearness};

grid_kernels!("avx2");
trellis_kernels!("avx2");

pub(super) static TABLE: Kernels = Kernels {
    name: "avx2",
    f32: [f32_dot::KERNEL, f32_l2sq::KERNEL, f32_l1::KERNEL],
    f16: [f16_dot::KERNEL, f16_l2sq::KERNEL, f16_l1::KERNEL],
    u8: [dot_u8, l2sq_u8, l1_u8],
    codes: [dot_codes4, codes::dot_codes8],
    fast_scan_sums: scan::fast_scan_sums,
    interleaved: interleaved::dot_interleaved,
    planes: scan::PLANES,
    entry: entry::KERNELS,
    fast_scan: fast_scan::fast_scan,
    nearness,
    places,
    nearest: nearest::KERNELS,
    grid: levels::KERNELS,
    trellis: chain::KERNELS,
    to_f16: f32_to_f16,
    from_f16: f16_to_f32,
};

#[target_feature(enable = "avx2")]
fn nearness(terms: &Nearness, products: &[i32], heads: &[[u8; 8]], first: u32, out: &mut [u64]) {
    nearness::of_each(terms, products, heads, first, out);
}

/// For each set of lanes, given by its bits, their numbers one behind another.
const fn lanes_of<const LANES: usize, const SETS: usize>() -> [[u8; LANES]; SETS] {
    assert!(SETS == 1 << LANES);
    let mut numbers = [[0; LANES]; SETS];
    let mut set = 0;
    while set < SETS {
        let (mut lane, mut count) = (0, 0);
        while lane < LANES {
            if set >> lane & 1 == 1 {
                numbers[set][count] = lane as u8;
                count += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    numbers
}

const OF_FOUR: [[u8; 4]; 16] = lanes_of();

/// Safety: that of [`crate::table::PlacesKernel`].
#[target_feature(enable = "avx2")]
pub(super) unsafe fn places(distances: &[u64], most: u64, out: *mut u32) -> usize {
    let (fours, rest) = distances.as_chunks::<4>();
    // Only signed numbers are compared.
    let sign = _mm256_set1_epi64x(i64::MIN);
    let most_signed = _mm256_set1_epi64x(most as i64 ^ i64::MIN);
    let mut count = 0;
    for (four, first) in fours.iter().zip((0..).step_by(4)) {
        // SAFETY: four distances.
        let four = unsafe { _mm256_loadu_si256(four.as_ptr().cast()) };
        let above = _mm256_cmpgt_epi64(_mm256_xor_si256(four, sign), most_signed);
        let kept = !_mm256_movemask_pd(_mm256_castsi256_pd(above)) as usize & 15;
        let lanes = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(i32::from_le_bytes(OF_FOUR[kept])));
        // SAFETY: room for four places behind those of the distances so far.
        unsafe { _mm_storeu_si128(out.add(count).cast(), _mm_add_epi32(_mm_set1_epi32(first), lanes)) };
        count += kept.count_ones() as usize;
    }
    let first = (distances.len() - rest.len()) as u32;
    for (place, distance) in (first..).zip(rest) {
        // SAFETY: no more places than distances.
        unsafe { out.add(count).write(place) };
        count += usize::from(*distance <= most);
    }
    count
}

const LANES: usize = 8;

macro_rules! kernel {
    ($name:ident, $bytes:literal, $load:ident, $tail:ident, $step:ident) => {
        // Two rows of four accumulators fill half of the 16 registers.
        float_kernel!($name, "avx2,fma,f16c", block: 2, bytes: $bytes,
            load: $load, tail: $tail, step: $step);
    };
}
kernel!(f32_dot, 4, load_f32, tail_f32, step_dot);
kernel!(f32_l2sq, 4, load_f32, tail_f32, step_l2sq);
kernel!(f32_l1, 4, load_f32, tail_f32, step_l1);
kernel!(f16_dot, 2, load_f16, tail_f16, step_dot);
kernel!(f16_l2sq, 2, load_f16, tail_f16, step_l2sq);
kernel!(f16_l1, 2, load_f16, tail_f16, step_l1);

#[inline]
#[target_feature(enable = "avx2")]
fn zero() -> __m256 {
    _mm256_setzero_ps()
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(a: __m256, b: __m256) -> __m256 {
    _mm256_add_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum(v: __m256) -> f32 {
    let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let v = _mm_hadd_ps(v, v);
    _mm_cvtss_f32(_mm_hadd_ps(v, v))
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn query_at(query: &[f32], i: usize) -> __m256 {
    // SAFETY: the caller has checked `i + LANES <= query.len()`.
    unsafe { _mm256_loadu_ps(query.as_ptr().add(i)) }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn query_tail(query: &[f32], i: usize) -> __m256 {
    // SAFETY: fewer than 8 elements are left, and exactly those are read.
    unsafe { tail_f32(query.as_ptr().add(i).cast(), query.len() - i) }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_f32(row: *const u8) -> __m256 {
    // SAFETY: the caller vouches for 32 readable bytes.
    unsafe { _mm256_loadu_ps(row.cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn tail_f32(row: *const u8, count: usize) -> __m256 {
    // SAFETY: masked-off lanes are not read.
    unsafe { _mm256_maskload_ps(row.cast(), first(count)) }
}

/// The mask of so many lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn first(count: usize) -> __m256i {
    let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lane)
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn load_f16(row: *const u8) -> __m256 {
    // SAFETY: the caller vouches for 16 readable bytes.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(row.cast()) })
}

/// Assembled in integer registers: through a padded buffer on the stack, the wide load waits for the narrow
/// stores, which doubled the time at 100 dimensions (19 ns against 11).
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn tail_f16(row: *const u8, count: usize) -> __m256 {
    // SAFETY: `count < 8` elements are readable.
    let (low, high) = unsafe {
        match count.checked_sub(4) {
            None => (read_halves(row, count), 0),
            Some(more) => (row.cast::<u64>().read_unaligned(), read_halves(row.add(8), more)),
        }
    };
    _mm256_cvtph_ps(_mm_set_epi64x(high as i64, low as i64))
}

/// Up to three 16-bit elements, the first lowest. Safety: they are readable.
#[inline]
unsafe fn read_halves(row: *const u8, count: usize) -> u64 {
    let mut halves = 0;
    if count & 2 != 0 {
        // SAFETY: two elements are readable.
        halves = u64::from(unsafe { row.cast::<u32>().read_unaligned() });
    }
    if count & 1 != 0 {
        let before = count & 2;
        // SAFETY: the element behind those `before` is readable.
        let last = unsafe { row.add(before * 2).cast::<u16>().read_unaligned() };
        halves |= u64::from(last) << (before * 16);
    }
    halves
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn step_dot(acc: __m256, q: __m256, v: __m256) -> __m256 {
    _mm256_fmadd_ps(q, v, acc)
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn step_l2sq(acc: __m256, q: __m256, v: __m256) -> __m256 {
    let d = _mm256_sub_ps(q, v);
    _mm256_fmadd_ps(d, d, acc)
}

#[inline]
#[target_feature(enable = "avx2")]
fn step_l1(acc: __m256, q: __m256, v: __m256) -> __m256 {
    let sign = _mm256_set1_ps(-0.0);
    _mm256_add_ps(acc, _mm256_andnot_ps(sign, _mm256_sub_ps(q, v)))
}

/// A pair of 32-byte steps out of two slices.
#[inline]
#[target_feature(enable = "avx2")]
fn load_u8(a: &[u8; 32], b: &[u8; 32]) -> (__m256i, __m256i) {
    // SAFETY: 32 bytes each.
    unsafe {
        (
            _mm256_loadu_si256(a.as_ptr().cast()),
            _mm256_loadu_si256(b.as_ptr().cast()),
        )
    }
}

/// Sum of the eight lanes modulo 2^32: the result fits, so nothing is lost if a lane wraps.
#[inline]
#[target_feature(enable = "avx2")]
fn sum_u32(v: __m256i) -> u32 {
    let v = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
    let v = _mm_add_epi32(v, _mm_shuffle_epi32::<0b01_00_11_10>(v));
    let v = _mm_add_epi32(v, _mm_shuffle_epi32::<0b10_11_00_01>(v));
    _mm_cvtsi128_si32(v) as u32
}

#[target_feature(enable = "avx2")]
fn dot_u8(a: &[u8], b: &[u8]) -> u32 {
    let ((a, a_tail), (b, b_tail)) = (a.as_chunks::<32>(), b.as_chunks::<32>());
    let zero = _mm256_setzero_si256();
    let (mut even, mut odd) = (zero, zero);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = load_u8(a, b);
        // Zero-extended to 16 bits; a product pair is at most 2 * 255^2, far from overflow.
        let low = _mm256_madd_epi16(_mm256_unpacklo_epi8(a, zero), _mm256_unpacklo_epi8(b, zero));
        let high = _mm256_madd_epi16(_mm256_unpackhi_epi8(a, zero), _mm256_unpackhi_epi8(b, zero));
        even = _mm256_add_epi32(even, low);
        odd = _mm256_add_epi32(odd, high);
    }
    sum_u32(_mm256_add_epi32(even, odd)) + scalar::dot_u8(a_tail, b_tail)
}

#[target_feature(enable = "avx2")]
fn l2sq_u8(a: &[u8], b: &[u8]) -> u32 {
    let ((a, a_tail), (b, b_tail)) = (a.as_chunks::<32>(), b.as_chunks::<32>());
    let zero = _mm256_setzero_si256();
    let (mut even, mut odd) = (zero, zero);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = load_u8(a, b);
        let d = _mm256_or_si256(_mm256_subs_epu8(a, b), _mm256_subs_epu8(b, a));
        let (low, high) = (_mm256_unpacklo_epi8(d, zero), _mm256_unpackhi_epi8(d, zero));
        even = _mm256_add_epi32(even, _mm256_madd_epi16(low, low));
        odd = _mm256_add_epi32(odd, _mm256_madd_epi16(high, high));
    }
    sum_u32(_mm256_add_epi32(even, odd)) + scalar::l2sq_u8(a_tail, b_tail)
}

#[target_feature(enable = "avx2")]
fn l1_u8(a: &[u8], b: &[u8]) -> u32 {
    let ((a, a_tail), (b, b_tail)) = (a.as_chunks::<32>(), b.as_chunks::<32>());
    let mut sums = _mm256_setzero_si256();
    for (a, b) in a.iter().zip(b) {
        let (a, b) = load_u8(a, b);
        // Four 64-bit sums, each below 2^32: the odd 32-bit lanes stay zero.
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(a, b));
    }
    sum_u32(sums) + scalar::l1_u8(a_tail, b_tail)
}

#[target_feature(enable = "avx2,f16c")]
fn f32_to_f16(from: &[f32], to: &mut [u16]) {
    let ((from, from_tail), (to, to_tail)) = (from.as_chunks::<LANES>(), to.as_chunks_mut::<LANES>());
    for (from, to) in from.iter().zip(to) {
        // SAFETY: 8 elements on both sides.
        unsafe {
            let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.as_ptr()));
            _mm_storeu_si128(to.as_mut_ptr().cast(), half);
        }
    }
    scalar::f32_to_f16(from_tail, to_tail);
}

#[target_feature(enable = "avx2,f16c")]
fn f16_to_f32(from: &[u16], to: &mut [f32]) {
    let ((from, from_tail), (to, to_tail)) = (from.as_chunks::<LANES>(), to.as_chunks_mut::<LANES>());
    for (from, to) in from.iter().zip(to) {
        // SAFETY: 8 elements on both sides.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), load_f16(from.as_ptr().cast())) };
    }
    scalar::f16_to_f32(from_tail, to_tail);
}

/// 32 entries of a query or bytes of a code.
#[inline]
#[target_feature(enable = "avx2")]
fn load_32<T>(values: &[T; 32]) -> __m256i {
    const { assert!(size_of::<T>() == 1) };
    // SAFETY: 32 bytes.
    unsafe { _mm256_loadu_si256(values.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
fn dot_codes4(query: &[i8], rows: &[u8], stride: usize, out: &mut [i32]) {
    let (low, high) = query.split_at(query.len() / 2);
    let ((low, low_tail), (high, high_tail)) = (low.as_chunks::<32>(), high.as_chunks::<32>());
    let (half, ones) = (_mm256_set1_epi8(15), _mm256_set1_epi16(1));
    for (i, out) in out.iter_mut().enumerate() {
        let (code, tail) = rows[i * stride..][..query.len() / 2].as_chunks::<32>();
        let mut sums = _mm256_setzero_si256();
        for (code, (low, high)) in code.iter().zip(low.iter().zip(high)) {
            let code = load_32(code);
            // Four products of at most 15 * 128: far from saturation.
            let low = _mm256_maddubs_epi16(_mm256_and_si256(code, half), load_32(low));
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(code), half);
            let pairs = _mm256_add_epi16(low, _mm256_maddubs_epi16(upper, load_32(high)));
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, ones));
        }
        *out = sum_u32(sums) as i32 + scalar::dot_code4(low_tail, high_tail, tail);
    }
}
