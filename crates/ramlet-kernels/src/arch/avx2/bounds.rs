//! Bounds of 8 vectors a step.

use std::arch::x86_64::*;

use crate::bounds::{Bounded, Bounds, FACTOR_BYTES};
use crate::scan::GROUP;

#[target_feature(enable = "avx2,f16c")]
pub(super) fn bound(
    bounds: &Bounds,
    sums: &[u32; GROUP],
    factors: &[u8; FACTOR_BYTES],
    limit: f32,
    out: &mut Bounded,
) -> u32 {
    let all = _mm256_set1_ps;
    let mut mask = 0;
    for at in [0, 8, 16, 24] {
        // SAFETY: 8 sums, and 8 halves of either factor, from `at` on.
        let (sum, add, factor) = unsafe {
            (
                _mm256_loadu_si256(sums.as_ptr().add(at).cast()),
                _mm256_cvtph_ps(_mm_loadu_si128(factors.as_ptr().add(at * 2).cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(factors.as_ptr().add((GROUP + at) * 2).cast())),
            )
        };
        let along = _mm256_sub_ps(
            _mm256_mul_ps(all(2.0), _mm256_cvtepi32_ps(sum)),
            all(bounds.offset),
        );
        let key = _mm256_sub_ps(
            _mm256_add_ps(all(bounds.base), _mm256_mul_ps(all(bounds.add), add)),
            _mm256_mul_ps(_mm256_mul_ps(all(bounds.along), factor), along),
        );
        let left = _mm256_sub_ps(_mm256_mul_ps(factor, factor), add);
        // The second one, if the first isn't a number.
        let left = _mm256_max_ps(left, _mm256_setzero_ps());
        let error = _mm256_mul_ps(all(bounds.error), _mm256_sqrt_ps(left));
        let lower = _mm256_sub_ps(_mm256_sub_ps(key, error), all(bounds.rounding));
        // SAFETY: room for 8 of each from `at` on.
        unsafe {
            _mm256_storeu_ps(out.keys.as_mut_ptr().add(at), key);
            _mm256_storeu_ps(out.lowers.as_mut_ptr().add(at), lower);
            _mm256_storeu_ps(out.adds.as_mut_ptr().add(at), add);
        }
        let within = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NGT_UQ>(lower, all(limit)));
        mask |= (within as u32) << at;
    }
    mask
}
