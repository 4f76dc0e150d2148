//! Products with codes of one byte a dimension: four codes at once, which share the query's registers and the last sums.

use std::arch::x86_64::*;

use super::{load_32, sum_u32};

/// Entries of a query that are widened at a time.
const BLOCK: usize = 256;

/// A query's entries at even places, and at odd ones, in 16 bits each: a pair of products of bytes would saturate.
struct Wide {
    even: [__m256i; BLOCK / 32],
    odd: [__m256i; BLOCK / 32],
    steps: usize,
}

#[target_feature(enable = "avx2")]
pub(super) fn dot_codes8(query: &[i8], rows: &[u8], stride: usize, out: &mut [i32]) {
    out.fill(0);
    for (block, at) in query.chunks(BLOCK).zip((0..).step_by(BLOCK)) {
        let wide = Wide::new(block);
        // Whole steps are read: behind a code's end it is the next one's bytes, times zero. Of the last codes' there are none.
        let readable = rows.len().saturating_sub(at + wide.steps * 32);
        let whole = if rows.len() < at + wide.steps * 32 {
            0
        } else {
            readable / stride.max(1) + 1
        };
        let (whole, last) = out.split_at_mut(whole.min(out.len()));
        let rest = whole.len();
        let (fours, ones) = whole.as_chunks_mut::<4>();
        let mut first = rows.as_ptr().wrapping_add(at);
        for four in fours {
            let codes = [0, 1, 2, 3].map(|i| first.wrapping_add(i * stride));
            // SAFETY: of each of these codes all steps can be read; four numbers.
            unsafe {
                let sums = sum_each(wide.products(codes));
                let out: *mut __m128i = four.as_mut_ptr().cast();
                _mm_storeu_si128(out, _mm_add_epi32(_mm_loadu_si128(out), sums));
            }
            first = first.wrapping_add(4 * stride);
        }
        for out in ones {
            // SAFETY: as above.
            let [sums] = unsafe { wide.products([first]) };
            *out += sum_u32(sums) as i32;
            first = first.wrapping_add(stride);
        }
        for (row, out) in (rest..).zip(last) {
            let mut code = [0; BLOCK];
            code[..block.len()].copy_from_slice(&rows[row * stride + at..][..block.len()]);
            // SAFETY: a whole block.
            let [sums] = unsafe { wide.products([code.as_ptr()]) };
            *out += sum_u32(sums) as i32;
        }
    }
}

impl Wide {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(query: &[i8]) -> Wide {
        let mut wide = Wide {
            even: [_mm256_setzero_si256(); BLOCK / 32],
            odd: [_mm256_setzero_si256(); BLOCK / 32],
            steps: query.len().div_ceil(32),
        };
        let steps = query.chunks(32).zip(wide.even.iter_mut().zip(&mut wide.odd));
        for (query, (even, odd)) in steps {
            let mut padded = [0; 32];
            padded[..query.len()].copy_from_slice(query);
            let both = load_32(&padded);
            *even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(both));
            *odd = _mm256_srai_epi16::<8>(both);
        }
        wide
    }

    /// Safety: `32 * steps` bytes can be read from each place.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn products<const N: usize>(&self, codes: [*const u8; N]) -> [__m256i; N] {
        let mut sums = [_mm256_setzero_si256(); N];
        let low = _mm256_set1_epi16(255);
        for (step, (even, odd)) in self.even.iter().zip(&self.odd).take(self.steps).enumerate() {
            for (sum, codes) in sums.iter_mut().zip(codes) {
                // SAFETY: the caller's.
                let codes = unsafe { _mm256_loadu_si256(codes.add(step * 32).cast()) };
                let even = _mm256_madd_epi16(_mm256_and_si256(codes, low), *even);
                let odd = _mm256_madd_epi16(_mm256_srli_epi16::<8>(codes), *odd);
                *sum = _mm256_add_epi32(*sum, _mm256_add_epi32(even, odd));
            }
        }
        sums
    }
}

/// The sums of four registers' lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn sum_each([a, b, c, d]: [__m256i; 4]) -> __m128i {
    let pairs = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    _mm_add_epi32(
        _mm256_castsi256_si128(pairs),
        _mm256_extracti128_si256::<1>(pairs),
    )
}
