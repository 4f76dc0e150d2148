//! Kernels over packed codes: one column, or 16 dimensions of a bit plane, a step.

use std::arch::aarch64::*;

use crate::operands::{COLUMN_BYTES, GROUP};
use crate::scan::COLUMNS_U16;
use crate::table::{Kernels, PlanesKernel};

#[target_feature(enable = "neon")]
pub(super) fn fast_scan_sums(lut: &[u8], groups: &[u8], stride: usize, ahead: &[u8], out: &mut [u32]) {
    Kernels::prefetch_far(ahead);
    for (group, out) in out.chunks_exact_mut(GROUP).enumerate() {
        out.fill(0);
        let group = &groups[group * stride..][..lut.len()];
        let blocks = lut.chunks(COLUMNS_U16 * COLUMN_BYTES);
        for (lut, codes) in blocks.zip(group.chunks(COLUMNS_U16 * COLUMN_BYTES)) {
            let sums = block_sums(lut, codes);
            for (out, sums) in out.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
                add_to(out, sums);
            }
        }
    }
}

/// The sums of a group's 32 vectors over at most `COLUMNS_U16` columns, in order.
#[inline]
#[target_feature(enable = "neon")]
fn block_sums(lut: &[u8], codes: &[u8]) -> [uint16x8_t; 4] {
    let mut sums = [vdupq_n_u16(0); 4];
    let columns = lut.as_chunks::<COLUMN_BYTES>().0.iter();
    for (lut, codes) in columns.zip(codes.as_chunks::<COLUMN_BYTES>().0) {
        // SAFETY: 16 bytes each.
        let (lut, codes) = unsafe { (vld1q_u8(lut.as_ptr()), vld1q_u8(codes.as_ptr())) };
        let low = vqtbl1q_u8(lut, vandq_u8(codes, vdupq_n_u8(15)));
        let high = vqtbl1q_u8(lut, vshrq_n_u8::<4>(codes));
        sums[0] = vaddw_u8(sums[0], vget_low_u8(low));
        sums[1] = vaddw_high_u8(sums[1], low);
        sums[2] = vaddw_u8(sums[2], vget_low_u8(high));
        sums[3] = vaddw_high_u8(sums[3], high);
    }
    sums
}

#[inline]
#[target_feature(enable = "neon")]
fn add_to(out: &mut [u32; 8], sums: uint16x8_t) {
    let (low, high) = out.split_at_mut(4);
    // SAFETY: four numbers each.
    unsafe {
        let low_sums = vaddw_u16(vld1q_u32(low.as_ptr()), vget_low_u16(sums));
        vst1q_u32(low.as_mut_ptr(), low_sums);
        let high_sums = vaddw_high_u16(vld1q_u32(high.as_ptr()), sums);
        vst1q_u32(high.as_mut_ptr(), high_sums);
    }
}

pub(super) const PLANES: PlanesKernel = PlanesKernel {
    one: row_dot,
    many: row_dots,
};

#[target_feature(enable = "neon")]
fn row_dots(query: &[i8], planes: u32, plane_bytes: usize, rows: &[&[u8]], out: &mut [i32]) {
    for (row, out) in rows.iter().zip(out) {
        *out = row_dot(query, planes, plane_bytes, row);
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn row_dot(query: &[i8], planes: u32, plane_bytes: usize, row: &[u8]) -> i32 {
    let mut sums = vdupq_n_s32(0);
    let steps = query.as_chunks::<16>().0.iter().enumerate();
    // The query's last entries may all be padding.
    for (i, query) in steps.take(plane_bytes.div_ceil(2)) {
        let mut levels = vdupq_n_u8(0);
        for p in 0..planes as usize {
            let at = p * plane_bytes + i * 2;
            // Behind a plane's end lies another plane's byte, or nothing: there the query is zero.
            let bits = set_bits(row[at], row.get(at + 1).copied().unwrap_or(0));
            levels = vsubq_u8(vaddq_u8(levels, levels), bits);
        }
        // SAFETY: 16 entries.
        let query = unsafe { vld1q_s8(query.as_ptr()) };
        // Levels are at most 127; their products with bytes fit 16 bits.
        let levels = vreinterpretq_s8_u8(levels);
        sums = vpadalq_s16(sums, vmull_s8(vget_low_s8(levels), vget_low_s8(query)));
        sums = vpadalq_s16(sums, vmull_high_s8(levels, query));
    }
    vaddvq_s32(sums)
}

/// Byte `i` is all ones if bit `i` is set.
#[inline]
#[target_feature(enable = "neon")]
fn set_bits(low: u8, high: u8) -> uint8x16_t {
    let bit_of = vreinterpretq_u8_u64(vdupq_n_u64(0x8040_2010_0804_0201));
    vtstq_u8(vcombine_u8(vdup_n_u8(low), vdup_n_u8(high)), bit_of)
}
