//! The reference, in plain Rust.
//!
//! Sums run in eight lanes: it is as simple as one, errs less, and lets the compiler use SSE2.

pub(crate) mod entry;
pub(crate) mod fast_scan;
pub(super) mod interleaved;
pub(super) mod scan;

use crate::Kernels;
use crate::table::FloatKernel;

interleaved_kernels!(interleaved::dot_interleaved);
grid_kernels!();
trellis_kernels!();

pub(crate) static TABLE: Kernels = Kernels {
    name: "scalar",
    f32: [
        FloatKernel {
            one: dot::<F32>,
            rows: rows::<F32, Dot>,
        },
        FloatKernel {
            one: l2sq::<F32>,
            rows: rows::<F32, L2sq>,
        },
        FloatKernel {
            one: l1::<F32>,
            rows: rows::<F32, L1>,
        },
    ],
    f16: [
        FloatKernel {
            one: dot::<F16>,
            rows: rows::<F16, Dot>,
        },
        FloatKernel {
            one: l2sq::<F16>,
            rows: rows::<F16, L2sq>,
        },
        FloatKernel {
            one: l1::<F16>,
            rows: rows::<F16, L1>,
        },
    ],
    u8: [dot_u8, l2sq_u8, l1_u8],
    codes: [dot_codes4, dot_codes8],
    fast_scan_sums: scan::fast_scan_sums,
    interleaved: interleaved::dot_interleaved,
    planes: scan::PLANES,
    entry: entry::KERNELS,
    fast_scan: fast_scan::fast_scan,
    nearness: crate::nearness::of_each,
    places: crate::nearness::places,
    nearest: nearest::KERNELS,
    grid: grid::KERNELS,
    trellis: trellis::KERNELS,
    to_f16: f32_to_f16,
    from_f16: f16_to_f32,
};

/// An element of a row as it lies in bytes.
trait Stored {
    const BYTES: usize;
    fn read(bytes: &[u8]) -> f32;
}

struct F32;
struct F16;

impl Stored for F32 {
    const BYTES: usize = 4;
    #[inline]
    fn read(bytes: &[u8]) -> f32 {
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

impl Stored for F16 {
    const BYTES: usize = 2;
    #[inline]
    fn read(bytes: &[u8]) -> f32 {
        widen(u16::from_le_bytes([bytes[0], bytes[1]]))
    }
}

/// One dimension's contribution.
trait Term {
    fn term(a: f32, b: f32) -> f32;
}

struct Dot;
struct L2sq;
struct L1;

impl Term for Dot {
    #[inline]
    fn term(a: f32, b: f32) -> f32 {
        a * b
    }
}

impl Term for L2sq {
    #[inline]
    fn term(a: f32, b: f32) -> f32 {
        (a - b) * (a - b)
    }
}

impl Term for L1 {
    #[inline]
    fn term(a: f32, b: f32) -> f32 {
        (a - b).abs()
    }
}

fn sum<E: Stored, T: Term>(query: &[f32], row: &[u8]) -> f32 {
    let mut lanes = [0.0f32; 8];
    for (i, (a, b)) in query.iter().zip(row.chunks_exact(E::BYTES)).enumerate() {
        lanes[i % 8] += T::term(*a, E::read(b));
    }
    lanes.iter().sum()
}

fn dot<E: Stored>(query: &[f32], row: &[u8]) -> f32 {
    sum::<E, Dot>(query, row)
}

fn l2sq<E: Stored>(query: &[f32], row: &[u8]) -> f32 {
    sum::<E, L2sq>(query, row)
}

fn l1<E: Stored>(query: &[f32], row: &[u8]) -> f32 {
    sum::<E, L1>(query, row)
}

fn rows<E: Stored, T: Term>(query: &[f32], rows: &[u8], stride: usize, out: &mut [f32]) {
    for (i, out) in out.iter_mut().enumerate() {
        let row = &rows[i * stride..][..query.len() * E::BYTES];
        *out = sum::<E, T>(query, row);
    }
}

pub(super) fn dot_u8(a: &[u8], b: &[u8]) -> u32 {
    a.iter().zip(b).map(|(a, b)| u32::from(*a) * u32::from(*b)).sum()
}

pub(super) fn l2sq_u8(a: &[u8], b: &[u8]) -> u32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2))
        .sum()
}

pub(super) fn l1_u8(a: &[u8], b: &[u8]) -> u32 {
    a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(*b))).sum()
}

pub(super) fn dot_codes4(query: &[i8], rows: &[u8], stride: usize, out: &mut [i32]) {
    let (low, high) = query.split_at(query.len() / 2);
    for (i, out) in out.iter_mut().enumerate() {
        *out = dot_code4(low, high, &rows[i * stride..][..low.len()]);
    }
}

pub(super) fn dot_code4(low: &[i8], high: &[i8], code: &[u8]) -> i32 {
    let product = |level: u8, query: i8| i32::from(level) * i32::from(query);
    let pairs = code.iter().zip(low.iter().zip(high));
    pairs
        .map(|(code, (low, high))| product(code & 15, *low) + product(code >> 4, *high))
        .sum()
}

pub(super) fn dot_codes8(query: &[i8], rows: &[u8], stride: usize, out: &mut [i32]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = dot_code8(query, &rows[i * stride..][..query.len()]);
    }
}

pub(super) fn dot_code8(query: &[i8], code: &[u8]) -> i32 {
    let pairs = query.iter().zip(code);
    pairs
        .map(|(query, code)| i32::from(*query) * i32::from(*code))
        .sum()
}

pub(super) fn f32_to_f16(from: &[f32], to: &mut [u16]) {
    for (from, to) in from.iter().zip(to) {
        *to = narrow(*from);
    }
}

pub(super) fn f16_to_f32(from: &[u16], to: &mut [f32]) {
    for (from, to) in from.iter().zip(to) {
        *to = widen(*from);
    }
}

/// binary32 to binary16, to nearest, ties to even.
fn narrow(value: f32) -> u16 {
    const INFINITE: u32 = 0x7f80_0000;
    const ROUNDS_TO_INFINITE: u32 = 0x477f_f000; // 65,520: midway between the largest half and 2^16
    const SMALLEST_NORMAL: u32 = 0x3880_0000; // 2^-14
    const ROUNDS_TO_ZERO: u32 = 0x3300_0000; // 2^-25: midway between 0 and the smallest half; 0 is even
    let sign = (value.to_bits() >> 16) as u16 & 0x8000;
    let bits = value.to_bits() & 0x7fff_ffff;
    let magnitude = if bits > INFINITE {
        0x7e00 | (bits >> 13) & 0x3ff
    } else if bits >= ROUNDS_TO_INFINITE {
        0x7c00
    } else if bits >= SMALLEST_NORMAL {
        round_shift(bits - (112 << 23), 13)
    } else if bits > ROUNDS_TO_ZERO {
        // A subnormal half counts units of 2^-24; the float is `significand * 2^(exponent - 150)`.
        let significand = bits & 0x7f_ffff | 0x80_0000;
        round_shift(significand, 126 - (bits >> 23))
    } else {
        0
    };
    sign | magnitude as u16
}

/// `value / 2^shift`, to nearest, ties to even.
fn round_shift(value: u32, shift: u32) -> u32 {
    let below_half = (1 << (shift - 1)) - 1;
    let odd = (value >> shift) & 1;
    (value + below_half + odd) >> shift
}

/// binary16 to binary32.
fn widen(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let exponent = u32::from(half >> 10) & 0x1f;
    let fraction = u32::from(half & 0x3ff);
    let magnitude = match exponent {
        0 => (fraction as f32 * f32::from_bits(0x3380_0000)).to_bits(), // units of 2^-24
        0x1f if fraction == 0 => 0x7f80_0000,
        0x1f => 0x7fc0_0000 | fraction << 13,
        _ => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}
