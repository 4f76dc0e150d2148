//! Chains by hand: the compiler narrows the values before to bytes and widens them again, for half of the time.

use std::arch::x86_64::*;

use crate::operands::{OwnCosts, TRELLIS_STATES, TrellisCosts};
use crate::table::TrellisKernels;
use crate::trellis;

pub(super) const KERNELS: TrellisKernels = TrellisKernels {
    chain,
    ..super::trellis::KERNELS
};

const LANES: usize = 8;

/// All values of a code.
#[derive(Clone, Copy)]
struct All<T>([T; TRELLIS_STATES / LANES]);

#[target_feature(enable = "avx2")]
fn chain(
    own: &OwnCosts<'_>,
    pairs: &[[TrellisCosts; TRELLIS_STATES]],
    before: &mut [[u32; TRELLIS_STATES]],
    codes: &mut [u8],
) -> f32 {
    let mut sums = [f32::INFINITY; TRELLIS_STATES];
    sums[0] = 0.0;
    let steps = own.first.iter().zip(pairs).zip(&mut *before);
    match own.second {
        None => {
            for ((first, pairs), before) in steps {
                step(&mut sums, pairs, before, load(first));
            }
        }
        Some((factor, second)) => {
            let factor = _mm256_set1_ps(factor);
            for (((first, pairs), before), second) in steps.zip(second) {
                let (first, second) = (load(first), load(second));
                let of = |half: usize| _mm256_add_ps(first.0[half], _mm256_mul_ps(factor, second.0[half]));
                step(&mut sums, pairs, before, All([of(0), of(1)]));
            }
        }
    }
    trellis::trace(&sums, before, codes)
}

/// As [`trellis::step`].
#[target_feature(enable = "avx2")]
#[inline]
fn step(
    sums: &mut TrellisCosts,
    pairs: &[TrellisCosts; TRELLIS_STATES],
    before: &mut [u32; TRELLIS_STATES],
    own: All<__m256>,
) {
    let mut least = [_mm256_set1_ps(f32::INFINITY); 2];
    let mut from = [_mm256_setzero_ps(); 2];
    // One state after the other: a comparison waits a cycle for the one before, and there are eight operations a state.
    let (mut state, one) = (_mm256_setzero_si256(), _mm256_set1_epi32(1));
    for (sum, pairs) in sums.iter().zip(pairs) {
        let (sum, pairs) = (_mm256_set1_ps(*sum), load(pairs));
        for half in 0..2 {
            let reached = _mm256_add_ps(sum, pairs.0[half]);
            let nearer = _mm256_cmp_ps::<_CMP_LT_OQ>(reached, least[half]);
            least[half] = _mm256_min_ps(reached, least[half]);
            from[half] = _mm256_blendv_ps(from[half], _mm256_castsi256_ps(state), nearer);
        }
        state = _mm256_add_epi32(state, one);
    }
    let (sums, _) = sums.as_chunks_mut::<LANES>();
    let (before, _) = before.as_chunks_mut::<LANES>();
    for (half, (sums, before)) in sums.iter_mut().zip(before).enumerate() {
        // SAFETY: both have eight values of four bytes.
        unsafe {
            _mm256_storeu_ps(sums.as_mut_ptr(), _mm256_add_ps(least[half], own.0[half]));
            _mm256_storeu_ps(before.as_mut_ptr().cast(), from[half]);
        }
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn load(costs: &TrellisCosts) -> All<__m256> {
    // SAFETY: there are sixteen.
    unsafe {
        let half = |half: usize| _mm256_loadu_ps(costs.as_ptr().add(half * LANES));
        All([half(0), half(1)])
    }
}
