//! Scanning a group and dropping what is too far without leaving the registers.

use std::arch::x86_64::*;

use super::scan::{Half, block_sums, in_order, look_up};
use crate::Kernels;
use crate::operands::{COLUMN_BYTES, FastScan, FastScanned, GROUP};
use crate::scan::{COLUMNS_U16, fetch_one};

/// Tables of at most eight registers (128 dimensions) stay in them.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn fast_scan(fast_scan: &FastScan<'_>, groups: &[u8], ahead: &[&[u8]], out: &mut FastScanned) {
    match fast_scan.lut.len().div_ceil(64) {
        1 => short::<1>(fast_scan, groups, ahead, out),
        2 => short::<2>(fast_scan, groups, ahead, out),
        3 => short::<3>(fast_scan, groups, ahead, out),
        4 => short::<4>(fast_scan, groups, ahead, out),
        5 => short::<5>(fast_scan, groups, ahead, out),
        6 => short::<6>(fast_scan, groups, ahead, out),
        7 => short::<7>(fast_scan, groups, ahead, out),
        8 => short::<8>(fast_scan, groups, ahead, out),
        _ => long(fast_scan, groups, ahead, out),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn short<const N: usize>(fast_scan: &FastScan<'_>, groups: &[u8], ahead: &[&[u8]], out: &mut FastScanned) {
    let mut lut = [_mm512_setzero_si512(); N];
    for (register, bytes) in lut.iter_mut().zip(fast_scan.lut.chunks(64)) {
        // SAFETY: masked-off bytes are not read.
        *register = unsafe { _mm512_maskz_loadu_epi8(super::bytes(bytes.len()), bytes.as_ptr().cast()) };
    }
    let terms = Terms::new(fast_scan);
    for (i, group) in groups.chunks_exact(fast_scan.stride).enumerate() {
        let mut ahead = ahead.get(i).copied().unwrap_or_default();
        let (mut low, mut high) = (Half::zero(), Half::zero());
        for (column, lut) in lut.iter().enumerate() {
            fetch_one(&mut ahead);
            // SAFETY: a group has at least 64 bytes of factors behind its columns, less than 64 of which are read: there the
            // table is zero, which adds nothing.
            let codes = unsafe { _mm512_loadu_si512(group.as_ptr().add(column * 64).cast()) };
            look_up(*lut, codes, &mut low, &mut high);
        }
        Kernels::prefetch_far(ahead);
        let sums = in_order([low.even(), low.odd, high.even(), high.odd]);
        let (first, second) = (_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64::<1>(sums));
        let sums = [_mm512_cvtepu16_epi32(first), _mm512_cvtepu16_epi32(second)];
        terms.keep(sums, &group[fast_scan.lut.len()..], i * GROUP, out);
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn long(fast_scan: &FastScan<'_>, groups: &[u8], ahead: &[&[u8]], out: &mut FastScanned) {
    let terms = Terms::new(fast_scan);
    for (i, group) in groups.chunks_exact(fast_scan.stride).enumerate() {
        let mut ahead = ahead.get(i).copied().unwrap_or_default();
        let mut totals = [_mm512_setzero_si512(); 2];
        let blocks = fast_scan.lut.chunks(COLUMNS_U16 * COLUMN_BYTES);
        for (lut, codes) in blocks.zip(group[..fast_scan.lut.len()].chunks(COLUMNS_U16 * COLUMN_BYTES)) {
            let sums = block_sums(lut, codes, &mut ahead);
            let (low, high) = (_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64::<1>(sums));
            totals[0] = _mm512_add_epi32(totals[0], _mm512_cvtepu16_epi32(low));
            totals[1] = _mm512_add_epi32(totals[1], _mm512_cvtepu16_epi32(high));
        }
        Kernels::prefetch_far(ahead);
        terms.keep(totals, &group[fast_scan.lut.len()..], i * GROUP, out);
    }
}

/// What is the same for all vectors, in every lane.
#[derive(Clone, Copy)]
struct Terms {
    base: __m512,
    add: __m512,
    along: __m512,
    offset: __m512,
    error: __m512,
    rounding: __m512,
    limit: __m512,
    error_squared: __m512,
}

/// 16 vectors.
#[derive(Clone, Copy)]
struct Lanes {
    add: __m512,
    distance: __m512,
    left: __m512,
    kept: __mmask16,
}

impl Terms {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(fast_scan: &FastScan<'_>) -> Terms {
        let (bounds, within) = (&fast_scan.bounds, fast_scan.within());
        Terms {
            base: _mm512_set1_ps(bounds.base),
            add: _mm512_set1_ps(bounds.add),
            along: _mm512_set1_ps(bounds.along),
            offset: _mm512_set1_ps(bounds.offset),
            error: _mm512_set1_ps(bounds.error),
            rounding: _mm512_set1_ps(bounds.rounding),
            limit: _mm512_set1_ps(within.limit),
            error_squared: _mm512_set1_ps(within.error_squared),
        }
    }

    /// Keeps those of 32 vectors that aren't too far.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn keep(&self, sums: [__m512i; 2], factors: &[u8], first: usize, out: &mut FastScanned) {
        let (adds, factors) = factors.split_at(GROUP * 2);
        let lanes = [
            self.lanes(sums[0], &adds[..32], &factors[..32]),
            self.lanes(sums[1], &adds[32..], &factors[32..]),
        ];
        if lanes[0].kept | lanes[1].kept == 0 {
            return;
        }
        for (i, (lanes, sums)) in lanes.iter().zip(sums).enumerate() {
            self.push(lanes, sums, first + i * 16, out);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn lanes(&self, sums: __m512i, adds: &[u8], factors: &[u8]) -> Lanes {
        assert!(adds.len() >= 32 && factors.len() >= 32);
        // SAFETY: 16 halves each.
        let (add, factor) = unsafe {
            (
                _mm512_cvtph_ps(_mm256_loadu_si256(adds.as_ptr().cast())),
                _mm512_cvtph_ps(_mm256_loadu_si256(factors.as_ptr().cast())),
            )
        };
        let along = _mm512_sub_ps(
            _mm512_mul_ps(_mm512_set1_ps(2.0), _mm512_cvtepi32_ps(sums)),
            self.offset,
        );
        let distance = _mm512_sub_ps(
            _mm512_add_ps(self.base, _mm512_mul_ps(self.add, add)),
            _mm512_mul_ps(_mm512_mul_ps(self.along, factor), along),
        );
        let left = _mm512_sub_ps(_mm512_mul_ps(factor, factor), add);
        // The second one, if the first isn't a number.
        let left = _mm512_max_ps(left, _mm512_setzero_ps());
        let beyond = _mm512_sub_ps(distance, self.limit);
        let above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(beyond, _mm512_setzero_ps());
        let most = _mm512_mul_ps(self.error_squared, left);
        let dropped = _mm512_mask_cmp_ps_mask::<_CMP_GT_OQ>(above, _mm512_mul_ps(beyond, beyond), most);
        Lanes {
            add,
            distance,
            left,
            kept: !dropped,
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn push(&self, lanes: &Lanes, sums: __m512i, first: usize, out: &mut FastScanned) {
        let error = _mm512_mul_ps(self.error, _mm512_sqrt_ps(lanes.left));
        let lower = _mm512_sub_ps(_mm512_sub_ps(lanes.distance, error), self.rounding);
        let each = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let places = _mm512_add_epi32(_mm512_set1_epi32(first as i32), each);
        let (at, kept) = (out.count, lanes.kept);
        assert!(at + 16 <= out.places.len());
        // SAFETY: room for a whole register behind those that were kept. (Compressing into memory takes far longer.)
        unsafe {
            _mm512_storeu_si512(
                out.places.as_mut_ptr().add(at).cast(),
                _mm512_maskz_compress_epi32(kept, places),
            );
            _mm512_storeu_si512(
                out.sums.as_mut_ptr().add(at).cast(),
                _mm512_maskz_compress_epi32(kept, sums),
            );
            _mm512_storeu_ps(
                out.adds.as_mut_ptr().add(at),
                _mm512_maskz_compress_ps(kept, lanes.add),
            );
            _mm512_storeu_ps(
                out.distances.as_mut_ptr().add(at),
                _mm512_maskz_compress_ps(kept, lanes.distance),
            );
            _mm512_storeu_ps(
                out.lowers.as_mut_ptr().add(at),
                _mm512_maskz_compress_ps(kept, lower),
            );
        }
        out.count += kept.count_ones() as usize;
    }
}
