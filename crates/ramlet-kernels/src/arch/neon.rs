//! NEON: 4 floats or 16 bytes a step.

mod codes;
mod fast_scan;
mod scan;

use std::arch::aarch64::*;

use super::scalar;
use crate::Kernels;
use crate::table::FloatKernel;

interleaved_kernels!(codes::dot_interleaved);
grid_kernels!();
trellis_kernels!();

pub(super) static TABLE: Kernels = Kernels {
    name: "neon",
    f32: [f32_dot::KERNEL, f32_l2sq::KERNEL, f32_l1::KERNEL],
    f16: [f16_dot::KERNEL, f16_l2sq::KERNEL, f16_l1::KERNEL],
    u8: [dot_u8, l2sq_u8, l1_u8],
    codes: [codes::dot_codes4, codes::dot_codes8],
    fast_scan_sums: scan::fast_scan_sums,
    interleaved: codes::dot_interleaved,
    planes: scan::PLANES,
    entry: scalar::entry::KERNELS,
    fast_scan: fast_scan::fast_scan,
    nearness: crate::nearness::of_each,
    places: crate::nearness::places,
    nearest: nearest::KERNELS,
    grid: grid::KERNELS,
    trellis: trellis::KERNELS,
    // The half-precision vector types are not stable for every compiler we support.
    to_f16: scalar::f32_to_f16,
    from_f16: scalar::f16_to_f32,
};

const LANES: usize = 4;

macro_rules! kernel {
    ($name:ident, $bytes:literal, $load:ident, $tail:ident, $step:ident) => {
        float_kernel!($name, "neon", block: 4, bytes: $bytes, load: $load, tail: $tail, step: $step);
    };
}
kernel!(f32_dot, 4, load_f32, tail_f32, step_dot);
kernel!(f32_l2sq, 4, load_f32, tail_f32, step_l2sq);
kernel!(f32_l1, 4, load_f32, tail_f32, step_l1);
kernel!(f16_dot, 2, load_f16, tail_f16, step_dot);
kernel!(f16_l2sq, 2, load_f16, tail_f16, step_l2sq);
kernel!(f16_l1, 2, load_f16, tail_f16, step_l1);

#[inline]
#[target_feature(enable = "neon")]
fn zero() -> float32x4_t {
    vdupq_n_f32(0.0)
}

#[inline]
#[target_feature(enable = "neon")]
fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    vaddq_f32(a, b)
}

#[inline]
#[target_feature(enable = "neon")]
fn sum(v: float32x4_t) -> f32 {
    vaddvq_f32(v)
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn query_at(query: &[f32], i: usize) -> float32x4_t {
    // SAFETY: the caller has checked `i + LANES <= query.len()`.
    unsafe { vld1q_f32(query.as_ptr().add(i)) }
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn query_tail(query: &[f32], i: usize) -> float32x4_t {
    // SAFETY: fewer than 4 elements are left, and exactly those are read.
    unsafe { tail_f32(query.as_ptr().add(i).cast(), query.len() - i) }
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_f32(row: *const u8) -> float32x4_t {
    // SAFETY: the caller vouches for 16 readable bytes; a load of bytes needs no alignment.
    vreinterpretq_f32_u8(unsafe { vld1q_u8(row) })
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn tail_f32(row: *const u8, count: usize) -> float32x4_t {
    let mut padded = [0u8; 16];
    // SAFETY: `count < 4` elements are readable, and fit.
    unsafe { std::ptr::copy_nonoverlapping(row, padded.as_mut_ptr(), count * 4) };
    // SAFETY: `padded` is 16 bytes.
    unsafe { load_f32(padded.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_f16(row: *const u8) -> float32x4_t {
    // SAFETY: the caller vouches for 8 readable bytes.
    widen(vreinterpret_u16_u8(unsafe { vld1_u8(row) }))
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn tail_f16(row: *const u8, count: usize) -> float32x4_t {
    let mut padded = [0u8; 8];
    // SAFETY: `count < 4` elements are readable, and fit.
    unsafe { std::ptr::copy_nonoverlapping(row, padded.as_mut_ptr(), count * 2) };
    // SAFETY: `padded` is 8 bytes.
    unsafe { load_f16(padded.as_ptr()) }
}

/// Half to single precision with integer shifts: the half's exponent and fraction, moved into place, are a
/// float 2^112 times too small, subnormals included; infinities and NaNs get the full exponent instead.
#[inline]
#[target_feature(enable = "neon")]
fn widen(half: uint16x4_t) -> float32x4_t {
    let half = vmovl_u16(half);
    let sign = vshlq_n_u32::<16>(vandq_u32(half, vdupq_n_u32(0x8000)));
    let shifted = vshlq_n_u32::<13>(vandq_u32(half, vdupq_n_u32(0x7fff)));
    let scale = vdupq_n_f32(f32::from_bits((112 + 127) << 23));
    let finite = vreinterpretq_u32_f32(vmulq_f32(vreinterpretq_f32_u32(shifted), scale));
    let special = vorrq_u32(shifted, vdupq_n_u32(0x7f80_0000));
    let is_special = vcgeq_u32(shifted, vdupq_n_u32(0x7c00 << 13));
    vreinterpretq_f32_u32(vorrq_u32(sign, vbslq_u32(is_special, special, finite)))
}

#[inline]
#[target_feature(enable = "neon")]
fn step_dot(acc: float32x4_t, q: float32x4_t, v: float32x4_t) -> float32x4_t {
    vfmaq_f32(acc, q, v)
}

#[inline]
#[target_feature(enable = "neon")]
fn step_l2sq(acc: float32x4_t, q: float32x4_t, v: float32x4_t) -> float32x4_t {
    let d = vsubq_f32(q, v);
    vfmaq_f32(acc, d, d)
}

#[inline]
#[target_feature(enable = "neon")]
fn step_l1(acc: float32x4_t, q: float32x4_t, v: float32x4_t) -> float32x4_t {
    vaddq_f32(acc, vabdq_f32(q, v))
}

/// A pair of 16-byte steps out of two slices.
#[inline]
#[target_feature(enable = "neon")]
fn load_u8(a: &[u8; 16], b: &[u8; 16]) -> (uint8x16_t, uint8x16_t) {
    // SAFETY: 16 bytes each.
    unsafe { (vld1q_u8(a.as_ptr()), vld1q_u8(b.as_ptr())) }
}

/// Adds the sixteen products `a * b` to four sums modulo 2^32: the result fits, so a wrapped lane is harmless.
#[inline]
#[target_feature(enable = "neon")]
fn add_products(acc: uint32x4_t, a: uint8x16_t, b: uint8x16_t) -> uint32x4_t {
    let acc = vpadalq_u16(acc, vmull_u8(vget_low_u8(a), vget_low_u8(b)));
    vpadalq_u16(acc, vmull_high_u8(a, b))
}

#[target_feature(enable = "neon")]
fn dot_u8(a: &[u8], b: &[u8]) -> u32 {
    let ((a, a_tail), (b, b_tail)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    let mut sums = vdupq_n_u32(0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = load_u8(a, b);
        sums = add_products(sums, a, b);
    }
    vaddvq_u32(sums) + scalar::dot_u8(a_tail, b_tail)
}

#[target_feature(enable = "neon")]
fn l2sq_u8(a: &[u8], b: &[u8]) -> u32 {
    let ((a, a_tail), (b, b_tail)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    let mut sums = vdupq_n_u32(0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = load_u8(a, b);
        let d = vabdq_u8(a, b);
        sums = add_products(sums, d, d);
    }
    vaddvq_u32(sums) + scalar::l2sq_u8(a_tail, b_tail)
}

#[target_feature(enable = "neon")]
fn l1_u8(a: &[u8], b: &[u8]) -> u32 {
    let ((a, a_tail), (b, b_tail)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    let mut sums = vdupq_n_u32(0);
    for (a, b) in a.iter().zip(b) {
        let (a, b) = load_u8(a, b);
        sums = vpadalq_u16(sums, vpaddlq_u8(vabdq_u8(a, b)));
    }
    vaddvq_u32(sums) + scalar::l1_u8(a_tail, b_tail)
}
