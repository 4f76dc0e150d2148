//! Braided codes: a column is two registers, and each lane sums a code of its own.

use std::arch::x86_64::*;

use crate::braid::{BRAID, BRAID_COLUMN_BYTES, BRAID_QUAD, braid_bytes};

#[target_feature(enable = "avx2")]
pub(super) fn dot_braided(query: &[i8], braids: &[u8], out: &mut [i32]) {
    let (quads, _) = query.as_chunks::<BRAID_QUAD>();
    let bytes = braid_bytes(query.len());
    let low_bytes = _mm256_set1_epi16(255);
    // Products of bytes don't fit 16 bits pairwise: even and odd bytes are widened apart.
    let pair = |a: i8, b: i8| _mm256_set1_epi32(i32::from(a as i16 as u16) | i32::from(b) << 16);
    for (braid, out) in braids.chunks_exact(bytes).zip(out.chunks_exact_mut(BRAID)) {
        let mut sums = [_mm256_setzero_si256(); 2];
        for (quad, column) in quads.iter().zip(braid.chunks_exact(BRAID_COLUMN_BYTES)) {
            let (even, odd) = (pair(quad[0], quad[2]), pair(quad[1], quad[3]));
            for (sum, half) in sums.iter_mut().zip(column.chunks_exact(BRAID_COLUMN_BYTES / 2)) {
                // SAFETY: 32 bytes.
                let half = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
                let evens = _mm256_madd_epi16(_mm256_and_si256(half, low_bytes), even);
                let odds = _mm256_madd_epi16(_mm256_srli_epi16::<8>(half), odd);
                *sum = _mm256_add_epi32(*sum, _mm256_add_epi32(evens, odds));
            }
        }
        for (sum, out) in sums.iter().zip(out.chunks_exact_mut(BRAID / 2)) {
            // SAFETY: 8 entries of 4 bytes.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), *sum) };
        }
    }
}
