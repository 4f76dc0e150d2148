//! Dot products of a signed query with codes of unsigned bytes or halves of bytes.
//!
//! There is no product of unsigned with signed bytes: codes are taken 128 lower, which is made up for by the query's sum.

use std::arch::aarch64::*;

use crate::arch::scalar;
use crate::interleaved::{INTERLEAVED_CODES, INTERLEAVED_COLUMN_BYTES, INTERLEAVED_QUAD, interleaved_bytes};

/// What codes of bytes are taken lower by.
const LESS: i32 = 128;

/// Bytes of a step.
const STEP: usize = 16;

/// Registers of a column of an interleaved block: four codes each.
const PARTS: usize = INTERLEAVED_COLUMN_BYTES / STEP;

#[inline]
#[target_feature(enable = "neon")]
fn lowered(codes: uint8x16_t) -> int8x16_t {
    vreinterpretq_s8_u8(veorq_u8(codes, vdupq_n_u8(LESS as u8)))
}

#[inline]
#[target_feature(enable = "neon")]
fn bytes_at(codes: &[u8; STEP]) -> uint8x16_t {
    // SAFETY: 16 bytes.
    unsafe { vld1q_u8(codes.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn query_at(query: &[i8; STEP]) -> int8x16_t {
    // SAFETY: 16 bytes.
    unsafe { vld1q_s8(query.as_ptr()) }
}

#[target_feature(enable = "neon")]
pub(super) fn dot_codes8(query: &[i8], rows: &[u8], stride: usize, out: &mut [i32]) {
    let (steps, tail) = query.as_chunks::<STEP>();
    let whole = &query[..steps.len() * STEP];
    let less = LESS * whole.iter().map(|value| i32::from(*value)).sum::<i32>();
    for (i, out) in out.iter_mut().enumerate() {
        let (codes, codes_tail) = rows[i * stride..][..query.len()].as_chunks::<STEP>();
        let mut sums = [vdupq_n_s32(0); 2];
        for (codes, query) in codes.iter().zip(steps) {
            let (codes, query) = (lowered(bytes_at(codes)), query_at(query));
            let low = vmull_s8(vget_low_s8(codes), vget_low_s8(query));
            sums = [
                vpadalq_s16(sums[0], low),
                vpadalq_s16(sums[1], vmull_high_s8(codes, query)),
            ];
        }
        let sum = vaddvq_s32(vaddq_s32(sums[0], sums[1]));
        *out = sum + less + scalar::dot_code8(tail, codes_tail);
    }
}

#[target_feature(enable = "neon")]
pub(super) fn dot_codes4(query: &[i8], rows: &[u8], stride: usize, out: &mut [i32]) {
    let (low, high) = query.split_at(query.len() / 2);
    let ((low, low_tail), (high, high_tail)) = (low.as_chunks::<STEP>(), high.as_chunks::<STEP>());
    for (i, out) in out.iter_mut().enumerate() {
        let (codes, codes_tail) = rows[i * stride..][..query.len() / 2].as_chunks::<STEP>();
        let mut sums = [vdupq_n_s32(0); 2];
        for (codes, (low, high)) in codes.iter().zip(low.iter().zip(high)) {
            let (codes, low, high) = (bytes_at(codes), query_at(low), query_at(high));
            let lower = vreinterpretq_s8_u8(vandq_u8(codes, vdupq_n_u8(15)));
            let upper = vreinterpretq_s8_u8(vshrq_n_u8::<4>(codes));
            // Two products of at most 15 * 128 fit 16 bits.
            let first = vmull_s8(vget_low_s8(lower), vget_low_s8(low));
            let first = vmlal_s8(first, vget_low_s8(upper), vget_low_s8(high));
            let second = vmlal_high_s8(vmull_high_s8(lower, low), upper, high);
            sums = [vpadalq_s16(sums[0], first), vpadalq_s16(sums[1], second)];
        }
        let sum = vaddvq_s32(vaddq_s32(sums[0], sums[1]));
        *out = sum + scalar::dot_code4(low_tail, high_tail, codes_tail);
    }
}

#[target_feature(enable = "neon")]
pub(super) fn dot_interleaved(query: &[i8], interleaved_blocks: &[u8], out: &mut [i32]) {
    let (quads, _) = query.as_chunks::<INTERLEAVED_QUAD>();
    let less = vdupq_n_s32(LESS * query.iter().map(|value| i32::from(*value)).sum::<i32>());
    let interleaved_blocks = interleaved_blocks.chunks_exact(interleaved_bytes(query.len()));
    for (interleaved_block, out) in interleaved_blocks.zip(out.as_chunks_mut::<INTERLEAVED_CODES>().0) {
        // Two numbers of each code, of two codes a register.
        let mut sums = [[vdupq_n_s32(0); 2]; PARTS];
        let columns = interleaved_block.as_chunks::<INTERLEAVED_COLUMN_BYTES>().0;
        for (column, quad) in columns.iter().zip(quads) {
            let quad = i32::from_le_bytes(quad.map(|value| value as u8));
            let quad = vreinterpretq_s8_s32(vdupq_n_s32(quad));
            for (codes, [low, high]) in column.as_chunks::<STEP>().0.iter().zip(&mut sums) {
                let codes = lowered(bytes_at(codes));
                *low = vpadalq_s16(*low, vmull_s8(vget_low_s8(codes), vget_low_s8(quad)));
                *high = vpadalq_s16(*high, vmull_high_s8(codes, quad));
            }
        }
        for ([low, high], out) in sums
            .iter()
            .zip(out.as_chunks_mut::<{ INTERLEAVED_CODES / PARTS }>().0)
        {
            let sums = vaddq_s32(vpaddq_s32(*low, *high), less);
            // SAFETY: four numbers.
            unsafe { vst1q_s32(out.as_mut_ptr(), sums) };
        }
    }
}
