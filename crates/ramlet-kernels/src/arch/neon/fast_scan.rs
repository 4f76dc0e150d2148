//! Dropping what is too far, 4 vectors a step.

use std::arch::aarch64::*;

use super::{load_f16, scan};
use crate::Kernels;
use crate::arch::scalar::fast_scan::push;
use crate::fast_scan::Within;
use crate::operands::{FastScan, FastScanned, GROUP};

#[target_feature(enable = "neon")]
pub(super) fn fast_scan(fast_scan: &FastScan<'_>, groups: &[u8], ahead: &[&[u8]], out: &mut FastScanned) {
    let mut sums = [0; GROUP];
    let within = fast_scan.within();
    for (i, group) in groups.chunks_exact(fast_scan.stride).enumerate() {
        ahead
            .get(i)
            .into_iter()
            .for_each(|bytes| Kernels::prefetch_far(bytes));
        scan::fast_scan_sums(fast_scan.lut, group, fast_scan.stride, &[], &mut sums);
        let (adds, factors) = group[fast_scan.lut.len()..].split_at(GROUP * 2);
        let (adds, factors) = (adds.as_chunks::<8>().0, factors.as_chunks::<8>().0);
        let fours = sums.as_chunks::<4>().0.iter().zip(adds.iter().zip(factors));
        for (four, (sums, (adds, factors))) in fours.enumerate() {
            keep(
                fast_scan,
                &within,
                sums,
                [adds, factors],
                i * GROUP + four * 4,
                out,
            );
        }
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn keep(
    fast_scan: &FastScan<'_>,
    within: &Within,
    sums: &[u32; 4],
    [adds, factors]: [&[u8; 8]; 2],
    first: usize,
    out: &mut FastScanned,
) {
    let (all, bounds) = (vdupq_n_f32, &fast_scan.bounds);
    // SAFETY: 4 sums, and 4 halves of either factor.
    let (sum, add, factor) = unsafe {
        (
            vld1q_u32(sums.as_ptr()),
            load_f16(adds.as_ptr()),
            load_f16(factors.as_ptr()),
        )
    };
    let sum = vcvtq_f32_s32(vreinterpretq_s32_u32(sum));
    let along = vsubq_f32(vmulq_f32(all(2.0), sum), all(bounds.offset));
    let distance = vsubq_f32(
        vaddq_f32(all(bounds.base), vmulq_f32(all(bounds.add), add)),
        vmulq_f32(vmulq_f32(all(bounds.along), factor), along),
    );
    let left = vsubq_f32(vmulq_f32(factor, factor), add);
    // Zero, if it isn't a number.
    let left = vbslq_f32(vcgtq_f32(left, all(0.0)), left, all(0.0));
    let beyond = vsubq_f32(distance, all(within.limit));
    let most = vmulq_f32(all(within.error_squared), left);
    let dropped = vandq_u32(
        vcgtq_f32(beyond, all(0.0)),
        vcgtq_f32(vmulq_f32(beyond, beyond), most),
    );
    let bit_of = vcombine_u32(vcreate_u32(1 | 2 << 32), vcreate_u32(4 | 8 << 32));
    let mut kept = vaddvq_u32(vandq_u32(vmvnq_u32(dropped), bit_of));
    if kept == 0 {
        return;
    }
    let (mut distances, mut lefts, mut wide) = ([0.0; 4], [0.0; 4], [0.0; 4]);
    // SAFETY: 4 numbers each.
    unsafe {
        vst1q_f32(distances.as_mut_ptr(), distance);
        vst1q_f32(lefts.as_mut_ptr(), left);
        vst1q_f32(wide.as_mut_ptr(), add);
    }
    while kept != 0 {
        let v = kept.trailing_zeros() as usize;
        kept &= kept - 1;
        push(
            fast_scan,
            distances[v],
            lefts[v],
            wide[v],
            ((first + v) as u32, sums[v]),
            out,
        );
    }
}
