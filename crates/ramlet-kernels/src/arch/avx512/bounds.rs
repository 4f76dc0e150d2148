//! Bounds of 16 vectors a step.

use std::arch::x86_64::*;

use crate::bounds::{Bounded, Bounds, FACTOR_BYTES};
use crate::scan::GROUP;

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn bound(
    bounds: &Bounds,
    sums: &[u32; GROUP],
    factors: &[u8; FACTOR_BYTES],
    limit: f32,
    out: &mut Bounded,
) -> u32 {
    let all = _mm512_set1_ps;
    let mut mask = 0;
    for at in [0, 16] {
        // SAFETY: 16 sums, and 16 halves of either factor, from `at` on.
        let (sum, add, factor) = unsafe {
            (
                _mm512_loadu_si512(sums.as_ptr().add(at).cast()),
                _mm512_cvtph_ps(_mm256_loadu_si256(factors.as_ptr().add(at * 2).cast())),
                _mm512_cvtph_ps(_mm256_loadu_si256(factors.as_ptr().add((GROUP + at) * 2).cast())),
            )
        };
        let along = _mm512_sub_ps(
            _mm512_mul_ps(all(2.0), _mm512_cvtepi32_ps(sum)),
            all(bounds.offset),
        );
        let key = _mm512_sub_ps(
            _mm512_add_ps(all(bounds.base), _mm512_mul_ps(all(bounds.add), add)),
            _mm512_mul_ps(_mm512_mul_ps(all(bounds.along), factor), along),
        );
        let left = _mm512_sub_ps(_mm512_mul_ps(factor, factor), add);
        // The second one, if the first isn't a number.
        let left = _mm512_max_ps(left, _mm512_setzero_ps());
        let error = _mm512_mul_ps(all(bounds.error), _mm512_sqrt_ps(left));
        let lower = _mm512_sub_ps(_mm512_sub_ps(key, error), all(bounds.rounding));
        // SAFETY: room for 16 of each from `at` on.
        unsafe {
            _mm512_storeu_ps(out.keys.as_mut_ptr().add(at), key);
            _mm512_storeu_ps(out.lowers.as_mut_ptr().add(at), lower);
            _mm512_storeu_ps(out.adds.as_mut_ptr().add(at), add);
        }
        let within = _mm512_cmp_ps_mask::<_CMP_NGT_UQ>(lower, all(limit));
        mask |= u32::from(within) << at;
    }
    mask
}
