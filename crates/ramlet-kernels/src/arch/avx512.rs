//! AVX-512 F, BW, VL and VNNI: 16 floats or 64 bytes a step, tails by mask.

mod entry;
mod fast_scan;
mod interleaved;
mod nearest;
mod scan;

use std::arch::x86_64::*;

pub(super) use scan::{row_dot as planes_row_dot, row_dots as planes_row_dots};

use crate::operands::Nearness;
use crate::table::FloatKernel;
use crate::{Kernels, nearness};

grid_kernels!("avx512f,avx512bw,avx512vl");
trellis_kernels!("avx512f,avx512bw,avx512vl");

pub(super) static TABLE: Kernels = KERNELS;

pub(super) const KERNELS: Kernels = Kernels {
    name: "avx512",
    f32: [f32_dot::KERNEL, f32_l2sq::KERNEL, f32_l1::KERNEL],
    f16: [f16_dot::KERNEL, f16_l2sq::KERNEL, f16_l1::KERNEL],
    u8: [dot_u8, l2sq_u8, l1_u8],
    codes: [dot_codes4, dot_codes8],
    fast_scan_sums: scan::fast_scan_sums,
    interleaved: interleaved::dot_interleaved,
    planes: scan::PLANES,
    entry: entry::KERNELS,
    fast_scan: fast_scan::fast_scan,
    nearness,
    places: super::avx2::places,
    nearest: nearest::KERNELS,
    grid: grid::KERNELS,
    trellis: trellis::KERNELS,
    to_f16: f32_to_f16,
    from_f16: f16_to_f32,
};

const LANES: usize = 16;

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn nearness(terms: &Nearness, products: &[i32], heads: &[[u8; 8]], first: u32, out: &mut [u64]) {
    nearness::of_each(terms, products, heads, first, out);
}

macro_rules! kernel {
    ($name:ident, $bytes:literal, $load:ident, $tail:ident, $step:ident) => {
        float_kernel!($name, "avx512f,avx512bw,avx512vl", block: 4, bytes: $bytes,
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
#[target_feature(enable = "avx512f")]
fn zero() -> __m512 {
    _mm512_setzero_ps()
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sum(v: __m512) -> f32 {
    let upper = _mm512_castps_pd(v);
    let upper = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(upper));
    let v = _mm256_add_ps(_mm512_castps512_ps256(v), upper);
    let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let v = _mm_hadd_ps(v, v);
    _mm_cvtss_f32(_mm_hadd_ps(v, v))
}

/// The lowest `count` of 16 lanes.
#[inline]
fn lanes(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as __mmask16
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn query_at(query: &[f32], i: usize) -> __m512 {
    // SAFETY: the caller has checked `i + LANES <= query.len()`.
    unsafe { _mm512_loadu_ps(query.as_ptr().add(i)) }
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn query_tail(query: &[f32], i: usize) -> __m512 {
    // SAFETY: masked-off lanes are not read; fewer than 16 are left.
    unsafe { _mm512_maskz_loadu_ps(lanes(query.len() - i), query.as_ptr().add(i)) }
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_f32(row: *const u8) -> __m512 {
    // SAFETY: the caller vouches for 64 readable bytes.
    unsafe { _mm512_loadu_ps(row.cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn tail_f32(row: *const u8, count: usize) -> __m512 {
    // SAFETY: masked-off lanes are not read.
    unsafe { _mm512_maskz_loadu_ps(lanes(count), row.cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_f16(row: *const u8) -> __m512 {
    // SAFETY: the caller vouches for 32 readable bytes.
    _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(row.cast()) })
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn tail_f16(row: *const u8, count: usize) -> __m512 {
    // SAFETY: masked-off lanes are not read.
    _mm512_cvtph_ps(unsafe { _mm256_maskz_loadu_epi16(lanes(count), row.cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn step_dot(acc: __m512, q: __m512, v: __m512) -> __m512 {
    _mm512_fmadd_ps(q, v, acc)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn step_l2sq(acc: __m512, q: __m512, v: __m512) -> __m512 {
    let d = _mm512_sub_ps(q, v);
    _mm512_fmadd_ps(d, d, acc)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn step_l1(acc: __m512, q: __m512, v: __m512) -> __m512 {
    _mm512_add_ps(acc, _mm512_abs_ps(_mm512_sub_ps(q, v)))
}

/// 64 bytes at `i`, or as many as are left, padded with zeros, which add nothing to any measure.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_u8(v: &[u8], i: usize) -> __m512i {
    let left = v.len() - i;
    if left >= 64 {
        // SAFETY: 64 bytes are left.
        unsafe { _mm512_loadu_si512(v.as_ptr().add(i).cast()) }
    } else {
        // SAFETY: masked-off lanes are not read; `left` bytes are.
        unsafe { _mm512_maskz_loadu_epi8((1u64 << left) - 1, v.as_ptr().add(i).cast()) }
    }
}

/// VNNI multiplies unsigned by signed bytes: `sum a * b = sum a * (b - 128) + 128 * sum a`.
/// All sums are modulo 2^32 and the result fits, so nothing is lost if a lane wraps.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dot_u8(a: &[u8], b: &[u8]) -> u32 {
    let b = &b[..a.len()];
    let (flip, ones) = (_mm512_set1_epi8(-128), _mm512_set1_epi8(1));
    let (mut products, mut sums) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for i in (0..a.len()).step_by(64) {
        let va = load_u8(a, i);
        products = _mm512_dpbusd_epi32(products, va, _mm512_xor_si512(load_u8(b, i), flip));
        sums = _mm512_dpbusd_epi32(sums, va, ones);
    }
    let total = _mm512_add_epi32(products, _mm512_slli_epi32::<7>(sums));
    _mm512_reduce_add_epi32(total) as u32
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn l2sq_u8(a: &[u8], b: &[u8]) -> u32 {
    let b = &b[..a.len()];
    let zero = _mm512_setzero_si512();
    let (mut even, mut odd) = (zero, zero);
    for i in (0..a.len()).step_by(64) {
        let (va, vb) = (load_u8(a, i), load_u8(b, i));
        let d = _mm512_or_si512(_mm512_subs_epu8(va, vb), _mm512_subs_epu8(vb, va));
        let (low, high) = (_mm512_unpacklo_epi8(d, zero), _mm512_unpackhi_epi8(d, zero));
        even = _mm512_dpwssd_epi32(even, low, low);
        odd = _mm512_dpwssd_epi32(odd, high, high);
    }
    _mm512_reduce_add_epi32(_mm512_add_epi32(even, odd)) as u32
}

#[target_feature(enable = "avx512f,avx512bw")]
fn l1_u8(a: &[u8], b: &[u8]) -> u32 {
    let b = &b[..a.len()];
    let mut sums = _mm512_setzero_si512();
    for i in (0..a.len()).step_by(64) {
        sums = _mm512_add_epi64(sums, _mm512_sad_epu8(load_u8(a, i), load_u8(b, i)));
    }
    _mm512_reduce_add_epi64(sums) as u32
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn f32_to_f16(from: &[f32], to: &mut [u16]) {
    let to = &mut to[..from.len()];
    for (from, to) in from.chunks(LANES).zip(to.chunks_mut(LANES)) {
        let mask = lanes(from.len());
        // SAFETY: masked-off lanes are neither read nor written; both chunks have `from.len()` elements.
        unsafe {
            let half =
                _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_maskz_loadu_ps(mask, from.as_ptr()));
            _mm256_mask_storeu_epi16(to.as_mut_ptr().cast(), mask, half);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn f16_to_f32(from: &[u16], to: &mut [f32]) {
    let to = &mut to[..from.len()];
    for (from, to) in from.chunks(LANES).zip(to.chunks_mut(LANES)) {
        let mask = lanes(from.len());
        // SAFETY: masked-off lanes are neither read nor written; both chunks have `from.len()` elements.
        unsafe {
            let wide = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from.as_ptr().cast()));
            _mm512_mask_storeu_ps(to.as_mut_ptr(), mask, wide);
        }
    }
}

/// Codes compared at a time: each loaded part of the query serves them all.
const CODES: usize = 4;

/// Codes stream from memory: so many bytes ahead are asked for, across pages, where the processor doesn't by itself.
const AHEAD: usize = 1024;

/// Where short codes are compared faster than that comes.
const FAR_AHEAD: usize = 4096;

#[inline]
#[target_feature(enable = "avx512f")]
fn fetch_ahead(codes: [*const u8; CODES], i: usize) {
    for code in codes {
        // It reads nothing, wherever it points.
        _mm_prefetch::<_MM_HINT_T0>(code.wrapping_add(i + AHEAD).cast());
    }
}

/// The lowest `count` of 64 bytes, all of them if there are more.
#[inline]
pub(super) fn bytes(count: usize) -> __mmask64 {
    if count >= 64 { !0 } else { (1 << count) - 1 }
}

/// The bytes of `mask` that start `start` bytes behind `at`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn load_bytes(at: *const u8, start: usize, mask: __mmask64) -> __m512i {
    // SAFETY: masked-off bytes are not read; the caller vouches for the others.
    unsafe { _mm512_maskz_loadu_epi8(mask, at.add(start).cast()) }
}

/// The sums of four vectors' lanes, in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn sum_each(sums: [__m512i; CODES]) -> __m128i {
    let half = |v| _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64::<1>(v));
    let [a, b, c, d] = sums;
    let pairs = _mm256_hadd_epi32(
        _mm256_hadd_epi32(half(a), half(b)),
        _mm256_hadd_epi32(half(c), half(d)),
    );
    _mm_add_epi32(
        _mm256_castsi256_si128(pairs),
        _mm256_extracti128_si256::<1>(pairs),
    )
}

/// Where the codes of a group lie; a group of fewer than four repeats its last.
#[inline]
fn group_at(rows: &[u8], stride: usize, group: usize, count: usize) -> [*const u8; CODES] {
    std::array::from_fn(|i| rows[(group * CODES + i.min(count - 1)) * stride..].as_ptr())
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn store(out: &mut [i32], sums: __m128i) {
    let mask = ((1u32 << out.len().min(CODES)) - 1) as __mmask8;
    // SAFETY: masked-off lanes are not written; the others lie in `out`.
    unsafe { _mm_mask_storeu_epi32(out.as_mut_ptr(), mask, sums) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn dot_codes4(query: &[i8], rows: &[u8], stride: usize, out: &mut [i32]) {
    let code_bytes = query.len() / 2;
    let half = _mm512_set1_epi8(15);
    let (low, high): (*const u8, *const u8) = (query.as_ptr().cast(), query[code_bytes..].as_ptr().cast());
    for (group, out) in out.chunks_mut(CODES).enumerate() {
        let codes = group_at(rows, stride, group, out.len());
        let mut sums = [_mm512_setzero_si512(); CODES];
        for i in (0..code_bytes).step_by(64) {
            let mask = bytes(code_bytes - i);
            fetch_ahead(codes, i);
            // SAFETY: both halves of the query have `code_bytes` entries.
            let (low, high) = unsafe { (load_bytes(low, i, mask), load_bytes(high, i, mask)) };
            for (sum, code) in sums.iter_mut().zip(codes) {
                // SAFETY: a code has `code_bytes` bytes.
                let code = unsafe { load_bytes(code, i, mask) };
                *sum = _mm512_dpbusd_epi32(*sum, _mm512_and_si512(code, half), low);
                let upper = _mm512_and_si512(_mm512_srli_epi16::<4>(code), half);
                *sum = _mm512_dpbusd_epi32(*sum, upper, high);
            }
        }
        store(out, sum_each(sums));
    }
}

/// Codes of at most so many bytes are compared sixteen at a time, with the query in two registers.
const SHORT: usize = 128;

/// Lanes of sixteen vectors summed up: the sum of each in a lane of its own, in order.
#[inline]
#[target_feature(enable = "avx512f")]
fn sum_sixteen(sums: &[__m512i; LANES]) -> __m512i {
    // Within 128 bits the sums of four vectors lie side by side.
    let fours: [__m512i; 4] = std::array::from_fn(|i| {
        let pair = |at: usize| {
            let (a, b) = (sums[i * 4 + at], sums[i * 4 + at + 1]);
            _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b))
        };
        let (ab, cd) = (pair(0), pair(2));
        _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd))
    });
    let add_lanes = |a, b| {
        let even = _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b);
        _mm512_add_epi32(even, _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b))
    };
    add_lanes(add_lanes(fours[0], fours[1]), add_lanes(fours[2], fours[3]))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn dot_codes8(query: &[i8], rows: &[u8], stride: usize, out: &mut [i32]) {
    if query.len() > SHORT {
        return dot_long_codes8(query, rows, stride, out);
    }
    let from: *const u8 = query.as_ptr().cast();
    let masks = [bytes(query.len()), bytes(query.len().saturating_sub(64))];
    // SAFETY: the bytes of the masks are the query's.
    let parts = unsafe { [load_bytes(from, 0, masks[0]), load_bytes(from, 64, masks[1])] };
    let (blocks, rest) = out.as_chunks_mut::<LANES>();
    let done = blocks.len() * LANES * stride;
    for (block, out) in blocks.iter_mut().enumerate() {
        let from = block * LANES * stride;
        let codes = &rows[from..][..(LANES - 1) * stride + query.len()];
        // What lies behind the rows isn't asked for: where they are few, that would be as much as they are.
        let ahead = (from + FAR_AHEAD).min(rows.len())..(from + LANES * stride + FAR_AHEAD).min(rows.len());
        for line in ahead.step_by(64) {
            _mm_prefetch::<_MM_HINT_T0>(rows.as_ptr().wrapping_add(line).cast());
        }
        let sums = std::array::from_fn(|i| {
            // SAFETY: the codes were just cut out to hold all of sixteen, `stride` apart, each as long as the query.
            let [low, high] = unsafe {
                let code = codes.as_ptr().add(i * stride);
                [load_bytes(code, 0, masks[0]), load_bytes(code, 64, masks[1])]
            };
            let sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), low, parts[0]);
            _mm512_dpbusd_epi32(sum, high, parts[1])
        });
        // SAFETY: sixteen numbers.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), sum_sixteen(&sums)) };
    }
    if !rest.is_empty() {
        dot_long_codes8(query, &rows[done..], stride, rest);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn dot_long_codes8(query: &[i8], rows: &[u8], stride: usize, out: &mut [i32]) {
    let from: *const u8 = query.as_ptr().cast();
    for (group, out) in out.chunks_mut(CODES).enumerate() {
        let codes = group_at(rows, stride, group, out.len());
        let mut sums = [_mm512_setzero_si512(); CODES];
        for i in (0..query.len()).step_by(64) {
            let mask = bytes(query.len() - i);
            fetch_ahead(codes, i);
            // SAFETY: the bytes of `mask` are the query's.
            let query = unsafe { load_bytes(from, i, mask) };
            for (sum, code) in sums.iter_mut().zip(codes) {
                // SAFETY: a code has as many bytes as the query has entries.
                let code = unsafe { load_bytes(code, i, mask) };
                *sum = _mm512_dpbusd_epi32(*sum, code, query);
            }
        }
        store(out, sum_each(sums));
    }
}
