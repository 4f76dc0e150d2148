//! The reference of the kernel over braided codes.

use crate::braid::{BRAID, BRAID_COLUMN_BYTES, BRAID_QUAD, braid_bytes};

pub(crate) fn dot_braided(query: &[i8], braids: &[u8], out: &mut [i32]) {
    let braids = braids.chunks_exact(braid_bytes(query.len()));
    out.fill(0);
    for (braid, out) in braids.zip(out.chunks_exact_mut(BRAID)) {
        let columns = braid.chunks_exact(BRAID_COLUMN_BYTES);
        for (column, query) in columns.zip(query.chunks_exact(BRAID_QUAD)) {
            for (code, out) in column.chunks_exact(BRAID_QUAD).zip(&mut *out) {
                let products = code.iter().zip(query);
                *out += products
                    .map(|(code, q)| i32::from(*code) * i32::from(*q))
                    .sum::<i32>();
            }
        }
    }
}
