//! Dropping what is too far, 8 vectors a step.

use std::arch::x86_64::*;

use super::scan;
use crate::Kernels;
use crate::arch::scalar::sift::push;
use crate::scan::GROUP;
use crate::sift::{Sift, Sifted, Within};

#[target_feature(enable = "avx2,f16c")]
pub(super) fn sift(sift: &Sift<'_>, groups: &[u8], ahead: &[&[u8]], out: &mut Sifted) {
    let mut sums = [0; GROUP];
    let within = sift.within();
    for (i, group) in groups.chunks_exact(sift.stride).enumerate() {
        ahead
            .get(i)
            .into_iter()
            .for_each(|bytes| Kernels::prefetch_far(bytes));
        scan::fastscan(sift.lut, group, sift.stride, &mut sums);
        let (adds, factors) = group[sift.lut.len()..].split_at(GROUP * 2);
        let (adds, factors) = (adds.as_chunks::<16>().0, factors.as_chunks::<16>().0);
        let eights = sums.as_chunks::<8>().0.iter().zip(adds.iter().zip(factors));
        for (eight, (sums, (adds, factors))) in eights.enumerate() {
            keep(sift, &within, sums, [adds, factors], i * GROUP + eight * 8, out);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn keep(
    sift: &Sift<'_>,
    within: &Within,
    sums: &[u32; 8],
    [adds, factors]: [&[u8; 16]; 2],
    first: usize,
    out: &mut Sifted,
) {
    let (all, bounds) = (_mm256_set1_ps, &sift.bounds);
    // SAFETY: 8 sums, and 8 halves of either factor.
    let (sum, add, factor) = unsafe {
        (
            _mm256_loadu_si256(sums.as_ptr().cast()),
            _mm256_cvtph_ps(_mm_loadu_si128(adds.as_ptr().cast())),
            _mm256_cvtph_ps(_mm_loadu_si128(factors.as_ptr().cast())),
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
    let beyond = _mm256_sub_ps(key, all(within.limit));
    let most = _mm256_mul_ps(all(within.error_squared), left);
    let dropped = _mm256_and_ps(
        _mm256_cmp_ps::<_CMP_GT_OQ>(beyond, _mm256_setzero_ps()),
        _mm256_cmp_ps::<_CMP_GT_OQ>(_mm256_mul_ps(beyond, beyond), most),
    );
    let mut kept = !_mm256_movemask_ps(dropped) & 0xff;
    if kept == 0 {
        return;
    }
    let (mut keys, mut lefts, mut wide) = ([0.0; 8], [0.0; 8], [0.0; 8]);
    // SAFETY: 8 numbers each.
    unsafe {
        _mm256_storeu_ps(keys.as_mut_ptr(), key);
        _mm256_storeu_ps(lefts.as_mut_ptr(), left);
        _mm256_storeu_ps(wide.as_mut_ptr(), add);
    }
    while kept != 0 {
        let v = kept.trailing_zeros() as usize;
        kept &= kept - 1;
        push(
            sift,
            keys[v],
            lefts[v],
            wide[v],
            ((first + v) as u32, sums[v]),
            out,
        );
    }
}
