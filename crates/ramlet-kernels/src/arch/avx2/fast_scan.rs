//! Dropping what is too far, 8 vectors a step.
//!
//! Whether one of eight is kept can't be foreseen, and one of four eights has one that is: so nothing branches on it. First the
//! places of those that are kept are put one behind the other, then the distances are reckoned of these alone.

use std::arch::x86_64::*;

use super::scan;
use crate::Kernels;
use crate::operands::{FACTOR_BYTES, FAST_SCAN_GROUPS, FastScan, FastScanned, GROUP};

#[target_feature(enable = "avx2,f16c,bmi1,popcnt")]
pub(super) fn fast_scan(fast_scan: &FastScan<'_>, groups: &[u8], ahead: &[&[u8]], out: &mut FastScanned) {
    let terms = Terms::new(fast_scan);
    let mut all = Sums([[0; GROUP]; FAST_SCAN_GROUPS]);
    let mut count = 0;
    for ((i, group), all) in groups.chunks_exact(fast_scan.stride).enumerate().zip(&mut all.0) {
        let mut ahead = ahead.get(i).copied().unwrap_or_default();
        let (codes, factors) = group.split_at(fast_scan.lut.len());
        let sums = scan::group_sums(fast_scan.lut, codes, &mut ahead);
        Kernels::prefetch_far(ahead);
        let factors: &[u8; FACTOR_BYTES] = match factors.first_chunk() {
            Some(factors) => factors,
            None => panic!("a group with its factors"),
        };
        let kept = [
            terms.keep::<0>(sums[0], factors, all),
            terms.keep::<1>(sums[1], factors, all),
            terms.keep::<2>(sums[2], factors, all),
            terms.keep::<3>(sums[3], factors, all),
        ];
        count = put(lanes(kept), (i * GROUP) as u32, count, &mut out.places);
    }
    out.count = count;
    for i in 0..count {
        let place = out.places[i] as usize;
        let (group, lane) = (place / GROUP, place % GROUP);
        let factors = &groups[group * fast_scan.stride + fast_scan.lut.len()..][..FACTOR_BYTES];
        reckon(fast_scan, factors, (lane, all.0[group][lane]), i, out);
    }
}

/// Of all vectors of a call.
#[repr(align(32))]
struct Sums([[u32; GROUP]; FAST_SCAN_GROUPS]);

/// What is told of a vector that was kept, in the order of the reference.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn reckon(
    fast_scan: &FastScan<'_>,
    factors: &[u8],
    (lane, sum): (usize, u32),
    i: usize,
    out: &mut FastScanned,
) {
    let half = |at: usize| i32::from(u16::from_le_bytes([factors[at * 2], factors[at * 2 + 1]]));
    let (add, factor) = (half(lane), half(GROUP + lane));
    let wide = _mm_cvtph_ps(_mm_cvtsi32_si128(add | factor << 16));
    let (add, factor) = (_mm_cvtss_f32(wide), _mm_cvtss_f32(_mm_movehdup_ps(wide)));
    let bounds = &fast_scan.bounds;
    let along = 2.0 * sum as i32 as f32 - bounds.offset;
    let distance = bounds.base + bounds.add * add - bounds.along * factor * along;
    let left = factor * factor - add;
    let left = if left > 0.0 { left } else { 0.0 };
    out.sums[i] = sum;
    out.adds[i] = add;
    out.distances[i] = distance;
    out.lowers[i] = distance - bounds.error * left.sqrt() - bounds.rounding;
}

/// What is compared of distances and bounds, in all lanes.
struct Terms {
    base: __m256,
    add: __m256,
    along: __m256,
    offset: __m256,
    limit: __m256,
    error_squared: __m256,
}

impl Terms {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(fast_scan: &FastScan<'_>) -> Terms {
        let (bounds, within) = (&fast_scan.bounds, fast_scan.within());
        Terms {
            base: _mm256_set1_ps(bounds.base),
            add: _mm256_set1_ps(bounds.add),
            along: _mm256_set1_ps(bounds.along),
            offset: _mm256_set1_ps(bounds.offset),
            limit: _mm256_set1_ps(within.limit),
            error_squared: _mm256_set1_ps(within.error_squared),
        }
    }

    /// Writes down the sums of the group's eight number `E`; all ones for those that are kept.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn keep<const E: usize>(
        &self,
        sums: __m256i,
        factors: &[u8; FACTOR_BYTES],
        all: &mut [u32; GROUP],
    ) -> __m256i {
        const { assert!(E * 8 + 8 <= GROUP && FACTOR_BYTES == GROUP * 4) };
        // SAFETY: 8 halves of either factor, 8 sums.
        let (add, factor) = unsafe {
            _mm256_storeu_si256(all.as_mut_ptr().add(E * 8).cast(), sums);
            let at = factors.as_ptr().add(E * 16);
            (
                _mm256_cvtph_ps(_mm_loadu_si128(at.cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(at.add(GROUP * 2).cast())),
            )
        };
        let sum = _mm256_cvtepi32_ps(sums);
        let along = _mm256_sub_ps(_mm256_add_ps(sum, sum), self.offset);
        let distance = _mm256_sub_ps(
            _mm256_add_ps(self.base, _mm256_mul_ps(self.add, add)),
            _mm256_mul_ps(_mm256_mul_ps(self.along, factor), along),
        );
        let left = _mm256_sub_ps(_mm256_mul_ps(factor, factor), add);
        // The second one, if the first isn't a number.
        let left = _mm256_max_ps(left, _mm256_setzero_ps());
        let beyond = _mm256_sub_ps(distance, self.limit);
        // The square with the sign of what it is of: none below zero is above `most`.
        let size = _mm256_andnot_ps(_mm256_set1_ps(-0.0), beyond);
        let most = _mm256_mul_ps(self.error_squared, left);
        let kept = _mm256_cmp_ps::<_CMP_NGT_UQ>(_mm256_mul_ps(beyond, size), most);
        _mm256_castps_si256(kept)
    }
}

/// One bit for each of the four eights' lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn lanes([a, b, c, d]: [__m256i; 4]) -> u32 {
    let bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    // Fours of a, b, c, d, and the same of their second halves.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_movemask_epi8(_mm256_permutevar8x32_epi32(bytes, order)) as u32
}

/// Places of one group written without looking at how many they are; more are hardly ever kept.
const FEW: usize = 4;

/// Puts the places of the set bits behind the `count` that there are; how many there are then.
#[inline]
#[target_feature(enable = "avx2,bmi1,popcnt")]
fn put(mut kept: u32, first: u32, count: usize, places: &mut [u32]) -> usize {
    let end = count + kept.count_ones() as usize;
    let places = &mut places[count..][..GROUP];
    for place in &mut places[..FEW] {
        *place = first + kept.trailing_zeros();
        kept &= kept.wrapping_sub(1);
    }
    for place in &mut places[FEW..] {
        if kept == 0 {
            break;
        }
        *place = first + kept.trailing_zeros();
        kept &= kept - 1;
    }
    end
}
