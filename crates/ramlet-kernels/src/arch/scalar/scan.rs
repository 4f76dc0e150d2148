//! The reference of the kernels over packed codes.

use crate::operands::{COLUMN_BYTES, GROUP};
use crate::table::PlanesKernel;

pub(crate) fn fast_scan_sums(lut: &[u8], groups: &[u8], stride: usize, _ahead: &[u8], out: &mut [u32]) {
    for (group, out) in out.chunks_exact_mut(GROUP).enumerate() {
        out.fill(0);
        let (low, high) = out.split_at_mut(COLUMN_BYTES);
        let columns = groups[group * stride..][..lut.len()].chunks_exact(COLUMN_BYTES);
        for (table, column) in lut.chunks_exact(COLUMN_BYTES).zip(columns) {
            for (byte, (low, high)) in column.iter().zip(low.iter_mut().zip(&mut *high)) {
                *low += u32::from(table[usize::from(byte & 15)]);
                *high += u32::from(table[usize::from(byte >> 4)]);
            }
        }
    }
}

pub(crate) const PLANES: PlanesKernel = PlanesKernel {
    one: row_dot,
    many: row_dots,
};

fn row_dot(query: &[i8], planes: u32, plane_bytes: usize, row: &[u8]) -> i32 {
    let planes = row.chunks_exact(plane_bytes.max(1)).zip((0..planes).rev());
    planes
        .map(|(plane, shift)| plane_dot(query, plane) << shift)
        .sum()
}

fn row_dots(query: &[i8], planes: u32, plane_bytes: usize, rows: &[&[u8]], out: &mut [i32]) {
    for (row, out) in rows.iter().zip(out) {
        *out = row_dot(query, planes, plane_bytes, row);
    }
}

/// Sum of the query's entries whose bits are set.
fn plane_dot(query: &[i8], plane: &[u8]) -> i32 {
    let bytes = query.chunks_exact(8).zip(plane);
    bytes
        .map(|(query, byte)| {
            let bits = query.iter().enumerate();
            bits.map(|(i, q)| i32::from(*q) * i32::from(byte >> i & 1))
                .sum::<i32>()
        })
        .sum()
}
