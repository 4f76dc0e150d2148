//! Bounds of 4 vectors a step.

use std::arch::aarch64::*;

use super::load_f16;
use crate::bounds::{Bounded, Bounds, FACTOR_BYTES};
use crate::scan::GROUP;

#[target_feature(enable = "neon")]
pub(super) fn bound(
    bounds: &Bounds,
    sums: &[u32; GROUP],
    factors: &[u8; FACTOR_BYTES],
    limit: f32,
    out: &mut Bounded,
) -> u32 {
    let all = vdupq_n_f32;
    let bit_of = vcombine_u32(vcreate_u32(1 | 2 << 32), vcreate_u32(4 | 8 << 32));
    let mut mask = 0;
    for at in (0..GROUP).step_by(4) {
        // SAFETY: 4 sums, and 4 halves of either factor, from `at` on.
        let (sum, add, factor) = unsafe {
            (
                vld1q_u32(sums.as_ptr().add(at)),
                load_f16(factors.as_ptr().add(at * 2)),
                load_f16(factors.as_ptr().add((GROUP + at) * 2)),
            )
        };
        let sum = vcvtq_f32_s32(vreinterpretq_s32_u32(sum));
        let along = vsubq_f32(vmulq_f32(all(2.0), sum), all(bounds.offset));
        let key = vsubq_f32(
            vaddq_f32(all(bounds.base), vmulq_f32(all(bounds.add), add)),
            vmulq_f32(vmulq_f32(all(bounds.along), factor), along),
        );
        let left = vsubq_f32(vmulq_f32(factor, factor), add);
        // Zero, if it isn't a number.
        let left = vbslq_f32(vcgtq_f32(left, all(0.0)), left, all(0.0));
        let error = vmulq_f32(all(bounds.error), vsqrtq_f32(left));
        let lower = vsubq_f32(vsubq_f32(key, error), all(bounds.rounding));
        // SAFETY: room for 4 of each from `at` on.
        unsafe {
            vst1q_f32(out.keys.as_mut_ptr().add(at), key);
            vst1q_f32(out.lowers.as_mut_ptr().add(at), lower);
            vst1q_f32(out.adds.as_mut_ptr().add(at), add);
        }
        let within = vmvnq_u32(vcgtq_f32(lower, all(limit)));
        mask |= vaddvq_u32(vandq_u32(within, bit_of)) << at;
    }
    mask
}
