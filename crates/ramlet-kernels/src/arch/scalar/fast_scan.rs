//! The reference of fast scanning. Operations stand in the same order in all tables, and none are fused.

use super::{scan, widen};
use crate::Kernels;
use crate::fast_scan::Within;
use crate::operands::{FastScan, FastScanned, GROUP, Kept};

pub(crate) fn fast_scan(fast_scan: &FastScan<'_>, groups: &[u8], ahead: &[&[u8]], out: &mut FastScanned) {
    let mut sums = [0; GROUP];
    let within = fast_scan.within();
    for (i, group) in groups.chunks_exact(fast_scan.stride).enumerate() {
        ahead
            .get(i)
            .into_iter()
            .for_each(|bytes| Kernels::prefetch_far(bytes));
        scan::fast_scan_sums(fast_scan.lut, group, fast_scan.stride, &[], &mut sums);
        let factors = &group[fast_scan.lut.len()..];
        let half = |i: usize| widen(u16::from_le_bytes([factors[i * 2], factors[i * 2 + 1]]));
        for (v, sum) in sums.iter().enumerate() {
            let place = (i * GROUP + v) as u32;
            keep(fast_scan, &within, [half(v), half(GROUP + v)], (place, *sum), out);
        }
    }
}

#[inline]
fn keep(
    fast_scan: &FastScan<'_>,
    within: &Within,
    [add, factor]: [f32; 2],
    (place, sum): (u32, u32),
    out: &mut FastScanned,
) {
    let bounds = &fast_scan.bounds;
    let along = 2.0 * sum as i32 as f32 - bounds.offset;
    let distance = bounds.base + bounds.add * add - bounds.along * factor * along;
    let left = factor * factor - add;
    let left = if left > 0.0 { left } else { 0.0 };
    let beyond = distance - within.limit;
    if !(beyond > 0.0 && beyond * beyond > within.error_squared * left) {
        push(fast_scan, distance, left, add, (place, sum), out);
    }
}

/// Keeps a vector whose distance is known.
#[inline]
pub(crate) fn push(
    fast_scan: &FastScan<'_>,
    distance: f32,
    left: f32,
    add: f32,
    (place, sum): (u32, u32),
    out: &mut FastScanned,
) {
    let lower = distance - fast_scan.bounds.error * left.sqrt() - fast_scan.bounds.rounding;
    out.push(Kept {
        place,
        sum,
        add,
        distance,
        lower,
    });
}
