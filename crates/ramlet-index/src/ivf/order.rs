//! An order of clusters in which neighbours are adjacent: recursive bisection along the direction that separates them best.

use ramlet_kernels::{CodeWidth, kernels};

use super::points::encode_point;

/// Times that the direction between the two halves' means is followed.
const ROUNDS: usize = 3;

/// What is ordered: codes plus 128, `stride` bytes apart.
pub(super) struct Order<'a> {
    pub(super) codes: &'a [u8],
    pub(super) stride: usize,
    pub(super) dims: usize,
    pub(super) scales: &'a [f32],
}

/// Numbers of the points in their order; the cuts lie at multiples of `group` points, which need no order among
/// themselves. Holds 16 bytes a point. Depends on nothing but the points.
pub(super) fn bisect(points: &Order<'_>, group: usize) -> Vec<u32> {
    let mut order: Vec<(f32, u32)> = (0..points.scales.len() as u32).map(|i| (0.0, i)).collect();
    let mut memory = Memory {
        direction: vec![0.0; points.dims],
        codes: vec![0; points.dims],
        signed: Vec::with_capacity(points.dims),
    };
    halve(points, &mut order, group.max(1), &mut memory);
    order.into_iter().map(|(_, i)| i).collect()
}

struct Memory {
    direction: Vec<f32>,
    codes: Vec<u8>,
    signed: Vec<i8>,
}

fn halve(points: &Order<'_>, order: &mut [(f32, u32)], group: usize, memory: &mut Memory) {
    if order.len() <= group.max(2) {
        return;
    }
    let half = (order.len() / 2).next_multiple_of(group).min(order.len() - 1);
    // The first two halves are as good as any; each round parts them better.
    for _ in 0..ROUNDS {
        point_across(points, order, half, memory);
        project(points, order, memory);
        order.select_nth_unstable_by(half, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    }
    let (low, high) = order.split_at_mut(half);
    halve(points, low, group, memory);
    halve(points, high, group, memory);
}

/// Sets the direction from the mean of the first part to that of the second.
fn point_across(points: &Order<'_>, order: &[(f32, u32)], half: usize, memory: &mut Memory) {
    memory.direction.fill(0.0);
    let table = kernels();
    let weights = [-1.0 / half as f32, 1.0 / (order.len() - half) as f32];
    for (at, (_, i)) in order.iter().enumerate() {
        let i = *i as usize;
        let weight = weights[usize::from(at >= half)] * points.scales[i];
        let codes = &points.codes[i * points.stride..][..points.dims];
        table.add_bytes(&mut memory.direction, codes, weight);
    }
    encode_point(&memory.direction, &mut memory.codes);
    memory.signed.clear();
    memory
        .signed
        .extend(memory.codes.iter().map(|code| (code ^ 0x80) as i8));
}

/// Each point's place along the direction.
fn project(points: &Order<'_>, order: &mut [(f32, u32)], memory: &Memory) {
    let table = kernels();
    let offset: i32 = memory.signed.iter().map(|code| i32::from(*code) * 128).sum();
    for (place, i) in order {
        let i = *i as usize;
        let mut product = [0];
        let row = &points.codes[i * points.stride..][..points.dims];
        table.dot_codes(CodeWidth::Eight, &memory.signed, row, points.dims, &mut product);
        *place = (product[0] - offset) as f32 * points.scales[i];
    }
}
