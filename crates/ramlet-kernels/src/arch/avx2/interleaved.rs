//! Interleaved codes: a column is two registers, and each lane sums a code of its own.

use std::arch::x86_64::*;

use crate::interleaved::{INTERLEAVED_CODES, INTERLEAVED_COLUMN_BYTES, INTERLEAVED_QUAD, interleaved_bytes};

/// Sums of the two halves of an interleaved block.
pub(super) type Halves = [__m256i; 2];

/// InterleavedCodes at a time with one query, whose columns are then widened once for all.
pub(super) const INTERLEAVED_BLOCKS: usize = 4;

#[target_feature(enable = "avx2")]
pub(super) fn dot_interleaved(query: &[i8], interleaved_blocks: &[u8], out: &mut [i32]) {
    let bytes = interleaved_bytes(query.len());
    let many = interleaved_blocks.chunks(bytes * INTERLEAVED_BLOCKS);
    for (interleaved_blocks, out) in many.zip(out.chunks_mut(INTERLEAVED_CODES * INTERLEAVED_BLOCKS)) {
        if out.len() == INTERLEAVED_CODES * INTERLEAVED_BLOCKS {
            // SAFETY: so many interleaved blocks as there are numbers for.
            store(
                unsafe { sums::<1, INTERLEAVED_BLOCKS>([query], interleaved_blocks) },
                out,
            );
            continue;
        }
        for (interleaved_block, out) in interleaved_blocks
            .chunks_exact(bytes)
            .zip(out.chunks_exact_mut(INTERLEAVED_CODES))
        {
            // SAFETY: a whole interleaved block.
            store(unsafe { sums::<1, 1>([query], interleaved_block) }, out);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store<const B: usize>(sums: [[Halves; 1]; B], out: &mut [i32]) {
    for ([halves], out) in sums.iter().zip(out.chunks_exact_mut(INTERLEAVED_CODES)) {
        for (half, out) in halves
            .iter()
            .zip(out.as_chunks_mut::<{ INTERLEAVED_CODES / 2 }>().0)
        {
            // SAFETY: 8 entries of 4 bytes.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), *half) };
        }
    }
}

/// Safety: `interleaved_blocks` has `B` interleaved blocks of the queries' whole columns, of which all have as many.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn sums<const Q: usize, const B: usize>(
    queries: [&[i8]; Q],
    interleaved_blocks: &[u8],
) -> [[Halves; Q]; B] {
    let bytes = interleaved_bytes(queries[0].len());
    debug_assert!(
        interleaved_blocks.len() >= bytes * B && queries.iter().all(|query| query.len() == queries[0].len())
    );
    let low_bytes = _mm256_set1_epi16(255);
    let mut sums = [[[_mm256_setzero_si256(); 2]; Q]; B];
    for column in 0..queries[0].len() / INTERLEAVED_QUAD {
        // Products of bytes don't fit 16 bits pairwise: even and odd bytes are widened apart.
        let wide: [[__m256i; 2]; Q] = std::array::from_fn(|query| {
            let quad = queries[query].as_ptr().wrapping_add(column * INTERLEAVED_QUAD);
            // SAFETY: all queries have the same whole columns.
            let quad = _mm256_set1_epi32(unsafe { quad.cast::<i32>().read_unaligned() });
            [
                _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(quad)),
                _mm256_srai_epi16::<8>(quad),
            ]
        });
        for (interleaved_block, sums) in sums.iter_mut().enumerate() {
            for half in 0..2 {
                let at = interleaved_block * bytes
                    + column * INTERLEAVED_COLUMN_BYTES
                    + half * (INTERLEAVED_COLUMN_BYTES / 2);
                // SAFETY: an interleaved block has two halves of 32 bytes for each column.
                let codes = unsafe { _mm256_loadu_si256(interleaved_blocks.as_ptr().add(at).cast()) };
                let (even, odd) = (_mm256_and_si256(codes, low_bytes), _mm256_srli_epi16::<8>(codes));
                for (sums, wide) in sums.iter_mut().zip(&wide) {
                    let products =
                        _mm256_add_epi32(_mm256_madd_epi16(even, wide[0]), _mm256_madd_epi16(odd, wide[1]));
                    sums[half] = _mm256_add_epi32(sums[half], products);
                }
            }
        }
    }
    sums
}
