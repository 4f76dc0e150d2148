//! How a code fits, by hand: the compiler takes the lanes of the sums one by one.

use std::arch::x86_64::*;

use crate::grid::{self, Fit, LANES, ROUNDER};
use crate::table::GridKernels;

pub(super) const KERNELS: GridKernels = GridKernels {
    levels,
    ..super::grid::KERNELS
};

#[target_feature(enable = "avx2")]
fn levels(vector: &[f32], planes: u32, levels: &mut [u8]) -> f64 {
    grid::levels(vector, planes, levels, Some(measure))
}

/// As [`grid::measure`], to the bit.
#[target_feature(enable = "avx2")]
fn measure(r: &[f32], per_unit: f32, most: f32) -> Fit {
    let all = |value: f32| _mm256_set1_ps(value);
    let (per_unit, most, half, rounder) = (all(per_unit), all(most + 0.5), all(0.5), all(ROUNDER));
    let magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(i32::MAX));
    let mut sums = [_mm256_setzero_ps(); 2];
    let mut eight = |values: &[f32; LANES], counts: __m256| {
        // SAFETY: there are eight.
        let values = _mm256_and_ps(unsafe { _mm256_loadu_ps(values.as_ptr()) }, magnitude);
        let steps = _mm256_min_ps(_mm256_mul_ps(values, per_unit), most);
        let level = _mm256_sub_ps(_mm256_add_ps(_mm256_sub_ps(steps, half), rounder), rounder);
        let u = _mm256_mul_ps(counts, _mm256_add_ps(level, half));
        sums[0] = _mm256_add_ps(sums[0], _mm256_mul_ps(u, values));
        sums[1] = _mm256_add_ps(sums[1], _mm256_mul_ps(u, u));
    };
    let (chunks, rest) = r.as_chunks::<LANES>();
    for chunk in chunks {
        eight(chunk, all(1.0));
    }
    let (mut last, mut counts) = ([0.0; LANES], [0.0; LANES]);
    last[..rest.len()].copy_from_slice(rest);
    counts[..rest.len()].fill(1.0);
    // SAFETY: there are eight.
    eight(&last, unsafe { _mm256_loadu_ps(counts.as_ptr()) });
    Fit::of(sums.map(|lanes| {
        let mut out = [0.0; LANES];
        // SAFETY: there are eight.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), lanes) };
        out
    }))
}
