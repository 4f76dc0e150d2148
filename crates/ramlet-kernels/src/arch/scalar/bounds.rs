//! The reference of bounds. Operations stand in the same order in all tables, and none are fused.

use super::widen;
use crate::bounds::{Bounded, Bounds, FACTOR_BYTES};
use crate::scan::GROUP;

pub(crate) fn bound(
    bounds: &Bounds,
    sums: &[u32; GROUP],
    factors: &[u8; FACTOR_BYTES],
    limit: f32,
    out: &mut Bounded,
) -> u32 {
    let mut mask = 0;
    let half = |i: usize| widen(u16::from_le_bytes([factors[i * 2], factors[i * 2 + 1]]));
    for (v, sum) in sums.iter().enumerate() {
        let (add, factor) = (half(v), half(GROUP + v));
        let along = 2.0 * *sum as i32 as f32 - bounds.offset;
        let key = bounds.base + bounds.add * add - bounds.along * factor * along;
        let left = factor * factor - add;
        let left = if left > 0.0 { left } else { 0.0 };
        let lower = key - bounds.error * left.sqrt() - bounds.rounding;
        (out.keys[v], out.lowers[v], out.adds[v]) = (key, lower, add);
        let above = lower > limit;
        mask |= u32::from(!above) << v;
    }
    mask
}
