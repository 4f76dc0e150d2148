//! The reference of the kernel over interleaved codes.

use crate::interleaved::{INTERLEAVED_CODES, INTERLEAVED_COLUMN_BYTES, INTERLEAVED_QUAD, interleaved_bytes};

pub(crate) fn dot_interleaved(query: &[i8], interleaved_blocks: &[u8], out: &mut [i32]) {
    let interleaved_blocks = interleaved_blocks.chunks_exact(interleaved_bytes(query.len()));
    out.fill(0);
    for (interleaved_block, out) in interleaved_blocks.zip(out.chunks_exact_mut(INTERLEAVED_CODES)) {
        let columns = interleaved_block.chunks_exact(INTERLEAVED_COLUMN_BYTES);
        for (column, query) in columns.zip(query.chunks_exact(INTERLEAVED_QUAD)) {
            for (code, out) in column.chunks_exact(INTERLEAVED_QUAD).zip(&mut *out) {
                let products = code.iter().zip(query);
                *out += products
                    .map(|(code, q)| i32::from(*code) * i32::from(*q))
                    .sum::<i32>();
            }
        }
    }
}
