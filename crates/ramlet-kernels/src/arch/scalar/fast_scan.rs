//! The reference of sifting. Operations stand in the same order in all tables, and none are fused.

use super::{scan, widen};
use crate::Kernels;
use crate::operands::{GROUP, Kept, Sift, Sifted};
use crate::sift::Within;

pub(crate) fn sift(sift: &Sift<'_>, groups: &[u8], ahead: &[&[u8]], out: &mut Sifted) {
    let mut sums = [0; GROUP];
    let within = sift.within();
    for (i, group) in groups.chunks_exact(sift.stride).enumerate() {
        ahead
            .get(i)
            .into_iter()
            .for_each(|bytes| Kernels::prefetch_far(bytes));
        scan::fastscan(sift.lut, group, sift.stride, &[], &mut sums);
        let factors = &group[sift.lut.len()..];
        let half = |i: usize| widen(u16::from_le_bytes([factors[i * 2], factors[i * 2 + 1]]));
        for (v, sum) in sums.iter().enumerate() {
            let place = (i * GROUP + v) as u32;
            keep(sift, &within, [half(v), half(GROUP + v)], (place, *sum), out);
        }
    }
}

#[inline]
fn keep(
    sift: &Sift<'_>,
    within: &Within,
    [add, factor]: [f32; 2],
    (place, sum): (u32, u32),
    out: &mut Sifted,
) {
    let bounds = &sift.bounds;
    let along = 2.0 * sum as i32 as f32 - bounds.offset;
    let key = bounds.base + bounds.add * add - bounds.along * factor * along;
    let left = factor * factor - add;
    let left = if left > 0.0 { left } else { 0.0 };
    let beyond = key - within.limit;
    if !(beyond > 0.0 && beyond * beyond > within.error_squared * left) {
        push(sift, key, left, add, (place, sum), out);
    }
}

/// Keeps a vector whose key is known.
#[inline]
pub(crate) fn push(
    sift: &Sift<'_>,
    key: f32,
    left: f32,
    add: f32,
    (place, sum): (u32, u32),
    out: &mut Sifted,
) {
    let lower = key - sift.bounds.error * left.sqrt() - sift.bounds.rounding;
    out.push(Kept {
        place,
        sum,
        add,
        key,
        lower,
    });
}
