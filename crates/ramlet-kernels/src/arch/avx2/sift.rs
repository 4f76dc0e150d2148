//! Dropping what is too far, 8 vectors a step.

use std::arch::x86_64::*;

use super::{lanes_of, scan};
use crate::Kernels;
use crate::scan::GROUP;
use crate::sift::{Sift, Sifted};

#[target_feature(enable = "avx2,f16c")]
pub(super) fn sift(sift: &Sift<'_>, groups: &[u8], ahead: &[&[u8]], out: &mut Sifted) {
    let terms = Terms::new(sift);
    for (i, group) in groups.chunks_exact(sift.stride).enumerate() {
        if let Some(bytes) = ahead.get(i) {
            Kernels::prefetch_far(bytes);
        }
        let (codes, factors) = group.split_at(sift.lut.len());
        let (adds, factors) = factors.split_at(GROUP * 2);
        let (adds, factors) = (adds.as_chunks::<16>().0, factors.as_chunks::<16>().0);
        let eights = scan::group_sums(sift.lut, codes)
            .into_iter()
            .zip(adds.iter().zip(factors));
        for (eight, (sums, (adds, factors))) in eights.enumerate() {
            terms.keep(sums, [adds, factors], i * GROUP + eight * 8, out);
        }
    }
}

/// What keys and bounds are made of, in all lanes.
struct Terms {
    base: __m256,
    add: __m256,
    along: __m256,
    offset: __m256,
    error: __m256,
    rounding: __m256,
    limit: __m256,
    error_squared: __m256,
}

/// Which lanes to take for those that are kept, by their bits.
const TAKEN: [[u8; 8]; 256] = lanes_of();

impl Terms {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(sift: &Sift<'_>) -> Terms {
        let (bounds, within) = (&sift.bounds, sift.within());
        Terms {
            base: _mm256_set1_ps(bounds.base),
            add: _mm256_set1_ps(bounds.add),
            along: _mm256_set1_ps(bounds.along),
            offset: _mm256_set1_ps(bounds.offset),
            error: _mm256_set1_ps(bounds.error),
            rounding: _mm256_set1_ps(bounds.rounding),
            limit: _mm256_set1_ps(within.limit),
            error_squared: _mm256_set1_ps(within.error_squared),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn keep(&self, sums: __m256i, [adds, factors]: [&[u8; 16]; 2], first: usize, out: &mut Sifted) {
        // SAFETY: 8 halves of either factor.
        let (add, factor) = unsafe {
            (
                _mm256_cvtph_ps(_mm_loadu_si128(adds.as_ptr().cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(factors.as_ptr().cast())),
            )
        };
        let sum = _mm256_cvtepi32_ps(sums);
        let along = _mm256_sub_ps(_mm256_mul_ps(_mm256_set1_ps(2.0), sum), self.offset);
        let key = _mm256_sub_ps(
            _mm256_add_ps(self.base, _mm256_mul_ps(self.add, add)),
            _mm256_mul_ps(_mm256_mul_ps(self.along, factor), along),
        );
        let left = _mm256_sub_ps(_mm256_mul_ps(factor, factor), add);
        // The second one, if the first isn't a number.
        let left = _mm256_max_ps(left, _mm256_setzero_ps());
        let beyond = _mm256_sub_ps(key, self.limit);
        let most = _mm256_mul_ps(self.error_squared, left);
        let dropped = _mm256_and_ps(
            _mm256_cmp_ps::<_CMP_GT_OQ>(beyond, _mm256_setzero_ps()),
            _mm256_cmp_ps::<_CMP_GT_OQ>(_mm256_mul_ps(beyond, beyond), most),
        );
        let dropped = _mm256_movemask_ps(dropped) as usize;
        if dropped == 255 {
            return;
        }
        let kept = !dropped & 255;
        let error = _mm256_mul_ps(self.error, _mm256_sqrt_ps(left));
        let lower = _mm256_sub_ps(_mm256_sub_ps(key, error), self.rounding);
        let each = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let places = _mm256_add_epi32(_mm256_set1_epi32(first as i32), each);
        let at = out.count;
        assert!(at + 8 <= out.places.len());
        // SAFETY: 8 bytes, and room for a whole register behind those that were kept.
        unsafe {
            let taken = _mm256_cvtepu8_epi32(_mm_loadl_epi64(TAKEN[kept].as_ptr().cast()));
            let whole = |to: &mut [u32], from| {
                let to: *mut __m256i = to.as_mut_ptr().add(at).cast();
                _mm256_storeu_si256(to, _mm256_permutevar8x32_epi32(from, taken));
            };
            let float = |to: &mut [f32], from| {
                let to = to.as_mut_ptr().add(at);
                _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(from, taken));
            };
            whole(&mut out.places, places);
            whole(&mut out.sums, sums);
            float(&mut out.adds, add);
            float(&mut out.keys, key);
            float(&mut out.lowers, lower);
        }
        out.count += kept.count_ones() as usize;
    }
}
