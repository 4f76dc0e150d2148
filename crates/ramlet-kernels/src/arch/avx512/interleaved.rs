//! Interleaved codes: a column is one register, and each lane sums a code of its own.

use std::arch::x86_64::*;

use crate::interleaved::{INTERLEAVED_CODES, INTERLEAVED_COLUMN_BYTES, INTERLEAVED_QUAD, interleaved_bytes};

/// InterleavedCodes in flight: as many as hide the latency of a multiplication.
const INTERLEAVED_BLOCKS: usize = 6;

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn dot_interleaved(query: &[i8], interleaved_blocks: &[u8], out: &mut [i32]) {
    let bytes = interleaved_bytes(query.len());
    let many = interleaved_blocks.chunks(bytes * INTERLEAVED_BLOCKS);
    for (interleaved_blocks, out) in many.zip(out.chunks_mut(INTERLEAVED_CODES * INTERLEAVED_BLOCKS)) {
        match out.len() / INTERLEAVED_CODES {
            INTERLEAVED_BLOCKS => several::<INTERLEAVED_BLOCKS>(query, interleaved_blocks, out),
            _ => {
                let each = interleaved_blocks
                    .chunks_exact(bytes)
                    .zip(out.chunks_exact_mut(INTERLEAVED_CODES));
                each.for_each(|(interleaved_block, out)| several::<1>(query, interleaved_block, out));
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn several<const N: usize>(query: &[i8], interleaved_blocks: &[u8], out: &mut [i32]) {
    let bytes = interleaved_bytes(query.len());
    let (quads, _) = query.as_chunks::<INTERLEAVED_QUAD>();
    assert!(interleaved_blocks.len() == bytes * N && out.len() == INTERLEAVED_CODES * N);
    let mut sums = [_mm512_setzero_si512(); N];
    for (i, quad) in quads.iter().enumerate() {
        let quad = _mm512_set1_epi32(i32::from_le_bytes(quad.map(|q| q as u8)));
        for (interleaved_block, sum) in sums.iter_mut().enumerate() {
            let at = interleaved_block * bytes + i * INTERLEAVED_COLUMN_BYTES;
            // SAFETY: an interleaved block has a column of 64 bytes for each quad, and there are `N` interleaved blocks.
            let column = unsafe { _mm512_loadu_si512(interleaved_blocks.as_ptr().add(at).cast()) };
            *sum = _mm512_dpbusd_epi32(*sum, column, quad);
        }
    }
    for (sum, out) in sums.iter().zip(out.chunks_exact_mut(INTERLEAVED_CODES)) {
        // SAFETY: 16 entries of 4 bytes.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), *sum) };
    }
}
