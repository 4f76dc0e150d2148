//! Braided codes: a column is one register, and each lane sums a code of its own.

use std::arch::x86_64::*;

use crate::braid::{BRAID, BRAID_COLUMN_BYTES, BRAID_QUAD, braid_bytes};

/// Braids in flight: as many as hide the latency of a multiplication.
const BRAIDS: usize = 6;

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn dot_braided(query: &[i8], braids: &[u8], out: &mut [i32]) {
    let bytes = braid_bytes(query.len());
    let many = braids.chunks(bytes * BRAIDS);
    for (braids, out) in many.zip(out.chunks_mut(BRAID * BRAIDS)) {
        match out.len() / BRAID {
            BRAIDS => several::<BRAIDS>(query, braids, out),
            _ => {
                let each = braids.chunks_exact(bytes).zip(out.chunks_exact_mut(BRAID));
                each.for_each(|(braid, out)| several::<1>(query, braid, out));
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn several<const N: usize>(query: &[i8], braids: &[u8], out: &mut [i32]) {
    let bytes = braid_bytes(query.len());
    let (quads, _) = query.as_chunks::<BRAID_QUAD>();
    assert!(braids.len() == bytes * N && out.len() == BRAID * N);
    let mut sums = [_mm512_setzero_si512(); N];
    for (i, quad) in quads.iter().enumerate() {
        let quad = _mm512_set1_epi32(i32::from_le_bytes(quad.map(|q| q as u8)));
        for (braid, sum) in sums.iter_mut().enumerate() {
            let at = braid * bytes + i * BRAID_COLUMN_BYTES;
            // SAFETY: a braid has a column of 64 bytes for each quad, and there are `N` braids.
            let column = unsafe { _mm512_loadu_si512(braids.as_ptr().add(at).cast()) };
            *sum = _mm512_dpbusd_epi32(*sum, column, quad);
        }
    }
    for (sum, out) in sums.iter().zip(out.chunks_exact_mut(BRAID)) {
        // SAFETY: 16 entries of 4 bytes.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), *sum) };
    }
}
